/** Reading through views: a query on a view becomes a pipeline on what it stands for. */
import type { Document } from 'bson';
import type { DataStore, FindSpec } from '../contracts.ts';
import type { Call } from './call.ts';
import { fail } from './errors.ts';
import { splitNamespace } from './namespaces.ts';

/** Views on views on views: more than this is 165. */
const MAX_DEPTH = 20;

/** A view resolved down to its collection. `collation` is the view's own. */
export interface ResolvedView {
  readonly viewOn: string;
  readonly pipeline: readonly Document[];
  readonly collation: Document | undefined;
}

/** The view of that name, resolved; null for a collection or nothing. 165 for too deep a chain. */
export function viewOf(data: DataStore, ns: string): ResolvedView | null {
  const { db } = splitNamespace(ns);
  let current = ns;
  let pipeline: Document[] = [];
  let collation: Document | undefined;
  for (let depth = 0; depth <= MAX_DEPTH; depth += 1) {
    const info = data.info(current);
    if (info?.type !== 'view') return depth === 0 ? null : { viewOn: current, pipeline, collation };
    pipeline = [...((info.options['pipeline'] as Document[] | undefined) ?? []), ...pipeline];
    collation ??= info.options['collation'];
    current = `${db}.${info.options['viewOn']}`;
  }
  throw fail(165, `View depth too deep or view cycle detected; maximum view depth is ${MAX_DEPTH}`);
}

/** The documents a find on a view gives. */
export function aggregateView(call: Call, ns: string, view: ResolvedView, spec: FindSpec): Document[] {
  const { db } = splitNamespace(ns);
  return call.view.aggregate(
    view.viewOn,
    db,
    [...view.pipeline, ...findStages(spec)],
    viewOptions(view, spec),
  );
}

function viewOptions(view: ResolvedView, spec: FindSpec): Document {
  const collation = spec.collation ?? view.collation;
  return {
    ...(collation === undefined ? {} : { collation }),
    ...(spec.let === undefined ? {} : { let: spec.let }),
    ...(spec.hint === undefined ? {} : { hint: spec.hint }),
  };
}

function findStages(spec: FindSpec): Document[] {
  const natural = spec.sort !== undefined && '$natural' in spec.sort;
  return [
    ...(spec.filter === undefined ? [] : [{ $match: spec.filter }]),
    ...(spec.sort === undefined || natural ? [] : [{ $sort: spec.sort }]),
    ...(spec.skip === undefined ? [] : [{ $skip: spec.skip }]),
    ...(spec.limit === undefined ? [] : [{ $limit: spec.limit }]),
    ...(spec.projection === undefined ? [] : [{ $project: spec.projection }]),
  ];
}

/** The distinct values of a key among a view's documents. */
export function distinctInView(call: Call, view: ResolvedView, key: string, query: Document): unknown[] {
  const stages: Document[] = [
    ...view.pipeline,
    { $match: query },
    { $unwind: { path: `$${key}`, preserveNullAndEmptyArrays: false } },
    { $group: { _id: `$${key}` } },
  ];
  return call.view.aggregate(view.viewOn, call.db, stages).map((group) => group['_id'] as unknown);
}
