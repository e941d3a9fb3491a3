/**
 * Admission: the one gate between a document and the store (B1.4). A document of any accepted API version becomes what is
 * stored, or every problem at once; nothing is half-done.
 */
import { BelayError, type Problem } from '../base/error.ts';
import { formatCount, type Millis } from '../base/units.ts';
import { changeRemarks, remarks, unsupportedFeatures } from '../clusters/index.ts';
import type { ObjectKey, StoredObject } from '../engine/ports.ts';
import {
  type BelayObject,
  findKind,
  type MongoDB,
  type MongoDBSpec,
  type SecretDocument,
  startProblems,
  type Topology,
  type Validation,
  validate,
  type Warning,
} from '../model/index.ts';
import { CLUSTER_FINALIZER, USER_FINALIZER } from '../provider/names.ts';
import { annotationsOf } from './annotations.ts';
import { secretProblems } from './secretDocuments.ts';

export type Admitted =
  | {
      readonly kind: 'object';
      readonly key: ObjectKey;
      readonly spec: unknown;
      readonly labels: Readonly<Record<string, string>>;
      readonly annotations: Readonly<Record<string, string>>;
      readonly finalizers: readonly string[];
      readonly warnings: readonly Warning[];
      /** What the sender has seen of the stored object, as far as its document says. */
      readonly expect: { readonly resourceVersion: string | undefined; readonly uid: string | undefined };
    }
  | { readonly kind: 'secret'; readonly secret: SecretDocument }
  | { readonly kind: 'nothing'; readonly warnings: readonly Warning[] };

const FINALIZERS: Readonly<Record<string, readonly string[]>> = {
  MongoDB: [CLUSTER_FINALIZER],
  MongoDBUser: [USER_FINALIZER],
};

/** Kinds of the language nobody acts on yet: refused, so that nothing is promised and ignored. */
const NOT_YET: ReadonlySet<string> = new Set(['BackupStorage', 'Backup', 'Restore']);

/** Puts the namespace of the request into a document that names none. */
export function withNamespace(document: unknown, namespace: string): unknown {
  if (typeof document !== 'object' || document === null || Array.isArray(document)) return document;
  const metadata = (document as { metadata?: unknown }).metadata;
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return document;
  if ((metadata as { namespace?: unknown }).namespace != null) return document;
  return { ...document, metadata: { ...metadata, namespace } };
}

/** The key a document is about, before it is checked; null when it does not say. */
export function keyOf(document: unknown, namespace: string): ObjectKey | null {
  const value = document as { kind?: unknown; metadata?: { name?: unknown; namespace?: unknown } } | null;
  if (
    typeof value !== 'object' ||
    typeof value?.kind !== 'string' ||
    typeof value.metadata?.name !== 'string'
  )
    return null;
  const info = findKind(value.kind);
  if (info === undefined) return null;
  const given = typeof value.metadata.namespace === 'string' ? value.metadata.namespace : namespace;
  return {
    kind: info.kind,
    namespace: info.scope === 'cluster' ? 'default' : given,
    name: value.metadata.name,
  };
}

/** Checks a document against the stored object of the same name (null: new), now. Throws `Invalid` with all problems. */
export function admit(document: unknown, current: StoredObject | null, now: Millis): Admitted {
  const result = validate(document, current === null ? {} : { current });
  const problems = [...result.problems, ...furtherProblems(result, current, now)];
  if (problems.length > 0) throw invalid(document, problems);
  if (result.secret !== undefined) return { kind: 'secret', secret: result.secret };
  if (result.object === undefined) return { kind: 'nothing', warnings: result.warnings };
  const more = result.object.kind === 'MongoDB' ? remarksOn((result.object as MongoDB).spec, current) : [];
  return admitted(result.object, [...result.warnings, ...more], current);
}

function remarksOn(spec: MongoDBSpec, current: StoredObject | null): readonly Warning[] {
  const changes = current === null ? [] : changeRemarks(current.spec as MongoDBSpec, spec);
  return [...remarks(spec), ...changes];
}

function furtherProblems(result: Validation, current: StoredObject | null, now: Millis): readonly Problem[] {
  return [
    ...(result.secret === undefined ? [] : secretProblems(result.secret)),
    ...(result.object === undefined ? [] : unsupported(result.object)),
    ...(result.object?.kind === 'Topology' ? lateStarts(result.object as Topology, current, now) : []),
    ...(current?.metadata.deletionTimestamp ? [beingDeleted(current)] : []),
  ];
}

function admitted(
  object: BelayObject,
  found: readonly Warning[],
  current: StoredObject | null,
): Extract<Admitted, { kind: 'object' }> {
  const { metadata } = object;
  const info = findKind(object.kind);
  const { annotations, warnings } = annotationsOf(object, found, current);
  return {
    kind: 'object',
    key: {
      kind: object.kind,
      namespace: info?.scope === 'cluster' ? 'default' : metadata.namespace,
      name: metadata.name,
    },
    spec: object.spec,
    labels: metadata.labels,
    annotations,
    finalizers: FINALIZERS[object.kind] ?? [],
    warnings,
    expect: { resourceVersion: metadata.resourceVersion, uid: metadata.uid },
  };
}

function unsupported(object: BelayObject): readonly Problem[] {
  if (NOT_YET.has(object.kind))
    return [{ path: 'kind', message: `${object.kind} is not part of this version of Belay` }];
  return object.kind === 'MongoDB' ? unsupportedFeatures((object as MongoDB).spec) : [];
}

/** What was accepted once is not refused again (UPG-02). */
function lateStarts({ spec }: Topology, current: StoredObject | null, now: Millis): readonly Problem[] {
  const before = current === null ? [] : startProblems(current.spec as Topology['spec'], now);
  const old = new Set(before.map(({ path }) => path));
  return startProblems(spec, now).filter(({ path }) => !old.has(path));
}

const beingDeleted = (current: StoredObject): Problem => ({
  path: 'metadata.name',
  message: `${current.kind} ${current.metadata.namespace}/${current.metadata.name} is being deleted; wait until it is gone: belay wait ${current.kind.toLowerCase()} ${current.metadata.name} --for delete`,
});

/** A document with problems, as one error with all of them. */
export function invalid(document: unknown, problems: readonly Problem[]): BelayError {
  const kind = (document as { kind?: unknown })?.kind;
  const count = formatCount(problems.length, 'problem');
  return new BelayError('Invalid', `${typeof kind === 'string' ? kind : 'document'} has ${count}`, {
    retry: 'never',
    problems,
  });
}
