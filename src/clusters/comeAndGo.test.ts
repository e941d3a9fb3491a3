/** Members that come and go while something else happens: what the deterministic world found. */
import { expect, test } from 'vitest';
import { disruptionsOf } from './disruption.ts';
import type { ConfigMember, ServiceFacts } from './facts.ts';
import { desired, markerOf, ref, requested, serviceOf } from './fixtures.ts';
import { guard } from './guard.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { memberOf, withMember } from './state.ts';
import { applyOutcome, cancelStep, startStep } from './steps.ts';
import { memberHost } from './topology.ts';
import type { State } from './types.ts';

const hidden = { votes: 1, priority: 0, hidden: true, secondaryDelaySecs: 0, tags: {} } as const;
const stageOf = (state: State, name: string): string | undefined => memberOf(state, name)?.stage;
const without = (play: Play, ...indexes: number[]): void => {
  const members = play.config.members.filter((row) => !indexes.includes(row._id));
  play.config = { ...play.config, version: play.config.version + 1, members };
};
const withRow = (play: Play, index: number, change: Partial<ConfigMember>): void => {
  const members = play.config.members.map((row) => (row._id === index ? { ...row, ...change } : row));
  play.config = { ...play.config, version: play.config.version + 1, members };
};
const reconfigTo = (play: Play, members: readonly ConfigMember[]) =>
  ({
    kind: 'reconfig',
    replicaSet: 'orders',
    via: 'orders-0',
    config: { ...play.config, members },
    change: '',
  }) as const;

test('L1 A6.3 A6.2 an only member that is to be hidden waits until those who could lead have their votes', () => {
  const play = new Play(desired({}, 1));
  play.desired = desired({ members: [hidden, ...desired({}, 2).members], generation: 2 });
  const lines = play.toTheEnd().filter((line) => !line.startsWith('wait'));
  expect(lines.at(-1)).toBe('converged');
  const votes = lines.findIndex((line) => line.startsWith('orders-2 gets its vote'));
  const handsOver = lines.indexOf('stepDown orders-0');
  expect(votes).toBeGreaterThan(-1);
  expect(handsOver).toBeGreaterThan(votes);
});

test('L3 a primary that is to lead no more and one that leaves are told apart', () => {
  const play = new Play(desired());
  const wait = (): string | undefined =>
    plan(play.reading(), play.desired, advance(play.state, play.desired, play.reading(), 1), 1).waits.find(
      (w) => w.on === 'NoElectableSecondary',
    )?.detail;
  play.states = ['PRIMARY', 'SECONDARY', 'SECONDARY'];
  for (const index of [1, 2]) withRow(play, index, { priority: 0, hidden: true });
  play.desired = desired({ members: [hidden, hidden, hidden], generation: 2 });
  expect(wait()).toBe('orders-0 is primary and is to lead no more; no caught-up member could take over');
});

test('S1 L1 A14.2 who is to leave and has not left yet sleeps and comes back with the others, and leaves then', () => {
  const play = new Play(desired());
  play.desired = desired({ generation: 2 }, 1);
  play.crash(2);
  play.crash(1);
  play.pass();
  expect(stageOf(play.state, 'orders-2')).toBe('removing');
  play.crash(2, false);
  play.crash(1, false);
  play.desired = { ...play.desired, suspend: true, generation: 3 };
  play.toTheEnd();
  expect(play.state.members.map((m) => [m.stage, m.serviceId])).toEqual(
    [0, 1, 2].map(() => ['planned', null]),
  );
  play.desired = { ...play.desired, suspend: false, generation: 4 };
  expect(play.toTheEnd().at(-1)).toBe('converged');
  expect(play.state.members.map((m) => m.name)).toEqual(['orders-0']);
});

test('A6.4 who is out of its set when all go to sleep does not come back', () => {
  const play = new Play(desired());
  play.state = withMember(play.state, 'orders-2', { stage: 'removing' });
  without(play, 2);
  const asleep = advance(play.state, desired({ suspend: true, generation: 2 }, 2), play.reading(), 1);
  expect(stageOf(asleep, 'orders-2')).toBe('removing');
});

test('S1 A6.4 nobody is let go while some are not back from a suspension that ended half way', () => {
  const play = new Play(desired());
  play.state = withMember(play.state, 'orders-1', { stage: 'deployed', activated: null });
  const state = advance(play.state, desired({ generation: 2 }, 1), play.reading(), 1);
  expect(state.members.filter((m) => m.stage === 'removing')).toEqual([]);
});

test('S1 S2 A14.2 nobody is restarted beside one whose runtime is still being removed for a suspension that was taken back', () => {
  const play = new Play(desired({ version: '8.0.29-13' }));
  const removal = { kind: 'deleteRuntime', member: 'orders-1' } as const;
  const sent = startStep(play.state, removal, 'd1', play.now);
  const want = desired({ version: '8.0.32-14', generation: 3 });
  const seen = {
    ...play.reading(),
    operations: { d1: { kind: 'running', detail: 'deleteRuntime' } },
  } as const;
  const state = advance(sent, want, seen, play.now);
  const { act, waits } = plan(seen, want, state, play.now);
  // It looks as well as ever, and its turn would come: it is left alone too.
  expect(act).toBeNull();
  expect(waits).toContainEqual(expect.objectContaining({ on: 'OperationRunning', member: 'orders-1' }));
  const upgrade = (member: string) => ({ kind: 'upgrade', member, version: '8.0.32-14' }) as const;
  expect(guard(upgrade('orders-2'), seen, want, state, play.now)?.reason).toBe('OperationPending');
});

test('S1 S2 who was taken out of the set by hand comes back like a new one', () => {
  const play = new Play(desired());
  without(play, 2);
  const o = play.reading();
  const members = o.members.map((m) =>
    m.name === 'orders-2' && m.facts?.database?.kind === 'reachable'
      ? {
          ...m,
          facts: {
            ...m.facts,
            database: { ...m.facts.database, initiated: true, state: 'REMOVED' as const },
          },
        }
      : m,
  );
  const reading = { ...o, members };
  const state = advance(play.state, play.desired, reading, 1);
  expect(stageOf(state, 'orders-2')).toBe('healthy');
  expect(plan(reading, play.desired, state, 1).act?.detail).toBe('orders-2 join without vote and priority');
  // Its own word alone, or the primary's alone, may be from before it joined.
  const full = {
    ...play.config,
    members: [...play.config.members, { _id: 2, host: 'db3:27017', votes: 1, priority: 1 }],
  };
  const known = members.map((m) =>
    m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, config: full as typeof play.config } } }
      : m,
  );
  expect(stageOf(advance(play.state, play.desired, { ...o, members: known }, 1), 'orders-2')).toBe('active');
  // One that says that it has never been in a set, and is in none, is one too.
  expect(stageOf(advance(play.state, play.desired, o, 1), 'orders-2')).toBe('healthy');
  const reloading = withMember(play.state, 'orders-2', { stage: 'reloading' });
  expect(stageOf(advance(reloading, play.desired, o, 1), 'orders-2')).toBe('healthy');
});

test('A13.7 S1 a substitute that was given up too late, when the old one is out, takes the place after all', () => {
  const play = new Play(desired());
  play.requests = [requested({ type: 'Replace', ...ref, member: 'orders-0' })];
  for (let pass = 0; pass < 40 && !play.config.members.some((row) => row._id === 3); pass++) play.pass();
  play.state = withMember(play.state, 'orders-3', { stage: 'removing' });
  without(play, 0);
  play.vote();
  const state = advance(play.state, play.desired, play.reading(), 99_000);
  expect(stageOf(state, 'orders-3')).toBe('syncing');
  expect(state.retired?.map((m) => m.name)).toEqual(['orders-0']);
});

test('S1 S2 who has been sent its vote is a voter for everybody, before any reading shows it', () => {
  const play = new Play(desired());
  play.state = withMember(play.state, 'orders-2', { stage: 'syncing' });
  withRow(play, 2, { votes: 0, priority: 0 });
  const changed = desired({ mongodConfig: { operationProfiling: { slowOpThresholdMs: 50 } }, generation: 2 });
  const members = play.config.members.map((row) => ({ ...row, votes: 1 as const, priority: 1 }));
  const step = reconfigTo(play, members);
  const publish = { kind: 'publish', member: 'orders-2', configVersion: 2 } as const;
  const first = (state: State): string | undefined => {
    const learnt = advance(state, changed, play.reading(), 1);
    return plan(play.reading(), changed, learnt, 1).act?.steps[0]?.kind;
  };
  const sent = startStep(play.state, step, 's1', 0);
  expect(first(play.state)).toBe('publish');
  expect(guard(publish, play.reading(), changed, play.state, 1)).toBeNull();
  expect(first(sent)).not.toBe('publish');
  expect(guard(publish, play.reading(), changed, sent, 1)).toMatchObject({ reason: 'OperationPending' });
  // What was not sent, or refused, leaves it a newcomer.
  const refused = { kind: 'failed', code: 'X', message: 'no', retry: 'later' } as const;
  for (const after of [cancelStep(sent, step, 's1'), applyOutcome(sent, step, 's1', refused, 1)])
    expect(memberOf(after, 'orders-2')?.voteSent).toBe(false);
});

test('S2 nobody else is touched while a voter has not taken over what it was given', () => {
  const play = new Play(desired({ mongodConfig: { operationProfiling: { slowOpThresholdMs: 50 } } }));
  const want = desired({ generation: 2 });
  const state = advance(play.state, want, play.reading(), 1);
  const o = play.reading();
  const given = { ...state.members[2]!.activated!, configVersion: 9 };
  const before = withMember(state, 'orders-2', { activated: given });
  const reading = {
    ...o,
    members: o.members.map((m) =>
      m.name === 'orders-2' ? { ...m, facts: { ...m.facts!, configVersion: 1 } } : m,
    ),
  };
  const reload = { kind: 'reload', member: 'orders-1', configVersion: 2 } as const;
  expect(guard(reload, o, want, state, 1)).toBeNull();
  expect(guard(reload, reading, want, before, 1)).toMatchObject({ reason: 'OperationPending' });
  expect(plan(reading, want, before, 1).act?.steps ?? []).not.toContainEqual(
    expect.objectContaining({ member: 'orders-1' }),
  );
});

test('A6.4 L1 who never joined and is to leave is not restarted for a configuration it will not live to see', () => {
  const play = new Play(desired());
  play.state = withMember(play.state, 'orders-2', { stage: 'removing' });
  without(play, 2);
  const changed = desired(
    { mongodConfig: { operationProfiling: { slowOpThresholdMs: 50 } }, generation: 2 },
    2,
  );
  const state = advance(play.state, changed, play.reading(), 1);
  const steps = plan(play.reading(), changed, state, 1).act?.steps ?? [];
  expect(steps).not.toContainEqual(expect.objectContaining({ kind: 'reload', member: 'orders-2' }));
});

test('A6.4 L1 S13 who is down is let go without a grant: its vote serves nobody', () => {
  const asked = (down: boolean): readonly string[] => {
    const play = new Play(desired({}, 5));
    if (down) play.crash(4);
    const members = play.config.members.filter((row) => row._id !== 4);
    const step = reconfigTo(play, members);
    return disruptionsOf(step, play.state, play.reading(), play.desired).map((d) => d.member);
  };
  expect(asked(false)).toEqual(['orders-4']);
  expect(asked(true)).toEqual([]);
});

test('A6.3 a newcomer gets its vote also when the clock has gone back since it was first seen caught up', () => {
  const play = new Play(desired());
  play.state = withMember(play.state, 'orders-2', { stage: 'syncing', caughtUpSince: 900_000 });
  withRow(play, 2, { votes: 0, priority: 0 });
  const at = (now: number): string | undefined => {
    const state = advance(play.state, play.desired, play.reading(), now);
    return plan(play.reading(), play.desired, state, now).act?.detail;
  };
  expect(memberHost(play.state.members[2]!)).toBe('db3:27017');
  expect(at(900_000)).toBeUndefined();
  expect(at(200_000)).toContain('orders-2 gets its vote');
});

test('A13.6 L1 a set that can spare nobody grows while an operation waits for that; a larger one keeps its members', () => {
  const members = (play: Play): readonly string[] => play.state.members.map((m) => m.name);
  const few = new Play(desired({}, 1));
  few.requests = [requested({ type: 'RotateUsers', ...ref, users: [] })];
  few.pass();
  expect(few.state.operation?.type).toBe('RotateUsers');
  // The only member is to be restarted before it may be given passwords, and cannot be.
  const changed = { mongodConfig: { operationProfiling: { slowOpThresholdMs: 50 } }, generation: 2 };
  few.desired = desired(changed, 1);
  for (let pass = 0; pass < 5; pass++) few.pass();
  expect(few.pass()).toBe('blocked WouldInterrupt');
  few.desired = desired({ ...changed, generation: 3 }, 3);
  expect(few.toTheEnd(120).at(-1)).toBe('converged');
  expect(members(few)).toEqual(['orders-0', 'orders-1', 'orders-2']);
  expect(few.state.ended.map((e) => e.state)).toEqual(['Succeeded']);

  const many = new Play(desired());
  many.requests = [requested({ type: 'Restart', ...ref, members: [] })];
  many.pass();
  many.desired = desired({ generation: 2 }, 5);
  many.pass();
  expect(many.state.operation?.type).toBe('Restart');
  expect(members(many)).toHaveLength(3);
});

test('A13.3 L1 a substitute that votes already and is given a certificate meanwhile goes on with the change of places', () => {
  const play = new Play(desired({}, 1));
  play.requests = [requested({ type: 'Replace', ...ref, member: 'orders-0' })];
  const votes = (): boolean => play.config.members.some((row) => row._id === 1 && row.votes === 1);
  for (let pass = 0; pass < 40 && !votes(); pass++) play.pass();
  expect(votes()).toBe(true);
  const given = { kind: 'rotateCertificate', member: 'orders-1', configVersion: 5 } as const;
  const sent = startStep(play.state, given, 's1', play.now);
  expect(stageOf(sent, 'orders-1')).toBe('reloading');
  const refused = { kind: 'failed', code: 'X', message: 'no', retry: 'later' } as const;
  const back = advance(sent, play.desired, play.reading(), play.now + 1);
  for (const state of [back, applyOutcome(sent, given, 's1', refused, 1)])
    expect(stageOf(state, 'orders-1')).toBe('syncing');
  play.state = back;
  expect(play.toTheEnd().at(-1)).toBe('converged');
  expect(play.state.members.map((m) => m.name)).toEqual(['orders-1']);
});

test('A14.2 S4 who was to leave and never got a snapshot sleeps as what it is', () => {
  const play = new Play(desired());
  play.state = withMember(play.state, 'orders-2', { stage: 'removing', activated: null });
  play.states = [null, null, null];
  const asleep = (state: State): string | undefined =>
    stageOf(advance(state, desired({ suspend: true, generation: 2 }, 2), play.reading(), 1), 'orders-2');
  expect(asleep(play.state)).toBe('deployed');
  expect(asleep(withMember(play.state, 'orders-2', { deployedVersion: null }))).toBe('imported');
});

test('S1 S13 nothing is taken down or out by a reading from before the set took its last configuration', () => {
  const play = new Play(desired({}, 4));
  const config = { ...play.config, term: 3 };
  play.config = config;
  play.desired = desired({ generation: 2 }, 2);
  const state = advance(play.state, play.desired, play.reading(), 1);
  const step = plan(play.reading(), play.desired, state, 1).act?.steps[0];
  if (step?.kind !== 'reconfig') throw new Error(`${step?.kind}`);
  const taken = applyOutcome(startStep(state, step, 's1', 1), step, 's1', { kind: 'done', result: {} }, 2);
  const changed = {
    ...play.desired,
    mongodConfig: { operationProfiling: { slowOpThresholdMs: 50 } },
    generation: 3,
  };
  const reload = { kind: 'reload', member: 'orders-1', configVersion: 2 } as const;
  const again = { ...step, config: { ...step.config, members: step.config.members.slice(0, 2) } };
  const decided = (): unknown => {
    const next = advance(taken, changed, play.reading(), 3);
    return plan(play.reading(), changed, next, 3);
  };
  expect(decided()).toMatchObject({ act: null, waits: [{ on: 'ObservationStale' }] });
  for (const one of [reload, again])
    expect(guard(one, play.reading(), changed, taken, 3)).toMatchObject({ reason: 'Stale' });
  // The reading has it, or it was lost with its primary.
  for (const now of [step.config, { ...config, term: 4 }]) {
    play.config = now;
    expect(decided()).not.toMatchObject({ act: null });
    expect(guard(reload, play.reading(), changed, taken, 3)?.reason).not.toBe('Stale');
  }
});

test('S4 nobody is out of a set by a reading from before it took the configuration in which he is in', () => {
  const play = new Play(desired());
  const leaving = withMember(play.state, 'orders-2', { stage: 'removing' });
  without(play, 2);
  play.config = { ...play.config, term: 3 };
  const { version } = play.config;
  const taken = (newer: number): State => ({
    ...leaving,
    replicaSets: leaving.replicaSets.map((r) => ({ ...r, reconfigured: { version: newer, term: 3 } })),
  });
  const goes = (state: State): boolean => {
    const learnt = advance(state, desired({ generation: 2 }, 2), play.reading(), 1);
    const steps = plan(play.reading(), desired({ generation: 2 }, 2), learnt, 1).act?.steps ?? [];
    return steps.some((step) => step.kind === 'deleteRuntime');
  };
  const volume = { kind: 'deleteVolume', member: 'orders-2' } as const;
  const gone = (state: State): State => withMember(state, 'orders-2', { serviceId: null });
  expect(goes(taken(version))).toBe(true);
  expect(goes(taken(version + 1))).toBe(false);
  const may = (state: State) => guard(volume, play.reading(), desired({}, 2), gone(state), 1);
  expect(may(taken(version + 1))).not.toBeNull();
});

test('A13.6 L1 a restart does not wait for those who are not in the set yet, who may be waiting for its end', () => {
  const play = new Play(desired({}, 4));
  without(play, 3);
  play.state = withMember(play.state, 'orders-3', { stage: 'healthy' });
  play.requests = [requested({ type: 'Restart', ...ref, members: ['orders-2'] })];
  play.states = ['PRIMARY', 'SECONDARY', 'SECONDARY'];
  const state = advance(play.state, play.desired, play.reading(), 1);
  const view = { ...play.reading() };
  const reload = { kind: 'reload', member: 'orders-2', configVersion: 1 } as const;
  expect(guard(reload, view, play.desired, state, 1)).toBeNull();
  const waits = plan(
    view,
    desired({ mongodConfig: { operationProfiling: { slowOpThresholdMs: 50 } }, generation: 2 }, 4),
    state,
    1,
  );
  expect(waits.waits.map((w) => w.on)).not.toContain('WouldLoseMajority');
});

test('A14.2 A13.1 a cluster is suspended when nothing of it runs, what is left of replaced members included, where it can be reached', () => {
  const play = new Play(desired());
  const asleep = (connected: boolean): boolean => {
    const one = memberOf(play.state, 'orders-2');
    if (one === null) throw new Error('no member');
    const rest = play.state.members.slice(0, 2).map((m) => ({
      ...m,
      stage: 'planned' as const,
      serviceId: null,
      activated: null,
    }));
    const state = { ...play.state, members: rest, retired: [{ ...one, stage: 'removing' as const }] };
    const o = play.reading();
    const hosts = o.hosts.map((h) => (h.name === one.host ? { ...h, connected } : h));
    return advance(state, desired({ suspend: true, generation: 2 }, 2), { ...o, hosts, members: [] }, 1)
      .suspended;
  };
  expect(asleep(true)).toBe(false);
  expect(asleep(false)).toBe(true);
});

test('A6.7 A4.6 S4 who is to leave and was never heard to be placed is looked for before he is forgotten', () => {
  const play = new Play(desired());
  const nowhere = {
    stage: 'removing',
    serviceId: null,
    volumeId: null,
    host: null,
    address: null,
    port: null,
  } as const;
  const state = withMember({ ...play.state, phase: 'running' }, 'orders-2', nowhere);
  without(play, 2);
  const owner = markerOf(state.uid, 'orders-2');
  const service = (kind: 'runtime' | 'volume', change: Partial<ServiceFacts> = {}): ServiceFacts =>
    serviceOf(owner, { id: `lost-${kind}`, host: 'db3', kind, ...change });
  const after = (services: readonly ServiceFacts[] | null) =>
    memberOf(advance(state, desired({ generation: 2 }, 2), { ...play.reading(), services }, 1), 'orders-2');
  expect(after(null)).not.toBeNull();
  expect(after([])).toBeNull();
  expect(after([service('runtime', { owner: { ...owner, clusterUid: 'other' } })])).toBeNull();
  expect(after([service('runtime'), service('volume')])).toMatchObject({
    serviceId: 'lost-runtime',
    volumeId: 'lost-volume',
    host: 'db3',
    stage: 'removing',
  });
  expect(after([service('volume')])).toMatchObject({ serviceId: null, volumeId: 'lost-volume' });
  // One that was placed and taken down is not found again in a list from before.
  const known = withMember(state, 'orders-2', { host: 'db3' });
  const next = advance(
    known,
    desired({ generation: 2 }, 2),
    { ...play.reading(), services: [service('volume')] },
    1,
  );
  expect(memberOf(next, 'orders-2')).toBeNull();
});
