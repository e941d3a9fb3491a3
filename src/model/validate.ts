import type { Problem } from '../base/error.ts';
import { passedOver, readSecretDocument, type SecretDocument } from './frontdoor/core.ts';
import type { Foreign, ReportEntry } from './frontdoor/foreign.ts';
import { convertMongodbCom, MONGODB_COM } from './frontdoor/mongodbCom.ts';
import { convertPercona, PERCONA_COM } from './frontdoor/percona.ts';
import { API_VERSION, DEFAULT_NAMESPACE, metadataSchema } from './meta.ts';
import { isMap, type Loose, textAt, withoutNulls } from './paths.ts';
import { describe, problemsFromIssues, type Warning } from './problems.ts';
import { type BelayObject, type Findings, findKind, KINDS, type KindInfo } from './registry.ts';
import { namesAt } from './shapes.ts';
import { nearest } from './suggest.ts';

/** The outcome of checking one document. With problems there is neither an object nor a secret. */
export interface Validation {
  /** Typed, with all defaults; without the status of the document, which only the server writes. */
  readonly object?: BelayObject;
  /** Set instead of an object for a Kubernetes `v1` Secret: to be sealed, never stored as an object (S8). */
  readonly secret?: SecretDocument;
  /** Set instead of an object for other documents of Kubernetes itself: why there is nothing to do. */
  readonly passedOver?: string;
  readonly problems: readonly Problem[];
  /** What was accepted but should be looked at; with what a foreign document says in vain (ignored, kept). */
  readonly warnings: readonly Warning[];
  /** For foreign documents: what became of each field, for `belay convert`. Empty otherwise. */
  readonly report: readonly ReportEntry[];
}

/** A stored object, as far as checking a change needs it. */
export interface CurrentObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: unknown;
  readonly status?: unknown;
}

/** How to check. */
export interface ValidateOptions {
  /**
   * The stored object of the same name: the change is checked too, and rules that the stored object already
   * breaks become warnings, so that a stricter rule never locks an existing cluster (UPG-02).
   */
  readonly current?: CurrentObject;
  /** Accept kinds that only the server writes: set by the server for its own objects. */
  readonly readOnlyKinds?: boolean;
  /**
   * What else must hold of a document of a known kind, as far as it could be read: it is asked with problems too, so that they
   * are found together, and must cope with unfinished documents.
   */
  readonly further?: (read: Loose) => readonly Problem[];
}

const NOTHING: Findings = { problems: [], warnings: [] };
const failed = (problems: readonly Problem[]): Validation => ({ problems, warnings: [], report: [] });

/**
 * Checks one document and gives every problem at once, each with its field path (B1.4). `mongodb.com/v1` documents
 * are converted first and their problems have the paths of the document as it was given (B1.3). Never throws,
 * whatever the input (VAL-01). Messages never repeat values that could be secrets (S8).
 */
export function validate(document: unknown, options: ValidateOptions = {}): Validation {
  if (!isMap(document)) {
    const message = `must be a map with apiVersion, kind, metadata and spec, not ${describe(document)}`;
    return failed([{ path: '', message }]);
  }
  const apiVersion = document['apiVersion'];
  if (apiVersion === MONGODB_COM) return checkForeign(document, convertMongodbCom(document), options);
  if (apiVersion === PERCONA_COM) return checkForeign(document, convertPercona(), options);
  const skipped = passedOver(document);
  if (skipped !== undefined) return checkKubernetes(document, skipped);
  return checkOwn(document, options);
}

function checkKubernetes(document: Loose, skipped: string): Validation {
  if (document['kind'] !== 'Secret') {
    return { passedOver: skipped, problems: [], warnings: [{ path: 'kind', message: skipped }], report: [] };
  }
  const secret = readSecretDocument(document);
  if (!secret.ok) return failed(secret.error);
  return { secret: secret.value, problems: [], warnings: [], report: [] };
}

function checkOwn(document: Loose, options: ValidateOptions): Validation {
  const problems: Problem[] = [];
  if (document['apiVersion'] !== API_VERSION) {
    problems.push({ path: 'apiVersion', message: apiVersionProblem(document['apiVersion']) });
  }
  const kind = document['kind'];
  const info = typeof kind === 'string' ? KINDS.find((entry) => entry.kind === kind) : undefined;
  if (info === undefined) {
    problems.push({ path: 'kind', message: kindProblem(kind) }, ...metadataProblems(document));
    return failed(problems);
  }
  if (info.readOnly && options.readOnlyKinds !== true) {
    const instead = info.kind === 'Operation' ? '; ask for one by its verb, such as belay restart' : '';
    problems.push({ path: 'kind', message: `${info.kind} is written by the server only${instead}` });
  }
  // The kind is known, so its fields can be checked although the version is wrong: all problems at once.
  const result = checkKind({ ...document, apiVersion: API_VERSION }, info, options);
  if (problems.length === 0) return result;
  return { ...failed([...problems, ...result.problems]), warnings: result.warnings };
}

function apiVersionProblem(value: unknown): string {
  const accepted = `${API_VERSION}, ${MONGODB_COM}`;
  return value === undefined ? `is required: ${API_VERSION}` : `is not known; accepted: ${accepted}`;
}

function kindProblem(value: unknown): string {
  const kinds = KINDS.filter((info) => !info.readOnly).map((info) => info.kind);
  if (value === undefined) return `is required: one of ${kinds.join(', ')}`;
  const near = typeof value === 'string' ? nearest(value, kinds) : undefined;
  return near === undefined
    ? `is not known; accepted: ${kinds.join(', ')}`
    : `is not known, did you mean ${near}?`;
}

function metadataProblems(document: Loose): Problem[] {
  const metadata = withoutNulls(document['metadata'] ?? {});
  const parsed = metadataSchema.safeParse(metadata);
  if (parsed.success) return [];
  const found = problemsFromIssues(parsed.error.issues, metadata, {
    namesAt: (path) => namesAt(metadataSchema, path),
  });
  return found.map(({ path, message }) => ({ path: path === '' ? 'metadata' : `metadata.${path}`, message }));
}

function checkKind(document: Loose, info: KindInfo, options: ValidateOptions): Validation {
  const { status: _, ...wanted } = withoutNulls(document) as Loose;
  const schema = info.inputSchema?.(wanted) ?? info.schema;
  const parsed = schema.safeParse(wanted);
  const structural = parsed.success
    ? []
    : problemsFromIssues(parsed.error.issues, wanted, {
        namesAt: (path) => namesAt(schema, path),
        explain: (path, name) => info.explainUnknown?.(path, name, wanted),
      });
  const subject = parsed.success ? (parsed.data as Loose) : wanted;
  const rules = ratchet(info.rules?.(subject) ?? NOTHING, info, options.current);
  const changes =
    options.current === undefined
      ? { problems: info.creation?.(subject) ?? [], warnings: [] }
      : changesOf(info, options.current, subject);
  const further = options.further?.(subject) ?? [];
  const problems = withoutRepeats([...structural, ...rules.problems, ...changes.problems, ...further]);
  const warnings = [...rules.warnings, ...changes.warnings];
  if (problems.length > 0 || !parsed.success) return { problems, warnings, report: [] };
  return { object: parsed.data as BelayObject, problems, warnings, report: [] };
}

function checkForeign(document: Loose, foreign: Foreign, options: ValidateOptions): Validation {
  const { report } = foreign;
  if (foreign.document === undefined) {
    return {
      problems: [...foreign.problems, ...metadataProblems(document)],
      warnings: foreign.warnings,
      report,
    };
  }
  const inner = checkOwn(foreign.document, options);
  const back = <T extends Problem>(found: T): T => ({ ...found, path: foreign.origin(found.path) });
  // A field that was refused in the foreign document's own words is not refused again in ours.
  const own = new Set(foreign.problems.map(({ path }) => path));
  const added = inner.problems.map(back).filter(({ path }) => !own.has(path));
  const problems = withoutRepeats([...foreign.problems, ...added]);
  const unused = report
    .filter(({ kind }) => kind !== 'mapped')
    .map(({ path, message }) => ({ path, message }));
  const warnings = [...foreign.warnings, ...inner.warnings.map(back), ...unused];
  const object = problems.length === 0 ? inner.object : undefined;
  return { ...(object === undefined ? {} : { object }), problems, warnings, report };
}

function changesOf(info: KindInfo, current: CurrentObject, subject: Loose): Findings {
  return info.changes?.(current as unknown as Loose, subject) ?? NOTHING;
}

/** Problems that the stored object has too, word for word, were accepted once: they become warnings (UPG-02). */
function ratchet(found: Findings, info: KindInfo, current: CurrentObject | undefined): Findings {
  if (current === undefined) return found;
  const before = info.rules?.(current as unknown as Loose).problems ?? [];
  const isOld = (problem: Problem): boolean =>
    before.some(({ path, message }) => path === problem.path && message === problem.message);
  const kept = found.problems
    .filter(isOld)
    .map(({ path, message }) => ({ path, message: `${message} (kept, as it was accepted before)` }));
  return {
    problems: found.problems.filter((problem) => !isOld(problem)),
    warnings: [...found.warnings, ...kept],
  };
}

// A rule may find again what the schema said already: one sentence per path and message is enough.
function withoutRepeats(problems: readonly Problem[]): Problem[] {
  const seen = new Set<string>();
  return problems.filter(({ path, message }) => {
    const id = `${path}\n${message}`;
    if (seen.has(id)) return false;
    seen.add(id);
    return true;
  });
}

/** Checks the change from one valid object to another: fixed fields, shrinking, versions, FCV. */
export function validateChange(before: CurrentObject, after: CurrentObject): Findings {
  const info = findKind(after.kind);
  return info === undefined ? NOTHING : changesOf(info, before, after as unknown as Loose);
}

/** Identity of a document for messages and comparison: kind, namespace and name. */
export function documentId(document: unknown): string | undefined {
  const kind = textAt(document, 'kind');
  const name = textAt(document, 'metadata', 'name');
  if (kind === undefined || name === undefined) return undefined;
  return `${kind} ${textAt(document, 'metadata', 'namespace') ?? DEFAULT_NAMESPACE}/${name}`;
}

/** Checks several documents together: each on its own, and names that are given twice. */
export function validateAll(documents: readonly unknown[]): readonly Validation[] {
  const first = new Map<string, number>();
  return documents.map((document, index) => {
    const result = validate(document);
    const id = documentId(document);
    const earlier = id === undefined ? undefined : first.get(id);
    if (id !== undefined && earlier === undefined) first.set(id, index);
    if (earlier === undefined) return result;
    const message = `${id} is already given by document ${earlier + 1}`;
    const problems = [...result.problems, { path: 'metadata.name', message }];
    return { problems, warnings: result.warnings, report: result.report };
  });
}
