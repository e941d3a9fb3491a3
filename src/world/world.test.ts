import { afterAll, beforeAll, expect, test } from 'vitest';
import { drawScenario } from './draw.ts';
import { MUTANTS, type Mutant } from './mutants/index.ts';
import type { ScenarioKind } from './scenario.ts';
import { KEPT_SEEDS } from './seeds.ts';
import { Thread } from './threads.ts';
import type { Played } from './worker.ts';

const AT_ONCE = 10;
const LIMIT = 120_000;

let thread: Thread;
beforeAll(() => {
  thread = new Thread();
});
afterAll(() => thread.close());

const play = (seed: number, mutant: string | null = null, kind?: ScenarioKind): Promise<Played> =>
  thread.play({ seed, mutant, ...(kind === undefined ? {} : { kind }) });

/** Null: no invariant was broken. */
async function brokenBy(seed: number, kind: ScenarioKind = 'replicaSets'): Promise<string | null> {
  const { violation } = await play(seed, null, kind);
  return violation === null
    ? null
    : `${violation.message} (npm run sim -- --seed ${seed} ${OPTIONS[kind]} --story)`;
}

const OPTIONS = {
  replicaSets: '--sets',
  sharded: '--sharded',
  maintained: '--maintained',
  maintainedSharded: '--sharded --maintained',
} as const;

/** Fresh seeds of every run of the tests; `npm run sim` plays more. Of sharded ones those in which wishes come to clusters that run. */
const FRESH: readonly (readonly [kind: ScenarioKind, from: number, seeds: number, title: string])[] = [
  ['replicaSets', 1, 80, 'A2 A3 A13 S1–S13 S15 S16 L1–L4 hold in ten worlds'],
  ['sharded', 3001, 20, 'A5.3 A6.5 A8.2 A8.3 S1–S16 L1–L4 hold in ten worlds with a sharded cluster'],
  ['maintained', 1, 20, 'C1 C2 C3 C6.1 S1–S16 L1–L4 hold in ten worlds in which people work on machines'],
  [
    'maintainedSharded',
    3001,
    10,
    'C1 C2 C3 C6.1 A8.3 S1–S16 L1–L4 hold in ten such worlds with a sharded cluster',
  ],
];
const fresh = FRESH.flatMap(([kind, from, seeds, title]) =>
  Array.from({ length: seeds / AT_ONCE }, (_, index) => ({ kind, from: from + index * AT_ONCE, title })),
);

test.each(fresh)(
  '$title from seed $from on',
  async ({ kind, from }) => {
    for (let seed = from; seed < from + AT_ONCE; seed++) expect(await brokenBy(seed, kind)).toBeNull();
  },
  LIMIT,
);

test.each(KEPT_SEEDS)(
  'seed $seed stays good: $showed',
  async ({ seed, kind }) => {
    expect(await brokenBy(seed, kind)).toBeNull();
  },
  LIMIT,
);

test(
  'equal seeds have equal digests, one after the other and in another thread; other seeds have others',
  async () => {
    const seeds = [3, 11, 24];
    const digests: string[] = [];
    for (const seed of seeds) digests.push((await play(seed)).digest);
    const other = new Thread();
    for (const [index, seed] of seeds.entries()) {
      expect((await play(seed)).digest).toBe(digests[index]);
      expect((await other.play({ seed, mutant: null })).digest).toBe(digests[index]);
    }
    await other.close();
    expect(new Set(digests).size).toBe(seeds.length);
  },
  LIMIT,
);

test.each(MUTANTS)(
  '$name is caught: $bug',
  async (mutant) => {
    expect(mutant.caughtBy).toContain(await hunt(mutant));
  },
  LIMIT,
);

/** The invariant that was first seen broken within the mutant's budget; null: it got away. */
async function hunt({ name, from, budget, kind = 'replicaSets', suits }: Mutant): Promise<string | null> {
  let left = budget;
  for (let seed = from; left > 0; seed++) {
    if (suits !== undefined && !suits(drawScenario(seed, kind))) continue;
    left--;
    const { violation } = await play(seed, name, kind);
    if (violation !== null) return violation.invariant;
  }
  return null;
}
