/** What config servers and other shards ask of a shard. All need the internal action on the cluster. */
import type { Document } from 'bson';
import { SECOND } from '../../base/units.ts';
import type { CommandContext, CommandSpec, Privilege } from '../contracts.ts';
import { sizeOf } from '../data/index.ts';
import { storedFcv } from '../process/compatibility.ts';
import type { SimulatorNode } from '../process/node.ts';
import type { PeerPool } from '../replication/peer-pool.ts';
import { type IndexSpec, withoutIdIndex } from './indexes.ts';
import { SetClient } from './set-client.ts';
import { parseSet } from './set-name.ts';
import {
  compareKeys,
  type KeyPattern,
  type KeyValues,
  keyOf,
  keyOfDocument,
  parsePattern,
} from './shard-key.ts';
import type { ShardService } from './shard-service.ts';
import { versionOfDocument } from './versions.ts';

const internal = (): readonly Privilege[] => [{ resource: { cluster: true }, actions: ['internal'] }];
const MAJORITY = { w: 'majority' };
/** Documents and bytes in one message between shards. */
const BATCH_DOCUMENTS = 1_000;
const BATCH_BYTES = 8 * 1024 * 1024;
/** Documents handled in one turn of the event loop. */
const TURN = 500;
const SELECT = 20 * SECOND;

/** A range of keys of one collection, as messages carry it. */
interface Range {
  readonly pattern: KeyPattern;
  readonly min: KeyValues;
  readonly max: KeyValues;
}

function rangeOf(given: Document): Range {
  const pattern = parsePattern(given['key']);
  return { pattern, min: keyOfDocument(pattern, given['min']), max: keyOfDocument(pattern, given['max']) };
}

const inside = ({ min, max }: Pick<Range, 'min' | 'max'>, key: KeyValues): boolean =>
  compareKeys(min, key) <= 0 && compareKeys(key, max) < 0;

/** The commands of a shard's service. */
export function shardCommands(
  node: SimulatorNode,
  shard: ShardService,
  pool: PeerPool,
): readonly CommandSpec[] {
  const spec = (
    name: string,
    run: (command: Document, context: CommandContext) => Promise<Document> | Document,
  ): CommandSpec => ({
    name,
    adminOnly: true,
    auth: internal,
    access: 'write',
    run: (context) => run(context.command, context),
  });
  return [
    spec('_simShardInfo', () => shardInfo(node, shard)),
    spec('_simIdentify', async ({ identity, twoShards }) => {
      await shard.identify(identity, twoShards === true);
      return {};
    }),
    spec('_simBlock', async ({ id, database }) => {
      await shard.block(String(id), database === true);
      return {};
    }),
    spec('_simDescribe', ({ ns }) => describe(node, String(ns))),
    spec('_simPrepare', (command) => {
      prepare(node, command);
      return {};
    }),
    spec('_simMoveOut', (command) => moveOut(node, shard, command, pool)),
    spec('_simTake', (command) => take(node, shard, command)),
    spec('_simSyncCollection', (command) => syncCollection(node, shard, command)),
    spec('_simSyncDatabase', async ({ name, version, drop }) => {
      if (drop === true) node.data.dropDatabase(String(name), contextOf(node));
      await shard.admitDatabase(String(name), version ?? null);
      return {};
    }),
    spec('_simRangeBytes', (command) => splitPoint(node, command)),
  ];
}

const contextOf = (node: SimulatorNode) => ({ stamp: node.stamp(), wall: node.now() });
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Who this is, for addShard. */
function shardInfo(node: SimulatorNode, shard: ShardService): Document {
  return {
    identity: shard.identity() ?? null,
    databases: node.data.databases().filter((name) => !['admin', 'config', 'local'].includes(name)),
    fcv: storedFcv(node).version,
    version: node.version,
    defaults: shard.documents.get('config.settings', 'ReadWriteConcernDefaults') ?? null,
  };
}

/** A collection's options, indexes and size, for making it elsewhere. */
function describe(node: SimulatorNode, ns: string): Document {
  const info = node.data.info(ns);
  if (info === undefined) return { exists: false, count: 0, bytes: 0 };
  const { idIndex: _, ...options } = info.options;
  return {
    exists: true,
    type: info.type,
    uuid: info.uuid,
    options,
    indexes: withoutIdIndex(node.data.indexes(ns) as IndexSpec[]),
    count: node.data.count(ns),
    bytes: node.data.sizeBytes(ns),
  };
}

/** Makes a collection with its indexes where it is missing. */
function prepare(node: SimulatorNode, { ns, options, indexes }: Document): void {
  const { data } = node;
  if (data.info(String(ns)) === undefined) data.create(String(ns), options ?? {}, contextOf(node));
  const present = new Set(data.indexes(String(ns)).map((index) => index['name']));
  const missing = ((indexes ?? []) as Document[]).filter((index) => !present.has(index['name']));
  if (missing.length > 0) data.createIndexes(String(ns), missing, contextOf(node));
}

// ── moving ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Sends the documents of a range (or, without one, of the whole collection) to another shard. This one is blocked. */
async function moveOut(
  node: SimulatorNode,
  shard: ShardService,
  command: Document,
  pool: PeerPool,
): Promise<Document> {
  const ns = String(command['ns']);
  const address = parseSet(String(command['to']), 27018)!;
  const target = new SetClient({ ...address, pool, select: SELECT });
  const send = (more: Document): Promise<Document> =>
    target.call(
      'admin',
      {
        _simTake: 1,
        ns,
        key: command['key'],
        min: command['min'],
        max: command['max'],
        ...more,
        writeConcern: MAJORITY,
      },
      { resend: 'always' },
    );
  try {
    const { options, indexes } = describe(node, ns);
    await send({ first: true, options, indexes, documents: [] });
    let moved = 0;
    for await (const documents of batches(chosen(node, ns, command))) {
      await send({ documents });
      moved += documents.length;
    }
    await send({ history: shard.history(), documents: [] });
    return { moved };
  } finally {
    target.close();
  }
}

function chosen(node: SimulatorNode, ns: string, command: Document): readonly Document[] {
  const all = node.data.find(ns, {});
  if (command['key'] === undefined) return all;
  const range = rangeOf(command);
  return all.filter((document) => {
    const key = keyOf(range.pattern, document);
    return key !== null && inside(range, key);
  });
}

async function* batches(documents: readonly Document[]): AsyncGenerator<readonly Document[]> {
  let batch: Document[] = [];
  let bytes = 0;
  for (const document of documents) {
    batch.push(document);
    bytes += sizeOf(document);
    if (batch.length < BATCH_DOCUMENTS && bytes < BATCH_BYTES) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  if (batch.length > 0) yield batch;
}

/** Takes documents of a range. The first message clears what an earlier attempt left. Twice is once. */
async function take(node: SimulatorNode, shard: ShardService, command: Document): Promise<Document> {
  const ns = String(command['ns']);
  if (command['first'] === true) {
    prepare(node, command);
    await removeAll(node, ns, chosen(node, ns, command));
    return {};
  }
  if (command['history'] !== undefined) shard.takeHistory(command['history']);
  const documents = command['documents'] as readonly Document[];
  for (const [index, document] of documents.entries()) {
    if (index > 0 && index % TURN === 0) await turn();
    node.data.update(
      ns,
      { filter: { _id: document['_id'] }, update: document, multi: false, upsert: true },
      contextOf(node),
    );
  }
  return {};
}

async function removeAll(node: SimulatorNode, ns: string, documents: readonly Document[]): Promise<void> {
  for (const [index, document] of documents.entries()) {
    if (index > 0 && index % TURN === 0) await turn();
    node.data.delete(ns, { filter: { _id: document['_id'] }, limit: 1 }, contextOf(node));
  }
}

/**
 * Brings a collection in line with the metadata, whatever happened before: drops it, or removes what this shard does not own
 * and lets routers in again. Idempotent.
 */
async function syncCollection(
  node: SimulatorNode,
  shard: ShardService,
  command: Document,
): Promise<Document> {
  const ns = String(command['ns']);
  if (command['drop'] === true && node.data.info(ns) !== undefined) node.data.drop(ns, contextOf(node));
  const version = versionOfDocument(command['version']);
  if (version !== null) {
    const pattern = parsePattern(command['key']);
    const ranges = (command['ranges'] as Document[]).map(({ min, max }) => ({
      min: keyOfDocument(pattern, min),
      max: keyOfDocument(pattern, max),
    }));
    const foreign = node.data.find(ns, {}).filter((document) => {
      const key = keyOf(pattern, document);
      return key !== null && !ranges.some((range) => inside(range, key));
    });
    await removeAll(node, ns, foreign);
  }
  await shard.admitVersion(ns, version);
  return {};
}

/** The key at which about `bytes` of a range lie before; null when the range is smaller or one key only. */
function splitPoint(node: SimulatorNode, command: Document): Document {
  const { pattern } = rangeOf(command);
  const wanted = Number(command['bytes']);
  const keyed = chosen(node, String(command['ns']), command)
    .map((document) => ({ key: keyOf(pattern, document)!, bytes: sizeOf(document) }))
    .sort((left, right) => compareKeys(left.key, right.key));
  let before = 0;
  for (const [index, { key, bytes }] of keyed.entries()) {
    const previous = keyed[index - 1];
    if (before >= wanted && previous !== undefined && compareKeys(previous.key, key) !== 0)
      return { at: Object.fromEntries(pattern.map(({ path }, place) => [path, key[place]])), before };
    before += bytes;
  }
  return { at: null, before };
}
