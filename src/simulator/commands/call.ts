/** What every command here goes through: arguments, session, transaction or retry history, read level, error handling. */
import { type Document, Int32, Long, type Timestamp } from 'bson';
import type {
  CommandContext,
  CommandSpec,
  DataStore,
  OpTime,
  Privilege,
  ServerNode,
  Stamp,
  TransactionView,
  WriteContext,
  WriteOutcome,
} from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { takeSlept } from '../data/javascript.ts';
import { checkShape, maxTimeMillis, type Shape, toNumber } from './arguments.ts';
import { checkWriteConcern, readLevel } from './concerns.ts';
import { retryConflicts } from './conflicts.ts';
import { fail, interruption, throwIfAborted } from './errors.ts';
import { pause } from './notifier.ts';
import { type CommandServices, createCommandServices } from './services.ts';
import { enterRetryable, numberOf, type Session } from './sessions.ts';
import {
  abortTransaction,
  assertNumbersAllowed,
  continueTransaction,
  type OpenTransaction,
  startTransaction,
} from './transactions.ts';

/** What both the store and a transaction's view can do. */
export type DataView = Omit<TransactionView, 'commit' | 'abort'>;

/** One call of a command of this part. */
export interface Call {
  readonly context: CommandContext;
  readonly node: ServerNode;
  readonly services: CommandServices;
  readonly command: Document;
  readonly db: string;
  /** The store, a transaction's own view, or a snapshot. */
  readonly view: DataView;
  readonly data: DataStore;
  readonly session: Session | null;
  readonly transaction: OpenTransaction | null;
  /** Set when a retryable write's statements must be recorded and answered from history. */
  readonly retryable: { readonly session: Session; readonly txnNumber: Long } | null;
  /** The time a snapshot read was made at, for the reply. */
  readonly atClusterTime: Timestamp | null;
  /** The newest optime this call wrote. */
  lastWrite: OpTime | null;
}

/** What a command says about itself, and how it runs. */
export interface CommandDefinition {
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly adminOnly?: boolean;
  readonly auth: CommandSpec['auth'];
  readonly access: CommandSpec['access'];
  /** Argument rules; absent: lax. */
  readonly shape?: Shape;
  /** The name argument errors use, where it isn't the command's. */
  readonly struct?: string;
  /** May run inside a multi-document transaction. */
  readonly inTransaction?: boolean;
  /** Takes `txnNumber` outside transactions. */
  readonly retryable?: boolean;
  /** Takes readConcern levels other than local. */
  readonly readConcern?: boolean;
  run(call: Call): Promise<Document> | Document;
}

/** Makes the spec of a command from its definition. */
export function command(definition: CommandDefinition): CommandSpec {
  return {
    name: definition.name,
    ...(definition.aliases === undefined ? {} : { aliases: definition.aliases }),
    ...(definition.adminOnly === undefined ? {} : { adminOnly: definition.adminOnly }),
    auth: definition.auth,
    access: definition.access,
    run: async (context) => {
      try {
        return await runCommand(definition, context);
      } catch (failure) {
        throw namedBySeries(failure, context.node.version);
      }
    },
  };
}

/** Argument errors have names since 8.0. */
const ARGUMENT_NAMES: Readonly<Record<number, string>> = {
  40413: 'IDLDuplicateField',
  40414: 'IDLFailedToParse',
  40415: 'IDLUnknownField',
};

function namedBySeries(failure: unknown, version: string): unknown {
  if (!(failure instanceof ServerError) || Number.parseInt(version, 10) < 8) return failure;
  const name = ARGUMENT_NAMES[failure.code];
  return name === undefined ? failure : new ServerError(failure.code, name, failure.message, failure.extra);
}

async function runCommand(definition: CommandDefinition, context: CommandContext): Promise<Document> {
  const { command: given, node } = context;
  if (definition.shape) checkShape(definition.struct ?? definition.name, given, definition.shape, true);
  maxTimeMillis(given['maxTimeMS']);
  const services = createCommandServices(node);
  if ((toNumber(given['maxTimeMS']) ?? 0) > 0) services.failpoints.timeOut();
  const session = services.sessions.ofCommand(context);
  const operation = services.operations.of(context);
  if (operation && session) operation.sessionKey = session.key;
  if (given['autocommit'] !== undefined) return runInTransaction(definition, context, services, session);
  if (given['startTransaction'] !== undefined) {
    throw fail(72, "'startTransaction' field requires 'autocommit' field to also be specified");
  }
  const call = makeCall(definition, context, services, session);
  checkWriteConcern(given['writeConcern'], node.replication);
  throwIfAborted(context.signal);
  const writes = definition.access === 'write';
  if (writes) await unlocked(call);
  const reply = await (writes ? retryConflicts(call, () => definition.run(call)) : definition.run(call));
  await sleepAsCodeDid(context.signal);
  await confirmLinearizable(call);
  return reply;
}

/** The client's code may have wanted to sleep while the command ran: it does now, where it can be interrupted. */
async function sleepAsCodeDid(signal: AbortSignal): Promise<void> {
  const slept = takeSlept();
  if (slept === 0) return;
  await pause(slept, signal);
  throwIfAborted(signal);
}

/** Writes wait while `fsync` holds its lock. */
async function unlocked(call: Call): Promise<void> {
  const { fsync } = call.services;
  while (fsync.locks > 0 && call.db !== 'local') {
    await fsync.released.wait(LOCK_WAIT, call.context.signal);
    throwIfAborted(call.context.signal);
  }
}

/** A waiting write looks again this often even if nobody tells it. */
const LOCK_WAIT = 60_000;

function makeCall(
  definition: CommandDefinition,
  context: CommandContext,
  services: CommandServices,
  session: Session | null,
): Call {
  const { node } = context;
  const number = numberOf(context);
  let retryable: Call['retryable'] = null;
  if (number !== null && session !== null) {
    assertNumbersAllowed(context);
    if (!definition.retryable) {
      throw fail(
        50768,
        'txnNumber may only be provided for multi-document transactions and retryable write commands. ' +
          `autocommit:false was not provided, and ${definition.name} is not a retryable write command.`,
      );
    }
    enterRetryable(session, number.value);
    retryable = { session, txnNumber: number.long };
  }
  const snapshot = snapshotFor(definition, context, services);
  return {
    context,
    node,
    services,
    command: context.command,
    db: context.db,
    view: snapshot?.view ?? node.data,
    data: node.data,
    session,
    transaction: null,
    retryable,
    atClusterTime: snapshot?.time ?? null,
    lastWrite: null,
  };
}

function snapshotFor(definition: CommandDefinition, context: CommandContext, services: CommandServices) {
  const concern = readLevel(context.command['readConcern']);
  if (concern.level !== undefined && concern.level !== 'local' && !definition.readConcern) {
    if (definition.access === 'write' || concern.level === 'snapshot') {
      throw fail(
        72,
        `Command ${definition.name} does not support { readConcern: { level: "${concern.level}", provenance: ` +
          '"clientSupplied" } } :: caused by :: read concern not supported',
      );
    }
  }
  if (concern.level !== 'snapshot') {
    if (concern.atClusterTime) {
      throw fail(72, "readConcern.atClusterTime must be used with level 'snapshot'");
    }
    return null;
  }
  if (context.node.replication === null) {
    throw fail(123, 'node needs to be a replica set member to use readConcern: snapshot');
  }
  return concern.atClusterTime
    ? services.snapshots.at(context, concern.atClusterTime)
    : services.snapshots.open(context);
}

// ── transactions ───────────────────────────────────────────────────────────────────────────────────────────────────

async function runInTransaction(
  definition: CommandDefinition,
  context: CommandContext,
  services: CommandServices,
  session: Session | null,
): Promise<Document> {
  const { command: given, node } = context;
  const number = numberOf(context);
  if (given['autocommit'] !== false) {
    throw fail(72, 'Specifying autocommit=true is not allowed.');
  }
  if (session === null || number === null) {
    throw fail(72, "'autocommit' field requires a transaction number to also be specified");
  }
  assertNumbersAllowed(context);
  const call: Call = {
    context,
    node,
    services,
    command: given,
    db: context.db,
    view: node.data,
    data: node.data,
    session,
    transaction: null,
    retryable: null,
    atClusterTime: null,
    lastWrite: null,
  };
  if (ENDS.has(definition.name)) return definition.run(call);
  assertPrimaryForTransaction(context);
  const transaction = enterTransaction(definition, context, session, number.value);
  try {
    return await runStatement(definition, call, session, transaction);
  } catch (failure) {
    if (session.transaction === transaction) abortTransaction(session);
    throw context.signal.aborted ? interruption(context.signal) : failure;
  }
}

const ENDS: ReadonlySet<string> = new Set(['commitTransaction', 'abortTransaction']);

function assertPrimaryForTransaction(context: CommandContext): void {
  const { replication } = context.node;
  if (replication === null || replication.isWritablePrimary()) return;
  throw fail(10107, 'Multi-document transactions are only allowed on replica set primaries.', {
    topologyVersion: replication.topologyVersion(),
  });
}

function enterTransaction(
  definition: CommandDefinition,
  context: CommandContext,
  session: Session,
  txnNumber: bigint,
): OpenTransaction {
  const { command: given } = context;
  const starts = given['startTransaction'];
  if (starts !== undefined && starts !== true) {
    throw fail(72, 'Specifying startTransaction=false is not allowed.');
  }
  const refused = unsupported(definition, context.db);
  const concern = readLevel(given['readConcern']);
  if (starts === true) {
    if (refused) throw refused;
    if (concern.level !== undefined && !TRANSACTION_LEVELS.has(concern.level)) {
      throw fail(
        72,
        'The readConcern level must be either "local" (default), "majority" or "snapshot" in order to run in a transaction',
      );
    }
    return startTransaction(context, session, txnNumber, given['readConcern'] ?? {});
  }
  const transaction = continueTransaction(session, txnNumber);
  const misplaced =
    given['readConcern'] === undefined || (concern.level === undefined && !concern.afterClusterTime)
      ? null
      : fail(72, 'Only the first command in a transaction may specify a readConcern');
  const error = refused ?? misplaced;
  if (error === null) return transaction;
  abortTransaction(session);
  throw error;
}

const TRANSACTION_LEVELS: ReadonlySet<string> = new Set(['local', 'majority', 'snapshot']);

function unsupported(definition: CommandDefinition, db: string): Error | null {
  if (!definition.inTransaction) {
    return fail(263, `Cannot run '${definition.name}' in a multi-document transaction.`);
  }
  if (db === 'local' || (db === 'config' && definition.access === 'write')) {
    return fail(263, `Cannot run command against the '${db}' database in a transaction.`);
  }
  return null;
}

async function runStatement(
  definition: CommandDefinition,
  call: Call,
  session: Session,
  transaction: OpenTransaction,
): Promise<Document> {
  if (call.command['writeConcern'] !== undefined) {
    throw fail(72, 'writeConcern is not allowed within a multi-statement transaction');
  }
  transaction.statements += 1;
  const snapshot = transaction.readConcern['level'] === 'snapshot' ? transaction.readTimestamp : null;
  const inside: Call = { ...call, view: transaction.view, transaction, atClusterTime: snapshot };
  const reply = await definition.run(inside);
  const ownError = reply['writeErrors'] !== undefined || Number(reply['nErrors'] ?? 0) > 0;
  if (session.transaction !== transaction && !ownError) continueTransaction(session, session.txnNumber);
  return reply;
}

// ── writing ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The context of one statement's write. Statements of retryable writes carry their session fields. */
export function writeContext(call: Call, stmtId = 0): WriteContext {
  const { retryable, transaction } = call;
  return {
    stamp: stampFor(call),
    wall: call.node.now(),
    ...(call.command['bypassDocumentValidation'] === true ? { bypassDocumentValidation: true } : {}),
    ...(retryable === null || transaction !== null
      ? {}
      : { session: { lsid: retryable.session.lsid, txnNumber: retryable.txnNumber, stmtId } }),
  };
}

/** Optimes for this call's writes: the member's, or the local clock for what is not replicated. */
export function stampFor(call: Call): Stamp {
  const { replication } = call.node;
  return replication === null || call.db === 'local' ? call.services.localStamp : replication.stamp;
}

/** Notes what a write did, for the reply's optime. */
export function noteWrite<T extends WriteOutcome>(call: Call, outcome: T): T {
  const last = outcome.entries.at(-1);
  if (last) call.lastWrite = { ts: last.ts, t: last.t };
  return outcome;
}

/** `electionId` and `opTime` of a write's reply on a replica set; empty elsewhere. */
export function writeStamp(call: Call): Document {
  const { replication } = call.node;
  if (replication === null || call.transaction !== null) return {};
  const opTime = call.lastWrite ?? replication.lastApplied();
  return {
    electionId: replication.electionId() ?? undefined,
    ...(opTime === null ? {} : { opTime: { ts: opTime.ts, t: opTime.t } }),
  };
}

/** A linearizable read counts only when a no-op written after it is committed by a majority. */
async function confirmLinearizable(call: Call): Promise<void> {
  const { replication } = call.node;
  if (replication === null || readLevel(call.command['readConcern']).level !== 'linearizable') return;
  replication.assertWritable(call.db);
  const noop = call.data.appendNoop(
    { msg: 'linearizable read' },
    { stamp: replication.stamp, wall: call.node.now() },
  );
  const error = await replication.awaitWriteConcern(
    { ts: noop.ts, t: noop.t },
    { w: 'majority' },
    call.context.signal,
  );
  if (error !== null) throw fail(Number(error['code']), String(error['errmsg']));
}

// ── privileges ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Privileges on the collection a command names first (`''`: the whole database). */
export function onCollection(...actions: string[]): (context: CommandContext) => readonly Privilege[] {
  return (context) => {
    const name: unknown = context.command[Object.keys(context.command)[0]!];
    return [{ resource: { db: context.db, collection: typeof name === 'string' ? name : '' }, actions }];
  };
}

/** Privileges on the command's database. */
export function onDatabase(...actions: string[]): (context: CommandContext) => readonly Privilege[] {
  return (context) => [{ resource: { db: context.db, collection: '' }, actions }];
}

/** Privileges on the cluster. */
export function onCluster(...actions: string[]): (context: CommandContext) => readonly Privilege[] {
  return () => [{ resource: { cluster: true }, actions }];
}

/** For what any user may do, but nobody without login: nothing for users, for others a privilege they can't have. */
export function loginOnly(context: CommandContext): readonly Privilege[] {
  return context.connection.users.length > 0 ? [] : [{ resource: { cluster: true }, actions: ['internal'] }];
}

/** True when the caller holds the privilege; always without access control. */
export function mayDo(call: Call, wanted: Privilege): boolean {
  return call.node.allows?.(call.context.connection, [wanted]) ?? true;
}

/** One privilege on one collection. */
export function privilege(db: string, collection: string, ...actions: string[]): Privilege {
  return { resource: { db, collection }, actions };
}

/** Whether a reply number must be an Int32: plain numbers outside int32 would travel as doubles. */
export function count(value: number): Int32 | Long {
  return value <= 0x7fffffff ? new Int32(value) : Long.fromNumber(value);
}
