/** Changing immutable documents along dotted paths: every change copies the containers on its way and nothing else. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, render } from './bson.ts';
import { arrayIndex, fieldOf } from './path.ts';

/** Given to a change when the path leads nowhere; returned by it to leave everything as it is or to remove the field. */
export const MISSING = Symbol('missing');
export const UNCHANGED = Symbol('unchanged');

/** What a change makes of the value at its path. */
export type Change = (value: unknown) => unknown;

const MAX_PADDING = 1_500_000;

/** A document with one own field set; safe for names like `__proto__`. */
export function withField(document: Document, name: string, value: unknown): Document {
  const copy = { ...document };
  if (name === '__proto__') {
    Object.defineProperty(copy, name, { value, enumerable: true, configurable: true, writable: true });
  } else {
    copy[name] = value;
  }
  return copy;
}

/** A document without one field. */
export function withoutField(document: Document, name: string): Document {
  const copy = { ...document };
  delete copy[name];
  return copy;
}

/**
 * The container with the value at `path` changed. Missing containers are created, unless the change leaves a missing value
 * missing. Errors: 28 PathNotViable when a part can't be created in what is there.
 */
export function changeAt(container: unknown, path: readonly string[], change: Change, at = 0): unknown {
  const part = path[at]!;
  if (Array.isArray(container)) return changeInArray(container, path, change, at);
  if (!isDocument(container)) return UNCHANGED;
  const present = Object.hasOwn(container, part);
  const next = changeChild(present, fieldOf(container, part), path, change, at);
  if (next === UNCHANGED) return container;
  if (next === MISSING) return present ? withoutField(container, part) : container;
  return withField(container, part, next);
}

function changeChild(
  present: boolean,
  child: unknown,
  path: readonly string[],
  change: Change,
  at: number,
): unknown {
  if (at === path.length - 1) return change(present ? child : MISSING);
  if (!present) return createBelow(path, change, at);
  if (!Array.isArray(child) && !isDocument(child)) return notViable(path, change, at, child);
  const next = changeAt(child, path, change, at + 1);
  return next === child ? UNCHANGED : next;
}

function createBelow(path: readonly string[], change: Change, at: number): unknown {
  const value = change(MISSING);
  if (value === MISSING || value === UNCHANGED) return UNCHANGED;
  let result = value;
  for (let index = path.length - 1; index > at; index--) result = withField({}, path[index]!, result);
  return result;
}

function notViable(path: readonly string[], change: Change, at: number, child: unknown): unknown {
  const value = change(MISSING);
  if (value === MISSING || value === UNCHANGED) return UNCHANGED;
  throw new ServerError(
    28,
    'PathNotViable',
    `Cannot create field '${path[at + 1]}' in element {${path[at]}: ${render(child)}}`,
  );
}

function changeInArray(
  array: readonly unknown[],
  path: readonly string[],
  change: Change,
  at: number,
): unknown {
  const index = arrayIndex(path[at]);
  if (index === undefined) {
    const value = change(MISSING);
    if (value === MISSING || value === UNCHANGED) return array;
    throw new ServerError(
      28,
      'PathNotViable',
      `Cannot create field '${path[at]}' in element {${path[at - 1] ?? ''}: ${render(array)}}`,
    );
  }
  const present = index < array.length;
  const next = changeChild(present, array[index], path, change, at);
  if (next === UNCHANGED || (next === MISSING && !present)) return array;
  if (index > array.length + MAX_PADDING) {
    throw new ServerError(
      2,
      'BadValue',
      `can't backfill more than ${MAX_PADDING} elements (array has ${array.length})`,
    );
  }
  const copy = [...array];
  while (copy.length < index) copy.push(null);
  // $unset leaves a hole of null, so that the other elements keep their places.
  copy[index] = next === MISSING ? null : next;
  return copy;
}
