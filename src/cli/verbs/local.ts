/** Verbs that need no control plane: explain, catalog, convert. */
import { BelayError } from '../../base/error.ts';
import { CATALOG, convertMongodbCom, explain, KINDS, MONGODB_COM, validate } from '../../model/index.ts';
import { type Context, kindOf, structured } from '../context.ts';
import { readSources } from '../documents.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText, table } from '../output.ts';
import { noteText, type Report, report, syntaxReports, titleOf } from '../reports.ts';

/** `belay explain [KIND[.path]]`. */
export async function explainKind(context: Context, what: string | undefined): Promise<void> {
  const format = structured(context);
  if (what === undefined) {
    const rows = KINDS.map((k) => [k.plural, k.shortNames.join(','), k.kind, k.description]);
    if (context.output === 'name') context.terminal.out(KINDS.map((k) => k.plural).join('\n'));
    else if (format === null) context.terminal.out(table(['NAME', 'SHORT', 'KIND', 'WHAT IT IS'], rows));
    else
      context.terminal.out(
        await asText(
          KINDS.map(({ kind, plural, shortNames, description }) => ({
            kind,
            plural,
            shortNames,
            description,
          })),
          format,
        ),
      );
    return;
  }
  const found = explain(what);
  if (found.kind === 'unknown') {
    throw new BelayError('Usage', found.message, {
      retry: 'never',
      fix: 'start at the top: belay explain mongodb',
    });
  }
  if (context.output === 'name') {
    const { path, fields } = found.about;
    const names = fields.map((field) => (path === '' ? field.name : `${path}.${field.name}`));
    if (names.length > 0) context.terminal.out(names.join('\n'));
  } else context.terminal.out(format === null ? found.text.trimEnd() : await asText(found.about, format));
}

/** `belay catalog`. */
export async function catalog(context: Context): Promise<void> {
  const format = structured(context);
  if (format !== null) {
    context.terminal.out(await asText(CATALOG, format));
    return;
  }
  if (context.output === 'name') {
    for (const build of CATALOG) context.terminal.out(build.version);
    return;
  }
  const rows = CATALOG.map((b) => [
    b.version,
    b.series,
    b.isDefault ? 'default' : b.deprecated ? 'deprecated' : '–',
    b.source.index,
    b.source.readOn,
  ]);
  context.terminal.out(table(['VERSION', 'SERIES', 'NOTE', 'SOURCE', 'READ ON'], rows));
}

/** `belay convert -f FILE`: the document in this project's language, and what has no counterpart. */
export async function convert(context: Context, files: readonly string[]): Promise<void> {
  const { documents, problems } = await readSources(files, context.io.stdin);
  const reports: Report[] = [...syntaxReports(problems)];
  const converted: unknown[] = [];
  for (const document of documents) {
    const result = validate(document.value);
    if (result.problems.length > 0) {
      const error = { code: 'Invalid', message: '', fix: undefined, problems: result.problems };
      reports.push({
        document,
        title: titleOf(document, context.namespace),
        what: 'cannot be converted',
        error,
      });
      continue;
    }
    const notes =
      result.report.length > 0 ? result.report : result.warnings.map((w) => ({ kind: 'warning', ...w }));
    if (!context.quiet) for (const note of notes) context.terminal.err(noteText(document, note.kind, note));
    if (result.object !== undefined) converted.push(inOurWords(document.value));
  }
  await report(context, reports);
  if (context.output === 'name') context.terminal.out((await Promise.all(converted.map(nameOf))).join('\n'));
  else if (converted.length > 0)
    context.terminal.out(await documentsText(converted, context.output === 'json'));
  if (reports.length > 0) throw new Exit(EXIT.refused);
}

async function documentsText(documents: readonly unknown[], json: boolean): Promise<string> {
  if (json) return asText(documents.length === 1 ? documents[0] : documents, 'json');
  return (await Promise.all(documents.map((document) => asText(document, 'yaml')))).join('\n---\n');
}

/** `mongodb/orders`, as other verbs print it. */
async function nameOf(document: unknown): Promise<string> {
  const { kind, metadata } = document as { kind: string; metadata: { name: string } };
  return `${(await kindOf(kind)).plural}/${metadata.name}`;
}

/** Without the defaults a person did not write. */
function inOurWords(value: unknown): unknown {
  const foreign = (value as { apiVersion?: unknown }).apiVersion === MONGODB_COM;
  return foreign ? convertMongodbCom(value as Readonly<Record<string, unknown>>).document : value;
}
