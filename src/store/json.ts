import { tooLarge } from './errors.ts';

/** What a value becomes by being stored: plain JSON, frozen, nothing shared with the caller. `TooLarge` above the limit. */
export function plainJson(value: unknown, what: string, limit: number): unknown {
  const size = { atMost: 0 };
  const copy = plain(value, size) ?? null;
  // Most values are far from the limit; only near it is the text needed to know.
  if (size.atMost > limit) encodeJson(value, what, limit);
  return copy;
}

/** A copy as `JSON.parse(JSON.stringify(value))` gives it, at about a third of the cost. Adds the most bytes its text can have. */
function plain(value: unknown, size: { atMost: number }): unknown {
  size.atMost += BYTES_OF_NUMBER;
  if (typeof value === 'string') size.atMost += value.length * BYTES_OF_UNIT;
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  // Minus zero is zero there.
  if (typeof value === 'number') return Number.isFinite(value) ? value + 0 : null;
  if (typeof value === 'bigint') return JSON.stringify(value);
  if (typeof value !== 'object') return undefined;
  if ('toJSON' in value && typeof value.toJSON === 'function') return plain(value.toJSON(), size);
  if (Array.isArray(value)) return Object.freeze(Array.from(value, (item) => plain(item, size) ?? null));
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    const part = plain((value as Readonly<Record<string, unknown>>)[key], size);
    if (part === undefined) continue;
    size.atMost += key.length * BYTES_OF_UNIT;
    if (key === '__proto__') Object.defineProperty(copy, key, { value: part, enumerable: true });
    else copy[key] = part;
  }
  return Object.freeze(copy);
}

/** Of a UTF-16 unit: `\u0000`. */
const BYTES_OF_UNIT = 6;
/** Longest text of a number, with what stands around a value. */
const BYTES_OF_NUMBER = 32;

/** JSON text for a column. `TooLarge` above the limit. Undefined becomes null. */
export function encodeJson(value: unknown, what: string, limit: number): string {
  const text = JSON.stringify(value) ?? 'null';
  // UTF-16 units are at most the bytes of UTF-8 and at least a third of them; count exactly only near the limit.
  if (text.length * 3 > limit) {
    const bytes = new TextEncoder().encode(text).length;
    if (bytes > limit) throw tooLarge(what, bytes, limit);
  }
  return text;
}
