import type { Document } from 'bson';
import { Long } from 'bson';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openTestNode, type TestNode } from './test-node.ts';

let server: TestNode;
beforeEach(() => {
  server = openTestNode();
});
afterEach(() => server.close());

interface Stream {
  readonly next: (maxTimeMS?: number) => Promise<Document[]>;
  readonly reply: () => Document;
}

async function watch(
  target: string | 1,
  options: Document = {},
  stages: Document[] = [],
  db = 'db',
): Promise<Stream> {
  let reply = await server.ok(db, {
    aggregate: target,
    pipeline: [{ $changeStream: options }, ...stages],
    cursor: {},
  });
  let waiting: Document[] = reply['cursor'].firstBatch;
  return {
    reply: () => reply,
    next: async (maxTimeMS = 1) => {
      if (waiting.length > 0) {
        const first = waiting;
        waiting = [];
        return first;
      }
      const id = Long.fromBigInt(BigInt(reply['cursor'].id.toString()));
      const collection = target === 1 ? '$cmd.aggregate' : target;
      reply = await server.ok(db, { getMore: id, collection, maxTimeMS });
      return reply['cursor'].nextBatch;
    },
  };
}

const insert = (...documents: Document[]) => server.ok('db', { insert: 'c', documents });
const types = (events: Document[]) => events.map((event) => event['operationType']);

test('a stream tells inserts, updates, replacements and deletes after its start', async () => {
  await insert({ _id: 0 });
  const stream = await watch('c');
  await insert({ _id: 1, a: 1 });
  await server.ok('db', {
    update: 'c',
    updates: [{ q: { _id: 1 }, u: { $set: { a: 2 }, $unset: { x: 1 } } }],
  });
  await server.ok('db', { update: 'c', updates: [{ q: { _id: 1 }, u: { b: 1 } }] });
  await server.ok('db', { delete: 'c', deletes: [{ q: { _id: 1 }, limit: 1 }] });
  await server.ok('db', { insert: 'other', documents: [{}] });
  const events = await stream.next();
  expect(types(events)).toEqual(['insert', 'update', 'replace', 'delete']);
  expect(events[0]).toMatchObject({
    ns: { db: 'db', coll: 'c' },
    documentKey: { _id: 1 },
    fullDocument: { _id: 1, a: 1 },
  });
  expect(events[1]!['updateDescription']).toEqual({
    updatedFields: { a: 2 },
    removedFields: [],
    truncatedArrays: [],
  });
  expect(events[2]!['fullDocument']).toEqual({ _id: 1, b: 1 });
  expect(events[3]!['documentKey']).toEqual({ _id: 1 });
});

test('a waiting getMore wakes with the event', async () => {
  const stream = await watch('c');
  const waiting = stream.next(20_000);
  await insert({ _id: 1 });
  expect(types(await waiting)).toEqual(['insert']);
});

test('killing a cursor ends its waiting getMore', async () => {
  const { cursor } = await server.ok('db', { aggregate: 'c', pipeline: [{ $changeStream: {} }], cursor: {} });
  const id = Long.fromBigInt(BigInt(cursor.id.toString()));
  const waiting = server.run('db', { getMore: id, collection: 'c', maxTimeMS: 20_000 });
  await server.ok('db', { killCursors: 'c', cursors: [id] });
  expect(await waiting).toMatchObject({ code: 237, codeName: 'CursorKilled' });
});

test('only committed events are told', async () => {
  await insert({ _id: 0 });
  const stream = await watch('c');
  server.set.committed = server.data.lastApplied();
  await insert({ _id: 1 });
  expect(await stream.next()).toEqual([]);
  server.set.committed = 'all';
  expect(types(await stream.next())).toEqual(['insert']);
});

test('a stream resumes after a token and starts at a time', async () => {
  await insert({ _id: 0 });
  const stream = await watch('c');
  await insert({ _id: 1 }, { _id: 2 }, { _id: 3 });
  const [first, second] = await stream.next();
  const resumed = await watch('c', { resumeAfter: first!['_id'] });
  expect((await resumed.next()).map((event) => event['documentKey']['_id'])).toEqual([2, 3]);
  const started = await watch('c', { startAtOperationTime: second!['clusterTime'] });
  expect((await started.next()).map((event) => event['documentKey']['_id'])).toEqual([2, 3]);
  const mark = stream.reply()['cursor'].postBatchResumeToken;
  await insert({ _id: 4 });
  const marked = await watch('c', { startAfter: mark });
  expect((await marked.next()).map((event) => event['documentKey']['_id'])).toEqual([4]);
});

test('tokens order as their events and survive nothing but a token', async () => {
  const stream = await watch('c');
  await insert({ _id: 1 }, { _id: 2 });
  const [first, second] = await stream.next();
  expect(first!['_id']['_data'] < second!['_id']['_data']).toBe(true);
  const run = (options: Document) =>
    server.run('db', { aggregate: 'c', pipeline: [{ $changeStream: options }], cursor: {} });
  expect(await run({ resumeAfter: { _data: 'AB' } })).toMatchObject({
    code: 260,
    codeName: 'InvalidResumeToken',
  });
  expect(await run({ resumeAfter: { x: 1 } })).toMatchObject({ code: 40647 });
  expect(await run({ resumeAfter: first!['_id'], startAfter: first!['_id'] })).toMatchObject({ code: 40674 });
});

test('a drop ends the stream of the collection, and startAfter goes on behind it', async () => {
  const stream = await watch('c');
  await insert({ _id: 1 });
  await server.ok('db', { drop: 'c' });
  const events = await stream.next();
  expect(types(events)).toEqual(['insert', 'drop', 'invalidate']);
  expect(Number(stream.reply()['cursor'].id)).toBe(0);
  const invalidate = events[2]!['_id'];
  const refused = await server.run('db', {
    aggregate: 'c',
    pipeline: [{ $changeStream: { resumeAfter: invalidate } }],
    cursor: {},
  });
  expect(refused['code']).toBe(260);
  const on = await watch('c', { startAfter: invalidate });
  await insert({ _id: 2 });
  expect(types(await on.next())).toEqual(['insert']);
});

test('streams over a database and the cluster', async () => {
  const database = await watch(1);
  const cluster = await watch(1, { allChangesForCluster: true }, [], 'admin');
  await insert({ _id: 1 });
  await server.ok('other', { insert: 'x', documents: [{ _id: 1 }] });
  await server.ok('admin', { renameCollection: 'db.c', to: 'db.d' });
  await server.ok('db', { dropDatabase: 1 });
  expect(types(await database.next())).toEqual(['insert', 'rename', 'drop', 'dropDatabase', 'invalidate']);
  const seen = await cluster.next();
  expect(seen.map((event) => `${event['operationType']} ${event['ns']['db']}`)).toEqual([
    'insert db',
    'insert other',
    'rename db',
    'drop db',
    'dropDatabase db',
  ]);
  expect(seen[2]!['to']).toEqual({ db: 'db', coll: 'd' });
});

test('expanded events tell creations and index builds', async () => {
  const stream = await watch('c', { showExpandedEvents: true });
  await server.ok('db', { create: 'c' });
  await server.ok('db', { createIndexes: 'c', indexes: [{ key: { a: 1 }, name: 'a_1' }] });
  await server.ok('db', { dropIndexes: 'c', index: 'a_1' });
  await server.ok('db', { collMod: 'c', changeStreamPreAndPostImages: { enabled: true } });
  const events = await stream.next();
  expect(types(events)).toEqual(['create', 'createIndexes', 'dropIndexes', 'modify']);
  expect(events[1]!['operationDescription'].indexes).toMatchObject([{ key: { a: 1 }, name: 'a_1' }]);
  expect(events[0]!['collectionUUID']).toBeDefined();
});

test('full documents: looked up, and before and after images where they are kept', async () => {
  await server.ok('db', { create: 'c', changeStreamPreAndPostImages: { enabled: true } });
  await insert({ _id: 1, a: 1 });
  const lookup = await watch('c', { fullDocument: 'updateLookup' });
  const images = await watch('c', { fullDocument: 'required', fullDocumentBeforeChange: 'whenAvailable' });
  await server.ok('db', { update: 'c', updates: [{ q: { _id: 1 }, u: { $set: { a: 2 } } }] });
  await server.ok('db', { update: 'c', updates: [{ q: { _id: 1 }, u: { $set: { a: 3 } } }] });
  expect((await lookup.next())[0]!['fullDocument']).toEqual({ _id: 1, a: 3 });
  const [first] = await images.next();
  expect(first).toMatchObject({ fullDocument: { _id: 1, a: 2 }, fullDocumentBeforeChange: { _id: 1, a: 1 } });
  const without = await watch('d', { fullDocumentBeforeChange: 'required' });
  await server.ok('db', { insert: 'd', documents: [{ _id: 1 }] });
  await server.ok('db', { delete: 'd', deletes: [{ q: {}, limit: 0 }] });
  await expect(without.next()).rejects.toThrow('47');
});

test('events of a transaction come at its commit, with its session', async () => {
  await server.ok('db', { create: 'c' });
  const stream = await watch('c');
  const session = {
    lsid: { id: (await server.ok('admin', { startSession: 1 }))['id'].id },
    txnNumber: Long.ONE,
  };
  const inside = { ...session, autocommit: false };
  await server.ok('db', {
    insert: 'c',
    documents: [{ _id: 1 }, { _id: 2 }],
    ...inside,
    startTransaction: true,
  });
  expect(await stream.next()).toEqual([]);
  await server.ok('admin', { commitTransaction: 1, ...inside });
  const events = await stream.next();
  expect(types(events)).toEqual(['insert', 'insert']);
  expect(Number(events[0]!['txnNumber'])).toBe(1);
  const resumed = await watch('c', { resumeAfter: events[0]!['_id'] });
  expect((await resumed.next()).map((event) => event['documentKey']['_id'])).toEqual([2]);
});

test('where streams can not be', async () => {
  const run = (db: string, command: Document) => server.run(db, { ...command, cursor: {} });
  const pipeline = [{ $changeStream: {} }];
  const alone = openTestNode('standalone');
  expect(await alone.run('db', { aggregate: 'c', pipeline, cursor: {} })).toMatchObject({
    code: 40573,
    errmsg: 'The $changeStream stage is only supported on replica sets',
  });
  alone.close();
  expect(await run('admin', { aggregate: 'c', pipeline })).toMatchObject({ code: 73 });
  expect(await run('db', { aggregate: 'c', pipeline: [...pipeline, { $out: 'x' }] })).toMatchObject({
    code: 20,
  });
  expect(await run('db', { aggregate: 'c', pipeline: [...pipeline, { $foo: 1 }] })).toMatchObject({
    code: 40324,
    errmsg: "Unrecognized pipeline stage name: '$foo'",
  });
  const lost = await run('db', {
    aggregate: 'c',
    pipeline: [{ $changeStream: { startAtOperationTime: (await early())! } }],
  });
  expect(lost).toMatchObject({
    code: 286,
    codeName: 'ChangeStreamHistoryLost',
    errorLabels: ['NonResumableChangeStreamError'],
  });
});

async function early() {
  await insert({ _id: 1 });
  const oldest = server.data.oldestOplog()!.ts;
  return new (oldest.constructor as unknown as new (value: { t: number; i: number }) => typeof oldest)({
    t: oldest.t - 1,
    i: 1,
  });
}

test('a tailable cursor follows a capped collection', async () => {
  await server.ok('db', { create: 'log', capped: true, size: 100_000 });
  await server.ok('db', { insert: 'log', documents: [{ _id: 1 }] });
  const opened = await server.ok('db', { find: 'log', tailable: true, awaitData: true });
  expect(opened['cursor'].firstBatch).toEqual([{ _id: 1 }]);
  const id = Long.fromBigInt(BigInt(opened['cursor'].id.toString()));
  expect(await server.ok('db', { getMore: id, collection: 'log', maxTimeMS: 1 })).toMatchObject({
    cursor: { nextBatch: [] },
  });
  const waiting = server.ok('db', { getMore: id, collection: 'log', maxTimeMS: 20_000 });
  await server.ok('db', { insert: 'log', documents: [{ _id: 2 }] });
  expect((await waiting)['cursor'].nextBatch).toEqual([{ _id: 2 }]);
  const plain = await server.run('db', { insert: 'c', documents: [{}] });
  expect(plain['ok']).toBe(1);
  const refused = await server.run('db', { find: 'c', tailable: true });
  expect(refused['code']).toBe(2);
  expect(refused['errmsg']).toContain('tailable cursor requested on non capped collection');
});
