/** Plays the public layer of scenarios through a client, a socket and the service. */

import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { SeenReply, TaskDriver, WantedAction, WantedTask } from '../../maintenance/cases/public.ts';
import type { World } from '../../maintenance/cases/scenario.ts';
import {
  type Action,
  type ActionGroupStates,
  ActionState_ActionReason,
  ActionState_ActionStatus,
  AvailabilityMode,
  type CreateMaintenanceTaskRequestSchema,
} from '../gen/maintenance_pb.js';
import type { Answer, MaintenanceClient } from './client.ts';
import type { Stage } from './stage.ts';

type CreateRequest = MessageInitShape<typeof CreateMaintenanceTaskRequestSchema>;

export function grpcDriver(world: World, stage: Stage): TaskDriver {
  const clients = new Map<string, MaintenanceClient>();
  const as = (user: string): MaintenanceClient => {
    const known = clients.get(user) ?? stage.client(user);
    clients.set(user, known);
    return known;
  };
  const me = (): MaintenanceClient => as('test-user');
  const inTime = async (): Promise<void> => {
    if (world.now > stage.clock.now()) await stage.clock.advance(world.now - stage.clock.now());
  };
  return {
    create: async (task, user) => {
      await inTime();
      return seen(await as(user).create(requestOf(task)));
    },
    refresh: async (uid) => {
      await inTime();
      return seen(await me().refresh(uid));
    },
    get: async (uid) => {
      await inTime();
      return seen(await me().get(uid));
    },
    list: async (user) => {
      const { status, result } = await me().list(user);
      return { status, uids: result.tasksUids };
    },
    complete: (ids) => me().complete(ids.map(({ task, id }) => ({ taskUid: task, actionId: id }))),
    drop: async (uid) => ({ ...EMPTY, ...(await me().drop(uid)) }),
    changed: async () => {
      stage.follow();
      await stage.authority.setDisabled(world.disabled);
    },
    drain: (id, percent) => stage.authority.progress(id, percent),
    reachable: (yes) => stage.reachable(yes),
  };
}

const EMPTY: SeenReply = {
  status: '',
  states: [],
  issues: [],
  retryAfter: null,
  createTime: null,
  lastRefreshTime: null,
};

function requestOf(task: WantedTask): CreateRequest {
  return {
    taskOptions: {
      taskUid: task.uid,
      description: task.description,
      availabilityMode:
        AvailabilityMode[task.mode as keyof typeof AvailabilityMode] ?? AvailabilityMode.UNSPECIFIED,
      dryRun: task.dryRun,
      priority: task.priority,
      maxInflightActions: task.maxInFlight,
    },
    actionGroups: task.groups.map((group) => ({ actions: group.map(actionOf) })),
  };
}

function actionOf({ kind, value, type, seconds }: WantedAction) {
  const scope = { scope: scopeOf(kind, value) };
  if (type === 'drain') return { action: { case: 'drainAction' as const, value: { scope } } };
  if (type === 'cordon') return { action: { case: 'cordonAction' as const, value: { scope } } };
  const duration = { seconds: BigInt(seconds), nanos: 0 };
  return { action: { case: 'lockAction' as const, value: { scope, duration } } };
}

function scopeOf(kind: WantedAction['kind'], value: number | string) {
  if (kind === 'host') return { case: 'host' as const, value: String(value) };
  if (kind === 'node') return { case: 'nodeId' as const, value: Number(value) + 1 };
  const [, what, first = '', second = ''] = /^(\w+):(.*):([^:]+)$/.exec(String(value)) ?? [];
  const pdisk =
    what === 'path'
      ? { case: 'pdiskLocation' as const, value: { host: first, path: second } }
      : { case: 'pdiskId' as const, value: { nodeId: Number(first) + 1, pdiskId: Number(second) } };
  return { case: 'pdisk' as const, value: { pdisk } };
}

interface Told {
  readonly actionGroupStates: readonly ActionGroupStates[];
  readonly retryAfter?: Parameters<typeof timestampMs>[0] | undefined;
  readonly createTime?: Parameters<typeof timestampMs>[0] | undefined;
  readonly lastRefreshTime?: Parameters<typeof timestampMs>[0] | undefined;
}

function seen({ status, issues, result }: Answer<Told>): SeenReply {
  const time = (at: Parameters<typeof timestampMs>[0] | undefined): number | null =>
    at === undefined ? null : timestampMs(at);
  return {
    status,
    issues,
    retryAfter: time(result.retryAfter),
    createTime: time(result.createTime),
    lastRefreshTime: time(result.lastRefreshTime),
    states: result.actionGroupStates.flatMap((group) =>
      group.actionStates.map((state) => ({
        status: ActionState_ActionStatus[state.status] ?? '',
        reason: ActionState_ActionReason[state.reason] ?? '',
        object: objectOf(state.action),
        id: state.actionUid?.actionId ?? null,
        details: state.details,
      })),
    ),
  };
}

/** What an action is about, as scenarios write it. */
function objectOf(action: Action | undefined): unknown {
  const scope = action?.action.value?.scope?.scope;
  if (scope?.case === 'nodeId') return scope.value - 1;
  if (scope?.case === 'host') return scope.value;
  const pdisk = scope?.value?.pdisk;
  if (pdisk?.case === 'pdiskId') return [`pdisk:${pdisk.value.nodeId - 1}:${pdisk.value.pdiskId}`];
  return pdisk?.case === 'pdiskLocation' ? [`path:${pdisk.value.host}:${pdisk.value.path}`] : null;
}
