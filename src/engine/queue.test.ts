import { expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { WorkQueue } from './queue.ts';
import { ManualClock, settle } from './testing/clock.ts';

/** A queue whose passes end when told. */
function bench(options: { parallelism?: number; slowParallelism?: number } = {}) {
  const clock = new ManualClock();
  const started: string[] = [];
  const open = new Map<string, (at: number | null) => void>();
  const queue = new WorkQueue({
    clock,
    work: (key) => {
      started.push(key);
      return new Promise((resolve) => open.set(key, resolve));
    },
    ...options,
  });
  const end = async (key: string, at: number | null = null): Promise<void> => {
    open.get(key)?.(at);
    open.delete(key);
    await settle();
  };
  return { clock, queue, started, end };
}

test('wake-ups that come together are one pass, one that comes during a pass is not lost', async () => {
  const { queue, started, end } = bench();
  queue.add('a');
  queue.add('a');
  queue.add('a');
  expect(started).toEqual(['a']);
  queue.add('a');
  queue.add('a');
  await end('a');
  expect(started).toEqual(['a', 'a']);
  await end('a');
  expect(started).toEqual(['a', 'a']);
  await queue.idle();
});

test('A7.2 a key is looked at again at the time its pass gave, or earlier when something asks', async () => {
  const { clock, queue, started, end } = bench();
  queue.add('a');
  await end('a', clock.now() + 30 * SECOND);
  await clock.advance(29 * SECOND);
  expect(started).toHaveLength(1);
  await clock.advance(1 * SECOND);
  expect(started).toHaveLength(2);
  await end('a', clock.now() + 30 * SECOND);
  queue.addAt('a', clock.now() + 5 * SECOND);
  queue.addAt('a', clock.now() + 20 * SECOND);
  await clock.advance(5 * SECOND);
  expect(started).toHaveLength(3);
  await end('a', null);
  await clock.advance(60 * SECOND);
  expect(started).toHaveLength(3);
});

test('L4 hanging clusters, however many, do not keep a healthy one from its pass', async () => {
  const { clock, queue, started, end } = bench({ parallelism: 4, slowParallelism: 2 });
  for (let i = 0; i < 50; i++) queue.add(`sick-${i}`);
  queue.add('healthy');
  await clock.advance(15 * SECOND);
  expect(started).toContain('healthy');
  await end('healthy');
  queue.add('healthy');
  await settle();
  expect(started.filter((k) => k === 'healthy')).toHaveLength(2);
});

test('L4 a key known to be slow waits in its own lane: the next healthy one starts at once', async () => {
  const { clock, queue, started, end } = bench({ parallelism: 2, slowParallelism: 1 });
  for (const key of ['s1', 's2', 's3']) queue.add(key);
  await clock.advance(2 * SECOND);
  for (const key of ['s1', 's2', 's3']) await end(key, clock.now());
  await clock.advance(0);
  const before = started.length;
  queue.add('h1');
  queue.add('h2');
  expect(started.slice(before)).toEqual(['h1', 'h2']);
});

test('a failed pass is tried again with growing waits and starts over after a good one', async () => {
  const clock = new ManualClock();
  const at: number[] = [];
  let good = false;
  const start = clock.now();
  const queue = new WorkQueue({
    clock,
    work: async () => {
      at.push((clock.now() - start) / SECOND);
      if (!good) throw new Error('store is down');
      return null;
    },
  });
  queue.add('a');
  await clock.advance(7 * SECOND);
  expect(at).toEqual([0, 1, 3, 7]);
  good = true;
  await clock.advance(8 * SECOND);
  good = false;
  queue.add('a');
  await clock.advance(1 * SECOND);
  expect(at).toEqual([0, 1, 3, 7, 15, 15, 16]);
});

test('L4 a slow key is not starved either: it gets its turn while healthy ones keep coming', async () => {
  const { clock, queue, started, end } = bench({ parallelism: 1, slowParallelism: 1 });
  queue.add('slow');
  await clock.advance(2 * SECOND);
  await end('slow', clock.now() + 60 * SECOND);
  for (let i = 0; i < 6; i++) queue.add(`h${i}`);
  queue.add('slow');
  for (let i = 0; i < 3; i++) await end(`h${i}`);
  expect(started.filter((k) => k === 'slow')).toHaveLength(2);
  expect(started.slice(1, 4)).toEqual(expect.arrayContaining(['h0', 'h1']));
});

test('waits after failures begin anew also for a key that goes on being looked at', async () => {
  const clock = new ManualClock();
  const at: number[] = [];
  const start = clock.now();
  const fails = [true, true, true, false, true, true];
  const queue = new WorkQueue({
    clock,
    work: async () => {
      at.push((clock.now() - start) / SECOND);
      if (fails[at.length - 1]) throw new Error('store is down');
      return clock.now() + 10 * SECOND;
    },
  });
  queue.add('a');
  await clock.advance(30 * SECOND);
  expect(at.slice(0, 7)).toEqual([0, 1, 3, 7, 17, 18, 20]);
});

test('closing starts nothing more and waits for what runs', async () => {
  const { queue, started, end, clock } = bench({ parallelism: 1 });
  queue.add('a');
  queue.add('b');
  let closed = false;
  const closing = queue.close().then(() => {
    closed = true;
  });
  await settle();
  expect(closed).toBe(false);
  await end('a', clock.now());
  await closing;
  expect(started).toEqual(['a']);
});

test('L4 no more slow keys are begun at once than their lane holds', async () => {
  const { clock, queue, started, end } = bench({ parallelism: 8, slowParallelism: 2 });
  const slow = ['s1', 's2', 's3', 's4'];
  for (const key of slow) queue.add(key);
  await clock.advance(2 * SECOND);
  const later = clock.now() + 3_600 * SECOND;
  for (const key of slow) await end(key, later);
  const before = started.length;
  for (const key of slow) queue.add(key);
  await settle();
  expect(started.slice(before)).toEqual(['s1', 's2']);
  await end('s1', later);
  expect(started.slice(before)).toEqual(['s1', 's2', 's3']);
});

test('L4 a key that is quick again is in nobody’s slow lane any more', async () => {
  const { clock, queue, started, end } = bench({ parallelism: 8, slowParallelism: 1 });
  for (const key of ['a', 'stuck']) queue.add(key);
  await clock.advance(2 * SECOND);
  const later = clock.now() + 3_600 * SECOND;
  await end('a', later);
  await end('stuck', later);
  queue.add('a');
  await settle();
  await end('a', later);
  queue.add('stuck');
  await settle();
  queue.add('a');
  await settle();
  expect(started).toEqual(['a', 'stuck', 'a', 'stuck', 'a']);
});

test('waits after failures grow to a minute and no further', async () => {
  const clock = new ManualClock();
  const at: number[] = [];
  const queue = new WorkQueue({
    clock,
    work: async () => {
      at.push(clock.now() / SECOND);
      throw new Error('store is down');
    },
  });
  queue.add('a');
  await clock.advance(400 * SECOND);
  expect(at.slice(1, 10).map((t, i) => t - (at[i] ?? 0))).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
});
