import { expect, test } from 'vitest';
import { eventsFor } from '../events.ts';
import { desired, running, seen } from '../fixtures.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { knownStatus, status } from '../status.ts';
import { startStep } from '../steps.ts';
import type { Observed, State } from '../types.ts';

const HEALTHY = ['PRIMARY', 'SECONDARY', 'SECONDARY'] as const;
const LEADERLESS = ['SECONDARY', 'SECONDARY', 'SECONDARY'] as const;

function statusOf(observed: Observed, state: State, want = desired(), now = 0) {
  const decided = plan(observed, want, state, now);
  return status({ observed, desired: want, state, plan: decided, now, warnings: [], before: null });
}

test('STA-01 at every step of 5 → 3 ready members are counted by identity: never more than the size, and no leaving one', () => {
  const play = new Play(desired({}, 5));
  play.desired = desired();
  for (let pass = 0; pass < 20; pass++) {
    const is = statusOf(play.reading(), play.state, play.desired, play.now);
    expect(is.totalMembers).toBe(3);
    expect(is.readyMembers).toBeGreaterThanOrEqual(0);
    expect(is.readyMembers).toBeLessThanOrEqual(3);
    const leaving = is.members.filter((m) => m.stage === 'removing').map((m) => m.name);
    expect(leaving.every((name) => name === 'orders-3' || name === 'orders-4')).toBe(true);
    if (play.pass() === 'converged') return;
  }
  throw new Error('did not converge');
});

test('STA-01 a member that is sick counts as missing while healthy ones leave', () => {
  const play = new Play(desired({}, 5));
  play.desired = desired();
  play.pass();
  play.states = ['PRIMARY', 'SECONDARY', 'RECOVERING', 'SECONDARY', 'SECONDARY'];
  expect(statusOf(play.reading(), play.state, play.desired, play.now).readyMembers).toBe(2);
});

test('STA-03 a status that another version wrote differently is written anew, whatever its shape', () => {
  const want = desired();
  const state = running(want);
  const good = statusOf(seen(state, want, HEALTHY), state);
  const foreign: readonly unknown[] = [
    null,
    'Ready',
    {},
    { phase: 'Ready', conditions: { Ready: 'True' }, members: [] },
    { phase: 'Ready', conditions: [null], members: [] },
    { phase: 'Ready', conditions: [], members: { 'orders-0': {} } },
  ];
  for (const old of foreign) expect(knownStatus(old), JSON.stringify(old)).toBeNull();
  expect(knownStatus(good)).toBe(good);
  expect(eventsFor(knownStatus(foreign[3]), good, 0).map((e) => e.reason)).toEqual([
    'PrimaryElected',
    'Ready',
  ]);
});

test('A7.4 QRM-01 a set that ran and has no primary takes no writes: it is Degraded, however healthy its members', () => {
  const want = desired();
  const state = running(want);
  const is = statusOf(seen(state, want, LEADERLESS), state);
  expect([is.phase, is.primary]).toEqual(['Degraded', undefined]);
  expect(is.message).toContain('no primary is elected, so writes are stopped');
  expect(is.conditions.find((c) => c.type === 'Ready')).toMatchObject({
    status: 'False',
    reason: 'Degraded',
  });
});

test('A7.4 the election after a hand-over of ours is work in progress, one that takes too long is not', () => {
  const want = desired();
  const step = { kind: 'stepDown', replicaSet: 'orders', member: 'orders-0' } as const;
  const state = startStep(running(want), step, 'x', 10_000);
  const phaseAt = (now: number) => statusOf(seen(state, want, LEADERLESS), state, want, now).phase;
  expect([phaseAt(10_000), phaseAt(20_000), phaseAt(30_000)]).toEqual([
    'Reconciling',
    'Reconciling',
    'Degraded',
  ]);
});

test('A7.4 while nobody reports the rest, a missing primary is not known rather than not there', () => {
  const want = desired({}, 5);
  const state = running(want);
  const is = statusOf(seen(state, want, ['SECONDARY', 'SECONDARY', 'SECONDARY', null, null]), state, want);
  expect([is.phase, is.message]).toEqual(['Degraded', expect.stringContaining('no primary is known')]);
});
