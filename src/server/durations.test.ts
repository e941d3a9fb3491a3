import { expect, test } from 'vitest';
import type { JournalEntry } from '../engine/ports.ts';
import { durationsOf, kindOf } from './durations.ts';

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

test('steps of one moment belong together; letting members in lasts as long as their first copy', () => {
  const join = { change: 'orders-3, orders-4 join without vote and priority' };
  const known = durationsOf([
    entry('import', 1000, 'ScaleUp'),
    entry('import', 1000, 'ScaleUp'),
    entry('reconfig', 9000, 'ScaleUp', 3, join),
    entry('reconfig', 69_000, 'ScaleUp', 3, { change: 'orders-3 gets its vote: votes 3 → 4' }),
  ]);
  expect(known.get('import')).toEqual({ millis: 8000, of: 2 });
  expect(known.get('join')).toEqual({ millis: 60_000, of: 1 });
  expect(known.get('reconfig')).toEqual({ millis: 3, of: 1 });
  expect(kindOf('reconfig', 'orders-3 gets its vote')).toBe('reconfig');
});
