import { afterEach, expect, test } from 'vitest';
import { HOUR, SECOND } from '../base/units.ts';
import { systemPasswordSecret } from '../provider/names.ts';
import { type ApiRig, app as appUser, CA_PEM, host, makeApi, ORDERS, orders } from './testing/rig.ts';

const opened: ApiRig[] = [];
afterEach(async () => {
  for (const rig of opened.splice(0)) await rig.close();
});
async function api(...args: Parameters<typeof makeApi>): Promise<ApiRig> {
  const rig = await makeApi(...args);
  opened.push(rig);
  return rig;
}
const CANARY = 'canary-4711 !@:/%';
const secretDocument = (values: Record<string, string>, name = 'app-password') => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name },
  stringData: values,
});

// ── who may do what ────────────────────────────────────────────────────────────────────────────────────────────────

test('without a token, with an unknown or an expired one: 401 that says how to get one', async () => {
  const { call, tokens, clock } = await api();
  const none = await call('GET', '/api/v1/mongodb', { as: null });
  expect(none).toMatchObject({
    status: 401,
    body: { code: 'Unauthorized', fix: expect.stringContaining('--token') },
  });
  expect(none.headers['www-authenticate']).toContain('Bearer');
  const wrong = await call('GET', '/api/v1/mongodb', {
    token: `belay_api_${'0'.repeat(16)}.${'a'.repeat(43)}`,
  });
  expect(wrong).toMatchObject({ status: 401, body: { code: 'TokenUnknown' } });
  const short = await tokens.createApiToken({ name: 'short', role: 'admin', validFor: HOUR });
  const token = short.token.reveal();
  expect((await call('GET', '/api/v1/mongodb', { token })).status).toBe(200);
  await clock.advance(HOUR + SECOND);
  const late = await call('GET', '/api/v1/mongodb', { token });
  expect(late).toMatchObject({
    status: 401,
    body: { code: 'TokenExpired', fix: expect.stringContaining('belay token create') },
  });
});

test('every route asks for the role that its description names', async () => {
  const { call } = await api();
  const { body } = await call('GET', '/openapi.json', { as: null });
  const weaker = { viewer: null, operator: 'viewer', admin: 'operator' } as const;
  let checked = 0;
  for (const [path, item] of Object.entries<
    Record<string, { 'x-belay-role': 'viewer' | 'operator' | 'admin' | 'anyone' }>
  >(body.paths)) {
    for (const [method, { 'x-belay-role': role }] of Object.entries(item)) {
      if (role === 'anyone') continue;
      const url = path.replace('{ns}', 'default').replace(/\{\w+\}/g, 'x');
      const answer = await call(method.toUpperCase(), url, { as: weaker[role] });
      expect({ method, path, status: answer.status }).toEqual({
        method,
        path,
        status: role === 'viewer' ? 401 : 403,
      });
      checked++;
    }
  }
  expect(checked).toBeGreaterThan(80);
});

test('a viewer looks and tries out, an operator changes, passwords and tokens are for admins', async () => {
  const { call } = await api();
  const refused = await call('PUT', ORDERS, { body: orders(), as: 'viewer' });
  expect(refused).toMatchObject({
    status: 403,
    body: { code: 'Forbidden', fix: expect.stringContaining('--role operator') },
  });
  expect((await call('PUT', `${ORDERS}?dryRun=validate`, { body: orders(), as: 'viewer' })).status).toBe(200);
  expect((await call('GET', ORDERS, { as: 'viewer' })).status).toBe(404);
  expect((await call('PUT', ORDERS, { body: orders(), as: 'operator' })).status).toBe(201);
  expect((await call('DELETE', `${ORDERS}?dryRun=validate`, { as: 'viewer' })).status).toBe(403);
  const password = await call('POST', `${ORDERS}/connection`, { body: { user: 'backup' }, as: 'operator' });
  expect(password).toMatchObject({
    status: 403,
    body: { detail: expect.stringContaining('admin is needed') },
  });
  expect((await call('GET', '/api/v1/whoami', { as: 'viewer' })).body).toMatchObject({
    name: 'the viewer',
    role: 'viewer',
  });
});

// ── tokens ─────────────────────────────────────────────────────────────────────────────────────────────────────────

test('tokens are made, listed without their secrets, and revoked', async () => {
  const { call } = await api();
  const made = await call('POST', '/api/v1/tokens', {
    body: { name: 'ci', role: 'operator', ttlSeconds: 60 },
  });
  expect(made.body).toEqual({
    id: expect.any(String),
    token: expect.stringMatching(/^belay_api_/),
    expiresAt: expect.any(String),
  });
  expect(made.headers['cache-control']).toBe('no-store');
  const list = await call('GET', '/api/v1/tokens');
  expect(list.text).not.toContain(made.body.token.split('.')[1]);
  expect(list.body.items).toContainEqual(
    expect.objectContaining({ id: made.body.id, name: 'ci', role: 'operator' }),
  );
  expect((await call('GET', '/api/v1/whoami', { token: made.body.token })).status).toBe(200);
  expect((await call('DELETE', `/api/v1/tokens/${made.body.id}`)).status).toBe(204);
  expect((await call('GET', '/api/v1/whoami', { token: made.body.token })).status).toBe(401);
  expect((await call('DELETE', `/api/v1/tokens/${made.body.id}`)).status).toBe(404);
});

test.each([
  ['/api/v1/tokens', {}, ['name', 'role']],
  ['/api/v1/tokens', { name: '', role: 'king' }, ['name', 'role']],
  ['/api/v1/tokens', { name: 'a', role: 'viewer', ttl: 60 }, ['ttl']],
  ['/api/v1/tokens', { name: 'a', role: 'viewer', ttlSeconds: 1e300 }, ['ttlSeconds']],
  ['/api/v1/tokens', { name: 'a', role: 'viewer', ttlSeconds: -1 }, ['ttlSeconds']],
  ['/api/v1/join-tokens', { host: { a: 1 } }, ['host']],
  ['/api/v1/join-tokens', { host: 'No Host' }, ['host']],
  ['/api/v1/join-tokens', { ttlSeconds: 31 * 24 * 3600 }, ['ttlSeconds']],
  ['/api/v1/join-tokens', [], ['']],
  [`${ORDERS}/connection`, {}, ['user']],
  [`${ORDERS}/connection`, { user: 7 }, ['user']],
])('%s refuses %j and names %j', async (url, body, paths) => {
  const { call } = await api();
  const answer = await call('POST', url, { body });
  expect({ status: answer.status, paths: answer.body.errors?.map((e: { path: string }) => e.path) }).toEqual({
    status: 422,
    paths,
  });
});

test('a join token comes with what the agent needs', async () => {
  const { call, tokens } = await api();
  const { body } = await call('POST', '/api/v1/join-tokens', { body: { host: 'db7' } });
  expect(body).toMatchObject({
    urls: ['https://plane:7718'],
    caFingerprint: 'sha256:00',
    token: expect.stringMatching(/^belay_join_/),
  });
  await expect(tokens.useJoinToken(body.token, 'db8')).rejects.toMatchObject({ code: 'TokenForOtherHost' });
  await tokens.useJoinToken(body.token, 'db7');
  expect((await call('POST', '/api/v1/join-tokens')).status).toBe(200);
});

// ── secrets ────────────────────────────────────────────────────────────────────────────────────────────────────────

test('S8 a v1 Secret is sealed; only its name and keys are ever shown; keys that are gone from the document go', async () => {
  const { call, control, store } = await api();
  const apply = async (values: Record<string, string>) =>
    (await call('POST', '/api/v1/apply', { body: secretDocument(values), as: 'operator' })).body.outcome;
  expect(await apply({ password: CANARY, pass: 'x', passwordOld: 'y' })).toBe('created');
  const writes = store.writes;
  expect(await apply({ password: CANARY, pass: 'x', passwordOld: 'y' })).toBe('unchanged');
  expect(store.writes).toBe(writes);
  expect(await apply({ password: CANARY, passwordOld: 'y' })).toBe('configured');
  const path = '/api/v1/namespaces/default/secrets/app-password';
  const read = await call('GET', path);
  expect(read.body).toMatchObject({ kind: 'Secret', spec: { keys: ['password', 'passwordOld'] } });
  expect((await control.secrets.get('users/default/app-password/password'))?.reveal()).toBe(CANARY);
  const lists = [
    await call('GET', '/api/v1/secrets'),
    await call('GET', '/api/v1/namespaces/default/secrets'),
  ];
  expect(lists.map((list) => list.body.items.length)).toEqual([1, 1]);
  expect((await call('GET', '/api/v1/namespaces/prod/secrets')).body.items).toEqual([]);
  const put = await call('PUT', path, { body: secretDocument({ password: CANARY, passwordOld: 'y' }) });
  for (const answer of [read, ...lists, put])
    expect(JSON.stringify(answer.body)).not.toMatch(new RegExp(`${CANARY}|${btoa(CANARY)}|"data"`));
  expect((await call('PUT', path, { body: secretDocument({ password: 'new' }) })).status).toBe(200);
  expect((await call('PUT', path, { body: secretDocument({ a: 'b' }, 'other') })).status).toBe(400);
  expect((await call('DELETE', path)).status).toBe(204);
  expect((await call('DELETE', path)).status).toBe(404);
});

test('names in a Secret cannot lead out of its own place', async () => {
  const { call } = await api();
  const refused = async (body: unknown) =>
    (await call('POST', '/api/v1/apply', { body })).body.errors?.[0]?.path;
  expect(await refused(secretDocument({ '.owner': 'x' }))).toBe('stringData..owner');
  expect(await refused(secretDocument({ 'a/b': 'x' }))).toBe('stringData.a/b');
  expect(await refused(secretDocument({}))).toBe('stringData');
  expect(await refused({ ...secretDocument({ a: 'x' }), metadata: { name: 'a', namespace: '../x' } })).toBe(
    'metadata.namespace',
  );
  expect((await call('GET', '/api/v1/secrets')).body.items).toEqual([]);
});

// ── passwords ──────────────────────────────────────────────────────────────────────────────────────────────────────

test('URI-02 CRD-03 S8 passwords come out of one place only, encoded once', async () => {
  const { call, clock, control, lines, store } = await api();
  const answers: string[] = [];
  const ask = async (...args: Parameters<typeof call>) => {
    const answer = await call(...args);
    answers.push(answer.text, JSON.stringify(answer.headers));
    return answer;
  };
  await ask('POST', '/api/v1/apply', { body: secretDocument({ password: CANARY }) });
  await ask('PUT', ORDERS, { body: orders() });
  const passwordSecretKeyRef = { name: 'app-password', key: 'password' };
  await ask('POST', '/api/v1/apply', { body: appUser({ passwordSecretKeyRef }) });
  await clock.advance(10 * SECOND);
  for (const url of ['', '/status', '/events', '/operations', '/connection'])
    await ask('GET', `${ORDERS}${url}`);
  const user = await ask('GET', '/api/v1/namespaces/default/mongodbusers/orders-app');
  expect(user.body.status.phase).toBe('Ready');
  for (const url of [
    '/api/v1/mongodbusers',
    '/api/v1/secrets',
    '/api/v1/events',
    '/api/v1/tokens',
    '/metrics',
    '/api/v1/hosts',
    '/api/v1/namespaces/default/secrets/orders-app-connection',
  ])
    await ask('GET', url);
  await ask('POST', '/api/v1/apply?dryRun=plan', { body: orders({ suspend: true }) });
  const uid = (await call('GET', ORDERS)).body.metadata.uid;
  const hidden = [CANARY, encodeURIComponent(CANARY)];
  for (const name of ['userAdmin', 'backup', 'clusterMonitor']) {
    const password = await control.secrets.get(systemPasswordSecret(uid, name));
    hidden.push(password?.reveal() ?? 'missing');
  }
  const shown = [...answers, ...lines].join('\n');
  for (const value of hidden) {
    expect(value).not.toBe('missing');
    expect(shown).not.toContain(value);
  }
  const asked = await call('POST', `${ORDERS}/connection`, { body: { user: 'orders-app' } });
  expect(asked.headers['cache-control']).toBe('no-store');
  expect(asked.body).toMatchObject({ username: 'app', password: CANARY, tls: true, caPem: CA_PEM });
  const uri = asked.body.connectionString as string;
  expect(uri).not.toContain('+');
  const parsed = /^mongodb:\/\/([^:@/]+):([^@/:]+)@/.exec(uri);
  expect(decodeURIComponent(parsed?.[2] ?? '')).toBe(CANARY);
  expect((await call('POST', `${ORDERS}/connection`, { body: { user: 'app' } })).body.username).toBe('app');
  const system = await call('POST', `${ORDERS}/connection`, { body: { user: 'clusterMonitor' } });
  expect(system.body.connectionString).toContain('authSource=admin');
  const nobody = await call('POST', `${ORDERS}/connection`, { body: { user: 'nobody' } });
  expect(nobody).toMatchObject({ status: 404, body: { fix: expect.stringContaining('orders-app') } });
  expect(store.writes).toBeGreaterThan(0);
});

test('S8 a user of a database of that name in another namespace is not a user of this one', async () => {
  const { call, clock } = await api();
  await call('PUT', ORDERS, { body: orders() });
  await clock.advance(10 * SECOND);
  const stranger = appUser({ mongodbResourceRef: { name: 'orders', namespace: 'prod' } });
  expect((await call('POST', '/api/v1/apply', { body: stranger })).status).toBe(200);
  for (const user of ['orders-app', 'app']) {
    const asked = await call('POST', `${ORDERS}/connection`, { body: { user } });
    expect([asked.status, asked.body.code], user).toEqual([404, 'NotFound']);
  }
});

test('a connection before there is an address is refused as not ready, with what to wait for', async () => {
  const { call } = await api(undefined, []);
  await call('PUT', ORDERS, { body: orders() });
  const answer = await call('GET', `${ORDERS}/connection`);
  expect(answer).toMatchObject({
    status: 409,
    body: { code: 'NotReady', fix: 'wait for it: belay wait mongodb orders --for Ready' },
  });
});

test("a secret with a user's connection strings can be neither overwritten nor deleted by hand", async () => {
  const { call, clock } = await api();
  await call('PUT', ORDERS, { body: orders() });
  await call('POST', '/api/v1/apply', { body: appUser({ connectionStringSecretName: 'orders-conn' }) });
  await clock.advance(10 * SECOND);
  const path = '/api/v1/namespaces/default/secrets/orders-conn';
  const read = await call('GET', path);
  expect(read.body.spec.keys).toEqual(
    expect.arrayContaining(['username', 'password', 'connectionString.standard']),
  );
  expect(read.body.spec.keys).not.toContain('.owner');
  const refused = await call('DELETE', path);
  expect(refused).toMatchObject({
    status: 409,
    body: { code: 'Refused', fix: expect.stringContaining('passwordSecretKeyRef') },
  });
  const body = secretDocument({ password: 'mine' }, 'orders-conn');
  expect((await call('POST', '/api/v1/apply', { body })).status).toBe(409);
});

// ── users and hosts ────────────────────────────────────────────────────────────────────────────────────────────────

test('USR-11 a user before its database and its password: Pending with the reason, then Ready by itself', async () => {
  const { call, clock, control } = await api();
  const passwordSecretKeyRef = { name: 'app-password', key: 'password' };
  await call('POST', '/api/v1/apply', { body: appUser({ passwordSecretKeyRef }) });
  const status = async () =>
    (await call('GET', '/api/v1/namespaces/default/mongodbusers/orders-app/status')).body;
  await clock.advance(2 * SECOND);
  expect(await status()).toMatchObject({ phase: 'Pending', message: expect.stringContaining('orders') });
  await call('PUT', ORDERS, { body: orders() });
  await clock.advance(10 * SECOND);
  expect(await status()).toMatchObject({
    phase: 'Pending',
    message: expect.stringContaining('app-password'),
  });
  await call('POST', '/api/v1/apply', { body: secretDocument({ password: CANARY }) });
  control.provider.secretChanged('users/default/app-password/');
  await clock.advance(5 * SECOND);
  expect(await status()).toMatchObject({ phase: 'Ready' });
});

test('one name in two namespaces is two databases', async () => {
  const { call, clock, fleet } = await api();
  await call('PUT', ORDERS, { body: orders() });
  const other = '/api/v1/namespaces/prod/mongodb/orders';
  expect((await call('PUT', other, { body: orders() })).status).toBe(201);
  await clock.advance(10 * SECOND);
  const [a, b] = [await call('GET', ORDERS), await call('GET', other)];
  expect([a.body.status.phase, b.body.status.phase]).toEqual(['Ready', 'Ready']);
  expect(a.body.status.connectionString).not.toBe(b.body.status.connectionString);
  expect(fleet.runtimes).toHaveLength(6);
  expect((await call('GET', '/api/v1/namespaces/prod/mongodb')).body.items).toHaveLength(1);
  expect((await call('GET', '/api/v1/mongodb')).body.items).toHaveLength(2);
});

test('a host that carries members is not deleted, and says which; a host without can go', async () => {
  const { call, clock, fleet } = await api();
  for (const name of ['db1', 'db2', 'db3']) await call('PUT', `/api/v1/hosts/${name}`, { body: host(name) });
  await call('PUT', ORDERS, { body: orders() });
  await clock.advance(5 * SECOND);
  const seen = await call('GET', '/api/v1/hosts/db1');
  expect(seen.body.status).toMatchObject({ connected: true, phase: 'Ready', members: ['default/orders-0'] });
  const refused = await call('DELETE', '/api/v1/hosts/db1');
  expect(refused).toMatchObject({
    status: 409,
    body: { code: 'Refused', detail: expect.stringContaining('default/orders-0') },
  });
  await call('DELETE', `${ORDERS}?keepVolumes=true`);
  await clock.advance(10 * SECOND);
  expect((await call('DELETE', '/api/v1/hosts/db1')).status).toBe(409);
  await call('DELETE', ORDERS);
  await clock.advance(10 * SECOND);
  expect((await call('DELETE', '/api/v1/hosts/db1')).status).toBe(204);
  fleet.addHost('db9');
  await call('PUT', '/api/v1/hosts/db9', { body: host('db9', { unschedulable: true }) });
  expect((await call('GET', '/api/v1/namespaces/any/hosts/db9')).body.spec.unschedulable).toBe(true);
  expect((await call('DELETE', '/api/v1/hosts/db9')).status).toBe(204);
});

// ── deletion ───────────────────────────────────────────────────────────────────────────────────────────────────────

test('an object that is being deleted refuses changes; when it is gone the name is free', async () => {
  const { call, clock, fleet } = await api();
  await call('PUT', ORDERS, { body: orders() });
  await clock.advance(5 * SECOND);
  fleet.connect('db1', false);
  const marked = await call('DELETE', ORDERS);
  expect(marked).toMatchObject({
    status: 202,
    body: { metadata: { deletionTimestamp: expect.any(String) } },
  });
  const refused = await call('PUT', ORDERS, { body: orders({ storage: { size: '20Gi' } }) });
  expect(refused).toMatchObject({
    status: 422,
    body: { errors: [{ path: 'metadata.name', message: expect.stringContaining('--for delete') }] },
  });
  expect((await call('DELETE', ORDERS)).status).toBe(202);
  expect((await call('DELETE', `${ORDERS}?keepVolumes=true`)).status).toBe(409);
  fleet.connect('db1', true);
  await clock.advance(60 * SECOND);
  expect((await call('GET', ORDERS)).status).toBe(404);
  expect((await call('PUT', ORDERS, { body: orders() })).status).toBe(201);
});

test('A14.2 keepVolumes suspends; the same document brings the same data and credentials back', async () => {
  const { call, clock, control, fleet, store } = await api();
  await call('PUT', ORDERS, { body: orders() });
  await clock.advance(5 * SECOND);
  const before = (await call('GET', ORDERS)).body;
  const password = async () =>
    (await control.secrets.get(systemPasswordSecret(before.metadata.uid, 'backup')))?.reveal();
  const kept = await password();
  const volumes = fleet.volumes.map((v) => v.id).sort();
  expect((await call('DELETE', `${ORDERS}?keepVolumes=maybe`)).status).toBe(400);
  expect((await call('DELETE', `${ORDERS}?keepVolumes=true`)).status).toBe(202);
  await clock.advance(10 * SECOND);
  const asleep = (await call('GET', ORDERS)).body;
  expect(asleep.status.phase).toBe('Suspended');
  expect(asleep.metadata.annotations).toHaveProperty(['belay.dev/kept-by-delete']);
  expect(fleet.runtimes).toEqual([]);
  expect((await call('POST', '/api/v1/apply', { body: orders() })).body.outcome).toBe('configured');
  await clock.advance(20 * SECOND);
  const after = (await call('GET', ORDERS)).body;
  expect(after.status.phase).toBe('Ready');
  expect(after.metadata.annotations ?? {}).not.toHaveProperty(['belay.dev/kept-by-delete']);
  expect(fleet.volumes.map((v) => v.id).sort()).toEqual(volumes);
  expect(await password()).toBe(kept);
  expect(await store.get({ kind: 'MongoDB', namespace: 'default', name: 'orders' })).not.toBeNull();
  expect((await call('DELETE', '/api/v1/hosts/db1?keepVolumes=true')).status).toBe(400);
});

test('changes are recorded with who made them, without their content', async () => {
  const { call, lines } = await api();
  await call('POST', '/api/v1/apply', { body: secretDocument({ password: CANARY }), as: 'operator' });
  await call('PUT', ORDERS, { body: orders(), as: 'viewer' });
  const requests = lines.filter((line) => line.startsWith('request '));
  expect(requests).toEqual([
    expect.stringMatching(/"who":"the operator","method":"POST","path":"\/api\/v1\/apply","status":200/),
    expect.stringMatching(/"who":"the viewer","method":"PUT","path":"[^"]*orders","status":403/),
  ]);
});

test('INI-06 a member that belongs to another set by now is in nobody’s connection string', async () => {
  const { call, clock, fleet } = await api();
  await call('POST', '/api/v1/apply', { body: orders() });
  await clock.advance(5 * SECOND);
  const stray = fleet.runtimes[0];
  if (stray === undefined) throw new Error('no member');
  stray.volume.data.replicaSetId = 'ffffffffffffffffffffffff';
  for (const { hostname } of fleet.runtimes) fleet.power(hostname, true);
  await clock.advance(5 * SECOND);
  const shown = async (method: 'GET' | 'POST', body?: unknown): Promise<string> =>
    (await call(method, `${ORDERS}/connection`, body === undefined ? {} : { body })).body.connectionString;
  expect(await shown('GET')).toMatch(/^mongodb:\/\/db2:\d+,db3:\d+\//);
  expect(await shown('POST', { user: 'clusterAdmin' })).toMatch(/@db2:\d+,db3:\d+\//);
});
