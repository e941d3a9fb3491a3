import type { Millis } from '../../base/units.ts';
import type { Clock } from '../../engine/ports.ts';

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #now: Millis;
  #timers: { readonly time: Millis; readonly call: () => void }[] = [];

  constructor(now: Millis = Date.UTC(2026, 10, 29)) {
    this.#now = now;
  }

  now(): Millis {
    return this.#now;
  }

  at(time: Millis, call: () => void): () => void {
    const timer = { time, call };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Moves on and calls what became due, in order. */
  advance(by: Millis): void {
    const end = this.#now + by;
    for (;;) {
      const due = this.#timers.filter((timer) => timer.time <= end).sort((a, b) => a.time - b.time)[0];
      if (due === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== due);
      this.#now = Math.max(this.#now, due.time);
      due.call();
    }
    this.#now = end;
  }
}
