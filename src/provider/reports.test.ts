/** Reports from the field that need the whole control plane: secrets, restarts of it, what is left in the store. */
import { expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import { MINUTE, SECOND } from '../base/units.ts';
import {
  admitted,
  appUser,
  clusterKey,
  conditionOf,
  create,
  makeRig,
  replicaSet,
  statusOf,
  userKey,
} from './testing/rig.ts';

async function ready() {
  const rig = makeRig();
  const control = await rig.start('one');
  const { metadata } = await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(5 * SECOND);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
  return { ...rig, control, uid: metadata.uid };
}

const secretsOf = async (rig: Awaited<ReturnType<typeof ready>>): Promise<readonly string[]> =>
  (await rig.control.secrets.list('users/'))
    .map((name) => name.split('/')[2] ?? '')
    .filter((n, i, all) => all.indexOf(n) === i);

test('DEL-01 a renamed connection secret: the old one goes when the new one is in use, and what people made stays', async () => {
  const rig = await ready();
  const { store, clock, control } = rig;
  await control.secrets.put('users/default/app-password/password', secret('given'));
  const user = (name?: string) =>
    appUser({
      passwordSecretKeyRef: { name: 'app-password' },
      ...(name === undefined ? {} : { connectionStringSecretName: name }),
    });
  await create(store, 'MongoDBUser', 'app', user());
  await clock.advance(2 * SECOND);
  const own = 'orders-app-admin';
  expect([...(await secretsOf(rig))].sort()).toEqual(['app-password', own]);
  for (const name of ['first', 'second', own]) {
    const spec = user(name === own ? undefined : name);
    await store.update(userKey('app'), { spec: admitted('MongoDBUser', 'app', spec) });
    await clock.advance(2 * SECOND);
    expect([...(await secretsOf(rig))].sort()).toEqual(['app-password', name].sort());
  }
  await control.close();
});

test('DEL-08 a deletion that was asked for while no control plane ran is carried out by the next one', async () => {
  const { store, fleet, clock, control, start, uid } = await ready();
  await control.close();
  await store.update(clusterKey('orders'), { delete: true });
  await clock.advance(MINUTE);
  expect(fleet.runtimes).toHaveLength(3);
  const again = await start('two');
  await clock.advance(20 * SECOND);
  expect(await store.get(clusterKey('orders'))).toBeNull();
  expect([fleet.runtimes, fleet.volumes, await store.listSealed(`clusters/${uid}/`)]).toEqual([[], [], []]);
  await again.close();
});

test('DEL-08 a control plane that dies in the middle of a deletion leaves nothing to do by hand', async () => {
  const { store, fleet, clock, control, start } = await ready();
  fleet.connect('db3', false);
  await store.update(clusterKey('orders'), { delete: true });
  await clock.advance(5 * SECOND);
  await control.close();
  expect(fleet.runtimes).toHaveLength(1);
  fleet.connect('db3', true);
  const again = await start('two');
  await clock.advance(20 * SECOND);
  expect([await store.get(clusterKey('orders')), fleet.runtimes, fleet.volumes]).toEqual([null, [], []]);
  await again.close();
});

test('STA-03 UPG-06 a status of another shape in the store is written anew by the next control plane, without an error loop', async () => {
  const { store, clock, control, start, uid } = await ready();
  await control.close();
  const stored = await store.get(clusterKey('orders'));
  const foreign = { phase: 'Ready', conditions: { Ready: 'True' }, members: { 'orders-0': {} } };
  const holder = await start('writer');
  const fence = holder.engine.leases.fence(uid);
  if (fence === null || stored === null) throw new Error('no lease');
  await store.commit({ fence, status: [{ key: clusterKey('orders'), uid, value: foreign }] });
  await holder.close();
  const again = await start('two');
  await clock.advance(20 * SECOND);
  const status = await statusOf(store, 'orders');
  expect([status?.phase, conditionOf(status, 'Ready')?.status, status?.members.length]).toEqual([
    'Ready',
    'True',
    3,
  ]);
  await again.close();
});

test('PAU-01 PAU-04 suspended and resumed: the same endpoints, credentials and settings', async () => {
  const { store, clock, control, uid } = await ready();
  const spec = (suspend: boolean) => ({ spec: admitted('MongoDB', 'orders', replicaSet({ suspend })) });
  const before = await statusOf(store, 'orders');
  const sealed = (await store.listSealed(`clusters/${uid}/`)).map((row) => [row.name, row.version]);
  await store.update(clusterKey('orders'), spec(true));
  await clock.advance(10 * SECOND);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Suspended');
  await store.update(clusterKey('orders'), spec(false));
  await clock.advance(10 * SECOND);
  const after = await statusOf(store, 'orders');
  expect([after?.phase, after?.endpoints, after?.connectionString]).toEqual([
    'Ready',
    before?.endpoints,
    before?.connectionString,
  ]);
  const names = (rows: readonly (readonly unknown[])[]) =>
    rows.filter(([name]) => !String(name).includes('/members/'));
  const now = (await store.listSealed(`clusters/${uid}/`)).map((row) => [row.name, row.version]);
  expect(names(now)).toEqual(names(sealed));
  await control.close();
});
