/** One index of a collection: which keys a document has in it, and the uniqueness of those keys. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, isTruthy, render } from './bson.ts';
import { type Collator, collatorOf, valueKey } from './compare.ts';
import { compileFilter, type Matcher } from './match.ts';
import { keyValues, pathOf, valueAt, visitPath } from './path.ts';

/** A unique key a document would take from another. */
export interface DuplicateKey {
  readonly index: Document;
  readonly keyPattern: Document;
  readonly keyValue: Document;
}

interface IndexField {
  readonly name: string;
  readonly path: readonly string[];
}

/**
 * An index. Only unique ones keep entries (key → record ids); the others exist for their specification. Several records may share
 * a key for a while on a secondary, which applies without checking.
 */
export class Index {
  readonly spec: Document;
  readonly unique: boolean;
  readonly collator: Collator | undefined;
  readonly fields: readonly IndexField[];
  private readonly sparse: boolean;
  private readonly partial: Matcher | undefined;
  private entries = new Map<string, number | Set<number>>();

  constructor(spec: Document) {
    this.spec = spec;
    const key = spec['key'] as Document;
    this.fields = Object.keys(key).map((name) => ({ name, path: pathOf(name) }));
    // An index that is about to become unique takes no new duplicates; those it has stay until they are cleared away.
    this.unique = isTruthy(spec['unique']) || isTruthy(spec['prepareUnique']);
    this.sparse = isTruthy(spec['sparse']);
    this.collator = collatorOf(spec['collation'] as Document | undefined);
    const partial: unknown = spec['partialFilterExpression'];
    this.partial = isDocument(partial) ? compileFilter(partial, { collator: this.collator }) : undefined;
  }

  /** A copy that can change on its own, for a transaction's view. */
  clone(): Index {
    const copy = new Index(this.spec);
    copy.entries = new Map(
      Array.from(this.entries, ([key, ids]) => [key, typeof ids === 'number' ? ids : new Set(ids)] as const),
    );
    return copy;
  }

  /** The keys a document has here, by their canonical string. Error: 171 CannotIndexParallelArrays. */
  keysOf(document: Document): ReadonlyMap<string, Document> {
    const keys = new Map<string, Document>();
    if (this.partial && !this.partial(document)) return keys;
    if (
      this.sparse &&
      !this.fields.some(({ path }) => visitPath(document, path, (value) => value !== undefined))
    ) {
      return keys;
    }
    for (const row of this.rows(document)) {
      const key = row.map((value) => valueKey(value, this.collator));
      const named = Object.fromEntries(this.fields.map(({ name }, at) => [name, row[at] ?? null]));
      keys.set(key.length === 1 ? key[0]! : JSON.stringify(key), named);
    }
    return keys;
  }

  /** The values of each key: one row, or one for every element of the array the fields share. */
  private rows(document: Document): unknown[][] {
    if (this.fields.length === 1) return keyValues(document, this.fields[0]!.path).map((value) => [value]);
    const prefixes = this.fields
      .map(({ path }) => arrayPrefix(document, path))
      .filter((prefix) => prefix !== undefined);
    const [first, ...others] = new Map(prefixes.map((prefix) => [prefix.join('.'), prefix])).values();
    if (!first) return product(this.fields.map(({ path }) => keyValues(document, path)));
    const parallel = others.find((other) => other[0] !== first[0]);
    if (parallel) {
      const message = `cannot index parallel arrays [${parallel.at(-1)}] [${first.at(-1)}]`;
      throw new ServerError(171, 'CannotIndexParallelArrays', message);
    }
    const array = valueAt(document, first) as readonly unknown[];
    return (array.length === 0 ? [undefined] : array).flatMap((element) =>
      product(this.fields.map(({ path }) => columnFor(document, path, first, element))),
    );
  }

  /** The key that another record already has, if any. */
  findDuplicate(document: Document, own: number | undefined): DuplicateKey | undefined {
    if (!this.unique) return undefined;
    for (const [key, named] of this.keysOf(document)) {
      const holder = this.entries.get(key);
      const taken =
        typeof holder === 'number'
          ? holder !== own
          : holder !== undefined && [...holder].some((id) => id !== own);
      if (taken) return { index: this.spec, keyPattern: this.spec['key'] as Document, keyValue: named };
    }
    return undefined;
  }

  /** Takes a record in. */
  insert(document: Document, record: number): void {
    if (!this.unique) return;
    for (const key of this.safeKeys(document)) {
      const holder = this.entries.get(key);
      if (holder === undefined) this.entries.set(key, record);
      else if (typeof holder === 'number') this.entries.set(key, new Set([holder, record]));
      else holder.add(record);
    }
  }

  /** Takes a record out. */
  remove(document: Document, record: number): void {
    if (!this.unique) return;
    for (const key of this.safeKeys(document)) {
      const holder = this.entries.get(key);
      if (holder === record) this.entries.delete(key);
      else if (holder instanceof Set) {
        holder.delete(record);
        if (holder.size === 0) this.entries.delete(key);
      }
    }
  }

  private safeKeys(document: Document): Iterable<string> {
    try {
      return this.keysOf(document).keys();
    } catch {
      // A document that can't be indexed gets here only while replicated entries are applied, which never fails.
      return [];
    }
  }
}

/** Where a path first meets an array. */
function arrayPrefix(document: Document, path: readonly string[]): readonly string[] | undefined {
  for (let length = 1; length <= path.length; length++) {
    const prefix = path.slice(0, length);
    if (Array.isArray(valueAt(document, prefix))) return prefix;
  }
  return undefined;
}

/** A field's values while one element stands for the array at `prefix`. */
function columnFor(
  document: Document,
  path: readonly string[],
  prefix: readonly string[],
  element: unknown,
): readonly unknown[] {
  const below = prefix.every((part, at) => path[at] === part);
  if (!below) return keyValues(document, path);
  if (path.length === prefix.length) return [element];
  return isDocument(element) ? keyValues(element, path.slice(prefix.length)) : [null];
}

function product(columns: readonly (readonly unknown[])[]): unknown[][] {
  return columns.reduce<unknown[][]>(
    (rows, column) => rows.flatMap((row) => column.map((value) => [...row, value])),
    [[]],
  );
}

/** The error for a duplicate key, with the server's text. */
export function duplicateKeyError(ns: string, duplicate: DuplicateKey): ServerError {
  const { index, keyPattern, keyValue } = duplicate;
  const collation = index['collation'] ? ` collation: ${render(index['collation'])}` : '';
  return new ServerError(
    11000,
    'DuplicateKey',
    `E11000 duplicate key error collection: ${ns} index: ${index['name']}${collation} dup key: ${render(keyValue)}`,
    { keyPattern, keyValue },
  );
}
