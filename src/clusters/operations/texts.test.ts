/** What is said while an operation waits or works. */
import { expect, test } from 'vitest';
import { desired, host, ref, requested } from '../fixtures.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import type { OperationRequest } from '../types.ts';
import { operationStatus } from './status.ts';

function told(set: Play) {
  const observed = set.reading();
  const { desired: want, state, now } = set;
  const decided = plan(observed, want, state, now);
  return operationStatus(set.requests[0] as OperationRequest, {
    observed,
    desired: want,
    state,
    plan: decided,
    now,
  });
}

test('A13.6 what waits for a member says what that member is about; that it is healthy is no reason', () => {
  const set = new Play(desired());
  set.syncPasses = 4;
  set.desired = desired({ generation: 2 }, 5);
  const seen = new Set<string>();
  set.pass();
  set.requests = [requested({ type: 'Restart', ...ref, members: [] })];
  for (let pass = 0; pass < 30 && set.state.operation === null; pass++) {
    set.pass();
    const { state, message } = told(set);
    if (state === 'Waiting') seen.add(message ?? '');
  }
  const texts = [...seen].join('\n');
  expect(texts).toContain('orders-3 copies the data and has no vote yet');
  expect(texts).not.toMatch(/is (healthy|planned|imported|deployed|syncing)/);
});

test('A8.5 raising waits for a member that is down, and says that it is down', () => {
  const set = new Play(desired());
  set.fcv = '7.0';
  set.crash(2);
  set.requests = [requested({ type: 'RaiseFCV', ...ref })];
  set.pass();
  expect(told(set).message).toBe(
    '8.0 needs binaries of 8.0 everywhere: orders-2 is down; it goes on when it is up again',
  );
  set.crash(2, false);
  set.toTheEnd();
  expect(set.fcv).toBe('8.0');
});

test('A13.1 a step that has only names to say says what it does to them', () => {
  const set = new Play(desired());
  set.hosts = [1, 2, 3, 4].map((n) => host(`db${n}`));
  set.requests = [requested({ type: 'Replace', ...ref, member: 'orders-1' })];
  const seen: string[] = [];
  for (let pass = 0; pass < 12; pass++) {
    seen.push(told(set).message ?? '');
    set.pass();
  }
  expect(seen).toContain('deploy of orders-3');
  expect(seen).not.toContain('orders-3');
});

test('STK-04 L3 an operation under way is told once; a refused configuration says what to do', () => {
  const set = new Play(desired());
  const pending = {
    action: 'deleteRuntime',
    member: 'orders-2',
    stepId: 's1',
    operationId: 'o1',
    startedAt: 0,
    version: null,
  } as const;
  const o = set.reading();
  const says = (detail: string): string | undefined =>
    plan(
      { ...o, operations: { s1: { kind: 'running', detail } } },
      set.desired,
      { ...set.state, pending: [pending] },
      2000,
    ).waits.find((w) => w.on === 'OperationRunning')?.detail;
  expect(says('deleteRuntime')).toBe('deleteRuntime of orders-2 runs for 2 s');
  expect(says('stopping')).toBe('deleteRuntime of orders-2 runs for 2 s: stopping');
  const members = o.members.map((m, i) =>
    i === 2 && m.facts !== null ? { ...m, facts: { ...m.facts, configError: 'Unrecognized option' } } : m,
  );
  const [rejected] = plan({ ...o, members }, set.desired, set.state, 2000).blocks;
  expect([rejected?.by, rejected?.fix]).toEqual([
    'SnapshotRejected',
    expect.stringMatching(/^correct what it names in the spec, or put the last change back \(belay apply\)/),
  ]);
});
