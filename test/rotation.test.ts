/** Certificates and passwords change under a client that writes with majority concern all the while; nothing restarts. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { connect } from 'node:tls';
import type { MongoClient } from 'mongodb';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { ApiObject } from '../src/cli/client.ts';
import { statusOf } from '../src/cli/rows.ts';
import { replicaSet, user } from './support/documents.ts';
import { commandOf, LONG, Stack } from './support/stack.ts';
import { MajorityWriter } from './support/writer.ts';

const SYSTEM_USERS = ['backup', 'clusterAdmin', 'clusterMonitor', 'databaseAdmin', 'userAdmin'];
let stack: Stack;
let client: MongoClient;
let writer: MajorityWriter;

beforeAll(async () => {
  stack = await Stack.start();
  await stack.apply(replicaSet('live', { security: { tls: { mode: 'requireTLS' } } }));
  await stack.apply(user('live'));
  await stack.untilReady('live');
  await stack.untilPhase('live-app', 'Ready', 'default', 'mongodbusers');
}, LONG);
afterAll(() => stack?.stop(), LONG);

beforeEach(async () => {
  client = await stack.connect('live', 'live-app');
  writer = await MajorityWriter.start(client);
}, LONG);
afterEach(async () => {
  await writer.proceeds();
  const report = await writer.stop();
  expect([report.lost, report.errors]).toEqual([0, 0]);
}, LONG);

/** Asks for an operation and waits for its end. */
async function operate(type: string): Promise<ApiObject> {
  const name = await stack.operate({ type }, 'live');
  let last: ApiObject | null = null;
  await stack.until(
    async () => {
      last = await stack.object('operations', name);
      return /Succeeded|Failed|Cancelled/.test(stateOf(last));
    },
    () => `${type} ends; last: ${JSON.stringify(last?.status)}`,
  );
  await stack.untilReady('live');
  return last as unknown as ApiObject;
}
const stateOf = (object: ApiObject | null): string =>
  (object?.status as { state?: string } | undefined)?.state ?? '';

/** What a process really presents, by port. */
function presented(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false });
    socket.once('error', reject);
    socket.once('secureConnect', () => {
      resolve(socket.getPeerX509Certificate()?.fingerprint256 ?? 'none');
      socket.destroy();
    });
  });
}
async function certificates(): Promise<readonly string[]> {
  const { members = [] } = await stack.status('live');
  return Promise.all(members.map(({ port }) => presented(port ?? 0)));
}

async function passwordOf(name: string): Promise<string> {
  const { connectionString } = await stack.server.api.request<{ connectionString: string }>(
    'POST',
    '/api/v1/namespaces/default/mongodb/live/connection',
    { body: { user: name } },
  );
  return decodeURIComponent(/:([^:@]+)@/.exec(connectionString)?.[1] ?? '');
}

test(
  'A13.5 A9.4 every member presents another certificate, and no process was restarted for it',
  async () => {
    const [processes, before, primary] = [
      [...stack.mongods()].sort(),
      await certificates(),
      (await stack.status('live')).primary,
    ];
    const ended = await operate('RotateTLS');
    expect([stateOf(ended), statusOf(ended).message]).toEqual([
      'Succeeded',
      '3 members have new certificates',
    ]);
    const after = await certificates();
    expect(after.filter((print) => before.includes(print))).toEqual([]);
    expect(new Set(after).size).toBe(3);
    expect([...stack.mongods()].sort()).toEqual(processes);
    expect((await stack.status('live')).primary).toBe(primary);
    // New connections find them good.
    const again = await stack.connect('live', 'live-app');
    expect(await again.db('live').collection('writes').countDocuments()).toBeGreaterThan(0);
    await again.close();
  },
  LONG,
);

test(
  'A13.4 S8 CRD-11 system users have other passwords, the old ones are refused, agents see their members all the while, and no secret is anywhere in the open',
  async () => {
    const processes = [...stack.mongods()].sort();
    const before = await Promise.all(SYSTEM_USERS.map(passwordOf));
    const blind: string[] = [];
    let watching = true;
    const watch = (async () => {
      while (watching) {
        const { members = [] } = await stack.status('live');
        blind.push(...members.filter((m) => m.health !== 'healthy').map((m) => JSON.stringify(m)));
        await new Promise((resolve) => setTimeout(resolve, 30));
      }
    })();
    const ended = await operate('RotateUsers');
    watching = false;
    await watch;
    expect([stateOf(ended), statusOf(ended).message]).toEqual(['Succeeded', '5 passwords were changed']);
    expect(blind).toEqual([]);
    expect([...stack.mongods()].sort()).toEqual(processes);
    const after = await Promise.all(SYSTEM_USERS.map(passwordOf));
    expect(after.filter((password) => before.includes(password))).toEqual([]);
    for (const [i, name] of SYSTEM_USERS.entries()) {
      const admin = await stack.connect('live', name);
      await admin.db('admin').command({ connectionStatus: 1 });
      await admin.close();
      const old = stack.connect('live', name, {
        auth: { username: name, password: before[i] as string },
        serverSelectionTimeoutMS: 3_000,
      });
      await expect(old, name).rejects.toThrow(/Authentication failed/);
    }
    for (const text of await inTheOpen())
      for (const password of [...before, ...after]) expect(text.includes(password)).toBe(false);
  },
  LONG,
);

/** Logs, arguments, status, journal and events. */
async function inTheOpen(): Promise<readonly string[]> {
  const logs = readdirSync(stack.dir, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.log'))
    .map((name) => readFileSync(path.join(stack.dir, name), 'utf8'));
  const args = stack.mongods().map((pid) => commandOf(pid).join(' '));
  const answers = await Promise.all(
    ['mongodb/live', 'mongodb/live/operations', 'events', 'operations'].map((at) =>
      stack.server.api
        .get<unknown>(`/api/v1/namespaces/default/${at}`)
        .then((answer) => JSON.stringify(answer)),
    ),
  );
  expect(logs.length).toBeGreaterThan(3);
  return [...logs, ...args, ...answers];
}

test(
  'S12 TLS-02 the certificate authority is replaced: everybody trusts both, then everything is the new one’s, then the old one is gone; nothing restarts',
  async () => {
    const processes = [...stack.mongods()].sort();
    const bundle = async (): Promise<string> =>
      (await stack.server.api.get<{ caPem: string }>('/api/v1/ca')).caPem;
    const old = await bundle();
    const introduced = await stack.belay(['rotate', 'ca', '--timeout', '3m']);
    expect([introduced.code, introduced.out], introduced.err).toEqual([
      0,
      expect.stringContaining('--clients-updated'),
    ]);
    const both = await bundle();
    expect(both.startsWith(old)).toBe(true);
    // A client with the old bundle alone still connects; from here on one needs both.
    const early = await stack.connect('live', 'live-app', { ca: old });
    await early.close();
    const updated = await stack.connect('live', 'live-app');
    const done = await stack.belay(['rotate', 'ca', '--clients-updated', '--timeout', '3m']);
    expect([done.code, done.out]).toEqual([
      0,
      expect.stringContaining('one certificate authority is trusted'),
    ]);
    const now = await bundle();
    expect([both.includes(now), now.includes(old.trim())]).toEqual([true, false]);
    expect(await updated.db('live').collection('writes').countDocuments()).toBeGreaterThan(0);
    await updated.close();
    const fresh = await stack.connect('live', 'live-app', { ca: now });
    await fresh.close();
    const late = stack.connect('live', 'live-app', { ca: old, serverSelectionTimeoutMS: 3_000 });
    await expect(late).rejects.toThrow(/certificate/);
    expect([...stack.mongods()].sort()).toEqual(processes);
    // Agents come back with what they have now.
    stack.agents.get('local')?.kill('SIGKILL');
    await stack.startAgent('local');
    await stack.untilReady('live');
  },
  LONG,
);
