/** Equality of plain values as JSON has them; `undefined` fields count as absent and the order of keys as nothing. */
export function equalValues(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => equalValues(item, b[index]));
  }
  const left = a as Record<string, unknown>;
  const right = b as Record<string, unknown>;
  // Every pass compares whole statuses with it: it makes no lists but the keys.
  let more = 0;
  for (const key of Object.keys(left)) {
    if (left[key] === undefined) continue;
    if (!Object.hasOwn(right, key) || !equalValues(left[key], right[key])) return false;
    more++;
  }
  for (const key of Object.keys(right)) if (right[key] !== undefined) more--;
  return more === 0;
}
