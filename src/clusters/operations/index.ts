/**
 * Operations (A13): which of those asked for runs, how far it is, and how it ended. One at a time for each cluster, in
 * the order in which they were asked for (A13.6).
 */
import type { Millis } from '../../base/units.ts';
import { type OperationSpec, type OperationType, parseDuration } from '../../model/index.ts';
import { isHealthy, views } from '../interpret.ts';
import type { Scene } from '../planners/planner.ts';
import { needOf } from '../planners/rollout.ts';
import { neverSpared } from '../planners/sparing.ts';
import { groupsOf } from '../topology.ts';
import type {
  Desired,
  EndedOperation,
  MemberStage,
  Observed,
  OperationRequest,
  RunningOperation,
  State,
  WindowOverride,
} from '../types.ts';
import { activeOverride } from '../windows.ts';
import { START_BALANCER, STOP_BALANCER } from './balancer.ts';
import { busyText } from './busy.ts';
import { FORCE_RECONFIG } from './forceReconfig.ts';
import { MOVE } from './move.ts';
import { RAISE_FCV } from './raiseFcv.ts';
import { REPLACE } from './replace.ts';
import { RESTART } from './restart.ts';
import { ROTATE_TLS } from './rotateTls.ts';
import { ROTATE_USERS } from './rotateUsers.ts';
import type { OperationRule } from './rule.ts';
import { RESUME, SUSPEND } from './suspension.ts';

/** The rules there are; admission refuses other types. */
const RULES: Readonly<Partial<Record<OperationType, OperationRule>>> = {
  Restart: RESTART,
  RotateTLS: ROTATE_TLS,
  RotateUsers: ROTATE_USERS,
  Replace: REPLACE,
  Move: MOVE,
  RaiseFCV: RAISE_FCV,
  ForceReconfig: FORCE_RECONFIG,
  Suspend: SUSPEND,
  Resume: RESUME,
  StartBalancer: START_BALANCER,
  StopBalancer: STOP_BALANCER,
};

/** Types of operations that can be asked for. */
export const OPERATION_TYPES: readonly OperationType[] = [
  ...(Object.keys(RULES) as readonly OperationType[]),
  'OverrideWindows',
];

/** Why an operation can never be done as it is asked for, in one sentence; null when it can. */
export function operationRefusal(scene: Omit<Scene, 'all'>, request: OperationRequest): string | null {
  const { spec } = request;
  if (spec.type === 'OverrideWindows') {
    if (scene.desired.windows.length === 0) return 'the cluster has no maintenance windows';
    const none = spec.end === true && activeOverride(scene.desired, scene.state, scene.now) === null;
    return none ? 'no override is active: changes wait for the windows' : null;
  }
  const rule = RULES[request.spec.type];
  if (rule === undefined) return 'is not part of this version of Belay';
  return rule.refuse({ ...scene, all: views(scene.state, scene.observed) }, request);
}

/**
 * Why there is nothing to do for an operation that is just asked for; null when there is something. Not asked again when its turn
 * comes: one that takes an earlier one back is done by then, and succeeds.
 */
export function operationIdle(scene: Omit<Scene, 'all'>, { spec }: OperationRequest): string | null {
  if (spec.type !== 'Suspend' && spec.type !== 'Resume') return null;
  const { desired, state, observed } = scene;
  const suspend = spec.type === 'Suspend';
  const open = observed.requests.filter((r) => !r.cancelRequested && !isEnded(state, r.uid));
  // One that is on its way is what this one is to take back.
  const opposed = open.some((r) => r.spec.type === (suspend ? 'Resume' : 'Suspend'));
  if (opposed || desired.suspend !== suspend) return null;
  if (suspend) return state.suspended ? 'it is suspended already' : 'it is being suspended already';
  return state.suspended || state.phase === 'suspended'
    ? 'it is being resumed already'
    : 'it is not suspended: there is nothing to resume';
}

/**
 * Whether members of a group may neither be added nor removed now, because of an operation that runs (A13.6). A set that can
 * spare nobody may grow all the same: what the operation waits for may be those who are to come.
 */
export const holdsMembership = (state: State, desired: Desired, group: string): boolean =>
  state.operation !== null &&
  RULES[state.operation.type]?.movesMembers === false &&
  !growsFromFew(state, desired, group);

/** From this many voters on a set can spare one; of routers two are enough. */
const ENOUGH = 3;
const ENOUGH_ROUTERS = 2;

function growsFromFew({ members }: State, desired: Desired, name: string): boolean {
  const group = groupsOf(desired).find((g) => g.name === name);
  const full = members.filter((m) => m.replicaSet === name && FULL.has(m.stage)).length;
  const enough = group?.role === 'router' ? ENOUGH_ROUTERS : ENOUGH;
  return group !== undefined && full > 0 && full < enough && full < group.component.members.length;
}
const FULL: ReadonlySet<MemberStage> = new Set(['active', 'reloading', 'upgrading']);

/** What the record learns about operations: begun, gone on, ended. */
export function learnOperations(state: State, desired: Desired, observed: Observed, now: Millis): State {
  const scene = (current: State): Scene => ({
    observed,
    desired,
    state: current,
    now,
    all: views(current, observed),
  });
  let next = forgetTold(state, observed);
  if (desired.deleting !== null) return leaveAll(next, observed, now);
  next = cancelWaiting(next, observed, now);
  next = overrideWindows(next, observed, now);
  next = goOn(scene(next));
  return next.operation === null ? beginNext(scene(next)) : next;
}

/** An ended operation whose document says so is not a request any more, and need not be remembered. */
function forgetTold(state: State, observed: Observed): State {
  const open = new Set(observed.requests.map((r) => r.uid));
  const ended = state.ended.filter((e) => open.has(e.uid));
  return ended.length === state.ended.length ? state : { ...state, ended };
}

const isEnded = (state: State, uid: string): boolean => state.ended.some((e) => e.uid === uid);

const end = (state: State, entry: EndedOperation): State => ({ ...state, ended: [...state.ended, entry] });

const unbegun = (
  uid: string,
  how: Pick<EndedOperation, 'state' | 'message'>,
  now: Millis,
): EndedOperation => ({ uid, ...how, startedAt: null, finishedAt: now, completed: [] });

/** Nothing is begun or gone on with in a cluster that is being deleted. */
function leaveAll(state: State, observed: Observed, now: Millis): State {
  let next = stop(state, { state: 'Cancelled', message: 'the cluster is being deleted' }, now);
  for (const { uid } of observed.requests)
    if (!isEnded(next, uid))
      next = end(next, unbegun(uid, { state: 'Cancelled', message: 'the cluster is being deleted' }, now));
  return next;
}

/** C7.1: what a person needs now waits neither for windows nor behind other operations. */
function overrideWindows(state: State, observed: Observed, now: Millis): State {
  let next = state;
  for (const request of observed.requests) {
    const { uid, spec } = request;
    if (spec.type !== 'OverrideWindows' || isEnded(next, uid)) continue;
    const { windowOverride: before, ...rest } = next;
    const override = spec.end === true ? null : longer(before, overrideOf(request, spec, now));
    const message = overrideText(override, override === before, spec);
    const how = { state: 'Succeeded', message } as const;
    const over = { ...unbegun(uid, how, now), startedAt: now };
    next = end(override === null ? (rest as State) : { ...next, windowOverride: override }, over);
  }
  return next;
}

/** What became of it; one that ends before what is active takes nothing back, and is told so. */
function overrideText(
  override: WindowOverride | null,
  isKept: boolean,
  { duration, reason, mongodbResourceRef }: Extract<OperationSpec, { readonly type: 'OverrideWindows' }>,
): string {
  const because = reason === undefined ? '' : `: ${reason}`;
  if (override === null) return `changes wait for the windows again${because}`;
  const told = `changes do not wait for windows until ${new Date(override.until).toISOString()}`;
  if (!isKept) return `${told}${because}`;
  return `${told} already (${override.operation}), so ${duration} from now on changes nothing; to end it before, ask for its end: belay override-windows ${mongodbResourceRef.name} --end`;
}

function overrideOf(
  { name, requestedBy }: OperationRequest,
  { duration, reason }: Extract<OperationSpec, { readonly type: 'OverrideWindows' }>,
  now: Millis,
): WindowOverride {
  const lasts = parseDuration(duration);
  const until = now + (lasts.ok ? lasts.value : 0);
  return {
    until,
    operation: name,
    ...(reason === undefined ? {} : { reason }),
    ...(requestedBy === undefined ? {} : { requestedBy }),
  };
}

/** A later one never takes back what an earlier one gave: that may be somebody else's. */
const longer = (before: WindowOverride | undefined, next: WindowOverride): WindowOverride =>
  before != null && before.until >= next.until ? before : next;

function cancelWaiting(state: State, observed: Observed, now: Millis): State {
  let next = state;
  for (const { uid, cancelRequested } of observed.requests) {
    if (!cancelRequested || uid === state.operation?.uid || isEnded(next, uid)) continue;
    next = end(next, unbegun(uid, { state: 'Cancelled', message: 'cancelled before it began' }, now));
  }
  return next;
}

/** The record with the running operation ended. */
function stop(state: State, how: Pick<EndedOperation, 'state' | 'message'>, now: Millis): State {
  const { operation } = state;
  if (operation === null) return state;
  const { uid, startedAt, completed } = operation;
  return end({ ...state, operation: null }, { uid, ...how, startedAt, finishedAt: now, completed });
}

function goOn(scene: Scene): State {
  const { state, now, observed } = scene;
  const { operation } = state;
  const rule = operation === null ? undefined : RULES[operation.type];
  if (operation === null || rule === undefined) return state;
  const { completed, ended, left: rest } = rule.progress(scene, operation);
  const moved =
    completed.join() === operation.completed.join()
      ? state
      : { ...state, operation: { ...operation, completed } };
  if (ended !== null)
    return stop(rest === undefined ? moved : { ...rest, operation: moved.operation }, ended, now);
  const request = observed.requests.find((r) => r.uid === operation.uid);
  const back = takenBackBy(scene, operation);
  if (back !== undefined)
    return stop(moved, { state: 'Cancelled', message: `${back.name} takes it back` }, now);
  // A document that vanished asks for nothing any more.
  if (request !== undefined && !request.cancelRequested) return moved;
  const left = rule.cancel({ ...scene, state: moved }, moved.operation ?? operation);
  if (typeof left === 'string') return moved;
  return stop(left, { state: 'Cancelled', message: 'cancelled on request' }, now);
}

/** Whoever wants a cluster back does not wait for the end of its suspension, which may be waiting itself; nor the reverse. */
function takenBackBy({ state, observed }: Scene, operation: RunningOperation): OperationRequest | undefined {
  if (operation.work.kind !== 'Suspension') return undefined;
  const opposite = operation.work.suspend ? 'Resume' : 'Suspend';
  const own = observed.requests.find((r) => r.uid === operation.uid);
  return observed.requests.find(
    (r) =>
      r.spec.type === opposite &&
      !r.cancelRequested &&
      !isEnded(state, r.uid) &&
      r.createdAt >= (own?.createdAt ?? operation.startedAt),
  );
}

function beginNext(scene: Scene): State {
  const { state, observed, now } = scene;
  const open = observed.requests.filter((r) => !isEnded(state, r.uid));
  // What waits for the end of a suspension must not stand in the way of it.
  const request = scene.desired.suspend ? open.find(isSuspension) : nextOf(scene, open);
  if (request === undefined) return state;
  const rule = RULES[request.spec.type];
  const never = operationRefusal(scene, request);
  if (rule === undefined || never !== null)
    return end(state, unbegun(request.uid, { state: 'Failed', message: never ?? '' }, now));
  if (operationWaitsFor(scene, request) !== null) return state;
  const { begun, state: next } = rule.begin(scene, request);
  const operation = {
    uid: request.uid,
    name: request.name,
    type: request.spec.type,
    startedAt: now,
    completed: [],
    ...begun,
  };
  return { ...next, operation };
}

/**
 * In the order in which they were asked for, but a repair does not wait behind what waits for it: a restart that is refused
 * because a member is lost must not hold up that member's replacement (STK-05).
 */
function nextOf(scene: Scene, open: readonly OperationRequest[]): OperationRequest | undefined {
  const [first, ...others] = open;
  if (first === undefined || obstacleOf(scene, first) === null) return first;
  return others.find((r) => REPAIRS.has(r.spec.type) && obstacleOf(scene, r) === null) ?? first;
}
const REPAIRS: ReadonlySet<OperationType> = new Set<OperationType>(['Replace', 'ForceReconfig']);

/** How far the running operation is, in its own words, and why it cannot be cancelled now (null: it can). */
export function operationProgress(
  scene: Scene,
  operation: RunningOperation,
): { readonly current?: string; readonly percent?: number; readonly keeps: string | null } {
  const rule = RULES[operation.type];
  if (rule === undefined) return { keeps: null };
  const { current, percent } = rule.progress(scene, operation);
  const left = rule.cancel(scene, operation);
  return {
    ...(current === undefined ? {} : { current }),
    ...(percent === undefined ? {} : { percent }),
    keeps: typeof left === 'string' ? left : null,
  };
}
const isSuspension = ({ spec }: OperationRequest): boolean =>
  spec.type === 'Suspend' || spec.type === 'Resume';

/** As `operationWaitsFor`, for those who have no views yet. */
export const operationWait = (scene: Omit<Scene, 'all'>, request: OperationRequest): string | null =>
  operationWaitsFor({ ...scene, all: views(scene.state, scene.observed) }, request);

/** Why a request does not run now, in one sentence; null when it runs or may. */
export function operationWaitsFor(scene: Scene, request: OperationRequest): string | null {
  const own = obstacleOf(scene, request);
  if (own !== null || scene.state.operation !== null || scene.desired.suspend) return own;
  const open = scene.observed.requests.filter((r) => !isEnded(scene.state, r.uid));
  const next = nextOf(scene, open);
  return next === undefined || next.uid === request.uid ? null : `${next.name} was asked for before`;
}

/** A repair may be just what the one that runs waits for. */
const behind = ({ name }: RunningOperation, { spec }: OperationRequest): string =>
  `${name} runs, and operations go one at a time${REPAIRS.has(spec.type) ? `; not to wait for it: belay cancel ${name}` : ''}`;

/** Why it could not run even if it were the only one. */
function obstacleOf(scene: Scene, request: OperationRequest): string | null {
  const { state, desired } = scene;
  const { operation } = state;
  if (operation !== null) return operation.uid === request.uid ? null : behind(operation, request);
  if (desired.paused) return 'the cluster is paused';
  if (desired.suspend && !isSuspension(request))
    return `the cluster is suspended; it begins when that is resumed: belay resume ${desired.name}`;
  return RULES[request.spec.type]?.waitFor(scene, request) ?? unsettled(scene, request.spec);
}

/**
 * Passwords reach a member that lacks a change with that change only (CRD-11). One that can never be spared as the spec is would
 * hold up the rotation, and the rotation the members that would let it go (A13.6).
 */
function heldUp(scene: Scene): string | null {
  for (const view of scene.all) {
    const { role, replicaSet } = view.member;
    const need = needOf(scene, view.member);
    const members = scene.all.filter((v) => v.member.replicaSet === replicaSet);
    if (role === 'router' || (need !== 'reload' && need !== 'upgrade') || !isHealthy(view, members)) continue;
    const never = neverSpared(scene, view, members);
    if (never !== null) return `${never.detail}; ${never.fix}`;
  }
  return null;
}

/** An operation begins on a cluster that is as its spec says; one that moves members has its own question. */
function unsettled(scene: Scene, spec: OperationSpec): string | null {
  const { state } = scene;
  if (RULES[spec.type]?.movesMembers) return null;
  const held = spec.type === 'RotateUsers' ? heldUp(scene) : null;
  if (held !== null) return held;
  if (state.replicaSets.some((r) => r.stage !== 'ready')) return 'the cluster is not set up yet';
  const busy = state.members.filter((m) => m.stage !== 'active');
  // What is left of members that were replaced is in nobody's way.
  const pending = state.pending.filter((p) => state.members.some((m) => m.name === p.member));
  if (busy.length === 0 && pending.length === 0) return null;
  const who = busy.map(busyText).join(', ');
  return who === '' ? 'an infrastructure operation is under way' : who;
}
