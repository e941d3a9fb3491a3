import { BelayError } from '../../base/error.ts';
import { type ApiList, type ApiObject, listAll, objectPath } from '../client.ts';
import { type Context, placeOf, structured, targetOf } from '../context.ts';
import { asText, table, type Widths } from '../output.ts';
import { rowsOf } from '../rows.ts';

export interface EventOptions {
  readonly limit: number;
  readonly watch: boolean;
  readonly allNamespaces: boolean;
}

/** `belay events [KIND NAME] [-w]`: the newest last; with `-w` on as they come. */
export async function events(
  context: Context,
  words: readonly string[],
  options: EventOptions,
): Promise<void> {
  const { terminal, client, output } = context;
  const path = await pathOf(context, words, options);
  const wide = output === 'wide';
  if (!options.watch) {
    const items = await itemsOf(context, path, words, options.limit);
    const format = structured(context);
    if (format !== null) terminal.out(await asText(items, format));
    else if (output === 'name') for (const item of items) terminal.out(nameOf(item));
    else if (items.length === 0)
      terminal.err(`no events${options.allNamespaces ? '' : ` in namespace ${context.namespace}`}`);
    else {
      const { headings, rows } = rowsOf('Event', items, wide, options.allNamespaces, context.now());
      terminal.out(table(headings, rows));
    }
    return;
  }
  const widths: Widths = [];
  let waiting: ApiObject[] | null = [];
  const rows = (items: readonly ApiObject[]) =>
    rowsOf('Event', items, wide, options.allNamespaces, context.now());
  for await (const event of client.watch(path, {}, context.io.interrupted())) {
    if (output === 'name') {
      if (event.type !== 'LISTED') terminal.out(nameOf(event.object));
    } else if (event.type === 'LISTED') {
      const shown = rows(waiting ?? []);
      if (structured(context) === null && waiting !== null)
        terminal.out(table(shown.headings, shown.rows, { widths }));
      waiting = null;
    } else if (structured(context) !== null) terminal.out(JSON.stringify(event.object));
    else if (waiting !== null) waiting.push(event.object);
    else terminal.out(table(null, rows([event.object]).rows, { widths }));
  }
}

/** What is gone, a task that has ended for one, leaves its events. */
async function itemsOf(
  { client, namespace }: Context,
  path: string,
  words: readonly string[],
  limit: number,
): Promise<readonly ApiObject[]> {
  try {
    return (await client.get<ApiList>(path, { limit: String(limit) })).items;
  } catch (failure) {
    if (!(failure instanceof BelayError) || failure.code !== 'NotFound' || words.length === 0) throw failure;
    const { kind, name } = await targetOf(words);
    const all = await listAll(client, objectPath('events', kind.namespaced ? namespace : 'default'));
    const about = all.filter(({ spec }) => {
      const regarding = spec['regarding'] as { kind?: string; name?: string } | undefined;
      return regarding?.kind === kind.kind && regarding.name === name;
    });
    if (about.length === 0) throw failure;
    return about.slice(-limit);
  }
}

const nameOf = ({ metadata }: ApiObject): string => `events/${metadata.name}`;

async function pathOf(context: Context, words: readonly string[], options: EventOptions): Promise<string> {
  if (words.length === 0) return objectPath('events', options.allNamespaces ? null : context.namespace);
  const { kind, name } = await targetOf(words);
  if (kind.kind === 'Secret' || kind.kind === 'Event')
    throw new BelayError('Usage', `there are no events about ${kind.plural}`, { retry: 'never' });
  return `${objectPath(kind.plural, placeOf(context, kind), name)}/events`;
}
