import { writeFileSync } from 'node:fs';
import { type Document, MongoClient, type MongoClientOptions } from 'mongodb';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestCa } from './certificates.testing.ts';
import { type Running, Workshop } from './launch.testing.ts';

const workshop = new Workshop();
const key = workshop.path('key');
const file = {
  ca: workshop.path('ca.pem'),
  server: workshop.path('server.pem'),
  alice: workshop.path('alice.pem'),
  member: workshop.path('member.pem'),
  stranger: workshop.path('stranger.pem'),
  expired: workshop.path('expired.pem'),
};

beforeAll(async () => {
  const ca = await TestCa.create();
  const other = await TestCa.create('CN=Other CA');
  writeFileSync(file.ca, ca.pem);
  // The names are encoded in this order, and shown in the reverse one.
  await ca.issue(file.server, 'O=Belay,OU=members,CN=localhost');
  await ca.issue(file.member, 'OU=members,O=Belay,CN=other');
  await ca.issue(file.alice, 'O=Users,OU=people,CN=alice');
  await ca.issue(file.expired, 'CN=localhost', -1);
  await other.issue(file.stranger, 'O=Users,OU=people,CN=alice');
  writeFileSync(key, 'c2VjcmV0\nS2V5', { mode: 0o400 });
});
afterAll(() => workshop.clean());

const plain = (...more: string[]): string[] => [
  '--dbpath',
  workshop.folder(),
  '--port',
  '0',
  '--nounixsocket',
  ...more,
];
const withTls = (mode: string, ...more: string[]): string[] =>
  plain('--tlsMode', mode, '--tlsCertificateKeyFile', file.server, '--tlsCAFile', file.ca, ...more);
const clientTls = (certificate?: string): MongoClientOptions => ({
  tls: true,
  tlsCAFile: file.ca,
  ...(certificate === undefined ? {} : { tlsCertificateKeyFile: certificate }),
});
const SOON = { serverSelectionTimeoutMS: 400 };
const PASSWORD = 'p@ss:/%ü';

/** Runs commands one after the other; gives replies, or code and text of refusals. */
async function as(
  server: Running,
  options: MongoClientOptions,
  ...commands: (Document & { $db?: string })[]
): Promise<unknown[]> {
  const client = new MongoClient(`mongodb://localhost:${server.port}/?directConnection=true`, {
    serverSelectionTimeoutMS: 15_000,
    ...options,
  });
  const replies: unknown[] = [];
  try {
    await client.connect();
    for (const { $db = 'admin', ...command } of commands) {
      replies.push(
        await client
          .db($db)
          .command(command)
          .catch((failure: { code: number; message: string }) => `${failure.code} ${failure.message}`),
      );
    }
  } finally {
    await client.close();
  }
  return replies;
}

const user = (
  username: string,
  password: string,
  authMechanism?: 'SCRAM-SHA-1' | 'SCRAM-SHA-256',
  authSource = 'admin',
): MongoClientOptions => ({
  auth: { username, password },
  authSource,
  ...(authMechanism === undefined ? {} : { authMechanism }),
});
const ADMIN = user('root', PASSWORD);

test.concurrent('the localhost exception makes one user and is over', async () => {
  const server = await workshop.start(plain('--auth'));
  const replies = await as(
    server,
    {},
    { listDatabases: 1 },
    { createRole: 'r', privileges: [], roles: [] },
    { usersInfo: 1 },
    { createUser: 'x', pwd: 'x', roles: [], $db: 'app' },
    { createUser: 'root', pwd: PASSWORD, roles: ['root'] },
    { createUser: 'second', pwd: 'x', roles: ['root'] },
    { ping: 1 },
  );
  expect(replies).toEqual([
    '13 Command listDatabases requires authentication',
    '13 Command createRole requires authentication',
    '13 Command usersInfo requires authentication',
    '13 Command createUser requires authentication',
    { ok: 1 },
    '13 Command createUser requires authentication',
    { ok: 1 },
  ]);
  await server.stop();
});

test.concurrent('without the bypass parameter there is no exception at all', async () => {
  const server = await workshop.start(plain('--auth', '--setParameter', 'enableLocalhostAuthBypass=false'));
  expect(await as(server, {}, { createUser: 'root', pwd: 'x', roles: ['root'] })).toEqual([
    '13 Command createUser requires authentication',
  ]);
  await server.stop();
});

test.concurrent('both SCRAM mechanisms take odd names and passwords, after a restart too, and refuse wrong ones', async () => {
  const folder = workshop.folder();
  const args = ['--dbpath', folder, '--port', '0', '--nounixsocket', '--auth'];
  const first = await workshop.start(args);
  await as(first, {}, { createUser: 'root', pwd: PASSWORD, roles: ['root'] });
  await as(
    first,
    ADMIN,
    { createUser: 'a,b=c', pwd: 'I\u00adX', roles: [{ role: 'read', db: 'app' }] },
    { createUser: 'old', pwd: 'x', roles: [], mechanisms: ['SCRAM-SHA-1'] },
  );
  await first.stop();
  const server = await workshop.start(args);
  const status = { connectionStatus: 1 };
  for (const mechanism of ['SCRAM-SHA-1', 'SCRAM-SHA-256', undefined] as const) {
    expect(await as(server, user('root', PASSWORD, mechanism), status)).toMatchObject([
      { authInfo: { authenticatedUsers: [{ user: 'root', db: 'admin' }] } },
    ]);
    await expect(as(server, user('root', 'wrong', mechanism), status)).rejects.toMatchObject({
      code: 18,
      message: 'Authentication failed.',
    });
  }
  expect(await as(server, user('a,b=c', 'IX', 'SCRAM-SHA-256'), status)).toMatchObject([{ ok: 1 }]);
  expect(await as(server, user('old', 'x'), status)).toMatchObject([{ ok: 1 }]);
  await expect(as(server, user('old', 'x', 'SCRAM-SHA-256'), status)).rejects.toMatchObject({ code: 18 });
  await expect(as(server, user('nobody', 'x'), status)).rejects.toMatchObject({ code: 18 });
  expect(server.lines.join('\n')).not.toContain(PASSWORD);
  await server.stop();
});

test.concurrent('users can do what their roles say; changes count at once', async () => {
  const server = await workshop.start(plain('--auth'));
  await as(server, {}, { createUser: 'root', pwd: PASSWORD, roles: ['root'] });
  await as(
    server,
    ADMIN,
    { createUser: 'reader', pwd: 'x', roles: ['read'], $db: 'app' },
    { createUser: 'monitor', pwd: 'x', roles: ['clusterMonitor'] },
    { createUser: 'users', pwd: 'x', roles: ['userAdminAnyDatabase'] },
    {
      createRole: 'counter',
      privileges: [{ resource: { db: 'app', collection: 'c' }, actions: ['find', 'insert'] }],
      roles: [],
      $db: 'app',
    },
  );
  const reader = user('reader', 'x', undefined, 'app');
  const [found, refused] = await as(
    server,
    reader,
    { find: 'c', $db: 'app' },
    { insert: 'c', documents: [{ a: 1 }], $db: 'app' },
  );
  expect(found).toMatchObject({ ok: 1 });
  expect(refused).toMatch(
    /^13 not authorized on app to execute command \{ insert: "c", documents: \[ \{ a: 1/,
  );
  await as(server, ADMIN, { grantRolesToUser: 'reader', roles: ['counter'], $db: 'app' });
  expect(await as(server, reader, { insert: 'c', documents: [{ a: 1 }], $db: 'app' })).toMatchObject([
    { n: 1 },
  ]);
  await as(server, ADMIN, { dropRole: 'counter', $db: 'app' });
  expect(await as(server, reader, { insert: 'c', documents: [{ a: 1 }], $db: 'app' })).toMatchObject([
    expect.stringMatching(/^13 /),
  ]);
  expect(
    await as(
      server,
      user('monitor', 'x'),
      { serverStatus: 1 },
      { getParameter: 1, logLevel: 1 },
      { setParameter: 1, logLevel: 1 },
    ),
  ).toMatchObject([{ ok: 1 }, { logLevel: 0 }, expect.stringMatching(/^13 /)]);
  expect(
    await as(
      server,
      user('users', 'x'),
      { usersInfo: 1 },
      { createUser: 'n', pwd: 'x', roles: [], $db: 'app' },
      { find: 'c', $db: 'app' },
    ),
  ).toMatchObject([{ users: expect.any(Array) }, { ok: 1 }, expect.stringMatching(/^13 /)]);
  await server.stop();
});

test.concurrent('user and role commands refuse with the codes and texts of the server', async () => {
  const server = await workshop.start(plain());
  const replies = await as(
    server,
    {},
    { createUser: 'u', pwd: 'x', roles: ['read'], customData: { a: 1 }, $db: 'app' },
    { createUser: 'u', pwd: 'x', roles: [], $db: 'app' },
    { createUser: '', pwd: 'x', roles: [] },
    { createUser: 'v', roles: [] },
    { createUser: 'v', pwd: '', roles: [] },
    { createUser: 'v', pwd: true, roles: [] },
    { createUser: 'v', pwd: 'x' },
    { createUser: 'v', pwd: 'x', roles: ['nope'] },
    { createUser: 'v', pwd: 'x', roles: [], mechanisms: [] },
    { createUser: 'v', pwd: 'x', roles: [], mechanisms: ['BAD'] },
    { createUser: 'v', pwd: 'x', roles: [], $db: 'local' },
    { createUser: 'CN=v', pwd: 'x', roles: [], $db: '$external' },
    { updateUser: 'u', $db: 'app' },
    { updateUser: 'w', pwd: 'x', $db: 'app' },
    { dropUser: 'w', $db: 'app' },
    { usersInfo: [1], $db: 'app' },
    { usersInfo: { user: 'u' }, $db: 'app' },
    { createRole: 'read', privileges: [], roles: [], $db: 'app' },
    {
      createRole: 'r',
      privileges: [{ resource: { cluster: true }, actions: ['shutdown'] }],
      roles: [],
      $db: 'app',
    },
    { createRole: 'r', privileges: [], roles: [], $db: 'app' },
    { createRole: 'r', privileges: [], roles: [], $db: 'app' },
    { grantRolesToRole: 'r', roles: ['r'], $db: 'app' },
    { dropRole: 'root' },
    { dropRole: 'gone' },
    { dropAllUsersFromDatabase: 1, $db: 'app' },
  );
  expect(replies).toMatchObject([
    { ok: 1 },
    '51003 User "u@app" already exists',
    "2 User document needs 'user' field to be non-empty",
    "2 Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db",
    expect.stringMatching(/^50687 /),
    "14 BSON field 'createUser.pwd' is the wrong type 'bool', expected type 'string'",
    "40414 BSON field 'createUser.roles' is missing but a required field",
    '31 Could not find role: nope@admin',
    '2 mechanisms field must not be empty',
    "2 Unknown auth mechanism 'BAD'",
    '2 Cannot create users in the local database',
    "2 Cannot set the password for users defined on the '$external' database",
    '2 Must specify at least one field to update in updateUser',
    '11 User w@app not found',
    "11 User 'w@app' not found",
    '2 UserName must be either a string or an object',
    '2 UserName must contain a field named: db',
    '2 Cannot create roles with the same name as a built-in role',
    expect.stringMatching(/cannot be granted privileges that target other databases or the cluster$/),
    { ok: 1 },
    '51002 Role "r@app" already exists',
    expect.stringMatching(/^49 /),
    '49 root@admin is a built-in role and cannot be modified',
    '31 Role gone@admin not found',
    { n: 1 },
  ]);
  await server.stop();
});

test.concurrent('usersInfo shows users without their credentials unless asked', async () => {
  const server = await workshop.start(plain());
  const [, shown, secret, detailed] = await as(
    server,
    {},
    { createUser: 'u', pwd: 'x', roles: ['read'], customData: { a: 1 }, $db: 'app' },
    { usersInfo: 'u', $db: 'app' },
    { usersInfo: 'u', showCredentials: true, $db: 'app' },
    { usersInfo: 'u', showPrivileges: true, $db: 'app' },
  );
  expect((shown as { users: Document[] }).users).toEqual([
    {
      _id: 'app.u',
      userId: expect.anything(),
      user: 'u',
      db: 'app',
      customData: { a: 1 },
      roles: [{ role: 'read', db: 'app' }],
      mechanisms: ['SCRAM-SHA-1', 'SCRAM-SHA-256'],
    },
  ]);
  expect(secret).toMatchObject({
    users: [{ credentials: { 'SCRAM-SHA-256': { iterationCount: 15000, salt: expect.any(String) } } }],
  });
  expect(detailed).toMatchObject({
    users: [
      {
        inheritedRoles: [{ role: 'read', db: 'app' }],
        inheritedPrivileges: expect.arrayContaining([
          { resource: { db: 'app', collection: '' }, actions: expect.arrayContaining(['find']) },
        ]),
      },
    ],
  });
  await server.stop();
});

test.concurrent('authenticationRestrictions keep a user away from the wrong address', async () => {
  const server = await workshop.start(plain('--auth'));
  await as(server, {}, { createUser: 'root', pwd: PASSWORD, roles: ['root'] });
  await as(
    server,
    ADMIN,
    {
      createUser: 'near',
      pwd: 'x',
      roles: [],
      authenticationRestrictions: [{ clientSource: ['127.0.0.0/8', '::1'] }],
    },
    {
      createUser: 'far',
      pwd: 'x',
      roles: [],
      authenticationRestrictions: [{ clientSource: ['10.0.0.0/8'] }],
    },
  );
  expect(await as(server, user('near', 'x'), { connectionStatus: 1 })).toMatchObject([{ ok: 1 }]);
  await expect(as(server, user('far', 'x'), { connectionStatus: 1 })).rejects.toMatchObject({ code: 18 });
  await server.stop();
});

test.concurrent.each([
  ['disabled', true, false],
  ['allowTLS', true, true],
  ['preferTLS', true, true],
  ['requireTLS', false, true],
])('tlsMode %s: plain %s, TLS %s, on one port', async (mode, plainWorks, tlsWorks) => {
  const args = mode === 'disabled' ? plain() : withTls(mode, '--tlsAllowConnectionsWithoutCertificates');
  const server = await workshop.start(args);
  // What must fail shows that soon; what must work may take its time on a busy machine.
  const works = (options: MongoClientOptions, expected: boolean): Promise<boolean> =>
    as(server, { ...(expected ? {} : SOON), ...options }, { ping: 1 }).then(
      () => true,
      () => false,
    );
  expect([await works({}, plainWorks), await works(clientTls(), tlsWorks)]).toEqual([plainWorks, tlsWorks]);
  expect(server.log().find((line) => line.id === 23016)?.attr).toMatchObject({
    ssl: mode === 'disabled' ? 'off' : 'on',
  });
  await server.stop();
});

test.concurrent('with a CA a client certificate is demanded, and must be one of that CA', async () => {
  const server = await workshop.start(withTls('requireTLS'));
  await expect(as(server, { ...clientTls(), ...SOON }, { ping: 1 })).rejects.toThrow();
  await expect(as(server, { ...clientTls(file.stranger), ...SOON }, { ping: 1 })).rejects.toThrow();
  expect(await as(server, clientTls(file.alice), { ping: 1 })).toMatchObject([{ ok: 1 }]);
  expect(server.log().some((line) => line.id === 23255)).toBe(true);
  await server.stop();
});

test.concurrent('X.509 logs users in by their subject and members by theirs', async () => {
  const server = await workshop.start(
    withTls('requireTLS', '--clusterAuthMode', 'x509', '--tlsAllowConnectionsWithoutCertificates'),
  );
  await as(server, clientTls(), { createUser: 'root', pwd: PASSWORD, roles: ['root'] });
  const subject = 'CN=alice,OU=people,O=Users';
  const [made, refused] = await as(
    server,
    { ...clientTls(), ...ADMIN },
    { createUser: subject, roles: [{ role: 'read', db: 'app' }], $db: '$external' },
    { createUser: 'CN=x,OU=members,O=Belay', roles: [], $db: '$external' },
  );
  expect(made).toMatchObject({ ok: 1 });
  expect(refused).toMatch(/^2 Cannot create an x.509 user with a subjectname that would be recognized/);
  const x509 = (certificate?: string): MongoClientOptions => ({
    ...clientTls(certificate),
    authMechanism: 'MONGODB-X509',
    authSource: '$external',
  });
  expect(await as(server, x509(file.alice), { connectionStatus: 1 }, { serverStatus: 1 })).toMatchObject([
    { authInfo: { authenticatedUsers: [{ user: subject, db: '$external' }] } },
    expect.stringMatching(/^13 /),
  ]);
  expect(await as(server, x509(file.member), { connectionStatus: 1 }, { serverStatus: 1 })).toMatchObject([
    { authInfo: { authenticatedUsers: [{ user: '__system', db: '$external' }] } },
    { ok: 1 },
  ]);
  await expect(as(server, x509(), { ping: 1 })).rejects.toMatchObject({ code: 18 });
  await server.stop();
});

test.concurrent('a member logs in with the key file on the local database', async () => {
  const server = await workshop.start(plain('--keyFile', key));
  expect(
    await as(server, user('__system', 'c2VjcmV0S2V5', undefined, 'local'), { serverStatus: 1 }),
  ).toMatchObject([{ ok: 1 }]);
  await expect(as(server, user('__system', 'wrong', undefined, 'local'), { ping: 1 })).rejects.toMatchObject({
    code: 18,
  });
  await server.stop();
});

test.concurrent('TLS mode and cluster authentication go up by steps while running, never back', async () => {
  const server = await workshop.start(
    withTls(
      'allowTLS',
      '--keyFile',
      key,
      '--clusterAuthMode',
      'sendKeyFile',
      '--tlsAllowConnectionsWithoutCertificates',
    ),
  );
  await as(server, {}, { createUser: 'root', pwd: PASSWORD, roles: ['root'] });
  const set = (name: string, value: string): Document => ({ setParameter: 1, [name]: value });
  const replies = await as(
    server,
    ADMIN,
    set('tlsMode', 'requireTLS'),
    set('clusterAuthMode', 'sendX509'),
    set('tlsMode', 'preferTLS'),
    set('clusterAuthMode', 'x509'),
    set('clusterAuthMode', 'sendX509'),
    set('tlsMode', 'requireTLS'),
    set('clusterAuthMode', 'x509'),
    set('tlsMode', 'allowTLS'),
    { getParameter: 1, tlsMode: 1, clusterAuthMode: 1 },
  );
  expect(replies).toMatchObject([
    '2 Illegal state transition for tlsMode, attempt to change from allowTLS to requireTLS',
    '2 Illegal state transition for clusterAuthMode, need to enable SSL for outgoing connections',
    { was: 'allowTLS' },
    "5579202 Illegal state transition for clusterAuthMode from 'sendKeyFile' to 'x509'",
    { was: 'sendKeyFile' },
    { was: 'preferTLS' },
    { was: 'sendX509' },
    '2 Illegal state transition for tlsMode, attempt to change from requireTLS to allowTLS',
    { tlsMode: 'requireTLS', clusterAuthMode: 'x509' },
  ]);
  await expect(as(server, { ...ADMIN, ...SOON }, { ping: 1 })).rejects.toThrow();
  await server.stop();
});

test.concurrent('rotateCertificates serves the new certificate, and keeps the old one when the new is bad', async () => {
  const rotated = workshop.path('rotated.pem');
  const ca = await TestCa.create('CN=Rotation');
  const caFile = workshop.path('rotation-ca.pem');
  writeFileSync(caFile, ca.pem);
  await ca.issue(rotated, 'CN=localhost', 5);
  const server = await workshop.start(
    plain(
      '--tlsMode',
      'requireTLS',
      '--tlsCertificateKeyFile',
      rotated,
      '--tlsCAFile',
      caFile,
      '--tlsAllowConnectionsWithoutCertificates',
    ),
  );
  const tls = { tls: true, tlsCAFile: caFile };
  const expiry = async (): Promise<Date> =>
    ((await as(server, tls, { serverStatus: 1 }))[0] as Document)['security']
      .SSLServerCertificateExpirationDate as Date;
  const before = await expiry();
  writeFileSync(rotated, 'rubbish');
  expect(await as(server, tls, { rotateCertificates: 1 })).toEqual([expect.stringMatching(/^140 /)]);
  expect(await expiry()).toEqual(before);
  await ca.issue(rotated, 'CN=localhost', 9);
  expect(await as(server, tls, { rotateCertificates: 1, message: 'yearly' })).toMatchObject([{ ok: 1 }]);
  expect((await expiry()).getTime()).toBeGreaterThan(before.getTime());
  await server.stop();
});

test.concurrent('certificate files that can not be used end the start with 1', async () => {
  const bad = workshop.path('bad.pem');
  writeFileSync(bad, 'rubbish');
  for (const certificate of [bad, workshop.path('absent.pem'), file.expired]) {
    const { code, stdout } = await workshop.run(
      plain('--tlsMode', 'requireTLS', '--tlsCertificateKeyFile', certificate, '--tlsCAFile', file.ca),
    );
    expect(code).toBe(1);
    expect(stdout).toContain('InvalidSSLConfiguration');
  }
});
