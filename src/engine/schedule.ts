/** Wake-up times of many keys on one timer: a heap, with stale rows skipped when they surface. */
import { Heap } from '../base/heap.ts';
import type { Millis } from '../base/units.ts';
import type { Clock } from './ports.ts';

interface Row {
  readonly key: string;
  readonly at: Millis;
}

/** Calls `due(key)` at the key's time; a key has one time, the earliest asked for. */
export class Schedule {
  // Kept on a clock that never jumps: one set back by an hour must not hold up work for an hour.
  readonly #clock: Clock;
  readonly #due: (key: string) => void;
  readonly #times = new Map<string, Millis>();
  readonly #heap = new Heap<Row>((a, b) => a.at < b.at);
  #timer: { readonly at: Millis; readonly cancel: () => void } | null = null;

  constructor(clock: Clock, due: (key: string) => void) {
    this.#clock = clock;
    this.#due = due;
  }

  has(key: string): boolean {
    return this.#times.has(key);
  }

  /** `at` is on the wall clock. */
  set(key: string, wallTime: Millis): void {
    const at = this.#steady() + wallTime - this.#clock.now();
    const known = this.#times.get(key);
    if (known !== undefined && known <= at) return;
    this.#times.set(key, at);
    this.#heap.push({ key, at });
    this.#arm();
  }

  cancel(key: string): void {
    this.#times.delete(key);
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#times.clear();
    this.#heap.clear();
  }

  #steady(): Millis {
    return this.#clock.monotonic?.() ?? this.#clock.now();
  }

  #arm(): void {
    const { first } = this.#heap;
    if (first === undefined || (this.#timer !== null && this.#timer.at <= first.at)) return;
    this.#timer?.cancel();
    const wait = Math.max(0, first.at - this.#steady());
    this.#timer = { at: first.at, cancel: this.#clock.at(this.#clock.now() + wait, () => this.#ring()) };
  }

  #ring(): void {
    this.#timer = null;
    const now = this.#steady();
    for (let { first } = this.#heap; first !== undefined && first.at <= now; first = this.#heap.first) {
      this.#heap.shift();
      if (this.#times.get(first.key) !== first.at) continue;
      this.#times.delete(first.key);
      this.#due(first.key);
    }
    this.#arm();
  }
}
