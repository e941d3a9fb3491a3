/**
 * Ten real clusters at rest: what the control plane and the agent use of a core, and that passes write nothing.
 * BELAY_BENCH_MEMBERS is the size of each (3; a stand-in takes about 100 MB), BELAY_BENCH_SECONDS how long it is watched.
 */
import { replicaSet } from '../test/support/documents.ts';
import { Stack } from '../test/support/stack.ts';
import {
  type BenchResult,
  cpuMillis,
  freeRange,
  load,
  measured,
  metricsOf,
  none,
  round,
  say,
  sleep,
  until,
} from './lib.ts';

export const name = 'idle';

const CLUSTERS = 10;
const MEMBERS = Number(process.env['BELAY_BENCH_MEMBERS'] ?? 3);
const SECONDS = Number(process.env['BELAY_BENCH_SECONDS'] ?? 60);
/** Elections, logins and first looks have calmed down by then. */
const CALM_SECONDS = 35;

/** See the head of this file. */
export async function run(): Promise<readonly BenchResult[]> {
  const stack = await Stack.start();
  try {
    for (let i = 0; i < CLUSTERS; i++) {
      await stack.apply(replicaSet(`idle${i}`, { members: MEMBERS, port: await freeRange(MEMBERS) }));
      await stack.untilReady(`idle${i}`);
    }
    say(`${CLUSTERS} clusters of ${MEMBERS} are Ready`);
    await sleep(CALM_SECONDS * 1_000);
    const watched = await watch(stack);
    const detail = { clusters: CLUSTERS, membersEach: MEMBERS, load: load(), ...watched };
    return [
      measured(
        'idle: CPU of the control plane with ten clusters at rest',
        watched.serverShare,
        '% of a core',
        {
          below: 1,
          detail,
        },
      ),
      measured('idle: CPU of the agent that carries them', watched.agentShare, '% of a core', { detail }),
      none('idle: writes to the store besides the renewals of leases', watched.writes, detail),
    ];
  } finally {
    await stack.stop();
  }
}

async function watch(stack: Stack) {
  const server = stack.server.process.pid as number;
  const agent = stack.agents.get('local')?.pid as number;
  const all = async () => metricsOf(stack.server);
  await until('all converged', async () => (await all()).converged === CLUSTERS);
  const [before, cpu, started] = [
    await all(),
    [cpuMillis(server), cpuMillis(agent)] as const,
    performance.now(),
  ];
  await sleep(SECONDS * 1_000);
  const millis = performance.now() - started;
  const share = (pid: number, was: number): number => round(((cpuMillis(pid) - was) / millis) * 100);
  const [serverShare, agentShare] = [share(server, cpu[0]), share(agent, cpu[1])];
  const after = await all();
  return {
    seconds: SECONDS,
    serverShare,
    agentShare,
    passes: after.passes - before.passes,
    passWrites: after.passWrites - before.passWrites,
    writes: after.storeWrites - after.renewals - (before.storeWrites - before.renewals),
  };
}
