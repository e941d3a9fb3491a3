/** Commands about indexes, search indexes included (which this server refuses as one without Atlas does). */
import type { Document } from 'bson';
import { isDocument, required, rule, toNumber } from './arguments.ts';
import { type Call, command, noteWrite, onCollection, writeContext } from './call.ts';
import { FIRST_BATCH, staticSource } from './cursors.ts';
import { fail } from './errors.ts';
import { cursorOptions } from './find.ts';
import { namespaceOf } from './namespaces.ts';
import { searchNotEnabled } from './source-stages.ts';

const INDEX_FIELDS: ReadonlySet<string> = new Set([
  'v',
  'key',
  'name',
  'ns',
  'unique',
  'sparse',
  'background',
  'dropDups',
  'expireAfterSeconds',
  'hidden',
  'partialFilterExpression',
  'collation',
  'storageEngine',
  'weights',
  'default_language',
  'language_override',
  'textIndexVersion',
  '2dsphereIndexVersion',
  'bits',
  'min',
  'max',
  'wildcardProjection',
  'clustered',
  'prepareUnique',
  'bucketSize',
  'columnstoreProjection',
  'originalSpec',
]);

function parseIndex(given: unknown): Document {
  if (!isDocument(given)) throw fail(14, "The elements of the 'indexes' array must be objects");
  const key: unknown = given['key'];
  if (!isDocument(key)) throw fail(9, "The 'key' field is a required property of an index specification");
  if (Object.keys(key).length === 0) throw fail(67, 'Index keys cannot be empty.');
  if (typeof given['name'] !== 'string') {
    throw fail(9, "The 'name' field is a required property of an index specification");
  }
  for (const field of Object.keys(given)) {
    if (!INDEX_FIELDS.has(field)) {
      throw fail(
        197,
        `The field '${field}' is not valid for an index specification. Specification: ${JSON.stringify(given)}`,
      );
    }
  }
  const { ns: _ns, dropDups: _dropDups, v, key: keyPattern, name, ...options } = given;
  for (const flag of ['unique', 'sparse', 'hidden']) if (options[flag] === false) delete options[flag];
  return { v: v ?? 2, key: keyPattern, name, ...options };
}

function checkCommitQuorum(call: Call): void {
  if (call.command['commitQuorum'] === undefined) return;
  if (call.node.replication === null) {
    throw fail(2, 'Standalones cannot specify commitQuorum');
  }
}

function runCreateIndexes(call: Call): Document {
  const { command: given, data } = call;
  const ns = namespaceOf(given, call.db, true);
  const specs = (given['indexes'] as unknown[]).map(parseIndex);
  if (specs.length === 0) throw fail(2, 'Must specify at least one index to create');
  checkCommitQuorum(call);
  const info = data.info(ns);
  if (info?.type === 'view') throw fail(166, `Namespace ${ns} is a view, not a collection`);
  const created = info === undefined && !existsInside(call, ns);
  if (created) noteWrite(call, call.view.create(ns, {}, writeContext(call)));
  if (call.transaction !== null && info !== undefined) checkNothingNew(call, ns, specs);
  const before = info === undefined ? 1 : data.indexes(ns).length;
  const outcome = noteWrite(call, call.view.createIndexes(ns, specs, writeContext(call)));
  const after = before + outcome.created.length;
  return {
    numIndexesBefore: before,
    numIndexesAfter: after,
    createdCollectionAutomatically: created,
    ...(call.node.replication === null || outcome.created.length === 0
      ? {}
      : { commitQuorum: given['commitQuorum'] ?? 'votingMembers' }),
    ...(outcome.created.length === 0 ? { note: 'all indexes already exist' } : {}),
  };
}

/** A transaction makes indexes on collections of its own only; naming those that are there already is no change. */
function checkNothingNew(call: Call, ns: string, specs: readonly Document[]): void {
  const present = call.data.indexes(ns).map((index) => index['name']);
  if (specs.every((spec) => present.includes(spec['name']))) return;
  throw fail(263, `Cannot create new indexes on existing collection ${ns} in a multi-document transaction.`);
}

/** In a transaction the collection may exist only there: creating it again then is an error that tells so. */
function existsInside(call: Call, ns: string): boolean {
  return call.transaction !== null && call.view.countMatching(ns, {}) > 0;
}

const createIndexes = command({
  name: 'createIndexes',
  auth: onCollection('createIndex'),
  access: 'write',
  inTransaction: true,
  shape: {
    createIndexes: rule.any,
    indexes: required(rule.array),
    ignoreUnknownIndexOptions: rule.flag,
    commitQuorum: { types: ['string', 'int', 'long', 'double', 'decimal'] },
    isTimeseriesNamespace: rule.flag,
    returnOnStart: rule.flag,
    collectionUUID: rule.any,
  },
  run: runCreateIndexes,
});

function runDropIndexes(call: Call): Document {
  const ns = namespaceOf(call.command, call.db, true);
  if (call.data.info(ns) === undefined) throw fail(26, `ns not found ${ns}`);
  const which: unknown = call.command['index'];
  const outcome = noteWrite(call, call.data.dropIndexes(ns, which, writeContext(call)));
  return {
    nIndexesWas: outcome.nIndexesWas,
    ...(which === '*' ? { msg: 'non-_id indexes dropped for collection' } : {}),
  };
}

const dropIndexes = command({
  name: 'dropIndexes',
  aliases: ['deleteIndexes'],
  auth: onCollection('dropIndex'),
  access: 'write',
  shape: {
    dropIndexes: rule.any,
    deleteIndexes: rule.any,
    index: required({ types: ['string', 'object', 'array'] }),
    collectionUUID: rule.any,
    isTimeseriesNamespace: rule.flag,
  },
  run: runDropIndexes,
});

function runListIndexes(call: Call): Document {
  const { command: given } = call;
  const ns = namespaceOf(given, call.db);
  const info = call.data.info(ns);
  if (info === undefined) throw fail(26, `ns does not exist: ${ns}`);
  if (info.type === 'view') throw fail(166, `Namespace ${ns} is a view, not a collection`);
  const indexes = [...clusteredIndex(info.options), ...call.data.indexes(ns)];
  return call.services.cursors.first(
    call.context,
    ns,
    staticSource(indexes, true),
    toNumber(given['cursor']?.batchSize) ?? Math.max(FIRST_BATCH, indexes.length),
    cursorOptions(call),
  );
}

/** A clustered collection is its own index on `_id`. */
function clusteredIndex(options: Document): Document[] {
  const { clusteredIndex: given } = options;
  if (!isDocument(given)) return [];
  return [{ v: 2, key: { _id: 1 }, name: given['name'] ?? '_id_', unique: true, clustered: true }];
}

const listIndexes = command({
  name: 'listIndexes',
  auth: onCollection('listIndexes'),
  access: 'read',
  shape: {
    listIndexes: rule.any,
    cursor: rule.object,
    includeBuildUUIDs: rule.flag,
    includeIndexBuildInfo: rule.flag,
    isTimeseriesNamespace: rule.flag,
  },
  run: runListIndexes,
});

/** `reIndex`: only on a standalone; here there is nothing to rebuild. */
const reIndex = command({
  name: 'reIndex',
  auth: onCollection('reIndex'),
  access: 'write',
  run: (call) => {
    const ns = namespaceOf(call.command, call.db, true);
    if (call.node.replication !== null)
      throw fail(20, 'reIndex is only allowed on a standalone mongod instance.');
    if (call.data.info(ns) === undefined) throw fail(26, 'collection does not exist');
    const indexes = call.data.indexes(ns);
    return { nIndexesWas: indexes.length, nIndexes: indexes.length, indexes: [...indexes] };
  },
});

const search = (name: string, action: string) =>
  command({
    name,
    auth: onCollection(action),
    access: 'read',
    run: () => {
      throw searchNotEnabled();
    },
  });

/** The commands of this file. */
export const INDEX_COMMANDS = [
  createIndexes,
  dropIndexes,
  listIndexes,
  reIndex,
  search('createSearchIndexes', 'createSearchIndexes'),
  search('updateSearchIndex', 'updateSearchIndex'),
  search('dropSearchIndex', 'dropSearchIndex'),
  search('listSearchIndexes', 'listSearchIndexes'),
];
