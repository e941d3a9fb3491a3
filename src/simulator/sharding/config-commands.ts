/** What routers ask of the config servers. All need the internal action on the cluster. */
import { type Document, Long } from 'bson';
import { fail } from '../commands/errors.ts';
import type { CommandContext, CommandSpec, Privilege } from '../contracts.ts';
import { isDocument, toNumber } from '../data/index.ts';
import { acceptedFcvs, type FcvDocument, storedFcv, writeFcv } from '../process/compatibility.ts';
import { atLeast } from '../wire/versions.ts';
import { type Balancer, STOP_WAIT } from './balancer.ts';
import { chunkIndex } from './chunks.ts';
import { createDatabase, dropCollection, dropDatabase, shardCollection } from './config-collections.ts';
import { moveAsAsked, movePrimary, splitChunk } from './config-move.ts';
import type { ConfigService } from './config-service.ts';
import { addShard, removeShard } from './config-shards.ts';
import { type KeyValues, keyDocument, keyOf, keyOfDocument, patternDocument } from './shard-key.ts';

const internal = (): readonly Privilege[] => [{ resource: { cluster: true }, actions: ['internal'] }];

type Run = (command: Document, context: CommandContext) => Promise<Document> | Document;

/** The commands of the config service. */
export function configCommands(config: ConfigService, balancer: Balancer): readonly CommandSpec[] {
  const spec = (name: string, run: Run, access: CommandSpec['access'] = 'write'): CommandSpec => ({
    name,
    adminOnly: true,
    auth: internal,
    access,
    run: (context) => run(context.command, context),
  });
  /** A change of the metadata, alone. */
  const change = (name: string, run: Run): CommandSpec =>
    spec(name, (command, context) => config.exclusive(async () => run(command, context)));
  return [
    change('_configsvrAddShard', (command) => {
      const name: unknown = command['name'];
      return addShard(
        config,
        String(command['_configsvrAddShard']),
        typeof name === 'string' ? name : undefined,
      );
    }),
    change('_configsvrRemoveShard', (command) =>
      removeShard(config, String(command['_configsvrRemoveShard'])),
    ),
    change('_configsvrCreateDatabase', async (command) => {
      const primary: unknown = command['primaryShard'];
      const db = String(command['_configsvrCreateDatabase']);
      return {
        database: await createDatabase(config, db, typeof primary === 'string' ? primary : undefined),
      };
    }),
    change('_configsvrShardCollection', (command) =>
      shardCollection(config, String(command['_configsvrShardCollection']), command),
    ),
    change('_configsvrDropCollection', async (command) => ({
      sharded: await dropCollection(config, String(command['_configsvrDropCollection'])),
    })),
    change('_configsvrDropDatabase', async (command) => {
      await dropDatabase(config, String(command['_configsvrDropDatabase']));
      return {};
    }),
    change('_configsvrMoveRange', async (command) => {
      await moveAsAsked(config, String(command['_configsvrMoveRange']), command);
      return {};
    }),
    change('_configsvrMovePrimary', async (command) => {
      await movePrimary(config, String(command['_configsvrMovePrimary']), String(command['to']));
      return {};
    }),
    change('_configsvrSplit', async (command) => {
      await split(config, command);
      return {};
    }),
    spec('_configsvrBalancerStart', () => balancer.set(true)),
    spec('_configsvrBalancerStop', (command) => stopBalancer(balancer, command)),
    spec('_configsvrBalancerStatus', () => balancer.status(termOf(config))),
    spec('_configsvrBalancerCollectionStatus', (command) =>
      balancer.collectionStatus(String(command['_configsvrBalancerCollectionStatus'])),
    ),
    {
      ...change('setFeatureCompatibilityVersion', (command) => setClusterFcv(config, command)),
      auth: setsFcv,
      fields: atLeast(config.node.version, '7.0') ? ['confirm', 'fromConfigServer'] : ['fromConfigServer'],
    },
  ];
}

const setsFcv = (): readonly Privilege[] => [
  { resource: { cluster: true }, actions: ['setFeatureCompatibilityVersion'] },
];

function termOf(config: ConfigService): Long {
  return config.node.replication?.lastApplied()?.t ?? Long.ZERO;
}

async function stopBalancer(balancer: Balancer, command: Document): Promise<Document> {
  const limit = toNumber(command['wait']) ?? STOP_WAIT;
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(fail(50, 'operation exceeded time limit')), limit);
  });
  try {
    return await Promise.race([balancer.set(false), over]);
  } finally {
    clearTimeout(timer);
  }
}

async function split(config: ConfigService, command: Document): Promise<void> {
  const ns = String(command['_configsvrSplit']);
  const table = config.table(ns);
  if (table === null) throw fail(118, `Collection ${ns} is not sharded`);
  const { middle, find } = command;
  if (isDocument(middle)) return splitChunk(config, ns, keyOfDocument(table.pattern, middle));
  const key: KeyValues | null = isDocument(find) ? keyOf(table.pattern, find) : null;
  if (key === null) throw fail(9, 'need to specify find or middle');
  const chunk = table.chunks[chunkIndex(table.chunks, key)]!;
  const { at } = await config.tell(chunk.shard, {
    _simRangeBytes: 1,
    ns,
    key: patternDocument(table.pattern),
    min: keyDocument(table.pattern, chunk.min),
    max: keyDocument(table.pattern, chunk.max),
    bytes: 1,
  });
  if (at === null) throw fail(72, 'the chunk holds too little to be split');
  return splitChunk(config, ns, keyOfDocument(table.pattern, at as Document));
}

// ── feature compatibility ──────────────────────────────────────────────────────────────────────────────────────────

/** The whole cluster at once: noted here as under way, then every shard, then here. A failure leaves it under way. */
async function setClusterFcv(config: ConfigService, command: Document): Promise<Document> {
  const { node } = config;
  const wanted: unknown = command['setFeatureCompatibilityVersion'];
  const accepted = acceptedFcvs(node.version);
  if (typeof wanted !== 'string')
    throw fail(
      14,
      "BSON field 'setFeatureCompatibilityVersion.setFeatureCompatibilityVersion' is the wrong type, expected type 'string'",
    );
  if (!accepted.includes(wanted))
    throw fail(
      4926900,
      `Invalid feature compatibility version value '${wanted}'; expected '${accepted.join("' or '")}'. See https://docs.mongodb.com/master/release-notes/7.0-compatibility/#feature-compatibility.`,
    );
  const current = storedFcv(node);
  if (current.version === wanted && current.targetVersion === undefined) return {};
  const asks = atLeast(node.version, '7.0');
  if (asks && command['confirm'] !== true)
    throw fail(
      7369100,
      `Once you have upgraded to ${wanted}, you will not be able to downgrade FCV and binary version without support assistance. Please re-run this command with 'confirm: true' to acknowledge this and continue with the FCV upgrade. (binary ${node.version})`,
    );
  if (current.targetVersion !== undefined && current.targetVersion !== wanted)
    throw fail(
      5147403,
      `cannot set featureCompatibilityVersion to '${wanted}' while featureCompatibilityVersion is set to '${current.version}' with target '${current.targetVersion}'`,
    );
  writeFcv(node, underWay(current, wanted));
  await config.documents.settled();
  for (const { _id } of config.shards())
    await config.tell(String(_id), {
      setFeatureCompatibilityVersion: wanted,
      fromConfigServer: true,
      ...(asks ? { confirm: true } : {}),
    });
  writeFcv(node, { version: wanted });
  await config.documents.settled();
  return {};
}

function underWay(current: FcvDocument, wanted: string): FcvDocument {
  if (Number(wanted) > Number(current.version)) return { version: current.version, targetVersion: wanted };
  return {
    version: wanted,
    targetVersion: wanted,
    previousVersion: current.previousVersion ?? current.version,
  };
}
