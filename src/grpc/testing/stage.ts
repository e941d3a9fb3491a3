/** A played YDB cluster behind a real endpoint on a socket: authority, store in memory, a clock that moves when told. */
import { Authority } from '../../authority/index.ts';
import { PlayedFleet, quiet } from '../../authority/testing/played.ts';
import { BelayError } from '../../base/error.ts';
import { ManualClock } from '../../engine/testing/clock.ts';
import { flagsOf } from '../../maintenance/cases/deskDriver.ts';
import { START, type World } from '../../maintenance/cases/scenario.ts';
import { BETTER, type Compat, type FleetSpec } from '../../maintenance/index.ts';
import { openMemoryStore } from '../../store/memory.ts';
import { serveMaintenance } from '../index.ts';
import { MaintenanceClient } from './client.ts';

/** Name of the topology the played cluster is. */
export const TOPOLOGY = 'played';
const tokenOf = (user: string): string => `belay_api_token_of_${user}`;

export interface Stage {
  readonly authority: Authority;
  readonly clock: ManualClock;
  readonly port: number;
  client(user: string): MaintenanceClient;
  /** The world has changed. */
  follow(): void;
  reachable(yes: boolean): void;
  close(): Promise<void>;
}

/** Keys of nodes as a topology has them: by number. */
export function asTopology(spec: FleetSpec): FleetSpec {
  const key = (index: string): string => `${TOPOLOGY}/${Number(index) + 1}`;
  return {
    nodes: spec.nodes.map((n) => ({ ...n, key: key(n.key), cluster: TOPOLOGY })),
    groups:
      spec.groups?.map((g) => ({ ...g, vdisks: g.vdisks.map((v) => ({ ...v, node: key(v.node) })) })) ?? [],
    stateStorages:
      spec.stateStorages?.map((s) => ({ ...s, rings: s.rings.map((ring) => ring.map(key)) })) ?? [],
    limits: spec.limits?.map((l) => ({ ...l, nodes: l.nodes.map(key) })) ?? [],
  };
}

/** `others`: further parts of the fleet, topologies where `true` stands beside them. */
export async function openStage(
  world: World,
  compat: Compat = BETTER,
  others: Readonly<Record<string, readonly [part: FleetSpec, isTopology: boolean]>> = {},
): Promise<Stage> {
  const clock = new ManualClock(START);
  const store = openMemoryStore({ clock });
  const source = new PlayedFleet({
    [TOPOLOGY]: asTopology(world.spec()),
    ...Object.fromEntries(Object.entries(others).map(([name, [part]]) => [name, part])),
  });
  const locksPriority = world.flags['locks_priority'] === true;
  const authority = new Authority({ store, clock, log: quiet, source, desk: { compat, locksPriority } });
  await authority.open();
  const tasks = { ...flagsOf(world), tabletsReachable: true };
  const endpoint = await serveMaintenance({
    authority,
    authenticate: async (token) => {
      const name = /^belay_api_token_of_(.+)$/.exec(token)?.[1];
      if (name === undefined)
        throw new BelayError('TokenUnknown', 'this token is not known', { retry: 'never' });
      return { name, role: name === 'viewer' ? 'viewer' : 'operator' };
    },
    // A cluster of nothing is none.
    topologies: () =>
      [
        ...(world.spec().nodes.length === 0 ? [] : [TOPOLOGY]),
        ...Object.keys(others).filter((name) => others[name]?.[1] === true),
      ].sort(),
    log: quiet,
    compat,
    tasks,
    host: '127.0.0.1',
    port: 0,
  });
  const clients: MaintenanceClient[] = [];
  return {
    authority,
    clock,
    port: endpoint.port,
    client: (user) => {
      const client = new MaintenanceClient(endpoint.port, user === '' ? '' : tokenOf(user));
      clients.push(client);
      return client;
    },
    follow: () => source.set(TOPOLOGY, asTopology(world.spec())),
    reachable: (yes) => {
      tasks.tabletsReachable = yes;
    },
    close: async () => {
      for (const client of clients) client.close();
      await endpoint.close();
      await authority.close();
      await store.close();
    },
  };
}
