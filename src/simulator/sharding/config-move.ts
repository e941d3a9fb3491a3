/** Moving data between shards: ranges of a sharded collection, and databases with all that is not sharded. */
import { type Document, Int32 } from 'bson';
import { fail } from '../commands/errors.ts';
import { isDocument } from '../data/index.ts';
import { chunkIndex, coverProblem, moveRange, type RoutingTable, splitAt } from './chunks.ts';
import type { ConfigService } from './config-service.ts';
import { CHUNKS, changedChunks, DATABASES } from './metadata.ts';
import {
  compareKeys,
  type KeyValues,
  keyDocument,
  keyOf,
  keyOfDocument,
  maxKey,
  minKey,
  patternDocument,
} from './shard-key.ts';

/** A range of keys on one shard. */
export interface KeyRange {
  readonly min: KeyValues;
  readonly max: KeyValues;
}

function tableFor(config: ConfigService, ns: string): RoutingTable {
  const table = config.table(ns);
  if (table === null) throw fail(118, `Collection ${ns} is not sharded`);
  return table;
}

/** Moves a range to a shard; nothing when it is there. The range lies within one shard. */
export async function moveOneRange(
  config: ConfigService,
  ns: string,
  range: KeyRange,
  to: string,
): Promise<void> {
  const table = tableFor(config, ns);
  const from = table.chunks[chunkIndex(table.chunks, range.min)]!.shard;
  const host = String(config.shard(to)['host']);
  if (from === to) return;
  const { pattern } = table;
  const bounds = {
    key: patternDocument(pattern),
    min: keyDocument(pattern, range.min),
    max: keyDocument(pattern, range.max),
  };
  await config.changing({ kind: 'collection', id: ns }, async () => {
    await Promise.all([from, to].map((shard) => config.tell(shard, { _simBlock: 1, id: ns })));
    await config.tell(from, { _simMoveOut: 1, ns, to: host, ...bounds });
    await storeChunks(config, table, moveRange(table.chunks, range.min, range.max, to));
  });
  config.node.log.log('I', 'SHARDING', 22_016, 'Balancer', 'Moved range', { ns, from, to });
}

async function storeChunks(
  config: ConfigService,
  table: RoutingTable,
  chunks: RoutingTable['chunks'],
): Promise<void> {
  const problem = coverProblem(table.pattern, chunks);
  if (problem !== null) throw fail(1, `the chunks of ${table.ns} would not cover every key: ${problem}`);
  const changed = changedChunks(table, config.chunks(table.uuid), chunks, config.now());
  await config.change(({ put }) => {
    for (const chunk of changed) put(CHUNKS, chunk);
  });
}

/** moveChunk and moveRange: by bounds, by one bound, or by a document or query inside. */
export async function moveAsAsked(config: ConfigService, ns: string, command: Document): Promise<void> {
  const table = tableFor(config, ns);
  const to = String(command['to'] ?? command['toShard']);
  config.shard(to);
  await moveOneRange(config, ns, rangeAsked(table, command), to);
}

/** The range a command means. 9 and 72 for what can't be read. */
export function rangeAsked(table: RoutingTable, command: Document): KeyRange {
  const { pattern, chunks } = table;
  const bounds: unknown = command['bounds'];
  const [low, high] = Array.isArray(bounds) ? bounds : [command['min'], command['max']];
  const given = (bound: unknown): KeyValues | null =>
    isDocument(bound) ? keyOfDocument(pattern, bound) : null;
  const find: unknown = command['find'] ?? command['middle'];
  const key = isDocument(find) ? keyOf(pattern, find) : given(low);
  if (key === null && given(high) === null) throw fail(9, 'need to specify query, or min or max');
  const chunk = chunks[chunkIndex(chunks, key ?? given(high)!)]!;
  if (isDocument(find)) return { min: chunk.min, max: chunk.max };
  return within(table, { min: given(low) ?? chunk.min, max: given(high) ?? chunk.max });
}

function within(table: RoutingTable, range: KeyRange): KeyRange {
  const [first, last] = [minKey(table.pattern), maxKey(table.pattern)];
  const owners = table.chunks
    .filter((chunk) => compareKeys(chunk.min, range.max) < 0 && compareKeys(range.min, chunk.max) < 0)
    .map(({ shard }) => shard);
  if (new Set(owners).size !== 1 || compareKeys(range.min, first) < 0 || compareKeys(range.max, last) > 0)
    throw fail(72, 'the range to move must lie within one shard');
  return range;
}

/** Cuts a chunk at a key. Shards need not know. */
export async function splitChunk(config: ConfigService, ns: string, at: KeyValues): Promise<void> {
  const table = tableFor(config, ns);
  await storeChunks(config, table, splitAt(table.chunks, at));
}

/** Moves a database's unsharded collections to another shard, and with them everything that will be made in it. */
export async function movePrimary(config: ConfigService, db: string, to: string): Promise<void> {
  const known = config.database(db);
  if (known === undefined) throw fail(26, `Database ${db} not found`);
  const host = String(config.shard(to)['host']);
  const from = String(known['primary']);
  if (from === to) return;
  const namespaces = await unsharded(config, db, from);
  await config.changing({ kind: 'database', id: db }, async () => {
    await Promise.all(
      [from, to].map((shard) => config.tell(shard, { _simBlock: 1, id: db, database: true })),
    );
    for (const ns of namespaces) await config.tell(from, { _simMoveOut: 1, ns, to: host });
    for (const { ns } of config.tables().filter((table) => table.ns.startsWith(`${db}.`))) {
      const { options, indexes } = await config.tell(from, { _simDescribe: 1, ns });
      await config.tell(to, { _simPrepare: 1, ns, options, indexes });
    }
    const version = {
      ...known['version'],
      timestamp: config.now(),
      lastMod: new Int32(Number(known['version'].lastMod) + 1),
    };
    await config.change(({ put }) => put(DATABASES, { ...known, primary: to, version }));
  });
  for (const ns of namespaces) await config.tell(from, { _simSyncCollection: 1, ns, drop: true });
}

async function unsharded(config: ConfigService, db: string, shard: string): Promise<readonly string[]> {
  const reply = await config.client(shard).call(db, { listCollections: 1, cursor: {} }, { resend: 'always' });
  const entries = reply['cursor'].firstBatch as Document[];
  return entries
    .map(({ name }) => `${db}.${name}`)
    .filter((ns) => config.table(ns) === null && !ns.endsWith('.system.views'));
}
