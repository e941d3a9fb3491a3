/**
 * What a shard does for its cluster: refuses routers with old tables, stands still while ranges move, sends and takes ranges.
 * What it was told is kept in `config.cache.*`, replicated, so that a new primary knows it too.
 */
import type { Document } from 'bson';
import { Long, type ObjectId, Timestamp } from 'bson';
import { SECOND } from '../../base/units.ts';
import { fail } from '../commands/errors.ts';
import type { CommandServices } from '../commands/index.ts';
import { abortTransaction } from '../commands/transactions.ts';
import type { CommandContext, CommandSpec, WriteContext } from '../contracts.ts';
import { isDocument } from '../data/index.ts';
import type { SimulatorNode } from '../process/node.ts';
import { atLeast } from '../wire/versions.ts';
import { Documents } from './documents.ts';
import { acceptable, type ShardVersion, versionOfDocument } from './versions.ts';

export const CACHED_COLLECTIONS = 'config.cache.collections';
export const CACHED_DATABASES = 'config.cache.databases';
const VERSIONS = 'admin.system.version';
const PARAMETERS = 'config.clusterParameters';
const CARDINALITY = 'shardedClusterCardinalityForDirectConns';

/** A request waits this long for a moving range before the router is sent to look again. */
const BLOCK_WAIT = 5 * SECOND;
/** Blocking waits this long for requests under way. */
const DRAIN_WAIT = 10 * SECOND;

const READS: ReadonlySet<string> = new Set(['find', 'count', 'distinct', 'aggregate']);
/** Databases whose data belongs to the member itself. */
const OWN: ReadonlySet<string> = new Set(['admin', 'config', 'local']);

/** The shard part of one process. */
export class ShardService {
  readonly documents: Documents;
  readonly #node: SimulatorNode;
  readonly #services: CommandServices;
  readonly #authEnabled: boolean;
  readonly #running = new Map<string, number>();

  constructor(node: SimulatorNode, services: CommandServices, authEnabled: boolean) {
    this.#node = node;
    this.#services = services;
    this.#authEnabled = authEnabled;
    this.documents = new Documents(node);
  }

  /** The identity this shard got from addShard. */
  identity(): Document | undefined {
    return this.documents.get(VERSIONS, 'shardIdentity');
  }

  /** A command that also checks what the router believes, and turns away who should have come through a router. */
  guarded(spec: CommandSpec): CommandSpec {
    return {
      ...spec,
      run: async (context) => {
        this.#refuseDirect(spec, context);
        const { command } = context;
        if (command['shardVersion'] === undefined && command['databaseVersion'] === undefined)
          return spec.run(context);
        const ns = namespaceIn(context);
        await this.#admit(context, ns);
        this.#running.set(ns, (this.#running.get(ns) ?? 0) + 1);
        try {
          return await spec.run(context);
        } finally {
          this.#running.set(ns, this.#running.get(ns)! - 1);
        }
      },
    };
  }

  // ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────────

  async #admit(context: CommandContext, ns: string): Promise<void> {
    const until = performance.now() + BLOCK_WAIT;
    for (;;) {
      const collection = this.documents.get(CACHED_COLLECTIONS, ns);
      const database = this.documents.get(CACHED_DATABASES, context.db);
      if (collection?.['blocked'] !== true && database?.['blocked'] !== true) {
        this.#assertCurrent(context, ns, collection, database);
        return;
      }
      const left = until - performance.now();
      if (left <= 0) throw this.#stale(ns, context);
      await this.#services.applied.wait(left, context.signal);
      if (context.signal.aborted) throw context.signal.reason;
    }
  }

  #assertCurrent(
    context: CommandContext,
    ns: string,
    collection: Document | undefined,
    database: Document | undefined,
  ): void {
    const { command } = context;
    const sent = versionOfDocument(command['shardVersion']);
    if (sent !== null && !acceptable(sent, knownVersion(collection))) throw this.#stale(ns, context);
    const version: unknown = command['databaseVersion'];
    if (!isDocument(version)) return;
    this.#assertDatabase(context, version, database);
    if (READS.has(context.name)) this.#refuseShardedView(ns);
  }

  #assertDatabase(context: CommandContext, version: Document, database: Document | undefined): void {
    const same = (database?.['timestamp'] as Timestamp | undefined)?.equals(version['timestamp']) === true;
    if (same && Number(database?.['lastMod']) === Number(version['lastMod'])) return;
    throw fail(249, `sharding metadata of database ${context.db} is not the router's`, { db: context.db });
  }

  /** A view over a sharded collection is the router's to run: it gets the pipeline to put in front. */
  #refuseShardedView(view: string): void {
    const db = view.slice(0, view.indexOf('.'));
    const pipeline: Document[] = [];
    let ns = view;
    for (let info = this.#node.data.info(ns); info?.type === 'view'; info = this.#node.data.info(ns)) {
      pipeline.unshift(...((info.options['pipeline'] ?? []) as Document[]));
      ns = `${db}.${info.options['viewOn']}`;
    }
    if (ns === view || knownVersion(this.documents.get(CACHED_COLLECTIONS, ns)) === null) return;
    throw fail(169, `resolved views on sharded collections must be executed by mongos: ${view}`, {
      resolvedView: { ns, pipeline },
    });
  }

  #stale(ns: string, context: CommandContext): Error {
    return fail(
      13388,
      `sharding status of collection ${ns} is not currently available for routers of this version`,
      {
        ns,
        vReceived: context.command['shardVersion'],
        shardId: this.identity()?.['shardName'] ?? '',
      },
    );
  }

  /** 8.0 on refuses users without the privilege on shards of clusters that have two of them. */
  #refuseDirect(spec: CommandSpec, context: CommandContext): void {
    const { connection, db } = context;
    if (!this.#authEnabled || connection.internal || OWN.has(db) || spec.auth === 'none') return;
    if (!atLeast(this.#node.version, '8.0') || connection.users.length === 0 || this.identity() === undefined)
      return;
    if (this.documents.get(PARAMETERS, CARDINALITY)?.['hasTwoOrMoreShards'] !== true) return;
    const wanted = { resource: { cluster: true } as const, actions: ['issueDirectShardOperations'] };
    if (this.#node.allows(connection, [wanted])) return;
    throw fail(
      13,
      'You are connecting to a sharded cluster improperly by connecting directly to a shard. Please connect to the cluster via a router (mongos).',
    );
  }

  /** Stops all requests of routers to a namespace (or database): new ones wait, running ones end, transactions go. */
  async block(id: string, isDatabase: boolean): Promise<void> {
    const ns = isDatabase ? CACHED_DATABASES : CACHED_COLLECTIONS;
    const known = this.documents.get(ns, id);
    await this.documents.changeSurely(({ put }) => put(ns, { ...known, _id: id, blocked: true }));
    for (const session of this.#services.sessions.list())
      if (session.transaction !== null) abortTransaction(session);
    const until = performance.now() + DRAIN_WAIT;
    const busy = (): boolean =>
      [...this.#running].some(
        ([name, count]) => count > 0 && (name === id || (isDatabase && name.startsWith(`${id}.`))),
      );
    while (busy()) {
      if (performance.now() > until) throw fail(24, `requests to ${id} did not end in time`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Lets routers in again under what the metadata says now; null: not sharded. */
  async admitVersion(ns: string, version: ShardVersion | null): Promise<void> {
    await this.documents.changeSurely(({ put, remove }) => {
      if (version === null) remove(CACHED_COLLECTIONS, { _id: ns });
      else put(CACHED_COLLECTIONS, { _id: ns, ...version });
    });
  }

  /** Notes which version of a database lives here; null: it does not. */
  async admitDatabase(db: string, version: Document | null): Promise<void> {
    await this.documents.changeSurely(({ put, remove }) => {
      if (version === null) remove(CACHED_DATABASES, { _id: db });
      else put(CACHED_DATABASES, { ...version, _id: db });
    });
  }

  // ── history of retryable writes ──────────────────────────────────────────────────────────────────────────────────

  /** What sessions did here with their newest numbers: it goes along with a range, so that a repeated write is known there too. */
  history(): readonly Document[] {
    return this.#services.sessions
      .list()
      .filter(({ kind, statements }) => kind === 'retryable' && statements.size > 0)
      .map(({ lsid, txnNumber, statements, images }) => ({
        lsid,
        txnNumber: Long.fromBigInt(txnNumber),
        statements: [...statements].map(([stmtId, { op, id }]) => ({
          stmtId,
          op,
          id: id === undefined ? null : id,
        })),
        images: [...images.values()],
      }));
  }

  /** Takes in another shard's history: as entries of the log, so that every member and a later primary know it. */
  takeHistory(history: readonly Document[]): void {
    const { data } = this.#node;
    for (const { lsid, txnNumber, statements, images } of history) {
      if (this.#services.sessions.get(lsid).txnNumber > txnNumber.toBigInt()) continue;
      data.appendNoop({ writeHistory: statements, lsid, txnNumber }, this.#writing());
      for (const image of images as Document[])
        data.appendNoop({ findAndModifyImage: image, lsid, txnNumber }, this.#writing());
    }
  }

  #writing(): WriteContext {
    return { stamp: this.#node.stamp(), wall: this.#node.now() };
  }

  /** Becomes a shard of a cluster: the identity stays for the life of the data. */
  async identify(identity: Document, twoShards: boolean): Promise<void> {
    const known = this.identity();
    if (known !== undefined && !(known['clusterId'] as ObjectId).equals(identity['clusterId'])) {
      throw fail(
        11000,
        'E11000 duplicate key error collection: admin.system.version index: _id_ dup key: { _id: "shardIdentity" }',
      );
    }
    await this.documents.changeSurely(({ put }) => {
      put(VERSIONS, { _id: 'shardIdentity', ...identity });
      if (twoShards) put(PARAMETERS, { _id: CARDINALITY, hasTwoOrMoreShards: true });
    });
  }
}

function knownVersion(record: Document | undefined): ShardVersion | null {
  if (!(record?.['timestamp'] instanceof Timestamp)) return null;
  return { epoch: record['epoch'], timestamp: record['timestamp'], version: record['version'] };
}

/** The namespace a routed command works on; explain carries another command. */
function namespaceIn({ command, name, db }: CommandContext): string {
  const inner: unknown = command[name];
  if (name === 'explain' && isDocument(inner)) return `${db}.${String(Object.values(inner)[0])}`;
  return typeof inner === 'string' ? `${db}.${inner}` : `${db}.$cmd`;
}
