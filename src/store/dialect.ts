import type { Kysely, RawBuilder, Transaction } from 'kysely';
import type { BelayError } from '../base/error.ts';
import type { Tables } from './schema.ts';

export type Db = Kysely<Tables>;
export type Tx = Transaction<Tables>;

/** Everything that differs between the two databases; the rest of the room does not know which one it speaks to. */
export interface Dialect {
  readonly name: 'sqlite' | 'postgres';
  /** For messages: a path, or host and database, never credentials. */
  readonly where: string;
  /**
   * A transaction of this handle holds the one write lock of the store from its start (SQLite: `begin immediate`,
   * PostgreSQL: an advisory lock). So writers stand in line, numbers follow the order of commits, and both
   * databases behave alike: no serialisation failures and no deadlocks to reason about.
   */
  readonly db: Db;
  readonly types: ColumnTypes;
  /** Put beside the new number when changes are written; wakes watchers of other processes on commit. */
  readonly announce: RawBuilder<unknown>;
  /** Calls when other processes committed; returns a stopper. */
  listen(wake: () => void): Promise<() => Promise<void>>;
  /** The failure in our words; `committing`: it happened while the commit was under way. */
  translate(failure: unknown, committing: boolean): BelayError;
  /**
   * True when nothing of it was done and it may simply be run again: the database asks for it, or a connection that
   * had died while idle was used. A connection lost while committing is not among them.
   */
  transient(failure: unknown, committing: boolean): boolean;
}

export interface ColumnTypes {
  readonly text: RawBuilder<unknown>;
  readonly bigint: RawBuilder<unknown>;
  readonly blob: RawBuilder<unknown>;
  /** A growing primary key given by the database. */
  readonly serial: RawBuilder<unknown>;
}
