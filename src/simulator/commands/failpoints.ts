/** `configureFailPoint`: faults on request, per process, for tests (9.1). */
import type { Document } from 'bson';
import type { CommandContext } from '../contracts.ts';
import { toBigInt, toBoolean, toNumber, typeName } from './arguments.ts';
import { codeName, fail } from './errors.ts';
import { pause } from './notifier.ts';

type Mode =
  | { readonly kind: 'off' }
  | { readonly kind: 'alwaysOn' }
  | { readonly kind: 'times'; left: number }
  | { readonly kind: 'skip'; left: number }
  | { readonly kind: 'chance'; readonly probability: number };

interface FailPoint {
  mode: Mode;
  data: Document;
  entered: number;
}

const KNOWN: ReadonlySet<string> = new Set([
  'failCommand',
  'failGetMoreAfterCursorCheckout',
  'onPrimaryTransactionalWrite',
  'maxTimeAlwaysTimeOut',
  'maxTimeNeverTimeOut',
  'failCollectionUpdates',
  'hangBeforeWaitingForWriteConcern',
  'rsSyncApplyStop',
  'stopReplProducer',
  'alwaysFail',
]);

/** What failCommand decided for one call. */
export interface Injected {
  readonly closeConnection: boolean;
  /** An error reply, ready but for `ok`; the command does not run. */
  readonly error: Document | null;
  readonly writeConcernError: Document | null;
  /** Given labels replace the server's own, even when the list is empty. */
  readonly labels: readonly string[] | null;
}

/** The fail points of one process. */
export class FailPoints {
  private readonly points = new Map<string, FailPoint>();

  /** Runs `configureFailPoint`; gives how often the point was entered under its last configuration. */
  configure(command: Document): Document {
    const name: unknown = command['configureFailPoint'];
    if (typeof name !== 'string') throw fail(14, 'configureFailPoint must name a fail point');
    if (!KNOWN.has(name)) throw fail(72, `${name} is not a valid failpoint`);
    const mode = parseMode(command['mode']);
    const before = this.points.get(name);
    this.points.set(name, { mode, data: command['data'] ?? {}, entered: 0 });
    return { count: before?.entered ?? 0 };
  }

  /** Enters a fail point: its data when it is on now and `matches`. Only matching calls use up `times` and `skip`. */
  enter(name: string, matches: (data: Document) => boolean = () => true): Document | null {
    const point = this.points.get(name);
    if (!point || point.mode.kind === 'off' || !matches(point.data)) return null;
    if (!admits(point)) return null;
    point.entered += 1;
    return point.data;
  }

  /** True when the point is on, without entering it. */
  isOn(name: string): boolean {
    const kind = this.points.get(name)?.mode.kind;
    return kind !== undefined && kind !== 'off';
  }

  /** To call by what has a time limit: 50 while `maxTimeAlwaysTimeOut` is on. */
  timeOut(): void {
    if (this.isOn('maxTimeAlwaysTimeOut')) throw fail(50, 'operation exceeded time limit');
  }

  /** `failCommand` for one call: null when it is not meant. */
  async failCommand(context: CommandContext): Promise<Injected | null> {
    if (context.name === 'configureFailPoint') return null;
    const data = this.enter('failCommand', (wanted) => meansCommand(wanted, context));
    if (data === null) return null;
    if (toBoolean(data['blockConnection'])) await pause(toNumber(data['blockTimeMS']) ?? 0, context.signal);
    return injected(data);
  }
}

function parseMode(mode: unknown): Mode {
  if (mode === 'off' || mode === 'alwaysOn') return { kind: mode };
  if (typeName(mode) === 'object') {
    const given = mode as Document;
    const times = toNumber(given['times']);
    if (times !== undefined) return times <= 0 ? { kind: 'off' } : { kind: 'times', left: times };
    const skip = toNumber(given['skip']);
    if (skip !== undefined) return { kind: 'skip', left: skip };
    const probability = toNumber(given['activationProbability']);
    if (probability !== undefined) return { kind: 'chance', probability };
  }
  throw fail(2, `unknown mode: ${typeof mode === 'string' ? mode : JSON.stringify(mode)}`);
}

function admits(point: FailPoint): boolean {
  const { mode } = point;
  switch (mode.kind) {
    case 'off':
      return false;
    case 'alwaysOn':
      return true;
    case 'times':
      mode.left -= 1;
      if (mode.left <= 0) point.mode = { kind: 'off' };
      return true;
    case 'skip':
      if (mode.left <= 0) return true;
      mode.left -= 1;
      return false;
    case 'chance':
      return Math.random() < mode.probability;
  }
}

function meansCommand(data: Document, context: CommandContext): boolean {
  const names: readonly unknown[] = data['failCommands'] ?? [];
  const asked = context.name.toLowerCase();
  const named = names.some((name) => String(name).toLowerCase() === asked);
  if (!named && !toBoolean(data['failAllCommands'])) return false;
  if (context.connection.internal && !toBoolean(data['failInternalCommands'])) return false;
  if (data['appName'] !== undefined && data['appName'] !== appNameOf(context)) return false;
  if (data['namespace'] === undefined) return true;
  return data['namespace'] === `${context.db}.${commandCollection(context.command)}`;
}

/** The application's name; the first hello of a connection brings it along. */
function appNameOf({ command, connection }: CommandContext): unknown {
  return connection.appName ?? command['client']?.application?.name;
}

function commandCollection(command: Document): string {
  const first: unknown = command[Object.keys(command)[0]!];
  const name: unknown = typeof first === 'string' ? first : command['collection'];
  return typeof name === 'string' ? name : '';
}

function injected(data: Document): Injected {
  const code = data['errorCode'] === undefined ? null : Number(toBigInt(data['errorCode']));
  const labels = (data['errorLabels'] as string[] | undefined) ?? null;
  const concern: Document | undefined = data['writeConcernError'];
  return {
    closeConnection: toBoolean(data['closeConnection']),
    error:
      code === null
        ? null
        : {
            errmsg: "Failing command via 'failCommand' failpoint",
            code,
            codeName: codeName(code),
            ...(data['errorExtraInfo'] ?? {}),
          },
    writeConcernError: concern ?? null,
    labels,
  };
}
