import { type Document, Double, Int32, Long, ObjectId, Timestamp } from 'bson';
import { expect, test } from 'vitest';
import type { CommandSpec, Connection, Privilege, Replication } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { type Authorizer, Dispatcher, newMetrics } from './dispatcher.ts';
import { fakeConnection, fakeNode } from './fake-node.testing.ts';
import { NO_HOOKS } from './hooks.ts';

const open: Authorizer = { enabled: false, isLoggedIn: () => false, allows: () => true };

function dispatcherWith(
  specs: readonly Partial<CommandSpec>[],
  options: { authorizer?: Authorizer; version?: string; replication?: Replication } = {},
): Dispatcher {
  const node = fakeNode({
    ...(options.version === undefined ? {} : { version: options.version }),
    ...(options.replication === undefined ? {} : { replication: options.replication }),
  });
  const dispatcher = new Dispatcher({
    node,
    authorizer: options.authorizer ?? open,
    metrics: newMetrics(),
    hooks: NO_HOOKS,
  });
  dispatcher.register(
    specs.map(
      (spec) => ({ name: 'x', auth: 'none', access: 'any', run: () => ({}), ...spec }) as CommandSpec,
    ),
  );
  return dispatcher;
}

const run = (
  dispatcher: Dispatcher,
  command: Document,
  connection: Connection = fakeConnection(),
): Promise<Document> =>
  dispatcher.run(
    connection,
    { ...command, ...(command['$db'] === null ? {} : { $db: command['$db'] ?? 'test' }) },
    'msg',
  );

test('an unknown command is 59, with a hint for those of mongos', async () => {
  const dispatcher = dispatcherWith([]);
  expect(await run(dispatcher, { nope: 1 })).toMatchObject({
    code: 59,
    codeName: 'CommandNotFound',
    errmsg: "no such command: 'nope'",
  });
  expect((await run(dispatcher, { enableSharding: 1 }))['errmsg']).toBe(
    "no such command: 'enableSharding'. Are you connected to mongos?",
  );
});

test('ok is a double, as the server sends it', async () => {
  const reply = await run(dispatcherWith([{}]), { x: 1 });
  expect(reply['ok']).toEqual(new Double(1));
});

test('OP_QUERY serves only the old handshake', async () => {
  const dispatcher = dispatcherWith([{ name: 'find' }]);
  const reply = await dispatcher.run(fakeConnection(), { find: 'c', $db: 'test' }, 'query');
  expect(reply).toMatchObject({ code: 352, codeName: 'UnsupportedOpQueryCommand' });
});

test('generic arguments pass, unknown fields are 40415 under the name the version has', async () => {
  const specs = [{ name: 'dropUser', fields: ['extra'] }];
  expect(
    await run(dispatcherWith(specs), { dropUser: 'a', extra: 1, comment: 'c', lsid: {} }),
  ).not.toHaveProperty('code');
  const reply = { code: 40415, errmsg: "BSON field 'dropUser.foo' is an unknown field." };
  expect(await run(dispatcherWith(specs), { dropUser: 'a', foo: 1 })).toMatchObject({
    ...reply,
    codeName: 'IDLUnknownField',
  });
  expect(await run(dispatcherWith(specs, { version: '7.0.5' }), { dropUser: 'a', foo: 1 })).toMatchObject({
    ...reply,
    codeName: 'Location40415',
  });
});

test('every command needs a database', async () => {
  expect(await dispatcherWith([{}]).run(fakeConnection(), { x: 1 }, 'msg')).toMatchObject({ code: 40571 });
  expect(await run(dispatcherWith([{}]), { x: 1, $db: 'a b' })).toMatchObject({ code: 73 });
});

test('refusals say whether a login or a privilege is missing', async () => {
  const needs: readonly Privilege[] = [{ resource: { db: 'test', collection: 'c' }, actions: ['find'] }];
  const specs = [{ name: 'find', auth: () => needs }];
  const closed = (loggedIn: boolean): Authorizer => ({
    enabled: true,
    isLoggedIn: () => loggedIn,
    allows: () => false,
  });
  expect(await run(dispatcherWith(specs, { authorizer: closed(false) }), { find: 'c' })).toMatchObject({
    code: 13,
    errmsg: 'Command find requires authentication',
  });
  expect(
    await run(dispatcherWith(specs, { authorizer: closed(true) }), { find: 'c', pwd: 'secret' }),
  ).toMatchObject({
    code: 13,
    errmsg: 'not authorized on test to execute command { find: "c", pwd: "xxx", $db: "test" }',
  });
  const admin = dispatcherWith([{ name: 'getLog', adminOnly: true }]);
  expect(await run(admin, { getLog: '*' })).toMatchObject({
    code: 13,
    errmsg: 'getLog may only be run against the admin database.',
  });
});

test('maxTimeMS interrupts a command that takes longer', async () => {
  const dispatcher = dispatcherWith([{ run: () => new Promise<Document>(() => undefined) }]);
  expect(await run(dispatcher, { x: 1, maxTimeMS: new Int32(1) })).toMatchObject({
    code: 50,
    codeName: 'MaxTimeMSExpired',
  });
  expect(await run(dispatcher, { x: 1, maxTimeMS: new Double(1.5) })).toMatchObject({
    code: 2,
    errmsg: 'maxTimeMS has non-integral value',
  });
  expect(await run(dispatcher, { x: 1, maxTimeMS: -1 })).toMatchObject({
    code: 2,
    errmsg: '-1 value for maxTimeMS is out of range [0, 2147483647]',
  });
});

test('a closed connection ends its command', async () => {
  const connection = fakeConnection();
  const dispatcher = dispatcherWith([{ run: () => new Promise<Document>(() => connection.close()) }]);
  expect(await run(dispatcher, { x: 1 }, connection)).toMatchObject({ code: 279 });
});

test('the stable API is version 1, and strict means strict', async () => {
  const dispatcher = dispatcherWith([{ name: 'ping' }, { name: 'getLog' }]);
  expect(await run(dispatcher, { ping: 1, apiVersion: '1', apiStrict: true })).not.toHaveProperty('code');
  expect(await run(dispatcher, { ping: 1, apiVersion: '2' })).toMatchObject({ code: 322 });
  expect(await run(dispatcher, { getLog: 1, apiVersion: '1', apiStrict: true })).toMatchObject({ code: 323 });
});

test('on a standalone a write concern of more than one member is refused', async () => {
  const dispatcher = dispatcherWith([{ access: 'write' }]);
  expect(await run(dispatcher, { x: 1, writeConcern: { w: new Int32(2) } })).toMatchObject({
    code: 2,
    errmsg: "cannot use 'w' > 1 when a host is not replicated",
  });
  expect(await run(dispatcher, { x: 1, writeConcern: { w: 'majority' } })).not.toHaveProperty('code');
});

test('errors about the member state carry its topologyVersion', async () => {
  const topologyVersion = { processId: new ObjectId(), counter: Long.fromNumber(3) };
  const replication = {
    topologyVersion: () => topologyVersion,
    clusterTime: () => Long.ZERO,
    assertWritable: () => {
      throw new ServerError(10107, 'NotWritablePrimary', 'not primary');
    },
  } as unknown as Replication;
  const dispatcher = dispatcherWith([{ name: 'insert', access: 'write' }], { replication });
  expect(await run(dispatcher, { insert: 'c' })).toMatchObject({
    code: 10107,
    errmsg: 'not primary',
    topologyVersion,
  });
});

test('a failed write tells of its write concern too, where the client gave one', async () => {
  const opTime = { ts: new Timestamp({ t: 1, i: 1 }), t: Long.ONE };
  const unsatisfied = { code: 100, codeName: 'UnsatisfiableWriteConcern', errmsg: 'Not enough nodes' };
  const replication = {
    assertWritable: () => undefined,
    lastApplied: () => opTime,
    clusterTime: () => opTime.ts,
    topologyVersion: () => ({ processId: new ObjectId(), counter: Long.ONE }),
    defaultWriteConcern: () => ({ w: 2 }),
    awaitWriteConcern: async () => unsatisfied,
  } as unknown as Replication;
  const refuse = (code: number) => () => Promise.reject(new ServerError(code, '', 'no'));
  const failing = (code: number) => dispatcherWith([{ access: 'write', run: refuse(code) }], { replication });
  const writeConcern = { w: 2 };
  expect(await run(failing(48), { x: 1, writeConcern })).toMatchObject({
    code: 48,
    writeConcernError: unsatisfied,
  });
  expect((await run(failing(48), { x: 1 }))['writeConcernError']).toBeUndefined();
  expect((await run(failing(10107), { x: 1, writeConcern }))['writeConcernError']).toBeUndefined();
});
