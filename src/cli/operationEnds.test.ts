/** How verbs of operations end when an operation ends in one way or another (A13.1): scripts rely on it. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type CliRig, makeCli } from './testing/rig.ts';

let cli: CliRig;
beforeEach(async () => {
  cli = await makeCli();
});
afterEach(() => cli.close());

/** A record that nobody works on: its database is not there. */
async function record(name: string, state: string, message = ''): Promise<void> {
  const object = await cli.api.store.create({
    kind: 'Operation',
    namespace: 'default',
    name,
    spec: { type: 'Restart', mongodbResourceRef: { name: 'gone' } },
    labels: { 'belay.dev/mongodb': 'gone' },
  });
  await become(name, object.metadata.uid, state, message);
  await cli.api.clock.advance(1_000);
}
const become = (name: string, uid: string, state: string, message = '') =>
  cli.api.store.commit({
    status: [{ key: { kind: 'Operation', namespace: 'default', name }, uid, value: { state, message } }],
  });

test('A13.1 wait exits 1 as soon as one of several ended otherwise, whichever it is', async () => {
  await record('good', 'Succeeded');
  await record('bad', 'Failed', 'no host');
  const wait = async (...words: readonly string[]) => (await cli.belay(['wait', 'operation', ...words])).code;
  expect(await wait('good')).toBe(0);
  expect(await wait('bad')).toBe(1);
  expect(await wait('good', 'bad')).toBe(1);
  expect(await wait('bad', 'good')).toBe(1);
  expect(await wait('bad', '--for', 'failed')).toBe(0);
});

test.each([
  ['Cancelled', 0],
  ['Succeeded', 1],
  ['Failed', 1],
])('A13.1 cancel of one that ends %s exits %i', async (state, code) => {
  await record('late', 'Running');
  const key = { kind: 'Operation', namespace: 'default', name: 'late' };
  let asked = false;
  const poll = async (): Promise<void> => {
    while (!asked) {
      const object = await cli.api.store.get(key);
      asked = object?.metadata.annotations['belay.dev/cancel-requested'] !== undefined;
      if (asked && object !== null) await become('late', object.metadata.uid, state, 'so it is');
      else await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const [ran] = await Promise.all([cli.belay(['cancel', 'late']), poll()]);
  expect(ran).toMatchObject({ code, out: `operations/late ${state}: so it is\n` });
});

test('A13.1 a restart that somebody else cancels exits 1', async () => {
  await cli.belay(['apply', '-q', '-f', '-'], {
    stdin:
      'apiVersion: belay.dev/v1\nkind: MongoDB\nmetadata: { name: orders }\nspec: { type: ReplicaSet, version: 8.0.32-14, members: 3, paused: true }\n',
  });
  await cli.api.clock.advance(1_000);
  let over = false;
  const running = cli.belay(['restart', 'orders']).finally(() => {
    over = true;
  });
  while (!over) {
    for (const { metadata } of (await cli.api.store.list({ kind: 'Operation' })).items)
      await cli.api.call('POST', `/api/v1/namespaces/default/operations/${metadata.name}/cancel`);
    await cli.api.clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { code, out } = await running;
  expect(code).toBe(1);
  expect(out).toMatch(/^operations\/orders-restart-\w{4} Cancelled: cancelled before it began\n$/);
});

test('A13.1 operations are listed the newest last, those of one database when it is named', async () => {
  await record('zebra', 'Succeeded');
  await record('apple', 'Failed', 'no host');
  await cli.api.store.create({
    kind: 'Operation',
    namespace: 'default',
    name: 'other',
    spec: { type: 'Restart', mongodbResourceRef: { name: 'invoices' } },
    labels: { 'belay.dev/mongodb': 'invoices' },
  });
  const names = async (...words: readonly string[]) =>
    (await cli.belay(['operations', ...words, '-o', 'name'])).out.trim().split('\n');
  expect(await names()).toEqual(['operations/zebra', 'operations/apple', 'operations/other']);
  expect(await names('gone')).toEqual(['operations/zebra', 'operations/apple']);
  expect(await names('mongodb/invoices')).toEqual(['operations/other']);
});
