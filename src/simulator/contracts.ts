/**
 * The seams inside the simulator: process and wire (connections, dispatch, authentication) · commands (CRUD, sessions,
 * change streams) · data (documents, indexes, durable storage) · replication (the pure member machine and its runtime).
 * Each part implements one interface here and sees the others only through it.
 */
import type { Document, Long, ObjectId, Timestamp, UUID } from 'bson';
import type { Millis } from '../base/units.ts';

// ── errors ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A command's refusal: becomes `{ok: 0, errmsg, code, codeName, errorLabels?, …extra}`. */
export class ServerError extends Error {
  readonly code: number;
  readonly codeName: string;
  readonly errorLabels: readonly string[] | undefined;
  /** More reply fields, `topologyVersion`, `keyPattern` or `errInfo` for example. */
  readonly extra: Document;
  constructor(code: number, codeName: string, message: string, extra: Document = {}, errorLabels?: string[]) {
    super(message);
    this.name = 'ServerError';
    this.code = code;
    this.codeName = codeName;
    this.extra = extra;
    this.errorLabels = errorLabels;
  }
}

// ── optimes and the oplog ──────────────────────────────────────────────────────────────────────────────────────────

/** A place in the replicated log. Ordered by term, then ts. The term of a standalone is -1. */
export interface OpTime {
  readonly ts: Timestamp;
  readonly t: Long;
}

/**
 * One entry of `local.oplog.rs`, in the server's shape. Updates are stored as full replacement or `$v: 2` diff, as the data
 * part prefers; entries must be idempotent. `o` of a command entry (`op: 'c'`) is create, drop, dropDatabase, createIndexes,
 * dropIndexes, renameCollection, collMod or applyOps (transactions: one applyOps entry per committed transaction).
 */
export interface OplogEntry extends OpTime {
  readonly op: 'i' | 'u' | 'd' | 'c' | 'n';
  readonly ns: string;
  readonly ui?: UUID;
  readonly o: Document;
  readonly o2?: Document;
  readonly wall: Date;
  readonly v: 2;
  /** Session fields for retryable writes; the transaction table is rebuilt from them on every member. */
  readonly lsid?: Document;
  readonly txnNumber?: Long;
  readonly stmtId?: number;
  readonly prevOpTime?: OpTime;
  readonly preImage?: Document;
}

// ── data ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Gives the optime for the next write; on a standalone a plain clock. */
export type Stamp = () => OpTime;

export interface CollectionInfo {
  readonly name: string;
  readonly type: 'collection' | 'view' | 'timeseries';
  readonly options: Document;
  readonly uuid: UUID;
}

/** What one write did. `entries` are already applied and in the log, in order. */
export interface WriteOutcome {
  readonly entries: readonly OplogEntry[];
}
export interface UpdateSpec {
  readonly filter: Document;
  /** Operator document, replacement document or pipeline. */
  readonly update: Document | readonly Document[];
  readonly multi: boolean;
  readonly upsert: boolean;
  readonly arrayFilters?: readonly Document[];
  readonly collation?: Document;
  readonly hint?: Document | string;
  readonly sort?: Document;
  readonly let?: Document;
}
export interface UpdateOutcome extends WriteOutcome {
  readonly matched: number;
  readonly modified: number;
  readonly upsertedId?: unknown;
  /** Before and after images of the one document, for findAndModify. */
  readonly before?: Document;
  readonly after?: Document;
}
/** Session fields to put into the entries of one statement. */
export interface WriteContext {
  readonly stamp: Stamp;
  readonly wall: Date;
  readonly session?: { readonly lsid: Document; readonly txnNumber: Long; readonly stmtId: number };
  readonly bypassDocumentValidation?: boolean;
}
export interface FindSpec {
  readonly filter?: Document;
  readonly sort?: Document;
  readonly projection?: Document;
  readonly skip?: number;
  readonly limit?: number;
  readonly collation?: Document;
  readonly hint?: Document | string;
  readonly min?: Document;
  readonly max?: Document;
  readonly let?: Document;
  readonly returnKey?: boolean;
  readonly showRecordId?: boolean;
}

/**
 * The document store of one process. Everything is in memory; every applied entry is appended (with what is needed to undo it)
 * to a write-ahead log in the data folder and survives kill -9; a checkpoint now and then bounds the log.
 * Namespaces are `db.collection`. All reads see the state after the last applied entry (or a transaction's own view).
 * Values are BSON values as the `bson` package gives them with promoteValues: false for numbers (Int32, Double, Long, Decimal128), so
 * that types survive. Errors are ServerError with the server's codes.
 */
export interface DataStore {
  databases(): readonly string[];
  collections(db: string): readonly CollectionInfo[];
  info(ns: string): CollectionInfo | undefined;
  indexes(ns: string): readonly Document[];
  count(ns: string): number;
  sizeBytes(ns: string): number;

  find(ns: string, spec: FindSpec): Document[];
  aggregate(ns: string | null, db: string, pipeline: readonly Document[], options?: Document): Document[];
  countMatching(ns: string, filter: Document, options?: Document): number;
  distinct(ns: string, key: string, filter: Document, options?: Document): unknown[];

  insert(ns: string, document: Document, context: WriteContext): WriteOutcome;
  update(ns: string, spec: UpdateSpec, context: WriteContext): UpdateOutcome;
  delete(
    ns: string,
    spec: {
      filter: Document;
      limit: 0 | 1;
      collation?: Document;
      hint?: Document | string;
      sort?: Document;
      let?: Document;
    },
    context: WriteContext,
  ): WriteOutcome & { readonly deleted: number; readonly before?: Document };

  create(ns: string, options: Document, context: WriteContext): WriteOutcome;
  drop(ns: string, context: WriteContext): WriteOutcome & { readonly nIndexesWas: number };
  dropDatabase(db: string, context: WriteContext): WriteOutcome;
  rename(from: string, to: string, dropTarget: boolean, context: WriteContext): WriteOutcome;
  collMod(ns: string, change: Document, context: WriteContext): WriteOutcome & { readonly reply: Document };
  createIndexes(
    ns: string,
    indexes: readonly Document[],
    context: WriteContext,
  ): WriteOutcome & { readonly created: readonly string[] };
  dropIndexes(
    ns: string,
    which: unknown,
    context: WriteContext,
  ): WriteOutcome & { readonly nIndexesWas: number };

  /** Starts a transaction's own view; its writes are private until commit, conflicts give 112 WriteConflict. */
  beginTransaction(): TransactionView;

  /** Writes an entry by itself (no-ops, new-primary entries). */
  appendNoop(o: Document, context: WriteContext): OplogEntry;
  /** Applies entries fetched from another member, in order; durable when it returns. */
  apply(entries: readonly OplogEntry[]): void;
  /** Entries after the given optime (null: from the oldest), at most `limit`. */
  oplogAfter(after: OpTime | null, limit: number): readonly OplogEntry[];
  /** The newest entry at or before an optime; used to find a common point. */
  oplogFind(opTime: OpTime): OplogEntry | undefined;
  oldestOplog(): OpTime | null;
  lastApplied(): OpTime | null;
  /** Undoes every entry after the given optime (rollback); returns the documents that went. */
  rollbackTo(opTime: OpTime): { readonly undone: readonly OplogEntry[] };
  /** Drops everything except the local database and starts over (initial sync); then load and apply. */
  resetForInitialSync(): void;
  loadCollection(
    info: CollectionInfo & { readonly ns: string; readonly indexes: readonly Document[] },
    documents: readonly Document[],
  ): void;
  /** After initial sync: the log begins here. */
  setOplogStart(opTime: OpTime, entry?: OplogEntry): void;
  /** Undo information older than this may go: it can never be rolled back. */
  setStable(opTime: OpTime): void;

  /** Unreplicated documents (`local.*`: replica set config, last vote, minValid): one document per key, durable at return. */
  getLocal(key: string): Document | undefined;
  setLocal(key: string, value: Document): void;

  /** Called after every applied entry, in order; for change streams, tailable cursors and waiting readers. */
  onApplied(listener: (entry: OplogEntry) => void): () => void;
  close(): Promise<void>;
}

/** A transaction's view: same reads and writes; nothing is visible outside or in the log before `commit`. */
export interface TransactionView
  extends Pick<
    DataStore,
    | 'find'
    | 'aggregate'
    | 'countMatching'
    | 'distinct'
    | 'insert'
    | 'update'
    | 'delete'
    | 'create'
    | 'createIndexes'
  > {
  commit(context: WriteContext): WriteOutcome;
  abort(): void;
}

// ── replication ────────────────────────────────────────────────────────────────────────────────────────────────────

export interface WriteConcern {
  readonly w?: number | string;
  readonly j?: boolean;
  readonly wtimeout?: number;
}

/** The running replica-set member of this process; absent on a standalone. */
export interface Replication {
  readonly setName: string;
  /** The replica-set part of `hello`, in the server's field order, and the current topologyVersion. */
  helloFields(options: { readonly legacyNames: boolean; readonly sni?: string | undefined }): Document;
  topologyVersion(): { readonly processId: ObjectId; readonly counter: Long };
  /** Resolves when the counter moves past the given one, or after the wait. */
  awaitTopologyChange(counter: Long, maxWait: Millis, signal: AbortSignal): Promise<void>;
  /** Throws 10107, 13435, 13436, 189 or 91 with topologyVersion when this member can't serve that now. `local` is always allowed. */
  assertWritable(db: string): void;
  assertReadable(db: string, secondaryOk: boolean): void;
  isWritablePrimary(): boolean;
  /** Only while writable: the optime for the next write. */
  stamp: Stamp;
  /** Waits until the write concern holds for this optime. Gives null or the writeConcernError document. */
  awaitWriteConcern(opTime: OpTime, concern: WriteConcern, signal: AbortSignal): Promise<Document | null>;
  /** Waits for afterClusterTime and, for majority, until that point is committed. */
  awaitReadConcern(concern: Document, signal: AbortSignal): Promise<void>;
  defaultWriteConcern(): WriteConcern;
  setDefaultConcerns(concerns: { readonly write?: WriteConcern; readonly read?: Document }): void;
  lastApplied(): OpTime | null;
  majorityCommitted(): OpTime | null;
  electionId(): ObjectId | null;
  clusterTime(): Timestamp;
  /** Takes in a client's cluster time. */
  advanceClusterTime(time: Timestamp): void;
  /** Called when the member stops being primary (transactions and waiting writes end with 11602), or its data was rolled back or reset. */
  onStepDown(listener: (reason: 'stepdown' | 'rollback' | 'initialSync') => void): void;
  /** replSet* and internal commands. */
  readonly commands: readonly CommandSpec[];
  start(): Promise<void>;
  /** Clean shutdown: hands over if it can, then quiesces. */
  shutdown(options: { readonly force: boolean; readonly timeoutMillis: Millis }): Promise<void>;
  stop(): void;
}

// ── wire and process ───────────────────────────────────────────────────────────────────────────────────────────────

export interface AuthenticatedUser {
  readonly user: string;
  readonly db: string;
}

export interface Connection {
  readonly id: number;
  readonly remote: string;
  readonly loopback: boolean;
  readonly sni: string | undefined;
  /** RFC 2253 subject of a verified client certificate. */
  readonly peerSubject: string | undefined;
  users: readonly AuthenticatedUser[];
  /** True for other members: keyfile (`__system`) or a member certificate. */
  internal: boolean;
  clientMetadata: Document | undefined;
  readonly appName: string | undefined;
  /** Closed with the connection. */
  readonly signal: AbortSignal;
  close(): void;
}

/** One call of one command. */
export interface CommandContext {
  readonly node: ServerNode;
  readonly connection: Connection;
  readonly name: string;
  readonly db: string;
  /** The whole command, `$db` and generic arguments included; OP_MSG document sequences are merged in. */
  readonly command: Document;
  /** Aborted by a closed connection, killOp, an interrupting stepdown or maxTimeMS. */
  readonly signal: AbortSignal;
  readonly opId: number;
}

/** One privilege a command needs. `resource` is db + collection ('' = any), `cluster` or `any`. */
export interface Privilege {
  readonly resource:
    | { readonly db: string; readonly collection: string }
    | { readonly cluster: true }
    | { readonly anyResource: true };
  readonly actions: readonly string[];
}

export interface CommandSpec {
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly adminOnly?: boolean;
  /** `none`: before login; `login`: any user; else the privileges it needs. */
  readonly auth: 'none' | 'login' | ((context: CommandContext) => readonly Privilege[]);
  /** Needs a writable primary (checked before running), may run on a secondary with secondaryOk, or doesn't care. */
  readonly access: 'write' | 'read' | 'any';
  /** Top-level fields allowed besides the generic arguments; others give 40415. Absent: lax. */
  readonly fields?: readonly string[];
  run(context: CommandContext): Promise<Document> | Document;
}

export interface Logger {
  log(
    severity: 'F' | 'E' | 'W' | 'I' | 'D1',
    component: string,
    id: number,
    ctx: string,
    msg: string,
    attr?: Document,
  ): void;
}

/** Options after command line and config file were merged, nested as in the YAML (`net.port`, `security.keyFile`, …). */
export type ParsedOptions = Document;

/** The process as the commands see it. */
export interface ServerNode {
  readonly options: ParsedOptions;
  readonly version: string;
  readonly data: DataStore;
  readonly replication: Replication | null;
  readonly logger: Logger;
  readonly startedAt: Date;
  /** host:port this process is reached at. */
  readonly address: string;
  readonly testCommandsEnabled: boolean;
  readonly parameters: Map<string, unknown>;
  now(): Date;
  /**
   * Whether a connection holds privileges, for commands whose answer depends on it (listDatabases, listCollections). Always true
   * without access control; absent: the same.
   */
  readonly allows?: (connection: Connection, privileges: readonly Privilege[]) => boolean;
  /** Runs a command as the process itself (no authentication, no write-concern wait), for internal use. */
  runInternal(db: string, command: Document): Promise<Document>;
  /** Ends the process cleanly. */
  shutdown(exitCode: number): void;
}
