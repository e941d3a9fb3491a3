import { afterEach, expect, test } from 'vitest';
import { apiRoutes } from './api.ts';
import { type ApiRig, CA_PEM, makeApi, ORDERS, orders } from './testing/rig.ts';

const opened: ApiRig[] = [];
afterEach(async () => {
  for (const rig of opened.splice(0)) await rig.close();
});
async function api(...args: Parameters<typeof makeApi>): Promise<ApiRig> {
  const rig = await makeApi(...args);
  opened.push(rig);
  return rig;
}

// ── requests that are no requests ──────────────────────────────────────────────────────────────────────────────────

test('bad JSON, no body, a body too large, text: problems that do not repeat what was sent', async () => {
  const { call } = await api();
  const url = '/api/v1/apply';
  const bad = await call('POST', url, { body: '{"password": "canary-4711", oops' });
  expect(bad).toMatchObject({ status: 400, body: { code: 'Malformed' } });
  expect(bad.text).not.toContain('canary');
  expect((await call('POST', url)).body).toMatchObject({ code: 'Invalid', errors: [{ path: '' }] });
  expect((await call('POST', url, { body: 'null' })).body.code).toBe('Invalid');
  expect((await call('POST', url, { body: '"text"' })).body.code).toBe('Invalid');
  expect((await call('POST', url, { body: '{"__proto__": {"a": 1}}' })).body.code).toBe('Malformed');
  const large = await call('POST', url, { body: JSON.stringify({ a: 'x'.repeat(1024 * 1024) }) });
  expect(large).toMatchObject({ status: 413, body: { code: 'TooLarge' } });
  expect((await call('POST', url, { body: 'a', type: 'text/plain' })).status).toBe(415);
  expect((await call('DELETE', ORDERS, { body: '', type: 'application/json' })).status).toBe(400);
});

test('unknown paths and kinds are problems with a way on', async () => {
  const { call } = await api();
  for (const url of [
    '/',
    '/api',
    '/api/v1/mongos',
    '/api/v1/namespaces/default/mongo/x',
    `${ORDERS}/nothing`,
  ]) {
    const answer = await call('GET', url);
    expect({ url, status: answer.status, code: answer.body.code }).toEqual({
      url,
      status: 404,
      code: 'NotFound',
    });
    expect(answer.body.fix).toContain('openapi.json');
  }
  const missing = await call('GET', ORDERS);
  expect(missing.body).toMatchObject({ code: 'NotFound', detail: 'mongodb default/orders does not exist' });
  await call('PUT', ORDERS, { body: orders() });
  expect((await call('GET', `${ORDERS}x`)).body.fix).toBe('there are: orders');
});

test('S8 an unexpected failure says only an id, which the log has with the story', async () => {
  const { call, lines } = await api(() => ({
    membersOn: () => {
      throw new TypeError('canary-4711 is not iterable');
    },
  }));
  await call('PUT', '/api/v1/hosts/db1', {
    body: { apiVersion: 'belay.dev/v1', kind: 'Host', metadata: { name: 'db1' }, spec: {} },
  });
  const answer = await call('GET', '/api/v1/hosts/db1');
  expect(answer).toMatchObject({ status: 500, body: { code: 'Internal' } });
  expect(answer.text).not.toContain('canary');
  const id = String(answer.headers['x-request-id']);
  expect(answer.body.detail).toContain(id);
  expect(lines.find((line) => line.includes(id) && line.includes('canary-4711'))).toBeDefined();
});

test('a store that is away answers 503 with when to come back', async () => {
  const { BelayError } = await import('../base/error.ts');
  const { call } = await api(({ store }) => ({
    store: new Proxy(store, {
      get: (target, name) =>
        name === 'list'
          ? async () => {
              throw new BelayError('StoreUnavailable', 'the database does not answer', { fix: 'start it' });
            }
          : (Reflect.get(target, name, target) as unknown),
    }),
  }));
  const answer = await call('GET', '/api/v1/mongodb');
  expect(answer).toMatchObject({ status: 503, body: { code: 'StoreUnavailable', fix: 'start it' } });
  expect(answer.headers['retry-after']).toBe('5');
});

// ── the description ────────────────────────────────────────────────────────────────────────────────────────────────

test('/openapi.json is 3.1, every reference leads somewhere, every route of the app is described', async () => {
  const { call, app, deps } = await api();
  const { body } = await call('GET', '/openapi.json', { as: null });
  expect(body).toMatchObject({ openapi: '3.1.0', info: { version: '1.2.3' } });
  const refs = [...JSON.stringify(body).matchAll(/"\$ref":"([^"]+)"/g)].map(([, to = '']) => to);
  expect(refs.length).toBeGreaterThan(20);
  for (const to of new Set(refs)) {
    const found = to
      .replace(/^#\//, '')
      .split('/')
      .reduce<unknown>((at, part) => (at as Record<string, unknown> | undefined)?.[part], body);
    expect({ to, found: typeof found }).toEqual({ to, found: 'object' });
  }
  const ids: string[] = [];
  for (const [path, item] of Object.entries<Record<string, Record<string, unknown>>>(body.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const url = path.replace(/\{(\w+)\}/g, ':$1');
      expect({ path, method, routed: app.hasRoute({ method: method.toUpperCase() as 'GET', url }) }).toEqual({
        path,
        method,
        routed: true,
      });
      ids.push(String(operation['operationId']));
      const parameters = (operation['parameters'] ?? []) as {
        name: string;
        in: string;
        schema: unknown;
        required?: boolean;
      }[];
      const inPath = parameters.filter((p) => p.in === 'path').map((p) => p.name);
      expect({ path, inPath }).toEqual({ path, inPath: [...path.matchAll(/\{(\w+)\}/g)].map(([, n]) => n) });
      for (const p of parameters) expect(p.schema).toBeDefined();
      for (const [status, answer] of Object.entries(
        operation['responses'] as Record<string, { description?: string }>,
      )) {
        expect(status).toMatch(/^(\d{3}|default)$/);
        expect(answer.description).toBeTruthy();
      }
    }
  }
  expect(new Set(ids).size).toBe(ids.length);
  const described = new Set(
    Object.entries(body.paths).flatMap(([path, item]) =>
      Object.keys(item as object).map((m) => `${m} ${path}`),
    ),
  );
  const printed = apiRoutes(deps, () => CA_PEM).map((r) => `${r.method.toLowerCase()} ${r.path}`);
  expect(new Set(printed)).toEqual(described);
  const routed = app.printRoutes({ commonPrefix: false }).match(/\((?:[A-Z, ]+)\)/g) ?? [];
  expect(routed.join().match(/GET|POST|PUT|PATCH|DELETE/g)?.length).toBe(printed.length);
});

test('health, readiness and metrics need no token', async () => {
  let ready = true;
  const { call } = await api(() => ({ ready: async () => ready }));
  expect((await call('GET', '/healthz', { as: null })).body).toEqual({ status: 'ok' });
  expect((await call('GET', '/readyz', { as: null })).status).toBe(200);
  ready = false;
  expect((await call('GET', '/readyz', { as: null })).status).toBe(503);
  const metrics = await call('GET', '/metrics', { as: null });
  expect(metrics).toMatchObject({ status: 200, text: 'belay_hosts 3\n' });
  expect(metrics.type).toContain('text/plain; version=0.0.4');
});
