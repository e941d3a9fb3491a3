/** The agent's side of S9: an effect of an older epoch never lands after one of a newer epoch. */
import { BelayError } from '../base/error.ts';
import type { Fence } from '../engine/ports.ts';

/** Where the highest epochs are kept; `save` returns when they are safe on disk. */
export interface FenceMemory {
  load(): Readonly<Record<string, number>>;
  save(epochs: Readonly<Record<string, number>>): void;
}

interface Running {
  readonly epoch: number;
  readonly abort: AbortController;
  readonly done: Promise<unknown>;
}

/**
 * Lets effects through by lease and epoch. The first request with a newer epoch makes it durable, aborts what still
 * runs under older ones of that lease and waits for it to end; then it goes ahead.
 */
export class FenceGate {
  readonly #memory: FenceMemory;
  readonly #epochs: Map<string, number>;
  readonly #running = new Map<string, Set<Running>>();

  constructor(memory: FenceMemory) {
    this.#memory = memory;
    this.#epochs = new Map(Object.entries(memory.load()));
  }

  /** Runs the effect, or throws BelayError `StaleEpoch` (never). The signal aborts when a newer epoch comes. */
  async pass<T>(fence: Fence, effect: (signal: AbortSignal) => Promise<T>): Promise<T> {
    this.#admit(fence);
    const older = [...(this.#running.get(fence.lease) ?? [])].filter((run) => run.epoch < fence.epoch);
    for (const run of older) run.abort.abort(stale(fence.lease, run.epoch, fence.epoch));
    if (older.length > 0) {
      await Promise.allSettled(older.map((run) => run.done));
      this.#admit(fence);
    }
    return this.#track(fence, effect);
  }

  #admit(fence: Fence): void {
    const seen = this.#epochs.get(fence.lease) ?? 0;
    if (fence.epoch < seen) throw stale(fence.lease, fence.epoch, seen);
    if (fence.epoch === seen) return;
    this.#memory.save({ ...Object.fromEntries(this.#epochs), [fence.lease]: fence.epoch });
    this.#epochs.set(fence.lease, fence.epoch);
  }

  #track<T>(fence: Fence, effect: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const abort = new AbortController();
    const done = effect(abort.signal);
    const run: Running = { epoch: fence.epoch, abort, done };
    const all = this.#running.get(fence.lease) ?? new Set();
    this.#running.set(fence.lease, all.add(run));
    const forget = (): void => {
      all.delete(run);
      if (all.size === 0) this.#running.delete(fence.lease);
    };
    done.then(forget, forget);
    return done;
  }
}

function stale(lease: string, epoch: number, seen: number): BelayError {
  return new BelayError(
    'StaleEpoch',
    `lease ${lease} has moved on: epoch ${epoch} is older than ${seen}, which this host has seen`,
    { retry: 'never' },
  );
}
