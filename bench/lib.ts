/** What every benchmark uses: results, statistics, and looks at processes from outside. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';

/** One measured number. A ratio compares it with a baseline of the same run, so that machines compare. */
export interface BenchResult {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** What `value` is compared with; null: there is nothing to compare with. */
  readonly baseline: number | null;
  /** value / baseline. */
  readonly ratio: number | null;
  /** The bound in words; null: measured for interest only. */
  readonly target: string | null;
  /** Whether the target is met; null without one. */
  readonly ok: boolean | null;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** What each file of this folder exports. */
export interface Bench {
  readonly name: string;
  run(): Promise<readonly BenchResult[]>;
}

/** A number on its own. `atMost` is its target. */
export function measured(
  name: string,
  value: number,
  unit: string,
  options: { readonly below?: number; readonly detail?: Readonly<Record<string, unknown>> } = {},
): BenchResult {
  const { below, detail = {} } = options;
  const target = below === undefined ? null : `< ${below} ${unit}`;
  const ok = below === undefined ? null : value < below;
  return { name, value: round(value), unit, baseline: null, ratio: null, target, ok, detail };
}

/** A number that must be zero. */
export const none = (
  name: string,
  value: number,
  detail: Readonly<Record<string, unknown>>,
): BenchResult => ({
  name,
  value,
  unit: '',
  baseline: null,
  ratio: null,
  target: '0',
  ok: value === 0,
  detail,
});

/** A number against a baseline. `ratioAtMost` and `ratioAtLeast` are its targets. */
export function compared(
  name: string,
  value: number,
  unit: string,
  baseline: number,
  options: {
    readonly ratioAtMost?: number;
    readonly ratioAtLeast?: number;
    readonly detail?: Readonly<Record<string, unknown>>;
  } = {},
): BenchResult {
  const { ratioAtMost, ratioAtLeast, detail = {} } = options;
  const ratio = value / baseline;
  const targets = [
    ...(ratioAtMost === undefined ? [] : [`ratio ≤ ${ratioAtMost}`]),
    ...(ratioAtLeast === undefined ? [] : [`ratio ≥ ${ratioAtLeast}`]),
  ];
  const ok = ratio <= (ratioAtMost ?? Number.POSITIVE_INFINITY) && ratio >= (ratioAtLeast ?? 0);
  return {
    name,
    value: round(value),
    unit,
    baseline: round(baseline),
    ratio: round(ratio),
    target: targets.length === 0 ? null : targets.join(', '),
    ok: targets.length === 0 ? null : ok,
    detail,
  };
}

/** Four significant digits are more than any of this is good for. */
export const round = (value: number): number =>
  Number.isInteger(value) ? value : Number(value.toPrecision(4));

// ── statistics ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** The value below which a part (0 to 1) of the values lies; the list must not be empty. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] as number;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** Slope of the straight line through the points (least squares). */
export function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / points.length;
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / points.length;
  const over = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  return over / points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
}

// ── processes ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Ticks per second of /proc/PID/stat. */
const TICKS = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** CPU a process has used so far, user and system together, in milliseconds. */
export function cpuMillis(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name in brackets may hold blanks; what follows starts with field 3.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) / TICKS) * 1_000;
}

/** Memory a process holds now (RSS), in bytes. */
export function rssBytes(pid: number): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(line?.[1]) * 1_024;
}

/** What a process used of one core while something took place, in percent. */
export async function coreShare(pid: number, during: () => Promise<void>): Promise<number> {
  const [cpu, started] = [cpuMillis(pid), performance.now()];
  await during();
  return ((cpuMillis(pid) - cpu) / (performance.now() - started)) * 100;
}

export const sleep = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis));

/** A look at what is outside of this process, until it is so. Throws after `patience`. */
export async function until(
  what: string,
  condition: () => Promise<boolean> | boolean,
  patience = 120_000,
  every = 20,
): Promise<void> {
  const end = performance.now() + patience;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not reached within ${patience} ms: ${what}`);
    await sleep(every);
  }
}

/** Free ports, all different. */
export async function freePorts(count: number): Promise<readonly number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  await Promise.all(servers.map((s) => new Promise<void>((done) => s.listen(0, '127.0.0.1', done))));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return ports;
}

/** The first of so many free ports in a row, away from those that servers and kernels choose by themselves. */
export async function freeRange(count: number): Promise<number> {
  for (;;) {
    const first = 20_000 + Math.floor(Math.random() * 10_000);
    const free = await Promise.all(Array.from({ length: count }, (_, i) => isFree(first + i)));
    if (free.every(Boolean)) return first;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** The 1-minute load of the machine, beside every result that was measured by the clock on the wall. */
export const load = (): number => Number(readFileSync('/proc/loadavg', 'utf8').split(' ')[0]);

/** Progress for whoever waits; results go to standard output. */
export const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** What benchmarks look at of a control plane's metrics. */
export interface ControlPlaneMetrics {
  readonly converged: number;
  /** Hosts whose channel is open. */
  readonly connected: number;
  readonly storeWrites: number;
  /** The part of them that passes made. */
  readonly passWrites: number;
  /** The part of them that renewed leases. */
  readonly renewals: number;
  readonly passes: number;
}

export async function metricsOf(server: {
  readonly url: string;
  readonly token: string;
}): Promise<ControlPlaneMetrics> {
  const answer = await fetch(`${server.url}/metrics`, {
    headers: { authorization: `Bearer ${server.token}` },
  });
  const text = await answer.text();
  const one = (metric: string): number =>
    Number(new RegExp(`^${metric} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
  return {
    converged: one('belay_engine_converged'),
    connected: one('belay_hosts_connected'),
    storeWrites: one('belay_store_writes'),
    passWrites: one('belay_engine_pass_writes'),
    renewals: one('belay_lease_renewals'),
    passes: one('belay_engine_passes'),
  };
}
