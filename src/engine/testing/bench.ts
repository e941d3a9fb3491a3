/** An engine over the toy technology, a store in memory and a manual clock, with a switch for sudden death. */
import { Engine } from '../engine.ts';
import { Executor } from '../executor.ts';
import type { Log, Store, StoredObject } from '../ports.ts';
import { type ManualClock, settle } from './clock.ts';
import { type ToyHooks, type ToyWorld, toyProvider } from './toy.ts';

export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Kills one control plane at a chosen arrow: from then on none of its calls does anything or comes back. */
export class Reaper {
  #left: number;
  dead = false;

  constructor(arrow: number) {
    this.#left = arrow;
  }

  /** One arrow; never returns once the process is dead. */
  async arrow(): Promise<void> {
    if (!this.dead && --this.#left === 0) this.dead = true;
    if (this.dead) await new Promise<never>(() => {});
  }

  /** The store as the dying process sees it: death before a write loses it, death after it loses the answer. */
  store(real: Store): Store {
    return new Proxy(real, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof value !== 'function') return value;
        const method = value.bind(target) as (...args: unknown[]) => unknown;
        if (name === 'watch') return method;
        const counted = name === 'commit';
        return async (...args: unknown[]) => {
          if (counted) await this.arrow();
          else if (this.dead) await new Promise<never>(() => {});
          const result = await method(...args);
          if (counted) await this.arrow();
          return result;
        };
      },
    });
  }
}

/** A control plane process in miniature. */
export async function startToyEngine(options: {
  readonly store: Store;
  readonly clock: ManualClock;
  readonly world: ToyWorld;
  readonly holder: string;
  readonly hooks?: ToyHooks;
  readonly log?: Log;
}): Promise<Engine> {
  const { store, clock, world, holder } = options;
  const log = options.log ?? silentLog;
  const engine = new Engine({ store, clock, log, holder, kinds: ['Toy'] });
  const { informer, leases, metrics } = engine;
  const provider = toyProvider(world, options.hooks);
  engine.add(new Executor({ provider, store, informer, leases, clock, log, metrics }));
  await engine.open();
  await settle();
  return engine;
}

/** Creates a toy object with boxes. */
export const createToy = (store: Store, name: string, boxes: readonly string[]): Promise<StoredObject> =>
  store.create({ kind: 'Toy', namespace: 'default', name, spec: { boxes } });

export const toyKey = (name: string) => ({ kind: 'Toy', namespace: 'default', name });
