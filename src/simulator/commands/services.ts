/** What the commands of one process share: cursors, sessions, fail points, running operations, and the clock of a standalone. */
import type { Document } from 'bson';
import { Long, Timestamp } from 'bson';
import { MINUTE, SECOND } from '../../base/units.ts';
import type { CommandContext, OpTime, ServerNode, Stamp } from '../contracts.ts';
import { allowScripting } from '../data/javascript.ts';
import { toNumber } from './arguments.ts';
import { Cursors } from './cursors.ts';
import { fail } from './errors.ts';
import { FailPoints, type Injected } from './failpoints.ts';
import { addErrorLabels, isFailure, type LabelFacts } from './labels.ts';
import { Notifier } from './notifier.ts';
import { Operations } from './operations.ts';
import { Profiler } from './profiler.ts';
import { type Session, Sessions } from './sessions.ts';
import { Snapshots } from './snapshots.ts';
import { abortTransaction } from './transactions.ts';
import { startTtlMonitor } from './ttl.ts';

/** How often idle cursors and sessions are looked for. */
const SWEEP_INTERVAL = MINUTE;

/** What the dispatcher and the other commands use. One per process; ends with `close`. */
export interface CommandServices {
  readonly cursors: Cursors;
  readonly sessions: Sessions;
  readonly failpoints: FailPoints;
  readonly operations: Operations;
  readonly snapshots: Snapshots;
  /** Woken after every applied entry. */
  readonly applied: Notifier;
  /** Optimes for writes that are not replicated: all on a standalone, those to `local` elsewhere. */
  readonly localStamp: Stamp;
  /** `fsync` with lock: how many locks are held, and who waits for their end. */
  readonly fsync: { locks: number; readonly released: Notifier };
  readonly profiler: Profiler;

  /**
   * To call after authorisation and before a command runs: fail points. Throws the error to answer with; when the
   * connection was closed instead, that error is for nobody. Waits as long as a fail point blocks.
   */
  beforeCommand(context: CommandContext): Promise<void>;
  /** To call with every reply, good or bad (`ok: 0`): injected write concern errors and error labels. Changes and gives the reply. */
  afterCommand(context: CommandContext, reply: Document): Document;
  /** Enters the command into the running operations; the returned function takes it out. `abort` interrupts it. */
  beginOperation(context: CommandContext, abort: (reason: Error) => void): () => void;
  /** Ends sessions by key: transactions, cursors and running operations. */
  killSessions(keys: readonly string[], forget: boolean, except?: CommandContext): void;
  close(): void;
}

const byNode = new WeakMap<ServerNode, CommandServices>();
const marks = new WeakMap<Document, Marks>();

/** What was decided about one call on its way, kept by its command document. */
interface Marks {
  injected?: Injected;
  changeStream?: boolean;
}

function marksOf(context: CommandContext): Marks {
  const present = marks.get(context.command);
  if (present) return present;
  const fresh: Marks = {};
  marks.set(context.command, fresh);
  return fresh;
}

/** Remembers that this call works on a change stream, for the labels of its errors. */
export function markChangeStream(context: CommandContext): void {
  marksOf(context).changeStream = true;
}

/** The services of a process, made at first use. */
export function createCommandServices(node: ServerNode): CommandServices {
  const present = byNode.get(node);
  if (present) return present;
  const services = makeServices(node);
  allowScripting(node.options['security']?.['javascriptEnabled'] !== false);
  byNode.set(node, services);
  return services;
}

function makeServices(node: ServerNode): CommandServices {
  const closers: (() => void)[] = [];
  const services: CommandServices = {
    cursors: new Cursors(),
    sessions: new Sessions(),
    failpoints: new FailPoints(),
    operations: new Operations(),
    snapshots: new Snapshots(),
    applied: new Notifier(),
    localStamp: standaloneClock(node),
    fsync: { locks: 0, released: new Notifier() },
    profiler: new Profiler(),
    beforeCommand: (context) => before(services, context),
    afterCommand: (context, reply) => {
      const began = services.operations.of(context)?.startedAt.getTime();
      if (began !== undefined) services.profiler.note(context, node.now().getTime() - began);
      return after(context, reply);
    },
    beginOperation: (context, abort) => services.operations.begin(context, abort),
    killSessions: (keys, forget, except) => killSessions(services, keys, forget, except),
    close: () => {
      for (const close of closers.splice(0)) close();
      services.snapshots.clear();
      for (const session of services.sessions.list()) abortTransaction(session);
      byNode.delete(node);
    },
  };
  closers.push(followData(node, services), startSweeper(node, services), startTtlMonitor(node, services));
  return services;
}

/** Keeps the history of sessions in step with the log, and ends what a lost role or lost data makes untrue. */
function followData(node: ServerNode, services: CommandServices): () => void {
  services.sessions.rebuild(node.data);
  node.replication?.onStepDown((reason) => {
    for (const session of services.sessions.list()) abortTransaction(session);
    if (reason === 'stepdown') return;
    services.snapshots.clear();
    services.cursors.killWhere(() => true);
    services.sessions.rebuild(node.data);
  });
  return node.data.onApplied((entry) => {
    services.sessions.observe(entry);
    services.applied.notify();
  });
}

function startSweeper(node: ServerNode, services: CommandServices): () => void {
  const timer = setInterval(() => {
    const now = node.now().getTime();
    services.cursors.expire(now, toNumber(node.parameters.get('cursorTimeoutMillis')));
    services.snapshots.expire(now);
    const expired = services.sessions.expired(now).map((session) => session.key);
    services.killSessions(expired, true);
    for (const key of expired) services.sessions.delete(key);
  }, SWEEP_INTERVAL);
  timer.unref();
  return () => clearInterval(timer);
}

function killSessions(
  services: CommandServices,
  keys: readonly string[],
  forget: boolean,
  except: CommandContext | undefined,
): void {
  const meant = new Set(keys);
  for (const key of meant) {
    const session: Session | undefined = services.sessions.find(key);
    if (session) abortTransaction(session);
    if (session && forget) session.used = false;
  }
  services.cursors.killWhere((cursor) => cursor.sessionKey !== null && meant.has(cursor.sessionKey));
  services.operations.killWhere(
    (operation) =>
      operation.context !== except && operation.sessionKey !== null && meant.has(operation.sessionKey),
    fail(11601, 'operation was interrupted'),
  );
}

/** Optimes of an unreplicated clock: term -1, always growing. */
function standaloneClock(node: ServerNode): Stamp {
  let seconds = 0;
  let increment = 0;
  return (): OpTime => {
    const now = Math.floor(node.now().getTime() / SECOND);
    if (now > seconds) {
      seconds = now;
      increment = 0;
    }
    increment += 1;
    return { ts: new Timestamp({ t: seconds, i: increment }), t: Long.fromNumber(-1) };
  };
}

async function before(services: CommandServices, context: CommandContext): Promise<void> {
  const injected = await services.failpoints.failCommand(context);
  if (injected === null) return;
  marksOf(context).injected = injected;
  if (injected.closeConnection) {
    context.connection.close();
    throw fail(9001, "Failing command via 'failCommand' failpoint: the connection is closed");
  }
  if (injected.error === null) return;
  const { code, codeName: _name, errmsg, ...extra } = injected.error;
  throw fail(code, errmsg, extra);
}

function after(context: CommandContext, reply: Document): Document {
  const { injected, changeStream } = marksOf(context);
  if (injected?.writeConcernError && !isFailure(reply)) {
    const { errorLabels, ...concern } = injected.writeConcernError;
    reply['writeConcernError'] = concern;
    if (errorLabels !== undefined) reply['errorLabels'] = errorLabels;
  }
  if (injected?.error && isFailure(reply)) delete reply['topologyVersion'];
  if (injected?.labels && (isFailure(reply) || reply['writeConcernError'] !== undefined)) {
    reply['errorLabels'] = [...injected.labels];
    if (injected.labels.length === 0) delete reply['errorLabels'];
    return reply;
  }
  addErrorLabels(reply, labelFacts(context, changeStream ?? false));
  return reply;
}

function labelFacts(context: CommandContext, changeStream: boolean): LabelFacts {
  const { command } = context;
  return {
    name: context.name,
    numbered: command['lsid'] !== undefined && command['txnNumber'] !== undefined,
    inTransaction: command['autocommit'] === false,
    changeStream: changeStream || opensChangeStream(command),
  };
}

function opensChangeStream(command: Document): boolean {
  const pipeline: unknown = command['pipeline'];
  return Array.isArray(pipeline) && pipeline[0]?.$changeStream !== undefined;
}
