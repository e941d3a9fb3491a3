import { compareConfigs, isElectable, NO_TERM, NO_VERSION, type ReplicaSetConfig } from './config.ts';
import { NOWHERE } from './optime.ts';
import { newPeer, restartHeartbeats } from './peers.ts';
import { abandonElection, leaveLeadership, resetElectionTimer } from './terms.ts';
import { emit, nextToken, note, peerOf, selfConfig, setFollower, showState, type Turn } from './turn.ts';
import type { Peer, State, Sync } from './types.ts';

/** Not following anybody. */
export const NO_SYNC: Sync = {
  source: null,
  sourceId: -1,
  token: null,
  after: null,
  applying: null,
  retryAt: 0,
  failures: 0,
  sourceApplied: null,
  sourceCommitted: NOWHERE,
  held: null,
  fetchDeadline: 0,
  lastBatchAt: 0,
  denied: {},
  forced: null,
  reporting: null,
  reportAgain: false,
  nextReportAt: 0,
  info: '',
  infoAt: 0,
  tooStale: false,
  minValid: null,
};

/** A configuration heard of by heartbeat: taken in when it is newer and nothing else is on its way in. */
export function considerConfig(turn: Turn, config: ReplicaSetConfig): void {
  const { s } = turn;
  if (config.setName !== s.setName || s.pending !== null) return;
  if (compareConfigs(config, s.config ?? { version: NO_VERSION, term: NO_TERM }) <= 0) return;
  const token = nextToken(turn);
  s.pending = { kind: 'heartbeat', token, config };
  emit(turn, { kind: 'findSelf', token, config });
}

/** Keeps what is known of members that stay (same id and host); the others start unknown. */
function peersFor(s: State, config: ReplicaSetConfig, self: number, now: number): readonly Peer[] {
  const others = config.members.filter((_, index) => index !== self);
  return others
    .map((member) => {
      const known = peerOf(s, member.id);
      return known?.host === member.host ? known : newPeer(member, now);
    })
    .sort((a, b) => a.id - b.id);
}

/** A member that stays gets other horizons. */
const changesHorizons = (old: ReplicaSetConfig, next: ReplicaSetConfig): boolean =>
  next.members.some((member) => {
    const before = old.members.find((candidate) => candidate.id === member.id);
    return before !== undefined && JSON.stringify(before.horizons) !== JSON.stringify(member.horizons);
  });

/** Makes a configuration the current one: persists it, tells the others by heartbeats at once. */
export function installConfig(turn: Turn, config: ReplicaSetConfig, self: number): void {
  const { s } = turn;
  emit(turn, { kind: 'saveConfig', config });
  const electable = config.members[self] !== undefined && isElectable(config.members[self]);
  if (s.role === 'leader' && !electable) leaveLeadership(turn, null);
  abandonElection(turn);
  s.configBase = s.committed.op;
  s.peers = peersFor(s, config, self, turn.now);
  if (s.primaryId >= 0 && s.role !== 'leader' && !peerOf(s, s.primaryId)) s.primaryId = -1;
  // Clients know members by the names of their horizon: with other names they have to come again (303 on a real server).
  if (s.config !== null && changesHorizons(s.config, config)) emit(turn, { kind: 'closeConnections' });
  s.config = config;
  s.self = self;
  note(turn, 'I', 'REPL', 21392, 'New replica set config in use', { config });
  enter(turn);
  s.priorityTakeoverAt = null;
  s.catchUpTakeoverAt = null;
  if (s.sync.source !== null && !config.members.some((member) => member.host === s.sync.source)) {
    s.sync = { ...s.sync, source: null, sourceId: -1, token: null, held: null, sourceCommitted: NOWHERE };
  }
  resetElectionTimer(turn);
  restartHeartbeats(turn);
  showState(turn);
}

/** What this member is under the new configuration. */
function enter(turn: Turn) {
  const { s } = turn;
  const self = selfConfig(s);
  if (self === null) {
    note(turn, 'I', 'REPL', 21394, 'This node is not a member of the config');
    if (s.initialSync !== null) emit(turn, { kind: 'abortClone' });
    s.initialSync = null;
    s.sync = { ...NO_SYNC, applying: s.sync.applying };
    s.primaryId = -1;
    return;
  }
  note(turn, 'I', 'REPL', 21393, 'Found self in config', { hostAndPort: self.host });
  if (self.arbiterOnly) return setFollower(turn, 'SECONDARY');
  if (s.initialSync !== null) return;
  if (s.applied.op === null) {
    setFollower(turn, 'STARTUP2');
    s.initialSync = {
      phase: 'choosing',
      token: null,
      source: null,
      attempt: 1,
      retryAt: turn.now,
      stopAt: null,
      sourceRbid: 0,
      startedAt: turn.now,
    };
  } else if (s.follower === 'STARTUP') {
    setFollower(turn, 'STARTUP2');
    setFollower(turn, 'RECOVERING');
    setFollower(turn, 'SECONDARY');
  }
}
