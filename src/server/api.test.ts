import { readFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { parseDocuments } from '../model/index.ts';
import { type ApiRig, app as appUser, host, makeApi, ORDERS, orders } from './testing/rig.ts';

const opened: ApiRig[] = [];
afterEach(async () => {
  for (const rig of opened.splice(0)) await rig.close();
});
async function api(...args: Parameters<typeof makeApi>): Promise<ApiRig> {
  const rig = await makeApi(...args);
  opened.push(rig);
  return rig;
}

// ── create, read, list ─────────────────────────────────────────────────────────────────────────────────────────────

test('a document is created, read with its ETag, and listed', async () => {
  const { call } = await api();
  const made = await call('POST', '/api/v1/namespaces/default/mongodb', { body: orders() });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({
    apiVersion: 'belay.dev/v1',
    kind: 'MongoDB',
    metadata: { name: 'orders', namespace: 'default', generation: 1, finalizers: ['belay.dev/cluster'] },
    spec: { members: 3, version: '8.0.32-14' },
  });
  const read = await call('GET', ORDERS, { as: 'viewer' });
  expect(read.headers['etag']).toBe(`"${read.body.metadata.resourceVersion}"`);
  const again = await call('GET', ORDERS, { headers: { 'if-none-match': String(read.headers['etag']) } });
  expect(again.status).toBe(304);
  const list = await call('GET', '/api/v1/mongodb');
  expect(list.body).toMatchObject({ kind: 'MongoDBList', items: [{ metadata: { name: 'orders' } }] });
  expect((await call('GET', `${ORDERS}/status`)).status).toBe(200);
  expect((await call('HEAD', ORDERS)).status).toBe(200);
});

test('lists come in pages that together hold everything once, and are selected by label and by name', async () => {
  const { call } = await api();
  for (let i = 0; i < 5; i++) {
    const body = orders({}, { name: `set-${i}`, labels: { tier: i < 2 ? 'gold' : 'tin' } });
    expect((await call('POST', '/api/v1/apply', { body })).body.outcome).toBe('created');
  }
  const names: string[] = [];
  let next: string | undefined;
  let pages = 0;
  do {
    const url = `/api/v1/namespaces/default/mongodb?limit=2${next ? `&continue=${next}` : ''}`;
    const { body } = await call('GET', url);
    names.push(...body.items.map((o: { metadata: { name: string } }) => o.metadata.name));
    next = body.metadata.continue;
    pages++;
  } while (next !== undefined);
  expect({ names, pages }).toEqual({ names: ['set-0', 'set-1', 'set-2', 'set-3', 'set-4'], pages: 3 });
  const gold = await call('GET', '/api/v1/mongodb?labelSelector=tier%20in%20(gold)');
  expect(gold.body.items).toHaveLength(2);
  const one = await call('GET', '/api/v1/namespaces/default/mongodb?fieldSelector=metadata.name%3Dset-3');
  expect(one.body.items.map((o: { metadata: { name: string } }) => o.metadata.name)).toEqual(['set-3']);
});

test.each([
  ['/api/v1/mongodb?limit=0', 'Malformed'],
  ['/api/v1/mongodb?limit=ten', 'Malformed'],
  ['/api/v1/mongodb?limit=1&limit=2', 'Malformed'],
  ['/api/v1/mongodb?watch=yes', 'Malformed'],
  ['/api/v1/mongodb?labelSelector=%3D%3D', 'InvalidSelector'],
  ['/api/v1/mongodb?fieldSelector=status.phase%3DReady', 'InvalidSelector'],
  ['/api/v1/mongodb?continue=nonsense', 'InvalidContinue'],
  ['/api/v1/mongodb?labelselector=a', 'Malformed'],
  [`${ORDERS}/events?limit=-1`, 'NotFound'],
])('%s is refused with %s', async (url, code) => {
  const { call } = await api();
  const answer = await call('GET', url);
  expect(answer.type).toContain('application/problem+json');
  expect(answer.body.code).toBe(code);
  expect(answer.status).toBe(code === 'NotFound' ? 404 : 400);
});

// ── changes and their conditions ───────────────────────────────────────────────────────────────────────────────────

test('PUT creates, then replaces; the same document again writes nothing', async () => {
  const { call, store } = await api();
  expect((await call('PUT', ORDERS, { body: orders() })).status).toBe(201);
  const writes = store.writes;
  const same = await call('PUT', ORDERS, { body: orders() });
  expect({ status: same.status, writes: store.writes }).toEqual({ status: 200, writes });
  expect((await call('POST', '/api/v1/apply', { body: orders() })).body.outcome).toBe('unchanged');
  expect(store.writes).toBe(writes);
  const changed = await call('PUT', ORDERS, { body: orders({ storage: { size: '20Gi' } }) });
  expect(changed.body.metadata.generation).toBe(2);
});

test('If-Match that does not hold is 412, a stale resourceVersion or uid in the document 409; each says how to go on', async () => {
  const { call } = await api();
  const path = '/api/v1/hosts/db9';
  const ports = (firstPort: number) => host('db9', { firstPort });
  const first = await call('PUT', path, { body: host() });
  const tag = String(first.headers['etag']);
  const good = await call('PUT', path, { body: ports(1000), headers: { 'if-match': tag } });
  expect(good.status).toBe(200);
  const stale = await call('PUT', path, { body: ports(2000), headers: { 'if-match': tag } });
  expect(stale.status).toBe(412);
  expect(stale.body).toMatchObject({
    code: 'PreconditionFailed',
    fix: expect.stringContaining('read it again'),
  });
  expect((await call('PUT', path, { body: ports(2000), headers: { 'if-match': '*' } })).status).toBe(200);
  const { resourceVersion, uid } = first.body.metadata;
  const old = await call('PUT', path, { body: host('db9', {}, { resourceVersion }) });
  expect(old).toMatchObject({ status: 409, body: { code: 'Conflict' } });
  const other = await call('PUT', path, { body: host('db9', {}, { uid: `${uid}x` }) });
  expect(other).toMatchObject({ status: 409, body: { detail: expect.stringContaining('another object') } });
  expect((await call('DELETE', path, { headers: { 'if-match': tag } })).status).toBe(412);
  expect((await call('PATCH', path, { ...patch({}), headers: { 'if-match': tag } })).status).toBe(412);
  const { body } = await call('GET', path);
  expect(body.spec.firstPort).toBe(2000);
});

const patch = (body: unknown) => ({ body, type: 'application/merge-patch+json' });

test('a condition on an object that is not there is refused and creates nothing', async () => {
  const { call } = await api();
  expect((await call('PUT', ORDERS, { body: orders(), headers: { 'if-match': '*' } })).status).toBe(412);
  expect((await call('PUT', ORDERS, { body: orders({}, { resourceVersion: '7' }) })).status).toBe(409);
  expect((await call('GET', ORDERS)).status).toBe(404);
  expect((await call('PUT', ORDERS, { body: orders(), headers: { 'if-none-match': '*' } })).status).toBe(201);
  expect((await call('PUT', ORDERS, { body: orders(), headers: { 'if-none-match': '*' } })).status).toBe(412);
  const twice = await call('POST', '/api/v1/namespaces/default/mongodb', { body: orders() });
  expect(twice).toMatchObject({ status: 409, body: { code: 'AlreadyExists' } });
});

test('a merge patch changes what it names and removes what it sets to null', async () => {
  const { call } = await api();
  await call('PUT', ORDERS, { body: orders({}, { labels: { a: '1', b: '2' } }) });
  const done = await call(
    'PATCH',
    ORDERS,
    patch({ metadata: { labels: { a: null } }, spec: { storage: { size: '20Gi' } } }),
  );
  expect(done.body).toMatchObject({
    metadata: { labels: { b: '2' }, generation: 2 },
    spec: { storage: { size: '20Gi' } },
  });
  expect(done.body.metadata.labels).toEqual({ b: '2' });
  expect((await call('PATCH', ORDERS, patch({ metadata: { name: 'other' } }))).status).toBe(400);
  expect((await call('PATCH', ORDERS, patch([1]))).status).toBe(400);
  const wrong = await call('PATCH', ORDERS, patch({ spec: { members: 4, colour: 'red' } }));
  expect(wrong.status).toBe(422);
  expect(wrong.body.errors.map((e: { path: string }) => e.path)).toEqual(
    expect.arrayContaining(['spec.members', 'spec.colour']),
  );
  const other = await call('PATCH', ORDERS, { body: [], type: 'application/json-patch+json' });
  expect(other).toMatchObject({
    status: 415,
    body: { code: 'UnsupportedMediaType', fix: expect.any(String) },
  });
});

test('a change by somebody else in between is looked at again, not reported', async () => {
  let meddle = 3;
  const { call, store } = await api(({ store }) => ({
    store: new Proxy(store, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof value !== 'function') return value;
        if (name !== 'update') return value.bind(target);
        return async (...args: Parameters<typeof store.update>) => {
          if (meddle-- > 0) await target.update(args[0], { labels: { touched: String(meddle) } });
          return target.update(...args);
        };
      },
    }),
  }));
  await call('PUT', ORDERS, { body: orders() });
  expect((await call('PUT', ORDERS, { body: orders({ storage: { size: '20Gi' } }) })).status).toBe(200);
  meddle = 1;
  expect((await call('PATCH', ORDERS, patch({ spec: { storage: { size: '30Gi' } } }))).status).toBe(200);
  const object = await store.get({ kind: 'MongoDB', namespace: 'default', name: 'orders' });
  expect(object).toMatchObject({
    spec: { storage: { size: '30Gi' } },
    metadata: { labels: { touched: '0' } },
  });
});

test('the path and the document must agree in kind, namespace and name', async () => {
  const { call } = await api();
  for (const body of [
    orders({}, { name: 'other' }),
    orders({}, { namespace: 'prod' }),
    appUser({}, { name: 'orders' }),
    { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'orders' }, stringData: { a: 'b' } },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'orders' } },
  ]) {
    expect(await call('PUT', ORDERS, { body })).toMatchObject({ status: 400, body: { code: 'Malformed' } });
  }
  expect((await call('GET', '/api/v1/secrets')).body.items).toEqual([]);
});

// ── validation ─────────────────────────────────────────────────────────────────────────────────────────────────────

test('B1.4 twenty mistakes: every one at once with its path, and nothing is written', async () => {
  const file = new URL('../model/testing/twenty-mistakes.yaml', import.meta.url);
  const [document] = parseDocuments(readFileSync(file, 'utf8'), 'bad.yaml').documents;
  const { call, store } = await api();
  const writes = store.writes;
  const answer = await call('POST', '/api/v1/apply', { body: document?.value });
  expect(answer).toMatchObject({ status: 422, body: { code: 'Invalid' } });
  expect(answer.type).toContain('application/problem+json');
  expect(answer.body.errors.length).toBeGreaterThanOrEqual(38);
  for (const { path, message } of answer.body.errors) {
    expect(path).toMatch(/^[a-z]/);
    expect(message).not.toBe('');
  }
  expect(answer.text).not.toContain('canary-4711');
  expect(store.writes).toBe(writes);
});

test('kinds of the language that nobody acts on yet are refused, read-only kinds cannot be written', async () => {
  const { call } = await api();
  const backup = { apiVersion: 'belay.dev/v1', kind: 'Backup', metadata: { name: 'b' }, spec: {} };
  const refused = await call('POST', '/api/v1/apply', { body: backup });
  expect(refused.status).toBe(422);
  const event = { apiVersion: 'belay.dev/v1', kind: 'Event', metadata: { name: 'e' }, spec: {} };
  expect((await call('POST', '/api/v1/apply', { body: event })).status).toBe(422);
  expect((await call('PUT', '/api/v1/namespaces/default/events/e', { body: event })).status).toBe(404);
  expect((await call('POST', '/api/v1/namespaces/default/events', { body: event })).status).toBe(404);
});

test.each([
  ['spec.exposure', { exposure: { enabled: true, cidrs: ['10.0.0.0/8'] } }],
  ['spec.platform', { platform: 'zerops' }],
  ['spec.memberConfig[1].arbiterOnly', { memberConfig: [{}, { arbiterOnly: true }, {}] }],
])('A4.9 B1.2 what cannot be had here is refused at its field: %s', async (path, spec) => {
  const { call } = await api();
  const { status, body } = await call('PUT', ORDERS, { body: orders(spec) });
  expect({ status, paths: body.errors?.map((e: { path: string }) => e.path) }).toEqual({
    status: 422,
    paths: expect.arrayContaining([path]),
  });
});

test('A4.9 CFG-02 what this version cannot carry out is refused by field, all of it at once, not stored and ignored', async () => {
  const { call, store } = await api();
  const writes = store.writes;
  const refused = async (spec: Readonly<Record<string, unknown>>): Promise<readonly string[]> => {
    const { status, body } = await call('POST', '/api/v1/apply', { body: orders(spec) });
    expect(status).toBe(422);
    return body.errors.map((e: { path: string }) => e.path);
  };
  expect(await refused({ platform: 'kubernetes' })).toEqual(['spec.platform']);
  expect(
    await refused({
      placement: { spread: 'required' },
      security: { tls: { mode: 'requireTLS', ca: 'own-ca', certsSecretPrefix: 'own' } },
    }),
  ).toEqual(expect.arrayContaining(['spec.placement.spread', 'spec.security.tls.ca']));
  expect(store.writes).toBe(writes);
});

test('dryRun=validate checks everything and writes nothing', async () => {
  const { call, store } = await api();
  await call('PUT', ORDERS, { body: orders() });
  const writes = store.writes;
  const dry = async (body: unknown, as: 'viewer' | 'admin' = 'viewer') =>
    (await call('POST', '/api/v1/apply?dryRun=validate', { body, as })).body;
  expect(await dry(orders())).toMatchObject({ outcome: 'unchanged' });
  expect(await dry(orders({}, { labels: { a: 'b' } }))).toMatchObject({ outcome: 'configured' });
  expect(await dry(orders({ storage: { size: '20Gi' } }))).toMatchObject({
    outcome: 'configured',
    objects: [{ metadata: { generation: 2 } }],
  });
  const fresh = await dry(orders({}, { name: 'fresh' }));
  expect(fresh).toMatchObject({ outcome: 'created', objects: [{ metadata: { name: 'fresh' } }] });
  expect(Object.keys(fresh.objects[0].metadata)).not.toContain('creationTimestamp');
  expect(await dry(orders({ members: 2 }))).toMatchObject({ code: 'Invalid' });
  expect(await dry(orders({}, { resourceVersion: '1' }))).toMatchObject({ code: 'Conflict' });
  const put = await call('PUT', `${ORDERS}?dryRun=validate`, { body: orders({ storage: { size: '1Gi' } }) });
  expect(put.status).not.toBe(201);
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's' }, stringData: { password: 'x' } };
  expect(await dry(secret)).toMatchObject({ outcome: 'created' });
  expect(store.writes).toBe(writes);
});

test('a misspelt dryRun never becomes a real change', async () => {
  const { call } = await api();
  for (const query of ['dryrun=validate', 'dryRun=true', 'dryRun=', 'dry-run=plan']) {
    const answer = await call('POST', `/api/v1/apply?${query}`, { body: orders() });
    expect({ query, status: answer.status }).toEqual({ query, status: 400 });
  }
  expect((await call('GET', ORDERS)).status).toBe(404);
});

test('dryRun=plan lists every step of a new set, of a change, and nothing for what is there', async () => {
  const { call, store, clock } = await api();
  const plan = (body: unknown) => call('POST', '/api/v1/apply?dryRun=plan', { body, as: 'viewer' });
  const writes = store.writes;
  const fresh = await plan(orders());
  expect(fresh.body).toMatchObject({ kind: 'MongoDB', generation: { from: null, to: 1 }, converges: true });
  const verbs = fresh.body.steps.map((s: { verb: string }) => s.verb);
  expect(verbs.slice(0, 3)).toEqual(['ensureCredentials', 'import', 'deploy']);
  expect(verbs).toContain('initiate');
  expect(store.writes).toBe(writes);
  await call('PUT', ORDERS, { body: orders() });
  await clock.advance(5 * SECOND);
  expect((await plan(orders())).body).toMatchObject({
    steps: [],
    changes: [],
    generation: { from: 1, to: 1 },
  });
  const suspended = (await plan(orders({ suspend: true }))).body;
  expect(suspended.changes).toEqual([{ path: 'spec.suspend', from: false, to: true }]);
  expect(suspended.steps[0]).toMatchObject({ verb: 'deleteRuntime', impact: 'these members go down' });
  const user = (await plan(appUser())).body;
  expect(user).toMatchObject({ kind: 'MongoDBUser', steps: [{ verb: 'store' }] });
  expect((await call('GET', '/api/v1/mongodbusers')).body.items).toEqual([]);
});

test('a plan without any host is refused with what to start', async () => {
  const { call } = await api(undefined, []);
  const answer = await call('POST', '/api/v1/apply?dryRun=plan', { body: orders() });
  expect(answer.body).toMatchObject({
    converges: false,
    refusals: [{ by: 'NoHosts', fix: expect.stringContaining('belay up') }],
  });
});

// ── the front door ─────────────────────────────────────────────────────────────────────────────────────────────────

const foreign = () => {
  const file = new URL('../../examples/mongodb-com-replica-set.yaml', import.meta.url);
  return parseDocuments(readFileSync(file, 'utf8'), 'x').documents[0]?.value as Record<string, unknown>;
};

test('B1.3 a mongodb.com/v1 document is taken as it is, by apply and by PUT, with warnings that stay in sight', async () => {
  const { call, store, clock } = await api();
  const applied = await call('POST', '/api/v1/apply', { body: foreign() });
  expect(applied.body.outcome).toBe('created');
  const paths = applied.body.warnings.map((w: { path: string }) => w.path);
  expect(paths.some((p: string) => p.startsWith('spec.podSpec'))).toBe(true);
  const writes = store.writes;
  const path = '/api/v1/namespaces/default/mongodb/my-replica-set';
  expect((await call('PUT', path, { body: foreign() })).status).toBe(200);
  expect(store.writes).toBe(writes);
  await clock.advance(5 * SECOND);
  const { body } = await call('GET', path);
  expect(body.status.phase).toBe('Ready');
  expect(body.status.warnings.length).toBeGreaterThan(0);
  expect(body.metadata.annotations['belay.dev/origin']).toBe('mongodb.com/v1');
});

test('A1.3 unsupported versions are refused with the list, deprecated ones accepted with a warning that goes with the cause', async () => {
  const { call } = await api();
  const no = await call('PUT', ORDERS, { body: orders({ version: '8.3.1-1' }) });
  expect(no.body.errors).toEqual([
    expect.objectContaining({ path: 'spec.version', message: expect.stringContaining('8.0.32-14') }),
  ]);
  const old = await call('PUT', ORDERS, { body: orders({ version: '6.0.29-23' }) });
  expect(old.status).toBe(201);
  expect(String(old.headers['warning'])).toContain('spec.version');
  expect(old.body.metadata.annotations['belay.dev/warnings']).toContain('deprecated');
  const next = await call('PUT', ORDERS.replace('orders', 'next'), {
    body: orders({ version: '8.0.32-14' }, { name: 'next' }),
  });
  expect(JSON.stringify(next.body.metadata.annotations ?? {})).not.toContain('deprecated');
});

test('A8.1 that a version is older than the one before is said when it is applied, and not of the document afterwards', async () => {
  const { call, clock } = await api();
  await call('POST', '/api/v1/apply', { body: orders({ version: '8.0.32-14' }) });
  await clock.advance(5 * SECOND);
  const back = orders({ version: '8.0.29-13' });
  const warnings = [{ path: 'spec.version', message: '8.0.29-13 is older than 8.0.32-14, which runs now' }];
  for (const query of ['?dryRun=plan', ''])
    expect((await call('POST', `/api/v1/apply${query}`, { body: back })).body.warnings).toEqual(warnings);
  await clock.advance(60 * SECOND);
  const { status } = (await call('GET', ORDERS)).body;
  expect(status.warnings.join()).not.toContain('older');
});

test("people's annotations are the document's; Belay's own are neither wiped nor set by it, and warnings that are over go", async () => {
  const { call, store } = await api();
  await call('POST', '/api/v1/apply', { body: foreign() });
  const key = { kind: 'MongoDB', namespace: 'default', name: 'my-replica-set' };
  const annotations = async () => (await store.get(key))?.metadata.annotations ?? {};
  expect(Object.keys(await annotations()).sort()).toEqual(
    ['belay.dev/kept-fields', 'belay.dev/origin', 'belay.dev/warnings'].sort(),
  );
  await store.update(key, { annotations: { ...(await annotations()), 'belay.dev/internal': 'x' } });
  const stored = (await store.get(key))?.spec as { storage: { size: string } };
  const spec = { ...stored, storage: { size: stored.storage.size } };
  const own = orders(spec, { name: 'my-replica-set', annotations: { team: 'a', 'belay.dev/forged': 'y' } });
  const first = await call('POST', '/api/v1/apply', { body: own });
  expect(first.body.warnings).toEqual([
    expect.objectContaining({ path: 'metadata.annotations.belay.dev/forged' }),
  ]);
  expect(await annotations()).toMatchObject({
    team: 'a',
    'belay.dev/internal': 'x',
    'belay.dev/origin': 'mongodb.com/v1',
  });
  expect(await annotations()).not.toHaveProperty(['belay.dev/forged']);
  await call('POST', '/api/v1/apply', { body: orders(spec, { name: 'my-replica-set' }) });
  expect(await annotations()).not.toHaveProperty(['belay.dev/warnings']);
  expect(await annotations()).not.toHaveProperty('team');
  // What was read is what can be sent back: it changes nothing.
  const { body } = await call('GET', `/api/v1/namespaces/default/mongodb/my-replica-set`);
  expect((await call('POST', '/api/v1/apply', { body })).body).toMatchObject({
    outcome: 'unchanged',
    warnings: [],
  });
});

test('a document may come as YAML; what cannot be read says where', async () => {
  const { call } = await api();
  const text = readFileSync(new URL('../../examples/replica-set.yaml', import.meta.url), 'utf8');
  const good = await call('POST', '/api/v1/apply', { body: text, type: 'application/yaml' });
  expect(good.body.outcome).toBe('created');
  const bad = await call('POST', '/api/v1/apply', { body: 'a: [1\nb: 2', type: 'application/yaml' });
  expect(bad).toMatchObject({
    status: 400,
    body: { code: 'Malformed', errors: [{ path: expect.stringMatching(/^\d+:\d+$/) }] },
  });
  const two = await call('POST', '/api/v1/apply', { body: `${text}\n---\n${text}`, type: 'text/yaml' });
  expect(two).toMatchObject({ status: 400, body: { detail: expect.stringContaining('2 documents') } });
});
