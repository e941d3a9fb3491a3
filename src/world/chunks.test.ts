import { expect, test } from 'vitest';
import { chunkOf, routeOf, shardsOf, takes } from './chunks.ts';
import { type Change, DataFolder } from './data.ts';

const op = (i: number) => ({ t: 1, s: 1, i });
const folder = (...changes: readonly Change[]): DataFolder => {
  const data = new DataFolder();
  for (const [index, change] of changes.entries()) data.append({ op: op(index + 1), wall: 0, change });
  return data;
};
const write = (id: number): Change => ({ kind: 'write', id });

test('a chunk is where a majority of the config servers knows it to be, at first on the first shard', () => {
  const shard = (name: string): Change => ({ kind: 'shard', name, host: name });
  const moved: Change = { kind: 'chunk', chunk: 2, shard: 's1', version: 1 };
  const config = folder(shard('s0'), shard('s1'), moved);
  expect([null, op(1), op(2)].map((upTo) => [...shardsOf(config, upTo).keys()])).toEqual([
    [],
    ['s0'],
    ['s0', 's1'],
  ]);
  expect(routeOf(config, 2, null)).toBeNull();
  expect(routeOf(config, 2, op(2))).toEqual({ shard: 's0', version: 0 });
  expect(routeOf(config, 2, op(3))).toMatchObject({ shard: 's1', version: 1 });
  expect(routeOf(config, 3, op(3))).toMatchObject({ shard: 's0', version: 0 });
});

test('a giver takes nothing more, a taker has all, and a move that came to nothing leaves all where it was', () => {
  const move = { chunk: 2, version: 1 };
  const giver = folder(write(2), write(3), write(8));
  expect([2, 3, 8].map(chunkOf)).toEqual([2, 3, 2]);
  expect(takes(giver, 2, 0)).toBe(true);
  giver.append({ op: op(4), wall: 0, change: { kind: 'gives', ...move } });
  expect([0, 1].map((version) => takes(giver, 2, version))).toEqual([false, false]);

  const taker = folder(write(14), { kind: 'gets', ...move, ids: [2, 8] });
  expect([...taker.writes]).toEqual([2, 8]);
  expect([0, 1].map((version) => takes(taker, 2, version))).toEqual([false, true]);

  const kept = folder(...giver.log.map(({ change }) => change), { kind: 'keeps', chunk: 2, version: 2 });
  expect([[...kept.writes], takes(kept, 2, 2)]).toEqual([[2, 3, 8], true]);
  giver.append({ op: op(5), wall: 0, change: { kind: 'gave', ...move } });
  expect([[...giver.writes], takes(giver, 2, 1)]).toEqual([[3], false]);
  giver.rollBack(op(4));
  expect([...giver.writes]).toEqual([2, 3, 8]);
});
