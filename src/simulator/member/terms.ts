import type { Millis } from '../../base/units.ts';
import { isElectable, isVoter, majorityVotes } from './config.ts';
import { reached } from './optime.ts';
import { newestKnown, seesMajority } from './peers.ts';
import {
  draw,
  electionTimeout,
  emit,
  note,
  peerOf,
  refusal,
  refuse,
  selfConfig,
  selfId,
  showState,
  stateOf,
  type Turn,
} from './turn.ts';
import type { State } from './types.ts';

/** The election timeout is drawn out by up to this fraction, so that members do not all stand at once. */
const JITTER = 0.15;
/** A priority takeover needs to be this near to the newest known operation. */
const TAKEOVER_WINDOW_SECS = 2;
const TAKEOVER_WINDOW_INCREMENTS = 1_000;

/** Starts the wait for a primary anew. */
export function resetElectionTimer(turn: Turn): void {
  const timeout = electionTimeout(turn.s);
  turn.s.electionAt = turn.now + timeout + Math.floor(draw(turn) * JITTER * timeout);
}

/** A higher term ends whatever this member was in the old one. Only members with a configuration take part. */
export function adoptTerm(turn: Turn, term: number): void {
  const { s } = turn;
  if (s.config === null || term <= s.term) return;
  if (s.role === 'leader') {
    note(turn, 'I', 'REPL', 21402, 'Stepping down from primary in response to a newer term', { term });
    leaveLeadership(turn, null);
  }
  abandonElection(turn);
  s.term = term;
  s.primaryId = -1;
  resetElectionTimer(turn);
  showState(turn);
}

/** Gives up a running election; who asked for it hears so. */
export function abandonElection(turn: Turn): void {
  const { s } = turn;
  if (s.election === null) return;
  for (const id of s.election.askers) refuse(turn, id, refusal(125, 'CommandFailed', 'Election failed.'));
  s.election = null;
  if (s.role === 'candidate') s.role = 'follower';
}

/**
 * From primary to follower. Writers that wait get 189; stepDown commands and reconfigs that wait get their answer unless
 * they caused this (`except`).
 */
export function leaveLeadership(turn: Turn, except: number | null): void {
  const { s } = turn;
  const attempt = s.leader?.steppingDown ?? null;
  s.role = 'follower';
  s.leader = null;
  s.primaryId = -1;
  s.priorityTakeoverAt = null;
  s.catchUpTakeoverAt = null;
  s.candidateMetrics = null;
  emit(turn, { kind: 'leftPrimary', reason: 'stepdown' });
  const gone = refusal(189, 'PrimarySteppedDown', 'Primary stepped down while waiting for replication');
  for (const waiter of s.waiters) if (waiter.kind === 'write') refuse(turn, waiter.id, gone);
  s.waiters = s.waiters.filter((waiter) => waiter.kind !== 'write');
  if (attempt !== null && attempt.id !== except && !attempt.forShutdown) {
    refuse(
      turn,
      attempt.id,
      refusal(
        189,
        'PrimarySteppedDown',
        'While waiting for secondaries to catch up before stepping down, this node decided to step down for other reasons',
      ),
    );
  }
  endReconfigs(turn);
  resetElectionTimer(turn);
  showState(turn);
}

function endReconfigs(turn: Turn): void {
  const { s } = turn;
  for (const wait of s.reconfigs) {
    const text =
      wait.kind === 'propagation'
        ? 'Reconfig finished but failed to propagate to a majority :: caused by :: node is no longer primary'
        : `New config is rejected :: caused by :: replSetReconfig should only be run on a writable PRIMARY. Current state ${stateOf(s)};`;
    refuse(turn, wait.id, refusal(10107, 'NotWritablePrimary', text));
  }
  s.reconfigs = [];
  if (s.pending?.kind === 'reconfig' && !s.pending.force) {
    const text = `Safe reconfig is only allowed on a writable PRIMARY. Current state is ${stateOf(s)}`;
    refuse(turn, s.pending.id, refusal(10107, 'NotWritablePrimary', text));
    s.pending = null;
  }
}

/** There is a primary in this term. `heard`: directly from it, which restarts the wait. */
export function notePrimary(turn: Turn, id: number, term: number, heard: boolean): void {
  const { s } = turn;
  if (term < s.term || s.role === 'leader' || id === selfId(s)) return;
  adoptTerm(turn, term);
  if (s.primaryId !== id) {
    s.primaryId = id;
    resetElectionTimer(turn);
    showState(turn);
  } else if (heard) {
    resetElectionTimer(turn);
  }
}

export function forgetPrimary(turn: Turn): void {
  turn.s.primaryId = -1;
  showState(turn);
}

const dateText = (at: Millis): string => new Date(at).toISOString();

function lags(s: State): boolean {
  const newest = newestKnown(s);
  const mine = s.applied.op;
  if (newest === null || mine === null || reached(mine, newest)) return false;
  if (newest.s === mine.s) return newest.i - mine.i > TAKEOVER_WINDOW_INCREMENTS;
  return newest.s - mine.s > TAKEOVER_WINDOW_SECS;
}

/** Why this member may not stand for election now, in the server's words; null: it may. */
export function whyUnelectable(s: State, now: Millis, occasion: 'any' | 'priorityTakeover'): string | null {
  const reasons: string[] = [];
  let mask = 0;
  const because = (bit: number, text: string): void => {
    mask |= bit;
    reasons.push(text);
  };
  const self = selfConfig(s);
  if (self === null || s.config === null) {
    return 'node is not a member of a valid replica set configuration (mask 0x80)';
  }
  if (s.applied.op === null) because(0x100, 'node has no applied oplog entries');
  if (!seesMajority(s)) because(0x1, 'I cannot see a majority');
  if (self.arbiterOnly) because(0x2, 'member is an arbiter');
  else if (!isElectable(self)) because(0x4, 'member has zero priority');
  if (s.quietUntil > now) {
    because(0x8, `I am still waiting for stepdown period to end at ${dateText(s.quietUntil)}`);
  }
  if (s.quiescing !== null) because(0x400, 'node is shutting down');
  const state = stateOf(s);
  if (state !== 'SECONDARY' && state !== 'PRIMARY') because(0x10, 'member is not currently a secondary');
  if (occasion === 'priorityTakeover' && lags(s)) {
    because(
      0x20,
      `member is not caught up enough to the most up-to-date member to call for priority takeover - must be within ${TAKEOVER_WINDOW_SECS} seconds`,
    );
  }
  return reasons.length === 0 ? null : `${reasons.join('; ')} (mask 0x${mask.toString(16)})`;
}

/** A primary that heard of no majority for a whole election timeout gives up. */
export function lostMajorityAt(s: State): Millis | null {
  if (s.role !== 'leader' || s.config === null) return null;
  const self = selfId(s);
  const selfVotes = selfConfig(s)?.votes ? 1 : 0;
  const needed = majorityVotes(s.config) - selfVotes;
  if (needed <= 0) return null;
  // Every input asks for it: the newest of the few times are picked without a list that is sorted.
  const newest: Millis[] = [];
  for (const member of s.config.members) {
    if (member.id === self || !isVoter(member)) continue;
    const seen = peerOf(s, member.id)?.lastSeenAt ?? 0;
    let place = newest.length;
    for (; place > 0 && (newest[place - 1] as Millis) < seen; place--)
      newest[place] = newest[place - 1] as Millis;
    newest[place] = seen;
  }
  return (newest[needed - 1] ?? 0) + electionTimeout(s);
}
