/** explain: the plans of the shards a command concerns. */
import type { Document } from 'bson';
import { isDocument } from '../commands/arguments.ts';
import { fail } from '../commands/errors.ts';
import { allTargets, assertGood, clientReply, type RouteCall } from './call.ts';
import { fromConfig, READ, readTargets } from './reads.ts';

/** `explain`. */
export async function runExplain(call: RouteCall): Promise<Document> {
  const inner: unknown = call.command['explain'];
  if (!isDocument(inner))
    throw fail(14, "BSON field 'explain.explain' is the wrong type, expected type 'object'");
  const name = Object.keys(inner)[0] ?? '';
  const collection: unknown = inner[name];
  if (typeof collection !== 'string') throw fail(73, 'explain needs the name of a collection');
  return call.along(`${call.db}.${collection}`, false, async (route) => {
    if (route.kind === 'config') return fromConfig(call, call.body());
    const filter: unknown = inner['filter'] ?? inner['query'] ?? inner['pipeline']?.[0]?.$match ?? {};
    const shards =
      route.kind === 'sharded' ? readTargets(route, filter, inner['collation']) : allTargets(route);
    const found = await Promise.all(
      shards.map(async (shard) => ({
        shardName: shard,
        ...clientReply(assertGood((await call.send(shard, call.body(), route, READ)).reply)),
      })),
    );
    const [first] = found as Document[];
    if (first === undefined) throw fail(26, `Database ${call.db} does not exist`);
    const stage = shards.length === 1 ? 'SINGLE_SHARD' : 'SHARD_MERGE';
    return {
      ...first,
      queryPlanner: {
        ...first['queryPlanner'],
        winningPlan: {
          stage,
          shards: found.map(({ shardName, ...rest }: Document) => ({ shardName, ...rest['queryPlanner'] })),
        },
      },
    };
  });
}
