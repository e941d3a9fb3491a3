/** Operations as documents (A13.1): how one is named, admitted, forgotten; what of it the reconciler does not decide. */
import { randomInt } from 'node:crypto';
import { BelayError, type Problem } from '../base/error.ts';
import { desiredFrom, initialState, operationIdle, operationRefusal, recordOf } from '../clusters/index.ts';
import type { ObjectChange, ObjectKey, StoredObject } from '../engine/ports.ts';
import { isDnsName, type MongoDBSpec, type Operation, validate } from '../model/index.ts';
import { OPERATION_TARGET_LABEL } from '../provider/names.ts';
import { hasEnded, operationTarget, requestOf } from '../provider/operationObjects.ts';
import { invalid } from './admission.ts';
import type { ApiDeps } from './deps.ts';
import { OPERATIONS_KEPT, OPERATIONS_OPEN } from './limits.ts';
import { othersOf } from './others.ts';

type Loose = Readonly<Record<string, unknown>>;
const isMap = (value: unknown): value is Loose =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The document with kind, namespace and a name (`orders-restart-x7k2`) where it says none. */
export function completed(body: unknown, namespace: string): unknown {
  if (!isMap(body)) return body;
  const metadata = isMap(body['metadata']) ? body['metadata'] : {};
  const name = metadata['name'] ?? nameFor(body['spec']);
  return {
    apiVersion: 'belay.dev/v1',
    kind: 'Operation',
    ...body,
    metadata: { ...metadata, namespace: metadata['namespace'] ?? namespace, name },
  };
}

/** Without the letters and digits that are taken for each other when read aloud. */
const LETTERS = 'abcdefghjkmnpqrstuvwxyz23456789';
const RANDOM_LETTERS = 4;
/** A DNS name's end: the cluster's name is cut so that the whole still is one. */
const NAME_LIMIT = 253;

function nameFor(spec: unknown): string {
  const { type, mongodbResourceRef } = (isMap(spec) ? spec : {}) as {
    type?: unknown;
    mongodbResourceRef?: unknown;
  };
  const target = isMap(mongodbResourceRef) ? mongodbResourceRef['name'] : undefined;
  const what =
    typeof type === 'string' ? type.replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase() : 'operation';
  const random = Array.from({ length: RANDOM_LETTERS }, () => LETTERS[randomInt(LETTERS.length)]).join('');
  const tail = `-${what}-${random}`;
  const name = `${typeof target === 'string' ? target.slice(0, NAME_LIMIT - tail.length) : 'operation'}${tail}`;
  // What was given is wrong, and admission says so by its own path, not by that of a name made of it.
  return isDnsName(name) ? name : `operation-${random}`;
}

export interface AdmittedOperation {
  readonly operation: Operation;
  readonly cluster: StoredObject;
}

/** Everything that can be said against an operation before it is stored: `Invalid`, `BeingDeleted` or `Refused`. */
export async function admitOperation(deps: ApiDeps, document: unknown): Promise<AdmittedOperation> {
  const result = validate(document, { readOnlyKinds: true });
  if (result.problems.length > 0 || result.object === undefined) throw invalid(document, result.problems);
  const operation = result.object as Operation;
  const object = asStored(operation);
  const key = operationTarget(object);
  const cluster = await deps.store.get(key);
  if (cluster === null) throw invalid(document, [await noTarget(deps, key)]);
  if (cluster.metadata.deletionTimestamp !== null)
    throw new BelayError('BeingDeleted', `MongoDB ${key.namespace}/${key.name} is being deleted`, {
      retry: 'never',
    });
  const problems = await hostProblems(deps, operation);
  if (problems.length > 0) throw invalid(document, problems);
  const scene = await sceneOf(deps, cluster);
  const never = operationRefusal(scene, requestOf(object)) ?? operationIdle(scene, requestOf(object));
  if (never !== null)
    throw new BelayError('Refused', `${operation.spec.type} of ${key.name}: ${never}`, { retry: 'never' });
  return { operation, cluster };
}

const asStored = ({ kind, metadata, spec }: Operation): StoredObject => ({
  kind,
  spec,
  status: null,
  metadata: {
    ...metadata,
    uid: 'new',
    generation: 1,
    resourceVersion: '',
    creationTimestamp: '',
    deletionTimestamp: null,
    finalizers: [],
  },
});

async function noTarget(deps: ApiDeps, { namespace, name }: ObjectKey): Promise<Problem> {
  const others = await othersOf(deps, { kind: 'MongoDB', namespace });
  return {
    path: 'spec.mongodbResourceRef.name',
    message: `there is no MongoDB ${namespace}/${name}${others === '' ? '' : `; there are: ${others}`}`,
  };
}

/** Hosts that are named must be there: a misspelt one would never be avoided. */
async function hostProblems(deps: ApiDeps, { spec }: Operation): Promise<readonly Problem[]> {
  if (spec.type !== 'Move') return [];
  const named = [
    ...(spec.host === undefined ? [] : [{ path: 'spec.host', name: spec.host }]),
    ...spec.avoidHosts.map((name, i) => ({ path: `spec.avoidHosts.${i}`, name })),
  ];
  const found: Problem[] = [];
  for (const { path, name } of named)
    if ((await deps.store.get({ kind: 'Host', namespace: 'default', name })) === null)
      found.push({ path, message: `there is no host ${name}` });
  return found;
}

/** A cluster as its planner sees it now; nothing is written. */
export async function sceneOf(deps: ApiDeps, cluster: StoredObject) {
  const { metadata } = cluster;
  const desired = desiredFrom({ metadata, spec: cluster.spec as MongoDBSpec });
  const stored = await deps.store.loadState(metadata.uid);
  const state = stored === null ? initialState(desired) : recordOf(stored.value);
  const observed = await deps.provider.look({ object: cluster, desired, state });
  return { desired, state, observed, now: deps.clock.now() };
}

// ── how many ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Refuses one more when too many wait, and forgets the oldest ended ones for it. */
export async function makeRoom(deps: ApiDeps, cluster: StoredObject): Promise<void> {
  const { name, namespace } = cluster.metadata;
  const { items } = await deps.store.list({
    kind: 'Operation',
    labelSelector: `${OPERATION_TARGET_LABEL}=${name}`,
  });
  const own = items.filter((o) => operationTarget(o).namespace === namespace);
  const ended = own.filter(hasEnded);
  if (own.length - ended.length >= OPERATIONS_OPEN)
    throw new BelayError(
      'Refused',
      `${name} has ${own.length - ended.length} operations that have not ended`,
      {
        retry: 'later',
        fix: `wait, or cancel some: belay operations ${name}, then belay cancel OPERATION`,
      },
    );
  const oldest = [...ended].sort((a, b) =>
    a.metadata.creationTimestamp.localeCompare(b.metadata.creationTimestamp),
  );
  for (const { metadata } of oldest.slice(0, Math.max(0, ended.length - OPERATIONS_KEPT + 1)))
    await deps.store
      .update({ kind: 'Operation', namespace: metadata.namespace, name: metadata.name }, FORGET)
      .catch((failure: unknown) => {
        if (!(failure instanceof BelayError && failure.code === 'NotFound')) throw failure;
      });
}

const FORGET: ObjectChange = { finalizers: [], delete: true };

/**
 * What deletes an object. An operation that has ended, or whose cluster is gone, goes at once; any other is cancelled by it
 * and goes when it has ended.
 */
export async function deletionOf(deps: ApiDeps, object: StoredObject): Promise<ObjectChange> {
  if (object.kind !== 'Operation') return { delete: true };
  if (hasEnded(object)) return FORGET;
  const cluster = await deps.store.get(operationTarget(object));
  const orphan = cluster === null || cluster.metadata.creationTimestamp > object.metadata.creationTimestamp;
  return orphan ? FORGET : { delete: true };
}
