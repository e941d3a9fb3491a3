import { expect, test } from 'vitest';
import type { StoredObject } from '../engine/ports.ts';
import { validate } from '../model/index.ts';
import type { Loose } from '../model/paths.ts';
import { clashesWithStored, shardNamesTaken } from './nameClash.ts';

const specOf = (spec: Record<string, unknown>): unknown =>
  validate({ apiVersion: 'belay.dev/v1', kind: 'MongoDB', metadata: { name: 'x' }, spec }).object?.spec;
const replicaSet = specOf({ type: 'ReplicaSet', members: 3 });
const sharded = specOf({
  type: 'ShardedCluster',
  shardCount: 2,
  mongodsPerShardCount: 3,
  configServerCount: 3,
  mongosCount: 2,
});

const storeWith = (objects: Readonly<Record<string, unknown>>) => ({
  get: async ({ name }: { readonly name: string }) =>
    name in objects ? ({ spec: objects[name] } as StoredObject) : null,
});
const problemsOf = (objects: Readonly<Record<string, unknown>>, name: string, spec: unknown) =>
  clashesWithStored(storeWith(objects), { namespace: 'default', name, spec: spec as Loose });

test('A6.5 VAL-12 a cluster that is called like a part of a sharded one is refused, whichever came first', async () => {
  for (const name of ['events-cfg', 'events-mongos', 'events-s0', 'events-s7']) {
    const found = await problemsOf({ events: sharded }, name, replicaSet);
    expect(found, name).toMatchObject([{ path: 'metadata.name' }]);
    expect(found[0]?.message).toContain(`${name} is the name of a part of sharded cluster events`);
  }
  const both = { 'events-cfg': replicaSet, 'events-s1': replicaSet, 'events-s2': replicaSet };
  expect((await problemsOf(both, 'events', sharded)).map((p) => p.message.match(/events-\w+/)?.[0])).toEqual([
    'events-cfg',
    'events-s1',
  ]);
});

test('VAL-12 a MongoDB that has the name of a shard to come is told when the cluster is made, with what it comes to', async () => {
  const taken = (objects: Readonly<Record<string, unknown>>, spec: unknown) =>
    shardNamesTaken(storeWith(objects), { namespace: 'default', name: 'events', spec });
  expect(await taken({ 'events-s4': replicaSet, 'events-s9': replicaSet }, sharded)).toEqual([
    {
      path: 'spec.shardCount',
      message:
        'there is a MongoDB events-s4, and shard 5 would be called so: this cluster can never have more than 4',
    },
  ]);
  expect(await taken({ 'events-s1': replicaSet, 'events-s04': replicaSet }, sharded)).toEqual([]);
  expect(await taken({ 'events-s4': replicaSet }, replicaSet)).toEqual([]);
});

test('names that only look alike are accepted', async () => {
  expect(await problemsOf({ events: sharded }, 'events-s01', replicaSet)).toEqual([]);
  expect(await problemsOf({ events: replicaSet }, 'events-cfg', replicaSet)).toEqual([]);
  expect(await problemsOf({ events: sharded }, 'events-config', replicaSet)).toEqual([]);
  expect(await problemsOf({ 'events-0': replicaSet }, 'events', sharded)).toEqual([]);
});
