/** MongoDB replica sets (C2.5): voters, write concern, electable members, copies of the data, config servers. */
import type { Millis } from '../../base/units.ts';
import type { SetMemberSpec } from '../fleetSpec.ts';
import { isElectable, type ReplicaSet } from '../layout.ts';
import { HAND_OVER_TAKES, MEMBER_SETTLE } from '../limits.ts';
import type { ReasonCode, Refusal } from '../types.ts';
import { allFreeAt, goesAlong, namesText, outText, type Pass, refuse } from './look.ts';

/** What is left of a set when one more member is out. */
interface Rest {
  readonly voters: number;
  readonly dataVoters: number;
  readonly acknowledging: number;
  readonly copies: number;
  readonly electable: number;
}

/** Whether a member may be taken. Costs O(1); unknown members count as down (C5.3). */
export function checkMember(pass: Pass, n: number): Refusal | null {
  const set = pass.fleet.setOf(n);
  const member = pass.fleet.memberOf(n);
  if (set === undefined || member === undefined || pass.mode === 'force') return null;
  const rest = without(pass, set, n, member);
  if (set.spec.interruption && cannotSpare(set, member)) {
    // The spec accepts the outage; the last copy of several is still not given away.
    return rest.copies === 0 && set.dataMembers > 1 ? lastCopy(pass, set, n) : null;
  }
  const refusal =
    checkCopies(pass, set, n, rest) ??
    checkVotes(pass, set, n, rest) ??
    checkWrites(pass, set, n, rest) ??
    checkConfig(pass, set, n);
  return refusal === null ? null : (tooManyOnOneHost(pass, set, n) ?? refusal);
}

/**
 * What passed all else, and whose locks are taken: primaries among it hand over first, if the request wants that and another
 * member can lead. Where none can, an outage was accepted already, and nobody is there to hand over to.
 */
export function checkPrimaries(pass: Pass, nodes: readonly number[]): Refusal | null {
  if (!pass.stepDown) return null;
  const leading = nodes.filter((n) => {
    const set = pass.fleet.setOf(n);
    if (set === undefined || set.electable === 0 || set.upVoters < set.majority) return false;
    return leads(pass, n) || (pass.mode !== 'force' && mayLead(pass, set, n));
  });
  if (leading.length === 0) return null;
  const by = leading.map((n) => ({
    kind: 'primary' as const,
    set: pass.fleet.setOf(n)?.spec.key ?? '',
    node: pass.fleet.nodes[n]?.key ?? '',
  }));
  const message = leading.map((n) => handingOver(pass, n)).join('; ');
  return refuse('DISALLOW_TEMP', 'PrimaryStepsDown', message, by, pass.now + HAND_OVER_TAKES);
}

const leads = (pass: Pass, n: number): boolean => pass.fleet.told(n)?.role === 'PRIMARY';

/** C5.3: nobody reports it, and nobody else is known to lead. */
const mayLead = (pass: Pass, set: ReplicaSet, n: number): boolean =>
  pass.fleet.state(n) === 'unknown' && !set.nodes.some((m) => leads(pass, m));

function handingOver(pass: Pass, n: number): string {
  const spec = pass.fleet.setOf(n)?.spec;
  if (!leads(pass, n))
    return `nobody reports ${name(pass, n)}, which may be primary of ${spec?.key}: it is waited until that is known, or go without step-down`;
  const start = `${name(pass, n)} is primary of ${spec?.key}`;
  if (spec?.paused === true)
    return `${start}, which is paused: let it hand over (rs.stepDown()), or set spec.paused to false`;
  const note = pass.fleet.told(n)?.note;
  return `${start} and hands over first${note === undefined ? '' : ` (${note})`}`;
}

/** The members on one host are too many by themselves, with all others well: then waiting does not help. */
function tooManyOnOneHost(pass: Pass, set: ReplicaSet, n: number): Refusal | null {
  const own = new Set(set.nodes.filter((m) => m === n || goesAlong(pass, m)));
  if (own.size <= 1) return null;
  const left = set.spec.members.filter((_, i) => !own.has(set.nodes[i] as number));
  const voters = left.filter((m) => m.votes === 1);
  const out = set.voters - voters.length;
  const strict = pass.mode !== 'weak';
  const fits =
    voters.length >= set.majority &&
    !(strict && out > 1) &&
    left.some(isElectable) &&
    acknowledged(set, left);
  if (fits) return null;
  const names = [...own].map((m) => name(pass, m)).join(', ');
  const host = pass.fleet.nodes[n]?.host;
  const together = [...own].every((m) => pass.fleet.nodes[m]?.host === host);
  const [why, cure] = together
    ? ['they are on one host', 'spread them']
    : ['they are asked for together', 'ask for them one by one'];
  const message = `${names} of ${set.spec.key} go down together: ${why}, and ${pass.mode} does not allow so many; ${cure}, use another mode, or force (an outage)`;
  return refuse('DISALLOW', together ? 'TooManyOnOneHost' : 'TooManyTogether', message, [
    { kind: 'replicaSet', set: set.spec.key, out: [] },
  ]);
}

function acknowledged(set: ReplicaSet, left: readonly SetMemberSpec[]): boolean {
  const { writeConcern } = set.spec;
  if (writeConcern !== 'majority')
    return left.filter((m) => m.data && m.delayed !== true).length >= writeConcern;
  return left.filter((m) => m.data && m.votes === 1).length >= Math.min(set.majority, set.dataVoters);
}

/** A set of one or two voters: any work on a voter means an outage. */
const cannotSpare = (set: ReplicaSet, member: SetMemberSpec): boolean =>
  set.voters - member.votes < set.majority;

function without(pass: Pass, set: ReplicaSet, n: number, member: SetMemberSpec): Rest {
  const counts = pass.fleet.state(n) === 'up' && !pass.fleet.nodeLocked(n) ? 1 : 0;
  const vote = counts * member.votes;
  const data = counts * Number(member.data);
  return {
    voters: set.upVoters - vote,
    dataVoters: set.upDataVoters - vote * Number(member.data),
    acknowledging: set.upAcknowledging - data * Number(member.delayed !== true),
    copies: set.upCopies - data,
    electable: set.electable - counts * Number(isElectable(member)),
  };
}

function checkCopies(pass: Pass, set: ReplicaSet, n: number, rest: Rest): Refusal | null {
  if (set.dataMembers <= 1 && pass.fleet.memberOf(n)?.data) {
    const message = `${name(pass, n)} is the only member of ${set.spec.key} with data: any work on it is an outage. Set spec.maintenance.interruption to Allowed, or use force`;
    return refuse('DISALLOW_TEMP', 'OnlyMember', message, [
      { kind: 'replicaSet', set: set.spec.key, out: [] },
    ]);
  }
  return rest.copies === 0 ? lastCopy(pass, set, n) : null;
}

function lastCopy(pass: Pass, set: ReplicaSet, n: number): Refusal {
  const sentence = `${name(pass, n)} holds the last copy of ${set.spec.key} that is known to be good`;
  return standsInTheWay(pass, set, n, 'LastCopy', sentence);
}

function checkVotes(pass: Pass, set: ReplicaSet, n: number, rest: Rest): Refusal | null {
  const unavailable = set.voters - rest.voters;
  const strict = pass.mode === 'strong' || (pass.mode === 'smart' && holds(pass, set));
  // So many of those that are out have to be back before both rules agree.
  const back = Math.max(set.majority - rest.voters, strict ? unavailable - 1 : 0);
  // Somebody else being out does not forbid work on a member without a vote, but a lost majority does.
  if (rest.voters < set.majority) {
    const sentence = `${set.spec.key} would have ${rest.voters} of ${set.voters} voters, its majority is ${set.majority}${behind(set)}`;
    return standsInTheWay(pass, set, n, 'WouldLoseMajority', sentence, back);
  }
  if (!strict || unavailable <= 1) return null;
  const sentence = `${unavailable} of ${set.voters} voters of ${set.spec.key} would be out, ${pass.mode} allows 1`;
  return standsInTheWay(pass, set, n, 'TooManyUnavailableMembers', sentence, back);
}

function checkWrites(pass: Pass, set: ReplicaSet, n: number, rest: Rest): Refusal | null {
  if (rest.electable === 0) {
    const sentence = `no electable member of ${set.spec.key} would be left`;
    return standsInTheWay(pass, set, n, 'NoElectableMember', sentence);
  }
  const { writeConcern } = set.spec;
  const needed = writeConcern === 'majority' ? Math.min(set.majority, set.dataVoters) : writeConcern;
  const have = writeConcern === 'majority' ? rest.dataVoters : rest.acknowledging;
  if (have >= needed) return null;
  const sentence = `${set.spec.key} could not acknowledge writes: w:${writeConcern} needs ${needed} members with data, ${have} would be left`;
  return standsInTheWay(pass, set, n, 'WriteConcernUnsatisfiable', sentence);
}

/** Every shard stands still without its config servers: none is worked on while they have no majority. */
function checkConfig(pass: Pass, set: ReplicaSet, n: number): Refusal | null {
  const config = pass.fleet.sets[set.config];
  if (config === undefined || config.upVoters >= config.majority) return null;
  const sentence = `config servers ${config.spec.key} of ${set.spec.key} have ${config.upVoters} of ${config.voters} voters, their majority is ${config.majority}`;
  return standsInTheWay(pass, config, n, 'ConfigServersUnavailable', sentence);
}

/** Whether this request holds a voter of the set already. */
function holds(pass: Pass, set: ReplicaSet): boolean {
  return set.nodes.some((n) =>
    pass.fleet
      .refs({ kind: 'node', index: n })
      .some(
        (ref) =>
          (ref.kind === 'pass' && ref.pass === pass.number) ||
          (ref.kind === 'held' && ref.permission.entry === pass.entry),
      ),
  );
}

const behind = (set: ReplicaSet): string =>
  set.shards.length === 0 ? '' : `, and every shard depends on it: ${namesText(set.shards)}`;

const name = (pass: Pass, n: number): string => pass.fleet.nodes[n]?.name ?? '';

function standsInTheWay(
  pass: Pass,
  set: ReplicaSet,
  n: number,
  reason: ReasonCode,
  sentence: string,
  back: number | null = null,
): Refusal {
  const out = set.nodes.filter((m) => m !== n && (pass.fleet.state(m) !== 'up' || pass.fleet.nodeLocked(m)));
  const who =
    out.length === 0
      ? ''
      : `; out: ${namesText(out.map((m) => `${outText(pass.fleet, m)} on ${pass.fleet.nodes[m]?.host}`))}`;
  const by = [
    { kind: 'replicaSet' as const, set: set.spec.key, out: out.map((m) => pass.fleet.nodes[m]?.key ?? '') },
  ];
  return refuse(
    'DISALLOW_TEMP',
    reason,
    `${sentence}${who}`,
    by,
    back === null ? allBack(pass, out) : votersBack(pass, out, back),
  );
}

/** When all of them are back, if all of them are merely locked. */
function allBack(pass: Pass, out: readonly number[]): Millis | null {
  const ends = out.map((m) => backAt(pass, m));
  return ends.length === 0 || ends.includes(null) ? null : Math.max(...ends.map((at) => at ?? 0));
}

/** When so many voters of them are back; null: not known, since too many are down or held without an end. */
function votersBack(pass: Pass, out: readonly number[], needed: number): Millis | null {
  const ends = out
    .filter((m) => pass.fleet.memberOf(m)?.votes === 1)
    .flatMap((m) => backAt(pass, m) ?? [])
    .sort((a, b) => a - b);
  return ends[needed - 1] ?? null;
}

/** When it counts as up again: its locks have ended, and it has settled. Null: it is down, or a lock has no known end. */
function backAt(pass: Pass, n: number): Millis | null {
  if (pass.fleet.state(n) !== 'up') return null;
  const refs = pass.fleet.refs({ kind: 'node', index: n });
  const held = allFreeAt(refs.filter((ref) => ref.kind === 'held' || ref.kind === 'queued'));
  const all = allFreeAt(refs);
  return all === null || held === null ? all : Math.max(all, held + MEMBER_SETTLE);
}
