/** Sort specifications: compiled to a comparison of documents with the server's rules for arrays and missing fields. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, render, toNumber } from './bson.ts';
import { type Collator, compareValues } from './compare.ts';
import { keyValues, pathOf } from './path.ts';
import { textScore } from './text-search.ts';

/** One key of a sort: the path and 1 or -1. No path means the text score. */
interface SortKey {
  readonly path: readonly string[];
  readonly direction: number;
}

/** Compiles a sort document. Errors: 15975/15974 for directions that aren't 1, -1 or `$meta`. */
export function compileSort(
  spec: Document,
  collator?: Collator,
): (left: Document, right: Document) => number {
  const keys = sortKeys(spec);
  return (left, right) => {
    for (const key of keys) {
      const order = compareValues(sortValue(left, key, collator), sortValue(right, key, collator), collator);
      if (order !== 0) return key.direction * order;
    }
    return 0;
  };
}

function sortKeys(spec: Document): SortKey[] {
  return Object.entries(spec).flatMap(([name, value]): SortKey[] => {
    if (isDocument(value)) {
      if ('$meta' in value) return value['$meta'] === 'textScore' ? [{ path: [], direction: -1 }] : [];
      throw new ServerError(
        17312,
        'Location17312',
        '$meta is the only expression supported by $sort right now',
      );
    }
    const direction = toNumber(value);
    if (direction === undefined || Number.isNaN(direction)) {
      throw new ServerError(
        15974,
        'Location15974',
        `Illegal key in $sort specification: ${name}: ${render(value)}`,
      );
    }
    if (Math.trunc(direction) !== 1 && Math.trunc(direction) !== -1) {
      throw new ServerError(
        15975,
        'Location15975',
        '$sort key ordering must be 1 (for ascending) or -1 (for descending)',
      );
    }
    return [{ path: pathOf(name), direction: Math.trunc(direction) }];
  });
}

/** The value a document is sorted by: of an array its least element ascending, its greatest descending. */
function sortValue(document: Document, key: SortKey, collator: Collator | undefined): unknown {
  const [only] = key.path;
  if (only === undefined) return textScore(document) ?? null;
  if (key.path.length === 1) {
    const value: unknown = Object.hasOwn(document, only!) ? document[only!] : null;
    if (!Array.isArray(value)) return value === undefined ? null : value;
  }
  return keyValues(document, key.path).reduce((best, value) =>
    key.direction * compareValues(value, best, collator) < 0 ? value : best,
  );
}
