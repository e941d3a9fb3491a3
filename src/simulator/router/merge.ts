/** Pipelines over documents that came from several places, run in a store that lives for one call. */
import type { Document } from 'bson';
import { Long, Timestamp } from 'bson';
import { openMemoryStore } from '../data/index.ts';

/** Documents by namespace. */
export type Gathered = ReadonlyMap<string, readonly Document[]>;

let increment = 0;
const stamp = () => {
  increment = (increment + 1) % 0x7fffffff;
  return { ts: new Timestamp({ t: 1, i: increment }), t: Long.fromNumber(-1) };
};

/**
 * Runs stages over given documents; `foreign` holds the collections that stages join. Documents need not have ids of their own:
 * they are handed in as one list.
 */
export async function runGathered(
  db: string,
  documents: readonly Document[],
  stages: readonly Document[],
  foreign: Gathered,
  options: Document,
): Promise<readonly Document[]> {
  if (stages.length === 0) return documents;
  const store = openMemoryStore();
  try {
    const context = { stamp, wall: new Date() };
    for (const [ns, found] of foreign) {
      store.create(ns, {}, context);
      for (const document of found) store.insert(ns, document, context);
    }
    const source = { $documents: { $literal: documents } };
    return store.aggregate(null, db, [source, ...stages], options);
  } finally {
    await store.close();
  }
}
