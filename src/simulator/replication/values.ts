/** From BSON to the machine's plain values and back. */
import { type Document, Double, Int32, Long, ObjectId, Timestamp } from 'bson';
import type { OpTime as BsonOpTime } from '../contracts.ts';
import { type MemberConfig, NO_TERM, type ReplicaSetConfig, type Settings } from '../member/config.ts';
import type { OpTime, Position } from '../member/optime.ts';

/** Numbers become plain, ObjectIds hex text; dates, timestamps and strings stay. */
export function plain(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Long || Long.isLong(value)) return (value as Long).toNumber();
  if (value instanceof Int32 || value instanceof Double) return value.valueOf();
  if (value instanceof ObjectId) return value.toHexString();
  if (value instanceof Date || value instanceof Timestamp || '_bsontype' in value) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
}

/** A number of any BSON type; undefined when it is none. */
export function numberOf(value: unknown): number | undefined {
  const given = plain(value);
  return typeof given === 'number' ? given : undefined;
}

/** The server's idea of truth for optional flags. */
export function flag(value: unknown): boolean {
  const given = plain(value);
  return given === true || (typeof given === 'number' && given !== 0);
}

export const long = (value: number): Long => Long.fromNumber(value);

export const timestamp = (op: { readonly s: number; readonly i: number }): Timestamp =>
  new Timestamp({ t: op.s, i: op.i });

const NULL_OPTIME = { ts: new Timestamp({ t: 0, i: 0 }), t: Long.fromNumber(-1) };

/** `{ts, t}`; nothing is Timestamp(0, 0) in term -1. */
export const toBson = (op: OpTime | null): { ts: Timestamp; t: Long } =>
  op === null ? NULL_OPTIME : { ts: timestamp(op), t: long(op.t) };

export function fromBson(value: unknown): OpTime | null {
  const given = value as { ts?: Timestamp; t?: unknown } | null | undefined;
  if (!given?.ts) return null;
  const op = { t: numberOf(given.t) ?? NO_TERM, s: given.ts.t, i: given.ts.i };
  return op.s === 0 && op.i === 0 ? null : op;
}

export const positionOf = (entry: (BsonOpTime & { readonly wall: Date }) | null | undefined): Position =>
  entry ? { op: fromBson(entry), wall: entry.wall.getTime() } : { op: null, wall: 0 };

function memberDocument(member: MemberConfig): Document {
  return {
    _id: new Int32(member.id),
    host: member.host,
    arbiterOnly: member.arbiterOnly,
    buildIndexes: member.buildIndexes,
    hidden: member.hidden,
    priority: new Double(member.priority),
    tags: { ...member.tags },
    ...(member.horizons ? { horizons: { ...member.horizons } } : {}),
    secondaryDelaySecs: long(member.secondaryDelaySecs),
    votes: new Int32(member.votes),
    ...(member.newlyAdded ? { newlyAdded: true } : {}),
  };
}

function settingsDocument(settings: Settings): Document {
  const modes = Object.entries(settings.getLastErrorModes).map(([name, mode]) => [
    name,
    Object.fromEntries(Object.entries(mode).map(([tag, count]) => [tag, new Int32(count)])),
  ]);
  return {
    chainingAllowed: settings.chainingAllowed,
    heartbeatIntervalMillis: new Int32(settings.heartbeatIntervalMillis),
    heartbeatTimeoutSecs: new Int32(settings.heartbeatTimeoutSecs),
    electionTimeoutMillis: new Int32(settings.electionTimeoutMillis),
    catchUpTimeoutMillis: new Int32(settings.catchUpTimeoutMillis),
    catchUpTakeoverDelayMillis: new Int32(settings.catchUpTakeoverDelayMillis),
    getLastErrorModes: Object.fromEntries(modes),
    getLastErrorDefaults: { w: new Int32(1), wtimeout: new Int32(0) },
    ...(settings.replicaSetId ? { replicaSetId: ObjectId.createFromHexString(settings.replicaSetId) } : {}),
  };
}

/** A configuration as it is stored, sent and shown, in the server's field order. `newlyAdded` is left out for clients. */
export function configDocument(
  config: ReplicaSetConfig,
  options: { readonly forClients: boolean },
): Document {
  const members = config.members.map((member) =>
    memberDocument(options.forClients ? { ...member, newlyAdded: false } : member),
  );
  return {
    _id: config.setName,
    version: new Int32(config.version),
    ...(config.term === NO_TERM ? {} : { term: long(config.term) }),
    members,
    ...(config.configsvr ? { configsvr: true } : {}),
    protocolVersion: long(1),
    writeConcernMajorityJournalDefault: config.writeConcernMajorityJournalDefault,
    settings: settingsDocument(config.settings),
  };
}
