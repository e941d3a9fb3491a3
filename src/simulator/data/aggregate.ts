/**
 * Aggregation pipelines: each stage is compiled to a function from documents to documents and run in order.
 * `$out` and `$merge` are writes and belong to the caller, who has the session; here they are refused.
 */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, render } from './bson.ts';
import type { MatchContext } from './match.ts';
import { select } from './reader.ts';
import type { PipelineContext, Stage, StageContext } from './stage-types.ts';
import { SOURCE_STAGES, STAGES } from './stages.ts';

/** Runs a pipeline. Errors: 40323, 40324, 73 and those of the stages. */
export function runPipeline(pipeline: readonly Document[], outside: PipelineContext): Document[] {
  const context = stageContext(outside);
  const names = pipeline.map(stageName);
  const head = names[0] !== undefined && Object.hasOwn(SOURCE_STAGES, names[0]) ? names[0] : undefined;
  const rest = head === undefined ? pipeline : pipeline.slice(1);
  const stages = rest.map((stage) => compileStage(stage, context));
  if (head !== undefined) {
    return stages.reduce(
      (documents, stage) => stage(documents),
      SOURCE_STAGES[head]!(pipeline[0]![head], context),
    );
  }
  if (outside.ns === null) {
    if (names[0] === undefined) return [];
    throw new ServerError(
      73,
      'InvalidNamespace',
      `{aggregate: 1} is not valid for '${names[0]}'; a collection is required.`,
    );
  }
  return runOver(outside.ns, pipeline, stages, outside);
}

/** A first `$match` is a query, which may find by `_id` and takes the hint. */
function runOver(
  ns: string,
  pipeline: readonly Document[],
  stages: readonly Stage[],
  outside: PipelineContext,
): Document[] {
  const collection = outside.source(ns);
  const first: unknown = pipeline[0]?.['$match'];
  const direct = collection !== undefined && collection.type !== 'view' && isDocument(first);
  if (!direct) {
    const documents =
      collection && outside.hint !== undefined && collection.type !== 'view'
        ? select(collection, { filter: {}, hint: outside.hint }).map(({ stored }) => stored.document)
        : [...outside.documents(ns)];
    return stages.reduce((current, stage) => stage(current), documents);
  }
  const found = select(collection, { filter: first, hint: outside.hint }, undefined, outside.context);
  const documents = found.map(({ stored }) => stored.document);
  return stages.slice(1).reduce((current, stage) => stage(current), documents);
}

/** Runs the stages an update pipeline may have on one document. */
export function runUpdatePipeline(
  pipeline: readonly Document[],
  document: Document,
  context: MatchContext,
): Document {
  const outside: PipelineContext = { ns: '', db: '', context, documents: () => [], source: () => undefined };
  const stages = pipeline.map((stage) => compileStage(stage, stageContext(outside)));
  return stages.reduce<Document[]>((documents, stage) => stage(documents), [document])[0]!;
}

function stageContext(outside: PipelineContext): StageContext {
  const variables = outside.context.variables ?? {};
  return {
    ...outside,
    variables,
    run: (pipeline, source, extra) => {
      const context = { ...outside.context, variables: { ...variables, ...extra } };
      if ('ns' in source)
        return runPipeline(pipeline, { ...outside, hint: undefined, ns: source.ns, context });
      const inner = stageContext({ ...outside, context });
      return pipeline
        .map((stage) => compileStage(stage, inner))
        .reduce<Document[]>((documents, stage) => stage(documents), [...source.documents]);
    },
  };
}

/** The one field of a stage. */
function stageName(stage: unknown): string {
  if (!isDocument(stage)) {
    throw new ServerError(14, 'TypeMismatch', "Each element of the 'pipeline' array must be an object");
  }
  const names = Object.keys(stage);
  if (names.length !== 1) {
    throw new ServerError(
      40323,
      'Location40323',
      'A pipeline stage specification object must contain exactly one field.',
    );
  }
  return names[0]!;
}

function compileStage(stage: Document, context: StageContext): Stage {
  const name = stageName(stage);
  if (Object.hasOwn(SOURCE_STAGES, name)) {
    throw new ServerError(40602, 'Location40602', `${name} is only valid as the first stage in a pipeline.`);
  }
  const compiler = Object.hasOwn(STAGES, name) ? STAGES[name] : undefined;
  if (!compiler) throw unknownStage(name, stage);
  return compiler(stage[name], context);
}

function unknownStage(name: string, stage: Document): ServerError {
  if (name === '$out' || name === '$merge') {
    return new ServerError(238, 'NotImplemented', `${render(stage)} cannot be run here: it writes`);
  }
  return new ServerError(40324, 'Location40324', `Unrecognized pipeline stage name: '${name}'`);
}
