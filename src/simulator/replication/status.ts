/** replSetGetStatus. */
import { type Document, Int32, Long, type Timestamp } from 'bson';
import type { Millis } from '../../base/units.ts';
import { ServerError } from '../contracts.ts';
import { type MemberConfig, majorityVotes, voters, writableVoters, writeMajority } from '../member/config.ts';
import type { OpTime, Position } from '../member/optime.ts';
import { heartbeatInterval, peerOf, selfConfig, stateOf } from '../member/turn.ts';
import {
  type ElectionMetrics,
  type Peer,
  STATES,
  type State,
  type StateName,
  type VoteMetrics,
} from '../member/types.ts';
import type { CloneProgress } from './clone.ts';
import { long, timestamp, toBson } from './values.ts';

/** Kept for this long; older information is not shown. */
const INFO_LIFE: Millis = 120_000;
const MAX_SYNC_ATTEMPTS = 10;

export interface StatusInput {
  readonly state: State;
  readonly now: Millis;
  readonly startedAt: Millis;
  readonly cloning: CloneProgress | null;
  readonly withInitialSync: boolean;
}

const dateOf = (op: OpTime | null): Date => new Date((op?.s ?? 0) * 1000);
const stateName = (number: number): string =>
  (Object.entries(STATES) as [StateName, number][]).find(([, n]) => n === number)?.[0] ?? 'UNKNOWN';

function optimes(state: State): Document {
  const { applied, committed } = state;
  const written = state.series >= 8;
  const own = toBson(applied.op);
  return {
    lastCommittedOpTime: toBson(committed.op),
    lastCommittedWallTime: new Date(committed.wall),
    ...(committed.op === null ? {} : { readConcernMajorityOpTime: toBson(committed.op) }),
    appliedOpTime: own,
    ...(written ? { writtenOpTime: own } : {}),
    durableOpTime: own,
    lastAppliedWallTime: new Date(applied.wall),
    ...(written ? { lastWrittenWallTime: new Date(applied.wall) } : {}),
    lastDurableWallTime: new Date(applied.wall),
  };
}

function candidateMetrics(metrics: ElectionMetrics, series: number): Document {
  const lastSeen = toBson(metrics.lastSeen);
  return {
    lastElectionReason: metrics.reason,
    lastElectionDate: new Date(metrics.at),
    electionTerm: long(metrics.term),
    lastCommittedOpTimeAtElection: toBson(metrics.committedAt),
    ...(series >= 8 ? { lastSeenWrittenOpTimeAtElection: lastSeen } : {}),
    lastSeenOpTimeAtElection: lastSeen,
    numVotesNeeded: new Int32(metrics.votesNeeded),
    priorityAtElection: metrics.priority,
    electionTimeoutMillis: long(metrics.timeoutMillis),
    ...(metrics.priorPrimaryId === null ? {} : { priorPrimaryMemberId: new Int32(metrics.priorPrimaryId) }),
    numCatchUpOps: long(metrics.caughtUpOps),
    ...(metrics.termStartAt === null ? {} : { newTermStartDate: new Date(metrics.termStartAt) }),
    ...(metrics.majorityAt === null ? {} : { wMajorityWriteAvailabilityDate: new Date(metrics.majorityAt) }),
  };
}

const voteMetrics = (metrics: VoteMetrics): Document => ({
  votedForCandidate: metrics.granted,
  electionTerm: long(metrics.term),
  lastVoteDate: new Date(metrics.at),
  electionCandidateMemberId: new Int32(metrics.candidateId),
  voteReason: metrics.reason,
  lastAppliedOpTimeAtElection: toBson(metrics.lastApplied),
  maxAppliedOpTimeInSet: toBson(metrics.maxApplied),
  priorityAtElection: metrics.priority,
});

function positionFields(position: Position, series: number, own: boolean): Document {
  const op = toBson(position.op);
  const date = dateOf(position.op);
  const wall = new Date(position.wall);
  const written = series >= 8;
  return {
    optime: op,
    ...(own ? {} : { optimeDurable: op }),
    ...(written ? { optimeWritten: op } : {}),
    optimeDate: date,
    ...(own ? {} : { optimeDurableDate: date }),
    ...(written ? { optimeWrittenDate: date } : {}),
    lastAppliedWallTime: wall,
    lastDurableWallTime: wall,
    ...(written ? { lastWrittenWallTime: wall } : {}),
  };
}

const uptime = (since: Millis, now: Millis): Int32 =>
  new Int32(since === 0 ? 0 : Math.floor((now - since) / 1000));

function infoMessage(state: State, now: Millis): string {
  if (state.role === 'candidate') return 'running for election';
  const { info, infoAt, source } = state.sync;
  return source === null && now - infoAt <= INFO_LIFE ? info : '';
}

function electionFields(at: Millis | null): Document {
  if (at === null) return {};
  const electionTime: Timestamp = timestamp({ s: Math.floor(at / 1000), i: 1 });
  return { electionTime, electionDate: new Date(Math.floor(at / 1000) * 1000) };
}

function selfMember(input: StatusInput, member: MemberConfig): Document {
  const { state, now, startedAt } = input;
  const config = state.config!;
  return {
    _id: new Int32(member.id),
    name: member.host,
    health: 1,
    state: new Int32(STATES[stateOf(state)]),
    stateStr: stateOf(state),
    uptime: uptime(startedAt, now),
    ...(member.arbiterOnly ? {} : positionFields(state.applied, state.series, true)),
    ...(state.maintenance > 0 ? { maintenanceMode: new Int32(state.maintenance) } : {}),
    syncSourceHost: state.leader === null ? (state.sync.source ?? '') : '',
    syncSourceId: new Int32(state.leader === null ? state.sync.sourceId : -1),
    infoMessage: infoMessage(state, now),
    ...electionFields(state.leader?.electedAt ?? null),
    configVersion: new Int32(config.version),
    configTerm: new Int32(config.term),
    self: true,
    lastHeartbeatMessage: '',
  };
}

function peerMember(state: State, member: MemberConfig, peer: Peer, now: Millis): Document {
  const down = peer.up === false && peer.authenticated;
  const unknown = peer.up === null;
  const shownPosition: Position = peer.up === true ? peer.position : { op: null, wall: 0 };
  const source = state.config!.members.find((candidate) => candidate.host === peer.syncingTo);
  const name = stateName(peer.state);
  return {
    _id: new Int32(member.id),
    name: member.host,
    health: peer.up === true ? 1 : 0,
    state: new Int32(peer.state),
    stateStr: down ? '(not reachable/healthy)' : unknown ? 'UNKNOWN' : name,
    uptime: uptime(peer.up ? peer.upSince : 0, now),
    ...(member.arbiterOnly ? {} : positionFields(shownPosition, state.series, false)),
    lastHeartbeat: new Date(peer.lastReplyAt),
    lastHeartbeatRecv: new Date(peer.lastRequestAt),
    pingMs: long(Math.max(0, Math.round(peer.pingMillis))),
    ...(peer.authenticated ? {} : { authenticated: false }),
    lastHeartbeatMessage: peer.message,
    syncSourceHost: peer.syncingTo,
    syncSourceId: new Int32(source?.id ?? -1),
    infoMessage: '',
    ...(peer.state === STATES.PRIMARY ? electionFields(peer.electionTime) : {}),
    configVersion: new Int32(peer.configVersion),
    configTerm: new Int32(peer.configTerm),
  };
}

function collections(databases: CloneProgress['databases'], now: Millis): Document {
  const shown: Document = {
    databasesToClone: new Int32([...databases.values()].filter((db) => db.endedAt === null).length),
    databasesCloned: new Int32([...databases.values()].filter((db) => db.endedAt !== null).length),
  };
  for (const [name, db] of databases) {
    const details: Document = {
      collections: new Int32(db.collections),
      clonedCollections: new Int32(db.cloned),
      start: new Date(db.startedAt),
      ...(db.endedAt === null ? {} : { end: new Date(db.endedAt) }),
      elapsedMillis: new Int32((db.endedAt ?? now) - db.startedAt),
    };
    for (const [ns, collection] of db.byCollection) {
      details[ns] = {
        documentsToCopy: new Int32(collection.total),
        documentsCopied: new Int32(collection.copied),
        start: new Date(collection.startedAt),
        ...(collection.endedAt === null ? {} : { end: new Date(collection.endedAt) }),
        elapsedMillis: new Int32((collection.endedAt ?? now) - collection.startedAt),
      };
    }
    shown[name] = details;
  }
  return shown;
}

function initialSyncStatus(state: State, progress: CloneProgress | null, now: Millis): Document {
  const running = state.initialSync!;
  const elapsed = now - running.startedAt;
  const share =
    progress && progress.totalDocuments > 0 ? progress.clonedDocuments / progress.totalDocuments : 0;
  return {
    method: 'logical',
    failedInitialSyncAttempts: new Int32(running.attempt - 1),
    maxFailedInitialSyncAttempts: new Int32(MAX_SYNC_ATTEMPTS),
    initialSyncStart: new Date(running.startedAt),
    totalInitialSyncElapsedMillis: long(elapsed),
    ...(share > 0
      ? { remainingInitialSyncEstimatedMillis: long(Math.round(elapsed / share - elapsed)) }
      : {}),
    approxTotalBytesCopied: long(progress?.clonedBytes ?? 0),
    initialSyncAttempts: [],
    appliedOps: new Int32(0),
    ...(progress?.beginAt ? { initialSyncOplogStart: timestamp(progress.beginAt) } : {}),
    ...(progress?.stopAt ? { initialSyncOplogEnd: timestamp(progress.stopAt) } : {}),
    totalTimeUnreachableMillis: Long.ZERO,
    databases: collections(progress?.databases ?? new Map(), now),
  };
}

function assertShowable({ state, now, startedAt }: StatusInput): void {
  if (state.config === null || state.pending?.kind === 'start') {
    throw new ServerError(94, 'NotYetInitialized', 'no replset config has been received', {
      info: 'run rs.initiate(...) if not yet done for the set',
    });
  }
  if (selfConfig(state) === null) {
    throw new ServerError(
      93,
      'InvalidReplicaSetConfig',
      'Our replica set config is invalid or we are not a member of it',
      {
        state: new Int32(STATES.REMOVED),
        stateStr: 'REMOVED',
        uptime: uptime(startedAt, now),
        optime: toBson(state.applied.op),
        optimeDate: dateOf(state.applied.op),
      },
    );
  }
}

/** Throws 94 before there is a configuration and 93 when this member is not in it. */
export function statusDocument(input: StatusInput): Document {
  assertShowable(input);
  const { state, now, cloning, withInitialSync } = input;
  const config = state.config!;
  const self = selfConfig(state)!;
  const following = state.leader === null;
  const members = config.members.map((member) => {
    const peer = peerOf(state, member.id);
    return member.id === self.id || !peer ? selfMember(input, member) : peerMember(state, member, peer, now);
  });
  return {
    set: config.setName,
    date: new Date(now),
    myState: new Int32(STATES[stateOf(state)]),
    term: long(state.term),
    ...(state.sync.tooStale ? { tooStale: true } : {}),
    syncSourceHost: following ? (state.sync.source ?? '') : '',
    syncSourceId: new Int32(following ? state.sync.sourceId : -1),
    ...(config.configsvr ? { configsvr: true } : {}),
    heartbeatIntervalMillis: long(heartbeatInterval(state)),
    majorityVoteCount: new Int32(majorityVotes(config)),
    writeMajorityCount: new Int32(writeMajority(config)),
    votingMembersCount: new Int32(voters(config).length),
    writableVotingMembersCount: new Int32(writableVoters(config)),
    optimes: optimes(state),
    lastStableRecoveryTimestamp: timestamp(state.committed.op ?? { s: 0, i: 0 }),
    ...(withInitialSync && state.initialSync
      ? { initialSyncStatus: initialSyncStatus(state, cloning, now) }
      : {}),
    ...(state.candidateMetrics
      ? { electionCandidateMetrics: candidateMetrics(state.candidateMetrics, state.series) }
      : {}),
    ...(state.voteMetrics ? { electionParticipantMetrics: voteMetrics(state.voteMetrics) } : {}),
    members: members.sort((a, b) => Number(a['_id']) - Number(b['_id'])),
  };
}
