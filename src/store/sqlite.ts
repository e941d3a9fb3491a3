import { chmodSync, closeSync, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import SqliteDatabase from 'better-sqlite3';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  sql,
} from 'kysely';
import { BelayError } from '../base/error.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type { Clock } from '../engine/ports.ts';
import type { Dialect } from './dialect.ts';
import { storeDamaged, storeFull, storeLocked } from './errors.ts';
import type { Tables } from './schema.ts';

type Database = SqliteDatabase.Database;
type Statement = SqliteDatabase.Statement<unknown[], unknown>;

/** How long a writer stands in line behind another process before `StoreLocked`. */
const LOCK_PATIENCE: Millis = 10 * SECOND;
/** First and longest wait between two tries for the lock. */
const LOCK_RETRY: { readonly first: Millis; readonly most: Millis } = { first: 1, most: 25 };
/** Commits of other processes are noticed this late; SQLite has no way to be told. Own commits wake at once. */
const FOREIGN_POLL: Millis = SECOND;
/**
 * SQLite answers at once, so a queue of callers would go through promises alone and the loop would not turn until
 * all are served. After this long the next caller waits for the loop first: sockets and timers get their turn.
 */
const TURN: Millis = 5;
/** Prepared statements kept; the shared code has about fifty, lists of variable length make a few more. */
const STATEMENT_CACHE = 200;

export interface SqliteOptions {
  readonly clock: Clock;
  /** Instead of the usual ten seconds, for tests. */
  readonly lockPatience?: Millis;
  /** How long transactions may follow one another before others get their turn on the loop. */
  readonly turn?: Millis;
  /** Largest size of the file in pages of 4 KiB, for tests of a full disk. */
  readonly maxPages?: number;
}

/** Opens (and makes, 0600 in a folder 0700) the file, or `:memory:`. `StoreLocked`, `StoreDamaged`, `StoreUnavailable`. */
export async function openSqlite(path: string, options: SqliteOptions): Promise<Dialect> {
  const where = path === ':memory:' ? path : resolve(path);
  const database = await openDatabase(where, options);
  const db = new Kysely<Tables>({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () =>
        new SqliteDriver(database, options.lockPatience ?? LOCK_PATIENCE, options.turn ?? TURN),
      createIntrospector: (handle) => new SqliteIntrospector(handle),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  });
  return {
    name: 'sqlite',
    where,
    db,
    types: {
      text: sql`text`,
      bigint: sql`integer`,
      blob: sql`blob`,
      serial: sql`integer primary key autoincrement`,
    },
    announce: sql`0`,
    listen: async (wake) => pollForeignCommits(database, options.clock, wake),
    translate: (failure, committing) => translate(failure, where, committing),
    transient: () => false,
  };
}

async function openDatabase(path: string, options: SqliteOptions): Promise<Database> {
  try {
    if (path !== ':memory:') prepareFile(path);
    // No waiting inside SQLite: that would stop the whole process. `patiently` waits without holding the loop.
    const database = new SqliteDatabase(path, { timeout: 0 });
    await patiently(() => database.pragma('journal_mode = WAL'), options.lockPatience ?? LOCK_PATIENCE);
    // An acknowledged write must survive a power cut, too: the log is synced at every commit.
    database.pragma('synchronous = FULL');
    database.pragma('trusted_schema = OFF');
    if (options.maxPages !== undefined) database.pragma(`max_page_count = ${options.maxPages}`);
    return database;
  } catch (failure) {
    throw translate(failure, path);
  }
}

/** The file holds sealed secrets and token hashes: nobody else reads it. SQLite gives its side files the same mode. */
function prepareFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  closeSync(openSync(path, 'a', 0o600));
  if ((statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o600);
}

function pollForeignCommits(database: Database, clock: Clock, wake: () => void): () => Promise<void> {
  const version = (): unknown => database.pragma('data_version', { simple: true });
  let seen = version();
  let cancel = (): void => undefined;
  const look = (): void => {
    const now = version();
    if (now !== seen) wake();
    seen = now;
    cancel = clock.at(clock.now() + FOREIGN_POLL, look);
  };
  cancel = clock.at(clock.now() + FOREIGN_POLL, look);
  return async () => cancel();
}

/** kysely's driver for better-sqlite3 with three differences: writers lock at the start, waiting frees the loop, statements are kept. */
class SqliteDriver implements Driver {
  readonly #database: Database;
  readonly #connection: SqliteConnection;

  readonly #turn: Millis;
  #turnBegan: number | undefined;

  constructor(database: Database, patience: Millis, turn: Millis) {
    this.#database = database;
    this.#turn = turn;
    this.#connection = new SqliteConnection(database, patience);
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    if (this.#turnBegan === undefined) {
      this.#turnBegan = performance.now();
      setImmediate(() => {
        this.#turnBegan = undefined;
      });
    } else if (performance.now() - this.#turnBegan > this.#turn) await nextTurn();
    return this.#connection;
  }

  async beginTransaction(): Promise<void> {
    await this.#run('begin immediate');
  }

  async commitTransaction(): Promise<void> {
    await this.#run('commit');
  }

  async rollbackTransaction(): Promise<void> {
    // A failed statement (a full disk) may have rolled back already.
    if (this.#database.inTransaction) await this.#run('rollback');
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {
    this.#database.close();
  }

  async #run(text: string): Promise<void> {
    await this.#connection.executeQuery(CompiledQuery.raw(text));
  }
}

class SqliteConnection implements DatabaseConnection {
  readonly #database: Database;
  readonly #patience: Millis;
  readonly #statements = new Map<string, Statement>();

  constructor(database: Database, patience: Millis) {
    this.#database = database;
    this.#patience = patience;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const run = (): QueryResult<R> => this.#execute<R>(query);
    // Inside a transaction the lock is ours already and nothing can be busy.
    return this.#database.inTransaction ? run() : patiently(run, this.#patience);
  }

  #execute<R>(query: CompiledQuery): QueryResult<R> {
    const statement = this.#prepare(query.sql);
    if (statement.reader) return { rows: statement.all(...query.parameters) as R[] };
    const { changes } = statement.run(...query.parameters);
    return { numAffectedRows: BigInt(changes), rows: [] };
  }

  #prepare(text: string): Statement {
    const known = this.#statements.get(text);
    if (known !== undefined) return known;
    if (this.#statements.size >= STATEMENT_CACHE) {
      this.#statements.delete(this.#statements.keys().next().value as string);
    }
    const statement: Statement = this.#database.prepare(text);
    this.#statements.set(text, statement);
    return statement;
  }

  // biome-ignore lint/correctness/useYield: not used by this room; the interface asks for it.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new BelayError('Internal', 'the store does not stream rows', { retry: 'never' });
  }
}

/** Tries again while another process holds the lock, without holding the loop meanwhile. */
async function patiently<T>(call: () => T, patience: Millis): Promise<T> {
  const end = performance.now() + patience;
  for (let wait = LOCK_RETRY.first; ; wait = Math.min(wait * 2, LOCK_RETRY.most)) {
    try {
      return call();
    } catch (failure) {
      if (!isBusy(failure) || performance.now() > end) throw failure;
    }
    await sleep(wait);
  }
}

const codeOf = (failure: unknown): string => {
  const code = (failure as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
};

const isBusy = (failure: unknown): boolean => /^SQLITE_(BUSY|LOCKED)/.test(codeOf(failure));

function translate(failure: unknown, where: string, committing = false): BelayError {
  if (failure instanceof BelayError) return failure;
  const code = codeOf(failure);
  const message = failure instanceof Error ? failure.message : String(failure);
  if (isBusy(failure)) return storeLocked(where, failure);
  if (code === 'SQLITE_FULL' || code === 'ENOSPC' || code === 'EDQUOT') return storeFull(where, failure);
  if (code === 'SQLITE_NOTADB' || code.startsWith('SQLITE_CORRUPT')) return storeDamaged(where, failure);
  if (message === 'The database connection is not open') {
    return new BelayError('StoreUnavailable', 'the store was closed', { retry: 'never', cause: failure });
  }
  if (committing && code.startsWith('SQLITE_IOERR')) {
    // The log was written and could not be synced: after a restart the transaction may be there or not.
    return new BelayError('StoreUnavailable', `${where} could not be synced: ${message}`, {
      retry: 'unknown-outcome',
      fix: 'Check the disk of the store.',
      cause: failure,
    });
  }
  if (/^(SQLITE_(READONLY|CANTOPEN|PERM|IOERR|AUTH)|E[A-Z]+$)/.test(code)) {
    return new BelayError('StoreUnavailable', `${where} cannot be used: ${message}`, {
      retry: 'later',
      fix: 'Check that the folder exists, that its disk is healthy and that this user may write there.',
      cause: failure,
    });
  }
  return new BelayError('StoreFailed', `${where}: ${message}`, { retry: 'never', cause: failure });
}
