/** Aggregation pipelines. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import type { Collection } from './collection.ts';
import { compileFilter, type MatchContext } from './match.ts';

/** What stages see of the outside. */
export interface PipelineContext {
  readonly ns: string | null;
  readonly db: string;
  readonly context: MatchContext;
  readonly now: Date;
  /** All documents of a namespace, views resolved. */
  readonly documents: (ns: string) => Iterable<Document>;
  readonly source: (ns: string) => Collection | undefined;
}

/** Runs a pipeline. */
export function runPipeline(pipeline: readonly Document[], outside: PipelineContext): Document[] {
  let documents = outside.ns === null ? [] : [...outside.documents(outside.ns)];
  for (const stage of pipeline) {
    if ('$match' in stage)
      documents = documents.filter((d) => compileFilter(stage['$match'] as Document, outside.context)(d));
    else
      throw new ServerError(
        40324,
        'Location40324',
        `Unrecognized pipeline stage name: '${Object.keys(stage)[0]}'`,
      );
  }
  return documents;
}

/** Runs the stages an update pipeline may have on one document. */
export function runUpdatePipeline(
  _pipeline: readonly Document[],
  _document: Document,
  _context: MatchContext,
): Document {
  throw new ServerError(238, 'NotImplemented', 'pipelines are not there yet');
}
