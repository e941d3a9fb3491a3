import { tooLarge } from './errors.ts';

/** Equal as JSON: the order of keys does not matter, keys with undefined count as absent. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) return sameLists(a, b);
  return sameRecords(a as Record<string, unknown>, b as Record<string, unknown>);
}

function sameLists(a: unknown, b: unknown): boolean {
  if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
  return a.every((item, index) => sameJson(item, b[index]));
}

function sameRecords(a: Record<string, unknown>, b: Record<string, unknown>): boolean {
  const keys = Object.keys(a).filter((key) => a[key] !== undefined);
  const others = Object.keys(b).filter((key) => b[key] !== undefined);
  if (keys.length !== others.length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && sameJson(a[key], b[key]));
}

/** What a value becomes by being stored: plain JSON, nothing shared with the caller. `TooLarge` above the limit. */
export function plainJson(value: unknown, what: string, limit: number): unknown {
  return value === null || value === undefined ? null : JSON.parse(encodeJson(value, what, limit));
}

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
