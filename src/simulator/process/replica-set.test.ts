import { writeFileSync } from 'node:fs';
import { MongoClient, type MongoClientOptions } from 'mongodb';
import { MongoMemoryReplSet, MongoMemoryServer } from 'mongodb-memory-server-core';
import { MongoCluster } from 'mongodb-runner';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestCa } from './certificates.testing.ts';
import { MONGOD, type Running, Workshop } from './launch.testing.ts';

const workshop = new Workshop();
const file = { ca: workshop.path('ca.pem'), member: workshop.path('member.pem'), key: workshop.path('key') };
const tls: MongoClientOptions = { tls: true, tlsCAFile: file.ca };
/** Elections within a second instead of ten. */
const FAST = { BELAY_SIM_ELECTION_TIMEOUT_MILLIS: '1000', BELAY_SIM_HEARTBEAT_MILLIS: '200' };

beforeAll(async () => {
  const ca = await TestCa.create();
  writeFileSync(file.ca, ca.pem);
  await ca.issue(file.member, 'O=Belay,OU=members,CN=localhost');
  writeFileSync(file.key, 'c2VjcmV0S2V5', { mode: 0o400 });
});
afterAll(() => workshop.clean());

const member = (...more: string[]): Promise<Running> =>
  workshop.start(
    ['--dbpath', workshop.folder(), '--port', '0', '--nounixsocket', '--replSet', 'rs0', ...more],
    FAST,
  );

/** Starts members, initiates the set, makes the first user by the localhost exception. */
async function startSet(
  options: readonly string[],
  connection: MongoClientOptions,
): Promise<readonly Running[]> {
  const members = await Promise.all([0, 1, 2].map(() => member(...options)));
  const client = new MongoClient(
    `mongodb://localhost:${members[0]!.port}/?directConnection=true`,
    connection,
  );
  const admin = client.db('admin');
  await admin.command({
    replSetInitiate: {
      _id: 'rs0',
      members: members.map(({ port }, id) => ({
        _id: id,
        host: `localhost:${port}`,
        priority: id === 0 ? 2 : 1,
      })),
    },
  });
  while ((await admin.command({ hello: 1 }))['isWritablePrimary'] !== true)
    await new Promise((resolve) => setTimeout(resolve, 20));
  await admin.command({
    createUser: 'root',
    pwd: 'p@ss:/%ü',
    roles: ['root'],
    writeConcern: { w: 'majority' },
  });
  await client.close();
  return members;
}

const connectTo = (members: readonly Running[], options: MongoClientOptions): MongoClient =>
  new MongoClient(
    `mongodb://${members.map(({ port }) => `localhost:${port}`).join(',')}/?replicaSet=rs0&w=majority`,
    {
      auth: { username: 'root', password: 'p@ss:/%ü' },
      ...options,
    },
  );

/** Tries again as an application does while the driver still believes in the member that is gone. */
async function eventually<T>(attempt: () => Promise<T>): Promise<T> {
  for (let left = 50; ; left--) {
    try {
      return await attempt();
    } catch (failure) {
      if (left === 0) throw failure;
    }
  }
}

test.concurrent('three members with TLS and certificates serve majority writes, also when the primary is killed', async () => {
  const args = ['--tlsMode', 'requireTLS', '--tlsCertificateKeyFile', file.member, '--tlsCAFile', file.ca];
  const members = await startSet(
    [...args, '--clusterAuthMode', 'x509', '--tlsAllowConnectionsWithoutCertificates'],
    tls,
  );
  const client = connectTo(members, tls);
  const collection = client.db('app').collection<{ _id: number }>('c');
  await collection.insertOne({ _id: 1 });
  expect(await members[0]!.stop('SIGKILL')).toBe('SIGKILL');
  await eventually(() => collection.replaceOne({ _id: 2 }, { _id: 2 }, { upsert: true }));
  expect(await collection.find({}, { sort: { _id: 1 } }).toArray()).toEqual([{ _id: 1 }, { _id: 2 }]);
  const hello = await client.db('admin').command({ hello: 1 });
  expect(hello['primary']).not.toBe(`localhost:${members[0]!.port}`);
  await client.close();
});

test.concurrent('users made on the primary log in on every member of a key-file set', async () => {
  const members = await startSet(['--keyFile', file.key], {});
  for (const { port } of members) {
    const client = new MongoClient(`mongodb://localhost:${port}/?directConnection=true`, {
      auth: { username: 'root', password: 'p@ss:/%ü' },
    });
    const status = await client.db('admin').command({ replSetGetStatus: 1 });
    expect(status['members']).toHaveLength(3);
    expect(
      await client.db('admin').command({ getParameter: 1, featureCompatibilityVersion: 1 }),
    ).toMatchObject({ featureCompatibilityVersion: { version: '8.0' } });
    await client.close();
  }
});

test.concurrent('a single member ends with 0 on SIGTERM after the time it waits for others', async () => {
  const members = await Promise.all([
    member('--setParameter', 'shutdownTimeoutMillisForSignaledShutdown=300'),
  ]);
  const client = new MongoClient(`mongodb://localhost:${members[0]!.port}/?directConnection=true`);
  await client.db('admin').command({
    replSetInitiate: { _id: 'rs0', members: [{ _id: 0, host: `localhost:${members[0]!.port}` }] },
  });
  await client.close();
  expect(await members[0]!.stop('SIGTERM')).toBe(0);
});

test.concurrent('mongodb-memory-server starts the stand-in alone and as a set with access control', async () => {
  const binary = { systemBinary: MONGOD, version: '8.0.32' };
  const alone = await MongoMemoryServer.create({ binary });
  const client = new MongoClient(alone.getUri());
  await client.db('t').collection('c').insertOne({ a: 1 });
  expect(await client.db('t').collection('c').findOne({ a: 1 })).toMatchObject({ a: 1 });
  await client.close();
  await alone.stop();
  const set = await MongoMemoryReplSet.create({ replSet: { count: 2, auth: { enable: true } }, binary });
  expect(set.getUri()).toContain('replicaSet=testset');
  await set.stop();
});

test.concurrent('mongodb-runner starts the stand-in as a set with two secondaries', async () => {
  const cluster = await MongoCluster.start({
    topology: 'replset',
    secondaries: 2,
    tmpDir: workshop.folder(),
    binDir: MONGOD.replace(/\/mongod$/, ''),
  });
  try {
    await cluster.withClient(async (client) => {
      await client
        .db('t')
        .collection('c')
        .insertOne({ a: 1 }, { writeConcern: { w: 'majority' } });
      expect((await client.db('admin').command({ replSetGetStatus: 1 }))['members']).toHaveLength(3);
    });
  } finally {
    await cluster.close();
  }
});
