import { randomUUID } from 'node:crypto';
import type {
  Batch,
  Clock,
  JournalEntry,
  Lease,
  ListQuery,
  NewEvent,
  NewObject,
  ObjectChange,
  ObjectEvent,
  ObjectKey,
  ObjectList,
  SealedRow,
  Store,
  StoredEvent,
  StoredObject,
  TokenRow,
} from '../engine/ports.ts';
import type { Db, Dialect, Tx } from './dialect.ts';
import { storeClosed } from './errors.ts';
import { Feed } from './feed.ts';
import { WriteGroups } from './group.ts';
import type { StoreLimits } from './limits.ts';
import { migrate } from './migrations.ts';
import * as engine from './sql-engine.ts';
import * as objects from './sql-objects.ts';
import * as security from './sql-security.ts';
import { watchChanges } from './watch.ts';
import { housekeep, Write } from './write.ts';

/** Tries of one call (`Dialect.transient`): after a restart of PostgreSQL every connection of the pool may be dead. */
const ATTEMPTS = 10;

/** The Store of both databases: reads go straight to the rooms' functions, writes through the one write lock. */
export class SqlStore implements Store {
  readonly #dialect: Dialect;
  readonly #clock: Clock;
  readonly #limits: StoreLimits;
  readonly #feed = new Feed();
  /** Null: this database syncs for many writers by itself. */
  readonly #groups: WriteGroups | null;
  #stopListening: () => Promise<void> = async () => undefined;
  #closing: Promise<void> | undefined;
  readonly #inFlight = new Set<Promise<unknown>>();
  #writes = 0;
  #rowsSinceHousekeeping = 0;

  private constructor(dialect: Dialect, clock: Clock, limits: StoreLimits) {
    this.#dialect = dialect;
    this.#clock = clock;
    this.#limits = limits;
    this.#groups =
      dialect.name !== 'sqlite'
        ? null
        : new WriteGroups({
            db: dialect.db,
            begin: (tx) => this.#begin(tx),
            finish: (writes) => this.#finish(writes),
            committed: (write) => this.#committed(write),
            translate: (failure, committing) => dialect.translate(failure, committing),
          });
  }

  /** Migrates and starts listening. On failure the database is closed again. */
  static async open(dialect: Dialect, clock: Clock, limits: StoreLimits): Promise<SqlStore> {
    const store = new SqlStore(dialect, clock, limits);
    try {
      await migrate(dialect);
      store.#stopListening = await dialect.listen(() => store.#feed.wake());
      return store;
    } catch (failure) {
      await dialect.db.destroy().catch(() => undefined);
      throw dialect.translate(failure, false);
    }
  }

  get writes(): number {
    return this.#writes;
  }

  /** Writes under way are finished first. */
  async close(): Promise<void> {
    this.#closing ??= this.#shut();
    await this.#closing;
  }

  async #shut(): Promise<void> {
    this.#feed.close();
    await Promise.allSettled(this.#inFlight);
    await this.#stopListening();
    await this.#dialect.db.destroy();
  }

  // objects

  get(key: ObjectKey): Promise<StoredObject | null> {
    return this.#read((db) => objects.readObject(db, key));
  }

  list(query: ListQuery): Promise<ObjectList> {
    return this.#read((db) => objects.listObjects(db, query, this.#limits.listChunk));
  }

  create(object: NewObject): Promise<StoredObject> {
    return this.#write((write) => objects.createObject(write, object, randomUUID()));
  }

  update(key: ObjectKey, change: ObjectChange, expect?: string): Promise<StoredObject | null> {
    return this.#write((write) => objects.updateObject(write, key, change, expect));
  }

  watch(query: Parameters<Store['watch']>[0]): AsyncIterable<ObjectEvent> {
    const read = (after: number, filter: object, limit: number) =>
      this.#read((db) => objects.readChanges(db, after, filter, limit));
    return watchChanges(read, this.#feed, query, this.#limits.watchChunk);
  }

  // engine

  async commit(batch: Batch): Promise<{ readonly stateVersion: number | null; readonly wrote: boolean }> {
    return await this.#write(async (write) => {
      const stateVersion = await engine.applyBatch(write, batch);
      return { stateVersion, wrote: write.rows > 0 };
    });
  }

  loadState(uid: string): Promise<{ readonly version: number; readonly value: unknown } | null> {
    return this.#read((db) => engine.readState(db, uid));
  }

  acquireLeases(
    names: readonly string[],
    holder: string,
    ttl: number,
    now: number,
  ): Promise<readonly Lease[]> {
    const ask = { holder, expiresAt: Math.trunc(now + ttl), now: Math.trunc(now) };
    return this.#write((write) => engine.takeLeases(write, names, ask));
  }

  releaseLeases(holder: string): Promise<void> {
    return this.#write((write) => engine.giveLeasesBack(write, holder));
  }

  openIntents(clusterUid: string): Promise<readonly JournalEntry[]> {
    return this.#read((db) => engine.readOpenIntents(db, clusterUid));
  }

  journal(query: { readonly clusterUid: string; readonly limit: number }): Promise<readonly JournalEntry[]> {
    return this.#read((db) => engine.readJournal(db, query.clusterUid, query.limit));
  }

  events(query: Parameters<Store['events']>[0]): Promise<readonly StoredEvent[]> {
    return this.#read((db) => engine.readEvents(db, query));
  }

  async recordEvents(events: readonly NewEvent[]): Promise<void> {
    if (events.length > 0) await this.#write((write) => engine.addEvents(write, events));
  }

  // secrets, tokens, settings

  getSealed(name: string): Promise<SealedRow | null> {
    return this.#read((db) => security.readSealed(db, name));
  }

  listSealed(prefix: string): Promise<readonly SealedRow[]> {
    return this.#read((db) => security.listSealedRows(db, prefix));
  }

  sealedMarks(prefix: string): Promise<ReadonlyMap<string, string>> {
    return this.#read((db) => security.readSealedMarks(db, prefix));
  }

  putSealed(name: string, sealed: Uint8Array, expect: number | null): Promise<number> {
    return this.#write((write) => security.putSealedRow(write, name, sealed, expect));
  }

  replaceSealed(rows: readonly SealedRow[]): Promise<void> {
    return this.#write((write) => security.replaceSealedRows(write, rows));
  }

  deleteSealed(prefix: string): Promise<number> {
    return this.#write((write) => security.deleteSealedRows(write, prefix));
  }

  putToken(row: TokenRow): Promise<void> {
    return this.#write((write) => security.putTokenRow(write, row));
  }

  getToken(id: string): Promise<TokenRow | null> {
    return this.#read((db) => security.readToken(db, id));
  }

  listTokens(kind: TokenRow['kind']): Promise<readonly TokenRow[]> {
    return this.#read((db) => security.readTokens(db, kind));
  }

  useToken(id: string, now: number): Promise<boolean> {
    return this.#write((write) => security.markTokenUsed(write, id, now));
  }

  deleteToken(id: string): Promise<void> {
    return this.#write(async (write) => {
      const { numDeletedRows } = await write.tx.deleteFrom('tokens').where('id', '=', id).executeTakeFirst();
      write.count(numDeletedRows);
    });
  }

  getSetting(name: string): Promise<string | null> {
    return this.#read((db) => security.readSetting(db, name));
  }

  async initSetting(name: string, value: string): Promise<string> {
    return (
      (await this.getSetting(name)) ??
      (await this.#write((write) => security.initSettingRow(write, name, value)))
    );
  }

  // both kinds of access

  async #read<T>(work: (db: Db) => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw storeClosed();
    for (let attempt = 1; ; attempt++) {
      try {
        return await work(this.#dialect.db);
      } catch (failure) {
        if (attempt < ATTEMPTS && this.#dialect.transient(failure, false)) continue;
        throw this.#dialect.translate(failure, false);
      }
    }
  }

  async #write<T>(work: (write: Write) => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw storeClosed();
    const attempt = this.#groups?.run(work) ?? this.#attempt(work);
    this.#inFlight.add(attempt);
    try {
      return await attempt;
    } finally {
      this.#inFlight.delete(attempt);
    }
  }

  async #attempt<T>(work: (write: Write) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const done: { write?: Write } = {};
      try {
        const result = await this.#dialect.db.transaction().execute(async (tx) => {
          const write = this.#begin(tx);
          const value = await work(write);
          await this.#finish([write]);
          done.write = write;
          return value;
        });
        if (done.write !== undefined) this.#committed(done.write);
        return result;
      } catch (failure) {
        const committing = done.write !== undefined;
        if (attempt < ATTEMPTS && this.#dialect.transient(failure, committing)) continue;
        throw this.#dialect.translate(failure, committing);
      }
    }
  }

  #begin(tx: Tx): Write {
    return new Write(tx, this.#dialect, this.#limits, this.#clock.now());
  }

  async #finish(writes: readonly Write[]): Promise<void> {
    const rows = writes.reduce((sum, write) => sum + write.rows, this.#rowsSinceHousekeeping);
    const [first] = writes;
    if (first !== undefined && rows >= this.#limits.rowsPerHousekeeping) await housekeep(first);
  }

  #committed(write: Write): void {
    if (write.rows === 0) return;
    this.#writes += 1;
    this.#rowsSinceHousekeeping += write.rows;
    if (this.#rowsSinceHousekeeping >= this.#limits.rowsPerHousekeeping) this.#rowsSinceHousekeeping = 0;
    if (write.changes > 0) this.#feed.wake();
  }
}
