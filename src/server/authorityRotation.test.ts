import { expect, test } from 'vitest';
import { DAY } from '../base/units.ts';
import type { HostFacts, HostIdentity } from '../clusters/facts.ts';
import type { HostReport } from '../engine/ports.ts';
import { openCertificateAuthority, type ReplaceableAuthority } from '../security/ca.ts';
import { masterKeyFrom } from '../security/seal.ts';
import { openSecrets } from '../security/secrets.ts';
import { openMemoryStore } from '../store/memory.ts';
import { ManualClock } from '../store/testing/clock.ts';
import { AUTHORITY_SETTLES, AuthorityRotation } from './authorityRotation.ts';

const key = masterKeyFrom(new Uint8Array(32).fill(1));

/** An installation with one cluster of two members and two hosts; agents renew when they are told to. */
async function installation() {
  const clock = new ManualClock(Date.UTC(2030, 0, 1));
  const store = openMemoryStore({ clock });
  const open = async (): Promise<ReplaceableAuthority> =>
    openCertificateAuthority(await openSecrets(store, key), clock, { organization: 'Belay' });
  const ca = await open();
  const cluster = await store.create({ kind: 'MongoDB', namespace: 'default', name: 'orders', spec: {} });
  const hosts = new Map<string, HostReport>();
  const identity = (): HostIdentity => ({ ...ca.authority, notAfter: clock.now() + 90 * DAY });
  const report = (name: string, connected = true): void => {
    const facts = { name, identity: identity() } as HostFacts;
    hosts.set(name, { facts, connected, seenAt: clock.now() });
  };
  for (const name of ['db1', 'db2']) {
    await store.create({ kind: 'Host', namespace: 'default', name, spec: {} });
    report(name);
  }
  let version = 0;
  /** Members take what is asked of them now. */
  const follow = async (names: readonly string[] = ['orders-0', 'orders-1']): Promise<void> => {
    const loaded = await store.loadState(cluster.metadata.uid);
    const before = (loaded?.value as { members: { name: string }[] } | undefined)?.members ?? [];
    const certificate = { fingerprint: 'f', ...ca.authority };
    const given = (name: string) => ({
      name,
      stage: 'active',
      activated: { tlsMode: 'requireTLS', certificate },
    });
    const members = ['orders-0', 'orders-1'].map((name, i) =>
      names.includes(name) ? given(name) : before[i],
    );
    const written = await store.commit({ state: { uid: cluster.metadata.uid, version, value: { members } } });
    version = written.stateVersion ?? version;
  };
  await follow();
  const told: string[] = [];
  const agents = {
    host: (name: string) => hosts.get(name) ?? null,
    hosts: () => [...hosts.values()],
    renewIdentity: async (name: string) => {
      told.push(name);
      report(name);
    },
  };
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  let changes = 0;
  const start = (authority = ca): AuthorityRotation =>
    new AuthorityRotation({ ca: authority, store, agents, clock, log, changed: () => changes++ });
  return { clock, store, ca, open, follow, told, hosts, start, report, changes: () => changes };
}

test('S12 TLS-02 a new authority is introduced, issues when a person says that clients have it, and is alone when nobody needs the old one', async () => {
  const all = await installation();
  const { ca, clock, follow, told } = all;
  const rotation = all.start();
  const before = ca.caPem;
  expect(await rotation.introduce()).toMatchObject({ phase: 'introduced', ready: false });
  await expect(rotation.switchOver()).rejects.toMatchObject({
    code: 'NotReady',
    message: /default\/orders-0/,
  });
  expect(ca.caPem.startsWith(before) && ca.caPem.length > before.length).toBe(true);
  expect(told.sort()).toEqual(['db1', 'db2']);
  await follow();
  await expect(rotation.switchOver()).rejects.toMatchObject({ code: 'NotReady' });
  clock.advance(AUTHORITY_SETTLES);
  expect(await rotation.status()).toMatchObject({ phase: 'introduced', ready: true, waiting: 0 });
  expect(await rotation.switchOver()).toMatchObject({
    phase: 'switched',
    waitsFor: ['default/orders-0', 'default/orders-1'],
  });
  await follow(['orders-1']);
  clock.advance(AUTHORITY_SETTLES);
  await rotation.look();
  expect(await rotation.status()).toMatchObject({ phase: 'switched', waitsFor: ['default/orders-0'] });
  await follow();
  await rotation.look();
  expect(await rotation.status()).toMatchObject({ phase: 'stable' });
  expect(ca.caPem.includes(before.trim())).toBe(false);
  await expect(rotation.introduce()).rejects.toMatchObject({ code: 'NotReady' });
  await follow();
  await rotation.look();
  expect(await rotation.status()).toMatchObject({ phase: 'stable', ready: true });
  expect(all.changes()).toBeGreaterThanOrEqual(3);
  await expect(rotation.switchOver()).rejects.toMatchObject({ code: 'Refused' });
  rotation.close();
});

test('S12 A2.7 the phase survives the control plane; another one goes on, and asking twice is asking once', async () => {
  const all = await installation();
  const { clock, follow, open } = all;
  const first = all.start();
  await first.introduce();
  await first.introduce();
  first.close();
  const other = await open();
  expect([other.phase, other.caPem]).toEqual(['introduced', all.ca.caPem]);
  await follow();
  const second = all.start(other);
  clock.advance(AUTHORITY_SETTLES);
  await second.switchOver();
  expect(await second.switchOver()).toMatchObject({ phase: 'switched' });
  await all.ca.refresh();
  expect(all.ca.authority).toEqual(other.authority);
  second.close();
});

test('S12 a host that is not connected is waited for by name, since it could not be told any more; a deleted one is not', async () => {
  const all = await installation();
  const rotation = all.start();
  all.report('db2', false);
  await expect(rotation.introduce()).rejects.toMatchObject({ message: /host db2 \(not connected\)/ });
  await all.store.update({ kind: 'Host', namespace: 'default', name: 'db2' }, { delete: true });
  expect(await rotation.introduce()).toMatchObject({ phase: 'introduced' });
  rotation.close();
});
