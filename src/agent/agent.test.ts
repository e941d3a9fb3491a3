import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import { servicePaths } from './layout.ts';
import { identify } from './procfs.ts';
import {
  type Bench,
  configOf,
  FENCE,
  login,
  makeMember,
  openBench,
  PASSWORDS,
  systemUsers,
  type TestMember,
  until,
} from './testing/bench.ts';

let bench: Bench;
let member: TestMember;
beforeAll(async () => {
  bench = await openBench();
  member = await makeMember(bench, 'orders-0');
});
afterAll(() => bench?.close());

const database = () => {
  const facts = member.facts()?.database;
  expect(facts?.kind).toBe('reachable');
  return facts as Extract<NonNullable<typeof facts>, { kind: 'reachable' }>;
};
const pid = (): number => {
  const process = member.facts()?.process;
  expect(process?.kind).toBe('running');
  return (process as { pid: number }).pid;
};
const user = () => systemUsers().users[0]!;

// One member's life from nothing, in order; each test goes on where the one before ended.

test('A4.2 a published snapshot starts the member, which is seen running, reachable and not initiated', async () => {
  expect(bench.agents.host('host-a')?.facts.executables).toMatchObject({ mongod: ['8.0.32-14'] });
  const nothing = { configVersion: 0, process: { kind: 'absent' }, database: null };
  await until(() => expect(member.facts()).toMatchObject(nothing));
  expect(member.facts()?.newestRun).toBeNull();
  await member.publish({});
  await until(() =>
    expect(database()).toMatchObject({ initiated: false, state: 'STARTUP', usersExist: false }),
  );
  expect(pid()).toBeGreaterThan(0);
  expect(member.facts()).toMatchObject({ configVersion: 1, configError: null, newestRun: '8.0' });
  expect(database().binaryVersion).toBe('8.0.32-14');
  await until(() => expect(member.facts()?.certificate?.fingerprint).toMatch(/^sha256:[0-9a-f]{64}$/));
  expect(member.facts()?.volume?.id).toBe(member.volumeId);
});

test('S6, INI-07 initiate happens once; the same again is done, another set is refused', async () => {
  const config = configOf(member);
  expect(await member.run({ kind: 'initiate', config })).toMatchObject({
    kind: 'done',
    result: { initiated: true },
  });
  expect(await member.run({ kind: 'initiate', config })).toMatchObject({
    kind: 'done',
    result: { already: true },
  });
  const own = config.members[0]!;
  const stranger = { ...own, _id: 1, host: 'elsewhere:1' };
  for (const members of [[stranger], [own, stranger]])
    expect(await member.run({ kind: 'initiate', config: { ...config, members } })).toMatchObject({
      kind: 'refused',
      codeName: 'AlreadyInitialized',
      class: 'permanent',
    });
  await until(() =>
    expect(database()).toMatchObject({ state: 'PRIMARY', writablePrimary: true, initiated: true }),
  );
});

test('A5.1 the first user comes through the localhost exception, and a lost answer is found by logging in', async () => {
  expect(await member.run({ kind: 'createFirstUser', user: user() })).toEqual({
    kind: 'done',
    result: { created: true },
  });
  expect(await member.run({ kind: 'createFirstUser', user: user() })).toMatchObject({
    kind: 'done',
    result: { already: true },
  });
  const stranger = { ...user(), password: secret('another') };
  expect(await member.run({ kind: 'createFirstUser', user: stranger })).toMatchObject({
    kind: 'refused',
    class: 'credentials',
  });
});

test('A5.2 users and roles are made equal to the wanted ones, and a second pass writes nothing', async () => {
  const first = await member.run(systemUsers());
  expect(first).toEqual({
    kind: 'done',
    result: { created: ['admin.explainRole', 'admin.clusterMonitor'], updated: [], dropped: [] },
  });
  const nothing = { kind: 'done', result: { created: [], updated: [], dropped: [] } };
  expect(await member.run(systemUsers())).toEqual(nothing);
  await until(() => expect(database()).toMatchObject({ authenticated: true, usersExist: true }));
  expect(database().config?.members).toHaveLength(1);
  expect(database().replicaSetId).toMatch(/^[0-9a-f]{24}$/);
  expect(database().featureCompatibilityVersion).toBe('8.0');
  expect(database().peers).toMatchObject([{ state: 'PRIMARY', healthy: true, lagMillis: 0 }]);
});

test('USR-12 drift of roles and passwords is repaired, and only that', async () => {
  const wanted = systemUsers();
  const app = {
    user: 'app@x',
    db: 'orders',
    password: secret('p@ss:w/rd%$`\'"#&? ü'),
    roles: [{ role: 'readWrite', db: 'orders' }],
  };
  const withApp = { ...wanted, users: [...wanted.users, app] };
  expect(await member.run(withApp)).toMatchObject({ result: { created: ['orders.app@x'], updated: [] } });
  expect(await member.run({ kind: 'verifyLogin', as: app })).toMatchObject({ kind: 'done' });
  const changed = { ...app, password: secret('new'), roles: [{ role: 'read', db: 'orders' }] };
  const drifted = { ...wanted, users: [...wanted.users, changed] };
  expect(await member.run(drifted)).toMatchObject({ result: { created: [], updated: ['orders.app@x'] } });
  expect(await member.run({ kind: 'verifyLogin', as: app })).toMatchObject({
    kind: 'refused',
    class: 'credentials',
    code: 18,
  });
  expect(await member.run(drifted)).toMatchObject({ result: { created: [], updated: [] } });
  const dropped = { ...wanted, drop: [{ user: 'app@x', db: 'orders' }] };
  expect(await member.run(dropped)).toMatchObject({ result: { dropped: ['orders.app@x'] } });
  expect(await member.run(dropped)).toMatchObject({ result: { dropped: [] } });
});

test('fail-static: the agent dies and comes back; the member was never touched', async () => {
  const before = pid();
  await bench.agent.close();
  await until(() => expect(bench.agents.host('host-a')?.connected).toBe(false));
  expect(identify(before)).not.toBeNull();
  await bench.startAgent();
  await until(() => {
    expect(bench.agents.host('host-a')?.connected).toBe(true);
    expect(member.facts()?.process).toMatchObject({ kind: 'running', pid: before, adopted: true });
    expect(database()).toMatchObject({ state: 'PRIMARY', authenticated: true });
    expect(member.facts()?.volume?.usedBytes).toBeGreaterThan(0);
  });
  expect(member.facts()).toMatchObject({ configVersion: 1, newestRun: '8.0' });
});

test('kill -9 of an adopted member: it is started again with its data and users', async () => {
  const before = pid();
  process.kill(before, 'SIGKILL');
  await until(() => expect(pid()).not.toBe(before));
  await until(() =>
    expect(database()).toMatchObject({ state: 'PRIMARY', authenticated: true, initiated: true }),
  );
  expect(await member.run({ kind: 'verifyLogin', as: login('userAdmin') })).toMatchObject({ kind: 'done' });
});

test('A9.2 a configuration the server refuses is reported, and a newer one heals the member', async () => {
  const bad = { ...member.snapshot.userConfig, nonsense: { on: true } };
  await member.publish({ configVersion: 2, userConfig: bad });
  await until(() => expect(member.facts()?.configError).toContain('nonsense'));
  expect(member.facts()).toMatchObject({ configVersion: 1, process: { kind: 'exited', exitCode: 2 } });
  await expect(member.publish({ configVersion: 1 })).rejects.toMatchObject({
    code: 'StaleSnapshot',
    retry: 'never',
  });
  await member.publish({ configVersion: 3 });
  await until(() => expect(member.facts()).toMatchObject({ configVersion: 3, configError: null }));
  await until(() => expect(database().state).toBe('PRIMARY'));
});

test('CRD-11 another monitor password restarts nothing', async () => {
  const before = pid();
  const monitor = { ...login('clusterMonitor'), password: secret('not yet') };
  await member.publish({ configVersion: 4, monitor });
  await until(() => expect(member.facts()?.configVersion).toBe(4));
  await until(() => expect(database().authenticated).toBe(false));
  const rotated = systemUsers();
  const users = rotated.users.map((one) =>
    one.user === 'clusterMonitor' ? { ...one, password: secret('not yet') } : one,
  );
  expect(await member.run({ ...rotated, users })).toMatchObject({
    result: { updated: ['admin.clusterMonitor'] },
  });
  await until(() => expect(database().authenticated).toBe(true));
  expect(pid()).toBe(before);
});

test('S8 no secret is in the files that are not private, in arguments or in the environment of the process', () => {
  const folder = join(bench.dataDir, 'services', member.serviceId);
  const environment = readFileSync(`/proc/${pid()}/environ`, 'utf8');
  const seen = [
    readFileSync(join(folder, 'mongod.conf'), 'utf8'),
    readFileSync(join(folder, 'mongod.log'), 'utf8'),
    readFileSync(join(folder, 'service.json'), 'utf8'),
    readFileSync(`/proc/${pid()}/cmdline`, 'utf8'),
    environment,
  ].join('\n');
  for (const hidden of [...Object.values(PASSWORDS), member.snapshot.keyFile.reveal(), 'PRIVATE KEY']) {
    expect(seen).not.toContain(hidden);
  }
  expect(environment).toContain('PERCONA_TELEMETRY_DISABLE=1');
});

test('S8 files that hold secrets are readable by their owner only', () => {
  const paths = servicePaths(join(bench.dataDir, 'services', member.serviceId));
  for (const path of [paths.snapshot, paths.keyFile, paths.certificate])
    expect(statSync(path).mode & 0o077, path).toBe(0);
});

test('S4 A9.1 a snapshot of another member, of another cluster or of an older version is not taken', async () => {
  const { configVersion } = member.facts()!;
  for (const [change, code] of [
    [{ member: 'orders-1', configVersion: 9 }, 'OwnershipConflict'],
    [{ clusterUid: 'uid-2', configVersion: 9 }, 'OwnershipConflict'],
    [{ configVersion: configVersion - 1 }, 'StaleSnapshot'],
  ] as const)
    await expect(member.publish(change), JSON.stringify(change)).rejects.toMatchObject({ code });
  expect(member.facts()?.configVersion).toBe(configVersion);
});

test('S10 a command asked twice under one step id is done once', async () => {
  const ref = { host: 'host-a', serviceId: member.serviceId };
  const twice = { user: 'twice', db: 'admin', password: secret('p'), roles: [] };
  const ask = () =>
    bench.agents.run(
      ref,
      { kind: 'reconcileUsers', as: login('userAdmin'), roles: [], users: [twice], drop: [] },
      { timeoutMillis: 20_000, stepId: 'twice', fence: FENCE },
    );
  const answers = [...(await Promise.all([ask(), ask()])), await ask()];
  expect(answers.map((a) => a.kind === 'done' && a.result['created'])).toEqual(
    Array.from({ length: 3 }, () => ['admin.twice']),
  );
});

test('USR-08 users and roles nobody names are never touched', async () => {
  const byHand = { user: 'byHand', db: 'shop', password: secret('own'), roles: [] };
  const auditor = { role: 'byHand', db: 'shop', privileges: [], roles: [] };
  const as = login('userAdmin');
  await member.run({ kind: 'reconcileUsers', as, roles: [auditor], users: [byHand], drop: [] });
  expect(await member.run(systemUsers())).toMatchObject({ kind: 'done', result: { dropped: [] } });
  const there = { user: 'byHand', db: 'shop', password: secret('own') };
  expect(await member.run({ kind: 'verifyLogin', as: there })).toMatchObject({ kind: 'done' });
  const again = { kind: 'reconcileUsers', as, roles: [auditor], users: [], drop: [] } as const;
  expect(await member.run(again)).toMatchObject({ result: { created: [], updated: [] } });
});

test('A5.2 USR-12 a role whose privileges differ is made right; order alone is no difference', async () => {
  const at = (...actions: readonly string[]) => ({ resource: { db: 'shop', collection: '' }, actions });
  const refs = [
    { role: 'read', db: 'shop' },
    { role: 'dbAdmin', db: 'shop' },
  ];
  const run = async (actions: readonly string[], roles = refs) => {
    const role = { role: 'auditor', db: 'shop', privileges: [at(...actions)], roles };
    const user = { user: 'orderly', db: 'shop', password: secret('p'), roles };
    const as = login('userAdmin');
    const done = await member.run({ kind: 'reconcileUsers', as, roles: [role], users: [user], drop: [] });
    return done.kind === 'done' ? [done.result['created'], done.result['updated']] : done;
  };
  expect(await run(['find', 'collStats'])).toEqual([['shop.auditor', 'shop.orderly'], []]);
  expect(await run(['collStats', 'find'], [...refs].reverse())).toEqual([[], []]);
  expect(await run(['find'])).toEqual([[], ['shop.auditor']]);
  expect(await run(['find'], refs.slice(0, 1))).toEqual([[], ['shop.auditor', 'shop.orderly']]);
  expect(await run(['find'], refs.slice(0, 1))).toEqual([[], []]);
});

test('A13.4 the user administrator changes its own password, and the old one ends', async () => {
  const old = login('userAdmin');
  const next = { ...old, password: secret('the next one') };
  const own = (as: typeof old, { password }: typeof old) =>
    member.run({ kind: 'reconcileUsers', as, roles: [], users: [{ ...user(), password }], drop: [] });
  const changed = { kind: 'done', result: { updated: ['admin.userAdmin'] } };
  expect(await own(old, next)).toMatchObject(changed);
  expect(await member.run({ kind: 'verifyLogin', as: old })).toMatchObject({ class: 'credentials' });
  expect(await own(next, next)).toMatchObject({ kind: 'done', result: { updated: [] } });
  expect(await own(next, old)).toMatchObject(changed);
  expect(await member.run({ kind: 'verifyLogin', as: old })).toMatchObject({ kind: 'done' });
});

test('A14.2 a stopped member stops, keeps its volume, and the runtime goes without it', async () => {
  const before = pid();
  await member.publish({ configVersion: 5, run: 'stopped' });
  await until(() =>
    expect(member.facts()).toMatchObject({ configVersion: 5, process: { kind: 'absent' }, database: null }),
  );
  expect(identify(before)).toBeNull();
  await bench.operate({
    kind: 'deleteRuntime',
    id: 'delete',
    serviceId: member.serviceId,
    clusterUid: 'uid-1',
  });
  expect(member.facts()).toBeNull();
  await expect(member.publish({ configVersion: 6 })).rejects.toMatchObject({ code: 'ServiceNotFound' });
  expect((await bench.agents.services('host-a')).map((one) => [one.kind, one.id])).toEqual([
    ['volume', member.volumeId],
  ]);
});
