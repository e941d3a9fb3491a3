/** Changes of a running set under a client that writes with majority concern all the while. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import type { MongoClient } from 'mongodb';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { replicaSet, user } from './support/documents.ts';
import { LONG, Stack } from './support/stack.ts';
import { MajorityWriter } from './support/writer.ts';

let stack: Stack;
let client: MongoClient;
let writer: MajorityWriter;
const OLD = '7.0.43-23';
const NEW = '8.0.32-14';
const spec: Record<string, unknown> = { version: OLD, security: { tls: { mode: 'requireTLS' } } };

beforeAll(async () => {
  stack = await Stack.start({ agents: [] });
  await stack.startAgent('local', { binDir: stack.builds([OLD, NEW]) });
  await stack.apply(replicaSet('live', spec));
  await stack.apply(user('live'));
  await stack.untilReady('live');
  await stack.untilPhase('live-app', 'Ready', 'default', 'mongodbusers');
}, LONG);
afterAll(async () => {
  await client?.close();
  await stack?.stop();
}, LONG);

/** Applies a change while a writer runs; gives the writer's report. */
async function change(fields: Readonly<Record<string, unknown>>): Promise<void> {
  Object.assign(spec, fields);
  await stack.apply(replicaSet('live', spec));
  await stack.untilReady('live');
}

/** Whatever the test did: the set takes writes again, and every one that was acknowledged is there. */
afterEach(async () => {
  await writer.proceeds();
  const report = await writer.stop();
  expect(report.lost).toBe(0);
}, LONG);

async function write(): Promise<void> {
  client = await stack.connect('live', 'live-app');
  writer = await MajorityWriter.start(client);
}

/** Members that were given a configuration, in order. */
async function reloads(): Promise<readonly string[]> {
  const { items } = await stack.server.api.get<{
    items: { step: string; target: string; outcome: { kind: string } | null }[];
  }>('/api/v1/namespaces/default/mongodb/live/operations', { limit: '1000' });
  return items.filter((i) => i.step === 'reload' && i.outcome?.kind === 'done').map((i) => i.target);
}

test(
  'A9.1 A8.2 S1 S3 a changed configuration rolls over the set; nothing acknowledged is lost',
  async () => {
    await write();
    const before = [...stack.mongods()].sort();
    await change({ additionalMongodConfig: { operationProfiling: { slowOpThresholdMs: 250 } } });
    expect(stack.mongods().filter((pid) => before.includes(pid))).toEqual([]);
    const admin = await stack.connect('live', 'clusterAdmin');
    const options = await admin.db('admin').command({ getCmdLineOpts: 1 });
    await admin.close();
    expect(options['parsed'].operationProfiling.slowOpThresholdMs).toBe(250);
  },
  LONG,
);

test(
  'A8.1 A8.4 7.0 → 8.0 by the binary really running; FCV stays',
  async () => {
    await write();
    await change({ version: NEW });
    const admin = await stack.connect('live', 'clusterAdmin');
    const info = await admin.db('admin').command({ buildInfo: 1 });
    const fcv = await admin.db('admin').command({ getParameter: 1, featureCompatibilityVersion: 1 });
    await admin.close();
    expect([info['psmdbVersion'] ?? info['version'], fcv['featureCompatibilityVersion'].version]).toEqual([
      NEW,
      '7.0',
    ]);
  },
  LONG,
);

test(
  'A9.3 S12 TLS off, phase by phase, and on again',
  async () => {
    const phases = async (mode: string): Promise<readonly number[]> => {
      const before = (await reloads()).length;
      await change({ security: { tls: { mode } } });
      const members = (await reloads()).slice(before);
      // Every three in a row are three different members: nobody enters a mode before all have left the one before.
      return [0, 3, 6].map((at) => new Set(members.slice(at, at + 3)).size).concat(members.length);
    };
    expect(await phases('disabled')).toEqual([3, 3, 3, 9]);
    const plain = await stack.connect('live', 'live-app');
    expect(await plain.db('live').collection('writes').countDocuments()).toBeGreaterThan(0);
    await plain.close();
    expect(await phases('requireTLS')).toEqual([3, 3, 3, 9]);
    await write();
  },
  LONG,
);

test(
  'STK-04 a configuration that cannot work stops at the first member, says why, and heals when it is taken back',
  async () => {
    await write();
    const good = spec['additionalMongodConfig'];
    Object.assign(spec, { additionalMongodConfig: { setParameter: { noSuchParameter: 1 } } });
    await stack.apply(replicaSet('live', spec));
    await stack.until(
      async () =>
        (await stack.status('live')).conditions?.some(
          (c) => c.type === 'Blocked' && c.status === 'True' && /noSuchParameter/.test(c.message),
        ) ?? false,
      () => 'the reason is shown',
    );
    expect((await stack.status('live')).phase).toBe('Degraded');
    expect(stack.mongods().length).toBe(2);
    await change({ additionalMongodConfig: good });
    expect(stack.mongods().length).toBe(3);
  },
  LONG,
);

test(
  'A6.3 A6.4 S5 3 → 5 → 3: new members vote when they have caught up; removed ones leave nothing',
  async () => {
    await write();
    await change({ members: 5 });
    expect(stack.mongods().length).toBe(5);
    const admin = await stack.connect('live', 'clusterAdmin');
    const votes = async (): Promise<unknown> => {
      const { config } = await admin.db('admin').command({ replSetGetConfig: 1 });
      return config.members.map((m: { votes: number; priority: number }) => [m.votes, m.priority]);
    };
    expect(await votes()).toEqual(Array.from({ length: 5 }, () => [1, 1]));
    await change({ members: 3 });
    expect(await votes()).toEqual(Array.from({ length: 3 }, () => [1, 1]));
    await admin.close();
    await stack.until(() => stack.mongods().length === 3, 'three processes');
    expect(readdirSync(path.join(stack.agentDir(), 'volumes')).length).toBe(3);
  },
  LONG,
);
