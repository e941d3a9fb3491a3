/** Dotted paths through documents and arrays, as filters and sort keys walk them. */
import type { Document } from 'bson';
import { isDocument } from './bson.ts';

/** Where a filter matched inside an array: the index of the outermost array element, for the positional `$`. */
export interface MatchDetails {
  index?: number;
}

/** Splits a dotted path. */
export const pathOf = (path: string): readonly string[] => path.split('.');

/** The array index a path part names, undefined when it isn't one (`01` isn't). */
export function arrayIndex(part: string | undefined): number | undefined {
  return part !== undefined && /^(0|[1-9]\d*)$/.test(part) ? Number(part) : undefined;
}

/** Own field of a document; inherited names (`constructor`) are missing. */
export function fieldOf(document: Document, name: string): unknown {
  return Object.hasOwn(document, name) ? document[name] : undefined;
}

/**
 * Calls `visit` with every value a filter's path can mean: through each element of arrays on the way and through numeric
 * parts as indexes. Undefined is visited where the path ends in nothing. At the last part arrays are given whole; the visitor
 * looks at elements itself. Stops and gives true as soon as `visit` does. The index of the outermost array element that
 * led to the match goes into `details`.
 */
export function visitPath(
  document: Document,
  path: readonly string[],
  visit: (value: unknown, details?: MatchDetails) => boolean,
  details?: MatchDetails,
  at = 0,
): boolean {
  return visitChild(fieldOf(document, path[at]!), path, at, visit, details);
}

function visitChild(
  child: unknown,
  path: readonly string[],
  at: number,
  visit: (value: unknown, details?: MatchDetails) => boolean,
  details: MatchDetails | undefined,
): boolean {
  if (at === path.length - 1) return visit(child, details);
  if (Array.isArray(child)) return visitArray(child, path, at, visit, details);
  if (isDocument(child)) return visitPath(child, path, visit, details, at + 1);
  return visit(undefined, details);
}

function visitArray(
  array: readonly unknown[],
  path: readonly string[],
  at: number,
  visit: (value: unknown, details?: MatchDetails) => boolean,
  details: MatchDetails | undefined,
): boolean {
  const index = arrayIndex(path[at + 1]);
  if (index !== undefined && index < array.length) {
    if (visitChild(array[index], path, at + 1, visit, details)) return true;
  }
  for (let element = 0; element < array.length; element++) {
    const item = array[element];
    if (!isDocument(item)) continue;
    if (visitPath(item, path, visit, undefined, at + 1)) {
      if (details) details.index = element;
      return true;
    }
  }
  return false;
}

/** The one value at a path, following numeric parts into arrays; undefined when there is none. */
export function valueAt(document: unknown, path: readonly string[]): unknown {
  let value: unknown = document;
  for (const part of path) {
    if (Array.isArray(value)) {
      const index = arrayIndex(part);
      value = index === undefined ? undefined : value[index];
    } else if (isDocument(value)) {
      value = fieldOf(value, part);
    } else {
      return undefined;
    }
  }
  return value;
}

/**
 * Every value an index or sort key sees at a path: arrays are taken apart at the end as well, an empty array counts as one
 * undefined, a missing field as null.
 */
export function keyValues(document: Document, path: readonly string[]): unknown[] {
  const values: unknown[] = [];
  let missing = false;
  visitPath(document, path, (value) => {
    if (value === undefined) missing = true;
    else if (!Array.isArray(value)) values.push(value);
    else if (value.length === 0) values.push(undefined);
    else values.push(...value);
    return false;
  });
  if (missing || values.length === 0) values.push(null);
  return values;
}
