/**
 * The durable record of a cluster and the small changes it is made of. A change replaces every field it owns (A2.5, A7.5) and
 * keeps foreign keys. What steps do to the record is told in `steps.ts`, what readings do to it in `learn.ts`.
 */
import { check } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import { REPAIR_CAP, REPAIR_FIRST, RETRY_CAP, RETRY_FIRST } from './limits.ts';
import { type Group, groupsOf, memberName } from './topology.ts';
import type {
  Desired,
  InfrastructureAction,
  MemberState,
  PendingOperation,
  ReplicaSetState,
  RetryState,
  State,
} from './types.ts';

/** A new cluster's record: uid, prefix and topology plan, nothing touched yet (A4.1). */
export function initialState(desired: Desired): State {
  const groups = groupsOf(desired);
  return {
    schema: 1,
    uid: desired.uid,
    backupPrefix: `${desired.namespace}/${desired.name}-${desired.uid.slice(0, 8)}`,
    phase: 'creating',
    configVersion: 1,
    goal: null,
    nextMemberIndex: Object.fromEntries(groups.map((g) => [g.name, g.component.members.length])),
    credentialsReady: false,
    members: groups.flatMap((g) => g.component.members.map((_, index) => plannedMember(g, index))),
    replicaSets: groups.flatMap((g) => plannedSet(g) ?? []),
    pending: [],
    retries: [],
    users: [],
    suspended: false,
    secretsDeleted: false,
    balancer: null,
    operation: null,
    ended: [],
  };
}

/** The record of a set that nothing was done for yet; null for routers, which form none. */
export function plannedSet({ name, role, shardIndex }: Omit<Group, 'component'>): ReplicaSetState | null {
  if (role === 'router') return null;
  return {
    name,
    role,
    shardIndex,
    registered: false,
    stage: 'bootstrap',
    initiating: false,
    replicaSetId: null,
    usersHash: null,
  };
}

/** A member that nothing was done for yet. */
export function plannedMember(group: Omit<Group, 'component'>, index: number): MemberState {
  return {
    name: memberName(group.name, index),
    index,
    role: group.role,
    replicaSet: group.name,
    shardIndex: group.shardIndex,
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

/** The state with one member changed, be it retired already. */
export function withMember(state: State, name: string, change: Partial<MemberState>): State {
  check(memberOf(state, name) !== null, 'A2.2', `no member ${name}`);
  const changed = (members: readonly MemberState[]): readonly MemberState[] =>
    members.map((m) => (m.name === name ? { ...m, ...change } : m));
  const retired = state.retired === undefined ? {} : { retired: changed(state.retired) };
  return { ...state, members: changed(state.members), ...retired };
}

/** Takes a member that is out of its set for good out of the list of members: what is left of it is in nobody's way. */
export function retire(state: State, name: string): State {
  const member = state.members.find((m) => m.name === name);
  check(member !== undefined, 'A2.2', `no member ${name}`);
  const { replacement: _, ...left } = { ...member, stage: 'removing' as const, caughtUpSince: null };
  return {
    ...state,
    members: state.members.filter((m) => m.name !== name),
    retired: [...(state.retired ?? []), left],
    retries: state.retries.filter((r) => r.member !== name),
  };
}

/** Among the members again, and to leave: its set has it in its configuration after all. */
export function unretire(state: State, name: string): State {
  const member = state.retired?.find((m) => m.name === name);
  check(member !== undefined, 'A2.2', `no retired member ${name}`);
  const kept = forgetMembers(state, new Set([name]));
  return { ...kept, pending: state.pending, members: [...kept.members, member] };
}

/** The state without these members and everything kept about them. */
export function forgetMembers(state: State, names: ReadonlySet<string>): State {
  const retired = state.retired?.filter((m) => !names.has(m.name)) ?? [];
  const { retired: _, ...rest } = state;
  return {
    ...(rest as State),
    members: state.members.filter((m) => !names.has(m.name)),
    pending: state.pending.filter((p) => !names.has(p.member)),
    retries: state.retries.filter((r) => !names.has(r.member)),
    ...(retired.length === 0 ? {} : { retired }),
  };
}

/** All whose runtimes and volumes are ours: members and retired ones. */
export const everyMember = (state: Pick<State, 'members' | 'retired'>): readonly MemberState[] =>
  state.retired === undefined ? state.members : [...state.members, ...state.retired];

/** The state with one replica set changed. */
export function withReplicaSet(state: State, name: string, change: Partial<ReplicaSetState>): State {
  return { ...state, replicaSets: state.replicaSets.map((r) => (r.name === name ? { ...r, ...change } : r)) };
}

export const memberOf = (state: State, name: string): MemberState | null =>
  everyMember(state).find((m) => m.name === name) ?? null;

export const pendingOf = (state: State, member: string): PendingOperation | null =>
  state.pending.find((p) => p.member === member) ?? null;

/** Its runtime is being removed for a suspension that was taken back: it goes, however well it looks, and comes back (S2). */
export const losesItsRuntime = (state: State, { name, stage }: MemberState): boolean =>
  stage !== 'removing' && pendingOf(state, name)?.action === 'deleteRuntime';

export const retryOf = (state: State, action: string, target: string): RetryState | null =>
  state.retries.find((r) => r.action === action && r.member === target) ?? null;

/** The state without what is under way for a member. */
export const withoutPending = (state: State, member: string): State => ({
  ...state,
  pending: state.pending.filter((p) => p.member !== member),
});

/** The state with the failures of an action forgotten. */
export const withoutRetry = (state: State, action: string, target: string): State =>
  retryOf(state, action, target) === null
    ? state
    : { ...state, retries: state.retries.filter((r) => r.action !== action || r.member !== target) };

/** A3.2: the wait before try number `failures + 1`. */
export function backoff(failures: number, first: Millis, cap: Millis): Millis {
  return Math.min(cap, first * 2 ** Math.min(failures - 1, 20));
}

/** A3.1: one failure more, and when the next try is. */
export function withFailure(
  state: State,
  action: string,
  target: string,
  code: string,
  message: string,
  now: Millis,
  retry: 'later' | 'never' = 'later',
): State {
  const failures = (retryOf(state, action, target)?.failures ?? 0) + 1;
  const repair = !isInfrastructure(action);
  const wait = repair
    ? backoff(failures, REPAIR_FIRST, REPAIR_CAP)
    : backoff(failures, RETRY_FIRST, RETRY_CAP);
  // A3.2: infrastructure is tried without end; only what a database or an agent refuses for good waits for a change.
  const refused = repair && retry === 'never';
  const next: RetryState = {
    action,
    member: target,
    failures,
    code,
    message,
    nextTryAt: now + (refused ? RETRY_CAP : wait),
    ...(refused ? { refused: { on: null } } : {}),
  };
  return {
    ...withoutRetry(state, action, target),
    retries: [...withoutRetry(state, action, target).retries, next],
  };
}

const INFRASTRUCTURE: ReadonlySet<string> = new Set<InfrastructureAction>([
  'growVolume',
  'import',
  'deploy',
  'upgrade',
  'deleteRuntime',
  'deleteVolume',
]);

/** Kinds of steps that are under way as long as the record has them pending. */
export const isInfrastructure = (kind: string): boolean => INFRASTRUCTURE.has(kind);
