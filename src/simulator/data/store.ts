/** The document store of one process: one catalog, one log, one place on disk. Implements the contract's DataStore. */
import { type Document, ObjectId, UUID } from 'bson';
import {
  type CollectionInfo,
  type DataStore,
  type FindSpec,
  type Logger,
  type OplogEntry,
  type OpTime,
  ServerError,
  type TransactionView,
  type UpdateOutcome,
  type UpdateSpec,
  type WriteContext,
  type WriteOutcome,
} from '../contracts.ts';
import { canonicalDocument } from './bson.ts';
import { Catalog, type Op } from './catalog.ts';
import { Collection } from './collection.ts';
import {
  createCollection,
  createIndexes,
  dropCollection,
  dropDatabase,
  dropIndexes,
  modifyCollection,
  renameCollection,
} from './ddl.ts';
import { compareOpTimes, entryFromDocument, OplogWindow } from './oplog.ts';
import { Queries } from './queries.ts';
import { loadSnapshot, opTimeFrom, snapshotRecords } from './snapshot.ts';
import { FileStorage, NoStorage, type Storage } from './storage.ts';
import { Transactions } from './transaction.ts';
import { type DeleteSpec, deleteMany, insertOne, type Sink, updateMany } from './writer.ts';

/** How a store is opened. */
export interface DataStoreOptions {
  readonly logger?: Logger | undefined;
  /** Fresh document ids and collection UUIDs; the deterministic world seeds them. */
  readonly newId?: () => ObjectId;
  readonly newUuid?: () => UUID;
  /** The log length that starts a checkpoint, in bytes; and the size of the log window. For tests. */
  readonly checkpointBytes?: number;
  readonly oplogLimits?: { readonly entries: number; readonly bytes: number };
}

/** Opens the store in a data folder (files `sim-data.*`). Errors: StorageFailure when the folder can't be read. */
export function openDataStore(options: DataStoreOptions & { readonly dbPath: string }): DataStore {
  const { storage, recovered } = FileStorage.open(options.dbPath, options.checkpointBytes);
  const store = new Store(storage, options);
  store.recover(recovered.snapshot, recovered.log);
  options.logger?.log('I', 'STORAGE', RECOVERED_LOG_ID, 'initandlisten', 'Simulator data recovered', {
    snapshotRecords: recovered.snapshot.length,
    logRecords: recovered.log.length,
    tornBytes: recovered.tornBytes,
  });
  return store;
}

/** A store without files, for unit tests and the deterministic world. */
export function openMemoryStore(options: DataStoreOptions = {}): DataStore {
  return new Store(new NoStorage(), options);
}

const isLocal = (ns: string): boolean => ns.startsWith('local.');

class Store implements DataStore, Sink {
  readonly catalog = new Catalog();
  readonly newId: () => ObjectId;
  readonly newUuid: () => UUID;
  private readonly storage: Storage;
  private readonly oplog: OplogWindow;
  private readonly locals = new Map<string, Document>();
  private readonly listeners = new Set<(entry: OplogEntry) => void>();
  private readonly transactions: Transactions;
  private readonly queries: Queries;

  constructor(storage: Storage, options: DataStoreOptions) {
    this.storage = storage;
    this.oplog = new OplogWindow(options.oplogLimits);
    this.newId = options.newId ?? (() => new ObjectId());
    this.newUuid = options.newUuid ?? (() => new UUID());
    this.transactions = new Transactions(this);
    this.queries = new Queries(this, { oplog: this.oplog, locals: this.locals });
  }

  // ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

  databases(): readonly string[] {
    const names = new Set(this.catalog.databases());
    names.add('local');
    return [...names].toSorted();
  }

  collections(db: string): readonly CollectionInfo[] {
    return this.queries.collections(db);
  }

  info(ns: string): CollectionInfo | undefined {
    return this.queries.info(ns);
  }

  indexes(ns: string): readonly Document[] {
    return this.catalog.get(ns)?.indexes.map(({ spec }) => spec) ?? [];
  }

  count(ns: string): number {
    return this.catalog.get(ns)?.count ?? this.queries.find(ns, {}).length;
  }

  sizeBytes(ns: string): number {
    return this.catalog.get(ns)?.sizeBytes ?? 0;
  }

  find(ns: string, spec: FindSpec): Document[] {
    return this.queries.find(ns, spec);
  }

  aggregate(ns: string | null, db: string, pipeline: readonly Document[], options?: Document): Document[] {
    return this.queries.aggregate(ns, db, pipeline, options);
  }

  countMatching(ns: string, filter: Document, options?: Document): number {
    return this.queries.countMatching(ns, filter, options);
  }

  distinct(ns: string, key: string, filter: Document, options?: Document): unknown[] {
    return this.queries.distinct(ns, key, filter, options);
  }

  // ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

  insert(ns: string, document: Document, context: WriteContext): WriteOutcome {
    return insertOne(this, ns, document, context);
  }

  update(ns: string, spec: UpdateSpec, context: WriteContext): UpdateOutcome {
    return updateMany(this, ns, spec, context);
  }

  delete(
    ns: string,
    spec: DeleteSpec,
    context: WriteContext,
  ): WriteOutcome & { readonly deleted: number; readonly before?: Document } {
    return deleteMany(this, ns, spec, context);
  }

  create(ns: string, options: Document, context: WriteContext): WriteOutcome {
    return createCollection(this, ns, options, context);
  }

  drop(ns: string, context: WriteContext): WriteOutcome & { readonly nIndexesWas: number } {
    return dropCollection(this, ns, context);
  }

  dropDatabase(db: string, context: WriteContext): WriteOutcome {
    return dropDatabase(this, db, context);
  }

  rename(from: string, to: string, dropTarget: boolean, context: WriteContext): WriteOutcome {
    return renameCollection(this, from, to, dropTarget, context);
  }

  collMod(ns: string, change: Document, context: WriteContext): WriteOutcome & { readonly reply: Document } {
    return modifyCollection(this, ns, change, context);
  }

  createIndexes(
    ns: string,
    indexes: readonly Document[],
    context: WriteContext,
  ): WriteOutcome & { readonly created: readonly string[] } {
    return createIndexes(this, ns, indexes, context);
  }

  dropIndexes(
    ns: string,
    which: unknown,
    context: WriteContext,
  ): WriteOutcome & { readonly nIndexesWas: number } {
    return dropIndexes(this, ns, which, context);
  }

  beginTransaction(): TransactionView {
    return this.transactions.begin();
  }

  /** Puts one operation into effect: log first, then memory. */
  write(op: Op, context: WriteContext, withSession: boolean): OplogEntry | undefined {
    this.transactions.refuseConflict(op);
    if (isLocal(op.ns)) {
      this.storage.append([{ k: 'local-op', op }]);
      this.transactions.note(this.catalog.apply(op));
      this.afterAppend();
      return undefined;
    }
    const { ts, t } = context.stamp();
    const session = withSession ? context.session : undefined;
    const entry: OplogEntry = { ...op, ts, t, wall: context.wall, v: 2, ...session };
    this.take([entry]);
    return entry;
  }

  appendNoop(o: Document, context: WriteContext): OplogEntry {
    const { ts, t } = context.stamp();
    const entry: OplogEntry = { op: 'n', ns: '', o: canonicalDocument(o), ts, t, wall: context.wall, v: 2 };
    this.take([entry]);
    return entry;
  }

  apply(entries: readonly OplogEntry[]): void {
    const newest = this.oplog.newest();
    // Entries fetched twice count once.
    const fresh = newest ? entries.filter((entry) => compareOpTimes(entry, newest) > 0) : entries;
    if (fresh.length > 0) this.take(fresh.map((entry) => entryFromDocument(entry)));
  }

  private take(entries: readonly OplogEntry[]): void {
    const bytes = this.storage.append(entries.map((entry) => ({ k: 'entry', e: entry })));
    // Without files nobody measured; a flat guess keeps the window bounded.
    const each = bytes > 0 ? bytes / entries.length : UNMEASURED_BYTES;
    for (const entry of entries) {
      this.applyEntry(entry, each);
      for (const listener of this.listeners) listener(entry);
    }
    this.afterAppend();
  }

  private applyEntry(entry: OplogEntry, bytes: number): void {
    const undo = this.catalog.apply(entry);
    this.transactions.note(undo);
    this.oplog.push({ entry, bytes, undo });
  }

  private afterAppend(): void {
    this.storage.checkpointIfDue((seq) => snapshotRecords(this.durable(), seq));
  }

  private durable() {
    return { catalog: this.catalog, oplog: this.oplog, locals: this.locals };
  }

  // ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

  oplogAfter(after: OpTime | null, limit: number): readonly OplogEntry[] {
    return this.oplog.entriesAfter(after, limit);
  }

  oplogFind(opTime: OpTime): OplogEntry | undefined {
    return this.oplog.find(opTime);
  }

  oldestOplog(): OpTime | null {
    return opTimeFrom(this.oplog.oldest());
  }

  lastApplied(): OpTime | null {
    return opTimeFrom(this.oplog.newest());
  }

  setStable(opTime: OpTime): void {
    this.oplog.setStable(opTime);
  }

  rollbackTo(opTime: OpTime): { readonly undone: readonly OplogEntry[] } {
    const newest = this.oplog.newest();
    if (!newest || compareOpTimes(newest, opTime) <= 0) return { undone: [] };
    this.transactions.abortAll();
    const undone = this.undoAfter(opTime);
    this.storage.append([{ k: 'rollback', to: { ts: opTime.ts, t: opTime.t } }]);
    return { undone };
  }

  private undoAfter(opTime: OpTime): OplogEntry[] {
    const cut = this.oplog.cutAfter(opTime);
    if (!cut) {
      throw new ServerError(
        127,
        'UnrecoverableRollbackError',
        `Cannot roll back to ${opTime.ts.t}:${opTime.ts.i}: it is before the stable point`,
      );
    }
    for (const { undo } of cut.toReversed()) this.catalog.undo(undo ?? []);
    return cut.map(({ entry }) => entry);
  }

  resetForInitialSync(): void {
    this.transactions.abortAll();
    this.storage.append([{ k: 'reset' }]);
    this.reset();
  }

  private reset(): void {
    for (const ns of [...this.catalog.collections.keys()])
      if (!isLocal(ns)) this.catalog.collections.delete(ns);
    this.oplog.clear();
  }

  loadCollection(
    info: CollectionInfo & { readonly ns: string; readonly indexes: readonly Document[] },
    documents: readonly Document[],
  ): void {
    const { ns, type, options, uuid, indexes } = info;
    const head = { k: 'load', ns, type, options, uuid, indexes };
    this.storage.append([head]);
    this.loadHead(canonicalDocument(head));
    for (let at = 0; at < documents.length; at += LOAD_BATCH) {
      const batch = documents.slice(at, at + LOAD_BATCH).map(canonicalDocument);
      this.storage.append(batch.map((document) => ({ k: 'load-document', ns, document })));
      const collection = this.catalog.get(ns)!;
      for (const document of batch) collection.put(document);
    }
    this.afterAppend();
  }

  private loadHead(record: Document): void {
    const ns = record['ns'] as string;
    const collection = new Collection(
      ns,
      record['uuid'] as UUID,
      record['type'] as CollectionInfo['type'],
      record['options'] as Document,
      record['indexes'] as Document[],
    );
    this.catalog.collections.set(ns, collection);
  }

  setOplogStart(opTime: OpTime, entry?: OplogEntry): void {
    const start = { ts: opTime.ts, t: opTime.t };
    this.storage.append([{ k: 'oplog-start', start, entry: entry ?? null }]);
    this.startOplog(start, entry);
  }

  private startOplog(start: OpTime, entry: OplogEntry | undefined): void {
    this.oplog.clear();
    this.oplog.start = start;
    if (entry) this.oplog.push({ entry: entryFromDocument(entry), bytes: UNMEASURED_BYTES, undo: undefined });
  }

  // ── local documents ──────────────────────────────────────────────────────────────────────────────────────────────

  getLocal(key: string): Document | undefined {
    return this.locals.get(key);
  }

  setLocal(key: string, value: Document): void {
    const document = canonicalDocument(value);
    this.storage.append([{ k: 'local', key, value: document }]);
    this.locals.set(key, document);
    this.afterAppend();
  }

  onApplied(listener: (entry: OplogEntry) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  close(): Promise<void> {
    this.listeners.clear();
    return this.storage.close();
  }

  // ── recovery ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Fills the store from what the disk holds; every record is replayed as it was first applied. */
  recover(snapshot: readonly Document[], log: readonly Document[]): void {
    loadSnapshot(snapshot, this.durable());
    for (const record of log) this.replay(record);
  }

  private replay(record: Document): void {
    switch (record['k']) {
      case 'entry':
        this.applyEntry(entryFromDocument(record['e'] as Document), UNMEASURED_BYTES);
        break;
      case 'local-op':
        this.catalog.apply(record['op'] as Op);
        break;
      case 'local':
        this.locals.set(record['key'] as string, record['value'] as Document);
        break;
      case 'rollback':
        this.undoAfter(opTimeFrom(record['to'])!);
        break;
      case 'reset':
        this.reset();
        break;
      case 'load':
        this.loadHead(record);
        break;
      case 'load-document':
        this.catalog.get(record['ns'] as string)?.put(record['document'] as Document);
        break;
      case 'oplog-start':
        this.startOplog(
          opTimeFrom(record['start'])!,
          record['entry'] ? entryFromDocument(record['entry'] as Document) : undefined,
        );
        break;
    }
  }
}

/** A log line of the simulator's own: outside of the server's numbers. */
const RECOVERED_LOG_ID = 90_000_001;
/** What an entry is taken to weigh in the window when nobody measured it. */
const UNMEASURED_BYTES = 400;
/** Documents of an initial sync written to the log at once. */
const LOAD_BATCH = 500;
