/** The durable record of a cluster and its pure reducers. A reducer replaces every field it owns (A2.5, A7.5) and keeps foreign keys. */
import { check, unreachable } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { OperationFacts } from './facts.ts';
import {
  configRowOf,
  initiated,
  isHealthy,
  type MemberView,
  primaryOf,
  replicaSetIds,
  runsItsSnapshot,
  views,
} from './interpret.ts';
import { REPAIR_CAP, REPAIR_FIRST, RETRY_CAP, RETRY_FIRST, UNCONFIRMED } from './limits.ts';
import { goalOf } from './snapshotInputs.ts';
import { memberName, replicaSetName, untouched, wantedMember } from './topology.ts';
import type {
  AppliedUser,
  Desired,
  InfrastructureAction,
  MemberState,
  Observed,
  PendingOperation,
  ReplicaSetState,
  RetryState,
  State,
  Step,
  StepOutcome,
} from './types.ts';

/** A new cluster's record: uid, prefix and topology plan, nothing touched yet (A4.1). */
export function initialState(desired: Desired): State {
  const set = replicaSetName(desired);
  return {
    schema: 1,
    uid: desired.uid,
    backupPrefix: `${desired.namespace}/${desired.name}-${desired.uid.slice(0, 8)}`,
    phase: 'creating',
    configVersion: 1,
    goal: null,
    nextMemberIndex: desired.members.length,
    credentialsReady: false,
    members: desired.members.map((_, index) => plannedMember(desired.name, set, index)),
    replicaSets: [{ name: set, stage: 'bootstrap', initiating: false, replicaSetId: null, usersHash: null }],
    pending: [],
    retries: [],
    users: [],
    suspended: false,
    secretsDeleted: false,
  };
}

function plannedMember(cluster: string, replicaSet: string, index: number): MemberState {
  return {
    name: memberName(cluster, index),
    index,
    replicaSet,
    shardIndex: null,
    stage: 'planned',
    host: null,
    address: null,
    port: null,
    serviceId: null,
    volumeId: null,
    deployedVersion: null,
    activated: null,
    caughtUpSince: null,
  };
}

// ── small pieces ───────────────────────────────────────────────────────────────────────────────────────────────────

/** The state with one member changed. */
export function withMember(state: State, name: string, change: Partial<MemberState>): State {
  check(
    state.members.some((m) => m.name === name),
    'A2.2',
    `no member ${name}`,
  );
  return { ...state, members: state.members.map((m) => (m.name === name ? { ...m, ...change } : m)) };
}

/** The state with one replica set changed. */
export function withReplicaSet(state: State, name: string, change: Partial<ReplicaSetState>): State {
  return { ...state, replicaSets: state.replicaSets.map((r) => (r.name === name ? { ...r, ...change } : r)) };
}

export const memberOf = (state: State, name: string): MemberState | null =>
  state.members.find((m) => m.name === name) ?? null;

export const pendingOf = (state: State, member: string): PendingOperation | null =>
  state.pending.find((p) => p.member === member) ?? null;

export const retryOf = (state: State, action: string, target: string): RetryState | null =>
  state.retries.find((r) => r.action === action && r.member === target) ?? null;

const withoutPending = (state: State, member: string): State => ({
  ...state,
  pending: state.pending.filter((p) => p.member !== member),
});

const withoutRetry = (state: State, action: string, target: string): State =>
  retryOf(state, action, target) === null
    ? state
    : { ...state, retries: state.retries.filter((r) => r.action !== action || r.member !== target) };

/** A3.2: the wait before try number `failures + 1`. */
export function backoff(failures: number, first: Millis, cap: Millis): Millis {
  return Math.min(cap, first * 2 ** Math.min(failures - 1, 20));
}

function withFailure(
  state: State,
  action: string,
  target: string,
  code: string,
  message: string,
  now: Millis,
): State {
  const failures = (retryOf(state, action, target)?.failures ?? 0) + 1;
  const repair = !INFRASTRUCTURE.has(action);
  const wait = repair
    ? backoff(failures, REPAIR_FIRST, REPAIR_CAP)
    : backoff(failures, RETRY_FIRST, RETRY_CAP);
  const retry: RetryState = { action, member: target, failures, code, message, nextTryAt: now + wait };
  return {
    ...withoutRetry(state, action, target),
    retries: [...withoutRetry(state, action, target).retries, retry],
  };
}

const INFRASTRUCTURE: ReadonlySet<string> = new Set<InfrastructureAction>([
  'import',
  'deploy',
  'upgrade',
  'deleteRuntime',
  'deleteVolume',
]);

/** What a step is about: the second half of a retry's key, a journal entry's target and a step id's middle. */
export function targetOf(step: Step): string {
  switch (step.kind) {
    case 'ensureCredentials':
    case 'deleteSecrets':
    case 'forget':
      return 'cluster';
    case 'import':
    case 'adopt':
    case 'deploy':
    case 'upgrade':
    case 'publish':
    case 'reload':
    case 'deleteRuntime':
    case 'deleteVolume':
      return step.member;
    case 'reconfig':
    case 'stepDown':
    case 'initiate':
    case 'createFirstUser':
    case 'reconcileSystemUsers':
      return step.replicaSet;
    case 'applyUser':
      return step.user.uid;
    case 'dropUser':
      return `${step.db}.${step.username}`;
    default:
      return unreachable(step);
  }
}

// ── steps ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What is remembered before an effect, in the same transaction as the intent: infrastructure operations become pending. */
export function startStep(state: State, step: Step, stepId: string, now: Millis): State {
  switch (step.kind) {
    case 'initiate':
      return withReplicaSet(state, step.replicaSet, { initiating: true });
    case 'reload':
      // Before the effect, in the intent's own transaction: a crash in between must not let a second member go (S2).
      return withMember(state, step.member, { stage: 'reloading' });
    case 'applyUser': {
      // Once it is sent the database may know it: a document that goes before the answer came must not leave it there.
      if (state.users.some((u) => isUser(u, step.user))) return state;
      return { ...state, users: [...state.users, { ...appliedUser(step), hash: UNCONFIRMED }] };
    }
    case 'import':
    case 'deploy':
    case 'upgrade':
    case 'deleteRuntime':
    case 'deleteVolume': {
      const pending: PendingOperation = {
        action: step.kind,
        member: step.member,
        stepId,
        operationId: null,
        startedAt: now,
        version: step.kind === 'deploy' || step.kind === 'upgrade' ? step.version : null,
      };
      return {
        ...withoutPending(state, step.member),
        pending: [...withoutPending(state, step.member).pending, pending],
      };
    }
    default:
      return state;
  }
}

/** Folds a step's outcome into the record. An unknown outcome changes nothing: the next reading tells. */
export function applyOutcome(
  state: State,
  step: Step,
  stepId: string,
  outcome: StepOutcome,
  now: Millis,
): State {
  if (outcome.kind === 'unknown') return state;
  const target = targetOf(step);
  if (outcome.kind === 'failed') {
    const pending = pendingOf(state, target);
    const known =
      step.kind === 'initiate' ? withReplicaSet(state, step.replicaSet, { initiating: false }) : state;
    const cleared = pending?.stepId === stepId ? withoutPending(known, target) : known;
    return withFailure(cleared, step.kind, target, outcome.code, outcome.message, now);
  }
  const done = applyDone(state, step, stepId, outcome.result);
  // Infrastructure is only started here; its failures are over when the operation was seen to succeed (A2.4).
  return INFRASTRUCTURE.has(step.kind) ? done : withoutRetry(done, step.kind, target);
}

function applyDone(
  state: State,
  step: Step,
  stepId: string,
  result: Extract<StepOutcome, { kind: 'done' }>['result'],
): State {
  switch (step.kind) {
    case 'ensureCredentials':
      return { ...state, credentialsReady: true };
    case 'import':
    case 'deploy':
    case 'upgrade':
    case 'deleteRuntime':
    case 'deleteVolume':
      return {
        ...state,
        pending: state.pending.map((p) =>
          p.stepId === stepId ? { ...p, operationId: result.operationId ?? null } : p,
        ),
      };
    case 'adopt':
      return withMember(state, step.member, adopted(memberOf(state, step.member), step));
    case 'publish':
      return {
        ...withMember(state, step.member, { activated: result.snapshot ?? null }),
        configVersion: Math.max(state.configVersion, step.configVersion),
      };
    case 'reload':
      return {
        ...withMember(state, step.member, { activated: result.snapshot ?? null }),
        configVersion: Math.max(state.configVersion, step.configVersion),
      };
    case 'reconfig':
    case 'stepDown':
      return state; // the set's configuration and its primary are seen, not remembered
    case 'initiate':
      return state; // what members say next decides (S6)
    case 'createFirstUser':
      return withReplicaSet(state, step.replicaSet, { stage: 'users' });
    case 'reconcileSystemUsers':
      return withReplicaSet(state, step.replicaSet, { stage: 'ready', usersHash: result.usersHash ?? null });
    case 'applyUser':
      return { ...state, users: [...state.users.filter((u) => !isUser(u, step.user)), appliedUser(step)] };
    case 'dropUser':
      return {
        ...state,
        users: state.users.filter(
          (u) => u.username !== step.username || u.db !== step.db || u.uid !== step.uid,
        ),
      };
    case 'deleteSecrets':
      return { ...state, secretsDeleted: true };
    case 'forget':
      return state;
    default:
      return unreachable(step);
  }
}

/** A service found again brings its place along; an address that is in the set's configuration already stays. */
function adopted(member: MemberState | null, step: Extract<Step, { kind: 'adopt' }>): Partial<MemberState> {
  const { host, address, port } = step.placement;
  return {
    stage: 'imported',
    serviceId: step.serviceId,
    volumeId: step.volumeId,
    host,
    address: member?.address ?? address,
    port: port > 0 ? port : (member?.port ?? null),
  };
}

const appliedUser = (step: Extract<Step, { kind: 'applyUser' }>): AppliedUser => ({
  uid: step.user.uid,
  username: step.user.username,
  db: step.user.db,
  hash: step.hash,
});

// ── learning from a reading ────────────────────────────────────────────────────────────────────────────────────────

/**
 * What the record learns from a reading, before anything is planned: finished infrastructure operations, members that
 * became healthy, the set's identity, the phase. Pure; an unchanged world gives the same object back, so nothing is written.
 */
export function advance(state: State, desired: Desired, observed: Observed, now: Millis): State {
  let next = state;
  // One thing learnt leads to the next: a reading is used up before anything is planned on it, so that no plan is called
  // converged on half of what is known.
  for (let turn = 0; turn < LEARNING_TURNS; turn++) {
    const learnt = learn(next, desired, observed, now);
    if (learnt === next) break;
    next = learnt;
  }
  return next;
}

/** A member's longest way through its stages on one reading. */
const LEARNING_TURNS = 6;

function learn(state: State, desired: Desired, observed: Observed, now: Millis): State {
  let next = state;
  for (const pending of state.pending) next = learnOperation(next, pending, observed, now);
  next = learnVanished(next, observed);
  next = learnMembers(next, desired, observed, now);
  next = learnReplicaSets(next, observed);
  next = learnGoal(next, desired, observed);
  next = learnPhase(next, desired);
  return learnGone(learnMembership(next, desired));
}

function learnOperation(state: State, pending: PendingOperation, observed: Observed, now: Millis): State {
  const facts: OperationFacts | undefined =
    observed.operations[pending.stepId] ??
    (pending.operationId === null ? undefined : observed.operations[pending.operationId]);
  if (facts === undefined || facts.kind === 'running') return state;
  if (facts.kind === 'succeeded') return operationSucceeded(state, pending, facts.result);
  // A4.6: the platform has no memory of it: look at the services again and do what is missing.
  if (facts.kind === 'unknown') return withoutPending(state, pending.member);
  const code = facts.kind === 'failed' ? facts.code : 'Cancelled';
  return withFailure(
    withoutPending(state, pending.member),
    pending.action,
    pending.member,
    code,
    facts.message,
    now,
  );
}

function operationSucceeded(
  state: State,
  pending: PendingOperation,
  result: Readonly<Record<string, string | number>>,
): State {
  const cleared = withoutRetry(withoutPending(state, pending.member), pending.action, pending.member);
  const text = (key: string): string | null => (result[key] === undefined ? null : String(result[key]));
  switch (pending.action) {
    case 'import':
      return withMember(cleared, pending.member, {
        stage: 'imported',
        serviceId: text('serviceId'),
        volumeId: text('volumeId'),
        host: text('host'),
        address: text('address'),
        port: result['port'] === undefined ? null : Number(result['port']),
      });
    case 'deploy':
      return withMember(cleared, pending.member, { stage: 'deployed', deployedVersion: pending.version });
    case 'upgrade':
      // A8.1: an accepted deployment is no proof that a process changed.
      return withMember(cleared, pending.member, { stage: 'upgrading', deployedVersion: pending.version });
    case 'deleteRuntime':
      return withMember(withoutRetry(cleared, 'deploy', pending.member), pending.member, {
        stage: memberOf(cleared, pending.member)?.stage === 'removing' ? 'removing' : 'planned',
        serviceId: null,
        deployedVersion: null,
        activated: null,
        // A member's port is its name in the set; before there is a set it may get another one.
        ...(cleared.replicaSets.every(untouched) ? { port: null } : {}),
      });
    case 'deleteVolume':
      return withMember(cleared, pending.member, { volumeId: null });
    default:
      return unreachable(pending.action);
  }
}

/**
 * A runtime that its connected host neither reports nor lists is gone, whoever took it (A4.6): it is made anew at its
 * place on its volume. Silence alone proves nothing.
 */
function learnVanished(state: State, observed: Observed): State {
  const { services } = observed;
  if (services === null) return state;
  let next = state;
  for (const { name, stage, host, serviceId } of state.members) {
    const seen = observed.members.find((m) => m.name === name);
    const listed = observed.hosts.some((h) => h.name === host && h.connected);
    if (
      serviceId === null ||
      pendingOf(state, name) !== null ||
      seen?.facts !== null ||
      !seen.connected ||
      !listed
    )
      continue;
    if (services.some((s) => s.kind === 'runtime' && s.id === serviceId)) continue;
    next = withMember(next, name, {
      stage: stage === 'removing' ? stage : 'planned',
      serviceId: null,
      deployedVersion: null,
      activated: null,
      ...(state.replicaSets.every(untouched) ? { port: null } : {}),
    });
  }
  return next;
}

function learnMembers(state: State, desired: Desired, observed: Observed, now: Millis): State {
  let next = state;
  const settled = state.replicaSets.every((r) => r.stage === 'ready');
  const all = views(state, observed);
  for (const view of all) {
    const stage = view.member.stage;
    if (stage === 'deployed' && runsItsSnapshot(view))
      next = withMember(next, view.member.name, { stage: 'healthy' });
    if ((stage === 'healthy' || stage === 'syncing') && settled)
      next = learnJoining(next, desired, view, all, now);
    if ((stage === 'reloading' || stage === 'upgrading') && isBack(view, all)) {
      next = withMember(next, view.member.name, { stage: 'active' });
    }
  }
  return next;
}

/**
 * A6.3: a member that is in the set's configuration without its vote is syncing; one that has what the spec gives it is
 * active. While it syncs, since when it has kept up is remembered.
 */
function learnJoining(
  state: State,
  desired: Desired,
  view: MemberView,
  all: readonly MemberView[],
  now: Millis,
): State {
  const row = configRowOf(view, all);
  const wanted = wantedMember(state, desired, view.member);
  if (row === null) return state;
  const { name, stage, caughtUpSince } = view.member;
  // One the spec has no place for any more was a full member; it leaves when the set runs.
  if (wanted === null || row.votes === wanted.votes)
    return withMember(state, name, { stage: 'active', caughtUpSince: null });
  const since = isHealthy(view, all) ? (caughtUpSince ?? now) : null;
  if (stage === 'syncing' && since === caughtUpSince) return state;
  return withMember(state, name, { stage: 'syncing', caughtUpSince: since });
}

/** A6.3, A6.4: too few members get new ones with new indexes; too many are marked from the highest index down. */
function learnMembership(state: State, desired: Desired): State {
  if (desired.deleting !== null || desired.suspend) return state;
  const staying = state.members.filter((m) => m.stage !== 'removing');
  const missing = desired.members.length - staying.length;
  const set = replicaSetName(desired);
  if (missing > 0) {
    const first = state.nextMemberIndex;
    const added = Array.from({ length: missing }, (_, i) => plannedMember(desired.name, set, first + i));
    return { ...state, members: [...state.members, ...added], nextMemberIndex: first + missing };
  }
  // After a suspension all members come back first: only a set that runs can let one go (A6.4, S4).
  if (state.phase !== 'running' && !state.replicaSets.every(untouched)) return state;
  const surplus = new Set(
    [...staying]
      .sort((a, b) => b.index - a.index)
      .slice(0, -missing || 0)
      .map((m) => m.name),
  );
  if (surplus.size === 0) return state;
  return {
    ...state,
    members: state.members.map((m) => (surplus.has(m.name) ? { ...m, stage: 'removing' as const } : m)),
  };
}

/** A removed member of which nothing is left is forgotten with everything kept about it. */
function learnGone(state: State): State {
  const gone = state.members.filter(
    (m) =>
      m.stage === 'removing' &&
      m.serviceId === null &&
      m.volumeId === null &&
      pendingOf(state, m.name) === null,
  );
  if (gone.length === 0) return state;
  const names = new Set(gone.map((m) => m.name));
  return {
    ...state,
    members: state.members.filter((m) => !names.has(m.name)),
    retries: state.retries.filter((r) => !names.has(r.member)),
  };
}

/** A8.1, A9.4: it runs the binary and the snapshot it was given, and has caught up. */
function isBack(view: MemberView, all: readonly MemberView[]): boolean {
  const members = all.filter((v) => v.member.replicaSet === view.member.replicaSet);
  const binary =
    view.member.deployedVersion === null || view.database?.binaryVersion === view.member.deployedVersion;
  return binary && runsItsSnapshot(view) && isHealthy(view, members);
}

/** The goal of this spec and phase; a new one gets a new version (A9.1). */
function learnGoal(state: State, desired: Desired, observed: Observed): State {
  const all = views(state, observed);
  const isDown = (v: MemberView): boolean =>
    v.facts !== null && (v.facts.process.kind === 'exited' || v.facts.configError !== null);
  const stuck = all.some((v) => v.member.stage === 'reloading' && isDown(v));
  // What a member was given is not yet what it runs with; others speak to it as soon as the set knows it.
  const settling = all.some(
    (v) => v.member.activated !== null && configRowOf(v, all) !== null && !runsItsSnapshot(v) && !isDown(v),
  );
  const goal = goalOf(state, desired, stuck, settling);
  if (state.goal?.hash === goal.hash) return state;
  return {
    ...state,
    goal,
    configVersion: state.goal === null ? state.configVersion : state.configVersion + 1,
  };
}

function learnReplicaSets(state: State, observed: Observed): State {
  let next = state;
  const all = views(state, observed);
  for (const set of state.replicaSets) {
    const members = all.filter((v) => v.member.replicaSet === set.name);
    const ids = replicaSetIds(members, null);
    if (
      set.replicaSetId === null &&
      ids.length === 1 &&
      initiated(members) === true &&
      primaryOf(members) !== null
    ) {
      next = withReplicaSet(next, set.name, { replicaSetId: ids[0] as string });
    }
  }
  return next;
}

function learnPhase(state: State, desired: Desired): State {
  const running =
    state.replicaSets.every((r) => r.stage === 'ready') && state.members.every((m) => m.stage === 'active');
  const atRest = (m: MemberState): boolean => m.stage === 'planned' || m.stage === 'removing';
  const gone = state.members.every((m) => m.serviceId === null && atRest(m)) && state.pending.length === 0;
  const suspended = desired.suspend && gone;
  const phase =
    desired.deleting !== null
      ? 'deleting'
      : suspended
        ? 'suspended'
        : running
          ? 'running'
          : state.phase === 'deleting'
            ? 'creating'
            : state.phase;
  const settledPhase = phase === 'suspended' && !desired.suspend ? 'creating' : phase;
  return settledPhase === state.phase && suspended === state.suspended
    ? state
    : { ...state, phase: settledPhase, suspended };
}

const isUser = (
  applied: AppliedUser,
  user: { readonly uid: string; readonly username: string; readonly db: string },
): boolean => applied.uid === user.uid && applied.username === user.username && applied.db === user.db;
