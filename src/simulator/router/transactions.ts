/** Transactions through a router: which shards take part, and that only one of them may have writes. */
import type { Document } from 'bson';
import { fail } from '../commands/errors.ts';

/** One open or just ended transaction. */
export interface RoutedTransaction {
  readonly number: bigint;
  readonly readConcern: Document | undefined;
  /** Shards that take part, and whether something was written there. */
  readonly participants: Map<string, { wrote: boolean }>;
  state: 'open' | 'committed' | 'aborted';
}

/** Limits how many sessions are remembered. */
const MAX_SESSIONS = 10_000;

/** The transactions of one router, by session. */
export class RoutedTransactions {
  readonly #bySession = new Map<string, RoutedTransaction>();

  /** Begins a transaction, or goes on with the one of that number. 251 when it is not known here. */
  enter(
    session: string,
    number: bigint,
    starts: boolean,
    readConcern: Document | undefined,
  ): RoutedTransaction {
    const known = this.#bySession.get(session);
    if (starts) {
      if (known !== undefined && number < known.number)
        throw fail(225, `txnNumber ${number} is less than last txnNumber ${known.number} seen in session`);
      const fresh: RoutedTransaction = { number, readConcern, participants: new Map(), state: 'open' };
      this.#bySession.delete(session);
      this.#bySession.set(session, fresh);
      this.#limit();
      return fresh;
    }
    if (known === undefined || known.number !== number || known.state === 'aborted')
      throw fail(251, `cannot continue txnId ${number} for session ${session}`);
    return known;
  }

  find(session: string, number: bigint): RoutedTransaction | undefined {
    const known = this.#bySession.get(session);
    return known?.number === number ? known : undefined;
  }

  #limit(): void {
    for (const [session, { state }] of this.#bySession) {
      if (this.#bySession.size <= MAX_SESSIONS) return;
      if (state !== 'open') this.#bySession.delete(session);
    }
  }
}

/**
 * Notes that a shard takes part; true when it is new to the transaction. Writes on a second shard are refused: this router
 * commits on one shard only, and half a transaction would be worse than none.
 */
export function takePart(transaction: RoutedTransaction, shard: string, writes: boolean): boolean {
  const writer = [...transaction.participants].find(([, { wrote }]) => wrote)?.[0];
  if (writes && writer !== undefined && writer !== shard)
    throw fail(
      263,
      `the simulator's router commits transactions on one shard only; this one has writes on ${writer} and would write on ${shard}`,
    );
  const present = transaction.participants.get(shard);
  transaction.participants.set(shard, { wrote: writes || present?.wrote === true });
  return present === undefined;
}

/** The shard a client may name later to learn how the transaction ended. */
export function recoveryShard({ participants }: RoutedTransaction): string | undefined {
  const writer = [...participants].find(([, { wrote }]) => wrote);
  return (writer ?? [...participants][0])?.[0];
}
