import { expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { conditionOf, create, makeRig, replicaSet, statusOf } from './testing/rig.ts';

test('A4.1 A4.2 A5.1 a replica set becomes Ready: every step once, in order', async () => {
  const { clock, store, fleet, start } = makeRig();
  const control = await start('one');
  await create(store, 'MongoDB', 'orders', replicaSet());
  await clock.advance(10 * SECOND);
  const status = await statusOf(store, 'orders');
  expect(status).toMatchObject({ phase: 'Ready', readyMembers: 3, observedGeneration: 1 });
  expect(conditionOf(status, 'Ready')?.status).toBe('True');
  expect(fleet.done).toEqual([
    'publish orders-0',
    'publish orders-1',
    'publish orders-2',
    'initiate orders-0',
    'createFirstUser orders-0',
    'reconcileUsers orders-0',
  ]);
  expect(fleet.users('orders-0')).toEqual([
    'admin.backup',
    'admin.clusterAdmin',
    'admin.clusterMonitor',
    'admin.databaseAdmin',
    'admin.userAdmin',
  ]);
  await control.close();
});

test('creation needs no timer: every completion wakes the next step', async () => {
  const { clock, store, start } = makeRig();
  const control = await start('one');
  await create(store, 'MongoDB', 'orders', replicaSet());
  await clock.advance(0);
  await control.engine.idle();
  for (let turn = 0; turn < 20; turn++) await clock.advance(0);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Ready');
  await control.close();
});
