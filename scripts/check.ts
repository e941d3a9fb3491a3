/** `npm run check`: types, pure rooms, format and lint, layers, unused code, generated files. All findings, not the first. */
import { spawnSync } from 'node:child_process';

const tsc = 'node_modules/typescript7/bin/tsc';
const node = process.execPath;
const CHECKS: readonly (readonly [string, readonly string[]])[] = [
  ['types', [node, tsc, '-p', 'tsconfig.json']],
  ['pure rooms', [node, tsc, '-p', 'tsconfig.pure.json']],
  ['format and lint', ['node_modules/.bin/biome', 'ci', '--error-on-warnings', '--colors=off']],
  [
    'layers',
    [
      node,
      '--disable-warning=ExperimentalWarning',
      'node_modules/dependency-cruiser/bin/dependency-cruise.mjs',
      '--config',
      '.dependency-cruiser.mjs',
      'src',
    ],
  ],
  ['clock and chance', [node, 'scripts/purity.ts']],
  ['unused code', ['node_modules/.bin/knip']],
  ['generated files', [node, 'scripts/generate.ts', '--check']],
];

let failed = 0;
for (const [name, [command, ...args]] of CHECKS) {
  const run = spawnSync(command as string, args, {
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  });
  const good = run.status === 0;
  console.log(`${good ? 'ok  ' : 'FAIL'}  ${name}`);
  if (!good) {
    failed++;
    console.log(`${run.stdout}${run.stderr}`.trimEnd());
  }
}
console.log(failed === 0 ? 'all checks passed' : `${failed} of ${CHECKS.length} checks failed`);
process.exitCode = failed === 0 ? 0 : 1;
