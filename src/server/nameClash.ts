/**
 * Groups of a sharded cluster are services of their own: `events-cfg`, `events-s0`, `events-mongos`. A cluster of such a
 * name beside it would want the same service names; both would wait for ever, so the second is refused.
 */
import { BelayError, type Problem } from '../base/error.ts';
import { desiredFrom, groupsOf } from '../clusters/index.ts';
import type { Store, StoredObject } from '../engine/ports.ts';
import { MAX_SHARDS, type MongoDBSpec } from '../model/index.ts';

/** Names that are a group of a sharded cluster: its own name, and which group. */
const GROUP = /^(.+)-(?:cfg|mongos|s(?:0|[1-9]\d*))$/;

/** Throws `Invalid` when the cluster's names are another's. `object` is what would be stored. */
export async function refuseNameClash(
  store: Pick<Store, 'get'>,
  object: Pick<StoredObject, 'spec'> & { readonly namespace: string; readonly name: string },
): Promise<void> {
  const problems = await clashes(store, object);
  if (problems.length > 0)
    throw new BelayError(
      'Invalid',
      `MongoDB has ${problems.length === 1 ? '1 problem' : `${problems.length} problems`}`,
      {
        retry: 'never',
        problems,
      },
    );
}

/**
 * What to know when a sharded cluster is made: a MongoDB that has the name of a shard to come. Neither can be renamed
 * then, so the number of shards ends before it.
 */
export async function shardNamesTaken(
  store: Pick<Store, 'get'>,
  object: Pick<StoredObject, 'spec'> & { readonly namespace: string; readonly name: string },
): Promise<readonly Problem[]> {
  const { namespace, name } = object;
  const spec = object.spec as MongoDBSpec;
  if (spec.type !== 'ShardedCluster') return [];
  for (let index = spec.shardCount; index < MAX_SHARDS; index++) {
    const shard = `${name}-s${index}`;
    if ((await store.get({ kind: 'MongoDB', namespace, name: shard })) === null) continue;
    const message = `there is a MongoDB ${shard}, and shard ${index + 1} would be called so: this cluster can never have more than ${index}`;
    return [{ path: 'spec.shardCount', message }];
  }
  return [];
}

async function clashes(
  store: Pick<Store, 'get'>,
  {
    spec,
    namespace,
    name,
  }: Pick<StoredObject, 'spec'> & { readonly namespace: string; readonly name: string },
): Promise<readonly Problem[]> {
  const at = (other: string) => store.get({ kind: 'MongoDB', namespace, name: other });
  const owner = GROUP.exec(name)?.[1];
  const sharded = owner === undefined ? null : await at(owner);
  if ((sharded?.spec as MongoDBSpec | undefined)?.type === 'ShardedCluster') {
    const message = `${name} is the name of a part of sharded cluster ${owner}; choose another`;
    return [{ path: 'metadata.name', message }];
  }
  if ((spec as MongoDBSpec).type !== 'ShardedCluster') return [];
  const metadata = { uid: '', namespace, name, generation: 1, deletionTimestamp: null };
  const groups = groupsOf(desiredFrom({ metadata, spec: spec as MongoDBSpec })).map((g) => g.name);
  const there = await Promise.all(groups.map(async (group) => ((await at(group)) === null ? [] : [group])));
  return there.flat().map((group) => ({
    path: 'metadata.name',
    message: `a part of this sharded cluster would be called ${group}, and there is a MongoDB of that name; choose another`,
  }));
}
