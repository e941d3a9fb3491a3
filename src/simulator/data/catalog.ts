/** All collections of a process, and how one oplog operation changes them — with what undoes it. */
import { type Document, Int32, UUID } from 'bson';
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

  private insert(op: Op): Undo[] {
    const undo: Undo[] = [];
    const collection = this.get(op.ns) ?? this.place(op.ns, implicitCollection(op), undo);
    const existing = collection.findById(op.o['_id']);
    const record = existing?.id ?? collection.nextRecord;
    const before = collection.put(op.o, record);
    undo.push({ kind: 'record', ns: op.ns, record, before });
    for (const gone of collection.overflow()) {
      undo.push({ kind: 'record', ns: op.ns, record: gone, before: collection.take(gone) });
    }
    return undo;
  }

  private update(op: Op): Undo[] {
    const collection = this.get(op.ns);
    const stored = collection?.findById(op.o2?.['_id']);
    if (!collection || !stored) {
      // While a copy is being brought up to date the document may be gone already; a whole document can still be put in.
      return isDiffEntry(op.o) || !collection ? [] : this.insert(op);
    }
    const after = isDiffEntry(op.o) ? applyDiff(stored.document, op.o['diff'] as Document) : op.o;
    collection.put(after, stored.id);
    return [{ kind: 'record', ns: op.ns, record: stored.id, before: stored }];
  }

  private remove(op: Op): Undo[] {
    const collection = this.get(op.ns);
    const stored = collection?.findById(op.o['_id']);
    if (!collection || !stored) return [];
    collection.take(stored.id);
    return [{ kind: 'record', ns: op.ns, record: stored.id, before: stored }];
  }

  private place(ns: string, collection: Collection, undo: Undo[]): Collection {
    undo.push({ kind: 'collection', ns, before: this.get(ns) });
    collection.ns = ns;
    this.collections.set(ns, collection);
    return collection;
  }

  private displace(ns: string, undo: Undo[]): void {
    const before = this.get(ns);
    if (!before) return;
    undo.push({ kind: 'collection', ns, before });
    this.collections.delete(ns);
  }

  private command(op: Op): Undo[] {
    const undo: Undo[] = [];
    const { db } = splitNamespace(op.ns);
    const name = Object.keys(op.o)[0];
    const target = `${db}.${String(op.o[name ?? ''])}`;
    switch (name) {
      case 'create':
        if (!this.get(target)) this.place(target, collectionOfCreate(op, target), undo);
        break;
      case 'drop':
        this.displace(target, undo);
        break;
      case 'dropDatabase':
        for (const collection of this.in(db)) this.displace(collection.ns, undo);
        break;
      case 'renameCollection':
        this.rename(op.o, undo);
        break;
      case 'createIndexes':
        this.createIndex(target, op.o, undo);
        break;
      case 'dropIndexes':
        this.setIndexes(target, (spec) => spec['name'] !== op.o['index'], undo);
        break;
      case 'collMod':
        this.collMod(target, op.o, undo);
        break;
      case 'applyOps':
        for (const inner of op.o['applyOps'] as Op[]) undo.push(...this.apply(inner));
        break;
    }
    return undo;
  }

  private rename(o: Document, undo: Undo[]): void {
    const from = o['renameCollection'] as string;
    const to = o['to'] as string;
    const collection = this.get(from);
    if (!collection) return;
    this.displace(to, undo);
    this.displace(from, undo);
    this.place(to, collection, undo);
  }

  private createIndex(ns: string, o: Document, undo: Undo[]): void {
    const collection = this.get(ns);
    if (!collection) return;
    const { createIndexes: _name, ...spec } = o;
    if (collection.indexes.some((index) => index.spec['name'] === spec['name'])) return;
    const before = collection.indexes.map((index) => index.spec);
    undo.push({ kind: 'indexes', ns, before });
    collection.setIndexes([...before, spec]);
  }

  private setIndexes(ns: string, keep: (spec: Document) => boolean, undo: Undo[]): void {
    const collection = this.get(ns);
    if (!collection) return;
    const before = collection.indexes.map((index) => index.spec);
    undo.push({ kind: 'indexes', ns, before });
    collection.setIndexes(before.filter(keep));
  }

  private collMod(ns: string, o: Document, undo: Undo[]): void {
    const collection = this.get(ns);
    if (!collection) return;
    const { collMod: _name, index, ...options } = o;
    if (Object.keys(options).length > 0) {
      undo.push({ kind: 'options', ns, before: collection.options });
      collection.options = { ...collection.options, ...options };
    }
    if (!isDocument(index)) return;
    const before = collection.indexes.map(({ spec }) => spec);
    undo.push({ kind: 'indexes', ns, before });
    const { name, ...changes } = index;
    collection.setIndexes(before.map((spec) => (spec['name'] === name ? changedIndex(spec, changes) : spec)));
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

function implicitCollection(op: Op): Collection {
  return new Collection(op.ns, op.ui ?? new UUID(), 'collection', {}, [ID_INDEX]);
}

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
