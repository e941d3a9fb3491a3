/** YDB's words for ours, and ours for YDB's. */
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { durationFromMs, durationMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  type Action,
  type ActionView,
  type DiskRef,
  type Mode,
  type NodeSpec,
  nodeKeyOf,
  type ReasonCode,
  type Scope,
  type TaskReply,
  type TaskSpec,
  type TaskStatus,
  ydbReason,
} from '../maintenance/index.ts';
import {
  type Action as ActionMessage,
  ActionSchema,
  type ActionScope,
  ActionScopeSchema,
  ActionState_ActionReason,
  ActionState_ActionStatus,
  type ActionStateSchema,
  AvailabilityMode,
  type CreateMaintenanceTaskRequest,
  ItemState,
  type MaintenanceTaskOptionsSchema,
  type NodeSchema,
} from './gen/maintenance_pb.js';
import { StatusCode } from './gen/operation_pb.js';

/** Which nodes an endpoint speaks of, and their numbers. */
export interface Numbers {
  /** Topology the numbers belong to; undefined: the managed databases. */
  readonly topology: string | undefined;
  idOf(key: string): number | undefined;
  keyOf(id: number): string;
}

export const STATUS: Readonly<Record<TaskStatus | 'UNAUTHORIZED', StatusCode>> = {
  SUCCESS: StatusCode.SUCCESS,
  BAD_REQUEST: StatusCode.BAD_REQUEST,
  UNSUPPORTED: StatusCode.UNSUPPORTED,
  UNAVAILABLE: StatusCode.UNAVAILABLE,
  INTERNAL_ERROR: StatusCode.INTERNAL_ERROR,
  UNAUTHORIZED: StatusCode.UNAUTHORIZED,
};

const MODES: Readonly<Partial<Record<AvailabilityMode, Mode>>> = {
  [AvailabilityMode.STRONG]: 'strong',
  [AvailabilityMode.WEAK]: 'weak',
  [AvailabilityMode.FORCE]: 'force',
  [AvailabilityMode.SMART]: 'smart',
};
const MODE_NUMBERS: Readonly<Record<Mode, AvailabilityMode>> = {
  strong: AvailabilityMode.STRONG,
  weak: AvailabilityMode.WEAK,
  force: AvailabilityMode.FORCE,
  smart: AvailabilityMode.SMART,
};

// ── what is asked for ──────────────────────────────────────────────────────────────────────────────────────────────

/** A scope or an action that has no meaning, in YDB's words. */
export class BadAction extends Error {}

export function taskOf(request: CreateMaintenanceTaskRequest, owner: string, numbers: Numbers): TaskSpec {
  const { taskOptions: options, actionGroups } = request;
  return {
    uid: options?.taskUid ?? '',
    owner,
    description: options?.description ?? '',
    mode: MODES[options?.availabilityMode ?? AvailabilityMode.UNSPECIFIED] ?? null,
    priority: options?.priority ?? 0,
    dryRun: options?.dryRun ?? false,
    maxInFlight: options?.maxInflightActions ?? 0,
    groups: actionGroups.map((group) => group.actions.map((action) => actionOf(action, numbers))),
  };
}

function actionOf({ action }: ActionMessage, numbers: Numbers): Action {
  // Nothing, or something of a newer version.
  if (action.case === undefined) throw new BadAction('Unknown action');
  const scope = scopeOf(action.value.scope, numbers);
  switch (action.case) {
    case 'lockAction': {
      const { duration } = action.value;
      return { type: 'lock', scope, duration: duration === undefined ? null : durationMs(duration) };
    }
    case 'drainAction':
      return { type: 'drain', scope, duration: null };
    case 'cordonAction':
      return { type: 'cordon', scope, duration: null };
  }
}

function scopeOf(message: ActionScope | undefined, numbers: Numbers): Scope {
  const scope = message?.scope;
  switch (scope?.case) {
    case 'nodeId':
      return { kind: 'node', node: numbers.keyOf(scope.value) };
    case 'host':
      // Made only of digits it is the number of a node, as in the original.
      return /^\d+$/.test(scope.value)
        ? { kind: 'node', node: numbers.keyOf(Number(scope.value)) }
        : { kind: 'host', host: scope.value };
    case 'pdisk': {
      const { pdisk } = scope.value;
      if (pdisk.case === 'pdiskId') {
        const disk: DiskRef = {
          kind: 'id',
          node: numbers.keyOf(pdisk.value.nodeId),
          disk: pdisk.value.pdiskId,
        };
        return { kind: 'disks', disks: [disk] };
      }
      if (pdisk.case === 'pdiskLocation')
        return { kind: 'disks', disks: [{ kind: 'path', ...locationOf(pdisk.value) }] };
      throw new BadAction('Unsupported scope: a pdisk needs an id or a location');
    }
    default:
      throw new BadAction('Unsupported scope');
  }
}

const locationOf = ({ host, path }: { readonly host: string; readonly path: string }) => ({ host, path });

// ── how it stands ──────────────────────────────────────────────────────────────────────────────────────────────────

const STATUSES: Readonly<Record<ActionView['status'], ActionState_ActionStatus>> = {
  PENDING: ActionState_ActionStatus.PENDING,
  PERFORMED: ActionState_ActionStatus.PERFORMED,
  IN_PROGRESS: ActionState_ActionStatus.IN_PROGRESS,
};

const reasonNumber = (reason: ReasonCode | 'OK' | null): ActionState_ActionReason =>
  ActionState_ActionReason[ydbReason(reason) as keyof typeof ActionState_ActionReason];

/** The groups of an answer. Performed actions carry their identity; which group they were in is never told, as in the original. */
export const groupsOf = (reply: TaskReply, numbers: Numbers) =>
  reply.groups.map((group) => ({ actionStates: group.map((view) => stateOf(reply.uid, view, numbers)) }));

function stateOf(
  taskUid: string,
  view: ActionView,
  numbers: Numbers,
): MessageInitShape<typeof ActionStateSchema> {
  return {
    action: actionMessage(view.action, numbers),
    status: STATUSES[view.status],
    reason: reasonNumber(view.reason),
    details: view.details,
    ...(view.id === null ? {} : { actionUid: { taskUid, actionId: view.id } }),
    ...(view.deadline === null ? {} : { deadline: timestampFromMs(view.deadline) }),
  };
}

function actionMessage(action: Action, numbers: Numbers): ActionMessage {
  const scope = create(ActionScopeSchema, scopeMessage(action.scope, numbers));
  if (action.type === 'drain')
    return create(ActionSchema, { action: { case: 'drainAction', value: { scope } } });
  if (action.type === 'cordon')
    return create(ActionSchema, { action: { case: 'cordonAction', value: { scope } } });
  const duration = action.duration === null ? {} : { duration: durationFromMs(action.duration) };
  return create(ActionSchema, { action: { case: 'lockAction', value: { scope, ...duration } } });
}

function scopeMessage(scope: Scope, numbers: Numbers): MessageInitShape<typeof ActionScopeSchema> {
  if (scope.kind === 'host') return { scope: { case: 'host', value: scope.host } };
  if (scope.kind === 'node') return { scope: { case: 'nodeId', value: numbers.idOf(scope.node) ?? 0 } };
  const [disk] = scope.disks;
  if (disk?.kind === 'path') {
    const { host, path } = disk;
    return { scope: { case: 'pdisk', value: { pdisk: { case: 'pdiskLocation', value: { host, path } } } } };
  }
  const id = disk?.kind === 'id' ? { nodeId: numbers.idOf(disk.node) ?? 0, pdiskId: disk.disk } : {};
  return { scope: { case: 'pdisk', value: { pdisk: { case: 'pdiskId', value: id } } } };
}

export const timesOf = (reply: TaskReply) => ({
  ...(reply.createTime === null ? {} : { createTime: timestampFromMs(reply.createTime) }),
  ...(reply.lastRefreshTime === null ? {} : { lastRefreshTime: timestampFromMs(reply.lastRefreshTime) }),
});

/** What a task was asked for with; `forget`: as the original tells it when nothing waits any more. */
export function optionsOf(
  reply: TaskReply,
  forget: boolean,
): MessageInitShape<typeof MaintenanceTaskOptionsSchema> {
  const { entry } = reply;
  if (entry === null || (forget && entry.pending.length === 0)) return { taskUid: reply.uid };
  return {
    taskUid: reply.uid,
    description: entry.description,
    availabilityMode: MODE_NUMBERS[entry.mode],
    priority: entry.priority,
    // Not how many at a time: the number of that field is a guess, and may mean something else to who reads it.
  };
}

// ── nodes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const ITEM_STATES = {
  Up: ItemState.UP,
  Down: ItemState.DOWN,
  Maintenance: ItemState.MAINTENANCE,
  Unknown: ItemState.UNSPECIFIED,
} as const;

export function nodeMessage(
  node: NodeSpec,
  state: keyof typeof ITEM_STATES,
  id: number,
): MessageInitShape<typeof NodeSchema> {
  const { dataCenter, module, rack, unit } = node.location ?? {};
  return {
    nodeId: id,
    host: node.host,
    port: node.port ?? 0,
    location: {
      ...(dataCenter === undefined ? {} : { dataCenter }),
      ...(module === undefined ? {} : { module }),
      ...(rack === undefined ? {} : { rack }),
      ...(unit === undefined ? {} : { unit }),
    },
    state: ITEM_STATES[state],
    type:
      node.tenant === undefined
        ? { case: 'storage', value: {} }
        : { case: 'dynamic', value: { tenant: node.tenant } },
    version: node.version ?? '',
    ...(node.startedAt === null ? {} : { startTime: timestampFromMs(node.startedAt) }),
  };
}

/** Whether a node's key is one of this topology's. */
export const isNodeOf = (key: string, topology: string): boolean =>
  key.startsWith(`${topology}/`) && /^\d+$/.test(key.slice(topology.length + 1));

/** Numbers of a topology's nodes are its own. */
export const topologyNumbers = (topology: string): Numbers => ({
  topology,
  idOf: (key) => (isNodeOf(key, topology) ? Number(key.slice(topology.length + 1)) : undefined),
  keyOf: (id) => nodeKeyOf(String(id), topology),
});

/** Clients take numbers from here on for dynamic nodes. */
const MANAGED_IDS = 49_999;

/**
 * Members of managed databases have no numbers of their own: theirs are made from their names, so that they stay the same
 * while others come and go (two names that meet are told apart in the order of names).
 */
export function managedNumbers(keys: readonly string[]): Numbers {
  const ids = new Map<string, number>();
  const taken = new Map<number, string>();
  for (const key of [...keys].sort()) {
    let id = 1 + (hash(key) % MANAGED_IDS);
    while (taken.has(id)) id = (id % MANAGED_IDS) + 1;
    ids.set(key, id);
    taken.set(id, key);
  }
  return {
    topology: undefined,
    idOf: (key) => ids.get(key),
    keyOf: (id) => taken.get(id) ?? `default/${id}`,
  };
}

/** FNV-1a. */
function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}
