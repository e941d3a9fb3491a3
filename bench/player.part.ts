/**
 * The agents of a played fleet in one process: the real client end of the channel for every host, with members that are
 * always well. It tells its parent of every command that arrives, and reports members anew, unchanged, when asked to.
 */
import { readFileSync } from 'node:fs';
import {
  type AgentConnection,
  type AgentState,
  connectAgent,
  FenceGate,
  type MemberItem,
} from '../src/channel/index.ts';
import type { Log } from '../src/engine/ports.ts';
import { systemClock } from '../src/server/clock.ts';
import { clusterSpec, desiredOf, type FleetFile, hostName, hostOf, itemsOf, recordOf } from './fleet.part.ts';

export type ToPlayer = { readonly t: 'report'; readonly perSecond: number };
export type FromPlayer =
  | { readonly t: 'connected'; readonly hosts: number }
  | { readonly t: 'run'; readonly serviceId: string; readonly kind: string; readonly at: number };

/** Reports are sent in so many portions a second. */
const PORTIONS = 20;

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
/** Comparable between processes of one machine. */
const now = (): number => performance.timeOrigin + performance.now();
const tell = (message: FromPlayer): void => void process.send?.(message);

function main(file: string): void {
  const fleet = JSON.parse(readFileSync(file, 'utf8')) as FleetFile;
  const members = membersByHost(fleet);
  const connected = new Set<number>();
  const connections = members.map((own, host) =>
    connect(fleet, host, own, () => {
      connected.add(host);
      if (connected.size === fleet.size.hosts) tell({ t: 'connected', hosts: connected.size });
    }),
  );
  const all = members.flatMap((own, host) => [...own.keys()].map((serviceId) => ({ serviceId, host })));
  let stop = (): void => {};
  process.on('message', ({ perSecond }: ToPlayer) => {
    stop();
    stop = perSecond === 0 ? () => {} : report(connections, all, perSecond);
  });
  process.on('disconnect', () => process.exit());
}

function membersByHost(fleet: FleetFile): readonly Map<string, MemberItem>[] {
  const hosts = Array.from({ length: fleet.size.hosts }, () => new Map<string, MemberItem>());
  const spec = clusterSpec();
  fleet.uids.forEach((uid, cluster) => {
    const want = desiredOf(uid, cluster, spec);
    itemsOf(recordOf(fleet.size, cluster, want), want).forEach((item, i) => {
      hosts[hostOf(fleet.size, cluster, i)]?.set(item.facts.serviceId, item);
    });
  });
  return hosts;
}

function connect(
  fleet: FleetFile,
  host: number,
  members: ReadonlyMap<string, MemberItem>,
  onConnected: () => void,
): AgentConnection {
  const { url, caPem, keyPem } = fleet;
  const certificatePem = fleet.certificates[host] as string;
  return connectAgent({
    urls: [url],
    identity: () => ({ host: hostName(host), keyPem, certificatePem, caPem }),
    handlers: {
      publish: async () => {},
      run: async (serviceId, { kind }) => {
        tell({ t: 'run', serviceId, kind, at: now() });
        return { kind: 'done', result: {} };
      },
      startOperation: async () => {},
      operation: () => ({ kind: 'unknown' }),
      services: () => [],
      renewIdentity: async () => {},
    },
    state: stateOf(fleet, host, members),
    fences: new FenceGate({ load: () => ({}), save: () => {} }),
    clock: systemClock,
    log: quiet,
    onConnected,
  });
}

function stateOf(fleet: FleetFile, host: number, members: ReadonlyMap<string, MemberItem>): AgentState {
  return {
    host: () => ({
      name: hostName(host),
      address: `${hostName(host)}.example.com`,
      agentVersion: '0.1.0',
      os: 'linux',
      cpus: 8,
      memoryBytes: 32e9,
      diskTotalBytes: 1e12,
      diskFreeBytes: 5e11,
      fingerprint: hostName(host),
      executables: { mongod: [fleet.version] },
      labels: {},
    }),
    members: () => [...members.values()],
    member: (serviceId) => members.get(serviceId) ?? null,
  };
}

/** Reports members in turn at this pace; nothing about them is new. */
function report(
  connections: readonly AgentConnection[],
  all: readonly { readonly serviceId: string; readonly host: number }[],
  perSecond: number,
): () => void {
  let next = 0;
  let owed = 0;
  const timer = setInterval(() => {
    for (owed += perSecond / PORTIONS; owed >= 1; owed--) {
      const { serviceId, host } = all[next++ % all.length] as (typeof all)[number];
      connections[host]?.memberChanged(serviceId);
    }
  }, 1_000 / PORTIONS);
  return () => clearInterval(timer);
}

main(process.argv[2] as string);
