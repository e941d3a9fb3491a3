import { expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { SECOND } from '../base/units.ts';
import { openMemoryStore } from '../store/memory.ts';
import { askedForMore, Informer, type ObjectChanged } from './informer.ts';
import type { Store } from './ports.ts';
import { silentLog } from './testing/bench.ts';
import { ManualClock, settle } from './testing/clock.ts';

async function scene(over: (store: Store) => Store = (store) => store) {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const create = (name: string) => store.create({ kind: 'Toy', namespace: 'default', name, spec: { n: 1 } });
  await create('early');
  const informer = new Informer({ store: over(store), clock, log: silentLog, kinds: ['Toy'] });
  const changes: ObjectChanged[] = [];
  informer.onChange((change) => changes.push(change));
  await informer.open();
  await settle();
  return { clock, store, informer, changes, create };
}
const key = (name: string) => ({ kind: 'Toy', namespace: 'default', name });

test('what was there before and what comes later is known, by key and by uid', async () => {
  const { store, informer, create } = await scene();
  const late = await create('late');
  await settle();
  expect(informer.get(key('early'))?.metadata.name).toBe('early');
  expect(informer.byUid(late.metadata.uid)?.metadata.name).toBe('late');
  await store.update(key('early'), { spec: { n: 2 } });
  await settle();
  expect(informer.get(key('early'))?.spec).toEqual({ n: 2 });
  await store.update(key('late'), { delete: true });
  await settle();
  expect(informer.get(key('late'))).toBeNull();
  await informer.close();
});

test('when the feed breaks, everything is listed again: nothing is missed, deletions neither', async () => {
  let broken = false;
  const { clock, store, informer, changes } = await scene((real) => ({
    ...real,
    list: (query) => real.list(query),
    watch: async function* (query) {
      for await (const event of real.watch(query)) {
        if (broken) throw new BelayError('Gone', 'too far behind', { retry: 'never' });
        yield event;
      }
    },
  }));
  broken = true;
  await store.create({ kind: 'Toy', namespace: 'default', name: 'unseen', spec: { n: 1 } });
  await store.update(key('early'), { delete: true });
  await settle();
  broken = false;
  changes.length = 0;
  await clock.advance(2 * SECOND);
  expect(informer.get(key('unseen'))).not.toBeNull();
  expect(informer.get(key('early'))).toBeNull();
  expect(changes.map((c) => [c.before?.metadata.name, c.after?.metadata.name])).toEqual(
    expect.arrayContaining([
      [undefined, 'unseen'],
      ['early', undefined],
    ]),
  );
  await informer.close();
});

test('what is written while one kind after the other is listed is not missed', async () => {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const informer = new Informer({
    store: {
      watch: (query) => store.watch(query),
      list: async (query) => {
        if (query.kind === 'Second')
          await store.create({ kind: 'First', namespace: 'default', name: 'between', spec: {} });
        return store.list(query);
      },
    },
    clock,
    log: silentLog,
    kinds: ['First', 'Second'],
  });
  await informer.open();
  await settle();
  expect(informer.all('First').map((object) => object.metadata.name)).toEqual(['between']);
  await informer.close();
});

test('an older version than the one known is ignored', async () => {
  const { store, informer } = await scene();
  const old = await store.get(key('early'));
  await store.update(key('early'), { spec: { n: 2 } });
  await settle();
  if (old !== null) informer.learn(old);
  expect(informer.get(key('early'))?.spec).toEqual({ n: 2 });
  await informer.close();
});

test('a status written is no request; a spec, an annotation, a label or a deletion is', async () => {
  const { store, changes, informer } = await scene();
  const early = await store.get(key('early'));
  const status = [{ key: key('early'), uid: early?.metadata.uid ?? '', value: { phase: 'Ready' } }];
  await store.commit({ status });
  await store.update(key('early'), { annotations: { note: 'x' } });
  await store.update(key('early'), { labels: { team: 'shop' } });
  await store.update(key('early'), { spec: { n: 2 }, finalizers: ['f'] });
  await store.update(key('early'), { delete: true });
  await settle();
  expect(changes.slice(1).map(askedForMore)).toEqual([false, true, true, true, true]);
  await informer.close();
});

test('more objects than one page of a list are all known', async () => {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const name = (n: number): string => `toy-${String(n).padStart(3, '0')}`;
  for (let n = 0; n < 501; n++)
    await store.create({ kind: 'Toy', namespace: 'default', name: name(n), spec: {} });
  const informer = new Informer({ store, clock, log: silentLog, kinds: ['Toy'] });
  await informer.open();
  expect(informer.all('Toy')).toHaveLength(501);
  expect(informer.get(key(name(500)))).not.toBeNull();
  await informer.close();
});

test('an object made anew under its name stays known when the end of the one before is told late', async () => {
  const { store, informer, create } = await scene();
  const old = await store.get(key('early'));
  await store.update(key('early'), { delete: true });
  const next = await create('early');
  informer.learn(next);
  if (old !== null) informer.forget(old);
  expect(informer.get(key('early'))?.metadata.uid).toBe(next.metadata.uid);
  await informer.close();
});
