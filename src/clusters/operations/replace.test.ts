import { expect, test } from 'vitest';
import type { ServiceFacts } from '../facts.ts';
import { desired, host } from '../fixtures.ts';
import { views } from '../interpret.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { preview } from '../preview.ts';
import { configServerList } from '../snapshotInputs.ts';
import { withFailure, withMember } from '../state.ts';
import { status } from '../status.ts';
import { applyOutcome } from '../steps.ts';
import type {
  Desired,
  DesiredMember,
  MemberState,
  ObservedHost,
  OperationRequest,
  RunningOperation,
} from '../types.ts';
import { REPLACE } from './replace.ts';
import { operationStatus } from './status.ts';

const ref = { mongodbResourceRef: { name: 'orders' } } as const;
const replace = (member: string, change: Partial<OperationRequest> = {}): OperationRequest => ({
  uid: 'op-1',
  name: 'orders-replace',
  spec: { type: 'Replace', ...ref, member },
  createdAt: 0,
  cancelRequested: false,
  ...change,
});
const move = (member: string, where: { host?: string; avoidHosts?: string[] } = {}): OperationRequest => ({
  ...replace(member),
  name: 'orders-move',
  spec: { type: 'Move', ...ref, member, avoidHosts: [], ...where },
});

const hostsUpTo = (count: number): ObservedHost[] =>
  Array.from({ length: count }, (_, i) => host(`db${i + 1}`));

function play(request: OperationRequest, want: Desired = desired(), hosts = hostsUpTo(4)): Play {
  const set = new Play(want);
  set.hosts = hosts;
  set.syncPasses = 2;
  set.requests = [request];
  return set;
}

/** Passes until nothing is done any more for a while; what was done, waits left out. */
function run(set: Play, passes = 60): string[] {
  return Array.from({ length: passes }, () => set.pass()).filter(
    (line) => !/^(wait|blocked|converged)/.test(line),
  );
}

const rows = (set: Play): unknown[] => set.config.members.map((r) => [r.host, r.votes, r.priority]);

test('A13.3 S5 a secondary is replaced: new index, no vote while it copies, the old one out, then its vote', () => {
  const set = play(replace('orders-1'));
  expect(run(set)).toEqual([
    'import orders-3',
    'deploy orders-3',
    'publish orders-3',
    'orders-3 join without vote and priority',
    'orders-1 leaves: votes 3 → 2, majority 2 → 2',
    'orders-3 gets its vote: votes 2 → 3, majority 2 → 2',
    'deleteRuntime orders-1',
    'deleteVolume orders-1',
  ]);
  expect(set.pass()).toBe('converged');
  expect(set.state.ended).toMatchObject([
    {
      state: 'Succeeded',
      message: 'orders-3 on host db4 has the place of orders-1',
      completed: ['orders-1'],
    },
  ]);
  expect(set.state.members.map((m) => [m.name, m.stage])).toEqual([
    ['orders-0', 'active'],
    ['orders-2', 'active'],
    ['orders-3', 'active'],
  ]);
  expect(set.state.retired).toBeUndefined();
  expect(set.state.nextMemberIndex['orders']).toBe(4);
});

test('A13.3 S3 a primary hands over to a caught-up member before it leaves', () => {
  const lines = run(play(replace('orders-0')));
  expect(lines.slice(3, 6)).toEqual([
    'orders-3 join without vote and priority',
    'stepDown orders-0',
    'orders-0 leaves: votes 3 → 2, majority 2 → 2',
  ]);
});

test('A13.3 the only member: its substitute votes first, then takes over, and only then it leaves', () => {
  const set = play(replace('orders-0'), desired({}, 1));
  expect(run(set).slice(3)).toEqual([
    'orders-1 join without vote and priority',
    'orders-1 gets its vote: votes 1 → 2, majority 1 → 2',
    'stepDown orders-0',
    'orders-0 leaves: votes 2 → 1, majority 2 → 1',
    'deleteRuntime orders-0',
    'deleteVolume orders-0',
  ]);
  expect(rows(set)).toEqual([['db2:27017', 1, 1]]);
  expect(set.primary()?.name).toBe('orders-1');
});

test('A13.3 S5 SCL-07 of seven voters one is replaced by an eighth member that does not vote before there are six', () => {
  const set = play(replace('orders-3'), desired({}, 7), hostsUpTo(8));
  const voters: number[] = [];
  for (let pass = 0; pass < 40; pass++) {
    set.pass();
    voters.push(set.config.members.filter((r) => r.votes === 1).length);
  }
  expect([...new Set(voters)]).toEqual([7, 6, 7].filter((v, i) => i < 2 || v !== 7));
  expect(Math.max(...voters)).toBe(7);
  expect(set.state.ended[0]?.state).toBe('Succeeded');
});

test('A13.3 MBR-03 a member that is down for good is replaced while a majority of the others is well', () => {
  const set = play(replace('orders-2'));
  set.crash(2);
  expect(run(set)).toContain('orders-2 leaves: votes 3 → 2, majority 2 → 2');
  expect(set.state.ended[0]?.state).toBe('Succeeded');
});

test('A13.3 A13.7 a member on a host that never comes back is replaced; what it left waits in nobody’s way', () => {
  const set = play(replace('orders-2'));
  set.lose('db3');
  const lines = run(set);
  expect(lines.at(-1)).toBe('orders-3 gets its vote: votes 2 → 3, majority 2 → 2');
  expect(set.pass()).toBe('converged');
  expect(set.state.ended[0]?.message).toBe(
    'orders-3 on host db4 has the place of orders-2; what is left on host db3 goes when that host is back',
  );
  expect(set.state.retired?.map((m) => m.name)).toEqual(['orders-2']);
  set.lose('db3', false);
  expect(run(set, 6)).toEqual(['deleteRuntime orders-2', 'deleteVolume orders-2']);
  expect(set.state.retired).toBeUndefined();
});

test('A13.3 S4 what lies in the place of the old volume without our marker is left there, and the operation ends with a word of it', () => {
  const set = play(replace('orders-2'));
  const { reading } = set;
  const strange: ServiceFacts = {
    ...{ id: 'v-orders-2', kind: 'volume', hostname: 'v-orders-2', host: 'db3', owner: null, masked: true },
    ...{ deployed: false, port: null, dataPath: null, sizeBytes: null },
  };
  let endedEarly = false;
  set.reading = () => {
    endedEarly ||= set.state.ended.length > 0 && set.state.retired?.[0]?.serviceId != null;
    return { ...reading.call(set), services: [strange] };
  };
  expect(run(set).at(-1)).toBe('deleteRuntime orders-2');
  expect(endedEarly, 'its process was still to be taken down').toBe(false);
  const left = 'volume v-orders-2 of orders-2 on host db3 has no readable owner marker, so it is not deleted';
  expect(set.state.ended[0]).toMatchObject({
    state: 'Succeeded',
    message: `orders-3 on host db4 has the place of orders-2; ${left}`,
  });
  expect(set.pass()).toBe('converged');
  const decided = plan(set.reading(), set.desired, set.state, set.now);
  const shown = status({
    ...{ observed: set.reading(), desired: set.desired, state: set.state, plan: decided, now: set.now },
    ...{ warnings: [], before: null },
  });
  expect([shown.phase, shown.warnings.filter((w) => w.includes('v-orders-2'))]).toEqual([
    'Ready',
    [expect.stringContaining(`${left}; look at it`)],
  ]);
  set.reading = reading;
  expect(run(set, 4)).toEqual(['deleteVolume orders-2']);
  expect(set.state.retired).toBeUndefined();
});

test('A13.3 L1 of five two hosts are lost: both members are replaced, one after the other, and other operations go on', () => {
  const set = play(replace('orders-3'), desired({}, 5), hostsUpTo(8));
  set.lose('db4');
  set.lose('db5');
  const second = { ...replace('orders-4'), uid: 'op-2', name: 'second' };
  const restart: OperationRequest = {
    ...second,
    uid: 'op-3',
    spec: { type: 'Restart', ...ref, members: [] },
  };
  set.requests = [...set.requests, second, restart];
  run(set, 90);
  expect(set.state.ended.map((e) => [e.uid, e.state])).toEqual([
    ['op-1', 'Succeeded'],
    ['op-2', 'Succeeded'],
    ['op-3', 'Succeeded'],
  ]);
  expect(set.state.ended[2]?.completed).toHaveLength(5);
  expect(set.state.retired?.map((m) => m.name)).toEqual(['orders-3', 'orders-4']);
  expect(set.pass()).toBe('converged');
});

test('A13.3 S4 a host whose document was deleted never comes back: what was left there is forgotten, not deleted', () => {
  const set = play(replace('orders-2'));
  set.lose('db3');
  run(set);
  set.hosts = hostsUpTo(4).filter((h) => h.name !== 'db3');
  expect(run(set, 3)).toEqual([]);
  expect(set.state.retired).toBeUndefined();
});

test('A13.3 MBR-03 it does not begin where the others alone would be no majority, and says so', () => {
  const set = play(replace('orders-2'));
  set.crash(1);
  expect(run(set, 5)).toEqual([]);
  const o = set.reading();
  const scene = { observed: o, desired: set.desired, state: set.state, now: set.now };
  const told = operationStatus(set.requests[0] as OperationRequest, {
    ...scene,
    plan: plan(o, set.desired, set.state, set.now),
  });
  expect(told).toMatchObject({
    state: 'Waiting',
    message: '1 of the 2 other voters are healthy, and a majority is 2: it would lose the set',
  });
});

test('A13.3 the place in spec.memberConfig goes over: settings stay with the place, not with the index', () => {
  const base = desired({}, 3);
  const hidden = {
    votes: 0 as const,
    priority: 0,
    hidden: true,
    secondaryDelaySecs: 0,
    tags: { use: 'reports' },
  };
  const want = { ...base, members: [base.members[0], hidden, base.members[2]] as Desired['members'] };
  const set = play(replace('orders-1'), want);
  run(set);
  const row = set.config.members.find((r) => r.host === 'db4:27017');
  expect(row).toMatchObject({ votes: 0, priority: 0, hidden: true, tags: { use: 'reports' } });
  set.desired = { ...want, generation: 2, members: [...want.members].map((m) => ({ ...m, tags: {} })) };
  run(set);
  expect(set.config.members.map((r) => [r.host, r.votes])).toEqual([
    ['db1:27017', 1],
    ['db3:27017', 1],
    ['db4:27017', 0],
  ]);
});

test('A6.4 A13.3 after a replacement the last place still leaves first', () => {
  const set = play(replace('orders-0'), desired({}, 3));
  run(set);
  set.requests = [];
  set.desired = desired({ generation: 2 }, 1);
  run(set);
  expect(set.state.members.map((m) => [m.name, m.place])).toEqual([['orders-3', 0]]);
});

test('A13.3 A13.7 one whose way to a place was given up in a suspension has no claim to it when the set is back', () => {
  const set = play(replace('orders-0'));
  while (!set.pass().startsWith('orders-3 join'));
  set.requests = [replace('orders-0', { cancelRequested: true })];
  const running = set.desired;
  set.desired = { ...running, generation: 2, suspend: true };
  while (set.pass() !== 'converged');
  set.requests = [];
  set.desired = { ...running, generation: 3 };
  const lines = run(set);
  expect(lines.filter((line) => /settings|vote/.test(line))).toEqual([]);
  expect(set.state.members.map((m) => m.name)).toEqual(['orders-0', 'orders-1', 'orders-2']);
  expect(set.config.members.map((m) => [m._id, m.votes])).toEqual([0, 1, 2].map((id) => [id, 1]));
});

test('A13.6 a change of scale and of settings waits for the end; a changed configuration reaches the new member at once', () => {
  const set = play(replace('orders-1'));
  while (!set.pass().startsWith('orders-3 join'));
  set.desired = desired({ generation: 2, mongodConfig: { operationProfiling: { slowOpThresholdMs: 1 } } }, 5);
  expect(set.pass()).toBe('publish orders-3');
  const lines = run(set);
  const [done, next] = [
    lines.findIndex((l) => l.startsWith('orders-3 gets its vote')),
    lines.indexOf('import orders-4'),
  ];
  expect(done).toBeGreaterThanOrEqual(0);
  expect(next).toBeGreaterThan(done);
  expect(set.config.members).toHaveLength(5);
});

test('A13.3 S2 who is being replaced is not restarted for a change any more; after a cancellation it is', () => {
  const set = play(replace('orders-1'));
  while (!set.pass().startsWith('orders-3 join'));
  set.desired = desired({ generation: 2, mongodConfig: { operationProfiling: { slowOpThresholdMs: 1 } } });
  expect(run(set).filter((line) => line === 'reload orders-1')).toEqual([]);
  expect(set.state.members.every((m) => m.activated?.configHash === set.state.goal?.hash)).toBe(true);

  const left = play(replace('orders-1'));
  while (!left.pass().startsWith('orders-3 join'));
  left.desired = set.desired;
  left.requests = [replace('orders-1', { cancelRequested: true })];
  expect(run(left)).toContain('reload orders-1');
});

test('A13.3 its plan is what then happens: a secondary, a primary, an only member, one of seven, one on a lost host', () => {
  const cases = [
    ['orders-1', 3, null],
    ['orders-0', 3, null],
    ['orders-0', 1, null],
    ['orders-3', 7, null],
    ['orders-2', 3, 'db3'],
  ] as const;
  for (const [member, size, lost] of cases) {
    const set = play(replace(member), desired({}, size), hostsUpTo(size + 1));
    if (lost !== null) set.lose(lost);
    const { steps, converges } = preview(set.reading(), set.desired, set.state, set.now);
    const planned = steps.map((s) => (s.verb === 'reconfig' ? s.detail : `${s.verb} ${member}`));
    const done = run(set).map((line) => line.replace(/^(\w+) orders-\d$/, `$1 ${member}`));
    expect([converges, planned]).toEqual([true, done]);
  }
});

test('A13.7 cancelled before the old one left, only the new one goes; afterwards it is refused and says why', () => {
  const set = play(replace('orders-1'));
  while (!set.pass().startsWith('orders-3 join'));
  set.requests = [replace('orders-1', { cancelRequested: true })];
  expect(run(set)).toEqual(['orders-3 leaves', 'deleteRuntime orders-3', 'deleteVolume orders-3']);
  expect(set.state.ended).toMatchObject([{ state: 'Cancelled' }]);
  expect(set.state.members.map((m) => m.name)).toEqual(['orders-0', 'orders-1', 'orders-2']);

  const late = play(replace('orders-1'));
  while (!late.pass().startsWith('orders-1 leaves'));
  late.requests = [replace('orders-1', { cancelRequested: true })];
  late.pass();
  const o = late.reading();
  const told = operationStatus(late.requests[0] as OperationRequest, {
    observed: o,
    desired: late.desired,
    state: late.state,
    plan: plan(o, late.desired, late.state, late.now),
    now: late.now,
  });
  expect(told.cancellable).toBe(false);
  expect(told.message).toMatch(
    /^not cancelled: orders-1 is out of the set: it goes on until orders-3 has its place/,
  );
  run(late);
  expect(late.state.ended).toMatchObject([{ state: 'Succeeded' }]);
});

test('A13.1 its progress is that of the copy: percent, current member, cancellable', () => {
  const set = play(replace('orders-1'));
  set.syncPasses = 9;
  const seen: (number | undefined)[] = [];
  for (let pass = 0; pass < 30 && set.state.ended.length === 0; pass++) {
    set.pass();
    const o = set.reading();
    const told = operationStatus(set.requests[0] as OperationRequest, {
      observed: o,
      desired: set.desired,
      state: set.state,
      plan: plan(o, set.desired, set.state, set.now),
      now: set.now,
    });
    // Once it has the place, what is left to be done is done to the old one.
    const current = told.progressPercent === 95 ? 'orders-1' : 'orders-3';
    if (told.state === 'Running') expect(told.currentMember).toBe(current);
    seen.push(told.progressPercent);
  }
  expect(seen.map((n) => n ?? -1)).toEqual([...seen.map((n) => n ?? -1)].sort((a, b) => a - b));
  expect(new Set(seen).size).toBeGreaterThan(8);
  expect(seen.at(-1)).toBe(100);
});

test('A13.3 A13.1 it has succeeded when nothing is left of the old one, not a moment before', () => {
  for (const asked of [replace('orders-1'), move('orders-1')]) {
    const set = play(asked);
    const lines: string[] = [];
    while (set.state.ended.length === 0) lines.push(set.pass());
    expect(lines.slice(-2)).toEqual(['deleteRuntime orders-1', 'deleteVolume orders-1']);
    expect(set.state.ended).toMatchObject([{ state: 'Succeeded', completed: ['orders-1'] }]);
    expect(set.state.retired ?? []).toEqual([]);
  }
});

test('A13.3 A3.6 it holds up nobody where the old one cannot be taken down now: it says what is left', () => {
  const arrived = (): Play => {
    const set = play(replace('orders-1'));
    while (set.state.retired === undefined || set.state.members.some((m) => m.replacement)) set.pass();
    expect(set.state.operation).not.toBeNull();
    return set;
  };
  const refusing = arrived();
  const step = { kind: 'deleteRuntime', member: 'orders-1' } as const;
  const failed = { kind: 'failed', code: 'AgentBusy', message: 'it is busy', retry: 'later' } as const;
  refusing.state = applyOutcome(refusing.state, step, 's', failed, refusing.now);
  refusing.pass();
  expect(refusing.state.ended[0]?.message).toMatch(
    /has the place of orders-1; what is left on host db2 could not be removed yet, which is tried again: it is busy$/,
  );
  const suspended = arrived();
  suspended.desired = { ...suspended.desired, suspend: true };
  suspended.pass();
  expect(suspended.state.ended[0]?.message).toMatch(
    /what is left on host db2 goes when the cluster is resumed$/,
  );
  const told = arrived();
  const [o, { state, now }] = [told.reading(), told];
  const scene = { observed: o, desired: told.desired, state, now, all: views(state, o) };
  expect(REPLACE.cancel(scene, state.operation as RunningOperation)).toMatch(
    /^orders-3 has the place of orders-1, which is being removed$/,
  );
});

test('A13.7 a move comes to the host that is named, or to none that is to be avoided, whatever the spec says later', () => {
  const to = play(move('orders-1', { host: 'db6' }), desired(), hostsUpTo(6));
  run(to);
  expect(to.state.members.map((m) => m.host)).toEqual(['db1', 'db3', 'db6']);
  const off = play(move('orders-1', { avoidHosts: ['db4', 'db5'] }), desired(), hostsUpTo(6));
  run(off);
  expect(off.state.members.map((m) => m.host)).toEqual(['db1', 'db3', 'db6']);
});

test('A13.7 a place that is refused for good fails the operation before anything is done to the old member', () => {
  const cases: readonly [OperationRequest, Desired, ObservedHost[], RegExp][] = [
    [move('orders-1', { host: 'db9' }), desired(), hostsUpTo(4), /there is no host db9/],
    [move('orders-1', { host: 'db2' }), desired(), hostsUpTo(4), /orders-1 is on host db2 already/],
    [
      move('orders-1', { host: 'db4' }),
      desired(),
      [...hostsUpTo(3), host('db4', { schedulable: false })],
      /host db4 takes no new members/,
    ],
    [
      move('orders-1'),
      desired({ hosts: ['db2'] }),
      hostsUpTo(4),
      /no host is left for it \(spec.placement: db2, without db2\)/,
    ],
    [
      move('orders-1', { host: 'db4' }),
      desired(),
      [...hostsUpTo(3), host('db4', { executables: {} })],
      /no connected host has mongod/,
    ],
    [replace('orders-9'), desired(), hostsUpTo(4), /there is no member orders-9/],
  ];
  for (const [request, want, hosts, why] of cases) {
    const set = play(request, want, hosts);
    expect(run(set, 3)).toEqual([]);
    expect(set.state.ended).toMatchObject([{ state: 'Failed' }]);
    expect(set.state.ended[0]?.message).toMatch(why);
    expect(set.state.members).toHaveLength(3);
  }
});

test('A13.7 a host that says no after it began fails it too: the new one retires, its index is not used again', () => {
  const set = play(move('orders-1', { host: 'db4' }));
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  expect(set.state.operation?.members).toEqual(['orders-1']);
  set.hosts = [...hostsUpTo(3), host('db4', { schedulable: false })];
  expect(run(set, 3)).toEqual([]);
  expect(set.state.ended).toMatchObject([{ state: 'Failed' }]);
  expect(set.state.ended[0]?.message).toMatch(
    /orders-3 cannot be placed: host db4 takes no new members.*; orders-1 was not touched/,
  );
  expect(set.state.members.map((m) => m.name)).toEqual(['orders-0', 'orders-1', 'orders-2']);
  expect(set.state.nextMemberIndex['orders']).toBe(4);
});

test('A13.3 the new one prefers a host without members; without one the old host is as good as any', () => {
  const free = play(replace('orders-1'), desired(), hostsUpTo(4));
  run(free);
  expect(free.state.members.map((m) => m.host)).toEqual(['db1', 'db3', 'db4']);
  const full = play(replace('orders-1'), desired(), hostsUpTo(3));
  run(full);
  expect(full.state.members.map((m) => m.host)).toEqual(['db1', 'db3', 'db2']);
});

test('A13.3 S6 a member whose data folder is lost waits for it under its name for ever; replaced, it is over', () => {
  const set = play(replace('orders-1'));
  const lost = { stage: 'planned', serviceId: null, activated: null, deployedVersion: null } as const;
  const [request] = set.requests;
  set.requests = [];
  set.state = withMember(set.state, 'orders-1', lost);
  set.state = withFailure(set.state, 'import', 'orders-1', 'VolumeNotFound', 'volume v-orders-1 is gone', 0);
  set.state = {
    ...set.state,
    retries: set.state.retries.map((r) => ({ ...r, nextTryAt: 500_000 })),
  };
  const decided = plan(set.reading(), set.desired, set.state, set.now);
  expect(decided.blocks[0]?.fix).toMatch(/belay replace orders orders-1$/);
  set.requests = [request as OperationRequest];
  run(set);
  expect(set.state.ended).toMatchObject([{ state: 'Succeeded' }]);
  expect(set.pass()).toBe('converged');
  expect(set.state.retries).toEqual([]);
});

test('A13.3 S5 S4 a configuration that is lost with its primary takes the old member back in: it leaves again, and nothing of it goes before', () => {
  const set = play(replace('orders-1'), desired({}, 7), hostsUpTo(8));
  let before = set.config;
  while (!set.pass().startsWith('orders-1 leaves')) before = set.config;
  set.pass();
  expect(set.state.retired).toHaveLength(1);
  // The new primary never had it. Its own version is newer all the same.
  set.config = { ...before, version: set.config.version + 1 };
  const lines: string[] = [];
  for (let pass = 0; pass < 12; pass++) {
    lines.push(set.pass());
    expect(set.config.members.filter((r) => r.votes === 1).length).toBeLessThan(8);
    const inSet = set.config.members.some((r) => r.host === 'db2:27017');
    if (inSet) expect(lines.join()).not.toContain('delete');
  }
  expect(lines.filter((l) => !l.startsWith('wait'))).toEqual([
    'orders-1 leaves: votes 7 → 6, majority 4 → 4',
    'orders-7 gets its vote: votes 6 → 7, majority 4 → 4',
    'deleteRuntime orders-1',
    'deleteVolume orders-1',
    ...Array(8).fill('converged'),
  ]);
  expect(set.state.ended).toMatchObject([{ state: 'Succeeded' }]);
});

test('A6.2 A13.3 routers hear of a config server that takes another’s place once: when the place is free', () => {
  const set = new Play(desired());
  const members = set.state.members.map((m) => ({ ...m, role: 'configServer' as const }));
  const [first, old] = members as [MemberState, MemberState];
  const settings = set.desired.members[0] as DesiredMember;
  const replacement = { of: old.name, settings, host: null, avoidHosts: [], because: 'Replacing' as const };
  const at = { host: 'db4', address: 'db4', name: 'orders-3', index: 3, place: 1 };
  const lists = (['imported', 'healthy', 'syncing'] as const).map((stage) =>
    configServerList({ members: [...members, { ...first, ...at, stage, replacement }] }),
  );
  const before = 'orders/db1:27017,db2:27017,db3:27017';
  expect(lists).toEqual([before, before, before]);
  // Nor of one whose runtime is made anew: it is a member all the while.
  const anew = members.map((m) => (m === old ? { ...m, stage: 'planned' as const, serviceId: null } : m));
  expect(configServerList({ members: anew })).toBe(before);
  const without = members.filter((m) => m !== old);
  const after = (['syncing', 'active'] as const).map((stage) =>
    configServerList({ members: [...without, { ...first, ...at, stage, replacement }] }),
  );
  expect(new Set(after)).toEqual(new Set(['orders/db1:27017,db3:27017,db4:27017']));
});
