/** The fleet as it follows documents, hosts and the age of pushed health. */
import { expect, test } from 'vitest';
import type { ObjectChanged } from '../engine/informer.ts';
import type { AgentChange, StoredObject } from '../engine/ports.ts';
import { InformerFleet } from './source.ts';

const object = (
  kind: string,
  name: string,
  spec: object,
  status: object | null = null,
  namespace = 'default',
) =>
  ({
    kind,
    spec,
    status,
    metadata: { name, namespace, uid: `${kind}-${name}`, generation: 1 },
  }) as unknown as StoredObject;
const database = (name: string, hosts: readonly string[], namespace = 'default'): StoredObject => {
  const members = hosts.map((hostName, i) => ({
    name: `${name}-${i}`,
    role: 'replica',
    replicaSet: name,
    hostName,
    health: 'healthy',
    stage: 'active',
  }));
  return object('MongoDB', name, { maintenance: {} }, { members }, namespace);
};
const topology = (name: string, observedAt: number | null = null, healthMaxAge = '1m'): StoredObject => {
  const health = {
    observedAt: new Date(observedAt ?? 0).toISOString(),
    nodes: [{ id: 1, state: 'Down' }],
    disks: [],
    vdisks: [],
  };
  const spec = {
    healthMaxAge,
    nodes: [{ id: 1, host: 'y1', disks: [], location: {}, state: 'Up' }],
    storageGroups: [],
    systemTabletNodes: [],
    limits: { cluster: { nodes: 0, percent: 0 }, tenant: { nodes: 0, percent: 0 } },
  };
  return object('Topology', name, spec, observedAt === null ? null : { health });
};

function stage(...first: readonly StoredObject[]) {
  const objects = new Map(first.map((o) => [o.metadata.uid, o]));
  const changes = new Set<(change: ObjectChanged) => void>();
  const agentChanges = new Set<(change: AgentChange) => void>();
  const connected = new Map<string, boolean>();
  const all = (kind: string) => [...objects.values()].filter((o) => o.kind === kind);
  const on =
    <T>(set: Set<(change: T) => void>) =>
    (listener: (change: T) => void) => {
      set.add(listener);
      return () => void set.delete(listener);
    };
  const report = (host: string) => (connected.has(host) ? { connected: connected.get(host) } : null);
  const fleet = new InformerFleet(
    { all, onChange: on(changes) },
    { host: report as never, onChange: on(agentChanges) },
  );
  let told = 0;
  const stop = fleet.onChange(() => told++);
  const put = (after: StoredObject): void => {
    const before = objects.get(after.metadata.uid) ?? null;
    objects.set(after.metadata.uid, after);
    for (const listener of changes) listener({ before, after });
  };
  const drop = (before: StoredObject): void => {
    objects.delete(before.metadata.uid);
    for (const listener of changes) listener({ before, after: null });
  };
  const connect = (host: string, up: boolean): void => {
    connected.set(host, up);
    for (const listener of agentChanges) listener({ kind: 'host', host });
  };
  const say = (change: AgentChange): void => {
    for (const listener of agentChanges) listener(change);
  };
  const toldNow = (): number => told;
  const listeners = () => [changes.size, agentChanges.size];
  return { fleet, put, drop, connect, say, stop, toldNow, listeners };
}
const stateOf = (fleet: InformerFleet, part: string, now = 0) => fleet.parts(now).get(part)?.nodes[0]?.state;

test('C6.3 the fleet is made of topologies, databases by their namespace, and hosts; a part that stays is the same object', () => {
  const { fleet, put, drop, toldNow } = stage(topology('y'), database('a', ['h0']), object('Host', 'h0', {}));
  const first = fleet.parts(0);
  expect([...first.keys()].sort()).toEqual(['hosts', 'mongodb/default/a', 'topology/y']);
  expect(first.get('hosts')).toEqual({ nodes: [], hosts: ['h0'] });
  expect(fleet.parts(0)).toBe(first);
  put(database('b', ['h1'], 'other'));
  put(object('Host', 'h1', {}));
  put(object('MongoDBUser', 'u', {}));
  expect(toldNow()).toBe(2);
  const second = fleet.parts(0);
  expect(second.get('mongodb/other/b')?.nodes.map((n) => [n.key, n.host])).toEqual([['other/b-0', 'h1']]);
  expect(second.get('hosts')?.hosts).toEqual(['h0', 'h1']);
  expect(second.get('mongodb/default/a')).toBe(first.get('mongodb/default/a'));
  expect(first.has('mongodb/other/b'), 'what was given before stays as it was').toBe(false);
  drop(database('a', ['h0']));
  drop(topology('y'));
  expect([...fleet.parts(0).keys()].sort()).toEqual(['hosts', 'mongodb/other/b']);
});

test('C5.3 behind a host that is not heard nothing is known, and again when it is; of one nobody here has heard of the status is believed', () => {
  const { fleet, connect, say, toldNow } = stage(
    database('a', ['h0']),
    database('b', ['h0', 'h1']),
    database('c', ['h2']),
  );
  expect(stateOf(fleet, 'mongodb/default/a')).toBe('up');
  const c = fleet.parts(0).get('mongodb/default/c');
  connect('h0', false);
  expect(toldNow()).toBe(2);
  expect([stateOf(fleet, 'mongodb/default/a'), stateOf(fleet, 'mongodb/default/b')]).toEqual([
    'unknown',
    'unknown',
  ]);
  expect(fleet.parts(0).get('mongodb/default/b')?.nodes[1]?.state).toBe('up');
  expect(fleet.parts(0).get('mongodb/default/c')).toBe(c);
  connect('h0', true);
  expect(stateOf(fleet, 'mongodb/default/a')).toBe('up');
  const before = toldNow();
  connect('h9', false);
  say({ kind: 'member', host: 'h0', serviceId: 's', clusterUid: null });
  expect(toldNow()).toBe(before);
});

test('C5.3 C6.3 pushed health is believed until it is too old, from then on nothing is known, until it is pushed again', () => {
  const { fleet, put, drop } = stage(topology('y', 0), topology('z', 0, '0s'));
  expect(stateOf(fleet, 'topology/y', 59_999)).toBe('down');
  const fresh = fleet.parts(59_999);
  expect(fleet.parts(59_999)).toBe(fresh);
  expect(stateOf(fleet, 'topology/y', 60_000)).toBe('unknown');
  expect(stateOf(fleet, 'topology/z', 60_000)).toBe('down');
  const old = fleet.parts(60_000);
  expect(fleet.parts(90_000), 'nothing is made anew for what stays unknown').toBe(old);
  put(topology('y', 90_000));
  expect(stateOf(fleet, 'topology/y', 90_000)).toBe('down');
  drop(topology('y', 90_000));
  expect(fleet.parts(200_000).has('topology/y')).toBe(false);
  put(topology('w'));
  expect(stateOf(fleet, 'topology/w', 200_000), 'nothing was pushed: the document is believed').toBe('up');
});

test('C6.3 closed, it hears nothing any more', () => {
  const { fleet, put, stop, toldNow, listeners } = stage();
  fleet.parts(0);
  expect(listeners()).toEqual([1, 1]);
  stop();
  put(database('a', ['h0']));
  expect(toldNow()).toBe(0);
  fleet.close();
  expect(listeners()).toEqual([0, 0]);
});
