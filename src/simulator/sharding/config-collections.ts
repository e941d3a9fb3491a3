/** Databases and collections of the cluster: where they live, how they are cut. */
import { type Document, ObjectId, type UUID, UUID as Uuid } from 'bson';
import { fail } from '../commands/errors.ts';
import { isDocument, valueKey } from '../data/index.ts';
import { atLeast } from '../wire/versions.ts';
import { initialChunks, ownersOf, type RoutingTable } from './chunks.ts';
import type { ConfigService } from './config-service.ts';
import { type IndexSpec, indexName, supportsKey } from './indexes.ts';
import {
  CHUNKS,
  COLLECTIONS,
  chunkDocument,
  collectionDocument,
  DATABASES,
  firstDatabaseVersion,
} from './metadata.ts';
import { type KeyPattern, parsePattern, patternDocument } from './shard-key.ts';

const dbOf = (ns: string): string => ns.slice(0, ns.indexOf('.'));

/** The database's document, made on the shard with the fewest databases when it is new. */
export async function createDatabase(config: ConfigService, db: string, wanted?: string): Promise<Document> {
  const present = config.database(db);
  if (present !== undefined) {
    if (wanted === undefined || present['primary'] === wanted) return present;
    throw fail(48, `database already created on a primary which is different from ${wanted}`);
  }
  const similar = config.documents
    .find(DATABASES)
    .find(({ _id }) => String(_id).toLowerCase() === db.toLowerCase());
  if (similar !== undefined)
    throw fail(
      13297,
      `can't have 2 databases that just differ on case have: ${similar['_id']} want to add: ${db}`,
    );
  const primary = wanted === undefined ? emptiest(config) : String(config.shard(wanted)['_id']);
  await config.changing({ kind: 'database', id: db }, async () => {
    const version = firstDatabaseVersion(new Uuid(), config.now());
    await config.change(({ put }) => put(DATABASES, { _id: db, primary, version }));
  });
  return config.database(db)!;
}

function emptiest(config: ConfigService): string {
  const open = config.shards().filter(({ draining }) => draining !== true);
  const count = (shard: Document): number =>
    config.documents.find(DATABASES, { primary: shard['_id'] }).length;
  const [first, ...rest] = open;
  if (first === undefined) throw fail(70, 'No shards found');
  return String(rest.reduce((best, shard) => (count(shard) < count(best) ? shard : best), first)['_id']);
}

/** Shards a collection. The same key again is fine; another is 23. */
export async function shardCollection(
  config: ConfigService,
  ns: string,
  command: Document,
): Promise<Document> {
  const pattern = parsePattern(command['key']);
  const unique = command['unique'] === true;
  const db = await createDatabase(config, dbOf(ns));
  const present = config.table(ns);
  if (present !== null) {
    const same = valueKey(patternDocument(present.pattern)) === valueKey(patternDocument(pattern));
    if (!same || present.unique !== unique) throw fail(23, `sharding already enabled for collection ${ns}`);
    return { collectionsharded: ns };
  }
  if (unique && pattern.some(({ hashed }) => hashed))
    throw fail(
      72,
      "Hashed shard keys cannot be declared unique. It's possible to ensure uniqueness on the hashed field by declaring an additional (non-hashed) unique index on the field.",
    );
  checkCollation(command['collation']);
  const primary = String(db['primary']);
  await config.changing({ kind: 'collection', id: ns }, async () => {
    await config.tell(primary, { _simBlock: 1, id: ns });
    const found = await config.tell(primary, { _simDescribe: 1, ns });
    const table = await prepareEverywhere(config, ns, primary, pattern, unique, found);
    await config.change(({ put, remove }) => {
      remove(CHUNKS, { uuid: table.uuid });
      for (const chunk of table.chunks)
        put(CHUNKS, chunkDocument(table.uuid, pattern, chunk, table.timestamp));
      put(COLLECTIONS, collectionDocument(table, config.node.now()));
    });
  });
  return { collectionsharded: ns };
}

function checkCollation(collation: unknown): void {
  if (isDocument(collation) && collation['locale'] !== 'simple')
    throw fail(
      2,
      `The collation for shardCollection must be {locale: 'simple'}, but found: ${JSON.stringify(collation)}`,
    );
}

/** Makes the collection and the key's index on every shard that is to own a part, and the table. */
async function prepareEverywhere(
  config: ConfigService,
  ns: string,
  primary: string,
  pattern: KeyPattern,
  unique: boolean,
  found: Document,
): Promise<RoutingTable> {
  if (found['type'] === 'view') throw fail(166, `Namespace ${ns} is a view, not a collection`);
  const empty = Number(found['count']) === 0;
  const indexes = [...((found['indexes'] ?? []) as IndexSpec[])];
  const isId = pattern.length === 1 && pattern[0]!.path === '_id' && !pattern[0]!.hashed;
  if (!isId && !indexes.some((index) => supportsKey(index, pattern))) {
    if (!empty)
      throw fail(
        72,
        'Please create an index that starts with the proposed shard key before sharding the collection. ',
      );
    const key = patternDocument(pattern);
    indexes.push({ v: 2, key, name: indexName(key), ...(unique ? { unique: true } : {}) });
  }
  const shards = config
    .shards()
    .filter(({ draining }) => draining !== true)
    .map(({ _id }) => String(_id));
  const chunks = initialChunks(pattern, {
    primary,
    shards: [primary, ...shards.filter((name) => name !== primary)],
    spread: empty,
    perShard: atLeast(config.node.version, '7.2') ? 1 : 2,
  });
  for (const shard of new Set([primary, ...ownersOf(chunks)]))
    await config.tell(shard, { _simPrepare: 1, ns, options: found['options'], indexes });
  const made = await config.tell(primary, { _simDescribe: 1, ns });
  const uuid = made['uuid'] as UUID;
  return { ns, uuid, pattern, unique, epoch: new ObjectId(), timestamp: config.now(), chunks };
}

/** Drops a sharded collection everywhere; false when it is not sharded. */
export async function dropCollection(config: ConfigService, ns: string): Promise<boolean> {
  const table = config.table(ns);
  if (table === null) return false;
  await config.changing({ kind: 'drop', id: ns }, async () => {
    for (const shard of ownersOf(table.chunks)) await config.tell(shard, { _simBlock: 1, id: ns });
    await config.change(({ remove }) => {
      remove(COLLECTIONS, { _id: ns });
      remove(CHUNKS, { uuid: table.uuid });
    });
  });
  return true;
}

/** Drops a database everywhere. */
export async function dropDatabase(config: ConfigService, db: string): Promise<void> {
  for (const table of config.tables().filter(({ ns }) => dbOf(ns) === db))
    await dropCollection(config, table.ns);
  if (config.database(db) === undefined) return;
  await config.changing({ kind: 'database', id: db }, async () => {
    await config.change(({ remove }) => remove(DATABASES, { _id: db }));
  });
}
