/** Processes and ports as Linux shows them under /proc. Elsewhere everything is unknown, which is never wrong. */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs';
import { SECOND } from '../base/units.ts';

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

function parentOf(pid: number): number {
  const stat = read(`/proc/${pid}/stat`) ?? '';
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? 0);
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
    if (path === undefined || !identity) continue;
    // A child shows its parent's arguments until it runs a program of its own: the parent is the one that counts.
    const other = found.get(path);
    if (other === undefined || parentOf(other.pid) === pid) found.set(path, identity);
  }
  return found;
}

/**
 * Who listens on a TCP port of this machine: its process when it can be told. Null: nobody listens. The process it
 * probably is gets looked at first: looking at all takes a while.
 */
export function listenerOf(port: number, probably: number | null = null): Holder | null {
  // Who listens on IPv4 is who answers on 127.0.0.1; one that serves both is in the other table alone.
  const inodes = new Set(inodesOf(port, listening4()));
  if (inodes.size === 0) for (const inode of inodesOf(port, listening6())) inodes.add(inode);
  return inodes.size === 0 ? null : holderOf(inodes, probably);
}

interface Holder {
  readonly pid: number | null;
  readonly command: string;
}

function holderOf(inodes: ReadonlySet<string>, probably: number | null): Holder {
  const known = probably !== null && holdsSocket(probably, inodes);
  for (const pid of known ? [probably] : pids()) {
    if (holdsSocket(pid, inodes)) return { pid, command: commandLine(pid).join(' ') };
  }
  return { pid: null, command: '' };
}

/** A process of which a port is expected: it has it, nobody has, or somebody else, in words. */
export type Listener = { readonly kind: 'own' | 'nobody' } | { readonly kind: 'other'; readonly by: string };

/**
 * Whether this very process listens on the port. A process keeps its listener as long as it lives, so one that listened
 * before a connection and listens after the answer has given it. What cannot be told counts as its own: where there is no
 * table of sockets, and where neither its own files nor the listener's may be read.
 */
export function listenerFor(port: number, own: number | null): Listener {
  if (!existsSync(TABLE4)) return { kind: 'own' };
  const listener = listenerOf(port, own);
  if (listener === null) return { kind: 'nobody' };
  if (listener.pid !== null && listener.pid === own) return { kind: 'own' };
  if (listener.pid === null && own !== null && !mayLookInto(own)) return { kind: 'own' };
  return { kind: 'other', by: inWords(listener) };
}

/** Who keeps others from opening the port, in words: who listens there, else who has a connection from it. Null: nobody. */
export function portHolder(port: number): string | null {
  const listener = listenerOf(port);
  if (listener !== null) return inWords(listener);
  const inodes = new Set(inodesOf(port, [...socketsIn(TABLE4), ...socketsIn(TABLE6)].filter(holdsPort)));
  return inodes.size === 0 ? null : `a connection of ${inWords(holderOf(inodes, null))}`;
}

const inWords = ({ pid, command }: Holder): string =>
  pid === null ? 'another process' : `process ${pid} (${command.split(' ')[0] ?? ''})`;

const mayLookInto = (pid: number): boolean => filesOf(pid).length > 0;

/** All TCP ports of this machine that cannot be opened just now: somebody listens there, or has a connection from there. */
export const portsInUse = (): ReadonlySet<number> =>
  new Set([...socketsIn(TABLE4), ...socketsIn(TABLE6)].filter(holdsPort).map(({ port }) => port));

/** A line of a socket: local address and port, peer, state, …, inode. */
const SOCKET =
  /^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) \S+ \S+ \S+ +\d+ +\d+ (\d+)/gm;
const LISTEN = '0A';
/** What is left of a connection that was closed; it keeps nobody from listening. */
const TIME_WAIT = '06';
const TABLE4 = '/proc/net/tcp';
const TABLE6 = '/proc/net/tcp6';

interface Socket {
  readonly port: number;
  readonly state: string;
  readonly inode: string;
}
const holdsPort = ({ state }: Socket): boolean => state !== TIME_WAIT;
const inodesOf = (port: number, all: readonly Socket[]): readonly string[] =>
  all.flatMap((socket) => (socket.port === port ? [socket.inode] : []));
const listening4 = (): readonly Socket[] => listeningIn(TABLE4);

/** Seldom anything is in this table, and the kernel looks through all buckets to say so: one look serves for a second. */
let seen6: { readonly at: number; readonly sockets: readonly Socket[] } | null = null;
function listening6(): readonly Socket[] {
  const now = performance.now();
  if (seen6 === null || now - seen6.at >= SECOND) seen6 = { at: now, sockets: listeningIn(TABLE6) };
  return seen6.sockets;
}

/** The kernel lists those that listen first. Behind them come all connections of the machine, which may be very many. */
function listeningIn(table: string): readonly Socket[] {
  let text = '';
  try {
    const file = openSync(table, 'r');
    try {
      const chunk = Buffer.alloc(CHUNK);
      for (let read = 1; read > 0 && !/ (?!0A)[0-9A-F]{2} [0-9A-F]{8}:[0-9A-F]{8} /.test(text); ) {
        read = readSync(file, chunk, 0, CHUNK, null);
        text += chunk.toString('latin1', 0, read);
      }
    } finally {
      closeSync(file);
    }
  } catch {
    return [];
  }
  return socketsOf(text).filter(({ state }) => state === LISTEN);
}

const socketsIn = (table: string): readonly Socket[] => socketsOf(read(table) ?? '');

const socketsOf = (text: string): readonly Socket[] =>
  [...text.matchAll(SOCKET)].map(([, port, state, inode]) => ({
    port: Number.parseInt(port as string, 16),
    state: state as string,
    inode: inode as string,
  }));

const CHUNK = 4096;

function holdsSocket(pid: number, inodes: ReadonlySet<string>): boolean {
  return filesOf(pid).some((fd) => {
    const target = /^socket:\[(\d+)\]$/.exec(targetOf(pid, fd));
    return target?.[1] !== undefined && inodes.has(target[1]);
  });
}

/** Numbers of a process's open files; none when it is gone or not ours to look into. */
function filesOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`);
  } catch {
    return [];
  }
}

/** A busy server closes files while they are looked through: that says nothing of the others. */
function targetOf(pid: number, fd: string): string {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`);
  } catch {
    return '';
  }
}
