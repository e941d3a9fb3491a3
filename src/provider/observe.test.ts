import { expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { MINUTE, SECOND } from '../base/units.ts';
import type { State } from '../clusters/index.ts';
import { admitted, clusterKey, conditionOf, create, makeRig, replicaSet, statusOf } from './testing/rig.ts';

test('A7.1 a host whose agent does not answer is left out after 4 s; the cluster is placed on the others', async () => {
  const rig = makeRig(['db1', 'db2', 'db3', 'db4']);
  const services = rig.fleet.services.bind(rig.fleet);
  rig.fleet.services = (host) => (host === 'db1' ? new Promise<never>(() => {}) : services(host));
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(30 * SECOND);
  const status = await statusOf(rig.store, 'orders');
  expect(status?.members.map((member) => member.hostName)).toEqual(['db2', 'db3', 'db4']);
  expect(status?.phase).toBe('Ready');
  await control.close();
});

test('A7.1 an operation that cannot be asked about is waited for, not taken for failed', async () => {
  const rig = makeRig();
  const operation = rig.fleet.operation.bind(rig.fleet);
  let silent = true;
  rig.fleet.operation = (host, id) => (silent ? new Promise<never>(() => {}) : operation(host, id));
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(20 * SECOND);
  expect(conditionOf(await statusOf(rig.store, 'orders'), 'Progressing')?.reason).toBe('OperationRunning');
  expect(rig.fleet.operationIds).toHaveLength(3);
  silent = false;
  await rig.clock.advance(10 * SECOND);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
  await control.close();
});

test('a host that joined before and is not connected yet is waited for, not reported as missing', async () => {
  const rig = makeRig([]);
  const host = { kind: 'Host', namespace: 'default', name: 'db1' };
  await rig.store.create({ ...host, spec: { unschedulable: false } });
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet({ members: 1 }));
  await rig.clock.advance(1 * SECOND);
  expect(conditionOf(await statusOf(rig.store, 'orders'), 'Progressing')?.reason).toBe('NoHostAvailable');
  rig.fleet.addHost('db1');
  for (let turn = 0; turn < 20; turn++) await rig.clock.advance(0);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
  await control.close();
});

test("a host marked unschedulable gets no member, and a host's own address is the one that is advertised", async () => {
  const rig = makeRig(['db1', 'db2']);
  const put = (name: string, spec: unknown) =>
    rig.store.create({ kind: 'Host', namespace: 'default', name, spec });
  await put('db1', { unschedulable: true });
  await put('db2', { unschedulable: false, address: 'db2.example.com' });
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(5 * SECOND);
  const hosts = rig.fleet.runtimes.map((runtime) => runtime.snapshot?.hostname);
  expect(hosts).toHaveLength(3);
  const status = await statusOf(rig.store, 'orders');
  expect(new Set(status?.members.map((member) => member.hostName))).toEqual(new Set(['db2']));
  expect(status?.connectionString).toContain('db2.example.com:27017');
  await control.close();
});

test("A4.3 A4.4 S4 a service at a member's name that is not ours stops the cluster before anything is made", async () => {
  const rig = makeRig(['db1']);
  const control = await rig.start('one');
  const services = rig.fleet.services.bind(rig.fleet);
  const foreign = {
    installation: 'test',
    clusterUid: 'somebody',
    member: 'orders-1',
    hostname: 'orders-1',
    proof: '',
  };
  let there = true;
  rig.fleet.services = async (host) => {
    const common = { host, masked: false, deployed: true, port: 27017, dataPath: null, sizeBytes: null };
    const stranger = { ...common, id: 's-x', hostname: 'orders-1', kind: 'runtime' as const, owner: foreign };
    return there ? [...(await services(host)), stranger] : services(host);
  };
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(10 * SECOND);
  expect(conditionOf(await statusOf(rig.store, 'orders'), 'Blocked')?.reason).toBe('OwnershipConflict');
  expect(rig.fleet.runtimes).toEqual([]);
  there = false;
  rig.fleet.connect('db1', true);
  await rig.clock.advance(10 * SECOND);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
  await control.close();
});

test("A4.3 a marker that names this cluster without its proof is a stranger's", async () => {
  const rig = makeRig(['db1']);
  const control = await rig.start('one');
  const services = rig.fleet.services.bind(rig.fleet);
  let uid = '';
  rig.fleet.services = async (host) => {
    const owner = {
      installation: 'test',
      clusterUid: uid,
      member: 'orders-0',
      hostname: 'orders-0',
      proof: 'guess',
    };
    const common = { host, masked: false, deployed: true, port: 27017, dataPath: null, sizeBytes: null };
    return [
      ...(await services(host)),
      { ...common, id: 's-x', hostname: 'orders-0', kind: 'runtime', owner },
    ];
  };
  const { metadata } = await create(rig.store, 'MongoDB', 'orders', replicaSet({ members: 1 }));
  uid = metadata.uid;
  await rig.clock.advance(MINUTE);
  expect(conditionOf(await statusOf(rig.store, 'orders'), 'Blocked')?.reason).toBe('OwnershipConflict');
  expect(rig.fleet.done).toEqual([]);
  await control.close();
});

test('A3.1 a host that goes away at the wrong moment costs no retry wait: its step goes on when it is back', async () => {
  const rig = makeRig(['db1']);
  const control = await rig.start('one');
  rig.fleet.hooks = {
    before: (what) => {
      if (what !== 'deploy') return;
      rig.fleet.hooks = {};
      rig.fleet.connect('db1', false);
    },
  };
  const { metadata } = await create(rig.store, 'MongoDB', 'orders', replicaSet({ members: 1 }));
  await rig.clock.advance(20 * SECOND);
  expect((await statusOf(rig.store, 'orders'))?.phase).not.toBe('Ready');
  rig.fleet.connect('db1', true);
  await rig.clock.advance(3 * SECOND);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
  const journal = await rig.store.journal({ clusterUid: metadata.uid, limit: 100 });
  const deploys = journal.filter((entry) => entry.step === 'deploy').map((entry) => entry.outcome?.kind);
  expect(deploys, 'the one that never arrived was asked for, and done anew').toEqual(['superseded', 'done']);
  await control.close();
});

test('STK-11 STK-04 a wrong first configuration is corrected by the next spec', async () => {
  const rig = makeRig();
  const control = await rig.start('one');
  rig.fleet.hooks = { refuse: (command) => (command.kind === 'initiate' ? refusedOnce : null) };
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(5 * SECOND);
  rig.fleet.hooks = {};
  const corrected = replicaSet({ security: { tls: { mode: 'preferTLS' } } });
  await rig.store.update(clusterKey('orders'), { spec: admitted('MongoDB', 'orders', corrected) });
  await rig.clock.advance(90 * SECOND);
  const status = await statusOf(rig.store, 'orders');
  expect(status).toMatchObject({ phase: 'Ready', observedGeneration: 2 });
  expect(status?.members.map((member) => member.tlsMode)).toEqual(['preferTLS', 'preferTLS', 'preferTLS']);
  await control.close();
});

const refusedOnce = {
  kind: 'refused',
  code: 93,
  codeName: 'InvalidReplicaSetConfig',
  message: 'not now',
  class: 'transient',
} as const;

test.each([true, false])(
  'A4.6 S4 S10 what a forgotten import made is found with its volume and made no second time (host lists it: %s)',
  async (listed) => {
    const rig = makeRig(['db1', 'db2']);
    const control = await rig.start('one');
    const operation = rig.fleet.operation.bind(rig.fleet);
    rig.fleet.operation = async (host, id, fence) =>
      id.includes('/import/') ? { kind: 'unknown' } : operation(host, id, fence);
    rig.fleet.hooks = {
      after: (what) => {
        if (what !== 'import') return;
        rig.fleet.hooks = {};
        throw new BelayError('NoAnswer', 'lost', { retry: 'unknown-outcome' });
      },
    };
    const services = rig.fleet.services.bind(rig.fleet);
    rig.fleet.services = async (host) => {
      if (listed || rig.fleet.runtimes.length === 0) return services(host);
      throw new BelayError('NoAnswer', 'not now', { retry: 'later' });
    };
    const { metadata } = await create(rig.store, 'MongoDB', 'orders', replicaSet({ members: 1 }));
    await rig.clock.advance(2 * MINUTE);
    // Without a list of its host's services nothing is concluded: it may be there.
    if (!listed) expect([rig.fleet.runtimes.length, rig.fleet.operationIds.length]).toEqual([1, 1]);
    rig.fleet.services = services;
    rig.fleet.connect('db1', true);
    await rig.clock.advance(MINUTE);
    expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
    const [runtime] = rig.fleet.runtimes;
    expect([rig.fleet.runtimes.length, rig.fleet.volumes.length]).toEqual([1, 1]);
    const state = (await rig.store.loadState(metadata.uid))?.value as State;
    expect(state.members).toMatchObject([{ serviceId: runtime?.id, volumeId: runtime?.volume.id }]);
    await control.close();
  },
);
