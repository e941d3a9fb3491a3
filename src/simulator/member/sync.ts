import { failInitialSync, initialSync } from './initial-sync.ts';
import type { FetchReply, PeerReply, SyncMetadata } from './messages.ts';
import { earlierOpTime, NOWHERE, type OpTime, type Position, reached, sameOpTime } from './optime.ts';
import { chooseSource, DENY_MILLIS, dropSource, reconsider, setSource } from './source.ts';
import { adoptTerm, notePrimary } from './terms.ts';
import {
  electionTimeout,
  emit,
  nextToken,
  note,
  selfConfig,
  selfHost,
  selfId,
  setFollower,
  shownPosition,
  type Turn,
} from './turn.ts';
import type { State } from './types.ts';

/** How long a fetch is held open by the source when there is nothing new. */
export const FETCH_WAIT = 5_000;
/** More than that without an answer and the source counts as unreachable. */
const FETCH_GRACE = 5_000;
/** One whose log begins too late. */
const STALE_DENY_MILLIS = 60_000;
/** An idle follower still reports within this time. */
const KEEP_ALIVE = 5_000;

/** This member copies operations from another at the moment. */
function follows(s: State): boolean {
  const self = selfConfig(s);
  if (self === null || self.arbiterOnly) return false;
  if (s.leader !== null) return s.leader.mode === 'catchUp';
  return s.follower !== 'ROLLBACK' && s.follower !== 'STARTUP';
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
  const downstream = s.peers
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
