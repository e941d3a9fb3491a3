/** Indexes and shard keys: what a shard key needs, and what travels with a collection. Pure. */
import type { Document } from 'bson';
import { toNumber } from '../data/index.ts';
import type { KeyPattern } from './shard-key.ts';

/** An index as listIndexes shows it. */
export type IndexSpec = Document & { readonly name: string; readonly key: Document };

/** All but the index on `_id`, which comes with the collection. */
export const withoutIdIndex = (indexes: readonly IndexSpec[]): readonly IndexSpec[] =>
  indexes.filter(({ name }) => name !== '_id_');

/** True for an index whose first fields are the shard key's, so that the collection can be sharded by it. */
export function supportsKey(index: IndexSpec, pattern: KeyPattern): boolean {
  if (index['partialFilterExpression'] !== undefined || index['sparse'] === true) return false;
  const fields = Object.entries(index.key);
  return pattern.every(({ path, hashed }, place) => {
    const [name, kind] = fields[place] ?? [];
    if (name !== path) return false;
    return hashed ? kind === 'hashed' : toNumber(kind) === 1;
  });
}

/** The name an index gets when it has none: `a_1_b_hashed`. */
export const indexName = (key: Document): string =>
  Object.entries(key)
    .map(([name, kind]) => `${name}_${toNumber(kind) ?? String(kind)}`)
    .join('_');
