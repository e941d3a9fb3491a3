/** What a status says while a cluster is neither one thing nor the other. */
import { expect, test } from 'vitest';
import { GIB } from '../base/units.ts';
import type { Step } from './decisions.ts';
import { desired, host, observed, sharded } from './fixtures.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { foresee } from './preview.ts';
import { snapshotInputs } from './snapshotInputs.ts';
import { initialState } from './state.ts';
import { status } from './status.ts';
import { startStep } from './steps.ts';
import type { Observed, OperationRequest, State } from './types.ts';

function told(set: Play, change: (o: Observed) => Observed = (o) => o) {
  const reading = change(set.reading());
  set.state = advance(set.state, set.desired, reading, set.now);
  const { desired: want, state, now } = set;
  const decided = plan(reading, want, state, now);
  return status({ observed: reading, desired: want, state, plan: decided, now, warnings: [], before: null });
}
const withDatabase = (name: string, change: object) => (o: Observed) => ({
  ...o,
  members: o.members.map((m) =>
    m.name === name && m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, ...change } } }
      : m,
  ),
});

test('A8.1 A7.4 a version is told while all members run it, and none while they differ', () => {
  const set = new Play(desired());
  expect(told(set).version).toBe('8.0.32-14');
  expect(told(set, withDatabase('orders-2', { binaryVersion: '8.0.29-13' }))).not.toHaveProperty('version');
});

test('A8.4 A8.5 A7.4 a sharded cluster has a feature compatibility version while all its sets have it; a set without a primary has the one it was known to have', () => {
  const want = sharded();
  const hosts = ['db1', 'db2', 'db3'].map((name) =>
    host(name, { executables: { mongod: ['8.0.32-14'], mongos: ['8.0.32-14'] } }),
  );
  const { state, observed: o } = foresee(observed({ hosts }), want, initialState(want), 0);
  const shown = (of: (member: string) => object, record = state): unknown => {
    const seen = o.members.reduce((reading, { name }) => withDatabase(name, of(name))(reading), o);
    const decided = plan(seen, want, record, 0);
    const is = status({
      observed: seen,
      desired: want,
      state: record,
      plan: decided,
      now: 0,
      warnings: [],
      before: null,
    });
    return [is.featureCompatibilityVersion, is.replicaSets.map((r) => r.featureCompatibilityVersion)];
  };
  const fcv = (of: Readonly<Record<string, string>>) => (name: string) =>
    name.includes('mongos') ? {} : { featureCompatibilityVersion: of[name.slice(0, -2)] ?? '8.0' };
  expect(shown(fcv({}))).toEqual(['8.0', ['8.0', '8.0', '8.0']]);
  // The routers speak the lowest: none is told, and each set says its own.
  for (const name of state.replicaSets.map((r) => r.name)) {
    const own = state.replicaSets.map((r) => (r.name === name ? '7.0' : '8.0'));
    expect(shown(fcv({ [name]: '7.0' })), name).toEqual([undefined, own]);
  }
  const leaderless = (name: string) =>
    name.startsWith('events-s1') ? { state: 'SECONDARY', featureCompatibilityVersion: null } : fcv({})(name);
  const known = (version?: string): State => ({
    ...state,
    replicaSets: state.replicaSets.map(({ fcv: _, ...r }) =>
      r.name === 'events-s1' && version !== undefined ? { ...r, fcv: version } : r,
    ),
  });
  expect(shown(leaderless, known('8.0'))).toEqual(['8.0', ['8.0', '8.0', undefined]]);
  expect(shown(leaderless, known('7.0'))).toEqual([undefined, ['8.0', '8.0', undefined]]);
  expect(shown(leaderless, known())).toEqual([undefined, ['8.0', '8.0', undefined]]);
});

test('A14.2 S15 a cluster is Ready no more once its suspension is asked for, and Suspended no more once it is to wake', () => {
  const set = new Play(desired());
  expect(told(set).phase).toBe('Ready');
  set.desired = desired({ suspend: true, generation: 2 });
  expect(told(set).phase).not.toBe('Ready');
  set.toTheEnd();
  expect(told(set).phase).toBe('Suspended');
  set.desired = desired({ generation: 3 });
  expect(told(set).phase).not.toBe('Suspended');
  set.toTheEnd();
  expect(told(set).phase).toBe('Ready');
});

test('INI-06 A7.4 a member that shows another set is named to no client', () => {
  const set = new Play(desired());
  const stray = told(set, withDatabase('orders-2', { replicaSetId: 'id-2' }));
  expect(stray.endpoints).toHaveLength(2);
  expect(stray.connectionString).toBe('mongodb://db1:27017,db2:27017/?replicaSet=orders&tls=true');
  expect(told(set).endpoints).toHaveLength(3);
});

test('STA-01 A13.3 one on its way to a place that is still taken does not count as ready', () => {
  const set = new Play(desired());
  set.hosts = [1, 2, 3, 4].map((n) => host(`db${n}`));
  const spec = { type: 'Replace', mongodbResourceRef: { name: 'orders' }, member: 'orders-1' } as const;
  const request: OperationRequest = { uid: 'op', name: 'op', spec, createdAt: 0, cancelRequested: false };
  set.requests = [request];
  let most = 0;
  for (let pass = 0; pass < 40 && set.state.ended.length === 0; pass++) {
    set.pass();
    most = Math.max(most, told(set).readyMembers ?? 0);
  }
  expect(set.state.ended).toMatchObject([{ state: 'Succeeded' }]);
  expect(most).toBe(3);
});

test('A6.2 RES-01 members of a sharded cluster get the limits, cache and configuration of their role', () => {
  const plain = sharded();
  const parts = plain.sharded as NonNullable<typeof plain.sharded>;
  const own = { memoryBytes: 4 * GIB, cpus: 2, mongodConfig: { a: 1 } };
  const want = { ...plain, sharded: { ...parts, shard: { ...parts.shard, ...own } } };
  const hosts = ['db1', 'db2', 'db3'].map((name) =>
    host(name, { executables: { mongod: ['8.0.32-14'], mongos: ['8.0.32-14'] } }),
  );
  const { state } = foresee(observed({ hosts }), want, initialState(want), 0);
  const of = (role: string) => {
    const member = state.members.find((m) => m.role === role);
    if (member === undefined) throw new Error(`there is no ${role}`);
    const { limits, cacheGb, userConfig, product } = snapshotInputs(state, want, member, 1);
    return { limits, cacheGb, userConfig, product };
  };
  expect(of('shardServer')).toEqual({
    limits: { memoryBytes: 4 * GIB, cpus: 2 },
    cacheGb: 1.75,
    userConfig: { a: 1 },
    product: 'mongod',
  });
  const none = { limits: { memoryBytes: null, cpus: null }, cacheGb: 0.25, userConfig: {} };
  expect(of('configServer')).toEqual({ ...none, product: 'mongod' });
  expect(of('router')).toEqual({ ...none, product: 'mongos' });
});

test('A7.4 a cluster that is blocked has not failed while something is still being done for it', () => {
  const want = desired();
  const making = initialState(want);
  const blocks = [{ kind: 'blocked', by: 'PortTaken', needs: 'spec', detail: '', fix: '' } as const];
  const decided = { act: null, waits: [], blocks, converged: false };
  const phaseOf = (state: State) =>
    status({ observed: observed(), desired: want, state, plan: decided, now: 0, warnings: [], before: null })
      .phase;
  expect(phaseOf(making)).toBe('Failed');
  const placement = { host: 'db1', address: 'db1', port: 27017, portFixed: false };
  const importing: Step = { kind: 'import', member: 'orders-1', placement };
  expect(phaseOf(startStep(making, importing, 's1', 0))).toBe('Pending');
});
