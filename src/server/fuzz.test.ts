import fc from 'fast-check';
import { expect, test } from 'vitest';
import { KINDS } from '../model/index.ts';
import { type ApiRig, app, host, makeApi, ORDERS, orders } from './testing/rig.ts';

const SEED = 20261130;
const anything = fc.anything({ maxDepth: 4, withNullPrototype: false });
const json = anything.map((value) => JSON.parse(JSON.stringify(value ?? null)) as unknown);

/** A document of ours with one place changed to anything. */
const mangled = fc
  .tuple(fc.constantFrom(orders(), app(), host()), fc.array(fc.nat(), { maxLength: 5 }), json)
  .map(([document, way, value]) => replaced(document, way, value));

function replaced(target: unknown, way: readonly number[], value: unknown): unknown {
  const [step, ...rest] = way;
  if (step === undefined || typeof target !== 'object' || target === null) return value;
  const keys = Object.keys(target);
  const key = keys[step % Math.max(1, keys.length)];
  if (key === undefined) return value;
  const inner = replaced((target as Record<string, unknown>)[key], rest, value);
  return Array.isArray(target)
    ? target.map((v, at) => (String(at) === key ? inner : v))
    : { ...target, [key]: inner };
}

async function checked(rig: ApiRig, answer: Awaited<ReturnType<ApiRig['call']>>): Promise<void> {
  expect(answer.status, answer.text).toBeLessThan(500);
  if (answer.status >= 400) {
    expect(answer.type).toContain('application/problem+json');
    expect(answer.body).toMatchObject({
      code: expect.stringMatching(/^[A-Z]\w+$/),
      detail: expect.any(String),
      status: answer.status,
    });
  }
  expect(rig.lines.filter((line) => line.startsWith('request failed'))).toEqual([]);
}

test('VAL-01 S8 no document, whatever is in it, makes the server fail', async () => {
  const rig = await makeApi();
  const document = fc.oneof(
    json,
    mangled,
    fc.record({
      apiVersion: fc.constantFrom('belay.dev/v1', 'mongodb.com/v1', 'v1', 'psmdb.percona.com/v1'),
      kind: fc.constantFrom(...KINDS.map((k) => k.kind), 'Secret', 'List'),
      metadata: json,
      spec: json,
    }),
  );
  await fc.assert(
    fc.asyncProperty(
      document,
      fc.constantFrom('', '?dryRun=validate', '?dryRun=plan'),
      async (body, query) => {
        await checked(rig, await rig.call('POST', `/api/v1/apply${query}`, { body: JSON.stringify(body) }));
      },
    ),
    { numRuns: 400, seed: SEED },
  );
  await rig.close();
});

test('no patch makes the server fail or leaves an object that does not pass its own check', async () => {
  const rig = await makeApi();
  await rig.call('PUT', ORDERS, { body: orders() });
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        json,
        mangled,
        json.map((spec) => ({ spec })),
        json.map((metadata) => ({ metadata })),
      ),
      async (body) => {
        await checked(
          rig,
          await rig.call('PATCH', ORDERS, {
            body: JSON.stringify(body),
            type: 'application/merge-patch+json',
          }),
        );
        const { body: object } = await rig.call('GET', ORDERS);
        // The engine may write a status meanwhile.
        delete object.metadata.resourceVersion;
        const again = await rig.call('POST', '/api/v1/apply?dryRun=validate', { body: object });
        expect(again.body.outcome, again.text).toBe('unchanged');
      },
    ),
    { numRuns: 150, seed: SEED },
  );
  await rig.close();
});

test('no path, query or header makes the server fail', async () => {
  const rig = await makeApi();
  const word = fc.oneof(
    fc.constantFrom(
      'api',
      'v1',
      'namespaces',
      'default',
      'mongodb',
      'hosts',
      'secrets',
      'events',
      'orders',
      'status',
      'connection',
      'tokens',
      '..',
      '%00',
      '%2F',
      '',
    ),
    fc.string({ maxLength: 8 }).map(encodeURIComponent),
  );
  const query = fc.record(
    {
      limit: fc.string(),
      continue: fc.string(),
      labelSelector: fc.string(),
      fieldSelector: fc.string(),
      dryRun: fc.string(),
      keepVolumes: fc.string(),
      resourceVersion: fc.string(),
    },
    { requiredKeys: [] },
  );
  const method = fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS');
  await fc.assert(
    fc.asyncProperty(
      method,
      fc.array(word, { maxLength: 7 }),
      query,
      fc.string(),
      async (verb, words, parameters, tag) => {
        const url = `/${words.join('/')}?${new URLSearchParams(parameters).toString()}`;
        const header = encodeURIComponent(tag);
        const answer = await rig.call(verb, url, {
          headers: { 'if-match': header, 'last-event-id': header },
        });
        expect(answer.status, `${verb} ${url}: ${answer.text}`).toBeLessThan(500);
      },
    ),
    { numRuns: 500, seed: SEED },
  );
  await rig.close();
});
