/**
 * Work by key: one pass per key at a time, wake-ups that come together are one pass, and a key that is slow delays no
 * other (L4). Three properties, kept by construction:
 *   1. a key added while its pass runs gets another pass after it: no wake-up is lost;
 *   2. a pass longer than SLOW_AFTER gives its slot back and its key queues with the slow ones from then on;
 *   3. one timer for all keys that wait for a time, so ten thousand idle clusters cost one timer.
 */
import type { Millis } from '../base/units.ts';
import {
  PASS_PARALLELISM,
  PASS_RETRY_CAP,
  PASS_RETRY_FIRST,
  SLOW_AFTER,
  SLOW_PARALLELISM,
} from './limits.ts';
import type { Clock } from './ports.ts';
import { Schedule } from './schedule.ts';

export interface QueueOptions {
  readonly clock: Clock;
  /** One pass; gives the latest time to look again, null for never. */
  readonly work: (key: string) => Promise<Millis | null>;
  /** Told of every failed pass; the queue tries again with growing waits. */
  readonly onFailure?: (key: string, failure: unknown, nextTryAt: Millis) => void;
  readonly onPass?: (key: string, duration: Millis) => void;
  readonly parallelism?: number;
  readonly slowParallelism?: number;
  readonly slowAfter?: Millis;
}

interface Entry {
  readonly key: string;
  /** `parked`: running, but its slot was given back. */
  phase: 'idle' | 'ready' | 'running' | 'parked';
  /** Asked for again while running. */
  again: boolean;
  slow: boolean;
  failures: number;
}

/** See the head of this file. */
export class WorkQueue {
  readonly #options: Required<Omit<QueueOptions, 'onFailure' | 'onPass'>> & QueueOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #lanes: { readonly fast: Entry[]; readonly slow: Entry[] } = { fast: [], slow: [] };
  readonly #schedule: Schedule;
  readonly #idle = new Set<() => void>();
  #running = 0;
  #parked = 0;
  #slowTurn = false;
  #closed = false;

  constructor(options: QueueOptions) {
    this.#options = {
      parallelism: PASS_PARALLELISM,
      slowParallelism: SLOW_PARALLELISM,
      slowAfter: SLOW_AFTER,
      ...options,
    };
    this.#schedule = new Schedule(options.clock, (key) => this.add(key));
  }

  /** Wakes a key: its next pass starts as soon as there is room. */
  add(key: string): void {
    if (this.#closed) return;
    this.#schedule.cancel(key);
    const entry = this.#entry(key);
    if (entry.phase === 'running' || entry.phase === 'parked') entry.again = true;
    if (entry.phase !== 'idle') return;
    entry.phase = 'ready';
    this.#lane(entry).push(entry);
    this.#dispatch();
  }

  /** Wakes a key at a time; an earlier time already set stays. */
  addAt(key: string, at: Millis): void {
    if (!this.#closed) this.#schedule.set(key, at);
  }

  /** Forgets a key: no further pass, unless it is added again. A pass under way ends. */
  remove(key: string): void {
    this.#schedule.cancel(key);
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    entry.again = false;
    if (entry.phase === 'ready') this.#take(this.#lane(entry), entry);
    if (entry.phase === 'ready' || entry.phase === 'idle') this.#entries.delete(key);
    this.#noticeIdle();
  }

  /** Passes running or ready to run. */
  get busy(): number {
    return this.#running + this.#parked + this.#lanes.fast.length + this.#lanes.slow.length;
  }

  /** Resolves when nothing runs and nothing is ready; keys that wait for a time do not count. */
  idle(): Promise<void> {
    if (this.busy === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.add(resolve));
  }

  /** Starts nothing more and waits for the passes under way. */
  close(): Promise<void> {
    this.#closed = true;
    this.#schedule.close();
    this.#lanes.fast.length = 0;
    this.#lanes.slow.length = 0;
    this.#noticeIdle();
    return this.idle();
  }

  #entry(key: string): Entry {
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      entry = { key, phase: 'idle', again: false, slow: false, failures: 0 };
      this.#entries.set(key, entry);
    }
    return entry;
  }

  #lane(entry: Entry): Entry[] {
    return entry.slow ? this.#lanes.slow : this.#lanes.fast;
  }

  #take(lane: Entry[], entry: Entry): void {
    const index = lane.indexOf(entry);
    if (index >= 0) lane.splice(index, 1);
  }

  #dispatch(): void {
    while (!this.#closed && this.#running < this.#options.parallelism) {
      const entry = this.#next();
      if (entry === undefined) return;
      this.#start(entry);
    }
  }

  /** Lanes take turns; the slow one only while few of its kind are under way. */
  #next(): Entry | undefined {
    const { fast, slow } = this.#lanes;
    const slowAllowed = slow.length > 0 && this.#parked < this.#options.slowParallelism;
    this.#slowTurn = !this.#slowTurn;
    if (slowAllowed && (this.#slowTurn || fast.length === 0)) return slow.shift();
    return fast.shift();
  }

  #start(entry: Entry): void {
    const { clock } = this.#options;
    entry.phase = 'running';
    entry.again = false;
    const startedAt = clock.now();
    if (entry.slow) this.#park(entry);
    else this.#running++;
    const cancel = clock.at(startedAt + this.#options.slowAfter, () => this.#becameSlow(entry));
    this.#options.work(entry.key).then(
      (at) => this.#ended(entry, cancel, startedAt, at),
      (failure) => this.#failed(entry, cancel, startedAt, failure),
    );
  }

  /** A key known to be slow never holds a fast slot. */
  #park(entry: Entry): void {
    entry.phase = 'parked';
    this.#parked++;
  }

  #becameSlow(entry: Entry): void {
    if (entry.phase !== 'running') return;
    this.#running--;
    this.#park(entry);
    this.#dispatch();
  }

  #failed(entry: Entry, cancel: () => void, startedAt: Millis, failure: unknown): void {
    entry.failures++;
    const wait = Math.min(PASS_RETRY_CAP, PASS_RETRY_FIRST * 2 ** Math.min(entry.failures - 1, 16));
    const at = this.#options.clock.now() + wait;
    this.#options.onFailure?.(entry.key, failure, at);
    this.#rest(entry, cancel, startedAt, at);
  }

  #ended(entry: Entry, cancel: () => void, startedAt: Millis, at: Millis | null): void {
    entry.failures = 0;
    this.#rest(entry, cancel, startedAt, at);
  }

  #rest(entry: Entry, cancel: () => void, startedAt: Millis, at: Millis | null): void {
    cancel();
    if (entry.phase === 'parked') this.#parked--;
    else this.#running--;
    const duration = this.#options.clock.now() - startedAt;
    entry.slow = duration >= this.#options.slowAfter;
    entry.phase = 'idle';
    this.#options.onPass?.(entry.key, duration);
    if (entry.again || (at !== null && at <= this.#options.clock.now())) this.add(entry.key);
    else if (at !== null) this.addAt(entry.key, at);
    else if (!this.#schedule.has(entry.key)) this.#entries.delete(entry.key);
    this.#dispatch();
    this.#noticeIdle();
  }

  #noticeIdle(): void {
    if (this.busy > 0) return;
    for (const resolve of this.#idle) resolve();
    this.#idle.clear();
  }
}
