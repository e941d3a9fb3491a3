import { sql } from 'kysely';
import type { ColumnTypes, Dialect, Tx } from './dialect.ts';
import { storeNewer } from './errors.ts';

/** One step of the schema. Steps are only ever added; a released one is never changed. */
export interface Migration {
  readonly version: number;
  readonly what: string;
  up(tx: Tx, types: ColumnTypes): Promise<void>;
}

/**
 * Brings the schema up to this program's version, in one transaction under the write lock: of two processes that
 * start at once the second finds the work done. `StoreNewer` (never) when a newer program wrote the store.
 */
export async function migrate(dialect: Dialect, steps: readonly Migration[] = MIGRATIONS): Promise<void> {
  const known = steps.at(-1)?.version ?? 0;
  await dialect.db.transaction().execute(async (tx) => {
    await sql`create table if not exists belay_schema (version integer not null)`.execute(tx);
    const found = await versionOf(tx);
    if (found > known) throw storeNewer(found, known);
    if (found === known) return;
    for (const step of steps.filter((candidate) => candidate.version > found))
      await step.up(tx, dialect.types);
    await sql`delete from belay_schema`.execute(tx);
    await sql`insert into belay_schema (version) values (${known})`.execute(tx);
  });
}

/** 0 for a database that has no schema of ours yet. */
async function versionOf(tx: Tx): Promise<number> {
  const { rows } = await sql<{ version: number }>`select version from belay_schema`.execute(tx);
  return rows[0]?.version ?? 0;
}

/** The steps of this program. */
export const MIGRATIONS: readonly Migration[] = [
  { version: 1, what: 'objects, engine, secrets and tokens', up: createEverything },
  { version: 2, what: 'how long steps were held back', up: addHeldBack },
];

async function createEverything(tx: Tx, types: ColumnTypes): Promise<void> {
  await createObjects(tx, types);
  await createEngine(tx, types);
  await createSecurity(tx, types);
}

async function createObjects(tx: Tx, { text, bigint }: ColumnTypes): Promise<void> {
  await sql`create table sequence (id integer primary key, version ${bigint} not null, kept ${bigint} not null)`.execute(
    tx,
  );
  await sql`insert into sequence (id, version, kept) values (1, 0, 0)`.execute(tx);
  await sql`create table objects (
    kind ${text} not null, namespace ${text} not null, name ${text} not null, uid ${text} not null unique,
    generation ${bigint} not null, version ${bigint} not null,
    labels ${text} not null, annotations ${text} not null, finalizers ${text} not null,
    created_at ${text} not null, deleted_at ${text}, spec ${text} not null, status ${text} not null,
    primary key (kind, namespace, name))`.execute(tx);
  await sql`create table changes (
    version ${bigint} primary key, type ${text} not null, kind ${text} not null, namespace ${text} not null,
    object ${text} not null)`.execute(tx);
}

async function createEngine(tx: Tx, { text, bigint, serial }: ColumnTypes): Promise<void> {
  await sql`create table states (
    uid ${text} primary key, version ${bigint} not null, value ${text} not null)`.execute(tx);
  await sql`create table journal (
    seq ${serial}, id ${text} not null unique, cluster_uid ${text} not null, step ${text} not null,
    target ${text} not null, reason ${text} not null, epoch ${bigint} not null, at ${bigint} not null,
    detail ${text} not null, outcome ${text}, outcome_at ${bigint}, outcome_message ${text})`.execute(tx);
  await sql`create index journal_cluster on journal (cluster_uid, seq)`.execute(tx);
  await sql`create table events (
    seq ${serial}, id ${text} not null unique, subject ${text} not null, namespace ${text} not null,
    kind ${text} not null, name ${text} not null, uid ${text} not null, type ${text} not null,
    reason ${text} not null, message ${text} not null, at ${bigint} not null, first_at ${bigint} not null,
    count ${bigint} not null)`.execute(tx);
  await sql`create index events_subject on events (subject, at, seq)`.execute(tx);
  await sql`create index events_namespace on events (namespace, at, seq)`.execute(tx);
  await sql`create index events_uid on events (uid, at, seq)`.execute(tx);
  await sql`create index events_at on events (at, seq)`.execute(tx);
  await sql`create table leases (
    name ${text} primary key, holder ${text} not null, epoch ${bigint} not null,
    expires_at ${bigint} not null)`.execute(tx);
}

async function createSecurity(tx: Tx, { text, bigint, blob }: ColumnTypes): Promise<void> {
  await sql`create table sealed (
    name ${text} primary key, sealed ${blob} not null, version ${bigint} not null)`.execute(tx);
  await sql`create table tokens (
    id ${text} primary key, kind ${text} not null, role ${text} not null, name ${text} not null,
    hash ${text} not null, created_at ${bigint} not null, expires_at ${bigint}, used_at ${bigint})`.execute(
    tx,
  );
  await sql`create table settings (name ${text} primary key, value ${text} not null)`.execute(tx);
}

async function addHeldBack(tx: Tx, { bigint }: ColumnTypes): Promise<void> {
  await sql`alter table journal add column held_back ${bigint}`.execute(tx);
}
