import { CompiledQuery, type DatabaseConnection, Kysely, PostgresDialect, PostgresDriver, sql } from 'kysely';
import pg from 'pg';
import { BelayError } from '../base/error.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type { Clock } from '../engine/ports.ts';
import type { Dialect } from './dialect.ts';
import { invalidStoreUrl, storeFull, storeLocked } from './errors.ts';
import type { Tables } from './schema.ts';

/** Connections for reads and for writers in line. Writers go one at a time, so more would only wait inside the database. */
const POOL_SIZE = 8;
const CONNECT_PATIENCE: Millis = 10 * SECOND;
/** One statement, the wait for the write lock included; then `StoreLocked`. */
const STATEMENT_PATIENCE: Millis = 30 * SECOND;
/** A control plane that hangs inside a transaction (a paused machine) loses it, so that the others can go on. */
const IDLE_IN_TRANSACTION: Millis = 15 * SECOND;
/** Wait before a lost listening connection is made again, and time between two signs of life on it. */
const LISTEN_RETRY: Millis = SECOND;
const LISTEN_HEARTBEAT: Millis = 10 * SECOND;
const HEARTBEAT_PATIENCE: Millis = 5 * SECOND;

const CHANNEL = 'belay_changes';
/** First half of the key of the write lock; the second is the schema, so installations do not wait for each other. */
const LOCK_CLASS = 0x42454c41;
const DEFAULT_SCHEMA = 'belay';

const INT8_OID = 20;

/**
 * Opens a PostgreSQL database (13 or newer). Everything lives in one schema (`?schema=`, default `belay`), which is
 * made when it is missing. The connection must be a direct one or a session pool: LISTEN and session settings do not
 * survive a transaction pool. `StoreUnavailable` (later), `StoreRefused` (never).
 */
export async function openPostgres(url: string, options: { readonly clock: Clock }): Promise<Dialect> {
  const target = parseUrl(url);
  const pool = new pg.Pool({ ...target.client, max: POOL_SIZE, idleTimeoutMillis: 60 * SECOND });
  // A connection that dies, idle or in use, is replaced at the next use; without listeners it would end the process.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => void client.on('error', () => undefined));
  try {
    await makeSchema(pool, target.schema);
  } catch (failure) {
    await pool.end();
    throw translate(failure, target.where, false);
  }
  return {
    name: 'postgres',
    where: target.where,
    db: new Kysely<Tables>({ dialect: new WriteLockDialect(pool, target.schema) }),
    types: {
      text: sql`text collate "C"`,
      bigint: sql`bigint`,
      blob: sql`bytea`,
      serial: sql`bigint generated always as identity primary key`,
    },
    announce: sql`pg_notify(${CHANNEL}, ${target.schema})`,
    listen: (wake) => listen(target, options.clock, wake),
    translate: (failure, committing) => translate(failure, target.where, committing),
    transient,
  };
}

interface Target {
  readonly client: pg.ClientConfig;
  readonly schema: string;
  readonly where: string;
}

function parseUrl(text: string): Target {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw invalidStoreUrl('it is not a URL');
  }
  const schema = url.searchParams.get('schema') ?? DEFAULT_SCHEMA;
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(schema)) throw invalidStoreUrl('the schema must be a lower-case name');
  url.searchParams.delete('schema');
  const host = url.searchParams.get('host') ?? url.hostname;
  return {
    client: {
      connectionString: url.toString(),
      application_name: 'belay',
      connectionTimeoutMillis: CONNECT_PATIENCE,
      keepAlive: true,
      types: { getTypeParser: parserOf } as pg.CustomTypesConfig,
    },
    schema,
    where: `postgres ${host === '' ? 'local' : host}${url.port === '' ? '' : `:${url.port}`}${url.pathname}`,
  };
}

/** 64-bit integers as numbers, as SQLite gives them: versions, counts and times stay below 2^53. */
const parserOf: pg.CustomTypesConfig['getTypeParser'] = (oid: number, format?: 'text' | 'binary') =>
  oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format as 'text');

async function makeSchema(pool: pg.Pool, schema: string): Promise<void> {
  const there = async (): Promise<boolean> =>
    (await pool.query('select 1 from pg_namespace where nspname = $1', [schema])).rows.length > 0;
  // Looked up first: a role that may not create schemas can use one that an administrator made.
  if (await there()) return;
  try {
    await pool.query(`create schema if not exists ${pg.escapeIdentifier(schema)}`);
  } catch (failure) {
    // Two processes that start at once can meet inside "if not exists".
    if (!(await there())) throw failure;
  }
}

/** kysely's dialect with two differences: sessions are set up, and a transaction holds the write lock from its start. */
class WriteLockDialect extends PostgresDialect {
  readonly #pool: pg.Pool;
  readonly #schema: string;

  constructor(pool: pg.Pool, schema: string) {
    super({ pool });
    this.#pool = pool;
    this.#schema = schema;
  }

  override createDriver(): PostgresDriver {
    const schema = this.#schema;
    return new WriteLockDriver({
      pool: this.#pool,
      onCreateConnection: (connection) => setUp(connection, schema),
    });
  }
}

async function setUp(connection: DatabaseConnection, schema: string): Promise<void> {
  const settings = `select set_config('search_path', $1, false), set_config('statement_timeout', $2, false),
    set_config('idle_in_transaction_session_timeout', $3, false),
    set_config('synchronous_commit', case current_setting('synchronous_commit') when 'off' then 'on'
      else current_setting('synchronous_commit') end, false)`;
  const values = [pg.escapeIdentifier(schema), String(STATEMENT_PATIENCE), String(IDLE_IN_TRANSACTION)];
  await connection.executeQuery(CompiledQuery.raw(settings, values));
}

type PostgresConnection = Parameters<PostgresDriver['rollbackTransaction']>[0];

class WriteLockDriver extends PostgresDriver {
  override async beginTransaction(connection: PostgresConnection): Promise<void> {
    // One round trip. Read committed on purpose: what follows the lock must see what the last holder committed.
    const begin = `begin isolation level read committed read write;
      select pg_advisory_xact_lock(${LOCK_CLASS}, hashtext(current_schema()))`;
    try {
      await connection.executeQuery(CompiledQuery.raw(begin));
    } catch (failure) {
      await this.rollbackTransaction(connection);
      throw failure;
    }
  }

  override async rollbackTransaction(connection: PostgresConnection): Promise<void> {
    // On a dead connection this fails, too, and the connection is thrown away; the first failure is the one to tell.
    await super.rollbackTransaction(connection).catch(() => undefined);
  }
}

/** Wakes at every commit of anybody that changed objects; after a lost connection once it is back. */
async function listen(target: Target, clock: Clock, wake: () => void): Promise<() => Promise<void>> {
  const listener = new Listener(target, clock, wake);
  await listener.connect();
  return () => listener.close();
}

class Listener {
  readonly #target: Target;
  readonly #clock: Clock;
  readonly #wake: () => void;
  #client: pg.Client | undefined;
  #cancel: () => void = () => undefined;
  #closed = false;

  constructor(target: Target, clock: Clock, wake: () => void) {
    this.#target = target;
    this.#clock = clock;
    this.#wake = wake;
  }

  async connect(): Promise<void> {
    const client = new pg.Client({ ...this.#target.client, query_timeout: HEARTBEAT_PATIENCE });
    this.#client = client;
    client.on('notification', (message) => {
      if (message.payload === this.#target.schema) this.#wake();
    });
    client.on('error', () => this.#lost(client));
    client.on('end', () => this.#lost(client));
    await client.connect();
    await client.query(`listen ${CHANNEL}`);
    this.#later(LISTEN_HEARTBEAT, () => this.#beat(client));
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel();
    await this.#client?.end().catch(() => undefined);
  }

  /** A half-dead connection delivers nothing and says nothing: ask it now and then. */
  #beat(client: pg.Client): void {
    client.query('select 1').then(
      () => this.#later(LISTEN_HEARTBEAT, () => this.#beat(client)),
      () => this.#lost(client),
    );
  }

  #lost(client: pg.Client): void {
    if (this.#closed || client !== this.#client) return;
    this.#client = undefined;
    client.end().catch(() => undefined);
    this.#later(LISTEN_RETRY, () => this.#again());
  }

  #again(): void {
    this.connect().then(
      // Notifications were missed meanwhile.
      () => this.#wake(),
      () => {
        if (this.#client !== undefined) this.#lost(this.#client);
      },
    );
  }

  #later(wait: Millis, call: () => void): void {
    this.#cancel();
    if (!this.#closed) this.#cancel = this.#clock.at(this.#clock.now() + wait, call);
  }
}

const codeOf = (failure: unknown): string => {
  const code = (failure as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
};

/** Connection lost, server starting or stopping, out of connections or memory, a standby. */
const UNAVAILABLE = /^(08...|57P0.|53[23]00|25006|40...|E[A-Z_]+)$/;
const LOST_CONNECTION =
  /connection (terminated|ended|error)|timeout exceeded|not queryable|client was closed/i;
/** Wrong password, no such database, missing rights. */
const REFUSED = /^(28...|3D000|42501)$/;

/** An idle connection that died (a restart of the server, a failover) shows only when it is used. */
const DIED_IDLE = /^(57P0[12]|ECONNRESET|EPIPE)$/;

function transient(failure: unknown, committing: boolean): boolean {
  const code = codeOf(failure);
  if (code === '40001' || code === '40P01') return true;
  const message = failure instanceof Error ? failure.message : '';
  return !committing && (DIED_IDLE.test(code) || /connection terminated|not queryable/i.test(message));
}

function translate(failure: unknown, where: string, committing: boolean): BelayError {
  if (failure instanceof BelayError) return failure;
  const code = codeOf(failure);
  const message = failure instanceof Error && failure.message !== '' ? failure.message : code;
  if (code === '53100') return storeFull(where, failure);
  if (code === '57014' || code === '55P03') return storeLocked(where, failure);
  if (REFUSED.test(code)) {
    return new BelayError('StoreRefused', `${where} does not let us in: ${message}`, {
      retry: 'never',
      fix: 'Check user, password, database and the rights on the schema in the URL of the store.',
      cause: failure,
    });
  }
  if (UNAVAILABLE.test(code) || LOST_CONNECTION.test(message)) {
    return new BelayError('StoreUnavailable', `${where} cannot be reached: ${message}`, {
      // The commit was sent and its answer never came: it may stand.
      retry: committing ? 'unknown-outcome' : 'later',
      fix: 'Check that the database runs and can be reached from here; belay goes on by itself once it can.',
      cause: failure,
    });
  }
  return new BelayError('StoreFailed', `${where}: ${message}`, { retry: 'never', cause: failure });
}
