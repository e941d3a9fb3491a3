import { expect, test } from 'vitest';
import { GIB, MIB } from '../base/units.ts';
import type { JournalEntry } from '../engine/ports.ts';
import { durationsOf, expectationsOf, kindOf, withExpected } from './durations.ts';

const entry = (step: string, at: number, reason: string, took = 5, detail: unknown = {}): JournalEntry => ({
  id: `${step}-${at}`,
  clusterUid: 'u',
  step,
  target: 'orders-0',
  reason,
  epoch: 1,
  at,
  detail,
  outcome: { id: `${step}-${at}`, at: at + took, kind: 'done', message: '' },
});

test('a restart lasts until the next step of the same change; the last one says nothing', () => {
  const journal = [
    entry('reload', 1000, 'RestartRequested'),
    entry('reload', 21_000, 'RestartRequested'),
    entry('stepDown', 61_000, 'RestartRequested'),
    entry('reload', 62_000, 'RestartRequested'),
    entry('reload', 900_000, 'ConfigurationChanged'),
  ];
  const known = durationsOf(journal);
  expect(known.get('reload')).toEqual({ millis: 30_000, of: 2 });
  expect(known.get('stepDown')).toEqual({ millis: 1000, of: 1 });
  expect(known.get('upgrade')).toBeUndefined();
});

test('a step that ends with its answer lasts so long; failed ones and days of waiting say nothing', () => {
  const failed = { ...entry('setFcv', 10, 'FcvRequested'), outcome: null };
  const known = durationsOf([
    failed,
    entry('setFcv', 100, 'FcvRequested', 40),
    entry('import', 1000, 'ScaleUp'),
    entry('deploy', 86_401_000, 'ScaleUp'),
  ]);
  expect(known.get('setFcv')).toEqual({ millis: 40, of: 1 });
  expect(known.get('import')).toBeUndefined();
});

test('C7.1 a step lasts until the next one waits for a window or a task: what that waited is no part of it', () => {
  const held = (at: number, heldBack: number): JournalEntry => ({
    ...entry('reload', at, 'Rolled'),
    heldBack,
  });
  const known = durationsOf([
    entry('reload', 1000, 'Rolled'),
    held(50_000_000, 49_979_000),
    // Another process waited before, nobody knows since when.
    held(90_000_000, 90_000_000),
    entry('reload', 90_040_000, 'Rolled'),
  ]);
  expect(known.get('reload')).toEqual({ millis: 30_000, of: 2 });
  const [join, vote] = copy(0, 10_000, 100 * MIB);
  const late = { ...(vote as JournalEntry), at: 5_010_000, heldBack: 5_000_000 };
  expect(expectationsOf([join as JournalEntry, late])(plannedCopy(200 * MIB))?.millis).toBe(20_000);
});

test('steps of one moment belong together', () => {
  const known = durationsOf([
    entry('import', 1000, 'ScaleUp'),
    entry('import', 1000, 'ScaleUp'),
    entry('reconfig', 9000, 'ScaleUp', 3, { change: 'orders-3 gets its vote: votes 3 → 4' }),
  ]);
  expect(known.get('import')).toEqual({ millis: 8000, of: 2 });
  expect(known.get('reconfig')).toEqual({ millis: 3, of: 1 });
  expect(kindOf('reconfig', 'orders-3 gets its vote')).toBe('reconfig');
});

const joined = 'orders-3, orders-4 join without vote and priority';
/** A join at that time that copied so much, and the vote when it was done. */
const copy = (at: number, millis: number, copies: number | undefined, reason = 'ScaleUp') => [
  entry('reconfig', at, reason, 3, { change: joined, ...(copies === undefined ? {} : { copies }) }),
  entry('reconfig', at + millis, reason, 3, { change: 'orders-3 gets its vote: votes 3 → 4' }),
];
const plannedCopy = (copies: number | null) => ({ verb: 'reconfig', detail: joined, copies });

test('letting members in is expected to take as long as their copy at the pace of earlier ones', () => {
  const expected = expectationsOf([...copy(0, 10_000, 100 * MIB), ...copy(100_000, 60_000, 300 * MIB)]);
  // 10 MiB and 5 MiB in a second: 7.5.
  expect(expected(plannedCopy(750 * MIB))).toEqual({ millis: 100_000, of: 2, bytes: 750 * MIB });
  expect(expected({ verb: 'reconfig', detail: 'orders-3 gets its vote', copies: null })).toEqual({
    millis: 3,
    of: 2,
  });
  // Days are no reason to distrust a copy.
  const day = 24 * 3_600_000;
  expect(expectationsOf(copy(0, 2 * day, GIB * 1000))(plannedCopy(GIB * 500))?.millis).toBe(day);
});

test('a copy is not judged by those of quite another size, nor by those of which no size is known, nor without its own', () => {
  const expected = expectationsOf([...copy(0, 10_000, 100 * MIB), ...copy(50_000, 10_000, undefined)]);
  expect(expected(plannedCopy(1000 * MIB))).toMatchObject({ of: 1 });
  expect(expected(plannedCopy(1001 * MIB))).toBeNull();
  expect(expected(plannedCopy(9 * MIB))).toBeNull();
  expect(expected(plannedCopy(null))).toBeNull();
  expect(expectationsOf(copy(0, 10_000, undefined))(plannedCopy(MIB))).toBeNull();
  // The vote came by another change, or never: it says nothing.
  expect(expectationsOf(copy(0, 10_000, MIB).slice(0, 1))(plannedCopy(MIB))).toBeNull();
});

test('a member that gets another binary and another configuration goes down once, and its time is told once', () => {
  const step = (verb: string, target: string) => ({ verb, targets: [target], detail: '', copies: null });
  const steps = [step('upgrade', 'orders-2'), step('reload', 'orders-2'), step('reload', 'orders-1')];
  const told = withExpected(steps, () => ({ millis: 11_000, of: 2 }));
  expect(told.map((s) => s.expected?.millis)).toEqual([11_000, undefined, 11_000]);
});
