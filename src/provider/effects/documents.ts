/** Effects on the documents of a cluster: asking, and the end. */
import { BelayError } from '../../base/error.ts';
import { keyOf } from '../../engine/informer.ts';
import type { Effect } from '../../engine/provider.ts';
import type { MongoDBSpec } from '../../model/index.ts';
import { CLUSTER_FINALIZER, clusterSecrets, KEPT_ANNOTATION } from '../names.ts';
import { isAbout } from '../operationObjects.ts';
import { done, type Work } from './work.ts';

/**
 * The document asks from now on, as if a person had applied it; one that asks already is left alone. What somebody changed
 * since it was planned is looked at first, so that a controller that stood still turns nothing back (S9).
 */
export async function setSuspend({ store, informer, object }: Work, suspend: boolean): Promise<Effect> {
  const latest = await store.get(keyOf(object));
  if (latest === null || latest.metadata.uid !== object.metadata.uid)
    throw new BelayError('NotFound', 'the MongoDB is gone', { retry: 'later' });
  const spec = latest.spec as MongoDBSpec;
  if (spec.suspend === suspend) return done({ generation: latest.metadata.generation });
  if (latest.metadata.generation !== object.metadata.generation)
    throw new BelayError('Conflict', 'the document changed meanwhile', { retry: 'later' });
  const { [KEPT_ANNOTATION]: _, ...annotations } = latest.metadata.annotations;
  const change = { spec: { ...spec, suspend }, ...(suspend ? {} : { annotations }) };
  const changed = await store.update(keyOf(object), change, latest.metadata.resourceVersion);
  if (changed !== null) informer.learn(changed);
  return done({ generation: changed?.metadata.generation ?? latest.metadata.generation });
}

/** The record goes in the same transaction as the finalizer: afterwards nothing of the cluster is left. */
export async function forget(work: Work): Promise<Effect> {
  const { object } = work;
  await forgetOperations(work);
  const release = { key: keyOf(object), uid: object.metadata.uid, finalizer: CLUSTER_FINALIZER };
  return {
    ...done({}),
    also: {
      releases: [release],
      forgetState: true,
      secretPrefixesToDelete: [clusterSecrets(work.state.uid)],
    },
  };
}

/** What was asked for of a cluster goes with it: a later one of the same name must not inherit its history. */
async function forgetOperations({ informer, store, object }: Work): Promise<void> {
  for (const operation of informer.all('Operation')) {
    if (!isAbout(operation, object)) continue;
    await store.update(keyOf(operation), { finalizers: [], delete: true }).catch((failure: unknown) => {
      if (!(failure instanceof BelayError && failure.code === 'NotFound')) throw failure;
    });
  }
}
