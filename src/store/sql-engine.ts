/** What the engine remembers, in SQL: states, journal, events, leases, and the batch that joins them. */
import { equalValues } from '../base/equal.ts';
import type {
  Batch,
  Fence,
  JournalEntry,
  JournalIntent,
  JournalOutcome,
  Lease,
  NewEvent,
  ObjectKey,
  StoredEvent,
  StoredObject,
} from '../engine/ports.ts';
import type { Db, Tx } from './dialect.ts';
import { alreadyExists, leaseLost, notFound, stateConflict } from './errors.ts';
import { encodeJson } from './json.ts';
import {
  applyRelease,
  applyStatus,
  decideLeases,
  FREE,
  fenceBroken,
  normalEvent,
  settles,
  subjectOf,
} from './rules.ts';
import type { EventsTable, JournalTable } from './schema.ts';
import { readObject, settle } from './sql-objects.ts';
import { deleteSealedRows } from './sql-security.ts';
import { chunks, type Write } from './write.ts';

/** Everything of a batch, or nothing. `LeaseLost`, `StateConflict`, `AlreadyExists`, `NotFound` (never). */
export async function applyBatch(write: Write, batch: Batch): Promise<number | null> {
  if (batch.fence !== undefined) await checkFence(write, batch.fence);
  const version = batch.state === undefined ? null : await putState(write, batch.state);
  if (batch.intents !== undefined) await addIntents(write, batch.intents);
  for (const outcome of batch.outcomes ?? []) await addOutcome(write, outcome);
  for (const { key, uid, value } of batch.status ?? []) {
    await change(write, key, uid, (current) => applyStatus(current, value, write.limits.valueBytes));
  }
  for (const { key, uid, finalizer } of batch.releases ?? []) {
    await change(write, key, uid, (current) =>
      applyRelease(current, finalizer, write.now, write.limits.valueBytes),
    );
  }
  if (batch.events !== undefined) await addEvents(write, batch.events);
  for (const prefix of batch.secretPrefixesToDelete ?? []) await deleteSealedRows(write, prefix);
  return version;
}

/** An object that is gone, or another one with the same name, is left alone. */
async function change(
  write: Write,
  key: ObjectKey,
  uid: string,
  rule: (current: StoredObject) => Parameters<typeof settle>[2],
): Promise<void> {
  const current = await readObject(write.tx, key);
  if (current !== null && current.metadata.uid === uid) await settle(write, current, rule(current));
}

// ── leases ─────────────────────────────────────────────────────────────────────────────────────────────────────────

async function checkFence({ tx }: Write, fence: Fence): Promise<void> {
  const row = await tx.selectFrom('leases').selectAll().where('name', '=', fence.lease).executeTakeFirst();
  const broken = fenceBroken(row === undefined ? undefined : decodeLease(row), fence.epoch);
  if (broken !== null) throw leaseLost(fence.lease, fence.epoch, broken);
}

/** Takes and renews, all in this one transaction. */
export async function takeLeases(
  write: Write,
  names: readonly string[],
  ask: { readonly holder: string; readonly expiresAt: number; readonly now: number },
): Promise<readonly Lease[]> {
  const rows: Lease[] = [];
  for (const some of chunks([...new Set(names)])) {
    const found = await write.tx.selectFrom('leases').selectAll().where('name', 'in', some).execute();
    rows.push(...found.map(decodeLease));
  }
  const held = decideLeases(rows, names, ask);
  const values = held.map(({ name, holder, epoch, expiresAt }) => ({
    name,
    holder,
    epoch,
    expires_at: expiresAt,
  }));
  for (const some of chunks(values)) {
    const insert = write.tx.insertInto('leases').values([...some]);
    await insert
      .onConflict((on) =>
        on.column('name').doUpdateSet((eb) => ({
          holder: eb.ref('excluded.holder'),
          epoch: eb.ref('excluded.epoch'),
          expires_at: eb.ref('excluded.expires_at'),
        })),
      )
      .execute();
    write.count(some.length);
  }
  return held;
}

/** Gives back; the epoch stays, so that the next holder gets a higher one. */
export async function giveLeasesBack(write: Write, holder: string): Promise<void> {
  const { numUpdatedRows } = await write.tx
    .updateTable('leases')
    .set({ holder: FREE, expires_at: 0 })
    .where('holder', '=', holder)
    .executeTakeFirst();
  write.count(numUpdatedRows);
}

const decodeLease = (row: { name: string; holder: string; epoch: number; expires_at: number }): Lease => ({
  name: row.name,
  holder: row.holder,
  epoch: row.epoch,
  expiresAt: row.expires_at,
});

// ── state ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export async function readState(
  db: Db | Tx,
  uid: string,
): Promise<{ version: number; value: unknown } | null> {
  const row = await db.selectFrom('states').selectAll().where('uid', '=', uid).executeTakeFirst();
  return row === undefined ? null : { version: row.version, value: JSON.parse(row.value) };
}

async function putState(write: Write, state: NonNullable<Batch['state']>): Promise<number | null> {
  const { uid, version } = state;
  const current = await readState(write.tx, uid);
  const found = current?.version ?? 0;
  if (found !== version) throw stateConflict(uid, version, found);
  if (state.value === null || state.value === undefined) {
    const { numDeletedRows } = await write.tx.deleteFrom('states').where('uid', '=', uid).executeTakeFirst();
    write.count(numDeletedRows);
    return null;
  }
  if (current !== null && equalValues(current.value, state.value)) return version;
  const value = encodeJson(state.value, `state of ${uid}`, write.limits.valueBytes);
  const next = version + 1;
  if (current === null) await write.tx.insertInto('states').values({ uid, version: next, value }).execute();
  else await write.tx.updateTable('states').set({ version: next, value }).where('uid', '=', uid).execute();
  write.count(1);
  return next;
}

// ── journal ────────────────────────────────────────────────────────────────────────────────────────────────────────

async function addIntents(write: Write, intents: readonly JournalIntent[]): Promise<void> {
  for (const some of chunks(intents)) {
    const ids = some.map((intent) => intent.id);
    const there = await write.tx.selectFrom('journal').select('id').where('id', 'in', ids).executeTakeFirst();
    if (there !== undefined || new Set(ids).size < ids.length)
      throw alreadyExists(`step ${there?.id ?? 'twice here'}`);
    const rows = some.map((intent) => encodeIntent(intent, write.limits.valueBytes));
    await write.tx.insertInto('journal').values(rows).execute();
    write.count(some.length);
  }
  for (const uid of new Set(intents.map((intent) => intent.clusterUid))) await trimCluster(write, uid);
}

async function addOutcome(write: Write, outcome: JournalOutcome): Promise<void> {
  const row = await write.tx
    .selectFrom('journal')
    .select('outcome')
    .where('id', '=', outcome.id)
    .executeTakeFirst();
  if (row === undefined) throw notFound(`step ${outcome.id}`);
  if (!settles(row.outcome as JournalOutcome['kind'] | null, outcome.kind)) return;
  const at = Math.trunc(outcome.at);
  await write.tx
    .updateTable('journal')
    .set({ outcome: outcome.kind, outcome_at: at, outcome_message: outcome.message })
    .where('id', '=', outcome.id)
    .execute();
  write.count(1);
}

async function trimCluster({ tx, limits }: Write, uid: string): Promise<void> {
  const finished = tx.selectFrom('journal').where('cluster_uid', '=', uid).where('outcome', 'is not', null);
  const extra = await finished
    .select('seq')
    .orderBy('seq', 'desc')
    .limit(1)
    .offset(limits.journalPerCluster + limits.slack)
    .executeTakeFirst();
  if (extra === undefined) return;
  const oldest = await finished
    .select('seq')
    .orderBy('seq', 'desc')
    .limit(1)
    .offset(limits.journalPerCluster)
    .executeTakeFirstOrThrow();
  await tx
    .deleteFrom('journal')
    .where('cluster_uid', '=', uid)
    .where('outcome', 'is not', null)
    .where('seq', '<=', oldest.seq)
    .execute();
}

/** Steps without an outcome, oldest first. */
export async function readOpenIntents(db: Db, clusterUid: string): Promise<readonly JournalEntry[]> {
  const rows = await db
    .selectFrom('journal')
    .selectAll()
    .where('cluster_uid', '=', clusterUid)
    .where('outcome', 'is', null)
    .orderBy('seq')
    .execute();
  return rows.map(decodeJournal);
}

/** The newest steps, oldest of them first. */
export async function readJournal(
  db: Db,
  clusterUid: string,
  limit: number,
): Promise<readonly JournalEntry[]> {
  const rows = await db
    .selectFrom('journal')
    .selectAll()
    .where('cluster_uid', '=', clusterUid)
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute();
  return rows.reverse().map(decodeJournal);
}

function encodeIntent(intent: JournalIntent, limit: number) {
  return {
    id: intent.id,
    cluster_uid: intent.clusterUid,
    step: intent.step,
    target: intent.target,
    reason: intent.reason,
    epoch: intent.epoch,
    at: Math.trunc(intent.at),
    detail: encodeJson(intent.detail, `detail of step ${intent.id}`, limit),
    held_back: intent.heldBack === undefined ? null : Math.trunc(intent.heldBack),
  };
}

type JournalRow = Omit<JournalTable, 'seq'>;

const decodeJournal = (row: JournalRow): JournalEntry => ({
  id: row.id,
  clusterUid: row.cluster_uid,
  step: row.step,
  target: row.target,
  reason: row.reason,
  epoch: row.epoch,
  at: row.at,
  detail: JSON.parse(row.detail),
  ...(row.held_back === null ? {} : { heldBack: row.held_back }),
  outcome:
    row.outcome === null
      ? null
      : {
          id: row.id,
          at: row.outcome_at ?? 0,
          kind: row.outcome as JournalOutcome['kind'],
          message: row.outcome_message ?? '',
        },
});

// ── events ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Counts an event that is known, else adds it and holds the limit of its object. */
export async function addEvents(write: Write, events: readonly NewEvent[]): Promise<void> {
  const subjects = new Set<string>();
  for (const event of events) {
    const known = normalEvent(event, write.limits.eventMessageChars);
    const subject = subjectOf(event);
    subjects.add(subject);
    const { id, namespace, type, reason, message, at } = known;
    const row = {
      id,
      subject,
      namespace,
      ...known.regarding,
      type,
      reason,
      message,
      at,
      first_at: at,
      count: 1,
    };
    await write.tx
      .insertInto('events')
      .values(row)
      .onConflict((on) =>
        on.column('id').doUpdateSet((eb) => ({
          count: eb('events.count', '+', 1),
          at: eb
            .case()
            .when('events.at', '>', at)
            .then(eb.ref('events.at'))
            .else(eb.ref('excluded.at'))
            .end(),
        })),
      )
      .execute();
    write.count(1);
  }
  for (const subject of subjects) await trimSubject(write, subject);
}

async function trimSubject({ tx, limits }: Write, subject: string): Promise<void> {
  const newest = tx
    .selectFrom('events')
    .select(['at', 'seq'])
    .where('subject', '=', subject)
    .orderBy('at', 'desc')
    .orderBy('seq', 'desc')
    .limit(1);
  if ((await newest.offset(limits.eventsPerObject + limits.slack).executeTakeFirst()) === undefined) return;
  const { at, seq } = await newest.offset(limits.eventsPerObject).executeTakeFirstOrThrow();
  await tx
    .deleteFrom('events')
    .where('subject', '=', subject)
    .where((eb) => eb(eb.refTuple('at', 'seq'), '<=', eb.tuple(at, seq)))
    .execute();
}

/** The newest events, oldest of them first. */
export async function readEvents(
  db: Db,
  query: { readonly namespace?: string; readonly uid?: string; readonly limit: number },
): Promise<readonly StoredEvent[]> {
  let select = db.selectFrom('events').selectAll();
  if (query.namespace !== undefined) select = select.where('namespace', '=', query.namespace);
  if (query.uid !== undefined) select = select.where('uid', '=', query.uid);
  const rows = await select.orderBy('at', 'desc').orderBy('seq', 'desc').limit(query.limit).execute();
  return rows.reverse().map(decodeEvent);
}

const decodeEvent = (row: Omit<EventsTable, 'seq'>): StoredEvent => ({
  id: row.id,
  namespace: row.namespace,
  regarding: { kind: row.kind, name: row.name, uid: row.uid },
  type: row.type as StoredEvent['type'],
  reason: row.reason,
  message: row.message,
  at: row.at,
  firstAt: row.first_at,
  count: row.count,
});
