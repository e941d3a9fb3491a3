/**
 * Maintenance tasks as people and programs ask for them (C1): validation, the words of an answer, and which outcome of the
 * desk is which status. YDB's gRPC service, REST and the command line all go through here.
 */
import { type Millis, SECOND } from '../base/units.ts';
import { inFlightProblem, LOCK_DURATION } from '../model/index.ts';
import { HOLD, isHold } from './admit.ts';
import { type Answer, priorityProblem } from './answers.ts';
import { BETTER, type Compat, ORIGINAL } from './compat.ts';
import type { Desk } from './desk.ts';
import { MAX_ACTIONS, MAX_DESCRIPTION_LENGTH, MAX_HOST_LENGTH, MAX_UID_LENGTH } from './limits.ts';
import { resolve } from './resolve.ts';
import { refuse } from './rules/look.ts';
import type { Action, Code, Entry, Mode, Pending, Permission, ReasonCode, Refusal } from './types.ts';

/** YDB's status of an operation; REST maps it to codes of errors. */
export type TaskStatus = 'SUCCESS' | 'BAD_REQUEST' | 'UNSUPPORTED' | 'UNAVAILABLE' | 'INTERNAL_ERROR';

export interface TaskSpec {
  readonly uid: string;
  readonly owner: string;
  readonly description: string;
  /** Null: the client named none, or one that does not exist. */
  readonly mode: Mode | null;
  readonly priority: number;
  readonly dryRun: boolean;
  readonly maxInFlight: number;
  /** Primaries among what is taken hand over before it is granted. */
  readonly stepDown?: boolean;
  readonly groups: readonly (readonly Action[])[];
}

export interface TaskOptions {
  readonly compat?: Compat;
  /** Whether `smart` may be asked for. */
  readonly smart?: boolean;
  /** Whether one group may hold several actions. */
  readonly composite?: boolean;
  readonly priorities?: boolean;
  /** A dry run tells what would be given if new grants were not switched off. */
  readonly evenOff?: boolean;
  /** Whether whoever drains and cordons nodes can be reached to take it back. */
  readonly tabletsReachable?: boolean;
}

/** One action in an answer. */
export interface ActionView {
  readonly action: Action;
  readonly status: 'PENDING' | 'PERFORMED' | 'IN_PROGRESS';
  /** Null: it was not looked at. */
  readonly reason: ReasonCode | 'OK' | null;
  readonly details: string;
  readonly deadline: Millis | null;
  /** Identity of a granted action; null while it waits, and in a dry run. */
  readonly id: string | null;
  readonly at: readonly [group: number, action: number];
  readonly refusal: Refusal | null;
}

export interface TaskReply {
  readonly status: TaskStatus;
  readonly issues: readonly string[];
  readonly uid: string;
  /** One list per group of the answer. */
  readonly groups: readonly (readonly ActionView[])[];
  readonly retryAfter: Millis | null;
  readonly createTime: Millis | null;
  readonly lastRefreshTime: Millis | null;
  /** Null: there is no such task. */
  readonly entry: Entry | null;
}

/** YDB's names of reasons (`ACTION_REASON_…`); what it has no name for is GENERIC. */
export const ydbReason = (reason: ReasonCode | 'OK' | null): string =>
  reason === null ? 'UNSPECIFIED' : (YDB_REASONS[reason] ?? 'GENERIC');

const YDB_REASONS: Readonly<Partial<Record<ReasonCode | 'OK', string>>> = {
  OK: 'OK',
  TooManyUnavailableVDisks: 'TOO_MANY_UNAVAILABLE_VDISKS',
  TooManyUnavailableStateStorageRings: 'TOO_MANY_UNAVAILABLE_STATE_STORAGE_RINGS',
  DisabledNodesLimitReached: 'DISABLED_NODES_LIMIT_REACHED',
  TenantDisabledNodesLimitReached: 'TENANT_DISABLED_NODES_LIMIT_REACHED',
  RouterLimitReached: 'TENANT_DISABLED_NODES_LIMIT_REACHED',
  SysTabletsNodeLimitReached: 'SYS_TABLETS_NODE_LIMIT_REACHED',
  WrongRequest: 'WRONG_REQUEST',
};

const STATUS: Readonly<Record<Code, TaskStatus>> = {
  ALLOW: 'SUCCESS',
  ALLOW_PARTIAL: 'SUCCESS',
  DISALLOW_TEMP: 'SUCCESS',
  ERROR_TEMP: 'UNAVAILABLE',
  DISALLOW: 'BAD_REQUEST',
  WRONG_REQUEST: 'BAD_REQUEST',
  ERROR: 'BAD_REQUEST',
  NO_SUCH_HOST: 'BAD_REQUEST',
  NO_SUCH_DEVICE: 'BAD_REQUEST',
  NO_SUCH_SERVICE: 'BAD_REQUEST',
};

const failed = (status: TaskStatus, uid: string, issue: string): TaskReply => ({
  status,
  issues: [issue],
  uid,
  groups: [],
  retryAfter: null,
  createTime: null,
  lastRefreshTime: null,
  entry: null,
});

/** Makes a task and tries all of it at once. Nothing is left behind when it is refused for good (C1.5). */
export function createTask(desk: Desk, spec: TaskSpec, now: Millis, options: TaskOptions = {}): TaskReply {
  desk.expire(now);
  const problem = problemOf(desk, spec, options);
  if (problem !== null) return failed(problem[0], spec.uid, problem[1]);
  const composite = spec.groups.length === 1 && (spec.groups[0]?.length ?? 0) > 1;
  const answer = desk.request(
    {
      uid: spec.uid,
      owner: spec.owner,
      description: spec.description,
      mode: spec.mode as Mode,
      priority: spec.priority,
      partial: !composite,
      maxInFlight: spec.maxInFlight,
      stepDown: spec.stepDown === true,
      compat: options.compat === ORIGINAL,
      actions: spec.groups.flatMap((group, g) => group.map((action, a) => ({ action, at: [g, a] as const }))),
      schedule: true,
      dry: spec.dryRun,
    },
    now,
  );
  const status = STATUS[answer.code];
  if (status !== 'SUCCESS') return failed(status, spec.uid, answer.refusal?.message ?? answer.code);
  return spec.dryRun ? dryReply(spec, answer, composite, now, options) : replyOf(desk, spec.uid, answer, now);
}

/** The first thing wrong with a task, in the order YDB looks. */
function problemOf(desk: Desk, spec: TaskSpec, options: TaskOptions): readonly [TaskStatus, string] | null {
  if (spec.mode === null) return ['BAD_REQUEST', 'Unknown availability mode'];
  if (spec.mode === 'smart' && options.smart === false)
    return ['BAD_REQUEST', 'Unknown availability mode: smart is switched off here'];
  if (spec.owner === '') return ['BAD_REQUEST', 'Missing user in request'];
  if (spec.uid.startsWith(HOLD))
    return ['BAD_REQUEST', `Names that begin with ${HOLD} are the control plane’s own: ${spec.uid}`];
  if (desk.task(spec.uid) !== undefined)
    return ['BAD_REQUEST', `Maintenance task already exists: ${spec.uid}`];
  if (spec.uid.length > MAX_UID_LENGTH)
    return ['BAD_REQUEST', `task_uid is longer than ${MAX_UID_LENGTH} characters`];
  if (spec.description.length > MAX_DESCRIPTION_LENGTH)
    return ['BAD_REQUEST', `description is longer than ${MAX_DESCRIPTION_LENGTH} characters`];
  return groupsProblem(spec, options) ?? capProblem(spec, options) ?? actionsProblem(desk, spec, options);
}

function groupsProblem(spec: TaskSpec, options: TaskOptions): readonly [TaskStatus, string] | null {
  const { groups } = spec;
  if (groups.length === 0 || groups.some((group) => group.length === 0))
    return ['BAD_REQUEST', 'Empty actions'];
  const many = groups.some((group) => group.length > 1);
  if (groups.length > 1 && many)
    return [
      'UNSUPPORTED',
      'A task is either a single composite action group or many groups with one action each',
    ];
  if (many && options.composite === false)
    return ['UNSUPPORTED', 'Composite action groups are switched off here'];
  const count = groups.reduce((sum, group) => sum + group.length, 0);
  return count > MAX_ACTIONS ? ['BAD_REQUEST', `a task has at most ${MAX_ACTIONS} actions`] : null;
}

/** More than may be held at a time is never granted together. The original does not look at it for a group. */
function capProblem(
  { groups, maxInFlight }: TaskSpec,
  { compat = BETTER }: TaskOptions,
): readonly [TaskStatus, string] | null {
  if (compat.hopelessStaysPending) return null;
  const sizes = groups.map((group) => group.length);
  const problem = inFlightProblem(maxInFlight, sizes);
  return problem === null ? null : ['BAD_REQUEST', `the most actions in flight ${problem}`];
}

function actionsProblem(
  desk: Desk,
  spec: TaskSpec,
  options: TaskOptions,
): readonly [TaskStatus, string] | null {
  const { compat = BETTER } = options;
  const wrong = priorityProblem(spec.priority, options.priorities !== false);
  for (const action of spec.groups.flat()) {
    const { scope, type } = action;
    if (type !== 'lock' && scope.kind !== 'node')
      return ['BAD_REQUEST', `Unsupported scope: ${type} takes a node`];
    if (scope.kind === 'host' && scope.host.length > MAX_HOST_LENGTH)
      return ['BAD_REQUEST', `host is longer than ${MAX_HOST_LENGTH} characters`];
    const duration = durationProblem(action, compat);
    if (duration !== null) return ['BAD_REQUEST', duration];
  }
  if (wrong !== null) return ['BAD_REQUEST', wrong];
  if (compat.hopelessStaysPending) return null;
  // What is not there will not be there later: better a clear word now than an action that waits for ever.
  for (const action of spec.groups.flat()) {
    const target = resolve(desk.fleet, action);
    if (target.kind === 'none') return ['BAD_REQUEST', target.refusal.message];
  }
  return null;
}

/** A lock that is over before it begins would be told as granted, and one without a sensible end would stay for good. */
function durationProblem({ type, duration }: Action, { emptyDurations }: Compat): string | null {
  if (type !== 'lock' || duration === null) return null;
  const { least, most, text } = LOCK_DURATION;
  if ((duration >= least || emptyDurations) && duration <= most) return null;
  return `duration ${text}, not ${duration / SECOND} s`;
}

/** What the control plane holds for itself it alone gives back. */
function personsTask(desk: Desk, uid: string): Entry | undefined {
  const entry = desk.task(uid);
  return entry === undefined || isHold(entry) ? undefined : entry;
}

/** Tries the pending rest again (C1.3). */
export function refreshTask(desk: Desk, uid: string, now: Millis): TaskReply {
  desk.expire(now);
  const entry = personsTask(desk, uid);
  if (entry === undefined) return failed('BAD_REQUEST', uid, `Task not found: ${uid}`);
  const answer = desk.check(entry.id, now);
  const status = STATUS[answer.code];
  // The rest of a task waits whatever became of its components: only the switch and a fault are worth an error.
  if (status === 'UNAVAILABLE')
    return { ...viewOf(desk, uid), status, issues: [answer.refusal?.message ?? ''] };
  return replyOf(desk, uid, answer, now);
}

/** How a task stands; nothing is tried. */
export function getTask(desk: Desk, uid: string, now: Millis): TaskReply {
  desk.expire(now);
  return viewOf(desk, uid);
}

/** How a task stands, with what stands in the way now and not when it was last tried; nothing is changed. */
export function currentTask(desk: Desk, uid: string, now: Millis): TaskReply {
  desk.expire(now);
  const entry = desk.task(uid);
  // The original tells what it noted when it last tried.
  if (entry === undefined || entry.pending.length === 0 || entry.compat === true) return viewOf(desk, uid);
  const { pending, retryAfter } = waitsNow(desk, entry, now);
  const views = [...byId(entry.held).map(performedView), ...pending];
  return { ...base(entry, grouped(views, entry.partial)), retryAfter };
}

/** What stands in the way of what waits, and when to ask again, as it is at this moment and not as it was when last tried. */
function waitsNow(
  desk: Desk,
  entry: Entry,
  now: Millis,
): { readonly pending: readonly ActionView[]; readonly retryAfter: Millis | null } {
  const answer = desk.check(entry.id, now, { dry: true });
  if (answer.code === 'ERROR_TEMP') return { pending: pendingViews(entry), retryAfter: null };
  const refusals = new Map(answer.pending.map((p) => [`${p.at}`, p.refusal]));
  const free = refuse('DISALLOW_TEMP', 'AskAgain', 'nothing stands in the way any more', [], now);
  const pending = entry.pending.map((p) => ({ ...p, refusal: refusals.get(`${p.at}`) ?? null }));
  const told = pending.map((p) => (refusals.has(`${p.at}`) ? p : { ...p, refusal: free }));
  return {
    pending: pendingViews({ ...entry, pending: told }),
    retryAfter: answer.granted.length > 0 ? now : answer.retryAt,
  };
}

/** Identities of all tasks, or of one owner's, in the order they were made. */
export function listTasks(desk: Desk, owner: string, now: Millis): readonly string[] {
  desk.expire(now);
  const uids: string[] = [];
  for (const entry of desk.entries()) {
    if (entry.uid !== null && (owner === '' || entry.owner === owner)) uids.push(entry.uid);
  }
  return uids;
}

/** The task goes with everything it holds and wants. */
export function dropTask(desk: Desk, uid: string, now: Millis, options: TaskOptions = {}): TaskReply {
  desk.expire(now);
  const entry = personsTask(desk, uid);
  if (entry === undefined) return failed('BAD_REQUEST', uid, `Task not found: ${uid}`);
  const undone = entry.held.some((p) => p.action.type !== 'lock');
  if (undone && options.tabletsReachable === false)
    return failed(
      'UNAVAILABLE',
      uid,
      'what was drained or cordoned cannot be taken back now: nobody answers who could do it',
    );
  desk.drop(entry.id, now);
  return { ...failed('SUCCESS', uid, ''), issues: [] };
}

export interface CompleteReply {
  readonly status: TaskStatus;
  readonly issues: readonly string[];
  readonly actions: readonly { readonly id: string; readonly task: string; readonly status: TaskStatus }[];
}

/** A granted action, and the task it is thought to belong to where that is told. */
export interface ActionRef {
  readonly id: string;
  readonly task?: string;
}

/** Gives granted actions back before their deadline: all of them or, when one is unknown or of another task, none. */
export function completeActions(
  desk: Desk,
  asked: readonly (ActionRef | string)[],
  now: Millis,
): CompleteReply {
  desk.expire(now);
  const refs = asked.map((ref): ActionRef => (typeof ref === 'string' ? { id: ref } : ref));
  const ids = refs.map(({ id }) => id);
  const refuse = (status: TaskStatus, issue: string): CompleteReply => ({
    status,
    issues: [issue],
    actions: refs.map(({ id, task = '' }) => ({ id, task, status })),
  });
  if (ids.length === 0) return refuse('BAD_REQUEST', 'Empty actions');
  const found = ids.map((id) => desk.permission(id));
  const missing = refs.filter(({ task }, i) => {
    const entry = desk.entry(found[i]?.entry ?? '');
    return entry === undefined || (task !== undefined && task !== (entry.uid ?? entry.id));
  });
  if (missing.length > 0)
    return refuse('BAD_REQUEST', `Unknown permission: ${missing.map(refText).join(', ')}`);
  if (new Set(found.map((p) => p?.owner)).size > 1)
    return refuse('UNSUPPORTED', 'Actions of different owners cannot be completed together');
  const actions = ids.map((id) => {
    const entry = desk.entry(desk.permission(id)?.entry ?? '');
    return { id, task: entry?.uid ?? entry?.id ?? '', status: 'SUCCESS' as const };
  });
  for (const id of new Set(ids)) desk.complete(id, now);
  return { status: 'SUCCESS', issues: [], actions };
}

/** Granted actions are needed for so long from now on: all of them are held longer or, when one is not held any more, none. */
export function extendActions(desk: Desk, ids: readonly string[], duration: Millis, now: Millis): TaskStatus {
  desk.expire(now);
  const isHeld = (id: string): boolean => {
    const deadline = desk.permission(id)?.deadline;
    return deadline === null || (deadline !== undefined && deadline > now);
  };
  if (!ids.every(isHeld)) return 'BAD_REQUEST';
  for (const id of ids) desk.extend(id, now + duration, now);
  return 'SUCCESS';
}

/** What waits is not wanted any more; what is held stays held. A task that holds nothing is over. */
export function withdrawPending(desk: Desk, uid: string, now: Millis): TaskReply {
  desk.expire(now);
  const entry = personsTask(desk, uid);
  if (entry === undefined) return failed('BAD_REQUEST', uid, `Task not found: ${uid}`);
  desk.reject(entry.id);
  return desk.task(uid) === undefined ? { ...failed('SUCCESS', uid, ''), issues: [] } : viewOf(desk, uid);
}

const refText = ({ id, task }: ActionRef): string => (task === undefined ? id : `${id} of task ${task}`);

// ── the words of an answer ─────────────────────────────────────────────────────────────────────────────────────────

/** Newly granted first, then what is held from earlier, then what waits. */
function replyOf(desk: Desk, uid: string, answer: Answer, now: Millis): TaskReply {
  const entry = desk.task(uid) ?? answer.entry;
  if (entry === null || entry === undefined) return failed('SUCCESS', uid, '');
  const fresh = new Set(answer.granted.map((p) => p.id));
  // What was granted just now is what the rest waits for; the original tells no time then.
  const partly = answer.granted.length > 0 && entry.pending.length > 0 && entry.compat !== true;
  const rest = {
    pending: pendingViews(entry),
    retryAfter: answer.granted.length > 0 ? null : answer.retryAt,
  };
  const { pending, retryAfter } = partly ? waitsNow(desk, entry, now) : rest;
  const views = [
    ...answer.granted.map(performedView),
    ...byId(entry.held.filter((p) => !fresh.has(p.id))).map(performedView),
    ...pending,
  ];
  return { ...base(entry, grouped(views, entry.partial)), retryAfter };
}

function viewOf(desk: Desk, uid: string): TaskReply {
  const entry = desk.task(uid);
  if (entry === undefined) return failed('BAD_REQUEST', uid, `Task not found: ${uid}`);
  const views = [...byId(entry.held).map(performedView), ...pendingViews(entry)];
  return base(entry, grouped(views, entry.partial));
}

function dryReply(
  spec: TaskSpec,
  answer: Answer,
  composite: boolean,
  now: Millis,
  options: TaskOptions,
): TaskReply {
  const { compat = BETTER } = options;
  const { maxInFlight } = spec;
  const asked = { pending: answer.pending, partial: !composite, maxInFlight, compat: compat === ORIGINAL };
  const pending = compat.dryRunHidesPending ? [] : pendingViews(asked);
  const views = [...answer.granted.map((p) => ({ ...performedView(p), id: null })), ...pending];
  return {
    status: 'SUCCESS',
    issues: answer.pending.flatMap((p) => p.refusal?.message ?? []),
    uid: spec.uid,
    groups: grouped(views, !composite),
    retryAfter: answer.retryAt,
    createTime: now,
    lastRefreshTime: now,
    entry: null,
  };
}

const base = (entry: Entry, groups: readonly (readonly ActionView[])[]): TaskReply => ({
  status: 'SUCCESS',
  issues: [],
  uid: entry.uid ?? entry.id,
  groups,
  retryAfter: null,
  createTime: entry.createdAt,
  lastRefreshTime: entry.refreshedAt,
  entry,
});

const grouped = (views: readonly ActionView[], partial: boolean): readonly (readonly ActionView[])[] =>
  partial ? views.map((view) => [view]) : views.length === 0 ? [] : [views];

const byId = (held: readonly Permission[]): readonly Permission[] =>
  [...held].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));

const performedView = (p: Permission): ActionView => ({
  action: p.action,
  status: p.progress === undefined ? 'PERFORMED' : 'IN_PROGRESS',
  reason: 'OK',
  details: p.progress === undefined ? '' : `Progress: ${p.progress}%`,
  deadline: p.deadline,
  id: p.id,
  at: p.at,
  refusal: null,
});

/** What waits. An action that was not looked at says why, too: it waits for its own task (C1.2). */
function pendingViews({
  pending,
  partial,
  maxInFlight,
  compat,
}: Pick<Entry, 'pending' | 'partial' | 'maxInFlight' | 'compat'>): readonly ActionView[] {
  const silent = (compat === true ? ORIGINAL : BETTER).capUnexplained;
  return pending.map((p) => {
    const view = pendingView(p);
    if (p.refusal !== null || silent) return view;
    if (!partial) return { ...view, details: 'waits with its group: another action of it stands in the way' };
    if (maxInFlight === 0) return view;
    const details = `waits for its turn: the task holds at most ${maxInFlight} at a time`;
    return { ...view, reason: 'InFlightCap' as const, details };
  });
}

const pendingView = (p: Pending): ActionView => ({
  action: p.action,
  status: 'PENDING',
  reason: p.refusal?.reason ?? null,
  details: p.refusal?.message ?? '',
  deadline: null,
  id: null,
  at: p.at,
  refusal: p.refusal,
});
