/** Which events wake which cluster: without them a change would wait for the next look, half a minute away. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { MINUTE, SECOND } from '../base/units.ts';
import type { MemberState, State } from '../clusters/index.ts';
import type { Store } from '../engine/ports.ts';
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

/** The store with a member that was replaced in its clusters' records, and whose volume is left on this host. */
const withLeft = (host: string): Store => {
  const loadState = async (uid: string) => {
    const row = await rig.store.loadState(uid);
    const state = row?.value as State | undefined;
    if (state === undefined || state.members.length === 0) return row;
    const left = { ...(state.members[0] as MemberState), name: 'orders-9', index: 9, host, serviceId: null };
    return {
      ...row,
      value: { ...state, retired: [{ ...left, stage: 'removing', port: 27099, volumeId: 'v-9' }] },
    };
  };
  const get = (store: Store, name: keyof Store) => {
    const own = store[name];
    return name === 'loadState' ? loadState : typeof own === 'function' ? own.bind(store) : own;
  };
  return new Proxy(rig.store, { get } as ProxyHandler<Store>);
};

test('L4 A13.3 a host that comes back wakes the cluster that left a replaced member there, until nothing of it is left', async () => {
  await control.close();
  rig.fleet.connect('spare', false);
  control = await rig.start('two', withLeft('spare'));
  await rig.clock.advance(MINUTE);
  const warnings = async () => (await statusOf(rig.store, 'orders'))?.warnings.join();
  expect(await warnings()).toContain('orders-9 is out of the set; what is left of it on host spare');
  expect(await passes(() => rig.fleet.connect('spare', true))).toBeGreaterThan(0);
  await rig.clock.advance(MINUTE);
  expect(await warnings()).toBe('');
  expect(await passes(() => rig.fleet.connect('spare', true))).toBe(0);
});
