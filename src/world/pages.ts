/** The pages that are made from the world: which bugs are caught, and which reasons are met where. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { MUTANTS } from './mutants/index.ts';
import type { WordKind } from './reached.ts';
import { UNREACHED } from './unreached.ts';

const ROOT = new URL('../../', import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, ROOT), 'utf8');

/** Writes docs/mutants.md and docs/reasons.md. */
export function writePages(): void {
  writeFileSync(new URL('docs/mutants.md', ROOT), mutantsPage());
  writeFileSync(new URL('docs/reasons.md', ROOT), reasonsPage());
}

// ── mutants ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** docs/mutants.md as it has to be. */
export function mutantsPage(): string {
  const rows = MUTANTS.map(
    ({ name, bug, caughtBy, from, budget, kind }) =>
      `| \`${name}\` | ${bug} | ${caughtBy.join(', ')} | ${from}${kind === 'sharded' ? ' (sharded)' : ''} | ${budget} |`,
  );
  return `# Planted bugs

The checkers of the [deterministic world](world.md) are only worth something if they notice a bug. Each of these is planted
from outside the product's code, and \`npm test\` fails unless one of the named invariants is seen broken within the budget of
seeds, counted from the first seed that is known to show it. Play one: \`npm run sim -- --mutant NAME --seeds 100\`.

| name | bug | noticed by | first seed | budget |
|---|---|---|---|---|
${rows.join('\n')}
`;
}

// ── reasons ────────────────────────────────────────────────────────────────────────────────────────────────────────

interface Word {
  readonly kind: WordKind;
  readonly name: string;
}

/** All words of the closed sets, by what the sources say. */
export function allWords(): readonly Word[] {
  const words = (kind: WordKind, names: readonly string[]): readonly Word[] =>
    names.map((name) => ({ kind, name }));
  return [
    ...words('Reason', unionOf('src/clusters/decisions.ts', 'export type Reason =')),
    ...words('WaitReason', unionOf('src/clusters/decisions.ts', 'export type WaitReason =')),
    ...words('BlockReason', unionOf('src/clusters/decisions.ts', 'export type BlockReason =')),
    ...words('Refusal', unionOf('src/clusters/guard.ts', 'readonly reason:')),
    ...words('Code', codes()),
  ];
}

function unionOf(file: string, head: string): readonly string[] {
  const code = read(file).replaceAll(/\/\*[\s\S]*?\*\//g, '');
  const union = code.split(head)[1]?.split(';')[0] ?? '';
  return [...union.matchAll(/'(\w+)'/g)].map((match) => match[1] as string);
}

/** Codes of failures that agents, platforms and the channel between can give. */
function codes(): readonly string[] {
  const files = ['src/agent', 'src/platforms', 'src/channel'].flatMap(sources).filter((n) => !isTest(n));
  const found = files.flatMap((name) =>
    [...read(name).matchAll(/new BelayError\(\s*'(\w+)'/g)].map((match) => match[1] as string),
  );
  return [...new Set(found)].sort();
}

const sources = (folder: string): readonly string[] =>
  readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => `${folder}/${name}`)
    .sort();

const isTest = (name: string): boolean =>
  /\.test\.ts$|\/testing\/|conformance|cases\/|\.(testing|part)\.ts$/.test(name);

/** How a word is proved, in one cell. */
export interface Row extends Word {
  readonly seeds: number;
  readonly tests: readonly string[];
  readonly why: string | null;
}

/** Every word with the worlds and the tests that meet it. */
export function reasonRows(): readonly Row[] {
  const { names } = reachedInWorlds();
  const tests = ['src', 'test']
    .flatMap(sources)
    .filter((name) => isTest(name) && !name.startsWith('src/world/'))
    .map((name) => ({ name, text: read(name) }));
  return allWords().map(({ kind, name }) => ({
    kind,
    name,
    seeds: names[`${kind} ${name}`] ?? 0,
    tests: tests
      .filter(({ text }) => new RegExp(`['"\`/ :(]${name}['"\`/ :,)]`).test(text))
      .map((t) => t.name),
    why: UNREACHED[`${kind} ${name}`] ?? null,
  }));
}

interface ReachedInWorlds {
  readonly seeds: number;
  readonly names: Readonly<Record<string, number>>;
}
/** What `npm run sim -- --seeds 2000 --reached src/world/reached.json` last wrote. */
export const reachedInWorlds = (): ReachedInWorlds =>
  JSON.parse(read('src/world/reached.json')) as ReachedInWorlds;

const TITLES: Readonly<Record<WordKind, string>> = {
  Reason: 'Reasons of steps',
  WaitReason: 'Reasons of waits',
  BlockReason: 'Reasons of blocks',
  Refusal: 'Refusals of the guard',
  Code: 'Codes of failures of agents, platforms and the channel',
};

/** docs/reasons.md as it has to be. */
export function reasonsPage(): string {
  const all = reasonRows();
  const parts = (Object.keys(TITLES) as WordKind[]).map((kind) => {
    const rows = all
      .filter((row) => row.kind === kind)
      .map(({ name, seeds, tests, why }) => {
        const test = why === null ? (tests[0] ?? '') : `not reached: ${why}`;
        return `| \`${name}\` | ${seeds === 0 ? '' : seeds} | ${test} |`;
      });
    return `## ${TITLES[kind]}\n\n| name | worlds | a test, or why it is not reached |\n|---|---|---|\n${rows.join('\n')}`;
  });
  return `# Which reasons are reached where

Every reason, refusal and code of the product's closed sets, with the number of worlds of ${reachedInWorlds().seeds} in which it was met, and a test
that names it. A word that nothing reaches says why. Made by
\`npm run sim -- --seeds 2000 --reached src/world/reached.json\` and then \`npm run sim -- --pages\`; a test holds the list
complete. What they mean is said in [troubleshooting](tasks/troubleshooting.md) and [errors](errors.md).

${parts.join('\n\n')}
`;
}
