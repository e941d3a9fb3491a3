/** Whom a follower follows. */
import { isVoter } from './config.ts';
import { compareOpTimes, NOWHERE, reached } from './optime.ts';
import { memberById, note, peerOf, selfConfig, selfHost, type Turn } from './turn.ts';
import { type Peer, STATES } from './types.ts';

/** A source that failed is left alone for this long. */
export const DENY_MILLIS = 2_000;
/** A chain that brought nothing for this long may be a ring. */
const STUCK_MILLIS = 10_000;
const RETRY_MILLIS = 200;
/** A source that is this far behind the primary is not taken at first try. */
const MAX_SOURCE_LAG_SECS = 30;

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
  const primary = peerOf(s, s.primaryId)?.position.op;
  return !primary || (peer.position.op?.s ?? 0) >= primary.s - MAX_SOURCE_LAG_SECS;
}

/** The primary when it can be used, else the nearest that is ahead; second try with fewer wishes. */
export function chooseSource(turn: Turn): Peer | null {
  const { s } = turn;
  if (s.sync.forced !== null) {
    const forced = s.peers.find((peer) => peer.host === s.sync.forced && peer.up);
    s.sync = { ...s.sync, forced: null };
    if (forced) return forced;
  }
  for (const strict of [true, false]) {
    const candidates = s.peers
      .filter((peer) => usable(turn, peer, strict))
      .sort((a, b) => a.pingMillis - b.pingMillis || a.id - b.id);
    const best = candidates.find((peer) => peer.id === s.primaryId) ?? candidates[0];
    if (best) return best;
  }
  return null;
}

export function setSource(turn: Turn, peer: Peer | null, info: string): void {
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
export function dropSource(turn: Turn, why: string, denyMillis: number): void {
  const { s, now } = turn;
  const { source, failures } = s.sync;
  if (source === null) return;
  note(turn, 'I', 'REPL', 21275, 'Stopped following the sync source', { syncSource: source, reason: why });
  const denied = { ...s.sync.denied, [source]: now + denyMillis };
  s.sync = { ...s.sync, denied, failures: failures + 1, retryAt: now + RETRY_MILLIS };
  setSource(turn, null, why);
}

/** Leaves a source that is gone, that is no longer allowed, or that brings nothing while another would. */
export function reconsider(turn: Turn) {
  const { s } = turn;
  const { source, sourceId, forced } = s.sync;
  if (source === null) return;
  const peer = peerOf(s, sourceId);
  if (forced !== null && forced !== source) return setSource(turn, null, '');
  if (!peer || peer.up === false) return dropSource(turn, `${source} is down`, 0);
  if (peer.up && !readable(peer) && peer.state !== STATES.UNKNOWN) {
    return dropSource(turn, `${source} is not readable`, 0);
  }
  if (sourceId === s.primaryId) return;
  const primary = s.leader === null ? peerOf(s, s.primaryId) : undefined;
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
  turn.s.peers.some(
    (peer) =>
      peer.id !== source.id &&
      usable(turn, peer, false) &&
      compareOpTimes(peer.position.op, turn.s.applied.op) > 0,
  );
