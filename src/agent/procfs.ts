/** Processes and ports as Linux shows them under /proc. Elsewhere everything is unknown, which is never wrong. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Tells a process from a later one with the same number: start time in clock ticks since boot, and which boot. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startTicks: string;
  readonly bootId: string;
}

const read = (path: string): string | null => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
};

let boot: string | null = null;
function bootId(): string {
  boot ??= (read('/proc/sys/kernel/random/boot_id') ?? '').trim();
  return boot;
}

/** The identity of a living process; null for one that is gone or only waits to be reaped. */
export function identify(pid: number): ProcessIdentity | null {
  const stat = read(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The name in parentheses may hold blanks and parentheses; fields count from behind it (state is field 3).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state] = fields;
  if (state === 'Z' || state === 'X') return null;
  return { pid, startTicks: fields[19] ?? '', bootId: bootId() };
}

/** Whether this very process still lives. */
export function isAlive(process: ProcessIdentity): boolean {
  const now = identify(process.pid);
  return now !== null && now.startTicks === process.startTicks && now.bootId === process.bootId;
}

/** The arguments of a process; empty when it is gone or not ours to read. */
export function commandLine(pid: number): readonly string[] {
  return (read(`/proc/${pid}/cmdline`) ?? '').split('\0').filter((part) => part !== '');
}

const pids = (): readonly number[] => {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
};

/**
 * Living processes that were started with `--config PATH` for one of these paths, by path. A process may have set a title
 * of its own: then its arguments are one text with blanks between, which is why texts are compared and not lists.
 */
export function findByConfig(paths: ReadonlySet<string>): ReadonlyMap<string, ProcessIdentity> {
  const found = new Map<string, ProcessIdentity>();
  if (paths.size === 0) return found;
  for (const pid of pids()) {
    const [, config] = commandLine(pid).join(' ').split('--config ');
    if (config === undefined) continue;
    const path = [...paths].find((one) => config === one || config.startsWith(`${one} `));
    const identity = path === undefined ? null : identify(pid);
    if (path !== undefined && identity) found.set(path, identity);
  }
  return found;
}

/** Who listens on a TCP port of this machine: its process when it can be told. Null: nobody listens. */
export function listenerOf(port: number): { readonly pid: number | null; readonly command: string } | null {
  const inodes = new Set([...listening('/proc/net/tcp', port), ...listening('/proc/net/tcp6', port)]);
  if (inodes.size === 0) return null;
  for (const pid of pids()) {
    if (holdsSocket(pid, inodes)) return { pid, command: commandLine(pid).join(' ') };
  }
  return { pid: null, command: '' };
}

/** Inodes of sockets in state LISTEN (0A) on the port. */
function listening(table: string, port: number): readonly string[] {
  const wanted = port.toString(16).toUpperCase().padStart(4, '0');
  return (read(table) ?? '')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === '0A' && fields[1]?.endsWith(`:${wanted}`))
    .map((fields) => fields[9] ?? '');
}

function holdsSocket(pid: number, inodes: ReadonlySet<string>): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => {
      const target = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`));
      return target?.[1] !== undefined && inodes.has(target[1]);
    });
  } catch {
    return false;
  }
}
