/** Versions that routers send along and shards check, so that nobody works by an old table. Pure. */
import { type Document, ObjectId, Timestamp } from 'bson';

/** What a router believes of a collection. A collection that is not sharded has only zeros. */
export interface ShardVersion {
  readonly epoch: ObjectId;
  readonly timestamp: Timestamp;
  readonly version: Timestamp;
}

const ZERO = new Timestamp({ t: 0, i: 0 });

/** The version of collections that are not sharded. */
export const UNSHARDED: ShardVersion = {
  epoch: new ObjectId('000000000000000000000000'),
  timestamp: ZERO,
  version: ZERO,
};

/** As commands carry it, `{e, t, v}`. */
export const versionDocument = ({ epoch, timestamp, version }: ShardVersion): Document => ({
  e: epoch,
  t: timestamp,
  v: version,
});

/** Reads a version from a command; null when it is none. */
export function versionOfDocument(given: unknown): ShardVersion | null {
  const { e, t, v } = (given ?? {}) as Document;
  if (!(t instanceof Timestamp) || !(v instanceof Timestamp)) return null;
  return { epoch: e as ObjectId, timestamp: t, version: v };
}

/**
 * True when a router that knows `sent` may be served by a shard that was told `known` (null: not sharded here). Routers may
 * know more than a shard: changes that do not concern a shard are not told to it.
 */
export function acceptable(sent: ShardVersion, known: ShardVersion | null): boolean {
  if (known === null) return sent.timestamp.equals(ZERO);
  if (!sent.timestamp.equals(known.timestamp)) return false;
  return sent.version.greaterThanOrEqual(known.version);
}
