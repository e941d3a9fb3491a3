/** Stages that bring documents together: `$group`, `$sortByCount`, `$bucket`, `$bucketAuto`. */
import { type Document, Int32 } from 'bson';
import { isDocument, render, toInteger, toNumber } from './bson.ts';
import { type Collator, compareValues, valueKey } from './compare.ts';
import { type Accumulator, compileAccumulator } from './expr-accumulate.ts';
import { type Evaluator, located, type Variables } from './expr-types.ts';
import { compileExpression, scopeOf } from './expression.ts';
import type { StageCompiler } from './stage-types.ts';

interface Field {
  readonly name: string;
  readonly make: (collator?: Collator) => Accumulator;
}

function compileFields(output: Document): Field[] {
  return Object.entries(output).map(([name, spec]) => {
    if (name.includes('.')) throw located(40235, `The field name '${name}' cannot contain '.'`);
    if (name.startsWith('$')) throw located(40236, `The field name '${name}' cannot be an operator name`);
    return { name, make: compileAccumulator(name, spec, compileExpression) };
  });
}

/** Groups by a key of each document; groups come in the order their first document came. */
function groupBy(
  documents: readonly Document[],
  keyOf: (document: Document) => unknown,
  fields: readonly Field[],
  variables: Variables,
  collator: Collator | undefined,
): Document[] {
  const groups = new Map<string, { id: unknown; accumulators: Accumulator[] }>();
  for (const document of documents) {
    const id = keyOf(document) ?? null;
    const key = valueKey(id, collator);
    let group = groups.get(key);
    if (!group) {
      group = { id, accumulators: fields.map(({ make }) => make(collator)) };
      groups.set(key, group);
    }
    const scope = scopeOf(document, variables, collator);
    for (const accumulator of group.accumulators) accumulator.add(scope);
  }
  return Array.from(groups.values(), ({ id, accumulators }) => {
    const result: Document = { _id: id };
    fields.forEach(({ name }, index) => {
      result[name] = accumulators[index]!.result();
    });
    return result;
  });
}

const group: StageCompiler = (operand, { context, variables }) => {
  if (!isDocument(operand)) throw located(15947, "a group's fields must be specified in an object");
  if (!Object.hasOwn(operand, '_id')) throw located(15955, 'a group specification must include an _id');
  const { _id, ...output } = operand;
  const id = compileExpression(_id);
  const fields = compileFields(output);
  return (documents) =>
    groupBy(
      documents,
      (document) => id(scopeOf(document, variables, context.collator)),
      fields,
      variables,
      context.collator,
    );
};

const sortByCount: StageCompiler = (operand, { context, variables }) => {
  const valid = (typeof operand === 'string' && operand.startsWith('$')) || isDocument(operand);
  if (!valid)
    throw located(
      40149,
      'the sortByCount field must be defined as a $-prefixed path or an expression inside an object',
    );
  const key = compileExpression(operand);
  const fields = compileFields({ count: { $sum: new Int32(1) } });
  return (documents) =>
    groupBy(
      documents,
      (document) => key(scopeOf(document, variables, context.collator)),
      fields,
      variables,
      context.collator,
    ).toSorted((left, right) => toNumber(right['count'])! - toNumber(left['count'])!);
};

const DEFAULT_OUTPUT: Document = { count: { $sum: new Int32(1) } };

const bucket: StageCompiler = (operand, { context, variables }) => {
  if (!isDocument(operand)) throw located(40201, 'Argument to $bucket stage must be an object');
  const boundaries: unknown = operand['boundaries'];
  if (operand['groupBy'] === undefined || boundaries === undefined) {
    throw located(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.");
  }
  const bounds = checkBoundaries(boundaries, context.collator);
  const by = compileExpression(operand['groupBy']);
  const fields = compileFields((operand['output'] as Document | undefined) ?? DEFAULT_OUTPUT);
  const hasDefault = Object.hasOwn(operand, 'default');
  const keyOf = (document: Document): unknown => {
    const value = by(scopeOf(document, variables, context.collator));
    const above = bounds.findIndex((bound) => compareValues(value ?? null, bound, context.collator) < 0);
    if (above > 0) return bounds[above - 1];
    if (hasDefault) return operand['default'];
    throw located(
      40066,
      '$switch could not find a matching branch for an input, and no default was specified.',
    );
  };
  return (documents) =>
    groupBy(documents, keyOf, fields, variables, context.collator).toSorted((left, right) =>
      compareValues(left['_id'], right['_id'], context.collator),
    );
};

function checkBoundaries(boundaries: unknown, collator: Collator | undefined): readonly unknown[] {
  if (!Array.isArray(boundaries)) {
    throw located(
      40200,
      `The $bucket 'boundaries' field must be an array, but found type: ${render(boundaries)}`,
    );
  }
  if (boundaries.length < 2) {
    throw located(
      40192,
      `The $bucket 'boundaries' field must have at least 2 values, but found ${boundaries.length} value(s).`,
    );
  }
  for (let at = 1; at < boundaries.length; at++) {
    if (compareValues(boundaries[at - 1], boundaries[at], collator) >= 0) {
      throw located(40194, "The 'boundaries' option to $bucket must be sorted in ascending order.");
    }
  }
  return boundaries;
}

const bucketAuto: StageCompiler = (operand, { context, variables }) => {
  if (!isDocument(operand)) throw located(40240, 'The argument to $bucketAuto must be an object');
  const buckets = toInteger(operand['buckets']);
  if (operand['groupBy'] === undefined || operand['buckets'] === undefined) {
    throw located(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified.");
  }
  if (buckets === undefined || buckets < 1)
    throw located(
      40243,
      `The $bucketAuto 'buckets' field must be greater than 0, but found: ${render(operand['buckets'])}`,
    );
  const by = compileExpression(operand['groupBy']);
  const fields = compileFields((operand['output'] as Document | undefined) ?? DEFAULT_OUTPUT);
  return (documents) => fillBuckets(documents, by, buckets, fields, variables, context.collator);
};

function fillBuckets(
  documents: readonly Document[],
  by: Evaluator,
  buckets: number,
  fields: readonly Field[],
  variables: Variables,
  collator: Collator | undefined,
): Document[] {
  const rows = documents
    .map((document) => ({ document, value: by(scopeOf(document, variables, collator)) ?? null }))
    .toSorted((left, right) => compareValues(left.value, right.value, collator));
  const size = Math.max(1, Math.round(rows.length / buckets));
  const parts: (typeof rows)[] = [];
  for (let at = 0; at < rows.length; ) {
    let end = parts.length === buckets - 1 ? rows.length : Math.min(rows.length, at + size);
    // Equal values stay in one bucket.
    while (end < rows.length && compareValues(rows[end]!.value, rows[end - 1]!.value, collator) === 0)
      end += 1;
    parts.push(rows.slice(at, end));
    at = end;
  }
  return parts.map((part, index) => {
    const [made] = groupBy(
      part.map(({ document }) => document),
      () => null,
      fields,
      variables,
      collator,
    );
    const max = parts[index + 1]?.[0]?.value ?? part.at(-1)!.value;
    return { ...made, _id: { min: part[0]!.value, max } };
  });
}

export const GROUP_STAGES: Readonly<Record<string, StageCompiler>> = {
  $group: group,
  $sortByCount: sortByCount,
  $bucket: bucket,
  $bucketAuto: bucketAuto,
};
