/** Routes of maintenance: tasks, what they would do, nodes and hosts, and the health of topologies. */
import { z } from 'zod';
import type { Authority, HostView } from '../authority/index.ts';
import { BelayError } from '../base/error.ts';
import { ORIGINAL, type TaskReply } from '../maintenance/index.ts';
import { parseDuration, type TopologyHealth, topologyHealthSchema } from '../model/index.ts';
import { carriedBy } from './carried.ts';
import type { ApiDeps } from './deps.ts';
import { tellingEnds } from './endedTask.ts';
import { refuseUnfit } from './maintenanceRequest.ts';
import {
  COMPLETE,
  EXTEND,
  hostJson,
  nodeJson,
  PROGRESS,
  SWITCH,
  TASK,
  type TaskRequest,
  taskFrom,
  taskJson,
  throwUnlessDone,
} from './maintenanceWords.ts';
import type { Body, Call, Json, Parameter, Route } from './routes.ts';
import { noteHealth } from './topologyHealth.ts';

const body = (check: z.ZodType): Body => ({
  check,
  required: true,
  types: ['application/json'],
  schema: z.toJSONSchema(check, { io: 'input' }) as Json,
});

const query = (name: string, description: string): Parameter => ({
  name,
  in: 'query',
  description,
  schema: { type: 'string' },
});

const TASKS = '/api/v1/maintenance/tasks';
const ONE = `${TASKS}/{name}`;
const TAG = 'maintenance';

/** Routes of this file. */
export const maintenanceRoutes = (deps: ApiDeps): readonly Route[] => [
  ...[...taskRoutes(deps), ...taskChanges(deps)].map((route) =>
    route.path.startsWith(ONE) ? tellingEnds(deps, route) : route,
  ),
  ...lookRoutes(deps),
  healthRoute(deps),
];

/** Who calls, for the record. */
const nameOf = (call: Call): string => call.identity?.name ?? '';

/** Whether new grants are switched off, and who switched last. */
async function switchJson(maintenance: Authority) {
  const { disabled, switched } = await maintenance.switchState();
  const since = switched === undefined ? null : new Date(switched.at).toISOString();
  return { disabled, since, by: switched?.by ?? null };
}

function taskRoutes(deps: ApiDeps): readonly Route[] {
  const make = async (call: Call, dryRun: boolean): Promise<Json> => {
    const request = call.body as TaskRequest;
    const spec = taskFrom(request, nameOf(call), dryRun);
    await refuseUnfit(deps.maintenance, request, spec, call.identity);
    const options = { evenOff: dryRun, ...(request.compat === true ? { compat: ORIGINAL } : {}) };
    const reply = await deps.maintenance.create(spec, request.topology, options);
    throwUnlessDone(reply.status, reply.issues);
    return told(deps.maintenance, reply, request.topology);
  };
  return [
    {
      method: 'POST',
      path: TASKS,
      id: 'createMaintenance',
      tag: TAG,
      summary: 'Ask for hosts, nodes or disks to be taken out of service; what cannot be granted now waits',
      role: 'operator',
      body: body(TASK),
      answers: { 201: { description: 'The task, with what was granted and what waits for what' } },
      handle: async (call) => call.reply.status(201).send(await make(call, false)),
    },
    {
      method: 'POST',
      path: '/api/v1/maintenance/explain',
      id: 'explainMaintenance',
      tag: TAG,
      summary: 'What a task would be given now, and what stands in the way of the rest; nothing changes',
      role: 'viewer',
      body: body(TASK),
      answers: {
        200: { description: 'The task as it would be, and whether new grants are switched off (`switch`)' },
      },
      handle: async (call) => ({ ...(await make(call, true)), switch: await switchJson(deps.maintenance) }),
    },
    {
      method: 'GET',
      path: TASKS,
      id: 'listMaintenance',
      tag: TAG,
      summary: 'Tasks that hold or wait for something',
      role: 'viewer',
      parameters: [
        query('owner', 'Only this owner’s'),
        query('all', 'true: also what the control plane itself holds and waits for (with holder)'),
      ],
      answers: { 200: { description: 'Tasks' } },
      handle: async (call) => {
        const holds = call.query['all'] === 'true';
        const uids = await deps.maintenance.list(call.query['owner'] ?? '', { holds });
        const replies = await Promise.all(uids.map((uid) => deps.maintenance.get(uid)));
        const there = replies.filter((reply) => reply.entry !== null);
        // All hosts are looked at once for all tasks, and only if a task is about one.
        let looked: Promise<readonly HostView[]> | null = null;
        const hosts = (): Promise<readonly HostView[]> => {
          looked ??= deps.maintenance.hosts();
          return looked;
        };
        const items = await Promise.all(there.map((r) => told(deps.maintenance, r, undefined, hosts)));
        return { items };
      },
    },
    {
      method: 'GET',
      path: ONE,
      id: 'readMaintenance',
      tag: TAG,
      summary: 'One task; nothing is tried',
      role: 'viewer',
      answers: { 200: { description: 'The task' } },
      handle: async (call) => answer(deps.maintenance, await deps.maintenance.get(call.param('name'))),
    },
  ];
}

function taskChanges(deps: ApiDeps): readonly Route[] {
  const base = { method: 'POST' as const, tag: TAG, role: 'operator' as const };
  const { maintenance } = deps;
  return [
    {
      ...base,
      path: `${ONE}/refresh`,
      id: 'refreshMaintenance',
      summary: 'Try what waits again',
      answers: { 200: { description: 'The task' } },
      handle: async (call) => answer(maintenance, await maintenance.refresh(call.param('name'))),
    },
    {
      ...base,
      path: `${ONE}/complete`,
      id: 'completeMaintenance',
      summary: 'Give granted actions back before their deadline: all that are named, or none',
      body: body(COMPLETE),
      answers: { 200: { description: 'What was completed, and whether anything is left' } },
      handle: (call) => complete(maintenance, call),
    },
    {
      ...base,
      path: `${ONE}/extend`,
      id: 'extendMaintenance',
      summary: 'Hold granted actions longer than they were asked for: all that are named, or none',
      body: body(EXTEND),
      answers: { 200: { description: 'The task' } },
      handle: (call) => extend(maintenance, call),
    },
    {
      ...base,
      path: `${ONE}/withdraw`,
      id: 'withdrawMaintenance',
      summary: 'Want nothing more of what waits; what is held stays held',
      answers: { 200: { description: 'What is left of the task; null: nothing' } },
      handle: async (call) => {
        const reply = await maintenance.withdraw(call.param('name'), nameOf(call));
        throwUnlessDone(reply.status, reply.issues);
        return { task: reply.entry === null ? null : await told(maintenance, reply) };
      },
    },
    {
      ...base,
      path: `${ONE}/progress`,
      id: 'progressMaintenance',
      summary: 'How far a drain is',
      body: body(PROGRESS),
      answers: { 204: { description: 'Noted' } },
      handle: async (call) => {
        const { id, percent } = call.body as z.infer<typeof PROGRESS>;
        await maintenance.progress(id, percent);
        return call.reply.status(204).send();
      },
    },
    {
      ...base,
      method: 'DELETE',
      path: ONE,
      id: 'dropMaintenance',
      summary: 'Give everything back and want nothing any more',
      answers: { 204: { description: 'It is gone' } },
      handle: async (call) => {
        const { status, issues } = await maintenance.drop(call.param('name'), {}, nameOf(call));
        throwUnlessDone(status, issues);
        return call.reply.status(204).send();
      },
    },
    {
      ...base,
      method: 'PUT',
      path: '/api/v1/maintenance/switch',
      id: 'switchMaintenance',
      role: 'admin',
      summary: 'Switch new grants off or on; what is held stays held',
      body: body(SWITCH),
      answers: { 200: { description: 'As it is now' } },
      handle: async (call) => {
        const { disabled } = call.body as z.infer<typeof SWITCH>;
        await maintenance.setDisabled(disabled, nameOf(call));
        return { disabled };
      },
    },
  ];
}

async function complete(maintenance: Authority, call: Call): Promise<Json> {
  const uid = call.param('name');
  const reply = await maintenance.get(uid);
  throwUnlessDone(reply.status, reply.issues);
  const wanted = chosen(reply, call.body as z.infer<typeof COMPLETE>);
  if (wanted.length === 0)
    throw new BelayError('Invalid', `task ${uid} holds nothing, so there is nothing to give back`, {
      retry: 'never',
      fix: `to want nothing any more: belay maintenance drop ${uid}`,
    });
  const done = await maintenance.complete(wanted, nameOf(call));
  throwUnlessDone(done.status, done.issues);
  const left = await maintenance.get(uid);
  return {
    completed: done.actions.map(({ id }) => id),
    task: left.entry === null ? null : await told(maintenance, left),
  };
}

/** Identities of the granted actions that a request names, each once; `NotFound` for one the task does not hold. */
function chosen(
  reply: TaskReply,
  { ids = [], hosts = [], all }: z.infer<typeof COMPLETE>,
): readonly string[] {
  const { uid } = reply;
  const fix = `see what it holds: belay maintenance get ${uid}`;
  const held = reply.groups.flat().filter((view) => view.id !== null);
  const onHosts = hosts.map((host) => {
    const view = held.find(({ action: { scope } }) => scope.kind === 'host' && scope.host === host);
    if (view?.id != null) return view.id;
    throw new BelayError('NotFound', `task ${uid} holds no host ${host}`, { retry: 'never', fix });
  });
  const own = new Set(held.map((view) => view.id));
  const foreign = ids.filter((id) => !own.has(id));
  if (foreign.length > 0)
    throw new BelayError('NotFound', `task ${uid} holds no action ${foreign.join(', ')}`, {
      retry: 'never',
      fix,
    });
  return [...new Set(all ? held.flatMap((view) => view.id ?? []) : [...ids, ...onHosts])];
}

/** How long a lock is needed only its owner knows; everybody may give one back, and nobody keeps what is another's. */
function refuseOthers({ identity }: Call, { uid, entry }: TaskReply): void {
  if (identity === null || identity.role === 'admin' || entry?.owner === identity.name) return;
  throw new BelayError(
    'Forbidden',
    `task ${uid} is of ${entry?.owner}: only they, or an admin, hold it longer`,
    {
      retry: 'never',
      fix: 'ask them, or an admin',
    },
  );
}

async function extend(maintenance: Authority, call: Call): Promise<Json> {
  const uid = call.param('name');
  const asked = call.body as z.infer<typeof EXTEND>;
  const parsed = parseDuration(asked.duration);
  // Checked with the body: it is a duration within bounds.
  const needed = parsed.ok ? parsed.value : 0;
  const before = await maintenance.get(uid);
  throwUnlessDone(before.status, before.issues);
  refuseOthers(call, before);
  const gone = (what: string): BelayError =>
    new BelayError('NotFound', `task ${uid} does not hold ${what} any more`, {
      retry: 'never',
      fix: `ask for it again: belay maintenance create`,
    });
  const ids = chosen(before, asked);
  if (ids.length === 0)
    throw new BelayError('Invalid', `task ${uid} holds nothing that could be held longer`, {
      retry: 'never',
      fix: `see what it waits for: belay maintenance get ${uid}`,
    });
  if ((await maintenance.extend(ids, needed)) !== 'SUCCESS') throw gone(ids.join(', '));
  return answer(maintenance, await maintenance.get(uid));
}

function lookRoutes(deps: ApiDeps): readonly Route[] {
  const base = { method: 'GET' as const, tag: TAG, role: 'viewer' as const };
  return [
    {
      ...base,
      path: '/api/v1/maintenance/nodes',
      id: 'listMaintenanceNodes',
      summary: 'Members and nodes with state, holder and deadline',
      parameters: [query('cluster', 'Only those of this topology, or of this database (NAMESPACE/NAME)')],
      answers: { 200: { description: 'Nodes' } },
      handle: async (call) => {
        const nodes = await deps.maintenance.nodes(call.query['cluster']);
        return { items: nodes.map(nodeJson) };
      },
    },
    {
      ...base,
      path: '/api/v1/maintenance/switch',
      id: 'readMaintenanceSwitch',
      summary: 'Whether new grants are switched off, since when and by whom',
      answers: { 200: { description: 'As it is' } },
      handle: () => switchJson(deps.maintenance),
    },
    {
      ...base,
      path: '/api/v1/maintenance/hosts',
      id: 'listMaintenanceHosts',
      summary: 'Hosts with everything on them, holders, waiting tasks and warnings',
      answers: { 200: { description: 'Hosts' } },
      handle: async () => {
        const hosts = await deps.maintenance.hosts();
        return { items: hosts.map((view) => hostJson(view, deps.maintenance.hostHolderOf(view.host))) };
      },
    },
  ];
}

// ── topologies ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Health that somebody observes is pushed here; what is not named stays as it was told last. */
function healthRoute(deps: ApiDeps): Route {
  // One after the other: pushes that come at once need not get into each other's way.
  let turn: Promise<unknown> = Promise.resolve();
  return {
    method: 'POST',
    path: '/api/v1/topologies/{name}/health',
    id: 'pushTopologyHealth',
    tag: 'Topology',
    summary: 'Tell the health of nodes, disks and virtual disks of a topology',
    role: 'operator',
    body: body(topologyHealthSchema),
    answers: { 200: { description: 'When it was noted, and of how many nodes something is told' } },
    handle: (call) => {
      const noted = turn.then(() => noteHealth(deps, call.param('name'), call.body as TopologyHealth));
      turn = noted.catch(() => undefined);
      return noted;
    },
  };
}

// ── answers ────────────────────────────────────────────────────────────────────────────────────────────────────────

async function answer(maintenance: Authority, reply: TaskReply): Promise<Json> {
  throwUnlessDone(reply.status, reply.issues);
  return told(maintenance, reply);
}

/** A task with what is on its hosts. */
async function told(
  maintenance: Authority,
  reply: TaskReply,
  topology?: string,
  hosts: () => Promise<readonly HostView[]> = () => maintenance.hosts(),
): Promise<Json> {
  const of = topology ?? maintenance.topologyOf(reply);
  const scopes = reply.groups.flat().map(({ action }) => action.scope);
  // Of a topology's nodes nobody leads anything.
  const asksHosts = scopes.some(({ kind }) => kind === 'host' || (kind === 'node' && of === undefined));
  return taskJson(reply, of, carriedBy(asksHosts ? await hosts() : []));
}
