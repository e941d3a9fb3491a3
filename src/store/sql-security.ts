/** Sealed rows, tokens and settings in SQL. What is inside is the security room's business. */
import { Buffer } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { sql } from 'kysely';
import type { SealedRow, TokenRow } from '../engine/ports.ts';
import type { Db, Tx } from './dialect.ts';
import { alreadyExists, conflict } from './errors.ts';
import { afterPrefix, NONCE, sealedMark } from './rules.ts';
import type { TokensTable } from './schema.ts';
import type { Write } from './write.ts';

export async function readSealed(db: Db | Tx, name: string): Promise<SealedRow | null> {
  const row = await db.selectFrom('sealed').selectAll().where('name', '=', name).executeTakeFirst();
  return row ?? null;
}

/** By name. */
export async function listSealedRows(db: Db, prefix: string): Promise<readonly SealedRow[]> {
  let select = db.selectFrom('sealed').selectAll().where('name', '>=', prefix);
  const end = afterPrefix(prefix);
  if (end !== null) select = select.where('name', '<', end);
  return await select.orderBy('name').execute();
}

/** Rows looked at in one piece; between two pieces others get their turn on the loop. */
const MARKS_CHUNK = 2_000;

/** `Store.sealedMarks`. */
export async function readSealedMarks(db: Db, prefix: string): Promise<ReadonlyMap<string, string>> {
  const marks = new Map<string, string>();
  const end = afterPrefix(prefix);
  const nonce = sql<Uint8Array>`substr(sealed, ${sql.lit(NONCE.start + 1)}, ${sql.lit(NONCE.bytes)})`;
  for (let last: string | null = null; ; ) {
    let select = db.selectFrom('sealed').select(['name', 'version', nonce.as('nonce')]);
    select = last === null ? select.where('name', '>=', prefix) : select.where('name', '>', last);
    if (end !== null) select = select.where('name', '<', end);
    const rows = await select.orderBy('name').limit(MARKS_CHUNK).execute();
    for (const row of rows) marks.set(row.name, sealedMark(row.version, row.nonce));
    if (rows.length < MARKS_CHUNK) return marks;
    last = rows.at(-1)?.name ?? null;
    await nextTurn();
  }
}

/** `Conflict` (never) when the row is not at the expected version. Gives the new version. */
export async function putSealedRow(
  write: Write,
  name: string,
  sealed: Uint8Array,
  expect: number | null,
): Promise<number> {
  const found = (await readSealed(write.tx, name))?.version ?? 0;
  if (expect !== null && expect !== found) throw conflict(`secret ${name}`, String(expect), String(found));
  const version = found + 1;
  const value = Buffer.from(sealed);
  if (found === 0) await write.tx.insertInto('sealed').values({ name, sealed: value, version }).execute();
  else
    await write.tx.updateTable('sealed').set({ sealed: value, version }).where('name', '=', name).execute();
  write.count(1);
  return version;
}

/** All rows, each at the version it was read at, or none (`Conflict`, never). */
export async function replaceSealedRows(write: Write, rows: readonly SealedRow[]): Promise<void> {
  for (const { name, sealed, version } of rows) {
    const { numUpdatedRows } = await write.tx
      .updateTable('sealed')
      .set({ sealed: Buffer.from(sealed), version: version + 1 })
      .where('name', '=', name)
      .where('version', '=', version)
      .executeTakeFirst();
    if (write.count(numUpdatedRows) !== 1)
      throw conflict(`secret ${name}`, String(version), 'another version');
  }
}

/** Gives the number of rows removed. */
export async function deleteSealedRows(write: Write, prefix: string): Promise<number> {
  let remove = write.tx.deleteFrom('sealed').where('name', '>=', prefix);
  const end = afterPrefix(prefix);
  if (end !== null) remove = remove.where('name', '<', end);
  return write.count((await remove.executeTakeFirst()).numDeletedRows);
}

/** `AlreadyExists` (never). */
export async function putTokenRow(write: Write, row: TokenRow): Promise<void> {
  if ((await readToken(write.tx, row.id)) !== null) throw alreadyExists(`token ${row.id}`);
  await write.tx
    .insertInto('tokens')
    .values({
      id: row.id,
      kind: row.kind,
      role: row.role,
      name: row.name,
      hash: row.hash,
      created_at: Math.trunc(row.createdAt),
      expires_at: row.expiresAt === null ? null : Math.trunc(row.expiresAt),
      used_at: row.usedAt === null ? null : Math.trunc(row.usedAt),
    })
    .execute();
  write.count(1);
}

export async function readToken(db: Db | Tx, id: string): Promise<TokenRow | null> {
  const row = await db.selectFrom('tokens').selectAll().where('id', '=', id).executeTakeFirst();
  return row === undefined ? null : decodeToken(row);
}

/** Oldest first. */
export async function readTokens(db: Db, kind: TokenRow['kind']): Promise<readonly TokenRow[]> {
  const select = db.selectFrom('tokens').selectAll().where('kind', '=', kind);
  return (await select.orderBy('created_at').orderBy('id').execute()).map(decodeToken);
}

/** The update itself decides: exactly one caller finds the token unused. */
export async function markTokenUsed(write: Write, id: string, now: number): Promise<boolean> {
  const { numUpdatedRows } = await write.tx
    .updateTable('tokens')
    .set({ used_at: Math.trunc(now) })
    .where('id', '=', id)
    .where('used_at', 'is', null)
    .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', Math.trunc(now))]))
    .executeTakeFirst();
  return write.count(numUpdatedRows) === 1;
}

const decodeToken = (row: TokensTable): TokenRow => ({
  id: row.id,
  kind: row.kind as TokenRow['kind'],
  role: row.role,
  name: row.name,
  hash: row.hash,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  usedAt: row.used_at,
});

export async function readSetting(db: Db | Tx, name: string): Promise<string | null> {
  const row = await db.selectFrom('settings').select('value').where('name', '=', name).executeTakeFirst();
  return row?.value ?? null;
}

/** The first writer wins; gives the value that stands. */
export async function initSettingRow(write: Write, name: string, value: string): Promise<string> {
  const found = await readSetting(write.tx, name);
  if (found !== null) return found;
  await write.tx.insertInto('settings').values({ name, value }).execute();
  write.count(1);
  return value;
}
