/** Conformance: objects, lists and watches. */
import { expect, test } from 'vitest';
import type { ObjectEvent } from '../../engine/ports.ts';
import { type Bench, brief, codeOf, key, object, take } from './bench.ts';

// ── objects ────────────────────────────────────────────────────────────────────────────────────────────────────────

export function objectTests(at: Bench): void {
  test('a created object reads back as given, with generation 1 and a time', async () => {
    const spec = { z: 1, a: { nested: [1, 'zwei', null, true, 1.5] }, text: 'line\n"quoted" \u0000 ✓' };
    const made = await at.store.create(
      object('orders', { labels: { app: 'shop' }, annotations: { note: 'x' }, spec }),
    );
    const read = await at.store.get(key('orders'));
    expect(read).toEqual(made);
    expect(read?.spec).toEqual(spec);
    expect(Object.keys(read?.spec as object)).toEqual(['z', 'a', 'text']);
    expect(read?.status).toBeNull();
    expect(read?.metadata).toMatchObject({
      generation: 1,
      labels: { app: 'shop' },
      annotations: { note: 'x' },
    });
    expect(read?.metadata.creationTimestamp).toBe(new Date(at.clock.now()).toISOString());
    expect(await at.store.get(key('orders', 'test'))).toBeNull();
  });

  test('what the caller does to its own value afterwards does not reach the store', async () => {
    const spec = { members: 3 };
    await at.store.create(object('orders', { spec }));
    spec.members = 99;
    expect((await at.store.get(key('orders')))?.spec).toEqual({ members: 3 });
  });

  test('a second object with the same name is refused: AlreadyExists', async () => {
    await at.store.create(object('orders'));
    expect(await codeOf(at.store.create(object('orders')))).toBe('AlreadyExists');
    await at.store.create({ ...object('orders'), kind: 'MongoDBUser' });
  });

  test('resourceVersion grows with every write in the whole store', async () => {
    const versions: number[] = [];
    for (const name of ['a', 'b'])
      versions.push(Number((await at.store.create(object(name))).metadata.resourceVersion));
    const changed = await at.store.update(key('a'), { spec: { members: 5 } });
    versions.push(Number(changed?.metadata.resourceVersion));
    expect(versions).toEqual([...versions].sort((a, b) => a - b));
    expect(new Set(versions).size).toBe(3);
  });

  test('only a change of spec moves the generation', async () => {
    await at.store.create(object('orders'));
    expect((await at.store.update(key('orders'), { labels: { a: 'b' } }))?.metadata.generation).toBe(1);
    const changed = await at.store.update(key('orders'), { spec: { members: 5 } });
    expect(changed?.metadata).toMatchObject({ generation: 2, labels: { a: 'b' } });
  });

  test('an equal change writes nothing and keeps the resourceVersion', async () => {
    const made = await at.store.create(object('orders', { spec: { a: 1, b: 2 }, labels: { x: 'y' } }));
    const before = at.store.writes;
    const same = await at.store.update(key('orders'), {
      spec: { b: 2, a: 1, c: undefined },
      labels: { x: 'y' },
    });
    expect(same).toEqual(made);
    expect(at.store.writes).toBe(before);
  });

  test('an update names the version it was made for, or Conflict', async () => {
    const made = await at.store.create(object('orders'));
    const version = made.metadata.resourceVersion;
    await at.store.update(key('orders'), { spec: { members: 5 } }, version);
    expect(await codeOf(at.store.update(key('orders'), { spec: { members: 7 } }, version))).toBe('Conflict');
    expect((await at.store.get(key('orders')))?.spec).toEqual({ members: 5 });
    expect(await codeOf(at.store.update(key('nothing'), { labels: {} }))).toBe('NotFound');
  });

  test('deletion without finalizers removes at once; the name is free again with another uid', async () => {
    const made = await at.store.create(object('orders'));
    expect(await at.store.update(key('orders'), { delete: true })).toBeNull();
    expect(await at.store.get(key('orders'))).toBeNull();
    expect((await at.store.create(object('orders'))).metadata.uid).not.toBe(made.metadata.uid);
  });

  test('deletion with finalizers marks, is never taken back, and ends with the last finalizer', async () => {
    await at.store.create(object('orders', { finalizers: ['belay.dev/a', 'belay.dev/b'] }));
    const marked = await at.store.update(key('orders'), { delete: true });
    expect(marked?.metadata.deletionTimestamp).toBe(new Date(at.clock.now()).toISOString());
    at.clock.advance(5_000);
    const writes = at.store.writes;
    expect(await at.store.update(key('orders'), { delete: true })).toEqual(marked);
    expect(at.store.writes).toBe(writes);
    expect(await codeOf(at.store.update(key('orders'), { finalizers: ['belay.dev/a', 'new'] }))).toBe(
      'BeingDeleted',
    );
    expect(
      (await at.store.update(key('orders'), { finalizers: ['belay.dev/a'] }))?.metadata.finalizers,
    ).toEqual(['belay.dev/a']);
    expect(await at.store.update(key('orders'), { finalizers: [] })).toBeNull();
    expect(await at.store.get(key('orders'))).toBeNull();
  });

  test('no change of a marked object takes its mark back', async () => {
    await at.store.create(object('orders', { finalizers: ['belay.dev/a'] }));
    const marked = await at.store.update(key('orders'), { delete: true });
    for (const change of [
      { spec: { n: 2 } },
      { labels: { a: 'b' } },
      { annotations: { a: 'b' } },
      { delete: true as const },
    ]) {
      at.clock.advance(1_000);
      const { deletionTimestamp } = (await at.store.update(key('orders'), change))?.metadata ?? {};
      expect(deletionTimestamp, JSON.stringify(change)).toBe(marked?.metadata.deletionTimestamp);
    }
  });

  test('a value above the limit is refused and nothing is written: TooLarge', async () => {
    expect(await codeOf(at.store.create(object('big', { spec: { text: 'x'.repeat(20_000) } })))).toBe(
      'TooLarge',
    );
    expect(await at.store.get(key('big'))).toBeNull();
  });
}

// ── lists ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export function listTests(at: Bench): void {
  const names = async (query: object): Promise<string[]> =>
    (await at.store.list({ kind: 'MongoDB', ...query })).items.map((item) => item.metadata.name);

  test('a list is ordered by namespace and name', async () => {
    for (const [name, namespace] of [
      ['b', 'y'],
      ['a-b', 'x'],
      ['a', 'x'],
      ['B', 'x'],
      ['z', 'a'],
    ] as const) {
      await at.store.create({ ...object(name), namespace });
    }
    await at.store.create({ ...object('other'), kind: 'Host' });
    expect(await names({})).toEqual(['z', 'B', 'a', 'a-b', 'b']);
    expect(await names({ namespace: 'x' })).toEqual(['B', 'a', 'a-b']);
  });

  test('pages give everything once, whatever their size', async () => {
    const all = Array.from({ length: 11 }, (_, i) => `c${String(i).padStart(2, '0')}`);
    for (const name of all)
      await at.store.create({ ...object(name), namespace: `n${Number(name.slice(1)) % 3}` });
    for (const limit of [1, 3, 4, 11, 50]) {
      const seen: string[] = [];
      let next: string | null = '';
      while (next !== null) {
        const page = await at.store.list({
          kind: 'MongoDB',
          limit,
          ...(next === '' ? {} : { continue: next }),
        });
        expect(page.items.length).toBeLessThanOrEqual(limit);
        seen.push(...page.items.map((item) => item.metadata.name));
        next = page.continue;
      }
      expect(seen.toSorted()).toEqual(all);
    }
  });

  test('every page names the version of the first, so that a watch from it misses nothing', async () => {
    for (const name of ['a', 'b', 'c']) await at.store.create(object(name));
    const first = await at.store.list({ kind: 'MongoDB', limit: 2 });
    await at.store.create(object('a2'));
    const second = await at.store.list({ kind: 'MongoDB', limit: 2, continue: first.continue as string });
    expect(second.resourceVersion).toBe(first.resourceVersion);
    expect(second.continue).toBeNull();
    const events = at.store.watch({ since: second.resourceVersion, signal: AbortSignal.timeout(20_000) });
    expect((await take(events[Symbol.asyncIterator](), 1)).map(brief)).toEqual(['ADDED a2']);
  });

  test('label selectors choose, also across pages', async () => {
    for (const [name, labels] of Object.entries({
      a: { tier: 'gold', app: 'shop' },
      b: { tier: 'silver' },
      c: { app: 'shop' },
      d: {},
      e: { tier: 'gold' },
    })) {
      await at.store.create(object(name, { labels: labels as Record<string, string> }));
    }
    expect(await names({ labelSelector: 'tier=gold' })).toEqual(['a', 'e']);
    expect(await names({ labelSelector: 'tier!=gold' })).toEqual(['b', 'c', 'd']);
    expect(await names({ labelSelector: 'tier in (gold, silver),!app' })).toEqual(['b', 'e']);
    expect(await names({ labelSelector: 'tier notin (gold),app' })).toEqual(['c']);
    const first = await at.store.list({ kind: 'MongoDB', labelSelector: 'tier', limit: 2 });
    expect(first.items.map((item) => item.metadata.name)).toEqual(['a', 'b']);
    expect(await names({ labelSelector: 'tier', limit: 2, continue: first.continue })).toEqual(['e']);
    expect(await codeOf(at.store.list({ kind: 'MongoDB', labelSelector: 'a in gold' }))).toBe(
      'InvalidSelector',
    );
    expect(await codeOf(at.store.list({ kind: 'MongoDB', continue: 'nonsense' }))).toBe('InvalidContinue');
  });
}

// ── watch ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export function watchTests(at: Bench): void {
  const watch = (query: object = {}) => {
    const stop = new AbortController();
    const events = at.store.watch({ signal: stop.signal, ...query })[Symbol.asyncIterator]();
    return { events, stop: () => stop.abort() };
  };

  test('a watch gives every change in order, with the object after it', async () => {
    const { events, stop } = watch({ since: '0' });
    await at.store.create(object('a', { finalizers: ['f'] }));
    await at.store.update(key('a'), { spec: { members: 5 } });
    await at.store.update(key('a'), { delete: true });
    await at.store.update(key('a'), { finalizers: [] });
    const seen = await take(events, 4);
    expect(seen.map((event) => event.type)).toEqual(['ADDED', 'MODIFIED', 'MODIFIED', 'DELETED']);
    expect(seen[1]?.object.spec).toEqual({ members: 5 });
    const versions = seen.map((event) => Number(event.object.metadata.resourceVersion));
    expect(versions).toEqual(versions.toSorted((a, b) => a - b));
    stop();
    expect((await events.next()).done).toBe(true);
  });

  test('without since a watch begins at the moment it is asked for', async () => {
    await at.store.create(object('before'));
    const { events, stop } = watch();
    await at.store.list({ kind: 'MongoDB' });
    await at.store.create(object('after'));
    expect((await take(events, 1)).map(brief)).toEqual(['ADDED after']);
    stop();
  });

  test('a sleeping watch wakes by the write itself', async () => {
    const { events, stop } = watch({ since: '0' });
    const next = events.next();
    await at.store.create(object('a'));
    expect(brief((await next).value as ObjectEvent)).toBe('ADDED a');
    stop();
  });

  test('a watch resumes after the last version it has seen', async () => {
    const made = await at.store.create(object('a'));
    await at.store.create(object('b'));
    const { events, stop } = watch({ since: made.metadata.resourceVersion });
    expect((await take(events, 1)).map(brief)).toEqual(['ADDED b']);
    stop();
  });

  test('kinds and namespace filter', async () => {
    const { events, stop } = watch({ since: '0', kinds: ['Host', 'MongoDB'], namespace: 'prod' });
    await at.store.create({ ...object('user'), kind: 'MongoDBUser' });
    await at.store.create({ ...object('elsewhere'), namespace: 'test' });
    await at.store.create({ ...object('host'), kind: 'Host' });
    await at.store.create(object('cluster'));
    expect((await take(events, 2)).map(brief)).toEqual(['ADDED host', 'ADDED cluster']);
    stop();
  });

  test('a version that is not kept any more, or never was given, is Gone', async () => {
    await at.store.create(object('a'));
    for (let i = 0; i < 40; i++) await at.store.update(key('a'), { spec: { i } });
    expect(await codeOf(watch({ since: '1' }).events.next())).toBe('Gone');
    expect(await codeOf(watch({ since: '999999' }).events.next())).toBe('Gone');
    expect(await codeOf(watch({ since: 'x' }).events.next())).toBe('InvalidResourceVersion');
    const { resourceVersion } = await at.store.list({ kind: 'MongoDB' });
    const { events, stop } = watch({ since: String(Number(resourceVersion) - 3) });
    expect(await take(events, 3)).toHaveLength(3);
    stop();
  });

  test('a watcher that fell behind is told so and misses nothing silently', async () => {
    const { events } = watch({ since: '0' });
    await at.store.create(object('a'));
    await events.next();
    for (let i = 0; i < 40; i++) await at.store.update(key('a'), { spec: { i } });
    const failure = await codeOf((async () => take(events, 100))());
    expect(failure).toBe('Gone');
  });

  test('a watcher of a quiet kind does not fall behind because of the others', async () => {
    const { events, stop } = watch({ since: '0', kinds: ['Host'] });
    const next = events.next();
    await at.store.create(object('a'));
    for (let i = 0; i < 40; i++) {
      await at.store.update(key('a'), { spec: { i } });
      await at.store.get(key('a'));
    }
    await at.store.create({ ...object('host'), kind: 'Host' });
    expect(brief((await next).value as ObjectEvent)).toBe('ADDED host');
    stop();
  });

  test('closing the store ends its watches and refuses further calls', async () => {
    const { events } = watch();
    const next = events.next();
    await at.store.list({ kind: 'MongoDB' });
    await at.store.close();
    expect((await next).done).toBe(true);
    expect(await codeOf(at.store.get(key('a')))).toBe('StoreUnavailable');
    expect(await codeOf(at.store.create(object('a')))).toBe('StoreUnavailable');
  });
}
