/** Certificates and passwords of a member that runs, with the stand-in executable on real sockets. */
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import type { CommandOutcome, MemberSnapshot } from '../clusters/snapshot.ts';
import { servedCertificate } from './served.ts';
import {
  type Bench,
  configOf,
  login,
  makeMember,
  openBench,
  systemUsers,
  type TestMember,
  until,
} from './testing/bench.ts';

let bench: Bench;
let member: TestMember;
let version = 1;
const admin = { user: 'clusterAdmin', db: 'admin', password: secret('ca') };

beforeAll(async () => {
  bench = await openBench();
  member = await makeMember(bench, 'orders-0');
  await member.publish({});
  await until(() => expect(database().initiated).toBe(false));
  await member.run({ kind: 'initiate', config: configOf(member) });
  await until(() => expect(database().state).toBe('PRIMARY'));
  const first = systemUsers().users[0];
  if (first === undefined) throw new Error('no user');
  await member.run({ kind: 'createFirstUser', user: first });
  const users = systemUsers();
  const roles = [{ role: 'hostManager', db: 'admin' }];
  await member.run({ ...users, users: [...users.users, { ...admin, roles }] });
  await until(() => expect(database().authenticated).toBe(true));
});
afterAll(() => bench.close());

const database = () => {
  const facts = member.facts()?.database;
  return facts?.kind === 'reachable' ? facts : ({} as Record<string, undefined>);
};
const pid = (): number => {
  const process = member.facts()?.process;
  return process?.kind === 'running' ? process.pid : 0;
};
const served = async (): Promise<string | undefined> => (await servedCertificate(member.port))?.fingerprint;
const printOf = (pem: string): string =>
  `sha256:${new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase()}`;

/** Gives another certificate; `configVersion` is the next. */
async function give(change: Partial<MemberSnapshot> = {}): Promise<string> {
  const leaf = await bench.ca.issue('orders-0', ['localhost', 'orders-0', '127.0.0.1']);
  const certificatePem = secret(leaf.keyPem + leaf.certificatePem);
  await member.publish({ certificatesOnline: true, configVersion: ++version, certificatePem, ...change });
  return printOf(leaf.certificatePem);
}
/** The agent dies; what is known of its members afterwards comes from the next one. */
async function anotherAgent(): Promise<void> {
  await bench.agent.close();
  await until(() => expect(bench.agents.host('host-a')?.connected).toBe(false));
  await bench.startAgent();
  await until(() => expect(bench.agents.host('host-a')?.connected).toBe(true));
}

const rotate = (): Promise<CommandOutcome> =>
  member.run({ kind: 'rotateCertificates', as: admin, configVersion: version });

test('A9.4 A13.5 another certificate is taken by the running process, and acknowledged only when it presents it', async () => {
  const [before, old] = [pid(), await served()];
  const print = await give();
  expect(member.facts()).toMatchObject({ configVersion: version - 1, certificate: { fingerprint: old } });
  expect(await served()).toBe(old);
  expect(await rotate()).toMatchObject({ kind: 'done' });
  expect([await served(), pid()]).toEqual([print, before]);
  await until(() =>
    expect(member.facts()).toMatchObject({ configVersion: version, certificate: { fingerprint: print } }),
  );
});

test('A2.7 TLS-04 an agent that dies between file and command: the next one keeps the process, acknowledges nothing it does not run with, and goes on', async () => {
  const before = pid();
  const print = await give();
  await anotherAgent();
  await until(() => expect(pid()).toBe(before));
  expect(member.facts()?.configVersion).toBe(version - 1);
  await until(async () => expect(await rotate()).toMatchObject({ kind: 'done' }));
  await until(() => expect(member.facts()?.configVersion).toBe(version));
  expect([await served(), pid()]).toEqual([print, before]);
});

test('TLS-04 a process that dies meanwhile starts with the new certificate, file and configuration together', async () => {
  const before = pid();
  const print = await give();
  process.kill(before, 'SIGKILL');
  await until(() =>
    expect(member.facts()).toMatchObject({ configVersion: version, process: { kind: 'running' } }),
  );
  expect(pid()).not.toBe(before);
  expect(await served()).toBe(print);
});

test('A9.4 one that the server refuses leaves the old one served; given without "online" it costs a restart', async () => {
  await until(() => expect(database().state).toBe('PRIMARY'));
  const [before, old] = [pid(), await served()];
  const leaf = await bench.ca.issue('orders-0', ['localhost']);
  const other = await bench.ca.issue('orders-0', ['localhost']);
  await give({ certificatePem: secret(leaf.keyPem + other.certificatePem) });
  expect(await rotate()).toMatchObject({ kind: 'refused', class: 'permanent' });
  expect([await served(), pid(), member.facts()?.configVersion]).toEqual([old, before, version - 1]);
  const print = await give({ certificatesOnline: false });
  await until(() =>
    expect(member.facts()).toMatchObject({ configVersion: version, process: { kind: 'running' } }),
  );
  expect(pid()).not.toBe(before);
  expect(await served()).toBe(print);
});

test('A9.4 what is reported is what the port presents, whatever the file says', async () => {
  const file = join(bench.dataDir, 'services', member.serviceId, 'tls', 'member.pem');
  writeFileSync(file, 'something else');
  const print = await served();
  await until(() => expect(member.facts()?.certificate?.fingerprint).toBe(print));
  await until(() => expect(database().state).toBe('PRIMARY'));
  const next = await give();
  await until(async () => expect(await rotate()).toMatchObject({ kind: 'done' }));
  expect(await served()).toBe(next);
});

test('A13.4 S12 an agent with two passwords takes the one that works, before and after the database changes', async () => {
  const before = pid();
  const nextMonitor = { ...login('clusterMonitor'), password: secret('to come') };
  await until(() => expect(database().authenticated).toBe(true));
  await give({ nextMonitor });
  await until(async () => expect(await rotate()).toMatchObject({ kind: 'done' }));
  expect(database().authenticated).toBe(true);
  const change = systemUsers();
  const users = change.users.map((one) =>
    one.user === 'clusterMonitor' ? { ...one, password: nextMonitor.password } : one,
  );
  expect(await member.run({ ...change, users })).toMatchObject({ kind: 'done' });
  // An agent that comes anew has to log in: the first password is refused, the second is not.
  await anotherAgent();
  await until(() => expect(database()).toMatchObject({ authenticated: true, state: 'PRIMARY' }));
  expect(pid()).toBe(before);
});

test('S10 A9.4 the same step with another certificate under the same version: that one is taken, and told', async () => {
  const ref = { host: 'host-a', serviceId: member.serviceId };
  const options = { timeoutMillis: 20_000, stepId: 'once more', fence: { lease: 'p0', epoch: 1 } };
  const take = (): Promise<CommandOutcome> =>
    bench.agents.run(ref, { kind: 'rotateCertificates', as: admin, configVersion: version }, options);
  const first = await give();
  await until(async () => expect(await take()).toMatchObject({ kind: 'done' }));
  await until(() => expect(member.facts()?.certificate?.fingerprint).toBe(first));
  const second = await give({ configVersion: version });
  version--;
  await until(async () => expect(await take()).toMatchObject({ kind: 'done' }));
  expect(await served()).toBe(second);
  await until(() => expect(member.facts()?.certificate?.fingerprint).toBe(second));
});

test('S10 a step may ask a member for several things: a change and its proof are two answers', async () => {
  const ref = { host: 'host-a', serviceId: member.serviceId };
  const options = { timeoutMillis: 20_000, stepId: 'one step', fence: { lease: 'p0', epoch: 1 } };
  const user = { user: 'proven', db: 'admin', password: secret('right'), roles: [] };
  const as = login('userAdmin');
  const made = { kind: 'reconcileUsers', as, roles: [], users: [user], drop: [] } as const;
  expect(await bench.agents.run(ref, made, options)).toMatchObject({ kind: 'done' });
  const wrong = { kind: 'verifyLogin', as: { ...user, password: secret('wrong') } } as const;
  expect(await bench.agents.run(ref, wrong, options)).toMatchObject({
    kind: 'refused',
    class: 'credentials',
  });
});
