/** The network: which machine can talk to which, and how long it takes. The control planes are places too. */
import type { Rng } from '../base/rng.ts';
import type { Millis } from '../base/units.ts';

/** See the head of this file. */
export class Fabric {
  readonly #rng: Rng;
  readonly #cuts = new Map<string, number>();
  /** Added to every message from or to a place. */
  readonly #slow = new Map<string, Millis>();

  constructor(rng: Rng) {
    this.#rng = rng;
  }

  /** Cuts both directions between two places; gives the repair. Cuts add up. */
  cut(a: string, b: string): () => void {
    const keys = [`${a}>${b}`, `${b}>${a}`];
    for (const key of keys) this.#cuts.set(key, (this.#cuts.get(key) ?? 0) + 1);
    let done = false;
    return () => {
      if (done) return;
      done = true;
      for (const key of keys) this.#cuts.set(key, (this.#cuts.get(key) ?? 1) - 1);
    };
  }

  reaches(from: string, to: string): boolean {
    return from === to || this.#cuts.size === 0 || (this.#cuts.get(`${from}>${to}`) ?? 0) === 0;
  }

  slow(place: string, by: Millis): () => void {
    this.#slow.set(place, by);
    return () => this.#slow.delete(place);
  }

  delay(from: string, to: string): Millis {
    const usual = from === to ? 0 : 1 + this.#rng.below(3);
    return usual + (this.#slow.get(from) ?? 0) + (this.#slow.get(to) ?? 0);
  }
}
