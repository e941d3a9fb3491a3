import { tooLarge } from './errors.ts';

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
