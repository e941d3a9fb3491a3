/** What a router knows of the cluster: shards, where databases live, how collections are cut. Read when first needed. */
import type { Document } from 'bson';
import { type Millis, SECOND } from '../../base/units.ts';
import { fail } from '../commands/errors.ts';
import { splitNamespace } from '../commands/namespaces.ts';
import type { RoutingTable } from '../sharding/chunks.ts';
import {
  CHUNKS,
  COLLECTIONS,
  DATABASES,
  SETTINGS,
  SHARDS,
  shardVersionOf,
  tableOf,
} from '../sharding/metadata.ts';
import type { SetClient } from '../sharding/set-client.ts';
import { UNSHARDED, versionDocument } from '../sharding/versions.ts';

/** Where requests to a namespace go. */
export type Route =
  /** The config servers' own data: `admin` and `config`. */
  | { readonly kind: 'config' }
  /** There is no such database. */
  | { readonly kind: 'none' }
  | { readonly kind: 'unsharded'; readonly primary: string; readonly version: Document }
  | {
      readonly kind: 'sharded';
      readonly primary: string;
      readonly version: Document;
      readonly table: RoutingTable;
    };

/** What requests carry so that shards can tell whether the router is up to date. */
export function versionFields(route: Route): Document {
  if (route.kind === 'sharded') return { shardVersion: versionDocument(shardVersionOf(route.table)) };
  if (route.kind === 'unsharded')
    return { shardVersion: versionDocument(UNSHARDED), databaseVersion: route.version };
  return {};
}

/** One batch takes all documents that fit into a message. */
const ALL = 1_000_000;
const READ_LIMIT: Millis = 30 * SECOND;
/** Tables that do not belong together are read again at most so often. */
const TRIES = 10;
/** Settings are read again after this time. */
const SETTINGS_AGE: Millis = 10 * SECOND;

/** The routing part of one router. */
export class Catalog {
  readonly #config: SetClient;
  readonly #databases = new Map<string, Document>();
  readonly #routes = new Map<string, Route>();
  #shards = new Map<string, string>();
  #writeConcern: { readonly value: Document | undefined; readonly at: Millis } | null = null;

  constructor(config: SetClient) {
    this.#config = config;
  }

  /** Documents of the config database as a majority has them. */
  async read(ns: string, filter: Document, sort?: Document): Promise<readonly Document[]> {
    const { db, collection } = splitNamespace(ns);
    const command = {
      find: collection,
      filter,
      ...(sort === undefined ? {} : { sort }),
      batchSize: ALL,
      readConcern: { level: 'majority' },
    };
    const reply = await this.#config.call(db, command, { resend: 'always', timeout: READ_LIMIT });
    const documents: Document[] = [...reply['cursor'].firstBatch];
    for (let id = reply['cursor'].id; !id.isZero(); ) {
      const more = await this.#config.call(
        db,
        { getMore: id, collection, batchSize: ALL },
        { resend: 'never', timeout: READ_LIMIT },
      );
      documents.push(...more['cursor'].nextBatch);
      id = more['cursor'].id;
    }
    return documents;
  }

  /** Connection strings by shard, as last read. */
  get shards(): ReadonlyMap<string, string> {
    return this.#shards;
  }

  async refreshShards(): Promise<ReadonlyMap<string, string>> {
    const found = await this.read(SHARDS, {}, { _id: 1 });
    this.#shards = new Map(found.map(({ _id, host }) => [String(_id), String(host)]));
    return this.#shards;
  }

  /** Where a namespace is; from memory when it is known. */
  async route(ns: string): Promise<Route> {
    const { db } = splitNamespace(ns);
    if (db === 'admin' || db === 'config') return { kind: 'config' };
    const known = this.#routes.get(ns);
    if (known !== undefined) return known;
    const database = await this.#database(db);
    if (database === undefined) return { kind: 'none' };
    const route = await this.#load(ns, database);
    this.#routes.set(ns, route);
    return route;
  }

  /** The route for a write: the database is made when it is new. */
  async routeForWrite(ns: string): Promise<Route> {
    const route = await this.route(ns);
    if (route.kind !== 'none') return route;
    await this.createDatabase(splitNamespace(ns).db);
    return this.route(ns);
  }

  async createDatabase(db: string, primaryShard?: string): Promise<void> {
    const command = {
      _configsvrCreateDatabase: db,
      ...(primaryShard === undefined ? {} : { primaryShard }),
      writeConcern: { w: 'majority' },
    };
    const { database } = await this.#config.call('admin', command, { resend: 'always' });
    this.#databases.set(db, database);
  }

  async #database(db: string): Promise<Document | undefined> {
    const known = this.#databases.get(db);
    if (known !== undefined) return known;
    const [found] = await this.read(DATABASES, { _id: db });
    if (found !== undefined) this.#databases.set(db, found);
    return found;
  }

  async #load(ns: string, database: Document): Promise<Route> {
    const base = { primary: String(database['primary']), version: database['version'] as Document };
    for (let left = TRIES; left > 0; left -= 1) {
      const [collection] = await this.read(COLLECTIONS, { _id: ns });
      if (collection === undefined) return { kind: 'unsharded', ...base };
      const table = tableOf(collection, await this.read(CHUNKS, { uuid: collection['uuid'] }));
      if (table !== null) return { kind: 'sharded', ...base, table };
    }
    throw fail(13388, `the chunks of ${ns} could not be read`);
  }

  /** Reads again, at the next use, what turned out to be old. */
  forget(ns: string): void {
    const { db } = splitNamespace(ns);
    this.#databases.delete(db);
    for (const name of [...this.#routes.keys()])
      if (name === ns || name.startsWith(`${db}.`)) this.#routes.delete(name);
  }

  forgetAll(): void {
    this.#databases.clear();
    this.#routes.clear();
    this.#writeConcern = null;
  }

  /** The write concern of commands that give none, where the cluster has one. A known one holds until it was read again. */
  async writeConcern(): Promise<Document | undefined> {
    const known = this.#writeConcern;
    if (known === null) return this.#readWriteConcern();
    if (performance.now() - known.at >= SETTINGS_AGE) {
      this.#writeConcern = { ...known, at: performance.now() };
      void this.#readWriteConcern().catch(() => undefined);
    }
    return known.value;
  }

  async #readWriteConcern(): Promise<Document | undefined> {
    const [found] = await this.read(SETTINGS, { _id: 'ReadWriteConcernDefaults' });
    const value: Document | undefined = found?.['defaultWriteConcern'];
    this.#writeConcern = { value, at: performance.now() };
    return value;
  }
}
