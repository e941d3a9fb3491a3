import { z } from 'zod';
import { DAY, SECOND } from '../../base/units.ts';
import {
  type DeepReadonly,
  durationText,
  durationWithin,
  lineText,
  nameText,
  someText,
  timestampText,
  wholeNumber,
} from '../fields.ts';
import { commonStatus, envelope } from '../meta.ts';

/** How much unavailability a task may cause (C2). */
export const AVAILABILITY_MODES = ['strong', 'weak', 'force', 'smart'] as const;
export type AvailabilityMode = (typeof AVAILABILITY_MODES)[number];

/** Most urgent and least urgent priority; a smaller number is more urgent (C3.1). */
export const PRIORITY_RANGE = { least: -100, most: 100 } as const;

/**
 * How long something may be locked at a time, in milliseconds. A whole rolling restart by `ydbops` asks for three minutes a
 * node, a week for some thousand nodes; who needs a machine for longer holds the lock longer (`extend`) or asks again.
 */
export const LOCK_DURATION = { least: SECOND, most: 30 * DAY, text: 'must be from 1s to 30d' } as const;

/** How long a lock is asked for. */
export const lockDuration = (): z.ZodString => durationWithin(LOCK_DURATION);

/** Component an action locks: exactly one of the fields. */
const scopeSchema = z.strictObject({
  host: someText().optional().describe('A machine, with every node on it.'),
  node: someText().optional().describe('A node: name of a member, or id of a node of a Topology.'),
  disk: z
    .strictObject({
      node: someText().optional().describe('Node the disk belongs to.'),
      host: someText().optional().describe('Host the disk is in.'),
      id: z.union([z.string(), z.int()]).optional().describe('Number of the disk on its node.'),
      path: z.string().optional().describe('Path of the disk on its host.'),
    })
    .optional()
    .describe('A disk, by node and id or by host and path.'),
});

const actionSchema = z.strictObject({
  type: z.enum(['lock', 'drain', 'cordon']).default('lock').describe('lock (exclusive), drain or cordon.'),
  scope: scopeSchema.describe('What is taken.'),
  duration: lockDuration()
    .default('5m')
    .describe('How long it is needed, from 1s to 30d; after that it counts as done.'),
});

const groupSchema = z.strictObject({
  actions: z
    .array(actionSchema)
    .min(1, { error: 'must name at least one action' })
    .describe('Taken together or not at all.'),
});

const taskSpec = z.strictObject({
  mode: z.enum(AVAILABILITY_MODES).default('strong').describe('strong, weak, force or smart.'),
  priority: wholeNumber(PRIORITY_RANGE.least, PRIORITY_RANGE.most)
    .default(0)
    .describe('A smaller number is more urgent.'),
  owner: lineText()
    .optional()
    .describe('Who asked; by default the signed-in user, and only admins may name another.'),
  reason: lineText()
    .max(128, { error: 'must be at most 128 characters' })
    .default('')
    .describe('Why, for people.'),
  maxInFlight: wholeNumber(0, 100_000).default(0).describe('Most actions taken at a time; 0 for no limit.'),
  stepDown: z.boolean().optional().describe('Primaries among what is taken hand over before it is granted.'),
  uid: z
    .string()
    .max(128, { error: 'must be at most 128 characters' })
    .optional()
    .describe('Identity the client gave the task, where it is no name of an object.'),
  compat: z.boolean().optional().describe('Judge it as YDB’s own maintenance service does, quirks included.'),
  topology: nameText('ydb-prod')
    .optional()
    .describe('Topology the nodes belong to; by default the managed databases.'),
  groups: z
    .array(groupSchema)
    .min(1, { error: 'must name at least one group' })
    .describe('Groups of actions.'),
});

const actionStateSchema = z.strictObject({
  id: z.string().optional().describe('Identity of a granted action, for completing it.'),
  group: z.int().optional().describe('Index of the group in spec.'),
  action: z.int().optional().describe('Index of the action in its group.'),
  state: z.enum(['pending', 'performed', 'inProgress']).describe('Whether it may be worked on.'),
  reason: z.string().describe('Stable name of what stands in the way.'),
  message: z.string().default('').describe('What stands in the way, and until when.'),
  deadline: timestampText().optional().describe('When a granted action counts as done.'),
  grantedAt: timestampText().optional().describe('When it was granted.'),
  durationMillis: z.int().optional().describe('How long it was granted for.'),
  priority: z.int().optional().describe('Priority of the lock, where it is not the task’s.'),
  progress: z.number().optional().describe('Progress of a drain in percent.'),
  retryAfter: timestampText()
    .optional()
    .describe('When it becomes possible by all deadlines that are known; left out where nobody knows.'),
  blockers: z
    .array(z.record(z.string(), z.unknown()))
    .default([])
    .describe('Locks, groups, rings, replica sets or limits in the way.'),
});

const taskStatus = z.strictObject({
  ...commonStatus,
  actions: z.array(actionStateSchema).default([]).describe('Actions that are not done yet.'),
  retryAfter: timestampText()
    .optional()
    .describe('When to ask again; where nobody knows when it becomes possible, five minutes later.'),
  request: z.string().optional().describe('Identity of the request, unique in this installation.'),
  owner: z.string().optional().describe('Who asked for it.'),
  createTime: timestampText().optional().describe('When it was asked for.'),
  lastRefreshTime: timestampText().optional().describe('When pending actions were last tried.'),
  askBy: timestampText()
    .optional()
    .describe('What waits keeps its place before less urgent tasks until then, unless somebody asks again.'),
  stale: z
    .boolean()
    .optional()
    .describe('Nobody has asked again in time: what waits holds nobody back until somebody refreshes it.'),
});

/** A request to take components out of service (C1). */
export const maintenanceTaskSchema = envelope('MaintenanceTask', taskSpec, taskStatus);
export type MaintenanceTask = DeepReadonly<z.output<typeof maintenanceTaskSchema>>;

/** What is wrong with groups larger than the most that may be held at a time (0: no limit); null: nothing is. */
export function inFlightProblem(maxInFlight: number, sizes: readonly number[]): string | null {
  const largest = sizes.reduce((a, b) => Math.max(a, b), 0);
  if (maxInFlight === 0 || largest <= Math.max(1, maxInFlight)) return null;
  return `is ${maxInFlight}, and a group of ${largest} is granted whole or not at all: make it at least ${largest}, leave it out, or ask for them one by one`;
}

const topologyNode = z.strictObject({
  id: wholeNumber(1, 4_294_967_295).describe('Number of the node.'),
  host: someText().describe('Machine it runs on.'),
  port: wholeNumber(1, 65_535).optional().describe('Interconnect port.'),
  tenant: z.string().optional().describe('Database a dynamic node serves; absent for storage nodes.'),
  location: z.record(z.string(), z.string()).default({}).describe('dataCenter, module, rack, unit.'),
  version: z.string().optional().describe('Version it runs.'),
  state: z
    .enum(['Up', 'Down', 'Unknown'])
    .optional()
    .describe('State as last known; unknown counts as down, and so does a state nobody has told.'),
  startedAt: timestampText().optional().describe('When it was started; its State Storage ring settles then.'),
  pile: someText().optional().describe('Pile of a bridged cluster; each is judged by itself.'),
  disks: z
    .array(
      z.strictObject({
        id: wholeNumber(0, 4_294_967_295).describe('Number of the disk on its node.'),
        path: z.string().optional().describe('Path of the disk.'),
        state: z.enum(['Normal', 'Faulty']).default('Normal').describe('Anything but Normal counts as down.'),
      }),
    )
    .default([])
    .describe('Disks of a storage node.'),
});

const storageGroup = z.strictObject({
  id: wholeNumber(0, 4_294_967_295).describe('Number of the group.'),
  erasure: z
    .enum(['none', 'block-4-2', 'mirror-3-dc', 'mirror-3of4'])
    .describe('How data is spread over the group.'),
  vdisks: z
    .array(
      z.strictObject({
        node: wholeNumber(1, 4_294_967_295).describe('Number of the node.'),
        disk: wholeNumber(0, 4_294_967_295).describe('Number of the disk on that node.'),
        // No defaults here: there are very many of them, and a document has a largest size.
        realm: wholeNumber(0, 255).optional().describe('Fail realm (data centre); by default 0.'),
        domain: wholeNumber(0, 255).optional().describe('Fail domain; not looked at.'),
        state: z
          .enum(['Ok', 'NotReplicated', 'Error'])
          .optional()
          .describe('Anything but Ok counts as down; by default Ok.'),
      }),
    )
    .describe('Virtual disks of the group.'),
});

const limitSchema = z.strictObject({
  nodes: wholeNumber(0, 1_000_000).default(0).describe('Most unavailable nodes; 0 for no limit.'),
  percent: wholeNumber(0, 100).default(13).describe('Most unavailable nodes in percent; 0 for no limit.'),
});

const topologySpec = z.strictObject({
  type: z.enum(['YDB']).default('YDB').describe('What kind of cluster it is.'),
  nodes: z.array(topologyNode).default([]).describe('All nodes.'),
  storageGroups: z.array(storageGroup).default([]).describe('Storage groups.'),
  stateStorage: z
    .strictObject({
      nToSelect: wholeNumber(1, 255).describe('Rings a request needs.'),
      rings: z.array(z.array(wholeNumber(1, 4_294_967_295))).describe('Nodes of each ring.'),
      disabledRings: z.array(wholeNumber(0, 255)).default([]).describe('Rings that are switched off.'),
    })
    .optional()
    .describe('State storage.'),
  systemTabletNodes: z
    .array(wholeNumber(1, 4_294_967_295))
    .default([])
    .describe('Nodes that can run system tablets.'),
  healthMaxAge: durationText()
    .default('5m')
    .describe('A state that was pushed longer ago counts as unknown, each by itself; 0s for never.'),
  limits: z
    .strictObject({
      cluster: limitSchema.prefault({}).describe('For the cluster.'),
      tenant: limitSchema.prefault({}).describe('For each database.'),
    })
    .prefault({})
    .describe('Limits on unavailable nodes (C4).'),
});

const healthOfNode = z.strictObject({
  id: wholeNumber(1, 4_294_967_295).describe('Number of the node.'),
  state: z.enum(['Up', 'Down', 'Unknown']).optional().describe('State of the node.'),
  startedAt: timestampText().optional().describe('When it was started.'),
  version: z.string().optional().describe('Version it runs.'),
});
const healthOfDisk = z.strictObject({
  node: wholeNumber(1, 4_294_967_295).describe('Number of the node.'),
  disk: wholeNumber(0, 4_294_967_295).describe('Number of the disk.'),
  state: z.enum(['Normal', 'Faulty']).describe('State of the disk.'),
});
const healthOfVdisk = z.strictObject({
  group: wholeNumber(0, 4_294_967_295).describe('Number of the group.'),
  node: wholeNumber(1, 4_294_967_295).describe('Number of the node.'),
  disk: wholeNumber(0, 4_294_967_295)
    .optional()
    .describe('Number of the disk; without it all of the group on the node that are not named by theirs.'),
  state: z.enum(['Ok', 'NotReplicated', 'Error']).describe('State of the virtual disk.'),
});

const HEALTH_OF = {
  nodes: 'Nodes whose state is told.',
  disks: 'Disks whose state is told.',
  vdisks: 'Virtual disks whose state is told.',
} as const;

/** What a push tells of a Topology: only what is named changes. */
export const topologyHealthSchema = z.strictObject({
  nodes: z.array(healthOfNode).default([]).describe(HEALTH_OF.nodes),
  disks: z.array(healthOfDisk).default([]).describe(HEALTH_OF.disks),
  vdisks: z.array(healthOfVdisk).default([]).describe(HEALTH_OF.vdisks),
});
export type TopologyHealth = DeepReadonly<z.output<typeof topologyHealthSchema>>;

/** Each thing ages by itself (C5.3): one that the last push did not name keeps the time of the push that did. */
const toldAt = {
  observedAt: timestampText().optional().describe('When it was told, if not by the last push.'),
};

const topologyStatus = z.strictObject({
  ...commonStatus,
  health: z
    .strictObject({
      nodes: z.array(healthOfNode.extend(toldAt)).default([]).describe(HEALTH_OF.nodes),
      disks: z.array(healthOfDisk.extend(toldAt)).default([]).describe(HEALTH_OF.disks),
      vdisks: z.array(healthOfVdisk.extend(toldAt)).default([]).describe(HEALTH_OF.vdisks),
      observedAt: timestampText().optional().describe('When health was last pushed.'),
      nodesSince: timestampText()
        .optional()
        .describe('When the state of a node was pushed first; from then on states in spec age too.'),
    })
    .optional()
    .describe('Health that was pushed; it goes before the states in spec.'),
});

/** An outside cluster known to maintenance. */
export const topologySchema = envelope('Topology', topologySpec, topologyStatus);
export type Topology = DeepReadonly<z.output<typeof topologySchema>>;
