import { expect, test } from 'vitest';
import { MINUTE, SECOND } from '../base/units.ts';
import {
  admitted,
  appUser,
  clusterKey,
  conditionOf,
  create,
  makeRig,
  type Rig,
  replicaSet,
  statusOf,
} from './testing/rig.ts';

/** A rig with one control plane and a Ready replica set. */
async function running(rig: Rig = makeRig(), spec = replicaSet()) {
  const control = await rig.start('one');
  const { metadata } = await create(rig.store, 'MongoDB', 'orders', spec);
  await rig.clock.advance(5 * SECOND);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
  return { ...rig, control, uid: metadata.uid };
}

test('A4.1 A4.2 A5.1 A5.2 a replica set becomes Ready: every step once, in order', async () => {
  const { store, fleet, control } = await running();
  const status = await statusOf(store, 'orders');
  expect(status).toMatchObject({ phase: 'Ready', readyMembers: 3, observedGeneration: 1 });
  expect(conditionOf(status, 'Ready')?.status).toBe('True');
  // Certificates are made side by side: which is first is nobody's promise.
  expect(fleet.done.slice(0, 3).toSorted()).toEqual([
    'publish orders-0',
    'publish orders-1',
    'publish orders-2',
  ]);
  expect(fleet.done.slice(3)).toEqual([
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
  expect(fleet.runtimes.map((runtime) => runtime.hostname)).toEqual(['orders-0', 'orders-1', 'orders-2']);
  await control.close();
});

test('creation needs no timer: every completion wakes the next step', async () => {
  const { clock, store, start } = makeRig();
  const control = await start('one');
  await create(store, 'MongoDB', 'orders', replicaSet());
  for (let turn = 0; turn < 20; turn++) await clock.advance(0);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Ready');
  await control.close();
});

test('B2.12 a Ready cluster with users costs no write and asks no host', async () => {
  const { clock, store, fleet, control } = await running();
  await create(store, 'MongoDBUser', 'app', appUser());
  await clock.advance(5 * SECOND);
  const batches: unknown[] = [];
  const commit = store.commit.bind(store);
  store.commit = (batch) => {
    batches.push(batch);
    return commit(batch);
  };
  const { listings } = fleet;
  const passes = control.engine.metrics.passes;
  await clock.advance(5 * MINUTE);
  expect(control.engine.metrics.passes - passes).toBeGreaterThanOrEqual(9);
  expect(batches).toEqual([]);
  expect(fleet.listings).toBe(listings);
  await control.close();
});

test("A9.7 S8 members get their own certificate, the cluster's keyfile and no secret of another", async () => {
  const { store, fleet, control } = await running();
  await create(store, 'MongoDB', 'other', replicaSet());
  await control.engine.idle();
  const [first, second] = fleet.snapshots;
  expect(first?.certificatePem.reveal()).toContain('PRIVATE KEY');
  expect(first?.certificatePem.reveal()).not.toBe(second?.certificatePem.reveal());
  expect(first?.keyFile.reveal()).toBe(second?.keyFile.reveal());
  expect(first?.keyFile.reveal()).toMatch(/^[A-Za-z0-9+/=]{6,1024}$/);
  expect(first?.monitor.user).toBe('clusterMonitor');
  const state = JSON.stringify((await store.loadState(first?.clusterUid ?? ''))?.value);
  const journal = JSON.stringify(await store.journal({ clusterUid: first?.clusterUid ?? '', limit: 100 }));
  const shown = state + journal + JSON.stringify(await statusOf(store, 'orders'));
  for (const hidden of [first?.monitor.password, first?.keyFile, first?.certificatePem]) {
    expect(shown).not.toContain(hidden?.reveal().slice(0, 40));
  }
  await control.close();
});

// ── crashes ────────────────────────────────────────────────────────────────────────────────────────────────────────

test('A2.7 S6 lost messages and lost answers of any effect: Ready in the end, initiated once, one set of services', async () => {
  const effects = 13;
  for (let nth = 1; nth <= effects; nth++) {
    for (const moment of ['before', 'after'] as const) {
      const rig = makeRig();
      let left = nth;
      const lose = (): void => {
        if (--left === 0) throw new Error('connection reset');
      };
      rig.fleet.hooks = { [moment]: lose };
      const control = await rig.start('one');
      await create(rig.store, 'MongoDB', 'orders', replicaSet());
      await rig.clock.advance(20 * SECOND);
      const told = { nth, moment };
      expect({ ...told, phase: (await statusOf(rig.store, 'orders'))?.phase }).toEqual({
        ...told,
        phase: 'Ready',
      });
      const initiations = rig.fleet.done.filter((what) => what.startsWith('initiate')).length;
      expect({ ...told, initiations }).toEqual({ ...told, initiations: 1 });
      expect({ ...told, runtimes: rig.fleet.runtimes.length }).toEqual({ ...told, runtimes: 3 });
      expect(new Set(rig.fleet.operationIds).size).toBe(rig.fleet.operationIds.length);
      await control.close();
    }
  }
});

test('A2.7 death of the control plane at every write: the next one ends Ready with one initiation and no stray service', async () => {
  for (let nth = 1; ; nth++) {
    const rig = makeRig();
    let left = nth;
    let dead = false;
    const never = (): Promise<never> => new Promise(() => {});
    const dying = new Proxy(rig.store, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof value !== 'function') return value;
        if (name === 'watch') return value.bind(target);
        return async (...args: unknown[]) => {
          if (dead) return never();
          const result = await (value.bind(target) as (...a: unknown[]) => unknown)(...args);
          if (name === 'commit' && --left === 0) dead = true;
          return dead ? never() : result;
        };
      },
    });
    rig.fleet.hooks = { before: () => (dead ? never() : undefined) };
    await rig.start('first', dying);
    await create(rig.store, 'MongoDB', 'orders', replicaSet());
    await rig.clock.advance(3 * SECOND);
    if (!dead) break;
    rig.fleet.hooks = {};
    const second = await rig.start('second');
    await rig.clock.advance(20 * SECOND);
    const phase = (await statusOf(rig.store, 'orders'))?.phase;
    expect({ nth, phase }).toEqual({ nth, phase: 'Ready' });
    const initiations = rig.fleet.done.filter((what) => what.startsWith('initiate')).length;
    expect({
      nth,
      initiations,
      services: rig.fleet.runtimes.length,
      volumes: rig.fleet.volumes.length,
    }).toEqual({
      nth,
      initiations: 1,
      services: 3,
      volumes: 3,
    });
    await second.close();
  }
});

// ── retries ────────────────────────────────────────────────────────────────────────────────────────────────────────

test('A3.1 A3.2 A3.3 a failing import is tried after 30 s, doubling to ten minutes, and its message stays visible', async () => {
  const rig = makeRig();
  const tries: number[] = [];
  rig.fleet.hooks = {
    fail: (operation) => {
      if (operation.kind !== 'import' || operation.spec.hostname !== 'orders-1') return null;
      tries.push(rig.clock.now());
      return { code: 'QuotaExceeded', message: 'no room on this shelf' };
    },
  };
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(40 * MINUTE);
  const waits = tries.slice(1).map((at, i) => Math.round((at - (tries[i] ?? 0)) / SECOND));
  expect(waits.slice(0, 7)).toEqual([30, 60, 120, 240, 480, 600, 600]);
  const status = await statusOf(rig.store, 'orders');
  expect(JSON.stringify(status)).toContain('no room on this shelf');
  await rig.clock.advance(30 * MINUTE);
  expect(conditionOf(await statusOf(rig.store, 'orders'), 'Blocked')?.message).toContain('keeps failing');
  rig.fleet.hooks = {};
  await rig.clock.advance(11 * MINUTE);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
  await control.close();
});

test('INI-02 A5.4 users that cannot be created yet are retried with short waits, then the error is gone', async () => {
  const rig = makeRig();
  let refusals = 3;
  rig.fleet.hooks = {
    refuse: (command) =>
      command.kind === 'reconcileUsers' && refusals-- > 0
        ? {
            kind: 'refused',
            code: 10107,
            codeName: 'NotWritablePrimary',
            message: 'not primary',
            class: 'transient',
          }
        : null,
  };
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(2 * SECOND);
  expect(conditionOf(await statusOf(rig.store, 'orders'), 'ManagedSystemUsers')).toMatchObject({
    status: 'Unknown',
    reason: 'RepairRetrying',
  });
  await rig.clock.advance(10 * SECOND);
  const status = await statusOf(rig.store, 'orders');
  expect(status?.phase).toBe('Ready');
  expect(conditionOf(status, 'ManagedSystemUsers')?.status).toBe('True');
  await control.close();
});

test('CRD-01 a system user that somebody dropped is made again', async () => {
  const { clock, fleet, control } = await running();
  fleet.meddle('orders-0', (users) => users.delete('admin.clusterMonitor'));
  await clock.advance(5 * SECOND);
  expect(fleet.users('orders-0')).toContain('admin.clusterMonitor');
  await control.close();
});

test('A5.4 credentials that no longer fit stop the repair and ask for a person by name', async () => {
  const { clock, store, fleet, control } = await running();
  fleet.meddle('orders-0', (users) => {
    const admin = users.get('admin.userAdmin');
    users.set('admin.userAdmin', { password: 'of somebody else', roles: admin?.roles ?? [] });
    users.delete('admin.clusterMonitor');
  });
  await clock.advance(2 * SECOND);
  const tried = (): number => fleet.done.length;
  const status = await statusOf(store, 'orders');
  expect(conditionOf(status, 'ManagedSystemUsers')).toMatchObject({
    status: 'False',
    reason: 'CredentialRepairRequired',
  });
  expect(conditionOf(status, 'Blocked')).toMatchObject({
    status: 'True',
    reason: 'CredentialRepairRequired',
  });
  const before = tried();
  await clock.advance(5 * MINUTE);
  expect(tried()).toBe(before);
  await control.close();
});

test('L4 STK-06 a host that does not answer holds up its own cluster only', async () => {
  const rig = makeRig(['db1', 'db2', 'db3']);
  rig.fleet.hooks = {
    before: (what) => (what === 'publish sick-0' ? new Promise<never>(() => {}) : undefined),
  };
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'sick', replicaSet({ members: 1 }));
  await rig.clock.advance(2 * SECOND);
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(2 * SECOND);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
  expect((await statusOf(rig.store, 'sick'))?.phase).not.toBe('Ready');
  rig.fleet.hooks = {};
  await rig.clock.advance(60 * SECOND);
  expect((await statusOf(rig.store, 'sick'))?.phase).toBe('Ready');
  await control.close();
});

// ── health ─────────────────────────────────────────────────────────────────────────────────────────────────────────

test('S15 A7.4 a member that dies makes the cluster Degraded at once, and Ready again when it is back', async () => {
  const { clock, store, fleet, control, uid } = await running();
  fleet.power('orders-2', false);
  await clock.advance(0);
  const status = await statusOf(store, 'orders');
  expect(status?.phase).toBe('Degraded');
  expect(conditionOf(status, 'Ready')?.status).toBe('False');
  fleet.power('orders-2', true);
  await clock.advance(0);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Ready');
  const reasons = (await store.events({ uid, limit: 50 })).map((event) => event.reason);
  expect(reasons).toContain('Degraded');
  await control.close();
});

test('a host that is cut off is seen at once, and nothing is done to the cluster', async () => {
  const { clock, store, fleet, control } = await running();
  const before = [...fleet.done];
  fleet.connect('db2', false);
  await clock.advance(0);
  const status = await statusOf(store, 'orders');
  expect(status?.phase).toBe('Degraded');
  expect(conditionOf(status, 'Ready')?.reason).toBe('MemberUnreachable');
  await clock.advance(MINUTE);
  expect(fleet.done).toEqual(before);
  fleet.connect('db2', true);
  await clock.advance(0);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Ready');
  await control.close();
});

test('a cluster without a host waits and starts by itself when one joins', async () => {
  const rig = makeRig([]);
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(10 * SECOND);
  expect(conditionOf(await statusOf(rig.store, 'orders'), 'Blocked')?.reason).toBe('NoHosts');
  rig.fleet.addHost('db1');
  for (let turn = 0; turn < 20; turn++) await rig.clock.advance(0);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
  await control.close();
});

// ── two control planes ─────────────────────────────────────────────────────────────────────────────────────────────

test('S9 two control planes: the second takes over within seconds and repeats nothing', async () => {
  const { clock, store, fleet, control, start } = await running();
  const second = await start('two');
  await clock.advance(MINUTE);
  const before = [...fleet.done];
  await control.close();
  await clock.advance(3 * SECOND);
  expect(second.engine.leases.held).toBe(16);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Ready');
  expect(fleet.done).toEqual(before);
  fleet.power('orders-1', false);
  await clock.advance(0);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Degraded');
  await second.close();
});

test('S15 after a start nothing is said of a cluster until its agents had time to come back', async () => {
  const { clock, store, fleet, control, start } = await running();
  await control.close();
  const host = fleet.host.bind(fleet);
  fleet.host = (name) => (name === 'db2' ? null : host(name));
  const again = await start('two');
  await clock.advance(9 * SECOND);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Ready');
  expect(again.engine.metrics.passWrites).toBe(0);
  await clock.advance(2 * SECOND);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Degraded');
  await again.close();
});

// ── deletion and suspension ────────────────────────────────────────────────────────────────────────────────────────

test('A14.3 DEL-06 deletion: runtimes, then volumes, then secrets, then the object; nothing is left', async () => {
  const { clock, store, fleet, control, uid } = await running();
  const order: string[] = [];
  fleet.hooks = { after: (what) => void order.push(what) };
  await store.update(clusterKey('orders'), { delete: true });
  await clock.advance(10 * SECOND);
  expect(await store.get(clusterKey('orders'))).toBeNull();
  expect(order).toEqual([...Array(3).fill('deleteRuntime'), ...Array(3).fill('deleteVolume')]);
  expect(fleet.runtimes).toEqual([]);
  expect(fleet.volumes).toEqual([]);
  expect(await store.listSealed(`clusters/${uid}/`)).toEqual([]);
  expect(await store.loadState(uid)).toBeNull();
  await control.close();
});

test('A3.6 DEL-04 deletion works at every stage of a creation that failed', async () => {
  for (const kind of ['import', 'deploy'] as const) {
    const rig = makeRig();
    rig.fleet.hooks = {
      fail: (operation) => (operation.kind === kind ? { code: 'Broken', message: 'it is broken' } : null),
    };
    const control = await rig.start('one');
    await create(rig.store, 'MongoDB', 'orders', replicaSet());
    await rig.clock.advance(5 * SECOND);
    await rig.store.update(clusterKey('orders'), { delete: true });
    await rig.clock.advance(10 * SECOND);
    expect(await rig.store.get(clusterKey('orders'))).toBeNull();
    expect(rig.fleet.runtimes).toEqual([]);
    expect(rig.fleet.volumes).toEqual([]);
    await control.close();
  }
});

test('S4 a deletion waits for a host that is cut off and forgets nothing that is still there', async () => {
  const { clock, store, fleet, control } = await running();
  fleet.connect('db3', false);
  await store.update(clusterKey('orders'), { delete: true });
  await clock.advance(MINUTE);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Deleting');
  expect(fleet.runtimes.map((runtime) => runtime.hostname)).toEqual(['orders-2']);
  fleet.connect('db3', true);
  await clock.advance(10 * SECOND);
  expect(await store.get(clusterKey('orders'))).toBeNull();
  expect(fleet.volumes).toEqual([]);
  await control.close();
});

test('A14.2 CRD-08 suspended and resumed: the same volumes, the same data, the same credentials', async () => {
  const { clock, store, fleet, control, uid } = await running();
  const volumes = fleet.volumes.map((volume) => volume.id).sort();
  const sealed = (await store.listSealed(`clusters/${uid}/users/`)).map((row) => row.version);
  const suspend = async (value: boolean): Promise<void> => {
    await store.update(clusterKey('orders'), {
      spec: admitted('MongoDB', 'orders', replicaSet({ suspend: value })),
    });
    await clock.advance(10 * SECOND);
  };
  await suspend(true);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Suspended');
  expect(fleet.runtimes).toEqual([]);
  await suspend(false);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Ready');
  expect(fleet.volumes.map((volume) => volume.id).sort()).toEqual(volumes);
  expect((await store.listSealed(`clusters/${uid}/users/`)).map((row) => row.version)).toEqual(sealed);
  expect(fleet.done.filter((what) => what.startsWith('initiate'))).toHaveLength(1);
  await control.close();
});

test('S11 PAU-08 a paused cluster gets no effect, whatever changes', async () => {
  const { clock, store, fleet, control } = await running();
  await store.update(clusterKey('orders'), {
    spec: admitted('MongoDB', 'orders', replicaSet({ paused: true, suspend: true })),
  });
  const before = [...fleet.operationIds];
  await clock.advance(MINUTE);
  expect(fleet.operationIds).toEqual(before);
  expect(conditionOf(await statusOf(store, 'orders'), 'Blocked')?.reason).toBe('Paused');
  await control.close();
});

test("TEN-01 two clusters made together take different ports and never each other's services", async () => {
  const rig = makeRig(['db1']);
  const control = await rig.start('one');
  await Promise.all(['a', 'b', 'c'].map((name) => create(rig.store, 'MongoDB', name, replicaSet())));
  await rig.clock.advance(10 * SECOND);
  for (const name of ['a', 'b', 'c']) expect((await statusOf(rig.store, name))?.phase).toBe('Ready');
  const ports = rig.fleet.runtimes.map((runtime) => runtime.port);
  expect(new Set(ports).size).toBe(9);
  await rig.store.update(clusterKey('a'), { delete: true });
  await rig.clock.advance(10 * SECOND);
  expect(rig.fleet.runtimes.map((runtime) => runtime.hostname).sort()).toEqual([
    'b-0',
    'b-1',
    'b-2',
    'c-0',
    'c-1',
    'c-2',
  ]);
  await control.close();
});
