/**
 * Judging raw facts. Every "is it healthy?" of planners, guard and status is answered here, with one rule above all:
 * unknown is never healthy.
 */
import type { ConfigMember, DatabaseFacts, MemberFacts, MemberStateName, ReplSetConfig } from './facts.ts';
import { LAG_LIMIT } from './limits.ts';
import { memberHost } from './topology.ts';
import type { MemberState, Observed, ObservedMember, State } from './types.ts';

type Reachable = Extract<DatabaseFacts, { kind: 'reachable' }>;

/** A member as far as it is known right now. */
export interface MemberView {
  readonly member: MemberState;
  readonly observed: ObservedMember | null;
  /** Facts we may rely on: reported over a channel that is open. */
  readonly facts: MemberFacts | null;
  readonly database: Reachable | null;
}

/** All members of a state with what is known of each. */
export function views(state: State, observed: Observed): readonly MemberView[] {
  const byName = new Map(observed.members.map((m) => [m.name, m]));
  return state.members.map((member) => view(member, byName.get(member.name) ?? null));
}

function view(member: MemberState, observed: ObservedMember | null): MemberView {
  const facts = observed?.connected ? observed.facts : null;
  const database = facts?.database?.kind === 'reachable' ? facts.database : null;
  return { member, observed, facts, database };
}

/** The process runs with the snapshot it was given and answers. */
export function runsItsSnapshot(view: MemberView): boolean {
  const wanted = view.member.activated?.configVersion ?? 0;
  return (
    view.database !== null &&
    view.facts?.process.kind === 'running' &&
    wanted > 0 &&
    view.facts.configVersion >= wanted
  );
}

/** State as the member itself gives it; null when unknown. */
export const stateOf = (view: MemberView): MemberStateName | null => view.database?.state ?? null;

/** The member's lag behind the primary as the set sees it; null when unknown. The primary has none. */
export function lagOf(view: MemberView, all: readonly MemberView[]): number | null {
  if (stateOf(view) === 'PRIMARY') return 0;
  const host = memberHost(view.member);
  for (const witness of [primaryOf(all), view]) {
    const row = witness?.database?.peers.find((p) => p.host === host);
    if (row && row.lagMillis !== null) return row.lagMillis;
  }
  return null;
}

/** S1: PRIMARY, or SECONDARY within the lag limit. Unknown lag of a secondary counts as unhealthy. */
export function isHealthy(view: MemberView, all: readonly MemberView[]): boolean {
  const state = stateOf(view);
  if (state === 'PRIMARY') return view.database?.writablePrimary === true;
  if (state !== 'SECONDARY') return false;
  const lag = lagOf(view, all);
  return lag !== null && lag <= LAG_LIMIT;
}

/** The one writable primary of the newest term, or null. An old primary that has not noticed yet loses by term. */
export function primaryOf(all: readonly MemberView[]): MemberView | null {
  let best: MemberView | null = null;
  for (const candidate of all) {
    if (!candidate.database?.writablePrimary) continue;
    if (best === null || (candidate.database.term ?? -1) > (best.database?.term ?? -1)) best = candidate;
  }
  return best;
}

/** The set's configuration as its primary has it. */
export const configOf = (all: readonly MemberView[]): ReplSetConfig | null =>
  primaryOf(all)?.database?.config ?? null;

/** A member's row in it; null when it is not in the set (yet, or any more) or that is not known. */
export function configRowOf(view: MemberView, all: readonly MemberView[]): ConfigMember | null {
  const host = memberHost(view.member);
  return configOf(all)?.members.find((m) => m.host === host) ?? null;
}

/**
 * A member of a running set that does not count yet: not in the configuration, or without its vote. Nothing is lost when its
 * process restarts, so changes reach it directly; the roller leaves it alone.
 */
export function isNewcomer(view: MemberView, all: readonly MemberView[]): boolean {
  const { stage } = view.member;
  if (stage !== 'deployed' && stage !== 'healthy' && stage !== 'syncing') return false;
  const row = configRowOf(view, all);
  return configOf(all) !== null && (row === null || row.votes === 0);
}

/** Votes needed for a majority of this many voters. */
export const majority = (voters: number): number => Math.floor(voters / 2) + 1;

export interface Quorum {
  readonly voters: number;
  readonly healthyVoters: number;
  readonly needed: number;
}

/** Voters of the committed configuration and how many of them are healthy. Without a configuration: the state's members. */
export function quorumOf(all: readonly MemberView[]): Quorum {
  const config =
    primaryOf(all)?.database?.config ?? all.find((v) => v.database?.config)?.database?.config ?? null;
  const votes = new Map(config?.members.map((m) => [m.host, m.votes]) ?? []);
  const voting = config === null ? all : all.filter((v) => votes.get(memberHost(v.member) ?? '') === 1);
  const voters = config === null ? all.length : config.members.filter((m) => m.votes === 1).length;
  return { voters, healthyVoters: voting.filter((v) => isHealthy(v, all)).length, needed: majority(voters) };
}

/** The set was initiated as far as any member tells: true as soon as one says so, false only when all say no. */
export function initiated(all: readonly MemberView[]): boolean | null {
  if (all.some((v) => v.database?.initiated === true)) return true;
  return all.length > 0 && all.every((v) => v.database?.initiated === false) ? false : null;
}

/** Different replica-set ids seen under one cluster (INI-06); more than one means a stray set. */
export function replicaSetIds(all: readonly MemberView[], recorded: string | null): readonly string[] {
  const ids = new Set<string>(recorded === null ? [] : [recorded]);
  for (const v of all) if (v.database?.replicaSetId) ids.add(v.database.replicaSetId);
  return [...ids];
}
