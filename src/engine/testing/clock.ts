/** A clock that moves when told: for tests and the deterministic world. */
import type { Millis } from '../../base/units.ts';
import type { Clock } from '../ports.ts';

interface Timer {
  readonly at: Millis;
  readonly order: number;
  readonly call: () => void;
}

/** Time stands still until `advance`. Timers of one moment ring in the order they were set. */
export class ManualClock implements Clock {
  #now: Millis;
  #order = 0;
  #timers: Timer[] = [];
  readonly #outside = new Set<Promise<unknown>>();

  constructor(start: Millis = 1_700_000_000_000) {
    this.#now = start;
  }

  now(): Millis {
    return this.#now;
  }

  at(time: Millis, call: () => void): () => void {
    const timer: Timer = { at: Math.max(time, this.#now), order: this.#order++, call };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((t) => t !== timer);
    };
  }

  /** Time waits for this: work of other threads, such as key generation. */
  track<T>(work: Promise<T>): Promise<T> {
    const ended = work.catch(() => undefined).finally(() => this.#outside.delete(ended));
    this.#outside.add(ended);
    return work;
  }

  /** Time of the next timer, or null. */
  get next(): Millis | null {
    return this.#timers.reduce<Millis | null>((min, t) => (min === null || t.at < min ? t.at : min), null);
  }

  /** A long time passes in which nothing happened: a machine that slept. What fell due rings with the next `advance`. */
  jump(duration: Millis): void {
    this.#now += duration;
  }

  /** Moves time on, ringing what falls due; between two moments everything that can run without time runs. */
  async advance(duration: Millis): Promise<void> {
    const until = this.#now + duration;
    await this.#settle();
    for (;;) {
      const next = this.next;
      if (next === null || next > until) break;
      this.#now = Math.max(this.#now, next);
      this.#ring();
      await this.#settle();
    }
    this.#now = until;
    await this.#settle();
  }

  async #settle(): Promise<void> {
    await settle();
    while (this.#outside.size > 0) {
      await Promise.all(this.#outside);
      await settle();
    }
  }

  #ring(): void {
    const due = this.#timers
      .filter((t) => t.at <= this.#now)
      .sort((a, b) => a.at - b.at || a.order - b.order);
    this.#timers = this.#timers.filter((t) => t.at > this.#now);
    for (const timer of due) timer.call();
  }
}

/** Lets everything run that needs no time to pass. Three turns of the event loop: promises, then what they started. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}
