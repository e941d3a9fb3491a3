import { expect, test } from 'vitest';
import { validate } from './index.ts';

type Spec = Record<string, unknown>;
const ids = [1, 2, 3, 4, 5, 6, 7, 8];
const topology = (spec: Spec = {}) => ({
  apiVersion: 'belay.dev/v1',
  kind: 'Topology',
  metadata: { name: 'ydb' },
  spec: {
    nodes: ids.map((id) => ({ id, host: `y${id}`, disks: [{ id: 1 }] })),
    storageGroups: [{ id: 1, erasure: 'block-4-2', vdisks: ids.map((id) => ({ node: id, disk: 1 })) }],
    stateStorage: { nToSelect: 3, rings: [[1], [2], [3]] },
    systemTabletNodes: [1, 2],
    ...spec,
  },
});
const problems = (document: unknown, current?: unknown): readonly string[] =>
  validate(document, current === undefined ? {} : { current: current as never }).problems.map(
    ({ path, message }) => `${path}: ${message}`,
  );

test('C6.3 a topology whose names all lead somewhere is taken', () => {
  expect(problems(topology())).toEqual([]);
  expect(problems(topology({ stateStorage: undefined, systemTabletNodes: [] }))).toEqual([]);
});

test('C6.3 B1.4 broken references of a topology are refused, all of them at once, each with its place', () => {
  const spec = {
    nodes: [
      {
        id: 1,
        host: 'y1',
        disks: [
          { id: 1, path: '/dev/a' },
          { id: 1, path: '/dev/b' },
          { id: 2, path: '/dev/a' },
        ],
      },
      { id: 1, host: 'y2' },
      { id: 3, host: 'y3', disks: [{ id: 1 }], pile: 'b' },
    ],
    storageGroups: [
      {
        id: 1,
        erasure: 'block-4-2',
        vdisks: [
          { node: 12, disk: 1 },
          { node: 1, disk: 9 },
          { node: 3, disk: 1 },
          { node: 3, disk: 1 },
        ],
      },
      { id: 1, erasure: 'none', vdisks: [] },
    ],
    stateStorage: { nToSelect: 9, rings: [[1, 3], [2], [1], []], disabledRings: [4, 0, 0] },
    systemTabletNodes: [3, 7, 3],
  };
  expect(problems(topology(spec))).toEqual([
    'spec.nodes[0].disks[1].id: disk 1 is given twice, first at spec.nodes[0].disks[0].id',
    'spec.nodes[0].disks[2].path: disk /dev/a of host y1 is given twice, first at spec.nodes[0].disks[0].path',
    'spec.nodes[1].id: node 1 is given twice, first at spec.nodes[0].id',
    'spec.storageGroups[0].vdisks[0].node: there is no node 12',
    'spec.storageGroups[0].vdisks[1].disk: node 1 has no disk 9',
    'spec.storageGroups[0].vdisks[3]: disk 1 of node 3 is given twice, first at spec.storageGroups[0].vdisks[2]',
    'spec.storageGroups[1].id: storage group 1 is given twice, first at spec.storageGroups[0].id',
    'spec.stateStorage.rings[0]: its nodes are of several piles: (none), b',
    'spec.stateStorage.rings[1][0]: there is no node 2',
    'spec.stateStorage.rings[2][0]: node 1 is given twice, first at spec.stateStorage.rings[0][0]',
    'spec.stateStorage.rings[3]: must name at least one node',
    'spec.stateStorage.nToSelect: must be at most the number of rings, 4',
    'spec.stateStorage.disabledRings[0]: there is no ring 4; they are numbered from 0',
    'spec.stateStorage.disabledRings[2]: ring 0 is given twice, first at spec.stateStorage.disabledRings[1]',
    'spec.systemTabletNodes[1]: there is no node 7',
    'spec.systemTabletNodes[2]: node 3 is given twice, first at spec.systemTabletNodes[0]',
  ]);
});

test('UPG-02 C6.3 a topology that was accepted with a broken reference can still be changed elsewhere', () => {
  const broken = topology({ systemTabletNodes: [99] });
  const { problems: found, warnings } = validate(broken, { current: broken as never });
  expect(found).toEqual([]);
  expect(warnings[0]?.message).toContain('there is no node 99 (kept, as it was accepted before)');
});

test('C6.3 unfinished topologies get the problems of their form and no crash', () => {
  for (const odd of [
    { nodes: 7 },
    { nodes: [null, 'x'] },
    { storageGroups: [{ vdisks: {} }] },
    { stateStorage: [] },
  ])
    expect(problems(topology(odd)).length).toBeGreaterThan(0);
});
