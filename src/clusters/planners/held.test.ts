/** What planners hold back, and what they do not. */
import { expect, test } from 'vitest';
import type { Step } from '../decisions.ts';
import { desired, host, observed, ref, requested, sharded } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { foresee } from '../preview.ts';
import { initialState, withMember } from '../state.ts';
import { applyOutcome, startStep } from '../steps.ts';
import type { Desired, DesiredMember, Observed } from '../types.ts';
import { shardAddress } from './sharding.ts';

const slow = (ms: number, generation = 2): Partial<Desired> => ({
  generation,
  mongodConfig: { operationProfiling: { slowOpThresholdMs: ms } },
});
const acts = (set: Play): readonly Step[] =>
  plan(set.reading(), set.desired, set.state, set.now).act?.steps ?? [];
/** Passes until one says this; a set that never does is a failure, not an endless test. */
function passUntil(set: Play, line: string): void {
  for (let left = 60; left > 0; left--) if (set.pass().startsWith(line)) return;
  throw new Error(`never: ${line}`);
}
function replacing(): Play {
  const set = new Play(desired());
  set.hosts = [1, 2, 3, 4].map((n) => host(`db${n}`));
  set.syncPasses = 2;
  set.requests = [requested({ type: 'Replace', ...ref, member: 'orders-1' })];
  return set;
}

test('A3.1 STK-04 a snapshot that could not be given is tried again after a wait, a newer one at once', () => {
  const set = new Play(desired());
  set.desired = desired(slow(1));
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  const [step] = acts(set) as readonly [Step];
  expect(step).toMatchObject({ kind: 'reload', member: 'orders-2' });
  const failed = { kind: 'failed', code: 'SecretMissing', message: 'it is gone', retry: 'later' } as const;
  set.state = applyOutcome(startStep(set.state, step, 's1', set.now), step, 's1', failed, set.now);
  expect(acts(set)).toEqual([]);
  const waits = plan(set.reading(), set.desired, set.state, set.now).waits.map((w) => w.detail);
  expect(waits).toEqual(['reload of orders-2 failed once: it is gone']);
  set.desired = desired(slow(2, 3));
  expect(set.pass()).toBe('reload orders-2');
  expect(set.toTheEnd().at(-1)).toBe('converged');
});

test('A13.3 S2 a member that is down and being replaced is not given a change any more', () => {
  const set = replacing();
  passUntil(set, 'orders-3 join');
  set.crash(1);
  set.desired = desired(slow(1));
  const lines = Array.from({ length: 4 }, () => set.pass());
  expect(lines).not.toContain('reload orders-1');
});

test('A13.3 S4 what is left of the old one is kept until the new one has its vote', () => {
  const set = replacing();
  passUntil(set, 'orders-1 leaves');
  set.states[3] = 'RECOVERING';
  const lines = Array.from({ length: 8 }, () => set.pass());
  expect(lines.join()).not.toContain('delete');
  set.states[3] = 'SECONDARY';
  expect(set.toTheEnd()).toContain('deleteVolume orders-1');
});

test('A13.3 QRM-03 whose place is being taken does not join again', () => {
  const set = replacing();
  set.config = { ...set.config, members: set.config.members.filter((r) => r._id !== 1) };
  set.state = withMember(set.state, 'orders-1', { stage: 'healthy' });
  set.states[1] = 'STARTUP';
  const lines = Array.from({ length: 12 }, () => set.pass());
  expect(lines.filter((line) => line.includes('join'))).toEqual(['orders-3 join without vote and priority']);
});

test('A6.4 S1 of two that leave the one that is down goes first where the set could not do without the other', () => {
  const set = new Play(desired({}, 5));
  set.crash(2);
  set.crash(3);
  set.desired = desired({ generation: 2 }, 3);
  const first = Array.from({ length: 6 }, () => set.pass()).find((line) => line.includes('leaves'));
  expect(first).toBe('orders-3 leaves: votes 5 → 4, majority 3 → 3');
});

test('S5 CFG-01 a vote that moves in a set of seven voters is taken away before it is given', () => {
  const base = desired({}, 8);
  const mute = { ...(base.members[0] as DesiredMember), votes: 0 as const, priority: 0 };
  const without = (at: number): Desired => ({
    ...base,
    members: base.members.map((m, i) => (i === at ? mute : m)),
  });
  const set = new Play(without(1));
  set.desired = { ...without(7), generation: 2 };
  const voters: number[] = [];
  for (let pass = 0; pass < 6; pass++) {
    set.pass();
    voters.push(set.config.members.filter((r) => r.votes === 1).length);
  }
  expect(Math.max(...voters)).toBe(7);
  expect(set.config.members.map((r) => r.votes)).toEqual([1, 1, 1, 1, 1, 1, 1, 0]);
});

test('A8.5 L2 FCV that was raised is not raised again while the report of it is still to come', () => {
  const set = new Play(desired());
  set.fcv = '7.0';
  set.requests = [requested({ type: 'RaiseFCV', ...ref })];
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  const [step] = acts(set) as readonly [Step];
  set.state = applyOutcome(set.state, step, 's1', { kind: 'done', result: {} }, set.now);
  expect(set.pass()).toBe('wait ObservationStale');
});

const executables = { mongod: ['8.0.29-13', '8.0.32-14'], mongos: ['8.0.29-13', '8.0.32-14'] };
const hosts = ['db1', 'db2', 'db3'].map((name) => host(name, { executables }));
const made = (want: Desired) => foresee(observed({ hosts }), want, initialState(want), 0);

test('A8.5 of a sharded cluster one step raises it for all', () => {
  const want = sharded();
  const { state, observed: seen } = made(want);
  const request = requested({ type: 'RaiseFCV', mongodbResourceRef: { name: 'events' }, version: '8.0' });
  const members = seen.members.map((m) =>
    m.facts?.database?.kind === 'reachable'
      ? {
          ...m,
          facts: { ...m.facts, database: { ...m.facts.database, featureCompatibilityVersion: '7.0' } },
        }
      : m,
  );
  const old: Observed = { ...seen, members, requests: [request] };
  const record = advance(state, want, old, 1_000);
  expect(plan(old, want, record, 1_000).act?.steps.map((s) => s.kind)).toEqual(['setFcv']);
});

test('A5.3 a shard is registered by its full members', () => {
  const { state } = made(sharded());
  const set = state.replicaSets.find((r) => r.role === 'shardServer')?.name ?? '';
  const [first] = state.members.filter((m) => m.replicaSet === set);
  const fewer = withMember(state, first?.name ?? '', { stage: 'syncing' });
  expect(shardAddress(state, set).split(',')).toHaveLength(3);
  expect(shardAddress(fewer, set).split(',')).toHaveLength(2);
});

test('A8.3 S14 a balancer that runs though it should rest is stopped again, and what it was before is not forgotten', () => {
  const { state, observed: seen } = made(sharded({ version: '8.0.29-13' }));
  const want = sharded({ version: '8.0.32-14', generation: 2 });
  for (const wasEnabled of [true, false]) {
    const record = advance({ ...state, balancer: { wasEnabled, confirmed: false } }, want, seen, 1_000);
    const decided = plan(seen, want, record, 1_000);
    expect(decided.act?.steps).toMatchObject([{ kind: 'stopBalancer', wasEnabled }]);
  }
});

test('A8.3 L3 without a router that answers no member of a set is worked on, and the wait says so', () => {
  const { state, observed: seen } = made(sharded({ version: '8.0.29-13' }));
  const want = sharded({ version: '8.0.32-14', generation: 2 });
  const routers = new Set(state.members.filter((m) => m.role === 'router').map((m) => m.name));
  const silent: Observed = {
    ...seen,
    members: seen.members.map((m) => (routers.has(m.name) ? { ...m, connected: false, facts: null } : m)),
  };
  const record = advance(state, want, silent, 1_000);
  const decided = plan(silent, want, record, 1_000);
  expect(decided.act).toBeNull();
  expect(decided.waits.map((w) => w.on)).toContain('WaitingForRouter');
});
