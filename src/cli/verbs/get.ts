import { BelayError } from '../../base/error.ts';
import { type ApiList, type ApiObject, listAll, objectPath } from '../client.ts';
import { type ApiKind, type Context, kindOf, placeOf, structured, targetsOf } from '../context.ts';
import { asText, painter, table, type Widths } from '../output.ts';
import { rowsOf } from '../rows.ts';

export interface GetOptions {
  readonly watch: boolean;
  readonly allNamespaces: boolean;
  readonly selector: string | undefined;
  /** What is said when there is none; absent: that none was found. */
  readonly none?: string | undefined;
}

/** Kinds that `belay get all` shows. */
const ALL = ['mongodb', 'mongodbusers'];

interface Found {
  readonly kind: ApiKind;
  readonly objects: readonly ApiObject[];
}

/** `belay get KIND [NAME…] [-w]`, `KIND/NAME…`, `KIND,KIND` or `all`. */
export async function get(context: Context, words: readonly string[], options: GetOptions): Promise<void> {
  const [first = '', ...names] = words;
  const several = first.toLowerCase() === 'all' ? ALL : first.split(',');
  if (several.length > 1) {
    if (names.length > 0 || options.watch || first.includes('/'))
      throw new BelayError('Usage', 'several kinds can only be listed', {
        retry: 'never',
        fix: 'name one kind',
      });
    const found: Found[] = [];
    for (const name of several) found.push(await listed(context, await kindOf(name), options));
    return print(context, found, options, false);
  }
  const target = await targetsOf(words);
  if (options.watch) return watch(context, target, options);
  if (target.names.length === 0)
    return print(context, [await listed(context, target.kind, options)], options, false);
  const objects: ApiObject[] = [];
  for (const name of target.names)
    objects.push(
      await context.client.get(objectPath(target.kind.plural, placeOf(context, target.kind), name)),
    );
  return print(context, [{ kind: target.kind, objects }], options, objects.length === 1);
}

async function listed(context: Context, kind: ApiKind, options: GetOptions): Promise<Found> {
  const path = objectPath(kind.plural, options.allNamespaces ? null : placeOf(context, kind));
  // Names of secrets come in one piece and have no labels.
  if (kind.kind === 'Secret') return { kind, objects: (await context.client.get<ApiList>(path)).items };
  const objects = await listAll(context.client, path, options.selector);
  return { kind, objects: kind.kind === 'Operation' ? objects.toSorted(byAge) : objects };
}

/** What was asked for is a history: the newest last. */
const byAge = ({ metadata: a }: ApiObject, { metadata: b }: ApiObject): number =>
  a.creationTimestamp.localeCompare(b.creationTimestamp) || a.name.localeCompare(b.name);

async function print(
  context: Context,
  found: readonly Found[],
  options: GetOptions,
  single: boolean,
): Promise<void> {
  const { terminal, output } = context;
  const objects = found.flatMap((f) => f.objects);
  const format = structured(context);
  if (format !== null) {
    const kind = found.length === 1 ? `${found[0]?.kind.kind}List` : 'List';
    const value = single ? objects[0] : { apiVersion: 'belay.dev/v1', kind, items: objects };
    terminal.out(await asText(value, format));
    return;
  }
  if (output === 'name') {
    for (const { kind, objects } of found)
      for (const o of objects) terminal.out(`${kind.plural}/${o.metadata.name}`);
    return;
  }
  if (objects.length === 0) {
    const where =
      options.allNamespaces || found.every((f) => !f.kind.namespaced)
        ? ''
        : ` in namespace ${context.namespace}`;
    terminal.err(options.none ?? `no ${found.map((f) => f.kind.plural).join(', ')} found${where}`);
    return;
  }
  const paint = await painter(terminal);
  const tables = found
    .filter((f) => f.objects.length > 0)
    .map(({ kind, objects }) => {
      const shown = rowsOf(
        kind.kind,
        objects,
        output === 'wide',
        withNamespace(kind, options),
        context.now(),
      );
      return table(shown.headings, shown.rows, { paint });
    });
  terminal.outRaw(tables.join('\n\n'));
}

const withNamespace = (kind: ApiKind, options: GetOptions): boolean =>
  options.allNamespaces && kind.namespaced;

/** One row for each change that shows; columns stay where they were as far as they can. Ctrl-C is the normal end. */
async function watch(
  context: Context,
  { kind, names }: { readonly kind: ApiKind; readonly names: readonly string[] },
  options: GetOptions,
): Promise<void> {
  const { client, terminal, output, io } = context;
  const path = objectPath(kind.plural, options.allNamespaces ? null : placeOf(context, kind));
  const query = {
    // Events have neither labels nor names to choose by.
    labelSelector: options.selector,
    fieldSelector: names.length === 1 ? `metadata.name=${names[0]}` : undefined,
  };
  const printer = await rowPrinter(context, kind, options);
  for await (const event of client.watch(path, query, io.interrupted())) {
    if (event.type === 'LISTED') {
      printer.flush();
      continue;
    }
    const { type, object } = event;
    if (names.length > 0 && !names.includes(object.metadata.name)) continue;
    const format = structured(context);
    if (format !== null) {
      // One object a line, so that a program can read them as they come.
      const change = { type, object };
      terminal.out(format === 'json' ? JSON.stringify(change) : `---\n${await asText(change, format)}`);
    } else if (output === 'name') terminal.out(`${kind.plural}/${object.metadata.name}`);
    else printer.add(type, object);
  }
}

async function rowPrinter(context: Context, kind: ApiKind, options: GetOptions) {
  const { terminal } = context;
  const paint = await painter(terminal);
  const widths: Widths = [];
  const shown = new Map<string, string>();
  let waiting: string[][] | null = [];
  const head = rowsOf(kind.kind, [], context.output === 'wide', withNamespace(kind, options), 0).headings;
  const print = (rows: readonly string[][]): void => {
    if (rows.length > 0) terminal.outRaw(table(null, rows, { widths, paint }));
  };
  return {
    add: (type: string, object: ApiObject): void => {
      const { rows } = rowsOf(
        kind.kind,
        [object],
        context.output === 'wide',
        withNamespace(kind, options),
        context.now(),
      );
      const [row = []] = rows;
      const key = `${object.metadata.namespace}/${object.metadata.name}`;
      // The age changes by itself: a row that differs in nothing else says nothing new.
      const essence = row.filter((_, at) => head[at] !== 'AGE' && head[at] !== 'LAST SEEN').join('\0');
      if (type !== 'DELETED' && shown.get(key) === essence) return;
      if (type === 'DELETED') shown.delete(key);
      else shown.set(key, essence);
      const line = type === 'DELETED' ? [...row, 'deleted'] : row;
      if (waiting === null) print([line]);
      else waiting.push(line);
    },
    /** What is there comes as one table. */
    flush: (): void => {
      if (waiting === null) return;
      terminal.outRaw(table(head, waiting, { widths, paint }));
      waiting = null;
    },
  };
}
