/** The command table of a router: the names and privileges of a server's commands, run by way of the shards. */
import type { Document } from 'bson';
import { onCluster } from '../commands/call.ts';
import { fail } from '../commands/errors.ts';
import { commandSpecs } from '../commands/index.ts';
import type { CommandSpec } from '../contracts.ts';
import { runAggregate } from './aggregate.ts';
import { runBulkWrite } from './bulk-write.ts';
import { RouteCall } from './call.ts';
import {
  configChange,
  runCollStats,
  runDbStats,
  runDrop,
  runDropDatabase,
  runListDatabases,
  runListing,
  runOnHolders,
  runOnPrimary,
  runRename,
  WRITE,
} from './collections.ts';
import { runExplain } from './explain.ts';
import { runFindAndModify } from './find-and-modify.ts';
import { fromConfig, plainGetMore, READ, runCount, runDistinct, runFind } from './reads.ts';
import type { Router } from './router.ts';
import { abortEverywhere, runAbort, runCommit, tellShards, transactionFields } from './sessions.ts';
import { type Routed, SHARDING_COMMANDS } from './sharding-commands.ts';
import { recoveryShard } from './transactions.ts';
import { throughViews } from './views.ts';
import { DELETE, INSERT, runWrite, UPDATE } from './writes.ts';

type Run = Routed['run'];

/** How commands that a server has too are run here. */
const ROUTED: Readonly<Record<string, Run>> = {
  find: throughViews(runFind),
  count: throughViews(runCount),
  distinct: throughViews(runDistinct),
  aggregate: throughViews(runAggregate),
  insert: (call) => runWrite(call, INSERT),
  update: (call) => runWrite(call, UPDATE),
  delete: (call) => runWrite(call, DELETE),
  findAndModify: runFindAndModify,
  bulkWrite: (call) => {
    if (Number.parseInt(call.router.node.version, 10) < 8) throw fail(59, "no such command: 'bulkWrite'");
    return runBulkWrite(call);
  },
  explain: runExplain,
  create: runOnPrimary(WRITE),
  convertToCapped: runOnPrimary(WRITE),
  drop: runDrop,
  dropDatabase: runDropDatabase,
  renameCollection: runRename,
  collMod: runOnHolders(true),
  createIndexes: runOnHolders(true),
  dropIndexes: runOnHolders(true),
  reIndex: runOnHolders(true),
  validate: runOnHolders(false, READ),
  dataSize: runOnPrimary(READ),
  listIndexes: runListing,
  listCollections: runListing,
  listDatabases: runListDatabases,
  collStats: runCollStats,
  dbStats: runDbStats,
  commitTransaction: runCommit,
  abortTransaction: runAbort,
};

/** Commands that run here as on a server. */
const LOCAL: ReadonlySet<string> = new Set([
  'killCursors',
  'startSession',
  'killOp',
  'currentOp',
  'configureFailPoint',
  'testVersion2',
  'connPoolStats',
  'planCacheClear',
  'planCacheListFilters',
]);
/** Commands that run here and on every shard. */
const EVERYWHERE: ReadonlySet<string> = new Set([
  'endSessions',
  'refreshSessions',
  'killSessions',
  'killAllSessions',
  'killAllSessionsByPattern',
]);
/** They serve also when the cluster is newer than the router. */
const ALWAYS: ReadonlySet<string> = new Set(['endSessions', 'killCursors']);

/** All data and cluster commands of a router. */
export function routerSpecs(router: Router): readonly CommandSpec[] {
  const specs: CommandSpec[] = [];
  for (const spec of commandSpecs) {
    const run = ROUTED[spec.name];
    if (run !== undefined) specs.push(routed(router, { ...spec, run }));
    else if (spec.name === 'getMore') specs.push(getMore(spec));
    else if (LOCAL.has(spec.name)) specs.push({ ...spec, access: 'any' });
    else if (EVERYWHERE.has(spec.name)) specs.push(everywhere(router, spec));
  }
  return [...specs, ...SHARDING_COMMANDS.map((command) => routed(router, command)), ...forwarded(router)];
}

/** A command that goes through shards. What fails inside a transaction ends it everywhere. */
export function routed(router: Router, { name, aliases, adminOnly, auth, run }: Routed): CommandSpec {
  return {
    name,
    ...(aliases === undefined ? {} : { aliases }),
    ...(adminOnly === undefined ? {} : { adminOnly }),
    auth,
    access: 'any',
    run: async (context) => {
      if (!ALWAYS.has(name)) router.assertCompatible();
      const call = new RouteCall(router, context);
      return finished(call, await runOrAbort(call, run));
    },
  };
}

async function runOrAbort(call: RouteCall, run: Run): Promise<Document> {
  const { transaction } = call;
  try {
    const reply = await run(call);
    if (transaction?.state === 'open' && reply['writeErrors'] !== undefined) transaction.state = 'aborted';
    return reply;
  } catch (failure) {
    if (transaction?.state === 'open') void abortEverywhere(call, transaction, transactionFields(call));
    throw failure;
  }
}

function finished(call: RouteCall, reply: Document): Document {
  const { transaction, operationTime } = call;
  const shard = transaction === null ? undefined : recoveryShard(transaction);
  return {
    ...reply,
    ...(shard === undefined ? {} : { recoveryToken: { recoveryShardId: shard } }),
    ...(operationTime === null ? {} : { operationTime }),
  };
}

/** The router's cursors know themselves whether they belong to a transaction. */
function getMore(spec: CommandSpec): CommandSpec {
  return {
    ...spec,
    access: 'any',
    run: (context) => spec.run({ ...context, command: plainGetMore(context.command) }),
  };
}

function everywhere(router: Router, spec: CommandSpec): CommandSpec {
  return {
    ...spec,
    access: 'any',
    run: async (context) => {
      const reply = await spec.run(context);
      await tellShards(new RouteCall(router, context));
      return reply;
    },
  };
}

// ── for the config servers ─────────────────────────────────────────────────────────────────────────────────────────

/** Commands whose business is the config servers'. */
function forwarded(router: Router): readonly CommandSpec[] {
  const forward: Run = (call) => fromConfig(call, call.body(), true);
  const commands: readonly Routed[] = [
    {
      name: 'setFeatureCompatibilityVersion',
      adminOnly: true,
      auth: onCluster('setFeatureCompatibilityVersion'),
      run: (call) => configChange(call, call.body()),
    },
    {
      name: 'setDefaultRWConcern',
      adminOnly: true,
      auth: onCluster('setDefaultRWConcern'),
      run: async (call) => {
        const reply = await forward(call);
        call.router.catalog.forgetAll();
        return reply;
      },
    },
    { name: 'getDefaultRWConcern', adminOnly: true, auth: onCluster('getDefaultRWConcern'), run: forward },
  ];
  return commands.map((command) => routed(router, command));
}

/** User and role commands: done by the config servers, then read again here so that they count at once. */
export function accountSpecs(router: Router, specs: readonly CommandSpec[]): readonly CommandSpec[] {
  return specs.map((spec) => ({
    ...routed(router, {
      name: spec.name,
      auth: spec.auth,
      run: async (call) => {
        const reply = await fromConfig(call, call.body(), spec.access === 'write');
        if (spec.access !== 'read') await router.accounts.refresh().catch(() => undefined);
        return reply;
      },
    }),
    ...(spec.aliases === undefined ? {} : { aliases: spec.aliases }),
    ...(spec.adminOnly === undefined ? {} : { adminOnly: spec.adminOnly }),
    ...(spec.fields === undefined ? {} : { fields: spec.fields }),
  }));
}
