/**
 * How long a client that writes with majority concern is stopped while a whole set is restarted, one member after the
 * other, against a bare stepDown of the same set in the same run.
 */
import { objectPath } from '../src/cli/client.ts';
import { replicaSet, user } from '../test/support/documents.ts';
import { Stack } from '../test/support/stack.ts';
import { MajorityWriter, type WriterReport } from '../test/support/writer.ts';
import { type BenchResult, compared, load, median, none, say } from './lib.ts';

export const name = 'gap';

const ROUNDS = Number(process.env['BELAY_BENCH_ROUNDS'] ?? 7);

/** See the head of this file. */
export async function run(): Promise<readonly BenchResult[]> {
  const stack = await Stack.start();
  try {
    await stack.apply(replicaSet('gap'));
    await stack.apply(user('gap'));
    await stack.untilReady('gap');
    await stack.untilPhase('gap-app', 'Ready', 'default', 'mongodbusers');
    const bare: WriterReport[] = [];
    const restart: WriterReport[] = [];
    for (let i = 0; i < ROUNDS; i++) {
      bare.push(await underWriter(stack, () => stepDown(stack)));
      restart.push(await underWriter(stack, () => restartAll(stack)));
      say(
        `round ${i + 1}: stepDown ${bare[i]?.longestGapMillis} ms, restart ${restart[i]?.longestGapMillis} ms`,
      );
    }
    const gaps = (reports: readonly WriterReport[]): number[] => reports.map((r) => r.longestGapMillis);
    const lost = [...bare, ...restart].reduce((sum, r) => sum + r.lost, 0);
    const errors = restart.reduce((sum, r) => sum + r.errors, 0);
    return [
      compared(
        'gap: longest pause of writes while a set restarts',
        median(gaps(restart)),
        'ms',
        median(gaps(bare)),
        {
          ratioAtMost: 1.3,
          detail: {
            against: 'a bare stepDown',
            load: load(),
            restart: gaps(restart),
            bare: gaps(bare),
            errors,
          },
        },
      ),
      none('gap: acknowledged writes lost', lost, { rounds: ROUNDS }),
    ];
  } finally {
    await stack.stop();
  }
}

async function underWriter(stack: Stack, change: () => Promise<void>): Promise<WriterReport> {
  const writer = await MajorityWriter.start(await stack.connect('gap', 'gap-app'));
  await change();
  await stack.untilReady('gap');
  await writer.proceeds();
  return writer.stop();
}

async function stepDown(stack: Stack): Promise<void> {
  const admin = await stack.connect('gap', 'clusterAdmin');
  await admin
    .db('admin')
    .command({ replSetStepDown: 60, secondaryCatchUpPeriodSecs: 10 })
    .catch(() => undefined);
  await admin.close();
}

async function restartAll(stack: Stack): Promise<void> {
  const name = await stack.operate({ type: 'Restart' }, 'gap');
  await stack.until(async () => {
    const operation = await stack.server.api.get<{ status?: { state?: string } }>(
      objectPath('operations', 'default', name),
    );
    return operation.status?.state === 'Succeeded';
  }, 'the restart');
}
