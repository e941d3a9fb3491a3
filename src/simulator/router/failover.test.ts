import type { MongoClient } from 'mongodb';
import { afterEach, expect, test } from 'vitest';
import { MONGOS, type Running, Workshop } from '../process/launch.testing.ts';
import { Cluster, type ClusterOptions, type Member, until } from './cluster.testing.ts';

const LONG = 90_000;
/** An election of one second has long been over then, also on a busy machine. */
const ELECTION = 20_000;
let workshop: Workshop;
let client: MongoClient;
afterEach(async () => {
  await client?.close();
  await workshop.clean();
}, LONG);

async function begin(options: ClusterOptions): Promise<{ cluster: Cluster; router: Running }> {
  workshop = new Workshop();
  const cluster = await Cluster.start(workshop, options);
  const router = await cluster.router();
  client = cluster.client(router);
  await cluster.addShards(client);
  return { cluster, router };
}

/** Writes with majority until told to stop; keeps what was acknowledged. */
function startWriter(collection: string) {
  const acknowledged: number[] = [];
  const failures: unknown[] = [];
  let on = true;
  const target = client
    .db('app')
    .collection<{ _id: number; n?: number }>(collection, { writeConcern: { w: 'majority' } });
  const run = async (): Promise<void> => {
    for (let _id = 0; on; _id += 1) {
      try {
        await target.insertOne({ _id });
        await target.updateOne({ _id }, { $inc: { n: 1 } });
        acknowledged.push(_id);
      } catch (failure) {
        failures.push(failure);
        // Enough to tell of; whatever fails at once would fill the memory until somebody stops it.
        on &&= failures.length < 100;
      }
    }
  };
  const done = run();
  return {
    acknowledged,
    failures,
    stop: async (): Promise<void> => {
      on = false;
      await done;
    },
  };
}

/** Every acknowledged write is there, once. */
async function assertKept(collection: string, acknowledged: readonly number[]): Promise<void> {
  const found = await client.db('app').collection<{ _id: number; n?: number }>(collection).find().toArray();
  const counts = new Map(found.map(({ _id, n }) => [_id, n]));
  expect(found.length).toBe(counts.size);
  for (const _id of acknowledged) expect([_id, counts.get(_id)]).toEqual([_id, 1]);
}

test(
  'A5.3 a shard’s primary is killed under a majority writer: the router follows, nothing acknowledged is lost or done twice',
  async () => {
    const { cluster } = await begin({ shards: [3, 1], select: ELECTION });
    await client.db('admin').command({ shardCollection: 'app.w', key: { _id: 'hashed' } });
    const writer = startWriter('w');
    await until(async () => writer.acknowledged.length > 50);
    const shard = cluster.shards[0]!;
    const was = await shard.primary();
    await shard.members[was]!.kill();
    const at = writer.acknowledged.length;
    await until(async () => writer.acknowledged.length > at + 50);
    await shard.members[was]!.start();
    await until(async () => writer.acknowledged.length > at + 100);
    await writer.stop();
    expect(writer.failures).toEqual([]);
    await assertKept('w', writer.acknowledged);
    expect(await shard.primary()).toBeGreaterThanOrEqual(0);
  },
  LONG,
);

test(
  'A5.3 everything is killed and started again: metadata, documents, users and the balancer’s setting are as before',
  async () => {
    const { cluster, router } = await begin({ shards: [1, 1] });
    await client.db('admin').command({ shardCollection: 'app.kept', key: { k: 1 } });
    await client.db('admin').command({ split: 'app.kept', middle: { k: 5 } });
    await client.db('admin').command({ moveChunk: 'app.kept', find: { k: 7 }, to: 'rs1' });
    const collection = client.db('app').collection<{ _id: number; k: number }>('kept');
    await collection.insertMany(Array.from({ length: 10 }, (_, _id) => ({ _id, k: _id })));
    await client.db('admin').command({ balancerStop: 1 });
    await client.db('admin').command({ createUser: 'u', pwd: 'p', roles: ['readWriteAnyDatabase'] });
    const before = await client.db('config').collection('chunks').find().sort({ _id: 1 }).toArray();
    await client.close();
    const members = [cluster.config, ...cluster.shards].flatMap((set) => set.members);
    await Promise.all([router.stop('SIGKILL'), ...members.map((member) => member.kill())]);
    await Promise.all(members.map((member) => member.start()));
    client = cluster.client(await cluster.router());
    expect(await client.db('config').collection('chunks').find().sort({ _id: 1 }).toArray()).toEqual(before);
    expect(await client.db('admin').command({ balancerStatus: 1 })).toMatchObject({ mode: 'off' });
    expect((await client.db('admin').command({ usersInfo: 1 }))['users']).toMatchObject([{ user: 'u' }]);
    expect((await client.db('app').collection('kept').find().toArray()).length).toBe(10);
    await client.db('app').collection('kept').insertOne({ k: 8 });
    const direct = cluster.shards[1]!.direct();
    expect(await direct.db('app').collection('kept').countDocuments()).toBe(6);
    await direct.close();
  },
  LONG,
);

test(
  'A5.3 without a majority of config servers known data is served, the metadata can’t change, and a new router waits',
  async () => {
    const { cluster } = await begin({ shards: [1], config: 3 });
    const collection = client.db('app').collection<{ _id: number }>('c');
    await collection.insertOne({ _id: 1 });
    const primary = await cluster.config.primary();
    const others = cluster.config.members.filter((_, index) => index !== primary);
    await Promise.all(others.map((member) => member.kill()));
    const direct = cluster.config.direct(primary);
    await until(async () => (await direct.db('admin').command({ hello: 1 }))['isWritablePrimary'] === false);
    await direct.close();
    await collection.insertOne({ _id: 2 });
    expect(await collection.countDocuments()).toBe(2);
    const message = 'Could not find host matching read preference { mode: "primary" } for set cfg';
    for (const command of [{ listShards: 1 }, { balancerStop: 1 }])
      await expect(client.db('admin').command(command)).rejects.toMatchObject({ code: 133, message });
    await expect(client.db('new').collection('c').insertOne({ a: 1 })).rejects.toMatchObject({ code: 133 });
    const waiting = cluster.router();
    let listens = false;
    void waiting.then(() => {
      listens = true;
    });
    expect(await client.db('admin').command({ ping: 1 })).toMatchObject({ ok: 1 });
    expect(listens).toBe(false);
    await others[0]!.start();
    const late = cluster.client(await waiting);
    expect(await late.db('app').collection('c').countDocuments()).toBe(2);
    await late.close();
    expect(await client.db('admin').command({ enableSharding: 'new' })).toMatchObject({ ok: 1 });
  },
  LONG,
);

test(
  'A6.6 ranges move and a shard is drained under a majority writer: nothing acknowledged is lost or done twice',
  async () => {
    const { cluster } = await begin({ shards: [1, 1] });
    const admin = client.db('admin');
    await admin.command({ enableSharding: 'app', primaryShard: 'rs0' });
    await admin.command({ shardCollection: 'app.w', key: { _id: 'hashed' } });
    const writer = startWriter('w');
    for (const [id, to] of [
      [1, 'rs0'],
      [2, 'rs0'],
      [1, 'rs1'],
      [2, 'rs1'],
    ]) {
      const at = writer.acknowledged.length;
      await admin.command({ moveChunk: 'app.w', find: { _id: id }, to });
      await until(async () => writer.acknowledged.length > at + 10);
    }
    const states: unknown[] = [];
    await until(async () => {
      const reply = await admin.command({ removeShard: 'rs1' });
      states.push(reply['state']);
      return reply['state'] === 'completed';
    });
    expect([states[0], states[1], states.at(-1)]).toEqual(['started', 'ongoing', 'completed']);
    await expect(admin.command({ removeShard: 'rs1' })).rejects.toMatchObject({ code: 70 });
    await expect(admin.command({ removeShard: 'rs0' })).rejects.toMatchObject({ code: 20 });
    await writer.stop();
    expect(writer.failures).toEqual([]);
    await assertKept('w', writer.acknowledged);
    const direct = cluster.shards[1]!.direct();
    expect(await direct.db('app').collection('w').countDocuments()).toBe(0);
    await direct.close();
  },
  LONG,
);

test(
  'A6.6 the primary of the config servers, and the donor, are killed while a range moves: then every document has one home',
  async () => {
    const { cluster } = await begin({ shards: [3, 1], config: 3 });
    const admin = client.db('admin');
    await admin.command({ shardCollection: 'app.w', key: { _id: 'hashed' } });
    const collection = client.db('app').collection<{ _id: number }>('w');
    await collection.insertMany(Array.from({ length: 3000 }, (_, _id) => ({ _id })));
    const move = (id: number, to: string): Promise<unknown> =>
      admin.command({ moveChunk: 'app.w', find: { _id: id }, to }).catch((failure: unknown) => failure);
    const moveAndKill = async (to: string, victim: Member): Promise<void> => {
      const watch = cluster.config.direct(await cluster.config.primary());
      await watch.connect();
      const moved = Promise.all([1, 2, 3, 4].map((id) => move(id, to)));
      await until(async () => (await watch.db('config').collection('pendingChanges').countDocuments()) > 0);
      await victim.kill();
      await watch.close();
      await moved;
    };
    const config = cluster.config.members[await cluster.config.primary()]!;
    await moveAndKill('rs1', config);
    await config.start();
    const donor = cluster.shards[0]!.members[await cluster.shards[0]!.primary()]!;
    await moveAndKill('rs0', donor);
    await donor.start();
    await collection.insertOne({ _id: 3000 });
    expect(await collection.countDocuments()).toBe(3001);
    await until(async () => (await client.db('config').collection('pendingChanges').countDocuments()) === 0);
    const chunks = await client.db('config').collection('chunks').find().toArray();
    expect(chunks.length).toBeGreaterThanOrEqual(2);
    let stored = 0;
    for (const shard of cluster.shards) {
      const direct = shard.direct(await shard.primary());
      stored += await direct.db('app').collection('w').countDocuments();
      await direct.close();
    }
    expect(stored).toBe(3001);
  },
  LONG,
);

test(
  'A5.3 a router that is told of a secondary alone finds the primary of the config servers by what that one says',
  async () => {
    const { cluster } = await begin({ shards: [1], config: 3 });
    await client.db('app').collection('w').insertOne({ n: 1 });
    const leads = await cluster.config.primary();
    const other = cluster.config.members.find((_, index) => index !== leads);
    const args = ['--configdb', `${cluster.config.name}/${other?.host}`, '--port', '0', '--nounixsocket'];
    const late = cluster.client(await workshop.start(args, {}, MONGOS));
    expect(await late.db('app').collection('w').countDocuments()).toBe(1);
    await late.close();
  },
  LONG,
);
