/** What is said of a Topology document while its health comes in and gets old. */
import { expect, test } from 'vitest';
import { CONDITIONS_BY_KIND, type Topology } from '../model/index.ts';
import { topologyStatus } from './topologyConditions.ts';

const iso = (at: number): string => new Date(at).toISOString();
const node = (id: number) => ({ id, host: `h${id}`, disks: [], location: {}, state: 'Up' });
const spec = {
  healthMaxAge: '1m',
  nodes: [node(1), node(2)],
  storageGroups: [],
  limits: { cluster: { nodes: 0, percent: 0 }, tenant: { nodes: 0, percent: 0 } },
  systemTabletNodes: [],
} as unknown as Topology['spec'];
const told = (health: object | null, now: number) => {
  const status =
    health === null
      ? null
      : ({ health: { nodes: [], disks: [], vdisks: [], ...health } } as unknown as Topology['status']);
  const is = topologyStatus({ name: 'y', generation: 3, createdAt: iso(0), spec, status }, now);
  return [
    is.phase,
    ...is.conditions.map(
      (c) => `${c.type} ${c.status} ${c.reason} ${c.lastTransitionTime.slice(14, 19)}: ${c.message}`,
    ),
  ];
};
const ACCEPTED = 'Accepted True Valid 00:00: 2 nodes, 0 storage groups';

test('A7.4 C6.3 a topology nobody pushes health of is accepted, and its document counts', () => {
  expect(told(null, 3_600_000)).toEqual([
    'Ready',
    ACCEPTED,
    'HealthReported False NeverPushed 00:00: no health was ever pushed; the states in the document count',
    'Stale False UpToDate 00:00: nothing that was pushed is too old to be believed',
    'Ready True AllUp 00:00: 2 nodes up, all disks well',
  ]);
});

test('A7.4 C5.3 pushed health is told of with its time, and from when on it is too old', () => {
  const one = { observedAt: iso(30_000), nodesSince: iso(10_000), nodes: [{ id: 1, state: 'Up' }] };
  const reported =
    'HealthReported True Pushed 00:10: last pushed at 1970-01-01T00:00:30Z; the state of 1 of 2 nodes was told';
  expect(told(one, 60_000)).toEqual([
    'Ready',
    ACCEPTED,
    reported,
    'Stale False UpToDate 00:30: nothing that was pushed is too old to be believed',
    'Ready True AllUp 00:30: 2 nodes up, all disks well',
  ]);
  // No push ever told of the second; then the first gets old too.
  const stale = (who: string): string =>
    `Stale True HealthTooOld 01:10: ${who} not told of within 1m since 1970-01-01T00:01:10Z: counts as down until health is pushed again`;
  const unready = (who: string): string =>
    `Ready False NodesUnknown 01:10: not known, which counts as down: ${who}`;
  const second = 'node 2 of y';
  expect(told(one, 70_000)).toEqual(['Degraded', ACCEPTED, reported, stale(second), unready(second)]);
  const both = 'node 1 of y, node 2 of y';
  expect(told(one, 90_000).slice(-2)).toEqual([stale(both), unready(both)]);
});

test('A7.4 C5.3 nodes that are all told of are not stale for how long that has been so; a disk gets old by itself', () => {
  const both = [1, 2].map((id) => ({ id, state: 'Up' }));
  const fresh = { observedAt: iso(600_000), nodesSince: iso(0), nodes: both };
  expect(told(fresh, 610_000)[0]).toBe('Ready');
  const disks = [{ node: 1, disk: 1, state: 'Normal', observedAt: iso(500_000) }];
  expect(told({ ...fresh, disks }, 610_000).at(-2)).toContain(
    '1 disk not told of within 1m since 1970-01-01T00:09:20Z',
  );
});

test('A7.4 C6.4 a topology whose nodes or disks are not well is Degraded and not Ready, and says which', () => {
  const fresh = { observedAt: iso(600_000), nodesSince: iso(0) };
  const is = (health: object, now = 610_000) => {
    const [phase, ...conditions] = told({ ...fresh, ...health }, now);
    return [phase, conditions.at(-1)];
  };
  const up = { id: 1, state: 'Up' };
  expect(is({ nodes: [up, { id: 2, state: 'Down' }] })).toEqual([
    'Degraded',
    'Ready False NodesDown 10:00: down: node 2 of y',
  ]);
  expect(
    is({
      nodes: [
        { id: 1, state: 'Unknown' },
        { id: 2, state: 'Down' },
      ],
    }),
  ).toEqual([
    'Degraded',
    'Ready False NodesDown 10:00: down: node 2 of y; not known, which counts as down: node 1 of y',
  ]);
  const written = {
    ...spec,
    nodes: [{ ...node(1), disks: [{ id: 1, state: 'Faulty' }] }, node(2)],
  } as typeof spec;
  const { phase, message, conditions } = topologyStatus(
    { name: 'y', generation: 3, createdAt: iso(0), spec: written, status: null },
    0,
  );
  expect([phase, message, conditions.at(-1)?.reason]).toEqual([
    'Degraded',
    'not well: 1 disk',
    'DisksFaulty',
  ]);
});

test('A7.4 C6.3 a topology without nodes waits for them and is not Ready', () => {
  const empty = { ...spec, nodes: [] } as typeof spec;
  const is = topologyStatus(
    { name: 'y', generation: 1, createdAt: iso(0), spec: empty, status: null },
    60_000,
  );
  expect([is.phase, is.message]).toEqual([
    'Pending',
    'it has no nodes: nothing of it can be locked or protected until spec.nodes lists them',
  ]);
  expect(is.conditions.at(-1)).toMatchObject({ type: 'Ready', status: 'False', reason: 'NoNodes' });
});

test('A7.4 a topology has the conditions that the language names, which can be waited for', () => {
  const { conditions } = topologyStatus(
    { name: 'y', generation: 1, createdAt: iso(0), spec, status: null },
    0,
  );
  expect(conditions.map(({ type }) => type)).toEqual(CONDITIONS_BY_KIND['Topology']);
});
