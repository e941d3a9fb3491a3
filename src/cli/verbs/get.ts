import { type ApiList, type ApiObject, objectPath } from '../client.ts';
import { type Context, pluralOf } from '../context.ts';
import { asText, table } from '../output.ts';
import { rowsOf } from '../rows.ts';

export interface GetOptions {
  readonly kind: string;
  readonly name: string | undefined;
  readonly watch: boolean;
  readonly allNamespaces: boolean;
  readonly selector: string | undefined;
}

/** `belay get KIND [NAME] [-w]`. */
export async function get(context: Context, options: GetOptions): Promise<void> {
  const { plural, kind } = pluralOf(options.kind);
  const namespace = options.allNamespaces ? null : context.namespace;
  if (options.watch) return watch(context, options, plural, kind, namespace);
  if (options.name !== undefined) {
    const object = await context.client.get<ApiObject>(objectPath(plural, context.namespace, options.name));
    return print(context, kind, [object], options.allNamespaces, true);
  }
  const items = await listAll(context, objectPath(plural, namespace), options.selector);
  if (items.length === 0 && (context.output === 'table' || context.output === 'wide')) {
    context.terminal.err(`no ${plural} found${namespace === null ? '' : ` in namespace ${namespace}`}`);
    return;
  }
  print(context, kind, items, options.allNamespaces, false);
}

/** All pages of a list. */
export async function listAll(
  context: Context,
  path: string,
  labelSelector?: string,
): Promise<readonly ApiObject[]> {
  const items: ApiObject[] = [];
  let next: string | undefined;
  do {
    const page: ApiList = await context.client.get<ApiList>(path, {
      limit: '500',
      continue: next,
      labelSelector,
    });
    items.push(...page.items);
    next = page.metadata.continue;
  } while (next !== undefined);
  return items;
}

function print(
  context: Context,
  kind: string,
  objects: readonly ApiObject[],
  withNamespace: boolean,
  single: boolean,
): void {
  const { terminal, output } = context;
  if (output === 'json' || output === 'yaml') {
    const value = single ? objects[0] : { apiVersion: 'belay.dev/v1', kind: `${kind}List`, items: objects };
    terminal.out(asText(value, output));
  } else if (output === 'name') {
    for (const o of objects) terminal.out(`${pluralOf(kind).plural}/${o.metadata.name}`);
  } else {
    const { headings, rows } = rowsOf(kind, objects, output === 'wide', withNamespace, context.now());
    terminal.out(table(headings, rows));
  }
}

async function watch(
  context: Context,
  options: GetOptions,
  plural: string,
  kind: string,
  namespace: string | null,
): Promise<void> {
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort());
  let last = '';
  for await (const event of context.client.watch(
    objectPath(plural, namespace),
    {
      labelSelector: options.selector,
      fieldSelector: options.name === undefined ? undefined : `metadata.name=${options.name}`,
    },
    stop.signal,
  )) {
    if (context.output === 'json' || context.output === 'yaml') {
      context.terminal.out(asText({ type: event.type, object: event.object }, context.output));
      continue;
    }
    const { headings, rows } = rowsOf(
      kind,
      [event.object],
      context.output === 'wide',
      options.allNamespaces,
      context.now(),
    );
    const text = table(headings, rows);
    const [head, ...body] = text.split('\n');
    if (last === '') context.terminal.out(head ?? '');
    const line = body.join('\n') + (event.type === 'DELETED' ? '  deleted' : '');
    if (line !== last) context.terminal.out(line);
    last = line;
  }
}
