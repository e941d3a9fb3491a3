import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { TlsMode } from '../model/index.ts';
import { desired, host, observed, placed, running, seen } from './fixtures.ts';
import { guard } from './guard.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { preview } from './preview.ts';
import { backoff, initialState } from './state.ts';
import { applyOutcome, startStep } from './steps.ts';
import { connectionString } from './topology.ts';
import type { Desired, Observed, State } from './types.ts';

const transcript = (o: Observed, d: Desired, s: State): string =>
  preview(o, d, s, 0)
    .steps.map((l) => `${l.number} ${l.verb} ${l.targets.join(',')} · ${l.detail} · ${l.impact}`)
    .concat(preview(o, d, s, 0).refusals.map((r) => `refused ${r.by}: ${r.detail}`))
    .join('\n');

test('A4.1 A4.2 A5.1 A5.2 golden: creation of three members on three hosts, in order', () => {
  const d = desired();
  expect(transcript(observed(), d, initialState(d))).toMatchInlineSnapshot(`
    "1 ensureCredentials cluster · keyfile, system users and certificates · nothing goes down
    2 import orders-0,orders-1,orders-2 · make runtime and volume: db1 on a free port from 27017 up, db2 on a free port from 27017 up, db3 on a free port from 27017 up · nothing goes down
    3 deploy orders-0,orders-1,orders-2 · deploy 8.0.32-14 · nothing goes down
    4 publish orders-0,orders-1,orders-2 · hand over the configuration; the processes start with it · nothing goes down
    5 initiate orders · initiate with 3 members at once, through orders-0 · nothing goes down
    6 createFirstUser orders · userAdmin, by the localhost exception of the elected primary · nothing goes down
    7 reconcileSystemUsers orders · clusterAdmin, clusterMonitor, backup, databaseAdmin and roles · nothing goes down"
  `);
});

test('A5.1 B1.2 golden: a Standalone is a set of one', () => {
  const d = desired({ type: 'Standalone' }, 1);
  expect(
    transcript(observed({ hosts: [host('local', { address: 'localhost' })] }), d, initialState(d)),
  ).toMatchInlineSnapshot(`
    "1 ensureCredentials cluster · keyfile, system users and certificates · nothing goes down
    2 import orders-0 · make runtime and volume: localhost on a free port from 27017 up (host local) · nothing goes down
    3 deploy orders-0 · deploy 8.0.32-14 · nothing goes down
    4 publish orders-0 · hand over the configuration; the processes start with it · nothing goes down
    5 initiate orders · initiate with 1 member at once, through orders-0 · nothing goes down
    6 createFirstUser orders · userAdmin, by the localhost exception of the elected primary · nothing goes down
    7 reconcileSystemUsers orders · clusterAdmin, clusterMonitor, backup, databaseAdmin and roles · nothing goes down"
  `);
});

test('A14.1 A14.3 golden: deletion takes runtimes, then volumes, then secrets, then the record', () => {
  const base = desired();
  const d = desired({ deleting: { keepVolumes: false } });
  const s = running(base);
  expect(transcript(seen(s, base, ['PRIMARY', 'SECONDARY', 'SECONDARY']), d, s)).toMatchInlineSnapshot(`
    "1 deleteRuntime orders-0,orders-1,orders-2 · stop and remove orders-0, orders-1, orders-2 · these members go down
    2 deleteVolume orders-0,orders-1,orders-2 · delete volumes v-orders-0, v-orders-1, v-orders-2 with their data · cannot be undone
    3 deleteSecrets cluster · credentials and certificates · cannot be undone
    4 forget cluster · nothing is left · nothing goes down"
  `);
});

test('A14.2 golden: suspension removes runtimes only, resumption brings them back to the same place', () => {
  const base = desired();
  const s = running(base);
  expect(
    transcript(seen(s, base, ['PRIMARY', 'SECONDARY', 'SECONDARY']), desired({ suspend: true }), s),
  ).toMatchInlineSnapshot(
    `"1 deleteRuntime orders-0,orders-1,orders-2 · stop and remove orders-0, orders-1, orders-2 · these members go down"`,
  );
  const suspended: State = {
    ...s,
    phase: 'suspended',
    suspended: true,
    members: s.members.map((m) => ({
      ...m,
      stage: 'planned',
      serviceId: null,
      deployedVersion: null,
      activated: null,
    })),
  };
  expect(transcript(observed(), base, suspended)).toMatchInlineSnapshot(`
    "1 import orders-0,orders-1,orders-2 · make runtime and volume: db1:27017, db2:27017, db3:27017 · nothing goes down
    2 deploy orders-0,orders-1,orders-2 · deploy 8.0.32-14 · nothing goes down
    3 publish orders-0,orders-1,orders-2 · hand over the configuration; the processes start with it · nothing goes down"
  `);
});

test('S6 a set is initiated only when every member is up and none belongs to a set', () => {
  const d = desired();
  const s = placed(d);
  expect(plan(seen(s, d, ['STARTUP', 'STARTUP', 'STARTUP']), d, s, 0).act?.steps[0]?.kind).toBe('initiate');
  const waiting = plan(seen(s, d, ['STARTUP', null, 'STARTUP']), d, s, 0);
  expect(waiting.act).toBeNull();
  expect(waiting.waits.map((w) => w.on)).toContain('WaitingForMembers');
  expect(
    plan(seen(s, d, ['STARTUP', 'STARTUP', 'STARTUP'], { usersExist: true }), d, s, 0).blocks[0]?.by,
  ).toBe('ForeignData');
  const lost = plan(seen(s, d, ['SECONDARY', 'SECONDARY', 'SECONDARY']), d, s, 0);
  expect([lost.act, lost.waits[0]?.on]).toEqual([null, 'WaitingForPrimary']);
});

test('A5.1 A6.5 a set is initiated through a member that may become primary: the server refuses any other', () => {
  const wanted = desired().members.map((m, i) => (i === 0 ? { ...m, priority: 0 } : m));
  const d = desired({ members: wanted });
  const s = placed(d);
  const step = plan(seen(s, d, ['STARTUP', 'STARTUP', 'STARTUP']), d, s, 0).act?.steps[0];
  expect(step).toMatchObject({ kind: 'initiate', via: 'orders-1' });
});

test('S6 INI-06 the guard refuses an initiate that a fresh reading contradicts', () => {
  const d = desired();
  const s = placed(d);
  const step = plan(seen(s, d, ['STARTUP', 'STARTUP', 'STARTUP']), d, s, 0).act?.steps[0];
  if (step === undefined) throw new Error('no step');
  expect(guard(step, seen(s, d, ['STARTUP', 'STARTUP', 'STARTUP']), d, s, 0)).toBeNull();
  expect(guard(step, seen(s, d, ['PRIMARY', 'SECONDARY', 'SECONDARY']), d, s, 0)?.reason).toBe(
    'AlreadyInitiated',
  );
  expect(guard(step, seen(s, d, ['STARTUP', null, 'STARTUP']), d, s, 0)?.reason).toBe('MemberNotReady');
  expect(
    guard(step, seen(s, d, ['STARTUP', 'STARTUP', 'STARTUP'], { usersExist: true }), d, s, 0)?.reason,
  ).toBe('AlreadyInitiated');
});

test('INI-06 two set ids under one cluster stop everything', () => {
  const d = desired();
  const s = running(d);
  const o = seen(s, d, ['PRIMARY', 'SECONDARY', 'SECONDARY']);
  const stray = o.members.map((m, i) =>
    i === 2 && m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, replicaSetId: 'id-2' } } }
      : m,
  );
  const p = plan({ ...o, members: stray }, d, s, 0);
  expect([p.act, p.blocks[0]?.by]).toEqual([null, 'SplitIdentity']);
});

test('S15 A7.4 converged only when every member is known to be healthy', () => {
  const d = desired();
  const s = running(d);
  expect(plan(seen(s, d, ['PRIMARY', 'SECONDARY', 'SECONDARY']), d, s, 0).converged).toBe(true);
  for (const states of [
    ['PRIMARY', 'SECONDARY', null],
    ['PRIMARY', 'SECONDARY', 'STARTUP2'],
    ['SECONDARY', 'SECONDARY', 'SECONDARY'],
    ['PRIMARY', 'SECONDARY', 'RECOVERING'],
  ] as const) {
    expect(plan(seen(s, d, states), d, s, 0).converged, states.join()).toBe(false);
  }
});

test('A5.4 a failed monitor login repairs the system users; wrong credentials ask for a person', () => {
  const d = desired();
  const s = running(d);
  const drift = seen(s, d, ['PRIMARY', 'SECONDARY', 'SECONDARY'], { authenticated: false });
  const step = plan(drift, d, s, 0).act?.steps[0];
  expect(step?.kind).toBe('reconcileSystemUsers');
  if (step === undefined) return;
  const retrying = applyOutcome(
    s,
    step,
    'x',
    { kind: 'failed', code: 'Transient', message: 'no primary', retry: 'later' },
    0,
  );
  expect(plan(drift, d, retrying, 500).waits.map((w) => [w.on, w.until])).toContainEqual([
    'RepairRetrying',
    1000,
  ]);
  const broken = applyOutcome(
    s,
    step,
    'x',
    { kind: 'failed', code: 'CredentialRepairRequired', message: 'login failed', retry: 'never' },
    0,
  );
  expect(plan(drift, d, broken, 5000).blocks[0]?.by).toBe('CredentialRepairRequired');
  const healed = applyOutcome(
    broken,
    step,
    'y',
    { kind: 'done', result: { usersHash: s.replicaSets[0]?.usersHash ?? '' } },
    6000,
  );
  expect(healed.retries).toEqual([]);
});

test('A3.2 the first retry comes after 30 s, doubles to ten minutes and stays there', () => {
  const waits = Array.from({ length: 8 }, (_, i) => backoff(i + 1, 30_000, 600_000) / 1000);
  expect(waits).toEqual([30, 60, 120, 240, 480, 600, 600, 600]);
});

test('A3.1 A2.4 a failed operation clears the pending one, keeps action, member and message, and is tried again later', () => {
  const d = desired();
  const s0 = { ...initialState(d), credentialsReady: true };
  const act = plan(observed(), d, s0, 0).act;
  let s: State = s0;
  act?.steps.forEach((step, i) => {
    s = startStep(s, step, `id-${i}`, 0);
  });
  expect(s.pending).toHaveLength(3);
  const failed = advance(
    s,
    d,
    observed({
      operations: { 'id-1': { kind: 'failed', code: 'DiskFull', message: 'no space left on db2' } },
    }),
    1000,
  );
  expect(failed.pending.map((p) => p.member)).toEqual(['orders-0', 'orders-2']);
  expect(failed.retries).toEqual([
    {
      action: 'import',
      member: 'orders-1',
      failures: 1,
      code: 'DiskFull',
      message: 'no space left on db2',
      nextTryAt: 31_000,
    },
  ]);
  const held = plan(observed(), d, failed, 2000);
  expect(held.act).toBeNull();
  expect(held.blocks[0]).toMatchObject({ by: 'DiskFull', detail: 'no space left on db2' });
  expect(plan(observed(), d, failed, 31_000).act?.steps).toMatchObject([
    { kind: 'import', member: 'orders-1' },
  ]);
});

test('A4.6 an operation the platform forgot is done again after looking for its service', () => {
  const d = desired({}, 1);
  const s0 = { ...initialState(d), credentialsReady: true };
  const step = plan(observed(), d, s0, 0).act?.steps[0];
  if (step === undefined) throw new Error('no step');
  const s = advance(
    startStep(s0, step, 'id', 0),
    d,
    observed({ operations: { id: { kind: 'unknown' } } }),
    1000,
  );
  expect(plan(observed(), d, s, 1000).act?.steps[0]?.kind).toBe('import');
  const owner = {
    installation: 'i',
    clusterUid: d.uid,
    member: 'orders-0',
    hostname: 'orders-0',
    proof: 'p',
  };
  const service = {
    id: 's1',
    hostname: 'orders-0',
    host: 'db2',
    kind: 'runtime' as const,
    owner,
    masked: false,
    deployed: false,
    port: 27019,
    dataPath: null,
    sizeBytes: null,
  };
  expect(plan(observed({ services: [service] }), d, s, 1000).act?.steps[0]).toMatchObject({
    kind: 'adopt',
    serviceId: 's1',
    placement: { host: 'db2', port: 27019 },
  });
});

test('A4.3 A4.4 A4.5 A4.7 a foreign or unreadable service at a member’s name stops everything before anything is made', () => {
  const d = desired();
  const s = { ...initialState(d), credentialsReady: true };
  const foreign = {
    id: 'x',
    hostname: 'orders-2',
    host: 'db1',
    kind: 'runtime' as const,
    owner: null,
    masked: false,
    deployed: true,
    port: 27017,
    dataPath: null,
    sizeBytes: null,
  };
  const p = plan(observed({ services: [foreign] }), d, s, 0);
  expect([p.act, p.blocks[0]?.by]).toEqual([null, 'OwnershipConflict']);
  const masked = plan(observed({ services: [{ ...foreign, masked: true }] }), d, s, 0).blocks[0];
  expect(masked?.by).toBe('OwnershipUnreadable');
  expect(masked?.fix).toMatch(/delete that service .*, or run one pass/);
  expect(plan(observed({ services: null }), d, s, 0).act).toBeNull();
});

test('S11 a paused cluster gets no step, whatever is missing', () => {
  const d = desired({ paused: true });
  const p = plan(observed(), d, initialState(d), 0);
  expect([p.act, p.blocks[0]?.by]).toEqual([null, 'Paused']);
});

test('S4 a volume is deleted only when asked for, out of service and with our marker', () => {
  const base = desired();
  const d = desired({ deleting: { keepVolumes: false } });
  const s = { ...running(base), members: running(base).members.map((m) => ({ ...m, serviceId: null })) };
  const step = { kind: 'deleteVolume', member: 'orders-0' } as const;
  const volume = (owner: string | null) => ({
    id: 'v-orders-0',
    hostname: 'orders-0',
    host: 'db1',
    kind: 'volume' as const,
    owner:
      owner === null
        ? null
        : { installation: 'i', clusterUid: owner, member: 'orders-0', hostname: 'orders-0', proof: 'p' },
    masked: false,
    deployed: false,
    port: null,
    dataPath: null,
    sizeBytes: null,
  });
  expect(guard(step, observed({ services: [volume(d.uid)] }), d, s, 0)).toBeNull();
  expect(guard(step, observed({ services: [volume('other')] }), d, s, 0)?.reason).toBe('NotOwned');
  expect(guard(step, observed({ services: [volume(null)] }), d, s, 0)?.reason).toBe('NotOwned');
  expect(guard(step, observed({ services: null }), d, s, 0)?.reason).toBe('Stale');
  expect(guard(step, observed({ services: [volume(d.uid)] }), base, s, 0)?.reason).toBe('NotDeleting');
  expect(
    guard(step, observed({ services: [volume(d.uid)] }), desired({ deleting: { keepVolumes: true } }), s, 0)
      ?.reason,
  ).toBe('NotDeleting');
  expect(guard(step, observed({ services: [volume(d.uid)] }), d, running(base), 0)?.reason).toBe('NotOwned');
  // The planner asks for no such deletion either, and says what lies there; the others go.
  for (const [owner, why] of [
    [null, 'has no readable owner marker'],
    ['other', 'carries the marker of somebody else'],
  ] as const) {
    const { act, blocks } = plan(observed({ services: [volume(owner)] }), d, s, 0);
    expect(act?.steps).toEqual(['orders-1', 'orders-2'].map((member) => ({ kind: 'deleteVolume', member })));
    expect(blocks).toMatchObject([{ by: 'OwnershipConflict', detail: expect.stringContaining(why) }]);
  }
});

test('A4.9 placement: spread over hosts, next free ports, a taken fixed port and missing executables are said', () => {
  const d = desired();
  const s = { ...initialState(d), credentialsReady: true };
  const places = (o: Observed, want = d) =>
    plan(o, want, s, 0).act?.steps.map((x) =>
      x.kind === 'import' ? `${x.placement.host}:${x.placement.port}` : x.kind,
    );
  expect(places(observed())).toEqual(['db1:27017', 'db2:27017', 'db3:27017']);
  expect(
    places(
      observed({
        hosts: [host('local', { address: 'localhost', portsTaken: [{ port: 27018, by: 'default/a' }] })],
      }),
    ),
  ).toEqual(['local:27017', 'local:27019', 'local:27020']);
  expect(places(observed({ hosts: [host('local', { address: 'localhost', firstPort: 30_000 })] }))).toEqual([
    'local:30000',
    'local:30001',
    'local:30002',
  ]);
  const taken = plan(
    observed({ hosts: [host('db1', { portsTaken: [{ port: 27017, by: 'MongoDB default/other' }] })] }),
    desired({ port: 27017 }),
    s,
    0,
  );
  expect(taken.blocks[0]).toMatchObject({
    by: 'PortTaken',
    detail: 'port 27017 on host db1 is taken by MongoDB default/other',
  });
  expect(plan(observed({ hosts: [host('db1', { executables: {} })] }), d, s, 0).blocks[0]?.by).toBe(
    'NoExecutables',
  );
  expect(plan(observed({ hosts: [] }), d, s, 0).blocks[0]?.by).toBe('NoHosts');
  expect(plan(observed({ hosts: [host('db1', { connected: false })] }), d, s, 0).waits[0]?.on).toBe(
    'NoHostAvailable',
  );
});

test('USR-08 USR-10 a renamed user is made under the new name first, then the old one goes; removed ones are dropped', () => {
  const d = desired();
  const s0 = running(d);
  const user = {
    uid: 'u1',
    name: 'app',
    username: 'app',
    db: 'admin',
    roles: [{ role: 'readWrite', db: 'shop' }],
    passwordRef: 'p',
    passwordFingerprint: 'f1',
    deleting: false,
  };
  const reading = (users: readonly (typeof user)[]): Observed => ({
    ...seen(s0, d, ['PRIMARY', 'SECONDARY', 'SECONDARY']),
    users,
  });
  const first = plan(reading([user]), d, s0, 0).act?.steps[0];
  expect(first?.kind).toBe('applyUser');
  if (first === undefined) return;
  const s1 = applyOutcome(s0, first, 'a', { kind: 'done', result: {} }, 0);
  expect(plan(reading([user]), d, s1, 0).converged).toBe(true);
  const renamed = { ...user, username: 'app2' };
  const second = plan(reading([renamed]), d, s1, 0).act?.steps;
  expect(second).toMatchObject([{ kind: 'applyUser', user: { username: 'app2' } }]);
  const s2 = applyOutcome(s1, second![0]!, 'b', { kind: 'done', result: {} }, 0);
  expect(plan(reading([renamed]), d, s2, 0).act?.steps).toEqual([
    { kind: 'dropUser', via: 'orders-0', uid: 'u1', username: 'app', db: 'admin' },
  ]);
  expect(plan(reading([]), d, s1, 0).act?.steps[0]?.kind).toBe('dropUser');
  expect(
    plan(reading([{ ...user, passwordFingerprint: null as unknown as string }]), d, s0, 0).blocks[0]?.by,
  ).toBe('UserPasswordMissing');
});

test('TLS-08 clients use TLS once every member accepts it and while any demands it', () => {
  const at = (modes: readonly TlsMode[], wanted: TlsMode): boolean => {
    const d = desired({ tlsMode: wanted });
    const s = running(d);
    const members = s.members.map((m, i) => ({
      ...m,
      activated: { ...m.activated!, tlsMode: modes[i] as TlsMode },
    }));
    return connectionString({ ...s, members }, d)?.includes('tls=true') ?? false;
  };
  expect(at(['disabled', 'disabled', 'disabled'], 'requireTLS')).toBe(false);
  expect(at(['allowTLS', 'allowTLS', 'disabled'], 'requireTLS')).toBe(false);
  expect(at(['allowTLS', 'allowTLS', 'allowTLS'], 'requireTLS')).toBe(true);
  expect(at(['requireTLS', 'preferTLS', 'preferTLS'], 'disabled')).toBe(true);
  expect(at(['preferTLS', 'preferTLS', 'preferTLS'], 'disabled')).toBe(false);
});

test('STK-11 STK-04 a wrong first configuration is corrected directly while the set is not initiated', () => {
  const d = desired();
  const s = placed(d);
  const changed = desired({ mongodConfig: { setParameter: { a: 1 } } });
  const o = seen(s, d, ['STARTUP', null, 'STARTUP']);
  const learnt = advance(s, changed, o, 0);
  expect(learnt.configVersion).toBe(2);
  expect(plan(o, changed, learnt, 0).act?.steps.map((x) => x.kind)).toEqual([
    'publish',
    'publish',
    'publish',
  ]);
});

test('A2.5 A2.7 any order of outcomes keeps foreign keys and never leaves a half-known member', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(2), fc.constantFrom('done', 'failed', 'unknown')), { maxLength: 30 }),
      (draws) => {
        const d = desired();
        let s: State = { ...initialState(d), credentialsReady: true, pbmCleanup: 'kept' };
        let now = 0;
        for (const [pick, kind] of draws) {
          now += 700_000;
          s = advance(s, d, observed(), now);
          const act = plan(observed(), d, s, now).act;
          const step = act?.steps[pick % (act?.steps.length ?? 1)];
          if (step === undefined) continue;
          const id = `s-${now}`;
          s = startStep(s, step, id, now);
          if (kind === 'failed')
            s = applyOutcome(s, step, id, { kind: 'failed', code: 'X', message: 'm', retry: 'later' }, now);
          const result = { serviceId: 's', volumeId: 'v', host: 'db1', address: 'db1', port: 1 };
          if (kind === 'done')
            s = advance(s, d, observed({ operations: { [id]: { kind: 'succeeded', result } } }), now);
          if (kind === 'unknown')
            s = advance(s, d, observed({ operations: { [id]: { kind: 'unknown' } } }), now);
        }
        expect(s['pbmCleanup']).toBe('kept');
        for (const m of s.members)
          expect(m.stage === 'planned' ? m.serviceId : m.serviceId === null).toBe(
            m.stage === 'planned' ? null : false,
          );
        expect(new Set(s.pending.map((p) => p.member)).size).toBe(s.pending.length);
      },
    ),
  );
});

test('A2.1 A2.2 A2.3 the record holds what cannot be seen again: identity, places, stages, snapshots, the goal', () => {
  const d = desired();
  const s = running(d);
  expect(s).toMatchObject({
    uid: d.uid,
    phase: 'running',
    configVersion: 1,
    nextMemberIndex: { orders: 3 },
    goal: { tlsMode: 'requireTLS' },
    suspended: false,
    pending: [],
    retries: [],
    users: [],
    replicaSets: [{ name: 'orders', stage: 'ready', replicaSetId: 'id-1' }],
  });
  expect(initialState(d).backupPrefix).toBe('default/orders-11111111');
  expect(s.members[1]).toMatchObject({
    name: 'orders-1',
    index: 1,
    shardIndex: null,
    stage: 'active',
    host: 'db2',
    serviceId: 's-orders-1',
    volumeId: 'v-orders-1',
    deployedVersion: d.version,
    activated: { configVersion: 1, tlsMode: 'requireTLS', cacheGb: 0.25 },
  });
  expect(JSON.parse(JSON.stringify(s)), 'nothing in it is lost on disk').toEqual(s);
});

test('A4.9 L2 L3 a chosen port that somebody else took is given up while no set knows it; a port of the spec is not', () => {
  const d = desired({}, 1);
  const s = placed(d, { stage: 'deployed' });
  const o = seen(s, d, ['STARTUP']);
  const taken = {
    ...o,
    members: o.members.map((m) => ({
      ...m,
      facts: m.facts && {
        ...m.facts,
        database: null,
        process: {
          kind: 'exited',
          since: 0,
          exitCode: 48,
          signal: null,
          failures: 1,
          nextStartAt: 9,
          message: 'port taken',
        } as const,
      },
    })),
  };
  const step = plan(taken, d, s, 0).act?.steps[0];
  expect(step).toEqual({ kind: 'deleteRuntime', member: 'orders-0', lostPort: s.members[0]?.port });
  if (step === undefined) return;
  expect(guard(step, taken, d, s, 0)).toBeNull();
  expect(plan(taken, d, startStep(s, step, 'x', 0), 1).act, 'it is under way').toBeNull();
  expect(guard(step, o, d, s, 0)?.reason, 'the port is its own again').toBe('NotDeleting');
  const gone = advance(
    startStep(s, step, 'x', 0),
    d,
    { ...o, operations: { x: { kind: 'succeeded', result: {} } } },
    1,
  );
  expect(gone.members[0]).toMatchObject({
    stage: 'planned',
    host: 'db1',
    port: null,
    lostPorts: [s.members[0]?.port],
    volumeId: 'v-orders-0',
  });
  const again = plan(observed({ hosts: [host('db0'), host('db1')] }), d, gone, 1).act?.steps[0];
  expect(again).toMatchObject({ kind: 'import', placement: { host: 'db1', portFixed: false } });
  expect(again?.kind === 'import' && again.placement.port).not.toBe(s.members[0]?.port);
  const often = { ...s, members: s.members.map((m) => ({ ...m, lostPorts: [1, 2, 3] })) };
  const asked = plan(taken, d, often, 1);
  expect([asked.act, asked.blocks[0]?.by]).toEqual([null, 'PortTaken']);
  const up = { ...o, members: o.members.map((m) => ({ ...m, observedAt: 2 })) };
  expect(advance(often, d, up, 2).members[0]).toMatchObject({ stage: 'healthy', lostPorts: [] });
  const fixed = desired({ port: 27017 }, 1);
  expect(plan(taken, fixed, placed(fixed, { stage: 'deployed' }), 0).act).toBeNull();
  const live = running(d);
  expect(plan(taken, d, live, 0).act).toBeNull();
  expect(plan(taken, d, live, 0).blocks).toContainEqual({
    kind: 'blocked',
    by: 'PortTaken',
    needs: 'person',
    detail: 'orders-0 on host db1 cannot start: port taken',
    fix: 'stop what has the port; the member then starts by itself within half a minute',
  });
});

test('S2 S6 STK-11 once the initiation is on its way, changes no longer go to all members at once; a refused one frees them', () => {
  const d = desired();
  const s = placed(d);
  const o = seen(s, d, ['STARTUP', 'STARTUP', 'STARTUP']);
  const step = plan(o, d, s, 0).act?.steps[0];
  if (step === undefined) throw new Error('no step');
  const sent = startStep(s, step, 'x', 0);
  const changed = desired({ version: '8.0.29-13', mongodConfig: { a: 1 } });
  const p = plan(o, changed, advance(sent, changed, o, 1), 1);
  expect(p.act?.steps.map((x) => x.kind) ?? []).not.toContain('deploy');
  expect(p.act?.steps.map((x) => x.kind) ?? []).not.toContain('publish');
  const refused = applyOutcome(
    sent,
    step,
    'x',
    { kind: 'failed', code: 'X', message: 'm', retry: 'later' },
    1,
  );
  expect(plan(o, changed, advance(refused, changed, o, 2), 2).act?.steps.map((x) => x.kind)).toEqual([
    'deploy',
    'deploy',
    'deploy',
  ]);
});

test('A4.5 L3 before members are made what is there already is looked up, and the first word of it says so', () => {
  const want = desired();
  const state = { ...initialState(want), credentialsReady: true };
  expect(plan(observed({ services: null }), want, state, 0).waits.map((w) => w.detail)).toContain(
    'what the platform has already is looked up before making orders-0, orders-1, orders-2',
  );
});
