/** First stages of a pipeline that make their own documents: statistics, sessions, running operations. */
import type { Document } from 'bson';
import type { Pipeline } from './aggregate.ts';
import { isDocument, toBoolean } from './arguments.ts';
import type { Call } from './call.ts';
import { collectionStats } from './collection-stats.ts';
import { currentOperations } from './current-op.ts';
import { fail } from './errors.ts';
import { pipe } from './pipe.ts';
import { sessionDocuments } from './session-commands.ts';

type Source = (call: Call, ns: string | null, body: Document) => Document[];

const SOURCES: Readonly<Record<string, Source>> = {
  $currentOp: (call, ns, body) => {
    if (ns !== null || call.db !== 'admin') {
      throw fail(73, "$currentOp must be run against the 'admin' database with {aggregate: 1}");
    }
    return currentOperations(call, { idle: toBoolean(body['idleConnections']) });
  },
  $listLocalSessions: (call, ns, body) => {
    if (ns !== null)
      throw fail(73, '$listLocalSessions must be run against the database with {aggregate: 1}');
    return sessionDocuments(call, body);
  },
  $listSessions: (call, ns, body) => {
    if (ns !== 'config.system.sessions') {
      throw fail(73, '$listSessions may only be run against config.system.sessions');
    }
    return sessionDocuments(call, body);
  },
  $collStats: (call, ns, body) => [collStatsDocument(call, named('$collStats', ns), body)],
  $indexStats: (call, ns) => indexStatistics(call, named('$indexStats', ns)),
  $planCacheStats: () => [],
  $listSearchIndexes: () => {
    throw searchNotEnabled();
  },
  $search: () => {
    throw searchNotEnabled();
  },
  $vectorSearch: () => {
    throw searchNotEnabled();
  },
  $searchMeta: () => {
    throw searchNotEnabled();
  },
};

/** 31082: search indexes exist only with Atlas or a search node. */
export function searchNotEnabled(): Error {
  return fail(
    31082,
    'Using Atlas Search Database Commands and the $listSearchIndexes aggregation stage requires additional configuration. ' +
      'Please connect to Atlas or an AtlasCLI local deployment to enable.For more information on how to connect, see ' +
      'https://dochub.mongodb.org/core/atlas-cli-deploy-local-reqs.',
  );
}

/** The documents of a pipeline that starts with such a stage; null for any other. */
export function sourceStage(call: Call, pipeline: Pipeline): Document[] | null {
  const first = pipeline.stages[0];
  if (first === undefined) return null;
  const name = Object.keys(first)[0]!;
  const source = SOURCES[name];
  if (source === undefined) return null;
  const body: unknown = first[name];
  const documents = source(call, pipeline.ns, isDocument(body) ? body : {});
  return pipe(call, documents, pipeline.stages.slice(1));
}

function named(stage: string, ns: string | null): string {
  if (ns === null) throw fail(73, `{aggregate: 1} is not valid for '${stage}'; a collection is required.`);
  return ns;
}

function collStatsDocument(call: Call, ns: string, body: Document): Document {
  if (call.data.info(ns) === undefined)
    throw fail(
      26,
      `Unable to retrieve storageStats in $collStats stage :: caused by :: Collection [${ns}] not found.`,
    );
  const stats: Document = collectionStats(call, ns, 1);
  const { ns: _ns, ...storage } = stats;
  return {
    ns,
    host: call.node.address,
    localTime: call.node.now(),
    ...(body['latencyStats'] === undefined ? {} : { latencyStats: latencies() }),
    ...(body['storageStats'] === undefined ? {} : { storageStats: storage }),
    ...(body['count'] === undefined ? {} : { count: stats['count'] }),
    ...(body['queryExecStats'] === undefined
      ? {}
      : { queryExecStats: { collectionScans: { total: 0, nonTailable: 0 } } }),
  };
}

function latencies(): Document {
  const none = { latency: 0, ops: 0, queryableEncryptionLatencyMicros: 0 };
  return { reads: none, writes: none, commands: none, transactions: none };
}

function indexStatistics(call: Call, ns: string): Document[] {
  if (call.data.info(ns) === undefined) return [];
  return call.data.indexes(ns).map((spec) => ({
    name: spec['name'],
    key: spec['key'],
    host: call.node.address,
    accesses: { ops: 0, since: call.node.startedAt },
    spec,
  }));
}
