/** Multi-document transactions of a session: start, statements, commit, abort, lifetime (5.4). */
import type { Document, Timestamp } from 'bson';
import { SECOND } from '../../base/units.ts';
import type { CommandContext, OpTime, TransactionView } from '../contracts.ts';
import { toNumber } from './arguments.ts';
import { fail } from './errors.ts';
import { renumber, type Session, sessionText } from './sessions.ts';

/** Seconds a transaction may stay open (transactionLifetimeLimitSeconds). */
const LIFETIME_DEFAULT = 60;

/** A transaction in progress. */
export interface OpenTransaction {
  readonly view: TransactionView;
  readonly startedAt: Date;
  readonly readConcern: Document;
  /** The time it reads at, told to clients that asked for level snapshot. */
  readonly readTimestamp: Timestamp | null;
  statements: number;
  /** Drops the view and its timer without a trace. Does nothing once the transaction ended. */
  discard(): void;
  /** Ends the timer of a transaction that committed. */
  settle(): void;
}

/** Refuses transactions where there can be none: 20 on a standalone. */
export function assertNumbersAllowed(context: CommandContext): void {
  if (context.node.replication === null) {
    throw fail(20, 'Transaction numbers are only allowed on a replica set member or mongos');
  }
}

/** Starts a transaction under this number, ending the session's older one. */
export function startTransaction(
  context: CommandContext,
  session: Session,
  txnNumber: bigint,
  readConcern: Document,
): OpenTransaction {
  if (txnNumber < session.txnNumber) {
    throw fail(
      225,
      `Cannot start transaction ${txnNumber} on session ${sessionText(session)} because a newer ` +
        `${session.kind === 'retryable' ? 'retryable write' : 'transaction'} with txnNumber ${session.txnNumber} ` +
        'has already started on this session.',
    );
  }
  if (txnNumber === session.txnNumber) {
    throw fail(
      50911,
      `Cannot start a transaction at given transaction number ${txnNumber} a transaction with the same number ` +
        `is in state ${stateName(session)}`,
    );
  }
  renumber(session, txnNumber, 'transaction');
  session.transaction = openTransaction(context, session, readConcern);
  return session.transaction;
}

function openTransaction(context: CommandContext, session: Session, readConcern: Document): OpenTransaction {
  const { node } = context;
  const view = node.data.beginTransaction();
  const seconds = toNumber(node.parameters.get('transactionLifetimeLimitSeconds')) ?? LIFETIME_DEFAULT;
  const timer = setTimeout(() => abortTransaction(session), seconds * SECOND);
  timer.unref();
  let ended = false;
  const settle = () => {
    ended = true;
    clearTimeout(timer);
  };
  return {
    view,
    startedAt: node.now(),
    readConcern,
    readTimestamp: node.replication?.lastApplied()?.ts ?? null,
    statements: 0,
    settle,
    discard: () => {
      if (ended) return;
      settle();
      view.abort();
    },
  };
}

/** The session's open transaction of this number, or the refusal that says why there is none. */
export function continueTransaction(session: Session, txnNumber: bigint): OpenTransaction {
  if (txnNumber < session.txnNumber) {
    throw fail(
      225,
      `Cannot continue transaction ${txnNumber} on session ${sessionText(session)} because a newer transaction ` +
        `with txnNumber ${session.txnNumber} has already started on this session.`,
    );
  }
  if (txnNumber > session.txnNumber || session.kind !== 'transaction')
    throw noSuchTransaction(session, txnNumber);
  if (session.status === 'committed') throw committed(txnNumber);
  if (session.status === 'aborted' || session.transaction === null) {
    throw fail(251, `Transaction with { txnNumber: ${txnNumber} } has been aborted.`);
  }
  return session.transaction;
}

/** Ends the session's open transaction without effect. */
export function abortTransaction(session: Session): void {
  if (session.transaction === null) return;
  session.transaction.discard();
  session.transaction = null;
  session.status = 'aborted';
}

/** Commits; a repeated commit gives the first one's optime again. 251, 256, 225 or 112 otherwise. */
export function commitTransaction(
  session: Session,
  txnNumber: bigint,
  write: (transaction: OpenTransaction) => OpTime | null,
): OpTime | null {
  const repeated = txnNumber === session.txnNumber && session.kind === 'transaction';
  if (repeated && session.status === 'committed') return session.commitOpTime;
  const transaction = continueTransaction(session, txnNumber);
  let opTime: OpTime | null;
  try {
    opTime = write(transaction);
  } catch (failure) {
    abortTransaction(session);
    throw failure;
  }
  session.transaction = null;
  transaction.settle();
  session.status = 'committed';
  session.commitOpTime = opTime;
  return opTime;
}

/** 251 for a number the session does not know. */
export function noSuchTransaction(session: Session, txnNumber: bigint): Error {
  return fail(
    251,
    `Given transaction number ${txnNumber} does not match any in-progress transactions. ` +
      `The active transaction number is ${session.txnNumber}`,
  );
}

/** 256 for a number that was committed. */
export function committed(txnNumber: bigint): Error {
  return fail(256, `Transaction with { txnNumber: ${txnNumber} } has been committed.`);
}

function stateName(session: Session): string {
  if (session.kind === 'retryable') return 'TxnState::ExecutedRetryableWrite';
  if (session.status === 'inProgress') return 'TransactionState::InProgress';
  return session.status === 'committed'
    ? 'TransactionState::Committed'
    : 'TransactionState::AbortedWithoutPrepare';
}
