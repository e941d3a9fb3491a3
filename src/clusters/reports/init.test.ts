import { expect, test } from 'vitest';
import { SECOND } from '../../base/units.ts';
import type { Step } from '../decisions.ts';
import { desired, placed, running, seen } from '../fixtures.ts';
import { guard } from '../guard.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { status } from '../status.ts';
import { applyOutcome, startStep } from '../steps.ts';
import type { Observed, State } from '../types.ts';

const want = desired();
const BLANK = ['STARTUP', 'STARTUP', 'STARTUP'] as const;

/** One look: what is learnt, and what is planned on it. */
function look(state: State, observed: Observed, now: number) {
  const learnt = advance(state, want, observed, now);
  return { state: learnt, plan: plan(observed, want, learnt, now) };
}

test('INI-02 while the first election lasts the set waits; then the first user goes to whichever member won', () => {
  let state = placed(want);
  const initiate = plan(seen(state, want, BLANK), want, state, 0).act?.steps[0] as Step;
  state = applyOutcome(
    startStep(state, initiate, 'i', 0),
    initiate,
    'i',
    { kind: 'done', result: {} },
    SECOND,
  );
  for (let second = 1; second <= 8; second++) {
    const now = look(
      state,
      seen(state, want, ['SECONDARY', 'SECONDARY', 'SECONDARY'], { usersExist: false }),
      second * SECOND,
    );
    state = now.state;
    expect([now.plan.act, now.plan.waits[0]?.on, now.plan.blocks]).toEqual([null, 'WaitingForPrimary', []]);
  }
  const won = look(
    state,
    seen(state, want, ['SECONDARY', 'SECONDARY', 'PRIMARY'], { usersExist: false }),
    9_000,
  );
  expect(won.plan.act?.steps).toEqual([{ kind: 'createFirstUser', replicaSet: 'orders', via: 'orders-2' }]);
});

test('INI-02 a primary that is not writable yet is a short wait, not an error that stays', () => {
  const state = placed(want);
  const step: Step = { kind: 'createFirstUser', replicaSet: 'orders', via: 'orders-2' };
  const refused = {
    kind: 'failed',
    code: 'NotWritablePrimary',
    message: 'not primary',
    retry: 'later',
  } as const;
  const tried = applyOutcome(state, step, 'u', refused, 10_000);
  const observed = seen(state, want, ['SECONDARY', 'SECONDARY', 'PRIMARY'], { usersExist: false });
  expect(look(tried, observed, 10_500).plan).toMatchObject({
    act: null,
    waits: [{ on: 'Backoff' }],
    blocks: [],
  });
  expect(look(tried, observed, 11_000).plan.act?.steps[0]).toEqual(step);
});

test('INI-04 an initiation that a member’s name holds up says which, leaves nothing behind and is sent again until it works', () => {
  let state = placed(want);
  const observed = seen(state, want, BLANK);
  const refused = {
    kind: 'failed',
    code: 'NodeNotFound',
    message: 'db3:27017 cannot be reached from here: no such name',
    retry: 'later',
  } as const;
  let now = 0;
  for (let poll = 0; poll < 3; poll++) {
    const step = look(state, observed, now).plan.act?.steps[0] as Step;
    expect(step.kind).toBe('initiate');
    state = applyOutcome(startStep(state, step, `i${poll}`, now), step, `i${poll}`, refused, now);
    const waiting = look(state, observed, now).plan.waits;
    expect(waiting.map((w) => w.detail).join()).toContain('db3:27017 cannot be reached');
    expect(state.replicaSets[0]).toMatchObject({ stage: 'bootstrap', initiating: false, replicaSetId: null });
    now = state.retries[0]?.nextTryAt ?? 0;
  }
  const step = look(state, observed, now).plan.act?.steps[0] as Step;
  state = applyOutcome(startStep(state, step, 'ok', now), step, 'ok', { kind: 'done', result: {} }, now);
  expect(state.retries).toEqual([]);
  expect(state.replicaSets[0]?.initiating).toBe(true);
});

/** orders-0 was emptied and has come back as the primary of a set of its own. */
function withStray(state: State): Observed {
  const o = seen(state, want, ['SECONDARY', 'PRIMARY', 'SECONDARY']);
  const stray = { replicaSetId: 'id-2', state: 'PRIMARY', writablePrimary: true, term: 9 } as const;
  const members = o.members.map((m, i) =>
    i === 0 && m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, ...stray } } }
      : m,
  );
  return { ...o, members };
}

test('INI-06 a member of another set under our name is a critical condition, and no endpoint lists it', () => {
  const state = running(want);
  const observed = withStray(state);
  const decided = plan(observed, want, state, 0);
  expect(decided.act).toBeNull();
  const is = status({ observed, desired: want, state, plan: decided, now: 0, warnings: [], before: null });
  expect(is.conditions.find((c) => c.type === 'Blocked')).toMatchObject({
    status: 'True',
    reason: 'SplitIdentity',
    message: expect.stringContaining('orders-0 belongs to another replica set called orders'),
  });
  expect(is.endpoints.map((e) => e.member)).toEqual(['orders-1', 'orders-2']);
  expect(is.connectionString).toBe('mongodb://db2:27017,db3:27017/?replicaSet=orders&tls=true');
  const repair: Step = { kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' };
  expect(guard(repair, observed, want, state, 0)?.reason).toBe('NotOwned');
});

test('INI-07 a set that says it is initiated already counts as initiated, and its members restart like any others', () => {
  const state = placed(want);
  const observed = seen(state, want, ['PRIMARY', 'SECONDARY', 'SECONDARY'], { usersExist: false });
  expect(look(state, observed, 0).plan.act?.steps.map((s) => s.kind)).toEqual(['createFirstUser']);
  const live = running(want);
  const restarted = seen(live, want, [null, 'PRIMARY', 'SECONDARY']);
  expect(plan(restarted, want, live, 0).act).toBeNull();
});
