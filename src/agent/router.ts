/** What a router (mongos) tells over loopback, as facts. */
import type { Document } from 'mongodb';
import type { RouterFacts } from '../clusters/facts.ts';
import { codeOf } from './mongo.ts';

/** Runs one command against a database of the router, bounded in time. */
export type Ask = (database: string, command: Document) => Promise<Document>;

/**
 * Shards and balancer as the config servers have them. A router that answers with an error does not reach them; one that
 * does not answer at all throws. The monitor's role reads `config`; balancerStatus asks for no more than that.
 */
export async function readRouter(ask: Ask): Promise<RouterFacts> {
  try {
    const [shards, balancer] = await Promise.all([
      ask('config', { find: 'shards', batchSize: MOST_SHARDS }),
      ask('admin', { balancerStatus: 1 }),
    ]);
    return {
      configReachable: true,
      shards: shardsOf(shards),
      balancer: balancer['mode'] === 'off' ? 'off' : 'full',
      balancing: balancer['inBalancerRound'] === true,
    };
  } catch (failure) {
    const code = codeOf(failure);
    if (code === null || LOGIN_LOST.has(code)) throw failure;
    return { configReachable: false, shards: null, balancer: null, balancing: false };
  }
}

/** Unauthorized, AuthenticationFailed: our login is no good, which is another matter. */
const LOGIN_LOST: ReadonlySet<number> = new Set([13, 18]);

/** More than the language lets a cluster have; one batch holds them all. */
const MOST_SHARDS = 200;

function shardsOf(reply: Document): RouterFacts['shards'] {
  const cursor = reply['cursor'] as { readonly firstBatch?: readonly Document[] } | undefined;
  const rows = (cursor?.firstBatch ?? []).map((row) => ({
    name: String(row['_id']),
    host: String(row['host']),
    draining: row['draining'] === true,
  }));
  return rows.sort((a, b) => a.name.localeCompare(b.name));
}
