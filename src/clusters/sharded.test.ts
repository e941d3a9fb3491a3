import { expect, test } from 'vitest';
import type { MemberFacts, RouterFacts } from './facts.ts';
import { host, observed, sharded } from './fixtures.ts';
import { advance } from './learn.ts';
import { operationRefusal } from './operations/index.ts';
import { plan } from './plan.ts';
import { type Foreseen, foresee } from './preview.ts';
import { initialState, memberOf, withMember } from './state.ts';
import { applyOutcome, startStep } from './steps.ts';
import { connectionString, initialConfig } from './topology.ts';
import type { Desired, MemberState, Observed, OperationRequest, State } from './types.ts';
import { firstVersion } from './versions.ts';

const versions = ['7.0.43-23', '8.0.29-13', '8.0.32-14'];
const executables = { mongod: versions, mongos: versions };
const hosts = ['db1', 'db2', 'db3'].map((name) => host(name, { executables }));

const created = (want: Desired): Foreseen => foresee(observed({ hosts }), want, initialState(want), 0);

/** What follows when the spec changes in a running cluster. */
const changed = (before: Foreseen, want: Desired): Foreseen =>
  foresee(before.observed, { ...want, generation: 2 }, before.state, 1_000_000);

const lines = (plan: Foreseen): string[] => plan.steps.map((s) => `${s.verb} ${s.targets.join(' ')}`);

const CONFIG = 'events-cfg-0 events-cfg-1 events-cfg-2';
const SHARDS = 'events-s0-0 events-s0-1 events-s0-2 events-s1-0 events-s1-1 events-s1-2';
const ROUTERS = 'events-mongos-0 events-mongos-1';

test('A5.1 A5.3 a sharded cluster: shards come up side by side, routers start when the config servers have users, each shard is registered once', () => {
  const plan = created(sharded());
  expect([plan.refusals, plan.converges]).toEqual([[], true]);
  expect(lines(plan)).toEqual([
    'ensureCredentials cluster',
    `import ${CONFIG} ${SHARDS} ${ROUTERS}`,
    `deploy ${CONFIG} ${SHARDS}`,
    `publish ${CONFIG} ${SHARDS}`,
    'initiate events-cfg events-s0 events-s1',
    'createFirstUser events-cfg events-s0 events-s1',
    'reconcileSystemUsers events-cfg events-s0 events-s1',
    `deploy ${ROUTERS}`,
    `publish ${ROUTERS}`,
    'addShard events-s0',
    'addShard events-s1',
  ]);
});

test('A6.5 A6.7 A2.3 a shard that is taken back before anything of it was made is forgotten, and nothing is done', () => {
  const before = created(sharded());
  const grown = advance(before.state, sharded({}, { shards: 4 }), before.observed, 1_000);
  expect(grown.replicaSets.map((r) => r.name)).toContain('events-s3');
  const listed = { ...before.observed, services: before.observed.services ?? [] };
  const back = advance(grown, sharded(), listed, 2_000);
  expect(back.replicaSets).toEqual(before.state.replicaSets);
  expect(back.members).toEqual(before.state.members);
  expect(plan(listed, sharded(), back, 2_000).converged).toBe(true);
  // What lies on the platform under its name is looked for before it is forgotten.
  const unread = advance(grown, sharded(), { ...listed, services: null }, 2_000);
  expect(unread.members.filter((m) => m.stage === 'removing')).toHaveLength(6);
});

test('A6.7 S4 what an import on its way still makes of a shard that was taken back is taken down; what holds data stays', () => {
  const before = created(sharded());
  const name = 'events-s2-0';
  const grown = advance(before.state, sharded({}, { shards: 3 }), before.observed, 1_000);
  const placement = { host: 'db1', address: 'db1', port: 27_050, portFixed: false };
  const sent = startStep(grown, { kind: 'import', member: name, placement }, 'i1', 1_000);
  const taken = advance(sent, sharded(), before.observed, 2_000);
  expect(memberOf(taken, name)?.stage).toBe('removing');
  const result = { serviceId: 's-9', volumeId: 'v-9', host: 'db1', address: 'db1', port: 27_050 };
  const arrived = { ...before.observed, operations: { i1: { kind: 'succeeded' as const, result } } };
  const there = advance(taken, sharded(), arrived, 3_000);
  expect(plan(arrived, sharded(), there, 3_000).act?.steps).toEqual([
    { kind: 'deleteRuntime', member: name },
  ]);
  // One that is there already, however that came, is nobody's to delete.
  const placed = withMember(grown, name, {
    stage: 'imported',
    host: 'db1',
    serviceId: 's-9',
    volumeId: 'v-9',
  });
  const kept = advance(placed, sharded(), before.observed, 2_000);
  expect(kept.members.filter((m) => m.stage === 'removing')).toEqual([]);
});

test('A4.3 one that got the port of a member that comes back to its place moves away, while no set knows it by that port', () => {
  const before = created(sharded());
  const want = sharded({}, { shards: 3 });
  const { host, address, port } = before.state.members.find((m) => m.name === 'events-s1-0') as MemberState;
  const grown = advance(before.state, want, before.observed, 1_000);
  const made = { stage: 'imported', host, address } as const;
  const late = (at: number | null): State =>
    [at, 27_061, 27_062].reduce<State>(
      (s, port, i) => withMember(s, `events-s2-${i}`, { ...made, port, serviceId: `s-${i}` }),
      grown,
    );
  const taken = plan(before.observed, want, late(port), 1_000).act?.steps;
  expect(taken).toEqual([{ kind: 'deleteRuntime', member: 'events-s2-0', lostPort: port }]);
  const own = plan(before.observed, want, late(27_050), 1_000).act?.steps ?? [];
  expect(own.some((step) => step.kind === 'deleteRuntime')).toBe(false);
  // Of two that no set knows yet only the one moves that cannot open it.
  const equal = plan(before.observed, want, late(27_061), 1_000).act?.steps ?? [];
  expect(equal.some((step) => step.kind === 'deleteRuntime')).toBe(false);
});

test('SHD-01 the config servers know their role from the set configuration too, shards do not have it', () => {
  const { state } = created(sharded());
  expect(initialConfig(state, sharded(), 'events-cfg')).toMatchObject({ _id: 'events-cfg', configsvr: true });
  expect(initialConfig(state, sharded(), 'events-s0')).not.toHaveProperty('configsvr');
});

test('A7.4 clients are led to the routers only', () => {
  const { state } = created(sharded());
  expect(connectionString(state, sharded())).toBe('mongodb://db1:27020,db2:27020/?tls=true');
});

test('A6.1 a created cluster is at rest: nothing follows', () => {
  const want = sharded();
  expect(lines(changed(created(want), want))).toEqual([]);
});

test('A6.5 a new shard is a set of its own, bootstrapped and registered while the others stay as they are', () => {
  const plan = changed(created(sharded()), sharded({}, { shards: 3 }));
  const members = 'events-s2-0 events-s2-1 events-s2-2';
  expect(plan.converges).toBe(true);
  expect(lines(plan)).toEqual([
    `import ${members}`,
    `deploy ${members}`,
    `publish ${members}`,
    'initiate events-s2',
    'createFirstUser events-s2',
    'reconcileSystemUsers events-s2',
    'addShard events-s2',
  ]);
});

test('A6.3 A6.4 every component is scaled by itself', () => {
  const grown = changed(created(sharded()), sharded({}, { shard: 5 }));
  expect(grown.converges).toBe(true);
  expect(grown.state.members.map((m) => m.name).filter((n) => /-[34]$/.test(n))).toEqual([
    'events-s0-3',
    'events-s0-4',
    'events-s1-3',
    'events-s1-4',
  ]);
  expect(grown.steps.filter((s) => s.verb === 'reload' || s.verb === 'upgrade')).toEqual([]);
  const routers = changed(grown, sharded({}, { shard: 5, routers: 1 }));
  expect(lines(routers)).toEqual(['deleteRuntime events-mongos-1', 'deleteVolume events-mongos-1']);
});

test('A6.6 A9.1 C3.2 a router more is a service, a snapshot and a member more; one less is the last of them', () => {
  const three = changed(created(sharded()), sharded({}, { routers: 3 }));
  expect(lines(three)).toEqual([
    'import events-mongos-2',
    'deploy events-mongos-2',
    'publish events-mongos-2',
  ]);
  const routers = three.state.members.filter((m) => m.role === 'router');
  expect(new Set(routers.map((m) => m.serviceId)).size).toBe(3);
  expect(new Set(routers.map((m) => `${m.host}:${m.port}`)).size).toBe(3);
  const two = changed(three, sharded({}, { routers: 2 }));
  expect(lines(two)).toEqual(['deleteRuntime events-mongos-2', 'deleteVolume events-mongos-2']);
  const left = routers.find((m) => m.name === 'events-mongos-2');
  expect(two.steps[0]?.impact).toBe(
    `these members go down; clients that list ${left?.address}:${left?.port} need the new list`,
  );
});

test('A6.2 routers alone follow a new list of config servers, one at a time', () => {
  const plan = changed(created(sharded({}, { config: 1 })), sharded({}, { config: 3 }));
  expect(plan.converges).toBe(true);
  expect(lines(plan).filter((l) => l.startsWith('reload'))).toEqual([
    'reload events-mongos-1',
    'reload events-mongos-0',
  ]);
});

const worked = (verb: string): string[] => [
  `${verb} events-cfg-2`,
  `${verb} events-cfg-1`,
  'stepDown events-cfg-0',
  `${verb} events-cfg-0`,
  `${verb} events-s0-2`,
  `${verb} events-s0-1`,
  'stepDown events-s0-0',
  `${verb} events-s0-0`,
  `${verb} events-s1-2`,
  `${verb} events-s1-1`,
  'stepDown events-s1-0',
  `${verb} events-s1-0`,
  `${verb} events-mongos-1`,
  `${verb} events-mongos-0`,
];

test('A8.2 A8.3 S7 S14 binaries: balancer off, config servers, shards, routers, each set secondaries first, balancer back on', () => {
  const plan = changed(created(sharded({ version: '8.0.29-13' })), sharded({ version: '8.0.32-14' }));
  expect(plan.converges).toBe(true);
  expect(lines(plan)).toEqual(['stopBalancer cluster', ...worked('upgrade'), 'startBalancer cluster']);
  expect(plan.state.balancer).toBeNull();
});

test('A8.3 S14 SHD-09 a balancer that a person switched off is off afterwards too', () => {
  const before = created(sharded({ version: '8.0.29-13' }));
  const off: Foreseen = {
    ...before,
    observed: withRouters(before.observed, (router) => ({ ...router, balancer: 'off' })),
  };
  const plan = changed(off, sharded({ version: '8.0.32-14' }));
  expect(lines(plan).at(-1)).toBe('startBalancer cluster');
  expect(plan.steps.at(-1)?.detail).toBe('the balancer stays off, as it was');
  const modes = plan.observed.members.flatMap((m) =>
    m.facts?.database?.kind === 'reachable' ? (m.facts.database.router?.balancer ?? []) : [],
  );
  expect(modes).toEqual(['off', 'off']);
});

test('A13.1 S14 a person switches the balancer off; an upgrade later leaves it off', () => {
  const before = created(sharded({ version: '8.0.29-13' }));
  const request = {
    uid: 'op-1',
    name: 'off',
    spec: { type: 'StopBalancer' as const, mongodbResourceRef: { name: 'events' } },
    createdAt: 0,
    cancelRequested: false,
  };
  const asked = { ...before.observed, requests: [request] };
  const off = foresee(asked, sharded({ version: '8.0.29-13' }), before.state, 10_000);
  expect(lines(off)).toEqual(['switchBalancer cluster']);
  expect(off.state.ended).toMatchObject([{ state: 'Succeeded', message: 'the balancer is stopped' }]);
  const upgraded = changed(off, sharded({ version: '8.0.32-14' }));
  expect(upgraded.steps.at(-1)?.detail).toBe('the balancer stays off, as it was');
});

test('A9.1 A6.2 settings of one role reload its members only; those of the whole cluster go config servers, shards, routers', () => {
  const before = created(sharded());
  const want = sharded();
  const routers = {
    ...want,
    sharded: want.sharded && {
      ...want.sharded,
      router: { ...want.sharded.router, mongodConfig: { setParameter: { a: 1 } } },
    },
  };
  expect(lines(changed(before, routers))).toEqual(['reload events-mongos-1', 'reload events-mongos-0']);
  const plan = changed(before, sharded({ certificateDomains: ['db.example.com'] }));
  expect(lines(plan)).toEqual(['stopBalancer cluster', ...worked('reload'), 'startBalancer cluster']);
});

test('A9.3 S12 each TLS phase is reached by every member of every set and router before the next begins', () => {
  const plan = changed(created(sharded({ tlsMode: 'disabled' })), sharded({ tlsMode: 'requireTLS' }));
  expect(plan.converges).toBe(true);
  const reloads = lines(plan).filter((l) => l.startsWith('reload'));
  expect(reloads).toHaveLength(33);
  for (const phase of [0, 1, 2]) expect(new Set(reloads.slice(11 * phase, 11 * phase + 11)).size).toBe(11);
});

test('S1 C2.5 the only router is worked on when the spec allows an interruption, and not before', () => {
  const before = created(sharded({}, { routers: 1 }));
  const refused = changed(before, sharded({ certificateDomains: ['a.example.com'] }, { routers: 1 }));
  expect(refused.refusals).toMatchObject([{ by: 'WouldInterrupt' }]);
  const allowed = sharded({ certificateDomains: ['a.example.com'], interruption: true }, { routers: 1 });
  expect(changed(before, allowed).converges).toBe(true);
});

test('A13.1 A13.6 S1 a restart of the only router is refused at once where that would interrupt; of the others it is not', () => {
  const request = (members: readonly string[]): OperationRequest => ({
    uid: 'op-1',
    name: 'events-restart',
    spec: { type: 'Restart', mongodbResourceRef: { name: 'events' }, members },
    createdAt: 0,
    cancelRequested: false,
  });
  const refusal = (want: Desired, members: readonly string[]): string | null => {
    const { observed, state } = created(want);
    return operationRefusal({ observed, state, desired: want, now: 1_000_000 }, request(members));
  };
  const one = sharded({}, { routers: 1 });
  const only =
    'WouldInterrupt: events-mongos-0 is the only router: working on it stops the database; set spec.maintenance.interruption: Allowed, or raise spec.mongosCount';
  expect(refusal(one, [])).toBe(only);
  expect(refusal(one, ['events-mongos-0'])).toBe(only);
  expect(refusal(one, ['events-s0-0'])).toBeNull();
  expect(refusal(sharded({ interruption: true }, { routers: 1 }), [])).toBeNull();
  expect(refusal(sharded(), [])).toBeNull();
});

test('A14.1 A14.2 routers go before shards, config servers last; what was suspended comes back config servers first', () => {
  const before = created(sharded());
  const gone = changed(before, sharded({ deleting: { keepVolumes: false } }));
  expect(lines(gone).slice(0, 3)).toEqual([
    `deleteRuntime ${ROUTERS}`,
    `deleteRuntime ${SHARDS}`,
    `deleteRuntime ${CONFIG}`,
  ]);
  const asleep = changed(before, sharded({ suspend: true }));
  const back = changed(asleep, sharded());
  expect(back.converges).toBe(true);
  expect(lines(back).filter((l) => l.startsWith('deploy'))).toEqual([
    `deploy ${CONFIG} ${SHARDS}`,
    `deploy ${ROUTERS}`,
  ]);
});

function withRouters(o: Observed, change: (router: RouterFacts) => RouterFacts): Observed {
  const members = o.members.map((m) => {
    const database = m.facts?.database;
    if (m.facts == null || database?.kind !== 'reachable' || database.router === undefined) return m;
    return { ...m, facts: { ...m.facts, database: { ...database, router: change(database.router) } } };
  });
  return { ...o, members };
}

test('A8.2 A6.5 S7 what is made while a version changes begins with the binary of those before it, and gets the new one in its turn', () => {
  const before = created(sharded({ version: '7.0.43-23' }));
  const plan = changed(before, sharded({ version: '8.0.32-14' }, { shards: 3, routers: 3 }));
  expect(plan.converges).toBe(true);
  const told = lines(plan);
  const order = ['upgrade events-cfg-0', 'upgrade events-s2-0', 'upgrade events-mongos-2'].map((line) =>
    told.indexOf(line),
  );
  expect(order.every((at) => at > -1)).toBe(true);
  expect(told.indexOf('addShard events-s2')).toBeLessThan(told.indexOf('upgrade events-cfg-2'));
  expect(Math.max(told.indexOf('upgrade events-s0-0'), order[1] ?? 0)).toBeLessThan(
    told.indexOf('upgrade events-mongos-1'),
  );
  expect(plan.state.members.every((m) => m.deployedVersion === '8.0.32-14')).toBe(true);
});

test('A8.4 S7 A14.1 a shard that still shows the compatibility version from before it was one holds no upgrade for refused', () => {
  const { observed: seen, state } = created(sharded({ version: '7.0.43-23' }));
  const want = sharded({ version: '8.0.32-14', generation: 2 });
  const shows = (version: string, of: string): Observed => ({
    ...seen,
    members: seen.members.map((m) => {
      const database = m.facts?.database;
      if (database?.kind !== 'reachable' || !m.name.startsWith(of)) return m;
      const changed = { ...database, featureCompatibilityVersion: version };
      return { ...m, facts: { ...(m.facts as MemberFacts), database: changed } };
    }),
  });
  const plan = foresee(shows('6.0', 'events-s1'), want, state, 1_000_000);
  expect(plan.refusals).toEqual([]);
  expect(plan.waits.map(({ detail }) => detail.split(';')[0])).toEqual([
    'events-s1 still shows compatibility version 6.0, and its cluster 7.0',
  ]);
  expect(plan.converges).toBe(true);
  // Where the whole cluster has an older one, that is in the way.
  expect(foresee(shows('6.0', 'events'), want, state, 1_000_000).refusals).toMatchObject([
    { by: 'FcvTooOld' },
  ]);
});

test('A8.2 S7 a member whose data a newer binary has run on begins with no older one', () => {
  const state = created(sharded({ version: '7.0.43-23' })).state;
  const want = sharded({ version: '8.0.32-14' });
  const shard = state.members.find((m) => m.name === 'events-s0-0');
  if (shard === undefined) throw new Error('no member');
  expect(firstVersion(want, state, shard)).toBe('7.0.43-23');
  expect(firstVersion(want, state, { ...shard, newestRun: '8.0' })).toBe('8.0.32-14');
  const config = state.members.find((m) => m.name === 'events-cfg-0');
  expect(firstVersion(want, state, config ?? shard)).toBe('8.0.32-14');
  // Servers are spoken to by no newer router: it begins with the binary of shards too.
  const router = state.members.find((m) => m.role === 'router') ?? shard;
  const half = state.members.map(
    (m): MemberState => (m.role === 'configServer' ? { ...m, deployedVersion: want.version } : m),
  );
  expect(firstVersion(want, { ...state, members: half }, router)).toBe('7.0.43-23');
  expect(firstVersion(want, { ...state, members: half }, shard)).toBe('8.0.32-14');
  // Config servers that leave get no other binary, and nobody waits for them.
  const members = state.members.map(
    (m): MemberState =>
      m.role !== 'configServer'
        ? m
        : m === config
          ? { ...m, deployedVersion: want.version }
          : { ...m, stage: 'removing' },
  );
  expect(firstVersion(want, { ...state, members }, shard)).toBe('8.0.32-14');
  // A set that is no shard yet is in nobody's way.
  const replicaSets = state.replicaSets.map((r) => ({ ...r, registered: false }));
  expect(firstVersion(want, { ...state, members: half, replicaSets }, router)).toBe('8.0.32-14');
});

test('A13.3 A13.7 a router is replaced like any member: the new one serves before the old one goes, also when its host is gone', () => {
  const want = sharded();
  const before = created(want);
  const spec = {
    type: 'Replace',
    mongodbResourceRef: { name: 'events' },
    member: 'events-mongos-0',
  } as const;
  const request = { uid: 'op-1', name: 'r', spec, createdAt: 0, cancelRequested: false };
  const plan = foresee({ ...before.observed, requests: [request] }, want, before.state, 1_000_000);
  expect(plan.refusals).toEqual([]);
  expect(lines(plan)).toEqual([
    'import events-mongos-2',
    'deploy events-mongos-2',
    'publish events-mongos-2',
    'deleteRuntime events-mongos-0',
    'deleteVolume events-mongos-0',
  ]);
  expect(plan.state.ended).toMatchObject([{ uid: 'op-1', state: 'Succeeded' }]);
  const gone = before.state.members.find((m) => m.name === 'events-mongos-0')?.host;
  const observedNow = {
    ...before.observed,
    requests: [request],
    hosts: before.observed.hosts.map((h) => (h.name === gone ? { ...h, connected: false } : h)),
    members: before.observed.members.map((m) =>
      m.name === 'events-mongos-0' ? { ...m, connected: false, facts: null } : m,
    ),
  };
  const lost = foresee(observedNow, want, before.state, 1_000_000);
  expect(lines(lost)).toEqual([
    'import events-mongos-2',
    'deploy events-mongos-2',
    'publish events-mongos-2',
  ]);
  expect(lost.state.ended).toMatchObject([
    { state: 'Succeeded', message: expect.stringContaining('goes when that host is back') },
  ]);
  expect(lost.state.members.map((m) => m.name)).not.toContain('events-mongos-0');
});

test('A13.6 L1 a second router comes while an operation runs that may wait for it; further ones wait for its end', () => {
  const routers = (state: State): readonly string[] =>
    state.members.filter((m) => m.role === 'router').map((m) => m.name);
  const named = { mongodbResourceRef: { name: 'events' } };
  const specs = [
    { type: 'RotateUsers', ...named, users: [] },
    { type: 'Replace', ...named, member: 'events-cfg-0' },
  ] as const;
  for (const spec of specs) {
    const one = sharded({}, { routers: 1 });
    const before = created(one);
    const request = { uid: 'op-1', name: 'o', spec, createdAt: 0, cancelRequested: false };
    const seen = { ...before.observed, requests: [request] };
    const busy = advance(before.state, one, seen, 1_000_000);
    expect(busy.operation?.type).toBe(spec.type);
    const two = { ...sharded({}, { routers: 2 }), generation: 2 };
    const grown = advance(busy, two, seen, 1_001_000);
    expect(routers(grown), spec.type).toEqual(['events-mongos-0', 'events-mongos-1']);
  }
  const many = created(sharded());
  const request = { uid: 'op-1', name: 'o', spec: specs[0], createdAt: 0, cancelRequested: false };
  const seen = { ...many.observed, requests: [request] };
  const busy = advance(many.state, sharded(), seen, 1_000_000);
  const three = { ...sharded({}, { routers: 3 }), generation: 2 };
  expect(routers(advance(busy, three, seen, 1_001_000))).toHaveLength(2);
});

test('A13.3 L1 a router on its way to a place that is given a configuration meanwhile goes on with that', () => {
  const want = sharded();
  const { state, observed: now } = created(want);
  const of = 'events-mongos-0';
  const settings = { votes: 0, priority: 0, hidden: false, secondaryDelaySecs: 0, tags: {} } as const;
  const replacement = { of, settings, host: null, avoidHosts: [], because: 'Replacing' } as const;
  const one = state.members.find((m) => m.name === 'events-mongos-1');
  const changing = withMember(state, 'events-mongos-1', { stage: 'reloading', replacement });
  expect(one?.role).toBe('router');
  const next = advance(changing, want, now, 1_000_000);
  expect(next.members.map((m) => m.name)).not.toContain(of);
  expect(next.retired?.map((m) => m.name)).toEqual([of]);
  const given = { kind: 'rotateCertificate', member: 'events-mongos-1', configVersion: 9 } as const;
  const refused = { kind: 'failed', code: 'X', message: 'no', retry: 'later' } as const;
  const after = applyOutcome(changing, given, 's1', refused, 1);
  expect(after.members.find((m) => m.name === 'events-mongos-1')?.stage).toBe('healthy');
});

/** The member is down by its own process; `change` says what its agent tells besides. */
function withDown(o: Observed, name: string, change: Partial<MemberFacts> = {}): Observed {
  const process = {
    kind: 'exited',
    since: 0,
    exitCode: 1,
    signal: null,
    failures: 3,
    nextStartAt: 9,
    message: '',
  } as const;
  const members = o.members.map((m) =>
    m.name === name && m.facts !== null
      ? { ...m, facts: { ...m.facts, process, database: null, ...change } }
      : m,
  );
  return { ...o, members };
}

test('A8.2 STK-04 who is down takes another binary before its turn only where that is taken back, and not for a configuration that is refused', () => {
  const running = created(sharded({ version: '8.0.29-13' }));
  const upgrades = (
    name: string,
    to: string,
    change: Partial<MemberFacts> = {},
    unproven = true,
  ): readonly string[] => {
    const want = { ...sharded({ version: to }), generation: 2 };
    const state = withMember(running.state, name, { stage: 'reloading', unproven });
    const seen = withDown(running.observed, name, change);
    const { act } = plan(seen, want, advance(state, want, seen, 1_000_000), 1_000_000);
    return (act?.steps ?? []).filter((s) => s.kind === 'upgrade').map((s) => s.member);
  };
  for (const name of ['events-mongos-0', 'events-s1-0']) {
    expect(upgrades(name, '8.0.32-14'), name).toEqual([]);
    expect(upgrades(name, '8.0.29-13'), name).toEqual([]);
    expect(upgrades(name, '8.0.12-4'), name).toEqual([name]);
    expect(upgrades(name, '8.0.12-4', { configError: 'unrecognised option' }), name).toEqual([]);
    // It has served with its binary: it was killed, and comes back with it.
    expect(upgrades(name, '8.0.12-4', {}, false), name).toEqual([]);
  }
  // Nobody comes before config servers.
  expect(upgrades('events-cfg-1', '8.0.32-14')).toEqual(['events-cfg-1']);
});

test('S1 A6.5 the only router that serves is given its first configuration again when another one serves', () => {
  const { state: made, observed: now } = created(sharded());
  // Its answer was lost: nobody remembers that it has one.
  const lost = (s: State, name: string): State => withMember(s, name, { stage: 'deployed', activated: null });
  const state = lost(lost(made, 'events-mongos-0'), 'events-mongos-1');
  const published = (seen: Observed) =>
    (plan(seen, sharded(), state, 1_000_000).act?.steps ?? []).map(
      (s) => `${s.kind} ${'member' in s ? s.member : ''}`,
    );
  expect(published(withDown(now, 'events-mongos-0'))).toEqual(['publish events-mongos-0']);
  expect(published(now)).toEqual(['publish events-mongos-0', 'publish events-mongos-1']);
  const { waits } = plan(withDown(now, 'events-mongos-0'), sharded(), state, 1_000_000);
  expect(waits).toContainEqual(
    expect.objectContaining({ on: 'WaitingForRouter', member: 'events-mongos-1' }),
  );
});

test('A6.7 L1 whose runtime is gone is done with before the next has to leave', () => {
  const { state: made, observed: now } = created(sharded({}, { routers: 3 }));
  const leaving = (s: State, name: string, change: Partial<MemberState> = {}): State =>
    withMember(s, name, { stage: 'removing', ...change });
  const state = leaving(leaving(made, 'events-mongos-1'), 'events-mongos-2', { serviceId: null });
  const { act } = plan(now, sharded({}, { routers: 1 }), state, 1_000_000);
  expect(act?.steps).toEqual([{ kind: 'deleteVolume', member: 'events-mongos-2' }]);
});

test('A6.2 A6.5 S1 a router leaves after the last one has heard of new config servers: alone it could not be told', () => {
  const before = created(sharded());
  const next = changed(before, sharded({}, { config: 5, routers: 1 }));
  expect([next.refusals, next.converges]).toEqual([[], true]);
  const told = lines(next);
  expect(told.indexOf('reload events-mongos-0')).toBeGreaterThan(-1);
  expect(told.indexOf('deleteRuntime events-mongos-1')).toBeGreaterThan(
    told.indexOf('reload events-mongos-0'),
  );
});
