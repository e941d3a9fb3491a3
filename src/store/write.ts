import type { Dialect, Tx } from './dialect.ts';
import type { StoreLimits } from './limits.ts';

/** One write transaction under way, with what it has done so far. */
export class Write {
  readonly tx: Tx;
  readonly dialect: Dialect;
  readonly limits: StoreLimits;
  readonly now: number;
  /** Rows written, changed or deleted; none means that nothing is counted as a write. */
  rows = 0;
  /** Objects changed: watchers are to be woken. */
  changes = 0;

  constructor(tx: Tx, dialect: Dialect, limits: StoreLimits, now: number) {
    this.tx = tx;
    this.dialect = dialect;
    this.limits = limits;
    this.now = now;
  }

  /** The next resourceVersion. Only given under the write lock, so its order is the order of commits. */
  async nextVersion(): Promise<number> {
    this.changes += 1;
    const { version } = await this.tx
      .updateTable('sequence')
      .set((eb) => ({ version: eb('version', '+', 1) }))
      .where('id', '=', 1)
      .returning(['version', this.dialect.announce.as('announced')])
      .executeTakeFirstOrThrow();
    return version;
  }

  count(rows: number | bigint | undefined): number {
    this.rows += Number(rows ?? 0);
    return Number(rows ?? 0);
  }
}

/** Holds the limits over whole tables; run now and then inside a write that happens anyway. */
export async function housekeep(write: Write): Promise<void> {
  await trimChanges(write);
  await trimEvents(write);
  await trimJournal(write);
}

async function trimChanges({ tx, limits }: Write): Promise<void> {
  const { version, kept } = await tx.selectFrom('sequence').selectAll().executeTakeFirstOrThrow();
  const floor = version - limits.changes;
  if (floor <= kept) return;
  await tx.deleteFrom('changes').where('version', '<=', floor).execute();
  await tx.updateTable('sequence').set({ kept: floor }).where('id', '=', 1).execute();
}

async function trimEvents({ tx, limits }: Write): Promise<void> {
  const oldest = await tx
    .selectFrom('events')
    .select('at')
    .orderBy('at', 'desc')
    .limit(1)
    .offset(limits.events)
    .executeTakeFirst();
  if (oldest !== undefined) await tx.deleteFrom('events').where('at', '<=', oldest.at).execute();
}

async function trimJournal({ tx, limits }: Write): Promise<void> {
  const oldest = await tx
    .selectFrom('journal')
    .select('seq')
    .orderBy('seq', 'desc')
    .limit(1)
    .offset(limits.journal)
    .executeTakeFirst();
  if (oldest === undefined) return;
  await tx.deleteFrom('journal').where('seq', '<=', oldest.seq).where('outcome', 'is not', null).execute();
}

/** Splits rows so that no statement passes a database's limit of parameters. */
export function* chunks<T>(items: readonly T[], size = 500): Generator<readonly T[]> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size);
}
