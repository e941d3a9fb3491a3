/**
 * Transactions: a view of the state at the begin, private writes on top, one `applyOps` entry at commit.
 * Conflicts are found when writing: with documents another has committed since the begin, and with documents (or unique keys) an
 * open transaction holds. Both give 112 WriteConflict; a writer outside of any transaction may simply try again later.
 */
import type { Document, ObjectId, UUID } from 'bson';
import {
  type FindSpec,
  type OplogEntry,
  ServerError,
  type TransactionView,
  type UpdateOutcome,
  type UpdateSpec,
  type WriteContext,
  type WriteOutcome,
} from '../contracts.ts';
import { sizeOf } from './bson.ts';
import { Catalog, type Op, type Undo } from './catalog.ts';
import type { Collection } from './collection.ts';
import { createCollection, createIndexes } from './ddl.ts';
import { applyDiff, isDiffEntry } from './diff.ts';
import { Queries } from './queries.ts';
import { MAX_DOCUMENT_BYTES } from './validation.ts';
import { type DeleteSpec, deleteMany, insertOne, type Sink, updateMany } from './writer.ts';

const conflict = (ns: string): ServerError =>
  new ServerError(
    112,
    'WriteConflict',
    `Caused by :: Write conflict during plan execution and yielding is disabled. :: Please retry your operation or multi-document transaction. (${ns})`,
  );

/** What is locked or changed: a whole collection, one `_id`, or one key of a unique index. */
type LockKey = string;
const wholeCollection = (ns: string): LockKey => `${ns}\0*`;

/** The keys an operation touches in a collection. */
function touchedKeys(op: Op, collection: Collection | undefined): LockKey[] {
  if (op.op === 'c') return [wholeCollection(commandTarget(op))];
  if (op.op === 'n' || !collection) return [];
  const id: unknown = op.op === 'u' ? op.o2?.['_id'] : op.o['_id'];
  const keys = [`${op.ns}\0_id\0${collection.idKey(id)}`];
  const unique = collection.indexes.filter((index) => index.unique);
  const after = unique.length > 0 ? afterImage(op, collection.findById(id)?.document) : undefined;
  if (!after) return keys;
  const taken = unique.flatMap((index) =>
    Array.from(index.keysOf(after).keys(), (key) => `${op.ns}\0${index.spec['name']}\0${key}`),
  );
  return [...keys, ...taken];
}

/** The document an operation leaves. */
function afterImage(op: Op, before: Document | undefined): Document | undefined {
  if (op.op === 'd') return undefined;
  if (op.op === 'i' || !isDiffEntry(op.o)) return op.o;
  return before && applyDiff(before, op.o['diff'] as Document);
}

function commandTarget(op: Op): string {
  const [name] = Object.keys(op.o);
  const db = op.ns.slice(0, op.ns.indexOf('.'));
  if (name === 'renameCollection') return String(op.o[name]);
  return name === 'dropDatabase' ? `${db}.` : `${db}.${String(op.o[name ?? ''])}`;
}

/** The open transactions of a store, and the history their views need. */
export class Transactions {
  private readonly store: Sink;
  private readonly open = new Set<View>();
  private readonly locks = new Map<LockKey, View>();
  /** Undo steps since the oldest open view began; position = sequence number − `base`. */
  private history: Undo[][] = [];
  private base = 0;
  /** When a key was last changed from outside, as a sequence number; kept while views are open. */
  private readonly changed = new Map<LockKey, number>();

  constructor(store: Sink) {
    this.store = store;
  }

  begin(): TransactionView {
    const view = new View(this.store, this, this.base + this.history.length);
    this.open.add(view);
    return view;
  }

  /** Refuses an operation from outside that touches what an open transaction has written. */
  refuseConflict(op: Op): void {
    if (this.locks.size === 0) return;
    for (const key of touchedKeys(op, this.store.catalog.read(op.ns))) {
      if (this.isHeld(key, undefined)) throw conflict(op.ns);
    }
  }

  private isHeld(key: LockKey, by: View | undefined): boolean {
    if (key.endsWith('\0*')) {
      const prefix = key.slice(0, -1);
      for (const [held, owner] of this.locks) if (owner !== by && held.startsWith(prefix)) return true;
      return false;
    }
    const owner = this.locks.get(key);
    const whole = this.locks.get(wholeCollection(key.slice(0, key.indexOf('\0'))));
    return (owner !== undefined && owner !== by) || (whole !== undefined && whole !== by);
  }

  /** Remembers what was just changed in the store, for open views. */
  note(undo: readonly Undo[]): void {
    if (this.open.size === 0) return;
    this.history.push([...undo]);
    const at = this.base + this.history.length;
    for (const step of undo) {
      if (step.kind !== 'record') {
        this.changed.set(wholeCollection(step.ns), at);
        continue;
      }
      const collection = this.store.catalog.read(step.ns);
      const documents = [step.before?.document, collection?.get(step.record)?.document];
      for (const document of documents)
        if (document && collection) this.noteDocument(collection, document, at);
    }
  }

  private noteDocument(collection: Collection, document: Document, at: number): void {
    const op: Op = { op: 'i', ns: collection.ns, o: document };
    for (const key of touchedKeys(op, collection)) this.changed.set(key, at);
  }

  /** Takes the locks for an operation of a view. Error: 112 when another holds them or changed the same since the begin. */
  lock(view: View, op: Op, collection: Collection | undefined): void {
    const keys = touchedKeys(op, collection);
    for (const key of keys) {
      const whole = wholeCollection(key.slice(0, key.indexOf('\0')));
      const changedAt = Math.max(this.changed.get(key) ?? 0, this.changed.get(whole) ?? 0);
      if (this.isHeld(key, view) || changedAt > view.since) throw conflict(op.ns);
    }
    for (const key of keys) this.locks.set(key, view);
  }

  /** The collection as it was at a point, as an independent copy. */
  collectionAt(ns: string, since: number): Collection | undefined {
    let collection = this.store.catalog.read(ns)?.clone();
    for (const steps of this.history.slice(since - this.base).toReversed()) {
      for (const step of steps.toReversed()) {
        if (step.ns === ns) collection = stepBack(collection, step);
      }
    }
    return collection;
  }

  /** True when nothing of this collection changed since a point. */
  isUnchanged(ns: string, since: number): boolean {
    return this.history.slice(since - this.base).every((steps) => steps.every((step) => step.ns !== ns));
  }

  end(view: View): void {
    this.open.delete(view);
    for (const [key, owner] of this.locks) if (owner === view) this.locks.delete(key);
    if (this.open.size > 0) return;
    this.base += this.history.length;
    this.history = [];
    this.changed.clear();
  }

  abortAll(): void {
    for (const view of [...this.open]) view.abort();
  }
}

function stepBack(collection: Collection | undefined, step: Undo): Collection | undefined {
  if (step.kind === 'collection') return step.before?.clone();
  if (!collection) return undefined;
  if (step.kind === 'record') {
    if (step.before) collection.put(step.before.document, step.record);
    else collection.take(step.record);
  } else if (step.kind === 'indexes') collection.setIndexes(step.before);
  else collection.options = step.before;
  return collection;
}

/** Collections as one transaction sees them; copied when first written. */
class ViewCatalog extends Catalog {
  private readonly base: Catalog;
  private readonly transactions: Transactions;
  private readonly since: number;

  constructor(base: Catalog, transactions: Transactions, since: number) {
    super();
    this.base = base;
    this.transactions = transactions;
    this.since = since;
  }

  override get(ns: string): Collection | undefined {
    const own = this.collections.get(ns);
    if (own) return own;
    const copy = this.transactions.collectionAt(ns, this.since);
    if (copy) this.collections.set(ns, copy);
    return copy;
  }

  override read(ns: string): Collection | undefined {
    const own = this.collections.get(ns);
    if (own) return own;
    return this.transactions.isUnchanged(ns, this.since) ? this.base.read(ns) : this.get(ns);
  }
}

class View implements TransactionView, Sink {
  readonly catalog: Catalog;
  readonly since: number;
  private readonly store: Sink;
  private readonly transactions: Transactions;
  private readonly queries: Queries;
  private ops: Op[] = [];
  private ended = false;

  constructor(store: Sink, transactions: Transactions, since: number) {
    this.store = store;
    this.transactions = transactions;
    this.since = since;
    this.catalog = new ViewCatalog(store.catalog, transactions, since);
    this.queries = new Queries(this);
  }

  readonly newId = (): ObjectId => this.store.newId();
  readonly newUuid = (): UUID => this.store.newUuid();

  write(op: Op): OplogEntry | undefined {
    this.checkOpen();
    this.transactions.lock(this, op, this.catalog.get(op.ns));
    this.catalog.apply(op);
    this.ops.push(op);
    return undefined;
  }

  private checkOpen(): void {
    if (!this.ended) return;
    throw new ServerError(251, 'NoSuchTransaction', 'Transaction has been aborted.');
  }

  find(ns: string, spec: FindSpec): Document[] {
    this.checkOpen();
    return this.queries.find(ns, spec);
  }

  aggregate(ns: string | null, db: string, pipeline: readonly Document[], options?: Document): Document[] {
    this.checkOpen();
    return this.queries.aggregate(ns, db, pipeline, options);
  }

  countMatching(ns: string, filter: Document, options?: Document): number {
    this.checkOpen();
    return this.queries.countMatching(ns, filter, options);
  }

  distinct(ns: string, key: string, filter: Document, options?: Document): unknown[] {
    this.checkOpen();
    return this.queries.distinct(ns, key, filter, options);
  }

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

  createIndexes(
    ns: string,
    indexes: readonly Document[],
    context: WriteContext,
  ): WriteOutcome & { readonly created: readonly string[] } {
    return createIndexes(this, ns, indexes, context);
  }

  commit(context: WriteContext): WriteOutcome {
    this.checkOpen();
    const ops = this.ops;
    const o = { applyOps: ops };
    if (ops.length > 0 && sizeOf(o) > MAX_DOCUMENT_BYTES) {
      throw new ServerError(
        257,
        'TransactionTooLarge',
        'Total size of all transaction operations must be less than 16777216',
      );
    }
    // The locks go first: the store's own check must not find this transaction in its way. Nothing can come between.
    this.abort();
    if (ops.length === 0) return { entries: [] };
    const entry = this.store.write({ op: 'c', ns: 'admin.$cmd', o }, context, true);
    return { entries: entry ? [entry] : [] };
  }

  abort(): void {
    if (this.ended) return;
    this.ended = true;
    this.ops = [];
    this.transactions.end(this);
  }
}
