import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Schedule } from './schedule.ts';
import { ManualClock } from './testing/clock.ts';

type Wish = { readonly key: string; readonly after: number; readonly cancel: boolean };

test('A7.2 whatever was asked for and taken back, each key rings once, at the earliest time asked for since, in the order of times', async () => {
  const wish: fc.Arbitrary<Wish> = fc.record({
    key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'),
    after: fc.integer({ min: 1, max: 40 }),
    cancel: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(wish, { maxLength: 40 }), async (wishes) => {
      const clock = new ManualClock();
      const start = clock.now();
      const rung: (readonly [string, number])[] = [];
      const schedule = new Schedule(clock, (key) => rung.push([key, clock.now() - start]));
      const wanted = new Map<string, number>();
      for (const { key, after, cancel } of wishes) {
        if (cancel && wanted.has(key)) {
          schedule.cancel(key);
          wanted.delete(key);
          continue;
        }
        schedule.set(key, start + after);
        wanted.set(key, Math.min(after, wanted.get(key) ?? after));
      }
      await clock.advance(50);
      expect(rung.map(([, at]) => at)).toEqual([...wanted.values()].sort((a, b) => a - b));
      expect(new Map(rung)).toEqual(wanted);
      expect(clock.next).toBeNull();
    }),
    { numRuns: 100 },
  );
});
