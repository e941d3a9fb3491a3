/** Records that older versions wrote (UPG-06): a new control plane goes on with them as if nothing had happened. */
import type { ActivatedSnapshot, MemberState, ReplicaSetState, State } from './types.ts';

/** What a record had before operations, sharded clusters and remembered certificates. */
interface OlderState {
  readonly [key: string]: unknown;
  readonly nextMemberIndex: number | State['nextMemberIndex'];
  readonly members: readonly Older<MemberState>[];
  readonly replicaSets: readonly Older<ReplicaSetState>[];
}
type Older<T> = Partial<T> & Pick<T, 'name' & keyof T>;

/**
 * The record as this version knows it; the very same when nothing is missing. Nothing is changed that would be a new reason
 * to touch a member: a certificate that was not remembered counts as the one the member has.
 */
export function recordOf(value: unknown): State {
  const stored = value as OlderState;
  if (stored['operation'] !== undefined && typeof stored.nextMemberIndex !== 'number') return value as State;
  const { nextMemberIndex: next } = stored;
  const set = stored.replicaSets[0]?.name ?? '';
  return {
    ...stored,
    nextMemberIndex: typeof next === 'number' ? { [set]: next } : next,
    members: stored.members.map(memberOf),
    replicaSets: stored.replicaSets.map(setOf),
    balancer: stored['balancer'] ?? null,
    operation: stored['operation'] ?? null,
    ended: stored['ended'] ?? [],
  } as unknown as State;
}

const memberOf = (member: Older<MemberState>): MemberState =>
  ({
    role: 'replicaSet',
    ...member,
    activated: member.activated == null ? null : activatedOf(member.activated),
  }) as MemberState;

function activatedOf(snapshot: ActivatedSnapshot & { certificateFingerprint?: unknown }): ActivatedSnapshot {
  const { certificateFingerprint: _, ...rest } = snapshot;
  return {
    ...rest,
    certificate: rest.certificate ?? null,
    restartToken: rest.restartToken ?? null,
    loginToken: rest.loginToken ?? null,
  };
}

const setOf = (set: Older<ReplicaSetState>): ReplicaSetState =>
  ({ role: 'replicaSet', shardIndex: null, registered: false, ...set }) as ReplicaSetState;
