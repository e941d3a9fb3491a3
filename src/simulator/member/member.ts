import type { Millis } from '../../base/units.ts';
import { electionTimers, onVote, onVoteRequest, stepUp, stepUpRefused } from './elections.ts';
import { beat, onHeartbeat, onHeartbeatReply } from './heartbeats.ts';
import { onCloned, onCloneFailed } from './initial-sync.ts';
import { NO_SYNC } from './install.ts';
import { endCatchUp, lead, onPositions, shutDown, stepDown } from './leader.ts';
import type { FetchRequest, PeerReply, PeerRequest } from './messages.ts';
import { NOWHERE, type Position, reached } from './optime.ts';
import { initiate, onQuorumReply, onSelfFound, reconfig, settleReconfigs } from './reconfig.ts';
import { servePollers } from './serve.ts';
import { follow, onRolledBack, onSyncReply, report, wantReport } from './sync.ts';
import { syncFrom } from './sync-from.ts';
import { adoptTerm, lostMajorityAt } from './terms.ts';
import {
  answer,
  type Draft,
  emit,
  heartbeatTimeout,
  nextToken,
  note,
  refusal,
  refuse,
  selfConfig,
  setPeer,
  showState,
  type Turn,
} from './turn.ts';
import type { Command, Input, LogView, Output, State } from './types.ts';
import { addWaiter, settleWaiters } from './waiters.ts';

export interface MemberOptions {
  readonly setName: string;
  /** host:port this process is reached at; used until a configuration gives it a name. */
  readonly address: string;
  readonly seed: number;
  /** Started with --configsvr. */
  readonly configServer?: boolean;
  /** Major series of the binary: 7 or 8. */
  readonly series?: number;
  /** Replaces clocks that the configuration leaves at their defaults. */
  readonly clocks?: State['clocks'];
  readonly startedAt: Millis;
}

/** A member that knows nothing yet; its first input must be `start`. */
export function newMember(options: MemberOptions): State {
  return {
    setName: options.setName,
    address: options.address,
    configServer: options.configServer ?? false,
    series: options.series ?? 8,
    seed: options.seed,
    draws: 0,
    clocks: options.clocks ?? {},
    nextToken: 1,
    startedAt: options.startedAt,
    config: null,
    self: -1,
    pending: null,
    reconfigs: [],
    configBase: null,
    prompt: false,
    term: 0,
    vote: { term: -1, candidate: -1 },
    role: 'follower',
    follower: 'STARTUP',
    maintenance: 0,
    election: null,
    leader: null,
    primaryId: -1,
    peers: [],
    applied: NOWHERE,
    committed: NOWHERE,
    rbid: 1,
    hasData: false,
    sync: NO_SYNC,
    initialSync: null,
    electionAt: null,
    priorityTakeoverAt: null,
    catchUpTakeoverAt: null,
    quietUntil: 0,
    quiescing: null,
    waiters: [],
    waitersDueAt: null,
    pollers: [],
    candidateMetrics: null,
    voteMetrics: null,
    topologyCounter: 0,
    shown: '',
    shownState: 'STARTUP',
    dueAt: null,
  };
}

/**
 * One step of one member: what it is after `input` at time `now`, and what is to be done about it, in order. Nothing is
 * changed in place; equal states, inputs, times and logs give equal results. Messages may be lost, late, doubled or out of
 * order; the driver answers every `send` with `reply` if it can and otherwise never.
 *
 * Safety, as in any set of real members: at most one primary per term (a real vote is saved before it is given), an entry
 * is committed only when a majority of the voters has it and it, or a later one, is of the primary's own term, and a log is
 * never cut back past what its member knows to be committed.
 */
export function member(
  state: State,
  input: Input,
  now: Millis,
  log: LogView,
): readonly [State, readonly Output[]] {
  const turn: Turn = { s: { ...state } as Draft, now, log, out: [] };
  forgiveStall(turn);
  take(turn, input);
  settle(turn, state);
  turn.s.dueAt = nextDeadline(turn.s, now);
  return [turn.s, turn.out];
}

/** Later than that after its due time, the member was not running: the process was stopped or busy. */
const STALL: Millis = 500;

/** Time in which this member could hear nobody proves nothing about the others. */
function forgiveStall(turn: Turn): void {
  const { s, now } = turn;
  const stalled = s.dueAt === null ? 0 : now - s.dueAt;
  if (stalled < STALL) return;
  if (s.electionAt !== null) s.electionAt += stalled;
  for (const peer of s.peers) setPeer(turn, peer.id, { lastSeenAt: peer.lastSeenAt + stalled });
}

function take(turn: Turn, input: Input) {
  switch (input.kind) {
    case 'start':
      return onStart(turn, input);
    case 'tick':
      return;
    case 'selfFound':
      return onSelfFound(turn, input.token, input.indexes);
    case 'request':
      return onRequest(turn, input.id, input.request);
    case 'reply':
      return onReply(turn, input.token, input.reply);
    case 'command':
      return onCommand(turn, input.id, input.command);
    case 'applied':
      return onApplied(turn, input.position, input.hasData);
    case 'rolledBack':
      return onRolledBack(turn, input.position, input.rbid);
    case 'cloned':
      turn.s.hasData = true;
      return onCloned(turn, input.token, input.begin, input.stopAt, input.sourceRbid);
    case 'cloneFailed':
      return onCloneFailed(turn, input.token, input.message);
    case 'wait':
      return addWaiter(turn, input.waiter);
    case 'cancelWait':
      turn.s.waiters = turn.s.waiters.filter((waiter) => waiter.id !== input.id);
      turn.s.reconfigs = turn.s.reconfigs.filter((wait) => wait.id !== input.id);
  }
}

/** Everything that follows from the new situation, whatever brought it about. */
function settle(turn: Turn, before: State): void {
  lead(turn);
  settleReconfigs(turn);
  follow(turn);
  electionTimers(turn);
  lead(turn);
  beat(turn);
  report(turn);
  settleWaiters(turn, before);
  servePollers(turn);
  showState(turn);
}

function onStart(turn: Turn, input: Extract<Input, { kind: 'start' }>) {
  const { s, log } = turn;
  const position = input.initialSyncPending ? NOWHERE : log.last();
  s.applied = position;
  s.hasData = input.hasData;
  s.rbid = input.rbid;
  if (input.vote !== null) s.vote = input.vote;
  s.term = Math.max(0, s.vote.term, position.op?.t ?? 0, input.config?.term ?? 0);
  if (input.config === null) {
    return note(
      turn,
      'I',
      'REPL',
      4280504,
      'Did not find local replica set configuration document at startup',
    );
  }
  const token = nextToken(turn);
  s.pending = { kind: 'start', token, config: input.config };
  emit(turn, { kind: 'findSelf', token, config: input.config });
}

function onApplied(turn: Turn, position: Position, hasData: boolean): void {
  const { s } = turn;
  s.applied = position;
  s.hasData = hasData;
  if (s.sync.applying !== null && reached(position.op, s.sync.applying)) {
    s.sync = { ...s.sync, applying: null };
    if (s.leader?.mode === 'catchUp') s.leader = { ...s.leader, caughtUpOps: s.leader.caughtUpOps + 1 };
  }
  if (s.leader === null || s.leader.mode === 'catchUp') wantReport(turn);
}

function onRequest(turn: Turn, id: number, request: PeerRequest) {
  switch (request.kind) {
    case 'heartbeat':
      return onHeartbeat(turn, id, request);
    case 'vote':
      return onVoteRequest(turn, id, request);
    case 'positions':
      if (onPositions(turn, id, request)) wantReport(turn);
      return;
    case 'fetch':
      return onFetch(turn, id, request);
    case 'stepUp': {
      const why = stepUp(turn, request.skipDryRun);
      const failed = {
        kind: 'failed',
        code: 125,
        codeName: 'CommandFailed',
        message: `Election failed. :: caused by :: ${why}`,
        network: false,
      } as const;
      emit(turn, { kind: 'answerPeer', id, reply: why === null ? { kind: 'done' } : failed });
    }
  }
}

function onFetch(turn: Turn, id: number, request: FetchRequest): void {
  const { s, now } = turn;
  adoptTerm(turn, request.term);
  s.pollers = [...s.pollers, { id, request, deadline: now + request.maxWait }];
}

function onReply(turn: Turn, token: number, reply: PeerReply): void {
  if (onVote(turn, token, reply) || onSyncReply(turn, token, reply) || onQuorumReply(turn, token, reply))
    return;
  onHeartbeatReply(turn, token, reply);
}

function onCommand(turn: Turn, id: number, command: Command) {
  const { s } = turn;
  if (command.kind === 'initiate') return initiate(turn, id, command.document, command.newSetId);
  if (command.kind === 'reconfig') return reconfig(turn, id, command.document, command.options);
  if (command.kind === 'shutdown') return shutDown(turn, id, command.force, command.timeoutMillis);
  if (s.config === null) {
    return refuse(turn, id, refusal(94, 'NotYetInitialized', 'no replset config has been received'));
  }
  switch (command.kind) {
    case 'stepDown':
      return stepDown(turn, id, command);
    case 'freeze':
      return freeze(turn, id, command.secs);
    case 'maintenance':
      return maintenance(turn, id, command.on);
    case 'syncFrom':
      return syncFrom(turn, id, command.host);
    case 'abortCatchUp':
      return abortCatchUp(turn, id);
    case 'stepUp': {
      const why = stepUp(turn, command.skipDryRun, id);
      if (why !== null) stepUpRefused(turn, id, why);
    }
  }
}

function freeze(turn: Turn, id: number, secs: number) {
  const { s, now } = turn;
  if (s.role !== 'follower') {
    const text = `Cannot freeze node when primary or running for election, state: ${s.role === 'leader' ? 'Primary' : 'Running-Election'}`;
    return refuse(turn, id, refusal(95, 'NotSecondary', text));
  }
  if (secs === 0) {
    s.quietUntil = 0;
    return answer(turn, id, { info: 'unfreezing' });
  }
  s.quietUntil = Math.max(s.quietUntil, now + secs * 1000);
  answer(turn, id, secs === 1 ? { warning: 'you really want to freeze for only 1 second?' } : {});
}

function maintenance(turn: Turn, id: number, on: boolean) {
  const { s } = turn;
  const notSecondary = (text: string): void => refuse(turn, id, refusal(95, 'NotSecondary', text));
  if (s.role === 'leader') return notSecondary("primaries can't modify maintenance mode");
  if (s.role === 'candidate') return notSecondary('currently running for election');
  if (!on && s.maintenance === 0) {
    return refuse(turn, id, refusal(96, 'OperationFailed', 'already out of maintenance mode'));
  }
  s.maintenance += on ? 1 : -1;
  showState(turn);
  answer(turn, id);
}

function abortCatchUp(turn: Turn, id: number) {
  if (turn.s.leader?.mode !== 'catchUp') {
    return refuse(turn, id, refusal(20, 'IllegalOperation', 'The node is not in catch-up mode.'));
  }
  endCatchUp(turn);
  answer(turn, id);
}

/**
 * The next of all the times this member waits for. Times that have passed are things that wait for something else than
 * time; only heartbeats may be due again within the step that set them.
 */
function nextDeadline(s: State, now: Millis): Millis | null {
  let next: Millis | null = null;
  const at = (time: Millis | null | undefined): void => {
    if (typeof time === 'number' && time > now && (next === null || time < next)) next = time;
  };
  if (s.config !== null && s.self >= 0) {
    const patience = heartbeatTimeout(s);
    for (const { beat } of s.peers) {
      at(beat.token === null ? Math.max(beat.dueAt, now + 1) : beat.sentAt + patience);
    }
  }
  if (s.leader !== null) {
    at(lostMajorityAt(s));
    at(s.leader.catchUpDeadline);
    at(s.leader.steppingDown?.deadline);
  } else if (s.config !== null && selfConfig(s) !== null) {
    at(s.election?.deadline ?? s.electionAt);
    at(s.priorityTakeoverAt);
    at(s.catchUpTakeoverAt);
    at(s.quietUntil);
  }
  syncDeadlines(s, at);
  at(s.waitersDueAt);
  for (const poller of s.pollers) at(poller.deadline);
  for (const wait of s.reconfigs) at(wait.deadline);
  return next;
}

function syncDeadlines(s: State, at: (time: Millis | null | undefined) => void): void {
  const { sync } = s;
  at(sync.retryAt);
  at(sync.held?.at);
  for (const time of Object.values(sync.denied)) at(time);
  if (sync.source !== null) at(sync.nextReportAt);
  if (sync.source !== null && sync.token !== null) at(sync.fetchDeadline);
  if (s.initialSync?.phase === 'choosing') at(s.initialSync.retryAt);
  if (s.pending !== null && 'quorum' in s.pending) at(s.pending.quorum?.deadline);
}
