/** Virtual time: one queue of things to happen, in one thread. Equal seeds meet equal events in equal order. */
import { Heap } from '../base/heap.ts';
import type { Millis } from '../base/units.ts';

/** Where every world begins. */
export const BEGIN: Millis = 1_700_000_000_000;

interface Event {
  at: Millis;
  readonly order: number;
  run: (() => void) | null;
}

/** See the head of this file. */
export class Timeline {
  now: Millis = BEGIN;
  /** Set by whoever started work that promises have to finish before time may pass. */
  promised = false;
  /** Events run so far. */
  count = 0;
  #order = 0;
  readonly #heap = new Heap(before);

  /** Calls once at the given time, never in the past; gives a canceller. */
  at(time: Millis, run: () => void): () => void {
    const event: Event = { at: Math.max(time, this.now), order: this.#order++, run };
    this.#heap.push(event);
    return () => {
      event.run = null;
    };
  }

  after(delay: Millis, run: () => void): () => void {
    return this.at(this.now + delay, run);
  }

  /** Lets events happen until this time, as long as `going` says so. Between events all promises run dry. */
  async run(until: Millis, going: () => boolean = () => true): Promise<void> {
    await this.#dry();
    for (let event = this.#heap.first; event !== undefined && event.at <= until; event = this.#heap.first) {
      this.#heap.shift();
      if (event.run === null) continue;
      this.now = event.at;
      this.count++;
      event.run();
      if (this.promised) await this.#dry();
      if (!going()) return;
    }
    this.now = Math.max(this.now, until);
  }

  /**
   * Asked for by a promise, the next tick comes only when no promise has anything left to do. Nothing here waits for I/O, so
   * the event loop, whose turn costs many times as much, is not needed.
   */
  async #dry(): Promise<void> {
    this.promised = false;
    await new Promise<void>((resolve) => process.nextTick(resolve));
  }
}

const before = (a: Event, b: Event): boolean => a.at < b.at || (a.at === b.at && a.order < b.order);
