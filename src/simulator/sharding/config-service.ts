/**
 * What the primary of the config servers does: it alone changes the cluster's metadata, one change at a time. A change that
 * touches shards is noted first and ends with every shard told; whoever becomes primary finishes what a dead one left.
 */
import type { Document, Timestamp } from 'bson';
import { ObjectId } from 'bson';
import { type Millis, SECOND } from '../../base/units.ts';
import { fail } from '../commands/errors.ts';
import { ServerError } from '../contracts.ts';
import type { SimulatorNode } from '../process/node.ts';
import type { PeerPool } from '../replication/peer-pool.ts';
import type { RoutingTable } from './chunks.ts';
import { type Change, Documents } from './documents.ts';
import {
  CHUNKS,
  CLUSTER_VERSION,
  COLLECTIONS,
  DATABASES,
  PENDING,
  SHARDS,
  shardState,
  shardVersionOf,
  tableOf,
} from './metadata.ts';
import { SetClient } from './set-client.ts';
import { parseSet, setString } from './set-name.ts';
import { versionDocument } from './versions.ts';

/** How often the primary looks whether something is left to do. */
const TICK: Millis = 2 * SECOND;
/** Default of `defaultFindReplicaSetHostTimeoutMS`. */
const SELECT: Millis = 15 * SECOND;
const MAJORITY = { w: 'majority' };
/** Codes by which a member speaks of its own role. */
const ABOUT_ROLES: ReadonlySet<number> = new Set([91, 189, 10107, 11600, 11602, 13435, 13436]);

/** A change under way. */
export interface Pending {
  /** `drop` is a collection that goes once the metadata no longer has it. */
  readonly kind: 'collection' | 'drop' | 'database';
  readonly id: string;
}

const noteId = ({ kind, id }: Pending): string => `${kind}/${id}`;

/** The config part of one process, with a life. */
export class ConfigService {
  readonly documents: Documents;
  readonly node: SimulatorNode;
  readonly pool: PeerPool;
  /** Called at each look while primary, after everything pending was ended. */
  onTick: () => Promise<void> = () => Promise.resolve();
  readonly #clients = new Map<string, SetClient>();
  #turn: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #recovered = false;

  constructor(node: SimulatorNode, pool: PeerPool) {
    this.node = node;
    this.pool = pool;
    this.documents = new Documents(node);
  }

  open(): void {
    this.node.replication?.onStepDown(() => {
      this.#recovered = false;
    });
    const look = async (): Promise<void> => {
      try {
        await this.#look();
      } catch (error) {
        this.node.log.log(
          'I',
          'SHARDING',
          5_000_020,
          'Balancer',
          'Metadata work was not finished, trying again',
          {
            error: error instanceof Error ? error.message : String(error),
          },
        );
      }
      this.#timer = setTimeout(() => void look(), TICK);
      this.#timer.unref();
    };
    this.#timer = setTimeout(() => void look(), TICK);
    this.#timer.unref();
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const client of this.#clients.values()) client.close();
  }

  get isPrimary(): boolean {
    return this.node.replication?.isWritablePrimary() === true;
  }

  async #look(): Promise<void> {
    if (!this.isPrimary) return;
    await this.exclusive(async () => undefined);
    await this.#refreshHosts();
    await this.onTick();
  }

  /** Runs one change of the metadata alone, after everything an earlier primary left is ended. */
  exclusive<T>(change: () => Promise<T>): Promise<T> {
    const next = this.#turn.then(async () => {
      await this.#recover();
      return change();
    });
    this.#turn = next.catch(() => undefined);
    return next;
  }

  async #recover(): Promise<void> {
    if (this.#recovered && this.documents.find(PENDING).length === 0) return;
    if (this.documents.find(CLUSTER_VERSION).length === 0) {
      await this.documents.changeSurely(({ put }) =>
        put(CLUSTER_VERSION, { _id: 1, clusterId: new ObjectId() }),
      );
    }
    for (const { kind, id } of this.documents.find(PENDING)) await this.#tryFinish({ kind, id });
    this.#recovered = true;
  }

  clusterId(): ObjectId {
    return this.documents.find(CLUSTER_VERSION)[0]?.['clusterId'];
  }

  /** A fresh point in cluster time, for versions. */
  now(): Timestamp {
    return this.node.replication!.clusterTime();
  }

  // ── metadata ─────────────────────────────────────────────────────────────────────────────────────────────────────

  shards(): readonly Document[] {
    return this.documents.find(SHARDS, {}, { _id: 1 });
  }

  shard(name: string): Document {
    const found = this.documents.get(SHARDS, name);
    if (found === undefined) throw fail(70, `Shard ${name} does not exist`);
    return found;
  }

  database(db: string): Document | undefined {
    return this.documents.get(DATABASES, db);
  }

  table(ns: string): RoutingTable | null {
    const collection = this.documents.get(COLLECTIONS, ns);
    return collection === undefined ? null : tableOf(collection, this.chunks(collection['uuid']));
  }

  chunks(uuid: unknown): readonly Document[] {
    return this.documents.find(CHUNKS, { uuid });
  }

  tables(): readonly RoutingTable[] {
    return this.documents
      .find(COLLECTIONS)
      .flatMap((collection) => this.table(String(collection['_id'])) ?? []);
  }

  // ── changes with shards ──────────────────────────────────────────────────────────────────────────────────────────

  /** Notes a change, makes it, tells the shards, forgets the note. A failure is undone by what the metadata says then. */
  async changing<T>(pending: Pending, change: () => Promise<T>): Promise<T> {
    const note = { _id: noteId(pending), ...pending };
    for (const left of this.documents.find(PENDING, { id: pending.id }))
      await this.finish({ kind: left['kind'], id: pending.id });
    await this.documents.changeSurely(({ put }) => put(PENDING, note));
    try {
      return await change();
    } finally {
      await this.#tryFinish(pending);
    }
  }

  /** A shard that can't be told now is told later; until then it lets no router at what is concerned. */
  async #tryFinish(pending: Pending): Promise<void> {
    try {
      await this.finish(pending);
    } catch (error) {
      this.node.log.log(
        'W',
        'SHARDING',
        5_000_021,
        'Balancer',
        'Shards could not be told yet, trying again',
        {
          ...pending,
          error: error instanceof Error ? error.message : String(error),
        },
      );
    }
  }

  /** Tells every shard what the metadata says about a collection or database. */
  async finish(pending: Pending): Promise<void> {
    if (pending.kind === 'database') await this.#syncDatabase(pending.id);
    else await this.#syncCollection(pending.id, pending.kind === 'drop');
    await this.documents.changeSurely(({ remove }) => remove(PENDING, { _id: noteId(pending) }));
  }

  async #syncCollection(ns: string, dropped: boolean): Promise<void> {
    const table = this.table(ns);
    const db = ns.slice(0, ns.indexOf('.'));
    const primary = this.database(db)?.['primary'];
    await this.#tellAll((name) => {
      if (table !== null)
        return {
          _simSyncCollection: 1,
          ns,
          version: versionDocument(shardVersionOf(table)),
          ...shardState(table, name),
        };
      // Unsharded again (dropped), or never became sharded: what others than the primary have of it is nobody's.
      return { _simSyncCollection: 1, ns, drop: dropped || name !== primary };
    });
  }

  async #syncDatabase(db: string): Promise<void> {
    const known = this.database(db);
    await this.#tellAll((name) => ({
      _simSyncDatabase: 1,
      name: db,
      version: known?.['primary'] === name ? known['version'] : null,
      drop: known === undefined,
    }));
  }

  async #tellAll(message: (shard: string) => Document): Promise<void> {
    const told = this.shards().map(({ _id }) => this.tell(String(_id), message(String(_id))));
    const failed = (await Promise.allSettled(told)).find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  }

  /** Sends one command to a shard's primary and waits until its majority has the effect. */
  async tell(shard: string, command: Document): Promise<Document> {
    try {
      return await this.client(shard).call(
        'admin',
        { ...command, writeConcern: MAJORITY },
        { resend: 'always' },
      );
    } catch (failure) {
      if (!(failure instanceof ServerError) || !ABOUT_ROLES.has(failure.code)) throw failure;
      // As it is, a router would take it for the config servers' own state.
      throw fail(96, `shard ${shard} :: caused by :: ${failure.message}`);
    }
  }

  /** Reads or runs something on a shard's primary. */
  client(shard: string): SetClient {
    const host = String(this.shard(shard)['host']);
    const present = this.#clients.get(shard);
    if (present !== undefined) {
      present.suggest(parseSet(host, 27018)!.hosts);
      return present;
    }
    const made = this.follow(host);
    this.#clients.set(shard, made);
    return made;
  }

  /** A view of any set, for as long as the caller needs it. */
  follow(host: string): SetClient {
    return new SetClient({ ...parseSet(host, 27018)!, pool: this.pool, select: this.selectMillis });
  }

  get selectMillis(): Millis {
    return Number(this.node.parameters.get('defaultFindReplicaSetHostTimeoutMS') ?? SELECT);
  }

  forget(shard: string): void {
    this.#clients.get(shard)?.close();
    this.#clients.delete(shard);
  }

  change(make: (change: Change) => void): Promise<void> {
    return this.documents.changeSurely(make);
  }

  /** Keeps the connection strings of shards as their sets are now. */
  async #refreshHosts(): Promise<void> {
    for (const shard of this.shards()) {
      const client = this.client(String(shard['_id']));
      const there = await client.primary(TICK).then(
        () => true,
        () => false,
      );
      const host = setString({ name: client.name, hosts: client.hosts });
      if (!there || host === shard['host'] || !this.isPrimary) continue;
      await this.change(({ put }) => put(SHARDS, { ...this.shard(String(shard['_id'])), host }));
    }
  }
}
