/** What a balancer does next: empty a draining shard first, then even out amounts of data. Pure. */
import type { Chunk } from './chunks.ts';
import { compareKeys, type KeyValues } from './shard-key.ts';

/** A shard as the balancer sees it. */
export interface BalancedShard {
  readonly name: string;
  readonly draining: boolean;
  /** Bytes of the collection there. */
  readonly bytes: number;
}

/** Shards may differ by this many chunk sizes before anything is moved. */
export const IMBALANCE_CHUNKS = 3;

/** What to do for one collection. */
export type BalanceStep =
  /** Move a chunk as it is. */
  | {
      readonly kind: 'move';
      readonly min: KeyValues;
      readonly max: KeyValues;
      readonly from: string;
      readonly to: string;
    }
  /** Move about one chunk size off the front of a chunk. */
  | {
      readonly kind: 'shed';
      readonly min: KeyValues;
      readonly max: KeyValues;
      readonly from: string;
      readonly to: string;
    };

/** The next step, or null when the collection is balanced. */
export function planBalance(
  chunks: readonly Chunk[],
  shards: readonly BalancedShard[],
  chunkBytes: number,
): BalanceStep | null {
  const open = shards.filter(({ draining }) => !draining);
  const least = smallest(open);
  if (least === undefined) return null;
  for (const { name } of shards.filter(({ draining }) => draining)) {
    const chunk = chunks.find(({ shard }) => shard === name);
    if (chunk !== undefined)
      return { kind: 'move', min: chunk.min, max: chunk.max, from: name, to: least.name };
  }
  const most = open.reduce((best, shard) => (shard.bytes > best.bytes ? shard : best), least);
  if (most.bytes - least.bytes < IMBALANCE_CHUNKS * chunkBytes) return null;
  const chunk = chunks
    .filter(({ shard }) => shard === most.name)
    .sort((a, b) => compareKeys(a.min, b.min))[0];
  if (chunk === undefined) return null;
  return { kind: 'shed', min: chunk.min, max: chunk.max, from: most.name, to: least.name };
}

function smallest(shards: readonly BalancedShard[]): BalancedShard | undefined {
  return shards.reduce<BalancedShard | undefined>(
    (best, shard) => (best === undefined || shard.bytes < best.bytes ? shard : best),
    undefined,
  );
}
