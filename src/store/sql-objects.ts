/** Objects and their changes in SQL. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type {
  ListQuery,
  NewObject,
  ObjectChange,
  ObjectEvent,
  ObjectKey,
  ObjectList,
  StoredObject,
} from '../engine/ports.ts';
import type { Db, Tx } from './dialect.ts';
import { alreadyExists, conflict, describeKey, notFound } from './errors.ts';
import { encodeJson } from './json.ts';
import { decodePosition, encodePosition } from './paging.ts';
import { applyChange, type Draft, draftOf, numbered, type Outcome } from './rules.ts';
import type { ObjectsTable } from './schema.ts';
import { type Matcher, parseSelector } from './selector.ts';
import type { ChangeFilter, ChangeSlice } from './watch.ts';
import type { Write } from './write.ts';

/** Reads one object. */
export async function readObject(db: Db | Tx, key: ObjectKey): Promise<StoredObject | null> {
  const row = await db
    .selectFrom('objects')
    .selectAll()
    .where('kind', '=', key.kind)
    .where('namespace', '=', key.namespace)
    .where('name', '=', key.name)
    .executeTakeFirst();
  return row === undefined ? null : decodeObject(row);
}

/** Reads pages in the order of namespace and name, a chunk at a time so that others get their turn. */
export async function listObjects(db: Db, query: ListQuery, chunk: number): Promise<ObjectList> {
  const matches = parseSelector(query.labelSelector);
  const start = query.continue === undefined ? null : decodePosition(query.continue);
  // Read before the rows: a watch from here may repeat what the rows show already, but misses nothing.
  const version = start?.version ?? (await headOf(db));
  const items: StoredObject[] = [];
  const limit = query.limit ?? Number.POSITIVE_INFINITY;
  let after: { readonly namespace: string; readonly name: string } | null = start;
  for (;;) {
    const rows = await readChunk(db, query, after, chunk);
    for (const row of rows) {
      if (!matchesRow(matches, row)) continue;
      if (items.length >= limit) return page(items, version, true);
      items.push(decodeObject(row));
    }
    if (rows.length < chunk) return page(items, version, false);
    after = rows.at(-1) as ObjectsTable;
    await nextTurn();
  }
}

function page(items: readonly StoredObject[], version: number, more: boolean): ObjectList {
  const last = items.at(-1)?.metadata;
  const next =
    more && last !== undefined
      ? encodePosition({ namespace: last.namespace, name: last.name, version })
      : null;
  return { items, continue: next, resourceVersion: String(version) };
}

const matchesRow = (matches: Matcher, row: ObjectsTable): boolean =>
  matches(JSON.parse(row.labels) as Record<string, string>);

async function readChunk(
  db: Db,
  query: ListQuery,
  after: { readonly namespace: string; readonly name: string } | null,
  chunk: number,
): Promise<readonly ObjectsTable[]> {
  let select = db.selectFrom('objects').selectAll().where('kind', '=', query.kind);
  if (query.namespace !== undefined) select = select.where('namespace', '=', query.namespace);
  if (after !== null) {
    const { namespace, name } = after;
    select = select.where((eb) => eb(eb.refTuple('namespace', 'name'), '>', eb.tuple(namespace, name)));
  }
  return await select.orderBy('namespace').orderBy('name').limit(chunk).execute();
}

async function headOf(db: Db): Promise<number> {
  return (await db.selectFrom('sequence').select('version').executeTakeFirstOrThrow()).version;
}

/** `AlreadyExists` (never). */
export async function createObject(write: Write, input: NewObject, uid: string): Promise<StoredObject> {
  if ((await readObject(write.tx, input)) !== null) throw alreadyExists(describeKey(input));
  return await save(write, 'ADDED', draftOf(input, uid, write.now, write.limits.valueBytes));
}

/** `NotFound`, `Conflict` (never). */
export async function updateObject(
  write: Write,
  key: ObjectKey,
  change: ObjectChange,
  expect: string | undefined,
): Promise<StoredObject | null> {
  const current = await readObject(write.tx, key);
  if (current === null) throw notFound(describeKey(key));
  const found = current.metadata.resourceVersion;
  if (expect !== undefined && expect !== found) throw conflict(describeKey(key), expect, found);
  return await settle(write, current, applyChange(current, change, write.now, write.limits.valueBytes));
}

/** Writes what a rule made of an object; null when it went. */
export async function settle(
  write: Write,
  current: StoredObject,
  outcome: Outcome,
): Promise<StoredObject | null> {
  switch (outcome.kind) {
    case 'same':
      return current;
    case 'modified':
      return await save(write, 'MODIFIED', outcome.draft);
    case 'removed':
      await save(write, 'DELETED', current);
      return null;
  }
}

async function save(write: Write, type: ObjectEvent['type'], draft: Draft): Promise<StoredObject> {
  const version = await write.nextVersion();
  const object = numbered(draft, version);
  const { kind, namespace, name } = { kind: object.kind, ...object.metadata };
  if (type === 'ADDED') await write.tx.insertInto('objects').values(encodeObject(object, version)).execute();
  else {
    const at = { kind, namespace, name };
    const row = encodeObject(object, version);
    const { tx } = write;
    if (type === 'DELETED')
      await tx
        .deleteFrom('objects')
        .where((eb) => eb.and(at))
        .execute();
    else
      await tx
        .updateTable('objects')
        .set(row)
        .where((eb) => eb.and(at))
        .execute();
  }
  const text = JSON.stringify(object);
  await write.tx.insertInto('changes').values({ version, type, kind, namespace, object: text }).execute();
  write.count(2);
  return object;
}

/** The slice of changes for watchers, with its bounds, in one statement and so in one snapshot. */
export async function readChanges(
  db: Db,
  after: number,
  filter: ChangeFilter,
  limit: number,
): Promise<ChangeSlice> {
  const { kinds, namespace } = filter;
  const rows = await db
    .selectFrom('sequence as s')
    .leftJoin('changes as c', (join) => {
      let on = join.on('c.version', '>', after);
      if (kinds !== undefined) on = on.on('c.kind', 'in', kinds.length === 0 ? [''] : [...kinds]);
      if (namespace !== undefined) on = on.on('c.namespace', '=', namespace);
      return on;
    })
    .select(['s.version as head', 's.kept', 'c.version', 'c.type', 'c.object'])
    .orderBy('c.version')
    .limit(limit)
    .execute();
  const changes = rows.flatMap((row) =>
    row.version === null ? [] : [{ version: row.version, event: decodeChange(row.type, row.object) }],
  );
  return { head: rows[0]?.head ?? 0, kept: rows[0]?.kept ?? 0, changes };
}

const decodeChange = (type: string | null, object: string | null): ObjectEvent => ({
  type: type as ObjectEvent['type'],
  object: JSON.parse(object ?? 'null') as StoredObject,
});

function encodeObject(object: StoredObject, version: number): ObjectsTable {
  const { metadata } = object;
  const json = (value: unknown): string => encodeJson(value, object.kind, Number.POSITIVE_INFINITY);
  return {
    kind: object.kind,
    namespace: metadata.namespace,
    name: metadata.name,
    uid: metadata.uid,
    generation: metadata.generation,
    version,
    labels: json(metadata.labels),
    annotations: json(metadata.annotations),
    finalizers: json(metadata.finalizers),
    created_at: metadata.creationTimestamp,
    deleted_at: metadata.deletionTimestamp,
    spec: json(object.spec),
    status: json(object.status),
  };
}

function decodeObject(row: ObjectsTable): StoredObject {
  return {
    kind: row.kind,
    metadata: {
      namespace: row.namespace,
      name: row.name,
      uid: row.uid,
      generation: row.generation,
      resourceVersion: String(row.version),
      labels: JSON.parse(row.labels) as Record<string, string>,
      annotations: JSON.parse(row.annotations) as Record<string, string>,
      creationTimestamp: row.created_at,
      deletionTimestamp: row.deleted_at,
      finalizers: JSON.parse(row.finalizers) as string[],
    },
    spec: JSON.parse(row.spec),
    status: JSON.parse(row.status),
  };
}
