/** findAndModify: on the shard that has the document, which may have to be looked for. */
import type { Document } from 'bson';
import { toBoolean } from '../commands/arguments.ts';
import { fail } from '../commands/errors.ts';
import { namespaceOf } from '../commands/namespaces.ts';
import { collatorOf, compileSort, isDocument } from '../data/index.ts';
import { ownerOf } from '../sharding/chunks.ts';
import { exactKey, targetsOf } from '../sharding/targeting.ts';
import { atLeast } from '../wire/versions.ts';
import { assertGood, clientReply, type RouteCall } from './call.ts';
import type { Route } from './catalog.ts';
import { drain, fromConfig } from './reads.ts';

/** `findAndModify`. */
export async function runFindAndModify(call: RouteCall): Promise<Document> {
  const ns = namespaceOf(call.command, call.db, true);
  return call.along(ns, true, async (route) => {
    if (route.kind === 'config') return fromConfig(call, call.body(), true);
    const { shard, command } = await targetOf(call, route, ns);
    const full = { ...command, ...(await call.writeConcern()) };
    const { reply } = await call.send(shard, full, route, { writes: true, repeatable: false });
    return clientReply(assertGood(reply));
  });
}

interface Target {
  readonly shard: string;
  readonly command: Document;
}

async function targetOf(call: RouteCall, route: Route, ns: string): Promise<Target> {
  const command = call.body();
  if (route.kind === 'unsharded') return { shard: route.primary, command };
  if (route.kind !== 'sharded') throw fail(26, `Database of ${ns} not found`);
  const query: Document = isDocument(command['query']) ? command['query'] : {};
  const simple = command['collation'] === undefined;
  const key = simple ? exactKey(route.table.pattern, query) : null;
  if (key !== null) return { shard: ownerOf(route.table, key), command };
  const targets = targetsOf(route.table, query, simple);
  if (targets.length === 1 && !toBoolean(command['upsert'])) return { shard: targets[0]!, command };
  if (toBoolean(command['upsert']) || !atLeast(call.router.node.version, '7.1'))
    throw fail(61, 'Query for sharded findAndModify must contain the shard key');
  return lookFor(call, route, ns, command, query, targets);
}

/** The first match in the asked order over all shards; it is then named by its id. */
async function lookFor(
  call: RouteCall,
  route: Route,
  ns: string,
  command: Document,
  query: Document,
  targets: readonly string[],
): Promise<Target> {
  const sort = command['sort'] as Document | undefined;
  const ordered = sort !== undefined && Object.keys(sort).length > 0;
  const find = {
    find: ns.slice(ns.indexOf('.') + 1),
    filter: query,
    limit: 1,
    ...(ordered ? { sort } : {}),
    ...(command['collation'] === undefined ? {} : { collation: command['collation'] }),
  };
  const found = await Promise.all(
    targets.map(async (shard) =>
      (await drain(call, route, [shard], find)).map((document) => ({ shard, document })),
    ),
  );
  const all = found.flat();
  if (ordered) {
    const compare = compileSort(sort, collatorOf(command['collation']));
    all.sort((left, right) => compare(left.document, right.document));
  }
  const [first] = all;
  if (first === undefined) return { shard: targets[0]!, command };
  return {
    shard: first.shard,
    command: { ...command, query: { $and: [{ _id: first.document['_id'] }, query] } },
  };
}
