/** Making, changing and dropping collections, views and indexes: statements into oplog operations. */
import { type Document, Int32 } from 'bson';
import { type OplogEntry, ServerError, type WriteContext, type WriteOutcome } from '../contracts.ts';
import { canonical, canonicalDocument, isDocument, isTruthy, render, toNumber, typeName } from './bson.ts';
import { ID_INDEX, splitNamespace } from './catalog.ts';
import type { Collection } from './collection.ts';
import { collatorOf, valueKey } from './compare.ts';
import { duplicateKeyError, Index } from './index-keys.ts';
import { compileFilter } from './match.ts';
import { collectionForWrite } from './reader.ts';
import { checkNamespace, type Sink } from './writer.ts';

const commandNs = (ns: string): string => `${splitNamespace(ns).db}.$cmd`;
const collectionName = (ns: string): string => splitNamespace(ns).name;
const notFound = (message: string): ServerError => new ServerError(26, 'NamespaceNotFound', message);

function collect(entry: OplogEntry | undefined): WriteOutcome {
  return { entries: entry ? [entry] : [] };
}

/** Options of `create` that are about the command and not the collection. */
const COMMAND_OPTIONS = new Set([
  'create',
  'writeConcern',
  'comment',
  'lsid',
  'txnNumber',
  'encryptedFields',
  'temp',
]);

/** Creates a collection or view. Creating it again with the same options does nothing; with others: 48 NamespaceExists. */
export function createCollection(
  sink: Sink,
  ns: string,
  given: Document,
  context: WriteContext,
): WriteOutcome {
  checkNamespace(ns);
  const options = creationOptions(given);
  const existing = sink.catalog.get(ns);
  if (existing) {
    if (valueKey(existing.options) === valueKey(options)) return { entries: [] };
    throw new ServerError(
      48,
      'NamespaceExists',
      `namespace ${ns} already exists, but with different options: ${render({ uuid: existing.uuid, ...existing.options })}`,
    );
  }
  const o = {
    create: collectionName(ns),
    ...options,
    ...(options['viewOn'] === undefined && { idIndex: idIndexFor(options) }),
  };
  return collect(sink.write({ op: 'c', ns: commandNs(ns), ui: sink.newUuid(), o }, context, false));
}

function idIndexFor(options: Document): Document {
  return options['collation'] ? { ...ID_INDEX, collation: options['collation'] } : ID_INDEX;
}

function creationOptions(given: Document): Document {
  const entries = Object.entries(canonicalDocument(given)).filter(
    ([name]) =>
      !COMMAND_OPTIONS.has(name) && !name.startsWith('$') && name !== 'idIndex' && name !== 'autoIndexId',
  );
  const options = Object.fromEntries(entries) as Document;
  if (options['capped'] !== undefined && !isTruthy(options['capped'])) delete options['capped'];
  if (options['capped'] && options['size'] === undefined) {
    throw new ServerError(72, 'InvalidOptions', "the 'size' field is required when 'capped' is true");
  }
  if (
    !options['capped'] &&
    (options['size'] !== undefined || options['max'] !== undefined) &&
    !options['timeseries']
  ) {
    throw new ServerError(
      72,
      'InvalidOptions',
      "the 'capped' field needs to be true when either the 'size' or 'max' fields are present",
    );
  }
  if (options['pipeline'] !== undefined && options['viewOn'] === undefined) {
    throw new ServerError(72, 'InvalidOptions', "'pipeline' requires 'viewOn' to also be specified");
  }
  collatorOf(options['collation'] as Document | undefined);
  if (isDocument(options['collation']) && options['collation']['locale'] === 'simple')
    delete options['collation'];
  if (isDocument(options['validator'])) compileFilter(options['validator']);
  return options;
}

/** Drops a collection. Since 7.0 dropping what isn't there is no error. */
export function dropCollection(
  sink: Sink,
  ns: string,
  context: WriteContext,
): WriteOutcome & { readonly nIndexesWas: number } {
  const collection = sink.catalog.get(ns);
  if (!collection) return { entries: [], nIndexesWas: 0 };
  const nIndexesWas = collection.indexes.length;
  return { ...collect(writeDrop(sink, collection, context)), nIndexesWas };
}

function writeDrop(sink: Sink, collection: Collection, context: WriteContext): OplogEntry | undefined {
  const { ns, uuid, count } = collection;
  return sink.write(
    {
      op: 'c',
      ns: commandNs(ns),
      ui: uuid,
      o: { drop: collectionName(ns) },
      o2: { numRecords: canonical(count) },
    },
    context,
    false,
  );
}

/** Drops every collection of a database, one entry each, then the database. */
export function dropDatabase(sink: Sink, db: string, context: WriteContext): WriteOutcome {
  const collections = sink.catalog.in(db);
  if (collections.length === 0) return { entries: [] };
  const entries = collections.map((collection) => writeDrop(sink, collection, context));
  entries.push(sink.write({ op: 'c', ns: `${db}.$cmd`, o: { dropDatabase: new Int32(1) } }, context, false));
  return { entries: entries.filter((entry) => entry !== undefined) };
}

/** Renames a collection, also into another database. Errors: 26, 48, 20, 73. */
export function renameCollection(
  sink: Sink,
  from: string,
  to: string,
  dropTarget: boolean,
  context: WriteContext,
): WriteOutcome {
  checkNamespace(to);
  const collection = sink.catalog.get(from);
  if (!collection) throw notFound(`Source collection ${from} does not exist`);
  if (collection.type === 'view') {
    throw new ServerError(166, 'CommandNotSupportedOnView', `cannot rename view: ${from}`);
  }
  if (from === to) throw new ServerError(20, 'IllegalOperation', "Can't rename a collection to itself");
  const target = sink.catalog.get(to);
  if (target && !dropTarget) throw new ServerError(48, 'NamespaceExists', 'target namespace exists');
  const o = { renameCollection: from, to, stayTemp: false, dropTarget: target ? target.uuid : false };
  return collect(sink.write({ op: 'c', ns: commandNs(from), ui: collection.uuid, o }, context, false));
}

/** Options `collMod` changes on the collection itself. */
const COLLECTION_CHANGES = [
  'validator',
  'validationLevel',
  'validationAction',
  'viewOn',
  'pipeline',
  'expireAfterSeconds',
  'changeStreamPreAndPostImages',
] as const;

/** Changes a collection's options, a view's definition or one index (`expireAfterSeconds`, `hidden`, `unique`). */
export function modifyCollection(
  sink: Sink,
  ns: string,
  given: Document,
  context: WriteContext,
): WriteOutcome & { readonly reply: Document } {
  const collection = sink.catalog.get(ns);
  if (!collection) throw notFound('ns does not exist');
  const change = canonicalDocument(given);
  const options: Document = {};
  for (const name of COLLECTION_CHANGES) if (change[name] !== undefined) options[name] = change[name];
  if (change['cappedSize'] !== undefined) options['size'] = change['cappedSize'];
  if (change['cappedMax'] !== undefined) options['max'] = change['cappedMax'];
  if (isDocument(options['validator'])) compileFilter(options['validator']);
  const index = isDocument(change['index']) ? indexChange(collection, change['index']) : undefined;
  const o = { collMod: collectionName(ns), ...options, ...(index && { index: index.entry }) };
  const outcome = collect(sink.write({ op: 'c', ns: commandNs(ns), ui: collection.uuid, o }, context, false));
  return { ...outcome, reply: index?.reply ?? {} };
}

function indexChange(collection: Collection, wanted: Document): { entry: Document; reply: Document } {
  const found = collection.indexes.find(({ spec }) =>
    wanted['name'] !== undefined
      ? spec['name'] === wanted['name']
      : valueKey(spec['key']) === valueKey(wanted['keyPattern']),
  );
  if (!found) {
    throw new ServerError(
      27,
      'IndexNotFound',
      `cannot find index ${render(wanted['name'] ?? wanted['keyPattern'])} for ns ${collection.ns}`,
    );
  }
  const { spec } = found;
  const entry: Document = { name: spec['name'] };
  const reply: Document = {};
  if (wanted['expireAfterSeconds'] !== undefined) {
    entry['expireAfterSeconds'] = wanted['expireAfterSeconds'];
    if (spec['expireAfterSeconds'] !== undefined)
      reply['expireAfterSeconds_old'] = spec['expireAfterSeconds'];
    reply['expireAfterSeconds_new'] = wanted['expireAfterSeconds'];
  }
  if (wanted['hidden'] !== undefined) {
    const hidden = isTruthy(wanted['hidden']);
    entry['hidden'] = hidden ? true : null;
    reply['hidden_old'] = isTruthy(spec['hidden']);
    reply['hidden_new'] = hidden;
  }
  if (wanted['unique'] !== undefined) {
    entry['unique'] = true;
    reply['unique_new'] = true;
  }
  if (wanted['prepareUnique'] !== undefined)
    entry['prepareUnique'] = isTruthy(wanted['prepareUnique']) ? true : null;
  return { entry, reply };
}

// ── indexes ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Creates indexes (and the collection). Errors: 85, 86, 67, 11000, 171. */
export function createIndexes(
  sink: Sink,
  ns: string,
  indexes: readonly Document[],
  context: WriteContext,
): WriteOutcome & { readonly created: readonly string[] } {
  checkNamespace(ns);
  const specs = indexes.map((index) => indexSpec(canonicalDocument(index)));
  const entries: OplogEntry[] = [];
  if (!collectionForWrite(sink.catalog, ns)) {
    entries.push(...createCollection(sink, ns, {}, context).entries);
  }
  const created: string[] = [];
  for (const given of specs) {
    const collection = sink.catalog.get(ns)!;
    const spec = inheritCollation(given, collection);
    if (findExisting(collection, spec)) continue;
    checkBuild(collection, spec);
    const o = { createIndexes: collectionName(ns), ...spec };
    const entry = sink.write({ op: 'c', ns: commandNs(ns), ui: collection.uuid, o }, context, false);
    if (entry) entries.push(entry);
    created.push(spec['name'] as string);
  }
  return { entries, created };
}

function inheritCollation(spec: Document, collection: Collection): Document {
  const { collation, ...rest } = spec;
  const wanted = (collation ?? collection.options['collation']) as Document | undefined;
  return wanted === undefined || wanted['locale'] === 'simple' ? rest : { ...rest, collation: wanted };
}

/** The name an index gets when none is given: `a_1_b_-1`. */
function indexNameOf(key: Document): string {
  return Object.entries(key)
    .map(([name, kind]) => `${name}_${typeof kind === 'string' ? kind : String(toNumber(kind))}`)
    .join('_');
}

const PLUGINS = new Set(['text', 'hashed', '2d', '2dsphere', 'geoHaystack', 'columnstore']);

function indexSpec(index: Document): Document {
  const { key, name, v: _version, ns: _ns, ...options } = index;
  if (!isDocument(key)) {
    throw new ServerError(
      9,
      'FailedToParse',
      "The 'key' field is a required property of an index specification",
    );
  }
  checkKey(key);
  for (const flag of ['unique', 'sparse', 'hidden']) {
    if (options[flag] === undefined) continue;
    if (isTruthy(options[flag])) options[flag] = true;
    else delete options[flag];
  }
  checkOptions(key, options);
  const spec = { v: new Int32(2), key, name: typeof name === 'string' ? name : indexNameOf(key), ...options };
  return pluginSpec(spec, key);
}

function checkKey(key: Document): void {
  const cannot = (message: string) => new ServerError(67, 'CannotCreateIndex', message);
  const entries = Object.entries(key);
  if (entries.length === 0) throw cannot('Index keys cannot be an empty object');
  for (const [name, kind] of entries) {
    if (name === '') throw cannot('Index keys cannot be an empty field');
    if (typeof kind === 'string') {
      if (!PLUGINS.has(kind)) throw cannot(`Unknown index plugin '${kind}'`);
      continue;
    }
    const direction = toNumber(kind);
    if (direction === undefined) {
      throw cannot(
        `Values in v:2 index key pattern cannot be of type ${typeName(kind)}. Only numbers > 0, numbers < 0, and strings are allowed.`,
      );
    }
    if (direction === 0 || Number.isNaN(direction)) {
      throw cannot('Values in the index key pattern cannot be 0.');
    }
  }
}

function checkOptions(key: Document, options: Document): void {
  const expire = options['expireAfterSeconds'];
  if (expire !== undefined && toNumber(expire) === undefined) {
    throw new ServerError(
      67,
      'CannotCreateIndex',
      `TTL index 'expireAfterSeconds' option must be numeric, but received a type of '${typeName(expire)}'`,
    );
  }
  if (expire !== undefined && Object.keys(key).length > 1) {
    throw new ServerError(
      67,
      'CannotCreateIndex',
      'TTL indexes are single-field indexes, compound indexes do not support TTL',
    );
  }
  if (options['unique'] && Object.values(key).includes('hashed')) {
    throw new ServerError(
      16764,
      'Location16764',
      'Currently hashed indexes cannot guarantee uniqueness. Use a regular index.',
    );
  }
  if (options['sparse'] && options['partialFilterExpression'] !== undefined) {
    throw new ServerError(
      67,
      'CannotCreateIndex',
      'cannot mix "partialFilterExpression" and "sparse" options',
    );
  }
  checkPartial(options['partialFilterExpression']);
  collatorOf(options['collation'] as Document | undefined);
}

/** Partial indexes take some operators only: an error tells which one is too much. */
function checkPartial(filter: unknown): void {
  if (filter === undefined) return;
  if (!isDocument(filter)) {
    throw new ServerError(
      14,
      'TypeMismatch',
      `The field 'partialFilterExpression' must be an object, but got ${typeName(filter)}`,
    );
  }
  compileFilter(filter);
}

/** Text and sphere indexes get the fields the server adds. */
function pluginSpec(spec: Document, key: Document): Document {
  const kinds = Object.values(key);
  if (kinds.includes('2dsphere')) return { ...spec, '2dsphereIndexVersion': new Int32(3) };
  if (!kinds.includes('text')) return spec;
  const texts = Object.keys(key).filter((name) => key[name] === 'text');
  const weights = { ...Object.fromEntries(texts.map((name) => [name, new Int32(1)])), ...spec['weights'] };
  const textKey: Document = {};
  for (const [name, kind] of Object.entries(key)) {
    if (kind !== 'text') textKey[name] = kind;
    else Object.assign(textKey, { _fts: 'text', _ftsx: new Int32(1) });
  }
  return {
    ...spec,
    key: textKey,
    weights,
    default_language: spec['default_language'] ?? 'english',
    language_override: spec['language_override'] ?? 'language',
    textIndexVersion: new Int32(3),
  };
}

/** What makes two indexes on the same key different indexes. */
const identity = (spec: Document): string =>
  valueKey([spec['key'], spec['collation'] ?? null, spec['partialFilterExpression'] ?? null]);

function withoutName(spec: Document): Document {
  const { name: _name, v: _version, hidden: _hidden, background: _background, ...rest } = spec;
  return Object.fromEntries(Object.entries(rest).toSorted(([left], [right]) => (left < right ? -1 : 1)));
}

/** True when the index is there already; refuses a half-way match: 85 IndexOptionsConflict, 86 IndexKeySpecsConflict. */
function findExisting(collection: Collection, spec: Document): boolean {
  for (const { spec: other } of collection.indexes) {
    const sameName = other['name'] === spec['name'];
    const sameIdentity = identity(other) === identity(spec);
    if (valueKey(other['key']) === valueKey({ _id: 1 }) && sameIdentity) return true;
    if (!sameName && !sameIdentity) continue;
    const sameOptions = valueKey(withoutName(other)) === valueKey(withoutName(spec));
    if (sameName && sameOptions) return true;
    if (sameName && !sameIdentity) {
      throw new ServerError(
        86,
        'IndexKeySpecsConflict',
        `An existing index has the same name as the requested index. When index names are not specified, they are auto generated and can cause conflicts. Please refer to our documentation. Requested index: ${render(spec)}, existing index: ${render(other)}`,
      );
    }
    if (!sameName && sameOptions) {
      throw new ServerError(
        85,
        'IndexOptionsConflict',
        `Index already exists with a different name: ${other['name']}`,
      );
    }
    throw new ServerError(
      85,
      'IndexOptionsConflict',
      `An equivalent index already exists with the same name but different options. Requested index: ${render(spec)}, existing index: ${render(other)}`,
    );
  }
  return false;
}

function checkBuild(collection: Collection, spec: Document): void {
  const index = new Index(spec);
  for (const stored of collection.scan()) {
    if (!index.unique) {
      index.keysOf(stored.document);
      continue;
    }
    const duplicate = index.findDuplicate(stored.document, stored.id);
    if (duplicate) {
      const error = duplicateKeyError(collection.ns, duplicate);
      throw new ServerError(
        11000,
        'DuplicateKey',
        `Index build failed: ${collection.uuid.toString()}: Collection ${collection.ns} ( ${collection.uuid.toString()} ) :: caused by :: ${error.message}`,
        error.extra,
      );
    }
    index.insert(stored.document, stored.id);
  }
}

/** Drops indexes by name, key, list or `*`. Errors: 26, 27 IndexNotFound, 72 for `_id`. */
export function dropIndexes(
  sink: Sink,
  ns: string,
  which: unknown,
  context: WriteContext,
): WriteOutcome & { readonly nIndexesWas: number } {
  const collection = collectionForWrite(sink.catalog, ns);
  if (!collection) throw notFound(`ns not found ${ns}`);
  const nIndexesWas = collection.indexes.length;
  const entries: OplogEntry[] = [];
  for (const spec of chosenIndexes(collection, canonical(which))) {
    const { name, ...rest } = spec;
    const entry = sink.write(
      {
        op: 'c',
        ns: commandNs(ns),
        ui: collection.uuid,
        o: { dropIndexes: collectionName(ns), index: name },
        o2: { name, ...rest },
      },
      context,
      false,
    );
    if (entry) entries.push(entry);
  }
  return { entries, nIndexesWas };
}

function chosenIndexes(collection: Collection, which: unknown): Document[] {
  const specs = collection.indexes.map(({ spec }) => spec);
  if (which === '*') return specs.filter(({ name }) => name !== '_id_');
  if (Array.isArray(which)) return which.flatMap((name) => chosenIndexes(collection, name));
  const found = specs.find((spec) =>
    isDocument(which) ? valueKey(spec['key']) === valueKey(which) : spec['name'] === which,
  );
  if (!found) {
    const what = isDocument(which)
      ? `can't find index with key: ${render(which)}`
      : `index not found with name [${String(which)}]`;
    throw new ServerError(27, 'IndexNotFound', what);
  }
  if (found['name'] === '_id_') throw new ServerError(72, 'InvalidOptions', 'cannot drop _id index');
  return [found];
}
