/** A few checks for messages from the other side: each looks at a value in place and throws on the first thing wrong. */
import { BelayError } from '../base/error.ts';

/** Throws BelayError `ProtocolError` naming the path when the value has another shape. Unknown fields are allowed. */
export type Shape = (value: unknown, path: string) => void;

/** The failure of every check: the message names the place, never the value (S8). */
export function misfit(path: string, wanted: string): never {
  throw new BelayError('ProtocolError', `${path} is not ${wanted}`, {
    retry: 'never',
    fix: 'Run the same release of Belay on the control plane and on all hosts.',
  });
}

export const text: Shape = (value, path) => {
  if (typeof value !== 'string') misfit(path, 'a text');
};
export const number: Shape = (value, path) => {
  if (typeof value !== 'number' || !Number.isFinite(value)) misfit(path, 'a number');
};
/** One that a process can listen on. */
export const port: Shape = (value, path) => {
  if (!Number.isInteger(value) || (value as number) < 1 || (value as number) > 65_535) misfit(path, 'a port');
};
export const truth: Shape = (value, path) => {
  if (typeof value !== 'boolean') misfit(path, 'true or false');
};
export const anything: Shape = () => {};

/** A plain object, whatever is in it. */
export const map: Shape = (value, path) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) misfit(path, 'an object');
};

export const nullable =
  (inner: Shape): Shape =>
  (value, path) => {
    if (value !== null) inner(value, path);
  };

export const optional =
  (inner: Shape): Shape =>
  (value, path) => {
    if (value !== undefined) inner(value, path);
  };

export const oneOf = (...words: readonly string[]): Shape => {
  const known = new Set<unknown>(words);
  return (value, path) => {
    if (!known.has(value)) misfit(path, `one of ${words.join(', ')}`);
  };
};

export const list =
  (inner: Shape, limit = 10_000): Shape =>
  (value, path) => {
    if (!Array.isArray(value)) return misfit(path, 'a list');
    if (value.length > limit) misfit(path, `a list of at most ${limit}`);
    for (let i = 0; i < value.length; i++) inner(value[i], `${path}[${i}]`);
  };

export const record =
  (inner: Shape): Shape =>
  (value, path) => {
    map(value, path);
    for (const [key, item] of Object.entries(value as object)) inner(item, `${path}.${key}`);
  };

export const object = (fields: Readonly<Record<string, Shape>>): Shape => {
  const entries = Object.entries(fields);
  return (value, path) => {
    map(value, path);
    for (const [name, inner] of entries) {
      inner((value as Record<string, unknown>)[name], `${path}.${name}`);
    }
  };
};

/** A union told apart by `kind`. */
export const byKind = (kinds: Readonly<Record<string, Shape>>): Shape => {
  return (value, path) => {
    map(value, path);
    const kind = (value as { kind?: unknown }).kind;
    if (typeof kind !== 'string' || !Object.hasOwn(kinds, kind))
      return misfit(`${path}.kind`, 'a known kind');
    (kinds[kind] as Shape)(value, path);
  };
};
