/** Members that nobody can be spared for: said with a way out, never waited for in vain. */
import { expect, test } from 'vitest';
import { desired, host, observed, sharded } from '../fixtures.ts';
import { guard } from '../guard.ts';
import { type MemberView, views } from '../interpret.ts';
import { operationRefusal } from '../operations/index.ts';
import { Play } from '../play.ts';
import { foresee, preview } from '../preview.ts';
import { initialState, withMember } from '../state.ts';
import type { Desired, DesiredMember, OperationRequest } from '../types.ts';
import { mayGoDown, unwellBeside } from './sparing.ts';

const slow = (ms: number, generation = 2): Partial<Desired> => ({
  generation,
  mongodConfig: { operationProfiling: { slowOpThresholdMs: ms } },
});

/** What stands in the way of a plan, with its way out. */
const refusals = (set: Play): readonly string[] =>
  preview(set.reading(), set.desired, set.state, set.now).refusals.map(
    (r) => `${r.by}: ${r.detail}; ${r.fix}`,
  );

test('S1 L1 of two voters neither is restarted: the plan says so at once, with the way out, and nothing waits for ever', () => {
  const set = new Play(desired({}, 2));
  set.desired = desired(slow(1), 2);
  expect(refusals(set)).toEqual([
    'WouldInterrupt: orders-1 is one of 2 voters: without it nobody is elected; set spec.maintenance.interruption: Allowed, or add a voting member',
  ]);
  expect(set.toTheEnd()).toEqual(['blocked WouldInterrupt']);
  set.desired = { ...set.desired, interruption: true };
  expect(set.toTheEnd()).toEqual(['reload orders-1', 'stepDown orders-0', 'reload orders-0', 'converged']);
});

test('S1 a set of two voters that is to have three is not asked for an interruption: it waits for its votes', () => {
  const set = new Play(desired({}, 3));
  set.config = {
    ...set.config,
    members: set.config.members.map((r, i) => (i === 2 ? { ...r, votes: 0, priority: 0 } : r)),
  };
  const [first, second, third] = desired().members as [DesiredMember, DesiredMember, DesiredMember];
  const o = set.reading();
  const scene = {
    observed: o,
    desired: desired(slow(1)),
    state: set.state,
    now: 1,
    all: views(set.state, o),
  };
  const one = scene.all[1] as MemberView;
  expect(mayGoDown(scene, one, scene.all)).toMatchObject({
    kind: 'wait',
    detail: 'restart of orders-1 waits until the set has 3 voters: it has 2 and can spare none',
  });
  const two = desired({ members: [first, second, { ...third, votes: 0, priority: 0 }] });
  expect(mayGoDown({ ...scene, desired: two }, one, scene.all)).toMatchObject({
    kind: 'blocked',
    by: 'WouldInterrupt',
  });
});

test('S1 a member without a vote costs none: it restarts though its two voters cannot be spared', () => {
  const [first, second, third] = desired().members as [DesiredMember, DesiredMember, DesiredMember];
  const members = [first, second, { ...third, votes: 0 as const, priority: 0 }];
  const set = new Play(desired({ members }));
  set.desired = desired({ ...slow(1), members });
  expect(set.toTheEnd()).toEqual(['reload orders-2', 'blocked WouldInterrupt']);
});

test('S3 L1 who alone could be primary is not waited for: others have to be able to take over', () => {
  const [first, ...others] = desired().members as [DesiredMember, ...DesiredMember[]];
  const members = [first, ...others.map((m) => ({ ...m, priority: 0 }))];
  const set = new Play(desired({ members }));
  set.desired = desired({ ...slow(1), members, interruption: true });
  expect(set.toTheEnd()).toEqual(['reload orders-2', 'reload orders-1', 'blocked WouldInterrupt']);
  expect(refusals(set)).toEqual([
    'WouldInterrupt: orders-0 is the only member that could be primary: nobody can take over while it restarts; give another member a vote and a priority above 0 in spec.memberConfig',
  ]);
  set.desired = desired(slow(1, 3));
  expect(set.toTheEnd().at(-1)).toBe('converged');
});

test('S1 S3 the one voter among others without a vote restarts where it stands, and only with permission', () => {
  const [first, ...others] = desired().members as [DesiredMember, ...DesiredMember[]];
  const members = [first, ...others.map((m) => ({ ...m, votes: 0 as const, priority: 0 }))];
  const set = new Play(desired({ members }));
  set.desired = desired({ ...slow(1), members });
  expect(set.toTheEnd()).toEqual(['reload orders-2', 'reload orders-1', 'blocked WouldInterrupt']);
  expect(refusals(set)[0]).toMatch(/^WouldInterrupt: orders-0 is the only member with a vote/);
  const step = { kind: 'reload', member: 'orders-0', configVersion: 2 } as const;
  expect(guard(step, set.reading(), set.desired, set.state, set.now)?.reason).toBe('WouldInterrupt');
  set.desired = { ...set.desired, interruption: true };
  expect(preview(set.reading(), set.desired, set.state, set.now).steps[0]?.detail).toBe(
    'orders-0 (the primary): configuration 2',
  );
  set.states[1] = 'RECOVERING';
  expect(guard(step, set.reading(), set.desired, set.state, set.now)?.reason).toBe('WouldLoseMajority');
  set.states[1] = 'SECONDARY';
  expect(set.toTheEnd().slice(-2)).toEqual(['reload orders-0', 'converged']);
});

test('A9.4 another certificate is taken by a member of a set of two, since nothing goes down by it', () => {
  const set = new Play(desired({}, 2));
  set.authority = { trust: 't2', issuer: 'i2', notAfter: 9e12, rotating: true };
  const lines = set.toTheEnd();
  expect(lines.filter((l) => l.startsWith('rotateCertificate'))).not.toEqual([]);
  expect(lines.at(-1)).toBe('converged');
});

test('A13.6 L1 a restart that can never be done is refused, so that it holds nothing up; one of others is not', () => {
  const restart = (members: readonly string[]) => ({
    uid: 'op-1',
    name: 'orders-restart',
    spec: { type: 'Restart', mongodbResourceRef: { name: 'orders' }, members } as const,
    createdAt: 0,
    cancelRequested: false,
  });
  const [first, ...others] = desired().members as [DesiredMember, ...DesiredMember[]];
  const cases = [
    [desired({}, 2), /^WouldInterrupt: orders-0 is one of 2 voters/],
    [
      desired({ members: [first, ...others.map((m) => ({ ...m, priority: 0 }))] }),
      /^WouldInterrupt: orders-0 is the only member that could be primary/,
    ],
  ] as const;
  for (const [want, why] of cases) {
    const set = new Play(want);
    set.requests = [restart([])];
    expect(set.toTheEnd()).toEqual(['converged']);
    expect(set.state.operation).toBeNull();
    const { state, now } = set;
    const scene = { observed: set.reading(), desired: want, state, now };
    expect(operationRefusal(scene, set.requests[0] as OperationRequest)).toMatch(why);
  }
  const rest = new Play(cases[1][0]);
  rest.requests = [restart(['orders-1', 'orders-2'])];
  expect(rest.toTheEnd()).toEqual(['reload orders-2', 'reload orders-1', 'converged']);
});

test('S1 C2.5 a router is not restarted while another one does not work, many as there are', () => {
  const executables = { mongod: ['8.0.32-14'], mongos: ['8.0.32-14'] };
  const hosts = ['db1', 'db2', 'db3'].map((name) => host(name, { executables }));
  const want = sharded({}, { routers: 3 });
  const { state, observed: seen } = foresee(observed({ hosts }), want, initialState(want), 0);
  const may = (silent: readonly string[]) => {
    const members = seen.members.map((m) => (silent.includes(m.name) ? { ...m, connected: false } : m));
    const o = { ...seen, members };
    const scene = { observed: o, desired: want, state, now: 1, all: views(state, o) };
    const routers = scene.all.filter((v) => v.member.role === 'router');
    return mayGoDown(scene, routers[0] as MemberView, routers);
  };
  expect(may([])).toBeNull();
  expect(may(['events-mongos-2'])).toMatchObject({
    kind: 'wait',
    detail: expect.stringContaining('waits for events-mongos-2 (not reported)'),
  });
});

test('A13.6 ROL-07 who is not in its set yet is missed by nobody; a member of it that is unwell is', () => {
  const set = new Play(desired({}, 4));
  set.states[3] = 'STARTUP';
  const members = set.config.members.filter((row) => row._id !== 3);
  const beside = (config: Play['config'], state = set.state): readonly string[] => {
    set.config = config;
    const all = views(state, set.reading());
    return unwellBeside(all[0] as MemberView, all).map((v) => v.member.name);
  };
  const whole = set.config;
  expect(beside(whole)).toEqual(['orders-3']);
  expect(beside({ ...whole, members }, withMember(set.state, 'orders-3', { stage: 'healthy' }))).toEqual([]);
});
