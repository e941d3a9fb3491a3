/** The config servers' own part, with shards that only say what they were told. */
import { type Document, Long, Timestamp, UUID } from 'bson';
import { expect, test } from 'vitest';
import type { CommandContext } from '../contracts.ts';
import { openMemoryStore } from '../data/store.ts';
import { contextWithClock } from '../data/test-values.ts';
import { storedFcv, writeFcv } from '../process/compatibility.ts';
import type { SimulatorNode } from '../process/node.ts';
import { PeerPool } from '../replication/peer-pool.ts';
import { Balancer } from './balancer.ts';
import { createDatabase, shardCollection } from './config-collections.ts';
import { configCommands } from './config-commands.ts';
import { movePrimary } from './config-move.ts';
import { ConfigService } from './config-service.ts';
import { addShard, removeShard } from './config-shards.ts';
import { DATABASES, SHARDS } from './metadata.ts';

/** A set of one that is primary for ever. */
function node(): SimulatorNode {
  const clock = contextWithClock();
  let seconds = 0;
  const replication = {
    setName: 'cfg',
    isWritablePrimary: () => true,
    lastApplied: () => null,
    clusterTime: () => new Timestamp({ t: ++seconds, i: 0 }),
    helloFields: () => ({ hosts: ['cfg:1'] }),
  };
  return {
    data: openMemoryStore(),
    stamp: () => clock.stamp,
    now: () => new Date(0),
    version: '8.0.32-14',
    options: {},
    parameters: new Map(),
    log: { log: () => undefined },
    replication,
  } as unknown as SimulatorNode;
}

/** Shards do nothing but note it. */
class Noting extends ConfigService {
  readonly told: [shard: string, command: Document][] = [];
  readonly #uuid = new UUID();

  /** Nobody answers there. */
  silent = '';

  override async tell(shard: string, command: Document): Promise<Document> {
    this.told.push([shard, command]);
    if (shard === this.silent) throw new Error(`${shard} does not answer`);
    return '_simDescribe' in command ? { count: 0, bytes: 0, indexes: [], uuid: this.#uuid } : {};
  }

  /** What the shards were told by one command last, by shard. */
  last(name: string): Readonly<Record<string, Document>> {
    return Object.fromEntries(this.told.filter(([, command]) => name in command));
  }
}

async function cluster(...shards: readonly string[]): Promise<Noting> {
  const config = new Noting(
    node(),
    new PeerPool({ tls: () => null, login: () => Promise.reject(new Error('nobody is there')) as never }),
  );
  await config.change(({ put }) => {
    for (const name of shards) put(SHARDS, { _id: name, host: `${name}/${name}:1` });
  });
  return config;
}
const database = (config: Noting, db: string, primary: string): Promise<Document> =>
  createDatabase(config, db, primary);

test('A6.6 one shard drains at a time', async () => {
  const config = await cluster('a', 'b', 'c');
  expect(await removeShard(config, 'a')).toMatchObject({ state: 'started', shard: 'a' });
  await expect(removeShard(config, 'b')).rejects.toMatchObject({ code: 117 });
  expect(await removeShard(config, 'a')).toMatchObject({ state: 'completed' });
  expect(await removeShard(config, 'b')).toMatchObject({ state: 'started' });
  await removeShard(config, 'b');
  await expect(removeShard(config, 'c')).rejects.toMatchObject({ code: 20 });
});

test('A6.6 a shard is not gone before its databases have moved, however empty they are', async () => {
  const config = await cluster('a', 'b');
  await database(config, 'app', 'a');
  expect(await removeShard(config, 'a')).toMatchObject({ state: 'started', dbsToMove: ['app'] });
  expect(await removeShard(config, 'a')).toMatchObject({ state: 'ongoing', dbsToMove: ['app'] });
  await config.change(({ put }) => put(DATABASES, { ...config.database('app'), primary: 'b' }));
  expect(await removeShard(config, 'a')).toMatchObject({ state: 'completed' });
});

test('A6.6 a shard that comes back under its old name is reached where it is now', async () => {
  const config = await cluster('a', 'b');
  expect(config.client('a').name).toBe('a');
  await removeShard(config, 'a');
  await removeShard(config, 'a');
  await config.change(({ put }) => put(SHARDS, { _id: 'a', host: 'again/h:1' }));
  expect(config.client('a').name).toBe('again');
});

test('a new database is made on the shard with the fewest, and never on one that drains', async () => {
  const config = await cluster('a', 'b', 'c');
  await database(config, 'one', 'a');
  await database(config, 'two', 'b');
  expect(await createDatabase(config, 'three')).toMatchObject({ primary: 'c' });
  await removeShard(config, 'a');
  await database(config, 'four', 'b');
  await database(config, 'five', 'c');
  await database(config, 'six', 'c');
  expect(await createDatabase(config, 'seven')).toMatchObject({ primary: 'b' });
});

test('a collection that is no sharded one after all is dropped where it does not live', async () => {
  const config = await cluster('a', 'b');
  await database(config, 'app', 'a');
  await config.finish({ kind: 'collection', id: 'app.x' });
  expect(config.last('_simSyncCollection')).toMatchObject({ a: { drop: false }, b: { drop: true } });
  await config.finish({ kind: 'drop', id: 'app.x' });
  expect(config.last('_simSyncCollection')).toMatchObject({ a: { drop: true }, b: { drop: true } });
});

test('shardCollection again: the same key is fine, but not with other uniqueness', async () => {
  const config = await cluster('a', 'b');
  await database(config, 'app', 'a');
  const key = { k: 1 };
  const done = { collectionsharded: 'app.x' };
  expect(await shardCollection(config, 'app.x', { key })).toEqual(done);
  expect(await shardCollection(config, 'app.x', { key })).toEqual(done);
  await expect(shardCollection(config, 'app.x', { key, unique: true })).rejects.toMatchObject({ code: 23 });
});

test('a database that has moved has a newer version, by which shards know an old router', async () => {
  const config = await cluster('a', 'b');
  await database(config, 'app', 'a');
  const version = (): unknown => Number(config.database('app')?.['version'].lastMod);
  expect(version()).toBe(1);
  Object.defineProperty(config.client('a'), 'call', { value: async () => ({ cursor: { firstBatch: [] } }) });
  await movePrimary(config, 'app', 'b');
  expect([config.database('app')?.['primary'], version()]).toEqual(['b', 2]);
  expect(config.last('_simSyncDatabase')).toMatchObject({ a: { version: null }, b: { version: {} } });
});

// ── balancer and compatibility ─────────────────────────────────────────────────────────────────────────────────────

test('A8.3 the balancer that was told to stop is still when the answer comes: what moves is waited for', async () => {
  const config = await cluster('a', 'b');
  const balancer = new Balancer(config);
  const { promise, resolve: arrives } = Promise.withResolvers<void>();
  const moves = config.exclusive(() => promise);
  let stopped = false;
  const stop = balancer.set(false).then(() => {
    stopped = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect([stopped, balancer.status(Long.ONE)['mode']]).toEqual([false, 'off']);
  arrives();
  await Promise.all([moves, stop]);
  expect(stopped).toBe(true);
});

test('A8.3 a stop that does not come to its end in the time it was given says so, and is one all the same', async () => {
  const config = await cluster('a', 'b');
  const balancer = new Balancer(config);
  const { promise, resolve: arrives } = Promise.withResolvers<void>();
  const moves = config.exclusive(() => promise);
  const stop = configCommands(config, balancer).find(({ name }) => name === '_configsvrBalancerStop');
  const context = { command: { _configsvrBalancerStop: 1, wait: 1 } } as unknown as CommandContext;
  await expect(stop?.run(context)).rejects.toMatchObject({ code: 50 });
  expect(balancer.status(Long.ONE)['mode']).toBe('off');
  arrives();
  await moves;
});

async function setFcv(config: Noting, balancer: Balancer, version: string): Promise<unknown> {
  const name = 'setFeatureCompatibilityVersion';
  const spec = configCommands(config, balancer).find((command) => command.name === name);
  return spec?.run({ command: { [name]: version, confirm: true } } as unknown as CommandContext);
}

test('S7 a change of the compatibility version that a shard did not take is under way until it is asked for again', async () => {
  const config = await cluster('a', 'b');
  writeFcv(config.node, { version: '7.0' });
  config.silent = 'b';
  await expect(setFcv(config, new Balancer(config), '8.0')).rejects.toThrow('does not answer');
  expect(storedFcv(config.node)).toEqual({ version: '7.0', targetVersion: '8.0' });
  config.silent = '';
  await setFcv(config, new Balancer(config), '8.0');
  expect(storedFcv(config.node)).toEqual({ version: '8.0' });
});

test('S7 while the compatibility version changes no chunk is moved, no shard comes in, and no other version is asked for', async () => {
  const config = await cluster('a', 'b');
  const balancer = new Balancer(config);
  const rounds = (): number => Number(balancer.status(Long.ONE)['numBalancerRounds']);
  await balancer.round();
  expect(rounds()).toBe(1);
  writeFcv(config.node, { version: '7.0', targetVersion: '8.0' });
  await balancer.round();
  expect(rounds()).toBe(1);
  await expect(addShard(config, 'c/h:1')).rejects.toMatchObject({ code: 5563603 });
  const ask = (version: string) => setFcv(config, balancer, version);
  await expect(ask('7.0')).rejects.toMatchObject({ code: 5147403 });
  expect(config.told).toEqual([]);
  expect(await ask('8.0')).toEqual({});
  expect(config.told.map(([shard]) => shard)).toEqual(['a', 'b']);
  await balancer.round();
  expect(rounds()).toBe(2);
});
