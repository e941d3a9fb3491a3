/** One collection in memory: immutable documents by record id in natural order, the `_id` map, unique indexes. */
import type { Document, UUID } from 'bson';
import type { CollectionInfo } from '../contracts.ts';
import { isTruthy, sizeOf, toNumber } from './bson.ts';
import { type Collator, collatorOf, valueKey } from './compare.ts';
import { type DuplicateKey, Index } from './index-keys.ts';

/** A stored document. Never changed in place: an update stores another one under the same record id. */
export interface StoredRecord {
  readonly id: number;
  readonly document: Document;
  readonly size: number;
}

/** Limits of a capped collection; `maxBytes` of 0 for none. */
interface CappedLimits {
  readonly maxBytes: number;
  readonly maxDocuments: number;
}

export class Collection {
  ns: string;
  readonly uuid: UUID;
  readonly type: CollectionInfo['type'];
  options: Document;
  indexes: Index[];
  sizeBytes = 0;
  nextRecord = 1;
  private records = new Map<number, StoredRecord>();
  private byId = new Map<string, number>();
  private ordered = true;
  /** True when there is no `_id` map to look into. */
  unindexed = false;

  constructor(
    ns: string,
    uuid: UUID,
    type: CollectionInfo['type'],
    options: Document,
    indexes: readonly Document[],
  ) {
    this.ns = ns;
    this.uuid = uuid;
    this.type = type;
    this.options = options;
    this.indexes = indexes.map((spec) => new Index(spec));
  }

  /** What listCollections tells. */
  info(): CollectionInfo {
    return {
      name: this.ns.slice(this.ns.indexOf('.') + 1),
      type: this.type,
      options: this.options,
      uuid: this.uuid,
    };
  }

  /** The collection's default collation. */
  get collator(): Collator | undefined {
    return collatorOf(this.options['collation'] as Document | undefined);
  }

  get capped(): CappedLimits | undefined {
    if (!isTruthy(this.options['capped'])) return undefined;
    return {
      maxBytes: toNumber(this.options['size']) ?? 0,
      maxDocuments: toNumber(this.options['max']) ?? Number.POSITIVE_INFINITY,
    };
  }

  get count(): number {
    return this.records.size;
  }

  /** Takes documents in without `_id` map and sizes, for a collection made up for one query. */
  fillUnindexed(documents: readonly Document[]): void {
    this.unindexed = true;
    for (const document of documents) {
      const id = this.nextRecord++;
      this.records.set(id, { id, document, size: 0 });
    }
  }

  /** Records in natural order. Not to be changed while iterating; take a copy first. */
  scan(): Iterable<StoredRecord> {
    if (!this.ordered) {
      this.records = new Map([...this.records].toSorted(([left], [right]) => left - right));
      this.ordered = true;
    }
    return this.records.values();
  }

  get(record: number): StoredRecord | undefined {
    return this.records.get(record);
  }

  /** The record with this `_id`. */
  findById(id: unknown): StoredRecord | undefined {
    const record = this.byId.get(this.idKey(id));
    return record === undefined ? undefined : this.records.get(record);
  }

  /** The canonical key of an `_id` in this collection. */
  idKey(id: unknown): string {
    return valueKey(id, this.collator);
  }

  /** The unique key that would be taken twice if this document were stored (in place of `own`). `_id` comes first. */
  findDuplicate(document: Document, own?: number): DuplicateKey | undefined {
    const holder = this.byId.get(this.idKey(document['_id']));
    if (holder !== undefined && holder !== own) {
      const index = this.indexes.find(({ spec }) => spec['name'] === '_id_')?.spec ?? {
        v: 2,
        key: { _id: 1 },
        name: '_id_',
      };
      return { index, keyPattern: { _id: 1 }, keyValue: { _id: document['_id'] } };
    }
    for (const index of this.indexes) {
      const duplicate = index.findDuplicate(document, own);
      if (duplicate) return duplicate;
      // Not unique, but a document with arrays in two fields of one index must still be refused.
      if (!index.unique && index.fields.length > 1) index.keysOf(document);
    }
    return undefined;
  }

  /** Stores a document under a record id (the next one if none is given); gives what was there before. */
  put(document: Document, record = this.nextRecord): StoredRecord | undefined {
    const before = this.records.get(record);
    if (before) this.unlink(before);
    else if (record < this.nextRecord) this.ordered = false;
    this.nextRecord = Math.max(this.nextRecord, record + 1);
    const stored: StoredRecord = { id: record, document, size: sizeOf(document) };
    this.records.set(record, stored);
    this.byId.set(this.idKey(document['_id']), record);
    for (const index of this.indexes) index.insert(document, record);
    this.sizeBytes += stored.size;
    return before;
  }

  /** Takes a record away; gives what was there. */
  take(record: number): StoredRecord | undefined {
    const before = this.records.get(record);
    if (!before) return undefined;
    this.unlink(before);
    this.records.delete(record);
    return before;
  }

  private unlink(stored: StoredRecord): void {
    const key = this.idKey(stored.document['_id']);
    if (this.byId.get(key) === stored.id) this.byId.delete(key);
    for (const index of this.indexes) index.remove(stored.document, stored.id);
    this.sizeBytes -= stored.size;
  }

  /** Record ids a capped collection has to let go, oldest first, now that it holds too much. */
  overflow(): number[] {
    const limits = this.capped;
    if (!limits) return [];
    const gone: number[] = [];
    let documents = this.count;
    let bytes = this.sizeBytes;
    for (const stored of this.scan()) {
      const tooBig = limits.maxBytes > 0 && bytes > limits.maxBytes && documents > 1;
      if (documents <= limits.maxDocuments && !tooBig) break;
      gone.push(stored.id);
      documents -= 1;
      bytes -= stored.size;
    }
    return gone;
  }

  /** Replaces the indexes and fills those that are new. */
  setIndexes(specs: readonly Document[]): void {
    this.indexes = specs.map((spec) => this.indexes.find((index) => index.spec === spec) ?? this.build(spec));
  }

  /** A new index over the present documents, not yet in use. */
  build(spec: Document): Index {
    const index = new Index(spec);
    for (const stored of this.records.values()) index.insert(stored.document, stored.id);
    return index;
  }

  /** An independent copy sharing the documents, for a transaction's view. */
  clone(): Collection {
    const copy = new Collection(this.ns, this.uuid, this.type, this.options, []);
    copy.indexes = this.indexes.map((index) => index.clone());
    copy.records = new Map(this.records);
    copy.byId = new Map(this.byId);
    copy.sizeBytes = this.sizeBytes;
    copy.nextRecord = this.nextRecord;
    copy.ordered = this.ordered;
    return copy;
  }
}
