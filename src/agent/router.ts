/** What a router (mongos) tells over loopback, as facts. */
import { type Document, MongoServerError } from 'mongodb';
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
    const [shards, balancer, autoMerge] = await Promise.all([
      ask('config', { find: 'shards', batchSize: MOST_SHARDS }),
      ask('admin', { balancerStatus: 1 }),
      readAutoMerge(ask),
    ]);
    return {
      configReachable: true,
      shards: shardsOf(shards),
      balancer: balancer['mode'] === 'off' ? 'off' : 'full',
      balancing: balancer['inBalancerRound'] === true,
      ...(autoMerge === undefined ? {} : { autoMerge }),
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

const batchOf = (reply: Document): readonly Document[] =>
  (reply['cursor'] as { readonly firstBatch?: readonly Document[] } | undefined)?.firstBatch ?? [];

function shardsOf(reply: Document): RouterFacts['shards'] {
  const rows = batchOf(reply).map((row) => ({
    name: String(row['_id']),
    host: String(row['host']),
    draining: row['draining'] === true,
  }));
  return rows.sort((a, b) => a.name.localeCompare(b.name));
}

/** The document that `sh.stopAutoMerger()` writes; servers before 7.0 have none and know no AutoMerger. */
const AUTO_MERGE = { _id: 'automerge' };

/** Whether the AutoMerger is on; undefined: nobody ever said. */
export async function readAutoMerge(ask: Ask): Promise<boolean | undefined> {
  const reply = await ask('config', { find: 'settings', filter: AUTO_MERGE, limit: 1 });
  const enabled: unknown = batchOf(reply)[0]?.['enabled'];
  return typeof enabled === 'boolean' ? enabled : undefined;
}

/** As `sh.startAutoMerger()` and `sh.stopAutoMerger()` do it: there is no command for it. */
export async function writeAutoMerge(ask: Ask, enabled: boolean): Promise<void> {
  const updates = [{ q: AUTO_MERGE, u: { $set: { enabled } }, upsert: true }];
  const { writeErrors, writeConcernError } = await ask('config', {
    update: 'settings',
    updates,
    writeConcern: { w: 'majority' },
  });
  const failure = (writeErrors as readonly Document[] | undefined)?.[0] ?? writeConcernError;
  if (failure !== undefined) throw new MongoServerError(failure as Document);
}
