import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { MongoClient } from 'mongodb';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../src/server/clock.ts';
import { openStore } from '../src/store/open.ts';
import { replicaSet, user } from './support/documents.ts';
import { insertSurely } from './support/insert.ts';
import { kill, LONG, Stack } from './support/stack.ts';

let stack: Stack;
let client: MongoClient;

beforeAll(async () => {
  stack = await Stack.start();
}, LONG);
afterAll(async () => {
  await client?.close();
  await stack?.stop();
}, LONG);

const MAJORITY = { writeConcern: { w: 'majority' as const }, readConcern: { level: 'majority' as const } };
const items = (): ReturnType<ReturnType<MongoClient['db']>['collection']> =>
  client.db('shop').collection('items', MAJORITY);

async function replicaSetId(): Promise<string> {
  const admin = await stack.connect('orders', 'clusterAdmin');
  try {
    const { config } = await admin.db('admin').command({ replSetGetConfig: 1 });
    return String(config.settings.replicaSetId);
  } finally {
    await admin.close();
  }
}

let setId = '';

test(
  'A4.2 A5.1 A5.2 A7.4 a document becomes a Ready set with TLS and users; the driver writes with majority concern',
  async () => {
    await stack.apply(replicaSet('orders'));
    await stack.apply(user('orders'));
    const ready = await stack.untilReady('orders');
    await stack.untilPhase('orders-app', 'Ready', 'default', 'mongodbusers');
    client = await stack.connect('orders', 'orders-app');
    await items().insertOne({ _id: 1 as never, n: 1 });
    expect(await items().countDocuments()).toBe(1);
    setId = await replicaSetId();
    const status = ready.status as { connectionString: string; members: { health: string }[] };
    expect(status.connectionString).toContain('replicaSet=orders&tls=true');
    expect(status.members.map((m) => m.health)).toEqual(['healthy', 'healthy', 'healthy']);
    const plain = stack.connect('orders', 'orders-app', { tls: false, serverSelectionTimeoutMS: 1500 });
    await expect(plain, 'requireTLS refuses plain connections').rejects.toThrow();
  },
  LONG,
);

test(
  'L1 S6 kill -9 of any mongod heals by itself, with the same set and no acknowledged write lost',
  async () => {
    for (let round = 0; round < 3; round++) {
      const victim = stack.mongods()[round % 3];
      if (victim === undefined) throw new Error('no mongod');
      kill(victim);
      await insertSurely(items(), { _id: (10 + round) as never });
      await stack.until(
        () => stack.mongods().length === 3 && !stack.mongods().includes(victim),
        'a new process',
      );
      await stack.untilReady('orders');
    }
    expect((await items().find().sort({ _id: 1 }).toArray()).map((d) => d._id)).toEqual([1, 10, 11, 12]);
    expect(await replicaSetId()).toBe(setId);
  },
  LONG,
);

test(
  'A2.7 the agent may die: members keep running, and the next agent adopts them without a restart',
  async () => {
    const before = [...stack.mongods()].sort();
    stack.agents.get('local')?.kill('SIGKILL');
    await stack.untilPhase('orders', 'Degraded');
    expect((await stack.status('orders')).members?.map((m) => m.health)).toEqual([
      'unknown',
      'unknown',
      'unknown',
    ]);
    await insertSurely(items(), { _id: 20 as never });
    await stack.startAgent('local');
    await stack.untilReady('orders');
    expect([...stack.mongods()].sort()).toEqual(before);
  },
  LONG,
);

test(
  'A2.7 S10 the control plane may die: databases go on, the next one does nothing twice',
  async () => {
    const before = [...stack.mongods()].sort();
    const journal = async (): Promise<number> =>
      (
        await stack.server.api.get<{ items: unknown[] }>(
          '/api/v1/namespaces/default/mongodb/orders/operations',
        )
      ).items.length;
    const steps = await journal();
    stack.server.process.kill('SIGKILL');
    await insertSurely(items(), { _id: 21 as never });
    stack.server = await stack.startServer('server');
    await stack.untilReady('orders');
    expect([...stack.mongods()].sort()).toEqual(before);
    expect(await journal()).toBe(steps);
  },
  LONG,
);

test(
  'A14.2 delete --keep-volumes and apply again: same data, same credentials, same certificate authority',
  async () => {
    const ca = (await stack.server.api.get<{ caPem: string }>('/api/v1/ca')).caPem;
    await client.close();
    const deleted = await stack.belay(['delete', 'mongodb', 'orders', '--keep-volumes']);
    expect(deleted, deleted.err).toMatchObject({ code: 0 });
    expect((await stack.status('orders')).phase).toBe('Suspended');
    expect(stack.mongods()).toEqual([]);
    await stack.apply(replicaSet('orders'));
    await stack.untilReady('orders');
    client = await stack.connect('orders', 'orders-app');
    expect((await items().find().sort({ _id: 1 }).toArray()).map((d) => d._id)).toEqual([
      1, 10, 11, 12, 20, 21,
    ]);
    expect(await replicaSetId()).toBe(setId);
    expect((await stack.server.api.get<{ caPem: string }>('/api/v1/ca')).caPem).toBe(ca);
  },
  LONG,
);

test(
  'A14.1 A14.3 a full delete leaves no process, nothing on disk and no secret',
  async () => {
    await client.close();
    const object = await stack.object('mongodb', 'orders');
    const refused = await stack.belay(['delete', 'mongodb', 'orders']);
    expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('--yes')]);
    expect(await stack.belay(['delete', 'mongodb', 'orders', '--yes'])).toMatchObject({ code: 0 });
    expect(stack.mongods()).toEqual([]);
    for (const folder of ['services', 'volumes']) {
      const dir = path.join(stack.agentDir(), folder);
      expect(existsSync(dir) ? readdirSync(dir) : []).toEqual([]);
    }
    stack.server.process.kill('SIGKILL');
    const store = await openStore(path.join(stack.dir, 'server', 'belay.db'), { clock: systemClock });
    const rows = await store.listSealed(`clusters/${object?.metadata.uid}/`);
    const state = await store.loadState(object?.metadata.uid ?? '');
    await store.close();
    expect([rows, state]).toEqual([[], null]);
  },
  LONG,
);
