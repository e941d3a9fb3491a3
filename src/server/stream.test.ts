import { afterEach, beforeEach, expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { openMemoryStore } from '../store/memory.ts';
import { openStreams } from './stream.ts';
import { type ApiRig, host, makeApi, ORDERS, orders } from './testing/rig.ts';

let rig: ApiRig;
let url: string;
const stops: AbortController[] = [];

beforeEach(async () => {
  rig = await makeApi();
  url = await rig.app.listen({ host: '127.0.0.1', port: 0 });
});
afterEach(async () => {
  for (const stop of stops.splice(0)) stop.abort();
  await rig.close();
});

interface Message {
  readonly type: string;
  readonly id: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape
  readonly data: any;
}

/** Opens a stream; `next()` gives one message after the other, null at the end. */
async function watch(path: string, headers: Record<string, string> = {}) {
  const stop = new AbortController();
  stops.push(stop);
  const response = await fetch(`${url}${path}`, {
    headers: { authorization: `Bearer ${rig.token.viewer}`, ...headers },
    signal: stop.signal,
  });
  const reader =
    response.status !== 200 ? undefined : response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  const next = async (): Promise<Message | null> => {
    for (;;) {
      const end = rest.indexOf('\n\n');
      if (end < 0) {
        const chunk = await reader?.read();
        if (chunk === undefined || chunk.done) return null;
        rest += chunk.value;
        continue;
      }
      const lines = rest.slice(0, end).split('\n');
      rest = rest.slice(end + 2);
      const field = (name: string) => lines.find((l) => l.startsWith(`${name}: `))?.slice(name.length + 2);
      const type = field('event');
      if (type !== undefined) return { type, id: field('id'), data: JSON.parse(field('data') ?? 'null') };
    }
  };
  return { response, next, stop: () => stop.abort() };
}

const named = (message: Message | null) => `${message?.type} ${message?.data.metadata?.name ?? ''}`.trim();
const put = (name: string, spec = {}, metadata = {}) =>
  rig.call('PUT', `/api/v1/hosts/${name}`, { body: host(name, spec, metadata) });

test('what exists comes first, then a bookmark, then every change as it comes', async () => {
  await put('a');
  const stream = await watch('/api/v1/hosts?watch=true');
  expect(stream.response.headers.get('content-type')).toBe('text/event-stream');
  expect(named(await stream.next())).toBe('ADDED a');
  expect(named(await stream.next())).toBe('BOOKMARK');
  await put('b');
  expect(named(await stream.next())).toBe('ADDED b');
  await put('b', { unschedulable: true });
  const changed = await stream.next();
  expect(changed).toMatchObject({ type: 'MODIFIED', data: { kind: 'Host', spec: { unschedulable: true } } });
  expect(changed?.id).toBe(changed?.data.metadata.resourceVersion);
  await rig.call('DELETE', '/api/v1/hosts/a');
  expect(named(await stream.next())).toBe('DELETED a');
});

test('a watch resumes after the last id it saw and misses nothing', async () => {
  const first = await put('a');
  await put('b');
  await put('a', { firstPort: 1000 });
  const version = first.body.metadata.resourceVersion as string;
  const byHeader = await watch('/api/v1/hosts?watch=true', { 'last-event-id': version });
  expect([named(await byHeader.next()), named(await byHeader.next())]).toEqual(['ADDED b', 'MODIFIED a']);
  const byQuery = await watch(`/api/v1/hosts?watch=true&resourceVersion=${version}`);
  expect(named(await byQuery.next())).toBe('ADDED b');
  const list = await rig.call('GET', '/api/v1/hosts');
  const fromList = await watch(
    `/api/v1/hosts?watch=true&resourceVersion=${list.body.metadata.resourceVersion}`,
  );
  await put('c');
  expect(named(await fromList.next())).toBe('ADDED c');
});

test('a version that is not kept any more is 410 Gone, nonsense is 400', async () => {
  await rig.close();
  const kept = 3;
  rig = await makeApi(({ clock }) => ({
    store: openMemoryStore({ clock, limits: { changes: kept, slack: 0, rowsPerHousekeeping: 1 } }),
  }));
  url = await rig.app.listen({ host: '127.0.0.1', port: 0 });
  for (let i = 0; i < 20; i++) await put(`host-${i}`);
  const gone = await watch('/api/v1/hosts?watch=true&resourceVersion=1');
  expect(gone.response.status).toBe(410);
  expect(await gone.response.json()).toMatchObject({
    code: 'Gone',
    fix: expect.stringContaining('List again'),
  });
  const nonsense = await watch('/api/v1/hosts?watch=true&resourceVersion=abc');
  expect(nonsense.response.status).toBe(400);
  const future = await watch('/api/v1/hosts?watch=true&resourceVersion=999999');
  expect(future.response.status).toBe(410);
});

test('a stream that cannot go on ends with an ERROR that says why', async () => {
  await rig.close();
  rig = await makeApi(({ store }) => ({
    store: new Proxy(store, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown;
        if (name !== 'watch') return typeof value === 'function' ? value.bind(target) : value;
        return async function* (query: Parameters<typeof store.watch>[0]) {
          for await (const event of target.watch(query)) {
            yield event;
            throw new BelayError('Gone', 'too far behind', { retry: 'never' });
          }
        };
      },
    }),
  }));
  url = await rig.app.listen({ host: '127.0.0.1', port: 0 });
  const stream = await watch('/api/v1/hosts?watch=true');
  expect(named(await stream.next())).toBe('BOOKMARK');
  await put('a');
  expect(named(await stream.next())).toBe('ADDED a');
  expect(await stream.next()).toMatchObject({ type: 'ERROR', data: { status: 410, code: 'Gone' } });
  expect(await stream.next()).toBeNull();
});

test('streams are narrowed by namespace, name and label; what stops matching looks deleted', async () => {
  const set = (name: string, labels: Record<string, string>, ns = 'default') =>
    rig.call('PUT', `/api/v1/namespaces/${ns}/mongodb/${name}`, {
      body: orders({ suspend: true }, { name, labels }),
    });
  await set('a', { tier: 'gold' });
  await set('b', { tier: 'tin' });
  await set('c', { tier: 'gold' }, 'prod');
  const until = async (stream: Awaited<ReturnType<typeof watch>>, wanted: string) => {
    const seen: string[] = [];
    while (seen.at(-1) !== wanted) seen.push(named(await stream.next()));
    return new Set(seen.map((line) => line.split(' ')[1]));
  };
  const gold = await watch('/api/v1/namespaces/default/mongodb?watch=true&labelSelector=tier%3Dgold');
  const one = await watch('/api/v1/namespaces/default/mongodb?watch=true&fieldSelector=metadata.name%3Db');
  expect(await until(gold, 'BOOKMARK')).toEqual(new Set(['a', undefined]));
  expect(await until(one, 'BOOKMARK')).toEqual(new Set(['b', undefined]));
  await set('b', { tier: 'gold' });
  await set('a', { tier: 'tin' });
  expect(await until(gold, 'DELETED a')).toEqual(new Set(['a', 'b']));
  await rig.call('DELETE', '/api/v1/namespaces/default/mongodb/b');
  const resumed = await watch('/api/v1/mongodb?watch=true&fieldSelector=metadata.name%3Db&resourceVersion=1');
  expect((await until(resumed, 'MODIFIED b')).size).toBe(1);
});

test("a host's stream tells of its agent coming and going, though nothing of that is stored", async () => {
  await put('db1');
  const stream = await watch('/api/v1/hosts?watch=true&fieldSelector=metadata.name%3Ddb1');
  expect((await stream.next())?.data.status).toMatchObject({ connected: true });
  expect(named(await stream.next())).toBe('BOOKMARK');
  rig.fleet.connect('db2', false);
  rig.fleet.connect('db1', true);
  rig.fleet.connect('db1', false);
  const change = await stream.next();
  expect(change).toMatchObject({
    type: 'MODIFIED',
    data: { status: { connected: false, phase: 'Degraded' } },
  });
});

test('events are streamed oldest first; one that happens again comes again with its count', async () => {
  const { store, clock } = rig;
  const regarding = { kind: 'MongoDB', name: 'orders', uid: 'u1' };
  const record = (message: string, at: number, uid = 'u1') =>
    store.recordEvents([
      { namespace: 'default', regarding: { ...regarding, uid }, type: 'Normal', reason: 'Said', message, at },
    ]);
  const now = clock.now();
  await record('one', now);
  await record('two', now + 1);
  const stream = await watch('/api/v1/events?watch=true');
  expect((await stream.next())?.data.spec.message).toBe('one');
  expect((await stream.next())?.data.spec.message).toBe('two');
  expect((await stream.next())?.type).toBe('BOOKMARK');
  await record('one', now + 2);
  const again = await stream.next();
  expect(again).toMatchObject({ type: 'MODIFIED', data: { spec: { message: 'one', count: 2 } } });
  const later = await watch('/api/v1/namespaces/default/events?watch=true', {
    'last-event-id': String(now + 1),
  });
  expect((await later.next())?.data.spec.message).toBe('one');
  expect((await watch('/api/v1/events?watch=true&resourceVersion=x')).response.status).toBe(400);
});

test('a client that goes leaves nothing open; closing the server ends the streams of those who stay', async () => {
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  while (openStreams() > 0) await turn();
  const [a, b] = [await watch('/api/v1/hosts?watch=true'), await watch('/api/v1/hosts?watch=true')];
  await a.next();
  await b.next();
  expect(openStreams()).toBe(2);
  a.stop();
  while (openStreams() > 1) await put('a', { firstPort: 1000 + openStreams() });
  await rig.app.close();
  while (openStreams() > 0) await turn();
  await expect(
    b.next().then(
      (m) => m?.type ?? 'ended',
      () => 'ended',
    ),
  ).resolves.toMatch(/ADDED|ended/);
});

test('watching needs a token, and a viewer may', async () => {
  expect((await fetch(`${url}/api/v1/hosts?watch=true`)).status).toBe(401);
  expect((await rig.call('HEAD', '/api/v1/hosts?watch=true')).status).toBe(200);
  expect((await rig.call('GET', ORDERS)).status).toBe(404);
});
