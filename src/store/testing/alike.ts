/** The same random calls on two stores, which must answer alike. */
import { expect } from 'vitest';
import type { BelayError } from '../../base/error.ts';
import { makeRng, type Rng } from '../../base/rng.ts';
import type { Store } from '../../engine/ports.ts';
import { openMemoryStore } from '../memory.ts';
import type { ManualClock } from './clock.ts';

/** Small, so that all limits are passed on the way. */
export const LIMITS = {
  changes: 30,
  eventsPerObject: 3,
  events: 12,
  journalPerCluster: 4,
  slack: 2,
  rowsPerHousekeeping: 9,
  listChunk: 2,
};

/** Draws one call; both stores get the same ones. */
function draw(rng: Rng, clock: ManualClock): (store: Store) => Promise<unknown> {
  const name = rng.pick(['a', 'b', 'c', 'd']);
  const key = { kind: 'MongoDB', namespace: rng.pick(['x', 'y']), name };
  const value = { n: rng.below(3), list: rng.chance(0.5) ? [1, null] : [] };
  const labels = { tier: rng.pick(['gold', 'silver']) };
  const finalizers = rng.pick([[], ['f'], ['f', 'g']]);
  const step = `s${rng.below(40)}`;
  const at = clock.now() + rng.below(50);
  const event = {
    namespace: 'x',
    regarding: { kind: 'MongoDB', name, uid: name },
    type: 'Normal' as const,
    reason: `R${rng.below(9)}`,
    message: 'm',
    at,
  };
  const intent = {
    id: step,
    clusterUid: name,
    step: 'deploy',
    target: 't',
    reason: 'r',
    epoch: 1,
    at,
    detail: value,
  };
  const outcome = { id: step, at, kind: rng.pick(['done', 'failed', 'unknown'] as const), message: 'm' };
  const expected = rng.below(4);
  const holder = rng.pick(['one', 'two']);
  const bytes = new Uint8Array([rng.below(256)]);
  const uidOf = async (store: Store): Promise<string> => (await store.get(key))?.metadata.uid ?? 'none';
  return rng.pick<(store: Store) => Promise<unknown>>([
    (store) => store.create({ ...key, labels, finalizers, spec: value }),
    (store) => store.update(key, { spec: value }),
    (store) => store.update(key, { labels, finalizers }),
    (store) => store.update(key, { delete: true }),
    (store) => store.update(key, { labels }, String(rng.below(30))),
    (store) => store.list({ kind: 'MongoDB', labelSelector: 'tier=gold', limit: 2 }),
    async (store) => store.commit({ status: [{ key, uid: await uidOf(store), value }], events: [event] }),
    async (store) => store.commit({ releases: [{ key, uid: await uidOf(store), finalizer: 'f' }] }),
    (store) =>
      store.commit({ state: { uid: name, version: expected, value: expected === 3 ? null : value } }),
    (store) => store.commit({ intents: [intent], fence: { lease: 'p', epoch: expected } }),
    (store) => store.commit({ intents: [intent], events: [event, event] }),
    (store) => store.commit({ outcomes: [outcome] }),
    (store) => store.acquireLeases(['p', 'q'], holder, 20, at),
    (store) => store.releaseLeases(holder),
    (store) => store.putSealed(`s/${name}`, bytes, rng.chance(0.5) ? null : expected),
    (store) => store.deleteSealed(`s/${name}`),
    (store) => store.recordEvents([event]),
  ]);
}

/** Everything that can be seen of a store. */
async function look(store: Store): Promise<unknown> {
  const uids = ['a', 'b', 'c', 'd'];
  const { resourceVersion, items } = await store.list({ kind: 'MongoDB' });
  return {
    resourceVersion,
    items,
    states: await Promise.all(uids.map((uid) => store.loadState(uid))),
    journals: await Promise.all(uids.map((clusterUid) => store.journal({ clusterUid, limit: 99 }))),
    open: await Promise.all(uids.map((uid) => store.openIntents(uid))),
    events: await store.events({ limit: 99 }),
    sealed: (await store.listSealed('')).map(({ name, version, sealed }) => [name, version, [...sealed]]),
    writes: store.writes,
    changes: await changes(store, Number(resourceVersion)),
  };
}

/** The kept changes up to the newest, or why they cannot be read. */
async function changes(store: Store, head: number): Promise<unknown> {
  const stop = new AbortController();
  const seen: unknown[] = [];
  const since = String(Math.max(0, head - 25));
  if (since === String(head)) return seen;
  for await (const event of store.watch({ since, signal: stop.signal })) {
    seen.push(event);
    if (Number(event.object.metadata.resourceVersion) === head) stop.abort();
  }
  return seen;
}

async function outcomeOf(work: Promise<unknown>): Promise<unknown> {
  try {
    return await work;
  } catch (failure) {
    return { code: (failure as BelayError).code, message: (failure as BelayError).message };
  }
}

/** Uids are drawn by each store itself: replaced by the order of their first appearance. */
function anonymous(value: unknown, known: Map<string, string>): unknown {
  return JSON.parse(
    JSON.stringify(value ?? null).replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, (uid) => {
      if (!known.has(uid)) known.set(uid, `uid-${known.size + 1}`);
      return known.get(uid) as string;
    }),
  );
}

/** Plays the calls on a memory store and the given one; they must answer alike and end alike. */
export async function expectAlike(
  seed: number,
  clock: ManualClock,
  other: Store,
  calls = 250,
): Promise<void> {
  const stores = [openMemoryStore({ clock, limits: LIMITS }), other];
  const names = stores.map(() => new Map<string, string>());
  const draws = makeRng(seed);
  for (let i = 0; i < calls; i++) {
    clock.advance(draws.below(30));
    const fork = draws.below(1_000_000);
    const results: unknown[] = [];
    for (const [index, store] of stores.entries()) {
      const call = draw(makeRng(fork), clock);
      results.push(anonymous(await outcomeOf(call(store)), names[index] as Map<string, string>));
    }
    expect(results[1], `call ${i}`).toEqual(results[0]);
  }
  const looks: unknown[] = [];
  for (const [index, store] of stores.entries()) {
    looks.push(anonymous(await look(store), names[index] as Map<string, string>));
  }
  expect(looks[1]).toEqual(looks[0]);
}
