/** All collections of a process, and how one oplog operation changes them — with what undoes it. */
import { Binary, type Document, Int32, UUID } from 'bson';
import type { OplogEntry } from '../contracts.ts';
import { isDocument, isTruthy } from './bson.ts';
import { Collection, type StoredRecord } from './collection.ts';
import { applyDiff, isDiffEntry } from './diff.ts';

/** An operation without its place in the log. */
export type Op = Pick<OplogEntry, 'op' | 'ns' | 'o' | 'ui' | 'o2' | 'preImage'>;

/** How to take one step back. Undone in reverse order. */
export type Undo =
  | {
      readonly kind: 'record';
      readonly ns: string;
      readonly record: number;
      readonly before: StoredRecord | undefined;
    }
  | { readonly kind: 'collection'; readonly ns: string; readonly before: Collection | undefined }
  | { readonly kind: 'indexes'; readonly ns: string; readonly before: readonly Document[] }
  | { readonly kind: 'options'; readonly ns: string; readonly before: Document };

/** Splits `db.collection`. */
export function splitNamespace(ns: string): { readonly db: string; readonly name: string } {
  const dot = ns.indexOf('.');
  return dot < 0 ? { db: ns, name: '' } : { db: ns.slice(0, dot), name: ns.slice(dot + 1) };
}

/** The index every collection has. */
export const ID_INDEX: Document = { v: new Int32(2), key: { _id: new Int32(1) }, name: '_id_' };

export class Catalog {
  readonly collections = new Map<string, Collection>();

  /** The collection, to be changed. */
  get(ns: string): Collection | undefined {
    return this.collections.get(ns);
  }

  /** The collection, only to be read. */
  read(ns: string): Collection | undefined {
    return this.get(ns);
  }

  /** Names of databases that hold at least one collection, sorted. */
  databases(): string[] {
    return [...new Set(Array.from(this.collections.keys(), (ns) => splitNamespace(ns).db))].toSorted();
  }

  /** Collections of a database, by name. */
  in(db: string): Collection[] {
    const prefix = `${db}.`;
    return [...this.collections.values()]
      .filter(({ ns }) => ns.startsWith(prefix))
      .toSorted((left, right) => (left.ns < right.ns ? -1 : 1));
  }

  /** Applies one operation and gives its undo steps. Idempotent; never checks constraints; what can't be done is skipped. */
  apply(op: Op): Undo[] {
    switch (op.op) {
      case 'i':
        return this.insert(op);
      case 'u':
        return this.update(op);
      case 'd':
        return this.remove(op);
      case 'c':
        return this.command(op);
      case 'n':
        return [];
    }
  }

  /**
   * The collection an operation is about: by UUID, since a copy may already know it under a later name, or no more. Undefined when
   * it is gone; operations on it are then skipped.
   */
  private target(ns: string, uuid: UUID | undefined): Collection | undefined {
    const named = this.get(ns);
    if (!uuid || (named && sameUuid(named.uuid, uuid))) return named;
    for (const collection of this.collections.values())
      if (sameUuid(collection.uuid, uuid)) return collection;
    return undefined;
  }

  private insert(op: Op): Undo[] {
    const undo: Undo[] = [];
    let collection = this.target(op.ns, op.ui);
    if (!collection) {
      if (op.ui) return undo;
      collection = this.place(op.ns, new Collection(op.ns, new UUID(), 'collection', {}, [ID_INDEX]), undo);
    }
    const { ns } = collection;
    const record = collection.findById(op.o['_id'])?.id ?? collection.nextRecord;
    const before = collection.put(op.o, record);
    undo.push({ kind: 'record', ns, record, before });
    for (const gone of collection.overflow()) {
      undo.push({ kind: 'record', ns, record: gone, before: collection.take(gone) });
    }
    return undo;
  }

  private update(op: Op): Undo[] {
    const collection = this.target(op.ns, op.ui);
    const stored = collection?.findById(op.o2?.['_id']);
    if (!collection || !stored) {
      // While a copy is being brought up to date the document may be gone already; a whole document can still be put in.
      return isDiffEntry(op.o) || !collection ? [] : this.insert(op);
    }
    const after = isDiffEntry(op.o) ? applyDiff(stored.document, op.o['diff'] as Document) : op.o;
    collection.put(after, stored.id);
    return [{ kind: 'record', ns: collection.ns, record: stored.id, before: stored }];
  }

  private remove(op: Op): Undo[] {
    const collection = this.target(op.ns, op.ui);
    const stored = collection?.findById(op.o['_id']);
    if (!collection || !stored) return [];
    collection.take(stored.id);
    return [{ kind: 'record', ns: collection.ns, record: stored.id, before: stored }];
  }

  private command(op: Op): Undo[] {
    const undo: Undo[] = [];
    const { db } = splitNamespace(op.ns);
    const name = Object.keys(op.o)[0] ?? '';
    const ns = name === 'renameCollection' ? String(op.o[name]) : `${db}.${String(op.o[name])}`;
    switch (name) {
      case 'create':
        this.create(ns, op, undo);
        break;
      case 'dropDatabase':
        for (const collection of this.in(db)) this.displace(collection, undo);
        break;
      case 'applyOps':
        for (const inner of op.o['applyOps'] as Op[]) undo.push(...this.apply(inner));
        break;
      default: {
        const collection = this.target(ns, op.ui);
        if (collection) this.change(name, collection, op.o, undo);
        else if (name === 'renameCollection') this.dropTarget(op.o, undo);
      }
    }
    return undo;
  }

  /** Commands about one collection that exists. */
  private change(name: string, collection: Collection, o: Document, undo: Undo[]): void {
    switch (name) {
      case 'drop':
        this.displace(collection, undo);
        break;
      case 'renameCollection':
        this.rename(collection, o, undo);
        break;
      case 'createIndexes':
        this.createIndex(collection, o, undo);
        break;
      case 'dropIndexes':
        this.setIndexes(collection, (specs) => specs.filter((spec) => spec['name'] !== o['index']), undo);
        break;
      case 'collMod':
        this.collMod(collection, o, undo);
        break;
    }
  }

  private place(ns: string, collection: Collection, undo: Undo[]): Collection {
    undo.push({ kind: 'collection', ns, before: this.get(ns) });
    collection.ns = ns;
    this.collections.set(ns, collection);
    return collection;
  }

  private displace(collection: Collection, undo: Undo[]): void {
    undo.push({ kind: 'collection', ns: collection.ns, before: collection });
    this.collections.delete(collection.ns);
  }

  private create(ns: string, op: Op, undo: Undo[]): void {
    const present = this.target(ns, op.ui);
    if (present) {
      this.move(present, ns, undo);
      return;
    }
    this.setAside(ns, undo);
    this.place(ns, collectionOfCreate(op, ns), undo);
  }

  private rename(collection: Collection, o: Document, undo: Undo[]): void {
    this.dropTarget(o, undo);
    this.move(collection, String(o['to']), undo);
  }

  private dropTarget(o: Document, undo: Undo[]): void {
    const uuid: unknown = o['dropTarget'];
    if (!(uuid instanceof Binary)) return;
    const target = this.target(String(o['to']), uuid.toUUID());
    if (target) this.displace(target, undo);
  }

  private move(collection: Collection, to: string, undo: Undo[]): void {
    if (collection.ns === to) return;
    this.setAside(to, undo);
    this.displace(collection, undo);
    this.place(to, collection, undo);
  }

  /**
   * Another collection has the name already: only while a copy taken later is brought up to date. It waits under a name of its
   * own until the entry comes that gives it this one.
   */
  private setAside(ns: string, undo: Undo[]): void {
    const other = this.get(ns);
    if (!other) return;
    this.displace(other, undo);
    this.place(`${splitNamespace(ns).db}.tmp${other.uuid.toHexString()}`, other, undo);
  }

  private createIndex(collection: Collection, o: Document, undo: Undo[]): void {
    const { createIndexes: _name, ...spec } = o;
    if (collection.indexes.some((index) => index.spec['name'] === spec['name'])) return;
    this.setIndexes(collection, (specs) => [...specs, spec], undo);
  }

  private setIndexes(
    collection: Collection,
    change: (specs: readonly Document[]) => readonly Document[],
    undo: Undo[],
  ): void {
    const before = collection.indexes.map((index) => index.spec);
    undo.push({ kind: 'indexes', ns: collection.ns, before });
    collection.setIndexes(change(before));
  }

  private collMod(collection: Collection, o: Document, undo: Undo[]): void {
    const { collMod: _name, index, ...options } = o;
    if (Object.keys(options).length > 0) {
      undo.push({ kind: 'options', ns: collection.ns, before: collection.options });
      collection.options = { ...collection.options, ...options };
    }
    if (!isDocument(index)) return;
    const { name, ...changes } = index;
    this.setIndexes(
      collection,
      (specs) => specs.map((spec) => (spec['name'] === name ? changedIndex(spec, changes) : spec)),
      undo,
    );
  }

  /** Takes steps back, the last one first. */
  undo(steps: readonly Undo[]): void {
    for (const step of steps.toReversed()) this.undoStep(step);
  }

  private undoStep(step: Undo): void {
    if (step.kind === 'collection') {
      if (!step.before) this.collections.delete(step.ns);
      else {
        step.before.ns = step.ns;
        this.collections.set(step.ns, step.before);
      }
      return;
    }
    const collection = this.get(step.ns);
    if (!collection) return;
    if (step.kind === 'record') {
      if (step.before) collection.put(step.before.document, step.record);
      else collection.take(step.record);
    } else if (step.kind === 'indexes') collection.setIndexes(step.before);
    else collection.options = step.before;
  }
}

/** `unset: true` fields go away (a dropped option), the others replace. */
function changedIndex(spec: Document, changes: Document): Document {
  const result = { ...spec, ...changes };
  return Object.fromEntries(Object.entries(result).filter(([, value]) => value !== null));
}

const sameUuid = (left: UUID, right: UUID): boolean =>
  left === right || left.toHexString() === right.toHexString();

function collectionOfCreate(op: Op, ns: string): Collection {
  const { create: _name, idIndex, ...options } = op.o;
  const type =
    options['viewOn'] !== undefined
      ? 'view'
      : isDocument(options['timeseries'])
        ? 'timeseries'
        : 'collection';
  const indexes =
    type === 'view' || isTruthy(options['clusteredIndex']) ? [] : [isDocument(idIndex) ? idIndex : ID_INDEX];
  return new Collection(ns, op.ui ?? new UUID(), type, options, indexes);
}
