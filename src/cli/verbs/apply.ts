import { BelayError, type Problem } from '../../base/error.ts';
import type { SourceDocument, SourceProblem } from '../../model/index.ts';
import { type ApiObject, objectPath } from '../client.ts';
import { type Context, pluralOf } from '../context.ts';
import { readSources } from '../documents.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText } from '../output.ts';

/** What the server says of one applied document. */
export interface ApplyAnswer {
  readonly outcome: 'created' | 'configured' | 'unchanged';
  readonly objects: readonly ApiObject[];
  readonly warnings: readonly Problem[];
}

export interface ApplyOptions {
  readonly files: readonly string[];
  readonly dryRun: boolean;
}

/** Who a document is about, as far as it says. */
export function titleOf(document: SourceDocument, namespace: string): string {
  const value = document.value as { kind?: unknown; metadata?: { name?: unknown; namespace?: unknown } };
  const ns = value.metadata?.namespace ?? namespace;
  return `${String(value.kind ?? 'document')} ${String(ns)}/${String(value.metadata?.name ?? `#${document.index + 1}`)}`;
}

/** Problems of one document with file, line and column, aligned. */
export function problemText(
  document: SourceDocument,
  title: string,
  what: string,
  problems: readonly Problem[],
): string {
  const rows = problems.map((p) => {
    const at = document.locate(p.path);
    return {
      at: `${at.line}:${at.column}`,
      path: p.path,
      message: p.message,
      line: at.line,
      column: at.column,
    };
  });
  rows.sort((a, b) => a.line - b.line || a.column - b.column);
  const place = Math.max(0, ...rows.map((r) => r.at.length));
  const field = Math.min(40, Math.max(0, ...rows.map((r) => r.path.length)));
  const head = `${document.file}: ${title} ${what}, ${rows.length} problem${rows.length === 1 ? '' : 's'}`;
  return [head, ...rows.map((r) => `  ${r.at.padEnd(place)}  ${r.path.padEnd(field)}  ${r.message}`)].join(
    '\n',
  );
}

/** Problems of a text that could not be read as documents. */
export const syntaxText = (problem: SourceProblem): string =>
  `${problem.file}:${problem.position.line}:${problem.position.column}  ${problem.message}`;

/**
 * `belay apply`: all documents are checked on the server first; nothing is changed unless all of them are good, so that
 * a wrong second document leaves nothing half-done.
 */
export async function apply(context: Context, options: ApplyOptions): Promise<readonly ApiObject[]> {
  const { documents, problems } = await readSources(options.files);
  for (const problem of problems) context.terminal.err(syntaxText(problem));
  const checked = await Promise.all(documents.map((d) => attempt(context, d, true)));
  const repeated = repeatedNames(documents, context.namespace);
  for (const text of repeated) context.terminal.err(text);
  if (problems.length + repeated.length > 0 || checked.some((ok) => ok === null))
    throw new Exit(EXIT.refused);
  if (options.dryRun) {
    for (const [i, answer] of checked.entries())
      if (answer) say(context, documents[i] as SourceDocument, answer, ' (dry run)');
    return checked.flatMap((a) => a?.objects ?? []);
  }
  const objects: ApiObject[] = [];
  for (const document of documents) {
    const answer = await attempt(context, document, false);
    if (answer === null) throw new Exit(EXIT.refused);
    say(context, document, answer, '');
    objects.push(...answer.objects);
  }
  return objects;
}

function repeatedNames(documents: readonly SourceDocument[], namespace: string): readonly string[] {
  const seen = new Map<string, SourceDocument>();
  const texts: string[] = [];
  for (const document of documents) {
    const title = titleOf(document, namespace);
    const first = seen.get(title);
    if (first !== undefined) {
      const at = document.locate('metadata.name');
      const was = first.locate('metadata.name');
      texts.push(
        `${document.file}:${at.line}:${at.column}  metadata.name  ${title} is given twice (first in ${first.file}:${was.line})`,
      );
    }
    seen.set(title, document);
  }
  return texts;
}

async function attempt(
  context: Context,
  document: SourceDocument,
  dryRun: boolean,
): Promise<ApplyAnswer | null> {
  try {
    return await context.client.request<ApplyAnswer>('POST', '/api/v1/apply', {
      body: document.value,
      query: { namespace: context.namespace, dryRun: dryRun ? 'validate' : undefined },
    });
  } catch (error) {
    if (!(error instanceof BelayError) || error.problems.length === 0) throw error;
    context.terminal.err(
      problemText(document, titleOf(document, context.namespace), 'was not applied', error.problems),
    );
    return null;
  }
}

function say(context: Context, document: SourceDocument, answer: ApplyAnswer, suffix: string): void {
  for (const object of answer.objects) {
    const { plural } = pluralOf(object.kind);
    if (context.output === 'json' || context.output === 'yaml')
      context.terminal.out(asText(object, context.output));
    else if (context.output === 'name') context.terminal.out(`${plural}/${object.metadata.name}`);
    else context.terminal.out(`${plural}/${object.metadata.name} ${answer.outcome}${suffix}`);
  }
  if (context.quiet) return;
  for (const warning of answer.warnings) context.terminal.err(noteText(document, 'warning', warning));
}

/** One remark on a document: file, line and column, what kind, field, message. */
export function noteText(document: SourceDocument, kind: string, note: Problem): string {
  const at = document.locate(note.path);
  return `${document.file}:${at.line}:${at.column}  ${kind}  ${note.path}  ${note.message}`;
}

/** The object a document is about, on the server. */
export const pathOf = (object: ApiObject): string => {
  const { plural } = pluralOf(object.kind);
  return objectPath(plural, object.metadata.namespace, object.metadata.name);
};
