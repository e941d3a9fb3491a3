/** Shards come and go: addShard with its checks, removeShard with its phases (8.2, 8.3). */
import { type Document, Int32, Long, UUID } from 'bson';
import { fail } from '../commands/errors.ts';
import type { ServerError } from '../contracts.ts';
import { toNumber, valueKey } from '../data/index.ts';
import { acceptedFcvs, storedFcv } from '../process/compatibility.ts';
import { atLeast } from '../wire/versions.ts';
import type { ConfigService } from './config-service.ts';
import { DATABASES, firstDatabaseVersion, isBalancing, SETTINGS, SHARDS } from './metadata.ts';
import type { SetClient } from './set-client.ts';
import { parseSet, type SetAddress, setString } from './set-name.ts';

const HELLO_LIMIT = 5_000;
const SHARD_PORT = 27018;
const refuse = (text: string): ServerError => fail(96, text);

/** Registers a set as a shard. Doing it again for the same set is fine. */
export async function addShard(config: ConfigService, given: string, wantedName?: string): Promise<Document> {
  const address = parseSet(given, SHARD_PORT);
  if (address === null) throw await plainHost(config, given);
  const name = wantedName ?? address.name;
  const known = registered(config, address, name, wantedName);
  if (known !== null) return { shardAdded: known };
  if (name === 'config') throw fail(2, "use of shard replica set with name 'config' is not allowed");
  const fcv = storedFcv(config.node);
  if (fcv.targetVersion !== undefined)
    throw fail(5563603, 'Cannot add shard while in upgrading/downgrading FCV state');
  const client = config.follow(given);
  try {
    await checkSeeds(config, given, address);
    await client.primary();
    const info = await infoOf(config, client, given);
    await register(config, client, given, name, info, fcv.version);
  } finally {
    client.close();
  }
  return { shardAdded: name };
}

/** The name under which this very set is registered; errors when set or name are taken otherwise. */
function registered(
  config: ConfigService,
  address: SetAddress,
  name: string,
  wantedName: string | undefined,
): string | null {
  for (const shard of config.shards()) {
    const present = parseSet(String(shard['host']), SHARD_PORT);
    const sameSet = present?.name === address.name;
    if (sameSet && (wantedName === undefined || shard['_id'] === wantedName)) {
      if (address.hosts.some((host) => present.hosts.includes(host))) return String(shard['_id']);
    }
    if (sameSet)
      throw fail(
        20,
        `A shard named ${shard['_id']} containing the replica set '${address.name}' already exists`,
      );
    if (shard['_id'] === name) throw fail(20, `A shard named ${name} already exists`);
  }
  return null;
}

async function hello(config: ConfigService, host: string): Promise<Document | null> {
  try {
    return await config.pool.ask(host, 'admin', { hello: 1 }, { timeout: HELLO_LIMIT, again: true });
  } catch {
    return null;
  }
}

/** What is wrong with a host without a set's name. */
async function plainHost(config: ConfigService, given: string): Promise<ServerError> {
  const seen = await hello(config, /:\d+$/.test(given) ? given : `${given}:${SHARD_PORT}`);
  if (seen === null)
    return fail(133, `Could not find host matching read preference { mode: "primary" } for ${given}`);
  if (seen['msg'] === 'isdbgrid') return fail(20, 'cannot add a mongos as a shard');
  if (seen['setName'] === undefined) return refuse(`${given} is not a member of a replica set`);
  return refuse(
    `host is part of set ${seen['setName']}; use replica set url format <setname>/<server1>,<server2>, ...`,
  );
}

async function checkSeeds(config: ConfigService, given: string, address: SetAddress): Promise<void> {
  for (const host of address.hosts) {
    const seen = await hello(config, host);
    if (seen === null) continue;
    if (seen['msg'] === 'isdbgrid') throw fail(20, 'cannot add a mongos as a shard');
    if (seen['setName'] === undefined)
      throw refuse(
        `host did not return a set name; is the replica set still initializing? ${JSON.stringify(seen)}`,
      );
    if (seen['setName'] !== address.name)
      throw refuse(
        `the provided connection string (${given}) does not match the actual set name ${seen['setName']}`,
      );
    if (seen['configsvr'] !== undefined)
      throw refuse(`Cannot add ${given} as a shard since it is a config server`);
    const members = [seen['hosts'], seen['passives'], seen['arbiters']].flatMap(
      (list) => (list ?? []) as string[],
    );
    const stranger = address.hosts.find((seed) => !members.includes(seed));
    if (stranger !== undefined)
      throw refuse(
        `in seed list ${given}, host ${stranger} does not belong to replica set ${address.name}; found ${JSON.stringify(members)}`,
      );
    return;
  }
}

/** What the set tells about itself, and whether that allows it in. */
async function infoOf(config: ConfigService, client: SetClient, given: string): Promise<Document> {
  const reply = await client.run('admin', { _simShardInfo: 1 }, { resend: 'always' });
  if (toNumber(reply['code']) === 59)
    throw fail(193, 'Cannot accept sharding commands if not started with --shardsvr');
  if (toNumber(reply['ok']) !== 1)
    throw fail(toNumber(reply['code']) ?? 96, `${reply['errmsg']} :: caused by :: cannot add ${given}`);
  const fcv = storedFcv(config.node).version;
  if (!acceptedFcvs(String(reply['version'])).includes(fcv)) {
    throw fail(
      188,
      `Cannot add ${given} as a shard because its binary version is not compatible with the cluster's featureCompatibilityVersion.`,
    );
  }
  await checkConcerns(config, client, given, reply['defaults']);
  for (const db of reply['databases'] as string[]) {
    const taken = config.database(db);
    if (taken !== undefined)
      throw refuse(
        `can't add shard '${given}' because a local database '${db}' exists in another ${taken['primary']}`,
      );
  }
  return reply;
}

async function checkConcerns(
  config: ConfigService,
  client: SetClient,
  given: string,
  shardDefaults: Document | null,
): Promise<void> {
  const cluster = config.documents.get(SETTINGS, 'ReadWriteConcernDefaults')?.['defaultWriteConcern'];
  const own = shardDefaults?.['defaultWriteConcern'];
  if (own !== undefined && cluster === undefined)
    throw refuse(
      `Cannot add ${given} as a shard since the cluster-wide write concern is set on the shard and not set on the cluster. Set the CWWC on the cluster to the same CWWC as the shard and try again.`,
    );
  if (own !== undefined && valueKey(own) !== valueKey(cluster))
    throw refuse(
      `Cannot add ${given} as a shard since the cluster-wide write concern set on the shard doesn't match the one set on the cluster. Make sure they match and try again.`,
    );
  if (cluster !== undefined) return;
  const effective = await client.call('admin', { getDefaultRWConcern: 1 }, { resend: 'always' });
  if (toNumber(effective['defaultWriteConcern']?.w) === 1)
    throw refuse(
      `Cannot add ${given} as a shard since the implicit default write concern on this shard is set to {w : 1}, because number of arbiters in the shard's configuration caused the number of writable voting members not to be strictly more than the voting majority. Change the shard configuration or set the cluster-wide write concern using the setDefaultRWConcern command and try again.`,
    );
}

async function register(
  config: ConfigService,
  client: SetClient,
  given: string,
  name: string,
  info: Document,
  fcv: string,
): Promise<void> {
  const twoShards = config.shards().length > 0;
  const identity = {
    shardName: name,
    clusterId: config.clusterId(),
    configsvrConnectionString: configString(config),
  };
  const options = { resend: 'always' } as const;
  const writeConcern = { w: 'majority' };
  await client.call('admin', { _simIdentify: 1, identity, twoShards, writeConcern }, options);
  if (info['fcv'] !== fcv) {
    const confirm = atLeast(String(info['version']), '7.0') ? { confirm: true } : {};
    await client.call('admin', { setFeatureCompatibilityVersion: fcv, ...confirm, writeConcern }, options);
  }
  const host = setString({ name: client.name, hosts: client.hosts });
  const version = toNumber(client.primaryHello()?.['setVersion']) ?? 1;
  const databases = info['databases'] as string[];
  await config.change(({ put }) => {
    const at = config.now();
    put(SHARDS, {
      _id: name,
      host,
      state: new Int32(1),
      topologyTime: at,
      replSetConfigVersion: Long.fromNumber(version),
    });
    for (const db of databases)
      put(DATABASES, { _id: db, primary: name, version: firstDatabaseVersion(new UUID(), at) });
  });
  for (const id of databases) await config.changing({ kind: 'database', id }, async () => undefined);
  if (twoShards) await tellIdentities(config);
  config.node.log.log('I', 'SHARDING', 22_078, 'conn', 'Added shard', { shard: name, host: given });
}

/**
 * Tells every shard who it is: where the config servers are now, and from the second shard on that users without the privilege
 * to come directly are to be turned away. Who can't be reached is told the next time.
 */
export async function tellIdentities(config: ConfigService): Promise<void> {
  const shards = config.shards().map(({ _id }) => String(_id));
  await Promise.allSettled(
    shards.map((shardName) => {
      const identity = {
        shardName,
        clusterId: config.clusterId(),
        configsvrConnectionString: configString(config),
      };
      return config.tell(shardName, { _simIdentify: 1, identity, twoShards: shards.length > 1 });
    }),
  );
}

/** How the config servers are reached now. */
export function configString(config: ConfigService): string {
  const fields = config.node.replication!.helloFields({ legacyNames: false });
  return setString({ name: config.node.replication!.setName, hosts: (fields['hosts'] ?? []) as string[] });
}

// ── removing ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** One call of removeShard: begins, tells how far it is, or ends. */
export async function removeShard(config: ConfigService, name: string): Promise<Document> {
  const shard = config.shard(name);
  if (shard['draining'] !== true) return beginDraining(config, shard);
  const chunks = config
    .tables()
    .flatMap((table) => table.chunks.filter((chunk) => chunk.shard === name)).length;
  const dbs = databasesOn(config, name);
  if (chunks === 0 && dbs.length === 0) {
    await config.change(({ remove }) => remove(SHARDS, { _id: name }));
    config.forget(name);
    return { msg: 'removeshard completed successfully', state: 'completed', shard: name };
  }
  return {
    msg: 'draining ongoing',
    state: 'ongoing',
    remaining: {
      chunks: Long.fromNumber(chunks),
      dbs: Long.fromNumber(dbs.length),
      jumboChunks: Long.ZERO,
    },
    note: NOTE,
    dbsToMove: dbs,
  };
}

const NOTE = 'you need to drop or movePrimary these databases';

const databasesOn = (config: ConfigService, shard: string): readonly string[] =>
  config.documents.find(DATABASES, { primary: shard }, { _id: 1 }).map(({ _id }) => String(_id));

async function beginDraining(config: ConfigService, shard: Document): Promise<Document> {
  const others = config.shards().filter(({ _id }) => _id !== shard['_id']);
  if (others.some(({ draining }) => draining === true))
    throw fail(117, 'Operation not allowed because it would result in another draining shard');
  if (others.length === 0) throw fail(20, 'Operation not allowed because it would remove the last shard');
  await config.change(({ put }) => put(SHARDS, { ...shard, draining: true }));
  return {
    msg: 'draining started successfully',
    state: 'started',
    shard: shard['_id'],
    note: NOTE,
    dbsToMove: databasesOn(config, String(shard['_id'])),
  };
}

/** True unless the balancer was stopped. */
export const balancerRuns = (config: ConfigService): boolean =>
  isBalancing(config.documents.get(SETTINGS, 'balancer'));
