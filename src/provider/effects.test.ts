/** What each step asks of agents, platform and store, and what it makes of their answers. */
import { describe, expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { seen } from '../clusters/fixtures.ts';
import type { Step } from '../clusters/index.ts';
import type { ObjectKey, Platform, Proviso, StoredObject } from '../engine/ports.ts';
import { admitted, clusterKey, create, replicaSet } from './testing/rig.ts';
import { placed, refused, scene } from './testing/steps.ts';

describe('what is asked of a database', () => {
  test('S3 S13 a primary gets time for its heir to catch up, stays away for a while, and is never forced', async () => {
    const { run, said } = await scene();
    await run({ kind: 'stepDown', replicaSet: 'orders', member: 'orders-0' });
    expect(said).toMatchObject([{ kind: 'stepDown', forSeconds: 60, catchUpSeconds: 10 }]);
  });

  test('S3 who was not seen to lead is restarted, or given another binary, only unless it leads by now', async () => {
    const deployed: (Proviso | undefined)[] = [];
    const s = await scene(undefined, {
      deploy: async (...[, , , , proviso]) => {
        deployed.push(proviso);
        return { operationId: 'o' };
      },
    });
    for (const state of ['PRIMARY', 'SECONDARY', null] as const) {
      const { members } = seen(placed(s.desired), s.desired, ['SECONDARY', state, 'SECONDARY']);
      await s.run({ kind: 'reload', member: 'orders-1', configVersion: 2 }, {}, { members });
      await s.run({ kind: 'upgrade', member: 'orders-1', version: '8.0.32-14' }, {}, { members });
    }
    const spared = { unlessPrimary: true };
    expect(s.provisos).toEqual([{}, spared, spared]);
    expect(deployed).toEqual([{}, spared, spared]);
  });

  test('S1 S5 a reconfiguration is known by the term its server gave it; an older agent does not say', async () => {
    let answer = {};
    const { run } = await scene(() => ({ kind: 'done', result: answer }));
    const config = { _id: 'orders', version: 2, term: 1, members: [] };
    const step = { kind: 'reconfig', replicaSet: 'orders', via: 'orders-0', config, change: '' } as const;
    expect((await run(step)).outcome).toEqual({ kind: 'done', result: {} });
    answer = { version: 2, term: 3 };
    expect((await run(step)).outcome).toEqual({ kind: 'done', result: { term: 3 } });
  });

  test('S5 a reconfiguration is bounded, and forced only by the operation that a person acknowledged', async () => {
    const { run, said } = await scene();
    const config = { _id: 'orders', version: 2, members: [] };
    const step = { kind: 'reconfig', replicaSet: 'orders', via: 'orders-0', config, change: '' } as const;
    await run(step);
    await run({ ...step, forcedBy: 'op-1' });
    expect(said.map((c) => c.kind === 'reconfig' && [c.maxTimeMillis, c.force])).toEqual([
      [10_000, undefined],
      [10_000, true],
    ]);
  });

  test('A5.1 A5.2 the first user and all others are made by the user administrator, for the oldest binary there is', async () => {
    const { run, said, desired, credentials, object } = await scene();
    const admin = (await credentials.login(object.metadata.uid)).password.reveal();
    const old = placed(desired);
    const state = {
      ...old,
      members: old.members.map((m, i) => (i === 1 ? { ...m, deployedVersion: '7.0.43-23' } : m)),
    };
    await run({ kind: 'createFirstUser', replicaSet: 'orders', via: 'orders-0' });
    await run({ kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' }, { state });
    const [first, all] = said;
    expect(first?.kind === 'createFirstUser' && first.user.password?.reveal()).toBe(admin);
    if (all?.kind !== 'reconcileUsers') throw new Error('users are reconciled');
    expect([all.as.user, all.as.password.reveal()]).toEqual(['userAdmin', admin]);
    expect(all.users.map((u) => u.user).sort()).toEqual([
      'backup',
      'clusterAdmin',
      'clusterMonitor',
      'databaseAdmin',
      'userAdmin',
    ]);
    expect(all.roles.map((r) => r.role)).toEqual(['explainRole', 'pbmAnyAction']);
    // 7.0 does not know that role yet.
    expect(JSON.stringify(all.users)).not.toContain('directShardOperations');
    await run({ kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' });
    expect(JSON.stringify(said[2])).toContain('directShardOperations');
  });
});

describe('what answers mean', () => {
  const step: Step = { kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' };
  test.each([
    [refused('credentials'), { kind: 'failed', code: 'CredentialRepairRequired', retry: 'never' }],
    [refused('transient'), { kind: 'failed', code: 'No', retry: 'later' }],
    [refused('permanent'), { kind: 'failed', code: 'No', retry: 'never' }],
    [{ kind: 'unknown', message: 'cut off' } as const, { kind: 'unknown', message: 'cut off' }],
  ])('A5.4 %j', async (answer, outcome) => {
    const { run } = await scene(() => answer);
    expect((await run(step)).outcome).toMatchObject(outcome);
  });

  test('A7.1 an effect that hangs has an unknown outcome', async () => {
    const { run, clock } = await scene(() => new Promise(() => {}));
    const hanging = run(step).catch((failure: BelayError) => failure.retry);
    await clock.advance(30_000);
    expect(await hanging).toBe('unknown-outcome');
  });

  const placement = { host: 'db1', address: 'db1', port: 27017, portFixed: true };
  test.each<Step>([
    { kind: 'import', member: 'orders-0', placement },
    { kind: 'deploy', member: 'orders-0', version: '8.0.32-14' },
    { kind: 'upgrade', member: 'orders-0', version: '8.0.32-14' },
    { kind: 'growVolume', member: 'orders-0', sizeBytes: 1 },
    { kind: 'deleteRuntime', member: 'orders-0' },
    { kind: 'deleteVolume', member: 'orders-0' },
  ])('A3.1 a host that is away has not failed: $kind is taken up when it is back', async (infrastructure) => {
    const away = () => Promise.reject(new BelayError('AgentNotConnected', 'db1 is away', { retry: 'later' }));
    const broken = () => Promise.reject(new BelayError('DiskFull', 'no room', { retry: 'later' }));
    const all = (answer: () => Promise<never>): Partial<Platform> => ({
      import: answer,
      deploy: answer,
      growVolume: answer,
      deleteRuntime: answer,
      deleteVolume: answer,
    });
    const cut = await scene(undefined, all(away));
    expect((await cut.run(infrastructure)).outcome).toEqual({ kind: 'unknown', message: 'db1 is away' });
    const full = await scene(undefined, all(broken));
    await expect(full.run(infrastructure)).rejects.toMatchObject({ code: 'DiskFull' });
  });
});

describe('what goes', () => {
  test('S4 A6.4 a member that has left takes its secrets along; one whose cluster is suspended or deleted does not yet', async () => {
    const s = await scene();
    const { uid } = s.object.metadata;
    const step: Step = { kind: 'deleteVolume', member: 'orders-1' };
    const left = await s.run(step, { state: placed(s.desired, { stage: 'removing' }) });
    expect(left.also?.secretPrefixesToDelete).toEqual([`clusters/${uid}/members/orders-1/`]);
    expect((await s.run(step)).also).toBeUndefined();
  });

  test('A14.3 the end takes the record, the finalizer, all secrets and the operations about this cluster', async () => {
    const s = await scene();
    await s.informer.open();
    const ask = (name: string, target: string) =>
      s.store.create({
        kind: 'Operation',
        namespace: 'default',
        name,
        spec: { type: 'Restart', mongodbResourceRef: { name: target } },
        finalizers: ['belay.dev/operation'],
      });
    for (const operation of [await ask('mine', 'orders'), await ask('other', 'invoices')])
      s.informer.learn(operation);
    const { also } = await s.run({ kind: 'forget' });
    const { uid } = s.object.metadata;
    expect(also).toEqual({
      releases: [{ key: clusterKey('orders'), uid, finalizer: 'belay.dev/cluster' }],
      forgetState: true,
      secretPrefixesToDelete: [`clusters/${uid}/`],
    });
    const { items } = await s.store.list({ kind: 'Operation' });
    expect(items.map((o) => o.metadata.name)).toEqual(['other']);
    await s.informer.close();
  });
});

describe('suspension by an operation', () => {
  const asleep: Step = { kind: 'setSuspend', suspend: true };
  const spec = async (s: Awaited<ReturnType<typeof scene>>) => await s.store.get(clusterKey('orders'));

  test('A14.2 the document says so afterwards, and again when it wakes; a mark of a deletion goes with it', async () => {
    const s = await scene();
    await s.run(asleep);
    const suspended = (await spec(s)) as StoredObject;
    expect(suspended.spec).toMatchObject({ suspend: true, members: 3 });
    const marks = { annotations: { 'belay.dev/kept-by-delete': 'true', team: 'shop' } };
    const kept = (await s.store.update(clusterKey('orders'), marks)) as StoredObject;
    await s.run({ kind: 'setSuspend', suspend: false }, { object: kept });
    expect(await spec(s)).toMatchObject({
      spec: { suspend: false },
      metadata: { annotations: { team: 'shop' } },
    });
    expect(Object.keys((await spec(s))?.metadata.annotations ?? {})).toEqual(['team']);
  });

  test('S9 what somebody changed since it was planned is not turned back, and another object of that name is left alone', async () => {
    const s = await scene();
    const members = { spec: { ...(s.object.spec as object), members: 5 } };
    await s.store.update(clusterKey('orders'), members);
    await expect(s.run(asleep)).rejects.toMatchObject({ code: 'Conflict' });
    expect((await spec(s))?.spec).toMatchObject({ suspend: false, members: 5 });
    await s.store.update(clusterKey('orders'), { finalizers: [], delete: true });
    await create(s.store, 'MongoDB', 'orders', replicaSet());
    await expect(s.run(asleep)).rejects.toMatchObject({ code: 'NotFound' });
    expect((await spec(s))?.spec).toEqual(admitted('MongoDB', 'orders', replicaSet()));
  });

  test('S9 a change that comes between its look and its writing wins, and is not turned back', async () => {
    const s = await scene();
    const members = { spec: { ...(s.object.spec as object), members: 5 } };
    const look = s.store.get.bind(s.store);
    const overtaken = async (key: ObjectKey) => {
      const seen = await look(key);
      Object.assign(s.store, { get: look });
      await s.store.update(key, members);
      return seen;
    };
    Object.assign(s.store, { get: overtaken });
    await expect(s.run(asleep)).rejects.toMatchObject({ code: 'Conflict' });
    expect((await spec(s))?.spec).toMatchObject({ suspend: false, members: 5 });
  });
});
