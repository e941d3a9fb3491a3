/** Any JSON object as it was read, before it is known to be right. */
export type Loose = { readonly [key: string]: unknown };

/** Whether the value is a map (not null, not a list). */
export function isMap(value: unknown): value is Loose {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Field path in the form people read: `spec.memberConfig[2].votes`. */
export function formatPath(parts: readonly PropertyKey[]): string {
  let text = '';
  for (const part of parts) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += text === '' ? String(part) : `.${String(part)}`;
  }
  return text;
}

/** The inverse of formatPath for keys without dots and brackets: `a.b[2]` → ['a', 'b', 2]. */
export function splitPath(path: string): (string | number)[] {
  const parts: (string | number)[] = [];
  for (const match of path.matchAll(/\[(\d+)\]|([^.[\]]+)/g)) {
    parts.push(match[1] === undefined ? (match[2] ?? '') : Number(match[1]));
  }
  return parts;
}

/** The value at a path, or undefined when something on the way is missing. */
export function valueAt(value: unknown, parts: readonly PropertyKey[]): unknown {
  let at = value;
  for (const part of parts) {
    if (Array.isArray(at) && typeof part === 'number') at = at[part];
    else if (isMap(at) && Object.hasOwn(at, part)) at = at[String(part)];
    else return undefined;
  }
  return at;
}

/** The map at a key, or an empty one: lets rules look into unfinished documents without checks on every step. */
export function mapAt(value: unknown, ...keys: string[]): Loose {
  const found = valueAt(value, keys);
  return isMap(found) ? found : {};
}

/** The text at a key, if it is text. */
export function textAt(value: unknown, ...keys: string[]): string | undefined {
  const found = valueAt(value, keys);
  return typeof found === 'string' ? found : undefined;
}

/** The number at a key, if it is a finite number. */
export function numberAt(value: unknown, ...keys: string[]): number | undefined {
  const found = valueAt(value, keys);
  return typeof found === 'number' && Number.isFinite(found) ? found : undefined;
}

/** The truth value at a key, if it is one. */
export function booleanAt(value: unknown, ...keys: string[]): boolean | undefined {
  const found = valueAt(value, keys);
  return typeof found === 'boolean' ? found : undefined;
}

/** The list at a key, or an empty one. */
export function listAt(value: unknown, ...keys: string[]): readonly unknown[] {
  const found = valueAt(value, keys);
  return Array.isArray(found) ? found : [];
}

/**
 * A copy in which map entries with the value null are gone: an empty `spec:` or `tags:` in a file means "not
 * given", as in Kubernetes. Nulls inside lists stay, so that they are reported.
 */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isMap(value)) return value;
  const entries = Object.entries(value).filter(([, item]) => item !== null);
  return Object.fromEntries(entries.map(([key, item]) => [key, withoutNulls(item)]));
}
