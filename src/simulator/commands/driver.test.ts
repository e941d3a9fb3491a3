/** The official driver against the real executable: one member, over a socket. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Db, type Document, MongoClient, MongoServerError } from 'mongodb';
import { afterAll, beforeAll, expect, test } from 'vitest';

const MONGOD = join(import.meta.dirname, '../../../simulator/bin/mongod');

let folder: string;
let mongod: ChildProcess;
let client: MongoClient;
let db: Db;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'belay-commands-'));
  const options = [
    '--port',
    '0',
    '--dbpath',
    folder,
    '--replSet',
    'rs0',
    '--setParameter',
    'enableTestCommands=1',
  ];
  mongod = spawn(MONGOD, options, { stdio: ['ignore', 'pipe', 'inherit'] });
  const host = `127.0.0.1:${await portOf(mongod)}`;
  const direct = await MongoClient.connect(`mongodb://${host}/?directConnection=true`);
  await direct.db('admin').command({ replSetInitiate: { _id: 'rs0', members: [{ _id: 0, host }] } });
  await direct.close();
  client = await MongoClient.connect(`mongodb://${host}/?replicaSet=rs0`);
  db = client.db('driver');
});

afterAll(async () => {
  await client?.close();
  mongod?.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

async function portOf(child: ChildProcess): Promise<number> {
  for await (const line of createInterface({ input: child.stdout! })) {
    const entry = JSON.parse(line) as Document;
    if (entry['id'] !== 23016) continue;
    child.stdout!.resume();
    return entry['attr'].port;
  }
  throw new Error('mongod ended before it listened');
}

const failing = (data: Document, mode: Document = { times: 1 }) =>
  client.db('admin').command({ configureFailPoint: 'failCommand', mode, data });

test('documents, cursors and bulk writes', async () => {
  const c = db.collection<{ _id: number; n?: number }>('crud');
  await c.insertMany(Array.from({ length: 300 }, (_, _id) => ({ _id })));
  expect(await c.find().batchSize(50).toArray()).toHaveLength(300);
  const bulk = await c.bulkWrite([
    { updateMany: { filter: { _id: { $lt: 10 } }, update: { $set: { n: 1 } } } },
    { deleteOne: { filter: { _id: 299 } } },
  ]);
  expect([bulk.modifiedCount, bulk.deletedCount]).toEqual([10, 1]);
  const all = await client.bulkWrite(
    [{ name: 'updateOne', namespace: 'driver.crud', filter: { n: 1 }, update: { $inc: { n: 1 } } }],
    { verboseResults: true },
  );
  expect(all.updateResults?.get(0)?.modifiedCount).toBe(1);
  expect(await c.countDocuments({ n: { $exists: true } })).toBe(10);
});

test('a retryable write is repeated after a closed connection, and done once', async () => {
  const c = db.collection<{ _id: number; n?: number }>('retry');
  await c.insertOne({ _id: 1, n: 0 });
  await client.db('admin').command({ configureFailPoint: 'onPrimaryTransactionalWrite', mode: { times: 1 } });
  await c.updateOne({ _id: 1 }, { $inc: { n: 1 } });
  await failing({ failCommands: ['find'], closeConnection: true });
  expect(await c.findOne()).toEqual({ _id: 1, n: 1 });
});

test('a transaction commits once although its answer got lost', async () => {
  const c = await db.createCollection<{ _id: number }>('transaction');
  await client.withSession(async (session) => {
    session.startTransaction({ readConcern: { level: 'snapshot' }, writeConcern: { w: 'majority' } });
    await c.insertOne({ _id: 1 }, { session });
    expect(await c.countDocuments()).toBe(0);
    await failing({ failCommands: ['commitTransaction'], closeConnection: true });
    await session.commitTransaction();
  });
  expect(await c.find().toArray()).toEqual([{ _id: 1 }]);
});

test('transactions that touch the same document come one after the other', async () => {
  const c = db.collection<{ _id: number; n: number }>('counter');
  await c.insertOne({ _id: 1, n: 0 });
  const add = () =>
    client.withSession((session) =>
      session.withTransaction(async () => {
        const { n } = (await c.findOne({ _id: 1 }, { session }))!;
        await c.updateOne({ _id: 1 }, { $set: { n: n + 1 } }, { session });
      }),
    );
  await Promise.all([add(), add(), add(), add()]);
  expect((await c.findOne())?.n).toBe(4);
});

test('a change stream survives errors it can resume from, and ends with its collection', async () => {
  const c = await db.createCollection<{ _id: number }>('stream');
  const stream = c.watch();
  try {
    const opened = stream.tryNext();
    expect(await opened).toBeNull();
    await c.insertOne({ _id: 1 });
    expect(await stream.next()).toMatchObject({ operationType: 'insert', documentKey: { _id: 1 } });
    await client.db('admin').command({
      configureFailPoint: 'failGetMoreAfterCursorCheckout',
      mode: { times: 1 },
      data: { errorCode: 10107 },
    });
    await c.insertOne({ _id: 2 });
    expect(await stream.next()).toMatchObject({ documentKey: { _id: 2 } });
    await c.drop();
    expect(await stream.next()).toMatchObject({ operationType: 'drop' });
    expect(await stream.next()).toMatchObject({ operationType: 'invalidate' });
  } finally {
    await stream.close();
  }
});

test('a snapshot session reads one point in time', async () => {
  const c = db.collection('snapshot');
  await c.insertOne({});
  const session = client.startSession({ snapshot: true });
  expect(await c.countDocuments({}, { session })).toBe(1);
  await c.insertOne({});
  expect(await c.countDocuments({}, { session })).toBe(1);
  await session.endSession();
  expect(await c.countDocuments()).toBe(2);
});

test('errors reach the driver with code and details', async () => {
  const c = db.collection<{ _id: number; x?: unknown }>('errors');
  await c.insertOne({ _id: 1 });
  await expect(c.insertOne({ _id: 1 })).rejects.toMatchObject({ code: 11000, keyPattern: { _id: 1 } });
  await db.command({ collMod: 'errors', validator: { x: { $type: 'int' } } });
  await expect(c.insertOne({ _id: 2 })).rejects.toMatchObject({
    code: 121,
    errInfo: { failingDocumentId: 2 },
  });
  const slow = c.find({}, { maxTimeMS: 20 });
  await failing({ failCommands: ['find'], blockConnection: true, blockTimeMS: 5_000 });
  const expired = await slow.toArray().catch((error: unknown) => error);
  expect(expired).toBeInstanceOf(MongoServerError);
  expect(expired).toMatchObject({ code: 50, codeName: 'MaxTimeMSExpired' });
});
