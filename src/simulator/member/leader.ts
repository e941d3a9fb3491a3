import { isVoter, majorityVotes, NO_TERM, voters, writeMajority } from './config.ts';
import { installConfig } from './install.ts';
import type { PositionRequest } from './messages.ts';
import { compareOpTimes, laterOpTime, type OpTime, reached, sameOpTime } from './optime.ts';
import {
  askNow,
  countWith,
  handOverCandidates,
  newestKnown,
  positionOf,
  restartHeartbeats,
} from './peers.ts';
import { adoptTerm, leaveLeadership, lostMajorityAt } from './terms.ts';
import {
  answer,
  emit,
  isWritable,
  nextToken,
  note,
  peerOf,
  refusal,
  refuse,
  selfId,
  setPeer,
  showState,
  stateOf,
  type Turn,
} from './turn.ts';
import { STATES, type State } from './types.ts';

/** What a primary does after every input: commit, finish its transition, step down when it must. */
export function lead(turn: Turn) {
  const { s, now } = turn;
  if (s.leader === null) return;
  const lostAt = lostMajorityAt(s);
  if (lostAt !== null && now >= lostAt) {
    note(turn, 'I', 'REPL', 21809, "Can't see a majority of the set, relinquishing primary");
    return leaveLeadership(turn, null);
  }
  catchUp(turn);
  drain(turn);
  advanceCommitted(turn);
  tryStepDown(turn);
  if (s.leader !== null) welcomeMembers(turn);
}

/** Own log reaches the newest of all members that answered since the election; members that are down don't hold it up. */
function catchUp(turn: Turn): void {
  const { s, now } = turn;
  const { leader } = s;
  if (leader?.mode !== 'catchUp') return;
  const heard = s.peers.every((peer) => peer.rounds > 0);
  const done = heard && reached(s.applied.op, newestKnown(s));
  const late = leader.catchUpDeadline !== null && now >= leader.catchUpDeadline;
  if (!done && !late) return;
  if (late && !done) note(turn, 'I', 'REPL', 21362, 'Catchup timed out after becoming primary');
  else
    note(
      turn,
      'I',
      'REPL',
      21364,
      'Caught up to the latest optime known via heartbeats after becoming primary',
    );
  endCatchUp(turn);
}

/** Ends the catch-up whatever was reached. */
export function endCatchUp(turn: Turn): void {
  const { s } = turn;
  if (s.leader === null) return;
  note(turn, 'I', 'REPL', 21363, 'Exited primary catch-up mode');
  s.leader = { ...s.leader, mode: 'draining' };
}

/** Nothing of the old terms is still on its way to storage: the first entry of the new term may be written. */
function drain(turn: Turn) {
  const { s } = turn;
  const { leader } = s;
  if (leader?.mode !== 'draining') return;
  if (!leader.noopAsked) {
    if (s.sync.applying !== null) return;
    s.sync = { ...s.sync, source: null, sourceId: -1, token: null, held: null };
    s.leader = { ...leader, noopAsked: true };
    return emit(turn, { kind: 'appendNoop', o: { msg: 'new primary' }, term: s.term });
  }
  if (s.applied.op?.t !== leader.term) return;
  s.leader = { ...leader, mode: 'writable', firstOp: s.applied.op };
  if (s.candidateMetrics) s.candidateMetrics = { ...s.candidateMetrics, termStartAt: turn.now };
  raiseConfigTerm(turn);
  note(turn, 'I', 'REPL', 21331, 'Transition to primary complete; database writes are now permitted', {
    term: s.term,
  });
  showState(turn);
}

/** A new primary's first reconfig changes the term alone, so that configurations of older terms lose. */
function raiseConfigTerm(turn: Turn): void {
  const { s } = turn;
  const config = s.config!;
  if (config.term === s.term) return;
  s.config = { ...config, term: s.term };
  s.configBase = s.committed.op;
  emit(turn, { kind: 'saveConfig', config: s.config });
  restartHeartbeats(turn);
}

/** The newest operation of the own term that a majority of the voters has is committed, and all before it. */
function advanceCommitted(turn: Turn): void {
  const { s } = turn;
  const { leader, config } = s;
  if (leader === null || leader.firstOp === null || config === null) return;
  // Nobody has more than the primary: after the newest of all was committed there is nothing to count.
  if (sameOpTime(s.committed.op, s.applied.op)) return;
  const positions = voters(config)
    .map((member) => positionOf(s, member.id))
    .sort(compareOpTimes);
  const candidate = positions[positions.length - writeMajority(config)] ?? null;
  if (candidate === null || !reached(candidate, leader.firstOp) || reached(s.committed.op, candidate)) return;
  s.committed = { op: candidate, wall: wallOf(s, candidate) };
  emit(turn, { kind: 'stable', op: candidate });
  if (s.candidateMetrics && s.candidateMetrics.majorityAt === null) {
    s.candidateMetrics = { ...s.candidateMetrics, majorityAt: turn.now };
  }
}

function wallOf(s: State, op: OpTime): number {
  if (compareOpTimes(s.applied.op, op) === 0) return s.applied.wall;
  const peer = s.peers.find((candidate) => compareOpTimes(candidate.position.op, op) === 0);
  return peer?.position.wall ?? op.s * 1000;
}

/** A majority of the voters has this operation. */
export function replicatedToMajority(s: State, op: OpTime | null): boolean {
  return op === null || s.config === null || countWith(s, op, isVoter) >= writeMajority(s.config);
}

/** A majority of the voters runs the current configuration. */
export function configReplicated(s: State): boolean {
  const { config } = s;
  if (config === null) return false;
  const self = selfId(s);
  const having = voters(config).filter((member) => {
    const peer = peerOf(s, member.id);
    return member.id === self || (peer?.configVersion === config.version && peer.configTerm === config.term);
  });
  return having.length >= majorityVotes(config);
}

/** What of the old configuration must be committed in the current one before the next may come. */
export const configTarget = (s: State): OpTime | null => laterOpTime(s.configBase, s.leader?.firstOp ?? null);

/** The current configuration is committed: a majority runs it, and what was committed before is so under it. */
export const configCommitted = (s: State): boolean =>
  s.config?.term === NO_TERM || (configReplicated(s) && replicatedToMajority(s, configTarget(s)));

/** Members that joined as voters get their vote when they have become readable, one reconfig each. */
function welcomeMembers(turn: Turn): void {
  const { s } = turn;
  const config = s.config!;
  if (!isWritable(s) || s.pending !== null || !config.members.some((member) => member.newlyAdded)) return;
  if (!configCommitted(s)) return;
  const joined = config.members.find(
    (member) =>
      member.newlyAdded && peerOf(s, member.id)?.up && peerOf(s, member.id)?.state === STATES.SECONDARY,
  );
  if (!joined) return;
  note(turn, 'I', 'REPL', 4634504, "Performing automatic reconfig to remove 'newlyAdded' fields", {
    memberId: joined.id,
  });
  const members = config.members.map((member) =>
    member.id === joined.id ? { ...member, newlyAdded: false } : member,
  );
  const version = config.version + 1;
  installConfig(turn, { ...config, version, term: s.term, members }, s.self);
  emit(turn, { kind: 'appendNoop', o: { msg: 'Reconfig set', version }, term: s.term });
}

// ── stepping down ──────────────────────────────────────────────────────────────────────────────────────────────────

const DEFAULT_STEP_DOWN_SECS = 60;
const DEFAULT_CATCH_UP_SECS = 10;

/** replSetStepDown. The answer comes when it is decided. */
export function stepDown(
  turn: Turn,
  id: number,
  command: { readonly secs: number; readonly catchUpSecs: number | null; readonly force: boolean },
) {
  const { s, now } = turn;
  const bad = (message: string): void => refuse(turn, id, refusal(2, 'BadValue', message));
  if (command.secs < 0) return bad('stepdown period must be a positive integer');
  const secs = command.secs === 0 ? DEFAULT_STEP_DOWN_SECS : command.secs;
  if (command.catchUpSecs !== null && command.catchUpSecs < 0) {
    return bad('secondaryCatchUpPeriodSecs period must be a positive or absent');
  }
  const catchUpSecs = command.catchUpSecs ?? (command.force ? 0 : DEFAULT_CATCH_UP_SECS);
  if (secs < catchUpSecs) return bad('stepdown period must be longer than secondaryCatchUpPeriodSecs');
  if (s.leader === null) {
    return refuse(turn, id, refusal(10107, 'NotWritablePrimary', "not primary so can't step down"));
  }
  if (s.leader.steppingDown !== null) {
    return refuse(
      turn,
      id,
      refusal(117, 'ConflictingOperationInProgress', 'This node is already in the process of stepping down'),
    );
  }
  note(turn, 'I', 'COMMAND', 21579, 'Attempting to step down in response to replSetStepDown command');
  beginStepDown(turn, {
    id,
    force: command.force,
    deadline: now + catchUpSecs * 1000,
    until: now + secs * 1000,
    forShutdown: false,
  });
}

/** Stops accepting writes and waits for a member to hand over to. */
export function beginStepDown(turn: Turn, attempt: NonNullable<State['leader']>['steppingDown']): void {
  const { s } = turn;
  if (s.leader === null) return;
  s.leader = { ...s.leader, steppingDown: attempt };
  for (const peer of s.peers) askNow(turn, peer.id);
  showState(turn);
}

function tryStepDown(turn: Turn) {
  const { s, now } = turn;
  const attempt = s.leader?.steppingDown;
  if (!attempt || s.config === null) return;
  const last = s.applied.op;
  const candidates = handOverCandidates(s, last);
  const ready = candidates.length > 0 && last !== null && replicatedToMajority(s, last);
  if (!ready && now < attempt.deadline) return;
  if (!ready && !attempt.force) return giveUpStepDown(turn);
  s.quietUntil = Math.max(s.quietUntil, attempt.until);
  leaveLeadership(turn, attempt.id);
  if (!attempt.forShutdown) answer(turn, attempt.id);
  else s.quiescing = { until: attempt.until };
  const target = candidates[0];
  if (target) handOver(turn, target.host);
  if (attempt.forShutdown) startQuiesce(turn, attempt.id, attempt.until);
}

function handOver(turn: Turn, host: string): void {
  note(turn, 'I', 'REPL', 21347, 'Handing off election', { target: host });
  const token = nextToken(turn);
  emit(turn, {
    kind: 'send',
    token,
    to: host,
    request: { kind: 'stepUp', skipDryRun: true },
    timeout: 10_000,
  });
}

function giveUpStepDown(turn: Turn): void {
  const { s, now } = turn;
  const attempt = s.leader!.steppingDown!;
  s.leader = { ...s.leader!, steppingDown: null };
  showState(turn);
  const message = `No electable secondaries caught up as of ${new Date(now).toISOString()}. Please use the replSetStepDown command with the argument {force: true} to force node to step down.`;
  refuse(turn, attempt.id, refusal(262, 'ExceededTimeLimit', message));
}

// ── shutdown ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Clean shutdown: hand over, then quiesce. The answer says until when (`quiesceUntil`), 0 when there is nothing to wait for. */
export function shutDown(turn: Turn, id: number, force: boolean, timeoutMillis: number) {
  const { s, now } = turn;
  if (s.quiescing !== null) return answer(turn, id, { quiesceUntil: s.quiescing.until });
  const until = now + timeoutMillis;
  if (s.leader !== null) {
    note(turn, 'I', 'REPL', 4784900, 'Stepping down the ReplicationCoordinator for shutdown', {
      waitTimeMillis: timeoutMillis,
    });
    const running = s.leader.steppingDown;
    if (running !== null && !running.forShutdown) {
      refuse(turn, running.id, refusal(91, 'ShutdownInProgress', 'Replication is being shut down'));
    }
    return beginStepDown(turn, { id, force, deadline: until, until, forShutdown: true });
  }
  if (stateOf(s) === 'SECONDARY') return startQuiesce(turn, id, until);
  answer(turn, id, { quiesceUntil: 0 });
}

function startQuiesce(turn: Turn, id: number, until: number): void {
  const { s, now } = turn;
  s.quiescing = { until };
  note(turn, 'I', 'REPL', 4794602, 'Attempting to enter quiesce mode');
  note(turn, 'I', 'REPL', 4695102, 'Entering quiesce mode for shutdown', {
    quiesceTimeMillis: Math.max(0, until - now),
  });
  showState(turn);
  answer(turn, id, { quiesceUntil: until });
}

// ── what others tell of their progress ─────────────────────────────────────────────────────────────────────────────

/** A report of positions by somebody who syncs from here. */
export function onPositions(turn: Turn, id: number, request: PositionRequest): boolean {
  const { s } = turn;
  adoptTerm(turn, request.term);
  let moved = false;
  request.positions.forEach((reported, index) => {
    const peer = peerOf(s, reported.memberId);
    if (!peer) return;
    const newer = compareOpTimes(reported.op, peer.position.op) > 0;
    if (newer) setPeer(turn, peer.id, { position: { op: reported.op, wall: reported.wall } });
    if (newer || index === 0) setPeer(turn, peer.id, { lastSeenAt: turn.now });
    // Who reports has become readable: its state is asked for at once, not at the next heartbeat.
    const stale = index === 0 && peer.state !== STATES.SECONDARY && peer.beat.token === null;
    if (stale && s.leader !== null) askNow(turn, peer.id);
    moved ||= newer;
  });
  emit(turn, { kind: 'answerPeer', id, reply: { kind: 'positions', term: s.term } });
  return moved;
}
