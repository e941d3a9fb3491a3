/**
 * `npm run bench [-- NAME…]`: runs the benchmarks, all or the named ones, and prints one line of JSON per result.
 * Ends with 1 when a target is missed or a benchmark fails.
 */
import { readdirSync } from 'node:fs';
import { type Bench, type BenchResult, say } from './lib.ts';

/** Files of this folder that are no benchmarks of their own. */
const PARTS = /^(main|lib|.*\.part)\.ts$/;

async function benches(): Promise<readonly Bench[]> {
  const files = readdirSync(import.meta.dirname).filter((f) => f.endsWith('.ts') && !PARTS.test(f));
  return Promise.all(files.sort().map(async (file) => (await import(`./${file}`)) as Bench));
}

async function main(names: readonly string[]): Promise<number> {
  const all = await benches();
  const unknown = names.filter((name) => !all.some((bench) => bench.name === name));
  if (unknown.length > 0) {
    say(`there is no benchmark ${unknown.join(', ')}; there are ${all.map((b) => b.name).join(', ')}`);
    return 2;
  }
  let missed = 0;
  for (const bench of all.filter(({ name }) => names.length === 0 || names.includes(name))) {
    say(`── ${bench.name}`);
    try {
      for (const result of await bench.run()) {
        print(result);
        if (result.ok === false) missed++;
      }
    } catch (failure) {
      missed++;
      say(`${bench.name} failed: ${failure instanceof Error ? failure.stack : String(failure)}`);
    }
  }
  return missed === 0 ? 0 : 1;
}

const print = (result: BenchResult): void => void process.stdout.write(`${JSON.stringify(result)}\n`);

process.exitCode = await main(process.argv.slice(2));
