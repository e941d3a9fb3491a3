import { expect, test } from 'vitest';
import type { TlsMode } from '../../model/index.ts';
import { host, observed, sharded } from '../fixtures.ts';
import { foresee } from '../preview.ts';
import { initialState } from '../state.ts';

const MODES: readonly TlsMode[] = ['disabled', 'allowTLS', 'preferTLS', 'requireTLS'];
const versions = ['8.0.32-14'];
const hosts = ['db1', 'db2', 'db3'].map((name) =>
  host(name, { executables: { mongod: versions, mongos: versions } }),
);

test.each([
  ['disabled', 'requireTLS'],
  ['requireTLS', 'disabled'],
] as const)(
  'TLS-07 A9.3 S12 %s → %s in a sharded cluster: config servers, shards and routers pass every mode, and every pair can talk at every step',
  (from, to) => {
    const before = foresee(
      observed({ hosts }),
      sharded({ tlsMode: from }),
      initialState(sharded({ tlsMode: from })),
      0,
    );
    expect(before.converges).toBe(true);
    const want = { ...sharded({ tlsMode: to }), generation: 2 };
    const plan = foresee(before.observed, want, before.state, 1_000_000);
    expect([plan.refusals, plan.converges]).toEqual([[], true]);
    const direction = MODES.indexOf(to) > MODES.indexOf(from) ? 1 : -1;
    const places = new Map(before.state.members.map((m) => [m.name, MODES.indexOf(from)]));
    for (const step of plan.steps) {
      if (step.verb !== 'reload') continue;
      for (const name of step.targets) places.set(name, (places.get(name) ?? 0) + direction);
      const now = [...places.values()];
      expect(Math.max(...now) - Math.min(...now), `${step.number} ${step.detail}`).toBeLessThan(2);
    }
    expect([...places].filter(([, place]) => place !== MODES.indexOf(to))).toEqual([]);
    expect([...places.keys()].filter((name) => name.includes('mongos'))).toHaveLength(2);
    expect(plan.state.members.map((m) => m.activated?.tlsMode)).toEqual(plan.state.members.map(() => to));
  },
);
