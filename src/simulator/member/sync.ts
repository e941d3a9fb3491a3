import { isVoter } from './config.ts';
import { NO_SYNC } from './install.ts';
import {
  compareOpTimes,
  earlierOpTime,
  NOWHERE,
  type OpTime,
  type Position,
  reached,
  sameOpTime,
} from './optime.ts';
import { adoptTerm, notePrimary } from './terms.ts';
import {
  answer,
  electionTimeout,
  emit,
  memberById,
  nextToken,
  note,
  peersOf,
  refusal,
  refuse,
  selfConfig,
  selfHost,
  selfId,
  setFollower,
  shownPosition,
  stateOf,
  type Turn,
} from './turn.ts';
import {
  type FetchReply,
  type Peer,
  type PeerReply,
  STATES,
  type State,
  type SyncMetadata,
} from './types.ts';

/** How long a fetch is held open by the source when there is nothing new. */
export const FETCH_WAIT = 5_000;
/** More than that without an answer and the source counts as unreachable. */
const FETCH_GRACE = 5_000;
/** A source that failed is left alone for this long. */
const DENY_MILLIS = 2_000;
/** A chain that brought nothing for this long may be a ring. */
const STUCK_MILLIS = 10_000;
/** One whose log begins too late. */
const STALE_DENY_MILLIS = 60_000;
const RETRY_MILLIS = 200;
/** A source that is this far behind the primary is not taken at first try. */
const MAX_SOURCE_LAG_SECS = 30;
const MAX_INITIAL_SYNC_ATTEMPTS = 10;
const INITIAL_SYNC_RETRY = 1_000;
/** An idle follower still reports within this time. */
const KEEP_ALIVE = 5_000;

/** This member copies operations from another at the moment. */
function follows(s: State): boolean {
  const self = selfConfig(s);
  if (self === null || self.arbiterOnly || s.quiescing !== null) return false;
  if (s.leader !== null) return s.leader.mode === 'catchUp';
  return s.follower !== 'ROLLBACK' && s.follower !== 'STARTUP';
}

// ── choosing ───────────────────────────────────────────────────────────────────────────────────────────────────────

const readable = (peer: Peer): boolean => peer.state === STATES.PRIMARY || peer.state === STATES.SECONDARY;

function usable(turn: Turn, peer: Peer, strict: boolean): boolean {
  const { s, now } = turn;
  const self = selfConfig(s)!;
  const member = memberById(s, peer.id);
  if (!member || peer.up !== true || !readable(peer) || member.arbiterOnly) return false;
  if (self.buildIndexes && !member.buildIndexes) return false;
  if ((s.sync.denied[peer.host] ?? 0) > now) return false;
  const isPrimary = peer.id === s.primaryId;
  if (s.config?.settings.chainingAllowed === false && !isPrimary && s.leader === null) return false;
  const mine = s.applied.op;
  const ahead = mine === null ? peer.position.op !== null : compareOpTimes(peer.position.op, mine) > 0;
  // The primary is followed even while it has nothing new: its next operation then comes without a search.
  if (!ahead && !isPrimary) return false;
  if (!strict) return true;
  if (isVoter(self) && !isVoter(member)) return false;
  if (member.hidden && !self.hidden) return false;
  if (member.secondaryDelaySecs > self.secondaryDelaySecs) return false;
  const primary = s.peers[s.primaryId]?.position.op;
  return !primary || (peer.position.op?.s ?? 0) >= primary.s - MAX_SOURCE_LAG_SECS;
}

/** The primary when it can be used, else the nearest that is ahead; second try with fewer wishes. */
export function chooseSource(turn: Turn): Peer | null {
  const { s } = turn;
  if (s.sync.forced !== null) {
    const forced = peersOf(s).find((peer) => peer.host === s.sync.forced && peer.up);
    s.sync = { ...s.sync, forced: null };
    if (forced) return forced;
  }
  for (const strict of [true, false]) {
    const candidates = peersOf(s)
      .filter((peer) => usable(turn, peer, strict))
      .sort((a, b) => a.pingMillis - b.pingMillis || a.id - b.id);
    const best = candidates.find((peer) => peer.id === s.primaryId) ?? candidates[0];
    if (best) return best;
  }
  return null;
}

function setSource(turn: Turn, peer: Peer | null, info: string): void {
  const { s, now } = turn;
  s.sync = {
    ...s.sync,
    source: peer?.host ?? null,
    sourceId: peer?.id ?? -1,
    token: null,
    held: null,
    sourceApplied: null,
    sourceCommitted: NOWHERE,
    lastBatchAt: now,
    info,
    infoAt: info === s.sync.info ? s.sync.infoAt : now,
  };
}

/** Leaves a source that failed or that cannot serve this member. */
function dropSource(turn: Turn, why: string, denyMillis: number): void {
  const { s, now } = turn;
  const { source, failures } = s.sync;
  if (source === null) return;
  note(turn, 'I', 'REPL', 21275, 'Stopped following the sync source', { syncSource: source, reason: why });
  const denied = { ...s.sync.denied, [source]: now + denyMillis };
  s.sync = { ...s.sync, denied, failures: failures + 1, retryAt: now + RETRY_MILLIS };
  setSource(turn, null, why);
}

// ── the loop ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a follower does after every input: choose a source, keep one fetch open, finish what is finished. */
export function follow(turn: Turn) {
  const { s, now } = turn;
  advanceFollower(turn);
  if (!follows(s)) return;
  if (s.initialSync !== null && s.initialSync.phase !== 'applying') return initialSync(turn);
  if (s.sync.applying !== null) return;
  if (s.sync.held !== null) return releaseHeld(turn);
  reconsider(turn);
  if (s.sync.token !== null && now >= s.sync.fetchDeadline) {
    dropSource(turn, `no answer from ${s.sync.source}`, DENY_MILLIS);
  }
  if (s.sync.source === null) {
    if (now < s.sync.retryAt) return;
    const peer = chooseSource(turn);
    if (peer === null) {
      if (s.sync.info === '') setSource(turn, null, 'Could not find member to sync from');
      return;
    }
    note(turn, 'I', 'REPL', 21799, 'Sync source candidate chosen', { syncSource: peer.host });
    setSource(turn, peer, `syncing from: ${peer.host}`);
  }
  if (s.sync.token === null && s.applied.op !== null && now >= s.sync.retryAt) fetch(turn, s.applied.op);
}

/** Leaves a source that is gone, that is no longer allowed, or that brings nothing while another would. */
function reconsider(turn: Turn) {
  const { s } = turn;
  const { source, sourceId, forced } = s.sync;
  if (source === null) return;
  const peer = s.peers[sourceId];
  if (forced !== null && forced !== source) return setSource(turn, null, '');
  if (!peer || peer.up === false) return dropSource(turn, `${source} is down`, 0);
  if (peer.up && !readable(peer) && peer.state !== STATES.UNKNOWN) {
    return dropSource(turn, `${source} is not readable`, 0);
  }
  if (sourceId === s.primaryId) return;
  const primary = s.leader === null ? s.peers[s.primaryId] : undefined;
  if (s.config?.settings.chainingAllowed === false && primary) {
    return dropSource(turn, 'chaining is not allowed', 0);
  }
  if (brings(turn, peer, primary)) return;
  setSource(turn, null, '');
}

/**
 * Following a follower is fine while it is ahead. One that is not, and has no source of its own or only us, is left for the
 * primary; any other (a longer ring) when somebody has been ahead of us for a while.
 */
function brings(turn: Turn, source: Peer, primary: Peer | undefined): boolean {
  const { s, now } = turn;
  if (!reached(s.applied.op, source.position.op)) return true;
  const idle = source.syncingTo === '' || source.syncingTo === selfHost(s);
  if (idle && primary && usable(turn, primary, false)) return false;
  return !((idle || now - s.sync.lastBatchAt > STUCK_MILLIS) && othersAhead(turn, source));
}

const othersAhead = (turn: Turn, source: Peer): boolean =>
  peersOf(turn.s).some(
    (peer) =>
      peer.id !== source.id &&
      usable(turn, peer, false) &&
      compareOpTimes(peer.position.op, turn.s.applied.op) > 0,
  );

function fetch(turn: Turn, after: OpTime): void {
  const { s, now } = turn;
  const token = nextToken(turn);
  s.sync = { ...s.sync, token, after, fetchDeadline: now + FETCH_WAIT + FETCH_GRACE };
  emit(turn, {
    kind: 'send',
    token,
    to: s.sync.source!,
    timeout: FETCH_WAIT + FETCH_GRACE,
    request: {
      kind: 'fetch',
      after,
      knownCommitted: s.committed.op,
      knownPrimary: s.primaryId,
      term: s.term,
      fromId: selfId(s),
      maxWait: Math.min(FETCH_WAIT, Math.floor(electionTimeout(s) / 2)),
    },
  });
}

/** The answer to a fetch or a report of ours; true when the token was one. */
export function onSyncReply(turn: Turn, token: number, reply: PeerReply): boolean {
  const { s, now } = turn;
  if (token === s.sync.reporting) {
    s.sync = { ...s.sync, reporting: null };
    if (reply.kind === 'positions') adoptTerm(turn, reply.term);
    return true;
  }
  if (token !== s.sync.token) return false;
  s.sync = { ...s.sync, token: null };
  if (reply.kind !== 'fetch') {
    dropSource(turn, reply.kind === 'failed' ? reply.message : 'unexpected answer', DENY_MILLIS);
    return true;
  }
  s.sync = { ...s.sync, failures: 0, sourceApplied: reply.metadata.lastApplied, retryAt: now };
  takeMetadata(turn, reply.metadata);
  if (follows(s) && s.sync.source !== null) onBatch(turn, token, reply);
  return true;
}

function takeMetadata(turn: Turn, metadata: SyncMetadata): void {
  const { s } = turn;
  adoptTerm(turn, metadata.term);
  if (metadata.term === s.term && metadata.primaryId >= 0) {
    notePrimary(turn, metadata.primaryId, metadata.term, metadata.primaryId === metadata.selfId);
  }
}

function onBatch(turn: Turn, token: number, reply: FetchReply) {
  const { s, now } = turn;
  const { result, metadata } = reply;
  if (s.initialSync?.phase === 'applying' && s.initialSync.sourceRbid !== metadata.rbid) {
    return failInitialSync(turn, 'the sync source rolled back during initial sync');
  }
  if (result.kind === 'tooStale') return onTooStale(turn);
  if (result.kind === 'diverged') return onDiverged(turn, result.ancestor, metadata);
  const after = s.sync.after;
  if (!sameOpTime(after, s.applied.op)) return after === null ? undefined : rollBack(turn, after);
  s.sync = {
    ...s.sync,
    tooStale: false,
    sourceCommitted: { op: metadata.committed, wall: metadata.committedWall },
  };
  if (result.upTo === null || reached(s.applied.op, result.upTo)) return;
  const delay = 1000 * (selfConfig(s)?.secondaryDelaySecs ?? 0);
  const at = result.upTo.s * 1000 + delay;
  if (delay > 0 && at > now) {
    s.sync = { ...s.sync, held: { token, upTo: result.upTo, at } };
    return;
  }
  apply(turn, token, result.upTo);
}

function apply(turn: Turn, token: number, upTo: OpTime): void {
  turn.s.sync = { ...turn.s.sync, applying: upTo, held: null, lastBatchAt: turn.now };
  emit(turn, { kind: 'apply', token, upTo });
}

function releaseHeld(turn: Turn): void {
  const { held } = turn.s.sync;
  if (held !== null && turn.now >= held.at) apply(turn, held.token, held.upTo);
}

function onTooStale(turn: Turn) {
  const { s } = turn;
  if (s.initialSync !== null) return failInitialSync(turn, 'the sync source no longer has the oplog needed');
  dropSource(turn, 'too stale to catch up', STALE_DENY_MILLIS);
  // Another source's log may reach further back.
  if (chooseSource(turn) !== null) return;
  if (!s.sync.tooStale) note(turn, 'E', 'REPL', 21152, 'We are too stale to use any sync source', {});
  s.sync = { ...s.sync, tooStale: true };
  if (s.follower === 'SECONDARY' && s.leader === null) setFollower(turn, 'RECOVERING');
}

// ── rollback ───────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * The source lacks what was asked for. If it is ahead of this member, this member's newest entries belong to a term that
 * lost: look for the newest entry both have. Both sides' entries are in order and an entry names its whole past, so each
 * question skips at least one divergent run.
 */
function onDiverged(turn: Turn, ancestor: OpTime | null, metadata: SyncMetadata) {
  const { s } = turn;
  if (s.leader !== null) return dropSource(turn, 'source diverged during catch-up', 60_000);
  if (reached(s.applied.op, metadata.lastApplied)) {
    return dropSource(turn, 'source is behind and lacks our newest entry', DENY_MILLIS);
  }
  const mine = ancestor === null ? null : turn.log.atOrBefore(ancestor);
  if (mine === null) return onTooStale(turn);
  if (sameOpTime(mine, ancestor)) return rollBack(turn, mine);
  fetch(turn, mine);
}

function rollBack(turn: Turn, to: OpTime) {
  const { s } = turn;
  if (!reached(to, s.committed.op)) {
    note(turn, 'F', 'ROLLBACK', 51121, 'Common point is before the last committed operation', {});
    return emit(turn, { kind: 'fatal', message: 'rollback would undo a majority-committed operation' });
  }
  note(turn, 'I', 'ROLLBACK', 21604, 'Rollback - starting', { commonPoint: to });
  s.sync = { ...s.sync, sourceCommitted: NOWHERE, held: null };
  setFollower(turn, 'ROLLBACK');
  emit(turn, { kind: 'leftPrimary', reason: 'rollback' });
  emit(turn, { kind: 'rollback', to });
}

/** Storage has undone what was to be undone. */
export function onRolledBack(turn: Turn, position: Position, rbid: number): void {
  const { s } = turn;
  s.applied = position;
  s.rbid = rbid;
  s.sync = { ...s.sync, applying: null, token: null };
  note(turn, 'I', 'ROLLBACK', 21612, 'Rollback - complete', { rbid });
  setFollower(turn, 'RECOVERING');
}

// ── becoming readable, reports ─────────────────────────────────────────────────────────────────────────────────────

function advanceFollower(turn: Turn): void {
  const { s } = turn;
  learnCommitted(turn);
  if (s.initialSync?.phase === 'applying' && reached(s.applied.op, s.initialSync.stopAt)) {
    note(turn, 'I', 'INITSYNC', 21191, 'Initial sync done', { attempt: s.initialSync.attempt });
    s.initialSync = null;
    emit(turn, { kind: 'initialSyncDone' });
    setFollower(turn, 'RECOVERING');
    setFollower(turn, 'SECONDARY');
  }
  if (s.follower === 'RECOVERING' && !s.sync.tooStale && s.initialSync === null && s.config !== null) {
    setFollower(turn, 'SECONDARY');
  }
}

function learnCommitted(turn: Turn): void {
  const { s } = turn;
  const { op, wall } = s.sync.sourceCommitted;
  if (op === null || s.follower === 'ROLLBACK') return;
  if (s.leader !== null && s.leader.mode !== 'catchUp') return;
  const known = earlierOpTime(op, s.applied.op);
  if (known === null || reached(s.committed.op, known)) return;
  s.committed = { op: known, wall: sameOpTime(known, op) ? wall : s.applied.wall };
  emit(turn, { kind: 'stable', op: known });
}

/** Tells the sync source how far this member, and those behind it, are. */
export function report(turn: Turn): void {
  const { s, now } = turn;
  const { source, reporting, reportAgain, nextReportAt } = s.sync;
  if (source === null || s.leader !== null || s.initialSync !== null || s.config === null) return;
  if (reporting !== null && now < nextReportAt) return;
  if (!reportAgain && now < nextReportAt) return;
  const token = nextToken(turn);
  const downstream = peersOf(s)
    .filter((peer) => peer.syncingTo === selfHost(s) && peer.position.op !== null)
    .map((peer) => ({ memberId: peer.id, ...peer.position }));
  const keepAlive = Math.min(KEEP_ALIVE, electionTimeout(s) / 2);
  s.sync = { ...s.sync, reporting: token, reportAgain: false, nextReportAt: now + keepAlive };
  emit(turn, {
    kind: 'send',
    token,
    to: source,
    timeout: KEEP_ALIVE,
    request: {
      kind: 'positions',
      term: s.term,
      configVersion: s.config.version,
      positions: [{ memberId: selfId(s), ...shownPosition(s) }, ...downstream],
    },
  });
}

/** The next report may not wait. */
export function wantReport(turn: Turn): void {
  turn.s.sync = { ...turn.s.sync, reportAgain: true };
}

// ── initial sync ───────────────────────────────────────────────────────────────────────────────────────────────────

function initialSync(turn: Turn): void {
  const { s, now } = turn;
  const current = s.initialSync!;
  if (current.phase !== 'choosing' || now < current.retryAt) return;
  const peer = chooseSource(turn);
  if (peer === null) return;
  const token = nextToken(turn);
  note(turn, 'I', 'INITSYNC', 21164, 'Starting initial sync attempt', {
    initialSyncAttempt: current.attempt,
    initialSyncMaxAttempts: MAX_INITIAL_SYNC_ATTEMPTS,
    syncSource: peer.host,
  });
  s.initialSync = { ...current, phase: 'cloning', token, source: peer.host };
  setSource(turn, peer, `syncing from: ${peer.host}`);
  emit(turn, { kind: 'leftPrimary', reason: 'initialSync' });
  emit(turn, { kind: 'clone', token, from: peer.host, attempt: current.attempt });
}

/** Data are there as they were at `begin`; the log follows up to `stopAt`. */
export function onCloned(
  turn: Turn,
  token: number,
  begin: Position,
  stopAt: OpTime,
  sourceRbid: number,
): void {
  const { s } = turn;
  if (s.initialSync === null || s.initialSync.token !== token) return;
  s.applied = begin;
  s.initialSync = { ...s.initialSync, phase: 'applying', token: null, stopAt, sourceRbid };
}

export function onCloneFailed(turn: Turn, token: number, message: string): void {
  if (turn.s.initialSync?.token === token) failInitialSync(turn, message);
}

function failInitialSync(turn: Turn, message: string) {
  const { s, now } = turn;
  const current = s.initialSync!;
  note(turn, 'E', 'INITSYNC', 21200, 'Initial sync attempt failed', {
    attempt: current.attempt,
    error: message,
  });
  if (current.attempt >= MAX_INITIAL_SYNC_ATTEMPTS) {
    return emit(turn, {
      kind: 'fatal',
      message: 'The maximum number of initial sync attempts has been exhausted',
    });
  }
  dropSource(turn, message, DENY_MILLIS);
  s.applied = NOWHERE;
  s.initialSync = {
    ...current,
    phase: 'choosing',
    token: null,
    source: null,
    attempt: current.attempt + 1,
    retryAt: now + INITIAL_SYNC_RETRY,
    stopAt: null,
  };
}

// ── serving ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What this member says of itself with every batch it serves. */
export const syncMetadata = (s: State): SyncMetadata => ({
  term: s.term,
  primaryId: s.primaryId,
  selfId: selfId(s),
  committed: s.committed.op,
  committedWall: s.committed.wall,
  lastApplied: s.applied.op,
  rbid: s.rbid,
  syncSource: s.sync.source ?? '',
  configVersion: s.config?.version ?? -2,
});

/** Answers fetches that have waited long enough or for which there is news. */
export function servePollers(turn: Turn) {
  const { s, now } = turn;
  if (s.pollers.length === 0) return;
  const state = stateOf(s);
  const canServe = state === 'PRIMARY' || state === 'SECONDARY';
  const left = s.pollers.filter((poller) => {
    const { request, id, deadline } = poller;
    if (!canServe) {
      const message = `not primary or secondary; cannot currently read from this replSet member`;
      const reply = {
        kind: 'failed',
        code: 13436,
        codeName: 'NotPrimaryOrSecondary',
        message,
        network: false,
      } as const;
      emit(turn, { kind: 'answerPeer', id, reply });
      return false;
    }
    const newPrimary =
      s.primaryId >= 0 && s.primaryId !== request.knownPrimary && s.primaryId !== request.fromId;
    const news =
      !sameOpTime(request.after, s.applied.op) ||
      compareOpTimes(s.committed.op, request.knownCommitted) > 0 ||
      newPrimary ||
      request.term !== s.term;
    if (!news && now < deadline) return true;
    emit(turn, { kind: 'serveLog', id, after: request.after, metadata: syncMetadata(s) });
    return false;
  });
  if (left.length !== s.pollers.length) s.pollers = left;
}

// ── commands ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** replSetSyncFrom. */
export function syncFrom(turn: Turn, id: number, host: string) {
  const { s } = turn;
  const state = stateOf(s);
  const notSecondary = (message: string): void => refuse(turn, id, refusal(95, 'NotSecondary', message));
  const invalid = (message: string): void => refuse(turn, id, refusal(72, 'InvalidOptions', message));
  const member = s.config?.members.find((candidate) => candidate.host === host);
  if (state === 'ARBITER') return notSecondary("arbiters don't sync");
  if (state === 'PRIMARY') return notSecondary("primaries don't sync");
  if (state === 'REMOVED' || state === 'STARTUP') {
    return notSecondary('Removed and uninitialized nodes do not sync');
  }
  if (host === selfHost(s)) return invalid('I cannot sync from myself');
  if (!member) {
    return refuse(turn, id, refusal(74, 'NodeNotFound', `Could not find member "${host}" in replica set`));
  }
  if (member.arbiterOnly) return invalid(`Cannot sync from "${host}" because it is an arbiter`);
  if (!member.buildIndexes && selfConfig(s)?.buildIndexes) {
    return invalid(`Cannot sync from "${host}" because it does not build indexes`);
  }
  if (isVoter(selfConfig(s)!) && !isVoter(member)) {
    return invalid(`Cannot sync from "${host}" because it is not a voter`);
  }
  const peer = s.peers[member.id];
  if (peer && !peer.authenticated) {
    return refuse(turn, id, refusal(13, 'Unauthorized', `not authorized to communicate with ${host}`));
  }
  if (peer?.up !== true) {
    return refuse(turn, id, refusal(6, 'HostUnreachable', `I cannot reach the requested member: ${host}`));
  }
  const behind = (s.applied.op?.s ?? 0) - (peer.position.op?.s ?? 0);
  const warning =
    behind > 10 ? { warning: `requested member "${host}" is more than 10 seconds behind us` } : {};
  const previous = s.sync.source === null ? {} : { prevSyncTarget: s.sync.source };
  s.sync = { ...s.sync, forced: host, retryAt: turn.now };
  if (s.initialSync !== null) restartInitialSync(turn);
  answer(turn, id, { syncFromRequested: host, ...previous, ...warning });
}

function restartInitialSync(turn: Turn): void {
  const { s } = turn;
  emit(turn, { kind: 'abortClone' });
  s.applied = NOWHERE;
  s.initialSync = {
    ...s.initialSync!,
    phase: 'choosing',
    token: null,
    source: null,
    retryAt: turn.now,
    stopAt: null,
  };
  s.sync = { ...NO_SYNC, forced: s.sync.forced, applying: s.sync.applying };
}
