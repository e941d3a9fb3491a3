import type { Document } from 'bson';
import type { ReplicaSetConfig } from '../member/config.ts';
import { configDocument, timestamp } from './values.ts';

/** Attributes of a log line as BSON: optimes and configurations in the server's shape. */
export function showAttr(attr: Readonly<Record<string, unknown>> | undefined): Document | undefined {
  if (attr === undefined) return undefined;
  return Object.fromEntries(Object.entries(attr).map(([key, value]) => [key, showValue(key, value)]));
}

function showValue(key: string, value: unknown): unknown {
  if (key === 'config') return configDocument(value as ReplicaSetConfig, { forClients: true });
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  const op = value as { t?: unknown; s?: unknown; i?: unknown };
  if (typeof op.s === 'number' && typeof op.i === 'number') {
    return { ts: timestamp({ s: op.s, i: op.i }), t: Number(op.t) };
  }
  if (Array.isArray(value)) return value;
  return showAttr(value as Record<string, unknown>);
}
