import { expect, test } from 'vitest';
import { GIB } from '../base/units.ts';
import type { TlsMode } from '../model/index.ts';
import { desired, placed, running } from './fixtures.ts';
import { cacheGb, configFingerprint, goalOf, snapshotInputs } from './snapshotInputs.ts';
import { withMember } from './state.ts';
import type { State } from './types.ts';

test('A9.6 RES-02 the cache is half of the memory above 512 MiB, at least 0.25 GB, to two decimals', () => {
  const cache = (gib: number | null): number => cacheGb({ memoryBytes: gib === null ? null : gib * GIB });
  expect([null, 0.25, 0.5, 1, 1.5, 2, 4, 16].map(cache)).toEqual([
    0.25, 0.25, 0.25, 0.25, 0.5, 0.75, 1.75, 7.75,
  ]);
  expect(cache(3.33)).toBe(1.41);
});

test('A6.1 A6.2 resources, config, certificates’ names and TLS make another run; members, version and order do not', () => {
  const base = desired({ mongodConfig: { a: 1, b: { c: 2, d: 3 } }, certificateDomains: ['x.org', 'y.org'] });
  const print = configFingerprint(base);
  for (const change of [
    { memoryBytes: GIB },
    { cpus: 2 },
    { tlsMode: 'preferTLS' as const },
    { mongodConfig: { a: 1, b: { c: 2, d: 4 } } },
    { certificateDomains: ['x.org'] },
  ])
    expect(configFingerprint({ ...base, ...change }), JSON.stringify(change)).not.toBe(print);
  const same = {
    ...desired({ mongodConfig: { b: { d: 3, c: 2 }, a: 1 }, certificateDomains: ['y.org', 'x.org'] }, 5),
    version: '7.0.43-23',
    generation: 9,
    port: 4711,
  };
  expect(configFingerprint(same)).toBe(print);
});

/** A running set whose members are at these modes; the last one is still under way when said so. */
function at(modes: readonly TlsMode[], underWay: boolean): State {
  const state = running(desired({ tlsMode: 'disabled' }));
  const members = state.members.map((m, i) => ({
    ...m,
    activated: { ...m.activated!, tlsMode: modes[i]! },
    stage: underWay && i === 2 ? ('reloading' as const) : m.stage,
  }));
  return { ...state, members };
}

test('S12 A9.3 the next TLS mode begins only when the last member is back from the one before', () => {
  const wanted = desired({ tlsMode: 'requireTLS' });
  const all = ['allowTLS', 'allowTLS', 'allowTLS'] as const;
  expect(goalOf(at(all, true), wanted).tlsMode).toBe('allowTLS');
  expect(goalOf(at(all, false), wanted).tlsMode).toBe('preferTLS');
  expect(goalOf(at(['preferTLS', 'allowTLS', 'allowTLS'], true), wanted).tlsMode).toBe('preferTLS');
  // STK-04: a member that cannot start in this mode may be led back.
  expect(goalOf(at(all, true), desired({ tlsMode: 'disabled' }), true).tlsMode).toBe('disabled');
});

test('STK-11 before the set is initiated the spec’s mode is reached at once', () => {
  expect(goalOf(placed(desired({ tlsMode: 'disabled' })), desired({ tlsMode: 'requireTLS' })).tlsMode).toBe(
    'requireTLS',
  );
});

test('a member on localhost listens on loopback only, any other on all addresses', () => {
  const d = desired();
  const bound = (address: string): readonly string[] => {
    const state = withMember(placed(d), 'orders-0', { address });
    return snapshotInputs(state, d, state.members[0]!, 1).bindIp;
  };
  expect([bound('localhost'), bound('db1.example.org')]).toEqual([[], ['*']]);
});

test('A8.1 a snapshot names the binary its member has, not the one it is to get', () => {
  const d = desired({ version: '8.0.32-14' });
  const state = withMember(placed(d), 'orders-0', { deployedVersion: '7.0.43-23' });
  expect(snapshotInputs(state, d, state.members[0]!, 3)).toMatchObject({
    version: '7.0.43-23',
    configVersion: 3,
    member: 'orders-0',
    replicaSet: 'orders',
  });
});
