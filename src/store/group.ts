/**
 * Group commit: writers that stand in line at the same moment share one transaction, and with it the one sync of the
 * disk that makes it durable. Each is all or nothing by a savepoint of its own, in the order of the line; none is
 * acknowledged before the common commit. So a store that can sync 200 times a second still takes thousands of writes.
 */
import { sql } from 'kysely';
import type { BelayError } from '../base/error.ts';
import type { Db, Tx } from './dialect.ts';
import type { Write } from './write.ts';

/** Writers in one transaction: enough that syncing no longer matters, few enough that readers get their turn. */
const GROUP_LIMIT = 64;

export type Work = (write: Write) => Promise<unknown>;

interface Waiting {
  readonly work: Work;
  readonly resolve: (value: unknown) => void;
  readonly reject: (failure: unknown) => void;
}

type Outcome =
  | { readonly kind: 'done'; readonly value: unknown; readonly write: Write }
  | { readonly kind: 'failed'; readonly failure: unknown };

export interface GroupOptions {
  readonly db: Db;
  readonly begin: (tx: Tx) => Write;
  /** The last word inside the transaction: limits over whole tables. */
  readonly finish: (writes: readonly Write[]) => Promise<void>;
  readonly committed: (write: Write) => void;
  readonly translate: (failure: unknown, committing: boolean) => BelayError;
}

/** See the head of this file. */
export class WriteGroups {
  readonly #options: GroupOptions;
  readonly #line: Waiting[] = [];
  #serving = false;

  constructor(options: GroupOptions) {
    this.#options = options;
  }

  /** Runs the work in a transaction. The work's own failure undoes the work alone. */
  run<T>(work: (write: Write) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#line.push({ work, resolve: resolve as (value: unknown) => void, reject });
      if (!this.#serving) void this.#serve();
    });
  }

  async #serve(): Promise<void> {
    this.#serving = true;
    while (this.#line.length > 0) await this.#round();
    this.#serving = false;
  }

  async #round(): Promise<void> {
    const { db, finish, translate, committed } = this.#options;
    let group: readonly Waiting[] = [];
    let outcomes: readonly Outcome[] = [];
    let committing = false;
    try {
      await db.transaction().execute(async (tx) => {
        // Who stands in line now, and not when the lock was asked for.
        group = this.#line.splice(0, GROUP_LIMIT);
        outcomes = await this.#all(tx, group);
        await finish(outcomes.flatMap((outcome) => (outcome.kind === 'done' ? [outcome.write] : [])));
        committing = true;
      });
    } catch (failure) {
      // Not even begun: nobody in line would fare better.
      if (group.length === 0) group = this.#line.splice(0);
      const error = translate(failure, committing);
      for (const { reject } of group) reject(error);
      return;
    }
    group.forEach(({ resolve, reject }, index) => {
      const outcome = outcomes[index] as Outcome;
      if (outcome.kind === 'failed') reject(translate(outcome.failure, false));
      else {
        committed(outcome.write);
        resolve(outcome.value);
      }
    });
  }

  async #all(tx: Tx, group: readonly Waiting[]): Promise<readonly Outcome[]> {
    const { begin } = this.#options;
    const outcomes: Outcome[] = [];
    for (const { work } of group) {
      const write = begin(tx);
      // Alone it needs no savepoint: its failure undoes the transaction.
      if (group.length === 1) outcomes.push({ kind: 'done', value: await work(write), write });
      else outcomes.push(await guarded(tx, work, write));
    }
    return outcomes;
  }
}

async function guarded(tx: Tx, work: Work, write: Write): Promise<Outcome> {
  await sql`savepoint work`.execute(tx);
  try {
    const value = await work(write);
    await sql`release work`.execute(tx);
    return { kind: 'done', value, write };
  } catch (failure) {
    // A full disk may have undone the whole transaction already: then all of the group have failed with it.
    await sql`rollback to work`.execute(tx).catch(() => {
      throw failure;
    });
    await sql`release work`.execute(tx);
    return { kind: 'failed', failure };
  }
}
