/**
 * From `apply` to Ready of a sharded cluster (two shards of three, three config servers, two routers), against a plain
 * script that does the same by hand with the same executables and files, in turns.
 */
import path from 'node:path';
import { objectPath } from '../src/cli/client.ts';
import { statusOf } from '../src/cli/rows.ts';
import { Stack } from '../test/support/stack.ts';
import { type BenchResult, compared, freePorts, load, median, say } from './lib.ts';
import { keepShardedTemplates, plainSharded, type ShardedTemplates } from './plainSharded.part.ts';

export const name = 'sharded';

const ROUNDS = Number(process.env['BELAY_BENCH_ROUNDS'] ?? 5);
const COUNTS = { shardCount: 2, mongodsPerShardCount: 3, configServerCount: 3, mongosCount: 2 };

const document = (cluster: string) => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDB',
  metadata: { name: cluster },
  spec: { type: 'ShardedCluster', ...COUNTS },
});

/** See the head of this file. */
export async function run(): Promise<readonly BenchResult[]> {
  const stack = await Stack.start();
  try {
    const { templates, version } = await warmUp(stack);
    const belay: number[] = [];
    const plain: number[] = [];
    for (let i = 0; i < ROUNDS; i++) {
      const folder = path.join(stack.dir, `plain-${i}`);
      const script = await plainSharded(templates, folder, await freePorts(11), version);
      await script.stop();
      plain.push(script.millis);
      belay.push(await untilReady(stack, `bench${i}`));
      await remove(stack, `bench${i}`);
      say(
        `round ${i + 1}: plain ${Math.round(plain[i] as number)} ms, belay ${Math.round(belay[i] as number)} ms`,
      );
    }
    const detail = {
      rounds: ROUNDS,
      load: load(),
      belay: belay.map(Math.round),
      plain: plain.map(Math.round),
    };
    return [
      compared('sharded: apply to Ready of 2 × 3 + 3 + 2', median(belay), 'ms', median(plain), {
        ratioAtMost: 1.5,
        detail: { against: 'a plain script with the same executables and files', ...detail },
      }),
    ];
  } finally {
    await stack.stop();
  }
}

/** The first cluster pays for code that is not compiled yet; its files serve the plain script. */
async function warmUp(stack: Stack): Promise<{ templates: ShardedTemplates; version: string }> {
  await untilReady(stack, 'warm');
  const templates = keepShardedTemplates(stack.agentDir(), path.join(stack.dir, 'templates'));
  const version = String((await stack.object('mongodb', 'warm'))?.spec['version']);
  await remove(stack, 'warm');
  return { templates, version };
}

/** Applies and follows the object as `belay apply --wait` does. */
async function untilReady(stack: Stack, cluster: string): Promise<number> {
  const started = performance.now();
  await stack.apply(document(cluster));
  const abort = new AbortController();
  const query = { fieldSelector: `metadata.name=${cluster}` };
  for await (const event of stack.server.api.watch(objectPath('mongodb', 'default'), query, abort.signal)) {
    if (event.type === 'LISTED') continue;
    const { phase, observedGeneration } = statusOf(event.object);
    if (phase === 'Ready' && observedGeneration === event.object.metadata.generation) break;
  }
  abort.abort();
  return performance.now() - started;
}

async function remove(stack: Stack, cluster: string): Promise<void> {
  await stack.server.api.request('DELETE', objectPath('mongodb', 'default', cluster));
  await stack.untilGone(cluster);
}
