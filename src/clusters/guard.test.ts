import { expect, test } from 'vitest';
import type { Step } from './decisions.ts';
import type { DatabaseFacts, MemberStateName } from './facts.ts';
import { desired, markerOf, placed, running, seen, serviceOf } from './fixtures.ts';
import { guard, type Refusal } from './guard.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { withMember } from './state.ts';
import { startStep } from './steps.ts';
import type { Desired, Observed, State } from './types.ts';

const d = desired();
const HEALTHY = ['PRIMARY', 'SECONDARY', 'SECONDARY'] as const;
const reload = (member: string): Step => ({ kind: 'reload', member, configVersion: 2 });
const ask = (
  step: Step,
  states: readonly (MemberStateName | null)[],
  state: State = running(d),
  want: Desired = d,
): Refusal['reason'] | null => guard(step, seen(state, want, states), want, state, 0)?.reason ?? null;

/** A reading in which one member's database is seen otherwise. */
const with0 = (
  o: Observed,
  at: number,
  change: Partial<Extract<DatabaseFacts, { kind: 'reachable' }>>,
): Observed => ({
  ...o,
  members: o.members.map((m, i) =>
    i === at && m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, ...change } } }
      : m,
  ),
});

test('S11 the guard refuses every step of a cluster that was paused meanwhile, but not its deletion', () => {
  const paused = desired({ paused: true });
  for (const step of [
    reload('orders-2'),
    { kind: 'ensureCredentials', members: [] },
    { kind: 'publish', member: 'orders-0', configVersion: 1 },
    { kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' },
  ] as const)
    expect(ask(step, HEALTHY, running(d), paused), step.kind).toBe('Paused');
  const leaving = desired({ paused: true, deleting: { keepVolumes: false } });
  expect(ask({ kind: 'deleteRuntime', member: 'orders-0' }, HEALTHY, running(d), leaving)).toBeNull();
});

test('S2 the guard lets no second member go while another is under way, healthy as that may still look', () => {
  for (const stage of ['reloading', 'upgrading'] as const) {
    const state = withMember(running(d), 'orders-2', { stage });
    expect(ask(reload('orders-1'), HEALTHY, state)).toBe('OperationPending');
    expect(ask({ kind: 'upgrade', member: 'orders-1', version: d.version }, HEALTHY, state)).toBe(
      'OperationPending',
    );
    expect(ask(reload('orders-2'), HEALTHY, state)).toBeNull();
  }
});

test('S3 the guard refuses to restart a primary, which hands over first', () => {
  expect(ask(reload('orders-0'), HEALTHY)).toBe('NotSecondary');
  expect(ask(reload('orders-1'), HEALTHY)).toBeNull();
});

test('S1 the guard counts: a majority of healthy voters must be left without the member', () => {
  expect(ask(reload('orders-1'), ['PRIMARY', 'SECONDARY', null])).toBe('WouldLoseMajority');
  expect(ask(reload('orders-1'), ['PRIMARY', 'SECONDARY', 'RECOVERING'])).toBe('WouldLoseMajority');
  const five = desired({}, 5);
  const state = running(five);
  expect(ask(reload('orders-1'), [...HEALTHY, 'SECONDARY', null], state, five)).toBeNull();
  expect(ask(reload('orders-1'), [...HEALTHY, null, null], state, five)).toBe('WouldLoseMajority');
  const two = desired({}, 2);
  expect(ask(reload('orders-1'), ['PRIMARY', 'SECONDARY'], running(two), two)).toBe('WouldInterrupt');
});

test('S1 unknown is not down: a member nobody reports is not touched, one known to be down may be', () => {
  expect(ask(reload('orders-2'), ['PRIMARY', 'SECONDARY', null])).toBe('Stale');
  expect(ask(reload('orders-2'), ['PRIMARY', 'SECONDARY', 'RECOVERING'])).toBeNull();
});

test('S1 the guard stops a single member only with the permission of the spec', () => {
  const one = desired({}, 1);
  expect(ask(reload('orders-0'), ['PRIMARY'], running(one), one)).toBe('WouldInterrupt');
  const allowed = desired({ interruption: true }, 1);
  expect(ask(reload('orders-0'), ['PRIMARY'], running(one), allowed)).toBeNull();
});

test('S3 of two members that the spec lets go the primary hands over first all the same', () => {
  const two = desired({ interruption: true }, 2);
  const states = ['PRIMARY', 'SECONDARY'] as const;
  expect(ask(reload('orders-0'), states, running(two), two)).toBe('NotSecondary');
  expect(ask(reload('orders-1'), states, running(two), two)).toBeNull();
});

test('S3 the guard refuses a hand-over to nobody, and of a member that is no primary any more', () => {
  const step: Step = { kind: 'stepDown', replicaSet: 'orders', member: 'orders-0' };
  expect(ask(step, HEALTHY)).toBeNull();
  expect(ask(step, ['PRIMARY', 'RECOVERING', null])).toBe('NoHeir');
  expect(ask(step, ['SECONDARY', 'PRIMARY', 'SECONDARY'])).toBe('NotPrimary');
});

test('A2.4 the guard starts no second operation beside one under way, but lets that one go on', () => {
  const state = startStep(placed(d), { kind: 'deploy', member: 'orders-1', version: d.version }, 'step-1', 0);
  const o = seen(state, d, ['STARTUP', 'STARTUP', 'STARTUP']);
  const step: Step = { kind: 'deploy', member: 'orders-1', version: d.version };
  expect(guard(step, o, d, state, 0, 'step-2')?.reason).toBe('OperationPending');
  expect(guard(step, o, d, state, 0)?.reason).toBe('OperationPending');
  expect(guard(step, o, d, state, 0, 'step-1')).toBeNull();
});

test('A14.2 nothing is made for a cluster whose deletion or suspension was asked for meanwhile', () => {
  const step: Step = { kind: 'deploy', member: 'orders-1', version: d.version };
  for (const want of [desired({ suspend: true }), desired({ deleting: { keepVolumes: true } })])
    expect(ask(step, HEALTHY, running(d), want)).toBe('Stale');
});

test('A14.2 S4 a runtime goes only while deletion or suspension is still asked for', () => {
  const step: Step = { kind: 'deleteRuntime', member: 'orders-1' };
  expect(ask(step, HEALTHY)).toBe('NotDeleting');
  expect(ask(step, HEALTHY, running(d), desired({ suspend: true }))).toBeNull();
  expect(ask(step, HEALTHY, running(d), desired({ deleting: { keepVolumes: false } }))).toBeNull();
});

test('A14.3 secrets and record go last: only of a deleted cluster without runtimes', () => {
  const deleting = desired({ deleting: { keepVolumes: false } });
  const gone = running(d);
  const empty = { ...gone, members: gone.members.map((m) => ({ ...m, serviceId: null })) };
  for (const step of [{ kind: 'deleteSecrets' }, { kind: 'forget' }] as const) {
    expect(ask(step, HEALTHY, running(d), deleting), step.kind).toBe('NotDeleting');
    expect(ask(step, HEALTHY, empty, d), step.kind).toBe('NotDeleting');
    expect(ask(step, HEALTHY, empty, deleting), step.kind).toBeNull();
  }
});

test('INI-02 users are written through the member that is primary now, never with two sets in sight (INI-06)', () => {
  const user = {
    uid: 'u1',
    name: 'app',
    username: 'app',
    db: 'admin',
    roles: [],
    passwordRef: null,
    passwordFingerprint: null,
    deleting: false,
  };
  const state = running(d);
  for (const step of [
    { kind: 'createFirstUser', replicaSet: 'orders', via: 'orders-0' },
    { kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' },
    { kind: 'applyUser', via: 'orders-0', user, hash: 'h' },
    { kind: 'dropUser', via: 'orders-0', uid: 'u1', username: 'app', db: 'admin' },
  ] as const) {
    expect(ask(step, HEALTHY), step.kind).toBeNull();
    expect(ask(step, ['SECONDARY', 'PRIMARY', 'SECONDARY']), step.kind).toBe('NotPrimary');
    const stray = with0(seen(state, d, HEALTHY), 2, { replicaSetId: 'id-2' });
    expect(guard(step, stray, d, state, 0)?.reason, step.kind).toBe('NotOwned');
  }
});

test('S6 the guard refuses an initiate while any member is unknown, starting, initiated or runs an older snapshot', () => {
  const state = placed(d);
  const config = { _id: 'orders', version: 1, members: [] };
  const step: Step = { kind: 'initiate', replicaSet: 'orders', via: 'orders-0', config };
  const o = seen(state, d, ['STARTUP', 'STARTUP', 'STARTUP']);
  expect(guard(step, o, d, state, 0)).toBeNull();
  expect(guard(step, with0(o, 2, { initiated: true }), d, state, 0)?.reason).toBe('AlreadyInitiated');
  expect(guard(step, with0(o, 2, { initiated: null }), d, state, 0)?.reason).toBe('AlreadyInitiated');
  expect(guard(step, with0(o, 2, { usersExist: true }), d, state, 0)?.reason).toBe('AlreadyInitiated');
  const older = withMember(state, 'orders-2', {
    activated: { ...state.members[2]!.activated!, configVersion: 2 },
  });
  expect(guard(step, o, d, older, 0)?.reason).toBe('MemberNotReady');
  for (const set of [{ stage: 'users' as const }, { replicaSetId: 'id-1' }]) {
    const known = { ...state, replicaSets: state.replicaSets.map((r) => ({ ...r, ...set })) };
    expect(guard(step, o, d, known, 0)?.reason).toBe('AlreadyInitiated');
  }
});

test('S2 S14 no set is initiated while the platform still changes the binary of a member, which restarts when that comes', () => {
  const state = placed(d);
  const step: Step = { kind: 'deploy', member: 'orders-2', version: '8.0.32-14' };
  const busy = startStep(state, step, 'op-1', 0);
  const o = seen(state, d, ['STARTUP', 'STARTUP', 'STARTUP']);
  const config = { _id: 'orders', version: 1, members: [] };
  const initiate: Step = { kind: 'initiate', replicaSet: 'orders', via: 'orders-0', config };
  expect(guard(initiate, o, d, busy, 0)?.reason).toBe('OperationPending');
  expect(plan(o, d, state, 0).act?.steps[0]?.kind).toBe('initiate');
  const { act, waits } = plan(o, d, busy, 0);
  expect(act).toBeNull();
  expect(waits.map(({ detail }) => detail)).toContain(
    'orders is initiated when all members are up; missing: orders-2',
  );
});

test('A4.3 the guard lets only a runtime be taken over that is there now and carries our marker', () => {
  const owner = markerOf(d.uid, 'orders-0');
  const service = serviceOf(owner, { id: 's1' });
  const placement = { host: 'db1', address: 'db1', port: 27017, portFixed: true };
  const adopt: Step = { kind: 'adopt', member: 'orders-0', serviceId: 's1', volumeId: null, placement };
  const state = withMember(running(d), 'orders-0', { stage: 'planned', serviceId: null });
  const now = (services: Observed['services']): Refusal['reason'] | null =>
    guard(adopt, { ...seen(state, d, HEALTHY), services }, d, state, 0)?.reason ?? null;
  expect(now([service])).toBeNull();
  expect(now([]), 'its removal was seen to end while the remembered list still named it').toBe('Stale');
  expect(now(null)).toBe('Stale');
  expect(now([{ ...service, kind: 'volume' }]), 'a volume is no runtime').toBe('Stale');
  expect(now([{ ...service, owner: null }])).toBe('NotOwned');
  expect(now([{ ...service, owner: { ...owner, member: 'orders-1' } }])).toBe('NotOwned');
});

test('S1 one that runs and is not known to be well is not taken down while the others have no majority', () => {
  const play = new Play(desired());
  play.crash(1);
  const reload = { kind: 'reload', member: 'orders-2', configVersion: 2 } as const;
  for (const state of ['STARTUP', 'RECOVERING', 'SECONDARY'] as const) {
    play.states = ['PRIMARY', 'SECONDARY', state];
    expect(guard(reload, play.reading(), play.desired, play.state, 1)?.reason, state).toBe(
      'WouldLoseMajority',
    );
  }
  // One that has ended takes nobody along, and it may be the cure.
  play.crash(2);
  expect(guard(reload, play.reading(), play.desired, play.state, 1)).toBeNull();
});

test('S3 one that is handing over and takes no writes meanwhile is not restarted: it may lead on', () => {
  const play = new Play(desired());
  const o = play.reading();
  const members = o.members.map((m) =>
    m.name === 'orders-0' && m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, writablePrimary: false } } }
      : m,
  );
  const reading = { ...o, members };
  const step = { kind: 'reload', member: 'orders-0', configVersion: 2 } as const;
  expect(guard(step, reading, play.desired, play.state, 1)?.reason).toBe('NotSecondary');
});
