/** explain: a plausible account of how a query would run. */
import type { Document } from 'bson';
import { Double } from 'bson';
import type { Pipeline } from './aggregate.ts';
import { isDocument, required, rule, toNumber } from './arguments.ts';
import { type Call, command } from './call.ts';
import { fail } from './errors.ts';
import { findSpec } from './find.ts';
import { namespaceOf } from './namespaces.ts';
import { pipe } from './pipe.ts';

type Verbosity = 'queryPlanner' | 'executionStats' | 'allPlansExecution';
const VERBOSITIES: ReadonlySet<string> = new Set(['queryPlanner', 'executionStats', 'allPlansExecution']);

interface Query {
  readonly ns: string;
  readonly filter: Document;
  readonly hint?: Document | string;
  readonly sort?: Document;
  readonly limit?: number;
}

/** The index a query uses: the hinted one, or one whose first field the filter names; null means a collection scan. */
function usableIndex(call: Call, query: Query): Document | null {
  const fields = new Set(Object.keys(query.filter));
  if (call.data.info(query.ns) === undefined) return null;
  const indexes = call.data.indexes(query.ns);
  if (query.hint !== undefined) return hinted(call, query, indexes);
  return (
    indexes.find(
      (index) =>
        fields.has(Object.keys(index['key'] as Document)[0] ?? '') &&
        coveredBy(call, query.filter, index['partialFilterExpression'] ?? {}),
    ) ?? null
  );
}

function hinted(call: Call, query: Query, indexes: readonly Document[]): Document | null {
  const { ns, filter, hint } = query;
  // The query itself knows which hints are none: error 2.
  call.data.find(ns, { filter, hint: hint!, limit: 1 });
  const wanted = JSON.stringify(hint);
  return indexes.find((index) => index['name'] === hint || JSON.stringify(index['key']) === wanted) ?? null;
}

/** True when everything the filter finds is in a partial index. Knows equality and upper or lower bounds. */
function coveredBy(call: Call, filter: Document, partial: Document): boolean {
  return Object.entries(partial).every(([field, wanted]) => {
    if (!Object.hasOwn(filter, field)) return false;
    const condition: unknown = filter[field];
    const bounds = isDocument(condition) ? Object.entries(condition) : [['$eq', condition] as const];
    return bounds.some(([operator, value]) => {
      const compares = ['$eq', '$lt', '$lte', '$gt', '$gte'].includes(operator);
      const sameSide =
        operator === '$eq' || Object.keys(wanted).some((key) => key.startsWith(operator.slice(0, 3)));
      return (
        compares && sameSide && pipe(call, [{ [field]: value }], [{ $match: { [field]: wanted } }]).length > 0
      );
    });
  });
}

function winningPlan(call: Call, query: Query): Document {
  if (call.data.info(query.ns) === undefined) return { stage: 'EOF' };
  const index = usableIndex(call, query);
  const filter = Object.keys(query.filter).length === 0 ? {} : { filter: query.filter };
  if (index === null) return { stage: 'COLLSCAN', ...filter, direction: 'forward' };
  if (
    index['name'] === '_id_' &&
    Object.keys(query.filter).length === 1 &&
    !isDocument(query.filter['_id'])
  ) {
    return { stage: 'IDHACK' };
  }
  return {
    stage: 'FETCH',
    inputStage: {
      stage: 'IXSCAN',
      keyPattern: index['key'],
      indexName: index['name'],
      isMultiKey: false,
      isUnique: index['unique'] === true,
      isSparse: index['sparse'] === true,
      isPartial: index['partialFilterExpression'] !== undefined,
      indexVersion: 2,
      direction: 'forward',
      indexBounds: {},
    },
  };
}

function planner(call: Call, query: Query): Document {
  const plan = winningPlan(call, query);
  const sorted =
    query.sort === undefined ? plan : { stage: 'SORT', sortPattern: query.sort, inputStage: plan };
  return {
    namespace: query.ns,
    parsedQuery: query.filter,
    indexFilterSet: false,
    optimizedPipeline: undefined,
    maxIndexedOrSolutionsReached: false,
    maxIndexedAndSolutionsReached: false,
    maxScansToExplodeReached: false,
    winningPlan:
      query.limit === undefined ? sorted : { stage: 'LIMIT', limitAmount: query.limit, inputStage: sorted },
    rejectedPlans: [],
  };
}

function execution(call: Call, query: Query, verbosity: Verbosity): Document {
  const found =
    call.data.info(query.ns) === undefined ? [] : call.data.find(query.ns, { filter: query.filter });
  const examined = usableIndex(call, query) === null ? call.data.count(query.ns) : found.length;
  return {
    executionSuccess: true,
    nReturned: query.limit === undefined ? found.length : Math.min(query.limit, found.length),
    executionTimeMillis: 0,
    totalKeysExamined: usableIndex(call, query) === null ? 0 : found.length,
    totalDocsExamined: examined,
    executionStages: { ...winningPlan(call, query), nReturned: found.length, executionTimeMillisEstimate: 0 },
    ...(verbosity === 'allPlansExecution' ? { allPlansExecution: [] } : {}),
  };
}

function serverInfo(call: Call): Document {
  const [host, port] = call.node.address.split(':');
  return { host, port: Number(port), version: call.node.version, gitVersion: 'simulator' };
}

function queryOf(call: Call, inner: Document): Query {
  const name = Object.keys(inner)[0]!;
  const ns = namespaceOf(inner, call.db);
  switch (name) {
    case 'find': {
      const { sort, limit, filter, hint } = findSpec(inner);
      return {
        ns,
        filter: filter ?? {},
        ...(sort === undefined ? {} : { sort }),
        ...(hint === undefined ? {} : { hint }),
        ...(limit === undefined ? {} : { limit }),
      };
    }
    case 'count':
    case 'distinct':
    case 'findAndModify':
    case 'findandmodify':
      return { ns, filter: inner['query'] ?? {} };
    case 'delete':
      return { ns, filter: inner['deletes']?.[0]?.q ?? {} };
    case 'update':
      return { ns, filter: inner['updates']?.[0]?.q ?? {} };
    default:
      throw fail(59, `Explain failed due to unknown command: ${name}`);
  }
}

/** The explain reply of an aggregate. */
export function explainAggregate(call: Call, pipeline: Pipeline, verbosity: Verbosity): Document {
  const match: unknown = pipeline.stages[0]?.['$match'];
  const query: Query = {
    ns: pipeline.ns ?? `${call.db}.$cmd.aggregate`,
    filter: isDocument(match) ? match : {},
  };
  const cursor = {
    queryPlanner: planner(call, query),
    ...(verbosity === 'queryPlanner' ? {} : { executionStats: execution(call, query, verbosity) }),
  };
  const rest = pipeline.stages.slice(isDocument(match) ? 1 : 0);
  const simple = rest.length === 0;
  return {
    explainVersion: '1',
    ...(simple ? cursor : { stages: [{ $cursor: cursor }, ...rest] }),
    ...tail(call, call.command),
  };
}

function tail(call: Call, inner: Document): Document {
  return {
    command: { ...inner, $db: call.db },
    serverInfo: serverInfo(call),
    serverParameters: { internalQueryFacetBufferSizeBytes: 104_857_600 },
  };
}

function runExplain(call: Call): Document {
  const inner: Document = call.command['explain'];
  const verbosity: unknown = call.command['verbosity'] ?? 'allPlansExecution';
  if (typeof verbosity !== 'string' || !VERBOSITIES.has(verbosity)) {
    throw fail(
      2,
      `Enumeration value '${String(verbosity)}' for field 'explain.verbosity' is not a valid value.`,
    );
  }
  if (inner['aggregate'] !== undefined) {
    const stages: Document[] = inner['pipeline'] ?? [];
    const ns = toNumber(inner['aggregate']) === 1 ? null : namespaceOf(inner, call.db);
    return { ...explainAggregate(call, { ns, stages }, verbosity as Verbosity), ok: new Double(1) };
  }
  const query = queryOf(call, inner);
  return {
    explainVersion: '1',
    queryPlanner: planner(call, query),
    ...(verbosity === 'queryPlanner'
      ? {}
      : { executionStats: execution(call, query, verbosity as Verbosity) }),
    ...tail(call, inner),
  };
}

/** `explain`. Needs what the explained command needs to read. */
export const explainCommand = command({
  name: 'explain',
  auth: (context) => {
    const inner: unknown = context.command['explain'];
    const name: unknown = isDocument(inner) ? inner[Object.keys(inner)[0]!] : '';
    return [
      { resource: { db: context.db, collection: typeof name === 'string' ? name : '' }, actions: ['find'] },
    ];
  },
  access: 'read',
  readConcern: true,
  shape: { explain: required(rule.object), verbosity: rule.string },
  run: runExplain,
});
