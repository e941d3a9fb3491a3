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
    'spec.storageGroups[0].vdisks: has 4 virtual disks, a group of block-4-2 has 8: name those that are missing, or correct the erasure',
    'spec.storageGroups[1].id: storage group 1 is given twice, first at spec.storageGroups[0].id',
    'spec.storageGroups[1].vdisks: has 0 virtual disks, a group of none has 1: name those that are missing, or correct the erasure',
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

/** One group of nine disks on three nodes, or of fewer. */
const grouped = (erasure: string, count: number, realms: readonly (number | undefined)[] = []) =>
  topology({
    nodes: [1, 2, 3].map((id) => ({ id, host: `y${id}`, disks: [1, 2, 3, 4].map((d) => ({ id: d })) })),
    storageGroups: [
      {
        id: 1,
        erasure,
        vdisks: Array.from({ length: count }, (_, i) => ({
          node: (i % 3) + 1,
          disk: Math.floor(i / 3) + 1,
          ...(realms[i] === undefined ? {} : { realm: realms[i] }),
        })),
      },
    ],
  });
const DCS = [0, 1, 2, 0, 1, 2, 0, 1, 2];

test('C2.1 C6.3 a group with fewer virtual disks than its erasure takes is refused, one with more is looked at twice', () => {
  const least = { none: 1, 'block-4-2': 8, 'mirror-3-dc': 9, 'mirror-3of4': 8 };
  for (const [erasure, size] of Object.entries(least)) {
    expect(problems(grouped(erasure, size, DCS))).toEqual([]);
    expect(validate(grouped(erasure, size, DCS)).warnings).toEqual([]);
    const had = `${size - 1} virtual disk${size === 2 ? '' : 's'}`;
    expect(problems(grouped(erasure, size - 1, DCS))).toEqual([
      `spec.storageGroups[0].vdisks: has ${had}, a group of ${erasure} has ${size}: name those that are missing, or correct the erasure`,
    ]);
    const more = validate(grouped(erasure, size + 1, DCS));
    expect([more.problems, more.warnings]).toEqual([
      [],
      [
        {
          path: 'spec.storageGroups[0].vdisks',
          message: `has ${size + 1} virtual disks, a group of ${erasure} usually has ${size}: look whether all of them belong to it`,
        },
      ],
    ]);
  }
});

test('C2.2 C6.3 mirror-3-dc is taken only with three realms of three: otherwise a data centre could not be told', () => {
  const tail =
    'a group of mirror-3-dc has 3 in each of 3 realms: give each virtual disk the realm of its data centre';
  expect(problems(grouped('mirror-3-dc', 9))).toEqual([
    `spec.storageGroups[0].vdisks: has 9 in realm 0, ${tail}`,
  ]);
  expect(problems(grouped('mirror-3-dc', 9, [1, 1, 1, 1, 2, 2, 2, 3, 3]))).toEqual([
    `spec.storageGroups[0].vdisks: has 4 in realm 1, 3 in realm 2, 2 in realm 3, ${tail}`,
  ]);
  expect(problems(grouped('mirror-3-dc', 9, [7, 7, 7, 1, 1, 1, 4, 4, 4]))).toEqual([]);
  expect(problems(grouped('block-4-2', 8))).toEqual([]);
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
