/** What one decision costs: learning from a reading and planning on it, for sets of 5 to 50 members. */
import { desired, running, seen } from '../src/clusters/fixtures.ts';
import { advance, type Desired, type Observed, plan, type State } from '../src/clusters/index.ts';
import { type BenchResult, compared, measured, median } from './lib.ts';

export const name = 'planner';

const ROUNDS = 2_000;
const SMALL = 5;
const LARGE = 50;

/** A set of any size; at most seven of its members vote (server limit). */
function setOf(size: number): { readonly want: Desired; readonly state: State; readonly reading: Observed } {
  const all = desired({}, size);
  const members = all.members.map((m, i) => (i < 7 ? m : { ...m, votes: 0 as const, priority: 0 }));
  const want = { ...all, members };
  const state = running(want);
  const states = members.map((_, i) => (i === 0 ? ('PRIMARY' as const) : ('SECONDARY' as const)));
  return { want, state, reading: seen(state, want, states) };
}

/** Median of one decision in microseconds. `change`: what is wanted differs from what runs. */
function decision(size: number, change: Partial<Desired>): number {
  const { want, state, reading } = setOf(size);
  const wanted = { ...want, ...change };
  const took: number[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    // A reading of its own each time, as in a pass: nothing is remembered from the one before.
    const fresh = { ...reading, members: [...reading.members] };
    const started = performance.now();
    plan(fresh, wanted, advance(state, wanted, fresh, i), i);
    took.push((performance.now() - started) * 1_000);
  }
  return median(took.slice(ROUNDS / 4));
}

/** See the head of this file. */
export async function run(): Promise<readonly BenchResult[]> {
  const results: BenchResult[] = [];
  const cases = [
    ['at rest', {}],
    ['with a rollout to plan', { mongodConfig: { setParameter: { ttlMonitorSleepSecs: 30 } } }],
  ] as const;
  for (const [what, change] of cases) {
    decision(LARGE, change); // code is compiled
    const [small, large] = [decision(SMALL, change), decision(LARGE, change)];
    results.push(measured(`planner: a decision for ${LARGE} members ${what}`, large, 'µs', { below: 1_000 }));
    results.push(
      compared(
        `planner: ${LARGE} members against ${SMALL}, each, ${what}`,
        large / LARGE,
        'µs',
        small / SMALL,
        {
          ratioAtMost: 1.3,
        },
      ),
    );
  }
  return results;
}
