/** The routing table of one sharded collection: ranges of keys and who owns them. Pure. */
import { Long, type ObjectId, Timestamp, type UUID } from 'bson';
import { compareKeys, type KeyPattern, type KeyValues, maxKey, minKey } from './shard-key.ts';

/** One range of keys, `min` inclusive, `max` exclusive. */
export interface Chunk {
  readonly min: KeyValues;
  readonly max: KeyValues;
  readonly shard: string;
  /** Major and minor version of the last change. */
  readonly lastmod: Timestamp;
}

/** A sharded collection as routers know it. Chunks are in order and leave no gap. */
export interface RoutingTable {
  readonly ns: string;
  readonly uuid: UUID;
  readonly pattern: KeyPattern;
  readonly unique: boolean;
  readonly epoch: ObjectId;
  readonly timestamp: Timestamp;
  readonly chunks: readonly Chunk[];
}

const orderOf = (left: Timestamp, right: Timestamp): number =>
  left.equals(right) ? 0 : left.lessThan(right) ? -1 : 1;

/** The newest version among the chunks. */
export function versionOf(chunks: readonly Chunk[]): Timestamp {
  return chunks.reduce(
    (newest, { lastmod }) => (orderOf(newest, lastmod) < 0 ? lastmod : newest),
    new Timestamp({ t: 0, i: 0 }),
  );
}

/** What is wrong with a list of chunks: a gap, an overlap, or an open end; null when nothing is. */
export function coverProblem(pattern: KeyPattern, chunks: readonly Chunk[]): string | null {
  const first = chunks[0];
  const last = chunks.at(-1);
  if (first === undefined || last === undefined) return 'no chunks';
  if (compareKeys(first.min, minKey(pattern)) !== 0) return 'the first chunk does not begin at MinKey';
  if (compareKeys(last.max, maxKey(pattern)) !== 0) return 'the last chunk does not end at MaxKey';
  for (const [index, chunk] of chunks.entries()) {
    if (compareKeys(chunk.min, chunk.max) >= 0) return `chunk ${index} is empty`;
    const next = chunks[index + 1];
    if (next !== undefined && compareKeys(chunk.max, next.min) !== 0)
      return `chunks ${index} and ${index + 1} do not meet`;
  }
  return null;
}

/** Place of the chunk that holds a key. */
export function chunkIndex(chunks: readonly Chunk[], key: KeyValues): number {
  let low = 0;
  let high = chunks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (compareKeys(chunks[middle]!.min, key) <= 0) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The shard a key belongs to. MaxKey itself belongs to the last chunk. */
export const ownerOf = (table: RoutingTable, key: KeyValues): string =>
  table.chunks[chunkIndex(table.chunks, key)]!.shard;

/** Shards that own anything, in order of first appearance. */
export const ownersOf = (chunks: readonly Chunk[]): readonly string[] => [
  ...new Set(chunks.map(({ shard }) => shard)),
];

/** Shards with chunks that meet the closed range of keys. */
export function ownersBetween(table: RoutingTable, from: KeyValues, to: KeyValues): readonly string[] {
  const first = chunkIndex(table.chunks, from);
  const last = chunkIndex(table.chunks, to);
  return ownersOf(table.chunks.slice(first, last + 1));
}

const nextMajor = (version: Timestamp): number => version.t + 1;

/** The chunks after one is cut at a key inside it. Unchanged when the key is a bound already. */
export function splitAt(chunks: readonly Chunk[], key: KeyValues): readonly Chunk[] {
  const index = chunkIndex(chunks, key);
  const chunk = chunks[index]!;
  if (compareKeys(chunk.min, key) === 0) return chunks;
  const version = versionOf(chunks);
  const minor = (more: number): Timestamp => new Timestamp({ t: version.t, i: version.i + more });
  return [
    ...chunks.slice(0, index),
    { ...chunk, max: key, lastmod: minor(1) },
    { ...chunk, min: key, lastmod: minor(2) },
    ...chunks.slice(index + 1),
  ];
}

/** The chunks after a range went to another shard: cut at its bounds, moved, with a new major version. */
export function moveRange(
  chunks: readonly Chunk[],
  min: KeyValues,
  max: KeyValues,
  to: string,
): readonly Chunk[] {
  const isEnd = compareKeys(max, chunks.at(-1)!.max) >= 0;
  const cut = isEnd ? splitAt(chunks, min) : splitAt(splitAt(chunks, min), max);
  const major = nextMajor(versionOf(cut));
  let minor = 0;
  return cut.map((chunk) => {
    if (compareKeys(chunk.min, min) < 0 || compareKeys(chunk.max, max) > 0) return chunk;
    const lastmod = new Timestamp({ t: major, i: minor });
    minor += 1;
    return { ...chunk, shard: to, lastmod };
  });
}

/** The first chunks of a collection. Hashed and empty: spread over all shards; else one chunk on the primary shard. */
export function initialChunks(
  pattern: KeyPattern,
  options: {
    readonly primary: string;
    readonly shards: readonly string[];
    readonly spread: boolean;
    readonly perShard: number;
  },
): readonly Chunk[] {
  const [low, high] = [minKey(pattern), maxKey(pattern)];
  const hashedFirst = pattern[0]!.hashed;
  if (!options.spread || !hashedFirst)
    return [{ min: low, max: high, shard: options.primary, lastmod: new Timestamp({ t: 1, i: 0 }) }];
  const total = options.shards.length * options.perShard;
  const bounds = hashBounds(total).map((bound): KeyValues => [bound, ...minKey(pattern).slice(1)]);
  const edges = [low, ...bounds, high];
  return edges.slice(0, -1).map((min, index) => ({
    min,
    max: edges[index + 1]!,
    shard: options.shards[Math.floor(index / options.perShard)]!,
    lastmod: new Timestamp({ t: 1, i: index }),
  }));
}

/** Points that cut the range of hashes into equal parts. */
function hashBounds(parts: number): readonly Long[] {
  const span = 2n ** 64n / BigInt(parts);
  return Array.from({ length: parts - 1 }, (_, index) =>
    Long.fromBigInt(-(2n ** 63n) + span * BigInt(index + 1)),
  );
}
