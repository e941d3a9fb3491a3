/** Plays seeds that come as messages; runs in a thread of its own. */
import { parentPort } from 'node:worker_threads';
import { MUTANTS } from './mutants/index.ts';
import { runSeed } from './run.ts';
import type { ScenarioKind } from './scenario.ts';

/** What is to be played. */
export interface Order {
  readonly seed: number;
  /** Left out: replica sets. */
  readonly kind?: ScenarioKind;
  /** Name of the bug to plant; null: none. */
  readonly mutant: string | null;
  /** The only invariant that is watched for; left out: all are. */
  readonly heed?: string;
}

/** What is told of a seed that was played. */
export interface Played {
  readonly seed: number;
  readonly digest: string;
  /** The invariant that was broken, and how. */
  readonly violation: { readonly invariant: string; readonly message: string } | null;
  readonly millis: number;
  readonly events: number;
  readonly blocks: readonly string[];
  readonly words: readonly string[];
}

async function play({ seed, kind, mutant, heed }: Order): Promise<Played> {
  const planted = MUTANTS.find(({ name }) => name === mutant);
  const result = await runSeed(seed, {
    ...(kind === undefined ? {} : { kind }),
    ...(planted === undefined ? {} : { mutation: planted.make() }),
    ...(heed === undefined ? {} : { heed }),
  });
  const { digest, millis, events, blocks, words } = result;
  const broken = result.violation;
  const violation = broken === null ? null : { invariant: broken.invariant, message: broken.message };
  return { seed, digest, millis, events, blocks, words, violation };
}

/** The world itself broke: as bad as any invariant, and no reason to stop the other seeds. */
function fallen(seed: number, failure: unknown): Played {
  const message = `WORLD: ${failure instanceof Error ? failure.stack : String(failure)}`;
  const violation = { invariant: 'WORLD', message };
  return { seed, digest: '0', millis: 0, events: 0, blocks: [], words: [], violation };
}

parentPort?.on('message', async (order: Order) => {
  parentPort?.postMessage(await play(order).catch((failure: unknown) => fallen(order.seed, failure)));
});
