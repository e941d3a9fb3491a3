import { expect, test } from 'vitest';
import type { Step } from './decisions.ts';
import type { DatabaseFacts } from './facts.ts';
import { desired, observed, placed, running, seen } from './fixtures.ts';
import { advance } from './learn.ts';
import { applyOutcome, initialState, retryOf, startStep, withMember } from './state.ts';
import { status } from './status.ts';
import type { Observed, State } from './types.ts';

const d = desired();
const HEALTHY = ['PRIMARY', 'SECONDARY', 'SECONDARY'] as const;
const HOST = { host: 'db1', address: 'db1', port: 27017, portFixed: false };
const failed = { kind: 'failed', code: 'X', message: 'no', retry: 'later' } as const;

/** What is remembered after an import ended like this, `ends` times. */
function imports(state: State, ends: readonly ('failed' | 'succeeded')[]): State {
  return ends.reduce((s, kind, i) => {
    const id = `step-${i}`;
    const started = startStep(s, { kind: 'import', member: 'orders-0', placement: HOST }, id, 0);
    const result = { serviceId: 's', volumeId: 'v', host: 'db1', address: 'db1', port: 1 };
    const facts =
      kind === 'failed' ? { kind, code: 'PortTaken', message: 'port 1 is taken' } : { kind, result };
    return advance(started, d, observed({ operations: { [id]: facts } }), 0);
  }, state);
}

test('A3.1 A3.2 failures of an operation add up: 30 s, 60 s, 120 s … ten minutes; code and message are the last ones', () => {
  const waits = [1, 2, 3, 4, 5, 6, 7].map((n) => {
    const retry = retryOf(imports(initialState(d), Array(n).fill('failed')), 'import', 'orders-0');
    return [retry?.failures, (retry?.nextTryAt ?? 0) / 1000];
  });
  expect(waits).toEqual([
    [1, 30],
    [2, 60],
    [3, 120],
    [4, 240],
    [5, 480],
    [6, 600],
    [7, 600],
  ]);
  expect(retryOf(imports(initialState(d), ['failed']), 'import', 'orders-0')).toMatchObject({
    code: 'PortTaken',
    message: 'port 1 is taken',
  });
});

test('A3.2 a success ends the waits: the next failure begins anew', () => {
  const good = imports(initialState(d), ['failed', 'failed', 'succeeded']);
  expect(good.retries).toEqual([]);
  const again = imports(good, ['failed']);
  expect(retryOf(again, 'import', 'orders-0')).toMatchObject({ failures: 1, nextTryAt: 30_000 });
});

test('A5.4 waits of a database step: one second, doubling to a minute; a success ends them', () => {
  const step: Step = { kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' };
  let state = running(d);
  const waits: number[] = [];
  for (let i = 0; i < 8; i++) {
    state = applyOutcome(state, step, `s${i}`, failed, 0);
    waits.push((retryOf(state, step.kind, 'orders')?.nextTryAt ?? 0) / 1000);
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  const done = { kind: 'done', result: { usersHash: 'h' } } as const;
  expect(applyOutcome(state, step, 'good', done, 0).retries).toEqual([]);
});

test('an unknown outcome is neither success nor failure: nothing is concluded from it', () => {
  const state = running(d);
  const step: Step = { kind: 'reload', member: 'orders-2', configVersion: 2 };
  const started = startStep(state, step, 'a', 0);
  expect(applyOutcome(started, step, 'a', { kind: 'unknown', message: 'no answer' }, 0)).toBe(started);
});

test('A2.4 a failure of an older step leaves the operation that runs now alone', () => {
  const step: Step = { kind: 'deploy', member: 'orders-1', version: d.version };
  const started = startStep(placed(d), step, 'new', 0);
  expect(applyOutcome(started, step, 'old', failed, 0).pending).toEqual(started.pending);
  expect(applyOutcome(started, step, 'new', failed, 0).pending).toEqual([]);
});

/** orders-2 under way, as the given reading shows it. */
function after(stage: 'reloading' | 'upgrading', change: (o: Observed) => Observed): string | undefined {
  const base = running(d);
  const activated = { ...base.members[2]!.activated!, configVersion: 2 };
  const state = withMember({ ...base, configVersion: 2 }, 'orders-2', { stage, activated });
  return advance(state, d, change(seen(state, d, HEALTHY)), 0).members[2]?.stage;
}
const third = (
  o: Observed,
  configVersion: number,
  change: Partial<Extract<DatabaseFacts, { kind: 'reachable' }>> = {},
): Observed => ({
  ...o,
  members: o.members.map((m, i) =>
    i === 2 && m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, configVersion, database: { ...m.facts.database, ...change } } }
      : m,
  ),
});

test('S2 A8.1 A9.4 a member is back only with its snapshot, with its binary and caught up', () => {
  for (const stage of ['reloading', 'upgrading'] as const) {
    expect(
      after(stage, (o) => third(o, 2)),
      stage,
    ).toBe('active');
    expect(
      after(stage, (o) => third(o, 1)),
      'old snapshot',
    ).toBe(stage);
    expect(
      after(stage, (o) => third(o, 2, { binaryVersion: '7.0.43-23' })),
      'old binary',
    ).toBe(stage);
    expect(
      after(stage, (o) => third(o, 2, { state: 'RECOVERING' })),
      'not caught up',
    ).toBe(stage);
    const far = (o: Observed): Observed => ({
      ...o,
      members: o.members.map((m) => {
        const database = m.facts?.database;
        if (!m.facts || database?.kind !== 'reachable') return m;
        const peers = database.peers.map((p, i) => (i === 2 ? { ...p, lagMillis: 60_000 } : p));
        return { ...m, facts: { ...m.facts, database: { ...database, peers } } };
      }),
    });
    expect(
      after(stage, (o) => third(far(o), 2)),
      'lagging',
    ).toBe(stage);
  }
});

test('A9.1 a new goal gets a new version, the same one keeps it', () => {
  const state = running(d);
  const o = seen(state, d, HEALTHY);
  expect(advance(state, d, o, 0).configVersion).toBe(1);
  const changed = advance(state, desired({ mongodConfig: { a: 1 } }), o, 0);
  expect(changed.configVersion).toBe(2);
  expect(advance(changed, desired({ mongodConfig: { a: 1 } }), o, 0).configVersion).toBe(2);
});

test('an unchanged world gives the same record back, so that nothing is written', () => {
  const o = seen(running(d), d, HEALTHY);
  const state = advance(running(d), d, o, 0);
  expect(advance(state, d, o, 1_000)).toBe(state);
});

test('A3.3 from ten failures on the status says that it keeps failing', () => {
  const of = (n: number): string | undefined => {
    const state = imports(initialState(d), Array(n).fill('failed'));
    const plan = { act: null, waits: [], blocks: [], converged: false };
    const is = status({ observed: observed(), desired: d, state, plan, now: 0, warnings: [], before: null });
    return is.conditions.find((c) => c.type === 'Blocked')?.reason;
  };
  expect([of(9), of(10)]).toEqual(['NothingInTheWay', 'KeepsFailing']);
});
