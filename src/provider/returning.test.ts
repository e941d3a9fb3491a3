import { expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { ManualClock } from '../engine/testing/clock.ts';
import { Returning } from './returning.ts';

test('agents are expected for ten seconds after a start, and longer while new ones keep coming', async () => {
  const clock = new ManualClock();
  const start = clock.now();
  const returning = new Returning(clock);
  const left = (): number => (returning.until - start) / SECOND;
  expect(left()).toBe(10);
  await clock.advance(9 * SECOND);
  returning.heard('a');
  expect(left()).toBe(12);
  await clock.advance(2 * SECOND);
  returning.heard('a');
  expect(left()).toBe(12);
  returning.heard('b');
  expect(left()).toBe(14);
  await clock.advance(5 * SECOND);
  returning.heard('c');
  expect(left()).toBe(14);
});

test('it ends after two minutes, however many come', async () => {
  const clock = new ManualClock();
  const start = clock.now();
  const returning = new Returning(clock);
  for (let i = 0; i < 200; i++) {
    returning.heard(`host-${i}`);
    await clock.advance(1 * SECOND);
  }
  expect(returning.until - start).toBe(120 * SECOND);
});
