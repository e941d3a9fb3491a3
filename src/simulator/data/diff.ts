/**
 * Update entries of the oplog: the server's `$v: 2` diffs (`u` changed, `i` added at the end, `d` removed, `s<name>` changed
 * inside; for arrays `a: true`, `l` new length, `u<n>`, `s<n>`). Applying a diff twice gives the same as once.
 */
import type { Document } from 'bson';
import { isDocument, toNumber } from './bson.ts';
import { identicalValues } from './compare.ts';
import { arrayIndex } from './path.ts';
import { withField, withoutField } from './update-paths.ts';

/** What changed between two versions of a document, as the inside of `diff`. */
export function computeDiff(before: Document, after: Document): Document {
  return diffDocuments(before, after);
}

function diffDocuments(before: Document, after: Document): Document {
  const kept = keptNames(before, after);
  const removed: Document = {};
  const updated: Document = {};
  const inserted: Document = {};
  const nested: Document = {};
  for (const name of Object.keys(before)) {
    if (!Object.hasOwn(after, name)) removed[name] = false;
  }
  for (const [name, value] of Object.entries(after)) {
    if (!kept.has(name)) inserted[name] = value;
    else if (!identicalValues(before[name], value)) diffField(name, before[name], value, updated, nested);
  }
  return {
    ...(Object.keys(removed).length > 0 && { d: removed }),
    ...(Object.keys(updated).length > 0 && { u: updated }),
    ...(Object.keys(inserted).length > 0 && { i: inserted }),
    ...nested,
  };
}

/**
 * Fields that stay where they are: the longest start of the new order that the old order contains. The rest is added again
 * at the end. Names that look like numbers have a fixed place in JavaScript objects and don't count for the order.
 */
function keptNames(before: Document, after: Document): ReadonlySet<string> {
  const old = Object.keys(before);
  const kept = new Set<string>();
  let at = 0;
  let inOrder = true;
  for (const name of Object.keys(after)) {
    if (arrayIndex(name) !== undefined) {
      if (Object.hasOwn(before, name)) kept.add(name);
      continue;
    }
    const place = inOrder ? old.indexOf(name, at) : -1;
    if (place < 0) {
      inOrder = false;
      continue;
    }
    // Fields skipped over must go away entirely, or they would end up before this one.
    const skipped = old
      .slice(at, place)
      .some((other) => Object.hasOwn(after, other) && arrayIndex(other) === undefined);
    if (skipped) {
      inOrder = false;
      continue;
    }
    kept.add(name);
    at = place + 1;
  }
  return kept;
}

function diffField(name: string, before: unknown, after: unknown, updated: Document, nested: Document): void {
  if (isDocument(before) && isDocument(after)) {
    nested[`s${name}`] = diffDocuments(before, after);
  } else if (Array.isArray(before) && Array.isArray(after) && after.length > 0 && before.length > 0) {
    nested[`s${name}`] = diffArrays(before, after);
  } else {
    updated[name] = after;
  }
}

function diffArrays(before: readonly unknown[], after: readonly unknown[]): Document {
  const diff: Document = { a: true };
  if (after.length < before.length) diff['l'] = after.length;
  after.forEach((value, index) => {
    if (index < before.length && identicalValues(before[index], value)) return;
    const old = before[index];
    if (index < before.length && isDocument(old) && isDocument(value))
      diff[`s${index}`] = diffDocuments(old, value);
    else diff[`u${index}`] = value;
  });
  return diff;
}

/** The document after a diff. */
export function applyDiff(document: Document, diff: Document): Document {
  let result = document;
  for (const name of Object.keys((diff['d'] as Document | undefined) ?? {}))
    result = withoutField(result, name);
  for (const [name, value] of Object.entries((diff['u'] as Document | undefined) ?? {})) {
    result = withField(result, name, value);
  }
  for (const [name, value] of Object.entries((diff['i'] as Document | undefined) ?? {})) {
    result = withField(withoutField(result, name), name, value);
  }
  for (const [key, inner] of Object.entries(diff)) {
    if (!key.startsWith('s')) continue;
    const name = key.slice(1);
    const next = applyNested(Object.hasOwn(result, name) ? result[name] : undefined, inner as Document);
    if (next !== undefined) result = withField(result, name, next);
  }
  return result;
}

function applyNested(value: unknown, diff: Document): unknown {
  if (diff['a'] === true) return Array.isArray(value) ? applyArrayDiff(value, diff) : undefined;
  return isDocument(value) ? applyDiff(value, diff) : undefined;
}

function applyArrayDiff(array: readonly unknown[], diff: Document): unknown[] {
  const result = [...array];
  const length = toNumber(diff['l']);
  if (length !== undefined && result.length > length) result.length = length;
  for (const [key, inner] of Object.entries(diff)) {
    const index = arrayIndex(key.slice(1));
    if (index === undefined) continue;
    while (result.length < index) result.push(null);
    if (key.startsWith('u')) result[index] = inner;
    else if (key.startsWith('s'))
      result[index] = applyNested(result[index], inner as Document) ?? result[index];
  }
  return result;
}

/** An update entry's `o` in the words of a change event. */
export interface UpdateDescription {
  readonly updatedFields: Document;
  readonly removedFields: readonly string[];
  readonly truncatedArrays: readonly { readonly field: string; readonly newSize: number }[];
}

/** True when an update entry's `o` is a diff, false when it is the whole new document. */
export function isDiffEntry(o: Document): boolean {
  return Object.hasOwn(o, '$v') && isDocument(o['diff']);
}

/** The change event's `updateDescription` for a diff entry's `o`. */
export function describeUpdate(o: Document): UpdateDescription {
  const description = {
    updatedFields: {} as Document,
    removedFields: [] as string[],
    truncatedArrays: [] as { field: string; newSize: number }[],
  };
  describe(o['diff'] as Document, '', description);
  return description;
}

function describe(
  diff: Document,
  prefix: string,
  into: {
    updatedFields: Document;
    removedFields: string[];
    truncatedArrays: { field: string; newSize: number }[];
  },
): void {
  if (diff['a'] === true) {
    const length = toNumber(diff['l']);
    if (length !== undefined) into.truncatedArrays.push({ field: prefix.slice(0, -1), newSize: length });
    for (const [key, value] of Object.entries(diff)) {
      if (key.startsWith('u')) into.updatedFields[prefix + key.slice(1)] = value;
      else if (key.startsWith('s')) describe(value as Document, `${prefix}${key.slice(1)}.`, into);
    }
    return;
  }
  for (const section of ['u', 'i']) {
    for (const [name, value] of Object.entries((diff[section] as Document | undefined) ?? {})) {
      into.updatedFields[prefix + name] = value;
    }
  }
  into.removedFields.push(
    ...Object.keys((diff['d'] as Document | undefined) ?? {}).map((name) => prefix + name),
  );
  for (const [key, value] of Object.entries(diff)) {
    if (key.startsWith('s')) describe(value as Document, `${prefix}${key.slice(1)}.`, into);
  }
}
