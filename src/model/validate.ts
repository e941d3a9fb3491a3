import type { Problem } from '../base/error.ts';
import { API_VERSION, DEFAULT_NAMESPACE } from './meta.ts';
import { isMap, type Loose, textAt, withoutNulls } from './paths.ts';
import { describe, problemsFromIssues, type Warning } from './problems.ts';
import { type BelayObject, type Findings, findKind, KINDS, type KindInfo } from './registry.ts';
import { namesAt } from './shapes.ts';
import { nearest } from './suggest.ts';

/** What a field of a foreign document became. */
export interface ReportEntry {
  readonly path: string;
  readonly kind: 'ignored' | 'mapped' | 'kept';
  readonly message: string;
}

/** The outcome of checking one document. `object` is there exactly when there is no problem. */
export interface Validation {
  /** Typed, with all defaults; without the status of the document, which only the server writes. */
  readonly object?: BelayObject;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Warning[];
  /** For foreign documents: what became of each field. Empty otherwise. */
  readonly report: readonly ReportEntry[];
}

/** How to check. */
export interface ValidateOptions {
  /**
   * The stored object of the same name: the change is checked too, and rules that the stored object already
   * breaks become warnings, so that a stricter rule never locks an existing cluster (UPG-02).
   */
  readonly current?: BelayObject;
}

const NOTHING: Findings = { problems: [], warnings: [] };

/**
 * Checks one document and gives every problem at once, each with its field path (B1.4). Never throws, whatever the
 * input (VAL-01). Messages never repeat values that could be secrets (S8).
 */
export function validate(document: unknown, options: ValidateOptions = {}): Validation {
  if (!isMap(document)) {
    return failed([
      {
        path: '',
        message: `must be a map with apiVersion, kind, metadata and spec, not ${describe(document)}`,
      },
    ]);
  }
  const identity = identify(document);
  if (!('info' in identity)) return failed(identity.problems);
  return check(document, identity.info, options);
}

const failed = (problems: readonly Problem[]): Validation => ({ problems, warnings: [], report: [] });

function identify(document: Loose): { info: KindInfo } | { problems: Problem[] } {
  const problems: Problem[] = [];
  const [apiVersion, kind] = [document['apiVersion'], document['kind']];
  if (apiVersion !== API_VERSION)
    problems.push({ path: 'apiVersion', message: apiVersionProblem(apiVersion) });
  const info = typeof kind === 'string' ? findKind(kind) : undefined;
  if (info === undefined || info.kind !== kind) {
    problems.push({ path: 'kind', message: kindProblem(kind) });
    return { problems };
  }
  // The kind is known, so its fields can be checked although the version is wrong: all problems at once.
  if (problems.length > 0)
    return { problems: [...problems, ...check({ ...document, apiVersion: API_VERSION }, info, {}).problems] };
  return { info };
}

function apiVersionProblem(value: unknown): string {
  if (value === undefined) return `is required: ${API_VERSION}`;
  return `is not known; accepted: ${API_VERSION}, mongodb.com/v1`;
}

function kindProblem(value: unknown): string {
  const kinds = KINDS.map((info) => info.kind);
  if (value === undefined) return `is required: one of ${kinds.join(', ')}`;
  const near = typeof value === 'string' ? nearest(value, kinds) : undefined;
  return near === undefined
    ? `is not known; accepted: ${kinds.join(', ')}`
    : `is not known, did you mean ${near}?`;
}

function check(document: Loose, info: KindInfo, options: ValidateOptions): Validation {
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
  const changes = options.current === undefined ? NOTHING : changesOf(info, options.current, subject);
  const problems = withoutRepeats([...structural, ...rules.problems, ...changes.problems]);
  const warnings = [...rules.warnings, ...changes.warnings];
  if (problems.length > 0 || !parsed.success) return { problems, warnings, report: [] };
  return { object: parsed.data as BelayObject, problems, warnings, report: [] };
}

function changesOf(info: KindInfo, current: BelayObject, subject: Loose): Findings {
  return info.changes?.(current as unknown as Loose, subject) ?? NOTHING;
}

/** Problems that the stored object has too, word for word, were accepted once: they become warnings (UPG-02). */
function ratchet(found: Findings, info: KindInfo, current: BelayObject | undefined): Findings {
  if (current === undefined) return found;
  const before = info.rules?.(current as unknown as Loose).problems ?? [];
  const isOld = (problem: Problem): boolean =>
    before.some(({ path, message }) => path === problem.path && message === problem.message);
  const old = found.problems.filter(isOld);
  const kept = old.map(({ path, message }) => ({
    path,
    message: `${message} (kept, as it was accepted before)`,
  }));
  return {
    problems: found.problems.filter((problem) => !isOld(problem)),
    warnings: [...found.warnings, ...kept],
  };
}

// A rule may find again what the schema said already in better words: one problem per path and message is enough.
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
export function validateChange(before: BelayObject, after: BelayObject): Findings {
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
    const { object: _, ...rest } = result;
    return { ...rest, problems: [...result.problems, { path: 'metadata.name', message }] };
  });
}
