/** Who restarts any moment, who counts already, who is out: the small predicates that planners and guard share. */
import { expect, test } from 'vitest';
import type { ReplSetConfig } from './facts.ts';
import { desired, facts, observed, placed, running, seen, sharded } from './fixtures.ts';
import { guard } from './guard.ts';
import {
  hasEnded,
  isAboutToRestart,
  isBehind,
  isOut,
  isUnanswered,
  type MemberView,
  takesOver,
  views,
} from './interpret.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { isUnderWay, lacksSnapshot, needOf } from './planners/rollout.ts';
import { Play } from './play.ts';
import { goalHash } from './snapshotInputs.ts';
import { memberOf, withMember } from './state.ts';
import { initialConfig } from './topology.ts';
import type { ActivatedSnapshot, MemberState, Observed, PendingOperation, State } from './types.ts';

const d = desired();
const HEALTHY = ['PRIMARY', 'SECONDARY', 'SECONDARY'] as const;
const given = (configVersion: number): ActivatedSnapshot => ({
  ...(running(d).members[2]?.activated as ActivatedSnapshot),
  configVersion,
});
const member = (change: Partial<MemberState>): MemberState => ({
  ...(running(d).members[2] as MemberState),
  ...change,
});
/** An operation of the platform is under way. */
const pending = (name: string, action: PendingOperation['action']): State => ({
  ...running(d),
  pending: [{ action, member: name, stepId: 's', operationId: 's', version: null, startedAt: 0 }],
});
/** The third member, with what its agent and its server say. */
function third(state: State, change: (facts: NonNullable<MemberView['facts']>) => object = () => ({})) {
  const o = seen(state, d, HEALTHY);
  const members = o.members.map((m) =>
    m.name === 'orders-2' && m.facts !== null ? { ...m, facts: { ...m.facts, ...change(m.facts) } } : m,
  );
  const all = views(state, { ...o, members });
  return { all, view: all[2] as MemberView };
}

test('S2 A9.1 only what was sent after what is known to be there leaves open what a member runs with', () => {
  const cases: readonly (readonly [readonly number[] | undefined, number | null, boolean])[] = [
    [undefined, 1, false],
    [[], null, false],
    [[1], null, true],
    [[5], 5, false],
    [[6], 5, true],
    [[3, 4], 5, false],
    [[3, 6], 5, true],
  ];
  for (const [unanswered, version, open] of cases) {
    const activated = version === null ? null : given(version);
    const { unanswered: _, ...plain } = member({ activated });
    const is = unanswered === undefined ? plain : { ...plain, unanswered };
    expect(isUnanswered(is), JSON.stringify([unanswered, version])).toBe(open);
    // Who was never given anything runs with nothing else.
    expect(lacksSnapshot(running(d), is), JSON.stringify([unanswered, version])).toBe(
      open && version !== null,
    );
  }
});

test('S2 a voter that has not taken over what it was given holds others back; one without a vote, or unknown, does not', () => {
  const of = (version: number, has: number, votes: 0 | 1 = 1): boolean => {
    const state = withMember(running(d), 'orders-2', { activated: given(version) });
    const config = initialConfig(state, d) as ReplSetConfig;
    const rows = config.members.map((row, i) => (i === 2 ? { ...row, votes, priority: votes } : row));
    const o = seen(state, d, HEALTHY, { config: { ...config, members: rows } });
    const members = o.members.map((m) =>
      m.name === 'orders-2' && m.facts !== null ? { ...m, facts: { ...m.facts, configVersion: has } } : m,
    );
    const all = views(state, { ...o, members });
    return takesOver(all[2] as MemberView, all);
  };
  expect([of(2, 1), of(2, 2), of(2, 3), of(2, 1, 0)]).toEqual([true, false, false, false]);
  const away = withMember(running(d), 'orders-2', { activated: given(2) });
  const all = views(away, seen(away, d, ['PRIMARY', 'SECONDARY', null]));
  expect(takesOver(all[2] as MemberView, all)).toBe(false);
});

test('STK-05 S15 a process has ended when its agent says so; of one that is unknown, starting or running nobody says it', () => {
  const of = (kind: string): boolean => hasEnded(third(running(d), () => ({ process: { kind } })).view);
  expect(['exited', 'absent', 'starting', 'running'].map(of)).toEqual([true, true, false, false]);
  const [, , away] = views(running(d), seen(running(d), d, ['PRIMARY', 'SECONDARY', null]));
  expect(hasEnded(away as MemberView)).toBe(false);
});

test('S2 who goes down any moment: its binary or its change is under way and not there yet', () => {
  const about = (state: State, change?: Parameters<typeof third>[1]): boolean =>
    isAboutToRestart(third(state, change).view, state);
  const with2 = (change: Partial<MemberState>): State => withMember(running(d), 'orders-2', change);
  expect(about(running(d))).toBe(false);
  expect(about(pending('orders-2', 'upgrade'))).toBe(true);
  expect(about(pending('orders-1', 'upgrade'))).toBe(false);
  expect(about(pending('orders-2', 'growVolume'))).toBe(false);
  expect(about(with2({ stage: 'upgrading' }))).toBe(false);
  expect(about(with2({ stage: 'upgrading', deployedVersion: '8.0.29-13' }))).toBe(true);
  expect(about(with2({ stage: 'active', deployedVersion: '8.0.29-13' }))).toBe(false);
  expect(about(with2({ stage: 'reloading' }))).toBe(false);
  expect(about(with2({ stage: 'reloading', activated: given(2) }))).toBe(true);
  expect(about(with2({ stage: 'reloading', activated: given(2) }), () => ({ configVersion: 2 }))).toBe(false);
  expect(about(with2({ stage: 'reloading', unanswered: [2] }))).toBe(true);
  expect(about(with2({ stage: 'active', unanswered: [2], activated: given(2) }))).toBe(false);
  // Who is down already, or unknown, is counted on by nobody anyway.
  const behind = with2({ stage: 'reloading', activated: given(2) });
  expect(about(behind, () => ({ database: null }))).toBe(false);
  const away = views(behind, seen(behind, d, ['PRIMARY', 'SECONDARY', null]))[2] as MemberView;
  expect(isAboutToRestart(away, behind)).toBe(false);
});

test('S4 who is out of its set: by the word of its own primary, everybody before there is a set, and routers always', () => {
  const state = running(d);
  const out = (record: State, o: Observed): readonly boolean[] =>
    record.members.map((m) => isOut({ all: views(record, o), state: record }, m));
  expect(out(state, seen(state, d, HEALTHY))).toEqual([false, false, false]);
  expect(out(state, seen(state, d, ['SECONDARY', 'SECONDARY', 'SECONDARY']))).toEqual([false, false, false]);
  const apart = withMember(state, 'orders-2', { port: 27099 });
  expect(out(apart, seen(state, d, HEALTHY))).toEqual([false, false, true]);
  const fresh = placed(d);
  expect(out(fresh, seen(fresh, d, HEALTHY))).toEqual([true, true, true]);

  // Another set's primary knows nothing of it.
  const want = sharded({}, { shards: 2 });
  const record = running(want);
  const members = record.members.map((m) => ({
    name: m.name,
    connected: true,
    observedAt: 0,
    facts: facts(m, {
      writablePrimary: m.name === 'events-cfg-0',
      config: { _id: 'events-cfg', version: 1, members: [] } as never,
    }),
  }));
  const seenOut = (name: string): boolean =>
    isOut(
      { all: views(record, observed({ members })), state: record },
      memberOf(record, name) as MemberState,
    );
  expect(['events-cfg-0', 'events-s0-0', 'events-mongos-0'].map(seenOut)).toEqual([true, false, true]);
});

test('S1 S2 STK-11 a snapshot goes directly to who counts in no set, and to nobody without a service', () => {
  const ask = (state: State, change: Partial<MemberState>) => {
    const record = withMember(state, 'orders-2', change);
    const step = { kind: 'publish', member: 'orders-2', configVersion: 2 } as const;
    return guard(step, seen(record, d, HEALTHY), d, record, 0)?.reason ?? null;
  };
  expect(ask(running(d), {})).toBe('OperationPending');
  expect(ask(running(d), { activated: null })).toBeNull();
  expect(ask(placed(d), {}), 'before there is a set').toBeNull();
  expect(ask(placed(d), { serviceId: null })).toBe('NotPlaced');
  const nobody = { kind: 'publish', member: 'orders-9', configVersion: 2 } as const;
  expect(guard(nobody, seen(running(d), d, HEALTHY), d, running(d), 0)?.reason).toBe('NotPlaced');
});

test('A6.4 L1 who leaves and is out needs nothing any more; who leaves and still votes does', () => {
  const changed = desired({ mongodConfig: { a: 1 }, generation: 2 }, 2);
  const play = new Play(d);
  play.state = withMember(play.state, 'orders-2', { stage: 'removing' });
  const need = (): ReturnType<typeof needOf> => {
    const o = play.reading();
    const state = advance(play.state, changed, o, 1);
    const scene = { observed: o, desired: changed, state, now: 1, all: views(state, o) };
    return needOf(scene, memberOf(state, 'orders-2') as MemberState);
  };
  expect(need()).toBe('reload');
  const members = play.config.members.filter((row) => row._id !== 2);
  play.config = { ...play.config, version: 2, members };
  expect(need()).toBeNull();
});

test('S2 a member is under way while it restarts, gets its binary, or is a voter about to take over what it was given', () => {
  const under = (state: State): readonly boolean[] => {
    const all = views(state, seen(state, d, HEALTHY));
    return state.members.map((m) => isUnderWay({ all, state } as Parameters<typeof isUnderWay>[0], m));
  };
  const with2 = (change: Partial<MemberState>): State => withMember(running(d), 'orders-2', change);
  expect(under(running(d))).toEqual([false, false, false]);
  for (const state of [
    with2({ stage: 'reloading' }),
    with2({ stage: 'upgrading' }),
    pending('orders-2', 'upgrade'),
    with2({ activated: given(9) }),
  ])
    expect(under(state)).toEqual([false, false, true]);
  expect(under(pending('orders-2', 'growVolume'))).toEqual([false, false, false]);
});

test('S2 the roller begins with nobody while a voter has not taken over what it was given, though it needs nothing more', () => {
  const changed = desired({ mongodConfig: { a: 1 }, generation: 2 });
  const play = new Play(d);
  const o = play.reading();
  const learnt = advance(play.state, changed, o, 1);
  const goal = learnt.goal;
  if (goal === null) throw new Error('it has a goal');
  const has = { ...given(9), configHash: goalHash(goal, 'replicaSet') };
  const steps = (version: number): readonly string[] => {
    const state = withMember(learnt, 'orders-2', { activated: has });
    const members = o.members.map((m) =>
      m.name === 'orders-2' && m.facts !== null ? { ...m, facts: { ...m.facts, configVersion: version } } : m,
    );
    const act = plan({ ...o, members }, changed, state, 1).act;
    return (act?.steps ?? []).map((s) => `${s.kind} ${'member' in s ? s.member : ''}`);
  };
  expect(steps(9)).toEqual(['reload orders-1']);
  expect(steps(8)).toEqual([]);
});

test('S1 S5 a reading is from before the last configuration when its term is less, or its version in the same term; without one nothing is said', () => {
  const behind = (
    reconfigured: { version: number; term: number | null } | undefined,
    version: number,
    term?: number,
  ) => {
    const state = running(d);
    const config = {
      ...(initialConfig(state, d) as ReplSetConfig),
      version,
      ...(term === undefined ? {} : { term }),
    };
    const set = reconfigured === undefined ? {} : { reconfigured };
    return isBehind(set as Parameters<typeof isBehind>[0], views(state, seen(state, d, HEALTHY, { config })));
  };
  expect(behind(undefined, 1)).toBe(false);
  expect(behind({ version: 3, term: null }, 2)).toBe(true);
  expect(behind({ version: 3, term: null }, 3)).toBe(false);
  expect(behind({ version: 3, term: 1 }, 2, 1)).toBe(true);
  // From a primary of before, whatever its version.
  expect(behind({ version: 3, term: 2 }, 3, 1)).toBe(true);
  // One that was lost with its primary is known by the term.
  expect(behind({ version: 3, term: 1 }, 2, 2)).toBe(false);
  expect(behind({ version: 3, term: 1 }, 2)).toBe(false);
  const state = running(d);
  const leaderless = seen(state, d, ['SECONDARY', 'SECONDARY', 'SECONDARY']);
  expect(isBehind({ reconfigured: { version: 3, term: null } } as never, views(state, leaderless))).toBe(
    false,
  );
});
