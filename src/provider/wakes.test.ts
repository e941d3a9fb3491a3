/** Which events wake which cluster: without them a change would wait for the next look, half a minute away. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import {
  appUser,
  clusterKey,
  create,
  makeRig,
  type Rig,
  type Running,
  replicaSet,
  statusOf,
} from './testing/rig.ts';

let rig: Rig;
let control: Running;
beforeEach(async () => {
  rig = makeRig(['db1', 'db2', 'db3', 'spare']);
  control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet({ placement: { hosts: ['db1', 'db2', 'db3'] } }));
  await rig.clock.advance(20 * SECOND);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
});
afterEach(() => control.close());

/** How many passes this leads to without any time going by. */
async function passes(what: () => unknown): Promise<number> {
  await rig.clock.advance(0);
  const before = control.engine.metrics.passes;
  await what();
  await rig.clock.advance(0);
  return control.engine.metrics.passes - before;
}
const operation = { kind: 'Operation', namespace: 'default', name: 'op' };
const pause = (): Promise<unknown> =>
  rig.store.update(clusterKey('orders'), { spec: { ...replicaSet(), paused: true } });

test('A13.1 an operation wakes its cluster when it is asked for and when it is to be cancelled, none of another one', async () => {
  await pause();
  const ask = (name: string, target: string) =>
    rig.store.create({
      ...operation,
      name,
      spec: { type: 'Restart', mongodbResourceRef: { name: target } },
      finalizers: ['belay.dev/operation'],
    });
  expect(await passes(() => ask('op', 'orders'))).toBeGreaterThan(0);
  const cancel = { annotations: { 'belay.dev/cancel-requested': 'me' } };
  expect(await passes(() => rig.store.update(operation, cancel))).toBeGreaterThan(0);
  expect(await passes(() => ask('other', 'invoices'))).toBe(0);
});

test('TLS-05 A9.4 another authority wakes every cluster', async () => {
  await create(rig.store, 'MongoDB', 'invoices', replicaSet({ paused: true }));
  expect(await passes(() => control.provider.authorityChanged())).toBeGreaterThanOrEqual(2);
});

test('B3.2 USR-11 a user wakes its cluster, and a secret those whose users refer to it', async () => {
  await pause();
  const reference = { passwordSecretKeyRef: { name: 'shared', key: 'password' } };
  expect(await passes(() => create(rig.store, 'MongoDBUser', 'app', appUser(reference)))).toBeGreaterThan(0);
  expect(await passes(() => control.provider.secretChanged('users/default/shared/password'))).toBeGreaterThan(
    0,
  );
  expect(await passes(() => control.provider.secretChanged('users/default/other/password'))).toBe(0);
});

test('L4 a host wakes the clusters it carries, and those that look for a place; nobody else', async () => {
  expect(await passes(() => rig.fleet.connect('db2', true))).toBeGreaterThan(0);
  expect(await passes(() => rig.fleet.connect('spare', true))).toBe(0);
  await create(rig.store, 'MongoDB', 'invoices', replicaSet({ placement: { hosts: ['db9'] } }));
  await rig.clock.advance(2 * SECOND);
  expect(await passes(() => rig.fleet.connect('spare', true))).toBeGreaterThan(0);
});
