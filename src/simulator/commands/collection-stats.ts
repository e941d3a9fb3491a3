/** collStats, dbStats, dataSize, validate, dbHash: what a collection is and weighs. */
import { createHash } from 'node:crypto';
import { statfsSync } from 'node:fs';
import type { Document } from 'bson';
import { Double, Long, serialize } from 'bson';
import { rule, toBoolean, toNumber } from './arguments.ts';
import { type Call, command, count, onCollection, onDatabase } from './call.ts';
import { fail } from './errors.ts';
import { namespaceOf } from './namespaces.ts';

/** Bytes an index is said to take per key, and in any case. */
const INDEX_ENTRY_BYTES = 24;
const EMPTY_FILE_BYTES = 4096;

const scaled = (bytes: number, scale: number): number => Math.floor(bytes / scale);

function storageBytes(bytes: number): number {
  return Math.max(EMPTY_FILE_BYTES, Math.ceil(bytes / EMPTY_FILE_BYTES) * EMPTY_FILE_BYTES);
}

function indexBytes(call: Call, ns: string): number {
  return storageBytes(call.data.count(ns) * INDEX_ENTRY_BYTES);
}

/** The reply of collStats; sizes are divided by the scale. */
export function collectionStats(call: Call, ns: string, scale: number): Document {
  const { data } = call;
  const info = data.info(ns);
  if (info === undefined) return emptyStats(ns, scale);
  if (info.type === 'view') throw fail(166, `Namespace ${ns} is a view, not a collection`);
  const bytes = data.sizeBytes(ns);
  const documents = data.count(ns);
  const indexes = data.indexes(ns);
  const perIndex = scaled(indexBytes(call, ns), scale);
  const capped = toBoolean(info.options['capped']);
  return {
    ns,
    size: count(scaled(bytes, scale)),
    count: count(documents),
    ...(documents === 0 ? {} : { avgObjSize: count(Math.floor(bytes / documents)) }),
    numOrphanDocs: 0,
    storageSize: count(scaled(storageBytes(bytes), scale)),
    freeStorageSize: 0,
    capped,
    ...(capped ? { max: info.options['max'] ?? 0, maxSize: info.options['size'] ?? 0 } : {}),
    wiredTiger: { metadata: { formatVersion: 1 }, uri: 'statistics:simulator' },
    nindexes: indexes.length,
    indexDetails: {},
    indexBuilds: [],
    totalIndexSize: count(perIndex * indexes.length),
    totalSize: count(scaled(storageBytes(bytes), scale) + perIndex * indexes.length),
    indexSizes: Object.fromEntries(indexes.map((index) => [index['name'], count(perIndex)])),
    scaleFactor: scale,
  };
}

function emptyStats(ns: string, scale: number): Document {
  return {
    ns,
    size: 0,
    count: 0,
    numOrphanDocs: 0,
    storageSize: 0,
    totalSize: 0,
    nindexes: 0,
    totalIndexSize: 0,
    indexDetails: {},
    indexSizes: {},
    scaleFactor: scale,
  };
}

function scaleOf(given: Document): number {
  return Math.trunc(toNumber(given['scale']) ?? 1);
}

/** `collStats`. */
export const collStatsCommand = command({
  name: 'collStats',
  aliases: ['collstats'],
  auth: onCollection('collStats'),
  access: 'read',
  shape: {
    collStats: rule.any,
    collstats: rule.any,
    scale: { ...rule.number, min: 1 },
    verbose: rule.flag,
    waitForLock: rule.flag,
    queryExecStats: rule.flag,
  },
  run: (call) => collectionStats(call, namespaceOf(call.command, call.db), scaleOf(call.command)),
});

function runDbStats(call: Call): Document {
  const { data, db } = call;
  const scale = scaleOf(call.command);
  const infos = data.collections(db);
  const stored = infos.filter((info) => info.type !== 'view').map((info) => `${db}.${info.name}`);
  const sum = (of: (ns: string) => number) => stored.reduce((total, ns) => total + of(ns), 0);
  const objects = sum((ns) => data.count(ns));
  const dataSize = sum((ns) => data.sizeBytes(ns));
  const storageSize = sum((ns) => storageBytes(data.sizeBytes(ns)));
  const indexSize = sum((ns) => indexBytes(call, ns) * data.indexes(ns).length);
  const disk = diskBytes(call);
  return {
    db,
    collections: Long.fromNumber(stored.length),
    views: Long.fromNumber(infos.length - stored.length),
    objects: Long.fromNumber(objects),
    avgObjSize: new Double(objects === 0 ? 0 : dataSize / objects),
    dataSize: new Double(dataSize / scale),
    storageSize: new Double(storageSize / scale),
    indexes: Long.fromNumber(sum((ns) => data.indexes(ns).length)),
    indexSize: new Double(indexSize / scale),
    totalSize: new Double((storageSize + indexSize) / scale),
    scaleFactor: Long.fromNumber(scale),
    fsUsedSize: new Double(disk.used / scale),
    fsTotalSize: new Double(disk.total / scale),
  };
}

function diskBytes(call: Call): { readonly used: number; readonly total: number } {
  const path: unknown = call.node.options['storage']?.dbPath;
  if (typeof path !== 'string') return { used: 0, total: 0 };
  try {
    const { bsize, blocks, bfree } = statfsSync(path);
    return { used: (blocks - bfree) * bsize, total: blocks * bsize };
  } catch {
    return { used: 0, total: 0 };
  }
}

/** `dbStats`. */
export const dbStatsCommand = command({
  name: 'dbStats',
  aliases: ['dbstats'],
  auth: onDatabase('dbStats'),
  access: 'read',
  shape: {
    dbStats: rule.any,
    dbstats: rule.any,
    scale: { ...rule.number, min: 1 },
    freeStorage: rule.number,
  },
  run: runDbStats,
});

/** `dataSize`: objects and bytes of one collection. */
export const dataSizeCommand = command({
  name: 'dataSize',
  aliases: ['datasize'],
  auth: (context) => {
    const ns = String(context.command[Object.keys(context.command)[0]!]);
    const dot = ns.indexOf('.');
    return [{ resource: { db: ns.slice(0, dot), collection: ns.slice(dot + 1) }, actions: ['find'] }];
  },
  access: 'read',
  run: (call) => {
    const ns = String(call.command[Object.keys(call.command)[0]!]);
    return {
      estimate: false,
      size: Long.fromNumber(call.data.info(ns) ? call.data.sizeBytes(ns) : 0),
      numObjects: Long.fromNumber(call.data.info(ns) ? call.data.count(ns) : 0),
      millis: Long.ZERO,
    };
  },
});

function runValidate(call: Call): Document {
  const ns = namespaceOf(call.command, call.db);
  const info = call.data.info(ns);
  if (info === undefined) {
    throw fail(26, `Collection '${ns}' does not exist to validate.`);
  }
  if (info.type === 'view') throw fail(166, 'Cannot validate a view');
  if (toBoolean(call.command['background']) && toBoolean(call.command['full'])) {
    throw fail(
      72,
      'Running the validate command with { background: true } is not supported in conjunction with { full: true }',
    );
  }
  const documents = call.data.count(ns);
  const names = call.data.indexes(ns).map((index) => index['name'] as string);
  return {
    ns,
    uuid: info.uuid,
    nInvalidDocuments: Long.ZERO,
    nNonCompliantDocuments: Long.ZERO,
    nrecords: Long.fromNumber(documents),
    nIndexes: names.length,
    keysPerIndex: Object.fromEntries(names.map((name) => [name, Long.fromNumber(documents)])),
    indexDetails: Object.fromEntries(names.map((name) => [name, { valid: true }])),
    valid: true,
    repaired: false,
    readTimestamp: call.node.replication?.lastApplied()?.ts,
    warnings: [],
    errors: [],
    extraIndexEntries: [],
    missingIndexEntries: [],
    corruptRecords: [],
  };
}

/** `validate`. */
export const validateCommand = command({
  name: 'validate',
  auth: onCollection('validate'),
  access: 'read',
  shape: {
    validate: rule.any,
    full: rule.flag,
    // Older drivers still send it; it has no meaning.
    scandata: rule.flag,
    repair: rule.flag,
    metadata: rule.flag,
    checkBSONConformance: rule.flag,
    background: rule.flag,
    enforceFastCount: rule.flag,
    fixMultikey: rule.flag,
    collHash: rule.flag,
    hashPrefixes: rule.array,
    revealHashedIds: rule.array,
    atClusterTime: rule.timestamp,
  },
  run: runValidate,
});

function runDbHash(call: Call): Document {
  const wanted: unknown = call.command['collections'];
  const names = call.data
    .collections(call.db)
    .filter((info) => info.type !== 'view' && !info.name.startsWith('system.'))
    .map((info) => info.name)
    .filter((name) => !Array.isArray(wanted) || wanted.length === 0 || wanted.includes(name))
    .sort();
  const all = createHash('md5');
  const collections: Document = {};
  for (const name of names) {
    const hash = createHash('md5');
    for (const document of call.data.find(`${call.db}.${name}`, { sort: { _id: 1 } }))
      hash.update(serialize(document));
    collections[name] = hash.digest('hex');
    all.update(collections[name]);
  }
  return {
    host: call.node.address,
    collections,
    capped: [],
    uuids: Object.fromEntries(names.map((name) => [name, call.data.info(`${call.db}.${name}`)?.uuid])),
    md5: all.digest('hex'),
    timeMillis: 0,
  };
}

/** `dbHash`: digests of all collections, to compare members. */
export const dbHashCommand = command({
  name: 'dbHash',
  aliases: ['dbhash'],
  auth: onDatabase('dbHash'),
  access: 'read',
  readConcern: true,
  shape: { dbHash: rule.any, dbhash: rule.any, collections: rule.array, skipTempCollections: rule.flag },
  run: runDbHash,
});

/** The commands of this file. */
export const STATS_COMMANDS = [
  collStatsCommand,
  dbStatsCommand,
  dataSizeCommand,
  validateCommand,
  dbHashCommand,
];
