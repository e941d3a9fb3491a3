/** What is said of a Topology document while its health comes in and gets old. */
import { expect, test } from 'vitest';
import type { Topology } from '../model/index.ts';
import { topologyStatus } from './topologyConditions.ts';

const iso = (at: number): string => new Date(at).toISOString();
const node = (id: number) => ({ id, host: `h${id}`, disks: [], location: {}, state: 'Up' });
const spec = {
  healthMaxAge: '1m',
  nodes: [node(1), node(2)],
  storageGroups: [],
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
  ]);
  // No push ever told of the second; then the first gets old too.
  const stale = (who: string): string =>
    `Stale True HealthTooOld 01:10: ${who} not told of within 1m since 1970-01-01T00:01:10Z: counts as down until health is pushed again`;
  expect(told(one, 70_000)).toEqual(['Degraded', ACCEPTED, reported, stale('node 2 of y')]);
  expect(told(one, 90_000).at(-1)).toBe(stale('node 1 of y, node 2 of y'));
});

test('A7.4 C5.3 nodes that are all told of are not stale for how long that has been so; a disk gets old by itself', () => {
  const both = [1, 2].map((id) => ({ id, state: 'Up' }));
  const fresh = { observedAt: iso(600_000), nodesSince: iso(0), nodes: both };
  expect(told(fresh, 610_000)[0]).toBe('Ready');
  const disks = [{ node: 1, disk: 1, state: 'Normal', observedAt: iso(500_000) }];
  expect(told({ ...fresh, disks }, 610_000).at(-1)).toContain(
    '1 disk not told of within 1m since 1970-01-01T00:09:20Z',
  );
});
