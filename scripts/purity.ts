/** Pure rooms ask nobody for the time or for chance: both come in as arguments (house rule behind the deterministic world). */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { ROOMS } from './layers.ts';

const FORBIDDEN: readonly (readonly [RegExp, string])[] = [
  [/\bDate\.now\(/, 'Date.now()'],
  [/\bnew Date\(\s*\)/, 'new Date()'],
  [/\bMath\.random\(/, 'Math.random()'],
  [/\b(setTimeout|setInterval|queueMicrotask)\(/, 'a timer'],
  [
    /(?<![.\w])process\.(env|argv|exit|pid|cwd|std\w+|nextTick|hrtime|version|memoryUsage|on|kill)\b/,
    'process',
  ],
];

/** What in a source text breaks the rule, with line numbers. */
export function impurities(text: string): readonly string[] {
  return text.split('\n').flatMap((line, i) => {
    const code = line.replace(/^\s*(\/\/|\*|\/\*).*$/, '');
    return FORBIDDEN.filter(([pattern]) => pattern.test(code)).map(([, name]) => `${i + 1}: ${name}`);
  });
}

function* sources(dir: string): Generator<string> {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const file = path.join(dir, entry.name);
    if (entry.isDirectory()) yield* sources(file);
    else if (file.endsWith('.ts') && !file.endsWith('.test.ts')) yield file;
  }
}

if (process.argv[1] === import.meta.filename) {
  const dirs = [...ROOMS.filter((r) => r.pure).map((r) => `src/${r.name}`), 'src/simulator/member'];
  const found = dirs.flatMap((dir) =>
    [...sources(dir)].flatMap((file) => impurities(readFileSync(file, 'utf8')).map((x) => `${file}:${x}`)),
  );
  for (const line of found) console.error(line);
  process.exitCode = found.length === 0 ? 0 : 1;
}
