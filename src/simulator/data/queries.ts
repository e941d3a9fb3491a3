/** Queries by namespace: collections, views, and the read-only look into the `local` database. */
import { type Document, UUID } from 'bson';
import type { CollectionInfo, FindSpec } from '../contracts.ts';
import { runPipeline } from './aggregate.ts';
import { canonicalDocument } from './bson.ts';
import { type Catalog, splitNamespace } from './catalog.ts';
import { Collection } from './collection.ts';
import { matchContext } from './match.ts';
import { entryToDocument, type OplogWindow } from './oplog.ts';
import { contextFor, distinctValues, find } from './reader.ts';

/** What the `local` database shows besides its collections. */
interface LocalSources {
  readonly oplog: OplogWindow;
  readonly locals: ReadonlyMap<string, Document>;
}

const OPLOG_NS = 'local.oplog.rs';
/** The key of the replica set configuration; where it is, there is an oplog to see. */
const CONFIG_KEY = 'system.replset';
/** Virtual collections have no identity of their own; one fixed UUID each run would be a lie, an empty one isn't. */
const NO_UUID = new UUID('00000000-0000-4000-8000-000000000000');

/** What {@link Queries} needs of the store or the transaction view. */
interface CatalogHolder {
  readonly catalog: Catalog;
}

export class Queries {
  private readonly holder: CatalogHolder;
  private readonly local: LocalSources | undefined;

  constructor(holder: CatalogHolder, local?: LocalSources) {
    this.holder = holder;
    this.local = local;
  }

  collections(db: string): CollectionInfo[] {
    const infos = this.holder.catalog.in(db).map((collection) => collection.info());
    if (db === 'local') infos.push(...this.virtualNames().map((name) => this.virtualInfo(name)));
    return infos;
  }

  info(ns: string): CollectionInfo | undefined {
    const collection = this.holder.catalog.read(ns);
    if (collection) return collection.info();
    const { db, name } = splitNamespace(ns);
    return db === 'local' && this.virtualNames().includes(name) ? this.virtualInfo(name) : undefined;
  }

  private virtualNames(): string[] {
    if (!this.local) return [];
    const names = [...this.local.locals.keys()];
    if (names.includes(CONFIG_KEY)) names.push('oplog.rs');
    return names.filter((name) => !this.holder.catalog.read(`local.${name}`));
  }

  private virtualInfo(name: string): CollectionInfo {
    const options =
      name === 'oplog.rs'
        ? canonicalDocument({ capped: true, size: 1024 * 1024 * 1024, autoIndexId: false })
        : {};
    return { name, type: 'collection', options, uuid: NO_UUID };
  }

  /** The collection to read, or one made up for a virtual namespace. */
  private source(ns: string): Collection | undefined {
    const collection = this.holder.catalog.read(ns);
    if (collection || !this.local || !ns.startsWith('local.')) return collection;
    if (ns === OPLOG_NS) return this.oplogCollection();
    const document = this.local.locals.get(splitNamespace(ns).name);
    if (!document) return undefined;
    return virtualCollection(ns, [document]);
  }

  private oplogCollection(): Collection {
    const entries = this.local!.oplog.all().map(({ entry }) => entryToDocument(entry));
    return virtualCollection(OPLOG_NS, entries);
  }

  find(ns: string, given: FindSpec): Document[] {
    const spec = canonicalFind(given);
    const collection = this.source(ns);
    if (collection?.type !== 'view') return find(collection, spec);
    const documents = this.aggregate(ns, splitNamespace(ns).db, [], {});
    const { hint: _hint, ...rest } = spec;
    const withCollation = { ...rest, ...viewCollation(collection, spec) };
    return find(virtualCollection(ns, documents), withCollation);
  }

  countMatching(ns: string, filter: Document, options: Document = {}): number {
    const { skip = 0, limit = 0 } = options as { skip?: number; limit?: number };
    const { collation, hint } = options as Pick<FindSpec, 'collation' | 'hint'>;
    const collection = this.source(ns);
    const unfiltered = Object.keys(filter).length === 0 && hint === undefined;
    const total =
      unfiltered && collection && collection.type !== 'view'
        ? collection.count
        : this.find(ns, { filter, ...(collation && { collation }), ...(hint && { hint }) }).length;
    const left = Math.max(0, total - skip);
    return limit === 0 ? left : Math.min(left, Math.abs(limit));
  }

  distinct(ns: string, key: string, filter: Document, options: Document = {}): unknown[] {
    const { collation, hint } = options as Pick<FindSpec, 'collation' | 'hint'>;
    const collection = this.source(ns);
    const documents = this.find(ns, { filter, ...(collation && { collation }), ...(hint && { hint }) });
    return distinctValues(documents, key, contextFor(collection, { collation }).collator);
  }

  aggregate(
    ns: string | null,
    db: string,
    pipeline: readonly Document[],
    options: Document = {},
  ): Document[] {
    const stages = pipeline.map(canonicalDocument);
    const collection = ns === null ? undefined : this.source(ns);
    const collation = options['collation'] as Document | undefined;
    const context =
      collection || collation
        ? contextFor(collection, { collation, let: options['let'] as Document | undefined })
        : matchContext({ let: options['let'] as Document | undefined });
    return runPipeline(stages, {
      ns,
      db,
      // One time for the whole pipeline.
      context: { ...context, variables: { NOW: new Date(), ...context.variables } },
      hint: options['hint'] as Document | string | undefined,
      documents: (from) => this.documentsOf(from),
      source: (from) => this.source(from),
    });
  }

  /** All documents of a namespace; a view's are made. */
  private documentsOf(ns: string): Iterable<Document> {
    const collection = this.source(ns);
    if (!collection) return [];
    if (collection.type !== 'view') return Array.from(collection.scan(), ({ document }) => document);
    const { db } = splitNamespace(ns);
    const from = `${db}.${String(collection.options['viewOn'])}`;
    const pipeline = (collection.options['pipeline'] as Document[] | undefined) ?? [];
    return this.aggregate(from, db, pipeline, { collation: collection.options['collation'] });
  }
}

function viewCollation(view: Collection, spec: FindSpec): Pick<FindSpec, 'collation'> {
  const collation = spec.collation ?? (view.options['collation'] as Document | undefined);
  return collation ? { collation } : {};
}

function canonicalFind(spec: FindSpec): FindSpec {
  return {
    ...spec,
    ...(spec.filter && { filter: canonicalDocument(spec.filter) }),
    ...(spec.projection && { projection: canonicalDocument(spec.projection) }),
    ...(spec.min && { min: canonicalDocument(spec.min) }),
    ...(spec.max && { max: canonicalDocument(spec.max) }),
    ...(spec.let && { let: canonicalDocument(spec.let) }),
  };
}

/** A collection that only holds these documents for one query. Ids may be absent or repeat. */
function virtualCollection(ns: string, documents: readonly Document[]): Collection {
  const collection = new Collection(ns, NO_UUID, 'collection', {}, []);
  collection.fillUnindexed(documents);
  return collection;
}
