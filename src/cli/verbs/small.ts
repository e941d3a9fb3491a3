/** The verbs that are a request and a few lines: delete, wait, events, explain, catalog, convert, version. */
import { BelayError } from '../../base/error.ts';
import { CATALOG, convertMongodbCom, explain, MONGODB_COM, validate } from '../../model/index.ts';
import { type ApiList, type ApiObject, objectPath } from '../client.ts';
import { type Context, pluralOf } from '../context.ts';
import { readSources } from '../documents.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText, table } from '../output.ts';
import { follow } from '../progress.ts';
import { rowsOf, statusOf } from '../rows.ts';
import { noteText, problemText, syntaxText, titleOf } from './apply.ts';

export interface DeleteOptions {
  readonly keepVolumes: boolean;
  readonly yes: boolean;
  readonly wait: boolean;
  readonly timeoutMillis: number;
  /** Asks a person; null: no terminal to ask on. */
  readonly confirm: ((question: string) => Promise<boolean>) | null;
}

/** `belay delete KIND NAME`. Data goes only after a yes. */
export async function remove(
  context: Context,
  kindName: string,
  name: string,
  options: DeleteOptions,
): Promise<void> {
  const { plural, kind } = pluralOf(kindName);
  const path = objectPath(plural, context.namespace, name);
  await context.client.get(path);
  if (kind === 'MongoDB' && !options.keepVolumes && !options.yes) await confirmed(name, options);
  await context.client.request('DELETE', path, {
    query: { keepVolumes: options.keepVolumes ? 'true' : undefined },
  });
  const { terminal } = context;
  if (!options.wait || kind !== 'MongoDB') {
    terminal.out(`${plural}/${name} ${options.keepVolumes ? 'is being suspended' : 'deleted'}`);
    return;
  }
  await follow({
    client: context.client,
    terminal,
    plural,
    namespace: context.namespace,
    name,
    timeoutMillis: options.timeoutMillis,
    quiet: context.quiet,
    reached: (o) => (options.keepVolumes ? o !== null && statusOf(o).phase === 'Suspended' : o === null),
    goal: options.keepVolumes ? 'suspension' : 'deletion',
  });
  terminal.out(
    options.keepVolumes
      ? `${plural}/${name} suspended: volumes, credentials and certificates are kept; apply the same file again to bring it back`
      : `${plural}/${name} deleted`,
  );
}

async function confirmed(name: string, options: DeleteOptions): Promise<void> {
  const question = `Delete MongoDB ${name} with all its data? This cannot be undone.`;
  if (options.confirm === null) {
    throw new BelayError('Usage', `deleting MongoDB ${name} destroys its data`, {
      retry: 'never',
      fix: 'add --yes, or --keep-volumes to keep data and credentials',
    });
  }
  if (!(await options.confirm(question))) throw new Exit(EXIT.failed);
}

/** `belay wait KIND NAME --for CONDITION`: `Ready`, `condition=Ready`, `phase=Suspended`, `delete`. */
export async function waitFor(
  context: Context,
  kindName: string,
  name: string,
  goal: string,
  timeoutMillis: number,
): Promise<void> {
  const { plural } = pluralOf(kindName);
  const reached = goalTest(goal);
  const object = await follow({
    client: context.client,
    terminal: context.terminal,
    plural,
    namespace: context.namespace,
    name,
    timeoutMillis,
    quiet: context.quiet,
    reached,
    goal: `${goal} of ${plural}/${name}`,
  });
  context.terminal.out(object === null ? `${plural}/${name} deleted` : `${plural}/${name} ${goal}`);
}

/** What a goal's text means. An unknown condition is simply never reached. */
export function goalTest(goal: string): (object: ApiObject | null) => boolean {
  const [, key, value] = /^(?:(condition|phase)=)?(.+)$/.exec(goal) ?? [];
  if (goal === 'delete' || goal === 'deleted') return (o) => o === null;
  const wanted = value ?? goal;
  if (key === 'phase') return (o) => o !== null && current(o) && statusOf(o).phase === wanted;
  const [type, status] = wanted.includes('=') ? wanted.split('=') : [wanted, 'True'];
  return (o) =>
    o !== null &&
    current(o) &&
    (statusOf(o).conditions?.some(
      (c) => c.type.toLowerCase() === type?.toLowerCase() && c.status === status,
    ) ??
      false);
}

/** S15: a status of an older generation says nothing about this one. */
const current = (o: ApiObject): boolean =>
  statusOf(o).observedGeneration === undefined || statusOf(o).observedGeneration === o.metadata.generation;

/** `belay events`. */
export async function events(context: Context, limit: number): Promise<void> {
  const list = await context.client.get<ApiList>(objectPath('events', context.namespace), {
    limit: String(limit),
  });
  if (context.output === 'json' || context.output === 'yaml')
    context.terminal.out(asText(list.items, context.output));
  else if (list.items.length === 0) context.terminal.err(`no events in namespace ${context.namespace}`);
  else {
    const { headings, rows } = rowsOf('Event', list.items, context.output === 'wide', false, context.now());
    context.terminal.out(table(headings, rows));
  }
}

/** `belay explain KIND[.path]`. */
export function explainKind(context: Context, what: string): void {
  const found = explain(what);
  if (found.kind === 'unknown') {
    throw new BelayError('Usage', found.message, {
      retry: 'never',
      fix: 'start at the top: belay explain mongodb',
    });
  }
  context.terminal.out(found.text.trimEnd());
}

/** `belay catalog`. */
export function catalog(context: Context): void {
  if (context.output === 'json' || context.output === 'yaml') {
    context.terminal.out(asText(CATALOG, context.output));
    return;
  }
  const rows = CATALOG.map((b) => [
    b.version,
    b.series,
    b.isDefault ? 'default' : b.deprecated ? 'deprecated' : '',
    b.source.index,
    b.source.readOn,
  ]);
  context.terminal.out(table(['VERSION', 'SERIES', 'NOTE', 'SOURCE', 'READ ON'], rows));
}

/** `belay convert -f FILE`: the document in this project's language, and what has no counterpart. */
export async function convert(context: Context, files: readonly string[]): Promise<void> {
  const { documents, problems } = await readSources(files);
  for (const problem of problems) context.terminal.err(syntaxText(problem));
  const out: string[] = [];
  let refused = problems.length > 0;
  for (const document of documents) {
    const result = validate(document.value);
    if (result.problems.length > 0) {
      context.terminal.err(
        problemText(document, titleOf(document, context.namespace), 'cannot be converted', result.problems),
      );
      refused = true;
      continue;
    }
    for (const r of result.report) context.terminal.err(noteText(document, r.kind, r));
    if (result.report.length === 0)
      for (const w of result.warnings) context.terminal.err(noteText(document, 'warning', w));
    if (result.object !== undefined)
      out.push(asText(converted(document.value), context.output === 'json' ? 'json' : 'yaml'));
  }
  if (out.length > 0) context.terminal.out(out.join('\n---\n'));
  if (refused) throw new Exit(EXIT.refused);
}

/** The document in this project's words, without the defaults a person did not write. */
function converted(value: unknown): unknown {
  const foreign = (value as { apiVersion?: unknown }).apiVersion === MONGODB_COM;
  return foreign ? convertMongodbCom(value as Readonly<Record<string, unknown>>).document : value;
}
