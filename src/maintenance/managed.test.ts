import { expect, test } from 'vitest';
import type { MemberStatus, MongoDBSpec, MongoDBStatus } from '../model/index.ts';
import { managedFleet } from './managed.ts';

const member = (index: number, more: Partial<MemberStatus>): MemberStatus => ({
  name: `orders-${index}`,
  index,
  role: 'replica',
  replicaSet: 'orders',
  hostName: `h${index}`,
  health: 'healthy',
  stage: 'active',
  ...more,
});

function votesOf(members: readonly MemberStatus[]): readonly number[] {
  const spec = { maintenance: {} } as unknown as MongoDBSpec;
  const status = { members } as unknown as MongoDBStatus;
  const fleet = managedFleet({ namespace: 'default', name: 'orders', spec, status }, () => true);
  return (fleet.replicaSets?.[0]?.members ?? []).map(({ votes }) => votes);
}

test('C5.3 S13 a member nobody reports keeps the vote it had: it is no member that may go for nothing', () => {
  const unknown = { health: 'unknown' } as const;
  expect(votesOf([member(0, unknown), member(1, { votes: 1 }), member(2, unknown)])).toEqual([1, 1, 1]);
  expect(votesOf([member(0, unknown), member(1, unknown), member(2, unknown)])).toEqual([1, 1, 1]);
});

test('C2.5 who joins has no vote yet, and a configuration that gives none is believed', () => {
  expect(
    votesOf([member(0, { votes: 1 }), member(1, { stage: 'syncing' }), member(2, { votes: 0 })]),
  ).toEqual([1, 0, 0]);
});

const fleetOf = (
  members: readonly MemberStatus[],
  spec: object = {},
  up: (host: string) => boolean = () => true,
) =>
  managedFleet(
    {
      namespace: 'default',
      name: 'orders',
      spec: { maintenance: {}, ...spec } as unknown as MongoDBSpec,
      status: { members } as unknown as MongoDBStatus,
    },
    up,
  );

test('C6.3 C5.3 who holds no data yet, or sleeps, is in no fleet; behind a host that is not heard nothing is known', () => {
  const { hostName: _, ...homeless } = member(9, {});
  const { nodes } = fleetOf(
    [
      member(0, {}),
      member(1, { health: 'unhealthy', state: 'RECOVERING', version: '8.0', port: 1, message: 'm' }),
      member(2, { health: 'unknown' }),
      member(3, {}),
      member(4, { stage: 'planned' }),
      member(5, { stage: 'suspended' }),
      homeless,
    ],
    {},
    (host) => host !== 'h3',
  );
  expect(nodes.map((n) => [n.key, n.host, n.state])).toEqual([
    ['default/orders-0', 'h0', 'up'],
    ['default/orders-1', 'h1', 'down'],
    ['default/orders-2', 'h2', 'unknown'],
    ['default/orders-3', 'h3', 'unknown'],
  ]);
  expect(nodes[1]).toMatchObject({ role: 'RECOVERING', version: '8.0', port: 1, note: 'm', kind: 'member' });
  expect(
    managedFleet({ namespace: 'd', name: 'o', spec: {} as MongoDBSpec, status: null }, () => true),
  ).toEqual({
    nodes: [],
    replicaSets: [],
    limits: [],
  });
});

test('C6.2 C6.4 a member’s process was started when its status says so, and never where it says nothing', () => {
  const { nodes } = fleetOf([member(0, { startedAt: '2026-01-01T00:00:00Z' }), member(1, {})]);
  expect(nodes.map((n) => n.startedAt)).toEqual([Date.parse('2026-01-01T00:00:00Z'), null]);
});

test('C2.5 MNT-23 a set is what its document and its configuration say: interruption, pause, priorities, arbiters', () => {
  const set = (spec: object) =>
    fleetOf([member(0, { priority: 0 }), member(1, { state: 'ARBITER' })], spec).replicaSets?.[0];
  expect(set({})).toMatchObject({ key: 'default/orders', role: 'replicaSet', interruption: false });
  expect(set({})).not.toHaveProperty('paused');
  expect(set({ paused: true, maintenance: { interruption: 'Allowed' } })).toMatchObject({
    interruption: true,
    paused: true,
  });
  expect(set({})?.members.map((m) => [m.node, m.priority, m.data])).toEqual([
    ['default/orders-0', 0, true],
    ['default/orders-1', 1, false],
  ]);
});

test('C2.5 the config servers stand behind every shard, and routers are limited by share instead', () => {
  const part = (name: string, role: MemberStatus['role'], replicaSet?: string): MemberStatus => {
    const { replicaSet: _, ...rest } = member(0, { name, role });
    return replicaSet === undefined ? rest : { ...rest, replicaSet };
  };
  const { replicaSets, limits, nodes } = fleetOf([
    part('s0-0', 'shard', 's0'),
    part('c-0', 'config', 'cfg'),
    part('s1-0', 'shard', 's1'),
    part('r-0', 'router'),
    part('r-1', 'router'),
  ]);
  expect(replicaSets?.map((r) => [r.key, r.role, r.configSet])).toEqual([
    ['default/s0', 'shard', 'default/cfg'],
    ['default/cfg', 'config', undefined],
    ['default/s1', 'shard', 'default/cfg'],
  ]);
  expect(limits).toEqual([
    {
      kind: 'routers',
      name: 'default/orders',
      nodes: ['default/r-0', 'default/r-1'],
      nodesLimit: 0,
      percentLimit: 13,
    },
  ]);
  expect(nodes.map((n) => n.kind)).toEqual(['member', 'member', 'member', 'router', 'router']);
});

test('C5.3 S13 one that is being given its vote counts as a voter and is not counted on', () => {
  const members = [member(0, { votes: 1 }), member(1, { stage: 'syncing', votes: 0, voteSent: true })];
  expect(votesOf(members)).toEqual([1, 1]);
  expect(fleetOf(members).nodes.map(({ state }) => state)).toEqual(['up', 'unknown']);
});
