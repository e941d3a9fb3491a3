/**
 * Runtimes and volumes of hosts, asked once and then remembered until something happens on the host. Listing a host is a
 * question to its agent; a fleet must not be asked anew for every new cluster.
 */
import { asBelayError } from '../base/error.ts';
import { MINUTE, type Millis } from '../base/units.ts';
import type { ServiceFacts } from '../clusters/index.ts';
import type { Clock, Log, Platform } from '../engine/ports.ts';
import { OBSERVATION_LIMIT, within } from './within.ts';

/** What is remembered is asked again after this long, should an event have been lost. */
const LIFE: Millis = 5 * MINUTE;

interface Known {
  readonly items: readonly ServiceFacts[];
  readonly at: Millis;
}

/** See the head of this file. */
export class ServiceLists {
  readonly #platform: Platform;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #known = new Map<string, Known>();
  /** Grows with every event of a host, so that an answer from before it is not kept. */
  readonly #events = new Map<string, number>();

  constructor(platform: Platform, clock: Clock, log: Log) {
    this.#platform = platform;
    this.#clock = clock;
    this.#log = log;
  }

  /** Something happened on the host. */
  changed(host: string): void {
    this.#known.delete(host);
    this.#events.set(host, (this.#events.get(host) ?? 0) + 1);
  }

  /** Services by host; a host that could not be asked is left out. `fresh` ones are asked in any case. */
  async of(
    hosts: readonly string[],
    fresh: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, readonly ServiceFacts[]>> {
    const now = this.#clock.now();
    const stale = hosts.filter((host) => {
      const known = this.#known.get(host);
      return fresh.has(host) || known === undefined || now - known.at > LIFE;
    });
    if (stale.length > 0) await this.#ask(stale);
    const lists = new Map<string, readonly ServiceFacts[]>();
    for (const host of hosts) {
      const known = this.#known.get(host);
      if (known !== undefined) lists.set(host, known.items);
    }
    return lists;
  }

  async #ask(hosts: readonly string[]): Promise<void> {
    const before = new Map(hosts.map((host) => [host, this.#events.get(host) ?? 0]));
    for (const host of hosts) this.#known.delete(host);
    try {
      const { items, unreachable } = await within(
        this.#clock,
        OBSERVATION_LIMIT,
        'services',
        this.#platform.services(hosts),
      );
      for (const host of hosts) {
        if (unreachable.includes(host) || before.get(host) !== (this.#events.get(host) ?? 0)) continue;
        this.#known.set(host, { items: items.filter((s) => s.host === host), at: this.#clock.now() });
      }
    } catch (failure) {
      const error = asBelayError(failure);
      this.#log.warn('services could not be listed', { code: error.code, error: error.message });
    }
  }
}
