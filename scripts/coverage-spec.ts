/**
 * `npm run coverage:spec`: which requirements are named by at least one test title, and which by none.
 * With `--require A1,A4.2` it fails when one of these (or a requirement below it) has no test.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const ROOTS = ['src', 'test', 'scripts'];
const TITLE =
  /\b(?:test|it|describe)(?:\.\w+)*(?:\([^)]*\))?\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`)/g;
const ID = /\b(?:[ABC]\d+\.\d+|[SL]\d{1,2}|[A-Z]{3}-\d{2})\b/g;

/** All ids named in the titles of a test file's text. */
export function idsInTitles(text: string): Set<string> {
  const ids = new Set<string>();
  for (const match of text.matchAll(TITLE)) {
    const title = match[1] ?? match[2] ?? match[3] ?? '';
    for (const id of title.match(ID) ?? []) ids.add(id);
  }
  return ids;
}

function* testFiles(dir: string): Generator<string> {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const file = path.join(dir, entry.name);
    if (entry.isDirectory()) yield* testFiles(file);
    else if (/\.(test|sim)\.ts$|conformance\.ts$/.test(entry.name)) yield file;
  }
}

function main(): void {
  const { ids } = JSON.parse(readFileSync('docs/requirements.json', 'utf8')) as { ids: string[] };
  const found = new Map<string, string[]>();
  for (const root of ROOTS) {
    for (const file of testFiles(root)) {
      for (const id of idsInTitles(readFileSync(file, 'utf8')))
        found.set(id, [...(found.get(id) ?? []), file]);
    }
  }
  const missing = ids.filter((id) => !found.has(id));
  const reports = [...found.keys()].filter((id) => /^[A-Z]{3}-/.test(id));
  console.log(
    `${ids.length - missing.length} of ${ids.length} requirements are named by a test, ${reports.length} field reports`,
  );
  console.log(`without a test: ${missing.join(' ') || 'none'}`);
  const required = (process.argv[process.argv.indexOf('--require') + 1] ?? '')
    .split(',')
    .filter(() => process.argv.includes('--require'));
  const gaps = missing.filter((id) => required.some((r) => id === r || id.startsWith(`${r}.`)));
  if (gaps.length > 0) {
    console.error(`required but without a test: ${gaps.join(' ')}`);
    process.exitCode = 1;
  }
}

if (process.argv[1] === import.meta.filename) main();
