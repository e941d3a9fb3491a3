/** How an aggregation over several shards is cut: what each shard does, what is done with all results together. Pure. */
import type { Document } from 'bson';
import { isDocument, isNumeric, toNumber } from '../data/index.ts';

/** Stages that look at one document at a time, so that every shard can run them for itself. */
const ONE_BY_ONE: ReadonlySet<string> = new Set([
  '$match',
  '$project',
  '$addFields',
  '$set',
  '$unset',
  '$unwind',
  '$redact',
  '$replaceRoot',
  '$replaceWith',
]);

const nameOf = (stage: Document | undefined): string => Object.keys(stage ?? {})[0] ?? '';

/** The two halves of a pipeline. */
export interface SplitPipeline {
  readonly shard: readonly Document[];
  readonly merge: readonly Document[];
}

/** Cuts a pipeline at the first stage that needs the documents of all shards. A limit there also limits every shard. */
export function splitPipeline(stages: readonly Document[]): SplitPipeline {
  const at = stages.findIndex((stage) => !ONE_BY_ONE.has(nameOf(stage)));
  if (at < 0) return { shard: stages, merge: [] };
  const shard = stages.slice(0, at);
  const merge = stages.slice(at);
  const [first, second] = merge.map(nameOf);
  if (first === '$limit') return { shard: [...shard, merge[0]!], merge };
  if (first === '$sort' && second === '$limit') return { shard: [...shard, merge[0]!, merge[1]!], merge };
  return { shard, merge };
}

/** A second half that begins by counting all documents into one: shards can count for themselves. */
export interface CountShape {
  /** The one document for a total, null where nothing was counted. */
  result(total: number): Document | null;
  readonly rest: readonly Document[];
}

/** Recognises `$count` and `$group` of a constant with one `{$sum: 1}`, as countDocuments sends it. */
export function countShape(merge: readonly Document[]): CountShape | null {
  const [first, ...rest] = merge;
  const named: unknown = first?.['$count'];
  if (typeof named === 'string')
    return { result: (total) => (total === 0 ? null : { [named]: total }), rest };
  const group: unknown = first?.['$group'];
  if (!isDocument(group)) return null;
  const { _id, ...fields } = group;
  const [field, accumulator] = Object.entries(fields)[0] ?? [];
  const constant = _id === null || isNumeric(_id);
  const counts = isDocument(accumulator) && toNumber(accumulator['$sum']) === 1;
  if (!constant || !counts || field === undefined || Object.keys(fields).length !== 1) return null;
  return { result: (total) => (total === 0 ? null : { _id, [field]: total }), rest };
}

/** Collections besides its own that a pipeline reads, by name. */
export function foreignCollections(stages: readonly Document[]): readonly string[] {
  const names = new Set<string>();
  for (const stage of stages) {
    const body: unknown = stage[nameOf(stage)];
    const add = (name: unknown): void => void (typeof name === 'string' && names.add(name));
    const inner = (pipeline: unknown): void => {
      if (Array.isArray(pipeline)) for (const name of foreignCollections(pipeline)) names.add(name);
    };
    switch (nameOf(stage)) {
      case '$lookup':
      case '$graphLookup':
        if (!isDocument(body)) break;
        add(body['from']);
        inner(body['pipeline']);
        break;
      case '$unionWith':
        add(isDocument(body) ? body['coll'] : body);
        if (isDocument(body)) inner(body['pipeline']);
        break;
      case '$facet':
        if (isDocument(body)) for (const pipeline of Object.values(body)) inner(pipeline);
        break;
    }
  }
  return [...names];
}
