/**
 * Agents that come back after this control plane started. They try every five seconds; of two thousand, the last are
 * served a while after the first. As long as they keep coming, one that is still missing is on its way and not away.
 */
import { MINUTE, type Millis, SECOND } from '../base/units.ts';
import type { Clock } from '../engine/ports.ts';

/** An agent that can reach us has tried in this time. */
const FIRST: Millis = 10 * SECOND;
/** After the last one that came. */
const GAP: Millis = 3 * SECOND;
/** However many there are. */
const LONGEST: Millis = 2 * MINUTE;

/** See the head of this file. */
export class Returning {
  readonly #clock: Clock;
  readonly #startedAt: Millis;
  readonly #hosts = new Set<string>();
  #until: Millis;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startedAt = this.#steady();
    this.#until = this.#startedAt + FIRST;
  }

  /** Until when agents are expected, as it looks now; it lies in the past once all is told. */
  get until(): Millis {
    return this.#clock.now() + this.#until - this.#steady();
  }

  /** A clock that is set back must not hold up a whole control plane. */
  #steady(): Millis {
    return this.#clock.monotonic?.() ?? this.#clock.now();
  }

  /** A host's channel was opened; one that was heard of before is not coming back any more. */
  heard(host: string): void {
    const now = this.#steady();
    if (now >= this.#until || this.#hosts.has(host)) return;
    this.#hosts.add(host);
    this.#until = Math.min(Math.max(this.#until, now + GAP), this.#startedAt + LONGEST);
  }
}
