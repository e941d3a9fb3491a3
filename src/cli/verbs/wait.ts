import { BelayError } from '../../base/error.ts';
import type { Millis } from '../../base/units.ts';
import { CONDITIONS_BY_KIND, PHASES } from '../../model/meta.ts';
import type { ApiObject } from '../client.ts';
import { type ApiKind, type Context, structured, targetsOf } from '../context.ts';
import { asText } from '../output.ts';
import { follow } from '../progress.ts';
import { statusOf } from '../rows.ts';

/**
 * `belay wait KIND NAME --for CONDITION`: `Ready`, `condition=Ready`, `condition=Ready=False`, `phase=Suspended`, `delete`;
 * `belay wait operation NAME`: until it has succeeded, or `--for` another state.
 */
export async function waitFor(
  context: Context,
  words: readonly string[],
  wanted: string | undefined,
  timeoutMillis: Millis,
): Promise<void> {
  const { kind, names } = await targetsOf(words);
  if (kind.kind === 'Operation' && !/^deleted?$/i.test(wanted ?? '')) {
    const { waitForOperations } = await import('./operations.ts');
    return waitForOperations(context, names, wanted ?? 'Succeeded', timeoutMillis);
  }
  const goal = wanted ?? missingGoal(kind.plural);
  const reached = goalTest(goal);
  refuseUnknown(kind, goal);
  if (names.length === 0)
    throw new BelayError('Usage', `which ${kind.plural}?`, { retry: 'never', fix: 'name at least one' });
  const until = context.now() + timeoutMillis;
  for (const name of names) {
    const object = await follow(context, {
      kind,
      namespace: context.namespace,
      name,
      // One time limit for all of them, as kubectl has it.
      timeoutMillis: Math.max(1, until - context.now()),
      reached,
      goal: `${goal} of ${kind.plural}/${name}`,
    });
    const format = structured(context);
    if (format !== null && object !== null) context.terminal.out(await asText(object, format));
    else {
      const what = `${kind.plural}/${name}`;
      const said = `${what} ${object === null ? 'deleted' : goal}`;
      context.terminal.out(context.output === 'name' ? what : said);
    }
  }
}

function missingGoal(plural: string): never {
  throw new BelayError('Usage', 'what should be waited for?', {
    retry: 'never',
    fix: `for example: belay wait ${plural} NAME --for Ready   (an operation is waited for without --for)`,
  });
}

/** What a goal's text says; null: that the object is gone. */
interface Goal {
  readonly form: string | undefined;
  readonly name: string;
  readonly value: string | undefined;
}

/** `Usage` for what has no meaning. */
function parseGoal(goal: string): Goal | null {
  if (/^deleted?$/i.test(goal)) return null;
  const [, form, name, value] = /^(?:(condition|phase)=)?([A-Za-z]+)(?:=([A-Za-z]+))?$/.exec(goal) ?? [];
  if (name !== undefined && (value === undefined || form !== 'phase')) return { form, name, value };
  throw new BelayError('Usage', `${goal} is nothing that can be waited for`, {
    retry: 'never',
    fix: 'write Ready, condition=NAME, condition=NAME=False, phase=NAME or delete',
  });
}

const same = (a: string | undefined, b: string): boolean => a?.toLowerCase() === b.toLowerCase();

/**
 * What a goal's text means. A bare word is a condition, or a phase where the object has no condition of that name.
 * `Usage` for what has no meaning. S15: a status of an older generation says nothing about this one.
 */
export function goalTest(goal: string): (object: ApiObject | null) => boolean {
  const parsed = parseGoal(goal);
  if (parsed === null) return (object) => object === null;
  const { form, name, value } = parsed;
  const holds = (object: ApiObject): boolean => {
    const { phase, conditions = [] } = statusOf(object);
    const condition = conditions.find((c) => same(c.type, name));
    if (form === 'phase' || (form === undefined && condition === undefined)) return same(phase, name);
    return condition !== undefined && same(condition.status, value ?? 'True');
  };
  return (object) => object !== null && isCurrent(object) && holds(object);
}

const STATUSES = ['True', 'False', 'Unknown'];

/** `Usage` for what no object of the kind ever has: it would be waited for until the time is over. */
function refuseUnknown(kind: ApiKind, goal: string): void {
  const parsed = parseGoal(goal);
  if (parsed === null) return;
  const { form, name, value } = parsed;
  const conditions = CONDITIONS_BY_KIND[kind.kind] ?? [];
  const isStatus = STATUSES.some((status) => same(status, value ?? 'True'));
  const isCondition = isStatus && conditions.some((type) => same(type, name));
  // A phase has no status: `Suspended=False` could only mean a condition.
  const isPhase = value === undefined && PHASES.some((phase) => same(phase, name));
  if ((form !== 'phase' && isCondition) || (form !== 'condition' && isPhase)) return;
  const types = conditions.length === 0 ? [] : [`conditions: ${conditions.join(', ')}`];
  throw new BelayError('Usage', `${goal} is neither a condition nor a phase of ${kind.plural}`, {
    retry: 'never',
    fix: [...types, `phases: ${PHASES.join(', ')}`, 'or delete'].join('; '),
  });
}

function isCurrent(object: ApiObject): boolean {
  const { observedGeneration } = statusOf(object);
  return observedGeneration === undefined || observedGeneration === object.metadata.generation;
}
