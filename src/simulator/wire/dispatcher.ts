/**
 * From a command document to a reply: look up, authorise, check the member's state, run, wait for the write concern, add the
 * fields every reply carries. The order of the checks is the server's: unknown command, database, login, privileges,
 * arguments, replication state.
 */
import { Binary, type Document, Double, Long, Timestamp } from 'bson';
import type {
  CommandContext,
  CommandSpec,
  Connection,
  Privilege,
  Replication,
  ServerNode,
  WriteConcern,
} from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { asFlag, asNumber, isDocument } from './bson.ts';
import {
  allowsSecondary,
  assertKnownFields,
  assertPlausibleClusterTime,
  databaseOf,
  maxTimeOf,
} from './generic.ts';
import type { CommandHooks } from './hooks.ts';
import { show } from './show.ts';
import { assertApiVersion } from './stable-api.ts';
import { argumentErrorName } from './versions.ts';

/** Decides what a connection may do; the authentication part provides it. */
export interface Authorizer {
  /** False when the process runs without access control: everything is allowed. */
  readonly enabled: boolean;
  isLoggedIn(connection: Connection): boolean;
  allows(connection: Connection, privileges: readonly Privilege[]): boolean;
}

/** Counts of what was served, for serverStatus. */
export interface Metrics {
  requests: number;
  bytesIn: number;
  bytesOut: number;
  readonly opcounters: Record<'insert' | 'query' | 'update' | 'delete' | 'getmore' | 'command', number>;
}

export const newMetrics = (): Metrics => ({
  requests: 0,
  bytesIn: 0,
  bytesOut: 0,
  opcounters: { insert: 0, query: 0, update: 0, delete: 0, getmore: 0, command: 0 },
});

export interface DispatcherParts {
  readonly node: ServerNode;
  readonly authorizer: Authorizer;
  readonly metrics: Metrics;
  readonly hooks: CommandHooks;
}

const COUNTERS: ReadonlyMap<string, keyof Metrics['opcounters']> = new Map([
  ['insert', 'insert'],
  ['find', 'query'],
  ['update', 'update'],
  ['delete', 'delete'],
  ['getMore', 'getmore'],
] as const);
const LEGACY_COMMANDS: ReadonlySet<string> = new Set([
  'hello',
  'isMaster',
  'ismaster',
  '_isSelf',
  'authenticate',
  'buildInfo',
  'buildinfo',
  'saslStart',
  'saslContinue',
]);
const MONGOS_ONLY: ReadonlySet<string> = new Set([
  'enableSharding',
  'shardCollection',
  'addShard',
  'removeShard',
  'listShards',
  'balancerStart',
  'balancerStop',
  'balancerStatus',
  'movePrimary',
  'moveChunk',
  'isdbgrid',
  'flushRouterConfig',
]);
/** These may write although they are reads: they wait when a write concern is given. */
const MAY_WRITE: ReadonlySet<string> = new Set(['aggregate', 'mapReduce']);
const ENDS_TRANSACTION: ReadonlySet<string> = new Set(['commitTransaction', 'abortTransaction']);
/** Replies of these codes carry the topologyVersion, so that drivers know which state the error speaks of. */
const STATE_CODES: ReadonlySet<number> = new Set([10107, 13435, 13436, 189, 11602, 11600, 91]);
/** Their `maxTimeMS` is a waiting time of their own, no limit on the command. */
const OWN_MAX_TIME: ReadonlySet<string> = new Set(['getMore', 'replSetReconfig']);
const HIDDEN_FIELDS = ['pwd', 'payload'];
const NO_SIGNATURE = { hash: new Binary(Buffer.alloc(20), 0), keyId: Long.ZERO };

/** The command table of one process and the one way to run a command. */
export class Dispatcher {
  readonly #parts: DispatcherParts;
  readonly #specs = new Map<string, CommandSpec>();
  #lastOpId = 0;

  constructor(parts: DispatcherParts) {
    this.#parts = parts;
  }

  /** Adds commands; a later one of the same name wins. */
  register(specs: readonly CommandSpec[]): void {
    for (const spec of specs)
      for (const name of [spec.name, ...(spec.aliases ?? [])]) this.#specs.set(name, spec);
  }

  /** All commands by their main names, for listCommands. */
  specs(): readonly CommandSpec[] {
    return [...new Set(this.#specs.values())];
  }

  /** Runs a client's command. Never throws; the reply always has `ok`. */
  async run(connection: Connection, command: Document, origin: 'msg' | 'query'): Promise<Document> {
    const name = Object.keys(command)[0] ?? '';
    this.#count(name);
    let reply: Document;
    try {
      if (origin === 'query') assertLegacy(name);
      this.#takeClusterTime(command);
      reply = await this.#runChecked(connection, command, name);
    } catch (failure) {
      reply = this.#failure(failure);
    }
    return this.#withCommonFields(reply, command);
  }

  /** Runs a command as the process itself: no authorisation, no state checks, no waiting. Throws ServerError. */
  async runInternal(connection: Connection, db: string, command: Document): Promise<Document> {
    const name = Object.keys(command)[0] ?? '';
    const spec = this.#find(name);
    const context = this.#context(connection, { ...command, $db: db }, name, db, connection.signal);
    return { ok: 1, ...(await spec.run(context)) };
  }

  #count(name: string): void {
    const { metrics } = this.#parts;
    metrics.requests += 1;
    metrics.opcounters[COUNTERS.get(name) ?? 'command'] += 1;
  }

  #find(name: string): CommandSpec {
    const spec = this.#specs.get(name);
    if (spec !== undefined) return spec;
    const hint = MONGOS_ONLY.has(name) ? '. Are you connected to mongos?' : '';
    throw new ServerError(59, 'CommandNotFound', `no such command: '${name}'${hint}`);
  }

  #context(
    connection: Connection,
    command: Document,
    name: string,
    db: string,
    signal: AbortSignal,
  ): CommandContext {
    this.#lastOpId = (this.#lastOpId % 0x7fffffff) + 1;
    return { node: this.#parts.node, connection, name, db, command, signal, opId: this.#lastOpId };
  }

  async #runChecked(connection: Connection, command: Document, name: string): Promise<Document> {
    const spec = this.#find(name);
    const db = databaseOf(command);
    const maxTime = maxTimeOf(command);
    const abort = new AbortController();
    const context = this.#context(connection, command, name, db, abort.signal);
    this.#authorize(spec, context);
    assertApiVersion(command, spec.name, this.#parts.node.parameters.get('requireApiVersion') === true);
    if (spec.fields !== undefined) {
      assertKnownFields(command, spec.name, spec.fields, argumentErrorName(this.#parts.node.version, 40415));
    }
    const disconnect = (): void =>
      abort.abort(
        new ServerError(279, 'ClientDisconnect', 'operation was interrupted because a client disconnected'),
      );
    connection.signal.addEventListener('abort', disconnect, { once: true });
    const timer = maxTime > 0 && !OWN_MAX_TIME.has(name) ? limitTime(abort, maxTime) : undefined;
    const end = this.#parts.hooks.beginOperation(context, (reason) => abort.abort(reason));
    try {
      return await orAborted(abort.signal, this.#runHooked(spec, context));
    } finally {
      connection.signal.removeEventListener('abort', disconnect);
      clearTimeout(timer);
      end();
    }
  }

  async #runHooked(spec: CommandSpec, context: CommandContext): Promise<Document> {
    const { hooks } = this.#parts;
    let reply: Document;
    let ran = false;
    try {
      await hooks.beforeCommand(context);
      await this.#assertState(spec, context);
      ran = true;
      const result = await spec.run(context);
      reply = result['ok'] === undefined ? { ...result, ok: 1 } : result;
      if (asNumber(reply['ok']) === 1) reply = await this.#awaitWriteConcern(spec, context, reply);
    } catch (failure) {
      reply = this.#failure(failure);
      if (ran && waitsAlthoughItFailed(context, reply)) {
        reply = await this.#awaitWriteConcern(spec, context, reply);
      }
    }
    return hooks.afterCommand(context, reply);
  }

  #authorize(spec: CommandSpec, context: CommandContext): void {
    if (spec.adminOnly === true && context.db !== 'admin') {
      throw new ServerError(13, 'Unauthorized', `${spec.name} may only be run against the admin database.`);
    }
    const { authorizer } = this.#parts;
    if (!authorizer.enabled || spec.auth === 'none') return;
    const loggedIn = authorizer.isLoggedIn(context.connection);
    if (spec.auth === 'login' ? loggedIn : authorizer.allows(context.connection, spec.auth(context))) return;
    if (!loggedIn)
      throw new ServerError(13, 'Unauthorized', `Command ${context.name} requires authentication`);
    throw new ServerError(
      13,
      'Unauthorized',
      `not authorized on ${context.db} to execute command ${show(context.command, HIDDEN_FIELDS)}`,
    );
  }

  /** Reads and writes need a member in the right state; read concerns may have to wait. */
  async #assertState(spec: CommandSpec, context: CommandContext): Promise<void> {
    const { replication } = this.#parts.node;
    if (spec.access === 'write') assertWriteConcern(context.command, replication);
    const concern = context.command['readConcern'];
    if (replication === null) {
      if (isDocument(concern) && concern['afterClusterTime'] !== undefined) {
        throw new ServerError(72, 'InvalidOptions', 'Cannot specify afterClusterTime on a standalone node');
      }
      return;
    }
    if (spec.access === 'write') replication.assertWritable(context.db);
    if (spec.access === 'read') replication.assertReadable(context.db, allowsSecondary(context.command));
    if (isDocument(concern)) await replication.awaitReadConcern(concern, context.signal);
  }

  async #awaitWriteConcern(spec: CommandSpec, context: CommandContext, reply: Document): Promise<Document> {
    const { replication } = this.#parts.node;
    if (replication === null || reply['writeConcernError'] !== undefined) return reply;
    const given = context.command['writeConcern'];
    const ends = ENDS_TRANSACTION.has(context.name);
    const inTransaction = context.command['autocommit'] === false && !ends;
    const writes = spec.access === 'write' || ends || (MAY_WRITE.has(context.name) && given !== undefined);
    const opTime = replication.lastApplied();
    if (!writes || inTransaction || opTime === null || context.db === 'local') return reply;
    const concern = writeConcernOf(given, replication);
    if (concern.w === 0) return reply;
    const error = await replication.awaitWriteConcern(opTime, concern, context.signal);
    return error === null ? reply : { ...reply, writeConcernError: error };
  }

  #takeClusterTime(command: Document): void {
    const { replication } = this.#parts.node;
    const gossip = command['$clusterTime'];
    if (replication === null || !isDocument(gossip)) return;
    const time = gossip['clusterTime'];
    if (!(time instanceof Timestamp)) return;
    assertPlausibleClusterTime(time.t, this.#parts.node.now());
    replication.advanceClusterTime(time);
  }

  #failure(failure: unknown): Document {
    if (failure instanceof ServerError) return this.#errorReply(failure);
    const message = failure instanceof Error ? failure.message : String(failure);
    this.#parts.node.logger.log(
      'E',
      'COMMAND',
      5_000_001,
      'conn',
      'Unexpected failure in a command of the simulator',
      {
        error: failure instanceof Error ? (failure.stack ?? message) : message,
      },
    );
    return this.#errorReply(new ServerError(8, 'UnknownError', message));
  }

  #errorReply(error: ServerError): Document {
    const reply: Document = {
      ok: new Double(0),
      errmsg: error.message,
      code: error.code,
      codeName: error.codeName,
    };
    if (error.errorLabels !== undefined) reply['errorLabels'] = error.errorLabels;
    Object.assign(reply, error.extra);
    const { replication } = this.#parts.node;
    if (replication !== null && STATE_CODES.has(error.code))
      reply['topologyVersion'] ??= replication.topologyVersion();
    return reply;
  }

  #withCommonFields(given: Document, command: Document): Document {
    const { replication } = this.#parts.node;
    const reply = { ...given, ok: new Double(asNumber(given['ok']) ?? 1) } as Document;
    if (replication === null) return reply;
    const clusterTime = replication.clusterTime();
    if (clusterTime.isZero()) return reply;
    reply['$clusterTime'] ??= { clusterTime, signature: NO_SIGNATURE };
    const majority = isDocument(command['readConcern']) && command['readConcern']['level'] === 'majority';
    const opTime = majority ? replication.majorityCommitted() : replication.lastApplied();
    if (opTime !== null) reply['operationTime'] ??= opTime.ts;
    return reply;
  }
}

/** What a write found out by failing (a name that is taken, say) is confirmed too where the client asked for it. */
function waitsAlthoughItFailed({ command, signal }: CommandContext, reply: Document): boolean {
  return command['writeConcern'] !== undefined && !signal.aborted && !STATE_CODES.has(Number(reply['code']));
}

function assertLegacy(name: string): void {
  if (LEGACY_COMMANDS.has(name)) return;
  throw new ServerError(
    352,
    'UnsupportedOpQueryCommand',
    `Unsupported OP_QUERY command: ${name}. The client driver may require an upgrade. For more details see https://dochub.mongodb.org/core/legacy-opcode-removal`,
  );
}

function limitTime(abort: AbortController, millis: number): NodeJS.Timeout {
  const expired = new ServerError(50, 'MaxTimeMSExpired', 'operation exceeded time limit');
  return setTimeout(() => abort.abort(expired), millis);
}

/** The command's outcome, or the reason it was interrupted with, whichever comes first. */
async function orAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let stop: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** The write concern of a command: the given one over the default. */
function writeConcernOf(given: unknown, replication: Replication): WriteConcern {
  if (!isDocument(given)) return replication.defaultWriteConcern();
  const w = typeof given['w'] === 'string' ? given['w'] : asNumber(given['w']);
  const wtimeout = asNumber(given['wtimeout']);
  return {
    ...(w === undefined ? pickW(replication.defaultWriteConcern()) : { w }),
    ...(given['j'] === undefined ? {} : { j: asFlag(given['j']) }),
    ...(wtimeout === undefined ? {} : { wtimeout }),
  };
}

const pickW = (concern: WriteConcern): WriteConcern => (concern.w === undefined ? {} : { w: concern.w });

/** A standalone has nobody to replicate to. */
function assertWriteConcern(command: Document, replication: Replication | null): void {
  const given = command['writeConcern'];
  if (replication !== null || !isDocument(given)) return;
  const w = given['w'];
  if (typeof w === 'string' && w !== 'majority') {
    throw new ServerError(
      2,
      'BadValue',
      `cannot use non-majority 'w' mode ${w} when a host is not a member of a replica set`,
    );
  }
  if ((asNumber(w) ?? 0) > 1)
    throw new ServerError(2, 'BadValue', "cannot use 'w' > 1 when a host is not replicated");
}
