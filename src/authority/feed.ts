/**
 * Follows the feed of task documents: such that come by another way than `create` are decided on, once each, such that go take
 * their locks with them, and what other control planes decide is heard of. Who decides is told; here is only when.
 */
import type { Clock, Log, Store, StoredObject } from '../engine/ports.ts';
import { TASK_KIND } from './ledger.ts';
import { ADOPT_DELAY, SWEEP_RETRY } from './limits.ts';

/** Who is told of what the feed brings. */
export interface TaskListener {
  /** Decides on a document that somebody has applied. */
  adopt(object: StoredObject): Promise<unknown>;
  /** A document is gone. */
  gone(object: StoredObject): Promise<void>;
  /** A decision was written, here or elsewhere. */
  decided(): Promise<void>;
  /** The feed broke and begins anew: what was written meanwhile is not told. */
  missed(): void;
}

export interface FeedOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends everything. */
  readonly signal: AbortSignal;
}

export class TaskFeed {
  readonly #options: FeedOptions;
  readonly #listener: TaskListener;
  /** Names of documents this process is deciding on itself. */
  readonly #making = new Set<string>();

  constructor(options: FeedOptions, listener: TaskListener) {
    this.#options = options;
    this.#listener = listener;
  }

  /** Whoever makes a document decides on it itself, until it calls what it gets. */
  claim(name: string): () => void {
    this.#making.add(name);
    return () => this.#making.delete(name);
  }

  /** Goes on until the signal, over breaks of the feed as well. */
  async follow(since: string): Promise<void> {
    const { store, clock, log, signal } = this.#options;
    let from: string | undefined = since;
    while (!signal.aborted) {
      try {
        for await (const { type, object } of store.watch({
          kinds: [TASK_KIND],
          ...(from === undefined ? {} : { since: from }),
          signal,
        })) {
          from = object.metadata.resourceVersion;
          if (type === 'DELETED') await this.#listener.gone(object);
          else if (object.status === null) this.#adopt(object);
          else await this.#listener.decided();
        }
      } catch (failure) {
        if (signal.aborted) return;
        log.warn('the feed of maintenance tasks broke', { failure: String(failure) });
        from = undefined;
        this.#listener.missed();
        await new Promise<void>((resolve) => {
          clock.at(clock.now() + SWEEP_RETRY, resolve);
          signal.addEventListener('abort', () => resolve(), { once: true });
        });
      }
    }
  }

  /**
   * Documents that were found without a decision. Their maker may be about to decide on them, and right after a start the fleet
   * is not known yet: they have a moment.
   */
  found(undecided: readonly StoredObject[]): void {
    const { clock } = this.#options;
    for (const object of undecided) clock.at(clock.now() + ADOPT_DELAY, () => this.#adopt(object));
  }

  #adopt(object: StoredObject): void {
    const { name } = object.metadata;
    if (this.#making.has(name) || this.#options.signal.aborted) return;
    const release = this.claim(name);
    this.#listener
      .adopt(object)
      .catch((failure) =>
        this.#options.log.warn('a task could not be decided on', { name, failure: String(failure) }),
      )
      .finally(release);
  }
}
