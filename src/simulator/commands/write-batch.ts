/** What insert, update, delete and bulkWrite share: statements in order, their errors, and answers from a session's history. */
import type { Document } from 'bson';
import { toBoolean, toNumber } from './arguments.ts';
import type { Call } from './call.ts';
import { isConflict, retryConflicts } from './conflicts.ts';
import { asServerError, fail, interruption, throwIfAborted } from './errors.ts';
import type { RecordedStatement } from './sessions.ts';
import { abortTransaction } from './transactions.ts';

/** Statements in one write command. */
export const MAX_BATCH = 100_000;

/** Statements run in one turn of the event loop: heartbeats must not wait for a long batch. */
const TURN = 1_000;

/** Errors that end a whole write command instead of becoming an entry of `writeErrors`. */
const ENDS_COMMAND: ReadonlySet<number> = new Set([
  50, 91, 112, 189, 237, 262, 290, 10107, 11600, 11601, 11602, 13388, 13435, 13436,
]);

/** What happened to one batch. */
export interface BatchOutcome {
  readonly writeErrors: Document[];
  readonly retriedStmtIds: number[];
}

/** Refuses empty and oversized batches (16). */
export function checkBatchSize(size: number): void {
  if (size >= 1 && size <= MAX_BATCH) return;
  throw fail(16, `Write batch sizes must be between 1 and ${MAX_BATCH}. Got ${size} operations.`);
}

/** One statement: runs it now, or tells what it did the first time. */
export interface Statement {
  run(stmtId: number): void;
  /** Counts a statement that history has; `stmtId` names it in `retriedStmtIds`. */
  replay(recorded: RecordedStatement, stmtId: number): void;
}

/** Runs statements in order until the end or, when ordered, the first error. */
export async function runBatch(
  call: Call,
  size: number,
  statement: (index: number) => Statement,
  ordered = call.command['ordered'] === undefined || toBoolean(call.command['ordered']),
): Promise<BatchOutcome> {
  const outcome: BatchOutcome = { writeErrors: [], retriedStmtIds: [] };
  for (let index = 0; index < size; index += 1) {
    if (index > 0 && index % TURN === 0) await new Promise(setImmediate);
    if (!clientLeft(call.context.signal)) throwIfAborted(call.context.signal);
    try {
      const run = () => runStatement(call, statement(index), stmtIdOf(call.command, index), outcome);
      // Most statements meet nobody: only those that do pay for waiting.
      if (!ranAlone(call, run)) await retryConflicts(call, run);
    } catch (failure) {
      outcome.writeErrors.push(writeError(call, index, failure));
      if (ordered || call.transaction !== null) break;
    }
  }
  return outcome;
}

/** A write goes on to its end when only its client went away: 279. */
function clientLeft(signal: AbortSignal): boolean {
  return signal.aborted && interruption(signal).code === 279;
}

/** Tries at once; false when an open transaction is in the way and the statement has to wait. */
function ranAlone(call: Call, run: () => void): boolean {
  try {
    run();
    return true;
  } catch (failure) {
    if (isConflict(failure) && call.transaction === null) return false;
    throw failure;
  }
}

function runStatement(call: Call, statement: Statement, stmtId: number, outcome: BatchOutcome): void {
  const recorded = call.retryable?.session.statements.get(stmtId);
  if (recorded !== undefined) {
    statement.replay(recorded, stmtId);
    outcome.retriedStmtIds.push(stmtId);
    return;
  }
  if (call.retryable !== null) injectTransactionalFailure(call);
  statement.run(stmtId);
}

/** The fail point on every numbered write: closes the connection, or fails before anything is written. */
export function injectTransactionalFailure(call: Call): void {
  const data = call.services.failpoints.enter('onPrimaryTransactionalWrite');
  if (data === null) return;
  if (data['closeConnection'] === undefined || toBoolean(data['closeConnection'])) {
    call.context.connection.close();
  }
  const code = toNumber(data['failBeforeCommitExceptionCode']);
  if (code !== undefined) {
    throw fail(code, 'Failing write due to failpoint. The write must not be reflected.');
  }
}

function writeError(call: Call, index: number, failure: unknown): Document {
  const error = asServerError(failure);
  if (ENDS_COMMAND.has(error.code)) throw failure;
  if (call.transaction !== null && call.session !== null) abortTransaction(call.session);
  return { index, code: error.code, ...error.extra, errmsg: error.message };
}

function stmtIdOf(command: Document, index: number): number {
  const list: unknown = command['stmtIds'];
  if (Array.isArray(list)) return toNumber(list[index]) ?? index;
  return (toNumber(command['stmtId']) ?? 0) + index;
}

/** `retriedStmtIds` and `writeErrors` of a reply, where there are any. */
export function batchFields(outcome: BatchOutcome): Document {
  return {
    ...(outcome.writeErrors.length === 0 ? {} : { writeErrors: outcome.writeErrors }),
    ...(outcome.retriedStmtIds.length === 0 ? {} : { retriedStmtIds: outcome.retriedStmtIds }),
  };
}

/** Multi-document writes can't be repeated safely (72). */
export function checkRetryable(call: Call, multi: boolean): void {
  if (multi && call.retryable !== null) {
    throw fail(72, 'Cannot use (or request) retryable writes with multi=true');
  }
}
