/** Virtual time: one queue of things to happen, in one thread. Equal seeds meet equal events in equal order. */
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
  readonly #heap: Event[] = [];

  /** Calls once at the given time, never in the past; gives a canceller. */
  at(time: Millis, run: () => void): () => void {
    const event: Event = { at: Math.max(time, this.now), order: this.#order++, run };
    this.#push(event);
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
    for (let event = this.#heap[0]; event !== undefined && event.at <= until; event = this.#heap[0]) {
      this.#pop();
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

  #push(event: Event): void {
    const heap = this.#heap;
    let index = heap.push(event) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!before(event, heap[parent] as Event)) break;
      heap[index] = heap[parent] as Event;
      index = parent;
    }
    heap[index] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Event, heap[child] as Event)) child++;
      if (!before(heap[child] as Event, last)) break;
      heap[index] = heap[child] as Event;
      index = child;
    }
    heap[index] = last;
  }
}

const before = (a: Event, b: Event): boolean => a.at < b.at || (a.at === b.at && a.order < b.order);
