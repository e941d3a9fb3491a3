/** What a Topology document and pushed health make of the fleet (C6.3). */
import { expect, test } from 'vitest';
import type { Topology } from '../model/index.ts';
import { joinFleets, topologyFleet } from './topology.ts';

type Spec = Topology['spec'];
type Status = Topology['status'];

const node = (id: number, more: object = {}) => ({ id, host: `h${id}`, disks: [], location: {}, ...more });
const spec = (more: object = {}): Spec =>
  ({
    healthMaxAge: '1m',
    nodes: [node(1), node(2)],
    storageGroups: [],
    systemTabletNodes: [],
    limits: { cluster: { nodes: 3, percent: 13 }, tenant: { nodes: 2, percent: 20 } },
    ...more,
  }) as unknown as Spec;
const health = (observedAt: number | null, more: object = {}): Status =>
  ({
    health: {
      ...(observedAt === null ? {} : { observedAt: new Date(observedAt).toISOString() }),
      nodes: [],
      disks: [],
      vdisks: [],
      ...more,
    },
  }) as unknown as Status;

test('C5.3 a node is what was pushed, else what its document says, else unknown; all of it is unknown once it is too old', () => {
  const document = spec({
    nodes: [node(1, { state: 'Up' }), node(2, { state: 'Up' }), node(3), node(4, { state: 'Down' })],
  });
  const pushed = health(0, {
    nodes: [
      { id: 1, state: 'Down' },
      { id: 4, state: 'Up' },
    ],
  });
  const at = (now: number) => topologyFleet('y', document, pushed, now).nodes.map((n) => n.state);
  expect(at(59_999)).toEqual(['down', 'up', 'unknown', 'up']);
  expect(at(60_000)).toEqual(['unknown', 'unknown', 'unknown', 'unknown']);
  expect(topologyFleet('y', document, null, 60_000).nodes.map((n) => n.state)).toEqual([
    'up',
    'up',
    'unknown',
    'down',
  ]);
});

test('C6.3 a node has its key, host, kind, start, version and disks; what was pushed is newer than the document', () => {
  const startedAt = '2026-01-01T00:00:00Z';
  const document = spec({
    nodes: [
      node(1, {
        startedAt,
        version: '1',
        tenant: '/t',
        port: 5,
        disks: [{ id: 1, path: '/a', state: 'Normal' }],
      }),
      node(2, {
        version: '1',
        disks: [
          { id: 1, state: 'Normal' },
          { id: 2, state: 'Faulty' },
          { id: 3, state: 'Faulty' },
        ],
      }),
    ],
  });
  const pushed = health(0, {
    nodes: [{ id: 2, state: 'Up', version: '2', startedAt: '2026-01-02T00:00:00Z' }],
    disks: [
      { node: 2, disk: 1, state: 'Faulty' },
      { node: 2, disk: 3, state: 'Normal' },
      { node: 1, disk: 3, state: 'Faulty' },
    ],
  });
  const [one, two] = topologyFleet('y', document, pushed, 0).nodes;
  expect(one).toMatchObject({
    name: 'node 1 of y',
    id: 1,
    host: 'h1',
    kind: 'dynamic',
    cluster: 'y',
    tenant: '/t',
    port: 5,
    version: '1',
    startedAt: Date.parse(startedAt),
    disks: [{ id: 1, path: '/a', ok: true }],
  });
  expect(two).toMatchObject({ kind: 'storage', version: '2', startedAt: Date.parse('2026-01-02T00:00:00Z') });
  expect(two?.disks).toEqual([
    { id: 1, ok: false },
    { id: 2, ok: false },
    { id: 3, ok: true },
  ]);
  expect(two).not.toHaveProperty('tenant');
  expect(two).not.toHaveProperty('port');
  expect(topologyFleet('y', spec(), null, 0).nodes[0]).toMatchObject({ startedAt: null });
});

test('C2.1 C5.3 a virtual disk is well when it says so, or nobody says anything; what was pushed counts for its group and node only', () => {
  const vdisks = [
    { node: 1, disk: 1 },
    { node: 2, disk: 1, state: 'Bad', realm: 2 },
  ];
  const groups = [
    { id: 7, erasure: 'none', vdisks },
    { id: 8, erasure: 'none', vdisks },
  ];
  const pushed = health(0, {
    vdisks: [
      { group: 7, node: 1, state: 'Bad' },
      { group: 7, node: 2, state: 'Ok' },
    ],
  });
  const ok = topologyFleet('y', spec({ storageGroups: groups }), pushed, 0).groups?.map((g) =>
    g.vdisks.map((v) => [v.realm, v.ok]),
  );
  expect(ok).toEqual([
    [
      [0, false],
      [2, true],
    ],
    [
      [0, true],
      [2, false],
    ],
  ]);
});

test('C2.1 C4.1 C4.2 each pile has rings and limits of its own; tenants and system tablets have theirs', () => {
  const document = spec({
    nodes: [
      node(1, { pile: 'p' }),
      node(2, { pile: 'q', tenant: '/a' }),
      node(3, { pile: 'p', tenant: '/a' }),
      node(4, { pile: 'q', tenant: '/b' }),
    ],
    stateStorage: { nToSelect: 3, rings: [[1], [2], [3], [4]], disabledRings: [2, 1] },
    systemTabletNodes: [1, 4],
  });
  const { stateStorages, limits, nodes } = topologyFleet('y', document, null, 0);
  const key = (id: number): string => nodes[id - 1]?.key ?? '';
  expect(stateStorages).toEqual([
    { cluster: 'y', nToSelect: 3, rings: [[key(1)], [key(3)]], disabled: [1] },
    { cluster: 'y', nToSelect: 3, rings: [[key(2)], [key(4)]], disabled: [0] },
  ]);
  expect(limits?.map((l) => [l.kind, l.name, l.nodes, l.nodesLimit, l.percentLimit])).toEqual([
    ['cluster', 'y pile p', [key(1), key(3)], 3, 13],
    ['cluster', 'y pile q', [key(2), key(4)], 3, 13],
    ['tenant', '/a', [key(2), key(3)], 2, 20],
    ['tenant', '/b', [key(4)], 2, 20],
    ['tablets', 'y', [key(1), key(4)], 0, 0],
  ]);
  const plain = topologyFleet('y', spec(), null, 0);
  expect([plain.stateStorages, plain.limits?.map((l) => l.name)]).toEqual([[], ['y']]);
  const empty = spec({
    nodes: [node(1), node(2, { pile: 'q' })],
    stateStorage: { nToSelect: 1, rings: [[1]], disabledRings: [] },
  });
  expect(topologyFleet('y', empty, null, 0).stateStorages).toHaveLength(1);
});

test('C6.3 parts are one fleet: nothing of any is lost', () => {
  const part = (n: number) => ({
    ...topologyFleet(`y${n}`, spec(), null, 0),
    groups: [{ id: n, erasure: 'none' as const, vdisks: [] }],
    stateStorages: [{ nToSelect: n, rings: [], disabled: [] }],
    replicaSets: [
      { key: `s${n}`, role: 'replicaSet' as const, members: [], writeConcern: 1, interruption: false },
    ],
    hosts: [`x${n}`],
  });
  const joined = joinFleets([part(1), { nodes: [] }, part(2)]);
  const counts = Object.fromEntries(Object.entries(joined).map(([name, list]) => [name, list.length]));
  expect(counts).toEqual({ nodes: 4, groups: 2, stateStorages: 2, limits: 2, replicaSets: 2, hosts: 2 });
});
