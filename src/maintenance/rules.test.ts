import { expect, test } from 'vitest';
import { Desk } from './desk.ts';
import { Fleet } from './fleet.ts';
import type { Erasure, FleetSpec, LimitSetSpec, NodeSpec, NodeState } from './fleetSpec.ts';
import type { Action, Mode } from './types.ts';

const node = (n: number, state: NodeState = 'up', kind: NodeSpec['kind'] = 'storage'): NodeSpec => ({
  key: `${n}`,
  name: `node ${n}`,
  host: `h${n}`,
  kind,
  state,
  startedAt: null,
  cluster: 'c',
  disks: kind === 'storage' ? [{ id: 0, ok: true }] : [],
});

/** Nodes in one storage group, three to a data centre. */
function group(erasure: Erasure, count: number, down: readonly number[] = []): FleetSpec {
  const nodes = Array.from({ length: count }, (_, n) => node(n, down.includes(n) ? 'down' : 'up'));
  const vdisks = nodes.map((n, i) => ({ node: n.key, disk: 0, realm: Math.floor(i / 3), ok: true }));
  return { nodes, groups: [{ id: 1, erasure, vdisks }] };
}

/** Takes nodes one after the other, each for another task; gives what became of each. */
function take(spec: FleetSpec, nodes: readonly number[], mode: Mode): readonly string[] {
  const desk = new Desk(new Fleet(spec));
  return nodes.map((n) => {
    const scope = { kind: 'node' as const, node: `${n}` };
    const actions = [{ action: { type: 'lock' as const, scope, duration: null }, at: [0, 0] as const }];
    const answer = desk.request({ owner: 'u', mode, partial: true, schedule: false, actions }, 0);
    return answer.granted.length > 0 ? 'granted' : (answer.refusal?.reason ?? '');
  });
}

const VDISKS = 'TooManyUnavailableVDisks';
const RINGS = 'TooManyUnavailableStateStorageRings';

test('C2.1 strong: one virtual disk of a group, whatever the erasure; a disk that is down counts', () => {
  for (const erasure of ['block-4-2', 'mirror-3-dc', 'mirror-3of4'] as const)
    expect(take(group(erasure, 9), [0, 1], 'strong')).toEqual(['granted', VDISKS]);
  expect(take(group('block-4-2', 8, [3]), [0, 3], 'strong')).toEqual([VDISKS, 'granted']);
});

test('C2.2 weak: two of block-4-2; of mirror-3-dc one data centre and one disk of another', () => {
  expect(take(group('block-4-2', 8), [0, 1, 2], 'weak')).toEqual(['granted', 'granted', VDISKS]);
  const ok = 'granted';
  expect(take(group('mirror-3-dc', 9), [0, 1, 2, 3, 4, 6], 'weak')).toEqual([ok, ok, ok, ok, VDISKS, VDISKS]);
  expect(take(group('mirror-3-dc', 9), [0, 3, 6], 'weak')).toEqual([ok, ok, VDISKS]);
  expect(take(group('mirror-3-dc', 9), [0, 1, 3, 4, 5], 'weak')).toEqual([ok, ok, ok, VDISKS, VDISKS]);
});

test('C1.2 C2.2 MNT-06 of three nodes with three disks of a group each, a refusal names the disks, once for each reason', () => {
  const nodes = [0, 1, 2].map((n) => ({ ...node(n), disks: [1, 2, 3].map((id) => ({ id, ok: true })) }));
  const vdisks = nodes.flatMap((n, realm) =>
    n.disks.map(({ id }) => ({ node: n.key, disk: id, realm, ok: n.key !== '2' || id !== 2 })),
  );
  const desk = new Desk(new Fleet({ nodes, groups: [{ id: 1, erasure: 'mirror-3-dc', vdisks }] }));
  const ask = (scope: Action['scope'], mode: Mode) =>
    desk.request(
      {
        uid: `t-${JSON.stringify(scope).replaceAll('"', '')}`,
        owner: 'u',
        mode,
        partial: true,
        schedule: false,
        actions: [{ action: { type: 'lock', scope, duration: null }, at: [0, 0] }],
      },
      0,
    );
  expect(ask({ kind: 'node', node: '0' }, 'weak').granted).toHaveLength(1);
  const [refused, disk] = [
    ask({ kind: 'node', node: '1' }, 'weak').refusal?.message,
    ask({ kind: 'disks', disks: [{ kind: 'id', node: '0', disk: 2 }] }, 'weak').refusal?.message,
  ];
  expect(refused).toMatch(
    /out: disks 1, 2, 3 of node 0 \(locked by u-p-1 of task \S+ \(owner u\) until \S+Z\), disk 2 of node 2 \(its virtual disk is not Ok\)$/,
  );
  expect(disk).toContain('Cannot lock node 0');
});

test('C2.1 C2.2 rings: one in strong, (nToSelect − 1)/2 in weak; replicas of a ring that is out already cost nothing', () => {
  const nodes = Array.from({ length: 10 }, (_, n) => node(n, 'up', 'dynamic'));
  const rings = [0, 1, 2, 3, 4].map((r) => [`${2 * r}`, `${2 * r + 1}`]);
  const spec = { nodes, stateStorages: [{ nToSelect: 5, rings, disabled: [] }] };
  expect(take(spec, [0, 1, 2], 'strong')).toEqual(['granted', 'granted', RINGS]);
  expect(take(spec, [0, 2, 3, 4], 'weak')).toEqual(['granted', 'granted', 'granted', RINGS]);
});

test('C2.3 force takes groups, rings and data without parity apart; a lock it respects', () => {
  expect(take(group('none', 2), [0, 0], 'strong')).toEqual(['NoParity', 'NoParity']);
  expect(take(group('none', 2), [0, 0], 'force')).toEqual(['granted', 'Locked']);
  expect(take(group('block-4-2', 8), [0, 1, 2, 3, 4, 5, 6, 7], 'force').every((v) => v === 'granted')).toBe(
    true,
  );
});

const limit = (kind: LimitSetSpec['kind'], count: number, numbers: Partial<LimitSetSpec>): LimitSetSpec => ({
  kind,
  name: kind,
  nodes: Array.from({ length: count }, (_, n) => `${n}`),
  nodesLimit: 0,
  percentLimit: 0,
  ...numbers,
});
const limited = (count: number, ...limits: readonly LimitSetSpec[]): FleetSpec => ({
  nodes: Array.from({ length: count }, (_, n) => node(n, 'up', 'dynamic')),
  limits,
});
const grantsOf = (spec: FleetSpec): number =>
  take(spec, [...spec.nodes.keys()], 'weak').filter((v) => v === 'granted').length;

test('C4.1 limits of cluster and tenant, absolute and in percent; one node may always go when none is out', () => {
  for (const [count, most] of [
    [3, 1],
    [8, 1],
    [15, 1],
    [16, 2],
    [24, 3],
  ] as const)
    expect([count, grantsOf(limited(count, limit('cluster', count, { percentLimit: 13 })))]).toEqual([
      count,
      most,
    ]);
  expect(grantsOf(limited(8, limit('cluster', 8, { nodesLimit: 3 })))).toBe(3);
  const both = limited(
    20,
    limit('cluster', 20, { percentLimit: 50 }),
    limit('tenant', 10, { nodesLimit: 2 }),
  );
  expect(take(both, [0, 1, 2, 12], 'weak')).toEqual([
    'granted',
    'granted',
    'TenantDisabledNodesLimitReached',
    'granted',
  ]);
  expect(take(limited(8, limit('cluster', 8, { nodesLimit: 1 })), [0, 1], 'weak')[1]).toBe(
    'DisabledNodesLimitReached',
  );
});

test('C4.2 of the nodes that can run system tablets strong leaves half, weak one; storage nodes only', () => {
  const nodes = Array.from({ length: 6 }, (_, n) => node(n));
  const spec = { nodes, limits: [limit('tablets', 6, {})] };
  const granted = (mode: Mode): number =>
    take(spec, [0, 1, 2, 3, 4, 5], mode).filter((v) => v === 'granted').length;
  expect([granted('strong'), granted('weak'), granted('force')]).toEqual([3, 5, 6]);
});

test('C5.1 a node is looked at in order: its lock, limits, disks, ring, system tablets', () => {
  const base = group('block-4-2', 8, [7]);
  const nodes = base.nodes;
  const rings = { nToSelect: 5, rings: [['0'], ['7']], disabled: [] };
  const tablets = { ...limit('tablets', 0, {}), nodes: ['0', '7'] };
  const all = { ...base, stateStorages: [rings], limits: [limit('cluster', 8, { nodesLimit: 1 }), tablets] };
  const first = (spec: FleetSpec): string => take(spec, [0], 'strong')[0] ?? '';
  expect(first(all)).toBe('DisabledNodesLimitReached');
  expect(first({ ...all, limits: [tablets] })).toBe(VDISKS);
  expect(first({ nodes, stateStorages: [rings], limits: [tablets] })).toBe(RINGS);
  expect(first({ nodes, limits: [tablets] })).toBe('SysTabletsNodeLimitReached');
  expect(first({ nodes })).toBe('granted');
});

test('C1.4 what is locked counts as unavailable, and whoever has the lock may work on it', () => {
  expect(take(group('block-4-2', 8), [0, 0, 1], 'strong')).toEqual(['granted', 'Locked', VDISKS]);
});

test('C2.4 smart: strong first, weak for a request that holds nothing of the group, ring or tablets yet, never force', () => {
  expect(take(group('block-4-2', 8), [0, 1, 2], 'smart')).toEqual(['granted', 'granted', VDISKS]);
  expect(take(group('block-4-2', 8, [3]), [0, 1], 'smart')).toEqual(['granted', VDISKS]);
  expect(take(group('none', 2), [0], 'smart')).toEqual(['NoParity']);
  const nodes = Array.from({ length: 5 }, (_, n) => node(n, 'up', 'dynamic'));
  const stateStorages = [{ nToSelect: 5, rings: [['0'], ['1'], ['2'], ['3'], ['4']], disabled: [] }];
  expect(take({ nodes, stateStorages }, [0, 1, 2], 'smart')).toEqual(['granted', 'granted', RINGS]);
  // One request for all of them: what it holds already it may not have a second of.
  const desk = new Desk(new Fleet(group('block-4-2', 8)));
  const actions = [0, 1, 2].map((n) => ({
    action: { type: 'lock' as const, scope: { kind: 'node' as const, node: `${n}` }, duration: null },
    at: [n, 0] as const,
  }));
  const asked = desk.request({ owner: 'u', mode: 'smart', partial: true, schedule: true, actions }, 0);
  expect(asked.granted.map((p) => p.at[0])).toEqual([0]);
  expect(desk.check(asked.entry?.id ?? '', 1).granted).toEqual([]);
});

test('C1.2 what has no parity is refused for that for good, though a limit that is reached is looked at before', () => {
  const one = group('none', 2, [1]);
  expect(take({ ...one, limits: [limit('cluster', 2, { nodesLimit: 1 })] }, [0], 'strong')).toEqual([
    'NoParity',
  ]);
  const pair = group('block-4-2', 8, [7]);
  const full = { ...pair, limits: [limit('cluster', 8, { nodesLimit: 1 })] };
  expect(take(full, [0], 'strong')).toEqual(['DisabledNodesLimitReached']);
});

test('C2.4 C5.2 smart takes a host with several disks of a group as weak would, and a second host for another request only as far as that goes', () => {
  const nodes = [0, 1, 2].map((n) => ({ ...node(n), disks: [0, 1, 2].map((id) => ({ id, ok: true })) }));
  const vdisks = nodes.flatMap((n, realm) =>
    n.disks.map(({ id }) => ({ node: n.key, disk: id, realm, ok: true })),
  );
  const three = { nodes, groups: [{ id: 1, erasure: 'mirror-3-dc' as const, vdisks }] };
  expect(take(three, [0], 'strong')).toEqual(['WrongRequest']);
  expect(take(three, [0, 1], 'weak')).toEqual(['granted', VDISKS]);
  expect(take(three, [0, 1], 'smart')).toEqual(['granted', VDISKS]);
});

test('C5.1 C4.1 a disk: its lock and its virtual disks by mode, no limit; its node fills one place in the limits', () => {
  const nodes = Array.from({ length: 8 }, (_, n) => ({
    ...node(n),
    disks: [
      { id: 0, ok: true },
      { id: 1, ok: true },
    ],
  }));
  const groups = [0, 1].map((id) => ({
    id,
    erasure: 'block-4-2' as const,
    vdisks: nodes.map((n) => ({ node: n.key, disk: id, realm: 0, ok: true })),
  }));
  const desk = new Desk(new Fleet({ nodes, groups, limits: [limit('cluster', 8, { nodesLimit: 1 })] }));
  const ask = (scope: Action['scope']): string => {
    const action = { type: 'lock' as const, scope, duration: null };
    const input = { owner: 'u', mode: 'strong' as const, partial: true, schedule: false };
    const answer = desk.request({ ...input, actions: [{ action, at: [0, 0] }] }, 0);
    return answer.granted.length > 0 ? 'granted' : (answer.refusal?.reason ?? '');
  };
  const disk = (n: number, id: number): Action['scope'] => ({
    kind: 'disks',
    disks: [{ kind: 'id', node: `${n}`, disk: id }],
  });
  expect(ask(disk(0, 0))).toBe('granted');
  expect(ask(disk(0, 0))).toBe('Locked');
  expect(ask(disk(1, 0))).toBe(VDISKS);
  expect(ask(disk(1, 1))).toBe('granted');
  expect(ask({ kind: 'node', node: '2' })).toBe('DisabledNodesLimitReached');
  expect(ask(disk(9, 0))).toBe('NoSuchDisk');
});
