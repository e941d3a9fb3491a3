/** Views over sharded collections: a shard hands back the pipeline behind the view, and the router runs it. */
import type { Document } from 'bson';
import { findSpec } from '../commands/find.ts';
import { ServerError } from '../contracts.ts';
import { isDocument, toNumber } from '../data/index.ts';
import { runAggregate } from './aggregate.ts';
import type { RouteCall } from './call.ts';

const RESOLVED = 169;

/** Runs a read; when it meets a view over a sharded collection, runs it again as a pipeline over that collection. */
export function throughViews(run: (call: RouteCall) => Promise<Document>) {
  return async (call: RouteCall): Promise<Document> => {
    try {
      return await run(call);
    } catch (failure) {
      if (!(failure instanceof ServerError) || failure.code !== RESOLVED) throw failure;
      return overResolved(call, failure.extra['resolvedView'] as Document);
    }
  };
}

async function overResolved(call: RouteCall, { ns, pipeline }: Document): Promise<Document> {
  const { command } = call;
  const { name } = call.context;
  const batchSize = toNumber(command['batchSize'] ?? command['cursor']?.batchSize);
  const whole = name === 'count' || name === 'distinct';
  const derived: Document = {
    aggregate: String(ns).slice(String(ns).indexOf('.') + 1),
    pipeline: [...(pipeline as Document[]), ...stagesOf(name, command)],
    cursor: batchSize === undefined || whole ? {} : { batchSize },
  };
  for (const field of ['readConcern', 'collation', 'let', 'maxTimeMS', 'comment', '$readPreference'])
    if (command[field] !== undefined) derived[field] = command[field];
  const reply = await runAggregate(call.derived('aggregate', derived));
  if (!whole) return reply;
  const [only] = reply['cursor'].firstBatch as Document[];
  if (name === 'count') return { n: only?.['n'] ?? 0 };
  return { values: only?.['values'] ?? [] };
}

/** What a read does with the documents of the view, as stages. */
function stagesOf(name: string, command: Document): readonly Document[] {
  if (name === 'aggregate') return command['pipeline'] as Document[];
  if (name === 'find') {
    const { filter, sort, skip, limit, projection } = findSpec(command);
    return [
      ...(filter === undefined ? [] : [{ $match: filter }]),
      ...(sort === undefined || '$natural' in sort ? [] : [{ $sort: sort }]),
      ...(skip === undefined ? [] : [{ $skip: skip }]),
      ...(limit === undefined ? [] : [{ $limit: limit }]),
      ...(projection === undefined ? [] : [{ $project: projection }]),
    ];
  }
  const query: unknown = command['query'];
  const match = isDocument(query) && Object.keys(query).length > 0 ? [{ $match: query }] : [];
  if (name === 'count') {
    const [skip, limit] = [toNumber(command['skip']) ?? 0, Math.abs(toNumber(command['limit']) ?? 0)];
    const part = [...(skip > 0 ? [{ $skip: skip }] : []), ...(limit > 0 ? [{ $limit: limit }] : [])];
    return [...match, ...part, { $count: 'n' }];
  }
  const path = `$${command['key']}`;
  return [
    ...match,
    { $unwind: { path, preserveNullAndEmptyArrays: true } },
    { $match: { [String(command['key'])]: { $exists: true } } },
    { $group: { _id: null, values: { $addToSet: path } } },
  ];
}
