import { expect, test } from 'vitest';
import type { ApiObject } from './client.ts';
import { progressLines } from './progress.ts';
import { rowsOf } from './rows.ts';
import { describeText } from './verbs/describe.ts';

const member = (name: string, role: string, more: Record<string, unknown> = {}) => ({
  name,
  role,
  health: 'healthy',
  stage: 'active',
  state: role === 'router' ? 'ROUTER' : 'PRIMARY',
  ...more,
});

const cluster = {
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDB',
  metadata: { name: 'events', namespace: 'default', generation: 1 },
  spec: { type: 'ShardedCluster', version: '8.0.32-14' },
  status: {
    phase: 'Degraded',
    observedGeneration: 1,
    balancer: 'off',
    members: [
      member('events-cfg-0', 'config'),
      member('events-s0-0', 'shard'),
      member('events-mongos-0', 'router'),
      member('events-mongos-1', 'router', { health: 'unhealthy' }),
    ],
    replicaSets: [
      {
        name: 'events-cfg',
        role: 'config',
        stage: 'ready',
        term: 1,
        primary: 'events-cfg-0',
        voters: 3,
        healthyVoters: 3,
        majority: 2,
        featureCompatibilityVersion: '8.0',
      },
      {
        name: 'events-s0',
        role: 'shard',
        stage: 'ready',
        term: 2,
        primary: 'events-s0-0',
        voters: 3,
        healthyVoters: 2,
        majority: 2,
        registered: true,
      },
      {
        name: 'events-s1',
        role: 'shard',
        stage: 'users',
        voters: 3,
        healthyVoters: 0,
        majority: 2,
        registered: false,
      },
    ],
  },
} as unknown as ApiObject;

test('A7.4 describe shows the sets of a sharded cluster, its routers and its balancer', async () => {
  const text = await describeText('MongoDB', cluster, [], Date.parse('2026-01-01T00:00:00Z'));
  const at = text.split('\n').map((line) => line.trimEnd().replace(/ {2,}/g, '  '));
  expect(at).toContain('  events-cfg  config  primary events-cfg-0  3 of 3 voters, majority 2  FCV 8.0');
  expect(at).toContain('  events-s0  shard  registered  primary events-s0-0  2 of 3 voters, majority 2');
  expect(at).toContain('  events-s1  shard  not registered  no primary  0 of 3 voters, majority 2');
  expect(at).toContain('Routers  1 of 2 reach the config servers');
  expect(at).toContain('Balancer  off');
});

const withStatus = (status: Record<string, unknown>, spec: Record<string, unknown> = {}): ApiObject => ({
  ...cluster,
  spec: { ...cluster.spec, shardCount: 2, mongosCount: 2, ...spec },
  status: { ...(cluster.status as object), ...status },
});

test('A7.4 S14 describe says that Belay holds the balancer off, and what it was before', async () => {
  const line = async (balancerBefore?: string): Promise<string | undefined> =>
    (await describeText('MongoDB', withStatus({ balancerBefore }), [], 0))
      .split('\n')
      .find((text) => text.startsWith('Balancer'));
  expect(await line('on')).toMatch(/off: Belay holds it off while .*; it was on before and is again then$/);
  expect(await line('off')).toMatch(/off: Belay holds it off while .*; it was off before and stays so$/);
  expect(await line()).toMatch(/^Balancer +off$/);
});

test('A7.4 A8.2 the list shows the versions that run, and the wanted one while it is not reached', () => {
  const shown = (...running: readonly (string | undefined)[]): string | undefined => {
    const members = running.map((version, i) => member(`events-s0-${i}`, 'shard', { version }));
    const { headings, rows } = rowsOf('MongoDB', [withStatus({ members })], false, false, 0);
    return rows[0]?.[headings.indexOf('VERSION')];
  };
  expect(shown()).toBe('8.0.32-14');
  expect(shown('8.0.32-14', undefined)).toBe('8.0.32-14');
  expect(shown('7.0.43-23', '7.0.43-23')).toBe('7.0.43-23 → 8.0.32-14');
  expect(shown('8.0.32-14', '7.0.43-23')).toBe('7.0.43-23 → 8.0.32-14');
});

test('A7.4 the wide list shows the shards, routers, balancer and sets of a sharded cluster, and nothing of them elsewhere', () => {
  const shown = (object: ApiObject): unknown => {
    const { headings, rows } = rowsOf('MongoDB', [object], true, false, 0);
    const at = headings.indexOf('SHARDS');
    expect(headings.slice(at, at + 4)).toEqual(['SHARDS', 'ROUTERS', 'BALANCER', 'SETS']);
    return rows[0]?.slice(at, at + 4);
  };
  const sets = 'cfg 3/3, s0 2/3, s1 0/3';
  expect(shown(withStatus({}))).toEqual(['1/2', '1/2', 'off', sets]);
  expect(shown(withStatus({ balancerBefore: 'on' }))).toEqual(['1/2', '1/2', 'off (Belay)', sets]);
  expect(shown(withStatus({ balancerBefore: 'off' }))).toEqual(['1/2', '1/2', 'off', sets]);
  expect(shown(withStatus({ balancer: 'on', balancerBefore: 'on' }))).toEqual(['1/2', '1/2', 'on', sets]);
  expect(shown(withStatus({}, { type: 'ReplicaSet' }))?.[0 as never]).toBe('–');
  expect(rowsOf('MongoDB', [cluster], false, false, 0).headings).not.toContain('SHARDS');
});

test('A7.4 progress names each set of a sharded cluster and whether it is a shard yet', () => {
  const lines = progressLines(cluster).map((line) => line.trim().replace(/ {2,}/g, '  '));
  expect(lines).toContain('events-cfg  ✔ initiated (term 1)  ✔ users 5/5');
  expect(lines).toContain('events-s0  ✔ initiated (term 2)  ✔ users 5/5  ✔ a shard');
  expect(lines).toContain('events-s1  · initiated  · users  · a shard');
});

test('A7.4 a sharded cluster that nothing is known of yet has no members counted by the default of a replica set', () => {
  const of = (object: ApiObject): string | undefined =>
    rowsOf('MongoDB', [object], true, false, 0).rows[0]?.find((cell) => cell.startsWith('0/'));
  const { status: _, ...unseen } = cluster;
  expect(of(unseen as ApiObject)).toBe('0/–');
  expect(of({ ...unseen, spec: { type: 'ReplicaSet', members: 3 } } as ApiObject)).toBe('0/3');
});
