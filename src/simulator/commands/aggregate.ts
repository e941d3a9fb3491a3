/** aggregate: first stages that are sources of their own, views, output stages, and the rest through the store. */
import type { Document } from 'bson';
import { Long } from 'bson';
import type { CommandContext, Privilege } from '../contracts.ts';
import { checkShape, isDocument, required, rule, toBoolean, toNumber, typeName } from './arguments.ts';
import { type Call, command, loginOnly, privilege } from './call.ts';
import { openChangeStream } from './change-stream.ts';
import { readLevel } from './concerns.ts';
import { FIRST_BATCH, staticSource } from './cursors.ts';
import { fail } from './errors.ts';
import { explainAggregate } from './explain.ts';
import { cursorOptions, isOne } from './find.ts';
import { checkCollectionName } from './namespaces.ts';
import { mergePrivileges, outputStage, writeOutput } from './output-stages.ts';
import { pipe } from './pipe.ts';
import { PROFILE_COLLECTION } from './profiler.ts';
import { sourceStage } from './source-stages.ts';

/** The namespace and pipeline of an aggregate command. `ns` is null for a pipeline over a database. */
export interface Pipeline {
  readonly ns: string | null;
  readonly stages: readonly Document[];
}

/** Reads and checks what an aggregate command works on. */
export function pipelineOf(call: Call): Pipeline {
  const { command: given, db } = call;
  const target: unknown = given['aggregate'];
  const stages: unknown = given['pipeline'];
  if (!Array.isArray(stages)) throw fail(14, "'pipeline' option must be specified as an array");
  for (const stage of stages) {
    if (!isDocument(stage)) throw fail(14, "Each element of the 'pipeline' array must be an object");
    if (Object.keys(stage).length !== 1) {
      throw fail(40323, 'A pipeline stage specification object must contain exactly one field.');
    }
  }
  if (isOne(target)) return { ns: null, stages };
  if (typeof target !== 'string') {
    throw fail(9, `Invalid command format: the 'aggregate' field must specify a collection name or 1`);
  }
  checkCollectionName(db, target);
  return { ns: `${db}.${target}`, stages };
}

async function runAggregate(call: Call): Promise<Document> {
  const { command: given, services, context } = call;
  const pipeline = pipelineOf(call);
  checkStableApi(call, pipeline.stages);
  if (toBoolean(given['explain'])) return explainAggregate(call, pipeline, 'queryPlanner');
  const batchSize = batchSizeOf(given);
  const first = pipeline.stages[0];
  const cursorNs = pipeline.ns ?? `${call.db}.$cmd.aggregate`;
  if (first?.['$changeStream'] !== undefined) return openChangeStream(call, pipeline, batchSize);
  const output = outputStage(pipeline.stages);
  if (output) {
    checkOutputConcern(call, output.name);
    call.node.replication?.assertWritable(call.db);
    if (call.transaction !== null) {
      throw fail(
        263,
        `Operation not permitted in transaction :: caused by :: ${output.name} in a transaction`,
      );
    }
    writeOutput(call, output, runReading(call, { ...pipeline, stages: pipeline.stages.slice(0, -1) }));
    return { cursor: { firstBatch: [], id: Long.ZERO, ns: cursorNs } };
  }
  const documents = runReading(call, pipeline);
  const extra = call.atClusterTime === null ? {} : { atClusterTime: call.atClusterTime };
  return services.cursors.first(
    context,
    cursorNs,
    staticSource(documents),
    batchSize,
    cursorOptions(call),
    extra,
  );
}

function checkOutputConcern(call: Call, stage: string): void {
  if (readLevel(call.command['readConcern']).level !== 'linearizable') return;
  throw fail(72, `Aggregation stage ${stage} cannot run with a 'linearizable' read concern`);
}

/** Stages outside the stable API; `$collStats` may only count. */
const UNSTABLE: ReadonlySet<string> = new Set([
  '$currentOp',
  '$indexStats',
  '$listLocalSessions',
  '$listSessions',
  '$planCacheStats',
  '$listSearchIndexes',
  '$search',
  '$searchMeta',
  '$vectorSearch',
]);

function checkStableApi(call: Call, stages: readonly Document[]): void {
  if (call.command['apiStrict'] !== true) return;
  for (const stage of stages) {
    const name = Object.keys(stage)[0]!;
    const counts = name === '$collStats' && Object.keys(stage[name] ?? {}).join() !== 'count';
    if (UNSTABLE.has(name) || counts) {
      throw fail(323, `stage ${name} is not allowed with 'apiStrict: true' in API Version 1`);
    }
  }
}

function batchSizeOf(given: Document): number {
  const cursor: unknown = given['cursor'];
  if (cursor === undefined) {
    throw fail(9, "The 'cursor' option is required, except for aggregate with the explain argument");
  }
  if (!isDocument(cursor)) {
    throw fail(
      14,
      `BSON field 'aggregate.cursor' is the wrong type '${typeName(cursor)}', expected type 'object'`,
    );
  }
  checkShape('aggregate.cursor', cursor, { batchSize: rule.natural });
  return toNumber(cursor['batchSize']) ?? FIRST_BATCH;
}

/** The documents of a pipeline without output stage, whatever it reads from. */
function runReading(call: Call, pipeline: Pipeline): Document[] {
  const { ns, stages } = pipeline;
  if (ns?.endsWith(`.${PROFILE_COLLECTION}`))
    return pipe(call, call.services.profiler.entries(call.db), stages);
  return sourceStage(call, pipeline) ?? runStages(call, ns, stages);
}

/** Runs a pipeline over what is stored. */
function runStages(call: Call, ns: string | null, stages: readonly Document[]): Document[] {
  const { command: given, db } = call;
  const options: Document = {};
  for (const key of ['collation', 'let', 'hint', 'allowDiskUse', 'bypassDocumentValidation']) {
    if (given[key] !== undefined) options[key] = given[key];
  }
  return call.view.aggregate(ns, db, stages, options);
}

// ── privileges ─────────────────────────────────────────────────────────────────────────────────────────────────────

function aggregatePrivileges(context: CommandContext): readonly Privilege[] {
  const { command: given, db } = context;
  const target: unknown = given['aggregate'];
  const collection = typeof target === 'string' ? target : '';
  const stages: unknown[] = Array.isArray(given['pipeline']) ? given['pipeline'] : [];
  const first = isDocument(stages[0]) ? Object.keys(stages[0])[0] : undefined;
  return [
    ...firstPrivileges(context, first, collection, stages[0] as Document),
    ...stages.flatMap((stage) => (isDocument(stage) ? stagePrivileges(stage, db) : [])),
  ];
}

function firstPrivileges(
  context: CommandContext,
  first: string | undefined,
  collection: string,
  stage: Document,
): readonly Privilege[] {
  const { db } = context;
  switch (first) {
    case '$currentOp':
      return toBoolean(stage['$currentOp']?.allUsers)
        ? [{ resource: { cluster: true }, actions: ['inprog'] }]
        : loginOnly(context);
    case '$listLocalSessions':
    case '$documents':
      return loginOnly(context);
    case '$listSessions':
      return toBoolean(stage['$listSessions']?.allUsers)
        ? [{ resource: { cluster: true }, actions: ['listSessions'] }]
        : loginOnly(context);
    case '$collStats':
      return [privilege(db, collection, 'collStats')];
    case '$indexStats':
      return [privilege(db, collection, 'indexStats')];
    case '$planCacheStats':
      return [privilege(db, collection, 'planCacheRead')];
    case '$listSearchIndexes':
      return [privilege(db, collection, 'listSearchIndexes')];
    case '$changeStream':
      return stage['$changeStream']?.allChangesForCluster === true
        ? [{ resource: { anyResource: true }, actions: ['find', 'changeStream'] }]
        : [privilege(db, collection, 'find', 'changeStream')];
    default:
      return [privilege(db, collection, 'find')];
  }
}

function stagePrivileges(stage: Document, db: string): readonly Privilege[] {
  const [name, body] = Object.entries(stage)[0] ?? [];
  switch (name) {
    case '$out':
    case '$merge':
      return mergePrivileges(stage, db);
    case '$lookup':
    case '$graphLookup':
      return typeof body?.from === 'string' ? [privilege(db, body.from, 'find')] : [];
    case '$unionWith':
      return [privilege(db, typeof body === 'string' ? body : (body?.coll ?? ''), 'find')];
    default:
      return [];
  }
}

/** `aggregate`. */
export const aggregateCommand = command({
  name: 'aggregate',
  auth: aggregatePrivileges,
  access: 'read',
  inTransaction: true,
  readConcern: true,
  shape: {
    aggregate: rule.any,
    pipeline: required(rule.any),
    cursor: rule.any,
    explain: rule.flag,
    allowDiskUse: rule.flag,
    bypassDocumentValidation: rule.flag,
    collation: rule.object,
    hint: rule.hint,
    let: rule.object,
    needsMerge: rule.flag,
    fromMongos: rule.flag,
    fromRouter: rule.flag,
    exchange: rule.object,
    isMapReduceCommand: rule.flag,
    collectionUUID: rule.any,
    passthroughToShard: rule.object,
    includeQueryStatsMetrics: rule.flag,
    encryptionInformation: rule.object,
    legacyRuntimeConstants: rule.object,
  },
  run: runAggregate,
});
