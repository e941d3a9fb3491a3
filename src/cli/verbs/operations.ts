/** Operations (A13.1): ask for one, follow it, list them, cancel one. */
import { BelayError } from '../../base/error.ts';
import type { Millis } from '../../base/units.ts';
import { isOperationOver, OPERATION_STATES } from '../../model/index.ts';
import { type ApiObject, listAll, objectPath } from '../client.ts';
import { type Context, kindOf, structured } from '../context.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText, inLine } from '../output.ts';
import { follow } from '../progress.ts';
import { statusOf } from '../rows.ts';
import { get } from './get.ts';
import { type PlanAnswer, showPlans } from './plan.ts';

/** What is asked for: an operation's spec without its target. */
export type Wish = Readonly<Record<string, unknown>> & { readonly type: string };

export interface AskOptions {
  /** Follow it to its end. */
  readonly wait: boolean;
  /** Only show the steps. */
  readonly plan: boolean;
  readonly timeoutMillis: Millis;
}

/** Whether an operation is over. */
export const hasEnded = (object: ApiObject | null): boolean =>
  object !== null && isOperationOver(statusOf(object).state);

/** Names as verbs print them, `mongodb/orders` or `operations/orders-restart-x7k2`, are taken too. */
const bare = (word: string, kinds: RegExp): string => word.replace(kinds, '');

/** `belay restart NAME` and its like: asks, prints the operation, follows it. Exit 0 when it succeeded, 1 when not. */
export async function ask(context: Context, name: string, wish: Wish, options: AskOptions): Promise<void> {
  const body = { spec: { ...wish, mongodbResourceRef: { name: bare(name, /^(mongodbs?|mdb)\//i) } } };
  const path = objectPath('operations', context.namespace);
  if (options.plan) {
    const answer = await context.client.request<PlanAnswer>('POST', path, {
      body,
      query: { dryRun: 'plan' },
    });
    return showPlans(context, [answer]);
  }
  const asked = await context.client.request<ApiObject>('POST', path, { body });
  const what = `operations/${asked.metadata.name}`;
  if (!options.wait) return show(context, asked, `${what} asked for`, hint(asked));
  if (!context.quiet) context.terminal.err(`${what} asked for`);
  const object = await followed(context, asked.metadata.name, options.timeoutMillis);
  await show(context, object, outcome(object), null);
  if (statusOf(object).state !== 'Succeeded') throw new Exit(EXIT.failed);
}

/** One line about how it ended. */
export function outcome(object: ApiObject): string {
  const { state = 'Waiting', message } = statusOf(object);
  const what = `operations/${object.metadata.name} ${state}`;
  return message === undefined || message === '' ? what : `${what}: ${message}`;
}

const hint = ({ metadata }: ApiObject): string =>
  `watch it: belay wait operation ${metadata.name}   stop it: belay cancel ${metadata.name}`;

/** Follows to the end. Ctrl-C and the end of patience leave it running and say so. */
async function followed(
  context: Context,
  name: string,
  timeoutMillis: Millis,
  reached: (object: ApiObject | null) => boolean = hasEnded,
): Promise<ApiObject> {
  const kind = await kindOf('operation');
  const goal = `the end of operations/${name}`;
  try {
    const end = await follow(context, {
      kind,
      namespace: context.namespace,
      name,
      timeoutMillis,
      reached,
      goal,
    });
    if (end !== null) return end;
  } catch (failure) {
    const left = failure instanceof Exit && failure.code === EXIT.interrupted;
    const late = failure instanceof BelayError && failure.code === 'WaitTimedOut';
    if ((left || late) && !context.quiet)
      context.terminal.err(
        `operations/${name} goes on without this command\n  watch it   belay wait operation ${name}\n  stop it    belay cancel ${name}`,
      );
    throw failure;
  }
  throw new BelayError('Deleted', `operations/${name} was deleted while waiting for its end`, {
    retry: 'never',
  });
}

/**
 * `belay wait operation NAME…`: until each has come to a state, Succeeded when none is named. One that ended in another state
 * will never come to it: exit 1 with what it says.
 */
export async function waitForOperations(
  context: Context,
  names: readonly string[],
  goal: string,
  timeoutMillis: Millis,
): Promise<void> {
  const kind = await kindOf('operation');
  const wanted = OPERATION_STATES.find((state) => state.toLowerCase() === goal.toLowerCase());
  if (names.length === 0 || wanted === undefined)
    throw new BelayError(
      'Usage',
      wanted === undefined ? `${goal} is no state of an operation` : 'which operation?',
      {
        retry: 'never',
        fix: `states: ${OPERATION_STATES.join(', ')}; or --for delete`,
      },
    );
  const until = context.now() + timeoutMillis;
  let failed = false;
  for (const name of names) {
    const object = await follow(context, {
      kind,
      namespace: context.namespace,
      name,
      timeoutMillis: Math.max(1, until - context.now()),
      reached: (o) => hasEnded(o) || (o !== null && statusOf(o).state === wanted),
      goal: `${wanted} of operations/${name}`,
    });
    if (object === null) continue;
    await show(context, object, outcome(object), null);
    failed ||= statusOf(object).state !== wanted;
  }
  if (failed) throw new Exit(EXIT.failed);
}

async function show(context: Context, object: ApiObject, line: string, remark: string | null): Promise<void> {
  const { terminal, output, quiet } = context;
  const format = structured(context);
  if (format !== null) terminal.out(await asText(object, format));
  else terminal.out(output === 'name' ? `operations/${object.metadata.name}` : inLine(line));
  if (remark !== null && !quiet) terminal.err(remark);
}

/** `belay operations [NAME]`: all of them, or those of one database, the newest last. */
export async function operations(
  context: Context,
  name: string | undefined,
  options: { readonly watch: boolean; readonly allNamespaces: boolean },
): Promise<void> {
  const target = name === undefined ? undefined : bare(name, /^(mongodbs?|mdb)\//i);
  const selector = target === undefined ? undefined : `belay.dev/mongodb=${target}`;
  if (target !== undefined && !options.watch && !options.allNamespaces) {
    const some = await listAll(context.client, objectPath('operations', context.namespace), selector);
    // None of its own: is there such a database at all? `NotFound` says what there is instead.
    if (some.length === 0) await context.client.get(objectPath('mongodb', context.namespace, target));
  }
  const none = target === undefined ? undefined : `${target} has no operations`;
  return get(context, ['operations'], { ...options, selector, none });
}

/** It was asked to stop and cannot be stopped safely now. */
export const isKept = (object: ApiObject | null): boolean => {
  if (object === null) return false;
  const { cancelRequested, cancellable, message } = statusOf(object);
  return cancelRequested === true && cancellable === false && message?.startsWith('not cancelled') === true;
};

/**
 * `belay cancel OPERATION`: asks, and waits until it has stopped. Exit 1 when it ended in another way, 4 when it goes on because
 * it cannot be stopped safely.
 */
export async function cancel(
  context: Context,
  word: string,
  options: { readonly wait: boolean; readonly timeoutMillis: Millis },
): Promise<void> {
  const name = bare(word, /^(operations?|ops?)\//i);
  const path = `${objectPath('operations', context.namespace, name)}/cancel`;
  const asked = await context.client.request<ApiObject>('POST', path);
  if (!options.wait) return show(context, asked, `operations/${name} is being cancelled`, null);
  const object = await followed(
    context,
    name,
    options.timeoutMillis,
    (seen) => hasEnded(seen) || isKept(seen),
  );
  if (!hasEnded(object)) {
    await show(context, object, `operations/${name} ${statusOf(object).message}`, null);
    throw new Exit(EXIT.refused);
  }
  await show(context, object, outcome(object), null);
  if (statusOf(object).state !== 'Cancelled') throw new Exit(EXIT.failed);
}
