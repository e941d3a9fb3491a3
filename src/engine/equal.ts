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
  const present = (of: Record<string, unknown>): string[] =>
    Object.keys(of).filter((k) => of[k] !== undefined);
  const keys = present(left);
  return keys.length === present(right).length && keys.every((key) => equalValues(left[key], right[key]));
}
