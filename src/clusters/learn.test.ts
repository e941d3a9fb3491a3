/** What the record learns of its members from a reading, and what it must not. */
import { expect, test } from 'vitest';
import type { DatabaseFacts } from './facts.ts';
import { desired, placed, running, seen } from './fixtures.ts';
import { advance } from './learn.ts';
import { Play } from './play.ts';
import { memberOf, withMember, withReplicaSet } from './state.ts';
import type { ActivatedSnapshot, Desired, MemberState, Observed, PendingOperation, State } from './types.ts';

const d = desired();
const HEALTHY = ['PRIMARY', 'SECONDARY', 'SECONDARY'] as const;
const given = (configVersion: number): ActivatedSnapshot => ({
  ...(running(d).members[2]?.activated as ActivatedSnapshot),
  configVersion,
});
const pending = (action: PendingOperation['action']): PendingOperation => ({
  action,
  member: 'orders-2',
  stepId: 's',
  operationId: 's',
  version: null,
  startedAt: 0,
});
const stages = (state: State): readonly string[] => state.members.map((m) => m.stage);
const third = (state: State): MemberState => memberOf(state, 'orders-2') as MemberState;

test('A6.7 A9.1 A8.1 of a runtime that was taken away, or has vanished, nothing is remembered but its volume; its port where a set knows it', () => {
  const before = { unanswered: [7], deployedVersion: '8.0.32-14', port: 27019 };
  for (const [make, port] of [
    [running, 27019],
    [placed, null],
  ] as const) {
    const had = withMember(make(d), 'orders-2', before);
    const gone = {
      serviceId: null,
      volumeId: 'v-orders-2',
      deployedVersion: null,
      activated: null,
      unanswered: [],
    };
    const states = make === running ? HEALTHY : (['STARTUP', 'STARTUP', 'STARTUP'] as const);
    const o = seen(had, d, states);
    const taken = advance(
      { ...had, pending: [pending('deleteRuntime')] },
      d,
      { ...o, operations: { s: { kind: 'succeeded', result: {} } } },
      1,
    );
    expect(third(taken), make.name).toMatchObject({ stage: 'planned', ...gone, port });
    const [, , away] = o.members;
    const unheard = {
      ...o,
      members: [...o.members.slice(0, 2), { ...(away as object), connected: true, facts: null }],
    };
    const vanished = advance(had, d, unheard as Observed, 1);
    expect(third(vanished), make.name).toMatchObject({ stage: 'planned', ...gone, port });
    // What is under way for it tells by itself how it ended.
    const busy = advance({ ...had, pending: [pending('upgrade')] }, d, unheard as Observed, 1);
    expect(third(busy), make.name).toMatchObject({
      serviceId: third(had).serviceId,
      stage: third(had).stage,
    });
  }
});

/** The third member says that it is in no set, and the primary does not list it. */
function removed(state: State): Observed {
  const o = seen(state, d, HEALTHY);
  const members = o.members.map((m) => {
    if (m.facts?.database?.kind !== 'reachable') return m;
    const { config } = m.facts.database;
    const rows = config === null ? null : { ...config, members: config.members.slice(0, 2) };
    const own = m.name === 'orders-2' ? { state: 'REMOVED' as const } : {};
    return { ...m, facts: { ...m.facts, database: { ...m.facts.database, config: rows, ...own } } };
  });
  return { ...o, members };
}

test('S1 A13.3 A9.1 left out of its set comes back like a new one, with nothing of how it kept up before; not while it leaves, is replaced, or its set is being made', () => {
  const after = (state: State): MemberState => third(advance(state, d, removed(state), 1));
  const known = withMember(running(d), 'orders-2', { caughtUpSince: 5 });
  expect(after(known)).toMatchObject({ stage: 'healthy', caughtUpSince: null });
  for (const stage of ['reloading', 'upgrading'] as const)
    expect(after(withMember(running(d), 'orders-2', { stage })).stage).toBe('healthy');
  expect(after(withMember(running(d), 'orders-2', { stage: 'removing' })).stage).toBe('removing');
  expect(after(withReplicaSet(running(d), 'orders', { stage: 'users' })).stage).toBe('active');
  const state = running(d);
  const substitute: MemberState = {
    ...third(state),
    name: 'orders-3',
    index: 3,
    port: 27030,
    stage: 'syncing',
    replacement: { of: 'orders-2', because: 'Replacing' } as NonNullable<MemberState['replacement']>,
  };
  expect(after({ ...state, members: [...state.members, substitute] }).stage).toBe('active');
});

test('A6.3 S1 who has its vote is a full member, and nothing of how it got it is kept', () => {
  const joining = { stage: 'syncing', caughtUpSince: 5, voteSent: true } as const;
  const state = withMember(running(d), 'orders-2', joining);
  const learnt = third(advance(state, d, seen(state, d, HEALTHY), 1));
  expect(learnt).toMatchObject({ stage: 'active', caughtUpSince: null, voteSent: false });
});

test('A9.1 S2 who is back with what it was given last has no open answers left', () => {
  const state = withMember(running(d), 'orders-2', {
    stage: 'reloading',
    unanswered: [2],
    activated: given(3),
  });
  const o = seen(state, d, HEALTHY);
  const members = o.members.map((m) =>
    m.facts === null ? m : { ...m, facts: { ...m.facts, configVersion: 3 } },
  );
  expect(third(advance(state, d, { ...o, members }, 1))).toMatchObject({ stage: 'active', unanswered: [] });
});

test('DEL-04 A14.3 a set that is being deleted neither grows nor shrinks, and nobody is called back', () => {
  const deleting = { deleting: { keepVolumes: false } };
  const after = (want: Desired, state = running(d)) =>
    stages(advance(state, want, seen(state, d, HEALTHY), 1));
  expect(after(desired(deleting, 5))).toEqual(['active', 'active', 'active']);
  expect(after(desired(deleting, 1))).toEqual(['active', 'active', 'active']);
  const leaving = withMember(running(d), 'orders-2', { stage: 'removing' });
  expect(after(desired({ ...deleting, suspend: true }, 2), leaving)).toEqual([
    'active',
    'active',
    'removing',
  ]);
});

test('A14.2 A6.4 going to sleep calls back who was to leave, and changes nothing of who restarts', () => {
  const play = new Play(desired());
  play.state = withMember(play.state, 'orders-2', { stage: 'removing' });
  play.state = withMember(play.state, 'orders-1', { stage: 'reloading', unanswered: [9] });
  const asleep = advance(play.state, desired({ suspend: true }, 2), play.reading(), 1);
  expect(stages(asleep)).toEqual(['active', 'reloading', 'active']);
});

test('S1 A6.4 nobody is let go while a runtime of the set is being taken away', () => {
  const state = { ...running(d), pending: [pending('deleteRuntime')] };
  const fewer = desired({}, 1);
  const running1 = { s: { kind: 'running', detail: '' } } as const;
  const o = { ...seen(state, d, HEALTHY), operations: running1 };
  expect(stages(advance(state, fewer, o, 1))).toEqual(['active', 'active', 'active']);
});

test('L1 A6.4 one that is to restart and is not well may leave at once', () => {
  const play = new Play(desired());
  play.state = withMember(play.state, 'orders-2', {
    stage: 'reloading',
    activated: given(2),
    unanswered: [2],
  });
  play.states = ['PRIMARY', 'SECONDARY', 'RECOVERING'];
  const o = play.reading();
  const members = o.members.map((m) =>
    m.facts === null ? m : { ...m, facts: { ...m.facts, configVersion: 1 } },
  );
  expect(stages(advance(play.state, desired({}, 2), { ...o, members }, 1))).toEqual([
    'active',
    'active',
    'removing',
  ]);
});

/** orders-2 under way, as the given reading shows it. */
function stageAfter(stage: 'reloading' | 'upgrading', change: (o: Observed) => Observed): string | undefined {
  const base = running(d);
  const activated = { ...base.members[2]!.activated!, configVersion: 2 };
  const state = withMember({ ...base, configVersion: 2 }, 'orders-2', { stage, activated });
  return advance(state, d, change(seen(state, d, HEALTHY)), 0).members[2]?.stage;
}
const thirdShows = (
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
      stageAfter(stage, (o) => thirdShows(o, 2)),
      stage,
    ).toBe('active');
    expect(
      stageAfter(stage, (o) => thirdShows(o, 1)),
      'old snapshot',
    ).toBe(stage);
    expect(
      stageAfter(stage, (o) => thirdShows(o, 2, { binaryVersion: '7.0.43-23' })),
      'old binary',
    ).toBe(stage);
    expect(
      stageAfter(stage, (o) => thirdShows(o, 2, { state: 'RECOVERING' })),
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
      stageAfter(stage, (o) => thirdShows(far(o), 2)),
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

test('S6 INI-06 a set has the id that is seen when it has a primary, as long as no other one is seen', () => {
  const fresh = withReplicaSet(running(d), 'orders', { replicaSetId: null, stage: 'bootstrap' });
  const idOf = (o: Observed): unknown => advance(fresh, d, o, 1).replicaSets[0]?.replicaSetId;
  const led = seen(fresh, d, HEALTHY);
  expect(idOf(led)).toBe('id-1');
  expect(idOf(seen(fresh, d, ['SECONDARY', 'SECONDARY', 'SECONDARY']))).toBeNull();
  const split = led.members.map((m) =>
    m.name === 'orders-2' && m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, replicaSetId: 'id-2' } } }
      : m,
  );
  expect(idOf({ ...led, members: split })).toBeNull();
});
