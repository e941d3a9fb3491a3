/** The machine's messages as commands and replies on the wire. Unknown or malformed replies become failures. */
import { type Document, Int32, Long, ObjectId } from 'bson';
import type { OplogEntry } from '../contracts.ts';
import { NO_TERM, NO_VERSION } from '../member/config.ts';
import { parseConfig } from '../member/config-parse.ts';
import type {
  FailedReply,
  FetchReply,
  FetchRequest,
  HeartbeatReply,
  HeartbeatRequest,
  PeerReply,
  PeerRequest,
  PositionRequest,
  SyncMetadata,
  VoteRequest,
} from '../member/messages.ts';
import type { OpTime, Position } from '../member/optime.ts';
import { configDocument, flag, fromBson, long, numberOf, plain, toBson } from './values.ts';

const setId = (hex: string | null): ObjectId | undefined =>
  hex === null ? undefined : ObjectId.createFromHexString(hex);
const hexOf = (value: unknown): string | null => (value instanceof ObjectId ? value.toHexString() : null);
const number = (value: unknown, fallback: number): number => numberOf(value) ?? fallback;
const optional = (op: OpTime | null): ReturnType<typeof toBson> | undefined =>
  op === null ? undefined : toBson(op);

// ── requests ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** The command for a request; all run on `admin`. */
export function encodeRequest(request: PeerRequest): Document {
  switch (request.kind) {
    case 'heartbeat':
      return {
        replSetHeartbeat: request.setName,
        configVersion: long(request.configVersion),
        configTerm: long(request.configTerm),
        hbv: new Int32(1),
        from: request.from,
        fromId: new Int32(request.fromId),
        term: long(request.term),
        primaryId: long(request.primaryId),
        ...(request.checkEmpty ? { checkEmpty: true } : {}),
        replicaSetId: setId(request.replicaSetId),
      };
    case 'vote':
      return {
        replSetRequestVotes: new Int32(1),
        setName: request.setName,
        dryRun: request.dryRun,
        term: long(request.term),
        candidateIndex: long(request.candidateIndex),
        configVersion: long(request.configVersion),
        configTerm: long(request.configTerm),
        lastAppliedOpTime: toBson(request.lastApplied),
      };
    case 'positions':
      return {
        replSetUpdatePosition: new Int32(1),
        optimes: request.positions.map((position) => ({
          durableOpTime: toBson(position.op),
          durableWallTime: new Date(position.wall),
          appliedOpTime: toBson(position.op),
          appliedWallTime: new Date(position.wall),
          memberId: long(position.memberId),
          cfgver: long(request.configVersion),
        })),
        term: long(request.term),
      };
    case 'fetch':
      return {
        _simFetchOplog: new Int32(1),
        after: toBson(request.after),
        knownCommitted: optional(request.knownCommitted),
        knownPrimary: new Int32(request.knownPrimary),
        term: long(request.term),
        fromId: new Int32(request.fromId),
        maxWaitMillis: new Int32(request.maxWait),
      };
    case 'stepUp':
      return { replSetStepUp: new Int32(1), skipDryRun: request.skipDryRun };
  }
}

export const decodeHeartbeat = (command: Document): HeartbeatRequest => ({
  kind: 'heartbeat',
  setName: String(command['replSetHeartbeat']),
  configVersion: number(command['configVersion'], NO_VERSION),
  configTerm: number(command['configTerm'], NO_TERM),
  from: String(command['from'] ?? ''),
  fromId: number(command['fromId'], -1),
  term: number(command['term'], NO_TERM),
  primaryId: number(command['primaryId'], -1),
  checkEmpty: flag(command['checkEmpty']),
  replicaSetId: hexOf(command['replicaSetId']),
});

export const decodeVote = (command: Document): VoteRequest => ({
  kind: 'vote',
  setName: String(command['setName']),
  dryRun: flag(command['dryRun']),
  term: number(command['term'], NO_TERM),
  candidateIndex: number(command['candidateIndex'], -1),
  configVersion: number(command['configVersion'], NO_VERSION),
  configTerm: number(command['configTerm'], NO_TERM),
  lastApplied: fromBson(command['lastAppliedOpTime'] ?? command['lastWrittenOpTime']),
});

export function decodePositions(command: Document): PositionRequest {
  const optimes = (command['optimes'] ?? []) as readonly Document[];
  return {
    kind: 'positions',
    term: number(command['term'], NO_TERM),
    configVersion: number(optimes[0]?.['cfgver'], NO_VERSION),
    positions: optimes.map((optime) => ({
      memberId: number(optime['memberId'], -1),
      op: fromBson(optime['appliedOpTime']),
      wall: (optime['appliedWallTime'] as Date | undefined)?.getTime() ?? 0,
    })),
  };
}

/** null: malformed. */
export function decodeFetch(command: Document): FetchRequest | null {
  const after = fromBson(command['after']);
  if (after === null) return null;
  return {
    kind: 'fetch',
    after,
    knownCommitted: fromBson(command['knownCommitted']),
    knownPrimary: number(command['knownPrimary'], -1),
    term: number(command['term'], NO_TERM),
    fromId: number(command['fromId'], -1),
    maxWait: number(command['maxWaitMillis'], 0),
  };
}

// ── replies ────────────────────────────────────────────────────────────────────────────────────────────────────────

function encodeHeartbeat(reply: HeartbeatReply, series: number): Document {
  const { op, wall } = reply.position;
  const written = series >= 8 ? { writtenOpTime: toBson(op), writtenWallTime: new Date(wall) } : {};
  return {
    electionTime: reply.electionTime === null ? undefined : new Date(reply.electionTime),
    state: new Int32(reply.state),
    v: long(reply.configVersion),
    configTerm: long(reply.configTerm),
    set: reply.setName,
    syncingTo: reply.syncingTo === '' ? undefined : reply.syncingTo,
    term: long(reply.term),
    primaryId: long(reply.primaryId),
    durableOpTime: toBson(op),
    durableWallTime: new Date(wall),
    opTime: toBson(op),
    wallTime: new Date(wall),
    ...written,
    electable: reply.electable,
    hasData: reply.hasData ? true : undefined,
    committed: optional(reply.committed),
    replicaSetId: setId(reply.replicaSetId),
    config: reply.config === null ? undefined : configDocument(reply.config, { forClients: false }),
  };
}

export const encodeMetadata = (metadata: SyncMetadata): Document => ({
  term: long(metadata.term),
  primaryId: new Int32(metadata.primaryId),
  selfId: new Int32(metadata.selfId),
  committed: optional(metadata.committed),
  committedWall: new Date(metadata.committedWall),
  lastApplied: optional(metadata.lastApplied),
  rbid: new Int32(metadata.rbid),
  syncSource: metadata.syncSource,
  configVersion: long(metadata.configVersion),
});

const decodeMetadata = (given: Document): SyncMetadata => ({
  term: number(given['term'], NO_TERM),
  primaryId: number(given['primaryId'], -1),
  selfId: number(given['selfId'], -1),
  committed: fromBson(given['committed']),
  committedWall: (given['committedWall'] as Date).getTime(),
  lastApplied: fromBson(given['lastApplied']),
  rbid: number(given['rbid'], 0),
  syncSource: String(given['syncSource']),
  configVersion: number(given['configVersion'], NO_VERSION),
});

/** The reply of a command; failures are thrown by the caller. Fetches are answered by `encodeBatch`. */
export function encodeReply(reply: Exclude<PeerReply, FailedReply | FetchReply>, series: number): Document {
  switch (reply.kind) {
    case 'heartbeat':
      return encodeHeartbeat(reply, series);
    case 'vote':
      return { term: long(reply.term), voteGranted: reply.granted, reason: reply.reason };
    case 'positions':
      return { term: long(reply.term) };
    case 'done':
      return {};
  }
}

/** What a source sends for a fetch: entries, or where the logs part. */
export type Batch =
  | { readonly kind: 'entries'; readonly entries: readonly OplogEntry[] }
  | { readonly kind: 'diverged'; readonly ancestor: OpTime | null }
  | { readonly kind: 'tooStale' };

export const encodeBatch = (batch: Batch, metadata: SyncMetadata): Document => ({
  kind: batch.kind,
  ...(batch.kind === 'entries' ? { entries: batch.entries } : {}),
  ...(batch.kind === 'diverged' ? { ancestor: optional(batch.ancestor) } : {}),
  metadata: encodeMetadata(metadata),
});

function decodeBatch(reply: Document): { reply: PeerReply; entries: readonly OplogEntry[] } {
  const metadata = decodeMetadata(reply['metadata'] as Document);
  const entries = ((reply['entries'] ?? []) as OplogEntry[]).map(normalEntry);
  const last = entries.at(-1);
  const result: FetchReply['result'] =
    reply['kind'] === 'entries'
      ? { kind: 'entries', upTo: fromBson(last), count: entries.length }
      : reply['kind'] === 'diverged'
        ? { kind: 'diverged', ancestor: fromBson(reply['ancestor']) }
        : { kind: 'tooStale' };
  return { reply: { kind: 'fetch', metadata, result }, entries };
}

/** Envelope fields the contract wants as plain numbers. */
function normalEntry(entry: OplogEntry): OplogEntry {
  const stmtId = entry.stmtId === undefined ? {} : { stmtId: number(entry.stmtId, 0) };
  const t = Long.isLong(entry.t) ? entry.t : long(number(entry.t, NO_TERM));
  return { ...entry, t, v: 2, ...stmtId };
}

function decodeHeartbeatReply(reply: Document): HeartbeatReply {
  const config = reply['config'] === undefined ? null : parseConfig(plain(reply['config']));
  const position: Position = {
    op: fromBson(reply['opTime']),
    wall: (reply['wallTime'] as Date | undefined)?.getTime() ?? 0,
  };
  return {
    kind: 'heartbeat',
    setName: String(reply['set']),
    state: number(reply['state'], 6),
    configVersion: number(reply['v'], NO_VERSION),
    configTerm: number(reply['configTerm'], NO_TERM),
    term: number(reply['term'], NO_TERM),
    primaryId: number(reply['primaryId'], -1),
    position,
    committed: fromBson(reply['committed']),
    syncingTo: String(reply['syncingTo'] ?? ''),
    electionTime: (reply['electionTime'] as Date | undefined)?.getTime() ?? null,
    electable: reply['electable'] === true,
    hasData: reply['hasData'] === true,
    replicaSetId: hexOf(reply['replicaSetId']),
    config: config?.ok ? config.value : null,
  };
}

/** The machine's view of a good reply to a request of ours, with the entries that came along. */
export function decodeReply(
  request: PeerRequest,
  reply: Document,
): { readonly reply: PeerReply; readonly entries: readonly OplogEntry[] } {
  const only = (decoded: PeerReply): { reply: PeerReply; entries: readonly OplogEntry[] } => ({
    reply: decoded,
    entries: [],
  });
  switch (request.kind) {
    case 'heartbeat':
      return only(decodeHeartbeatReply(reply));
    case 'vote':
      return only({
        kind: 'vote',
        term: number(reply['term'], NO_TERM),
        granted: reply['voteGranted'] === true,
        reason: String(reply['reason'] ?? ''),
      });
    case 'positions':
      return only({ kind: 'positions', term: number(reply['term'], NO_TERM) });
    case 'fetch':
      return decodeBatch(reply);
    case 'stepUp':
      return only({ kind: 'done' });
  }
}
