/**
 * `npm run sim -- --seed N [--seeds K] [--minutes M] [--workers W] [--mutant NAME] [--story]`: plays seeds on all cores,
 * prints progress, and for the first failing seed its story and how to play it again. Worlds have replica sets (`--sets`),
 * with `--maintained` other people's tasks too, with `--sharded` a sharded cluster, with both both. `--reached FILE` writes down which reasons
 * and codes were met in how many seeds; `--pages` writes docs/mutants.md and docs/reasons.md and plays nothing.
 */
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { MUTANTS, type Mutant } from './mutants/index.ts';
import { writePages } from './pages.ts';
import { runSeed } from './run.ts';
import type { ScenarioKind } from './scenario.ts';
import { Thread } from './threads.ts';
import type { Played } from './worker.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '1' },
    minutes: { type: 'string' },
    workers: { type: 'string', default: String(availableParallelism()) },
    mutant: { type: 'string' },
    story: { type: 'boolean', default: false },
    sharded: { type: 'boolean', default: false },
    sets: { type: 'boolean', default: false },
    maintained: { type: 'boolean', default: false },
    reached: { type: 'string' },
    pages: { type: 'boolean', default: false },
  },
});

/** By the options that ask for worlds of one kind. */
const OF_OPTIONS: Readonly<Record<string, ScenarioKind>> = {
  ' --sets': 'replicaSets',
  ' --sharded': 'sharded',
  ' --maintained': 'maintained',
  ' --sharded --maintained': 'maintainedSharded',
};
const asked = (['sets', 'sharded', 'maintained'] as const)
  .filter((name) => values[name])
  .map((name) => ` --${name}`)
  .join('');
if (asked !== '' && OF_OPTIONS[asked] === undefined)
  throw new Error(`there are no worlds of${asked}: --sets goes alone`);
const planted = values.mutant === undefined ? null : mutantNamed(values.mutant);
const kind: ScenarioKind = OF_OPTIONS[asked] ?? planted?.kind ?? 'replicaSets';
const first = Number(values.seed);
const count = Number(values.seeds);
const startedAt = performance.now();
const seconds = (): number => (performance.now() - startedAt) / 1000;
const until = values.minutes === undefined ? Number.POSITIVE_INFINITY : Number(values.minutes) * 60;

if (values.pages) writePages();
else if (count === 1) await playOne(first);
else await playMany();

async function playOne(seed: number): Promise<void> {
  const mutation = planted === null ? {} : { mutation: planted.make() };
  const result = await runSeed(seed, { kind, ...mutation });
  if (values.story || result.violation !== null) console.log(result.lines.join('\n'));
  console.log(JSON.stringify({ ...result.scenario, hosts: result.scenario.hosts.length }, null, 1));
  const end = result.violation === null ? 'good' : `BROKEN ${result.violation.message}`;
  console.log(
    `seed ${seed}: ${end}; ${Math.round(result.millis / 1000)} virtual seconds, digest ${result.digest}`,
  );
  if (result.violation !== null) process.exitCode = 1;
}

function mutantNamed(name: string): Mutant {
  const mutant = MUTANTS.find((candidate) => candidate.name === name);
  if (mutant === undefined) throw new Error(`no mutant ${name}: ${MUTANTS.map((m) => m.name).join(', ')}`);
  return mutant;
}

/** Seeds go out one by one, so that a slow one holds up nobody. */
async function playMany(): Promise<void> {
  let next = first;
  const failed: Played[] = [];
  const totals = { played: 0, virtual: 0, events: 0, digest: 0 };
  const blocks = new Map<string, number>();
  const words = new Map<string, number>();
  const take = (): number | null => (next < first + count && seconds() < until ? next++ : null);
  const progress = setInterval(() => console.log(line(totals, failed.length)), 10_000);
  const finished = Array.from({ length: Number(values.workers) }, () =>
    drive(take, (played) => {
      totals.played++;
      totals.virtual += played.millis / 1000;
      totals.events += played.events;
      // Independent of the order in which seeds end.
      totals.digest = (totals.digest ^ Number.parseInt(played.digest, 16)) >>> 0;
      for (const block of played.blocks) blocks.set(block, (blocks.get(block) ?? 0) + 1);
      for (const word of played.words) words.set(word, (words.get(word) ?? 0) + 1);
      if (played.violation === null) return;
      failed.push(played);
      if (failed.length <= 20) console.log(`seed ${played.seed}: ${played.violation.message}`);
    }),
  );
  await Promise.all(finished);
  clearInterval(progress);
  console.log(line(totals, failed.length));
  console.log(`digest of all: ${totals.digest.toString(16)}`);
  const reached = [...blocks].sort((a, b) => b[1] - a[1]).map(([reason, times]) => `${reason} ${times}`);
  console.log(`truthfully blocked at the end: ${reached.join(', ') || 'none'}`);
  if (values.reached !== undefined) {
    const names = Object.fromEntries([...words].sort(([a], [b]) => (a < b ? -1 : 1)));
    writeFileSync(values.reached, `${JSON.stringify({ seeds: totals.played, names }, null, 2)}\n`);
  }
  if (failed.length > 0) await report(failed);
}

function line(
  { played, virtual }: { readonly played: number; readonly virtual: number },
  failures: number,
): string {
  const speed = (played / seconds()).toFixed(1);
  const hours = (virtual / 3600).toFixed(1);
  return `${played} of ${count} seeds, ${failures} broken, ${speed} seeds/s, ${hours} virtual hours in ${Math.round(seconds())} s`;
}

async function report(failed: readonly Played[]): Promise<void> {
  const seed = Math.min(...failed.map((played) => played.seed));
  const mutant = values.mutant === undefined ? '' : ` --mutant ${values.mutant}`;
  console.log(`\nThe story of seed ${seed}:\n`);
  await playOne(seed);
  console.log(`\nPlay it again: npm run sim -- --seed ${seed}${asked}${mutant} --story`);
  console.log('Keep it for ever: add it to src/world/seeds.ts');
}

async function drive(take: () => number | null, played: (result: Played) => void): Promise<void> {
  const thread = new Thread();
  const mutant = values.mutant ?? null;
  for (let seed = take(); seed !== null; seed = take()) played(await thread.play({ seed, kind, mutant }));
  await thread.close();
}
