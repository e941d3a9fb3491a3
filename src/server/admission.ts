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
  validate,
  type Warning,
} from '../model/index.ts';
import { type Loose, mapAt, textAt } from '../model/paths.ts';
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

/**
 * Checks a document against the stored object of the same name (null: new), now. `clashes`: what stands against it beside other
 * stored objects. Throws `Invalid` with all problems.
 */
export function admit(
  document: unknown,
  current: StoredObject | null,
  now: Millis,
  clashes: readonly Problem[] = [],
): Admitted {
  const further = (read: Loose) => furtherProblems(read, current, now);
  const result = validate(document, current === null ? { further } : { current, further });
  const problems = [
    ...result.problems,
    ...clashes,
    ...(result.secret === undefined ? [] : secretProblems(result.secret)),
    ...(current?.metadata.deletionTimestamp ? [beingDeleted(current)] : []),
  ];
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

/** What no schema knows: what this version can do, and what time it is. */
function furtherProblems(read: Loose, current: StoredObject | null, now: Millis): readonly Problem[] {
  return [...unsupported(read), ...(read['kind'] === 'Topology' ? lateStarts(read, current, now) : [])];
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

function unsupported(read: Loose): readonly Problem[] {
  const kind = textAt(read, 'kind') ?? '';
  if (NOT_YET.has(kind)) return [{ path: 'kind', message: `${kind} is not part of this version of Belay` }];
  return kind === 'MongoDB' ? unsupportedFeatures(mapAt(read, 'spec')) : [];
}

/** What was accepted once is not refused again (UPG-02). */
function lateStarts(read: Loose, current: StoredObject | null, now: Millis): readonly Problem[] {
  const before = startProblems(mapAt(current, 'spec'), now);
  const old = new Set(before.map(({ path }) => path));
  return startProblems(mapAt(read, 'spec'), now).filter(({ path }) => !old.has(path));
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
