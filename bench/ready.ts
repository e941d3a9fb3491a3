/**
 * From `apply` to Ready of three members, against a plain script that does the same by hand. Both start the same
 * executables with the same files in the same run, in turns, so that the machine's mood hits both alike.
 */
import path from 'node:path';
import { objectPath } from '../src/cli/client.ts';
import { statusOf } from '../src/cli/rows.ts';
import { replicaSet } from '../test/support/documents.ts';
import { Stack } from '../test/support/stack.ts';
import {
  type BenchResult,
  compared,
  cpuMillis,
  freePorts,
  freeRange,
  load,
  median,
  round,
  say,
} from './lib.ts';
import { keepTemplates, plainSet, type Template } from './plain.part.ts';

export const name = 'ready';

const ROUNDS = Number(process.env['BELAY_BENCH_ROUNDS'] ?? 7);

/** See the head of this file. */
export async function run(): Promise<readonly BenchResult[]> {
  const stack = await Stack.start();
  try {
    const { templates, version } = await warmUp(stack);
    const belay: number[] = [];
    const plain: number[] = [];
    const plainMoments: Moments[] = [];
    const belayMoments: Moments[] = [];
    const cpu = cpuOf(stack);
    for (let i = 0; i < ROUNDS; i++) {
      const set = await plainSet(templates, path.join(stack.dir, `plain-${i}`), await freePorts(3), version);
      await set.stop();
      plain.push(set.millis);
      plainMoments.push(set.moments);
      const own = await untilReady(stack, `bench${i}`);
      belay.push(own.millis);
      belayMoments.push(own.moments);
      await remove(stack, `bench${i}`);
      say(`round ${i + 1}: plain ${Math.round(set.millis)} ms, belay ${Math.round(belay[i] as number)} ms`);
    }
    const used = cpu();
    const detail = {
      rounds: ROUNDS,
      load: load(),
      belay: belay.map(Math.round),
      plain: plain.map(Math.round),
      plainMoments: medians(plainMoments),
      belayMoments: medians(belayMoments),
      cpuMillisPerSet: Object.fromEntries(
        Object.entries(used).map(([who, millis]) => [who, round(millis / ROUNDS)]),
      ),
    };
    return [
      compared('ready: apply to Ready of three members', median(belay), 'ms', median(plain), {
        ratioAtMost: 1.5,
        detail: { against: 'a plain script with the same executables and files', ...detail },
      }),
    ];
  } finally {
    await stack.stop();
  }
}

/** The first set pays for code that is not compiled yet; its files serve the plain script. */
async function warmUp(stack: Stack): Promise<{ templates: readonly Template[]; version: string }> {
  await untilReady(stack, 'warm');
  const templates = keepTemplates(stack.agentDir(), path.join(stack.dir, 'templates'));
  const version = String((await stack.object('mongodb', 'warm'))?.spec['version']);
  await remove(stack, 'warm');
  return { templates, version };
}

type Moments = Readonly<Record<string, number>>;

const medians = (all: readonly Moments[]): Moments =>
  Object.fromEntries(
    Object.keys(all[0] ?? {}).map((key) => [key, median(all.map((moments) => moments[key] ?? 0))]),
  );

/** Applies and follows the object as `belay apply --wait` does. */
async function untilReady(stack: Stack, set: string): Promise<{ millis: number; moments: Moments }> {
  const { api } = stack.server;
  const port = await freeRange(3);
  const [started, at] = [performance.now(), Date.now()];
  await stack.apply(replicaSet(set, { port }));
  const abort = new AbortController();
  const query = { fieldSelector: `metadata.name=${set}` };
  for await (const event of api.watch(objectPath('mongodb', 'default'), query, abort.signal)) {
    if (event.type === 'LISTED') continue;
    const { phase, observedGeneration } = statusOf(event.object);
    if (phase === 'Ready' && observedGeneration === event.object.metadata.generation) break;
  }
  abort.abort();
  const millis = performance.now() - started;
  return { millis, moments: { ...(await momentsOf(stack, set, at)), ready: Math.round(millis) } };
}

/** When the last step of each kind was done, as the journal has it. */
async function momentsOf(stack: Stack, set: string, since: number): Promise<Moments> {
  const { items } = await stack.server.api.get<{ items: readonly JournalRow[] }>(
    `${objectPath('mongodb', 'default', set)}/operations`,
    { limit: '100' },
  );
  const moments: Record<string, number> = {};
  for (const { step, outcome } of items) {
    if (outcome !== null)
      moments[step] = Math.max(moments[step] ?? 0, new Date(outcome.at).getTime() - since);
  }
  return moments;
}

interface JournalRow {
  readonly step: string;
  readonly outcome: { readonly at: string | number } | null;
}

async function remove(stack: Stack, set: string): Promise<void> {
  await stack.server.api.request('DELETE', objectPath('mongodb', 'default', set));
  await stack.untilGone(set);
}

/** CPU that server and agent use from now on; deletions are in it, too. */
function cpuOf(stack: Stack): () => Readonly<Record<string, number>> {
  const pids = { server: stack.server.process.pid, agent: stack.agents.get('local')?.pid } as const;
  const read = () => Object.entries(pids).map(([who, pid]) => [who, cpuMillis(pid as number)] as const);
  const before = Object.fromEntries(read());
  return () => Object.fromEntries(read().map(([who, millis]) => [who, millis - (before[who] as number)]));
}
