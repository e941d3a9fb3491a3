import type { Document } from 'bson';
import { Long } from 'bson';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { newSession, openTestNode, type TestNode } from './test-node.ts';

let server: TestNode;
let lsid: Document;
beforeEach(() => {
  server = openTestNode();
  lsid = newSession();
});
afterEach(() => server.close());

const number = (value: number) => ({ lsid, txnNumber: Long.fromNumber(value) });
const within = (value: number, first = false) => ({
  ...number(value),
  autocommit: false,
  ...(first ? { startTransaction: true } : {}),
});
const all = async (collection = 'c') =>
  (await server.ok('db', { find: collection, sort: { _id: 1 } }))['cursor'].firstBatch as Document[];

// ── retryable writes ───────────────────────────────────────────────────────────────────────────────────────────────

test('a repeated retryable insert is answered from history', async () => {
  const command = { insert: 'c', documents: [{ _id: 1 }, { _id: 2 }], ...number(1) };
  await server.ok('db', command);
  const again = await server.ok('db', command);
  expect(again).toMatchObject({ n: 2, retriedStmtIds: [0, 1] });
  expect(again['writeErrors']).toBeUndefined();
  expect(await all()).toHaveLength(2);
});

test('a repeated increment counts once, an upsert keeps its id', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1, a: 0 }] });
  const increment = { update: 'c', updates: [{ q: { _id: 1 }, u: { $inc: { a: 1 } } }], ...number(1) };
  await server.ok('db', increment);
  expect(await server.ok('db', increment)).toMatchObject({ n: 1, nModified: 1, retriedStmtIds: [0] });
  const upsert = {
    update: 'c',
    updates: [{ q: { x: 1 }, u: { $set: { y: 1 } }, upsert: true }],
    ...number(2),
  };
  const { upserted } = await server.ok('db', upsert);
  const again = await server.ok('db', upsert);
  expect(again['upserted']).toEqual(upserted);
  expect((await all())[0]).toEqual({ _id: 1, a: 1 });
});

test('a repeated findAndModify gives the same document', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1, a: 0 }] });
  const command = {
    findAndModify: 'c',
    query: { _id: 1 },
    update: { $inc: { a: 1 } },
    new: true,
    ...number(1),
  };
  const first = await server.ok('db', command);
  const again = await server.ok('db', command);
  expect(again['value']).toEqual(first['value']);
  expect(again['retriedStmtId']).toBe(0);
  expect(await all()).toEqual([{ _id: 1, a: 1 }]);
});

test('history follows the log, so that another member can answer', async () => {
  const command = { insert: 'c', documents: [{ _id: 1 }], ...number(4) };
  await server.ok('db', command);
  server.set.stepDown('rollback');
  expect(await server.ok('db', command)).toMatchObject({ n: 1, retriedStmtIds: [0] });
});

test('older numbers, multi writes and standalones are refused', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }], ...number(5) });
  const old = await server.run('db', { insert: 'c', documents: [{ _id: 2 }], ...number(4) });
  expect(old).toMatchObject({ code: 225, codeName: 'TransactionTooOld' });
  expect(old['errmsg']).toContain('Retryable write with txnNumber 4 is prohibited on session');
  const multi = await server.run('db', { delete: 'c', deletes: [{ q: {}, limit: 0 }], ...number(6) });
  expect(multi).toMatchObject({
    code: 72,
    errmsg: 'Cannot use (or request) retryable writes with multi=true',
  });
  const bare = await server.run('db', { insert: 'c', documents: [{}], txnNumber: Long.ONE });
  expect(bare).toMatchObject({ code: 72 });
  const alone = openTestNode('standalone');
  expect(await alone.run('db', { insert: 'c', documents: [{}], ...number(1) })).toMatchObject({
    code: 20,
    errmsg: 'Transaction numbers are only allowed on a replica set member or mongos',
  });
  alone.close();
});

// ── transactions ───────────────────────────────────────────────────────────────────────────────────────────────────

test('a transaction is visible to itself at once and to others after its commit', async () => {
  await server.ok('db', { create: 'c' });
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }], ...within(1, true) });
  const inside = await server.ok('db', { find: 'c', ...within(1) });
  expect(inside['cursor'].firstBatch).toEqual([{ _id: 1 }]);
  expect(await all()).toEqual([]);
  await server.ok('admin', { commitTransaction: 1, ...within(1) });
  expect(await all()).toEqual([{ _id: 1 }]);
  await server.ok('admin', { commitTransaction: 1, ...within(1) });
  expect(await server.run('db', { find: 'c', ...within(1) })).toMatchObject({
    code: 256,
    errmsg: 'Transaction with { txnNumber: 1 } has been committed.',
  });
});

test('an aborted transaction leaves nothing', async () => {
  await server.ok('db', { create: 'c' });
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }], ...within(1, true) });
  await server.ok('admin', { abortTransaction: 1, ...within(1) });
  expect(await all()).toEqual([]);
  const commit = await server.run('admin', { commitTransaction: 1, ...within(1) });
  expect(commit).toMatchObject({ code: 251, errorLabels: ['TransientTransactionError'] });
  const abort = await server.run('admin', { abortTransaction: 1, ...within(1) });
  expect(abort['code']).toBe(251);
  expect(abort['errorLabels']).toBeUndefined();
});

test('statements of unknown transactions get 251 with the transient label', async () => {
  const reply = await server.run('db', { find: 'c', ...within(3) });
  expect(reply).toMatchObject({
    code: 251,
    codeName: 'NoSuchTransaction',
    errmsg:
      'Given transaction number 3 does not match any in-progress transactions. The active transaction number is -1',
    errorLabels: ['TransientTransactionError'],
  });
});

test('two transactions on one document conflict; the second one is over', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }] });
  const other = { lsid: newSession(), txnNumber: Long.ONE, autocommit: false };
  const update = { update: 'c', updates: [{ q: { _id: 1 }, u: { $set: { a: 1 } } }] };
  await server.ok('db', { ...update, ...within(1, true) });
  const conflict = await server.run('db', { ...update, ...other, startTransaction: true });
  expect(conflict).toMatchObject({
    code: 112,
    codeName: 'WriteConflict',
    errorLabels: ['TransientTransactionError'],
  });
  expect(await server.run('db', { find: 'c', ...other })).toMatchObject({ code: 251 });
  await server.ok('admin', { commitTransaction: 1, ...within(1) });
});

test('a plain write waits for the transaction that holds its document', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }] });
  await server.ok('db', {
    update: 'c',
    updates: [{ q: { _id: 1 }, u: { $set: { a: 1 } } }],
    ...within(1, true),
  });
  let done = false;
  const write = server
    .ok('db', { update: 'c', updates: [{ q: { _id: 1 }, u: { $set: { b: 1 } } }] })
    .then(() => {
      done = true;
    });
  await server.ok('db', { find: 'c', ...within(1) });
  expect(done).toBe(false);
  await server.ok('admin', { commitTransaction: 1, ...within(1) });
  await write;
  expect(await all()).toEqual([{ _id: 1, a: 1, b: 1 }]);
});

test('an error inside a transaction ends it', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }] });
  const reply = await server.ok('db', { insert: 'c', documents: [{ _id: 1 }], ...within(1, true) });
  expect(reply['writeErrors'][0].code).toBe(11000);
  expect(await server.run('db', { find: 'c', ...within(1) })).toMatchObject({ code: 251 });
});

test('what a transaction can not contain', async () => {
  expect(await server.run('db', { count: 'c', ...within(1, true) })).toMatchObject({
    code: 263,
    errmsg: "Cannot run 'count' in a multi-document transaction.",
  });
  expect(
    await server.run('db', { insert: 'c', documents: [{}], writeConcern: { w: 1 }, ...within(2, true) }),
  ).toMatchObject({ code: 72 });
  const alone = openTestNode('standalone');
  expect(await alone.run('db', { find: 'c', ...within(1, true) })).toMatchObject({ code: 20 });
  alone.close();
});

test('a step-down ends open transactions', async () => {
  await server.ok('db', { create: 'c' });
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }], ...within(1, true) });
  server.set.stepDown();
  expect(await server.run('db', { find: 'c', ...within(1) })).toMatchObject({ code: 251 });
});

test('killAllSessions ends transactions and cursors of sessions', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }, { _id: 2 }] });
  const { cursor } = await server.ok('db', { find: 'c', batchSize: 1, lsid });
  await server.ok('db', { insert: 'c', documents: [{ _id: 3 }], ...within(1, true) });
  await server.ok('admin', { killAllSessions: [] });
  expect(
    await server.run('db', { getMore: Long.fromBigInt(BigInt(cursor.id.toString())), collection: 'c', lsid }),
  ).toMatchObject({ code: 43 });
  expect(await server.run('admin', { commitTransaction: 1, ...within(1) })).toMatchObject({ code: 251 });
});

test('a cursor stays with its session', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }, { _id: 2 }] });
  const { cursor } = await server.ok('db', { find: 'c', batchSize: 1, lsid });
  const id = Long.fromBigInt(BigInt(cursor.id.toString()));
  expect(await server.run('db', { getMore: id, collection: 'c', lsid: newSession() })).toMatchObject({
    code: 50738,
  });
  expect(await server.run('db', { getMore: id, collection: 'c' })).toMatchObject({ code: 50737 });
  expect(await server.run('db', { getMore: id, collection: 'x', lsid })).toMatchObject({ code: 13 });
  await server.ok('db', { getMore: id, collection: 'c', lsid });
});

// ── fail points ────────────────────────────────────────────────────────────────────────────────────────────────────

const failing = (data: Document, mode: unknown = { times: 1 }) =>
  server.ok('admin', { configureFailPoint: 'failCommand', mode, data });

test('failCommand with an error code keeps the command from running', async () => {
  await failing({ failCommands: ['insert'], errorCode: 91 });
  const reply = await server.run('db', { insert: 'c', documents: [{ _id: 1 }], ...number(1) });
  expect(reply).toEqual({
    ok: 0,
    code: 91,
    codeName: 'ShutdownInProgress',
    errmsg: "Failing command via 'failCommand' failpoint",
    errorLabels: ['RetryableWriteError'],
  });
  expect(await all()).toEqual([]);
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }], ...number(1) });
});

test('given labels replace the own ones, even when the list is empty', async () => {
  await failing({ failCommands: ['insert'], errorCode: 91, errorLabels: [] });
  const none = await server.run('db', { insert: 'c', documents: [{}], ...number(1) });
  expect(none['errorLabels']).toBeUndefined();
  await failing({ failCommands: ['insert'], errorCode: 2, errorLabels: ['X'] });
  const given = await server.run('db', { insert: 'c', documents: [{}], ...number(1) });
  expect(given['errorLabels']).toEqual(['X']);
});

test('an injected write concern error comes with the effect', async () => {
  await failing({ failCommands: ['insert'], writeConcernError: { code: 91, errmsg: 'shutting down' } });
  const reply = await server.ok('db', { insert: 'c', documents: [{ _id: 1 }], ...number(1) });
  expect(reply).toMatchObject({
    n: 1,
    writeConcernError: { code: 91, errmsg: 'shutting down' },
    errorLabels: ['RetryableWriteError'],
  });
  expect(await all()).toHaveLength(1);
});

test('times counts matching commands only, skip lets some pass, appName selects', async () => {
  await failing({ failCommands: ['find'], errorCode: 2 }, { times: 2 });
  await server.ok('db', { count: 'c' });
  expect((await server.run('db', { find: 'c' }))['ok']).toBe(0);
  expect((await server.run('db', { find: 'c' }))['ok']).toBe(0);
  await server.ok('db', { find: 'c' });
  await failing({ failCommands: ['find'], errorCode: 2 }, { skip: 1 });
  await server.ok('db', { find: 'c' });
  expect((await server.run('db', { find: 'c' }))['ok']).toBe(0);
  await failing({ failCommands: ['find'], errorCode: 2, appName: 'mine' });
  await server.ok('db', { find: 'c' });
  expect((await server.run('db', { find: 'c' }, { appName: 'mine' }))['ok']).toBe(0);
});

test('closeConnection closes and runs nothing', async () => {
  await failing({ failCommands: ['insert'], closeConnection: true });
  await server.run('db', { insert: 'c', documents: [{ _id: 1 }] });
  expect(server.closed).toHaveLength(1);
  expect(await all()).toEqual([]);
});

test('configureFailPoint needs enableTestCommands and tells how often the point was entered', async () => {
  await failing({ failCommands: ['ping'], errorCode: 2 }, 'alwaysOn');
  const off = await server.ok('admin', { configureFailPoint: 'failCommand', mode: 'off' });
  expect(off['count']).toBe(0);
  Object.assign(server.node, { testCommandsEnabled: false });
  expect(await server.run('admin', { configureFailPoint: 'failCommand', mode: 'off' })).toMatchObject({
    code: 59,
    errmsg: "no such command: 'configureFailPoint'",
  });
});
