import { BelayError } from '../../base/error.ts';
import type { Millis } from '../../base/units.ts';
import { type ApiObject, objectPath } from '../client.ts';
import { type ApiKind, type Context, kindOf, placeOf, targetsOf } from '../context.ts';
import { readSources } from '../documents.ts';
import { EXIT, Exit } from '../exit.ts';
import { follow } from '../progress.ts';
import { report, syntaxReports } from '../reports.ts';
import { statusOf } from '../rows.ts';

export interface DeleteOptions {
  readonly keepVolumes: boolean;
  readonly yes: boolean;
  readonly wait: boolean;
  readonly timeoutMillis: Millis;
  /** Delete what these files declare. */
  readonly files: readonly string[];
}

interface Target {
  readonly kind: ApiKind;
  readonly namespace: string;
  readonly name: string;
}

/** `belay delete KIND NAME…` or `-f FILE`. Data goes only after a yes. */
export async function remove(
  context: Context,
  words: readonly string[],
  options: DeleteOptions,
): Promise<void> {
  const targets =
    options.files.length > 0 ? await fromFiles(context, options.files) : await fromWords(context, words);
  if (options.files.length > 0 && words.length > 0)
    throw new BelayError('Usage', 'give names or files, not both', { retry: 'never' });
  // All of them must be there before the first one goes.
  for (const target of targets) await context.client.get(pathOf(target));
  const data = targets.filter(({ kind }) => kind.kind === 'MongoDB');
  if (data.length > 0 && !options.keepVolumes && !options.yes) await confirmed(context, data);
  for (const batch of batchesOf(targets)) {
    const asked: { readonly target: Target; readonly left: ApiObject | undefined }[] = [];
    for (const target of batch) asked.push({ target, left: await askToRemove(context, target, options) });
    for (const { target, left } of asked) await removed(context, target, left, options);
  }
}

/** Neighbours of one kind go together, so that many take as long as one; users are gone before their database goes. */
function batchesOf(targets: readonly Target[]): readonly (readonly Target[])[] {
  const batches: Target[][] = [];
  for (const target of targets) {
    const last = batches.at(-1);
    if (last?.[0]?.kind.kind === target.kind.kind) last.push(target);
    else batches.push([target]);
  }
  return batches;
}

const pathOf = ({ kind, namespace, name }: Target): string =>
  objectPath(kind.plural, kind.namespaced ? namespace : null, name);

async function fromWords(context: Context, words: readonly string[]): Promise<readonly Target[]> {
  const { kind, names } = await targetsOf(words);
  if (names.length === 0)
    throw new BelayError('Usage', `which ${kind.plural}?`, {
      retry: 'never',
      fix: `name at least one; see: belay get ${kind.plural}`,
    });
  const namespace = placeOf(context, kind) ?? 'default';
  return names.map((name) => ({ kind, namespace, name }));
}

/** What files declare, in the reverse order: users before their database. */
async function fromFiles(context: Context, files: readonly string[]): Promise<readonly Target[]> {
  const { documents, problems } = await readSources(files, context.io.stdin);
  if (problems.length > 0) {
    await report(context, syntaxReports(problems));
    throw new Exit(EXIT.refused);
  }
  const targets: Target[] = [];
  for (const { value, file } of documents) {
    const { kind, metadata } = value as {
      kind?: unknown;
      metadata?: { name?: unknown; namespace?: unknown } | null;
    };
    if (typeof kind !== 'string' || typeof metadata?.name !== 'string')
      throw new BelayError('Usage', `a document in ${file} has no kind or name`, { retry: 'never' });
    const namespace = typeof metadata.namespace === 'string' ? metadata.namespace : context.namespace;
    targets.unshift({ kind: await kindOf(kind), namespace, name: metadata.name });
  }
  return targets;
}

async function confirmed(context: Context, targets: readonly Target[]): Promise<void> {
  const names = targets.map((target) => target.name).join(', ');
  const { ask } = context.io;
  if (ask === null) {
    throw new BelayError('Usage', `deleting MongoDB ${names} destroys its data`, {
      retry: 'never',
      fix: 'add --yes, or --keep-volumes to keep data and credentials',
    });
  }
  if (await ask(`Delete MongoDB ${names} with all data? This cannot be undone.`)) return;
  context.terminal.err('nothing was deleted');
  throw new Exit(EXIT.failed);
}

/** Gives what is left of it until it is gone; nothing when it is gone at once. */
const askToRemove = (
  context: Context,
  target: Target,
  options: DeleteOptions,
): Promise<ApiObject | undefined> =>
  context.client.request<ApiObject | undefined>('DELETE', pathOf(target), {
    query: { keepVolumes: options.keepVolumes ? 'true' : undefined },
  });

async function removed(
  context: Context,
  target: Target,
  left: ApiObject | undefined,
  options: DeleteOptions,
): Promise<void> {
  const { kind, namespace, name } = target;
  const keep = options.keepVolumes;
  const what = `${kind.plural}/${name}`;
  if (left !== undefined && options.wait) {
    const asleep = (o: ApiObject | null): boolean =>
      o !== null &&
      statusOf(o).phase === 'Suspended' &&
      statusOf(o).observedGeneration === o.metadata.generation;
    await follow(context, {
      kind,
      namespace,
      name,
      timeoutMillis: options.timeoutMillis,
      // Another object of this name, made meanwhile, is not the one that was deleted.
      reached: (o) => (keep ? asleep(o) : o === null || o.metadata.uid !== left.metadata.uid),
      goal: `${keep ? 'suspension' : 'deletion'} of ${what}`,
    });
  }
  const said = `${what} ${outcome(left !== undefined && !options.wait, keep)}`;
  context.terminal.out(context.output === 'name' ? what : said);
}

function outcome(underWay: boolean, keep: boolean): string {
  if (underWay) return keep ? 'is being suspended' : 'is being deleted';
  if (!keep) return 'deleted';
  return 'suspended: volumes, credentials and certificates are kept; apply the same file again to bring it back';
}
