/** A sharded cluster on real processes, from a document that the public operator takes as it is. */

import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { MongoClient } from 'mongodb';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { user } from './support/documents.ts';
import { commandOf, kill, LONG, ROOT, Stack } from './support/stack.ts';
import { MajorityWriter } from './support/writer.ts';

const NAME = 'my-sharded-cluster';
const document = parse(
  readFileSync(path.join(ROOT, 'examples/mongodb-com-sharded-cluster.yaml'), 'utf8'),
) as {
  spec: Record<string, unknown>;
};

let stack: Stack;
let client: MongoClient;

beforeAll(async () => {
  stack = await Stack.start();
  stack.patience = LONG;
  await stack.apply(document);
  await stack.apply(user(NAME));
  await stack.untilReady(NAME);
  await stack.untilPhase(`${NAME}-app`, 'Ready', 'default', 'mongodbusers');
  client = await stack.connect(NAME, `${NAME}-app`);
}, LONG);
afterAll(async () => {
  await client?.close();
  await stack?.stop();
}, LONG);

interface Status {
  readonly connectionString: string;
  readonly members: readonly { name: string; role: string; port: number }[];
  readonly replicaSets: readonly { name: string; role: string; registered?: boolean; primary: string }[];
  readonly balancer: string;
}
const statusOf = async (): Promise<Status> =>
  (await stack.object('mongodb', NAME))?.status as unknown as Status;

test(
  'B1.2 A5.3 A7.4 a mongodb.com/v1 ShardedCluster is Ready: two registered shards, clients are led to the routers',
  async () => {
    const status = await statusOf();
    expect(status.replicaSets.map((s) => [s.name.slice(NAME.length + 1), s.role, s.registered])).toEqual([
      ['cfg', 'config', undefined],
      ['s0', 'shard', true],
      ['s1', 'shard', true],
    ]);
    const routers = status.members.filter((m) => m.role === 'router').map((m) => `localhost:${m.port}`);
    expect(status.connectionString).toBe(`mongodb://${routers.join(',')}/`);
    expect(status.balancer).toBe('on');
    expect((await client.db('admin').command({ hello: 1 }))['msg']).toBe('isdbgrid');
  },
  LONG,
);

test(
  'A5.3 documents land on both shards by their key and are read back whole',
  async () => {
    const admin = await stack.connect(NAME, 'clusterAdmin');
    await admin.db('admin').command({ shardCollection: 'shop.orders', key: { _id: 'hashed' } });
    await admin.close();
    const orders = client
      .db('shop')
      .collection<{ _id: number }>('orders', { writeConcern: { w: 'majority' } });
    await orders.insertMany(Array.from({ length: 200 }, (_, _id) => ({ _id })));
    expect(await orders.countDocuments()).toBe(200);
    const parts = await orders.aggregate([{ $collStats: { count: {} } }]).toArray();
    expect(parts.map((part) => part['shard']).sort()).toEqual([`${NAME}-s0`, `${NAME}-s1`]);
    expect(parts.reduce((sum, part) => sum + part['count'], 0)).toBe(200);
    expect(parts.every((part) => part['count'] > 0)).toBe(true);
  },
  LONG,
);

const mongosh = path.join(
  process.env['BELAY_TOOLS'] ?? path.join(ROOT, '.tools'),
  'node_modules/.bin/mongosh',
);
const noShell = !existsSync(mongosh) && process.env['BELAY_REQUIRE_CLIENTS'] !== '1';

test.skipIf(noShell)(
  `B1.3 mongosh works through the routers${noShell ? ' (skipped: mongosh is not installed)' : ''}`,
  async () => {
    const printed = await stack.belay(['connect', NAME, '--print', '--user', `${NAME}-app`]);
    const script = 'print(db.getSiblingDB("shop").orders.countDocuments(), db.hello().msg)';
    const args = [printed.out.trim(), '--quiet', '--norc', '--eval', script];
    const { stdout } = await promisify(execFile)(mongosh, args, { timeout: 60_000 });
    expect(stdout.trim()).toBe('200 isdbgrid');
  },
  LONG,
);

test(
  'L1 S6 kill -9 of a shard’s primary, of a config server and of a router under a majority writer: it heals, nothing acknowledged is lost',
  async () => {
    const writer = await MajorityWriter.start(await stack.connect(NAME, `${NAME}-app`));
    const { replicaSets, members } = await statusOf();
    const primaryOf = (role: string) => replicaSets.find((s) => s.role === role)?.primary;
    const router = members.find((m) => m.role === 'router')?.name;
    for (const name of [primaryOf('shard'), primaryOf('config'), router]) {
      const port = members.find((m) => m.name === name)?.port;
      const victim = stack.mongods().find((pid) => portOf(pid) === port);
      if (victim === undefined) throw new Error(`no process of ${name}`);
      kill(victim);
      await stack.until(
        () => !stack.mongods().includes(victim) && stack.mongods().length === 11,
        'a new process',
      );
      await stack.untilReady(NAME);
    }
    await writer.proceeds();
    expect((await writer.stop()).lost).toBe(0);
  },
  LONG,
);

/** The port in the configuration a process was started with. */
function portOf(pid: number): number | null {
  const [, file] = /--config (\S+\.conf)/.exec(commandOf(pid).join(' ')) ?? [];
  const text = file === undefined ? '' : readFileSync(file, 'utf8');
  return Number(/port: (\d+)/.exec(text)?.[1] ?? Number.NaN);
}

test(
  'A6.5 S14 a shard is added under a writer and keeps what was written; removing one or changing the type is refused',
  async () => {
    const refused = async (spec: Record<string, unknown>): Promise<string[]> => {
      const problem = await stack.apply({ ...document, spec: { ...document.spec, ...spec } }).then(
        () => null,
        (error: { problems?: readonly { path: string }[] }) => error.problems,
      );
      return (problem ?? []).map((p) => p.path);
    };
    expect(await refused({ shardCount: 1 })).toEqual(['spec.shardCount']);
    expect(await refused({ configServerCount: 1 })).toContain('spec.configServerCount');
    expect(await refused({ mongosCount: 0 })).toContain('spec.mongosCount');
    const writer = await MajorityWriter.start(await stack.connect(NAME, `${NAME}-app`));
    await stack.apply({ ...document, spec: { ...document.spec, shardCount: 3 } });
    await stack.untilReady(NAME);
    expect((await statusOf()).replicaSets.at(-1)).toMatchObject({ name: `${NAME}-s2`, registered: true });
    await writer.proceeds();
    expect((await writer.stop()).lost).toBe(0);
    expect(await client.db('shop').collection('orders').countDocuments()).toBe(200);
  },
  LONG,
);
