/** What the stages of an aggregation pipeline share. */
import type { Document } from 'bson';
import type { Collection } from './collection.ts';
import type { Variables } from './expr-types.ts';
import type { MatchContext } from './match.ts';

/** What stages see of the outside. */
export interface PipelineContext {
  /** Null for a pipeline over the database (`aggregate: 1`). */
  readonly ns: string | null;
  readonly db: string;
  readonly context: MatchContext;
  readonly hint?: Document | string | undefined;
  /** All documents of a namespace, views resolved. */
  readonly documents: (ns: string) => Iterable<Document>;
  readonly source: (ns: string) => Collection | undefined;
}

/** A compiled stage. */
export type Stage = (documents: readonly Document[]) => Document[];

/** What a stage's compiler may use. */
export interface StageContext extends PipelineContext {
  readonly variables: Variables;
  /** Runs another pipeline, over a namespace or given documents, with more variables. */
  readonly run: (
    pipeline: readonly Document[],
    source: { readonly ns: string } | { readonly documents: readonly Document[] },
    variables?: Variables,
  ) => Document[];
}

export type StageCompiler = (operand: unknown, context: StageContext) => Stage;
