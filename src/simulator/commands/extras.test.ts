import type { Document } from 'bson';
import { Long } from 'bson';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { newSession, openTestNode, type TestNode } from './test-node.ts';

let server: TestNode;
beforeEach(() => {
  server = openTestNode();
});
afterEach(() => server.close());

const found = async (command: Document) =>
  (await server.ok('db', command))['cursor'].firstBatch as Document[];

test('$out replaces a collection and keeps its indexes', async () => {
  await server.ok('db', { insert: 'a', documents: [{ _id: 1 }, { _id: 2 }] });
  await server.ok('db', { createIndexes: 'o', indexes: [{ key: { x: 1 }, name: 'x_1' }] });
  await server.ok('db', { insert: 'o', documents: [{ _id: 9 }] });
  const reply = await server.ok('db', {
    aggregate: 'a',
    pipeline: [{ $match: { _id: 2 } }, { $out: 'o' }],
    cursor: {},
  });
  expect(reply['cursor'].firstBatch).toEqual([]);
  expect(await found({ find: 'o' })).toEqual([{ _id: 2 }]);
  expect(await found({ listIndexes: 'o' })).toHaveLength(2);
  expect(await found({ listCollections: 1, filter: { name: /^tmp/ } })).toEqual([]);
  const linear = await server.run('db', {
    aggregate: 'a',
    pipeline: [{ $out: 'o' }],
    cursor: {},
    readConcern: { level: 'linearizable' },
  });
  expect(linear['code']).toBe(72);
});

test('$merge joins, keeps, replaces or refuses', async () => {
  await server.ok('db', {
    insert: 'a',
    documents: [
      { _id: 1, n: 1 },
      { _id: 2, n: 2 },
    ],
  });
  await server.ok('db', { insert: 'o', documents: [{ _id: 1, old: true }] });
  const merge = (options: Document) =>
    server.run('db', { aggregate: 'a', pipeline: [{ $merge: { into: 'o', ...options } }], cursor: {} });
  await merge({ whenMatched: 'keepExisting', whenNotMatched: 'discard' });
  expect(await found({ find: 'o' })).toEqual([{ _id: 1, old: true }]);
  await merge({});
  expect(await found({ find: 'o', sort: { _id: 1 } })).toEqual([
    { _id: 1, old: true, n: 1 },
    { _id: 2, n: 2 },
  ]);
  await merge({ whenMatched: 'replace' });
  expect((await found({ find: 'o', sort: { _id: 1 } }))[0]).toEqual({ _id: 1, n: 1 });
  expect(await merge({ whenMatched: 'fail' })).toMatchObject({ code: 11000 });
  expect(await merge({ on: 'n' })).toMatchObject({ code: 51183 });
});

test('snapshot reads see the time they were made at', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }] });
  const first = await server.ok('db', { find: 'c', readConcern: { level: 'snapshot' } });
  const { atClusterTime } = first['cursor'];
  await server.ok('db', { insert: 'c', documents: [{ _id: 2 }] });
  const again = await server.ok('db', { find: 'c', readConcern: { level: 'snapshot', atClusterTime } });
  expect(again['cursor'].firstBatch).toEqual([{ _id: 1 }]);
  const distinct = await server.ok('db', {
    distinct: 'c',
    key: '_id',
    readConcern: { level: 'snapshot', atClusterTime },
  });
  expect(distinct).toMatchObject({ values: [1], atClusterTime });
  expect(
    await server.run('db', { insert: 'c', documents: [{}], readConcern: { level: 'snapshot' } }),
  ).toMatchObject({ code: 72 });
});

test('a linearizable read is confirmed by a no-op', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }] });
  const before = server.data.lastApplied()!.ts;
  await server.ok('db', { find: 'c', readConcern: { level: 'linearizable' } });
  expect(server.data.lastApplied()!.ts.greaterThan(before)).toBe(true);
  server.set.writable = false;
  expect(await server.run('db', { find: 'c', readConcern: { level: 'linearizable' } })).toMatchObject({
    code: 10107,
  });
});

test('a write waits while fsync holds its lock', async () => {
  await server.ok('admin', { fsync: 1, lock: true });
  let done = false;
  const write = server.ok('db', { insert: 'c', documents: [{ _id: 1 }] }).then(() => {
    done = true;
  });
  await server.ok('db', { find: 'c' });
  expect(done).toBe(false);
  await server.ok('admin', { fsyncUnlock: 1 });
  await write;
  expect(await found({ find: 'c' })).toEqual([{ _id: 1 }]);
});

test('onPrimaryTransactionalWrite closes the connection after the write, or fails before it', async () => {
  const lsid = newSession();
  const insert = (id: number) => ({
    insert: 'c',
    documents: [{ _id: id }],
    lsid,
    txnNumber: Long.fromNumber(id),
  });
  await server.ok('admin', { configureFailPoint: 'onPrimaryTransactionalWrite', mode: { times: 1 } });
  await server.run('db', insert(1));
  expect(server.closed).toHaveLength(1);
  await server.ok('admin', {
    configureFailPoint: 'onPrimaryTransactionalWrite',
    mode: { times: 1 },
    data: { closeConnection: false, failBeforeCommitExceptionCode: 91 },
  });
  const refused = await server.run('db', insert(2));
  expect(refused).toMatchObject({ code: 91, errorLabels: ['RetryableWriteError'] });
  expect(await found({ find: 'c' })).toEqual([{ _id: 1 }]);
});

test('failGetMoreAfterCursorCheckout gives resumable errors on change streams', async () => {
  const opened = await server.ok('db', { aggregate: 'c', pipeline: [{ $changeStream: {} }], cursor: {} });
  await server.ok('admin', {
    configureFailPoint: 'failGetMoreAfterCursorCheckout',
    mode: { times: 1 },
    data: { errorCode: 6 },
  });
  const id = Long.fromBigInt(BigInt(opened['cursor'].id.toString()));
  expect(await server.run('db', { getMore: id, collection: 'c' })).toMatchObject({
    code: 6,
    errorLabels: ['ResumableChangeStreamError'],
  });
});

test('an index with duplicates can not become unique', async () => {
  await server.ok('db', { createIndexes: 'c', indexes: [{ key: { x: 1 }, name: 'x_1' }] });
  await server.ok('db', {
    insert: 'c',
    documents: [
      { _id: 1, x: 1 },
      { _id: 2, x: 1 },
      { _id: 3, x: 2 },
    ],
  });
  await server.ok('db', { collMod: 'c', index: { keyPattern: { x: 1 }, prepareUnique: true } });
  const more = await server.ok('db', { insert: 'c', documents: [{ _id: 4, x: 2 }] });
  expect(more['writeErrors'][0].code).toBe(11000);
  const index = { keyPattern: { x: 1 }, unique: true };
  expect(await server.run('db', { collMod: 'c', index })).toMatchObject({
    code: 359,
    codeName: 'CannotConvertIndexToUnique',
    violations: [{ ids: [1, 2] }],
  });
  await server.ok('db', { delete: 'c', deletes: [{ q: { _id: 2 }, limit: 1 }] });
  await server.ok('db', { collMod: 'c', index });
});

test('the profiler writes commands down', async () => {
  await server.ok('db', { profile: 2 });
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }] });
  const entries = await found({ find: 'system.profile', filter: { op: 'insert' } });
  expect(entries).toMatchObject([{ op: 'insert', ns: 'db.c', command: { insert: 'c' } }]);
});

test('ambiguous paths are told apart where expanded events are asked for', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1, a: [{ '1': 1 }] }] });
  const { cursor } = await server.ok('db', {
    aggregate: 'c',
    pipeline: [{ $changeStream: { showExpandedEvents: true } }],
    cursor: {},
  });
  await server.ok('db', { update: 'c', updates: [{ q: { _id: 1 }, u: { $set: { 'a.0.1': 2 } } }] });
  const id = Long.fromBigInt(BigInt(cursor.id.toString()));
  const reply = await server.ok('db', { getMore: id, collection: 'c', maxTimeMS: 1 });
  expect(reply['cursor'].nextBatch[0].updateDescription).toMatchObject({
    updatedFields: { 'a.0.1': 2 },
    disambiguatedPaths: { 'a.0.1': ['a', 0, '1'] },
  });
});

test('stages outside the stable API are refused in strict mode', async () => {
  const reply = await server.run('admin', {
    aggregate: 1,
    pipeline: [{ $listLocalSessions: {} }],
    cursor: {},
    apiVersion: '1',
    apiStrict: true,
  });
  expect(reply).toMatchObject({ code: 323, codeName: 'APIStrictError' });
});

test('statistics stages of a collection', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }] });
  const stats = await found({
    aggregate: 'c',
    pipeline: [{ $collStats: { count: {}, storageStats: {} } }],
    cursor: {},
  });
  expect(stats).toMatchObject([{ ns: 'db.c', count: 1, storageStats: { count: 1, nindexes: 1 } }]);
  const indexes = await found({
    aggregate: 'c',
    pipeline: [{ $indexStats: {} }, { $project: { name: 1 } }],
    cursor: {},
  });
  expect(indexes).toEqual([{ name: '_id_' }]);
});
