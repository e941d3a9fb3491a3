/** The checkpoint: everything a store holds as a stream of records, and back. */
import type { Document, UUID } from 'bson';
import type { CollectionInfo, OpTime } from '../contracts.ts';
import { canonical, toNumber } from './bson.ts';
import type { Catalog, Undo } from './catalog.ts';
import { Collection, type StoredRecord } from './collection.ts';
import { entryFromDocument, type OplogItem, type OplogWindow } from './oplog.ts';

/** The parts of a store that are durable. */
interface DurableState {
  readonly catalog: Catalog;
  readonly oplog: OplogWindow;
  readonly locals: Map<string, Document>;
}

interface CollectionImage {
  readonly head: Document;
  readonly records: readonly StoredRecord[];
}

/** Why 512 KiB: a slice is written between two turns of the event loop and must not hold up heartbeats. */
const CHUNK_BYTES = 512 * 1024;

/**
 * The records of a snapshot. What can change later is captured at the call; documents are immutable and are serialised as the
 * stream is read, while the store goes on. `seq` is the number of the last log record contained.
 */
export function snapshotRecords(state: DurableState, seq: number): Iterable<Document> {
  const live = Array.from(state.catalog.collections.values(), image);
  const locals = [...state.locals];
  const items = state.oplog.all().map((item) => ({ item, undo: item.undo?.map(captureUndo) }));
  const start = state.oplog.start;
  return stream(live, locals, items, start, seq);
}

type CapturedUndo = Document & { readonly image?: CollectionImage };

function* stream(
  live: readonly CollectionImage[],
  locals: readonly (readonly [string, Document])[],
  items: readonly { readonly item: OplogItem; readonly undo: readonly CapturedUndo[] | undefined }[],
  start: OpTime | null,
  seq: number,
): Generator<Document> {
  yield { k: 'head', format: 1, seq, start: start ? { ts: start.ts, t: start.t } : null };
  for (const [key, value] of locals) yield { k: 'local', key, value };
  for (const collection of live) yield* collectionRecords(collection, 'live');
  for (const { item, undo } of items) {
    yield { k: 'op', e: item.entry, bytes: item.bytes, undoable: undo !== undefined };
    for (const { image: before, ...step } of undo ?? []) {
      if (before) yield* collectionRecords(before, 'undo');
      yield { k: 'undo', ...step, collection: before !== undefined };
    }
  }
  yield { k: 'end' };
}

function image(collection: Collection): CollectionImage {
  const { ns, uuid, type, options, nextRecord } = collection;
  const indexes = collection.indexes.map(({ spec }) => spec);
  return { head: { ns, uuid, type, options, indexes, nextRecord }, records: [...collection.scan()] };
}

function captureUndo(step: Undo): CapturedUndo {
  const { kind, ns } = step;
  switch (step.kind) {
    case 'record':
      return { kind, ns, record: step.record, before: step.before?.document ?? null };
    case 'collection':
      return step.before ? { kind, ns, image: image(step.before) } : { kind, ns };
    default:
      return { kind, ns, before: step.before };
  }
}

function* collectionRecords(collection: CollectionImage, where: 'live' | 'undo'): Generator<Document> {
  yield { k: 'collection', where, ...collection.head };
  let ids: number[] = [];
  let documents: Document[] = [];
  let bytes = 0;
  for (const { id, document, size } of collection.records) {
    if (bytes > 0 && bytes + size > CHUNK_BYTES) {
      yield { k: 'documents', ids, documents };
      [ids, documents, bytes] = [[], [], 0];
    }
    ids.push(id);
    documents.push(document);
    bytes += size;
  }
  if (ids.length > 0) yield { k: 'documents', ids, documents };
}

/** Fills an empty store from a snapshot's records; gives the number of the last log record contained. */
export function loadSnapshot(records: readonly Document[], state: DurableState): number {
  let seq = 0;
  let collection: Collection | undefined;
  let undo: Undo[] = [];
  for (const record of records) {
    switch (record['k']) {
      case 'head':
        seq = toNumber(record['seq']) ?? 0;
        state.oplog.start = opTimeFrom(record['start']);
        break;
      case 'local':
        state.locals.set(record['key'] as string, record['value'] as Document);
        break;
      case 'collection':
        collection = collectionFrom(record);
        if (record['where'] === 'live') state.catalog.collections.set(collection.ns, collection);
        break;
      case 'documents':
        fill(collection!, record);
        break;
      case 'op':
        undo = [];
        state.oplog.push({
          entry: entryFromDocument(record['e'] as Document),
          bytes: toNumber(record['bytes']) ?? 0,
          undo: record['undoable'] === true ? undo : undefined,
        });
        break;
      case 'undo':
        undo.push(undoFrom(record, collection));
        break;
    }
  }
  return seq;
}

/** True when the records are a whole snapshot. */
export function isWholeSnapshot(records: readonly Document[]): boolean {
  return records[0]?.['k'] === 'head' && records.at(-1)?.['k'] === 'end';
}

/** An optime from a record, null for null. */
export function opTimeFrom(value: unknown): OpTime | null {
  if (value === null || value === undefined) return null;
  const { ts, t } = value as OpTime;
  return { ts, t };
}

function collectionFrom(record: Document): Collection {
  const { ns, uuid, type, options, indexes, nextRecord } = record;
  const collection = new Collection(
    ns as string,
    uuid as UUID,
    type as CollectionInfo['type'],
    options as Document,
    indexes as Document[],
  );
  collection.nextRecord = toNumber(nextRecord) ?? 1;
  return collection;
}

function fill(collection: Collection, record: Document): void {
  const documents = record['documents'] as Document[];
  (record['ids'] as unknown[]).forEach((id, index) => {
    collection.put(documents[index]!, toNumber(id)!);
  });
}

function undoFrom(record: Document, collection: Collection | undefined): Undo {
  const ns = record['ns'] as string;
  switch (record['kind']) {
    case 'record': {
      const id = toNumber(record['record'])!;
      const document = record['before'] as Document | null;
      return { kind: 'record', ns, record: id, before: document ? { id, document, size: 0 } : undefined };
    }
    case 'collection':
      return { kind: 'collection', ns, before: record['collection'] === true ? collection : undefined };
    case 'indexes':
      return { kind: 'indexes', ns, before: record['before'] as Document[] };
    default:
      return { kind: 'options', ns, before: canonical(record['before']) as Document };
  }
}
