import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CHECKERS } from './checkers/index.ts';
import { KINDS, SHARDED_KINDS } from './faults.ts';
import { MUTANTS } from './mutants/index.ts';
import { allWords, mutantsPage, reachedInWorlds, reasonRows } from './pages.ts';
import { UNREACHED } from './unreached.ts';

const page = (name: string): string =>
  readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8');

test('docs/mutants.md lists every planted bug as it is (npm run sim -- --pages)', () => {
  expect(MUTANTS.length).toBeGreaterThanOrEqual(15);
  expect(page('mutants')).toBe(mutantsPage());
});

test('L3 docs/reasons.md lists every reason, refusal and code of the sources, and nothing else', () => {
  const listed = [...page('reasons').matchAll(/^\| `(\w+)` \|/gm)].map((match) => match[1]);
  const known = allWords().map(({ name }) => name);
  expect(known.length).toBeGreaterThan(80);
  expect(listed.toSorted()).toEqual(known.toSorted());
});

test('every reason, refusal and code is reached by a world or a test, or says why not', () => {
  const silent = reasonRows().filter(({ seeds, tests, why }) => seeds === 0 && tests.length === 0 && !why);
  expect(silent.map(({ kind, name }) => `${kind} ${name}`)).toEqual([]);
  const idle = reasonRows().filter(({ seeds, why }) => seeds > 0 && why !== null);
  expect(idle.map(({ kind, name }) => `${kind} ${name}`)).toEqual([]);
  const words = new Set(allWords().map(({ kind, name }) => `${kind} ${name}`));
  expect(Object.keys(UNREACHED).filter((word) => !words.has(word))).toEqual([]);
  expect(reachedInWorlds().seeds).toBeGreaterThan(0);
});

test('docs/world.md names every checker and every fault', () => {
  const text = page('world');
  expect(Object.keys(CHECKERS).filter((id) => !text.includes(`| ${id} |`))).toEqual([]);
  expect([...KINDS, ...SHARDED_KINDS].filter((kind) => !text.includes(`\`${kind}\``))).toEqual([]);
});
