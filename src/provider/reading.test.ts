import { expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { SECOND } from '../base/units.ts';
import type { State } from '../clusters/index.ts';
import type { StoredObject } from '../engine/ports.ts';
import { clusterKey, create, makeRig, replicaSet } from './testing/rig.ts';

/** A running set, and how the provider reads the world around it. */
async function scene() {
  const rig = makeRig();
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(5 * SECOND);
  const { provider } = control.provider;
  const reading = async (fresh: boolean) => {
    const object = (await rig.store.get(clusterKey('orders'))) as StoredObject;
    const state = (await rig.store.loadState(object.metadata.uid))?.value as State;
    return provider.observe({ object, desired: provider.desired(object), state }, fresh);
  };
  return { ...rig, control, reading };
}

test('S4 while a cluster is taken down, one host that does not list its services leaves all services unknown', async () => {
  const { store, fleet, control, reading } = await scene();
  await store.update(clusterKey('orders'), { spec: { ...(await specOf(store)), paused: true } });
  await store.update(clusterKey('orders'), {
    spec: { ...(await specOf(store)), suspend: true, paused: true },
  });
  expect((await reading(true)).services).toHaveLength(6);
  const services = fleet.services.bind(fleet);
  fleet.services = async (host) => {
    if (host === 'db3') throw new BelayError('NoAnswer', 'silence');
    return services(host);
  };
  expect((await reading(true)).services).toBeNull();
  fleet.connect('db3', false);
  expect((await reading(true)).services).toHaveLength(4);
  await control.close();
});

test('S4 a reading before an effect asks the hosts of the members again, whatever is remembered', async () => {
  const { store, fleet, control, reading } = await scene();
  await store.update(clusterKey('orders'), {
    spec: { ...(await specOf(store)), suspend: true, paused: true },
  });
  await reading(false);
  const asked = fleet.listings;
  await reading(false);
  expect(fleet.listings).toBe(asked);
  await reading(true);
  expect(fleet.listings).toBe(asked + 3);
  await control.close();
});

test('S15 facts are as good as the channel they came over', async () => {
  const { fleet, control, reading } = await scene();
  expect((await reading(false)).members.map((m) => m.connected)).toEqual([true, true, true]);
  fleet.connect('db2', false);
  const { members } = await reading(false);
  expect(members.map((m) => m.connected)).toEqual([true, false, true]);
  await control.close();
});

async function specOf(store: { get: (key: ReturnType<typeof clusterKey>) => Promise<StoredObject | null> }) {
  return ((await store.get(clusterKey('orders')))?.spec ?? {}) as Readonly<Record<string, unknown>>;
}
