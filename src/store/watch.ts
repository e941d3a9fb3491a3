import { BelayError } from '../base/error.ts';
import type { ObjectEvent } from '../engine/ports.ts';
import { fromTheFuture, gone } from './errors.ts';
import type { Feed } from './feed.ts';

/** Which changes a watcher wants. */
export interface ChangeFilter {
  readonly kinds?: readonly string[];
  readonly namespace?: string;
}

/** Changes after a number, read in one snapshot with the bounds of what exists. */
export interface ChangeSlice {
  /** Number of the newest change of any kind. */
  readonly head: number;
  /** Changes up to this number are not kept any more. */
  readonly kept: number;
  /** In order; all of the filter's changes between `after` and `head` when shorter than the limit. */
  readonly changes: readonly { readonly version: number; readonly event: ObjectEvent }[];
}

export type ReadChanges = (after: number, filter: ChangeFilter, limit: number) => Promise<ChangeSlice>;

/**
 * The watch of every store: reads slices and sleeps in between. Since numbers follow the order of commits, no
 * smaller number can appear later and nothing is missed. `Gone` (never) once the watcher is behind what is kept.
 */
export function watchChanges(
  read: ReadChanges,
  feed: Feed,
  query: ChangeFilter & { readonly since?: string; readonly signal: AbortSignal },
  limit: number,
): AsyncIterable<ObjectEvent> {
  // Read now and not at the first `next()`: what is written between the two must be seen.
  const start = startOf(read, query.since);
  start.catch(() => undefined);
  return follow(read, feed, query, start, limit);
}

async function startOf(read: ReadChanges, since: string | undefined): Promise<number> {
  const { head, kept } = await read(Number.MAX_SAFE_INTEGER, {}, 1);
  if (since === undefined) return head;
  if (!/^\d{1,15}$/.test(since)) {
    throw new BelayError('InvalidResourceVersion', `'${since}' is not a resourceVersion`, {
      retry: 'never',
      fix: 'Use the resourceVersion of a list or of an object.',
    });
  }
  const version = Number(since);
  if (version > head) throw fromTheFuture(since, head);
  if (version < kept) throw gone(since, kept);
  return version;
}

async function* follow(
  read: ReadChanges,
  feed: Feed,
  query: ChangeFilter & { readonly signal: AbortSignal },
  start: Promise<number>,
  limit: number,
): AsyncGenerator<ObjectEvent> {
  let cursor = await start;
  while (!query.signal.aborted && !feed.closed) {
    const ticket = feed.ticket;
    const slice = await read(cursor, query, limit);
    if (slice.kept > cursor) throw gone(String(cursor), slice.kept);
    for (const change of slice.changes) {
      if (query.signal.aborted) return;
      yield change.event;
      cursor = change.version;
    }
    if (slice.changes.length >= limit) continue;
    cursor = Math.max(cursor, slice.head);
    await feed.after(ticket, query.signal);
  }
}
