import { expect, test } from 'vitest';
import { runPool } from './pool.ts';
import { settle } from './testing/clock.ts';

/** Work that ends when told. */
function work() {
  const begun: string[] = [];
  const ends = new Map<string, (failure?: Error) => void>();
  const one = (item: string): Promise<void> => {
    begun.push(item);
    return new Promise((resolve, reject) =>
      ends.set(item, (failure) => (failure === undefined ? resolve() : reject(failure))),
    );
  };
  const end = async (item: string, failure?: Error): Promise<void> => {
    ends.get(item)?.(failure);
    await settle();
  };
  return { begun, one, end };
}

test('so many at once and no more, each as soon as there is room', async () => {
  const { begun, one, end } = work();
  const all = runPool(['a', 'b', 'c', 'd'], 2, one);
  expect(begun).toEqual(['a', 'b']);
  await end('b');
  expect(begun).toEqual(['a', 'b', 'c']);
  await end('a');
  for (const item of ['c', 'd']) await end(item);
  await all;
  await runPool([], 2, one);
});

test('S2 S16 after a failure nothing more is begun; what runs is waited for, and the first failure is told', async () => {
  const { begun, one, end } = work();
  let told: unknown = null;
  const all = runPool(['a', 'b', 'c'], 2, one).catch((failure: unknown) => {
    told = failure;
  });
  await end('b', new Error('first'));
  expect([begun, told]).toEqual([['a', 'b'], null]);
  await end('a', new Error('second'));
  await all;
  expect(begun).toEqual(['a', 'b']);
  expect(told).toEqual(new Error('first'));
});
