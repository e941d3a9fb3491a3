/** Commands that make, change and remove collections and databases. */
import type { Document } from 'bson';
import { EJSON } from 'bson';
import { isDocument, required, rule, type Shape, toBoolean, toNumber } from './arguments.ts';
import { type Call, command, noteWrite, onCollection, onDatabase, privilege, writeContext } from './call.ts';
import { fail } from './errors.ts';
import { checkCollectionName, checkDbName, namespaceOf, splitNamespace } from './namespaces.ts';

// ── create ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const OPTION_SHAPE: Shape = {
  capped: rule.flag,
  autoIndexId: rule.flag,
  idIndex: rule.object,
  size: rule.number,
  max: rule.number,
  storageEngine: rule.object,
  validator: rule.object,
  validationLevel: rule.string,
  validationAction: rule.string,
  indexOptionDefaults: rule.object,
  viewOn: rule.string,
  pipeline: rule.array,
  collation: rule.object,
  changeStreamPreAndPostImages: rule.object,
  timeseries: rule.object,
  expireAfterSeconds: { types: ['string', 'long', 'int', 'decimal', 'double'] },
  clusteredIndex: { types: ['bool', 'object'] },
  encryptedFields: rule.object,
  temp: rule.flag,
  flags: rule.number,
  recordIdsReplicated: rule.flag,
};

function collectionOptions(given: Document): Document {
  const options: Document = {};
  for (const key of Object.keys(OPTION_SHAPE)) {
    const value: unknown = given[key];
    if (value !== undefined && value !== null && key !== 'autoIndexId') options[key] = value;
  }
  if (options['capped'] !== undefined && !toBoolean(options['capped'])) delete options['capped'];
  const clustered: unknown = options['clusteredIndex'];
  if (isDocument(clustered)) options['clusteredIndex'] = { v: 2, name: '_id_', ...clustered };
  return options;
}

function checkCreate(given: Document): void {
  const capped = toBoolean(given['capped']);
  if (capped && given['size'] === undefined) {
    throw fail(72, "the 'size' field is required when 'capped' is true");
  }
  if (!capped && given['max'] !== undefined)
    throw fail(72, "the 'max' field is only supported for capped collections");
  if (given['pipeline'] !== undefined && given['viewOn'] === undefined) {
    throw fail(72, "'pipeline' requires 'viewOn' to also be specified");
  }
  if (given['viewOn'] !== undefined && capped) {
    throw fail(72, "Cannot specify both 'viewOn' and 'capped'");
  }
  checkEnumeration('create.validationLevel', given['validationLevel'], ['off', 'strict', 'moderate']);
  checkEnumeration('create.validationAction', given['validationAction'], ['error', 'warn', 'errorAndLog']);
}

function checkEnumeration(path: string, value: unknown, allowed: readonly string[]): void {
  if (value === undefined || value === null || allowed.includes(String(value))) return;
  throw fail(2, `Enumeration value '${String(value)}' for field '${path}' is not a valid value.`);
}

function runCreate(call: Call): Document {
  const { command: given, db } = call;
  const ns = namespaceOf(given, db, true);
  checkCreate(given);
  const options = collectionOptions(given);
  // Outside transactions making it again is harmless, inside it is not.
  if (call.transaction !== null && call.data.info(ns) !== undefined) {
    throw fail(48, `Collection ${ns} already exists.`);
  }
  noteWrite(call, call.view.create(ns, options, writeContext(call)));
  return {};
}

const create = command({
  name: 'create',
  auth: (context) => [
    privilege(context.db, String(context.command['create']), 'createCollection'),
    ...(typeof context.command['viewOn'] === 'string'
      ? [privilege(context.db, context.command['viewOn'], 'find')]
      : []),
  ],
  access: 'write',
  inTransaction: true,
  shape: { create: required(rule.string), ...OPTION_SHAPE },
  run: runCreate,
});

// ── drop ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Collections clients can't remove. */
const UNDROPPABLE = /^(admin\.system\.(version|users|roles)|local\.oplog\.rs|local\.system\.replset)$/;

function runDrop(call: Call): Document {
  const ns = namespaceOf(call.command, call.db);
  if (UNDROPPABLE.test(ns)) throw fail(20, `can't drop system collection ${ns}`);
  if (call.data.info(ns) === undefined) {
    if (Number.parseInt(call.node.version, 10) < 7) throw fail(26, 'ns not found');
    return {};
  }
  const outcome = noteWrite(call, call.data.drop(ns, writeContext(call)));
  return { nIndexesWas: outcome.nIndexesWas, ns };
}

const drop = command({
  name: 'drop',
  auth: onCollection('dropCollection'),
  access: 'write',
  shape: { drop: rule.any, collectionUUID: rule.any },
  run: runDrop,
});

function runDropDatabase(call: Call): Document {
  const { db } = call;
  checkDbName(db);
  if (db === 'admin' || db === 'local' || db === 'config') {
    if (db !== 'config') throw fail(20, `Dropping the '${db}' database is prohibited.`);
  }
  if (!call.data.databases().includes(db)) return {};
  noteWrite(call, call.data.dropDatabase(db, writeContext(call)));
  return { dropped: db };
}

const dropDatabase = command({
  name: 'dropDatabase',
  auth: onDatabase('dropDatabase'),
  access: 'write',
  shape: { dropDatabase: rule.any },
  run: runDropDatabase,
});

// ── renameCollection ───────────────────────────────────────────────────────────────────────────────────────────────

function fullName(given: unknown): string {
  if (typeof given !== 'string') throw fail(73, `collection name has invalid type ${typeof given}`);
  const { db, collection } = splitNamespace(given);
  if (collection === '') throw fail(73, `Invalid namespace specified '${given}'`);
  checkDbName(db);
  checkCollectionName(db, collection, true);
  return given;
}

function runRename(call: Call): Document {
  const from = fullName(call.command['renameCollection']);
  const to = fullName(call.command['to']);
  const dropTarget = call.command['dropTarget'] !== undefined && call.command['dropTarget'] !== false;
  if (from === to) throw fail(20, "Can't rename a collection to itself");
  const source = call.data.info(from);
  if (source === undefined) throw fail(26, `Source collection ${from} does not exist`);
  if (source.type === 'view') throw fail(166, `cannot rename view: ${from}`);
  if (call.data.info(to) && !dropTarget) throw fail(48, 'target namespace exists');
  noteWrite(call, call.data.rename(from, to, dropTarget, writeContext(call)));
  return {};
}

const renameCollection = command({
  name: 'renameCollection',
  adminOnly: true,
  auth: (context) => {
    const from = splitNamespace(String(context.command['renameCollection']));
    const to = splitNamespace(String(context.command['to']));
    return [
      privilege(from.db, from.collection, 'find', 'dropCollection'),
      privilege(to.db, to.collection, 'insert', 'createIndex', 'createCollection'),
    ];
  },
  access: 'write',
  shape: {
    renameCollection: rule.any,
    to: required(rule.any),
    dropTarget: rule.any,
    stayTemp: rule.flag,
    collectionUUID: rule.any,
  },
  run: runRename,
});

// ── collMod, convertToCapped ───────────────────────────────────────────────────────────────────────────────────────

const COLL_MOD_SHAPE: Shape = {
  collMod: rule.any,
  index: rule.object,
  validator: rule.object,
  validationLevel: rule.string,
  validationAction: rule.string,
  viewOn: rule.string,
  pipeline: rule.array,
  cappedSize: rule.number,
  cappedMax: rule.number,
  expireAfterSeconds: { types: ['string', 'long', 'int', 'decimal', 'double'] },
  changeStreamPreAndPostImages: rule.object,
  timeseries: rule.object,
  dryRun: rule.flag,
  recordPreImages: rule.flag,
  collectionUUID: rule.any,
};

function runCollMod(call: Call): Document {
  const { command: given } = call;
  const ns = namespaceOf(given, call.db);
  if (call.data.info(ns) === undefined) throw fail(26, 'ns does not exist');
  checkEnumeration('collMod.validationLevel', given['validationLevel'], ['off', 'strict', 'moderate']);
  checkEnumeration('collMod.validationAction', given['validationAction'], ['error', 'warn', 'errorAndLog']);
  const change: Document = {};
  for (const key of Object.keys(COLL_MOD_SHAPE)) {
    if (key !== 'collMod' && key !== 'dryRun' && given[key] !== undefined) change[key] = given[key];
  }
  const index: unknown = change['index'];
  if (isDocument(index) && !call.data.indexes(ns).some((spec) => isNamed(spec, index))) {
    throw fail(27, `cannot find index ${JSON.stringify(index['keyPattern'] ?? index['name'])} for ns ${ns}`);
  }
  if (isDocument(index) && toBoolean(index['unique'])) checkConversion(call, ns, index);
  return noteWrite(call, call.data.collMod(ns, change, writeContext(call))).reply;
}

/** An index can become unique only when no two documents share a key: 359 names those that do. */
function checkConversion(call: Call, ns: string, wanted: Document): void {
  const spec = call.data.indexes(ns).find((candidate) => isNamed(candidate, wanted))!;
  const fields = Object.keys(spec['key'] as Document);
  const byKey = new Map<string, unknown[]>();
  for (const document of call.data.find(ns, {})) {
    const key = EJSON.stringify(fields.map((field) => document[field] ?? null));
    byKey.set(key, [...(byKey.get(key) ?? []), document['_id']]);
  }
  const violations = [...byKey.values()].filter((ids) => ids.length > 1).map((ids) => ({ ids }));
  if (violations.length === 0) return;
  throw fail(
    359,
    'Cannot convert the index to unique. Please resolve conflicting documents before running collMod again.',
    { violations },
  );
}

function isNamed(spec: Document, wanted: Document): boolean {
  if (wanted['name'] !== undefined) return spec['name'] === wanted['name'];
  return JSON.stringify(keyText(spec['key'])) === JSON.stringify(keyText(wanted['keyPattern'] ?? {}));
}

function keyText(key: Document): unknown {
  return Object.entries(key).map(([field, direction]) => [field, toNumber(direction) ?? direction]);
}

const collMod = command({
  name: 'collMod',
  auth: onCollection('collMod'),
  access: 'write',
  shape: COLL_MOD_SHAPE,
  run: runCollMod,
});

/** Copies into a capped collection and puts that in the old one's place. */
function runConvertToCapped(call: Call): Document {
  const ns = namespaceOf(call.command, call.db, true);
  const { data } = call;
  const info = data.info(ns);
  if (info === undefined) throw fail(26, `source collection ${ns} does not exist`);
  if (info.type === 'view') throw fail(166, `cannot convert a view to a capped collection: ${ns}`);
  const temporary = `${call.db}.tmp.convertToCapped.${info.name}`;
  if (data.info(temporary)) data.drop(temporary, writeContext(call));
  data.create(temporary, { ...info.options, capped: true, size: call.command['size'] }, writeContext(call));
  for (const document of data.find(ns, {})) data.insert(temporary, document, writeContext(call));
  noteWrite(call, data.rename(temporary, ns, true, writeContext(call)));
  return {};
}

const convertToCapped = command({
  name: 'convertToCapped',
  auth: onCollection('convertToCapped'),
  access: 'write',
  shape: { convertToCapped: rule.any, size: required(rule.number) },
  run: runConvertToCapped,
});

/** The commands of this file. */
export const COLLECTION_COMMANDS = [create, drop, dropDatabase, renameCollection, collMod, convertToCapped];
