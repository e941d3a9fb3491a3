/** Create, apply, patch and delete as the API does them: admission, then one write. */
import { isDeepStrictEqual } from 'node:util';
import { BelayError, type Problem } from '../base/error.ts';
import type { ObjectChange, ObjectKey, StoredObject } from '../engine/ports.ts';
import {
  DEFAULT_NAMESPACE,
  findKind,
  type MaintenanceTask,
  type MongoDBSpec,
  type Warning,
} from '../model/index.ts';
import { mapAt } from '../model/paths.ts';
import { KEPT_ANNOTATION } from '../provider/names.ts';
import { type Admitted, admit, invalid, keyOf, withNamespace } from './admission.ts';
import type { ApiDeps, Identity } from './deps.ts';
import { diskWarnings } from './disks.ts';
import { heldNodeProblems } from './heldNodes.ts';
import { refuseInUse } from './inUse.ts';
import { hopelessWarnings, ownerProblems } from './maintenanceRequest.ts';
import { clashesWithStored, shardNamesTaken } from './nameClash.ts';
import { deletionOf } from './operationDocuments.ts';
import { othersOf } from './others.ts';
import { presentObject } from './present.ts';
import { applySecret } from './secretDocuments.ts';

export type Outcome = 'created' | 'configured' | 'unchanged';

export interface Applied {
  readonly outcome: Outcome;
  /** Null for secrets and documents that were passed over. */
  readonly object: StoredObject | null;
  readonly name: { readonly kind: string; readonly namespace: string; readonly name: string } | null;
  readonly warnings: readonly Warning[];
}

/** What must hold of the stored object besides what the document itself says. */
export interface Conditions {
  /** Checks everything and writes nothing. */
  readonly dryRun: boolean;
  /** Who asks; null: nobody that is known, who may do everything. */
  readonly by: Identity | null;
  /** `If-Match`: this resourceVersion, or `*` for any object that is there. Else `PreconditionFailed`. */
  readonly ifMatch?: string | undefined;
  /** There must be none yet: `AlreadyExists`, or `PreconditionFailed` when it was asked for by `If-None-Match: *`. */
  readonly absent?: 'create' | 'if-none-match' | undefined;
}

/** How often a change by somebody else in between is looked at again before giving up; a status may change all the time. */
const ATTEMPTS = 10;

/** Stores what a document asks for: new, changed or as it was. An apply that changes nothing writes nothing. */
export function applyDocument(
  deps: ApiDeps,
  document: unknown,
  namespace: string,
  conditions: Conditions,
): Promise<Applied> {
  const placed = withNamespace(document, namespace);
  const key = keyOf(placed, namespace);
  return untilSettled(async () => {
    const current = key === null ? null : await deps.store.get(key);
    return applyOver(deps, placed, current, conditions);
  });
}

/** Changes a stored object by a JSON merge patch (RFC 7386) of its document. */
export function patchObject(
  deps: ApiDeps,
  key: ObjectKey,
  change: unknown,
  conditions: Conditions,
): Promise<Applied> {
  if (typeof change !== 'object' || change === null || Array.isArray(change))
    throw new BelayError('Malformed', 'a merge patch is a map of fields', { retry: 'never' });
  return untilSettled(async () => {
    const current = await getObject(deps, key);
    const { status: _, ...whole } = presentObject(current);
    const { resourceVersion: __, ...metadata } = whole['metadata'] as Readonly<Record<string, unknown>>;
    const merged = mergePatch({ ...whole, metadata }, change);
    const about = keyOf(merged, key.namespace);
    if (about?.kind !== key.kind || about.namespace !== key.namespace || about.name !== key.name)
      throw new BelayError('Malformed', 'a patch cannot change kind, namespace or name', { retry: 'never' });
    return applyOver(deps, merged, current, conditions);
  });
}

function mergePatch(target: unknown, change: unknown): unknown {
  if (typeof change !== 'object' || change === null || Array.isArray(change)) return change;
  const base: Record<string, unknown> =
    typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete base[key];
    else base[key] = mergePatch(base[key], value);
  }
  return base;
}

/** Thrown instead of a conflict nobody asked about: look again and decide anew. */
class Raced extends Error {}

async function untilSettled<T>(attempt: () => Promise<T>): Promise<T> {
  for (let left = ATTEMPTS; ; left--) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Raced)) throw error;
      if (left <= 1) throw error.cause;
    }
  }
}

/**
 * A maintenance task belongs to who asks for it, unless the document names somebody: so it does when somebody else applies the
 * same document again.
 */
function withOwner(document: unknown, current: StoredObject | null, by: Identity | null): unknown {
  const task = document as { readonly kind?: unknown; readonly spec?: { readonly owner?: unknown } } | null;
  if (task?.kind !== 'MaintenanceTask' || typeof task.spec !== 'object' || task.spec === null)
    return document;
  const owner = current === null ? by?.name : (current.spec as MaintenanceTask['spec']).owner;
  return task.spec.owner == null ? { ...task, spec: { ...task.spec, owner } } : document;
}

async function applyOver(
  deps: ApiDeps,
  given: unknown,
  current: StoredObject | null,
  conditions: Conditions,
): Promise<Applied> {
  const document = withOwner(given, current, conditions.by);
  const clashes = [
    ...(await nameClashes(deps, document)),
    ...(current?.kind === 'Topology' ? await heldNodeProblems(deps, current.metadata.name, document) : []),
  ];
  const admitted = admit(document, current, deps.clock.now(), clashes);
  if (admitted.kind === 'nothing')
    return { outcome: 'unchanged', object: null, name: null, warnings: admitted.warnings };
  if (admitted.kind === 'secret') {
    const { namespace, name } = admitted.secret;
    const outcome = await applySecret(deps, admitted.secret, conditions.dryRun);
    return { outcome, object: null, name: { kind: 'Secret', namespace, name }, warnings: [] };
  }
  checkConditions(admitted, current, conditions);
  const found = await withNames(deps, admitted, current);
  // Before it is stored: afterwards its name is taken by itself.
  const hopeless =
    admitted.key.kind === 'MaintenanceTask' && current === null
      ? await newTask(deps, admitted, document, conditions)
      : [];
  const told = (applied: Applied): Applied => {
    const all = withDisks(deps, found, current, applied);
    return hopeless.length === 0 ? all : { ...all, warnings: [...all.warnings, ...hopeless] };
  };
  if (conditions.dryRun) return told(tried(found, current));
  try {
    return told(await write(deps, found, current));
  } catch (error) {
    const code = error instanceof BelayError ? error.code : '';
    throw ['Conflict', 'AlreadyExists', 'NotFound'].includes(code)
      ? new Raced('raced', { cause: error })
      : error;
  }
}

/** Warnings about a task that is new. Whose it is cannot be changed later. */
async function newTask(
  { maintenance }: ApiDeps,
  { key, spec }: AdmittedObject,
  document: unknown,
  { by }: Conditions,
): Promise<readonly Warning[]> {
  const task = spec as MaintenanceTask['spec'];
  const problems = ownerProblems(task.owner ?? '', by, 'spec.owner');
  if (problems.length > 0) throw invalid(document, problems);
  return hopelessWarnings(maintenance, key.name, task);
}

/** Asked of the document as it came, so that a clash is told together with all else. */
async function nameClashes({ store }: ApiDeps, document: unknown): Promise<readonly Problem[]> {
  const key = keyOf(document, DEFAULT_NAMESPACE);
  return key?.kind === 'MongoDB' ? clashesWithStored(store, { ...key, spec: mapAt(document, 'spec') }) : [];
}

type AdmittedObject = Extract<Admitted, { kind: 'object' }>;

/** While it has no name yet that clients know, another one is easily chosen. */
async function withNames(
  { store }: ApiDeps,
  admitted: AdmittedObject,
  current: StoredObject | null,
): Promise<AdmittedObject> {
  if (current !== null || admitted.key.kind !== 'MongoDB') return admitted;
  const more = await shardNamesTaken(store, { ...admitted.key, spec: admitted.spec });
  return more.length === 0 ? admitted : { ...admitted, warnings: [...admitted.warnings, ...more] };
}

/** What the hosts say of it is of this moment, and no part of what is stored. */
function withDisks(
  { agents }: ApiDeps,
  { key, spec }: AdmittedObject,
  current: StoredObject | null,
  applied: Applied,
): Applied {
  if (key.kind !== 'MongoDB') return applied;
  const more = diskWarnings(agents, spec as MongoDBSpec, current);
  return { ...applied, warnings: [...applied.warnings, ...more] };
}

function checkConditions(
  { key, expect }: AdmittedObject,
  current: StoredObject | null,
  conditions: Conditions,
): void {
  const what = `${key.kind} ${key.namespace}/${key.name}`;
  const version = current?.metadata.resourceVersion;
  const { ifMatch, absent } = conditions;
  if (current !== null && absent === 'create') {
    throw new BelayError('AlreadyExists', `${what} exists already`, {
      retry: 'never',
      fix: 'use belay apply to change it',
    });
  }
  if (current !== null && absent === 'if-none-match') throw preconditionFailed(`${what} exists already`);
  if (ifMatch !== undefined) checkIfMatch(what, current, ifMatch);
  if (expect.uid !== undefined && current !== null && expect.uid !== current.metadata.uid)
    throw conflict(`${what} is another object than the one this document was read from`, 'metadata.uid');
  if (expect.resourceVersion === undefined || expect.resourceVersion === version) return;
  throw conflict(
    current === null
      ? `${what} does not exist any more`
      : `${what} is at version ${version}, not at ${expect.resourceVersion}: it changed meanwhile`,
    'metadata.resourceVersion',
  );
}

function checkIfMatch(what: string, current: StoredObject | null, ifMatch: string): void {
  const version = current?.metadata.resourceVersion;
  if (version === undefined) throw preconditionFailed(`${what} does not exist`);
  if (ifMatch !== '*' && ifMatch !== version)
    throw preconditionFailed(`${what} is at version ${version}, not at ${ifMatch}: it changed meanwhile`);
}

const preconditionFailed = (message: string): BelayError =>
  new BelayError('PreconditionFailed', message, {
    retry: 'never',
    fix: 'read it again and repeat the change on what is there now',
  });

const conflict = (message: string, field: string): BelayError =>
  new BelayError('Conflict', message, {
    retry: 'never',
    fix: `read it again and repeat the change on what is there now, or leave out ${field} to change it all the same`,
  });

async function write(
  deps: ApiDeps,
  admitted: AdmittedObject,
  current: StoredObject | null,
): Promise<Applied> {
  const { key, spec, labels, annotations, finalizers, warnings } = admitted;
  if (current === null) {
    const object = await deps.store.create({ ...key, spec, labels, annotations, finalizers });
    return { outcome: 'created', object, name: key, warnings };
  }
  const version = current.metadata.resourceVersion;
  const object = await deps.store.update(key, { spec, labels, annotations }, version);
  const outcome = object?.metadata.resourceVersion === version ? 'unchanged' : 'configured';
  return { outcome, object, name: key, warnings };
}

/** What would be stored. A new object has no identity yet: those fields are empty and left out of answers. */
function tried(admitted: AdmittedObject, current: StoredObject | null): Applied {
  const { key, spec, labels, annotations, warnings } = admitted;
  const metadata = current?.metadata ?? {
    namespace: key.namespace,
    name: key.name,
    uid: '',
    generation: 1,
    resourceVersion: '',
    creationTimestamp: '',
    deletionTimestamp: null,
    finalizers: [],
  };
  const sameSpec = current !== null && isDeepStrictEqual(plain(current.spec), plain(spec));
  const same =
    sameSpec &&
    isDeepStrictEqual(plain(current.metadata.labels), plain(labels)) &&
    isDeepStrictEqual(plain(current.metadata.annotations), plain(annotations));
  const generation = current !== null && !sameSpec ? metadata.generation + 1 : metadata.generation;
  const object: StoredObject = {
    kind: key.kind,
    metadata: { ...metadata, generation, labels, annotations },
    spec,
    status: current?.status ?? null,
  };
  return {
    outcome: current === null ? 'created' : same ? 'unchanged' : 'configured',
    object,
    name: key,
    warnings,
  };
}

/** As it is stored: plain JSON. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

/** Gets an object or NotFound with what there is instead. */
export async function getObject(deps: Pick<ApiDeps, 'store'>, key: ObjectKey): Promise<StoredObject> {
  const object = await deps.store.get(key);
  if (object !== null) return object;
  const info = findKind(key.kind);
  const others = await othersOf(deps, key);
  const place = info?.scope === 'cluster' ? key.name : `${key.namespace}/${key.name}`;
  throw new BelayError('NotFound', `${info?.plural ?? key.kind} ${place} does not exist`, {
    retry: 'never',
    ...(others === '' ? {} : { fix: `there are: ${others}` }),
  });
}

/** Marks for deletion; null when it went at once. With `keepVolumes` the cluster is suspended instead (A14.2). */
export async function deleteObject(
  deps: ApiDeps,
  key: ObjectKey,
  options: { readonly keepVolumes: boolean; readonly ifMatch?: string | undefined; readonly by?: string },
): Promise<StoredObject | null> {
  return untilSettled(async () => {
    const object = await getObject(deps, key);
    if (options.ifMatch !== undefined)
      checkIfMatch(`${key.kind} ${key.namespace}/${key.name}`, object, options.ifMatch);
    const change = options.keepVolumes ? suspension(object) : await deletionOf(deps, object);
    await refuseInUse(deps, key);
    if (await droppedTask(deps, object, options.by)) return null;
    return replaced(deps, object, change);
  });
}

/** A task that goes is dropped by whoever deletes it, so that its events say who that was. False: it is none, or holds nothing. */
async function droppedTask(
  { maintenance }: ApiDeps,
  { kind, metadata, spec }: StoredObject,
  by = '',
): Promise<boolean> {
  if (kind !== 'MaintenanceTask') return false;
  const uid = (spec as { readonly uid?: string }).uid ?? metadata.name;
  const entry = await maintenance.find(uid);
  if (entry === null || maintenance.nameOf(entry) !== metadata.name) return false;
  return (await maintenance.drop(uid, {}, by)).status === 'SUCCESS';
}

/** Changes a stored object as it is decided from what it is now; null changes nothing. */
export function changeObject(
  deps: ApiDeps,
  key: ObjectKey,
  decide: (object: StoredObject) => ObjectChange | null,
): Promise<StoredObject | null> {
  return untilSettled(async () => {
    const object = await getObject(deps, key);
    const change = decide(object);
    return change === null ? object : replaced(deps, object, change);
  });
}

async function replaced(
  deps: ApiDeps,
  { kind, metadata }: StoredObject,
  change: ObjectChange,
): Promise<StoredObject | null> {
  const { namespace, name, resourceVersion } = metadata;
  try {
    return await deps.store.update({ kind, namespace, name }, change, resourceVersion);
  } catch (error) {
    if (error instanceof BelayError && error.code === 'Conflict') throw new Raced('raced', { cause: error });
    throw error;
  }
}

function suspension(object: StoredObject) {
  if (object.kind !== 'MongoDB')
    throw new BelayError('Malformed', 'keepVolumes is for kind MongoDB', { retry: 'never' });
  if (object.metadata.deletionTimestamp !== null)
    throw new BelayError('Conflict', `${object.metadata.name} is being deleted with its volumes already`, {
      retry: 'never',
    });
  const spec = { ...(object.spec as Readonly<Record<string, unknown>>), suspend: true };
  return { spec, annotations: { ...object.metadata.annotations, [KEPT_ANNOTATION]: 'true' } };
}
