/** One suite for every Store: what the engine and the faces may rely on, whichever database is below. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import type { JournalIntent, NewEvent, NewObject, ObjectEvent, Store, TokenRow } from '../engine/ports.ts';
import type { StoreLimits } from './limits.ts';
import { ManualClock } from './testing/clock.ts';

/** A place that stores live in; every `open` is another instance on the same data. */
export interface StorePlace {
  open(): Promise<Store>;
  remove(): Promise<void>;
}
export interface PlaceOptions {
  readonly clock: ManualClock;
  readonly limits: Partial<StoreLimits>;
}
export interface ConformanceOptions {
  /** Whether several instances can work on the same data (not so for memory). */
  readonly shared: boolean;
  /** Why the suite cannot run here; shown in its title. */
  readonly skip?: string;
}

/** Small limits, so that tests reach them quickly. */
const LIMITS: Partial<StoreLimits> = {
  changes: 50,
  eventsPerObject: 5,
  events: 40,
  journalPerCluster: 5,
  slack: 2,
  rowsPerHousekeeping: 10,
  valueBytes: 10_000,
  listChunk: 3,
  watchChunk: 4,
};

/** Runs the suite; `place` makes an empty place. */
export function describeStore(
  name: string,
  place: (options: PlaceOptions) => Promise<StorePlace>,
  options: ConformanceOptions,
): void {
  const title = options.skip === undefined ? `store: ${name}` : `store: ${name} (skipped: ${options.skip})`;
  describe.skipIf(options.skip !== undefined)(title, () => {
    const at: Bench = {
      clock: new ManualClock(),
      place: undefined as never,
      store: undefined as never,
      opened: [],
    };
    beforeEach(async () => {
      at.clock = new ManualClock();
      at.place = await place({ clock: at.clock, limits: LIMITS });
      at.opened = [];
      at.store = await another(at);
    });
    afterEach(async () => {
      for (const store of at.opened) await store.close();
      await at.place.remove();
    });
    objectTests(at);
    listTests(at);
    watchTests(at);
    stateTests(at);
    leaseTests(at);
    journalTests(at);
    eventTests(at);
    securityTests(at);
    if (options.shared) sharedTests(at);
  });
}

interface Bench {
  clock: ManualClock;
  place: StorePlace;
  store: Store;
  opened: Store[];
}

async function another(at: Bench): Promise<Store> {
  const store = await at.place.open();
  at.opened.push(store);
  return store;
}

const key = (name: string, namespace = 'prod') => ({ kind: 'MongoDB', namespace, name });
const object = (name: string, more: Partial<NewObject> = {}): NewObject => ({
  ...key(name),
  spec: { members: 3 },
  ...more,
});

/** The code of the failure; fails the test when there is none. */
async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (failure) {
    expect(failure).toBeInstanceOf(BelayError);
    return (failure as BelayError).code;
  }
  return 'no failure';
}

/** Takes the next events of a watch. */
async function take(events: AsyncIterator<ObjectEvent>, count: number): Promise<ObjectEvent[]> {
  const taken: ObjectEvent[] = [];
  while (taken.length < count) {
    const next = await events.next();
    if (next.done === true) break;
    taken.push(next.value);
  }
  return taken;
}

const brief = (event: ObjectEvent): string => `${event.type} ${event.object.metadata.name}`;

// ── objects ────────────────────────────────────────────────────────────────────────────────────────────────────────

function objectTests(at: Bench): void {
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

  test('a value above the limit is refused and nothing is written: TooLarge', async () => {
    expect(await codeOf(at.store.create(object('big', { spec: { text: 'x'.repeat(20_000) } })))).toBe(
      'TooLarge',
    );
    expect(await at.store.get(key('big'))).toBeNull();
  });
}

// ── lists ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function listTests(at: Bench): void {
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

function watchTests(at: Bench): void {
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
    for (let i = 0; i < 80; i++) await at.store.update(key('a'), { spec: { i } });
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
    for (let i = 0; i < 80; i++) await at.store.update(key('a'), { spec: { i } });
    const failure = await codeOf((async () => take(events, 100))());
    expect(failure).toBe('Gone');
  });

  test('a watcher of a quiet kind does not fall behind because of the others', async () => {
    const { events, stop } = watch({ since: '0', kinds: ['Host'] });
    const next = events.next();
    await at.store.create(object('a'));
    for (let i = 0; i < 80; i++) {
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

// ── engine ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function stateTests(at: Bench): void {
  test('state is written only on the version it was loaded at', async () => {
    expect(await at.store.loadState('u1')).toBeNull();
    expect(await at.store.commit({ state: { uid: 'u1', version: 0, value: { phase: 'Import' } } })).toEqual({
      stateVersion: 1,
      wrote: true,
    });
    expect(await codeOf(at.store.commit({ state: { uid: 'u1', version: 0, value: {} } }))).toBe(
      'StateConflict',
    );
    expect(await at.store.commit({ state: { uid: 'u1', version: 1, value: { phase: 'Ready' } } })).toEqual({
      stateVersion: 2,
      wrote: true,
    });
    expect(await at.store.loadState('u1')).toEqual({ version: 2, value: { phase: 'Ready' } });
    expect(await at.store.commit({ state: { uid: 'u1', version: 2, value: null } })).toEqual({
      stateVersion: null,
      wrote: true,
    });
    expect(await at.store.loadState('u1')).toBeNull();
  });

  test('a commit of what is stored already writes nothing', async () => {
    const { metadata } = await at.store.create(
      object('orders', { status: { phase: 'Ready', conditions: [] } }),
    );
    await at.store.commit({ state: { uid: 'u1', version: 0, value: { a: [1] } } });
    const writes = at.store.writes;
    const same = await at.store.commit({
      state: { uid: 'u1', version: 1, value: { a: [1] } },
      status: [{ key: key('orders'), uid: metadata.uid, value: { conditions: [], phase: 'Ready' } }],
      releases: [{ key: key('orders'), uid: metadata.uid, finalizer: 'not-there' }],
      secretPrefixesToDelete: ['clusters/none/'],
      events: [],
      intents: [],
    });
    expect(same).toEqual({ stateVersion: 1, wrote: false });
    expect(at.store.writes).toBe(writes);
  });

  test('status is written without a new generation, and only for the same uid', async () => {
    const { metadata } = await at.store.create(object('orders'));
    const stop = new AbortController();
    const events = at.store
      .watch({ since: metadata.resourceVersion, signal: stop.signal })
      [Symbol.asyncIterator]();
    await at.store.commit({ status: [{ key: key('orders'), uid: 'somebody else', value: { phase: 'No' } }] });
    await at.store.commit({ status: [{ key: key('gone'), uid: 'x', value: {} }] });
    await at.store.commit({ status: [{ key: key('orders'), uid: metadata.uid, value: { phase: 'Ready' } }] });
    const [event] = await take(events, 1);
    expect(event).toMatchObject({
      type: 'MODIFIED',
      object: { status: { phase: 'Ready' }, metadata: { generation: 1 } },
    });
    stop.abort();
  });

  test('A2.7 a batch is written as a whole or not at all', async () => {
    const { metadata } = await at.store.create(object('orders'));
    await at.store.commit({ intents: [intent('s1')] });
    const batch = {
      state: { uid: 'u1', version: 0, value: { a: 1 } },
      status: [{ key: key('orders'), uid: metadata.uid, value: { phase: 'Ready' } }],
      events: [event('Ready')],
      intents: [intent('s2')],
      outcomes: [{ id: 'never-intended', at: 1, kind: 'done' as const, message: '' }],
    };
    expect(await codeOf(at.store.commit(batch))).toBe('NotFound');
    expect(await at.store.loadState('u1')).toBeNull();
    expect((await at.store.get(key('orders')))?.status).toBeNull();
    expect(await at.store.events({ limit: 10 })).toEqual([]);
    expect((await at.store.journal({ clusterUid: 'u1', limit: 10 })).map((entry) => entry.id)).toEqual([
      's1',
    ]);
  });

  test('the last finalizer taken off removes a marked object and its secrets, and keeps its events', async () => {
    const { metadata } = await at.store.create(
      object('orders', { finalizers: ['belay.dev/cluster', 'other'] }),
    );
    const release = (finalizer: string) => ({
      releases: [{ key: key('orders'), uid: metadata.uid, finalizer }],
    });
    await at.store.commit(release('other'));
    expect((await at.store.get(key('orders')))?.metadata.finalizers).toEqual(['belay.dev/cluster']);
    await at.store.update(key('orders'), { delete: true });
    await at.store.putSealed('clusters/u1/key', new Uint8Array([1]), 0);
    await at.store.putSealed('clusters/u10/key', new Uint8Array([1]), 0);
    const events = [event('Deleted', { regarding: { kind: 'MongoDB', name: 'orders', uid: metadata.uid } })];
    await at.store.commit({
      ...release('belay.dev/cluster'),
      events,
      secretPrefixesToDelete: ['clusters/u1/'],
    });
    expect(await at.store.get(key('orders'))).toBeNull();
    expect((await at.store.listSealed('clusters/')).map((row) => row.name)).toEqual(['clusters/u10/key']);
    expect(await at.store.events({ uid: metadata.uid, limit: 5 })).toHaveLength(1);
  });
}

function leaseTests(at: Bench): void {
  test('S9 a lease has one holder; whoever takes it over has a higher epoch', async () => {
    const now = at.clock.now();
    const [mine] = await at.store.acquireLeases(['p1'], 'one', 10_000, now);
    expect(mine).toEqual({ name: 'p1', holder: 'one', epoch: 1, expiresAt: now + 10_000 });
    expect(await at.store.acquireLeases(['p1'], 'two', 10_000, now + 9_999)).toEqual([]);
    expect((await at.store.acquireLeases(['p1'], 'one', 10_000, now + 5_000))[0]?.epoch).toBe(1);
    expect(await at.store.acquireLeases(['p1'], 'two', 10_000, now + 14_999)).toEqual([]);
    expect((await at.store.acquireLeases(['p1'], 'two', 10_000, now + 15_000))[0]?.epoch).toBe(2);
    expect(await at.store.acquireLeases(['p1'], 'one', 10_000, now + 15_001)).toEqual([]);
  });

  test('many leases are taken and renewed in one write', async () => {
    const names = Array.from({ length: 1_200 }, (_, i) => `p${i}`);
    const now = at.clock.now();
    const writes = at.store.writes;
    expect(await at.store.acquireLeases(names, 'one', 10_000, now)).toHaveLength(1_200);
    expect(at.store.writes).toBe(writes + 1);
    expect(await at.store.acquireLeases(names, 'one', 10_000, now + 1)).toHaveLength(1_200);
    expect(at.store.writes).toBe(writes + 2);
    expect(await at.store.acquireLeases(names, 'two', 10_000, now + 1)).toEqual([]);
    expect(at.store.writes).toBe(writes + 2);
  });

  test('S9 a given-back lease is free at once, with a higher epoch also for the same holder', async () => {
    const now = at.clock.now();
    await at.store.acquireLeases(['p1', 'p2'], 'one', 10_000, now);
    await at.store.acquireLeases(['p3'], 'two', 10_000, now);
    await at.store.releaseLeases('one');
    expect(await codeOf(at.store.commit({ fence: { lease: 'p1', epoch: 1 } }))).toBe('LeaseLost');
    const taken = await at.store.acquireLeases(['p1', 'p2', 'p3'], 'one', 10_000, now);
    expect(taken.map((lease) => [lease.name, lease.epoch])).toEqual([
      ['p1', 2],
      ['p2', 2],
    ]);
  });

  test('S9 a write under an older epoch is refused as a whole', async () => {
    const now = at.clock.now();
    await at.store.acquireLeases(['p1'], 'one', 10, now);
    const batch = (epoch: number) => ({
      fence: { lease: 'p1', epoch },
      state: { uid: 'u1', version: 0, value: { epoch } },
    });
    await at.store.acquireLeases(['p1'], 'two', 10, now + 11);
    expect(await codeOf(at.store.commit(batch(1)))).toBe('LeaseLost');
    expect(await codeOf(at.store.commit({ fence: { lease: 'never', epoch: 1 } }))).toBe('LeaseLost');
    expect(await at.store.loadState('u1')).toBeNull();
    await at.store.commit(batch(2));
    expect(await at.store.loadState('u1')).toEqual({ version: 1, value: { epoch: 2 } });
  });
}

const intent = (id: string, more: Partial<JournalIntent> = {}): JournalIntent => ({
  id,
  clusterUid: 'u1',
  step: 'deploy',
  target: 'orders-0',
  reason: 'NewMember',
  epoch: 1,
  at: 1_000,
  detail: { image: 'x' },
  ...more,
});

function journalTests(at: Bench): void {
  const ids = async (limit = 100) =>
    (await at.store.journal({ clusterUid: 'u1', limit })).map((entry) => entry.id);
  const open = async () => (await at.store.openIntents('u1')).map((entry) => entry.id);
  const outcome = (id: string, kind: 'done' | 'failed' | 'unknown', message = '') => ({
    id,
    at: 2_000,
    kind,
    message,
  });

  test('S16 an intent is open until its outcome is written', async () => {
    await at.store.commit({ intents: [intent('s1'), intent('s2'), intent('s3', { clusterUid: 'u2' })] });
    expect(await at.store.openIntents('u1')).toEqual([
      { ...intent('s1'), outcome: null },
      { ...intent('s2'), outcome: null },
    ]);
    await at.store.commit({ outcomes: [outcome('s1', 'failed', 'no space')] });
    expect(await open()).toEqual(['s2']);
    expect((await at.store.journal({ clusterUid: 'u1', limit: 10 }))[0]?.outcome).toEqual(
      outcome('s1', 'failed', 'no space'),
    );
    expect(await ids(1)).toEqual(['s2']);
  });

  test('S10 an intent is written once, and its first outcome stands unless it was unknown', async () => {
    await at.store.commit({ intents: [intent('s1')] });
    expect(await codeOf(at.store.commit({ intents: [intent('s1')] }))).toBe('AlreadyExists');
    expect(await codeOf(at.store.commit({ intents: [intent('s2'), intent('s2')] }))).toBe('AlreadyExists');
    await at.store.commit({ outcomes: [outcome('s1', 'unknown')] });
    await at.store.commit({ outcomes: [outcome('s1', 'done')] });
    const writes = at.store.writes;
    await at.store.commit({ outcomes: [outcome('s1', 'failed')] });
    expect(at.store.writes).toBe(writes);
    expect((await at.store.journal({ clusterUid: 'u1', limit: 1 }))[0]?.outcome?.kind).toBe('done');
  });

  test('S16 old finished steps are trimmed, open ones never', async () => {
    await at.store.commit({ intents: [intent('open')] });
    for (let i = 0; i < 30; i++) {
      await at.store.commit({ intents: [intent(`s${i}`)] });
      await at.store.commit({ outcomes: [outcome(`s${i}`, 'done')] });
    }
    expect(await open()).toEqual(['open']);
    const kept = await ids();
    expect(kept.length).toBeLessThanOrEqual(1 + 5 + 2 + 1);
    expect(kept.at(-1)).toBe('s29');
    expect(kept).toContain('open');
  });
}

const event = (reason: string, more: Partial<NewEvent> = {}): NewEvent => ({
  namespace: 'prod',
  regarding: { kind: 'MongoDB', name: 'orders', uid: 'u1' },
  type: 'Normal',
  reason,
  message: `${reason} happened`,
  at: 1_000,
  ...more,
});

function eventTests(at: Bench): void {
  const reasons = async (query: object = {}) =>
    (await at.store.events({ limit: 100, ...query })).map((item) => item.reason);

  test('equal events are one row with a count and the first and last time', async () => {
    await at.store.recordEvents([event('Waiting'), event('Waiting', { at: 2_000 })]);
    await at.store.recordEvents([event('Waiting', { at: 3_000.7 }), event('Waiting', { at: 2_500 })]);
    await at.store.recordEvents([event('Waiting', { type: 'Warning', at: 4_000 })]);
    const [first, second] = await at.store.events({ uid: 'u1', limit: 10 });
    expect(first).toMatchObject({ ...event('Waiting'), at: 3_000, firstAt: 1_000, count: 4 });
    expect(second).toMatchObject({ type: 'Warning', count: 1 });
  });

  test('the newest events come, oldest of them first, by namespace or object', async () => {
    const other = { regarding: { kind: 'MongoDB', name: 'users', uid: 'u2' } };
    await at.store.recordEvents([
      event('A'),
      event('B'),
      event('C', { at: 500 }),
      event('D', { ...other, at: 3_000 }),
    ]);
    await at.store.recordEvents([
      event('E', { namespace: 'test', regarding: { kind: 'Host', name: 'h', uid: '' } }),
    ]);
    expect(await reasons()).toEqual(['C', 'A', 'B', 'E', 'D']);
    expect(await reasons({ limit: 2 })).toEqual(['E', 'D']);
    expect(await reasons({ uid: 'u1' })).toEqual(['C', 'A', 'B']);
    expect(await reasons({ namespace: 'test' })).toEqual(['E']);
  });

  test('one object keeps a limited number, without touching the others', async () => {
    await at.store.recordEvents([
      event('Quiet', { regarding: { kind: 'MongoDB', name: 'q', uid: 'u2' }, at: 1 }),
    ]);
    for (let i = 0; i < 25; i++) await at.store.recordEvents([event(`R${i}`, { at: 1_000 + i })]);
    const kept = await reasons({ uid: 'u1' });
    expect(kept.length).toBeLessThanOrEqual(5 + 2);
    expect(kept.at(-1)).toBe('R24');
    expect(await reasons({ uid: 'u2' })).toEqual(['Quiet']);
  });

  test('all objects together keep a limited number', async () => {
    for (let i = 0; i < 120; i++) {
      await at.store.recordEvents([
        event('R', { at: i, regarding: { kind: 'MongoDB', name: 'x', uid: `o${i}` } }),
      ]);
    }
    const kept = await at.store.events({ limit: 1_000 });
    expect(kept.length).toBeLessThanOrEqual(40 + 10);
    expect(kept.at(-1)?.at).toBe(119);
  });

  test('a message with a NUL or of any length is kept, cut to the limit', async () => {
    await at.store.recordEvents([event('Odd', { message: `a\u0000b${'x'.repeat(10_000)}` })]);
    const [kept] = await at.store.events({ limit: 1 });
    expect(kept?.message.slice(0, 3)).toBe('abx');
    expect(kept?.message).toHaveLength(4_000);
  });
}

// ── secrets, tokens, settings ──────────────────────────────────────────────────────────────────────────────────────

const token = (id: string, more: Partial<TokenRow> = {}): TokenRow => ({
  id,
  kind: 'join',
  role: '*',
  name: 'for host a',
  hash: 'aa',
  createdAt: 1_000,
  expiresAt: null,
  usedAt: null,
  ...more,
});

function securityTests(at: Bench): void {
  test('a sealed row is put on its version, read, listed and removed by prefix', async () => {
    const bytes = new Uint8Array([0, 1, 255]);
    expect(await at.store.putSealed('a/x', bytes, 0)).toBe(1);
    expect(await codeOf(at.store.putSealed('a/x', bytes, 0))).toBe('Conflict');
    expect(await at.store.putSealed('a/x', new Uint8Array([7]), 1)).toBe(2);
    expect(await at.store.putSealed('a/x', bytes, null)).toBe(3);
    const read = await at.store.getSealed('a/x');
    expect([...(read?.sealed ?? [])]).toEqual([0, 1, 255]);
    expect(read).toMatchObject({ name: 'a/x', version: 3 });
    for (const name of ['a/b', 'ab', 'a/', 'b/x', 'a/ü']) await at.store.putSealed(name, bytes, null);
    expect((await at.store.listSealed('a/')).map((row) => row.name)).toEqual(['a/', 'a/b', 'a/x', 'a/ü']);
    expect(await at.store.deleteSealed('a/')).toBe(4);
    expect((await at.store.listSealed('')).map((row) => row.name)).toEqual(['ab', 'b/x']);
    expect(await at.store.getSealed('a/x')).toBeNull();
  });

  test('all sealed rows are replaced, or none', async () => {
    for (const name of ['a', 'b']) await at.store.putSealed(name, new Uint8Array([1]), 0);
    const rows = await at.store.listSealed('');
    const next = rows.map((row) => ({ ...row, sealed: new Uint8Array([2]) }));
    await at.store.replaceSealed(next);
    expect((await at.store.listSealed('')).map((row) => [row.version, row.sealed[0]])).toEqual([
      [2, 2],
      [2, 2],
    ]);
    await at.store.putSealed('b', new Uint8Array([9]), null);
    const stale = next.map((row) => ({ ...row, version: 2, sealed: new Uint8Array([3]) }));
    expect(await codeOf(at.store.replaceSealed(stale))).toBe('Conflict');
    expect((await at.store.listSealed('')).map((row) => row.sealed[0])).toEqual([2, 9]);
  });

  test('a token reads back and is used by exactly one caller, before it expires', async () => {
    const row = token('t1', { expiresAt: 5_000 });
    await at.store.putToken(row);
    await at.store.putToken(token('t2', { createdAt: 500 }));
    await at.store.putToken(token('t3', { kind: 'api', role: 'admin' }));
    expect(await codeOf(at.store.putToken(row))).toBe('AlreadyExists');
    expect(await at.store.getToken('t1')).toEqual(row);
    expect((await at.store.listTokens('join')).map((item) => item.id)).toEqual(['t2', 't1']);
    expect(await at.store.useToken('t1', 5_000)).toBe(false);
    const uses = await Promise.all(Array.from({ length: 8 }, () => at.store.useToken('t1', 4_999)));
    expect(uses.filter(Boolean)).toHaveLength(1);
    expect((await at.store.getToken('t1'))?.usedAt).toBe(4_999);
    expect(await at.store.useToken('nobody', 1)).toBe(false);
    await at.store.deleteToken('t1');
    expect(await at.store.getToken('t1')).toBeNull();
  });

  test('the first writer of a setting wins', async () => {
    expect(await at.store.getSetting('id')).toBeNull();
    expect(await at.store.initSetting('id', 'one')).toBe('one');
    expect(await at.store.initSetting('id', 'two')).toBe('one');
    expect(await at.store.getSetting('id')).toBe('one');
  });
}

// ── several instances ──────────────────────────────────────────────────────────────────────────────────────────────

function sharedTests(at: Bench): void {
  test('what one instance wrote another reads, also after all were closed', async () => {
    const made = await at.store.create(object('orders'));
    expect(await (await another(at)).get(key('orders'))).toEqual(made);
    for (const store of at.opened) await store.close();
    expect(await (await another(at)).get(key('orders'))).toEqual(made);
  });

  test('several instances that open an empty place at once all work', async () => {
    await at.store.close();
    await at.place.remove();
    const stores = await Promise.all(Array.from({ length: 4 }, () => another(at)));
    const made = await Promise.all(stores.map((store, i) => store.create(object(`c${i}`))));
    expect(new Set(made.map((item) => item.metadata.resourceVersion)).size).toBe(4);
  });

  test('writers on several instances lose no update and no number', async () => {
    const stores = [at.store, await another(at), await another(at)];
    await at.store.create(object('counter', { spec: { n: 0 } }));
    const bump = async (store: Store): Promise<void> => {
      for (;;) {
        const current = await store.get(key('counter'));
        const n = (current?.spec as { n: number } | undefined)?.n ?? 0;
        const code = await codeOf(
          store.update(key('counter'), { spec: { n: n + 1 } }, current?.metadata.resourceVersion),
        );
        if (code === 'no failure') return;
        expect(code).toBe('Conflict');
      }
    };
    await Promise.all(stores.flatMap((store) => Array.from({ length: 8 }, () => bump(store))));
    const last = await at.store.get(key('counter'));
    expect(last?.spec).toEqual({ n: 24 });
    expect(last?.metadata.generation).toBe(25);
  });

  test('S9 two instances fight for a lease: one epoch has one holder, and only its writes land', async () => {
    const stores = [at.store, await another(at)];
    const now = at.clock.now();
    const holders = new Map<number, string>();
    const rounds = stores.map(async (store, me) => {
      for (let i = 0; i < 15; i++) {
        const [lease] = await store.acquireLeases(['p1'], `holder-${me}`, 1, now + i * 2);
        if (lease === undefined) continue;
        expect(holders.get(lease.epoch) ?? lease.holder).toBe(lease.holder);
        holders.set(lease.epoch, lease.holder);
        const state = await store.loadState('u1');
        const value = { epoch: lease.epoch, holder: lease.holder, i };
        const batch = {
          fence: { lease: 'p1', epoch: lease.epoch },
          state: { uid: 'u1', version: state?.version ?? 0, value },
        };
        expect(['no failure', 'LeaseLost', 'StateConflict']).toContain(await codeOf(store.commit(batch)));
      }
    });
    await Promise.all(rounds);
    const last = (await at.store.loadState('u1'))?.value as { epoch: number; holder: string };
    expect(holders.get(last.epoch)).toBe(last.holder);
  });

  test('a one-time token is used once, whoever asks', async () => {
    const stores = [at.store, await another(at), await another(at)];
    await at.store.putToken(token('t1'));
    const uses = await Promise.all(
      stores.flatMap((store) => [1, 2, 3].map((now) => store.useToken('t1', now))),
    );
    expect(uses.filter(Boolean)).toHaveLength(1);
  });

  test('a watch misses nothing of what several instances write, and keeps the order', async () => {
    const stores = [at.store, await another(at), await another(at)];
    const stop = new AbortController();
    const events = at.store.watch({ since: '0', signal: stop.signal })[Symbol.asyncIterator]();
    const seen = take(events, 45);
    await Promise.all(
      stores.map(async (store, me) => {
        for (let i = 0; i < 15; i++) await store.create(object(`w${me}-${i}`));
      }),
    );
    at.clock.advance(1_000);
    const versions = (await seen).map((event) => Number(event.object.metadata.resourceVersion));
    expect(versions).toEqual(Array.from({ length: 45 }, (_, i) => i + 1));
    stop.abort();
  });
}
