/** Conformance: several instances on the same data. */
import { expect, test } from 'vitest';
import type { Store } from '../../engine/ports.ts';
import { another, type Bench, codeOf, key, object, take, token } from './bench.ts';

// ── several instances ──────────────────────────────────────────────────────────────────────────────────────────────

export function sharedTests(at: Bench): void {
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
    const seen = take(events, 15);
    await Promise.all(
      stores.map(async (store, me) => {
        for (let i = 0; i < 5; i++) await store.create(object(`w${me}-${i}`));
      }),
    );
    at.clock.advance(1_000);
    const versions = (await seen).map((event) => Number(event.object.metadata.resourceVersion));
    expect(versions).toEqual(Array.from({ length: 15 }, (_, i) => i + 1));
    stop.abort();
  });
}
