/** `belay maintenance …`: asking for hosts and nodes, and what became of it. */
import { BelayError } from '../../base/error.ts';
import { type Context, structured } from '../context.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText, inLine } from '../output.ts';
import { Patience } from './patience.ts';
import { pause } from './pause.ts';
import {
  type ActionRow,
  aboutText,
  actionLines,
  detailsOf,
  type HostRow,
  hostsTable,
  type NodeRow,
  nameOf,
  nextLook,
  nodesTable,
  offText,
  type SwitchRow,
  staleText,
  type TaskRow,
  taskLines,
  tasksTable,
  waiting,
} from './taskText.ts';

/** What a task is made from. Names may be given several times or with commas between them. */
export interface Wanted {
  readonly hosts: readonly string[];
  readonly nodes: readonly string[];
  readonly topology: string | undefined;
  readonly mode: string;
  readonly duration: string;
  readonly priority: number;
  readonly reason: string;
  readonly name: string | undefined;
  readonly together: boolean;
  readonly maxInFlight: number;
  readonly stepDown: boolean;
}

const TASKS = '/api/v1/maintenance/tasks';
export const taskPath = (name: string): string => `${TASKS}/${encodeURIComponent(name)}`;

/** The body of a request; `Usage` when it names nothing. Members are of the namespace the verb is about. */
function bodyOf(context: Context, wanted: Wanted): object {
  const { hosts, nodes, topology, name, ...rest } = wanted;
  if (hosts.length + nodes.length === 0)
    throw new BelayError('Usage', 'which hosts or nodes?', {
      retry: 'never',
      fix: 'name them with --host HOST or --node NAME; belay maintenance nodes lists what there is',
    });
  const keys = nodes.map((n) =>
    topology !== undefined || n.includes('/') ? n : `${context.namespace}/${n}`,
  );
  return {
    ...rest,
    ...(hosts.length === 0 ? {} : { hosts: once(context, hosts) }),
    ...(nodes.length === 0 ? {} : { nodes: once(context, keys) }),
    ...(topology === undefined ? {} : { topology }),
    ...(name === undefined ? {} : { name }),
  };
}

/** The answer to a request; problems are told of the options that were given. */
export async function ask(context: Context, path: string, wanted: Wanted): Promise<TaskRow> {
  const body = bodyOf(context, wanted);
  try {
    return await context.client.request<TaskRow>('POST', path, { body });
  } catch (failure) {
    if (!(failure instanceof BelayError) || failure.problems.length === 0) throw failure;
    const told = new Map(
      failure.problems.map(({ path: at, message }) => {
        const [field, name = at] = OPTION_OF.find(([pattern]) => pattern.test(at)) ?? [];
        const option = field === undefined ? at : at.replace(field, name);
        return [`${option} ${message}`, { path: option, message }] as const;
      }),
    );
    const { code, message, retry, fix } = failure;
    throw new BelayError(code, message, {
      retry,
      ...(fix === undefined ? {} : { fix }),
      problems: [...told.values()],
    });
  }
}

/** What people gave where the API names a field. */
const OPTION_OF: readonly (readonly [RegExp, string])[] = [
  [/^(groups\.\d+\.actions\.\d+\.)?duration$/, '--duration'],
  [/^hosts([.[]\d+\]?)?$/, '--host'],
  [/^nodes([.[]\d+\]?)?$/, '--node'],
  [/^maxInFlight$/, '--in-flight'],
  [/^(topology|priority|reason|name|mode)$/, '--$1'],
];

/** Each name once, with a remark about what was said twice. */
function once(context: Context, names: readonly string[]): readonly string[] {
  const twice = new Set(names.filter((name, i) => names.indexOf(name) !== i));
  for (const name of context.quiet ? [] : twice)
    context.terminal.err(`${name} is named more than once and is taken once`);
  return [...new Set(names)];
}

/** `create`: asks, and with `waitMillis` asks again until everything is granted. */
export async function create(context: Context, wanted: Wanted, waitMillis: number | null): Promise<void> {
  const asked = await ask(context, TASKS, wanted);
  if (waitMillis === null) return print(context, asked);
  const task = await askAgain(context, asked, waitMillis);
  await print(context, task);
  refuseWaiting(task);
}

/**
 * Waits until everything is granted of a task that a document asked for. `Invalid` where it was refused for good,
 * `WaitTimedOut`.
 */
export async function untilGranted(context: Context, name: string, waitMillis: number): Promise<void> {
  const asked = await context.client.get<TaskRow>(taskPath(name));
  refuseWaiting(await askAgain(context, asked, waitMillis));
}

/** The task as it stands when everything is granted, or the time is over. */
async function askAgain(context: Context, asked: TaskRow, waitMillis: number): Promise<TaskRow> {
  let task = asked;
  const until = context.now() + waitMillis;
  const stop = context.io.interrupted;
  const patience = new Patience(context);
  while (waiting(task).length > 0 && context.now() < until) {
    await pause(context, Math.min(nextLook(task, context.now()), until - context.now()), stop());
    const refresh = () => context.client.request<TaskRow>('POST', `${taskPath(task.name)}/refresh`);
    if (!stop().aborted) task = await patience.ask(refresh, stop()).catch(unlessAborted(stop(), task));
    if (stop().aborted) return leave(context, task);
  }
  return task;
}

function refuseWaiting(task: TaskRow): void {
  const [first] = waiting(task);
  if (first === undefined) return;
  throw new BelayError('WaitTimedOut', `task ${task.name} still waits: ${first.message}`, {
    retry: 'later',
    fix: `ask again: belay maintenance refresh ${task.name}   or give it up: belay maintenance drop ${task.name}`,
  });
}

const unlessAborted =
  <T>(signal: AbortSignal, before: T) =>
  (failure: unknown): T => {
    if (signal.aborted) return before;
    throw failure;
  };

/** Ctrl-C ends the waiting, not the task: what it holds, and what it keeps from others. */
function leave(context: Context, task: TaskRow): never {
  const waits = waiting(task).length;
  const held = task.groups.flat().length - waits;
  context.terminal.err(
    `task ${task.name} stays: ${held} granted, ${waits} still wanted, which holds back less urgent work; give it up: belay maintenance drop ${task.name}`,
  );
  throw new Exit(EXIT.interrupted);
}

/**
 * `explain`: what would be granted and what stands in the way; nothing changes. Ends with 4 when something would wait, or
 * new grants are switched off.
 */
export async function explain(context: Context, wanted: Wanted): Promise<void> {
  const told = await ask(context, '/api/v1/maintenance/explain', wanted);
  // What is not kept has no wish of its own to tell of.
  const task = { ...told, stepDown: wanted.stepDown };
  const off = task.switch?.disabled === true ? offText(task.switch) : null;
  const format = structured(context);
  if (format !== null) context.terminal.out(await asText(task, format));
  else {
    const otherwise = off === null ? [] : [`maintenance is ${off}; without that:`];
    context.terminal.out([...otherwise, ...actionLines(task, true, context.now())].map(inLine).join('\n'));
  }
  if (waiting(task).length > 0 || off !== null) throw new Exit(EXIT.refused);
}

/** Tasks there are; with `all` also what the control plane itself holds and waits for. */
export async function tasksOf(
  context: Context,
  { owner, all = false }: { readonly owner?: string | undefined; readonly all?: boolean } = {},
): Promise<readonly TaskRow[]> {
  const query = { owner, all: all ? 'true' : undefined };
  return (await context.client.get<{ items: readonly TaskRow[] }>(TASKS, query)).items;
}

/** `list`: tasks, with `all` also what the control plane itself holds and waits for. */
export async function list(context: Context, owner: string | undefined, all: boolean): Promise<void> {
  const items = await tasksOf(context, { owner, all });
  const format = structured(context);
  if (format !== null) return context.terminal.out(await asText(items, format));
  // What has no name to give back is not named.
  const tasks = items.filter((t) => t.holder == null);
  if (context.output === 'name') return tasks.forEach((t) => void context.terminal.out(t.name));
  await warnIfOff(context);
  if (items.length === 0) {
    const of = owner === undefined ? '' : ` of ${owner}`;
    return context.terminal.out(`There are no maintenance tasks${of}`);
  }
  context.terminal.out(tasksTable(items));
  for (const t of tasks) if (t.stale) context.terminal.err(`warning: ${staleText(t)}`);
}

export async function get(context: Context, name: string): Promise<void> {
  const task = await context.client.get<TaskRow>(taskPath(name));
  await print(context, task, [`  ${detailsOf(task).join('   ')}`]);
}

export async function refresh(context: Context, name: string): Promise<void> {
  await print(context, await context.client.request<TaskRow>('POST', `${taskPath(name)}/refresh`));
}

/** Which granted actions are meant; none named: everything the task holds. */
export interface Which {
  readonly hosts: readonly string[];
  readonly actions: readonly string[];
}

const whichBody = ({ hosts, actions }: Which): object => ({
  ...(hosts.length > 0 ? { hosts } : {}),
  ...(actions.length > 0 ? { ids: actions } : {}),
  all: hosts.length + actions.length === 0,
});

/** `extend`: what is held is held for so long from now on; never shorter than before. */
export async function extend(context: Context, name: string, duration: string, which: Which): Promise<void> {
  const body = { ...whichBody(which), duration };
  const before = await context.client.get<TaskRow>(taskPath(name));
  const after = await context.client.request<TaskRow>('POST', `${taskPath(name)}/extend`, { body });
  await print(context, after);
  for (const line of unchanged(before, after, which)) context.terminal.err(line);
}

/** What would have ended before what is held already: nothing is ever held shorter. A line for each deadline. */
function unchanged(before: TaskRow, after: TaskRow, { hosts, actions }: Which): readonly string[] {
  const was = new Map(before.groups.flat().map((a) => [a.id, a.deadline]));
  const all = hosts.length + actions.length === 0;
  const isMeant = ({ id, scope }: ActionRow): boolean =>
    id !== null && (all || actions.includes(id) || hosts.includes(scope.host ?? ''));
  const same = after.groups.flat().filter((a) => isMeant(a) && was.get(a.id) === a.deadline);
  return [...new Set(same.map((a) => a.deadline))].map((deadline) => {
    const names = aboutText(same.filter((a) => a.deadline === deadline).map(nameOf));
    const until = deadline === null ? 'without end' : `until ${deadline}`;
    return `nothing changed for ${names}: held ${until} already, which is longer (give back before: belay maintenance complete ${after.name})`;
  });
}

/** `complete`: what is meant is given back. */
export async function complete(context: Context, name: string, which: Which): Promise<void> {
  const owner = await otherOwner(context, name);
  const reply = await context.client.request<{ completed: readonly string[]; task: TaskRow | null }>(
    'POST',
    `${taskPath(name)}/complete`,
    { body: whichBody(which) },
  );
  const format = structured(context);
  if (format !== null) return context.terminal.out(await asText(reply, format));
  for (const id of reply.completed) context.terminal.out(`completed ${id}`);
  if (reply.task === null) context.terminal.out(`task ${inLine(name)} is done`);
  if (owner !== null) context.terminal.err(`task ${inLine(name)} is of ${owner}, who may still be at work`);
}

export async function drop(context: Context, name: string): Promise<void> {
  const owner = await otherOwner(context, name);
  await context.client.request('DELETE', taskPath(name));
  context.terminal.out(context.output === 'name' ? name : `task ${inLine(name)} dropped`);
  if (owner !== null) context.terminal.err(`task ${inLine(name)} was of ${owner}, who may still be at work`);
}

/** Whose a task is, if not the caller's. */
async function otherOwner(context: Context, name: string): Promise<string | null> {
  try {
    const { owner } = await context.client.get<TaskRow>(taskPath(name));
    const me = await context.client.get<{ name: string }>('/api/v1/whoami');
    return owner === me.name ? null : owner;
  } catch {
    // The request itself says what is wrong.
    return null;
  }
}

/** `nodes`: every node, or with `byHost` every host with holders, waiting tasks and warnings. */
export async function nodes(context: Context, cluster: string | undefined, byHost: boolean): Promise<void> {
  if (byHost) return hosts(context);
  const items = await nodesOf(context, cluster);
  const format = structured(context);
  if (format !== null) return context.terminal.out(await asText(items, format));
  if (context.output === 'name') return items.forEach((n) => void context.terminal.out(n.name));
  context.terminal.out(nodesTable(items));
}

/** `NotFound` when nothing is known of the topology or database; a database without namespace is of the verb's own. */
async function nodesOf(context: Context, cluster: string | undefined): Promise<readonly NodeRow[]> {
  const names =
    cluster === undefined || cluster.includes('/') ? [cluster] : [cluster, `${context.namespace}/${cluster}`];
  for (const name of names) {
    const path = '/api/v1/maintenance/nodes';
    const { items } = await context.client.get<{ items: readonly NodeRow[] }>(path, { cluster: name });
    if (items.length > 0 || cluster === undefined) return items;
  }
  throw new BelayError('NotFound', `nothing is known of a topology or database ${cluster}`, {
    retry: 'never',
    fix: 'see what there is: belay maintenance nodes',
  });
}

/** That new grants are switched off, since when and by whom; null: they are not. */
export async function switchedOff(context: Context): Promise<string | null> {
  const path = '/api/v1/maintenance/switch';
  const state = await context.client.get<SwitchRow>(path);
  return state.disabled ? offText(state) : null;
}

async function warnIfOff(context: Context): Promise<void> {
  const off = await switchedOff(context);
  if (off !== null) context.terminal.err(`warning: maintenance is ${off}; belay maintenance switch on`);
}

/** `switch`: whether anything new is granted; what is held stays held. */
export async function switchGrants(context: Context, to: string): Promise<void> {
  if (to !== 'on' && to !== 'off')
    throw new BelayError('Usage', `${to} is neither on nor off`, {
      retry: 'never',
      fix: 'write belay maintenance switch on   or   belay maintenance switch off',
    });
  await context.client.request('PUT', '/api/v1/maintenance/switch', { body: { disabled: to === 'off' } });
  context.terminal.out(
    to === 'on' ? 'hosts and nodes are granted again' : 'nothing new is granted; what is held stays held',
  );
}

async function hosts(context: Context): Promise<void> {
  const { items } = await context.client.get<{ items: readonly HostRow[] }>('/api/v1/maintenance/hosts');
  const format = structured(context);
  if (format !== null) return context.terminal.out(await asText(items, format));
  if (context.output === 'name') return items.forEach((h) => void context.terminal.out(h.host));
  await warnIfOff(context);
  context.terminal.out(hostsTable(items));
  for (const { host, warnings } of items)
    for (const text of warnings) context.terminal.err(`warning: ${host}: ${inLine(text)}`);
}

async function print(context: Context, task: TaskRow, details: readonly string[] = []): Promise<void> {
  const format = structured(context);
  if (format !== null) return context.terminal.out(await asText(task, format));
  if (context.output === 'name') return context.terminal.out(task.name);
  context.terminal.out(taskLines(task, details, context.now()).map(inLine).join('\n'));
}
