/** The stages that look at one document, or one run of documents, at a time. */
import { type Document, Int32, Long } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, isTruthy, render, toNumber, typeName, typeOf } from './bson.ts';
import type { Evaluator } from './expr-types.ts';
import { located } from './expr-types.ts';
import { compileExpression, REDACT, scopeOf } from './expression.ts';
import { compileFilter } from './match.ts';
import { fieldOf, pathOf, valueAt } from './path.ts';
import { compileProjection } from './project.ts';
import { compileSort } from './sort.ts';
import type { StageCompiler, StageContext } from './stage-types.ts';
import { GROUP_STAGES } from './stages-group.ts';
import { JOIN_STAGES } from './stages-join.ts';
import { WINDOW_STAGES } from './stages-window.ts';
import { changeAt, MISSING, withField, withoutField } from './update-paths.ts';

const match: StageCompiler = (operand, { context }) => {
  if (!isDocument(operand)) throw located(15959, 'the match filter must be an expression in an object');
  const matches = compileFilter(operand, context);
  return (documents) => documents.filter((document) => matches(document));
};

const project: StageCompiler = (operand, { context }) => {
  if (!isDocument(operand)) throw located(15969, '$project specification must be an object');
  if (Object.keys(operand).length === 0)
    throw located(
      51272,
      'Invalid $project :: caused by :: projection specification must have at least one field',
    );
  const apply = compileProjection(operand, { ...context, find: false });
  return (documents) => documents.map((document) => apply(document));
};

const unset: StageCompiler = (operand, { context }) => {
  const names = Array.isArray(operand) ? operand : [operand];
  if (names.length === 0 || names.some((name) => typeof name !== 'string' || name === '')) {
    throw located(31002, '$unset specification must be a string or an array with at least one field');
  }
  const fields = Object.fromEntries((names as string[]).map((name) => [name, new Int32(0)]));
  const apply = compileProjection(fields, { ...context, find: false });
  return (documents) => documents.map((document) => apply(document));
};

// ── $addFields ─────────────────────────────────────────────────────────────────────────────────────────────────────

interface Addition {
  readonly path: readonly string[];
  readonly evaluate: Evaluator;
}

function additions(fields: Document, prefix: readonly string[]): Addition[] {
  return Object.entries(fields).flatMap(([name, value]): Addition[] => {
    const path = [...prefix, ...pathOf(name)];
    if (path.includes('')) throw located(40352, 'FieldPath cannot be constructed with empty string');
    if (path.some((part) => part.startsWith('$'))) {
      throw located(
        16410,
        "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
      );
    }
    const first = isDocument(value) ? Object.keys(value)[0] : undefined;
    if (isDocument(value) && first !== undefined && !first.startsWith('$')) return additions(value, path);
    return [{ path, evaluate: compileExpression(value) }];
  });
}

/** Sets a value at a path, in every element of arrays on the way; undefined removes. */
function setComputed(value: unknown, path: readonly string[], at: number, computed: unknown): unknown {
  if (Array.isArray(value)) return value.map((element) => setComputed(element, path, at, computed));
  const name = path[at]!;
  const document = isDocument(value) ? value : {};
  if (at < path.length - 1) {
    const inner = setComputed(fieldOf(document, name), path, at + 1, computed);
    return withField(document, name, inner);
  }
  return computed === undefined ? withoutField(document, name) : withField(document, name, computed);
}

const addFields: StageCompiler = (operand, { context, variables }) => {
  if (!isDocument(operand))
    throw located(40272, `$addFields specification stage must be an object, got ${typeName(operand)}`);
  const fields = additions(operand, []);
  return (documents) =>
    documents.map((document) => {
      const scope = scopeOf(document, variables, context.collator);
      return fields.reduce<Document>(
        (result, { path, evaluate }) => setComputed(result, path, 0, evaluate(scope)) as Document,
        document,
      );
    });
};

const replaceRoot: StageCompiler = (operand, context) => {
  if (!isDocument(operand) || !('newRoot' in operand)) {
    throw located(40231, 'no newRoot specified for the $replaceRoot stage');
  }
  return replaceWith(operand['newRoot'], context);
};

const replaceWith: StageCompiler = (operand, { context, variables }) => {
  const evaluate = compileExpression(operand);
  return (documents) =>
    documents.map((document) => {
      const root = evaluate(scopeOf(document, variables, context.collator));
      if (isDocument(root)) return root;
      throw located(
        40228,
        `'newRoot' expression  must evaluate to an object, but resulting value was: ${root === undefined ? 'MISSING' : render(root)}. Type of resulting value: '${typeName(root)}'. Input document: ${render(document)}`,
      );
    });
};

const redact: StageCompiler = (operand, { context, variables }) => {
  const evaluate = compileExpression(operand);
  const prune = (value: unknown, root: Document): unknown => {
    if (Array.isArray(value))
      return value.map((element) => prune(element, root)).filter((element) => element !== undefined);
    if (!isDocument(value)) return value;
    const verdict = evaluate({ ...scopeOf(root, variables, context.collator), current: value });
    if (verdict === REDACT.PRUNE) return undefined;
    if (verdict === REDACT.KEEP) return value;
    if (verdict !== REDACT.DESCEND) {
      throw located(
        17053,
        "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and $$PRUNE",
      );
    }
    const fields = Object.entries(value).map(([name, field]) => [name, prune(field, root)] as const);
    return Object.fromEntries(fields.filter(([, field]) => field !== undefined));
  };
  return (documents) =>
    documents.flatMap((document) => {
      const kept = prune(document, document);
      return kept === undefined ? [] : [kept as Document];
    });
};

// ── $unwind ────────────────────────────────────────────────────────────────────────────────────────────────────────

interface Unwind {
  readonly path: readonly string[];
  readonly index: readonly string[] | undefined;
  readonly preserve: boolean;
}

function unwindOptions(operand: unknown): Unwind {
  const options: Document = isDocument(operand) ? operand : { path: operand };
  const path: unknown = options['path'];
  if (path === undefined) throw located(28812, 'no path specified to $unwind stage');
  if (typeof path !== 'string') {
    throw located(
      isDocument(operand) ? 28808 : 15981,
      `expected a string as the path for $unwind stage, got ${typeName(path)}`,
    );
  }
  if (!path.startsWith('$'))
    throw located(28818, `path option to $unwind stage should be prefixed with a '$': ${path}`);
  const index: unknown = options['includeArrayIndex'];
  if (index !== undefined && (typeof index !== 'string' || index === '')) {
    throw located(
      28810,
      `expected a non-empty string for the includeArrayIndex option to $unwind stage, got ${typeName(index)}`,
    );
  }
  return {
    path: pathOf(path.slice(1)),
    index: index === undefined ? undefined : pathOf(index as string),
    preserve: isTruthy(options['preserveNullAndEmptyArrays']),
  };
}

const unwind: StageCompiler = (operand) => {
  const { path, index, preserve } = unwindOptions(operand);
  const withIndex = (document: Document, at: number | null): Document =>
    index === undefined
      ? document
      : (changeAt(document, index, () => (at === null ? null : Long.fromNumber(at))) as Document);
  const expand = (document: Document): Document[] => {
    const value = valueAt(document, path);
    if (Array.isArray(value) && value.length > 0) {
      return value.map((element, at) => withIndex(changeAt(document, path, () => element) as Document, at));
    }
    const nothing = value === undefined || value === null || Array.isArray(value);
    if (nothing && !preserve) return [];
    const bare = Array.isArray(value) ? (changeAt(document, path, () => MISSING) as Document) : document;
    return [withIndex(bare, null)];
  };
  return (documents) => documents.flatMap(expand);
};

// ── order and number ───────────────────────────────────────────────────────────────────────────────────────────────

const sort: StageCompiler = (operand, { context }) => {
  if (!isDocument(operand)) throw located(15973, 'the $sort key specification must be an object');
  if (Object.keys(operand).length === 0) throw located(15976, '$sort stage must have at least one sort key');
  const compare = compileSort(operand, context.collator);
  return (documents) => documents.toSorted(compare);
};

function amount(operand: unknown, name: string, code: number): number {
  const value = toNumber(operand);
  if (value === undefined) {
    throw located(
      code,
      `invalid argument to ${name} stage: Expected a number in: ${name}: ${render(operand)}`,
    );
  }
  if (!Number.isInteger(value)) {
    throw located(
      code,
      `invalid argument to ${name} stage: Expected an integer: ${name}: ${render(operand)}`,
    );
  }
  if (value < 0) {
    throw located(
      code,
      `invalid argument to ${name} stage: Expected a non-negative number in: ${name}: ${render(operand)}`,
    );
  }
  return value;
}

const limit: StageCompiler = (operand) => {
  const count = amount(operand, '$limit', 2107201);
  if (count === 0) throw located(15958, 'the limit must be positive');
  return (documents) => documents.slice(0, count);
};

const skip: StageCompiler = (operand) => {
  const count = amount(operand, '$skip', 5107200);
  return (documents) => documents.slice(count);
};

const sample: StageCompiler = (operand) => {
  if (!isDocument(operand)) throw located(28745, 'the $sample stage specification must be an object');
  if (operand['size'] === undefined) throw located(28749, '$sample stage must specify a size');
  const size = toNumber(operand['size']);
  if (size === undefined) throw located(28746, 'size argument to $sample must be a number');
  if (size <= 0) throw located(28747, 'size argument to $sample must be a positive integer');
  return (documents) => shuffle(documents).slice(0, size);
};

function shuffle(documents: readonly Document[]): Document[] {
  const result = [...documents];
  for (let at = result.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [result[at], result[other]] = [result[other]!, result[at]!];
  }
  return result;
}

const count: StageCompiler = (operand) => {
  if (typeof operand !== 'string' || operand === '')
    throw located(40156, 'the count field must be a non-empty string');
  if (operand.startsWith('$')) throw located(40158, 'the count field cannot be a $-prefixed path');
  if (operand.includes('.')) throw located(40160, "the count field cannot contain '.'");
  return (documents) => (documents.length === 0 ? [] : [{ [operand]: new Int32(documents.length) }]);
};

const geoNear: StageCompiler = () => {
  throw new ServerError(27, 'IndexNotFound', '$geoNear requires a 2d or 2dsphere index, but none were found');
};

const ignored: StageCompiler = () => (documents) => [...documents];

export const STAGES: Readonly<Record<string, StageCompiler>> = {
  $match: match,
  $project: project,
  $addFields: addFields,
  $set: addFields,
  $unset: unset,
  $replaceRoot: replaceRoot,
  $replaceWith: replaceWith,
  $redact: redact,
  $unwind: unwind,
  $sort: sort,
  $limit: limit,
  $skip: skip,
  $sample: sample,
  $count: count,
  $geoNear: geoNear,
  $_internalInhibitOptimization: ignored,
  ...GROUP_STAGES,
  ...JOIN_STAGES,
  ...WINDOW_STAGES,
};

// ── sources ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Source = (operand: unknown, context: StageContext) => Document[];

const documentsStage: Source = (operand, { variables }) => {
  const value = compileExpression(operand)(scopeOf({}, variables));
  if (!Array.isArray(value)) {
    throw located(5858203, `an array is expected in $documents: ${render(operand)}`);
  }
  return value.map((entry) => {
    if (typeOf(entry) !== 3) throw located(40228, '$documents: each element must be an object');
    return entry as Document;
  });
};

function sourceCollection(context: StageContext, name: string) {
  if (context.ns === null) {
    throw new ServerError(
      73,
      'InvalidNamespace',
      `{aggregate: 1} is not valid for '${name}'; a collection is required.`,
    );
  }
  return { ns: context.ns, collection: context.source(context.ns) };
}

const collStats: Source = (operand, context) => {
  const { ns, collection } = sourceCollection(context, '$collStats');
  const asked = isDocument(operand) ? operand : {};
  const total = new Int32(collection?.count ?? 0);
  return [
    {
      ns,
      ...('storageStats' in asked && {
        storageStats: {
          size: new Int32(collection?.sizeBytes ?? 0),
          count: total,
          nindexes: new Int32(collection?.indexes.length ?? 0),
        },
      }),
      ...('count' in asked && { count: total }),
    },
  ];
};

const indexStats: Source = (_operand, context) =>
  (sourceCollection(context, '$indexStats').collection?.indexes ?? []).map(({ spec }) => ({
    name: spec['name'],
    key: spec['key'],
    accesses: { ops: Long.ZERO },
    spec,
  }));

/** Stages that make documents of their own; only valid first. */
export const SOURCE_STAGES: Readonly<Record<string, Source>> = {
  $documents: documentsStage,
  $collStats: collStats,
  $indexStats: indexStats,
};
