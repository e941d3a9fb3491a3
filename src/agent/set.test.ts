import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import type { DatabaseFacts, MemberFacts, ReplSetConfig } from '../clusters/facts.ts';
import { freePort } from '../engine/testing/freePort.ts';
import {
  type Bench,
  configOf,
  FENCE,
  login,
  makeMember,
  openBench,
  specOf,
  systemUsers,
  type TestMember,
  until,
} from './testing/bench.ts';

let bench: Bench;
let members: TestMember[];
beforeAll(async () => {
  bench = await openBench();
  members = await Promise.all(['orders-0', 'orders-1', 'orders-2'].map((name) => makeMember(bench, name)));
  await Promise.all(members.map((member) => member.publish({})));
  await until(() => {
    for (const member of members) expect(database(member).initiated).toBe(false);
  });
});
afterAll(() => bench?.close());

type Reachable = Extract<DatabaseFacts, { kind: 'reachable' }>;
function database(member: TestMember): Reachable {
  const facts = member.facts()?.database;
  expect(facts?.kind).toBe('reachable');
  return facts as Reachable;
}
const primary = (): TestMember => {
  const found = members.filter((member) => database(member).writablePrimary);
  expect(found).toHaveLength(1);
  return found[0] as TestMember;
};
const secondary = (): TestMember =>
  members.find((member) => database(member).state === 'SECONDARY') as TestMember;

// One set's life, in order.

test('INI-04 no initiation while a member cannot be reached by its name; it says which, and nothing was sent', async () => {
  const config = configOf(...members);
  const lost = {
    ...config,
    members: [...config.members, { ...config.members[1]!, _id: 3, host: `localhost:${await freePort()}` }],
  };
  const outcome = await members[0]!.run({ kind: 'initiate', config: lost });
  expect(outcome).toMatchObject({ kind: 'refused', code: 74, class: 'transient' });
  expect((outcome as { message: string }).message).toContain(lost.members[3]!.host);
  expect(database(members[0]!).initiated).toBe(false);
});

test('A5.1, S10 all members at once, and asked twice at the same time it happens once', async () => {
  const initiate = { kind: 'initiate', config: configOf(...members) } as const;
  const outcomes = await Promise.all([members[0]!.run(initiate), members[0]!.run(initiate)]);
  expect(outcomes).toMatchObject([
    { kind: 'done', result: { initiated: true } },
    { kind: 'done', result: { already: true } },
  ]);
  await until(() => {
    primary();
    expect(members.filter((member) => database(member).state === 'SECONDARY')).toHaveLength(2);
  });
});

test('INI-02, A5.4 users are made on the primary only; elsewhere it is refused as passing', async () => {
  const user = systemUsers().users[0]!;
  expect(await secondary().run({ kind: 'createFirstUser', user })).toMatchObject({
    kind: 'refused',
    code: 10107,
    class: 'transient',
  });
  expect(await primary().run({ kind: 'createFirstUser', user })).toMatchObject({ kind: 'done' });
  expect(await secondary().run(systemUsers())).toMatchObject({
    kind: 'refused',
    code: 10107,
    class: 'transient',
  });
  const wanted = systemUsers();
  const clusterAdmin = {
    user: 'clusterAdmin',
    db: 'admin',
    password: secret('ca'),
    roles: [{ role: 'clusterAdmin', db: 'admin' }],
  };
  expect(await primary().run({ ...wanted, users: [...wanted.users, clusterAdmin] })).toMatchObject({
    kind: 'done',
  });
});

test('every member sees the whole set, itself and its lag', async () => {
  await until(() => {
    for (const member of members) {
      const facts = database(member);
      expect(facts).toMatchObject({ authenticated: true, usersExist: true, setName: 'orders' });
      expect(facts.primary).toBe(`localhost:${primary().port}`);
      expect(facts.peers.map((peer) => [peer.healthy, peer.lagMillis])).toEqual(Array(3).fill([true, 0]));
      expect(facts.config?.members.map((one) => one.host)).toEqual(
        configOf(...members).members.map((one) => one.host),
      );
    }
  });
  expect(new Set(members.map((member) => database(member).replicaSetId)).size).toBe(1);
});

/** A member's facts but for the lag, which on a busy machine is real. */
const withoutLag = (serviceId: string): string =>
  JSON.stringify(bench.agents.member({ host: 'host-a', serviceId })?.facts.database, (key, value) =>
    key === 'lagMillis' ? undefined : value,
  );

/** What is reported while every member looks at its set a few times: nothing, unless something changed. */
async function reported(): Promise<readonly string[]> {
  const before = new Map(members.map((member) => [member.serviceId, withoutLag(member.serviceId)]));
  const seen: string[] = [];
  const stop = bench.agents.onChange((change) => {
    if (change.kind !== 'member') return;
    const facts = withoutLag(change.serviceId);
    if (facts !== before.get(change.serviceId)) seen.push(facts);
  });
  const look = (): Promise<unknown> =>
    Promise.all(members.map((member) => member.run({ kind: 'verifyLogin', as: login('userAdmin') })));
  await look();
  // A command makes its member look at once: three whole observations have passed here.
  await look();
  stop();
  return seen;
}

test('a quiet set reports nothing', async () => {
  // What was done before may be told a moment later, then it is quiet.
  await until(async () => expect(await reported()).toEqual([]));
});

test('A7.1 S15 STA-01 what an agent that comes back says first of databases that ran all the while is whole', async () => {
  await bench.agent.close();
  const told: MemberFacts[] = [];
  const stop = bench.agents.onChange((change) => {
    if (change.kind !== 'member' || bench.agents.host('host-a')?.connected !== true) return;
    const facts = bench.agents.member({ host: 'host-a', serviceId: change.serviceId })?.facts;
    if (facts != null) told.push(facts);
  });
  await bench.startAgent();
  await until(() => expect(new Set(told.map(({ serviceId }) => serviceId)).size).toBe(3));
  stop();
  for (const { database: shown } of told) {
    expect(shown).toMatchObject({ kind: 'reachable', authenticated: true, config: { _id: 'orders' } });
    expect((shown as Reachable).peers.map((peer) => peer.healthy)).toEqual([true, true, true]);
  }
});

const clusterAdmin = { user: 'clusterAdmin', db: 'admin', password: secret('ca') };

test('A8.5 S10 the compatibility version is raised once, confirmed where the binary asks; a wrong one is refused', async () => {
  const raised = await primary().run({ kind: 'setFcv', as: clusterAdmin, version: '7.0' });
  expect(raised).toMatchObject({ kind: 'done', result: { version: '7.0' } });
  await until(() => expect(database(primary()).featureCompatibilityVersion).toBe('7.0'));
  expect(await primary().run({ kind: 'setFcv', as: clusterAdmin, version: '8.0' })).toMatchObject({
    kind: 'done',
  });
  await until(() => expect(database(primary()).featureCompatibilityVersion).toBe('8.0'));
  expect(await primary().run({ kind: 'setFcv', as: clusterAdmin, version: '8.0' })).toMatchObject({
    kind: 'done',
    result: { already: true },
  });
  expect(await primary().run({ kind: 'setFcv', as: clusterAdmin, version: '6.0' })).toMatchObject({
    kind: 'refused',
  });
  expect(await secondary().run({ kind: 'setFcv', as: clusterAdmin, version: '7.0' })).toMatchObject({
    class: 'transient',
  });
});

test('a reconfiguration is installed once; again it is done, from an older version it is refused', async () => {
  const current = database(primary()).config as ReplSetConfig;
  const next: ReplSetConfig = {
    ...current,
    version: current.version + 1,
    members: current.members.map((member) => ({ ...member, tags: { rack: `r${member._id}` } })),
  };
  const command = { kind: 'reconfig', as: clusterAdmin, config: next, maxTimeMillis: 5_000 } as const;
  const [{ version }, term] = [next, database(primary()).term];
  // The term of now, whatever the wanted one says: the reading it was made from may be from before an election.
  const older = { ...command, config: { ...next, term: (next.term ?? 0) - 1 } };
  expect(await primary().run(older)).toEqual({ kind: 'done', result: { version, term } });
  expect(await primary().run(command)).toEqual({ kind: 'done', result: { already: true, term } });
  await until(() => expect(database(secondary()).config?.members[1]?.tags).toEqual({ rack: 'r1' }));
  const stale = { ...command, config: { ...current, members: current.members.slice(0, 2) } };
  expect(await primary().run(stale)).toMatchObject({ kind: 'refused', code: 103 });
});

test('S3 a step-down hands over and is seen by everybody; a member that is no primary is done', async () => {
  const before = primary();
  const command = { kind: 'stepDown', as: clusterAdmin, forSeconds: 60, catchUpSeconds: 10 } as const;
  expect(await secondary().run(command)).toMatchObject({ kind: 'done', result: { already: true } });
  expect(await before.run(command)).toMatchObject({ kind: 'done' });
  await until(() => expect(primary().serviceId).not.toBe(before.serviceId));
  await until(() =>
    expect(database(before)).toMatchObject({ primary: `localhost:${primary().port}`, state: 'SECONDARY' }),
  );
});

test('S3 who was seen as a secondary and leads by now is neither restarted nor given another binary; who leads nobody is', async () => {
  const [first, other] = [primary(), secondary()];
  const pid = (member: TestMember): number | null => {
    const process = member.facts()?.process;
    return process?.kind === 'running' ? process.pid : null;
  };
  const [before, others] = [pid(first), pid(other)];
  const restart = { configVersion: 2, restartToken: 'again' };
  const proviso = { unlessPrimary: true };
  await expect(first.publish(restart, proviso)).rejects.toMatchObject({
    code: 'MemberIsPrimary',
    retry: 'later',
  });
  const spec = { ...specOf(first.snapshot.member, first.port), resources: { cpus: 2, memoryBytes: null } };
  const deploy = { kind: 'deploy', serviceId: first.serviceId, spec, ...proviso } as const;
  await bench.agents.startOperation('host-a', { ...deploy, id: 'spares' }, FENCE);
  await until(async () =>
    expect(await bench.agents.operation('host-a', 'spares')).toMatchObject({
      kind: 'failed',
      code: 'MemberIsPrimary',
    }),
  );
  expect(pid(first)).toBe(before);
  expect(first.facts()?.configVersion).toBe(1);
  await other.publish(restart, proviso);
  await until(() => {
    expect(other.facts()?.configVersion).toBe(2);
    expect(pid(other)).not.toBe(others);
    expect(database(other).state).toBe('SECONDARY');
  });
});

test('A7.1 a member that hangs is unreachable within seconds and the others are not held up', async () => {
  const hanging = secondary();
  const process_ = hanging.facts()?.process as { pid: number };
  process.kill(process_.pid, 'SIGSTOP');
  try {
    const asked = hanging.run({ kind: 'verifyLogin', as: login('userAdmin') });
    const other = primary().run({ kind: 'verifyLogin', as: login('userAdmin') });
    const first = await Promise.race([
      asked.then(() => 'the hanging one'),
      other.then(() => 'the other one'),
    ]);
    expect(first).toBe('the other one');
    expect((await asked).kind).not.toBe('done');
    await until(() => expect(hanging.facts()?.database?.kind).toBe('unreachable'));
  } finally {
    process.kill(process_.pid, 'SIGCONT');
  }
  await until(() => expect(database(hanging)).toMatchObject({ state: 'SECONDARY', authenticated: true }));
  expect(hanging.facts()?.process).toMatchObject({ pid: process_.pid });
});

test('S9 a command of an older control plane is refused after a newer one spoke', async () => {
  const ref = { host: 'host-a', serviceId: primary().serviceId };
  const command = { kind: 'verifyLogin', as: login('userAdmin') } as const;
  const at = (epoch: number) =>
    bench.agents.run(ref, command, {
      timeoutMillis: 5_000,
      stepId: `epoch ${epoch}`,
      fence: { ...FENCE, epoch },
    });
  expect(await at(1)).toMatchObject({ kind: 'done' });
  await expect(at(0)).rejects.toMatchObject({ code: 'StaleEpoch' });
});

test('S6 STO-02 a voter whose volume or data is taken away never comes back on an empty folder; with it, it starts by itself', async () => {
  const victim = secondary();
  const folder = join(bench.dataDir, 'volumes', victim.volumeId);
  const data = join(folder, 'data');
  const [away, apart] = [join(bench.dataDir, 'away'), join(bench.dataDir, 'apart')];
  const starts = (): number => (victim.facts()?.process as { failures?: number } | undefined)?.failures ?? 0;
  const isRefused = async (words: string): Promise<void> => {
    const before = starts();
    const refused = { kind: 'exited', code: 'VolumeNotFound', message: expect.stringContaining(words) };
    await until(() => {
      expect(victim.facts()?.process).toMatchObject(refused);
      expect(starts()).toBeGreaterThan(before);
    });
  };
  const { configVersion, process: ran } = victim.facts() as MemberFacts;
  const { pid } = ran as { pid: number };
  renameSync(folder, away);
  process.kill(pid, 'SIGKILL');
  await isRefused('is gone or has no readable owner');
  expect(existsSync(folder)).toBe(false);
  mkdirSync(folder);
  await isRefused('is gone or has no readable owner');
  expect(readdirSync(folder)).toEqual([]);
  rmdirSync(folder);
  renameSync(join(away, 'data'), apart);
  renameSync(away, folder);
  await isRefused('its folder is missing or empty');
  expect(existsSync(data)).toBe(false);
  // Either of the two that its marker notes of data is enough: an earlier agent, or a member no set knew yet, left one only.
  const marker = join(folder, 'owner.json');
  const text = readFileSync(marker, 'utf8');
  const { newestRun, ...record } = JSON.parse(text);
  for (const [nth, held] of [record, { ...record, replicaSetId: null, newestRun }].entries()) {
    writeFileSync(marker, JSON.stringify(held));
    // Another snapshot is tried at once.
    await victim.publish({ configVersion, restartToken: `${nth}` });
    await until(() => expect(victim.facts()?.process).toMatchObject({ kind: 'exited', failures: 1 }));
    expect(victim.facts()?.process).toMatchObject({ code: 'VolumeNotFound' });
  }
  writeFileSync(marker, text);
  await victim.publish({ configVersion });
  expect(existsSync(data)).toBe(false);
  renameSync(apart, data);
  await until(() => expect(database(victim).state).toBe('SECONDARY'));
});

test('S6 a volume whose owner marker names another cluster is not started, with the reason', async () => {
  const victim = secondary();
  const marker = join(bench.dataDir, 'volumes', victim.volumeId, 'owner.json');
  await victim.publish({ configVersion: 2, run: 'stopped' });
  await until(() => expect(victim.facts()?.process.kind).toBe('absent'));
  const { default: fs } = await import('node:fs');
  const record = JSON.parse(fs.readFileSync(marker, 'utf8'));
  const foreign = { ...record, owner: { ...record.owner, clusterUid: 'uid-2' } };
  writeFileSync(marker, JSON.stringify(foreign));
  await victim.publish({ configVersion: 3 });
  await until(() =>
    expect(victim.facts()?.process).toMatchObject({
      kind: 'exited',
      nextStartAt: null,
      message: `the data folder belongs to ${victim.snapshot.member} of another cluster (uid-2)`,
    }),
  );
  writeFileSync(marker, JSON.stringify(record));
});

test('INI-06 data of another set under our name is stopped, not served', async () => {
  const stray = await makeMember(bench, 'orders-3');
  const marker = join(bench.dataDir, 'volumes', stray.volumeId, 'owner.json');
  const { default: fs } = await import('node:fs');
  const record = JSON.parse(fs.readFileSync(marker, 'utf8'));
  await stray.publish({});
  await until(() => expect(database(stray).initiated).toBe(false));
  const newestRun = JSON.parse(fs.readFileSync(marker, 'utf8')).newestRun;
  writeFileSync(marker, JSON.stringify({ ...record, newestRun, replicaSetId: '0123456789abcdef01234567' }));
  expect(await stray.run({ kind: 'initiate', config: configOf(stray) })).toMatchObject({ kind: 'done' });
  await until(() => expect(database(stray).writablePrimary).toBe(true));
  expect(await stray.run({ kind: 'createFirstUser', user: systemUsers().users[0]! })).toMatchObject({
    kind: 'done',
  });
  expect(await stray.run(systemUsers())).toMatchObject({ kind: 'done' });
  await until(() =>
    expect(stray.facts()?.process).toMatchObject({
      kind: 'exited',
      message: expect.stringMatching(/^the data folder belongs to another replica set/),
    }),
  );
});
