import { isVoter, type MemberConfig, majorityVotes, NO_TERM, NO_VERSION, voters } from './config.ts';
import { laterOpTime, NOWHERE, type OpTime, reached } from './optime.ts';
import { peerOf, selfConfig, selfId, setPeer, shownPosition, type Turn } from './turn.ts';
import { type Peer, STATES, type State } from './types.ts';

/** A failed heartbeat is repeated at once this many times before the member counts as down. */
export const MAX_RETRIES = 2;

/** A member nothing was heard of yet; its first heartbeat is due at once. */
export function newPeer(member: MemberConfig, now: number): Peer {
  return {
    id: member.id,
    host: member.host,
    up: null,
    state: STATES.UNKNOWN,
    position: NOWHERE,
    electionTime: null,
    term: -1,
    syncingTo: '',
    configVersion: NO_VERSION,
    configTerm: NO_TERM,
    electable: false,
    authenticated: true,
    message: '',
    pingMillis: 0,
    upSince: 0,
    lastReplyAt: 0,
    lastRequestAt: 0,
    lastSeenAt: now,
    rounds: 0,
    beat: { token: null, sentAt: now, dueAt: now, retriesLeft: MAX_RETRIES, failedSince: null },
  };
}

/** Asks everybody at once, and forgets how often they answered. */
export function restartHeartbeats(turn: Turn): void {
  for (const peer of turn.s.peers) {
    const beat = { ...peer.beat, token: null, dueAt: turn.now, retriesLeft: MAX_RETRIES, failedSince: null };
    setPeer(turn, peer.id, { rounds: 0, beat });
  }
}

/** The next heartbeat to this member goes out now. */
export function askNow(turn: Turn, id: number): void {
  const peer = peerOf(turn.s, id);
  if (peer) setPeer(turn, id, { beat: { ...peer.beat, token: null, dueAt: turn.now } });
}

/** Self and the members that answered last time make up a majority of the votes. */
export function seesMajority(s: State): boolean {
  if (s.config === null) return false;
  const self = selfId(s);
  const seen = voters(s.config).filter((member) => member.id === self || peerOf(s, member.id)?.up === true);
  return seen.length >= majorityVotes(s.config);
}

/** Newest operation known anywhere among the members that answer, self included. */
export function newestKnown(s: State): OpTime | null {
  return s.peers.reduce<OpTime | null>(
    (newest, peer) => (peer.up ? laterOpTime(newest, peer.position.op) : newest),
    s.applied.op,
  );
}

/** Position of any member of the configuration as far as known. */
export const positionOf = (s: State, id: number): OpTime | null =>
  id === selfId(s) ? shownPosition(s).op : (peerOf(s, id)?.position.op ?? null);

/** How many members accepted by the filter have the operation. */
export const countWith = (s: State, op: OpTime, accept: (member: MemberConfig) => boolean): number =>
  (s.config?.members ?? []).filter((member) => accept(member) && reached(positionOf(s, member.id), op))
    .length;

/** Voters that could be primary now and have the operation: whom a primary may hand over to. */
export function handOverCandidates(s: State, op: OpTime | null): readonly MemberConfig[] {
  const self = selfConfig(s);
  return (s.config?.members ?? [])
    .filter(
      (member) => member.id !== self?.id && !member.arbiterOnly && isVoter(member) && member.priority > 0,
    )
    .filter((member) => {
      const peer = peerOf(s, member.id);
      return peer?.up === true && peer.state === STATES.SECONDARY && reached(peer.position.op, op);
    })
    .sort((a, b) => b.priority - a.priority);
}
