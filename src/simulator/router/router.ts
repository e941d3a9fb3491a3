/** The router: its view of the cluster, its connections, what it does now and then. */
import { hostname } from 'node:os';
import { type Document, Long } from 'bson';
import { type Millis, SECOND } from '../../base/units.ts';
import { fail } from '../commands/errors.ts';
import { type CommandServices, createCommandServices } from '../commands/index.ts';
import type { SimulatorNode } from '../process/node.ts';
import type { PeerPool } from '../replication/peer-pool.ts';
import { ROUTERS } from '../sharding/metadata.ts';
import { SetClient } from '../sharding/set-client.ts';
import { parseSet, type SetAddress, setString } from '../sharding/set-name.ts';
import { seriesOf, wireVersionOf } from '../wire/versions.ts';
import { AccountMirror } from './account-mirror.ts';
import { Catalog } from './catalog.ts';
import type { RouterTime } from './time.ts';
import { RoutedTransactions } from './transactions.ts';

/** How often a router shows that it is there, and looks at the cluster's version. */
const PING: Millis = 10 * SECOND;
const SHARD_PORT = 27018;

export interface RouterOptions {
  readonly node: SimulatorNode;
  readonly time: RouterTime;
  readonly pool: PeerPool;
  readonly config: SetAddress;
}

/** One router, with a life. */
export class Router {
  readonly node: SimulatorNode;
  readonly time: RouterTime;
  readonly config: SetClient;
  readonly catalog: Catalog;
  readonly accounts: AccountMirror;
  readonly transactions = new RoutedTransactions();
  readonly #pool: PeerPool;
  readonly #clients = new Map<string, SetClient>();
  #timer: NodeJS.Timeout | undefined;
  /** The cluster's version when it is newer than this router. */
  #newer: string | null = null;

  constructor({ node, time, pool, config }: RouterOptions) {
    this.node = node;
    this.time = time;
    this.#pool = pool;
    this.config = this.#follow(config);
    this.catalog = new Catalog(this.config);
    this.accounts = new AccountMirror(node, this.catalog);
  }

  get services(): CommandServices {
    return createCommandServices(this.node);
  }

  #follow(address: SetAddress): SetClient {
    const { parameters, version } = this.node;
    return new SetClient({
      ...address,
      pool: this.#pool,
      select: Number(parameters.get('defaultFindReplicaSetHostTimeoutMS')),
      minWireVersion: wireVersionOf(version),
      onTime: (reply) => this.time.hear(reply),
    });
  }

  /** Reads what must be known before clients may come: the config servers' primary, shards, users, the version. */
  async load(): Promise<void> {
    await this.config.primary();
    const hello = this.config.primaryHello();
    if (hello?.['configsvr'] === undefined)
      throw fail(20, `${this.config.name} is not a set of config servers`);
    await this.catalog.refreshShards();
    await this.accounts.refresh();
    await this.#readVersion();
    this.assertCompatible();
  }

  open(): void {
    const ping = async (): Promise<void> => {
      await this.#ping().catch((error: unknown) =>
        this.node.log.log(
          'W',
          'SHARDING',
          22_876,
          'Uptime-reporter',
          'Error while attempting to write this node’s uptime to config.mongos',
          {
            error: error instanceof Error ? error.message : String(error),
          },
        ),
      );
      this.#timer = setTimeout(() => void ping(), PING);
      this.#timer.unref();
    };
    void ping();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.config.close();
    for (const client of this.#clients.values()) client.close();
    this.#pool.close();
  }

  async #ping(): Promise<void> {
    const { node } = this;
    const _id = `${hostname()}:${node.port}`;
    const up = Math.floor((node.now().getTime() - node.startedAt.getTime()) / SECOND);
    const update = {
      $set: {
        ping: node.now(),
        up: Long.fromNumber(up),
        waiting: true,
        mongoVersion: node.version,
        advisoryHostFQDNs: [],
        created: node.startedAt,
      },
    };
    const command = {
      update: ROUTERS.slice('config.'.length),
      updates: [{ q: { _id }, u: update, upsert: true }],
    };
    await this.config.call('config', { ...command, writeConcern: { w: 'majority' } }, { resend: 'always' });
    const shards = await this.catalog.refreshShards();
    for (const name of this.#clients.keys()) if (!shards.has(name)) this.#leave(name);
    await this.accounts.refreshWhenDue();
    await this.#readVersion();
  }

  async #readVersion(): Promise<void> {
    const [fcv] = await this.catalog.read('admin.system.version', { _id: 'featureCompatibilityVersion' });
    const version = String(fcv?.['version'] ?? seriesOf(this.node.version));
    this.#newer = Number(version) > Number(seriesOf(this.node.version)) ? version : null;
  }

  /** 188 when the cluster went to a version this router does not know. */
  assertCompatible(): void {
    if (this.#newer === null) return;
    throw fail(
      188,
      `This version of mongos (${this.node.version}) is incompatible with the cluster's feature compatibility version ${this.#newer}`,
    );
  }

  /** A shard by name. 70 when there is none. */
  async client(shard: string): Promise<SetClient> {
    const host = this.catalog.shards.get(shard) ?? (await this.catalog.refreshShards()).get(shard);
    if (host === undefined) {
      this.#leave(shard);
      this.catalog.forgetAll();
      throw fail(70, `Shard ${shard} not found`);
    }
    const address = parseSet(host, SHARD_PORT)!;
    const present = this.#clients.get(shard);
    if (present !== undefined) {
      present.suggest(address.hosts);
      return present;
    }
    const made = this.#follow(address);
    this.#clients.set(shard, made);
    return made;
  }

  #leave(shard: string): void {
    this.#clients.get(shard)?.close();
    this.#clients.delete(shard);
  }

  /** Every shard's name. */
  async shardNames(): Promise<readonly string[]> {
    return [...(await this.catalog.refreshShards()).keys()];
  }

  /** The cluster time to tell others. */
  timeFields(): Document {
    const clusterTime = this.time.clusterTime();
    if (clusterTime.isZero()) return {};
    return { $clusterTime: { clusterTime, signature: NO_SIGNATURE } };
  }

  /** Sets by name, as getShardMap shows them. */
  async shardMap(): Promise<Document> {
    const config = setString({ name: this.config.name, hosts: this.config.hosts });
    const map: Document = { config };
    for (const [name, host] of await this.catalog.refreshShards()) map[name] = host;
    const hosts: Document = {};
    const connections: Document = {};
    for (const [name, text] of Object.entries(map)) {
      connections[String(text)] = name;
      for (const host of parseSet(String(text), SHARD_PORT)!.hosts) hosts[host] = name;
    }
    return { map, hosts, connStrings: connections };
  }
}

const NO_SIGNATURE = { hash: Buffer.alloc(20), keyId: Long.ZERO };
