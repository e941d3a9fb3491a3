/** The cluster's metadata as documents of the `config` database, and back. Pure. */
import type { Document, Timestamp, UUID } from 'bson';
import { Int32, ObjectId } from 'bson';
import { valueKey } from '../data/index.ts';
import { type Chunk, type RoutingTable, versionOf } from './chunks.ts';
import {
  compareKeys,
  type KeyPattern,
  keyDocument,
  keyOfDocument,
  parsePattern,
  patternDocument,
} from './shard-key.ts';
import type { ShardVersion } from './versions.ts';

export const SHARDS = 'config.shards';
export const DATABASES = 'config.databases';
export const COLLECTIONS = 'config.collections';
export const CHUNKS = 'config.chunks';
export const SETTINGS = 'config.settings';
export const CLUSTER_VERSION = 'config.version';
export const ROUTERS = 'config.mongos';
/** Changes under way: whoever becomes primary of the config servers ends or undoes them. */
export const PENDING = 'config.pendingChanges';

/** The version routers send with requests to a sharded collection. */
export const shardVersionOf = (table: RoutingTable): ShardVersion => ({
  epoch: table.epoch,
  timestamp: table.timestamp,
  version: versionOf(table.chunks),
});

/** The document of a sharded collection. */
export function collectionDocument(table: RoutingTable, now: Date): Document {
  return {
    _id: table.ns,
    lastmodEpoch: table.epoch,
    lastmod: now,
    timestamp: table.timestamp,
    uuid: table.uuid,
    key: patternDocument(table.pattern),
    unique: table.unique,
    noBalance: false,
  };
}

/** One chunk as it is stored. */
export function chunkDocument(
  uuid: UUID,
  pattern: KeyPattern,
  chunk: Chunk,
  since: Timestamp,
  id: ObjectId = new ObjectId(),
): Document {
  return {
    _id: id,
    uuid,
    min: keyDocument(pattern, chunk.min),
    max: keyDocument(pattern, chunk.max),
    shard: chunk.shard,
    lastmod: chunk.lastmod,
    onCurrentShardSince: since,
    history: [{ validAfter: since, shard: chunk.shard }],
  };
}

/** The table that stored documents describe; null while they do not belong together. */
export function tableOf(collection: Document, chunks: readonly Document[]): RoutingTable | null {
  if (chunks.length === 0) return null;
  const pattern = parsePattern(collection['key']);
  return {
    ns: String(collection['_id']),
    uuid: collection['uuid'],
    pattern,
    unique: collection['unique'] === true,
    epoch: collection['lastmodEpoch'],
    timestamp: collection['timestamp'],
    chunks: chunks
      .map((chunk) => ({
        min: keyOfDocument(pattern, chunk['min']),
        max: keyOfDocument(pattern, chunk['max']),
        shard: String(chunk['shard']),
        lastmod: chunk['lastmod'] as Timestamp,
      }))
      .sort((left, right) => compareKeys(left.min, right.min)),
  };
}

/** Chunk documents that differ between what is stored and what shall be. */
export function changedChunks(
  table: RoutingTable,
  stored: readonly Document[],
  wanted: readonly Chunk[],
  since: Timestamp,
): readonly Document[] {
  const keyed = new Map(stored.map((document) => [valueKey(document['min']), document]));
  return wanted.flatMap((chunk) => {
    const old = keyed.get(valueKey(keyDocument(table.pattern, chunk.min)));
    const same =
      old !== undefined &&
      old['shard'] === chunk.shard &&
      (old['lastmod'] as Timestamp).equals(chunk.lastmod) &&
      valueKey(old['max']) === valueKey(keyDocument(table.pattern, chunk.max));
    if (same) return [];
    const moved = old === undefined || old['shard'] !== chunk.shard;
    const begin = moved ? since : (old['onCurrentShardSince'] ?? since);
    return [chunkDocument(table.uuid, table.pattern, chunk, begin, old?.['_id'])];
  });
}

/** What a shard must know of a table to serve it: its version and the ranges it owns. */
export function shardState(table: RoutingTable, shard: string): Document {
  return {
    key: patternDocument(table.pattern),
    ranges: table.chunks
      .filter((chunk) => chunk.shard === shard)
      .map(({ min, max }) => ({
        min: keyDocument(table.pattern, min),
        max: keyDocument(table.pattern, max),
      })),
  };
}

/** The balancer's setting; it runs unless it was stopped. */
export const isBalancing = (setting: Document | undefined): boolean =>
  setting === undefined || (setting['stopped'] !== true && setting['mode'] !== 'off');

export const balancerSetting = (on: boolean): Document => ({
  _id: 'balancer',
  mode: on ? 'full' : 'off',
  stopped: !on,
});

/** Bytes of one chunk by the `chunksize` setting (MB). */
export function chunkBytes(setting: Document | undefined): number {
  const megabytes = Number(setting?.['value'] ?? DEFAULT_CHUNK_MB);
  return (Number.isFinite(megabytes) && megabytes > 0 ? megabytes : DEFAULT_CHUNK_MB) * 1024 * 1024;
}
export const DEFAULT_CHUNK_MB = 128;

/** The first version of a database. */
export const firstDatabaseVersion = (uuid: UUID, timestamp: Timestamp): Document => ({
  uuid,
  timestamp,
  lastMod: new Int32(1),
});
