import { type Document, EJSON, Long, UUID } from 'bson';
import type { MongoClient } from 'mongodb';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { MONGOS, type Running, Workshop } from '../process/launch.testing.ts';
import { PeerConnection } from '../replication/peer-connection.ts';
import { Cluster, ClusterSet, Member, until } from './cluster.testing.ts';

const workshop = new Workshop();
let cluster: Cluster;
let router: Running;
let client: MongoClient;
const LONG = 60_000;

beforeAll(async () => {
  cluster = await Cluster.start(workshop, { shards: [1, 1] });
  router = await cluster.router();
  client = cluster.client(router);
  await cluster.addShards(client);
  await client.db('admin').command({ enableSharding: 'app', primaryShard: 'rs0' });
}, LONG);
afterAll(async () => {
  await client?.close();
  await workshop.clean();
});

const admin = (command: object) => client.db('admin').command(command);
const coll = (name: string) => client.db('app').collection<{ _id: number; [field: string]: unknown }>(name);

/** Ids of a collection's documents on each shard. */
async function placed(name: string): Promise<number[][]> {
  const lists: number[][] = [];
  for (const shard of cluster.shards) {
    const direct = shard.direct();
    const found = await direct.db('app').collection(name).find().sort({ _id: 1 }).toArray();
    lists.push(found.map(({ _id }) => Number(_id)));
    await direct.close();
  }
  return lists;
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, index) => from + index);

test('a router says what it is', async () => {
  expect(await admin({ hello: 1 })).toMatchObject({
    msg: 'isdbgrid',
    isWritablePrimary: true,
    maxWireVersion: 25,
  });
  const status = await admin({ serverStatus: 1 });
  expect(status['process']).toBe('mongos');
  expect(status['repl']).toBeUndefined();
  expect(status['sharding'].configsvrConnectionString).toBe(cluster.config.url);
  await expect(admin({ replSetGetStatus: 1 })).rejects.toThrow('not supported through mongos');
  await expect(admin({ replSetGetConfig: 1 })).rejects.toMatchObject({ code: 59 });
  await expect(admin({ getParameter: 1, featureCompatibilityVersion: 1 })).rejects.toMatchObject({
    code: 72,
  });
  expect(await admin({ isdbgrid: 1 })).toMatchObject({ isdbgrid: 1 });
  expect((await admin({ getShardMap: 1 }))['map']).toEqual({
    config: cluster.config.url,
    rs0: cluster.shards[0]!.url,
    rs1: cluster.shards[1]!.url,
  });
  expect((await admin({ listShards: 1 }))['shards']).toMatchObject([
    { _id: 'rs0', host: cluster.shards[0]!.url, state: 1 },
    { _id: 'rs1', host: cluster.shards[1]!.url, state: 1 },
  ]);
  await until(async () => (await client.db('config').collection('mongos').countDocuments()) === 1);
});

test('documents land on the shard that owns their key, and are read from there', async () => {
  await admin({ shardCollection: 'app.ranged', key: { _id: 1 } });
  await admin({ split: 'app.ranged', middle: { _id: 50 } });
  await admin({ moveChunk: 'app.ranged', find: { _id: 70 }, to: 'rs1' });
  await coll('ranged').insertMany(range(0, 100).map((_id) => ({ _id, v: _id % 3 })));
  expect(await placed('ranged')).toEqual([range(0, 50), range(50, 100)]);
  expect(await coll('ranged').findOne({ _id: 77 })).toEqual({ _id: 77, v: 2 });
  const chunks = await client.db('config').collection('chunks').find({ 'min._id': 50 }).toArray();
  expect(chunks).toMatchObject([{ shard: 'rs1' }]);
});

test('a hashed collection is spread at once, and moves take the documents along', async () => {
  await admin({ shardCollection: 'app.hashed', key: { _id: 'hashed' } });
  await coll('hashed').insertMany(range(0, 200).map((_id) => ({ _id })));
  const [first, second] = await placed('hashed');
  expect(first!.length).toBeGreaterThan(50);
  expect(second!.length).toBeGreaterThan(50);
  await admin({ moveChunk: 'app.hashed', find: { _id: first![0] }, to: 'rs1' });
  expect(await placed('hashed')).toEqual([[], range(0, 200)]);
  expect(await coll('hashed').countDocuments()).toBe(200);
  expect((await coll('hashed').find().toArray()).length).toBe(200);
});

test('an unsharded collection is on the primary shard of its database until that is moved', async () => {
  await client.db('other').dropDatabase();
  await admin({ enableSharding: 'other', primaryShard: 'rs0' });
  const plain = client.db('other').collection<{ _id: number }>('plain');
  await plain.insertMany([{ _id: 1 }, { _id: 2 }]);
  const counts = async (): Promise<number[]> =>
    Promise.all(
      cluster.shards.map(async (shard) => {
        const direct = shard.direct();
        const count = await direct.db('other').collection('plain').countDocuments();
        await direct.close();
        return count;
      }),
    );
  expect(await counts()).toEqual([2, 0]);
  await admin({ movePrimary: 'other', to: 'rs1' });
  expect(await counts()).toEqual([0, 2]);
  await plain.insertOne({ _id: 3 });
  expect(await plain.find().sort({ _id: -1 }).toArray()).toEqual([{ _id: 3 }, { _id: 2 }, { _id: 1 }]);
  expect(await counts()).toEqual([0, 3]);
});

test('reads over shards: order, limit, skip, projection, batches, count, distinct', async () => {
  const all = coll('ranged');
  const sorted = await all
    .find({}, { sort: { v: -1, _id: 1 }, skip: 30, limit: 5, projection: { v: 1 } })
    .toArray();
  expect(sorted).toEqual([92, 95, 98, 1, 4].map((_id) => ({ _id, v: _id % 3 })));
  const streamed = await all.find({}, { sort: { _id: -1 }, batchSize: 7 }).toArray();
  expect(streamed.map(({ _id }) => _id)).toEqual(range(0, 100).reverse());
  expect((await all.find({}, { batchSize: 3, limit: 20 }).toArray()).length).toBe(20);
  expect((await all.find({}, { sort: { v: 1 }, projection: { _id: 1 }, limit: 1 }).toArray())[0]).toEqual({
    _id: 0,
  });
  expect(await all.countDocuments({ v: 1 })).toBe(33);
  expect(await all.countDocuments({ v: 1 }, { skip: 30, limit: 10 })).toBe(3);
  expect(await all.estimatedDocumentCount()).toBe(100);
  expect(await all.distinct('v', { _id: { $gte: 40 } })).toEqual([0, 1, 2]);
});

test('aggregations: groups over shards, joins with other collections, results written', async () => {
  await coll('names').insertMany(range(0, 3).map((_id) => ({ _id, name: `n${_id}` })));
  const groups = await coll('ranged')
    .aggregate([
      { $match: { _id: { $gte: 10 } } },
      { $group: { _id: '$v', n: { $sum: 1 } } },
      { $lookup: { from: 'names', localField: '_id', foreignField: '_id', as: 'who' } },
      { $sort: { _id: 1 } },
    ])
    .toArray();
  expect(groups.map(({ n, who }) => [n, who[0].name])).toEqual([
    [30, 'n0'],
    [30, 'n1'],
    [30, 'n2'],
  ]);
  await coll('ranged')
    .aggregate([{ $match: { v: 0 } }, { $out: 'copy' }])
    .toArray();
  expect(await coll('copy').countDocuments()).toBe(34);
});

test('views over a sharded collection see the documents of every shard', async () => {
  await client.db('app').createCollection('odd', { viewOn: 'ranged', pipeline: [{ $match: { v: 1 } }] });
  await client
    .db('app')
    .createCollection('late', { viewOn: 'odd', pipeline: [{ $match: { _id: { $gt: 40 } } }] });
  const odd = coll('odd');
  expect(await odd.countDocuments()).toBe(33);
  expect(
    await odd.find({ _id: { $gt: 48 } }, { sort: { _id: 1 }, limit: 2, projection: { v: 0 } }).toArray(),
  ).toEqual([{ _id: 49 }, { _id: 52 }]);
  expect(await coll('late').estimatedDocumentCount()).toBe(19);
  expect(await coll('late').distinct('v')).toEqual([1]);
  await expect(odd.insertOne({ _id: 1 })).rejects.toMatchObject({ code: 166 });
});

test('updates and deletes go where the document is, with or without the key', async () => {
  const all = coll('ranged');
  expect(await all.updateOne({ _id: 60 }, { $set: { w: 1 } })).toMatchObject({ matchedCount: 1 });
  expect(await all.updateMany({ v: 2 }, { $set: { w: 2 } })).toMatchObject({ modifiedCount: 33 });
  expect(await all.updateOne({ v: 2, _id: { $gt: 90 } }, { $set: { w: 3 } })).toMatchObject({
    modifiedCount: 1,
  });
  const update = { $set: { w: 4 } };
  expect(await all.findOneAndUpdate({ w: 3 }, update, { returnDocument: 'after' })).toMatchObject({ w: 4 });
  expect(await all.findOneAndDelete({}, { sort: { _id: -1 } })).toMatchObject({ _id: 99 });
  expect(await all.updateOne({ _id: 500 }, { $set: { new: true } }, { upsert: true })).toMatchObject({
    upsertedCount: 1,
    upsertedId: 500,
  });
  await expect(all.updateOne({ v: 1 }, { $set: { _id: 3 } })).rejects.toThrow();
  expect(await all.deleteMany({ _id: { $gte: 98 } })).toMatchObject({ deletedCount: 2 });
  expect(await all.deleteOne({ v: 1, _id: { $lt: 3 } })).toMatchObject({ deletedCount: 1 });
  expect(await all.countDocuments()).toBe(97);
  expect((await placed('ranged')).map((list) => list.length)).toEqual([49, 48]);
});

test('bulk writes keep their order and report each failure in its place', async () => {
  const all = coll('bulk');
  await admin({ shardCollection: 'app.bulk', key: { _id: 'hashed' } });
  await all.insertMany(range(0, 20).map((_id) => ({ _id })));
  const unordered = await all
    .insertMany(
      range(15, 30).map((_id) => ({ _id })),
      { ordered: false },
    )
    .catch((failure: { writeErrors: { index: number }[]; insertedCount: number }) => failure);
  expect(unordered).toMatchObject({ insertedCount: 10 });
  expect((unordered as { writeErrors: { index: number }[] }).writeErrors.map(({ index }) => index)).toEqual([
    0, 1, 2, 3, 4,
  ]);
  const ordered = await all
    .bulkWrite([
      { insertOne: { document: { _id: 100 } } },
      { updateOne: { filter: { _id: 100 }, update: { $set: { a: 1 } } } },
      { insertOne: { document: { _id: 3 } } },
      { deleteOne: { filter: { _id: 100 } } },
    ])
    .catch((failure: { result: { insertedCount: number; modifiedCount: number } }) => failure);
  expect(ordered).toMatchObject({ insertedCount: 1, modifiedCount: 1, code: 11000 });
  expect(await all.findOne({ _id: 100 })).toEqual({ _id: 100, a: 1 });
  const many = await client.bulkWrite<Record<string, { _id: number; [field: string]: unknown }>>([
    { name: 'insertOne', namespace: 'app.bulk', document: { _id: 200 } },
    { name: 'updateMany', namespace: 'app.bulk', filter: {}, update: { $set: { z: 1 } } },
    { name: 'deleteOne', namespace: 'app.bulk', filter: { _id: 200 } },
  ]);
  expect(many).toMatchObject({ insertedCount: 1, modifiedCount: 32, deletedCount: 1 });
});

test('indexes, listings and drops reach every shard', async () => {
  const all = coll('indexed');
  await admin({ shardCollection: 'app.indexed', key: { _id: 'hashed' } });
  await all.createIndex({ u: 1 });
  expect((await all.indexes()).map(({ name }) => name)).toEqual(['_id_', '_id_hashed', 'u_1']);
  for (const shard of cluster.shards) {
    const direct = shard.direct();
    expect((await direct.db('app').collection('indexed').indexes()).length).toBe(3);
    await direct.close();
  }
  await all.insertMany(range(0, 20).map((_id) => ({ _id })));
  await all.drop();
  expect(await placed('indexed')).toEqual([[], []]);
  expect(
    await client
      .db('config')
      .collection('collections')
      .countDocuments({ _id: 'app.indexed' as never }),
  ).toBe(0);
  await all.insertOne({ _id: 1 });
  expect(await placed('indexed')).toEqual([[1], []]);
  const names = (await client.db('app').listCollections({}, { nameOnly: true }).toArray()).map(
    ({ name }) => name,
  );
  expect(names).toContain('ranged');
  expect((await admin({ listDatabases: 1, nameOnly: true }))['databases']).toEqual(
    expect.arrayContaining([{ name: 'admin' }, { name: 'app' }, { name: 'config' }, { name: 'other' }]),
  );
  expect(await client.db('app').command({ collStats: 'ranged' })).toMatchObject({ sharded: true, count: 97 });
  const stats = await coll('ranged')
    .aggregate([{ $collStats: { storageStats: {} } }, { $sort: { shard: 1 } }])
    .toArray();
  expect(stats.map(({ shard }) => shard)).toEqual(['rs0', 'rs1']);
});

test('shardCollection: the same key again is fine, another is not, data needs an index', async () => {
  expect(await admin({ shardCollection: 'app.ranged', key: { _id: 1 } })).toMatchObject({
    collectionsharded: 'app.ranged',
  });
  await expect(admin({ shardCollection: 'app.ranged', key: { v: 1 } })).rejects.toMatchObject({ code: 23 });
  await coll('filled').insertOne({ _id: 1, k: 1 });
  await expect(admin({ shardCollection: 'app.filled', key: { k: 1 } })).rejects.toMatchObject({ code: 72 });
  expect(await coll('filled').countDocuments()).toBe(1);
  await coll('filled').createIndex({ k: 1 });
  await admin({ shardCollection: 'app.filled', key: { k: 1 } });
  expect(await coll('filled').findOne({ k: 1 })).toEqual({ _id: 1, k: 1 });
});

test('transactions on one shard; writes on a second are refused and leave nothing', async () => {
  const session = client.startSession();
  await session.withTransaction(async () => {
    await coll('ranged').updateOne({ _id: 10 }, { $set: { t: 1 } }, { session });
    await coll('ranged').updateOne({ _id: 11 }, { $set: { t: 1 } }, { session });
    expect(await coll('ranged').countDocuments({ t: 1 }, { session })).toBe(2);
  });
  expect(await coll('ranged').countDocuments({ t: 1 })).toBe(2);
  session.startTransaction();
  await coll('ranged').updateOne({ _id: 12 }, { $set: { t: 2 } }, { session });
  await expect(coll('ranged').updateOne({ _id: 80 }, { $set: { t: 2 } }, { session })).rejects.toMatchObject({
    code: 263,
  });
  await session.abortTransaction().catch(() => undefined);
  expect(await coll('ranged').countDocuments({ t: 2 })).toBe(0);
  await session.endSession();
});

test('a repeated write is known also where its document went since', async () => {
  await admin({ shardCollection: 'app.moved', key: { _id: 1 } });
  await coll('moved').insertMany([
    { _id: 1, n: 0 },
    { _id: 2, n: 0 },
  ]);
  const lsid = { id: new UUID() };
  // The driver numbers commands by itself; here the same number is needed twice.
  const raw = await PeerConnection.open({
    host: `127.0.0.1:${router.port}`,
    tls: null,
    login: { kind: 'none' },
    timeout: LONG,
  });
  const numbered = async (number: number, command: object) => {
    const reply = await raw.call('app', { ...command, lsid, txnNumber: Long.fromNumber(number) }, LONG);
    return EJSON.parse(EJSON.stringify(reply)) as Document;
  };
  const update = { update: 'moved', updates: [{ q: { _id: 1 }, u: { $inc: { n: 1 } } }] };
  const modify = { findAndModify: 'moved', query: { _id: 2 }, update: { $inc: { n: 1 } }, new: true };
  expect(await numbered(1, update)).toMatchObject({ n: 1, nModified: 1 });
  await admin({ moveChunk: 'app.moved', find: { _id: 1 }, to: 'rs1' });
  expect(await numbered(1, update)).toMatchObject({ n: 1, nModified: 1, retriedStmtIds: [0] });
  expect(await numbered(2, modify)).toMatchObject({ value: { n: 1 } });
  await admin({ moveChunk: 'app.moved', find: { _id: 1 }, to: 'rs0' });
  expect(await numbered(2, modify)).toMatchObject({ value: { n: 1 } });
  expect(
    await coll('moved')
      .find({}, { sort: { _id: 1 } })
      .toArray(),
  ).toEqual([
    { _id: 1, n: 1 },
    { _id: 2, n: 1 },
  ]);
});

test(
  'addShard says why a set can’t come in',
  async () => {
    const [first] = cluster.shards;
    expect(await admin({ addShard: first!.url })).toMatchObject({ shardAdded: 'rs0' });
    await expect(admin({ addShard: first!.url, name: 'x' })).rejects.toMatchObject({ code: 20 });
    await expect(admin({ addShard: 'rs9/127.0.0.1:1' })).rejects.toMatchObject({ code: 133 });
    await expect(admin({ addShard: `rs9/${first!.members[0]!.host}` })).rejects.toThrow(
      'actual set name rs0',
    );
    await expect(admin({ addShard: first!.members[0]!.host })).rejects.toThrow('use replica set url format');
    await expect(admin({ addShard: `x/127.0.0.1:${router.port}` })).rejects.toThrow('cannot add a mongos');
    await expect(admin({ addShard: cluster.config.url })).rejects.toThrow('config server');
  },
  LONG,
);

test(
  'a set with a database of a known name, or with binaries too old for the cluster, does not come in',
  async () => {
    const alone = async (name: string, env: NodeJS.ProcessEnv = {}): Promise<ClusterSet> => {
      const member = new Member(workshop, ['--replSet', name, '--shardsvr'], env);
      await member.start();
      const set = new ClusterSet(name, [member], {});
      await set.initiate(false);
      return set;
    };
    const full = await alone('rs7');
    const direct = full.direct();
    await direct.db('app').collection('c').insertOne({});
    await direct.close();
    await expect(admin({ addShard: full.url })).rejects.toThrow(
      "a local database 'app' exists in another rs0",
    );
    const old = await alone('rs8', { BELAY_SIM_VERSION: '6.0.29-23' });
    await expect(admin({ addShard: old.url })).rejects.toMatchObject({ code: 188 });
    expect((await admin({ listShards: 1 }))['shards'].length).toBe(2);
    for (const set of [full, old]) await set.members[0]!.kill();
  },
  LONG,
);

test('a collection is renamed on its shard, not to another one', async () => {
  await admin({ enableSharding: 'far', primaryShard: 'rs1' });
  await coll('named').insertOne({ _id: 1 });
  await expect(admin({ renameCollection: 'app.named', to: 'far.named' })).rejects.toMatchObject({
    code: 125,
  });
  await admin({ renameCollection: 'app.named', to: 'app.renamed' });
  expect(await coll('renamed').countDocuments()).toBe(1);
});

test('the balancer switches the AutoMerger along, which can be switched alone', async () => {
  const settings = client.db('config').collection<{ _id: string; enabled?: boolean }>('settings');
  const automerge = { _id: 'automerge' };
  const merges = async () => (await settings.findOne(automerge))?.enabled;
  await admin({ balancerStop: 1 });
  expect(await merges()).toBe(false);
  await admin({ balancerStart: 1 });
  expect(await merges()).toBe(true);
  await settings.updateOne(automerge, { $set: { enabled: false } }, { upsert: true });
  expect(await merges()).toBe(false);
  expect(await admin({ balancerStatus: 1 })).toMatchObject({ mode: 'full' });
});

test('the balancer can be stopped and started, and says so', async () => {
  expect(await admin({ balancerStatus: 1 })).toMatchObject({ mode: 'full' });
  await admin({ balancerStop: 1 });
  expect(await admin({ balancerStatus: 1 })).toMatchObject({ mode: 'off', inBalancerRound: false });
  expect(
    await client
      .db('config')
      .collection('settings')
      .findOne({ _id: 'balancer' as never }),
  ).toMatchObject({ stopped: true });
  await admin({ balancerStart: 1 });
  expect(await admin({ balancerStatus: 1 })).toMatchObject({ mode: 'full' });
  expect(await admin({ balancerCollectionStatus: 'app.ranged' })).toMatchObject({
    balancerCompliant: true,
    chunkSize: 128,
  });
});

test('mongos refuses what it can’t start with', async () => {
  expect(await workshop.run([], {}, MONGOS)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no args for --configdb'),
  });
  expect(await workshop.run(['--configdb', 'h:1'], {}, MONGOS)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('only replica set connection string'),
  });
  expect(await workshop.run(['--configdb', 'c/h:1', '--dbpath', '/x'], {}, MONGOS)).toMatchObject({
    code: 2,
  });
  expect((await workshop.run(['--version'], {}, MONGOS)).stdout).toMatch(/^mongos version v8\.0/);
  const shard = cluster.shards[0]!.url;
  const ended = await workshop.run(['--configdb', shard, '--port', '0', '--nounixsocket'], {}, MONGOS);
  expect(ended.code).toBe(5);
  expect(ended.stdout).toContain('not a set of config servers');
});

test('only routers know commands about the cluster, only servers those about sets', async () => {
  const direct = cluster.shards[0]!.direct();
  await expect(direct.db('admin').command({ enableSharding: 'x' })).rejects.toThrow(
    'Are you connected to mongos?',
  );
  await direct.close();
});
