import { expect, test } from 'vitest';
import type { MongoDBSpec } from '../model/index.ts';
import { validate } from '../model/index.ts';
import { desiredFrom } from './desired.ts';
import { groupNames } from './nameClash.ts';
import { groupsOf } from './topology.ts';

test('A6.5 VAL-12 the names that are compared are those that the groups get', () => {
  const document = {
    apiVersion: 'belay.dev/v1',
    kind: 'MongoDB',
    metadata: { name: 'events' },
    spec: {
      type: 'ShardedCluster',
      shardCount: 3,
      mongodsPerShardCount: 3,
      configServerCount: 3,
      mongosCount: 2,
    },
  };
  const spec = validate(document).object?.spec as MongoDBSpec;
  const metadata = { uid: 'u', namespace: 'default', name: 'events', generation: 1, deletionTimestamp: null };
  const names = groupsOf(desiredFrom({ metadata, spec })).map(({ name }) => name);
  expect(groupNames({ name: 'events', spec })).toEqual(names);
});

test('VAL-01 a document that is not finished has no more groups than it says in a sound way', () => {
  const sharded = (shardCount: unknown) =>
    groupNames({ name: 'e', spec: { type: 'ShardedCluster', shardCount } });
  for (const wrong of [undefined, -1, 2.5, 1e9, '3', null])
    expect(sharded(wrong)).toEqual(['e-cfg', 'e-mongos']);
  expect(groupNames({ name: 'e', spec: {} })).toEqual([]);
});
