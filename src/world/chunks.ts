/**
 * Where documents of a sharded cluster live. Keys fall into a few chunks; config servers say which shard has which, and count
 * how often each was moved. Whoever asks them believes what a majority of them has; a shard takes a document only under the
 * very count it has itself. So one of two that both believe to have a chunk can never acknowledge anything.
 */

import { type OpTime, reached } from '../simulator/member/optime.ts';
import type { Change, DataFolder } from './data.ts';

/** Enough for shards to have more than one each. */
export const CHUNKS = 6;
export const chunkOf = (id: number): number => id % CHUNKS;

/** Which shard has a chunk, and after how many moves. */
export interface Route {
  readonly shard: string;
  readonly version: number;
}

/** Where a chunk is by what config servers wrote down until then; null: there is no shard. What was never moved is on the first one. */
export function routeOf({ placements }: DataFolder, chunk: number, upTo: OpTime | null): Route | null {
  let found: Route | null = null;
  for (const { op, change } of placements) {
    if (!reached(upTo, op)) break;
    if (change.kind === 'shard') found ??= { shard: change.name, version: 0 };
    else if (change.chunk === chunk) found = change;
  }
  return found;
}

/** The shards that config servers wrote down until then, with their addresses. */
export const shardsOf = ({ placements }: DataFolder, upTo: OpTime | null): ReadonlyMap<string, string> =>
  new Map(
    placements.flatMap(({ op, change }) =>
      change.kind === 'shard' && reached(upTo, op) ? [[change.name, change.host] as const] : [],
    ),
  );

/** What a shard knows of one of its chunks. */
export interface Held {
  readonly version: number;
  /** `giving`: it takes nothing more until it is known whether the move came to an end. */
  readonly state: 'owned' | 'giving' | 'given';
}

export type ChunkChange = Extract<Change, { readonly kind: 'gives' | 'gets' | 'gave' | 'keeps' }>;

/** A shard's own part of a move, in the order of its log. */
export function applyChunk({ chunks, writes }: DataFolder, change: ChunkChange): void {
  const { chunk, version } = change;
  const drop = (): void => {
    for (const id of writes) if (chunkOf(id) === chunk) writes.delete(id);
  };
  switch (change.kind) {
    case 'gives':
      chunks.set(chunk, { version, state: 'giving' });
      return;
    case 'gets':
      // What an earlier move that came to nothing has left here is no part of it.
      drop();
      for (const id of change.ids) writes.add(id);
      chunks.set(chunk, { version, state: 'owned' });
      return;
    case 'gave':
      drop();
      chunks.set(chunk, { version, state: 'given' });
      return;
    case 'keeps':
      chunks.set(chunk, { version, state: 'owned' });
  }
}

/** Whether a shard takes a document for somebody who believes it to have the chunk after that many moves. */
export function takes({ chunks }: DataFolder, chunk: number, version: number): boolean {
  const held = chunks.get(chunk);
  return held === undefined ? version === 0 : held.state === 'owned' && held.version === version;
}
