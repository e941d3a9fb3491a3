/** What public driver suites ask of a server beyond the obvious. */
import type { Document } from 'bson';
import { Long } from 'bson';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ServerError } from '../contracts.ts';
import { newSession, openTestNode, type TestNode } from './test-node.ts';

let server: TestNode;
beforeEach(() => {
  server = openTestNode();
});
afterEach(() => server.close());

const found = async (command: Document) =>
  (await server.ok('db', command))['cursor'].firstBatch as Document[];
const fill = (collection: string, ...documents: Document[]) =>
  server.ok('db', { insert: collection, documents });

test('a $merge that must not match tells which key was taken', async () => {
  await fill('a', { _id: 1 });
  await fill('o', { _id: 1 });
  const pipeline = [{ $merge: { into: 'o', whenMatched: 'fail' } }];
  expect(await server.run('db', { aggregate: 'a', pipeline, cursor: {} })).toMatchObject({
    code: 11000,
    keyPattern: { _id: 1 },
    keyValue: { _id: 1 },
  });
});

test('an output stage may follow a source of its own', async () => {
  const pipeline = [{ $listLocalSessions: {} }, { $limit: 1 }, { $project: { x: 'y' } }, { $out: 'o' }];
  await server.ok('db', { aggregate: 1, pipeline, cursor: {} });
  expect(await found({ find: 'o' })).toEqual([]);
});

test('the profile is counted by a pipeline too', async () => {
  await server.ok('db', { profile: 2 });
  await fill('a', { _id: 1 });
  const pipeline = [{ $match: { 'command.comment': 'mine' } }, { $count: 'n' }];
  await server.ok('db', { find: 'a', comment: 'mine' });
  await server.ok('db', { aggregate: 'a', pipeline: [{ $match: { a: '$b' } }], cursor: {} });
  expect(await found({ find: 'system.profile', filter: { op: 'command' } })).not.toEqual([]);
  expect(await found({ aggregate: 'system.profile', pipeline, cursor: {} })).toEqual([{ n: 1 }]);
});

test('bounds must name the fields of the index in its order', async () => {
  await server.ok('db', { createIndexes: 'a', indexes: [{ key: { j: 1, k: 1 }, name: 'jk' }] });
  await fill('a', { _id: 1, j: 3, k: 3 }, { _id: 2, j: 2, k: 9 });
  expect(await found({ find: 'a', min: { j: 3, k: 3 }, hint: 'jk' })).toHaveLength(1);
  const swapped = await server.run('db', { find: 'a', min: { k: 3, j: 3 }, hint: 'jk' });
  expect(swapped['code']).toBe(51174);
  expect((await server.run('db', { find: 'a', max: { j: 3 }, hint: 'jk' }))['code']).toBe(51174);
});

test('explain refuses a hint to no index, and uses a partial index only for what it holds', async () => {
  await fill('a', { _id: 1, x: 6, a: 1 });
  const plan = async (filter: Document) =>
    (await server.ok('db', { explain: { find: 'a', filter }, verbosity: 'queryPlanner' }))['queryPlanner']
      .winningPlan;
  const unknown = { explain: { find: 'a', filter: {}, hint: { x: 1 } } };
  expect((await server.run('db', unknown))['code']).toBe(2);
  const partialFilterExpression = { a: { $lte: 1.5 } };
  await server.ok('db', {
    createIndexes: 'a',
    indexes: [{ key: { x: 1 }, name: 'x_1', partialFilterExpression }],
  });
  expect((await plan({ x: 6, a: 1 })).inputStage).toMatchObject({ indexName: 'x_1', isPartial: true });
  expect((await plan({ x: 6, a: { $lte: 1 } })).inputStage).toMatchObject({ indexName: 'x_1' });
  expect(await plan({ x: 6, a: { $lte: 1.6 } })).toMatchObject({ stage: 'COLLSCAN' });
  expect(await plan({ x: 6 })).toMatchObject({ stage: 'COLLSCAN' });
  const hinted = { explain: { find: 'a', filter: { x: 6 }, hint: 'x_1' } };
  expect((await server.ok('db', hinted))['queryPlanner'].winningPlan.inputStage.indexName).toBe('x_1');
});

test('background is remembered but makes no other index', async () => {
  const create = (background: boolean) =>
    server.ok('db', { createIndexes: 'a', indexes: [{ key: { x: 1 }, name: 'x_1', background }] });
  await create(true);
  expect((await found({ listIndexes: 'a' }))[1]).toMatchObject({ name: 'x_1', background: true });
  expect(await create(false)).toMatchObject({ numIndexesAfter: 2, note: 'all indexes already exist' });
});

test('the time-out fail point also meets the getMore of a limited query', async () => {
  await fill('a', ...Array.from({ length: 5 }, (_, _id) => ({ _id })));
  const open = async (limits: Document) =>
    (await server.ok('db', { find: 'a', batchSize: 1, ...limits }))['cursor'].id;
  const [limited, free] = [await open({ maxTimeMS: 1000 }), await open({})];
  await server.ok('admin', { configureFailPoint: 'maxTimeAlwaysTimeOut', mode: 'alwaysOn' });
  expect((await server.run('db', { getMore: limited, collection: 'a' }))['code']).toBe(50);
  await server.ok('db', { getMore: free, collection: 'a' });
});

test('a partial filter must be a filter; full and background validation do not go together', async () => {
  for (const partialFilterExpression of [5, { x: { $nonsense: 3 } }, { $and: 5 }]) {
    const indexes = [{ key: { x: 1 }, name: 'x_1', partialFilterExpression }];
    expect((await server.run('db', { createIndexes: 'a', indexes }))['ok']).toBe(0);
  }
  await fill('a', { _id: 1 });
  await server.ok('db', { validate: 'a', scandata: true, background: true });
  expect((await server.run('db', { validate: 'a', full: true, background: true }))['code']).toBe(72);
});

test('a transaction makes nothing that is there already', async () => {
  await fill('a', { _id: 1 });
  await server.ok('db', { createIndexes: 'a', indexes: [{ key: { x: 1 }, name: 'x_1' }] });
  let number = 0;
  const inside = (command: Document) => {
    number += 1;
    const txnNumber = Long.fromNumber(number);
    return server.run('db', {
      ...command,
      lsid: newSession(),
      txnNumber,
      startTransaction: true,
      autocommit: false,
    });
  };
  expect(await inside({ create: 'a' })).toMatchObject({ code: 48 });
  expect(await server.run('db', { create: 'a' })).toMatchObject({ ok: 1 });
  const index = (name: string) => ({
    createIndexes: 'a',
    indexes: [{ key: { [name]: 1 }, name: `${name}_1` }],
  });
  expect(await inside(index('y'))).toMatchObject({ code: 263 });
  expect(await inside(index('x'))).toMatchObject({ ok: 1 });
});

test('a write whose client is cut off goes on to its end, so that a retry finds all of it done', async () => {
  await server.ok('admin', { configureFailPoint: 'onPrimaryTransactionalWrite', mode: 'alwaysOn' });
  const leaving = new AbortController();
  const insert = {
    insert: 'a',
    documents: [{ _id: 1 }, { _id: 2 }, { _id: 3 }],
    lsid: newSession(),
    txnNumber: Long.ONE,
  };
  const connection = {
    signal: leaving.signal,
    close: () => leaving.abort(new ServerError(279, 'ClientDisconnect', '')),
  };
  await server.run('db', insert, connection);
  expect(leaving.signal.aborted).toBe(true);
  expect(await server.run('db', insert)).toMatchObject({ n: 3, retriedStmtIds: [0, 1, 2] });
});

test('a fail point for one application meets its first hello too', async () => {
  const hello = (name: string) => server.run('db', { find: 'a', client: { application: { name } } });
  await server.ok('admin', {
    configureFailPoint: 'failCommand',
    mode: 'alwaysOn',
    data: { failCommands: ['find'], errorCode: 1234, appName: 'mine' },
  });
  expect((await hello('mine'))['code']).toBe(1234);
  expect((await hello('another'))['code']).not.toBe(1234);
});
