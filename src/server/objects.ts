/** Create, apply and delete as the API does them: admission, then one write. */
import { BelayError, type Problem } from '../base/error.ts';
import type { ObjectKey, StoredObject } from '../engine/ports.ts';
import { findKind } from '../model/index.ts';
import { namedSecret, namedSecretPrefix } from '../provider/names.ts';
import { type Admitted, admit, keyOf, withNamespace } from './admission.ts';
import type { ApiDeps } from './deps.ts';

export type Outcome = 'created' | 'configured' | 'unchanged';

export interface Applied {
  readonly outcome: Outcome;
  /** Null for secrets and documents that were passed over. */
  readonly object: StoredObject | null;
  readonly name: { readonly kind: string; readonly namespace: string; readonly name: string } | null;
  readonly warnings: readonly Problem[];
}

/** How often a change by somebody else in between is looked at again before giving up. */
const ATTEMPTS = 5;

/** Annotation of a cluster whose runtimes were removed by `belay delete --keep-volumes` (A14.2). */
export const KEPT_ANNOTATION = 'belay.dev/kept-by-delete';

/** Stores what a document asks for: new, changed or as it was. `dryRun` checks everything and writes nothing. */
export async function applyDocument(
  deps: ApiDeps,
  document: unknown,
  namespace: string,
  options: { readonly dryRun: boolean; readonly expect?: string | undefined; readonly createOnly?: boolean },
): Promise<Applied> {
  const placed = withNamespace(document, namespace);
  for (let attempt = 1; ; attempt++) {
    const key = keyOf(placed, namespace);
    const current = key === null ? null : await deps.store.get(key);
    const admitted = admit(placed, current);
    if (admitted.kind === 'secret') return applySecret(deps, admitted, options.dryRun);
    if (admitted.kind === 'nothing')
      return { outcome: 'unchanged', object: null, name: null, warnings: admitted.warnings };
    if (options.createOnly && current !== null) throw exists(admitted.key);
    const expect = options.expect ?? admitted.expect;
    if (options.dryRun) return dryRun(admitted, current);
    try {
      return await write(deps, admitted, current, expect);
    } catch (error) {
      const raced =
        error instanceof BelayError && ['Conflict', 'AlreadyExists', 'NotFound'].includes(error.code);
      if (!raced || expect !== undefined || options.createOnly || attempt >= ATTEMPTS) throw error;
    }
  }
}

type AdmittedObject = Extract<Admitted, { kind: 'object' }>;

async function write(
  deps: ApiDeps,
  admitted: AdmittedObject,
  current: StoredObject | null,
  expect: string | undefined,
): Promise<Applied> {
  const { key, spec, labels, annotations, finalizers, warnings } = admitted;
  if (current === null) {
    if (expect !== undefined)
      throw new BelayError('Conflict', `${key.kind} ${key.namespace}/${key.name} does not exist any more`, {
        retry: 'never',
        fix: 'leave out metadata.resourceVersion to create it',
      });
    const object = await deps.store.create({ ...key, spec, labels, annotations, finalizers });
    return { outcome: 'created', object, name: key, warnings };
  }
  const object = await deps.store.update(
    key,
    { spec, labels, annotations },
    expect ?? current.metadata.resourceVersion,
  );
  const same = object?.metadata.resourceVersion === current.metadata.resourceVersion;
  return { outcome: same ? 'unchanged' : 'configured', object, name: key, warnings };
}

function dryRun(admitted: AdmittedObject, current: StoredObject | null): Applied {
  const { key, spec, labels, annotations, warnings } = admitted;
  const metadata = current?.metadata ?? {
    namespace: key.namespace,
    name: key.name,
    uid: '',
    generation: 1,
    resourceVersion: '0',
    creationTimestamp: new Date(0).toISOString(),
    deletionTimestamp: null,
    finalizers: [],
    labels,
    annotations,
  };
  const object: StoredObject = {
    kind: key.kind,
    metadata: { ...metadata, labels, annotations },
    spec,
    status: current?.status ?? null,
  };
  const outcome =
    current === null
      ? 'created'
      : JSON.stringify(current.spec) === JSON.stringify(spec)
        ? 'unchanged'
        : 'configured';
  return { outcome, object, name: key, warnings };
}

const exists = (key: ObjectKey): BelayError =>
  new BelayError('AlreadyExists', `${key.kind} ${key.namespace}/${key.name} exists already`, {
    retry: 'never',
    fix: 'use belay apply to change it',
  });

/** A `v1` Secret: every value is sealed under its own name; nothing of it is kept as an object (S8). */
async function applySecret(
  deps: ApiDeps,
  admitted: Extract<Admitted, { kind: 'secret' }>,
  dry: boolean,
): Promise<Applied> {
  const { namespace, name, values } = admitted.secret;
  const label = { kind: 'Secret', namespace, name };
  const known = await deps.secrets.list(namedSecretPrefix(namespace, name));
  if (dry)
    return {
      outcome: known.length === 0 ? 'created' : 'configured',
      object: null,
      name: label,
      warnings: [],
    };
  let changed = false;
  for (const [key, value] of Object.entries(values)) {
    const path = namedSecret(namespace, name, key);
    const before = await deps.secrets.get(path);
    if (before !== null && before.reveal() === value.reveal()) continue;
    await deps.secrets.put(path, value);
    changed = true;
  }
  return {
    outcome: known.length === 0 ? 'created' : changed ? 'configured' : 'unchanged',
    object: null,
    name: label,
    warnings: [],
  };
}

/** Gets an object or NotFound with what there is instead. */
export async function getObject(deps: ApiDeps, key: ObjectKey): Promise<StoredObject> {
  const object = await deps.store.get(key);
  if (object !== null) return object;
  const { items } = await deps.store.list({ kind: key.kind, namespace: key.namespace, limit: 5 });
  const others = items.map((o) => o.metadata.name).join(', ');
  const plural = findKind(key.kind)?.plural ?? key.kind;
  throw new BelayError('NotFound', `${plural} ${key.namespace}/${key.name} does not exist`, {
    retry: 'never',
    ...(others === '' ? {} : { fix: `there are: ${others}` }),
  });
}

/** Marks for deletion. With `keepVolumes` the cluster is suspended instead: volumes and credentials stay (A14.2). */
export async function deleteObject(
  deps: ApiDeps,
  key: ObjectKey,
  options: { readonly keepVolumes: boolean; readonly expect?: string | undefined },
): Promise<StoredObject | null> {
  const object = await getObject(deps, key);
  if (!options.keepVolumes) return deps.store.update(key, { delete: true }, options.expect);
  if (key.kind !== 'MongoDB')
    throw new BelayError('Malformed', 'keepVolumes is for kind MongoDB', { retry: 'never' });
  if (object.metadata.deletionTimestamp !== null)
    throw new BelayError('Conflict', `${key.name} is being deleted with its volumes already`, {
      retry: 'never',
    });
  const spec = { ...(object.spec as Readonly<Record<string, unknown>>), suspend: true };
  return deps.store.update(
    key,
    { spec, annotations: { ...object.metadata.annotations, [KEPT_ANNOTATION]: 'true' } },
    options.expect,
  );
}
