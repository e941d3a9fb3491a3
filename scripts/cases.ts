/**
 * `npm run cases -- FILE…`: plays scenario files in the form of test/cases/maintenance.yaml and prints each failure and the
 * count. Internal scenarios are played on the pure desk, public ones and the calls of ydbops through gRPC. They describe the original service: one that only passes with the compat switch is named, and counts as passed,
 * since a client that depends on it can have it. `--compat` plays everything with the switch on, `--better` nothing.
 */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { grpcDriver } from '../src/grpc/testing/driver.ts';
import { openStage } from '../src/grpc/testing/stage.ts';
import { replayYdbops, ydbopsWorld } from '../src/grpc/testing/ydbops.ts';
import { playInternal } from '../src/maintenance/cases/internal.ts';
import { playPublic } from '../src/maintenance/cases/public.ts';
import { type Scenario, World } from '../src/maintenance/cases/scenario.ts';
import { BETTER, type Compat, ORIGINAL } from '../src/maintenance/index.ts';

const args = process.argv.slice(2);
const files = args.filter((arg) => !arg.startsWith('--'));
const [only] = args.filter((arg) => arg.startsWith('--'));

async function play(scenario: Scenario, compat: Compat): Promise<readonly string[] | null> {
  try {
    if (scenario.layer === 'cms') return playInternal(scenario, compat);
    if (scenario.layer === 'unit') return null;
    return await overGrpc(scenario, compat);
  } catch (failure) {
    return [failure instanceof Error ? failure.message : String(failure)];
  }
}

/** Through a client, a socket and the service, on a played cluster. */
async function overGrpc(scenario: Scenario, compat: Compat): Promise<readonly string[]> {
  const world = scenario.layer === 'ydbops' ? ydbopsWorld(scenario) : new World(scenario.cluster);
  const stage = await openStage(world, compat);
  try {
    if (scenario.layer === 'ydbops') return await replayYdbops(scenario, stage);
    return await playPublic(scenario, world, grpcDriver(world, stage));
  } finally {
    await stage.close();
  }
}

/** The modes a scenario may pass in, the one its status asks for first. */
function modes(scenario: Scenario): readonly Compat[] {
  if (only === '--compat') return [ORIGINAL];
  if (only === '--better') return [BETTER];
  return scenario.status === 'quirk' ? [ORIGINAL, BETTER] : [BETTER, ORIGINAL];
}

/** What is held against the program; a file may expect more than anybody looks at, and that must be seen. */
const LOOKED_AT: ReadonlySet<string> = new Set(
  'actions code count granted issues pending performed reason retry_after states status uids'.split(' '),
);
function overlooked({ steps }: Scenario): readonly string[] {
  const expected = new Set(steps.flatMap((step) => Object.keys((step['expect'] ?? {}) as object)));
  return [...expected].filter((what) => !LOOKED_AT.has(what));
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
    for (const what of overlooked(scenario)) console.log(`note    ${scenario.id}: nobody looks at "${what}"`);
    if (passedBy !== null) {
      count.passed++;
      if (passedBy === ORIGINAL) count.compat++;
      if (passedBy === ORIGINAL) console.log(`compat  ${scenario.id}: passes with the compat switch`);
    } else if (problems === null) {
      count.skipped++;
      console.log(`skip    ${scenario.id}: notes on the inside, proved by src/maintenance/tasks.test.ts`);
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
