import { expect, test } from 'vitest';
import type { Step } from './decisions.ts';
import { desired, placed, running, sharded } from './fixtures.ts';
import { retryOf, withMember } from './state.ts';
import { applyOutcome, cancelStep, startStep } from './steps.ts';
import { memberHost } from './topology.ts';
import type { ActivatedSnapshot, State } from './types.ts';

const d = desired();
const failed = { kind: 'failed', code: 'X', message: 'no', retry: 'later' } as const;

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

test('S1 S2 from a reconfiguration’s intent on those who join and get votes in that set count, and nobody else is marked', () => {
  const want = sharded();
  const rows = (of: State, set: string, votes: 0 | 1) =>
    of.members
      .filter((m) => m.replicaSet === set)
      .map((m) => ({ _id: m.index, host: memberHost(m) ?? '', votes, priority: votes }));
  const stages = ['healthy', 'syncing', 'active'] as const;
  const base = running(want);
  const state: State = {
    ...base,
    members: base.members.map((m) => ({ ...m, stage: stages[m.index % 3] ?? 'active', address: m.name })),
  };
  const marked = (of: State): readonly string[] => of.members.filter((m) => m.voteSent).map((m) => m.name);
  const step = (votes: 0 | 1, forcedBy?: string): Step => ({
    kind: 'reconfig',
    replicaSet: 'events-s0',
    via: 'events-s0-2',
    config: {
      _id: 'events-s0',
      version: 2,
      members: [...rows(state, 'events-s0', votes), ...rows(state, 'events-s1', votes)],
    },
    change: '',
    ...(forcedBy === undefined ? {} : { forcedBy }),
  });
  expect(marked(startStep(state, step(1), 's', 0))).toEqual(['events-s0-0', 'events-s0-1']);
  expect(startStep(state, step(0), 's', 0)).toBe(state);
  // Forced by an operation that is not there any more it is one like any other.
  expect(marked(startStep(state, step(1, 'op-1'), 's', 0))).toEqual(['events-s0-0', 'events-s0-1']);
  const both = startStep(
    startStep(state, step(1), 's', 0),
    { ...step(1), replicaSet: 'events-s1' } as Step,
    't',
    0,
  );
  expect(marked(both)).toHaveLength(4);
  expect(marked(cancelStep(both, step(1), 's'))).toEqual(['events-s1-0', 'events-s1-1']);
});

test('A9.1 S10 a snapshot that is sent again is one open answer, and each is closed for itself', () => {
  const sent = (of: State, configVersion: number): State =>
    startStep(of, { kind: 'publish', member: 'orders-2', configVersion }, `s${configVersion}`, 0);
  const open = (of: State) => of.members.map((m) => m.unanswered ?? []);
  const state = sent(sent(sent(running(desired()), 2), 3), 2);
  expect(open(state)).toEqual([[], [], [3, 2]]);
  const step = { kind: 'publish', member: 'orders-2', configVersion: 3 } as const;
  expect(open(cancelStep(state, step, 's'))).toEqual([[], [], [2]]);
  expect(open(cancelStep(state, { kind: 'deploy', member: 'orders-2', version: '8.0.32-14' }, 's'))).toEqual([
    [],
    [],
    [3, 2],
  ]);
});

test('A9.1 S2 what was taken is known with its version and leaves no answer open; what was refused is as if it had not been sent', () => {
  const snapshot = { ...(running(desired()).members[2]?.activated as ActivatedSnapshot), configVersion: 7 };
  for (const kind of ['publish', 'reload', 'rotateCertificate'] as const) {
    const step = { kind, member: 'orders-2', configVersion: 7 } as const;
    const before = withMember(running(desired()), 'orders-2', { unanswered: [5] });
    const sent = startStep(before, step, 's', 0);
    const done = applyOutcome(sent, step, 's', { kind: 'done', result: { snapshot } }, 0);
    expect(done.configVersion, kind).toBe(7);
    expect(done.members[2], kind).toMatchObject({ activated: snapshot, unanswered: [] });
    const later = applyOutcome(
      { ...sent, configVersion: 9 },
      step,
      's',
      { kind: 'done', result: { snapshot } },
      0,
    );
    expect(later.configVersion, kind).toBe(9);
  }
  const publish = { kind: 'publish', member: 'orders-2', configVersion: 7 } as const;
  const refused = applyOutcome(startStep(running(desired()), publish, 's', 0), publish, 's', failed, 0);
  expect(refused.members[2]?.unanswered).toEqual([]);
  // One that restarts and cannot take a certificate online runs as before, and is asked like any other.
  const online = { kind: 'rotateCertificate', member: 'orders-2', configVersion: 7 } as const;
  const restarting = withMember(running(desired()), 'orders-2', { stage: 'reloading', unanswered: [6] });
  const kept = applyOutcome(startStep(restarting, online, 's', 0), online, 's', failed, 0);
  expect(kept.members[2]).toMatchObject({ stage: 'active', unanswered: [] });
});

test('S3 a member that was not restarted because it has become primary is like any other again, unless an older answer is still to come', () => {
  const step = { kind: 'reload', member: 'orders-2', configVersion: 7 } as const;
  const after = (before: State, code: string) =>
    applyOutcome(startStep(before, step, 's', 0), step, 's', { ...failed, code }, 0).members[2];
  const state = running(desired());
  expect(after(state, 'MemberIsPrimary')).toMatchObject({ stage: 'active', unanswered: [] });
  expect(after(state, 'DiskFull')).toMatchObject({ stage: 'reloading' });
  const doubtful = withMember(state, 'orders-2', { stage: 'reloading', unanswered: [6] });
  expect(after(doubtful, 'MemberIsPrimary')).toMatchObject({ stage: 'reloading', unanswered: [6] });
});

test('S1 S5 the last configuration a set took is known by version and term, of that set only; a forced one, or one that was refused, is not', () => {
  const want = sharded();
  const step: Step = {
    kind: 'reconfig',
    replicaSet: 'events-s0',
    via: 'events-s0-0',
    config: { _id: 'events-s0', version: 4, term: 2, members: [] },
    change: '',
  };
  const after = (of: Step, outcome: Parameters<typeof applyOutcome>[3]) =>
    applyOutcome(startStep(running(want), of, 's', 0), of, 's', outcome, 0)
      .replicaSets.filter((r) => r.reconfigured !== undefined)
      .map((r) => [r.name, r.reconfigured]);
  const done = { kind: 'done', result: {} } as const;
  expect(after(step, done)).toEqual([['events-s0', { version: 4, term: 2 }]]);
  const { term: _, ...config } = step.config;
  expect(after({ ...step, config }, done)).toEqual([['events-s0', { version: 4, term: null }]]);
  // A new primary writes what it had under its own term, so the server may have given another one than was asked for.
  expect(after(step, { kind: 'done', result: { term: 3 } })).toEqual([
    ['events-s0', { version: 4, term: 3 }],
  ]);
  expect(after({ ...step, forcedBy: 'op-1' }, done)).toEqual([]);
  expect(after(step, failed)).toEqual([]);
  expect(after(step, { kind: 'unknown', message: 'no answer' })).toEqual([]);
});
