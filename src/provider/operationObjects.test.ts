/** Which operations are about a cluster, in which order, and what each asks for. */
import { expect, test } from 'vitest';
import { Informer } from '../engine/informer.ts';
import type { StoredObject } from '../engine/ports.ts';
import { silentLog } from '../engine/testing/bench.ts';
import { ManualClock } from '../engine/testing/clock.ts';
import { openMemoryStore } from '../store/memory.ts';
import { OperationIndex, requestOf } from './operationObjects.ts';
import { create, replicaSet } from './testing/rig.ts';

async function scene() {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const informer = new Informer({ store, clock, log: silentLog, kinds: ['MongoDB', 'Operation'] });
  const index = new OperationIndex(informer);
  const ask = async (name: string, ref: object = { name: 'orders' }, namespace = 'default') => {
    await clock.advance(1_000);
    const spec = { type: 'Restart', mongodbResourceRef: ref };
    const finalizers = ['belay.dev/operation'];
    const object = await store.create({ kind: 'Operation', namespace, name, spec, finalizers });
    informer.learn(object);
    return object;
  };
  const learn = async (name: string, change: object): Promise<StoredObject> => {
    const key = { kind: 'Operation', namespace: 'default', name };
    await store.update(key, change);
    const object = (await store.get(key)) as StoredObject;
    informer.learn(object);
    return object;
  };
  const open = (cluster: StoredObject) => index.open(cluster).map((o) => o.metadata.name);
  return { clock, store, informer, ask, learn, open };
}

test('A13.6 operations come in the order in which they were asked for, whatever their names', async () => {
  const { store, ask, open } = await scene();
  const cluster = await create(store, 'MongoDB', 'orders', replicaSet());
  for (const name of ['zebra', 'apple', 'mole']) await ask(name);
  expect(open(cluster)).toEqual(['zebra', 'apple', 'mole']);
});

test('A13.1 what was asked of an earlier database of that name, or of another one, is nothing to this one', async () => {
  const { clock, store, ask, open } = await scene();
  await ask('before');
  await clock.advance(1_000);
  const cluster = await create(store, 'MongoDB', 'orders', replicaSet());
  await ask('other', { name: 'invoices' });
  await ask('elsewhere', { name: 'orders' }, 'other');
  await ask('ours');
  await ask('from-elsewhere', { name: 'orders', namespace: 'default' }, 'other');
  expect(open(cluster)).toEqual(['ours', 'from-elsewhere']);
});

test('A13.1 one that ended or vanished is open no more', async () => {
  const { store, informer, ask, open } = await scene();
  const cluster = await create(store, 'MongoDB', 'orders', replicaSet());
  for (const name of ['a', 'b', 'c']) await ask(name);
  const key = { kind: 'Operation', namespace: 'default', name: 'a' };
  const { uid } = ((await store.get(key)) as StoredObject).metadata;
  await store.commit({ status: [{ key, uid, value: { state: 'Succeeded' } }] });
  informer.learn((await store.get(key)) as StoredObject);
  informer.forget((await store.get({ ...key, name: 'b' })) as StoredObject);
  expect(open(cluster)).toEqual(['c']);
});

test('A13.1 to cancel and to delete one both ask that it be stopped', async () => {
  const { ask, learn } = await scene();
  for (const name of ['plain', 'cancelled', 'deleted']) await ask(name);
  const wanted = async (name: string, change: object) => requestOf(await learn(name, change)).cancelRequested;
  expect(await wanted('plain', { annotations: { note: 'x' } })).toBe(false);
  expect(await wanted('cancelled', { annotations: { 'belay.dev/cancel-requested': 'me' } })).toBe(true);
  expect(await wanted('deleted', { delete: true })).toBe(true);
});
