import type { Fleet } from './fleet.ts';
import { resolve } from './resolve.ts';
import { refuse } from './rules/look.ts';
import type { Action, Book, Refusal } from './types.ts';

/** Hosts that are being emptied of their virtual disks, each for one request. */
export class Evictions {
  readonly #byHost = new Map<string, string>();

  /** In place of those there were. */
  load(evicting: Book['evicting']): void {
    this.#byHost.clear();
    for (const { host, entry } of evicting) this.#byHost.set(host, entry);
  }

  book(): Book['evicting'] {
    return [...this.#byHost].map(([host, entry]) => ({ host, entry }));
  }

  has(host: string): boolean {
    return this.#byHost.has(host);
  }

  forget(entry: string): void {
    for (const [host, holder] of this.#byHost) if (holder === entry) this.#byHost.delete(host);
  }

  /** A host is emptied before it is taken: null when nothing is left on it. */
  take(
    fleet: Fleet,
    entry: string,
    asks: readonly { readonly action: Action }[],
    dry: boolean,
  ): Refusal | null {
    const [ask] = asks;
    const target = ask === undefined ? null : resolve(fleet, ask.action);
    if (target?.kind === 'emptyHost' && asks.length === 1) return null;
    if (target?.kind !== 'nodes' || asks.length !== 1)
      return refuse(
        'WRONG_REQUEST',
        'WrongRequest',
        'only one restart, shutdown or reboot can evict virtual disks',
      );
    const host = fleet.nodes[target.nodes[0] as number]?.host ?? '';
    const holder = this.#byHost.get(host);
    if (holder !== undefined && holder !== entry)
      return refuse(
        'WRONG_REQUEST',
        'WrongRequest',
        `host ${host} is being emptied for request ${holder} already`,
      );
    if (!dry) this.#byHost.set(host, entry);
    const left = target.nodes.reduce((sum, n) => {
      const [from, to] = fleet.vdisksOf(n);
      return sum + to - from;
    }, 0);
    if (left === 0) return null;
    return refuse('DISALLOW_TEMP', 'Evicting', `VDisks eviction from host ${host}, VDisks: ${left}`);
  }
}
