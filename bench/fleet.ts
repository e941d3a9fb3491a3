/**
 * A played fleet of 2,000 agents with 10,000 clusters and 30,000 members on one control plane with SQLite, all converged.
 * Agents are played by one process with the real end of the channel; the control plane is the real process.
 * BELAY_BENCH_SCALE shrinks it (1 is the whole fleet), BELAY_BENCH_SECONDS is how long each steady state is watched.
 */
import { type ChildProcess, fork } from 'node:child_process';
import path from 'node:path';
import { statusOf } from '../src/cli/rows.ts';
import { Stack } from '../test/support/stack.ts';
import {
  clusterName,
  type FleetFile,
  type FleetSize,
  fillStore,
  MEMBERS,
  userDocument,
  writeFleet,
} from './fleet.part.ts';
import {
  type BenchResult,
  type ControlPlaneMetrics,
  cpuMillis,
  load,
  measured,
  metricsOf,
  none,
  quantile,
  round,
  rssBytes,
  say,
  sleep,
  until,
} from './lib.ts';
import type { FromPlayer, ToPlayer } from './player.part.ts';

export const name = 'fleet';

/** Every member reports this often, though nothing is new. */
const REPORT_EVERY_SECONDS = 30;
/** Longest wait for the whole fleet: a starting control plane meets it all at once. */
const PATIENCE = 600_000;
const MIB = 2 ** 20;

export interface FleetOptions {
  readonly scale: number;
  /** Each steady state. */
  readonly seconds: number;
  readonly changes: number;
}

export const run = (): Promise<readonly BenchResult[]> =>
  playFleet({
    scale: Number(process.env['BELAY_BENCH_SCALE'] ?? 1),
    seconds: Number(process.env['BELAY_BENCH_SECONDS'] ?? 60),
    changes: Number(process.env['BELAY_BENCH_CHANGES'] ?? 300),
  });

/** See the head of this file. */
export async function playFleet({ scale, seconds, changes }: FleetOptions): Promise<readonly BenchResult[]> {
  const size = {
    hosts: Math.max(MEMBERS, Math.round(2_000 * scale)),
    clusters: Math.max(1, Math.round(10_000 * scale)),
  };
  const stack = await Stack.start({ agents: [] });
  let player: Player | null = null;
  try {
    const fleet = await fill(stack, size);
    const first = await startServer(stack);
    player = new Player(writeFleet(stack.dir, fleet));
    const begun = await converged(stack, size, first);
    say(`converged after ${begun.millis} ms`);
    await atRest(stack);
    const still = await watch(stack, seconds);
    player.report((size.clusters * MEMBERS) / REPORT_EVERY_SECONDS);
    const reporting = await watch(stack, seconds);
    const ways = await change(stack, player, size, changes);
    await settled(stack, size, ways.clusters);
    player.report(0);
    const again = await restart(stack, size);
    const context = { ...size, members: size.clusters * MEMBERS, users: size.clusters, scale, load: load() };
    return [
      measured('fleet: CPU of the control plane, all quiet', still.cpu, '% of a core', {
        below: 100,
        detail: { ...context, ...still },
      }),
      measured(
        'fleet: CPU of the control plane, every member reports unchanged every 30 s',
        reporting.cpu,
        '% of a core',
        {
          below: 100,
          detail: { ...context, ...reporting },
        },
      ),
      measured('fleet: memory of the control plane (RSS)', reporting.rssMib, 'MiB', {
        below: 2_048,
        detail: context,
      }),
      none('fleet: writes to the store besides the renewals of leases', still.writes + reporting.writes, {
        ...context,
        seconds: 2 * seconds,
        storeWritesPerSecond: round((still.storeWrites + reporting.storeWrites) / (2 * seconds)),
      }),
      measured('fleet: change of a spec to its agent, median', quantile(ways.millis, 0.5), 'ms', {
        detail: { changes, ...context },
      }),
      measured('fleet: change of a spec to its agent, 99th percentile', quantile(ways.millis, 0.99), 'ms', {
        below: 1_000,
        detail: { changes, most: round(Math.max(...ways.millis)), ...context },
      }),
      measured('fleet: all converged after a new start of the control plane', again.millis / 1_000, 's', {
        detail: { ...again, firstStartSeconds: round(begun.millis / 1_000), ...context },
      }),
    ];
  } finally {
    player?.stop();
    await stack.stop();
  }
}

// ── the control plane ──────────────────────────────────────────────────────────────────────────────────────────────

/** Its first start made folder, key and authority; the fleet is put in while it is down. */
async function fill(stack: Stack, size: FleetSize): Promise<FleetFile> {
  await stopServer(stack);
  const started = performance.now();
  const fleet = await fillStore(path.join(stack.dir, 'server'), size, stack.server.agentUrl);
  say(
    `${size.hosts} hosts, ${size.clusters} clusters stored in ${Math.round(performance.now() - started)} ms`,
  );
  return fleet;
}

const pidOf = (stack: Stack): number => stack.server.process.pid as number;

async function stopServer(stack: Stack): Promise<void> {
  const { process: child } = stack.server;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
}

/** Gives the moment it was started. */
async function startServer(stack: Stack): Promise<number> {
  const started = performance.now();
  stack.server = await stack.startServer('server');
  say(`control plane ready after ${Math.round(performance.now() - started)} ms`);
  return started;
}

const numbers = (stack: Stack): Promise<ControlPlaneMetrics> => metricsOf(stack.server);

interface Convergence {
  readonly millis: number;
  readonly cpuMillis: number;
  readonly connectedMillis: number;
  readonly passWrites: number;
  readonly passes: number;
}

async function converged(stack: Stack, size: FleetSize, started: number): Promise<Convergence> {
  let connectedMillis = 0;
  let told = performance.now();
  let last = await numbers(stack);
  await until(
    'the whole fleet converged',
    async () => {
      last = await numbers(stack);
      if (performance.now() - told > 10_000) {
        told = performance.now();
        say(
          `  ${last.connected} connected, ${last.converged} converged, ${last.passWrites} writes, CPU ${cpuMillis(pidOf(stack))} ms`,
        );
      }
      if (connectedMillis === 0 && last.connected === size.hosts)
        connectedMillis = Math.round(performance.now() - started);
      return connectedMillis > 0 && last.converged === size.clusters;
    },
    PATIENCE,
    500,
  );
  const millis = Math.round(performance.now() - started);
  const { passes, passWrites } = last;
  return { millis, connectedMillis, cpuMillis: Math.round(cpuMillis(pidOf(stack))), passes, passWrites };
}

/** Until a second passes without a write of a pass. */
async function atRest(stack: Stack): Promise<void> {
  let before = -1;
  await until(
    'no more writes',
    async () => {
      const { passWrites } = await numbers(stack);
      const same = passWrites === before;
      before = passWrites;
      return same;
    },
    PATIENCE,
    1_000,
  );
}

interface Watched {
  readonly cpu: number;
  readonly rssMib: number;
  readonly storeWrites: number;
  /** Besides the renewals of leases. */
  readonly writes: number;
  readonly passesPerSecond: number;
}

async function watch(stack: Stack, seconds: number): Promise<Watched> {
  const pid = pidOf(stack);
  const [before, cpu, started] = [await numbers(stack), cpuMillis(pid), performance.now()];
  await sleep(seconds * 1_000);
  const millis = performance.now() - started;
  const used = cpuMillis(pid) - cpu;
  const after = await numbers(stack);
  const result = {
    cpu: round((used / millis) * 100),
    rssMib: Math.round(rssBytes(pid) / MIB),
    storeWrites: after.storeWrites - before.storeWrites,
    writes: after.storeWrites - after.renewals - (before.storeWrites - before.renewals),
    passesPerSecond: round(((after.passes - before.passes) / millis) * 1_000),
  };
  say(JSON.stringify(result));
  return result;
}

async function restart(stack: Stack, size: FleetSize): Promise<Convergence> {
  await stopServer(stack);
  return converged(stack, size, await startServer(stack));
}

// ── changes ────────────────────────────────────────────────────────────────────────────────────────────────────────

interface Ways {
  readonly millis: readonly number[];
  readonly clusters: ReadonlySet<number>;
}

/** Changes the roles of users of random clusters, one after the other, and waits for each at its primary's agent. */
async function change(stack: Stack, player: Player, { clusters }: FleetSize, count: number): Promise<Ways> {
  const millis: number[] = [];
  const changed = new Set<number>();
  for (let i = 0; i < count; i++) {
    const cluster = Math.floor(Math.random() * clusters);
    changed.add(cluster);
    const arrival = player.next(`svc-${clusterName(cluster)}-0`, 'reconcileUsers');
    const started = performance.timeOrigin + performance.now();
    await stack.apply(userDocument(cluster, ['read', `role${i}`]));
    millis.push((await arrival) - started);
    await sleep(Math.random() * 40);
  }
  return { millis, clusters: changed };
}

/** Every changed user is Ready again for its newest generation. */
async function settled(stack: Stack, size: FleetSize, clusters: ReadonlySet<number>): Promise<void> {
  for (const cluster of clusters) {
    await stack.untilPhase(`${clusterName(cluster)}-app`, 'Ready', 'default', 'mongodbusers');
    const { phase } = statusOf((await stack.object('mongodb', clusterName(cluster))) ?? ({} as never));
    if (phase !== 'Ready') throw new Error(`${clusterName(cluster)} is ${phase}`);
  }
  const { converged: count } = await numbers(stack);
  if (count !== size.clusters) throw new Error(`${count} of ${size.clusters} clusters are converged`);
}

// ── the agents ─────────────────────────────────────────────────────────────────────────────────────────────────────

class Player {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<string, (at: number) => void>();

  constructor(file: string) {
    this.#child = fork(path.join(import.meta.dirname, 'player.part.ts'), [file], {
      execArgv: ['--disable-warning=ExperimentalWarning'],
    });
    this.#child.on('message', (message: FromPlayer) => {
      if (message.t === 'run') this.#waiting.get(`${message.serviceId} ${message.kind}`)?.(message.at);
    });
  }

  report(perSecond: number): void {
    this.#child.send({ t: 'report', perSecond } satisfies ToPlayer);
  }

  /** When the next command of this kind arrives at a member's agent, in milliseconds since 1970. */
  next(serviceId: string, kind: string): Promise<number> {
    const key = `${serviceId} ${kind}`;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`nothing arrived: ${key}`)), 60_000);
      this.#waiting.set(key, (at) => {
        clearTimeout(timer);
        this.#waiting.delete(key);
        resolve(at);
      });
    });
  }

  stop(): void {
    this.#child.kill('SIGKILL');
  }
}
