/**
 * Ten clusters at rest, real processes: what the control plane and the agent use of a core, what is written, and what the
 * agent's memory grows by with each member.
 */
import { replicaSet } from '../test/support/documents.ts';
import { Stack } from '../test/support/stack.ts';
import { type BenchResult, coreShare, load, measured, metricValues, rssBytes, say, sleep } from './lib.ts';

export const name = 'idle';

const CLUSTERS = 10;
/** Members that stay for the second look at the agent's memory. */
const FEW = 2;
/** Long enough for three of the slowest looks of the engine (30 s would be one) and of the agents (10 s). */
const QUIET_MILLIS = 40_000;
const SETTLE_MILLIS = 15_000;
const MIB = 1024 * 1024;

/** One member each: the control plane's share does not depend on how many, and stand-ins are large. */
export async function run(): Promise<readonly BenchResult[]> {
  const stack = await Stack.start();
  try {
    const agent = stack.agents.get('local')?.pid ?? 0;
    for (let i = 0; i < CLUSTERS; i++) {
      await stack.apply(replicaSet(`idle${i}`, { members: 1, maintenance: { interruption: 'Allowed' } }));
      await stack.untilReady(`idle${i}`);
    }
    say(`${CLUSTERS} clusters are Ready; quiet for ${QUIET_MILLIS / 1000} s`);
    await sleep(SETTLE_MILLIS);
    const server = stack.server.process.pid ?? 0;
    const before = await writes(stack);
    let agentShare = 0;
    const share = await coreShare(server, async () => {
      agentShare = await coreShare(agent, () => sleep(QUIET_MILLIS));
    });
    const after = await writes(stack);
    const detail = { clusters: CLUSTERS, load: load() };
    const many = await restedAgent(stack);
    for (let i = FEW; i < CLUSTERS; i++) {
      await stack.server.api.request('DELETE', `/api/v1/namespaces/default/mongodb/idle${i}`);
    }
    for (let i = FEW; i < CLUSTERS; i++) await stack.untilGone(`idle${i}`);
    const few = await restedAgent(stack);
    const perMember = (many - few) / (CLUSTERS - FEW);
    return [
      measured('idle control plane', share, '% of a core', { below: 1, detail }),
      measured('idle agent', agentShare, '% of a core', { detail }),
      measured('writes of passes while idle', after - before, 'writes', { below: 1, detail }),
      measured('agent memory per member', perMember / MIB, 'MiB', { below: 2, detail: { many, few } }),
    ];
  } finally {
    await stack.stop();
  }
}

/** Memory of an agent that has just taken over what runs: without the garbage of having made it. */
async function restedAgent(stack: Stack): Promise<number> {
  const old = stack.agents.get('local');
  const ended = new Promise((resolve) => old?.once('exit', resolve));
  old?.kill('SIGTERM');
  await ended;
  const fresh = await stack.startAgent('local');
  await sleep(SETTLE_MILLIS);
  return rssBytes(fresh.pid ?? 0);
}

/** Write transactions but for the renewals of leases, which are one statement for all clusters. */
async function writes(stack: Stack): Promise<number> {
  const text = await (await fetch(`${stack.server.url}/metrics`)).text();
  const value = (metric: string): number => metricValues(text, metric).get('') ?? 0;
  return value('belay_store_writes') - value('belay_lease_renewals');
}
