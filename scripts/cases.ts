/**
 * `npm run cases -- FILE…`: plays scenario files in the form of test/cases/maintenance.yaml and prints each failure and the
 * count. Scenarios describe the original service: one that only passes with the compat switch is named, and counts as passed,
 * since a client that depends on it can have it. `--compat` plays everything with the switch on, `--better` nothing.
 */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { deskDriver } from '../src/maintenance/cases/deskDriver.ts';
import { playInternal } from '../src/maintenance/cases/internal.ts';
import { playPublic } from '../src/maintenance/cases/public.ts';
import type { Scenario } from '../src/maintenance/cases/scenario.ts';
import { BETTER, type Compat, ORIGINAL } from '../src/maintenance/index.ts';

const args = process.argv.slice(2);
const files = args.filter((arg) => !arg.startsWith('--'));
const [only] = args.filter((arg) => arg.startsWith('--'));

async function play(scenario: Scenario, compat: Compat): Promise<readonly string[] | null> {
  try {
    if (scenario.layer === 'cms') return playInternal(scenario, compat);
    if (scenario.layer === 'maintenance')
      return await playPublic(scenario, (world) => deskDriver(world, compat));
    return null;
  } catch (failure) {
    return [failure instanceof Error ? failure.message : String(failure)];
  }
}

/** The modes a scenario may pass in, the one its status asks for first. */
function modes(scenario: Scenario): readonly Compat[] {
  if (only === '--compat') return [ORIGINAL];
  if (only === '--better') return [BETTER];
  return scenario.status === 'quirk' ? [ORIGINAL, BETTER] : [BETTER, ORIGINAL];
}

const count = { passed: 0, compat: 0, failed: 0, skipped: 0 };
for (const file of files) {
  const { cases } = parse(readFileSync(file, 'utf8')) as { cases: readonly Scenario[] };
  for (const scenario of cases) {
    let problems: readonly string[] | null = null;
    let passedBy: Compat | null = null;
    for (const compat of modes(scenario)) {
      const found = await play(scenario, compat);
      problems ??= found;
      if (found === null || found.length > 0) continue;
      passedBy = compat;
      break;
    }
    if (passedBy !== null) {
      count.passed++;
      if (passedBy === ORIGINAL) count.compat++;
      if (passedBy === ORIGINAL) console.log(`compat  ${scenario.id}: passes with the compat switch`);
    } else if (problems === null) {
      count.skipped++;
      console.log(`skip    ${scenario.id}: ${scenario.layer}`);
    } else {
      count.failed++;
      console.log(`FAIL    ${scenario.id}${scenario.note === undefined ? '' : ` (${scenario.note})`}`);
      for (const problem of problems) console.log(`        ${problem}`);
    }
  }
}
console.log(
  `${count.passed} passed (${count.compat} with the compat switch), ${count.failed} failed, ${count.skipped} skipped`,
);
if (files.length === 0) console.error('which files? npm run cases -- test/cases/maintenance.yaml');
process.exitCode = count.failed === 0 && files.length > 0 ? 0 : 1;
