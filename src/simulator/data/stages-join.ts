/** Stages that read other collections or run pipelines inside: `$lookup`, `$graphLookup`, `$unionWith`, `$facet`. */
import { type Document, Long } from 'bson';
import { isDocument, toInteger, typeName } from './bson.ts';
import { type Collator, valueKey } from './compare.ts';
import { located } from './expr-types.ts';
import { compileExpression, scopeOf } from './expression.ts';
import { compileFilter } from './match.ts';
import { keyValues, pathOf, valueAt, visitPath } from './path.ts';
import type { StageCompiler, StageContext } from './stage-types.ts';
import { changeAt } from './update-paths.ts';

/** The values `localField` stands for: elements of arrays, null when missing. */
function localValues(document: Document, path: readonly string[]): unknown[] {
  const values: unknown[] = [];
  visitPath(document, path, (value) => {
    if (Array.isArray(value)) values.push(...value);
    else values.push(value ?? null);
    return false;
  });
  return values;
}

/** Foreign documents by the values of a field, as an equality would find them. */
function byForeignField(
  documents: Iterable<Document>,
  path: readonly string[],
  collator: Collator | undefined,
) {
  const found = new Map<string, Document[]>();
  const order = new Map<Document, number>();
  for (const document of documents) {
    order.set(document, order.size);
    const whole = valueAt(document, path);
    const values = [...keyValues(document, path), ...(Array.isArray(whole) ? [whole] : [])];
    for (const key of new Set(values.map((value) => valueKey(value ?? null, collator)))) {
      const list = found.get(key);
      if (list) list.push(document);
      else found.set(key, [document]);
    }
  }
  return (values: readonly unknown[]): Document[] => {
    const hits = new Set(values.flatMap((value) => found.get(valueKey(value, collator)) ?? []));
    return [...hits].toSorted((left, right) => order.get(left)! - order.get(right)!);
  };
}

interface Lookup {
  readonly from: string | undefined;
  readonly as: readonly string[];
  readonly localField: readonly string[] | undefined;
  readonly foreignField: readonly string[] | undefined;
  readonly pipeline: readonly Document[] | undefined;
  readonly variables: Document;
}

function lookupOptions(operand: unknown): Lookup {
  if (!isDocument(operand)) throw located(9, `the $lookup specification must be an Object`);
  const { from, as, localField, foreignField, pipeline } = operand;
  if (typeof as !== 'string') throw located(9, "must specify 'as' field for a $lookup");
  if (typeof from !== 'string' && !isDocument(from) && pipeline === undefined) {
    throw located(9, "must specify 'from' field for a $lookup");
  }
  if (
    (localField === undefined) !== (foreignField === undefined) ||
    (pipeline === undefined && localField === undefined)
  ) {
    throw located(9, "$lookup requires both or neither of 'localField' and 'foreignField' to be specified");
  }
  return {
    from: typeof from === 'string' ? from : isDocument(from) ? String(from['coll']) : undefined,
    as: pathOf(as),
    localField: typeof localField === 'string' ? pathOf(localField) : undefined,
    foreignField: typeof foreignField === 'string' ? pathOf(foreignField) : undefined,
    pipeline: pipeline as readonly Document[] | undefined,
    variables: (operand['let'] as Document | undefined) ?? {},
  };
}

const lookup: StageCompiler = (operand, outside) => {
  const options = lookupOptions(operand);
  const ns = options.from === undefined ? undefined : `${outside.db}.${options.from}`;
  const variables = Object.entries(options.variables).map(
    ([name, value]) => [name, compileExpression(value)] as const,
  );
  return (documents) => {
    const { collator } = outside.context;
    const joined =
      options.foreignField && ns !== undefined
        ? byForeignField(outside.documents(ns), options.foreignField, collator)
        : undefined;
    return documents.map((document) => {
      const scope = scopeOf(document, outside.variables, collator);
      const given = Object.fromEntries(variables.map(([name, value]) => [name, value(scope)]));
      const hits = joined?.(localValues(document, options.localField!));
      const found = options.pipeline ? runInner(outside, options.pipeline, ns, hits, given) : hits!;
      return changeAt(document, options.as, () => found) as Document;
    });
  };
};

function runInner(
  outside: StageContext,
  pipeline: readonly Document[],
  ns: string | undefined,
  hits: readonly Document[] | undefined,
  variables: Document,
): Document[] {
  if (hits) return outside.run(pipeline, { documents: hits }, variables);
  return outside.run(pipeline, { ns: ns ?? `${outside.db}.$none` }, variables);
}

// ── $graphLookup ───────────────────────────────────────────────────────────────────────────────────────────────────

const graphLookup: StageCompiler = (operand, outside) => {
  if (!isDocument(operand))
    throw located(
      40327,
      `the $graphLookup stage specification must be an object, but found ${typeName(operand)}`,
    );
  for (const name of ['from', 'as', 'startWith', 'connectFromField', 'connectToField']) {
    if (operand[name] === undefined) throw located(40105, `$graphLookup requires '${name}' to be specified`);
  }
  const start = compileExpression(operand['startWith']);
  const restrict = isDocument(operand['restrictSearchWithMatch'])
    ? compileFilter(operand['restrictSearchWithMatch'], outside.context)
    : undefined;
  const maxDepth =
    operand['maxDepth'] === undefined ? Number.POSITIVE_INFINITY : (toInteger(operand['maxDepth']) ?? 0);
  const depthField = operand['depthField'] as string | undefined;
  const from = pathOf(operand['connectFromField'] as string);
  const to = pathOf(operand['connectToField'] as string);
  return (documents) => {
    const all = [...outside.documents(`${outside.db}.${String(operand['from'])}`)];
    const find = byForeignField(
      restrict ? all.filter((document) => restrict(document)) : all,
      to,
      outside.context.collator,
    );
    return documents.map((document) => {
      const first = start(scopeOf(document, outside.variables, outside.context.collator));
      const reached = traverse(Array.isArray(first) ? first : [first ?? null], find, from, maxDepth);
      const found = reached.map(([hit, depth]) =>
        depthField === undefined
          ? hit
          : (changeAt(hit, pathOf(depthField), () => Long.fromNumber(depth)) as Document),
      );
      return changeAt(document, pathOf(operand['as'] as string), () => found) as Document;
    });
  };
};

function traverse(
  start: readonly unknown[],
  find: (values: readonly unknown[]) => Document[],
  from: readonly string[],
  maxDepth: number,
): [Document, number][] {
  const seen = new Map<Document, number>();
  let frontier = start;
  for (let depth = 0; depth <= maxDepth && frontier.length > 0; depth++) {
    const fresh = find(frontier).filter((document) => !seen.has(document));
    for (const document of fresh) seen.set(document, depth);
    frontier = fresh.flatMap((document) => localValues(document, from));
  }
  return [...seen];
}

// ── $unionWith and $facet ──────────────────────────────────────────────────────────────────────────────────────────

const unionWith: StageCompiler = (operand, outside) => {
  const options: Document = typeof operand === 'string' ? { coll: operand } : (operand as Document);
  if (!isDocument(options)) {
    throw located(
      9,
      `the $unionWith stage specification must be an object or string, but found ${typeName(operand)}`,
    );
  }
  const { coll, pipeline = [] } = options;
  if (coll === undefined && (pipeline as Document[]).length === 0) {
    throw located(
      9,
      '$unionWith stage without explicit collection must have a pipeline with $documents as first stage',
    );
  }
  const ns = coll === undefined ? `${outside.db}.$none` : `${outside.db}.${String(coll)}`;
  return (documents) => [...documents, ...outside.run(pipeline as Document[], { ns })];
};

const NOT_IN_FACET = new Set([
  '$collStats',
  '$facet',
  '$geoNear',
  '$indexStats',
  '$out',
  '$merge',
  '$planCacheStats',
  '$documents',
]);

const facet: StageCompiler = (operand, outside) => {
  if (!isDocument(operand) || Object.keys(operand).length === 0) {
    throw located(40169, 'the $facet specification must be a non-empty object');
  }
  for (const [name, pipeline] of Object.entries(operand)) {
    if (!Array.isArray(pipeline))
      throw located(40170, `arguments to $facet must be arrays, ${name} is type ${typeName(pipeline)}`);
    for (const stage of pipeline as Document[]) {
      const stageName = Object.keys(stage)[0] ?? '';
      if (NOT_IN_FACET.has(stageName))
        throw located(40600, `${stageName} is not allowed to be used within a $facet stage`);
    }
  }
  return (documents) => [
    Object.fromEntries(
      Object.entries(operand).map(([name, pipeline]) => [
        name,
        outside.run(pipeline as Document[], { documents }),
      ]),
    ),
  ];
};

export const JOIN_STAGES: Readonly<Record<string, StageCompiler>> = {
  $lookup: lookup,
  $graphLookup: graphLookup,
  $unionWith: unionWith,
  $facet: facet,
};
