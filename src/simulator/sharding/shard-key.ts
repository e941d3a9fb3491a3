/** Shard keys: the pattern, the key of a document, its hashed form, and the order keys have. Pure. */
import { createHash } from 'node:crypto';
import { type Document, Int32, Long, MaxKey, MinKey } from 'bson';
import { ServerError } from '../contracts.ts';
import { bracketOf, compareValues, encode, isDocument, isNumeric, plain, toNumber } from '../data/index.ts';

/** One field of a pattern. */
export interface KeyField {
  readonly path: string;
  readonly hashed: boolean;
}

/** A shard key pattern, `{a: 1}` or `{_id: 'hashed'}`, fields in order. */
export type KeyPattern = readonly KeyField[];

/** The values of one key, in the pattern's order; hashed fields hold their hash. */
export type KeyValues = readonly unknown[];

/** Reads a pattern. Errors: 2 BadValue for anything but 1 and one `hashed`. */
export function parsePattern(given: unknown): KeyPattern {
  if (!isDocument(given) || Object.keys(given).length === 0)
    throw new ServerError(2, 'BadValue', 'Shard key pattern must not be empty');
  const fields = Object.entries(given).map(([path, value]) => {
    const hashed = value === 'hashed';
    if (!hashed && toNumber(value) !== 1) {
      throw new ServerError(
        2,
        'BadValue',
        `Shard key ${path} must be 1 for ranged or 'hashed' for hashed sharding`,
      );
    }
    return { path, hashed };
  });
  if (fields.filter((field) => field.hashed).length > 1)
    throw new ServerError(2, 'BadValue', 'Shard key patterns can have only one hashed field');
  return fields;
}

/** The pattern as documents have it. */
export const patternDocument = (pattern: KeyPattern): Document =>
  Object.fromEntries(pattern.map(({ path, hashed }) => [path, hashed ? 'hashed' : new Int32(1)]));

/** The smallest and the greatest key there can be. */
export const minKey = (pattern: KeyPattern): KeyValues => pattern.map(() => new MinKey());
export const maxKey = (pattern: KeyPattern): KeyValues => pattern.map(() => new MaxKey());

/** Key values as chunk documents show them, and back. */
export const keyDocument = (pattern: KeyPattern, values: KeyValues): Document =>
  Object.fromEntries(pattern.map(({ path }, index) => [path, values[index]]));
export const keyOfDocument = (pattern: KeyPattern, bound: Document): KeyValues =>
  pattern.map(({ path }) => bound[path]);

/** Order of keys: field by field as BSON orders values. */
export function compareKeys(left: KeyValues, right: KeyValues): number {
  for (const [index, value] of left.entries()) {
    const order = compareValues(value, right[index]);
    if (order !== 0) return order;
  }
  return 0;
}

/** What lies at a dotted path; missing is null, as in a shard key. An array on the way has no key: undefined. */
export function valueAtPath(document: Document, path: string): unknown {
  let at: unknown = document;
  for (const part of path.split('.')) {
    if (Array.isArray(at)) return undefined;
    at = isDocument(at) && Object.hasOwn(at, part) ? at[part] : null;
    if (at === undefined) at = null;
  }
  return Array.isArray(at) ? undefined : at;
}

/** The key of a document; null when it has an array where the key is. */
export function keyOf(pattern: KeyPattern, document: Document): KeyValues | null {
  const values: unknown[] = [];
  for (const { path, hashed } of pattern) {
    const value = valueAtPath(document, path);
    if (value === undefined) return null;
    values.push(hashed ? hashOf(value) : value);
  }
  return values;
}

// ── hashing ────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * The hash of a value as hashed indexes keep it: the first eight bytes of an MD5 over type and value. Numbers hash by
 * their whole part, so that 3, 3.0 and 3L are one.
 */
export function hashOf(value: unknown): Long {
  const hash = createHash('md5');
  hash.update(int32(0));
  feed(hash, value, null);
  return Long.fromBytesLE([...hash.digest().subarray(0, 8)]);
}

type Hash = ReturnType<typeof createHash>;

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function feed(hash: Hash, value: unknown, name: string | null): void {
  const element = elementOf(value);
  // What compares equal must hash alike.
  hash.update(int32(bracketOf(value)));
  if (name !== null) hash.update(`${name}\0`);
  if (isNumeric(value)) hash.update(Buffer.from(wholePart(value).toBytesLE()));
  else if (Array.isArray(value))
    for (const [index, inner] of value.entries()) feed(hash, inner, String(index));
  else if (isDocument(value)) for (const [key, inner] of Object.entries(value)) feed(hash, inner, key);
  else hash.update(element.bytes);
}

/** Type byte and value bytes of one element: a document of one field with an empty name has them in fixed places. */
function elementOf(value: unknown): { readonly type: number; readonly bytes: Uint8Array } {
  const bytes = encode({ v: value === undefined ? null : value });
  return { type: bytes[4]!, bytes: bytes.subarray(7, bytes.length - 1) };
}

function wholePart(value: unknown): Long {
  if (value instanceof Long) return value;
  const number = Number(plain(value));
  if (Number.isNaN(number)) return Long.ZERO;
  if (number >= 2 ** 63) return Long.MAX_VALUE;
  if (number <= -(2 ** 63)) return Long.MIN_VALUE;
  return Long.fromBigInt(BigInt(Math.trunc(number)));
}
