/**
 * What one more member costs the agent in memory. One-member clusters are added step by step; at every step the agent is
 * asked, through the debugger its Node opens on SIGUSR1, to collect garbage and say how much memory it uses. The slopes of
 * the straight lines through the points are the results; the processes of the members themselves are not in them.
 */
import { WebSocket } from 'ws';
import { replicaSet } from '../test/support/documents.ts';
import { Stack } from '../test/support/stack.ts';
import { type BenchResult, freeRange, load, measured, rssBytes, say, sleep, slope } from './lib.ts';

export const name = 'agent-memory';

/** Numbers of members at which memory is read. */
const STEPS = (process.env['BELAY_BENCH_STEPS'] ?? '2,7,12,17,22').split(',').map(Number);
/** After the last member became Ready: pools shrink, clients that did their work close. */
const CALM_SECONDS = Number(process.env['BELAY_BENCH_CALM_SECONDS'] ?? 75);
const MIB = 2 ** 20;

interface Point {
  readonly members: number;
  readonly rss: number;
  readonly heap: number;
  readonly external: number;
}

/** See the head of this file. */
export async function run(): Promise<readonly BenchResult[]> {
  // Port 0: whichever is free.
  const stack = await Stack.start({ env: { NODE_OPTIONS: '--inspect-port=127.0.0.1:0' } });
  try {
    const debug = await openDebugger(stack);
    const points: Point[] = [];
    for (const members of STEPS) {
      await grow(stack, members);
      await sleep(CALM_SECONDS * 1_000);
      points.push(await read(stack, debug, members));
      say(JSON.stringify(points.at(-1)));
    }
    debug.close();
    const per = (key: 'rss' | 'heap' | 'external'): number =>
      slope(points.map((point) => [point.members, point[key]])) / MIB;
    const detail = { points, load: load() };
    return [
      measured('agent-memory: RSS per extra member', per('rss'), 'MiB', { below: 2, detail }),
      measured('agent-memory: heap and buffers per extra member', per('heap') + per('external'), 'MiB', {
        below: 2,
        detail: { heap: per('heap'), external: per('external') },
      }),
    ];
  } finally {
    await stack.stop();
  }
}

let made = 0;

async function grow(stack: Stack, members: number): Promise<void> {
  const names: string[] = [];
  for (; made < members; made++) {
    const cluster = `m${made}`;
    names.push(cluster);
    await stack.apply(replicaSet(cluster, { members: 1, port: await freeRange(1) }));
  }
  for (const cluster of names) await stack.untilReady(cluster);
}

async function read(stack: Stack, debug: Debugger, members: number): Promise<Point> {
  // Twice: what finalizers let go of is collected in the second round.
  for (let round = 0; round < 2; round++) {
    await debug.call('HeapProfiler.collectGarbage');
    await sleep(500);
  }
  const answer = await debug.call('Runtime.evaluate', {
    expression: 'JSON.stringify(process.memoryUsage())',
  });
  const usage = JSON.parse((answer as { result: { value: string } }).result.value) as NodeJS.MemoryUsage;
  const rss = rssBytes(stack.agents.get('local')?.pid as number);
  return { members, rss, heap: usage.heapUsed, external: usage.external };
}

// ── the debugger ───────────────────────────────────────────────────────────────────────────────────────────────────

interface Debugger {
  call(method: string, params?: unknown): Promise<unknown>;
  close(): void;
}

async function openDebugger(stack: Stack): Promise<Debugger> {
  const child = stack.agents.get('local');
  const address = new Promise<string>((resolve) => {
    let text = '';
    child?.stderr?.on('data', (chunk) => {
      text += chunk;
      const match = /Debugger listening on (ws:\S+)/.exec(text);
      if (match?.[1] !== undefined) resolve(match[1]);
    });
  });
  child?.kill('SIGUSR1');
  const socket = new WebSocket(await address, { perMessageDeflate: false, maxPayload: 2 ** 30 });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const waiting = new Map<number, (result: unknown) => void>();
  socket.on('message', (data) => {
    const { id, result } = JSON.parse(String(data)) as { id?: number; result?: unknown };
    if (id !== undefined) waiting.get(id)?.(result);
  });
  let next = 1;
  return {
    call: (method, params = {}) =>
      new Promise((resolve) => {
        const id = next++;
        waiting.set(id, resolve);
        socket.send(JSON.stringify({ id, method, params }));
      }),
    close: () => socket.close(),
  };
}
