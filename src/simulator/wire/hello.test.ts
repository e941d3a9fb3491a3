import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { type Document, Int32, Long, ObjectId } from 'bson';
import { expect, test } from 'vitest';
import type { CommandContext, Replication, ServerNode } from '../contracts.ts';
import { ClientConnection, type ConnectionOwner } from './connection.ts';
import { fakeNode } from './fake-node.testing.ts';
import { type HelloServices, helloSpecs, nextHello } from './hello.ts';

const services: HelloServices = {
  processId: new ObjectId(),
  compressors: ['zstd', 'zlib'],
  trustsInternalClaim: true,
  mechanismsOf: (user) => (user === 'known' ? ['SCRAM-SHA-256'] : undefined),
  speculate: (_context, login) => Promise.resolve(login['good'] === true ? { done: false } : undefined),
  onClientMetadata: () => undefined,
};

function newConnection(): ClientConnection {
  const owner = { onClose: () => undefined } as unknown as ConnectionOwner;
  const peer = {
    id: 7,
    remote: '127.0.0.1:1',
    local: '',
    loopback: true,
    tls: false,
    sni: undefined,
    peerSubject: undefined,
  };
  return new ClientConnection(new EventEmitter() as Socket, peer, owner);
}

async function hello(
  command: Document,
  connection = newConnection(),
  node: ServerNode = fakeNode(),
): Promise<Document> {
  const name = command['isMaster'] === undefined ? 'hello' : 'isMaster';
  const spec = helloSpecs(services).find((candidate) => candidate.name === name)!;
  const full = { [name]: 1, ...command, $db: 'admin' };
  return spec.run({
    node,
    connection,
    name,
    db: 'admin',
    command: full,
    signal: new AbortController().signal,
    opId: 1,
  } satisfies CommandContext);
}

const client = (more: Document = {}): Document => ({
  driver: { name: 'd', version: '1' },
  os: { type: 'Linux' },
  ...more,
});

test('a standalone answers in the order of the server', async () => {
  const reply = await hello({
    helloOk: true,
    compression: ['snappy', 'zlib'],
    saslSupportedMechs: 'admin.known',
  });
  expect(Object.keys(reply).slice(0, 4)).toEqual([
    'compression',
    'helloOk',
    'isWritablePrimary',
    'topologyVersion',
  ]);
  expect(reply).toMatchObject({
    compression: ['zlib'],
    connectionId: 7,
    maxWireVersion: 25,
    saslSupportedMechs: ['SCRAM-SHA-256'],
  });
  expect(Object.keys(await hello({ isMaster: 1 }))[0]).toBe('ismaster');
  expect(await hello({ saslSupportedMechs: 'admin.unknown', compression: ['snappy'] })).not.toHaveProperty(
    'saslSupportedMechs',
  );
});

test('client metadata comes once, whole, and within limits', async () => {
  const connection = newConnection();
  await hello({ client: client({ application: { name: 'shop' } }) }, connection);
  expect(connection.appName).toBe('shop');
  await expect(hello({ client: client() }, connection)).rejects.toMatchObject({ code: 186 });
  await expect(hello({ client: {} })).rejects.toMatchObject({ code: 183 });
  await expect(hello({ client: client({ application: { name: 'x'.repeat(129) } }) })).rejects.toMatchObject({
    code: 184,
  });
  await expect(hello({ client: client({ platform: 'x'.repeat(600) }) })).rejects.toMatchObject({ code: 185 });
  expect(await hello({ client: client({ platform: 'x'.repeat(600) }), internalClient: {} })).toHaveProperty(
    'localTime',
  );
});

test('a login inside hello leaves no trace when it fails', async () => {
  expect(await hello({ speculativeAuthenticate: { saslStart: 1, good: true } })).toMatchObject({
    speculativeAuthenticate: { done: false },
  });
  expect(await hello({ speculativeAuthenticate: { saslStart: 1 } })).not.toHaveProperty(
    'speculativeAuthenticate',
  );
  await expect(hello({ speculativeAuthenticate: {} })).rejects.toMatchObject({ code: 2 });
  await expect(hello({ speculativeAuthenticate: { ping: 1 } })).rejects.toMatchObject({ code: 51769 });
  await expect(hello({ saslSupportedMechs: 'nodot' })).rejects.toMatchObject({ code: 2 });
});

test('who waits for a change must say from which state, and for how long', async () => {
  const known = { processId: services.processId, counter: Long.ZERO };
  await expect(hello({ topologyVersion: known })).rejects.toMatchObject({ code: 31368 });
  await expect(hello({ maxAwaitTimeMS: 1 })).rejects.toMatchObject({ code: 31368 });
  await expect(hello({ topologyVersion: known, maxAwaitTimeMS: -1 })).rejects.toMatchObject({ code: 51024 });
  await expect(
    hello({ topologyVersion: { ...known, counter: new Int32(0) }, maxAwaitTimeMS: 1 }),
  ).rejects.toMatchObject({ code: 14 });
  await expect(
    hello({ topologyVersion: { ...known, counter: Long.NEG_ONE }, maxAwaitTimeMS: 1 }),
  ).rejects.toMatchObject({ code: 31372 });
  await expect(
    hello({ topologyVersion: { ...known, counter: Long.ONE }, maxAwaitTimeMS: 1 }),
  ).rejects.toMatchObject({ code: 51764 });
  expect(
    await hello({
      topologyVersion: { processId: new ObjectId(), counter: Long.ONE },
      maxAwaitTimeMS: 1_000_000,
    }),
  ).toHaveProperty('isWritablePrimary');
});

test('a member is asked to wait only by who knows its present state', async () => {
  const waited: string[] = [];
  const counter = Long.fromNumber(5);
  const replication = {
    topologyVersion: () => ({ processId: services.processId, counter }),
    helloFields: () => ({ setName: 'rs0' }),
    awaitTopologyChange: (from: Long) => Promise.resolve(void waited.push(String(from))),
  } as unknown as Replication;
  const ask = (from: number): Promise<Document> =>
    hello(
      {
        topologyVersion: { processId: services.processId, counter: Long.fromNumber(from) },
        maxAwaitTimeMS: 10,
      },
      newConnection(),
      fakeNode({ replication }),
    );
  await ask(4);
  expect(waited).toEqual([]);
  expect(await ask(5)).toMatchObject({ setName: 'rs0' });
  expect(waited).toEqual(['5']);
  await expect(ask(6)).rejects.toMatchObject({ code: 31382 });
});

test('a streamed hello goes on from the state it just told', () => {
  const topologyVersion = { processId: services.processId, counter: Long.ONE };
  expect(nextHello({ hello: 1, maxAwaitTimeMS: 10 }, { ok: 1, topologyVersion })).toEqual({
    hello: 1,
    maxAwaitTimeMS: 10,
    topologyVersion,
  });
  expect(nextHello({ hello: 1, maxAwaitTimeMS: 10 }, { ok: 0 })).toBeNull();
  expect(nextHello({ hello: 1 }, { ok: 1 })).toBeNull();
  expect(nextHello({ find: 'c', maxAwaitTimeMS: 1 }, { ok: 1 })).toBeNull();
});
