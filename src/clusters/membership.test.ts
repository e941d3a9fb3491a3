import { expect, test } from 'vitest';
import type { MongoDBStatus } from '../model/kinds/mongodbStatus.ts';
import { eventsFor } from './events.ts';
import { desired } from './fixtures.ts';
import { guard } from './guard.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { preview } from './preview.ts';
import { withMember } from './state.ts';
import { status } from './status.ts';
import { startStep } from './steps.ts';
import type { DesiredMember } from './types.ts';

const withoutWaits = (lines: readonly string[]): readonly string[] =>
  lines.filter((l) => !l.startsWith('wait'));

test('A6.1 A6.3 S5 3 → 5: new indexes, joined without vote, promoted one by one after two readings; nobody reloads', () => {
  const play = new Play(desired());
  play.desired = desired({}, 5);
  expect(withoutWaits(play.toTheEnd())).toEqual([
    'import orders-3',
    'deploy orders-3',
    'publish orders-3',
    'orders-3, orders-4 join without vote and priority',
    'orders-3 gets its vote: votes 3 → 4, majority 2 → 3',
    'orders-4 gets its vote: votes 4 → 5, majority 3 → 3',
    'converged',
  ]);
  expect(play.config.members.map((m) => [m._id, m.votes, m.priority])).toEqual(
    [0, 1, 2, 3, 4].map((id) => [id, 1, 1]),
  );
});

test('A6.7 S10 members that are taken back before anything was sent for them are never made; one whose import is on its way is', () => {
  const play = new Play(desired());
  play.hosts = [];
  play.desired = desired({ generation: 2 }, 5);
  expect(play.pass()).toMatch(/^blocked/);
  play.desired = desired({ generation: 3 });
  const before = play.state;
  const none = { ...play.reading(), services: [] };
  const back = advance(before, play.desired, none, 1);
  expect(back.members.map((m) => m.name)).toEqual(['orders-0', 'orders-1', 'orders-2']);
  expect(plan(none, play.desired, back, 1)).toMatchObject({ act: null, converged: true });
  // The highest first, where some stay.
  expect(advance(before, desired({ generation: 3 }, 4), none, 1).members[3]?.name).toBe('orders-3');
  // Nobody tells what is on the hosts: it is asked, and nothing else is done.
  const untold = { ...play.reading(), services: null };
  const asking = advance(before, play.desired, untold, 1);
  expect(plan(untold, play.desired, asking, 1)).toMatchObject({ act: null, converged: false, blocks: [] });
  // S10: what was sent may be there; it is seen to its end, and leaves then.
  const placement = { host: 'db4', address: 'db4', port: 27_017, portFixed: false };
  const sent = startStep(before, { kind: 'import', member: 'orders-3', placement }, 'i1', 1);
  const kept = advance(sent, play.desired, none, 2).members;
  expect(kept.map((m) => [m.name, m.stage]).slice(3)).toEqual([['orders-3', 'planned']]);
});

test('A6.4 S4 the plan that takes a member back that it is just making names its volume by the member', () => {
  const play = new Play(desired());
  play.desired = desired({ generation: 2 }, 5);
  const placement = { host: 'db4', address: 'db4', port: 27_017, portFixed: false };
  const grown = advance(play.state, play.desired, play.reading(), 1);
  const sent = startStep(grown, { kind: 'import', member: 'orders-3', placement }, 'i1', 1);
  const result = { serviceId: 's-3', host: 'db4', address: 'db4', port: 27_017, volumeId: 'new orders-3' };
  const arrived = { ...play.reading(), operations: { i1: { kind: 'succeeded' as const, result } } };
  const made = advance(sent, play.desired, arrived, 2);
  const lines = preview(arrived, desired({ generation: 3 }), made, 3).steps.map((s) => s.detail);
  expect(lines.join('; ')).toContain('delete the volume of orders-3 with its data');
});

test('A6.3 a member that lags keeps its place without a vote until it was seen caught up twice', () => {
  const play = new Play(desired());
  play.desired = desired({}, 5);
  for (let i = 0; i < 4; i++) play.pass();
  play.states[3] = 'STARTUP2';
  play.states[4] = 'STARTUP2';
  for (let i = 0; i < 5; i++) expect(play.pass()).toBe('wait InitialSync');
  play.states[3] = 'SECONDARY';
  expect(play.pass()).toBe('wait InitialSync');
  expect(play.pass()).toContain('orders-3 gets its vote');
});

test('A6.4 S4 5 → 3: the highest index first, out of the set, then its runtime, then its volume; indexes are not used again', () => {
  const play = new Play(desired({}, 5));
  play.desired = desired();
  expect(withoutWaits(play.toTheEnd())).toEqual([
    'orders-4 leaves: votes 5 → 4, majority 3 → 3',
    'orders-3 leaves: votes 4 → 3, majority 3 → 2',
    'deleteRuntime orders-3',
    'deleteVolume orders-3',
    'deleteRuntime orders-4',
    'deleteVolume orders-4',
    'converged',
  ]);
  play.desired = desired({}, 5);
  expect(withoutWaits(play.toTheEnd())[6]).toBe('import orders-5');
});

test('S3 A6.4 a primary that leaves hands over first, to a member that stays', () => {
  const play = new Play(desired({}, 5));
  play.states = ['SECONDARY', 'SECONDARY', 'SECONDARY', 'SECONDARY', 'PRIMARY'];
  play.desired = desired();
  expect(play.pass()).toBe('stepDown orders-4');
  expect(play.states.slice(0, 3)).toContain('PRIMARY');
  expect(play.pass()).toContain('orders-4 leaves');
});

test('A6.4 S1 no one leaves or is promoted while a majority before or after would not be healthy', () => {
  const play = new Play(desired({}, 5));
  play.states = ['PRIMARY', 'SECONDARY', null, 'SECONDARY', null];
  play.desired = desired();
  const o = play.reading();
  play.state = advance(play.state, play.desired, o, 1);
  expect(plan(o, play.desired, play.state, 1).act?.steps[0]).toMatchObject({
    kind: 'reconfig',
    change: expect.stringContaining('orders-4 leaves'),
  });
  play.states = ['PRIMARY', 'SECONDARY', null, 'RECOVERING', null];
  const p = plan(play.reading(), play.desired, play.state, 1);
  expect([p.act, p.waits.some((w) => w.on === 'WouldLoseMajority')]).toEqual([null, true]);
});

test('A6.4 S1 both majorities count, before the change and after it, for the planner and once more for the guard', () => {
  for (const [members, states] of [
    // Three of five are enough; without the healthy one that leaves two of four are not.
    [5, ['PRIMARY', 'SECONDARY', 'RECOVERING', 'RECOVERING', 'SECONDARY']],
    // Two of four are not enough to agree on anything, though two of three would be.
    [4, ['PRIMARY', 'SECONDARY', 'RECOVERING', 'RECOVERING']],
  ] as const) {
    const play = new Play(desired({}, members));
    const wanted = desired({}, members - 1);
    play.states = [...states];
    const o = play.reading();
    const state = advance(play.state, wanted, o, 1);
    const decided = plan(o, wanted, state, 1);
    expect([decided.act, decided.waits.some((w) => w.on === 'WouldLoseMajority')], `${members}`).toEqual([
      null,
      true,
    ]);
    const rest = play.config.members.slice(0, -1);
    const config = { ...play.config, version: play.config.version + 1, members: rest };
    const step = { kind: 'reconfig', replicaSet: 'orders', via: 'orders-0', config, change: '' } as const;
    expect(guard(step, o, wanted, state, 1)?.reason, `${members}`).toBe('WouldLoseMajority');
  }
});

test('S3 A6.4 a primary that leaves is not asked to hand over to another that leaves', () => {
  const play = new Play(desired({}, 5));
  play.states = ['SECONDARY', 'SECONDARY', 'SECONDARY', 'SECONDARY', 'PRIMARY'];
  const members = play.config.members.map((row) => (row._id < 3 ? { ...row, priority: 0 } : row));
  play.config = { ...play.config, members };
  play.desired = desired();
  // Who stays is first given what makes it a successor.
  expect([play.pass(), play.pass()]).toEqual([
    'settings of orders-0, orders-1, orders-2',
    'stepDown orders-4',
  ]);
  expect(play.states.indexOf('PRIMARY')).toBeLessThan(3);
  expect(play.toTheEnd().at(-1)).toBe('converged');

  const few = new Play(desired({}, 5));
  few.states = ['RECOVERING', 'SECONDARY', 'SECONDARY', 'SECONDARY', 'PRIMARY'];
  const [first, ...rest] = desired().members as [DesiredMember, DesiredMember, DesiredMember];
  few.config = {
    ...few.config,
    members: few.config.members.map((r) => ([1, 2].includes(r._id) ? { ...r, priority: 0 } : r)),
  };
  few.desired = desired({ members: [first, ...rest.map((r) => ({ ...r, priority: 0 }))] });
  expect(few.pass()).toBe('wait NoElectableSecondary');
  few.states[0] = 'SECONDARY';
  expect(few.pass()).toBe('stepDown orders-4');
  expect(few.states[0]).toBe('PRIMARY');
});

test('S3 A6.4 a hand-over whose scale-down has to wait is not asked for: one election, when it is of use', () => {
  const play = new Play(desired({}, 5));
  play.states = ['SECONDARY', 'SECONDARY', 'SECONDARY', 'SECONDARY', 'PRIMARY'];
  play.crash(0);
  play.crash(1);
  play.desired = desired();
  // Four voters need three that are well; only orders-2 and orders-3 would be.
  for (let pass = 0; pass < 3; pass++) expect(play.pass()).not.toMatch(/stepDown|leaves/);
  expect(play.primary()?.name).toBe('orders-4');
  play.crash(0, false);
  play.crash(1, false);
  const lines = play.toTheEnd();
  expect(lines.filter((l) => l.startsWith('stepDown'))).toEqual(['stepDown orders-4']);
  expect(lines.at(-1)).toBe('converged');
});

test('S3 S5 who may be primary is changed from one to another: the new one first, then one hand-over', () => {
  const [a, b, c] = desired().members as [DesiredMember, DesiredMember, DesiredMember];
  const none = (m: DesiredMember): DesiredMember => ({ ...m, priority: 0 });
  const play = new Play(desired({ members: [a, none(b), none(c)] }));
  expect(play.toTheEnd()).toEqual(['converged']);
  play.desired = desired({ members: [none(a), b, none(c)], generation: 2 });
  expect(play.toTheEnd()).toEqual([
    'settings of orders-1',
    'stepDown orders-0',
    'settings of orders-0',
    'converged',
  ]);
});

test('A6.3 two readings in a row: one that is behind in between begins anew', () => {
  const play = new Play(desired());
  play.desired = desired({}, 4);
  for (let i = 0; i < 4; i++) play.pass();
  expect(play.config.members).toHaveLength(4);
  play.states[3] = 'STARTUP2';
  play.pass();
  for (const [state, line] of [
    ['SECONDARY', 'wait InitialSync'],
    ['RECOVERING', 'wait InitialSync'],
    ['SECONDARY', 'wait InitialSync'],
  ] as const) {
    play.states[3] = state;
    expect(play.pass(), state).toBe(line);
  }
  expect(play.pass()).toContain('orders-3 gets its vote');
});

test('STK-09 a new member gets an _id of its own where a person has used its index', () => {
  const play = new Play(desired());
  const members = play.config.members.map((row, i) => (i === 2 ? { ...row, _id: 3 } : row));
  play.config = { ...play.config, members };
  play.desired = desired({}, 4);
  expect(play.toTheEnd().at(-1)).toBe('converged');
  expect(play.config.members.map((row) => row._id)).toEqual([0, 1, 3, 4]);
});

test('S5 the guard refuses a reconfiguration that is stale or changes two votes', () => {
  const play = new Play(desired());
  const o = play.reading();
  const base = { kind: 'reconfig', replicaSet: 'orders', via: 'orders-0', change: '' } as const;
  const two = { ...play.config, version: 2, members: play.config.members.slice(0, 1) };
  expect(guard({ ...base, config: two }, o, play.desired, play.state, 0)?.reason).toBe('VotesChanged');
  expect(
    guard({ ...base, config: { ...play.config, version: 3 } }, o, play.desired, play.state, 0)?.reason,
  ).toBe('Stale');
  expect(
    guard(
      { ...base, via: 'orders-1', config: { ...play.config, version: 2 } },
      o,
      play.desired,
      play.state,
      0,
    )?.reason,
  ).toBe('NotPrimary');
  expect(
    guard({ ...base, config: { ...play.config, version: 2 } }, o, play.desired, play.state, 0),
  ).toBeNull();
});

test('CFG-01 S5 memberConfig: zero and absent differ; several votes change one after the other, other settings at once', () => {
  const play = new Play(desired({}, 5));
  const members = play.desired.members.map((m, i) =>
    i >= 3
      ? { ...m, votes: 0 as const, priority: 0 }
      : i === 1
        ? { ...m, priority: 2, tags: { rack: 'a' } }
        : m,
  );
  play.desired = { ...play.desired, members };
  const lines = withoutWaits(play.toTheEnd());
  expect(lines).toEqual([
    'settings of orders-1, orders-3: votes 5 → 4, majority 3 → 3',
    'settings of orders-4: votes 4 → 3, majority 3 → 2',
    'converged',
  ]);
  expect(play.config.members[1]).toMatchObject({ priority: 2, tags: { rack: 'a' } });
});

test('STK-09 fields of the configuration that are not ours come back as they were', () => {
  const play = new Play(desired());
  play.config = {
    ...play.config,
    settings: { getLastErrorModes: { odd: { dc: 2 } } },
    oddity: 7,
    members: play.config.members.map((m) => ({ ...m, horizons: { x: 'y' } }) as typeof m),
  };
  play.desired = desired({}, 5);
  play.toTheEnd();
  expect(play.config).toMatchObject({ settings: { getLastErrorModes: { odd: { dc: 2 } } }, oddity: 7 });
  expect(play.config.members[0]).toMatchObject({ horizons: { x: 'y' } });
});

test('A6.7 surplus members that never ran are taken down without a reconfiguration', () => {
  const play = new Play(desired());
  play.desired = desired({}, 5);
  play.pass();
  play.desired = desired();
  const lines = withoutWaits(play.toTheEnd());
  expect(lines.filter((l) => l.includes('leaves'))).toEqual([]);
  expect(lines.at(-1)).toBe('converged');
  expect(play.state.members.map((m) => m.name)).toEqual(['orders-0', 'orders-1', 'orders-2']);
});

test('L1 scale up and configuration together converge, and 1 → 3 → 1 too', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: { a: 1 } }, 5);
  expect(play.toTheEnd(80).at(-1)).toBe('converged');
  const small = new Play(desired({}, 1));
  small.desired = desired({}, 3);
  expect(small.toTheEnd().at(-1)).toBe('converged');
  small.desired = desired({}, 1);
  expect(small.toTheEnd().at(-1)).toBe('converged');
  expect(small.config.members).toHaveLength(1);
});

test('A6.4 golden: the plan of 5 → 3 with a primary that leaves', () => {
  const play = new Play(desired({}, 5));
  play.states = ['SECONDARY', 'SECONDARY', 'SECONDARY', 'SECONDARY', 'PRIMARY'];
  const { steps, converges } = preview({ ...play.reading(), services: null }, desired(), play.state, 0);
  expect([
    ...steps.map((l) => `${l.verb} ${l.targets.join(',')} · ${l.detail} · ${l.impact}`),
    converges,
  ]).toMatchInlineSnapshot(`
    [
      "stepDown orders-4 · orders-4 hands over; writes pause for an election · writes pause for an election",
      "reconfig orders · orders-4 leaves: votes 5 → 4, majority 3 → 3 · nothing goes down",
      "reconfig orders · orders-3 leaves: votes 4 → 3, majority 3 → 2 · nothing goes down",
      "deleteRuntime orders-3 · take orders-3 down · these members go down",
      "deleteVolume orders-3 · delete volume v-orders-3 with its data · cannot be undone",
      "deleteRuntime orders-4 · take orders-4 down · these members go down",
      "deleteVolume orders-4 · delete volume v-orders-4 with its data · cannot be undone",
      true,
    ]
  `);
});

test('S4 A14.2 resumed with fewer members: all come back on their volumes, then the surplus leaves in order', () => {
  const play = new Play(desired());
  play.desired = desired({ suspend: true });
  expect(play.pass()).toBe('deleteRuntime orders-0');
  expect(play.pass()).toBe('converged');
  play.desired = desired({}, 1);
  expect(withoutWaits(play.toTheEnd())).toEqual([
    'import orders-0',
    'deploy orders-0',
    'publish orders-0',
    'orders-2 leaves: votes 3 → 2, majority 2 → 2',
    'orders-1 leaves: votes 2 → 1, majority 2 → 1',
    'deleteRuntime orders-1',
    'deleteVolume orders-1',
    'deleteRuntime orders-2',
    'deleteVolume orders-2',
    'converged',
  ]);
});

test('S4 the volume of a member that may be in the configuration stays while no primary says otherwise', () => {
  const play = new Play(desired());
  const record = withMember(play.state, 'orders-2', { stage: 'removing', serviceId: null, activated: null });
  const o = play.reading();
  const leaderless = {
    ...o,
    members: o.members.map((m) =>
      m.facts?.database?.kind === 'reachable'
        ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, writablePrimary: false } } }
        : m,
    ),
  };
  const step = { kind: 'deleteVolume', member: 'orders-2' } as const;
  for (const reading of [o, leaderless]) {
    expect(guard(step, reading, play.desired, record, 0)?.reason).toBe('NotDeleting');
    expect(plan(reading, play.desired, record, 0).act?.steps.map((s) => s.kind) ?? []).not.toContain(
      'deleteVolume',
    );
  }
});

test('A6.3 golden: the plan of 3 → 5', () => {
  const play = new Play(desired());
  const lines = preview(play.reading(), desired({}, 5), play.state, 0).steps.map(
    (l) => `${l.verb} ${l.targets.join(',')} · ${l.detail} · ${l.impact}`,
  );
  expect(lines).toMatchInlineSnapshot(`
    [
      "import orders-3,orders-4 · make runtime and volume: db1 on a free port from 27018 up, db2 on a free port from 27018 up · nothing goes down",
      "deploy orders-3,orders-4 · deploy 8.0.32-14 · nothing goes down",
      "publish orders-3,orders-4 · hand over the configuration; the processes start with it · nothing goes down",
      "reconfig orders · orders-3, orders-4 join without vote and priority · nothing goes down",
      "reconfig orders · orders-3 gets its vote: votes 3 → 4, majority 2 → 3 · nothing goes down",
      "reconfig orders · orders-4 gets its vote: votes 4 → 5, majority 3 → 3 · nothing goes down",
    ]
  `);
});

test('STK-04 A6.3 a configuration that changes while members join reaches newcomers directly and the others by the roller', () => {
  const play = new Play(desired());
  play.desired = desired({}, 5);
  for (const line of ['import orders-3', 'deploy orders-3', 'publish orders-3'])
    expect(play.pass()).toBe(line);
  play.desired = desired({ mongodConfig: { a: 1 } }, 5);
  const lines = withoutWaits(play.toTheEnd(80));
  expect(lines[0]).toBe('publish orders-3');
  expect(lines).not.toContain('reload orders-3');
  expect(lines.filter((l) => l.startsWith('reload'))).toEqual([
    'reload orders-2',
    'reload orders-1',
    'reload orders-0',
  ]);
  expect(lines.at(-1)).toBe('converged');
  expect(play.config.members.every((m) => m.votes === 1)).toBe(true);
});

test('A6.4 A7.4 members that leave are no warning: the set is never called degraded, nor one of them unhealthy', () => {
  const play = new Play(desired({}, 5));
  play.desired = desired({ generation: 2 });
  const [phases, warnings, waits] = [new Set<string>(), [] as string[], new Set<string>()];
  let before: MongoDBStatus | null = null;
  for (let line = ''; line !== 'converged'; ) {
    line = play.pass();
    const o = play.reading();
    const decided = plan(o, play.desired, play.state, play.now);
    const is: MongoDBStatus = status({
      observed: o,
      desired: play.desired,
      state: play.state,
      plan: decided,
      now: play.now,
      warnings: [],
      before,
    });
    phases.add(is.phase ?? '');
    warnings.push(
      ...eventsFor(before, is, play.now).flatMap((e) => (e.type === 'Warning' ? [e.message] : [])),
    );
    for (const { detail } of decided.waits) waits.add(detail);
    before = is;
  }
  expect(play.state.members).toHaveLength(3);
  expect([[...phases], warnings, [...waits]]).toEqual([['Reconciling', 'Ready'], [], []]);
});

test('A7.4 one that is to leave and still votes is missed when it is down', () => {
  const play = new Play(desired({}, 5));
  play.crash(4);
  play.crash(3);
  play.desired = desired({ generation: 2 });
  play.pass();
  const o = play.reading();
  const is = status({
    observed: o,
    desired: play.desired,
    state: play.state,
    plan: plan(o, play.desired, play.state, play.now),
    now: play.now,
    warnings: [],
    before: null,
  });
  expect([is.phase, play.config.members.length]).toEqual(['Degraded', 4]);
});

test('A6.3 what a new member has to copy goes with the step that lets it in, as far as somebody has counted it', () => {
  const copiesOf = (used: readonly (number | undefined)[]) => {
    const play = new Play(desired());
    play.desired = desired({ generation: 2 }, 5);
    const o = play.reading();
    const members = o.members.map((m, i) => {
      const usedBytes = used[i];
      const volume = {
        id: 'v',
        totalBytes: 100,
        freeBytes: 50,
        ...(usedBytes === undefined ? {} : { usedBytes }),
      };
      return m.facts === null ? m : { ...m, facts: { ...m.facts, volume } };
    });
    const { steps } = preview({ ...o, members }, play.desired, play.state, 0);
    return steps.filter((s) => s.copies !== null).map((s) => [s.detail, s.copies]);
  };
  expect(copiesOf([30, 40, 20])).toEqual([['orders-3, orders-4 join without vote and priority', 40]]);
  expect(copiesOf([undefined, undefined, 0])).toEqual([]);
});
