import { Buffer } from 'node:buffer';
import { invalidContinue } from './errors.ts';

/** Where a list goes on: after this object; `version` is the resourceVersion of the list's first page. */
export interface Position {
  readonly namespace: string;
  readonly name: string;
  readonly version: number;
}

/** The opaque text of a position. */
export const encodePosition = (position: Position): string =>
  Buffer.from(JSON.stringify([position.namespace, position.name, position.version])).toString('base64url');

/** Reads a continue token. `InvalidContinue` (never). */
export function decodePosition(token: string): Position {
  const parts = parse(token);
  if (!Array.isArray(parts) || parts.length !== 3) throw invalidContinue();
  const [namespace, name, version] = parts as unknown[];
  if (typeof namespace !== 'string' || typeof name !== 'string') throw invalidContinue();
  if (typeof version !== 'number' || !Number.isSafeInteger(version)) throw invalidContinue();
  return { namespace, name, version };
}

function parse(token: string): unknown {
  try {
    return JSON.parse(Buffer.from(token, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
}
