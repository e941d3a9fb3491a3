import { test } from 'vitest';
import { openStore } from './open.ts';
import { expectAlike, LIMITS } from './testing/alike.ts';
import { ManualClock } from './testing/clock.ts';

test.each([1, 2, 3, 4, 5, 6])('memory and SQLite answer alike to the same calls (seed %i)', async (seed) => {
  const clock = new ManualClock();
  const store = await openStore('sqlite::memory:', { clock, limits: LIMITS });
  await expectAlike(seed, clock, store);
  await store.close();
});
