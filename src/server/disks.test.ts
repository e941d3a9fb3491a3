import { expect, test } from 'vitest';
import { makeApi } from './testing/rig.ts';

const set = (size: string, spec: object = {}): object => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDB',
  metadata: { name: 'orders' },
  spec: { type: 'ReplicaSet', members: 3, storage: { size }, ...spec },
});

test('A6.6 STO-06 apply and plan warn of a size that no disk holds; it stands in no annotation', async () => {
  const rig = await makeApi();
  const warning = {
    path: 'spec.storage.size',
    message: '200 GiB is more than the whole disk of host db1 (100 GiB), db2 (100 GiB), db3 (100 GiB)',
  };
  const apply = (size: string, query = '') => rig.call('POST', `/api/v1/apply${query}`, { body: set(size) });
  expect((await apply('100Gi', '?dryRun=plan')).body.warnings).toEqual([]);
  expect((await apply('200Gi', '?dryRun=plan')).body.warnings).toEqual([warning]);
  const applied = await apply('200Gi');
  expect([applied.body.outcome, applied.body.warnings]).toEqual(['created', [warning]]);
  expect(JSON.stringify(applied.body.objects[0].metadata)).not.toContain('whole disk');
  const sharded = await rig.call('POST', '/api/v1/apply?dryRun=validate', {
    body: {
      apiVersion: 'belay.dev/v1',
      kind: 'MongoDB',
      metadata: { name: 'events' },
      spec: {
        type: 'ShardedCluster',
        shardCount: 1,
        mongodsPerShardCount: 3,
        configServerCount: 3,
        mongosCount: 2,
        shard: { storage: { size: '101Gi' } },
        placement: { hosts: ['db1'] },
      },
    },
  });
  expect(sharded.body.warnings).toEqual([
    { path: 'spec.shard.storage.size', message: '101 GiB is more than the whole disk of host db1 (100 GiB)' },
  ]);
  await rig.close();
});
