/** The public layer of scenarios played on the desk itself, without a server. */
import { SECOND } from '../../base/units.ts';
import type { Compat } from '../compat.ts';
import { Desk } from '../desk.ts';
import { Fleet } from '../fleet.ts';
import {
  completeActions,
  createTask,
  dropTask,
  getTask,
  listTasks,
  refreshTask,
  type TaskOptions,
  type TaskReply,
  ydbReason,
} from '../tasks.ts';
import type { Action, Mode } from '../types.ts';
import { deviceOf } from './internal.ts';
import type { SeenReply, TaskDriver, WantedAction, WantedTask } from './public.ts';
import type { World } from './scenario.ts';

const MODES: Readonly<Record<string, Mode>> = {
  STRONG: 'strong',
  WEAK: 'weak',
  FORCE: 'force',
  SMART: 'smart',
};

export function deskDriver(world: World, compat: Compat): TaskDriver {
  const desk = new Desk(new Fleet(world.spec()), undefined, {
    compat,
    locksPriority: world.flags['locks_priority'] === true,
  });
  let reachable = true;
  const options = (): TaskOptions => ({ compat, tabletsReachable: reachable, ...flagsOf(world) });
  return {
    create: async (task, user) => seen(createTask(desk, specOf(task, user), world.now, options())),
    refresh: async (uid) => seen(refreshTask(desk, uid, world.now)),
    get: async (uid) => seen(getTask(desk, uid, world.now)),
    list: async (user) => ({ status: 'SUCCESS', uids: listTasks(desk, user, world.now) }),
    complete: async (ids) =>
      completeActions(
        desk,
        ids.map(({ id, task }) => (task === '' || compat.completeIgnoresTask ? id : { id, task })),
        world.now,
      ),
    drop: async (uid) => seen(dropTask(desk, uid, world.now, options())),
    changed: () => {
      desk.replaceFleet(new Fleet(world.spec()));
      desk.configure({ disabled: world.disabled });
    },
    drain: (id, percent) => desk.progress(id, percent),
    reachable: (yes) => {
      reachable = yes;
    },
  };
}

/** What the flags of a scenario switch. Smart is off in it unless it says otherwise; ours is on. */
export function flagsOf(world: World): TaskOptions {
  const { flags } = world;
  return {
    smart: flags['smart_mode'] === true,
    composite: flags['composite_group'] !== false,
    priorities: flags['request_priorities'] !== false,
  };
}

const specOf = (task: WantedTask, owner: string): Parameters<typeof createTask>[1] => ({
  uid: task.uid,
  owner,
  description: task.description,
  mode: MODES[task.mode] ?? null,
  priority: task.priority,
  dryRun: task.dryRun,
  maxInFlight: task.maxInFlight,
  groups: task.groups.map((group) => group.map(actionOf)),
});

function actionOf({ kind, value, type, seconds }: WantedAction): Action {
  const duration = seconds * SECOND;
  if (kind === 'host') return { type, scope: { kind: 'host', host: String(value) }, duration };
  if (kind === 'node') return { type, scope: { kind: 'node', node: String(value) }, duration };
  return { type, scope: { kind: 'disks', disks: [deviceOf(String(value))] }, duration };
}

const seen = (reply: TaskReply): SeenReply => ({
  status: reply.status,
  issues: reply.issues,
  retryAfter: reply.retryAfter,
  createTime: reply.createTime,
  lastRefreshTime: reply.lastRefreshTime,
  states: reply.groups.flat().map((view) => ({
    status: view.status,
    reason: ydbReason(view.reason),
    object: objectOf(view.action),
    id: view.id,
    details: view.details,
  })),
});

function objectOf({ scope }: Action): unknown {
  if (scope.kind === 'host') return scope.host;
  if (scope.kind === 'node') return Number(scope.node);
  return scope.disks.map((d) =>
    d.kind === 'id' ? `pdisk:${d.node}:${d.disk}` : d.kind === 'path' ? `path:${d.host}:${d.path}` : '',
  );
}
