import { expect, test } from 'vitest';
import type { Store } from '../engine/ports.ts';
import { ManualClock } from '../engine/testing/clock.ts';
import { topologyFleet } from '../maintenance/index.ts';
import type { Topology, TopologyHealth } from '../model/index.ts';
import { openMemoryStore } from '../store/memory.ts';
import { memoryDisk } from '../store/memory-tables.ts';
import { noteHealth } from './topologyHealth.ts';

const node = (id: number) => ({ id, host: `y${id}`, location: {}, disks: [] });
const SPEC = { nodes: Array.from({ length: 30 }, (_, i) => node(i)), storageGroups: [] };
const KEY = { kind: 'Topology', namespace: 'default', name: 'ydb' };
const push = (id: number, state: 'Up' | 'Down'): TopologyHealth => ({
  nodes: [{ id, state }],
  disks: [],
  vdisks: [],
});

function stage() {
  const clock = new ManualClock(0);
  const disk = memoryDisk();
  const open = (): Store => openMemoryStore({ clock, disk });
  const store = open();
  const told = async (): Promise<readonly string[]> => {
    const status = (await store.get(KEY))?.status as Topology['status'];
    return (status?.health?.nodes ?? []).map(({ id, state }) => `${id} ${state}`).sort();
  };
  return { clock, open, store, told };
}

test('C6.3 C1.6 two control planes that note health at the same time both keep what the other one was told', async () => {
  const { clock, open, store, told } = stage();
  await store.create({ ...KEY, spec: SPEC });
  const other = open();
  let between = 0;
  // Between the reading of one and its write the other one notes something.
  const late = new Proxy(open(), {
    get: (target, name) => {
      const value = Reflect.get(target, name, target) as unknown;
      if (name !== 'commit') return typeof value === 'function' ? value.bind(target) : value;
      return async (batch: Parameters<Store['commit']>[0]) => {
        if (between++ === 0) await noteHealth({ store: other, clock }, 'ydb', push(2, 'Down'));
        return target.commit(batch);
      };
    },
  });
  await noteHealth({ store: late, clock }, 'ydb', push(1, 'Down'));
  expect(await told()).toEqual(['1 Down', '2 Down']);
  const many = Array.from({ length: 12 }, (_, i) =>
    noteHealth({ store: i % 2 === 0 ? store : other, clock }, 'ydb', push(10 + i, 'Up')),
  );
  await Promise.all(many);
  expect(await told()).toHaveLength(14);
});

test('C6.3 health of a topology that is not there is refused, and nothing is noted', async () => {
  const { clock, store } = stage();
  await expect(noteHealth({ store, clock }, 'ydb', push(1, 'Up'))).rejects.toMatchObject({
    code: 'NotFound',
  });
  expect(await store.loadState('health of topology ydb')).toBeNull();
});

test('C6.3 C2.2 of several virtual disks of a group on one node each is told by itself, or all that are not named', async () => {
  const { clock, store } = stage();
  const disks = [1, 2, 3].map((id) => ({ id, state: 'Normal' }));
  const on = [1, 2, 3].map((disk) => ({ node: 1, disk }));
  const storageGroups = [{ id: 7, erasure: 'mirror-3-dc', vdisks: [...on, { node: 2, disk: 1 }] }];
  const spec = { healthMaxAge: '5m', nodes: [1, 2].map((id) => ({ ...node(id), disks })), storageGroups };
  const limits = { cluster: { nodes: 0, percent: 0 }, tenant: { nodes: 0, percent: 0 } };
  await store.create({ ...KEY, spec: { ...spec, limits, systemTabletNodes: [] } });
  const tell = (vdisks: TopologyHealth['vdisks']) =>
    noteHealth({ store, clock }, 'ydb', { nodes: [], disks: [], vdisks });
  const well = async (): Promise<readonly boolean[] | undefined> => {
    const object = await store.get(KEY);
    const { spec: is, status } = object as unknown as Pick<Topology, 'spec' | 'status'>;
    return topologyFleet('ydb', is, status, clock.now()).groups?.[0]?.vdisks.map(({ ok }) => ok);
  };
  expect(await well()).toEqual([true, true, true, true]);
  await tell([{ group: 7, node: 1, disk: 2, state: 'Error' }]);
  expect(await well()).toEqual([true, false, true, true]);
  // As before: without a disk it is about all of them on that node.
  await tell([{ group: 7, node: 1, state: 'Error' }]);
  expect(await well()).toEqual([false, false, false, true]);
  await tell([
    { group: 7, node: 1, state: 'Ok' },
    { group: 7, node: 1, disk: 3, state: 'NotReplicated' },
  ]);
  expect(await well()).toEqual([true, true, false, true]);
  await expect(tell([{ group: 7, node: 2, disk: 2, state: 'Ok' }])).rejects.toMatchObject({
    problems: [
      { path: 'vdisks[0].disk', message: 'storage group 7 has no virtual disk on disk 2 of node 2' },
    ],
  });
  const twice = { group: 7, node: 1, disk: 1, state: 'Ok' } as const;
  await expect(tell([twice, twice])).rejects.toMatchObject({ code: 'Invalid' });
});
