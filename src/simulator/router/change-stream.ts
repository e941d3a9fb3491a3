/** Change streams through the router: of a collection that is on one shard. */
import type { Document } from 'bson';
import { FIRST_BATCH } from '../commands/cursors.ts';
import { fail } from '../commands/errors.ts';
import { isOne } from '../commands/find.ts';
import { namespaceOf } from '../commands/namespaces.ts';
import { toNumber } from '../data/index.ts';
import { allTargets, type RouteCall } from './call.ts';
import { openCursors, replyWith } from './reads.ts';

/** Opens a stream. 238 where it would have to follow several shards. */
export async function openChangeStream(call: RouteCall, stages: readonly Document[]): Promise<Document> {
  const several = (): Error =>
    fail(
      238,
      'the simulator’s router follows changes of one shard only; watch a collection that is not spread',
    );
  if (isOne(call.command['aggregate'])) throw several();
  const ns = namespaceOf(call.command, call.db);
  return call.along(ns, true, async (route) => {
    const shards = allTargets(route);
    if (shards.length !== 1 || stages.length === 0) throw several();
    const remotes = await openCursors(call, route, shards, call.body());
    const batchSize = toNumber(call.command['cursor']?.batchSize);
    return replyWith(call, ns, remotes, { batchSize, tails: true }, batchSize ?? FIRST_BATCH);
  });
}
