/** Threads that play seeds, one after the other each: the program's and the tests' way to use all cores. */
import { Worker } from 'node:worker_threads';
import type { Order, Played } from './worker.ts';

/** One thread. Orders are played one by one. */
export class Thread {
  readonly #worker: Worker;

  constructor() {
    // Most of what a seed makes is short-lived.
    const resourceLimits = { maxYoungGenerationSizeMb: 64 };
    this.#worker = new Worker(new URL('./worker.ts', import.meta.url), { resourceLimits });
  }

  play(order: Order): Promise<Played> {
    return new Promise((resolve, reject) => {
      const worker = this.#worker;
      const end = (): void => {
        worker.off('message', played);
        worker.off('error', failed);
      };
      const played = (result: Played): void => {
        end();
        resolve(result);
      };
      const failed = (failure: Error): void => {
        end();
        reject(failure);
      };
      worker.on('message', played);
      worker.on('error', failed);
      worker.postMessage(order);
    });
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
