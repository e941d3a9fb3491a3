/** What happens to objects, leases and events when they are written: the same for every database. No I/O here. */
import { createHash } from 'node:crypto';
import { equalValues } from '../base/equal.ts';
import type {
  JournalOutcome,
  Lease,
  NewEvent,
  NewObject,
  ObjectChange,
  ObjectMetadata,
  StoredObject,
} from '../engine/ports.ts';
import { beingDeleted, describeKey } from './errors.ts';
import { plainJson } from './json.ts';

/** An object about to be written: its resourceVersion is given by the write itself. */
export interface Draft extends Omit<StoredObject, 'metadata'> {
  readonly metadata: Omit<ObjectMetadata, 'resourceVersion'>;
}

/** What a change makes of an object. */
export type Outcome =
  | { readonly kind: 'same' }
  | { readonly kind: 'modified'; readonly draft: Draft }
  | { readonly kind: 'removed' };

/** A draft with its number. */
export const numbered = (draft: Draft, version: number): StoredObject => ({
  kind: draft.kind,
  metadata: { ...draft.metadata, resourceVersion: String(version) },
  spec: draft.spec,
  status: draft.status,
});

/** The object that `create` makes. */
export function draftOf(input: NewObject, uid: string, now: number, limit: number): Draft {
  const what = describeKey(input);
  return {
    kind: input.kind,
    metadata: {
      namespace: input.namespace,
      name: input.name,
      uid,
      generation: 1,
      labels: { ...input.labels },
      annotations: { ...input.annotations },
      creationTimestamp: new Date(now).toISOString(),
      deletionTimestamp: null,
      finalizers: [...new Set(input.finalizers)],
    },
    spec: plainJson(input.spec, `spec of ${what}`, limit),
    status: plainJson(input.status, `status of ${what}`, limit),
  };
}

/**
 * Applies a change. Only a different spec moves the generation. A deletion mark is never taken back; a marked
 * object without finalizers goes. `BeingDeleted` (never) for a new finalizer on a marked object.
 */
export function applyChange(
  current: StoredObject,
  change: ObjectChange,
  now: number,
  limit: number,
): Outcome {
  const old = current.metadata;
  const what = describeKey({ kind: current.kind, ...old });
  const spec = change.spec === undefined ? current.spec : plainJson(change.spec, `spec of ${what}`, limit);
  const specChanged = !equalValues(spec, current.spec);
  const finalizers = change.finalizers === undefined ? old.finalizers : [...new Set(change.finalizers)];
  const marked = old.deletionTimestamp !== null;
  if (marked && finalizers.some((finalizer) => !old.finalizers.includes(finalizer))) throw beingDeleted(what);
  if ((marked || change.delete === true) && finalizers.length === 0) return { kind: 'removed' };
  const metadata = {
    ...old,
    generation: specChanged ? old.generation + 1 : old.generation,
    labels: change.labels === undefined ? old.labels : { ...change.labels },
    annotations: change.annotations === undefined ? old.annotations : { ...change.annotations },
    finalizers,
    deletionTimestamp:
      change.delete === true ? (old.deletionTimestamp ?? new Date(now).toISOString()) : old.deletionTimestamp,
  };
  if (!specChanged && equalValues(metadata, old)) return { kind: 'same' };
  return { kind: 'modified', draft: { kind: current.kind, metadata, spec, status: current.status } };
}

/** Puts a status; an equal one is no change. */
export function applyStatus(current: StoredObject, value: unknown, limit: number): Outcome {
  const what = describeKey({ kind: current.kind, ...current.metadata });
  const status = plainJson(value, `status of ${what}`, limit);
  return equalValues(status, current.status)
    ? { kind: 'same' }
    : { kind: 'modified', draft: { ...current, status } };
}

/** Takes one finalizer off; the last one of a marked object lets it go. */
export function applyRelease(current: StoredObject, finalizer: string, now: number, limit: number): Outcome {
  const finalizers = current.metadata.finalizers.filter((name) => name !== finalizer);
  return applyChange(current, { finalizers }, now, limit);
}

/**
 * Who holds which lease from now on (S9). A lease that is free, expired or new goes to the asker with the next
 * epoch; one's own, even when it ran out unnoticed, is renewed with the same epoch, since nobody else held it
 * in between. `holder` must be unique per start of a process.
 */
export function decideLeases(
  rows: readonly Lease[],
  names: readonly string[],
  ask: { readonly holder: string; readonly expiresAt: number; readonly now: number },
): readonly Lease[] {
  const known = new Map(rows.map((row) => [row.name, row]));
  const held: Lease[] = [];
  for (const name of new Set(names)) {
    const row = known.get(name);
    const mine = row?.holder === ask.holder;
    if (row !== undefined && !mine && row.holder !== FREE && row.expiresAt > ask.now) continue;
    const epoch = row === undefined ? 1 : mine ? row.epoch : row.epoch + 1;
    held.push({ name, holder: ask.holder, epoch, expiresAt: ask.expiresAt });
  }
  return held;
}

/** Holder of a lease that was given back. */
export const FREE = '';

/** Why a fence does not hold any more, or null when it does. */
export function fenceBroken(row: Lease | undefined, epoch: number): string | null {
  if (row === undefined) return 'there is no such lease';
  if (row.epoch !== epoch) return `epoch is ${row.epoch}`;
  return row.holder === FREE ? 'it was given back' : null;
}

/**
 * Whether an outcome replaces what is stored: the first one stands, except that `unknown` (sent, no answer) is
 * settled later by what was observed.
 */
export const settles = (stored: JournalOutcome['kind'] | null, next: JournalOutcome['kind']): boolean =>
  stored === null || (stored === 'unknown' && next !== 'unknown');

/** Equal events have the same id; NULs would be refused by PostgreSQL. */
export function normalEvent(event: NewEvent, messageChars: number): NewEvent & { readonly id: string } {
  const message = event.message.replaceAll('\u0000', '').slice(0, messageChars);
  const parts = [event.namespace, ...subjectParts(event), event.type, event.reason, message];
  const id = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
  return { ...event, message, at: Math.trunc(event.at), id };
}

/** What the limit per object counts by; not every subject has a uid. */
export const subjectOf = (event: Pick<NewEvent, 'namespace' | 'regarding'>): string =>
  event.regarding.uid !== ''
    ? event.regarding.uid
    : JSON.stringify([event.namespace, ...subjectParts(event)]);

const subjectParts = (event: Pick<NewEvent, 'regarding'>): readonly string[] => [
  event.regarding.kind,
  event.regarding.name,
  event.regarding.uid,
];

/** Where a sealed row's nonce is: random, so it tells two rows apart that were written under one name and version. */
export const NONCE = { start: 12, bytes: 8 } as const;
export const nonceOf = (sealed: Uint8Array): Uint8Array =>
  sealed.subarray(NONCE.start, NONCE.start + NONCE.bytes);
export const sealedMark = (version: number, nonce: Uint8Array): string =>
  `${version}/${Buffer.from(nonce).toString('base64url')}`;

/** The first text after all that begin with the prefix, for range scans; null when there is none (empty prefix). */
export function afterPrefix(prefix: string): string | null {
  if (prefix === '') return null;
  const last = prefix.codePointAt(prefix.length - 1) as number;
  return prefix.slice(0, -1) + String.fromCodePoint(last + 1);
}
