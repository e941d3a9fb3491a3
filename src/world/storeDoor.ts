/** The store as one life of a control plane sees it: slow at times, failing at times, and the place where lives end. */
import { BelayError } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { Batch, Store } from '../engine/ports.ts';
import type { Timeline } from './timeline.ts';

/** What becomes of one call: the world's say. */
export interface StoreFate {
  readonly millis: Millis;
  /** `before`: nothing was done. `after`: it was done, and the caller is told that it failed. */
  readonly fails: 'no' | 'before' | 'after';
  readonly full: boolean;
}

export interface DoorOptions {
  readonly store: Store;
  readonly timeline: Timeline;
  /** The batch when it is a commit. */
  readonly fate: (write: boolean, batch: Batch | null) => StoreFate;
  /** One arrow of the executor's chain was reached; false: the process died here. */
  readonly arrow: (what: string) => boolean;
  readonly alive: () => boolean;
  /** The process stands still until then. */
  readonly stalledUntil: () => Millis;
  /** Ends of the watches that are open. */
  readonly feeds: Set<() => void>;
  /** Told what was really committed. */
  readonly committed: (batch: Batch) => void;
}

const WRITES = new Set([
  'commit',
  'create',
  'update',
  'putSealed',
  'deleteSealed',
  'recordEvents',
  'initSetting',
]);
/** Where a death is worth trying: everything that leaves something behind. */
const ARROWS = new Set(['commit', 'update', 'putSealed', 'deleteSealed']);
const never = (): Promise<never> => new Promise<never>(() => {});

/** Wraps a store for one life. Calls of the dead do nothing and never come back. */
export function storeDoor(options: DoorOptions): Store {
  const { store, timeline, fate, arrow, alive, committed } = options;
  const call = async (
    name: string,
    method: (...args: unknown[]) => unknown,
    args: unknown[],
  ): Promise<unknown> => {
    if (!alive()) return never();
    const arrowed = ARROWS.has(name);
    if (arrowed && !arrow(`before ${name}`)) return never();
    const write = WRITES.has(name);
    const { millis, fails, full } = fate(write, name === 'commit' ? (args[0] as Batch) : null);
    if (millis > 0) await wait(timeline, millis);
    const stalled = options.stalledUntil() - timeline.now;
    if (stalled > 0) await wait(timeline, stalled);
    if (!alive()) return never();
    if (full && write) throw new BelayError('StoreFull', 'no space left for the store', { retry: 'later' });
    if (fails === 'before') throw unavailable();
    // Leases live on the store's own clock, as on a database server's: the holders' clocks may differ.
    if (name === 'acquireLeases') args[3] = timeline.now;
    const result = await method(...args);
    if (name === 'commit') committed(args[0] as Batch);
    if (arrowed && !arrow(`after ${name}`)) return never();
    if (fails === 'after') throw unavailable();
    return result;
  };
  const doors = new Map<string | symbol, unknown>();
  return new Proxy(store, {
    get: (target, name) => {
      if (doors.has(name)) return doors.get(name);
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== 'function') return value;
      const method = value.bind(target) as (...args: unknown[]) => unknown;
      const door =
        name === 'watch'
          ? (query: WatchQuery) => watch(store, query, options.feeds)
          : (...args: unknown[]) => call(String(name), method, args);
      doors.set(name, door);
      return door;
    },
  });
}

type WatchQuery = Parameters<Store['watch']>[0];

function watch(store: Store, query: WatchQuery, feeds: Set<() => void>): ReturnType<Store['watch']> {
  const broken = new AbortController();
  const end = (): void => {
    feeds.delete(end);
    broken.abort();
  };
  feeds.add(end);
  query.signal.addEventListener('abort', end);
  return store.watch({ ...query, signal: broken.signal });
}

function wait(timeline: Timeline, millis: Millis): Promise<void> {
  return new Promise((resolve) =>
    timeline.after(millis, () => {
      timeline.promised = true;
      resolve();
    }),
  );
}

const unavailable = (): BelayError =>
  new BelayError('StoreUnavailable', 'the store does not answer', { retry: 'later' });
