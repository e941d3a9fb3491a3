import { Authority } from '../src/authority/index.ts';
import { PlayedFleet, quiet } from '../src/authority/testing/played.ts';
import { ManualClock } from '../src/engine/testing/clock.ts';
import { AvailabilityMode } from '../src/grpc/gen/maintenance_pb.js';
import { type Caller, serveMaintenance } from '../src/grpc/index.ts';
import { MaintenanceClient } from '../src/grpc/testing/client.ts';
import { asTopology, TOPOLOGY } from '../src/grpc/testing/stage.ts';
import { Desk, Fleet, type FleetSpec, type RequestInput } from '../src/maintenance/index.ts';
import { plainOf, plainPass } from '../src/maintenance/testing/recount.ts';
import { openMemoryStore } from '../src/store/memory.ts';
import { type BenchResult, compared, load, measured, median, quantile, round } from './lib.ts';

export const name = 'maintenance';

const NODES = 1_000;
const DISKS = 10;
const VDISKS = 9;
const BLOCK = 8;
/** The plain recount counts the whole fleet before every action: some of its actions tell what all would take. */
const PLAIN_ACTIONS = 20;
const ROUNDS = 9;
const GRPC_ROUNDS = 25;

const SETS = 10_000;
const HOSTS = 3_000;
const LOOKS = 2_000;

/** A task on a whole YDB cluster against the plain recount, and one host of a big MongoDB fleet. */
export async function run(): Promise<readonly BenchResult[]> {
  return [wholeCluster(), await throughGrpc(), ...hostChecks()];
}

// ── a task on all nodes of a cluster ───────────────────────────────────────────────────────────────────────────────

function cluster(): FleetSpec {
  const key = (n: number): string => `${n}`;
  const nodes = Array.from({ length: NODES }, (_, n) => ({
    key: key(n),
    name: key(n),
    host: `h${n}`,
    kind: 'storage' as const,
    state: 'up' as const,
    startedAt: null,
    cluster: 'c',
    disks: Array.from({ length: DISKS }, (_unused, id) => ({ id, ok: true })),
  }));
  const slots = DISKS * VDISKS;
  const groups = Array.from({ length: (NODES / BLOCK) * slots }, (_, id) => {
    const first = Math.floor(id / slots) * BLOCK;
    const disk = Math.floor((id % slots) / VDISKS);
    const vdisks = Array.from({ length: BLOCK }, (_unused, i) => ({
      node: key(first + i),
      disk,
      realm: 0,
      ok: true,
    }));
    return { id, erasure: 'block-4-2' as const, vdisks };
  });
  return { nodes, groups };
}

function wholeCluster(): BenchResult {
  const spec = cluster();
  const fleet = new Fleet(spec);
  const task: RequestInput = {
    owner: 'bench',
    mode: 'strong',
    partial: true,
    schedule: true,
    actions: spec.nodes.map((node, i) => ({
      action: { type: 'lock', scope: { kind: 'node', node: node.key }, duration: null },
      at: [i, 0] as const,
    })),
  };
  const times: number[] = [];
  let granted = 0;
  for (let r = 0; r < ROUNDS; r++) {
    const desk = new Desk(fleet);
    const started = performance.now();
    const answer = desk.request(task, 0);
    times.push(performance.now() - started);
    granted = answer.granted.length;
    for (const entry of [...desk.entries()]) desk.drop(entry.id);
  }
  if (granted !== NODES / BLOCK) throw new Error(`${granted} nodes were granted`);
  const plain = plainOf(spec, [], 0);
  const asked = spec.nodes.slice(0, PLAIN_ACTIONS).map((n) => [n.key]);
  const started = performance.now();
  const plainly = plainPass(plain, asked, 'strong', true).length;
  const recount = ((performance.now() - started) / PLAIN_ACTIONS) * NODES;
  if (plainly !== Math.ceil(PLAIN_ACTIONS / BLOCK)) throw new Error(`the recount grants ${plainly}`);
  return compared(
    `maintenance: task on ${NODES} nodes with ${NODES * DISKS * VDISKS} vdisks`,
    median(times),
    'ms',
    recount,
    {
      ratioAtMost: 1 / 20,
      detail: {
        against: `plain recount, ${PLAIN_ACTIONS} actions scaled to ${NODES}`,
        granted,
        pending: NODES - granted,
      },
    },
  );
}

/** The same task asked for by a client over a socket, kept in a store in memory, with all thousand states in the answer. */
async function throughGrpc(): Promise<BenchResult> {
  const clock = new ManualClock(0);
  const store = openMemoryStore({ clock });
  const source = new PlayedFleet({ [TOPOLOGY]: asTopology(cluster()) });
  const authority = new Authority({ store, clock, log: quiet, source });
  await authority.open();
  const authenticate = async (): Promise<Caller> => ({ name: 'bench', role: 'operator' });
  const topologies = (): readonly string[] => [TOPOLOGY];
  const endpoint = await serveMaintenance({
    authority,
    authenticate,
    topologies,
    log: quiet,
    host: '127.0.0.1',
    port: 0,
  });
  const client = new MaintenanceClient(endpoint.port, 'bench');
  const groups = Array.from({ length: NODES }, (_, n) => ({ actions: [lockOf(n + 1)] }));
  const times: number[] = [];
  for (let r = 0; r < GRPC_ROUNDS; r++) {
    const taskOptions = { taskUid: `t${r}`, availabilityMode: AvailabilityMode.STRONG };
    const started = performance.now();
    const { result } = await client.create({ taskOptions, actionGroups: groups });
    times.push(performance.now() - started);
    if (result.actionGroupStates.length !== NODES) throw new Error('the answer is not whole');
    await client.drop(`t${r}`);
  }
  client.close();
  await endpoint.close();
  await authority.close();
  // The best of some rounds: a busy machine must not be taken for a slow program.
  return measured('maintenance: the same task through gRPC, best of some', Math.min(...times), 'ms', {
    below: 50,
    detail: { rounds: GRPC_ROUNDS, median: round(median(times)), load: load() },
  });
}

const lockOf = (nodeId: number) => ({
  action: {
    case: 'lockAction' as const,
    value: {
      scope: { scope: { case: 'nodeId' as const, value: nodeId } },
      duration: { seconds: 60n, nanos: 0 },
    },
  },
});

// ── one host of many ───────────────────────────────────────────────────────────────────────────────────────────────

function hostChecks(): readonly BenchResult[] {
  const members = Array.from({ length: SETS * 3 }, (_, m) => ({
    key: `s${Math.floor(m / 3)}-${m % 3}`,
    name: `s${Math.floor(m / 3)}-${m % 3}`,
    host: `h${(Math.floor(m / 3) + (m % 3) * 1_000) % HOSTS}`,
    kind: 'member' as const,
    state: 'up' as const,
    startedAt: null,
    cluster: `s${Math.floor(m / 3)}`,
    disks: [],
  }));
  const replicaSets = Array.from({ length: SETS }, (_, s) => ({
    key: `s${s}`,
    role: 'replicaSet' as const,
    writeConcern: 'majority' as const,
    interruption: false,
    members: [0, 1, 2].map((i) => ({ node: `s${s}-${i}`, votes: 1 as const, priority: 1, data: true })),
  }));
  const desk = new Desk(new Fleet({ nodes: members, replicaSets }));
  const ask = (host: number, dry: boolean): number =>
    desk.request(
      {
        owner: 'bench',
        mode: 'strong',
        partial: true,
        schedule: false,
        dry,
        actions: [
          { action: { type: 'lock', scope: { kind: 'host', host: `h${host}` }, duration: null }, at: [0, 0] },
        ],
      },
      0,
    ).granted.length;
  // Some hosts are taken, so that checks are refused as well.
  for (let h = 0; h < HOSTS; h += 50) ask(h, false);
  const times: number[] = [];
  let granted = 0;
  for (let i = 0; i < LOOKS; i++) {
    const started = performance.now();
    granted += ask((i * 7) % HOSTS, true);
    times.push(performance.now() - started);
  }
  const detail = { sets: SETS, hosts: HOSTS, granted, refused: LOOKS - granted };
  return [
    measured('maintenance: check of one host, median', median(times), 'ms', { below: 1, detail }),
    measured('maintenance: check of one host, 99 %', quantile(times, 0.99), 'ms', { detail }),
  ];
}
