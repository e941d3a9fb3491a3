/** Shards and balancer where readings are late, answers are lost, and people do things meanwhile. */
import { expect, test } from 'vitest';
import type { StepOutcome } from '../decisions.ts';
import { disruptionsOf } from '../disruption.ts';
import type { RouterFacts } from '../facts.ts';
import { host, observed, sharded } from '../fixtures.ts';
import { guard } from '../guard.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { type Foreseen, foresee, preview } from '../preview.ts';
import { initialState, withMember } from '../state.ts';
import { status } from '../status.ts';
import { applyOutcome, startStep } from '../steps.ts';
import type { Desired, DesiredComponent, Observed, OperationRequest, State } from '../types.ts';

const versions = ['7.0.43-23', '8.0.29-13', '8.0.32-14'];
const hosts = ['db1', 'db2', 'db3'].map((name) =>
  host(name, { executables: { mongod: versions, mongos: versions } }),
);
const made = (want: Desired): Foreseen => foresee(observed({ hosts }), want, initialState(want), 0);
const OLDER = { version: '8.0.29-13' };
const newer = { generation: 2, version: '8.0.32-14' };

const STOP = { kind: 'stopBalancer', via: 'events-mongos-0', wasEnabled: true } as const;
const answered = (balancerWas: boolean): StepOutcome => ({ kind: 'done', result: { balancerWas } });

test('S14 what the balancer was right before counts, not what a router told some seconds ago', () => {
  const { state } = made(sharded());
  const sent = startStep(state, STOP, 's1', 1_000);
  expect(applyOutcome(sent, STOP, 's1', answered(false), 1_000).balancer).toMatchObject({
    wasEnabled: false,
  });
  expect(applyOutcome(sent, STOP, 's1', { kind: 'done', result: {} }, 1_000).balancer).toMatchObject({
    wasEnabled: true,
  });
});

test('S1 L3 what a cluster has one of is said with the count that gives another', () => {
  const cases = [
    [{ routers: 1 }, 'events-mongos-0 is the only router', 'spec.mongosCount'],
    [{ config: 1 }, 'events-cfg-0 is the only member', 'spec.configServerCount'],
    [{ shard: 1 }, 'events-s0-0 is the only member', 'spec.mongodsPerShardCount'],
  ] as const;
  for (const [counts, who, field] of cases) {
    const { state, observed: seen } = made(sharded(OLDER, counts));
    const { refusals } = preview(seen, sharded(newer, counts), state, 1_000_000);
    expect(refusals.map((r) => `${r.by}: ${r.detail}; ${r.fix}`)).toContain(
      `WouldInterrupt: ${who}: working on it stops the database; set spec.maintenance.interruption: Allowed, or raise ${field}`,
    );
  }
});

test('S14 after a lost answer the balancer may be off because of us: what was remembered first stays', () => {
  const { state } = made(sharded());
  const lost = applyOutcome(
    startStep(state, STOP, 's1', 1_000),
    STOP,
    's1',
    { kind: 'unknown', message: '' },
    1_000,
  );
  const again = startStep(lost, STOP, 's2', 2_000);
  expect(applyOutcome(again, STOP, 's2', answered(false), 2_000).balancer).toMatchObject({
    wasEnabled: true,
    confirmed: true,
  });
});

test('S14 one that was off and runs before a repeated stop was switched on by somebody: that is brought back', () => {
  const { state } = made(sharded());
  const step = { ...STOP, wasEnabled: false } as const;
  const lost = { kind: 'unknown', message: '' } as const;
  const first = applyOutcome(startStep(state, step, 's1', 1_000), step, 's1', lost, 1_000);
  const again = startStep(first, step, 's2', 2_000);
  const result = { balancerWas: true, autoMergeWas: false };
  expect(applyOutcome(again, step, 's2', { kind: 'done', result }, 2_000).balancer).toMatchObject({
    wasEnabled: true,
    autoMerge: false,
  });
});

test('A8.3 S14 after a start that got no answer the balancer may run: it is stopped again before anybody is worked on', () => {
  const { state: made0, observed: seen } = made(sharded(OLDER));
  const rested = applyOutcome(startStep(made0, STOP, 's1', 1_000), STOP, 's1', answered(true), 1_000);
  const start = { kind: 'startBalancer', via: 'events-mongos-0', enable: true } as const;
  const sent = startStep(rested, start, 's2', 2_000);
  const lost = applyOutcome(sent, start, 's2', { kind: 'unknown', message: '' }, 2_000);
  const want = sharded(newer);
  const off = routersTell(seen, { balancer: 'off' });
  const decided = plan(off, want, advance(lost, want, off, 3_000), 3_000);
  const [step] = decided.act?.steps ?? [];
  expect(step).toMatchObject({ kind: 'stopBalancer', wasEnabled: true });
  // What it was right before may be what that start made it.
  const again = startStep({ ...lost, balancer: { ...lost.balancer!, autoMerge: false } }, STOP, 's3', 4_000);
  const result = { balancerWas: true, autoMergeWas: true };
  const told = applyOutcome(again, STOP, 's3', { kind: 'done', result }, 4_000).balancer;
  expect(told).toMatchObject({ wasEnabled: true, autoMerge: false, confirmed: true });
  expect(told?.waking).toBeUndefined();
});

test('A8.3 S14 an AutoMerger that a person had switched off is off after a rest, whoever brings the balancer back', () => {
  const before = sharded(OLDER);
  const { state, observed: seen } = made(before);
  const want = sharded(newer);
  const told = routersTell(seen, { balancer: 'full', autoMerge: false });
  const [step] = plan(told, want, advance(state, want, told, 1_000), 1_000).act?.steps ?? [];
  expect(step).toMatchObject({ kind: 'stopBalancer', wasEnabled: true, autoMerge: false });
  if (step === undefined) return;
  const sent = startStep(state, step, 's1', 1_000);
  expect(sent.balancer).toMatchObject({ autoMerge: false, confirmed: false });
  // The server stops it along: what is asked again says nothing of before.
  const again = startStep(sent, step, 's2', 2_000);
  const result = { balancerWas: false, autoMergeWas: true };
  const rests = applyOutcome(again, step, 's2', { kind: 'done', result }, 2_000);
  const over = routersTell(seen, { balancer: 'off', autoMerge: false });
  const [wake] = plan(over, before, rests, 60_000).act?.steps ?? [];
  expect(wake).toMatchObject({ kind: 'startBalancer', enable: true, autoMerge: false });
  if (wake === undefined) return;
  expect(applyOutcome(rests, wake, 's3', { kind: 'done', result: {} }, 60_000).balancerSet).toEqual({
    on: true,
    at: 60_000,
    autoMerge: false,
  });
});

test('A8.3 C3.2 the balancer rests only when the member it rests for may be taken, and asks for that one', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const record = advance(state, want, seen, 1_000);
  const [step] = plan(seen, want, record, 1_000).act?.steps ?? [];
  const next = { kind: 'upgrade', version: newer.version } as const;
  expect(step).toMatchObject({ kind: 'stopBalancer', before: next });
  if (step?.kind !== 'stopBalancer' || step.before === undefined) throw new Error('it rests first');
  const asked = disruptionsOf(step, record, seen, want);
  expect(asked).toHaveLength(1);
  expect(asked).toEqual(disruptionsOf(step.before, record, seen, want));
  // The same member is worked on as soon as it rests: what was granted is used.
  const rests = applyOutcome(startStep(record, step, 's1', 1_000), step, 's1', answered(true), 1_000);
  const still = routersTell(seen, { balancer: 'off' });
  expect(plan(still, want, advance(rests, want, still, 2_000), 2_000).act?.steps).toEqual([step.before]);
  // One that may rest already, and must for who is under way, asks nobody.
  expect(disruptionsOf(STOP, record, seen, want)).toEqual([]);
});

test('A7.4 S14 while Belay holds the balancer off the status says what it was before', () => {
  const want = sharded();
  const { state, observed: seen } = made(want);
  const told = (record: State): unknown => {
    const looked = routersTell(seen, { balancer: 'off' });
    const next = plan(looked, want, record, 0);
    const is = status({
      observed: looked,
      desired: want,
      state: record,
      plan: next,
      now: 0,
      warnings: [],
      before: null,
    });
    return [is.balancer, is.balancerBefore];
  };
  expect(told(state)).toEqual(['off', undefined]);
  expect(told({ ...state, balancer: { wasEnabled: true, confirmed: true } })).toEqual(['off', 'on']);
  expect(told({ ...state, balancer: { wasEnabled: false, confirmed: true } })).toEqual(['off', 'off']);
});

test('S14 the AutoMerger is what it was right before, and nothing is made of it where nobody says what that was', () => {
  const { state, observed: seen } = made(sharded());
  const over = routersTell(seen, { balancer: 'off', autoMerge: false });
  const wakes = (result: object, wasEnabled = true) => {
    const stopped = { ...STOP, wasEnabled };
    const sent = startStep(state, stopped, 's1', 1_000);
    const rests = applyOutcome(sent, stopped, 's1', { kind: 'done', result }, 1_000);
    return plan(over, sharded(), rests, 60_000).act?.steps;
  };
  const wake = { kind: 'startBalancer', via: 'events-mongos-0' };
  expect(wakes({ autoMergeWas: false })).toEqual([{ ...wake, enable: true, autoMerge: false }]);
  expect(wakes({ autoMergeWas: true })).toEqual([{ ...wake, enable: true }]);
  expect(wakes({})).toEqual([{ ...wake, enable: true }]);
  expect(wakes({ autoMergeWas: true }, false)).toEqual([{ ...wake, enable: false, autoMerge: true }]);
  expect(wakes({ autoMergeWas: false }, false)).toEqual([{ ...wake, enable: false }]);
});

test('S14 whoever switches the balancer on while it rests gets the AutoMerger along, unless that alone was off before', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const woken = routersTell(seen, { balancer: 'full', autoMerge: true });
  const stops = (wasEnabled: boolean) => {
    const rest = { wasEnabled, confirmed: true, at: 0, autoMerge: false };
    const record = advance({ ...state, balancer: rest }, want, woken, 60_000);
    return plan(woken, want, record, 60_000).act?.steps[0];
  };
  expect(stops(true)).toMatchObject({ kind: 'stopBalancer', wasEnabled: true, autoMerge: false });
  expect(stops(false)).toMatchObject({ kind: 'stopBalancer', wasEnabled: true });
  expect(stops(false)).not.toHaveProperty('autoMerge');
});

test('S14 routers that tell of the rest that is over do not make the AutoMerger one that was off', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const late = routersTell(seen, { balancer: 'off', autoMerge: false });
  const wake = { kind: 'startBalancer', via: 'events-mongos-0', enable: true } as const;
  const on = applyOutcome(state, wake, 's1', { kind: 'done', result: {} }, 50_000);
  expect(plan(late, want, advance(on, want, late, 60_000), 60_000).act?.steps).toMatchObject([
    { kind: 'stopBalancer', wasEnabled: true, autoMerge: true },
  ]);
});

const asked = (type: 'StartBalancer' | 'StopBalancer'): OperationRequest => ({
  uid: 'op-1',
  name: 'events-op',
  spec: { mongodbResourceRef: { name: 'events' }, type },
  createdAt: 0,
  cancelRequested: false,
});
const balancerTold = (seen: Observed, balancer: 'full' | 'off'): Observed => routersTell(seen, { balancer });
const routersTell = (seen: Observed, change: Partial<RouterFacts>): Observed => ({
  ...seen,
  members: seen.members.map((m) =>
    m.facts?.database?.kind === 'reachable' && m.facts.database.router !== undefined
      ? {
          ...m,
          facts: {
            ...m.facts,
            database: { ...m.facts.database, router: { ...m.facts.database.router, ...change } },
          },
        }
      : m,
  ),
});

test('A13.1 S14 a person’s switch is carried out though a late reading says it is done already', () => {
  const want = sharded();
  const { state, observed: seen } = made(want);
  const late = { ...balancerTold(seen, 'off'), requests: [asked('StopBalancer')] };
  const begun = advance(state, want, late, 1_000);
  const [step] = plan(late, want, begun, 1_000).act?.steps ?? [];
  expect(step).toMatchObject({ kind: 'switchBalancer', enabled: false });
  if (step === undefined) return;
  const told = applyOutcome(begun, step, 's1', { kind: 'done', result: {} }, 1_000);
  expect(advance(told, want, late, 1_000).ended).toMatchObject([{ uid: 'op-1', state: 'Succeeded' }]);
});

test('A13.1 S14 a person’s switch waits while the balancer rests, which would undo it', () => {
  const want = sharded();
  const { state, observed: seen } = made(want);
  const rests: State = { ...state, balancer: { wasEnabled: true, confirmed: true } };
  const late = { ...balancerTold(seen, 'off'), requests: [asked('StopBalancer')] };
  const record = advance(rests, want, late, 1_000);
  expect(record.operation).toBeNull();
  expect(plan(late, want, record, 1_000).act?.steps).toMatchObject([{ kind: 'startBalancer', enable: true }]);
});

test('A8.3 C7.1 the balancer does not rest for what waits for a maintenance window, and wakes when it closes', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const windows = [
    { cron: '0 3 * * 0', timeZone: 'UTC', durationMillis: 3_600_000, text: 'sun 03:00 for 1h' },
  ];
  const want = sharded({ ...newer, windows });
  const monday = Date.UTC(2026, 10, 30, 12);
  const reading = { ...seen, at: monday };
  const record = advance(state, want, reading, monday);
  const decided = plan(reading, want, record, monday);
  expect([decided.act, decided.waits.map((w) => w.on)]).toEqual([null, ['MaintenanceWindow']]);
  const resting = { ...record, balancer: { wasEnabled: true, confirmed: true } };
  expect(plan(balancerTold(reading, 'off'), want, resting, monday).act?.steps).toMatchObject([
    { kind: 'startBalancer', enable: true },
  ]);
});

test('A8.3 the balancer does not rest for what a person has to allow first', () => {
  const lone = {
    members: [{ votes: 1, priority: 1, hidden: false, secondaryDelaySecs: 0, tags: {} }],
  } as const;
  const small = sharded(OLDER);
  const shards = small.sharded;
  if (shards === null) throw new Error('not sharded');
  const parts = { config: { ...shards.config, ...lone }, shard: { ...shards.shard, ...lone } };
  const { state, observed: seen } = made({ ...small, sharded: { ...shards, ...parts } });
  const changed = sharded(newer).sharded;
  if (changed === null) throw new Error('not sharded');
  const want = {
    ...sharded(newer),
    sharded: { ...changed, config: { ...changed.config, ...lone }, shard: { ...changed.shard, ...lone } },
  };
  const record = advance(state, want, seen, 1_000);
  const decided = plan(seen, want, record, 1_000);
  expect([decided.act, decided.blocks.map((b) => b.by)]).toEqual([null, ['WouldInterrupt']]);
});

/** Members of this role as they would be if their processes had ended. */
const ended = (seen: Observed, state: State, role: string): Observed => ({
  ...seen,
  members: seen.members.map((m) => {
    if (m.facts === null || state.members.find(({ name }) => name === m.name)?.role !== role) return m;
    const process = {
      kind: 'exited',
      since: 0,
      exitCode: 2,
      signal: null,
      failures: 1,
      nextStartAt: null,
      message: 'unrecognised option',
    } as const;
    return { ...m, facts: { ...m.facts, process, database: null } };
  }),
});

test('A8.3 nobody is worked on before the stop of the balancer was answered, also when no router works any more', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const asking: State = { ...state, balancer: { wasEnabled: true, confirmed: false } };
  const silent = ended(seen, state, 'router');
  const record = advance(asking, want, silent, 1_000);
  const decided = plan(silent, want, record, 1_000);
  expect(decided.act).toBeNull();
  expect(decided.waits.map((w) => w.on)).toContain('WaitingForRouter');
});

test('A8.3 A13.1 nobody is worked on while a person’s switch of the balancer waits for a router', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const silent = { ...ended(seen, state, 'router'), requests: [asked('StartBalancer')] };
  const record = advance(state, want, silent, 1_000);
  expect(record.operation?.work.kind).toBe('SwitchBalancer');
  const decided = plan(silent, want, record, 1_000);
  expect([decided.act, decided.waits.map((w) => w.detail)]).toEqual([
    null,
    ['the balancer is switched through a router'],
  ]);
});

test('A9.2 A8.3 where no router works, one that is down gets what may be its cure before the others get theirs', () => {
  const before = sharded(OLDER);
  const { state, observed: seen } = made(before);
  const silent = ended(seen, state, 'router');
  const want = sharded({ ...newer, tlsMode: before.tlsMode === 'requireTLS' ? 'preferTLS' : 'requireTLS' });
  const record = advance(state, want, silent, 1_000);
  expect(plan(silent, want, record, 1_000).act?.steps).toMatchObject([
    { kind: 'reload', member: 'events-mongos-0' },
  ]);
});

test('A9.2 S1 one that is down gets what may be its cure before those that run, of whatever group, and with the binary it has', () => {
  const before = sharded(OLDER);
  const { state, observed: seen } = made(before);
  const down = ended(seen, state, 'shardServer');
  const want = sharded({ ...newer, tlsMode: 'preferTLS' });
  const first = plan(down, want, advance(state, want, down, 1_000), 1_000).act?.steps;
  expect(first).toMatchObject([{ kind: 'reload', member: 'events-s0-0' }]);
});

/** It runs, and has not opened its port. */
const silent = (seen: Observed, name: string): Observed => ({
  ...seen,
  members: seen.members.map((m) =>
    m.name === name && m.facts !== null
      ? { ...m, facts: { ...m.facts, database: { kind: 'unreachable', message: 'does not answer yet' } } }
      : m,
  ),
});

test('A9.2 STK-07 a router that runs and answers nothing gets what it lacks first, of its group and before others', () => {
  const routers = 3;
  const before = sharded(OLDER, { routers });
  const { state, observed: seen } = made(before);
  const stuck = silent(seen, 'events-mongos-0');
  const next = (want: Desired) => plan(stuck, want, advance(state, want, stuck, 1_000), 1_000).act?.steps;
  // Only routers are behind: the one with the highest index would wait for the silent one.
  const { sharded: parts } = before;
  const router = {
    ...(parts?.router as DesiredComponent),
    mongodConfig: { net: { maxIncomingConnections: 90 } },
  };
  const settings = { ...before, generation: 2, sharded: { ...(parts as NonNullable<typeof parts>), router } };
  expect(next(settings)).toMatchObject([{ kind: 'reload', member: 'events-mongos-0' }]);
  // Everybody is behind, config servers first but for it.
  const all = sharded({ ...OLDER, generation: 2, tlsMode: 'preferTLS' }, { routers });
  expect(next(all)).toMatchObject([{ kind: 'reload', member: 'events-mongos-0' }]);
});

test('A9.2 S1 the only router is not restarted while it may be about to open its port', () => {
  const { state, observed: seen } = made(sharded(OLDER, { routers: 1 }));
  const stuck = silent(seen, 'events-mongos-0');
  const want = sharded({ ...OLDER, generation: 2, tlsMode: 'preferTLS' }, { routers: 1 });
  const steps = plan(stuck, want, advance(state, want, stuck, 1_000), 1_000).act?.steps ?? [];
  expect(steps.filter((step) => 'member' in step && step.member === 'events-mongos-0')).toEqual([]);
});

test('A8.2 shards do not get a binary before a config server that is being replaced has gone', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const settings = { votes: 1, priority: 1, hidden: false, secondaryDelaySecs: 0, tags: {} } as const;
  const old = state.members.find((m) => m.role === 'configServer');
  const substitute = {
    ...(old as NonNullable<typeof old>),
    name: 'events-cfg-3',
    index: 3,
    stage: 'imported' as const,
    activated: null,
    deployedVersion: null,
    replacement: { of: old?.name ?? '', settings, host: null, avoidHosts: [], because: 'Moving' as const },
  };
  const others = state.members.map((m) =>
    m.role === 'configServer' && m.name !== old?.name ? { ...m, deployedVersion: '8.0.32-14' } : m,
  );
  const rests: State = {
    ...state,
    members: [...others, substitute],
    pending: [
      {
        action: 'deploy',
        member: 'events-cfg-3',
        stepId: 's1',
        operationId: null,
        startedAt: 0,
        version: '8.0.32-14',
      },
    ],
    balancer: { wasEnabled: true, confirmed: true, at: 1_000 },
  };
  const decided = plan(seen, want, rests, 1_000);
  expect(decided.act).toBeNull();
  expect(decided.waits.map((w) => w.detail).join()).toContain('when the place of events-cfg-0 is taken');
});

test('A8.3 L3 a balancer that rests and still moves a chunk is waited for', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const moving: Observed = {
    ...seen,
    members: seen.members.map((m) => {
      const database = m.facts?.database;
      if (m.facts == null || database?.kind !== 'reachable' || database.router === undefined) return m;
      const router = { ...database.router, balancer: 'off' as const, balancing: true };
      return { ...m, facts: { ...m.facts, database: { ...database, router } } };
    }),
  };
  const resting = { ...advance(state, want, moving, 1_000), balancer: { wasEnabled: true, confirmed: true } };
  const decided = plan(moving, want, resting, 1_000);
  expect([decided.act, decided.waits.map((w) => w.on)]).toEqual([null, ['BalancerFinishing']]);
});

test('A5.3 S14 what goes through a router is held back when that one does not reach the config servers any more', () => {
  const want = sharded();
  const { state, observed: seen } = made(want);
  const silent = ended(seen, state, 'router');
  const set = state.replicaSets.find((r) => r.role === 'shardServer')?.name ?? '';
  const via = 'events-mongos-0';
  for (const step of [{ kind: 'addShard', replicaSet: set, via, shard: `${set}/db1:27018` } as const, STOP]) {
    expect(guard(step, seen, want, state, 1_000)).toBeNull();
    expect(guard(step, silent, want, state, 1_000)?.reason).toBe('RouterNotReady');
    // A member of a set is no router, however well it is.
    expect(guard({ ...step, via: 'events-s0-0' }, seen, want, state, 1_000)?.reason).toBe('RouterNotReady');
  }
});

test('S14 what was just done to the balancer counts more than routers that tell of it later', () => {
  const before = sharded(OLDER);
  const { state, observed: seen } = made(before);
  const want = sharded(newer);
  for (const on of [true, false]) {
    const late = balancerTold(seen, on ? 'off' : 'full');
    const record = advance({ ...state, balancerSet: { on, at: 50_000 } }, want, late, 60_000);
    expect(plan(late, want, record, 60_000).act?.steps).toMatchObject([
      { kind: 'stopBalancer', wasEnabled: on },
    ]);
    expect(plan(late, want, record, 90_000).act?.steps).toMatchObject([
      { kind: 'stopBalancer', wasEnabled: !on },
    ]);
  }
  const wake = { kind: 'startBalancer', via: 'events-mongos-0', enable: true } as const;
  expect(applyOutcome(state, wake, 's1', answered(false), 7_000).balancerSet).toEqual({
    on: true,
    at: 7_000,
    autoMerge: true,
  });
});

test('A8.3 S14 a balancer that somebody switched on while it rested stops again before the next member, and then stays on', () => {
  const before = sharded(OLDER);
  const { state, observed: seen } = made(before);
  const want = sharded(newer);
  const found = applyOutcome(startStep(state, STOP, 's1', 0), STOP, 's1', answered(false), 0);
  const woken = balancerTold(seen, 'full');
  const soon = advance(found, want, woken, 5_000);
  expect(plan(woken, want, soon, 5_000).act?.steps).not.toMatchObject([{ kind: 'stopBalancer' }]);
  const [again] = plan(woken, want, advance(found, want, woken, 60_000), 60_000).act?.steps ?? [];
  expect(again).toMatchObject({ kind: 'stopBalancer', wasEnabled: true });
  if (again === undefined) return;
  const asleep = applyOutcome(startStep(found, again, 's2', 60_000), again, 's2', answered(true), 60_000);
  expect(asleep.balancer).toMatchObject({ wasEnabled: true, confirmed: true });
  const lost = startStep(startStep(found, again, 's2', 60_000), again, 's3', 70_000);
  expect(applyOutcome(lost, again, 's3', answered(false), 70_000).balancer).toMatchObject({
    wasEnabled: true,
  });
});

test('A6.4 S4 a set does not shrink while a suspension that was taken back has left members without runtimes', () => {
  const { state, observed: seen } = made(sharded());
  const fewer = sharded({ generation: 3 });
  const shards = fewer.sharded;
  if (shards === null) throw new Error('not sharded');
  const want = {
    ...fewer,
    sharded: { ...shards, shard: { ...shards.shard, members: shards.shard.members.slice(0, 1) } },
  };
  const leaving = (record: State): number => record.members.filter((m) => m.stage === 'removing').length;
  expect(leaving(advance(state, want, seen, 1_000))).toBe(4);
  const half = withMember(state, 'events-s0-1', { stage: 'planned', serviceId: null, activated: null });
  const record = advance(half, want, seen, 1_000);
  expect(record.members.filter((m) => m.replicaSet === 'events-s0' && m.stage === 'removing')).toEqual([]);
});

test('A8.2 a shard’s member that is coming back does not get a new binary before the config servers have it', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const busy: State = {
    ...withMember(state, 'events-s0-1', { stage: 'reloading' }),
    balancer: { wasEnabled: true, confirmed: true, at: 1_000 },
  };
  const process = { kind: 'starting', pid: 1, since: 0 } as const;
  const starting: Observed = {
    ...seen,
    members: seen.members.map((m) =>
      m.facts !== null && m.name === 'events-s0-1'
        ? { ...m, facts: { ...m.facts, process, database: null } }
        : m,
    ),
  };
  const decided = plan(starting, want, busy, 1_000);
  expect(decided.act).toBeNull();
  expect(decided.waits.map((w) => w.on)).toContain('DisruptionInProgress');
});

test('A8.3 what has begun while the balancer rests goes on when no router works any more', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const silent = ended(seen, state, 'router');
  const rests: State = { ...state, balancer: { wasEnabled: true, confirmed: true } };
  const decided = plan(silent, want, advance(rests, want, silent, 1_000), 1_000);
  expect(decided.act?.steps).toMatchObject([{ kind: 'upgrade' }]);
  expect(decided.waits.map((w) => w.on)).toContain('WaitingForRouter');
});

test('A8.3 S14 the balancer rests before a primary of a set hands over too', () => {
  const want = sharded();
  const { state, observed: seen } = made(want);
  const leads = (m: Observed['members'][number]): boolean =>
    m.facts?.database?.kind === 'reachable' && m.facts.database.writablePrimary;
  const primary = seen.members.find((m) => m.name.startsWith('events-s0-') && leads(m))?.name ?? '';
  const request: OperationRequest = {
    uid: 'op-1',
    name: 'events-op',
    spec: { mongodbResourceRef: { name: 'events' }, type: 'Restart', members: [primary] },
    createdAt: 0,
    cancelRequested: false,
  };
  const reading = { ...balancerTold(seen, 'full'), requests: [request] };
  const record = advance(state, want, reading, 60_000);
  expect(plan(reading, want, record, 60_000).act?.steps).toMatchObject([
    { kind: 'stopBalancer', wasEnabled: true, before: { kind: 'stepDown', member: primary } },
  ]);
});

test('A8.3 S14 the balancer rests until a binary on its way is there, whatever the spec wants by now', () => {
  const want = sharded(OLDER);
  const { state, observed: seen } = made(want);
  const upgrade = {
    action: 'upgrade',
    member: 'events-s0-2',
    stepId: 's1',
    operationId: 's1',
    startedAt: 0,
    version: newer.version,
  } as const;
  const still = balancerTold(seen, 'off');
  const rests: State = { ...state, balancer: { wasEnabled: true, confirmed: true } };
  const woken = (record: State) => plan(still, want, advance(record, want, still, 1_000), 1_000).act?.steps;
  expect(woken(rests)).toMatchObject([{ kind: 'startBalancer' }]);
  expect(woken({ ...rests, pending: [upgrade] })).toBeUndefined();
});

test('A8.3 S14 UPG-06 of a rest that began no one knows when, a balancer that runs was switched on by somebody', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const woken = balancerTold(seen, 'full');
  const record = advance({ ...state, balancer: { wasEnabled: false, confirmed: true } }, want, woken, 1_000);
  expect(plan(woken, want, record, 1_000).act?.steps).toMatchObject([
    { kind: 'stopBalancer', wasEnabled: true },
  ]);
});

test('S14 what was done to the balancer is not called just done for ever where the clock has gone back', () => {
  const { state, observed: seen } = made(sharded(OLDER));
  const want = sharded(newer);
  const runs = balancerTold(seen, 'full');
  const record = advance({ ...state, balancerSet: { on: false, at: 900_000 } }, want, runs, 60_000);
  expect(plan(runs, want, record, 60_000).act?.steps).toMatchObject([
    { kind: 'stopBalancer', wasEnabled: true },
  ]);
});
