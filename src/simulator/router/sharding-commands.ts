/** Commands about the cluster itself (8.5): shards, databases, keys, moves, balancer. */
import { hostname } from 'node:os';
import { type Document, Int32, Long } from 'bson';
import { isDocument } from '../commands/arguments.ts';
import { onCluster } from '../commands/call.ts';
import { fail } from '../commands/errors.ts';
import { checkDbName, splitNamespace } from '../commands/namespaces.ts';
import type { CommandContext, CommandSpec, Privilege } from '../contracts.ts';
import { isOperatorDocument, toNumber } from '../data/index.ts';
import { SHARDS } from '../sharding/metadata.ts';
import type { RouteCall } from './call.ts';
import { configChange } from './collections.ts';

/** A command of the router: who may run it, and how. */
export interface Routed {
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly adminOnly?: boolean;
  readonly auth: CommandSpec['auth'];
  run(call: RouteCall): Promise<Document> | Document;
}

const admin = (name: string, action: string, run: Routed['run']): Routed => ({
  name,
  adminOnly: true,
  auth: onCluster(action),
  run,
});

/** A privilege on the namespace or database a command names in full. */
const onNamed =
  (action: string) =>
  ({ command, name }: CommandContext): readonly Privilege[] => {
    const { db, collection } = splitNamespace(String(command[name]));
    return [{ resource: { db, collection }, actions: [action] }];
  };

const onNs = (name: string, action: string, run: Routed['run']): Routed => ({
  name,
  adminOnly: true,
  auth: onNamed(action),
  run,
});

function namespaceIn(call: RouteCall): string {
  const ns: unknown = call.command[call.context.name];
  const { db, collection } = splitNamespace(String(ns));
  if (typeof ns !== 'string' || db === '' || collection === '')
    throw fail(73, `Invalid namespace specified '${String(ns)}'`);
  if (db === 'admin' || db === 'config' || db === 'local')
    throw fail(20, `Cannot shard a collection of the '${db}' database`);
  return ns;
}

/** The commands. */
export const SHARDING_COMMANDS: readonly Routed[] = [
  admin('listShards', 'listShards', async ({ router }) => ({
    shards: await router.catalog.read(SHARDS, {}, { _id: 1 }),
  })),
  admin('addShard', 'addShard', addShard),
  admin('removeShard', 'removeShard', removeShard),
  {
    name: 'enableSharding',
    adminOnly: true,
    auth: ({ command }) => [
      { resource: { db: String(command['enableSharding']), collection: '' }, actions: ['enableSharding'] },
    ],
    run: enableSharding,
  },
  onNs('shardCollection', 'enableSharding', shardCollection),
  {
    name: 'movePrimary',
    aliases: ['moveprimary'],
    adminOnly: true,
    auth: ({ command, name }) => [
      { resource: { db: String(command[name]), collection: '' }, actions: ['moveChunk'] },
    ],
    run: async (call) => {
      const db = String(call.command[call.context.name]);
      const to: unknown = call.command['to'];
      if (typeof to !== 'string')
        throw fail(40414, "BSON field 'movePrimary.to' is missing but a required field");
      await configChange(call, { _configsvrMovePrimary: db, to });
      call.router.catalog.forget(`${db}.$cmd`);
      return {};
    },
  },
  onNs('moveChunk', 'moveChunk', moveRange),
  onNs('moveRange', 'moveChunk', moveRange),
  onNs('split', 'splitChunk', async (call) => {
    const ns = namespaceIn(call);
    const { find, middle } = call.command;
    await configChange(call, {
      _configsvrSplit: ns,
      ...(find === undefined ? {} : { find }),
      ...(middle === undefined ? {} : { middle }),
    });
    call.router.catalog.forget(ns);
    return {};
  }),
  ...balancerCommands(),
  admin('flushRouterConfig', 'flushRouterConfig', ({ router }) => {
    router.catalog.forgetAll();
    return {};
  }),
  admin('getShardMap', 'getShardMap', ({ router }) => router.shardMap()),
  {
    name: 'isdbgrid',
    auth: 'none',
    run: () => ({ isdbgrid: new Int32(1), hostname: hostname() }),
  },
  admin('netstat', 'netstat', ({ router }) => ({
    configserver: `${router.config.name}/${router.config.hosts.join(',')}`,
    isdbgrid: new Int32(1),
  })),
  admin('replSetGetStatus', 'replSetGetStatus', () => {
    throw fail(125, 'replSetGetStatus is not supported through mongos', { info: 'mongos' });
  }),
];

async function addShard(call: RouteCall): Promise<Document> {
  const { addShard: given, name } = call.command;
  if (typeof given !== 'string')
    throw fail(14, "BSON field 'addShard.addShard' is the wrong type, expected type 'string'");
  const reply = await configChange(call, {
    _configsvrAddShard: given,
    ...(name === undefined ? {} : { name }),
  });
  await call.router.catalog.refreshShards();
  call.router.catalog.forgetAll();
  return reply;
}

async function removeShard(call: RouteCall): Promise<Document> {
  const reply = await configChange(call, { _configsvrRemoveShard: String(call.command['removeShard']) });
  if (reply['state'] !== 'completed') return reply;
  await call.router.catalog.refreshShards();
  call.router.catalog.forgetAll();
  return reply;
}

async function enableSharding(call: RouteCall): Promise<Document> {
  const { enableSharding: db, primaryShard } = call.command;
  if (typeof db !== 'string') throw fail(14, 'enableSharding needs the name of a database');
  checkDbName(db);
  if (db === 'admin' || db === 'config' || db === 'local') throw fail(72, `can't shard '${db}' database`);
  await call.router.catalog.createDatabase(db, typeof primaryShard === 'string' ? primaryShard : undefined);
  return {};
}

async function shardCollection(call: RouteCall): Promise<Document> {
  const ns = namespaceIn(call);
  const { key, unique, collation } = call.command;
  if (!isDocument(key)) throw fail(40414, "BSON field 'shardCollection.key' is missing but a required field");
  const reply = await configChange(call, {
    _configsvrShardCollection: ns,
    key,
    ...(unique === true ? { unique } : {}),
    ...(collation === undefined ? {} : { collation }),
  });
  call.router.catalog.forget(ns);
  return reply;
}

async function moveRange(call: RouteCall): Promise<Document> {
  const ns = namespaceIn(call);
  const { find, bounds, min, max, to, toShard } = call.command;
  const target: unknown = to ?? toShard;
  if (typeof target !== 'string') throw fail(72, 'you have to specify where you want to move the chunk');
  if (isDocument(find) && Object.values(find).some(isOperatorDocument))
    throw fail(72, 'the query must name one value of the shard key');
  const began = performance.now();
  const given = Object.entries({ find, bounds, min, max }).filter(([, value]) => value !== undefined);
  await configChange(call, { _configsvrMoveRange: ns, ...Object.fromEntries(given), to: target });
  call.router.catalog.forget(ns);
  return call.context.name === 'moveChunk'
    ? { millis: Long.fromNumber(Math.round(performance.now() - began)) }
    : {};
}

function balancerCommands(): readonly Routed[] {
  const setting = {
    resource: { db: 'config', collection: 'settings' },
  };
  const changes: CommandSpec['auth'] = () => [{ ...setting, actions: ['find', 'update'] }];
  return [
    {
      name: 'balancerStart',
      adminOnly: true,
      auth: changes,
      run: (call) => configChange(call, { _configsvrBalancerStart: 1 }),
    },
    {
      name: 'balancerStop',
      adminOnly: true,
      auth: changes,
      run: (call) => {
        const limit = toNumber(call.command['maxTimeMS']);
        return configChange(call, {
          _configsvrBalancerStop: 1,
          ...(limit === undefined || limit === 0 ? {} : { wait: limit }),
        });
      },
    },
    {
      name: 'balancerStatus',
      adminOnly: true,
      auth: () => [{ ...setting, actions: ['find'] }],
      run: (call) => configChange(call, { _configsvrBalancerStatus: 1 }),
    },
    {
      name: 'balancerCollectionStatus',
      adminOnly: true,
      auth: onNamed('enableSharding'),
      run: (call) =>
        configChange(call, {
          _configsvrBalancerCollectionStatus: String(call.command['balancerCollectionStatus']),
        }),
    },
  ];
}
