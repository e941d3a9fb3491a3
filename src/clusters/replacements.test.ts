import { expect, test } from 'vitest';
import { desired, host } from './fixtures.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { learnReplacements } from './replacements.ts';
import { retire } from './state.ts';
import { startStep } from './steps.ts';

test('A13.3 S4 what a replaced member left is forgotten with its host’s document, but only when hosts were really listed', () => {
  const set = new Play(desired({}, 4));
  const out = { ...set.config, members: set.config.members.filter((row) => row._id !== 3) };
  set.config = out;
  const state = retire(set.state, 'orders-3');
  const left = (names: readonly string[], services: readonly [] | null): readonly string[] => {
    const reading = { ...set.reading(), hosts: names.map((name) => host(name)), services };
    return (learnReplacements(state, reading).retired ?? []).map((m) => m.name);
  };
  expect(left(['db1', 'db2', 'db3', 'db4'], [])).toEqual(['orders-3']);
  expect(left(['db1', 'db2', 'db3'], null)).toEqual(['orders-3']);
  expect(left(['db1', 'db2', 'db3'], [])).toEqual([]);
});

test('A13.3 L3 nobody waits for work on what a replaced member left while its host is away', () => {
  const set = new Play(desired({}, 4));
  const retired = retire(set.state, 'orders-3');
  const state = startStep(retired, { kind: 'deleteVolume', member: 'orders-3' }, 'd', 0);
  const waits = (connected: boolean): readonly string[] => {
    const hosts = [1, 2, 3, 4].map((n) => host(`db${n}`, { connected: n !== 4 || connected }));
    const reading = { ...set.reading(), hosts };
    return plan(reading, desired(), state, 1_000).waits.map((w) => w.on);
  };
  expect(waits(true)).toContain('OperationRunning');
  expect(waits(false)).not.toContain('OperationRunning');
});
