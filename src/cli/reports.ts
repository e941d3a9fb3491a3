/** Problems and remarks about documents: file, line and column, field, message, aligned (experience.md, Errors). */
import type { BelayError, Problem } from '../base/error.ts';
import { formatCount } from '../base/units.ts';
import { type NamedSpec, nameClash } from '../clusters/nameClash.ts';
import { documentId, type SourceDocument, type SourceProblem } from '../model/index.ts';
import { mapAt, textAt } from '../model/paths.ts';
import { type Context, structured } from './context.ts';
import { asText } from './output.ts';

/** What is wrong with one document; null: a file that could not be read as documents. */
export interface Report {
  readonly document: Pick<SourceDocument, 'file' | 'locate'>;
  readonly title: string;
  /** `was not applied`. */
  readonly what: string;
  readonly error: Pick<BelayError, 'code' | 'message' | 'fix' | 'problems'>;
}

interface Row {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly path: string;
  readonly message: string;
}

/** Longer field paths do not push all messages to the right. */
const FIELD_WIDTH = 40;

/** Codes by which the server refuses the document itself, not the whole request. */
const REFUSALS: ReadonlySet<string> = new Set([
  'Invalid',
  'Refused',
  'Conflict',
  'AlreadyExists',
  'BeingDeleted',
  'UnsupportedFeature',
  'TooLarge',
]);

/** Whether an error is about one document, so that the others are looked at all the same. */
export const isDocumentRefusal = (error: BelayError): boolean =>
  error.problems.length > 0 || REFUSALS.has(error.code);

/** Who a document is about, as far as it says. */
export function titleOf(document: SourceDocument, namespace: string): string {
  const value = document.value as {
    kind?: unknown;
    metadata?: { name?: unknown; namespace?: unknown } | null;
  };
  const place = value.metadata?.namespace ?? namespace;
  const kind = typeof value.kind === 'string' ? value.kind : 'document';
  return `${kind} ${String(place)}/${String(value.metadata?.name ?? `#${document.index + 1}`)}`;
}

/** Problems of texts that could not be read, one report a file. */
export function syntaxReports(problems: readonly SourceProblem[]): readonly Report[] {
  return problems.map(({ file, position, message }) => ({
    document: { file, locate: () => position },
    title: '',
    what: 'cannot be read',
    error: { code: 'Unreadable', message, fix: undefined, problems: [{ path: '', message }] },
  }));
}

/** Documents that are given twice: which of them would count? */
export function repeatedNames(documents: readonly SourceDocument[], namespace: string): readonly Report[] {
  const seen = new Map<string, SourceDocument>();
  const reports: Report[] = [];
  for (const document of documents) {
    const id = idOf(document, namespace);
    const first = id === undefined ? undefined : seen.get(id);
    if (id !== undefined && first === undefined) seen.set(id, document);
    if (first === undefined) continue;
    const was = first.locate('metadata.name');
    const message = `${id} is given twice (first in ${first.file}:${was.line}:${was.column})`;
    const problems = [{ path: 'metadata.name', message }];
    const error = { code: 'Invalid', message, fix: undefined, problems };
    reports.push({ document, title: titleOf(document, namespace), what: 'was not applied', error });
  }
  return reports;
}

/**
 * Databases whose names cannot be beside those of documents before them: each alone would be accepted, and the second refused
 * when the first is stored already (B1.4). What the server refused in the same words is not said again.
 */
export function clashingNames(
  documents: readonly SourceDocument[],
  namespace: string,
  said: readonly Report[],
): readonly Report[] {
  const before: NamedDatabase[] = [];
  const reports: Report[] = [];
  for (const document of documents) {
    const one = databaseOf(document, namespace);
    if (one === null) continue;
    const known = said.filter((each) => each.document === document).flatMap(({ error }) => error.problems);
    const problems = before
      .filter((there) => there.namespace === one.namespace)
      .flatMap((there) => nameClash(one, there) ?? [])
      .map((message) => ({ path: 'metadata.name', message }))
      .filter(({ message }) => !known.some((problem) => problem.message === message));
    before.push(one);
    if (problems.length === 0) continue;
    const error = { code: 'Invalid', message: 'its name is taken', fix: undefined, problems };
    reports.push({ document, title: titleOf(document, namespace), what: 'was not applied', error });
  }
  return reports;
}

/** A document of a database, by namespace and name; null: it is none, or says no name. */
function databaseOf({ value }: SourceDocument, namespace: string): NamedDatabase | null {
  const name = textAt(value, 'metadata', 'name');
  if (textAt(value, 'kind') !== 'MongoDB' || name === undefined) return null;
  return {
    name,
    namespace: textAt(value, 'metadata', 'namespace') ?? namespace,
    spec: mapAt(value, 'spec'),
  };
}

interface NamedDatabase extends NamedSpec {
  readonly namespace: string;
}

function idOf(document: SourceDocument, namespace: string): string | undefined {
  const value = document.value as { metadata?: { namespace?: unknown } | null };
  const given = typeof value.metadata?.namespace === 'string';
  const placed = given ? value : { ...value, metadata: { ...value.metadata, namespace } };
  return documentId(placed);
}

function rowsOf({ document, error }: Report): readonly Row[] {
  const problems =
    error.problems.length > 0 ? error.problems : [{ path: 'metadata.name', message: error.message }];
  return problems
    .map((p) => ({ file: document.file, ...document.locate(p.path), ...p }))
    .sort((a, b) => a.line - b.line || a.column - b.column);
}

/** One report as text: a headline, then one aligned line for each problem. */
export function reportText(report: Report): string {
  const rows = rowsOf(report);
  const { file } = report.document;
  if (report.title === '') return rows.map((r) => `${file}:${r.line}:${r.column}  ${r.message}`).join('\n');
  const place = Math.max(...rows.map((r) => `${r.line}:${r.column}`.length));
  const field = Math.min(FIELD_WIDTH, Math.max(...rows.map((r) => r.path.length)));
  const count = formatCount(rows.length, 'problem');
  return [
    `${file}: ${report.title} ${report.what}, ${count}`,
    ...rows.map((r) => `  ${`${r.line}:${r.column}`.padEnd(place)}  ${r.path.padEnd(field)}  ${r.message}`),
    ...(report.error.fix === undefined ? [] : [`  fix: ${report.error.fix}`]),
  ].join('\n');
}

/** Says all reports on stderr, in the words or the structure that was asked for. */
export async function report(context: Context, reports: readonly Report[]): Promise<void> {
  const format = structured(context);
  if (format === null) {
    for (const each of reports) context.terminal.err(reportText(each));
    return;
  }
  const errors = reports.flatMap((each) => rowsOf(each).map((row) => ({ ...row, code: each.error.code })));
  if (reports.length === 0) return;
  const [first] = reports;
  const same = reports.every((each) => each.error.code === first?.error.code);
  const detail = `${formatCount(reports.length, 'document')} refused`;
  // The same names as for every other failure (`main.ts`).
  context.terminal.err(
    await asText(
      { code: same ? first?.error.code : 'Invalid', detail, fix: first?.error.fix, errors },
      format,
    ),
  );
}

/** One remark on a document: file, line and column, what kind, field, message. */
export function noteText(document: SourceDocument, kind: string, note: Problem): string {
  const at = document.locate(note.path);
  return `${document.file}:${at.line}:${at.column}  ${kind}  ${note.path}  ${note.message}`;
}
