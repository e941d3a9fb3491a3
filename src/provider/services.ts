/**
 * Runtimes and volumes of hosts, asked once and then remembered until something happens on the host. Listing a host is a
 * question to its agent; a fleet must not be asked anew for every new cluster.
 */
import { asBelayError } from '../base/error.ts';
import { MINUTE, type Millis, SECOND } from '../base/units.ts';
import type { ServiceFacts } from '../clusters/index.ts';
import type { Clock, Log, Platform } from '../engine/ports.ts';
import { OBSERVATION_LIMIT, within } from './within.ts';

/** What is remembered is asked again after this long, should an event have been lost. */
const LIFE: Millis = 5 * MINUTE;
/** A host that did not answer is not asked again for so long, unless it matters to an effect or something happens there. */
const SILENCE: Millis = 15 * SECOND;

interface Known {
  /** Null: it did not answer. */
  readonly items: readonly ServiceFacts[] | null;
  readonly until: Millis;
}

/** See the head of this file. */
export class ServiceLists {
  readonly #platform: Platform;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #known = new Map<string, Known>();
  readonly #asking = new Map<string, Promise<Known>>();

  constructor(platform: Platform, clock: Clock, log: Log) {
    this.#platform = platform;
    this.#clock = clock;
    this.#log = log;
  }

  /** Something happened on the host: what is known of it, or being asked, is out of date. */
  changed(host: string): void {
    this.#known.delete(host);
    this.#asking.delete(host);
  }

  /** Services by host; a host that did not answer is left out. `fresh` ones are asked in any case. */
  async of(
    hosts: readonly string[],
    fresh: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, readonly ServiceFacts[]>> {
    const lists = new Map<string, readonly ServiceFacts[]>();
    await Promise.all(
      hosts.map(async (host) => {
        const { items } = await this.#list(host, fresh.has(host));
        if (items !== null) lists.set(host, items);
      }),
    );
    return lists;
  }

  #list(host: string, fresh: boolean): Known | Promise<Known> {
    const known = this.#known.get(host);
    if (!fresh && known !== undefined && this.#steady() < known.until) return known;
    const asked = fresh ? undefined : this.#asking.get(host);
    return asked ?? this.#ask(host);
  }

  #ask(host: string): Promise<Known> {
    const asking = this.#answer(host).then((answer) => {
      // An event in between has made this answer old: it serves who asked, and is not kept.
      if (this.#asking.get(host) === asking) {
        this.#asking.delete(host);
        this.#known.set(host, answer);
      }
      return answer;
    });
    this.#asking.set(host, asking);
    return asking;
  }

  /** A clock that is set back must not keep old answers alive. */
  #steady(): Millis {
    return this.#clock.monotonic?.() ?? this.#clock.now();
  }

  async #answer(host: string): Promise<Known> {
    const asked = this.#platform.services([host]);
    try {
      const { items, unreachable } = await within(
        this.#clock,
        OBSERVATION_LIMIT,
        `services of ${host}`,
        asked,
      );
      if (!unreachable.includes(host)) return { items, until: this.#steady() + LIFE };
    } catch (failure) {
      const error = asBelayError(failure);
      this.#log.warn('services could not be listed', { host, code: error.code, error: error.message });
    }
    return { items: null, until: this.#steady() + SILENCE };
  }
}
