/**
 * Judging raw facts. Every "is it healthy?" of planners, guard and status is answered here, with one rule above all:
 * unknown is never healthy.
 */
import { SECOND } from '../base/units.ts';
import type {
  ConfigMember,
  DatabaseFacts,
  MemberFacts,
  MemberStateName,
  PeerFacts,
  ReplSetConfig,
} from './facts.ts';
import { LAG_LIMIT } from './limits.ts';
import { memberHost, untouched } from './topology.ts';
import type { MemberState, Observed, ObservedMember, ReplicaSetState, State } from './types.ts';

type Reachable = Extract<DatabaseFacts, { kind: 'reachable' }>;

/** A member as far as it is known right now. */
export interface MemberView {
  readonly member: MemberState;
  readonly observed: ObservedMember | null;
  /** Facts we may rely on: reported over a channel that is open. */
  readonly facts: MemberFacts | null;
  readonly database: Reachable | null;
}

/** What was asked for last, and the answer: a pass asks the same a dozen times, and lists are replaced, never changed. */
let last: {
  readonly members: State['members'];
  readonly seen: Observed['members'];
  readonly all: readonly MemberView[];
} | null = null;

/** All members of a state with what is known of each. Equal lists give the same answer, so that what is worked out of it is kept. */
export function views({ members }: State, { members: seen }: Observed): readonly MemberView[] {
  if (last?.members !== members || last.seen !== seen) {
    const byName = new Map(seen.map((m) => [m.name, m]));
    last = { members, seen, all: members.map((m) => view(m, byName.get(m.name) ?? null)) };
  }
  return last.all;
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

/** It was sent a snapshot and nobody knows whether it has it: what it runs with may be another than is remembered. */
export const isUnanswered = ({ unanswered = [], activated }: MemberState): boolean =>
  unanswered.some((version) => version > (activated?.configVersion ?? 0));

/** It votes and has been given a snapshot that it has not taken over yet, so it restarts any moment (S2). */
export function takesOver(view: MemberView, all: readonly MemberView[]): boolean {
  const given = view.member.activated?.configVersion ?? 0;
  return view.facts !== null && view.facts.configVersion < given && configRowOf(view, all)?.votes === 1;
}

/** Its agent says that no process of it runs: what it could give to others it does not give now. */
export const hasEnded = ({ facts }: MemberView): boolean =>
  facts !== null && (facts.process.kind === 'exited' || facts.process.kind === 'absent');

/**
 * S2: it was given a change, or may have been, and still runs without it: it goes down any moment, however well it looks.
 * Who is down already, or unknown, is counted on by nobody anyway.
 */
export function isAboutToRestart({ member, facts, database }: MemberView, state: State): boolean {
  if (state.pending.some((p) => p.member === member.name && TAKES_DOWN.has(p.action))) return true;
  if (facts === null || database === null) return false;
  if (member.stage === 'upgrading') return database.binaryVersion !== member.deployedVersion;
  const behind = facts.configVersion < (member.activated?.configVersion ?? 0);
  return member.stage === 'reloading' && (behind || isUnanswered(member));
}

/** Operations that end the process of their member, at any moment until they are over. */
const TAKES_DOWN: ReadonlySet<string> = new Set(['upgrade', 'deleteRuntime']);

/** State as the member itself gives it; null when unknown. */
export const stateOf = (view: MemberView): MemberStateName | null => view.database?.state ?? null;

/** What the members of one set say together. */
interface SetView {
  readonly members: readonly MemberView[];
  readonly primary: MemberView | null;
  /** The primary's own words about the others, by `host:port`. */
  readonly peers: ReadonlyMap<string, PeerFacts>;
  readonly rows: ReadonlyMap<string, ConfigMember>;
}

/** Worked out once for each list: asked for every member, it would make a decision cost the square of their number. */
const known = new WeakMap<readonly MemberView[], Map<string, SetView>>();

function setOf(view: MemberView, all: readonly MemberView[]): SetView {
  const sets = known.get(all) ?? new Map<string, SetView>();
  known.set(all, sets);
  const { replicaSet } = view.member;
  const found = sets.get(replicaSet) ?? setView(all.filter((v) => v.member.replicaSet === replicaSet));
  sets.set(replicaSet, found);
  return found;
}

function setView(members: readonly MemberView[]): SetView {
  const primary = primaryOf(members);
  const database = primary?.database ?? null;
  return {
    members,
    primary,
    peers: new Map(database?.peers.map((p) => [p.host, p]) ?? []),
    rows: new Map(database?.config?.members.map((row) => [row.host, row]) ?? []),
  };
}

/** The member's lag behind its primary as the set sees it; null when unknown. The primary has none. `all` may hold other sets' members too. */
export function lagOf(view: MemberView, all: readonly MemberView[]): number | null {
  if (stateOf(view) === 'PRIMARY') return 0;
  const host = memberHost(view.member);
  if (host === null) return null;
  const told = setOf(view, all).peers.get(host) ?? view.database?.peers.find((p) => p.host === host);
  if (told !== undefined && told.lagMillis !== null) return told.lagMillis;
  return view.database?.peers.find((p) => p.host === host)?.lagMillis ?? null;
}

/** Its agent is ending it: it answers as before for a while, and is not counted on any more. */
export const isStopping = ({ facts }: MemberView): boolean =>
  facts?.process.kind === 'running' && facts.process.stopping === true;

/**
 * S1: PRIMARY, or SECONDARY within the lag limit. Unknown lag of a secondary counts as unhealthy. A router is healthy when
 * it answers and reaches its config servers. Whoever is being stopped is not.
 */
export function isHealthy(view: MemberView, all: readonly MemberView[]): boolean {
  if (isStopping(view)) return false;
  if (view.member.role === 'router') return view.database?.router?.configReachable === true;
  const state = stateOf(view);
  if (state === 'PRIMARY') return view.database?.writablePrimary === true;
  if (state !== 'SECONDARY') return false;
  const lag = lagOf(view, all);
  return lag !== null && lag <= LAG_LIMIT + delayOf(view, all);
}

/** A member that is to be behind, and does not vote, is well at its distance; a voter's acknowledgement would come too late. */
function delayOf(view: MemberView, all: readonly MemberView[]): number {
  const row = configRowOf(view, all);
  return row === null || row.votes === 1 ? 0 : (row.secondaryDelaySecs ?? 0) * SECOND;
}

/**
 * ROL-07: the first of its healthy peers that calls this member unhealthy; null: none does. A process that runs is not yet
 * one its set counts on.
 */
export function doubterOf(view: MemberView, all: readonly MemberView[]): MemberView | null {
  const { members } = setOf(view, all);
  const host = memberHost(view.member);
  const found = doubted.get(members) ?? doubtsAmong(members);
  doubted.set(members, found);
  return host === null ? null : (found.get(host)?.find((peer) => peer !== view) ?? null);
}

/** By the doubted member's `host:port`, those that call it unhealthy. */
type Doubts = ReadonlyMap<string, readonly MemberView[]>;
const doubted = new WeakMap<readonly MemberView[], Doubts>();

function doubtsAmong(members: readonly MemberView[]): Doubts {
  const found = new Map<string, MemberView[]>();
  for (const peer of members) {
    if (!isHealthy(peer, members)) continue;
    for (const { host, healthy } of peer.database?.peers ?? [])
      if (!healthy) found.set(host, [...(found.get(host) ?? []), peer]);
  }
  return found;
}

/** The one writable primary of the newest term among the members of one set, or null. An old primary that has not noticed yet loses by term. */
export function primaryOf(members: readonly MemberView[]): MemberView | null {
  let best: MemberView | null = null;
  for (const candidate of members) {
    if (!candidate.database?.writablePrimary) continue;
    if (best === null || (candidate.database.term ?? -1) > (best.database?.term ?? -1)) best = candidate;
  }
  return best;
}

/**
 * S3: a secondary that may lead by now: nobody says that he leads, nor does anybody name somebody who may. An election is on,
 * or was, and readings that are still to come tell of it.
 */
export function mayLeadByNow(view: MemberView, members: readonly MemberView[]): boolean {
  if (stateOf(view) !== 'SECONDARY' || members.length === 1 || primaryOf(members) !== null) return false;
  const following = new Set(members.filter((v) => v.database !== null).map((v) => memberHost(v.member)));
  return members.every((v) => !v.database?.primary || following.has(v.database.primary));
}

/** The set's configuration as its primary has it. */
export const configOf = (members: readonly MemberView[]): ReplSetConfig | null =>
  primaryOf(members)?.database?.config ?? null;

/**
 * The reading is from before the set took its last configuration: who votes by it may not vote any more (S1). One that was
 * lost with its primary is known by the term, which never goes back; a forced one has none.
 */
export function isBehind(
  { reconfigured }: Pick<ReplicaSetState, 'reconfigured'>,
  members: readonly MemberView[],
): boolean {
  const config = configOf(members);
  if (config === null || reconfigured === undefined) return false;
  const term = config.term ?? null;
  if (term === reconfigured.term) return config.version < reconfigured.version;
  return term !== null && reconfigured.term !== null && term < reconfigured.term;
}

/** A member's row in its set's configuration; null when it is not in the set (yet, or any more) or that is not known. */
export function configRowOf(view: MemberView, all: readonly MemberView[]): ConfigMember | null {
  const host = memberHost(view.member);
  return host === null ? null : (setOf(view, all).rows.get(host) ?? null);
}

/**
 * Out of the configuration as the primary has it, and not by a reading from before the last change of it; before the set was initiated nobody is in. A member without a snapshot
 * may still be in: it was suspended (S4).
 */
export function isOut(
  { all, state }: { readonly all: readonly MemberView[]; readonly state: State },
  member: MemberState,
): boolean {
  const set = state.replicaSets.find((r) => r.name === member.replicaSet);
  // Routers are in no configuration: clients go to the others.
  if (set === undefined || untouched(set)) return true;
  const members = all.filter((v) => v.member.replicaSet === member.replicaSet);
  const config = configOf(members);
  const host = memberHost(member);
  return config !== null && !isBehind(set, members) && !config.members.some((row) => row.host === host);
}

/**
 * A member of a running set that does not count yet: not in the configuration, or without its vote. Nothing is lost when its
 * process restarts, so changes reach it directly; the roller leaves it alone.
 */
export function isNewcomer(view: MemberView, all: readonly MemberView[]): boolean {
  const { stage } = view.member;
  if (stage !== 'deployed' && stage !== 'healthy' && stage !== 'syncing') return false;
  if (view.member.voteSent === true) return false;
  if (setOf(view, all).primary?.database?.config == null) return false;
  const row = configRowOf(view, all);
  return row === null || row.votes === 0;
}

/** Votes needed for a majority of this many voters. */
export const majority = (voters: number): number => Math.floor(voters / 2) + 1;

/** Without it and with a substitute that has no vote yet, nobody could be primary. */
export function isIrreplaceable(
  config: ReplSetConfig,
  old: ConfigMember,
  substitute: ConfigMember | null = null,
): boolean {
  const electable = (r: ConfigMember): boolean => r.votes === 1 && r.priority > 0;
  const others = config.members.filter((r) => r.host !== old.host && r.host !== substitute?.host);
  return electable(old) && !others.some(electable);
}

export interface Quorum {
  readonly voters: number;
  readonly healthyVoters: number;
  readonly needed: number;
}

/** Voters of the committed configuration and how many of them are healthy. Without a configuration: the state's members. */
export function quorumOf(all: readonly MemberView[]): Quorum {
  // Routers hold no votes: one that works keeps the cluster reachable.
  if (all.length > 0 && all.every((v) => v.member.role === 'router'))
    return { voters: all.length, healthyVoters: all.filter((v) => isHealthy(v, all)).length, needed: 1 };
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
