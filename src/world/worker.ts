/** Plays seeds that come as messages; runs in a thread of its own. */
import { parentPort, workerData } from 'node:worker_threads';
import { MUTANTS } from './mutants/index.ts';
import { runSeed } from './run.ts';

/** What is told of a seed that was played. */
export interface Played {
  readonly seed: number;
  readonly digest: string;
  readonly violation: string | null;
  readonly millis: number;
  readonly events: number;
  readonly blocks: readonly string[];
}

const { mutant } = workerData as { readonly mutant: string | null };
const planted = MUTANTS.find(({ name }) => name === mutant);

parentPort?.on('message', async (seed: number) => {
  const result = await runSeed(seed, planted === undefined ? {} : { mutation: planted.make() });
  const { digest, millis, events, blocks } = result;
  const violation = result.violation?.message ?? null;
  parentPort?.postMessage({ seed, digest, millis, events, blocks, violation } satisfies Played);
});
