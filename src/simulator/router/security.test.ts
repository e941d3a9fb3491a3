import { writeFileSync } from 'node:fs';
import type { MongoClient, MongoClientOptions } from 'mongodb';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestCa } from '../process/certificates.testing.ts';
import { MONGOS, type Running, Workshop } from '../process/launch.testing.ts';
import { Cluster, ClusterSet, Member } from './cluster.testing.ts';

const LONG = 90_000;
const workshop = new Workshop();
const file = {
  ca: workshop.path('ca.pem'),
  member: workshop.path('member.pem'),
  user: workshop.path('user.pem'),
  key: workshop.path('key'),
  otherKey: workshop.path('other-key'),
};
let cluster: Cluster;
let router: Running;
let root: MongoClient;

const login = (username: string, password = 'secret', authMechanism = 'DEFAULT'): MongoClientOptions => ({
  auth: { username, password },
  authMechanism: authMechanism as 'DEFAULT',
});

beforeAll(async () => {
  const ca = await TestCa.create();
  writeFileSync(file.ca, ca.pem);
  await ca.issue(file.member, 'O=Belay,OU=members,CN=localhost');
  await ca.issue(file.user, 'O=Apps,CN=reporter');
  writeFileSync(file.key, 'c2VjcmV0S2V5', { mode: 0o400 });
  writeFileSync(file.otherKey, 'b3RoZXJLZXk=', { mode: 0o400 });
  const tls = ['--tlsMode', 'requireTLS', '--tlsCertificateKeyFile', file.member, '--tlsCAFile', file.ca];
  cluster = await Cluster.start(workshop, {
    shards: [1, 1],
    args: ['--keyFile', file.key, ...tls, '--tlsAllowConnectionsWithoutCertificates'],
    env: { BELAY_SIM_VERSION: '7.0.43-23' },
    client: { tls: true, tlsCAFile: file.ca, tlsAllowInvalidHostnames: true },
  });
  router = await cluster.router();
  const first = cluster.client(router);
  await first.db('admin').command({ createUser: 'root', pwd: 'secret', roles: ['root'] });
  await first.close();
  root = cluster.client(router, login('root'));
  await cluster.addShards(root);
}, LONG);
afterAll(async () => {
  await root?.close();
  await workshop.clean();
});

test('A8.2 the first user is made at the router from this machine; after that nobody comes in without one', async () => {
  const nobody = cluster.client(router);
  const refused = { code: 13, codeName: 'Unauthorized' };
  await expect(nobody.db('app').collection('c').findOne()).rejects.toMatchObject(refused);
  const second = { createUser: 'x', pwd: 'p', roles: ['root'] };
  await expect(nobody.db('admin').command(second)).rejects.toMatchObject(refused);
  await expect(nobody.db('admin').command({ addShard: cluster.shards[0]!.url })).rejects.toMatchObject(
    refused,
  );
  expect(await nobody.db('admin').command({ hello: 1 })).toMatchObject({ msg: 'isdbgrid' });
  await nobody.close();
});

test('A8.2 users live on the config servers, count at every router, and not on the shards', async () => {
  await root
    .db('admin')
    .command({ createUser: 'app', pwd: 'secret', roles: [{ role: 'readWrite', db: 'app' }] });
  const other = await cluster.router();
  for (const [at, mechanism] of [
    [router, 'SCRAM-SHA-1'],
    [router, 'SCRAM-SHA-256'],
    [other, 'DEFAULT'],
  ] as const) {
    const client = cluster.client(at, login('app', 'secret', mechanism));
    await client.db('app').collection('c').insertOne({ at: mechanism });
    await expect(client.db('elsewhere').collection('c').findOne()).rejects.toMatchObject({ code: 13 });
    await expect(
      client.db('admin').command({ shardCollection: 'app.c', key: { _id: 1 } }),
    ).rejects.toMatchObject({
      code: 13,
    });
    await client.close();
  }
  const config = cluster.config.direct(0, login('app'));
  expect(await config.db('app').command({ ping: 1 })).toMatchObject({ ok: 1 });
  await config.close();
  const shard = cluster.shards[0]!.direct(0, login('app'));
  await expect(shard.db('app').command({ ping: 1 })).rejects.toMatchObject({ code: 18 });
  await shard.close();
});

test('A8.3 each shard has its own first user; changed and dropped users count at the router at once', async () => {
  for (const shard of cluster.shards) {
    const local = shard.direct();
    await local.db('admin').command({ createUser: 'local', pwd: 'secret', roles: ['root'] });
    await local.close();
    const again = shard.direct(0, login('local'));
    expect((await again.db('admin').command({ usersInfo: 1 }))['users']).toHaveLength(1);
    await again.close();
  }
  await root.db('admin').command({ createUser: 'brief', pwd: 'secret', roles: [] });
  await root.db('admin').command({ updateUser: 'brief', pwd: 'changed' });
  const old = cluster.client(router, login('brief'));
  await expect(old.db('app').command({ ping: 1 })).rejects.toMatchObject({ code: 18 });
  await old.close();
  const fresh = cluster.client(router, login('brief', 'changed'));
  expect(await fresh.db('app').command({ ping: 1 })).toMatchObject({ ok: 1 });
  await root.db('admin').command({ dropUser: 'brief' });
  await expect(fresh.db('admin').command({ connPoolStats: 1 })).rejects.toMatchObject({ code: 13 });
  await fresh.close();
});

test('A9 certificates log users in at the router', async () => {
  await root.db('$external').command({
    createUser: 'CN=reporter,O=Apps',
    roles: [{ role: 'read', db: 'app' }],
  });
  const client = cluster.client(router, { tlsCertificateKeyFile: file.user, authMechanism: 'MONGODB-X509' });
  expect(await client.db('app').collection('c').countDocuments()).toBe(3);
  await expect(client.db('app').collection('c').insertOne({ a: 1 })).rejects.toMatchObject({ code: 13 });
  await client.close();
});

test('SHD-05 a set with another key file can’t be added, and the reason is the login', async () => {
  const tls = ['--tlsMode', 'requireTLS', '--tlsCertificateKeyFile', file.member, '--tlsCAFile', file.ca];
  const args = ['--replSet', 'rs9', '--shardsvr', '--keyFile', file.otherKey, ...tls];
  const member = new Member(workshop, [...args, '--tlsAllowConnectionsWithoutCertificates'], {});
  await member.start();
  const stranger = new ClusterSet('rs9', [member], cluster.config.options);
  await stranger.initiate(false);
  await expect(root.db('admin').command({ addShard: stranger.url })).rejects.toMatchObject({ code: 18 });
  await member.kill();
});

test(
  'A6.5 compatibility is raised for the whole cluster, and older routers are turned away then',
  async () => {
    const versions = async (): Promise<string[]> => {
      const sets = [cluster.config, ...cluster.shards];
      return Promise.all(
        sets.map(async (set, index) => {
          const client = set.direct(0, login(index === 0 ? 'root' : 'local'));
          const reply = await client.db('admin').command({ getParameter: 1, featureCompatibilityVersion: 1 });
          await client.close();
          return reply['featureCompatibilityVersion'].version;
        }),
      );
    };
    expect(await versions()).toEqual(['7.0', '7.0', '7.0']);
    const newer = { BELAY_SIM_VERSION: '8.0.32-14' };
    const early = await workshop.run(
      [
        '--configdb',
        cluster.config.url,
        '--port',
        '0',
        '--nounixsocket',
        '--keyFile',
        file.key,
        ...tlsClient(),
      ],
      newer,
      MONGOS,
    );
    expect([early.code, early.stdout.includes('maximum wire version 21')]).toEqual([5, true]);
    for (const set of [cluster.config, ...cluster.shards])
      for (const member of set.members) {
        await member.running.stop();
        await member.start(newer);
        await set.primary();
      }
    expect(await versions()).toEqual(['7.0', '7.0', '7.0']);
    const next = await cluster.router(newer);
    const client = cluster.client(next, login('root'));
    await expect(client.db('admin').command({ setFeatureCompatibilityVersion: '8.0' })).rejects.toMatchObject(
      {
        code: 7369100,
      },
    );
    await client.db('admin').command({ setFeatureCompatibilityVersion: '8.0', confirm: true });
    expect(await versions()).toEqual(['8.0', '8.0', '8.0']);
    expect(await client.db('app').collection('c').countDocuments()).toBe(3);
    await client.close();
    const late = await workshop.run(
      [
        '--configdb',
        cluster.config.url,
        '--port',
        '0',
        '--nounixsocket',
        '--keyFile',
        file.key,
        ...tlsClient(),
      ],
      { BELAY_SIM_VERSION: '7.0.43-23' },
      MONGOS,
    );
    expect([late.code, late.stdout.includes('incompatible')]).toEqual([5, true]);
  },
  LONG,
);

test('8.0 turns users away who come to a shard directly without the role for it', async () => {
  const shard = cluster.shards[0]!.direct(0, login('local'));
  await shard.db('admin').command({ createUser: 'plain', pwd: 'secret', roles: ['readWriteAnyDatabase'] });
  await shard.db('admin').command({
    createUser: 'direct',
    pwd: 'secret',
    roles: ['readWriteAnyDatabase', 'directShardOperations'],
  });
  expect(await shard.db('app').collection('c').countDocuments()).toBeGreaterThanOrEqual(0);
  await shard.close();
  const plain = cluster.shards[0]!.direct(0, login('plain'));
  await expect(plain.db('app').collection('c').findOne()).rejects.toThrow(
    'connecting to a sharded cluster improperly',
  );
  expect(await plain.db('admin').command({ ping: 1 })).toMatchObject({ ok: 1 });
  await plain.close();
  const direct = cluster.shards[0]!.direct(0, login('direct'));
  await direct.db('app').collection('c').findOne();
  await direct.close();
});

function tlsClient(): string[] {
  return ['--tlsMode', 'requireTLS', '--tlsCertificateKeyFile', file.member, '--tlsCAFile', file.ca];
}
