/** Certificates and passwords of a running cluster, by the real engine over a pretended fleet in virtual time. */
import { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import { DAY, SECOND } from '../base/units.ts';
import type { Store } from '../engine/ports.ts';
import { agentPasswords } from '../engine/testing/fleet.ts';
import { conditionOf, create, makeRig, type Rig, replicaSet, statusOf } from './testing/rig.ts';

async function ready(rig: Rig): Promise<void> {
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(20 * SECOND);
  expect((await statusOf(rig.store, 'orders'))?.phase).toBe('Ready');
}

const ask = (rig: Rig, type: 'RotateTLS' | 'RotateUsers'): Promise<unknown> =>
  rig.store.create({
    kind: 'Operation',
    namespace: 'default',
    name: `orders-${type.toLowerCase()}`,
    spec: { type, mongodbResourceRef: { name: 'orders' }, ...(type === 'RotateUsers' ? { users: [] } : {}) },
  });

async function stateOf(rig: Rig, type: 'RotateTLS' | 'RotateUsers'): Promise<unknown> {
  const key = { kind: 'Operation', namespace: 'default', name: `orders-${type.toLowerCase()}` };
  return ((await rig.store.get(key))?.status as { state?: string } | null)?.state;
}

/** What processes present. */
const presented = (rig: Rig): readonly string[] =>
  rig.fleet.runtimes.map(({ runs }) => {
    const pem = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/.exec(
      runs?.certificatePem.reveal() ?? '',
    );
    return new X509Certificate(pem?.[0] ?? '').fingerprint256;
  });

/** S12: every agent holds a password that its database accepts. */
function agentsSee(rig: Rig): void {
  const users = rig.fleet.runtimes[0]?.volume.data.users;
  const password = users?.get('admin.clusterMonitor')?.password;
  if (password == null) return;
  for (const runtime of rig.fleet.runtimes)
    expect(agentPasswords(runtime), `S12: ${runtime.hostname}`).toContain(password);
}

test('A9.4 a month before their end certificates are renewed, member by member, without anybody asking and without a restart', async () => {
  const rig = makeRig();
  const control = await rig.start('one');
  await ready(rig);
  const before = presented(rig);
  rig.clock.jump(330 * DAY);
  await rig.clock.advance(90 * SECOND);
  expect(presented(rig)).toEqual(before);
  rig.clock.jump(6 * DAY);
  rig.fleet.done.length = 0;
  await rig.clock.advance(90 * SECOND);
  expect(presented(rig).filter((print) => before.includes(print))).toEqual([]);
  expect(rig.fleet.done).toEqual(
    ['orders-2', 'orders-1', 'orders-0'].flatMap((name) => [`publish ${name}`, `rotateCertificates ${name}`]),
  );
  const status = await statusOf(rig.store, 'orders');
  expect([status?.phase, conditionOf(status, 'TLSCertificate')?.reason]).toEqual(['Ready', 'Valid']);
  expect((await control.secrets.list('clusters/')).filter((name) => name.includes('next-'))).toEqual([]);
  await control.close();
});

test('A9.4 A13.5 a server that refuses to take it online is restarted with it, secondaries first', async () => {
  const rig = makeRig();
  const control = await rig.start('one');
  await ready(rig);
  const before = presented(rig);
  rig.fleet.hooks = {
    refuse: ({ kind }) =>
      kind === 'rotateCertificates'
        ? {
            kind: 'refused',
            code: 140,
            codeName: 'InvalidSSLConfiguration',
            message: 'no',
            class: 'permanent',
          }
        : kind === 'stepDown'
          ? { kind: 'done', result: {} }
          : null,
  };
  rig.fleet.done.length = 0;
  await ask(rig, 'RotateTLS');
  await rig.clock.advance(60 * SECOND);
  const given = rig.fleet.done.filter((what) => what.startsWith('publish'));
  expect(given.slice(0, 4)).toEqual([
    'publish orders-2',
    'publish orders-2',
    'publish orders-1',
    'publish orders-1',
  ]);
  expect(
    presented(rig)
      .slice(1)
      .filter((print) => before.includes(print)),
  ).toEqual([]);
  await control.close();
});

/** A store of a control plane that dies with its `nth` write, and a fleet that hears no more of it. */
function dying(rig: Rig, nth: number): { readonly store: Store; readonly isDead: () => boolean } {
  let left = nth;
  let dead = false;
  const never = (): Promise<never> => new Promise(() => {});
  const store = new Proxy(rig.store, {
    get: (target, name) => {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== 'function') return value;
      if (name === 'watch') return value.bind(target);
      return async (...args: unknown[]) => {
        if (dead) return never();
        const result = await (value.bind(target) as (...a: unknown[]) => unknown)(...args);
        if ((name === 'commit' || name === 'putSealed') && --left === 0) dead = true;
        return dead ? never() : result;
      };
    },
  });
  rig.fleet.hooks = { before: () => (dead ? never() : undefined), after: () => agentsSee(rig) };
  return { store, isDead: () => dead };
}

test.each(['RotateUsers', 'RotateTLS'] as const)(
  'A2.7 S10 S12 A13.4 A13.5 %s: the control plane dies at every write of it; the next one ends it, once, and agents see their members all the while',
  async (type) => {
    for (let nth = 1; ; nth++) {
      const rig = makeRig();
      const setUp = await rig.start('set up');
      await ready(rig);
      await setUp.close();
      const passwords = (): readonly unknown[] =>
        [...(rig.fleet.runtimes[0]?.volume.data.users.values() ?? [])].map((user) => user.password);
      const before = [passwords(), presented(rig)];
      const { store, isDead } = dying(rig, nth);
      await rig.start('first', store);
      await ask(rig, type);
      await rig.clock.advance(6 * SECOND);
      const survived = !isDead();
      rig.fleet.hooks = { after: () => agentsSee(rig) };
      const second = await rig.start('second');
      await rig.clock.advance(25 * SECOND);
      const end = {
        nth,
        state: await stateOf(rig, type),
        phase: (await statusOf(rig.store, 'orders'))?.phase,
      };
      expect(end).toEqual({ nth, state: 'Succeeded', phase: 'Ready' });
      const [was, is] = type === 'RotateUsers' ? [before[0], passwords()] : [before[1], presented(rig)];
      expect(is?.filter((value) => was?.includes(value as never))).toEqual([]);
      for (const runtime of rig.fleet.runtimes)
        if (type === 'RotateUsers') expect(agentPasswords(runtime)).toHaveLength(1);
      const names = await second.secrets.list('clusters/');
      expect(names.filter((name) => name.includes('next-'))).toEqual([]);
      await second.close();
      if (survived) break;
    }
  },
  120_000,
);
