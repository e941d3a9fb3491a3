/** Certificates and passwords of a sharded cluster: shards, config servers and routers, each one at a time. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { statusOf } from '../src/cli/rows.ts';
import { user } from './support/documents.ts';
import { LONG, Stack } from './support/stack.ts';

let stack: Stack;

beforeAll(async () => {
  stack = await Stack.start();
  stack.patience = LONG;
  await stack.apply({
    apiVersion: 'belay.dev/v1',
    kind: 'MongoDB',
    metadata: { name: 'wide' },
    spec: {
      type: 'ShardedCluster',
      shardCount: 2,
      mongodsPerShardCount: 1,
      configServerCount: 1,
      mongosCount: 1,
      maintenance: { interruption: 'Allowed' },
      security: { tls: { mode: 'requireTLS' } },
    },
  });
  await stack.apply(user('wide'));
  await stack.untilReady('wide');
  await stack.untilPhase('wide-app', 'Ready', 'default', 'mongodbusers');
}, LONG);
afterAll(() => stack?.stop(), LONG);

async function operate(type: string): Promise<string> {
  const name = await stack.operate({ type }, 'wide');
  let last = '';
  await stack.until(
    async () => {
      const object = await stack.object('operations', name);
      const status = (object?.status ?? {}) as { state?: string };
      last = `${status.state}: ${object === null ? '' : statusOf(object).message}`;
      return /^(Succeeded|Failed|Cancelled)/.test(last);
    },
    () => `${type} ends; last: ${last}`,
  );
  await stack.untilReady('wide');
  return last;
}

test(
  'A13.4 A13.5 every process of a sharded cluster takes a new certificate, and every set new passwords; none restarts, and clients go on',
  async () => {
    const client = await stack.connect('wide', 'wide-app');
    const items = client.db('shop').collection<{ _id: number }>('items');
    await items.insertOne({ _id: 1 });
    const processes = [...stack.mongods()].sort();
    expect(await operate('RotateTLS')).toBe('Succeeded: 4 members have new certificates');
    await items.insertOne({ _id: 2 });
    expect(await operate('RotateUsers')).toBe('Succeeded: 5 passwords were changed');
    await items.insertOne({ _id: 3 });
    expect([...stack.mongods()].sort()).toEqual(processes);
    await client.close();
    const admin = await stack.connect('wide', 'clusterAdmin');
    expect((await admin.db('admin').command({ listShards: 1 }))['shards']).toHaveLength(2);
    await admin.close();
  },
  LONG,
);
