/** aggregate: where all data is on one shard it runs there; else shards do their part and the router the rest. */
import type { Document } from 'bson';
import { toBoolean } from '../commands/arguments.ts';
import { count } from '../commands/call.ts';
import { FIRST_BATCH, staticSource } from '../commands/cursors.ts';
import { fail } from '../commands/errors.ts';
import { isOne } from '../commands/find.ts';
import { namespaceOf } from '../commands/namespaces.ts';
import { outputStage } from '../commands/output-stages.ts';
import { isDocument, toNumber } from '../data/index.ts';
import { countShape, foreignCollections, splitPipeline } from '../sharding/pipeline.ts';
import type { RouteCall } from './call.ts';
import { assertGood, clientReply } from './call.ts';
import type { Route } from './catalog.ts';
import { openChangeStream } from './change-stream.ts';
import { runGathered } from './merge.ts';
import { writeOutput } from './output.ts';
import { drain, emptyCursor, fromConfig, openCursors, READ, readTargets, replyWith } from './reads.ts';

/** First stages that tell about each member instead of reading documents. */
const ABOUT_MEMBERS: ReadonlySet<string> = new Set([
  '$currentOp',
  '$listLocalSessions',
  '$listSessions',
  '$collStats',
  '$indexStats',
  '$planCacheStats',
]);

const nameOf = (stage: Document | undefined): string => Object.keys(stage ?? {})[0] ?? '';

/** `aggregate`. */
export async function runAggregate(call: RouteCall): Promise<Document> {
  const stages = stagesOf(call.command);
  if (nameOf(stages[0]) === '$changeStream') return openChangeStream(call, stages);
  if (isOne(call.command['aggregate'])) return overDatabase(call, stages);
  const ns = namespaceOf(call.command, call.db);
  return call.along(ns, false, async (route) => {
    if (route.kind === 'config') return fromConfig(call, call.body());
    if (route.kind === 'none' && outputStage(stages) === null) return emptyCursor(ns);
    if (await isAllOn(call, route, stages)) return onOneShard(call, ns, route, stages);
    if (toBoolean(call.command['explain'])) return explainOn(call, route, stages);
    return onMany(call, ns, route, stages);
  });
}

function stagesOf(command: Document): readonly Document[] {
  const stages: unknown = command['pipeline'];
  if (!Array.isArray(stages)) throw fail(14, "'pipeline' option must be specified as an array");
  const bad = stages.find((stage) => !isDocument(stage));
  if (bad !== undefined) throw fail(14, "Each element of the 'pipeline' array must be an object");
  return stages;
}

const batchSizeOf = (command: Document): number | undefined => toNumber(command['cursor']?.batchSize);

/** The filter a pipeline begins with. */
const filterOf = (stages: readonly Document[]): unknown => stages[0]?.['$match'];

// ── on one shard ───────────────────────────────────────────────────────────────────────────────────────────────────

/** True when one shard has everything a pipeline reads and writes. */
async function isAllOn(call: RouteCall, route: Route, stages: readonly Document[]): Promise<boolean> {
  const shards = readTargets(route, filterOf(stages), call.command['collation']);
  if (shards.length !== 1 || ABOUT_MEMBERS.has(nameOf(stages[0]))) return false;
  const output = outputStage(stages);
  if (output !== null && (route.kind !== 'unsharded' || !(await writesHere(call, output.body, shards[0]!))))
    return false;
  for (const name of foreignCollections(stages)) {
    const other = await call.router.catalog.route(`${call.db}.${name}`);
    if (other.kind !== 'unsharded' || other.primary !== shards[0]) return false;
  }
  return true;
}

async function writesHere(call: RouteCall, body: unknown, shard: string): Promise<boolean> {
  const into: unknown = isDocument(body) && body['into'] !== undefined ? body['into'] : body;
  const name = isDocument(into) ? `${into['db'] ?? call.db}.${into['coll']}` : `${call.db}.${into}`;
  const target = await call.router.catalog.routeForWrite(name);
  return target.kind === 'unsharded' && target.primary === shard;
}

async function onOneShard(
  call: RouteCall,
  ns: string,
  route: Route,
  stages: readonly Document[],
): Promise<Document> {
  const shards = readTargets(route, filterOf(stages), call.command['collation']);
  if (toBoolean(call.command['explain'])) return explainOn(call, route, stages);
  const remotes = await openCursors(call, route, shards, {
    ...call.body(),
    ...(await call.writeConcernFor(stages)),
  });
  const batchSize = batchSizeOf(call.command);
  return replyWith(call, ns, remotes, { batchSize }, batchSize ?? FIRST_BATCH);
}

async function explainOn(call: RouteCall, route: Route, stages: readonly Document[]): Promise<Document> {
  const shards = readTargets(route, filterOf(stages), call.command['collation']);
  const { merge } = splitPipeline(stages);
  const replies = await Promise.all(
    shards.map(async (shard) => {
      const { reply } = await call.send(shard, call.body(), route, READ);
      return [shard, clientReply(assertGood(reply))] as const;
    }),
  );
  return { mergeType: 'mongos', splitPipeline: { mergerPart: merge }, shards: Object.fromEntries(replies) };
}

// ── on several ─────────────────────────────────────────────────────────────────────────────────────────────────────

async function onMany(
  call: RouteCall,
  ns: string,
  route: Route,
  stages: readonly Document[],
): Promise<Document> {
  const output = outputStage(stages);
  const reading = output === null ? stages : stages.slice(0, -1);
  const documents = await results(call, route, reading);
  if (output !== null) {
    await writeOutput(call, output, documents);
    return emptyCursor(ns);
  }
  return cursorOver(call, ns, documents);
}

function cursorOver(call: RouteCall, ns: string, documents: readonly Document[]): Document {
  return call.router.services.cursors.first(
    call.context,
    ns,
    staticSource(documents),
    batchSizeOf(call.command) ?? FIRST_BATCH,
    { sessionKey: call.session?.key ?? null, txnNumber: null },
  );
}

async function results(
  call: RouteCall,
  route: Route,
  stages: readonly Document[],
): Promise<readonly Document[]> {
  const about = ABOUT_MEMBERS.has(nameOf(stages[0]));
  const { shard, merge } = about
    ? { shard: stages.slice(0, 1), merge: stages.slice(1) }
    : splitPipeline(stages);
  const shards = readTargets(route, filterOf(stages), call.command['collation']);
  const { pipeline: _pipeline, cursor: _cursor, writeConcern: _concern, ...rest } = call.body();
  const command = (pipeline: readonly Document[]): Document => ({ ...rest, pipeline, cursor: {} });
  const counted = about ? null : countShape(merge);
  if (counted !== null) {
    const counts = await drain(call, route, shards, command([...shard, { $count: 'n' }]));
    const total = counts.reduce((sum, { n }) => sum + (toNumber(n) ?? 0), 0);
    const result = counted.result(total);
    const typed = result === null ? [] : [countsAsInt(result, total)];
    return runGathered(call.db, typed, counted.rest, new Map(), optionsOf(call.command));
  }
  const documents = about
    ? await aboutEach(call, route, shards, command(shard))
    : await drain(call, route, shards, command(shard));
  return runGathered(call.db, documents, merge, await foreign(call, merge), optionsOf(call.command));
}

/** What each shard says of itself, with its name. */
async function aboutEach(
  call: RouteCall,
  route: Route,
  shards: readonly string[],
  command: Document,
): Promise<readonly Document[]> {
  const lists = await Promise.all(
    shards.map(async (shard) => {
      const found = await drain(call, route, [shard], command);
      return found.map((document) => ({ ...document, shard }));
    }),
  );
  return lists.flat();
}

/** Totals travel as 32-bit numbers where they fit, as from one server. */
const countsAsInt = (result: Document, total: number): Document =>
  Object.fromEntries(
    Object.entries(result).map(([name, value]) => [
      name,
      value === total && name !== '_id' ? count(total) : value,
    ]),
  );

function optionsOf(command: Document): Document {
  return Object.fromEntries(
    ['collation', 'let'].flatMap((name) => (command[name] === undefined ? [] : [[name, command[name]]])),
  );
}

/** All documents of the collections that stages join. */
async function foreign(
  call: RouteCall,
  stages: readonly Document[],
): Promise<Map<string, readonly Document[]>> {
  const gathered = new Map<string, readonly Document[]>();
  for (const name of foreignCollections(stages)) {
    const ns = `${call.db}.${name}`;
    const documents = await call.along(ns, false, async (route) =>
      drain(call, route, readTargets(route, {}, undefined), { find: name, filter: {} }),
    );
    gathered.set(ns, documents);
  }
  return gathered;
}

// ── over a database ────────────────────────────────────────────────────────────────────────────────────────────────

/** Pipelines without a collection: about every member, or over documents they bring along. */
async function overDatabase(call: RouteCall, stages: readonly Document[]): Promise<Document> {
  const ns = `${call.db}.$cmd.aggregate`;
  const first = nameOf(stages[0]);
  if (!ABOUT_MEMBERS.has(first)) {
    const documents = call.router.node.data.aggregate(null, call.db, stages, optionsOf(call.command));
    return cursorOver(call, ns, documents);
  }
  const { pipeline: _pipeline, cursor: _cursor, ...rest } = call.body();
  const command = { ...rest, pipeline: stages.slice(0, 1), cursor: {} };
  const found = await aboutEach(call, { kind: 'none' }, await call.router.shardNames(), command);
  return cursorOver(
    call,
    ns,
    await runGathered(call.db, found, stages.slice(1), new Map(), optionsOf(call.command)),
  );
}
