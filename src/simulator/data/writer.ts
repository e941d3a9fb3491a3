/** Inserts, updates and deletes: turns statements into oplog operations, checks first, over one catalog. */
import { type Document, Int32, type ObjectId, type UUID } from 'bson';
import {
  type OplogEntry,
  ServerError,
  type UpdateOutcome,
  type UpdateSpec,
  type WriteContext,
  type WriteOutcome,
} from '../contracts.ts';
import { runUpdatePipeline } from './aggregate.ts';
import { canonicalDocument, isTruthy } from './bson.ts';
import { type Catalog, ID_INDEX, type Op, splitNamespace } from './catalog.ts';
import type { Collection } from './collection.ts';
import { computeDiff } from './diff.ts';
import { duplicateKeyError } from './index-keys.ts';
import { collectionForWrite, contextFor, type Match, type Selection, select } from './reader.ts';
import { type CompiledUpdate, compileUpdate } from './update.ts';
import { documentFromFilter } from './upsert.ts';
import { checkId, checkSize, prepareInsert, validate, withIdFirst } from './validation.ts';

/** Where operations go: the store's log, or a transaction's list. */
export interface Sink {
  readonly catalog: Catalog;
  /** Fresh ids; seeded in the deterministic world. */
  readonly newId: () => ObjectId;
  readonly newUuid: () => UUID;
  /** Puts an operation into effect. Gives the entry if it is in the replicated log now. Error: 112 WriteConflict. */
  write(op: Op, context: WriteContext, withSession: boolean): OplogEntry | undefined;
}

/** What a delete statement says. */
export interface DeleteSpec extends Selection {
  readonly limit: 0 | 1;
}

/** Runs writes and collects the entries they make. */
class Run {
  readonly entries: OplogEntry[] = [];
  private readonly sink: Sink;
  private readonly context: WriteContext;
  constructor(sink: Sink, context: WriteContext) {
    this.sink = sink;
    this.context = context;
  }
  write(op: Op, withSession = true): void {
    const entry = this.sink.write(op, this.context, withSession);
    if (entry) this.entries.push(entry);
  }
}

/** Names of databases, collections and the limits on them. Error: 73 InvalidNamespace. */
export function checkNamespace(ns: string): void {
  const { db, name } = splitNamespace(ns);
  const invalid = (message: string) => new ServerError(73, 'InvalidNamespace', message);
  if (db === '' || name === '' || name.includes('\0')) throw invalid(`Invalid namespace specified '${ns}'`);
  if (db.length > 63) throw invalid(`db name must be at most 63 characters, found: ${db.length}`);
  if (/[/\\ "$\0]/.test(db)) throw invalid(`Invalid namespace specified '${ns}'`);
  if (name.startsWith('.')) throw invalid(`Collection names cannot start with '.': ${name}`);
  if (name.includes('$') && !name.startsWith('oplog.$main'))
    throw invalid(`Invalid collection name: ${name}`);
  if (Buffer.byteLength(ns) > 255) {
    throw invalid(`Fully qualified namespace is too long. Namespace: ${ns} Max: 255`);
  }
}

function ensure(sink: Sink, run: Run, ns: string): Collection {
  const existing = collectionForWrite(sink.catalog, ns);
  if (existing) return existing;
  checkNamespace(ns);
  const { db, name } = splitNamespace(ns);
  run.write({ op: 'c', ns: `${db}.$cmd`, ui: sink.newUuid(), o: { create: name, idIndex: ID_INDEX } }, false);
  return sink.catalog.get(ns)!;
}

function refuseDuplicate(collection: Collection, document: Document, own?: number): void {
  const duplicate = collection.findDuplicate(document, own);
  if (duplicate) throw duplicateKeyError(collection.ns, duplicate);
}

/** Inserts one document. Errors: 11000, 121, 10334, 53, 73, 166. */
export function insertOne(sink: Sink, ns: string, document: Document, context: WriteContext): WriteOutcome {
  const run = new Run(sink, context);
  const prepared = prepareInsert(canonicalDocument(document), context, sink.newId);
  const collection = ensure(sink, run, ns);
  storeNew(sink, run, collection, prepared, context);
  return { entries: run.entries };
}

function storeNew(
  _sink: Sink,
  run: Run,
  collection: Collection,
  document: Document,
  context: WriteContext,
): void {
  validate(collection, document, context);
  refuseDuplicate(collection, document);
  run.write({ op: 'i', ns: collection.ns, ui: collection.uuid, o: document, o2: { _id: document['_id'] } });
}

// ── update ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Runs one update statement. */
export function updateMany(sink: Sink, ns: string, given: UpdateSpec, context: WriteContext): UpdateOutcome {
  const run = new Run(sink, context);
  const spec = canonicalSpec(given);
  const collection = collectionForWrite(sink.catalog, ns);
  const compiled = compileFor(collection, spec, context.wall);
  const matches = collection ? select(collection, spec, spec.multi ? Number.POSITIVE_INFINITY : 1) : [];
  if (matches.length === 0) {
    if (!spec.upsert) return { entries: [], matched: 0, modified: 0 };
    return upsert(sink, run, ns, spec, compiled, context);
  }
  let modified = 0;
  let after: Document | undefined;
  for (const match of matches) {
    after = updateOne(run, collection!, match, compiled, context);
    if (after !== match.stored.document) modified += 1;
  }
  const before = matches[0]!.stored.document;
  return {
    entries: run.entries,
    matched: matches.length,
    modified,
    ...(!spec.multi && { before, after: after! }),
  };
}

function canonicalSpec(spec: UpdateSpec): UpdateSpec {
  return {
    ...spec,
    filter: canonicalDocument(spec.filter),
    update: Array.isArray(spec.update)
      ? (spec.update as Document[]).map(canonicalDocument)
      : canonicalDocument(spec.update as Document),
    ...(spec.arrayFilters && { arrayFilters: spec.arrayFilters.map(canonicalDocument) }),
  };
}

function compileFor(collection: Collection | undefined, spec: UpdateSpec, now: Date): CompiledUpdate {
  const context = contextFor(collection, spec);
  const compiled = compileUpdate(spec.update, {
    ...context,
    variables: { NOW: now, ...context.variables },
    arrayFilters: spec.arrayFilters,
    runPipeline: runUpdatePipeline,
  });
  if (spec.multi && compiled.kind === 'replacement') {
    throw new ServerError(9, 'FailedToParse', 'multi update is not supported for replacement-style update');
  }
  return compiled;
}

/** Updates one record; gives the document as it is then, the same reference if nothing changed. */
function updateOne(
  run: Run,
  collection: Collection,
  { stored, details }: Match,
  compiled: CompiledUpdate,
  context: WriteContext,
): Document {
  const before = stored.document;
  const after = compiled.apply(before, { now: context.wall, inserting: false, details });
  if (after === before) return before;
  checkSize(after);
  validate(collection, after, context, before);
  refuseDuplicate(collection, after, stored.id);
  const diff = compiled.kind === 'replacement' ? undefined : computeDiff(before, after);
  if (diff && Object.keys(diff).length === 0) return before;
  run.write({
    op: 'u',
    ns: collection.ns,
    ui: collection.uuid,
    o: diff ? { $v: new Int32(2), diff } : after,
    o2: { _id: before['_id'] },
    ...preImageOf(collection, before),
  });
  return collection.get(stored.id)?.document ?? after;
}

function preImageOf(collection: Collection, before: Document): { preImage?: Document } {
  const wanted = collection.options['changeStreamPreAndPostImages'] as Document | undefined;
  return isTruthy(wanted?.['enabled']) ? { preImage: before } : {};
}

function upsert(
  sink: Sink,
  run: Run,
  ns: string,
  spec: UpdateSpec,
  compiled: CompiledUpdate,
  context: WriteContext,
): UpdateOutcome {
  const start = documentFromFilter(spec.filter, compiled.kind === 'replacement');
  const made = compiled.apply(start, { now: context.wall, inserting: true });
  const document = withIdFirst(made, sink.newId);
  checkId(document['_id']);
  checkSize(document);
  const collection = ensure(sink, run, ns);
  storeNew(sink, run, collection, document, context);
  return { entries: run.entries, matched: 0, modified: 0, upsertedId: document['_id'], after: document };
}

// ── delete ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Runs one delete statement. */
export function deleteMany(
  sink: Sink,
  ns: string,
  spec: DeleteSpec,
  context: WriteContext,
): WriteOutcome & { readonly deleted: number; readonly before?: Document } {
  const run = new Run(sink, context);
  const collection = collectionForWrite(sink.catalog, ns);
  const selection = { ...spec, filter: canonicalDocument(spec.filter) };
  if (!collection) {
    contextFor(undefined, selection);
    return { entries: [], deleted: 0 };
  }
  const matches = select(collection, selection, spec.limit === 1 ? 1 : Number.POSITIVE_INFINITY);
  for (const { stored } of matches) {
    const { document } = stored;
    run.write({
      op: 'd',
      ns: collection.ns,
      ui: collection.uuid,
      o: { _id: document['_id'] },
      ...preImageOf(collection, document),
    });
  }
  const first = matches[0]?.stored.document;
  return {
    entries: run.entries,
    deleted: matches.length,
    ...(spec.limit === 1 && first && { before: first }),
  };
}
