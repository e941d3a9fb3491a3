import { expect, test } from 'vitest';
import type { ApiObject } from './client.ts';
import { progressLines } from './progress.ts';
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

test('A7.4 progress names each set of a sharded cluster and whether it is a shard yet', () => {
  const lines = progressLines(cluster).map((line) => line.trim().replace(/ {2,}/g, '  '));
  expect(lines).toContain('events-cfg  ✔ initiated (term 1)  ✔ users 5/5');
  expect(lines).toContain('events-s0  ✔ initiated (term 2)  ✔ users 5/5  ✔ a shard');
  expect(lines).toContain('events-s1  · initiated  · users  · a shard');
});
