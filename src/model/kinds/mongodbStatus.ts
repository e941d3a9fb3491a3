import { z } from 'zod';
import { type DeepReadonly, timestampText } from '../fields.ts';
import { commonStatus } from '../meta.ts';

/** Where a member stands in its life (A4.2, A6.3, A6.4, A8.1). */
export const MEMBER_STAGES = [
  'planned',
  'imported',
  'deployed',
  'healthy',
  'syncing',
  'active',
  'reloading',
  'restarting',
  'upgrading',
  'removing',
  'suspended',
] as const;
export type MemberStage = (typeof MEMBER_STAGES)[number];

/** Whether a member can be counted on. Unknown never counts as healthy. */
export const MEMBER_HEALTH = ['healthy', 'unhealthy', 'unknown'] as const;
export type MemberHealth = (typeof MEMBER_HEALTH)[number];

/** What one process of the cluster does. */
export const memberStatusSchema = z.strictObject({
  name: z.string().describe('Name of the member, such as orders-0.'),
  index: z.int().optional().describe('Index of the member; indexes are never used again.'),
  role: z.enum(['replica', 'shard', 'config', 'router']).optional().describe('What the process is part of.'),
  replicaSet: z.string().optional().describe('Set the member belongs to.'),
  serviceId: z
    .string()
    .optional()
    .describe(
      'Its folder on the host: services/ID below the agent’s data folder, with its log and configuration.',
    ),
  hostName: z.string().optional().describe('Host (machine) that carries it.'),
  host: z.string().optional().describe('Name under which it is advertised.'),
  port: z.int().optional().describe('Port it listens on.'),
  state: z.string().optional().describe('State in the set: PRIMARY, SECONDARY, STARTUP2, RECOVERING, DOWN …'),
  health: z.enum(MEMBER_HEALTH).optional().describe('healthy, unhealthy or unknown.'),
  version: z.string().optional().describe('Version that runs, as reported by the process.'),
  startedAt: timestampText().optional().describe('When its process was started; absent while none runs.'),
  newestRun: z.string().optional().describe('Newest series, such as 8.0, that has run on its data.'),
  configVersion: z.int().optional().describe('Configuration the member has been given and acknowledged.'),
  votes: z.int().optional().describe('Votes it has in the set now.'),
  voteSent: z
    .boolean()
    .optional()
    .describe('It is being given its vote: whether it has it is not known until it was seen.'),
  importSent: z
    .boolean()
    .optional()
    .describe('It is being placed: whether anything of it is on a host is not known until it was seen.'),
  priority: z.number().optional().describe('Priority it has in the set now.'),
  hidden: z.boolean().optional().describe('Whether it is hidden in the set now.'),
  secondaryDelaySecs: z
    .int()
    .optional()
    .describe('Seconds it stays behind on purpose in the set now; absent without delay.'),
  tags: z.record(z.string(), z.string()).optional().describe('Tags it has in the set now.'),
  tlsMode: z.string().optional().describe('TLS mode that runs.'),
  volumeBytes: z.number().optional().describe('Size its volume has, or is growing to, in bytes.'),
  lagMillis: z.number().optional().describe('How far it is behind the primary, in milliseconds.'),
  stage: z.enum(MEMBER_STAGES).optional().describe('Where it stands in its life.'),
  replaces: z.string().optional().describe('Member whose place it is to take.'),
  message: z.string().optional().describe('What it does or waits for, in one sentence.'),
  maintenance: z
    .strictObject({
      task: z.string().describe('Maintenance task that holds it.'),
      owner: z.string().describe('Whose task that is.'),
      until: timestampText().optional().describe('When it counts as given back.'),
    })
    .optional()
    .describe('Somebody may be working on it: that it is down is no fault.'),
  progressPercent: z.number().optional().describe('Progress of an initial sync, 0 to 100.'),
  lastSeen: timestampText().optional().describe('When its agent last reported it.'),
});
export type MemberStatus = DeepReadonly<z.output<typeof memberStatusSchema>>;

/** What one replica set of the cluster does (A2.3). */
export const replicaSetStatusSchema = z.strictObject({
  name: z.string().describe('Name of the set.'),
  role: z.enum(['replica', 'shard', 'config']).optional().describe('What the set is for.'),
  stage: z.enum(['planned', 'users', 'ready']).optional().describe('How far its start has come.'),
  term: z.int().optional().describe('Election term.'),
  configVersion: z.int().optional().describe('Version of the set’s configuration in the database.'),
  primary: z.string().optional().describe('Name of the member that is primary.'),
  voters: z.int().optional().describe('Voting members.'),
  healthyVoters: z.int().optional().describe('Voting members known to be healthy.'),
  majority: z.int().optional().describe('Votes needed to elect a primary and to acknowledge writes.'),
  featureCompatibilityVersion: z.string().optional().describe('FCV in force.'),
  registered: z.boolean().optional().describe('Whether a router has added the set as a shard.'),
});
export type ReplicaSetStatus = DeepReadonly<z.output<typeof replicaSetStatusSchema>>;

/** Status of a MongoDB (A7.4). */
export const mongodbStatusSchema = z.strictObject({
  ...commonStatus,
  now: z
    .string()
    .optional()
    .describe('What is being done, or what blocks it, in a few words; absent when nothing is.'),
  version: z.string().optional().describe('Version all members run; absent while they differ.'),
  featureCompatibilityVersion: z.string().optional().describe('FCV in force.'),
  readyMembers: z.int().optional().describe('Members that are healthy and active.'),
  totalMembers: z.int().optional().describe('Members there should be.'),
  primary: z.string().optional().describe('Name of the primary of a replica set.'),
  members: z.array(memberStatusSchema).default([]).describe('Every process.'),
  replicaSets: z.array(replicaSetStatusSchema).default([]).describe('Every replica set.'),
  balancer: z.enum(['on', 'off']).optional().describe('Whether chunks are moved between shards now.'),
  balancerBefore: z
    .enum(['on', 'off'])
    .optional()
    .describe(
      'What the balancer was before Belay began to hold it off for a change, and will be again; absent while it does not.',
    ),
  endpoints: z
    .array(
      z.strictObject({
        kind: z.enum(['private', 'public']).describe('Reachable inside, or from outside.'),
        member: z.string().optional().describe('Member behind it.'),
        host: z.string().describe('Name or address.'),
        port: z.int().describe('Port.'),
      }),
    )
    .default([])
    .describe('Where clients connect.'),
  connectionString: z.string().optional().describe('Connection string without user and password.'),
  publicConnectionString: z.string().optional().describe('The same from outside.'),
  operation: z.string().optional().describe('Name of the operation that runs.'),
  operations: z
    .array(
      z.strictObject({
        uid: z.string().describe('Uid of its document.'),
        name: z.string().describe('Name of its document.'),
        type: z.string().describe('Restart, Replace and so on.'),
        state: z.enum(['Running', 'Succeeded', 'Failed', 'Cancelled']).describe('How it stands.'),
        message: z.string().optional().describe('How it ended.'),
        requestedBy: z.string().optional().describe('Who asked for it.'),
      }),
    )
    .optional()
    .describe('The operation that runs, and those that just ended; absent when there is none.'),
  windowOverride: z
    .strictObject({
      until: timestampText().describe('When changes wait for the windows again.'),
      operation: z.string().describe('Operation that asked for it.'),
      reason: z.string().optional().describe('Why it was asked for.'),
      requestedBy: z.string().optional().describe('Who asked for it.'),
    })
    .optional()
    .describe('Somebody lets changes go on outside the maintenance windows; absent when nobody does.'),
  planned: z.array(z.string()).optional().describe('The next steps, in words.'),
});
export type MongoDBStatus = DeepReadonly<z.output<typeof mongodbStatusSchema>>;
