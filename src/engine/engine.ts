/** Puts leases, feed of objects, queue and reconcilers together: the thing with a life that a control plane opens. */
import { asBelayError } from '../base/error.ts';
import { askedForMore, Informer } from './informer.ts';
import { LeaseKeeper } from './leases.ts';
import { CLOSE_PATIENCE } from './limits.ts';
import { type EngineMetrics, newMetrics } from './metrics.ts';
import type { Clock, Log, Store } from './ports.ts';
import type { Reconciler } from './provider.ts';
import { WorkQueue } from './queue.ts';

export interface EngineOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Unique per process and start. */
  readonly holder: string;
  /** Kinds kept in memory, those of the reconcilers among them. */
  readonly kinds: readonly string[];
  /** Passes at once. */
  readonly parallelism?: number;
}

/** What a reconciler is made with. */
export interface EngineParts {
  readonly informer: Informer;
  readonly leases: LeaseKeeper;
  readonly metrics: EngineMetrics;
  /** Looks at an object as soon as there is room. */
  readonly wake: (kind: string, uid: string) => void;
}

/** One engine per process. `open` starts acting, `close` ends what runs and hands the leases over. */
export class Engine {
  readonly informer: Informer;
  readonly leases: LeaseKeeper;
  readonly metrics: EngineMetrics = newMetrics();
  readonly #options: EngineOptions;
  readonly #queue: WorkQueue;
  readonly #reconcilers = new Map<string, Reconciler>();

  constructor(options: EngineOptions) {
    const { store, clock, log } = options;
    this.#options = options;
    this.informer = new Informer({ store, clock, log, kinds: options.kinds });
    this.leases = new LeaseKeeper({
      store,
      clock,
      log,
      holder: options.holder,
      onGained: (partitions) => this.#gained(partitions),
      onLost: (partitions) => this.#lost(partitions),
    });
    this.#queue = new WorkQueue({
      clock,
      ...(options.parallelism === undefined ? {} : { parallelism: options.parallelism }),
      work: (key) => this.#work(key),
      onPass: (_, duration) => {
        this.metrics.passes++;
        this.metrics.passMillis += duration;
      },
      onFailure: (key, failure, nextTryAt) => this.#failed(key, failure, nextTryAt),
    });
  }

  /** Adds a reconciler; before `open`. */
  add(reconciler: Reconciler): void {
    this.#reconcilers.set(reconciler.kind, reconciler);
  }

  async open(): Promise<void> {
    this.informer.onChange((change) => {
      const object = change.after ?? change.before;
      if (object !== null && this.#reconcilers.has(object.kind) && askedForMore(change)) {
        this.wake(object.kind, object.metadata.uid);
      }
    });
    await this.informer.open();
    await this.leases.open();
  }

  /** Looks at an object as soon as there is room; nothing happens when another process holds its lease. */
  wake(kind: string, uid: string): void {
    if (this.leases.fence(uid) !== null) this.#queue.add(`${kind}/${uid}`);
  }

  /** Resolves when nothing runs or is ready to run. */
  idle(): Promise<void> {
    return this.#queue.idle();
  }

  /** Nothing new starts; what is under way is waited for, not longer than CLOSE_PATIENCE. */
  async close(): Promise<void> {
    this.leases.stop();
    await this.#patiently(this.#queue.close());
    await this.leases.close();
    await this.informer.close();
  }

  #patiently(work: Promise<void>): Promise<void> {
    const { clock } = this.#options;
    return new Promise((resolve) => {
      const cancel = clock.at(clock.now() + CLOSE_PATIENCE, resolve);
      void work.then(() => {
        cancel();
        resolve();
      });
    });
  }

  async #work(key: string): Promise<number | null> {
    const slash = key.indexOf('/');
    const reconciler = this.#reconcilers.get(key.slice(0, slash));
    return reconciler === undefined ? null : reconciler.pass(key.slice(slash + 1));
  }

  #gained(partitions: ReadonlySet<number>): void {
    this.#options.log.info('leases gained', { partitions: partitions.size });
    for (const kind of this.#reconcilers.keys()) {
      for (const object of this.informer.all(kind)) {
        if (partitions.has(this.leases.partitionOf(object.metadata.uid)))
          this.wake(kind, object.metadata.uid);
      }
    }
  }

  #lost(partitions: ReadonlySet<number>): void {
    this.#options.log.warn('leases lost', { partitions: partitions.size });
    const belongs = (uid: string): boolean => partitions.has(this.leases.partitionOf(uid));
    for (const reconciler of this.#reconcilers.values()) reconciler.drop(belongs);
  }

  #failed(key: string, failure: unknown, nextTryAt: number): void {
    this.metrics.passFailures++;
    const error = asBelayError(failure);
    const wait = nextTryAt - this.#options.clock.now();
    this.#options.log.error('a pass failed', {
      key,
      code: error.code,
      error: error.message,
      retryInMillis: wait,
    });
  }
}
