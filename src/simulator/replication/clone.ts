/** Initial sync's copying: the source serves a snapshot taken in one instant, the joining member reads it collection by collection. */

import { setTimeout as pause } from 'node:timers/promises';
import { calculateObjectSize, type Document, Int32, type UUID } from 'bson';
import type { Millis } from '../../base/units.ts';
import type { CollectionInfo, DataStore, OplogEntry } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import type { OpTime, Position } from '../member/optime.ts';
import type { PeerPool } from './peer-pool.ts';
import { fromBson, numberOf, positionOf, toBson } from './values.ts';

const BATCH_BYTES = 8_000_000;
const SESSION_LIFE: Millis = 120_000;
const MAX_SESSIONS = 4;
const CALL_TIMEOUT: Millis = 60_000;

interface Source {
  readonly ns: string;
  readonly info: CollectionInfo;
  readonly indexes: readonly Document[];
  readonly documents: readonly Document[];
}

interface Session {
  readonly collections: readonly Source[];
  usedAt: Millis;
}

/** Snapshots this member serves to joining members, with a life. */
export class CloneSessions {
  readonly #sessions = new Map<number, Session>();
  #nextId = 1;

  /** Takes the snapshot: everything but `local`, as it is after the last applied entry. */
  begin(data: DataStore, rbid: number, now: Millis): Document {
    this.#expire(now);
    const last = data.lastApplied();
    const entry = last === null ? undefined : data.oplogFind(last);
    if (entry === undefined)
      throw new ServerError(114, 'InitialSyncOplogSourceMissing', 'the oplog is empty');
    const collections = data
      .databases()
      .filter((db) => db !== 'local')
      .flatMap((db) => data.collections(db).map((info) => read(data, `${db}.${info.name}`, info)));
    const id = this.#nextId++;
    this.#sessions.set(id, { collections, usedAt: now });
    return {
      session: new Int32(id),
      rbid: new Int32(rbid),
      entry,
      collections: collections.map(({ ns, info, indexes, documents }) => ({
        ns,
        name: info.name,
        type: info.type,
        options: info.options,
        uuid: info.uuid,
        indexes,
        count: new Int32(documents.length),
      })),
    };
  }

  /** Documents of one collection from `from` on, as many as fit. */
  read(id: number, index: number, from: number, now: Millis): Document {
    const session = this.#sessions.get(id);
    const source = session?.collections[index];
    if (!session || !source)
      throw new ServerError(43, 'CursorNotFound', `initial sync session ${id} not found`);
    session.usedAt = now;
    const documents: Document[] = [];
    let bytes = 0;
    for (let at = from; at < source.documents.length && bytes < BATCH_BYTES; at++) {
      const document = source.documents[at]!;
      documents.push(document);
      bytes += calculateObjectSize(document);
    }
    return { documents };
  }

  end(id: number): void {
    this.#sessions.delete(id);
  }

  #expire(now: Millis): void {
    for (const [id, session] of this.#sessions) {
      const old = now - session.usedAt > SESSION_LIFE;
      if (old || this.#sessions.size >= MAX_SESSIONS) this.#sessions.delete(id);
    }
  }
}

function read(data: DataStore, ns: string, info: CollectionInfo): Source {
  const stored = info.type === 'view' ? [] : data.find(ns, {});
  return { ns, info, indexes: info.type === 'view' ? [] : data.indexes(ns), documents: stored };
}

// ── the joining side ───────────────────────────────────────────────────────────────────────────────────────────────

/** What replSetGetStatus shows while it runs. */
export interface CloneProgress {
  attempt: number;
  source: string;
  startedAt: Millis;
  beginAt: OpTime | null;
  stopAt: OpTime | null;
  totalDocuments: number;
  clonedDocuments: number;
  clonedBytes: number;
  readonly databases: Map<string, DatabaseProgress>;
}
export interface DatabaseProgress {
  readonly collections: number;
  cloned: number;
  readonly startedAt: Millis;
  endedAt: Millis | null;
  readonly byCollection: Map<
    string,
    { total: number; copied: number; startedAt: Millis; endedAt: Millis | null }
  >;
}

export interface CloneJob {
  readonly pool: PeerPool;
  readonly from: string;
  readonly data: DataStore;
  readonly progress: CloneProgress;
  readonly signal: AbortSignal;
  /** Extra time, spread over the collections; makes initial syncs observable. */
  readonly delay: Millis;
  readonly now: () => Millis;
}

export interface Cloned {
  readonly begin: Position;
  readonly stopAt: OpTime;
  readonly sourceRbid: number;
}

interface Listed {
  readonly ns: string;
  readonly info: CollectionInfo;
  readonly indexes: readonly Document[];
  readonly count: number;
}

/** Replaces all data of this member by the source's. Throws when the source fails or the signal says so. */
export async function clone(job: CloneJob): Promise<Cloned> {
  const { data, signal } = job;
  data.resetForInitialSync();
  const opened = await call(job, { _simInitialSyncBegin: 1 });
  const entry = opened['entry'] as OplogEntry;
  const listed = (opened['collections'] as Document[]).map(readListed);
  const session = opened['session'];
  const sourceRbid = numberOf(opened['rbid']) ?? 0;
  start(job, listed, fromBson(entry)!);
  for (const [index, item] of listed.entries()) {
    const documents = await copy(job, session, index, item);
    if (job.delay > 0) await pause(job.delay / (listed.length + 1), undefined, { signal });
    signal.throwIfAborted();
    data.loadCollection({ ...item.info, ns: item.ns, indexes: item.indexes }, documents);
    finish(job, item);
  }
  if (job.delay > 0) await pause(job.delay / (listed.length + 1), undefined, { signal });
  const ended = await call(job, { _simInitialSyncEnd: 1, session });
  if (numberOf(ended['rbid']) !== sourceRbid)
    throw new Error('the sync source rolled back during initial sync');
  const begin = positionOf({ ...entry, t: entry.t });
  const stopAt = fromBson(ended['lastApplied']) ?? begin.op!;
  job.progress.stopAt = stopAt;
  data.setOplogStart({ ts: entry.ts, t: toBson(begin.op).t }, { ...entry, t: toBson(begin.op).t, v: 2 });
  return { begin, stopAt, sourceRbid };
}

function call({ pool, from, signal }: CloneJob, command: Document): Promise<Document> {
  signal.throwIfAborted();
  return pool.call(from, 'admin', command, CALL_TIMEOUT);
}

const readListed = (item: Document): Listed => ({
  ns: String(item['ns']),
  info: {
    name: String(item['name']),
    type: item['type'] as CollectionInfo['type'],
    options: item['options'] as Document,
    uuid: item['uuid'] as UUID,
  },
  indexes: item['indexes'] as Document[],
  count: numberOf(item['count']) ?? 0,
});

async function copy(job: CloneJob, session: unknown, index: number, item: Listed): Promise<Document[]> {
  const documents: Document[] = [];
  while (documents.length < item.count) {
    const from = new Int32(documents.length);
    const reply = await call(job, { _simInitialSyncRead: 1, session, collection: new Int32(index), from });
    const batch = reply['documents'] as Document[];
    if (batch.length === 0) throw new Error(`${item.ns} ended early`);
    documents.push(...batch);
    note(job, item, batch);
  }
  return documents;
}

const dbOf = (ns: string): string => ns.slice(0, ns.indexOf('.'));

function start({ progress, now }: CloneJob, listed: readonly Listed[], begin: OpTime): void {
  progress.beginAt = begin;
  progress.totalDocuments = listed.reduce((sum, { count }) => sum + count, 0);
  for (const { ns, count } of listed) {
    const db = dbOf(ns);
    const collections = listed.filter((other) => dbOf(other.ns) === db).length;
    const known = progress.databases.get(db) ?? {
      collections,
      cloned: 0,
      startedAt: now(),
      endedAt: null,
      byCollection: new Map(),
    };
    known.byCollection.set(ns, { total: count, copied: 0, startedAt: now(), endedAt: null });
    progress.databases.set(db, known);
  }
}

function note({ progress }: CloneJob, { ns }: Listed, batch: readonly Document[]): void {
  const collection = progress.databases.get(dbOf(ns))?.byCollection.get(ns);
  if (collection) collection.copied += batch.length;
  progress.clonedDocuments += batch.length;
  progress.clonedBytes += batch.reduce((sum, document) => sum + calculateObjectSize(document), 0);
}

function finish({ progress, now }: CloneJob, { ns }: Listed): void {
  const database = progress.databases.get(dbOf(ns));
  const collection = database?.byCollection.get(ns);
  if (!database || !collection) return;
  collection.endedAt = now();
  database.cloned++;
  if (database.cloned === database.collections) database.endedAt = now();
}
