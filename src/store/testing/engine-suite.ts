/** Conformance: state, leases, journal and events. */
import { expect, test } from 'vitest';
import { type Bench, codeOf, event, intent, key, object, take } from './bench.ts';

// ── engine ─────────────────────────────────────────────────────────────────────────────────────────────────────────

export function stateTests(at: Bench): void {
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

  test('every object changed in one commit has a version of its own, and a watch gives them all', async () => {
    const made = [await at.store.create(object('a')), await at.store.create(object('b'))];
    const stop = new AbortController();
    const since = made.at(-1)?.metadata.resourceVersion as string;
    const events = at.store.watch({ since, signal: stop.signal })[Symbol.asyncIterator]();
    const status = made.map(({ metadata }) => ({
      key: key(metadata.name),
      uid: metadata.uid,
      value: { n: 1 },
    }));
    await at.store.commit({ status });
    const seen = (await take(events, 2)).map((event) => event.object.metadata);
    expect(seen.map((metadata) => metadata.name)).toEqual(['a', 'b']);
    expect(seen.map((metadata) => Number(metadata.resourceVersion) - Number(since))).toEqual([1, 2]);
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

export function leaseTests(at: Bench): void {
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

export function journalTests(at: Bench): void {
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

  test('C7.1 an intent keeps how long it was held back', async () => {
    const held = intent('s1', { heldBack: 86_400_000 });
    await at.store.commit({ intents: [held, intent('s2')] });
    expect(await at.store.openIntents('u1')).toEqual([
      { ...held, outcome: null },
      { ...intent('s2'), outcome: null },
    ]);
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

export function eventTests(at: Bench): void {
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
    for (let i = 0; i < 60; i++) {
      await at.store.recordEvents([
        event('R', { at: i, regarding: { kind: 'MongoDB', name: 'x', uid: `o${i}` } }),
      ]);
    }
    const kept = await at.store.events({ limit: 1_000 });
    expect(kept.length).toBeLessThanOrEqual(20 + 10);
    expect(kept.at(-1)?.at).toBe(59);
  });

  test('a message with a NUL or of any length is kept, cut to the limit', async () => {
    await at.store.recordEvents([event('Odd', { message: `a\u0000b${'x'.repeat(10_000)}` })]);
    const [kept] = await at.store.events({ limit: 1 });
    expect(kept?.message.slice(0, 3)).toBe('abx');
    expect(kept?.message).toHaveLength(4_000);
  });
}
