import { expect, test } from 'vitest';
import { GIB } from '../../base/units.ts';
import { eventsFor } from '../events.ts';
import type { MemberFacts } from '../facts.ts';
import { desired, host, running, seen } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { status } from '../status.ts';
import type { Desired, Observed, State } from '../types.ts';

const want = desired();
const state = running(want);
const HEALTHY = ['PRIMARY', 'SECONDARY', 'SECONDARY'] as const;
const TOTAL = 100 * GIB;

/** Members whose volumes have so much left, in GiB. */
const filled = (
  free: readonly number[],
  change: (facts: MemberFacts) => MemberFacts = (f) => f,
): Observed => {
  const o = seen(state, want, HEALTHY);
  const members = o.members.map((m, i) => {
    const volume = { id: `v-${m.name}`, totalBytes: TOTAL, freeBytes: (free[i] ?? 50) * GIB };
    return m.facts === null ? m : { ...m, facts: change({ ...m.facts, volume }) };
  });
  return { ...o, members };
};
const statusOf = (observed: Observed, want_: Desired = want, record: State = state) =>
  status({
    observed,
    desired: want_,
    state: record,
    plan: plan(observed, want_, record, 0),
    now: 0,
    warnings: [],
    before: null,
  });
const space = (observed: Observed) => statusOf(observed).conditions.find((c) => c.type === 'DiskSpace');

test('STO-06 a volume is reported before it is full, by name and percent, with what to do, and as an event once', () => {
  expect(space(seen(state, want, HEALTHY))).toMatchObject({ status: 'Unknown', reason: 'NotReported' });
  const roomy = statusOf(filled([50, 10, 11]));
  expect(roomy.conditions.find((c) => c.type === 'DiskSpace')).toMatchObject({ status: 'True' });
  const tight = statusOf(filled([50, 50, 7]));
  expect(tight.phase).toBe('Ready');
  expect(tight.conditions.find((c) => c.type === 'DiskSpace')).toMatchObject({
    status: 'False',
    reason: 'Low',
    message: expect.stringMatching(/^the volume of orders-2 is 93 % full \(of 100 GiB\); make room/),
  });
  const reasons = (before: typeof tight) => eventsFor(before, tight, 0).map((e) => e.reason);
  expect([reasons(roomy), reasons(tight)]).toEqual([['DiskSpaceLow'], []]);
});

test('STO-06 S3 all three full: nobody is asked to hand over or restarted, whatever waits to be rolled out', () => {
  const full = filled([0, 0, 0], (facts) => ({
    ...facts,
    database: null,
    process: {
      kind: 'exited',
      since: 0,
      exitCode: 14,
      signal: null,
      failures: 4,
      nextStartAt: 60_000,
      message: 'No space left on device',
    },
  }));
  let record = state;
  for (let now = 0; now < 600_000; now += 5_000) {
    record = advance(record, want, full, now);
    const decided = plan(full, want, record, now);
    expect(decided.act).toBeNull();
    expect(decided.blocks.map((b) => b.by)).toContain('DiskFull');
  }
  const almost = filled([1, 1, 1]);
  expect(plan(almost, want, advance(state, want, almost, 0), 0).converged).toBe(true);
  expect(space(almost)?.message).toMatch(
    /orders-0 is 99 % full.*orders-1 is 99 % full.*orders-2 is 99 % full/,
  );
});

test('STO-07 the disk with the logs is watched apart from the data volumes', () => {
  const disk = { totalBytes: 2 * GIB, freeBytes: 0.08 * GIB };
  const o = filled([50, 50, 50]);
  const hosts = [host('db1'), host('db2', { disk }), host('db3'), host('db9', { disk })];
  expect(space({ ...o, hosts })).toMatchObject({
    status: 'False',
    message: expect.stringMatching(/^the disk of host db2 is 96 % full/),
  });
});

test('STO-01 A6.6 growth of a volume never changes who is in the set', () => {
  const play = new Play(desired({ volumeBytes: 10 * GIB }));
  const before = play.config;
  play.desired = desired({ volumeBytes: 20 * GIB });
  const lines = play.toTheEnd();
  expect(lines.at(-1)).toBe('converged');
  expect(lines.filter((l) => /leaves|join|vote|settings|stepDown/.test(l))).toEqual([]);
  expect(play.config).toEqual(before);
});

test('STO-01 A6.3 a member that comes anew joins without vote and priority and gets them when it has caught up', () => {
  const play = new Play(desired());
  play.desired = desired({}, 5);
  const lines = play.toTheEnd();
  const at = (text: string): number => lines.findIndex((l) => l.includes(text));
  expect(at('join without vote and priority')).toBeGreaterThanOrEqual(0);
  expect(at('orders-3 gets its vote')).toBeGreaterThan(at('join without vote and priority'));
});
