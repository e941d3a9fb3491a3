import type { Bytes } from '../../base/units.ts';
import type { Decision, Reason, Step } from '../decisions.ts';
import type { ConfigMember, ReplSetConfig } from '../facts.ts';
import {
  configOf,
  isAboutToRestart,
  isBehind,
  isHealthy,
  isIrreplaceable,
  isOut,
  type MemberView,
  majority,
  primaryOf,
  runsItsSnapshot,
  stateOf,
} from '../interpret.ts';
import { LAG_LIMIT, MAX_VOTERS, SECOND_LOOK } from '../limits.ts';
import { holderOf } from '../maintained.ts';
import { holdsMembership } from '../operations/index.ts';
import { pendingOf } from '../state.ts';
import {
  configRow,
  isBeingReplaced,
  isRouter,
  isSubstitute,
  memberHost,
  placeOf,
  wantedMember,
} from '../topology.ts';
import type { MemberState, ReplicaSetState, State } from '../types.ts';
import { REMOVE_BY_HAND, strangeVolume } from './ownership.ts';
import {
  act,
  backingOff,
  behind,
  blocked,
  helpNeeded,
  type Planner,
  type Scene,
  soon,
  verdict,
  wait,
} from './planner.ts';
import { waitingToBeRemoved } from './removal.ts';
import { heirOf, isUnderWay, needOf } from './rollout.ts';

/*
 * Who is in the set. One change a time, each built on the configuration the primary has now (STK-09):
 *
 *   leave    highest place first; a primary hands over first (S3); the old and the new majority are counted (A6.4)
 *   join     without vote and priority: a member that syncs must not count (A6.3)
 *   adjust   votes, priority, hidden, tags and delay of members that are there; one vote a time (S5)
 *   promote  a member seen caught up in two readings gets what the spec gives it, one vote a time
 *
 * While a member takes another's place (A13.3), only what that needs is done (A13.6): the new one joins without vote and
 * copies the data; once it has caught up the old one leaves, a primary after it handed over; then the new one gets what
 * the place had. Votes go down by one and up again, so there is never an eighth. Where the old one is the only member that
 * could be primary, the new one gets its vote first.
 *
 * A member that has left is taken down afterwards: runtime first, then its volume (A6.4, S4).
 */
export const planMembership: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend) return null;
  const decisions = scene.state.replicaSets
    .filter((r) => r.stage === 'ready')
    .flatMap((set) => change(scene, set));
  return verdict(
    decisions,
    decisions.some((d) => d.kind === 'act'),
  );
};

function change(scene: Scene, set: ReplicaSetState): readonly Decision[] {
  const members = scene.all.filter((v) => v.member.replicaSet === set.name);
  const config = configOf(members);
  const primary = primaryOf(members);
  if (isBehind(set, members)) return [behind(scene, set.name)];
  const work = config === null ? null : workOn(scene, members, config);
  if (work === null || config === null || primary === null) return [];
  if (work.kind === 'wait') return [work.decision];
  // Before a hand-over too: an election is in vain when what it is for has to wait.
  const unsafe = majorities(scene, members, config, work.members);
  if (unsafe !== null) return [unsafe];
  if (work.kind === 'handOver') return [handOver(scene, set, primary, members, work.because)];
  const held = backingOff(scene, 'reconfig', set.name);
  if (held !== null) return [held];
  const step: Step = {
    kind: 'reconfig',
    replicaSet: set.name,
    via: primary.member.name,
    config: { ...config, version: config.version + 1, members: work.members },
    change: work.change,
    ...(work.copies === undefined ? {} : { copies: work.copies }),
  };
  return [act(work.because, [step], work.change)];
}

function workOn(scene: Scene, members: readonly MemberView[], config: ReplSetConfig): Work | null {
  // Who is there stays (A13.6), and has what it should have: an operation may wait for a vote that somebody took away.
  const { state, desired } = scene;
  const group = members[0]?.member.replicaSet ?? '';
  if (holdsMembership(state, desired, group)) return settle(scene, members, config);
  const moving = leave(scene.state, members, config) ?? join(scene, members, config);
  const substitute = members.find((v) => v.member.replacement && v.member.stage !== 'removing');
  if (moving === null && substitute === undefined) return settle(scene, members, config);
  // Who stays may first have to be given what makes one of them a successor.
  if (moving?.kind === 'handOver' && !hasSuccessor(members, config)) {
    const ways = [adjust, join, promote].map((way) => way(scene, members, config));
    return ways.find((way) => way?.kind === 'reconfig') ?? moving;
  }
  return moving ?? takePlace(scene, members, config, substitute as MemberView);
}

/** Everybody gets what the spec says. Before a primary hands over those who are to vote do: one could take over, others stay. */
function settle(scene: Scene, members: readonly MemberView[], config: ReplSetConfig): Work | null {
  const adjusted = adjust(scene, members, config);
  if (adjusted?.kind === 'reconfig') return adjusted;
  const promoted = promote(scene, members, config);
  const first = promoted?.kind === 'reconfig' || !hasSuccessor(members, config);
  return first ? (promoted ?? adjusted) : (adjusted ?? promoted);
}

type Work =
  | {
      readonly kind: 'reconfig';
      readonly members: readonly ConfigMember[];
      readonly change: string;
      readonly because: Reason;
      readonly copies?: Bytes;
    }
  /** `members`: the configuration that is to follow. */
  | { readonly kind: 'handOver'; readonly members: readonly ConfigMember[]; readonly because: Reason }
  | { readonly kind: 'wait'; readonly decision: Decision };

const rowOf = (config: ReplSetConfig, member: MemberState): ConfigMember | undefined =>
  config.members.find((row) => row.host === memberHost(member));
const votersOf = (members: readonly ConfigMember[]): number => members.filter((m) => m.votes === 1).length;
const votes = (before: ReplSetConfig, after: readonly ConfigMember[]): string => {
  const [a, b] = [votersOf(before.members), votersOf(after)];
  return a === b ? '' : `: votes ${a} → ${b}, majority ${majority(a)} → ${majority(b)}`;
};

// ── leave ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Highest place first; one that is down goes before it where the set could not do without those that are well. */
function leave(state: State, members: readonly MemberView[], config: ReplSetConfig): TakenOut | null {
  const leaving = members
    .filter((v) => v.member.stage === 'removing' && rowOf(config, v.member) !== undefined)
    .sort((a, b) => placeOf(b.member) - placeOf(a.member))
    .map((v) => takenOut(v, config, v.member.replacement?.because ?? 'ScaleDown'));
  const isSafe = (work: TakenOut): boolean => healthyMajorities(state, members, config.members, work.members);
  return leaving.find(isSafe) ?? leaving[0] ?? null;
}

type TakenOut = Exclude<Work, { readonly kind: 'wait' }>;

/** Out of the configuration; a primary hands over first (S3). */
function takenOut(view: MemberView, config: ReplSetConfig, because: Reason): TakenOut {
  const rest = config.members.filter((row) => row.host !== memberHost(view.member));
  if (stateOf(view) === 'PRIMARY') return { kind: 'handOver', members: rest, because };
  return {
    kind: 'reconfig',
    members: rest,
    change: `${view.member.name} leaves${votes(config, rest)}`,
    because,
  };
}

/** A member that stays and is not primary could be one, by the configuration of now. */
const hasSuccessor = (members: readonly MemberView[], config: ReplSetConfig): boolean =>
  members.some(
    (v) =>
      v.member.stage !== 'removing' &&
      stateOf(v) !== 'PRIMARY' &&
      config.members.some((r) => r.host === memberHost(v.member) && r.votes === 1 && r.priority > 0),
  );

function handOver(
  scene: Scene,
  set: ReplicaSetState,
  primary: MemberView,
  members: readonly MemberView[],
  because: Reason,
): Decision {
  const { name } = primary.member;
  // Its grant is given back only when it has had what it was given, and two members of a set are never out at once (S2).
  const busy = members.find((v) => isUnderWay(scene, v.member) && isHealthy(v, members));
  const who = busy === primary ? 'it' : busy?.member.name;
  if (busy !== undefined)
    return wait('DisruptionInProgress', soon(scene), `${name} hands over when ${who} is done`);
  const staying = members.filter((v) => v.member.stage !== 'removing' || v === primary);
  if (heirOf(primary, staying) === null)
    return wait(
      'NoElectableSecondary',
      soon(scene),
      `${name} is primary and ${because === 'MemberConfigChanged' ? 'is to lead no more' : 'leaves'}; no caught-up member could take over`,
    );
  const held = backingOff(scene, 'stepDown', set.name);
  return (
    held ??
    act(
      because,
      [{ kind: 'stepDown', replicaSet: set.name, member: name }],
      `${name} hands over; writes pause for an election`,
    )
  );
}

// ── join ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Members that are up and not in the set yet: all at once, since none of them counts (votes stay as they are). */
function join({ state }: Scene, members: readonly MemberView[], config: ReplSetConfig): Work | null {
  const joining = members.filter(
    (v) =>
      v.member.stage === 'healthy' &&
      // Whose place is taken has no more business in the set.
      !isBeingReplaced(state, v.member) &&
      // One that a forced reconfiguration left out knows so, and comes back like a new one (QRM-03).
      (v.database?.initiated === false || stateOf(v) === 'REMOVED') &&
      rowOf(config, v.member) === undefined,
  );
  const substitute = joining.find((v) => isSubstitute(state, v.member));
  const rows = joining.flatMap(({ member }): ConfigMember[] => {
    const host = memberHost(member);
    return host === null ? [] : [{ _id: freeId(config, member.index), host, priority: 0, votes: 0 }];
  });
  if (rows.length === 0) return null;
  return {
    kind: 'reconfig',
    members: [...config.members, ...rows],
    change: `${joining.map((v) => v.member.name).join(', ')} join without vote and priority`,
    ...copiesFrom(members, config),
    because: substitute?.member.replacement?.because ?? 'ScaleUp',
  };
}

/** What the fullest member of the set holds. */
function copiesFrom(members: readonly MemberView[], config: ReplSetConfig): { readonly copies?: Bytes } {
  const held = members
    .filter((v) => rowOf(config, v.member) !== undefined)
    .map((v) => v.facts?.volume?.usedBytes ?? 0);
  const copies = Math.max(0, ...held);
  return copies === 0 ? {} : { copies };
}

/** The index where it is free; a person may have used it. */
function freeId(config: ReplSetConfig, index: number): number {
  const used = new Set(config.members.map((m) => m._id));
  return used.has(index) ? Math.max(...used) + 1 : index;
}

// ── adjust and promote ─────────────────────────────────────────────────────────────────────────────────────────────

function adjust(scene: Scene, members: readonly MemberView[], config: ReplSetConfig): Work | null {
  const settled = members.filter(
    (v) => v.member.stage !== 'removing' && v.member.stage !== 'syncing' && v.member.stage !== 'healthy',
  );
  let rows = config.members;
  const changed: string[] = [];
  let [voteChanged, handsOver] = [false, false];
  for (const view of settled) {
    const [row, wanted] = [rowOf(config, view.member), wantedMember(scene.state, scene.desired, view.member)];
    if (row === undefined || wanted === null) continue;
    const next = { ...row, ...settings(configRow(view.member, wanted, row.host)) };
    if (same(row, next)) continue;
    if (row.votes !== next.votes && voteChanged) continue; // its turn comes in a later one (S5)
    if (next.votes > row.votes && votersOf(rows) >= MAX_VOTERS) continue; // first another loses its vote
    // A primary gives its priority up when it has handed over, and others may first have to be given theirs.
    if (stateOf(view) === 'PRIMARY' && next.priority === 0) {
      handsOver = true;
      continue;
    }
    voteChanged ||= row.votes !== next.votes;
    rows = rows.map((r) => (r.host === row.host ? next : r));
    changed.push(view.member.name);
  }
  if (changed.length === 0 && handsOver)
    return { kind: 'handOver', members: config.members, because: 'MemberConfigChanged' };
  return changed.length === 0
    ? null
    : {
        kind: 'reconfig',
        members: rows,
        change: `settings of ${changed.join(', ')}${votes(config, rows)}`,
        because: 'MemberConfigChanged',
      };
}

/** The settings that are ours; identity and unknown fields of a row stay as they are. */
const settings = (row: ConfigMember): Omit<ConfigMember, '_id' | 'host'> => ({
  priority: row.priority,
  votes: row.votes,
  hidden: row.hidden ?? false,
  secondaryDelaySecs: row.secondaryDelaySecs ?? 0,
  tags: row.tags ?? {},
});
const same = (a: ConfigMember, b: ConfigMember): boolean => {
  const [x, y] = [settings(a), settings(b)];
  const tags = (row: typeof x): string => JSON.stringify(Object.entries(row.tags ?? {}).sort());
  return (
    x.priority === y.priority &&
    x.votes === y.votes &&
    x.hidden === y.hidden &&
    x.secondaryDelaySecs === y.secondaryDelaySecs &&
    tags(x) === tags(y)
  );
};

function promote(scene: Scene, members: readonly MemberView[], config: ReplSetConfig): Work | null {
  const joined = members
    .filter((v) => v.member.stage === 'syncing' && rowOf(config, v.member) !== undefined)
    // One that is being changed restarts: it may do so only as long as it has no vote (S1).
    .filter((v) => pendingOf(scene.state, v.member.name) === null && runsItsSnapshot(v))
    .sort((a, b) => a.member.index - b.member.index);
  const ready = joined.find((v) => mayVote(scene, v, members));
  const next = ready ?? joined[0];
  if (next === undefined) return null;
  if (ready === undefined) return { kind: 'wait', decision: syncing(scene, next) };
  return promotion(scene, next, config, 'ScaleUp');
}

/** A6.3: in two readings; the wall clock may have gone back between them. Whoever works on it was let as it has no vote (C2.5). */
const mayVote = (scene: Scene, view: MemberView, members: readonly MemberView[]): boolean =>
  holderOf(scene.observed, view.member.name) === null &&
  view.member.caughtUpSince !== null &&
  view.member.caughtUpSince !== scene.now &&
  isHealthy(view, members);

function promotion(scene: Scene, view: MemberView, config: ReplSetConfig, because: Reason): Work | null {
  const [row, wanted] = [rowOf(config, view.member), wantedMember(scene.state, scene.desired, view.member)];
  if (row === undefined || wanted === null) return null;
  const promoted = { ...row, ...settings(configRow(view.member, wanted, row.host)) };
  const rows = config.members.map((r) => (r.host === row.host ? promoted : r));
  return {
    kind: 'reconfig',
    members: rows,
    change: `${view.member.name} gets its vote${votes(config, rows)}`,
    because,
  };
}

/** One that was seen caught up once is looked at again soon: nothing else will happen that tells. */
function syncing(scene: Scene, view: MemberView): Decision {
  const { name, caughtUpSince } = view.member;
  if (holderOf(scene.observed, name) !== null)
    return wait('InitialSync', soon(scene), `${name} is in maintenance; it votes afterwards`, name);
  const until = caughtUpSince === null ? soon(scene) : scene.now + SECOND_LOOK;
  return wait('InitialSync', until, syncText(view), name);
}

function syncText(view: MemberView): string {
  const percent = view.database?.initialSyncPercent ?? null;
  const how =
    percent === null ? `is ${stateOf(view) ?? 'not reported'}` : `initial sync ${Math.round(percent)} %`;
  return `${view.member.name} ${how}; it votes once it is at most ${LAG_LIMIT / 1000} s behind in two readings`;
}

// ── replacement (A13.3) ────────────────────────────────────────────────────────────────────────────────────────────

function takePlace(
  scene: Scene,
  members: readonly MemberView[],
  config: ReplSetConfig,
  view: MemberView,
): Work | null {
  const { member } = view;
  const { of, because } = member.replacement ?? { of: '', because: 'Replacing' as const };
  const row = rowOf(config, member);
  if (row === undefined || member.stage !== 'syncing') return null; // it is on its way, and others say how far
  const settled = pendingOf(scene.state, member.name) === null && runsItsSnapshot(view);
  if (!settled || !mayVote(scene, view, members)) return { kind: 'wait', decision: syncing(scene, view) };
  const old = members.find((v) => v.member.name === of);
  const oldRow = old === undefined ? undefined : rowOf(config, old.member);
  const first = oldRow !== undefined && row.votes === 0 && isIrreplaceable(config, oldRow, row);
  if (oldRow === undefined || first) return promotion(scene, view, config, because);
  return takenOut(old as MemberView, config, because);
}

// ── safety ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A6.4: a majority of the old and of the new voters is healthy, else the set could not go on after the change. */
export function healthyMajorities(
  state: State,
  members: readonly MemberView[],
  before: readonly ConfigMember[],
  after: readonly ConfigMember[],
): boolean {
  const healthy = new Set(
    members.filter((v) => isCountedOn(v, members, state)).map((v) => memberHost(v.member)),
  );
  const enough = (rows: readonly ConfigMember[]): boolean =>
    rows.filter((r) => r.votes === 1 && healthy.has(r.host)).length >= majority(votersOf(rows));
  return enough(before) && enough(after);
}

const isCountedOn = (view: MemberView, members: readonly MemberView[], state: State): boolean =>
  isHealthy(view, members) && !isAboutToRestart(view, state);

function majorities(
  scene: Scene,
  members: readonly MemberView[],
  config: ReplSetConfig,
  after: readonly ConfigMember[],
): Decision | null {
  if (healthyMajorities(scene.state, members, config.members, after)) return null;
  const sick = members.filter((v) => !isCountedOn(v, members, scene.state)).map((v) => v.member.name);
  return wait(
    'WouldLoseMajority',
    soon(scene),
    `the set's members are not changed while ${sick.join(', ')} cannot be counted on`,
  );
}

// ── members that have left ─────────────────────────────────────────────────────────────────────────────────────────

/** Takes down what has left, or what never joined (A6.7): the runtime, its absence observed, then its volume. */
export const planRetirement: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend) return null;
  const { members, retired = [] } = scene.state;
  const leaving = members.filter((m) => m.stage === 'removing');
  // What is left where nobody can be reached waits in nobody's way (A13.3).
  // One whose place is not taken yet is kept: the vote that takes it proves that a majority knows it is out (S4).
  const left = retired
    .filter((m) => scene.observed.hosts.some((h) => h.name === m.host && h.connected))
    .filter((m) => !isBeingReplaced(scene.state, m))
    .filter((m) => m.serviceId !== null || strangeVolume(scene, m) === null);
  // Whose runtime is gone is done with first: another may have to wait until that one counts no more.
  const decisions = [...leaving, ...left]
    .filter((m) => pendingOf(scene.state, m.name) === null && isOut(scene, m))
    .sort((a, b) => Number(a.serviceId !== null) - Number(b.serviceId !== null))
    .flatMap(
      (member) =>
        afterTheLast(scene, member) ??
        takeDown(scene, member, left.includes(member) ? 'Replacing' : 'ScaleDown'),
    );
  return verdict(decisions, false);
};

/** A router alone is not restarted (S1): what the one that stays is still to be given it gets while another serves. */
function afterTheLast(scene: Scene, member: MemberState): readonly Decision[] | null {
  const { members } = scene.state;
  const staying = members.filter((m) => isRouter(m) && m.stage !== 'removing');
  const [last, ...others] = staying;
  const serves = scene.all.some((v) => v.member.name === member.name && isHealthy(v, scene.all));
  if (!isRouter(member) || !serves || last === undefined || others.length > 0) return null;
  // Routers are given the list of config servers that have settled (A6.2).
  const moving = members.some((m) => m.role === 'configServer' && m.stage !== 'active');
  if (!moving && needOf(scene, last) === null) return null;
  const detail = `${member.name} leaves when ${last.name} has what it is to be given: a router alone is not restarted`;
  return [wait('WaitingForRouter', soon(scene), detail, member.name)];
}

function takeDown(scene: Scene, member: MemberState, because: Reason): readonly Decision[] {
  if (member.serviceId === null && member.volumeId === null) {
    const detail = `${member.name} is forgotten when its hosts tell that nothing of it is there`;
    return [wait('ObservationStale', soon(scene), detail, member.name)];
  }
  const kind = member.serviceId !== null ? 'deleteRuntime' : 'deleteVolume';
  const strange = kind === 'deleteVolume' ? strangeVolume(scene, member) : null;
  if (strange !== null) return [blocked('OwnershipConflict', 'person', strange, REMOVE_BY_HAND)];
  const held = backingOff(scene, kind, member.name) ?? away(scene, member);
  const help = helpNeeded(scene, kind, member.name);
  if (held !== null) return help === null ? [held] : [held, help];
  return [
    act(
      because,
      [{ kind, member: member.name }],
      kind === 'deleteRuntime' ? `take ${member.name} down` : `delete the volume of ${member.name}`,
    ),
  ];
}

function away(scene: Scene, member: MemberState): Decision | null {
  const host = scene.observed.hosts.find((h) => h.name === member.host);
  if (member.host === null || host === undefined || host.connected) return null;
  return waitingToBeRemoved(scene, member);
}
