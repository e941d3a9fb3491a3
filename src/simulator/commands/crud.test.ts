import { Long } from 'bson';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openTestNode, type TestNode } from './test-node.ts';

let server: TestNode;
beforeEach(() => {
  server = openTestNode();
});
afterEach(() => server.close());

const docs = (...ids: number[]) => ids.map((_id) => ({ _id }));

test('insert gives n, the optime and the election', async () => {
  const reply = await server.ok('db', { insert: 'c', documents: docs(1, 2) });
  expect(reply['n']).toBe(2);
  expect(String(reply['electionId'])).toBe('7fffffff0000000000000001');
  expect(reply['opTime'].ts.t).toBe(1_700_000_000);
});

test('an ordered insert stops at the first duplicate, an unordered one goes on', async () => {
  const ordered = await server.ok('db', { insert: 'c', documents: docs(1, 1, 2) });
  expect(ordered['n']).toBe(1);
  expect(ordered['writeErrors']).toEqual([
    {
      index: 1,
      code: 11000,
      keyPattern: { _id: 1 },
      keyValue: { _id: 1 },
      errmsg: 'E11000 duplicate key error collection: db.c index: _id_ dup key: { _id: 1 }',
    },
  ]);
  const unordered = await server.ok('db', { insert: 'c', documents: docs(1, 5, 5, 6), ordered: false });
  expect(unordered['n']).toBe(2);
  expect(unordered['writeErrors'].map((error: { index: number }) => error.index)).toEqual([0, 2]);
});

test('a find opens a cursor only when more than its batch is there', async () => {
  await server.ok('db', { insert: 'c', documents: docs(1, 2, 3, 4, 5) });
  const first = await server.ok('db', { find: 'c', batchSize: 2, sort: { _id: 1 } });
  expect(first['cursor'].firstBatch).toEqual(docs(1, 2));
  const id = first['cursor'].id as Long;
  const next = await server.ok('db', {
    getMore: Long.fromBigInt(BigInt(id.toString())),
    collection: 'c',
    batchSize: 2,
  });
  expect(next['cursor'].nextBatch).toEqual(docs(3, 4));
  const last = await server.ok('db', { getMore: Long.fromBigInt(BigInt(id.toString())), collection: 'c' });
  expect(last['cursor'].nextBatch).toEqual(docs(5));
  expect(Number(last['cursor'].id)).toBe(0);
  const gone = await server.run('db', { getMore: Long.fromBigInt(BigInt(id.toString())), collection: 'c' });
  expect(gone).toMatchObject({
    ok: 0,
    code: 43,
    codeName: 'CursorNotFound',
    errmsg: `cursor id ${id} not found`,
  });
});

test('a limit that is reached closes the cursor with its batch', async () => {
  await server.ok('db', { insert: 'c', documents: docs(1, 2, 3) });
  const limited = await server.ok('db', { find: 'c', limit: 2, batchSize: 2 });
  expect(Number(limited['cursor'].id)).toBe(0);
  const byId = await server.ok('db', { find: 'c', filter: { _id: 1 }, batchSize: 1 });
  expect(Number(byId['cursor'].id)).toBe(0);
  const exact = await server.ok('db', { find: 'c', batchSize: 3 });
  expect(Number(exact['cursor'].id)).not.toBe(0);
});

test('killCursors tells which cursors there were', async () => {
  await server.ok('db', { insert: 'c', documents: docs(1, 2, 3) });
  const { cursor } = await server.ok('db', { find: 'c', batchSize: 1 });
  const id = Long.fromBigInt(BigInt(cursor.id.toString()));
  const reply = await server.ok('db', { killCursors: 'c', cursors: [id, Long.fromNumber(7)] });
  expect(reply['cursorsKilled'].map(String)).toEqual([id.toString()]);
  expect(reply['cursorsNotFound'].map(String)).toEqual(['7']);
  expect(reply['cursorsAlive']).toEqual([]);
});

test('updates count matches, changes and upserts', async () => {
  await server.ok('db', { insert: 'c', documents: docs(1, 2) });
  const reply = await server.ok('db', {
    update: 'c',
    updates: [
      { q: {}, u: { $set: { a: 1 } }, multi: true },
      { q: { _id: 1 }, u: { $set: { a: 1 } } },
      { q: { _id: 9 }, u: { $set: { a: 2 } }, upsert: true },
    ],
  });
  expect(reply).toMatchObject({ n: 4, nModified: 2, upserted: [{ index: 2, _id: 9 }] });
});

test('a replacement can not be multi, and limits of deletes are 0 or 1', async () => {
  const update = await server.ok('db', { update: 'c', updates: [{ q: {}, u: { a: 1 }, multi: true }] });
  expect(update['writeErrors'][0]).toMatchObject({
    code: 9,
    errmsg: 'multi update is not supported for replacement-style update',
  });
  const remove = await server.run('db', { delete: 'c', deletes: [{ q: {}, limit: 42.13 }] });
  expect(remove).toMatchObject({
    code: 9,
    errmsg: 'The limit field in delete objects must be 0 or 1. Got 42.13',
  });
});

test('argument errors have the codes and words of the server', async () => {
  expect(await server.run('db', { find: 'c', foo: 1 })).toMatchObject({
    code: 40415,
    codeName: 'IDLUnknownField',
    errmsg: "BSON field 'FindCommandRequest.foo' is an unknown field.",
  });
  expect(await server.run('db', { delete: 'c', deletes: [{ limit: 1 }] })).toMatchObject({
    code: 40414,
    errmsg: "BSON field 'delete.deletes.q' is missing but a required field",
  });
  expect(await server.run('db', { find: 'c', filter: 'x' })).toMatchObject({
    code: 14,
    errmsg: "BSON field 'FindCommandRequest.filter' is the wrong type 'string', expected type 'object'",
  });
  expect(await server.run('db', { find: 'c', batchSize: -1 })).toMatchObject({
    code: 51024,
    codeName: 'Location51024',
    errmsg: "BSON field 'batchSize' value must be >= 0, actual value '-1'",
  });
  expect(await server.run('db', { aggregate: 'c', pipeline: [] })).toMatchObject({
    code: 9,
    errmsg: "The 'cursor' option is required, except for aggregate with the explain argument",
  });
  expect(await server.run('db', { find: '.c' })).toMatchObject({ code: 73 });
  expect(await server.run('db', { insert: 'c', documents: [] })).toMatchObject({
    errmsg: 'Write batch sizes must be between 1 and 100000. Got 0 operations.',
  });
});

test('findAndModify gives the document before or after', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1, a: 1 }] });
  const before = await server.ok('db', { findAndModify: 'c', query: { _id: 1 }, update: { $inc: { a: 1 } } });
  expect(before).toMatchObject({ lastErrorObject: { n: 1, updatedExisting: true }, value: { _id: 1, a: 1 } });
  const upsert = await server.ok('db', {
    findAndModify: 'c',
    query: { _id: 2 },
    update: { $set: { a: 5 } },
    upsert: true,
    new: true,
  });
  expect(upsert['lastErrorObject']).toEqual({ n: 1, updatedExisting: false, upserted: 2 });
  expect(upsert['value']).toEqual({ _id: 2, a: 5 });
  const removed = await server.ok('db', { findAndModify: 'c', query: { _id: 2 }, remove: true });
  expect(removed).toMatchObject({ lastErrorObject: { n: 1 }, value: { _id: 2, a: 5 } });
  const none = await server.ok('db', { findAndModify: 'c', query: { _id: 2 }, remove: true });
  expect(none).toMatchObject({ lastErrorObject: { n: 0 }, value: null });
  expect(await server.run('db', { findAndModify: 'c' })).toMatchObject({
    code: 9,
    errmsg: 'Either an update or remove=true must be specified',
  });
});

test('bulkWrite runs over several collections and reports by statement', async () => {
  const reply = await server.ok('admin', {
    bulkWrite: 1,
    ordered: false,
    nsInfo: [{ ns: 'db.a' }, { ns: 'db.b' }],
    ops: [
      { insert: 0, document: { _id: 1 } },
      { insert: 0, document: { _id: 1 } },
      { update: 1, filter: { _id: 7 }, updateMods: { $set: { x: 1 } }, upsert: true },
      { delete: 0, filter: { _id: 1 } },
    ],
  });
  expect(reply).toMatchObject({
    nErrors: 1,
    nInserted: 1,
    nUpserted: 1,
    nMatched: 0,
    nModified: 0,
    nDeleted: 1,
  });
  expect(reply['cursor'].ns).toBe('admin.$cmd.bulkWrite');
  expect(
    reply['cursor'].firstBatch.map((result: { idx: number; ok: number }) => [result.idx, result.ok]),
  ).toEqual([
    [0, 1],
    [1, 0],
    [2, 1],
    [3, 1],
  ]);
  const old = openTestNode('set', '7.0.18-11');
  expect(await old.run('admin', { bulkWrite: 1, nsInfo: [], ops: [] })).toMatchObject({ code: 59 });
  old.close();
});

test('count and distinct', async () => {
  await server.ok('db', { insert: 'c', documents: [{ a: 1 }, { a: 2 }, { a: 2 }] });
  expect(await server.ok('db', { count: 'c' })).toMatchObject({ n: 3 });
  expect(await server.ok('db', { count: 'c', query: { a: 2 }, skip: 1 })).toMatchObject({ n: 1 });
  expect(await server.ok('db', { distinct: 'c', key: 'a' })).toMatchObject({ values: [1, 2] });
});

test('a standalone refuses write concerns it can not keep', async () => {
  const alone = openTestNode('standalone');
  const reply = await alone.run('db', { insert: 'c', documents: docs(1), writeConcern: { w: 2 } });
  expect(reply).toMatchObject({ code: 2, errmsg: "cannot use 'w' > 1 when a host is not replicated" });
  const plain = await alone.ok('db', { insert: 'c', documents: docs(1) });
  expect(plain).toEqual({ n: 1, ok: 1 });
  alone.close();
});
