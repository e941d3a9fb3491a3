import { compareConfigs, configText, isVoter, majorityVotes, priorityOf } from './config.ts';
import type { PeerReply, VoteReply, VoteRequest } from './messages.ts';
import { laterOpTime, opTimeText, reached } from './optime.ts';
import { newestKnown, restartHeartbeats } from './peers.ts';
import { abandonElection, adoptTerm, resetElectionTimer, whyUnelectable } from './terms.ts';
import {
  answer,
  draw,
  electionTimeout,
  emit,
  nextToken,
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
import { type ElectionReason, STATES } from './types.ts';

const WHY: Readonly<Record<ElectionReason, readonly [number, string]>> = {
  electionTimeout: [4615652, "Starting an election, since we've seen no PRIMARY in election timeout period"],
  priorityTakeover: [4615660, 'Starting an election for a priority takeover'],
  stepUpRequest: [4615661, 'Starting an election due to step up request'],
  stepUpRequestSkipDryRun: [4615661, 'Starting an election due to step up request'],
  catchupTakeover: [4615659, 'Starting an election for a catchup takeover'],
  singleNodePromptElection: [4615662, 'Starting an election due to single node replica set prompt election'],
};

/** Stands for election if this member may. Gives the reason it does not. */
export function standForElection(turn: Turn, reason: ElectionReason, asker?: number): string | null {
  const { s, now } = turn;
  s.priorityTakeoverAt = null;
  s.catchUpTakeoverAt = null;
  if (s.role === 'leader') return 'node is already primary';
  if (s.election !== null) {
    if (asker !== undefined) s.election = { ...s.election, askers: [...s.election.askers, asker] };
    return null;
  }
  resetElectionTimer(turn);
  const unelectable = whyUnelectable(s, now, reason === 'priorityTakeover' ? 'priorityTakeover' : 'any');
  if (unelectable !== null) {
    note(turn, 'I', 'ELECTION', 4615655, 'Not starting an election, since we are not electable', {
      reason: unelectable,
    });
    return unelectable;
  }
  note(turn, 'I', 'ELECTION', WHY[reason][0], WHY[reason][1], {
    electionTimeoutPeriodMillis: electionTimeout(s),
  });
  const askers = asker === undefined ? [] : [asker];
  s.role = 'candidate';
  if (reason === 'stepUpRequestSkipDryRun') {
    note(turn, 'I', 'ELECTION', 21437, 'Skipping dry run and running for election', { newTerm: s.term + 1 });
    runForReal(turn, reason, askers);
  } else {
    note(turn, 'I', 'ELECTION', 21438, 'Conducting a dry run election to see if we could be elected', {
      currentTerm: s.term,
    });
    askForVotes(turn, reason, true, askers);
  }
  return null;
}

function askForVotes(turn: Turn, reason: ElectionReason, dryRun: boolean, askers: readonly number[]): void {
  const { s } = turn;
  const config = s.config!;
  const self = selfId(s);
  const pending: Record<number, number> = {};
  const request: VoteRequest = {
    kind: 'vote',
    setName: s.setName,
    dryRun,
    term: s.term,
    candidateIndex: s.self,
    configVersion: config.version,
    configTerm: config.term,
    lastApplied: s.applied.op,
  };
  const timeout = electionTimeout(s);
  for (const member of config.members) {
    if (member.id === self || !isVoter(member)) continue;
    const token = nextToken(turn);
    pending[token] = member.id;
    emit(turn, { kind: 'send', token, to: member.host, request, timeout });
  }
  const deadline = turn.now + timeout;
  s.election = { reason, dryRun, term: s.term, yes: [self], no: [], pending, deadline, askers };
  decide(turn);
}

/** Takes a new term with the own vote, which is on disk before anybody is asked. */
function runForReal(turn: Turn, reason: ElectionReason, askers: readonly number[]): void {
  const { s } = turn;
  s.term += 1;
  s.primaryId = -1;
  s.vote = { term: s.term, candidate: s.self };
  note(turn, 'I', 'ELECTION', 6015300, 'Storing last vote document in local storage for my election', {
    lastVote: { term: s.term, candidateIndex: s.self },
  });
  emit(turn, { kind: 'saveVote', vote: s.vote });
  askForVotes(turn, reason, false, askers);
}

/** Counts; called after every vote and when time is over. */
export function decide(turn: Turn) {
  const { s } = turn;
  const { election } = s;
  if (election === null || s.config === null) return;
  const needed = majorityVotes(s.config);
  const mine = selfConfig(s)?.votes === 1 ? election.yes.length : election.yes.length - 1;
  if (mine >= needed) return election.dryRun ? goReal(turn) : win(turn);
  const open = Object.keys(election.pending).length;
  if (mine + open >= needed && turn.now < election.deadline) return;
  note(turn, 'I', 'ELECTION', 21442, 'Not becoming primary, we received insufficient votes', {
    dryRun: election.dryRun,
  });
  abandonElection(turn);
  resetElectionTimer(turn);
}

function goReal(turn: Turn): void {
  const { reason, askers } = turn.s.election!;
  note(turn, 'I', 'ELECTION', 21444, 'Dry election run succeeded, running for election', {
    newTerm: turn.s.term + 1,
  });
  runForReal(turn, reason, askers);
}

function win(turn: Turn): void {
  const { s, now } = turn;
  const { reason, term, askers } = s.election!;
  const config = s.config!;
  note(turn, 'I', 'ELECTION', 21450, 'Election succeeded, assuming primary role', { term });
  const priorPrimary = s.peers.find((peer) => peer.state === STATES.PRIMARY);
  s.candidateMetrics = {
    reason,
    at: now,
    term,
    committedAt: s.committed.op,
    lastSeen: newestKnown(s),
    votesNeeded: majorityVotes(config),
    priority: selfConfig(s)!.priority,
    timeoutMillis: electionTimeout(s),
    priorPrimaryId: priorPrimary?.id ?? null,
    caughtUpOps: 0,
    termStartAt: null,
    majorityAt: null,
  };
  s.voteMetrics = null;
  s.election = null;
  s.prompt = false;
  s.role = 'leader';
  s.primaryId = selfId(s);
  s.electionAt = null;
  const limit = config.settings.catchUpTimeoutMillis;
  const alone = config.members.length === 1 || limit === 0;
  s.leader = {
    mode: alone ? 'draining' : 'catchUp',
    term,
    electedAt: now,
    firstOp: null,
    catchUpDeadline: limit > 0 ? now + limit : null,
    caughtUpOps: 0,
    noopAsked: false,
    steppingDown: null,
  };
  s.peers = s.peers.map((peer) => ({ ...peer, lastSeenAt: now }));
  for (const id of askers) answer(turn, id);
  restartHeartbeats(turn);
  showState(turn);
}

/** An answer to a vote request of ours; true when the token was one. */
export function onVote(turn: Turn, token: number, reply: PeerReply): boolean {
  const { election } = turn.s;
  const from = election?.pending[token];
  if (election === null || from === undefined) return false;
  const { [token]: _, ...pending } = election.pending;
  const granted = reply.kind === 'vote' && reply.granted;
  note(turn, 'I', 'ELECTION', 51799, 'VoteRequester processResponse', {
    term: turn.s.term,
    dryRun: election.dryRun,
    vote: granted ? 'yes' : 'no',
    from: peerOf(turn.s, from)?.host ?? '',
    ...(reply.kind === 'failed' ? { message: reply.message } : {}),
  });
  turn.s.election = {
    ...election,
    pending,
    yes: granted ? [...election.yes, from] : election.yes,
    no: granted ? election.no : [...election.no, from],
  };
  if (reply.kind === 'vote') adoptTerm(turn, reply.term);
  decide(turn);
  return true;
}

/** The reason against a candidate; null: it gets the vote. First rule that hits wins. */
function against(turn: Turn, request: VoteRequest): string | null {
  const { s } = turn;
  const config = s.config!;
  const theirs = { version: request.configVersion, term: request.configTerm };
  if (compareConfigs(theirs, config) < 0) {
    return `candidate's config with ${configText(theirs)} is older than mine with ${configText(config)}`;
  }
  if (request.term < s.term) return `candidate's term (${request.term}) is lower than mine (${s.term})`;
  if (request.setName !== s.setName) {
    return `candidate's set name (${request.setName}) differs from mine (${s.setName})`;
  }
  const mine = s.follower === 'STARTUP2' ? null : s.applied.op;
  if (!reached(request.lastApplied, mine)) {
    const what = s.series >= 8 ? 'written' : 'applied';
    return `candidate's data is staler than mine. candidate's last ${what} OpTime: ${opTimeText(request.lastApplied)}, my last ${what} OpTime: ${opTimeText(mine)}`;
  }
  if (!request.dryRun && s.vote.term === request.term && s.vote.candidate !== request.candidateIndex) {
    const host = config.members[s.vote.candidate]?.host ?? '';
    return `already voted for another candidate (${host}) this term (${s.vote.term})`;
  }
  return healthyPrimaryReason(turn, request);
}

/** Only arbiters refuse for the sake of a primary they see. */
function healthyPrimaryReason(turn: Turn, request: VoteRequest): string | null {
  const { s } = turn;
  const config = s.config!;
  const sameConfig =
    compareConfigs({ version: request.configVersion, term: request.configTerm }, config) === 0;
  const candidate = config.members[request.candidateIndex];
  if (!selfConfig(s)?.arbiterOnly || !sameConfig || !candidate) return null;
  const primary = config.members.find(
    (member) =>
      member.id !== candidate.id &&
      peerOf(s, member.id)?.up === true &&
      peerOf(s, member.id)?.state === STATES.PRIMARY &&
      priorityOf(member) >= priorityOf(candidate),
  );
  return primary ? `can see a healthy primary (${primary.host}) of equal or greater priority` : null;
}

/** Another member asks for this one's vote. A real vote is on disk before the answer leaves. */
export function onVoteRequest(turn: Turn, id: number, request: VoteRequest) {
  const { s } = turn;
  const reject = (code: number, codeName: string, message: string): void =>
    emit(turn, {
      kind: 'answerPeer',
      id,
      reply: { kind: 'failed', code, codeName, message, network: false },
    });
  if (s.config === null) return reject(94, 'NotYetInitialized', 'no replset config has been received');
  if (selfConfig(s) === null) {
    return reject(
      93,
      'InvalidReplicaSetConfig',
      'Our replica set configuration is invalid or does not include us',
    );
  }
  if (request.setName === s.setName) adoptTerm(turn, request.term);
  const reason = against(turn, request);
  const granted = reason === null;
  if (granted && !request.dryRun) {
    s.vote = { term: request.term, candidate: request.candidateIndex };
    emit(turn, { kind: 'saveVote', vote: s.vote });
    resetElectionTimer(turn);
  }
  const reply: VoteReply = { kind: 'vote', term: s.term, granted, reason: reason ?? '' };
  if (!request.dryRun) rememberVote(turn, request, granted, reply.reason);
  note(turn, 'I', 'ELECTION', 23980, 'Responding to vote request', {
    request,
    response: reply,
    state: stateOf(s),
  });
  emit(turn, { kind: 'answerPeer', id, reply });
}

function rememberVote(turn: Turn, request: VoteRequest, granted: boolean, reason: string): void {
  const { s } = turn;
  const self = selfConfig(s);
  s.voteMetrics = {
    granted,
    term: request.term,
    at: turn.now,
    candidateId: s.config?.members[request.candidateIndex]?.id ?? -1,
    reason,
    lastApplied: s.applied.op,
    maxApplied: laterOpTime(newestKnown(s), request.lastApplied),
    priority: self?.priority ?? 0,
  };
}

/** Follower's timers: election timeout, takeovers, the initiator's and a lone member's immediate candidacy. */
export function electionTimers(turn: Turn): void {
  const { s, now } = turn;
  if (s.role === 'leader' || s.config === null) return;
  if (s.election !== null) {
    if (now >= s.election.deadline) decide(turn);
    return;
  }
  const self = selfConfig(s);
  if (self === null) return;
  if (stateOf(s) === 'SECONDARY' && now >= s.quietUntil && s.quiescing === null) {
    const alone = s.config.members.length === 1;
    if (alone || (s.prompt && initiatorMayStand(turn))) {
      s.prompt = false;
      standForElection(turn, 'electionTimeout');
      return;
    }
  }
  takeovers(turn);
  if (s.election === null && s.electionAt !== null && now >= s.electionAt) {
    standForElection(turn, 'electionTimeout');
  }
}

/** Everybody's votes are there: a majority has the initial configuration and answers. */
function initiatorMayStand(turn: Turn): boolean {
  const { s } = turn;
  const config = s.config!;
  const ready = config.members.filter((member) => {
    const peer = peerOf(s, member.id);
    if (!isVoter(member)) return false;
    return member.id === selfId(s) || (peer?.up === true && peer.configVersion >= config.version);
  });
  return ready.length >= majorityVotes(config);
}

function takeovers(turn: Turn): void {
  const { s, now } = turn;
  const config = s.config!;
  const self = selfConfig(s)!;
  const primary = config.members.find((member) => member.id === s.primaryId);
  const peer = primary ? peerOf(s, primary.id) : undefined;
  if (!primary || peer?.state !== STATES.PRIMARY || stateOf(s) !== 'SECONDARY') return;
  if (s.priorityTakeoverAt !== null && now >= s.priorityTakeoverAt) {
    s.priorityTakeoverAt = null;
    if (priorityOf(self) > priorityOf(primary)) standForElection(turn, 'priorityTakeover');
    return;
  }
  if (s.catchUpTakeoverAt !== null && now >= s.catchUpTakeoverAt) {
    s.catchUpTakeoverAt = null;
    if (isFresher(turn)) standForElection(turn, 'catchupTakeover');
    return;
  }
  schedulePriorityTakeover(turn, priorityOf(primary));
  scheduleCatchUpTakeover(turn);
}

function schedulePriorityTakeover(turn: Turn, primaryPriority: number): void {
  const { s, now } = turn;
  const mine = priorityOf(selfConfig(s)!);
  if (s.priorityTakeoverAt !== null || mine <= primaryPriority) return;
  const rank = s.config!.members.filter((member) => priorityOf(member) > mine).length;
  const timeout = electionTimeout(s);
  s.priorityTakeoverAt = now + (rank + 1) * timeout + Math.floor(draw(turn) * 0.15 * timeout);
  note(turn, 'I', 'ELECTION', 4615601, 'Scheduling priority takeover', {
    when: new Date(s.priorityTakeoverAt),
  });
}

/** The primary has not written in its term and lacks something this member has. */
function isFresher(turn: Turn): boolean {
  const { s } = turn;
  const theirs = peerOf(s, s.primaryId)?.position.op ?? null;
  const mine = s.applied.op;
  return mine !== null && theirs !== null && !reached(theirs, mine) && mine.t < s.term;
}

function scheduleCatchUpTakeover(turn: Turn): void {
  const { s, now } = turn;
  const { catchUpTakeoverDelayMillis: delay, catchUpTimeoutMillis } = s.config!.settings;
  if (s.catchUpTakeoverAt !== null || delay < 0 || catchUpTimeoutMillis === 0 || !isFresher(turn)) return;
  s.catchUpTakeoverAt = now + delay + Math.floor(draw(turn) * 0.15 * delay);
  note(turn, 'I', 'ELECTION', 4615648, 'Scheduling catchup takeover', {
    when: new Date(s.catchUpTakeoverAt),
  });
}

/** A hand-off from a primary that steps down, or replSetStepUp. */
export function stepUp(turn: Turn, skipDryRun: boolean, asker?: number): string | null {
  return standForElection(turn, skipDryRun ? 'stepUpRequestSkipDryRun' : 'stepUpRequest', asker);
}

/** Refusal of replSetStepUp. */
export const stepUpRefused = (turn: Turn, id: number, why: string): void =>
  refuse(
    turn,
    id,
    refusal(
      125,
      'CommandFailed',
      `Election failed. :: caused by :: Not standing for election because ${why}`,
    ),
  );
