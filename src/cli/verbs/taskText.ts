/**
 * Maintenance as people read it: rows as the API tells them, tasks as lines and tables, who holds what, and when it makes sense
 * to ask again. What is said here is said alike by every verb.
 */
import { formatCount } from '../../base/units.ts';
import { table } from '../output.ts';

/** One action as the API tells it. */
export interface ActionRow {
  readonly id: string | null;
  readonly scope: {
    readonly host?: string;
    readonly node?: string;
    readonly disk?: {
      readonly node?: string;
      readonly host?: string;
      readonly id?: number;
      readonly path?: string;
    };
  };
  readonly state: 'pending' | 'performed' | 'in_progress';
  /** How long it was asked for. */
  readonly durationMillis: number;
  readonly reason: string;
  readonly message: string;
  readonly deadline: string | null;
  readonly retryAfter: string | null;
  /** Whether the mode force would get it. */
  readonly forceHelps?: boolean;
  readonly members?: readonly string[];
  /** Members among it that could hand over before they go down. */
  readonly primaries?: readonly string[];
}

/** One task as the API tells it. */
export interface TaskRow {
  readonly name: string;
  readonly owner: string | null;
  /** What the control plane holds it for (`MongoDB default/orders`): it is no task, and nobody else gives it back. */
  readonly holder?: string | null;
  readonly reason: string;
  readonly mode: string | null;
  readonly priority: number | null;
  readonly maxInFlight?: number;
  readonly stepDown?: boolean;
  readonly createTime: string | null;
  readonly lastRefreshTime: string | null;
  /** Nobody has asked again in time: what waits holds nobody back. */
  readonly stale: boolean;
  readonly retryAfter: string | null;
  readonly groups: readonly (readonly ActionRow[])[];
  /** With an explanation: whether it would be granted at all now. */
  readonly switch?: SwitchRow;
}

/** Whether new grants are switched off for everybody. */
export interface SwitchRow {
  readonly disabled: boolean;
  readonly since?: string | null;
  readonly by?: string | null;
}

/** Whose task holds something, and until when. */
export interface HolderRow {
  readonly task: string;
  readonly owner: string;
  readonly until: string | null;
}

/** A member of a database or a node of a topology. */
export interface NodeRow {
  /** NAMESPACE/NAME of a member, TOPOLOGY/NUMBER of a node. */
  readonly key: string;
  readonly name: string;
  readonly cluster: string;
  readonly host: string;
  readonly kind: string;
  readonly state: string;
  readonly role: string | null;
  readonly version: string | null;
  readonly holders: readonly HolderRow[];
}

/** A host with what is on it, who holds of that, and who waits. */
export interface HostRow {
  readonly host: string;
  readonly state: string;
  readonly nodes: readonly NodeRow[];
  readonly holders: readonly HolderRow[];
  /** Whose task holds the host as a whole, with its agent. */
  readonly held: HolderRow | null;
  readonly waiting: readonly {
    readonly task: string;
    readonly owner: string;
    readonly priority: number;
    readonly stale: boolean;
  }[];
  readonly warnings: readonly string[];
}

// ── a task ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What of a task is not granted. */
export const waiting = (task: TaskRow): readonly ActionRow[] =>
  task.groups.flat().filter((a) => a.state === 'pending');

/** A task with everything it asks for. `details`: lines below its name. */
export function taskLines(task: TaskRow, details: readonly string[], now: number): readonly string[] {
  const actions = task.groups.flat();
  const held = actions.length - waiting(task).length;
  const what = formatCount(actions.length, 'action');
  const how = held === actions.length ? 'granted' : held === 0 ? 'pending' : `${held} granted`;
  return [
    `task ${task.name}   ${what}, ${how}`,
    ...details,
    ...actionLines(task, false, now),
    ...(task.stale ? [staleText(task)] : []),
  ];
}

/** Whose a task is and how it was asked for. */
export const detailsOf = ({
  owner,
  mode,
  priority,
  maxInFlight = 0,
  stepDown,
  reason,
}: TaskRow): readonly string[] => [
  `owner ${owner}`,
  `mode ${mode}`,
  `priority ${priority ?? 0}`,
  ...(maxInFlight > 0 ? [`at most ${maxInFlight} at a time`] : []),
  ...(stepDown === true ? ['primaries hand over first'] : []),
  ...(reason === '' ? [] : [`reason: ${reason}`]),
];

/** What an action is about, for people. */
export function nameOf({ scope }: ActionRow): string {
  if (scope.host !== undefined) return scope.host;
  if (scope.node !== undefined) return scope.node;
  const { node, host, id, path } = scope.disk ?? {};
  return path === undefined ? `disk ${id} of ${node}` : `disk ${path} of ${host}`;
}

/** Lines for every action: what is on it, until when it is held, or what it waits for and when to ask again. */
export function actionLines(task: TaskRow, dry: boolean, now: number): readonly string[] {
  const actions = task.groups.flat();
  const width = Math.max(3, ...actions.map((a) => nameOf(a).length));
  const indent = ' '.repeat(width + 5);
  return actions.flatMap((a) => {
    const start = `  ${nameOf(a).padEnd(width)}   `;
    const [first, ...rest] = [
      ...(a.members?.length ? [a.members.join(', ')] : []),
      ...stateLines(task, a, dry, now),
      ...primaryLines(task, a, dry),
    ];
    return [`${start}${first}`, ...rest.map((line) => `${indent}${line}`)];
  });
}

/** An election at a moment that is chosen is shorter than one after a loss. */
function primaryLines(task: TaskRow, { primaries = [] }: ActionRow, dry: boolean): readonly string[] {
  if (primaries.length === 0 || task.stepDown === true) return [];
  const how = dry ? 'ask' : `belay maintenance drop ${task.name}, and ask again`;
  const who = `primary now: ${primaries.join(', ')}; writes wait for an election when that goes down`;
  return [`${who}; to have it hand over first, ${how} with --step-down`];
}

function stateLines(task: TaskRow, a: ActionRow, dry: boolean, now: number): readonly string[] {
  if (a.state === 'pending')
    return [a.message === '' ? 'waits for its turn' : `waits: ${a.message}`, whenText(task, a, now)];
  if (dry) return ['would be granted'];
  return [a.deadline === null ? 'granted' : `granted until ${a.deadline} as ${a.id}`];
}

function whenText(task: TaskRow, action: ActionRow, now: number): string {
  if (action.reason === HANDS_OVER) return 'granted as soon as that is done';
  const at = action.retryAfter ?? task.retryAfter;
  const other =
    task.mode !== 'force' && action.forceHelps ? ', or: --mode force (availability is not looked at)' : '';
  if (at !== null && Date.parse(at) <= now)
    return `ask again now: belay maintenance refresh ${task.name}${other}`;
  if (at === null) return `ask again when that has changed${other}`;
  return isKnown(task, action)
    ? `ask again at ${at}${other}`
    : `nobody knows when: look again at ${at}${other}`;
}

/** Whether the time a task was told is that of something known, and not only when to look again. */
function isKnown(task: TaskRow, action: ActionRow): boolean {
  const tried = waiting(task).filter((a) => a.reason !== 'NotTried' && a.reason !== 'InFlightCap');
  const about = tried.includes(action) ? [action] : tried;
  return about.length === 0 || about.some((a) => a.retryAfter !== null);
}

/** Nothing else is in the way but a primary that steps down for it, which takes a moment. */
const HANDS_OVER = 'PrimaryStepsDown';

/** How long until it makes sense to ask again: the time that was told, but no longer than ten seconds. */
export function nextLook(task: TaskRow, now: number): number {
  if (waiting(task).some((a) => a.reason === HANDS_OVER)) return LOOK_LEAST;
  const told = task.retryAfter === null ? Number.POSITIVE_INFINITY : Date.parse(task.retryAfter) - now;
  return Math.max(LOOK_LEAST, Math.min(told, LOOK_MOST));
}
const LOOK_LEAST = 500;
const LOOK_MOST = 10_000;

/** That a task waits and is not asked for any more. */
export const staleText = (task: TaskRow): string =>
  `task ${task.name} waits and nobody has asked for it since ${task.lastRefreshTime}: it holds nobody back until somebody does (belay maintenance refresh ${task.name}), or give it up (belay maintenance drop ${task.name})`;

// ── many tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Tasks, one a row. */
export function tasksTable(tasks: readonly TaskRow[]): string {
  const headings = ['NAME', 'OWNER', 'MODE', 'PRIORITY', 'GRANTED', 'UNTIL', 'REASON', 'ABOUT'];
  return table(headings, tasks.map(taskRow));
}

function taskRow(task: TaskRow): string[] {
  const actions = task.groups.flat();
  const held = actions.length - waiting(task).length;
  return [
    task.holder == null ? task.name : '–',
    task.holder ?? task.owner ?? '',
    task.mode ?? '',
    String(task.priority ?? 0),
    `${held}/${actions.length}${task.stale ? ' (stale)' : ''}`,
    deadlineOf(task),
    task.reason || '–',
    aboutActions(actions),
  ];
}

const deadlineOf = (task: TaskRow): string =>
  task.groups
    .flat()
    .reduce((latest, a) => (a.deadline !== null && a.deadline > latest ? a.deadline : latest), '') || '–';

/** What actions are about: some names, and how many more there are. */
export const aboutActions = (actions: readonly ActionRow[]): string =>
  aboutText(actions.map(nameOf).map((n) => (/^\d+$/.test(n) ? `node ${n}` : n)));

/** Some names and how many more there are. */
export function aboutText(names: readonly string[]): string {
  const more = names.length - NAMES_SHOWN;
  return `${names.slice(0, NAMES_SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
const NAMES_SHOWN = 5;

// ── hosts, nodes and who holds them ────────────────────────────────────────────────────────────────────────────────

/** Nodes, one a row. */
export function nodesTable(items: readonly NodeRow[]): string {
  const rows = items.map((n) => [
    n.host,
    n.name,
    n.cluster,
    n.role ?? n.kind,
    n.state,
    n.version ?? '–',
    holdersText(n.holders),
  ]);
  return table(['HOST', 'NODE', 'CLUSTER', 'ROLE', 'STATE', 'VERSION', 'HELD BY'], rows);
}

/** Hosts, one a row. */
export function hostsTable(items: readonly HostRow[]): string {
  const rows = items.map((h) => [
    h.host,
    h.state,
    String(h.nodes.length),
    holdersText(h.holders),
    h.waiting.map((w) => `${w.task}${w.stale ? ' (stale)' : ''}`).join(', ') || '–',
  ]);
  return table(['HOST', 'STATE', 'NODES', 'HELD BY', 'WAITING'], rows);
}

/** Whose maintenance something is in. */
export function inMaintenance({ task, owner, until }: HolderRow): string {
  return `in maintenance: ${task} (${owner})${until === null ? '' : ` until ${until}`}`;
}

const holdersText = (holders: readonly HolderRow[]): string =>
  holders.map((h) => `${h.task} (${h.owner})${h.until === null ? '' : ` until ${h.until}`}`).join(', ') ||
  '–';

/** That nothing new is granted, since when and by whom. */
export function offText({ since, by }: SwitchRow): string {
  const who = by ? ` by ${by}` : '';
  return `switched off${who}${since ? ` since ${since}` : ''}: nothing new is granted, neither to people nor to our own restarts`;
}
