/** What is stored under names that a cluster's groups would get, or the other way round (`clusters/nameClash.ts`). */
import type { Problem } from '../base/error.ts';
import { clusterOfGroup, groupNames, type NamedSpec, nameClash } from '../clusters/index.ts';
import type { Store } from '../engine/ports.ts';
import { MAX_SHARDS, type MongoDBSpec } from '../model/index.ts';
import type { Loose } from '../model/paths.ts';

/** Where a MongoDB is to be stored, and as what. */
export interface PlacedSpec extends NamedSpec {
  readonly namespace: string;
}

/** Names that are another's already. The document need not be finished. */
export async function clashesWithStored(
  store: Pick<Store, 'get'>,
  one: PlacedSpec,
): Promise<readonly Problem[]> {
  const owner = clusterOfGroup(one.name);
  const names = [...(owner === null ? [] : [owner]), ...groupNames(one)];
  const found = await Promise.all(
    names.map(async (name) => {
      const there = await store.get({ kind: 'MongoDB', namespace: one.namespace, name });
      return there === null ? null : nameClash(one, { name, spec: there.spec as Loose });
    }),
  );
  return found.flatMap((message) => (message === null ? [] : [{ path: 'metadata.name', message }]));
}

/**
 * What to know when a sharded cluster is made: a MongoDB that has the name of a shard to come. Neither can be renamed
 * then, so the number of shards ends before it.
 */
export async function shardNamesTaken(
  store: Pick<Store, 'get'>,
  object: { readonly namespace: string; readonly name: string; readonly spec: unknown },
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
