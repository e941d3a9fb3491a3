import type { Millis } from '../../base/units.ts';
import { compareConfigs, NO_TERM, NO_VERSION, type ReplicaSetConfig } from './config.ts';
import { considerConfig } from './install.ts';
import type { FailedReply, HeartbeatReply, HeartbeatRequest, PeerReply } from './messages.ts';
import { NOWHERE, reached, sameOpTime } from './optime.ts';
import { askNow, MAX_RETRIES } from './peers.ts';
import { adoptTerm, forgetPrimary, notePrimary, whyUnelectable } from './terms.ts';
import {
  electionTimeout,
  emit,
  heartbeatInterval,
  heartbeatTimeout,
  nextToken,
  note,
  peerOf,
  selfConfig,
  selfHost,
  selfId,
  setPeer,
  shownPosition,
  stateOf,
  type Turn,
} from './turn.ts';
import { type Peer, STATES, type State } from './types.ts';

const AUTH_CODES: readonly number[] = [13, 18];

/** Why a heartbeat cannot be answered; null: it can. */
function refuseHeartbeat(s: State, request: HeartbeatRequest): FailedReply | null {
  const fail = (code: number, codeName: string, message: string): FailedReply => ({
    kind: 'failed',
    code,
    codeName,
    message,
    network: false,
  });
  if (request.setName !== s.setName) {
    return fail(
      108,
      'InconsistentReplicaSetNames',
      `Our set name of ${s.setName} does not match name ${request.setName} reported by remote node`,
    );
  }
  const ours = s.config?.settings.replicaSetId ?? null;
  if (ours !== null && request.replicaSetId !== null && ours !== request.replicaSetId) {
    return fail(
      108,
      'InconsistentReplicaSetNames',
      `replica set IDs do not match, ours: ${ours}; remote node's: ${request.replicaSetId}`,
    );
  }
  const self = selfConfig(s);
  if (s.config !== null && self === null && !couldRejoin(s, request)) {
    return fail(
      93,
      'InvalidReplicaSetConfig',
      'Our replica set configuration is invalid or does not include us',
    );
  }
  if (self !== null && request.fromId === self.id && request.from !== self.host) {
    return fail(
      2,
      'BadValue',
      `Received heartbeat from member with the same member ID as ourself: ${self.id}`,
    );
  }
  return null;
}

/** A removed member still listens to a newer configuration, which may have it again. */
const couldRejoin = (s: State, request: HeartbeatRequest): boolean =>
  s.config !== null &&
  compareConfigs({ version: request.configVersion, term: request.configTerm }, s.config) > 0;

function makeReply(s: State, now: Millis, request: HeartbeatRequest): HeartbeatReply {
  const theirs = { version: request.configVersion, term: request.configTerm };
  const newer = s.config !== null && s.self >= 0 && compareConfigs(s.config, theirs) > 0;
  return {
    kind: 'heartbeat',
    setName: s.setName,
    state: STATES[stateOf(s)],
    configVersion: s.config?.version ?? NO_VERSION,
    configTerm: s.config?.term ?? NO_TERM,
    term: s.term,
    primaryId: s.primaryId,
    position: shownPosition(s),
    committed: s.committed.op,
    syncingTo: s.sync.source ?? '',
    electionTime: s.leader?.electedAt ?? null,
    electable: whyUnelectable(s, now, 'any') === null,
    hasData: s.hasData,
    replicaSetId: s.config?.settings.replicaSetId ?? null,
    config: newer ? s.config : null,
  };
}

/** Another member's heartbeat: answer, note the sender, and fetch its configuration when it has a newer one. */
export function onHeartbeat(turn: Turn, id: number, request: HeartbeatRequest) {
  const { s } = turn;
  const refused = refuseHeartbeat(s, request);
  if (refused !== null) return emit(turn, { kind: 'answerPeer', id, reply: refused });
  if (s.config !== null) adoptTerm(turn, request.term);
  const sender = peerOf(s, request.fromId);
  if (sender && sender.host === request.from) {
    setPeer(turn, sender.id, {
      lastRequestAt: turn.now,
      configVersion: request.configVersion,
      configTerm: request.configTerm,
    });
    if (request.primaryId === request.fromId) notePrimary(turn, request.fromId, request.term, true);
  }
  emit(turn, { kind: 'answerPeer', id, reply: makeReply(s, turn.now, request) });
  const theirs = { version: request.configVersion, term: request.configTerm };
  const ours = s.config ?? { version: NO_VERSION, term: NO_TERM };
  if (!request.checkEmpty && compareConfigs(theirs, ours) > 0 && s.pending === null) {
    if (sender && s.self >= 0) askNow(turn, sender.id);
    else sendHeartbeat(turn, request.from, nextToken(turn));
  }
}

/** What this member tells of itself. */
export function heartbeatRequest(
  s: State,
  as?: { config: ReplicaSetConfig; self: number },
): HeartbeatRequest {
  const config = as?.config ?? s.config;
  const self = as ? as.config.members[as.self] : selfConfig(s);
  return {
    kind: 'heartbeat',
    setName: s.setName,
    configVersion: config?.version ?? NO_VERSION,
    configTerm: config?.term ?? NO_TERM,
    from: self?.host ?? selfHost(s),
    fromId: self?.id ?? selfId(s),
    term: s.term,
    primaryId: s.primaryId,
    checkEmpty: false,
    replicaSetId: s.config?.settings.replicaSetId ?? null,
  };
}

function sendHeartbeat(turn: Turn, to: string, token: number): void {
  emit(turn, {
    kind: 'send',
    token,
    to,
    request: heartbeatRequest(turn.s),
    timeout: heartbeatTimeout(turn.s),
  });
}

/** Sends what is due and gives up on what was never answered. */
export function beat(turn: Turn): void {
  if (turn.s.config === null || turn.s.self < 0) return;
  for (const peer of turn.s.peers) {
    const { beat } = peer;
    if (beat.token !== null && turn.now - beat.sentAt >= heartbeatTimeout(turn.s)) {
      onSilence(turn, peer, "Couldn't get a connection within the time limit", true);
    } else if (beat.token === null && beat.dueAt <= turn.now) {
      const token = nextToken(turn);
      setPeer(turn, peer.id, { beat: { ...beat, token, sentAt: turn.now } });
      sendHeartbeat(turn, peer.host, token);
    }
  }
}

/** Time to the next heartbeat: shorter while a follower looks for somebody to follow. */
function nextInterval(s: State): Millis {
  const interval = heartbeatInterval(s);
  if (selfConfig(s)?.arbiterOnly) return Math.min(electionTimeout(s) / 2, interval);
  const looking = s.role !== 'leader' && s.sync.source === null;
  return looking ? Math.min(interval / 4, electionTimeout(s) / 2) : interval;
}

function onSilence(turn: Turn, peer: Peer, message: string, timedOut: boolean) {
  const { now } = turn;
  const failedSince = peer.beat.failedSince ?? peer.beat.sentAt;
  const again = !timedOut && peer.beat.retriesLeft > 0 && now - failedSince < heartbeatTimeout(turn.s);
  if (again) {
    const retriesLeft = peer.beat.retriesLeft - 1;
    const beat = { ...peer.beat, token: null, dueAt: now, retriesLeft, failedSince };
    return setPeer(turn, peer.id, { beat });
  }
  note(turn, 'I', 'REPL_HB', 23974, 'Heartbeat failed after max retries', {
    target: peer.host,
    maxHeartbeatRetries: MAX_RETRIES,
    error: message,
  });
  markDown(turn, peer, message);
}

function markDown(turn: Turn, peer: Peer, message: string): void {
  if (peer.up !== false) {
    note(turn, 'I', 'REPL', 21216, 'Member is now in state DOWN', {
      hostAndPort: peer.host,
      heartbeatMessage: message,
    });
  }
  setPeer(turn, peer.id, {
    up: false,
    state: STATES.DOWN,
    message,
    upSince: 0,
    electable: false,
    syncingTo: '',
    rounds: peer.rounds + 1,
    beat: resting(turn, peer),
  });
  if (turn.s.primaryId === peer.id) forgetPrimary(turn);
}

const resting = (turn: Turn, peer: Peer): Peer['beat'] => ({
  ...peer.beat,
  token: null,
  dueAt: turn.now + nextInterval(turn.s),
  retriesLeft: MAX_RETRIES,
  failedSince: null,
});

/** The answer to a heartbeat of ours, or the news that there is none. Unknown tokens are late or from strangers. */
export function onHeartbeatReply(turn: Turn, token: number, reply: PeerReply) {
  const { s, now } = turn;
  const peer = s.peers.find((candidate) => candidate.beat.token === token);
  if (!peer) {
    if (reply.kind === 'heartbeat' && reply.config && reply.setName === s.setName) {
      considerConfig(turn, reply.config);
    }
    return;
  }
  if (reply.kind === 'failed') return onFailedHeartbeat(turn, peer, reply);
  if (reply.kind !== 'heartbeat') return;
  if (reply.setName !== s.setName) {
    const message = `replica set name mismatch: ours is ${s.setName}, theirs is ${reply.setName}`;
    return markDown(turn, peer, message);
  }
  takeIn(turn, peer, reply, now);
  adoptTerm(turn, reply.term);
  if (reply.config) considerConfig(turn, reply.config);
  notePrimaryFromReply(turn, peer.id, reply);
  learnCommitted(turn, reply);
}

function onFailedHeartbeat(turn: Turn, peer: Peer, reply: FailedReply) {
  if (AUTH_CODES.includes(reply.code)) {
    return setPeer(turn, peer.id, {
      authenticated: false,
      state: STATES.UNKNOWN,
      up: false,
      electable: false,
      message: reply.message,
      rounds: peer.rounds + 1,
      beat: resting(turn, peer),
    });
  }
  if (reply.network) return onSilence(turn, peer, reply.message, false);
  markDown(turn, peer, reply.message);
}

function takeIn(turn: Turn, peer: Peer, reply: HeartbeatReply, now: Millis): void {
  if (reply.state !== peer.state) {
    const stateName = Object.entries(STATES).find(([, number]) => number === reply.state)?.[0] ?? 'UNKNOWN';
    note(turn, 'I', 'REPL', 21215, 'Member is in new state', { hostAndPort: peer.host, newState: stateName });
  }
  const ping = now - peer.beat.sentAt;
  // Answers may overtake each other: a position only grows, except when the member has started over.
  const position =
    reply.position.op === null
      ? NOWHERE
      : reached(reply.position.op, peer.position.op)
        ? reply.position
        : peer.position;
  setPeer(turn, peer.id, {
    up: true,
    authenticated: true,
    state: reply.state,
    position,
    electionTime: reply.electionTime,
    term: reply.term,
    syncingTo: reply.syncingTo,
    configVersion: reply.configVersion,
    configTerm: reply.configTerm,
    electable: reply.electable,
    message: '',
    pingMillis: peer.rounds === 0 ? ping : Math.round(peer.pingMillis * 0.8 + ping * 0.2),
    upSince: peer.up === true ? peer.upSince : now,
    lastReplyAt: now,
    lastSeenAt: now,
    rounds: peer.rounds + 1,
    beat: resting(turn, peer),
  });
}

function notePrimaryFromReply(turn: Turn, id: number, reply: HeartbeatReply): void {
  if (reply.state === STATES.PRIMARY) notePrimary(turn, id, reply.term, true);
  else if (turn.s.primaryId === id) forgetPrimary(turn);
}

/** Heartbeats carry the commit point; it is believed only within the term of the own newest entry. */
function learnCommitted(turn: Turn, reply: HeartbeatReply): void {
  const { s } = turn;
  const { committed } = reply;
  if (committed === null || s.role === 'leader' || reached(s.committed.op, committed)) return;
  if (selfConfig(s)?.arbiterOnly) {
    s.committed = { op: committed, wall: reply.position.wall };
    return;
  }
  if (s.applied.op === null || s.applied.op.t !== committed.t || s.follower === 'STARTUP2') return;
  if (reached(s.applied.op, committed)) s.committed = { op: committed, wall: s.applied.wall };
  else if (!sameOpTime(s.applied.op, s.committed.op) && reached(s.applied.op, s.committed.op)) {
    s.committed = s.applied;
  }
}
