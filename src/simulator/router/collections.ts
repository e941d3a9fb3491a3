/** Collections, indexes and databases through the router. */
import { type Document, Long } from 'bson';
import { toBoolean } from '../commands/arguments.ts';
import { fail } from '../commands/errors.ts';
import { namespaceOf } from '../commands/namespaces.ts';
import { isDocument, toNumber } from '../data/index.ts';
import { allTargets, assertGood, clientReply, type RouteCall, type Sending } from './call.ts';
import type { Route } from './catalog.ts';
import { runGathered } from './merge.ts';
import { emptyCursor, fromConfig, openCursors, READ, replyWith } from './reads.ts';

export const WRITE: Sending = { writes: true, repeatable: false };
/** Doing it again changes nothing. */
const IDEMPOTENT: Sending = { writes: true, repeatable: true };
const MAJORITY = { w: 'majority' };

/** Shards that have a collection: all owners, and the primary shard, which has every collection of its database. */
function holders(route: Route): readonly string[] {
  if (route.kind !== 'sharded') return allTargets(route);
  return [...new Set([route.primary, ...allTargets(route)])];
}

/** Runs a command on every shard that has the collection; the reply of the first, with the others' good. */
export function runOnHolders(write: boolean, how: Sending = IDEMPOTENT) {
  return async (call: RouteCall): Promise<Document> => {
    const ns = namespaceOf(call.command, call.db, write);
    return call.along(ns, write, async (route) => {
      if (route.kind === 'config') return fromConfig(call, call.body(), write);
      if (route.kind === 'none') throw fail(26, `ns does not exist: ${ns}`);
      const command = { ...call.body(), ...(write ? await call.writeConcern() : {}) };
      const answers = await Promise.all(holders(route).map((shard) => call.send(shard, command, route, how)));
      const replies = answers.map(({ reply }) => assertGood(reply));
      return clientReply(replies[0]!);
    });
  };
}

/** Runs a command on the database's primary shard only. */
export function runOnPrimary(how: Sending) {
  return async (call: RouteCall): Promise<Document> => {
    const ns = namespaceOf(call.command, call.db, how.writes);
    return call.along(ns, how.writes, async (route) => {
      if (route.kind === 'config') return fromConfig(call, call.body(), how.writes);
      if (route.kind === 'none') throw fail(26, `ns does not exist: ${ns}`);
      const command = { ...call.body(), ...(how.writes ? await call.writeConcern() : {}) };
      const { reply } = await call.send(route.primary, command, route, how);
      return clientReply(assertGood(reply));
    });
  };
}

/** Opens a cursor command on the primary shard: listCollections, listIndexes. */
export async function runListing(call: RouteCall): Promise<Document> {
  const name = call.context.name;
  const ns = name === 'listIndexes' ? namespaceOf(call.command, call.db) : `${call.db}.$cmd.${name}`;
  return call.along(ns, false, async (route) => {
    if (route.kind === 'config') return fromConfig(call, call.body());
    if (route.kind === 'none') {
      if (name === 'listIndexes') throw fail(26, `ns does not exist: ${ns}`);
      return emptyCursor(ns);
    }
    const remotes = await openCursors(call, route, [route.primary], call.body());
    const size = toNumber(call.command['cursor']?.batchSize) ?? ALL;
    return replyWith(call, ns, remotes, {}, size);
  });
}
const ALL = 1_000_000;

/** `drop`. */
export async function runDrop(call: RouteCall): Promise<Document> {
  const ns = namespaceOf(call.command, call.db);
  return call.along(ns, false, async (route) => {
    if (route.kind === 'config') return fromConfig(call, call.body(), true);
    if (route.kind === 'none') return {};
    if (route.kind === 'unsharded') {
      const command = { ...call.body(), ...(await call.writeConcern()) };
      return clientReply(assertGood((await call.send(route.primary, command, route, IDEMPOTENT)).reply));
    }
    const { sharded } = await configChange(call, { _configsvrDropCollection: ns });
    call.router.catalog.forget(ns);
    return sharded === true ? { ns } : {};
  });
}

/** A change of the cluster's metadata, by the config servers' primary. */
export async function configChange(call: RouteCall, command: Document): Promise<Document> {
  const reply = await call.router.config.run(
    'admin',
    { ...command, writeConcern: MAJORITY, ...call.router.timeFields() },
    { resend: 'always' },
  );
  call.hear(reply);
  return clientReply(assertGood(reply));
}

/** `dropDatabase`. */
export async function runDropDatabase(call: RouteCall): Promise<Document> {
  const { db } = call;
  if (db === 'admin' || db === 'config') throw fail(20, `Dropping the '${db}' database is prohibited.`);
  const present = (await call.router.catalog.route(`${db}.$cmd`)).kind !== 'none';
  await configChange(call, { _configsvrDropDatabase: db });
  call.router.catalog.forget(`${db}.$cmd`);
  return present ? { dropped: db } : {};
}

/** `renameCollection`, of collections that are not sharded and stay on their shard. */
export async function runRename(call: RouteCall): Promise<Document> {
  const { catalog } = call.router;
  const [from, to] = [String(call.command['renameCollection']), String(call.command['to'])];
  const source = await catalog.route(from);
  if (source.kind === 'config') return fromConfig(call, call.body(), true);
  const target = await catalog.routeForWrite(to);
  if (source.kind === 'none') throw fail(26, `Source collection ${from} does not exist`);
  if (source.kind === 'sharded' || target.kind === 'sharded')
    throw fail(238, "the simulator's router does not rename sharded collections");
  if (target.kind !== 'unsharded' || target.primary !== source.primary)
    throw fail(125, 'Source and destination collections must be on the same shard');
  const command = { ...call.body(), ...(await call.writeConcern()) };
  const { reply } = await call.send(source.primary, command, { kind: 'none' }, WRITE);
  return clientReply(assertGood(reply));
}

// ── databases ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** `listDatabases`: those of all shards, and the config servers' own. */
export async function runListDatabases(call: RouteCall): Promise<Document> {
  const { router, command, context } = call;
  const ask = { listDatabases: 1 };
  const fromShards = await Promise.all(
    (await router.shardNames()).map((shard) => call.send(shard, ask, { kind: 'none' }, READ, 'admin')),
  );
  const own = await router.config.call('admin', ask, { resend: 'always' });
  const sizes = new Map<string, number>();
  const add = (entry: Document): void => {
    const name = String(entry['name']);
    sizes.set(name, (sizes.get(name) ?? 0) + (toNumber(entry['sizeOnDisk']) ?? 0));
  };
  const local = (name: unknown): boolean => name === 'local' || name === 'admin' || name === 'config';
  for (const entry of own['databases'] as Document[]) if (entry['name'] !== 'local') add(entry);
  for (const { reply } of fromShards)
    for (const entry of assertGood(reply)['databases'] as Document[]) if (!local(entry['name'])) add(entry);
  const node = router.node;
  const all = node.allows(context.connection, [{ resource: { cluster: true }, actions: ['listDatabases'] }]);
  const visible = (name: string): boolean =>
    (all && command['authorizedDatabases'] !== true) ||
    node.allows(context.connection, [{ resource: { db: name, collection: '' }, actions: ['find'] }]);
  if (!all && command['authorizedDatabases'] === false)
    throw fail(13, 'Insufficient permissions to list all databases');
  const entries = [...sizes]
    .filter(([name]) => visible(name))
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([name, bytes]) => ({ name, sizeOnDisk: Long.fromNumber(bytes), empty: bytes === 0 }));
  return listed(call, entries);
}

async function listed(call: RouteCall, entries: readonly Document[]): Promise<Document> {
  const filter: unknown = call.command['filter'];
  const stages = isDocument(filter) && Object.keys(filter).length > 0 ? [{ $match: filter }] : [];
  const matched = await runGathered('admin', entries, stages, new Map(), {});
  if (toBoolean(call.command['nameOnly'])) return { databases: matched.map(({ name }) => ({ name })) };
  const total = matched.reduce((sum, entry) => sum + (toNumber(entry['sizeOnDisk']) ?? 0), 0);
  return {
    databases: matched,
    totalSize: Long.fromNumber(total),
    totalSizeMb: Long.fromNumber(Math.floor(total / 1_048_576)),
  };
}

// ── statistics ─────────────────────────────────────────────────────────────────────────────────────────────────────

const SUMMED = [
  'count',
  'size',
  'storageSize',
  'totalIndexSize',
  'totalSize',
  'objects',
  'dataSize',
  'indexSize',
];

/** `collStats`: every shard's, and the sum. */
export async function runCollStats(call: RouteCall): Promise<Document> {
  const ns = namespaceOf(call.command, call.db);
  return call.along(ns, false, async (route) => {
    if (route.kind === 'config') return fromConfig(call, call.body());
    const shards = await statistics(call, route, holders(route));
    const [first] = Object.values(shards);
    return { ...first, ...summed(Object.values(shards)), sharded: route.kind === 'sharded', ns, shards };
  });
}

/** `dbStats`: every shard's, and the sum. */
export async function runDbStats(call: RouteCall): Promise<Document> {
  const raw = await statistics(call, { kind: 'none' }, await call.router.shardNames());
  const [first] = Object.values(raw);
  const { ok: _ok, ...rest } = first ?? {};
  return { raw, ...rest, ...summed(Object.values(raw)), db: call.db };
}

async function statistics(
  call: RouteCall,
  route: Route,
  shards: readonly string[],
): Promise<Record<string, Document>> {
  const found = await Promise.all(
    shards.map(async (shard) => {
      const { reply } = await call.send(shard, call.body(), route, READ);
      return [shard, clientReply(assertGood(reply))] as const;
    }),
  );
  return Object.fromEntries(found);
}

function summed(parts: readonly Document[]): Document {
  const sum: Document = {};
  for (const field of SUMMED) {
    if (!parts.some((part) => part[field] !== undefined)) continue;
    sum[field] = Long.fromNumber(parts.reduce((total, part) => total + (toNumber(part[field]) ?? 0), 0));
  }
  return sum;
}
