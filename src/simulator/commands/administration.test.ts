import type { Document } from 'bson';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createCommandServices } from './index.ts';
import { openTestNode, type TestNode } from './test-node.ts';
import { deleteExpired } from './ttl.ts';

let server: TestNode;
beforeEach(() => {
  server = openTestNode();
});
afterEach(() => server.close());

const names = (reply: Document) => reply['cursor'].firstBatch.map((entry: { name: string }) => entry.name);

test('collections are made, listed, renamed and dropped', async () => {
  await server.ok('db', { create: 'a', capped: true, size: 4096, max: 10 });
  await server.ok('db', { insert: 'b', documents: [{ _id: 1 }] });
  const list = await server.ok('db', { listCollections: 1 });
  expect(list['cursor'].ns).toBe('db.$cmd.listCollections');
  expect(list['cursor'].firstBatch[0]).toMatchObject({
    name: 'a',
    type: 'collection',
    options: { capped: true, size: 4096, max: 10 },
    info: { readOnly: false },
    idIndex: { v: 2, key: { _id: 1 }, name: '_id_' },
  });
  expect(names(await server.ok('db', { listCollections: 1, filter: { name: 'b' }, nameOnly: true }))).toEqual(
    ['b'],
  );
  await server.ok('admin', { renameCollection: 'db.b', to: 'db.c' });
  expect(await server.run('admin', { renameCollection: 'db.b', to: 'db.x' })).toMatchObject({
    code: 26,
    errmsg: 'Source collection db.b does not exist',
  });
  expect(await server.run('admin', { renameCollection: 'db.c', to: 'db.a' })).toMatchObject({
    code: 48,
    errmsg: 'target namespace exists',
  });
  expect(await server.ok('db', { drop: 'c' })).toMatchObject({ nIndexesWas: 1, ns: 'db.c' });
  expect(await server.ok('db', { drop: 'c' })).toEqual({ ok: 1 });
  expect(await server.ok('db', { dropDatabase: 1 })).toEqual({ dropped: 'db', ok: 1 });
  expect(await server.ok('db', { dropDatabase: 1 })).toEqual({ ok: 1 });
});

test('creating again with the same options is fine, with others 48', async () => {
  await server.ok('db', { create: 'a' });
  await server.ok('db', { create: 'a' });
  expect(await server.run('db', { create: 'a', capped: true, size: 4096 })).toMatchObject({ code: 48 });
  expect(await server.run('db', { create: 'b', validationLevel: 'x' })).toMatchObject({
    code: 2,
    errmsg: "Enumeration value 'x' for field 'create.validationLevel' is not a valid value.",
  });
});

test('views read through, and are no collections', async () => {
  await server.ok('db', {
    insert: 'c',
    documents: [
      { _id: 1, a: 1 },
      { _id: 2, a: 2 },
    ],
  });
  await server.ok('db', { create: 'v', viewOn: 'c', pipeline: [{ $match: { a: 2 } }] });
  expect((await server.ok('db', { find: 'v' }))['cursor'].firstBatch).toEqual([{ _id: 2, a: 2 }]);
  expect(await server.ok('db', { count: 'v' })).toMatchObject({ n: 1 });
  expect(await server.run('db', { insert: 'v', documents: [{}] })).toMatchObject({
    writeErrors: [{ code: 166 }],
  });
  expect(names(await server.ok('db', { listCollections: 1 }))).toEqual(['c', 'system.views', 'v']);
});

test('indexes are made, listed and dropped', async () => {
  const made = await server.ok('db', {
    createIndexes: 'c',
    indexes: [{ key: { a: 1 }, name: 'a_1', unique: true }],
  });
  expect(made).toMatchObject({
    numIndexesBefore: 1,
    numIndexesAfter: 2,
    createdCollectionAutomatically: true,
    commitQuorum: 'votingMembers',
  });
  const again = await server.ok('db', {
    createIndexes: 'c',
    indexes: [{ key: { a: 1 }, name: 'a_1', unique: true }],
  });
  expect(again).toMatchObject({ numIndexesAfter: 2, note: 'all indexes already exist' });
  expect(await server.ok('db', { listIndexes: 'c' })).toMatchObject({
    cursor: {
      ns: 'db.c',
      firstBatch: [{ name: '_id_' }, { v: 2, key: { a: 1 }, name: 'a_1', unique: true }],
    },
  });
  expect(await server.run('db', { listIndexes: 'x' })).toMatchObject({
    code: 26,
    errmsg: 'ns does not exist: db.x',
  });
  expect(
    await server.run('db', { createIndexes: 'c', indexes: [{ key: { a: 1 }, name: 'x', foo: 1 }] }),
  ).toMatchObject({ code: 197 });
  expect(await server.ok('db', { dropIndexes: 'c', index: 'a_1' })).toMatchObject({ nIndexesWas: 2 });
  expect(await server.run('db', { dropIndexes: 'c', index: 'a_1' })).toMatchObject({
    code: 27,
    errmsg: 'index not found with name [a_1]',
  });
});

test('search indexes are refused as without Atlas', async () => {
  const reply = await server.run('db', { createSearchIndexes: 'c', indexes: [] });
  expect(reply).toMatchObject({ code: 31082, codeName: 'SearchNotEnabled' });
});

test('databases and their sizes', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }] });
  const list = await server.ok('admin', { listDatabases: 1 });
  expect(list['databases'].map((entry: { name: string }) => entry.name)).toEqual(['db', 'local']);
  expect(await server.ok('admin', { listDatabases: 1, nameOnly: true, filter: { name: /^d/ } })).toEqual({
    databases: [{ name: 'db' }],
    ok: 1,
  });
  expect(await server.ok('db', { dbStats: 1 })).toMatchObject({ db: 'db', objects: 1, indexes: 1 });
  expect(await server.run('db', { dbStats: 1, scale: 0 })).toMatchObject({ code: 51024 });
  expect(await server.ok('db', { collStats: 'c' })).toMatchObject({ ns: 'db.c', count: 1, nindexes: 1 });
  expect(await server.ok('db', { validate: 'c' })).toMatchObject({ ns: 'db.c', nrecords: 1, valid: true });
  expect(await server.run('db', { validate: 'x' })).toMatchObject({
    code: 26,
    errmsg: "Collection 'db.x' does not exist to validate.",
  });
});

test('dbHash tells members with the same data apart from others', async () => {
  const other = openTestNode();
  for (const each of [server, other]) await each.ok('db', { insert: 'c', documents: [{ _id: 1 }] });
  const hash = async (of: TestNode) => (await of.ok('db', { dbHash: 1 }))['md5'];
  expect(await hash(server)).toBe(await hash(other));
  await other.ok('db', { insert: 'c', documents: [{ _id: 2 }] });
  expect(await hash(server)).not.toBe(await hash(other));
  other.close();
});

test('running operations are shown and killed by number', async () => {
  const reply = await server.ok('admin', { currentOp: 1 });
  expect(reply['inprog']).toMatchObject([{ type: 'op', op: 'command', command: { currentOp: 1 } }]);
  expect(await server.ok('admin', { killOp: 1, op: 999 })).toEqual({ info: 'attempting to kill op', ok: 1 });
});

test('fsync counts its locks', async () => {
  expect(await server.ok('admin', { fsync: 1 })).toMatchObject({ numFiles: 1 });
  expect(await server.run('admin', { fsyncUnlock: 1 })).toMatchObject({
    code: 20,
    errmsg: 'fsyncUnlock called when not locked',
  });
  expect(Number((await server.ok('admin', { fsync: 1, lock: true }))['lockCount'])).toBe(1);
  expect(Number((await server.ok('admin', { fsyncUnlock: 1 }))['lockCount'])).toBe(0);
});

test('profile tells what it was', async () => {
  expect(await server.ok('db', { profile: 1, slowms: 5 })).toMatchObject({ was: 0, slowms: 100 });
  expect(await server.ok('db', { profile: -1 })).toMatchObject({ was: 1, slowms: 5 });
});

test('documents go when their time index says so, only on the primary', async () => {
  await server.ok('db', {
    createIndexes: 'c',
    indexes: [{ key: { at: 1 }, name: 'at_1', expireAfterSeconds: 60 }],
  });
  const at = (seconds: number) => new Date(server.now.getTime() - seconds * 1000);
  await server.ok('db', {
    insert: 'c',
    documents: [
      { _id: 1, at: at(120) },
      { _id: 2, at: at(5) },
      { _id: 3, at: 'x' },
    ],
  });
  const services = createCommandServices(server.node);
  server.set.writable = false;
  expect(deleteExpired(server.node, services)).toBe(0);
  server.set.writable = true;
  expect(deleteExpired(server.node, services)).toBe(1);
  expect(await server.ok('db', { count: 'c' })).toMatchObject({ n: 2 });
});

test('idle cursors go after their time, those without limit stay', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1 }, { _id: 2 }] });
  await server.ok('db', { find: 'c', batchSize: 1 });
  await server.ok('db', { find: 'c', batchSize: 1, noCursorTimeout: true });
  const { cursors } = createCommandServices(server.node);
  cursors.expire(server.now.getTime() + 9 * 60_000);
  expect(cursors.list()).toHaveLength(2);
  cursors.expire(server.now.getTime() + 11 * 60_000);
  expect(cursors.list()).toHaveLength(1);
});

test('explain tells a plan', async () => {
  await server.ok('db', { insert: 'c', documents: [{ _id: 1, a: 1 }] });
  await server.ok('db', { createIndexes: 'c', indexes: [{ key: { a: 1 }, name: 'a_1' }] });
  const scan = await server.ok('db', {
    explain: { find: 'c', filter: { b: 1 } },
    verbosity: 'executionStats',
  });
  expect(scan).toMatchObject({
    queryPlanner: { namespace: 'db.c', winningPlan: { stage: 'COLLSCAN' } },
    executionStats: { executionSuccess: true, nReturned: 0, totalDocsExamined: 1 },
  });
  const index = await server.ok('db', {
    explain: { find: 'c', filter: { a: 1 } },
    verbosity: 'queryPlanner',
  });
  expect(index['queryPlanner'].winningPlan).toMatchObject({
    stage: 'FETCH',
    inputStage: { indexName: 'a_1' },
  });
  expect(index['executionStats']).toBeUndefined();
});

test('who may not list everything sees what it may read', async () => {
  await server.ok('mine', { insert: 'c', documents: [{ _id: 1 }] });
  await server.ok('other', { insert: 'c', documents: [{ _id: 1 }] });
  Object.assign(server.node, {
    allows: (_connection: unknown, [wanted]: { resource: { db?: string }; actions: string[] }[]) =>
      wanted?.resource.db === 'mine' && wanted.actions[0] === 'find',
  });
  const list = (options: Document) => server.run('admin', { listDatabases: 1, nameOnly: true, ...options });
  expect(await list({})).toEqual({ databases: [{ name: 'mine' }], ok: 1 });
  expect(await list({ authorizedDatabases: false })).toMatchObject({
    code: 13,
    errmsg: 'Insufficient permissions to list all databases',
  });
  const collections = { listCollections: 1, nameOnly: true, authorizedCollections: true };
  expect(names(await server.ok('mine', collections))).toEqual(['c']);
  expect(names(await server.ok('other', collections))).toEqual([]);
});
