/** insert, delete and update: the three batch writes. */
import type { Document } from 'bson';
import type { UpdateSpec } from '../contracts.ts';
import { checkShape, isDocument, required, rule, type Shape, toBoolean, toNumber } from './arguments.ts';
import { type Call, command, count, noteWrite, onCollection, writeContext, writeStamp } from './call.ts';
import { fail } from './errors.ts';
import { namespaceOf } from './namespaces.ts';
import { batchFields, checkBatchSize, checkRetryable, runBatch, type Statement } from './write-batch.ts';

const BATCH_SHAPE: Shape = {
  ordered: rule.flag,
  bypassDocumentValidation: rule.flag,
  stmtId: rule.number,
  stmtIds: rule.array,
  isTimeseriesNamespace: rule.bool,
  collectionUUID: rule.any,
  encryptionInformation: rule.object,
  bypassEmptyTsReplacement: rule.bool,
};

// ── insert ─────────────────────────────────────────────────────────────────────────────────────────────────────────

async function runInsert(call: Call): Promise<Document> {
  const ns = namespaceOf(call.command, call.db, true);
  const documents: Document[] = call.command['documents'];
  checkBatchSize(documents.length);
  let n = 0;
  const outcome = await runBatch(call, documents.length, (index) => ({
    run: (stmtId) => {
      noteWrite(call, call.view.insert(ns, documents[index]!, writeContext(call, stmtId)));
      n += 1;
    },
    replay: () => {
      n += 1;
    },
  }));
  return { n: count(n), ...writeStamp(call), ...batchFields(outcome) };
}

/** `insert`. */
export const insertCommand = command({
  name: 'insert',
  auth: onCollection('insert'),
  access: 'write',
  inTransaction: true,
  retryable: true,
  shape: { ...BATCH_SHAPE, insert: rule.any, documents: required(rule.array) },
  run: runInsert,
});

// ── delete ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const DELETE_SHAPE: Shape = {
  q: required(rule.object),
  limit: required(rule.number),
  hint: rule.hint,
  collation: rule.object,
  sampleId: rule.any,
};

interface DeleteStatement {
  readonly q: Document;
  readonly limit: 0 | 1;
  readonly hint?: Document | string;
  readonly collation?: Document;
}

function parseDelete(given: Document): DeleteStatement {
  checkShape('delete.deletes', given, DELETE_SHAPE);
  const limit = toNumber(given['limit']);
  if (limit !== 0 && limit !== 1) {
    throw fail(9, `The limit field in delete objects must be 0 or 1. Got ${limit}`);
  }
  return { ...(given as DeleteStatement), limit };
}

async function runDelete(call: Call): Promise<Document> {
  const ns = namespaceOf(call.command, call.db, true);
  const statements = (call.command['deletes'] as Document[]).map(parseDelete);
  checkBatchSize(statements.length);
  for (const statement of statements) checkRetryable(call, statement.limit === 0);
  let n = 0;
  const outcome = await runBatch(call, statements.length, (index) => ({
    run: (stmtId) => {
      n += deleteOne(call, ns, statements[index]!, stmtId);
    },
    replay: () => {
      n += 1;
    },
  }));
  return { n: count(n), ...writeStamp(call), ...batchFields(outcome) };
}

/** Runs one delete statement; gives how many documents went. */
export function deleteOne(call: Call, ns: string, statement: DeleteStatement, stmtId: number): number {
  const { q, limit, hint, collation } = statement;
  const variables: Document | undefined = call.command['let'];
  const outcome = call.view.delete(
    ns,
    {
      filter: q,
      limit,
      ...(hint === undefined ? {} : { hint }),
      ...(collation === undefined ? {} : { collation }),
      ...(variables === undefined ? {} : { let: variables }),
    },
    writeContext(call, stmtId),
  );
  return noteWrite(call, outcome).deleted;
}

/** `delete`. */
export const deleteCommand = command({
  name: 'delete',
  auth: onCollection('remove'),
  access: 'write',
  inTransaction: true,
  retryable: true,
  shape: { ...BATCH_SHAPE, delete: rule.any, deletes: required(rule.array), let: rule.object },
  run: runDelete,
});

// ── update ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const UPDATE_SHAPE: Shape = {
  q: required(rule.object),
  u: { types: ['object', 'array'], required: true },
  c: rule.object,
  upsert: rule.flag,
  multi: rule.flag,
  arrayFilters: rule.array,
  hint: rule.hint,
  collation: rule.object,
  sort: rule.object,
  upsertSupplied: rule.flag,
  sampleId: rule.any,
  allowShardKeyUpdatesWithoutFullShardKeyInQuery: rule.flag,
};

/** An update statement as the store wants it; 9 for what can't be combined. */
export function updateSpec(given: Document, variables: Document | undefined): UpdateSpec {
  const { q, u, arrayFilters, hint, collation, sort, c } = given;
  const multi = toBoolean(given['multi']);
  const replaces = isReplacement(u);
  if (multi && replaces) throw fail(9, 'multi update is not supported for replacement-style update');
  if (multi && sort !== undefined) throw fail(9, 'Cannot specify sort with multi=true');
  if (arrayFilters !== undefined && (replaces || Array.isArray(u))) {
    throw fail(
      9,
      `arrayFilters may not be specified for ${replaces ? 'replacement' : 'pipeline'}-style updates`,
    );
  }
  if (c !== undefined && !Array.isArray(u)) {
    throw fail(51198, 'Constant values may only be specified for pipeline updates');
  }
  const letVariables = c === undefined ? variables : { ...variables, ...c };
  return {
    filter: q,
    update: u,
    multi,
    upsert: toBoolean(given['upsert']),
    ...(arrayFilters === undefined ? {} : { arrayFilters }),
    ...(hint === undefined ? {} : { hint }),
    ...(collation === undefined ? {} : { collation }),
    ...(sort === undefined ? {} : { sort }),
    ...(letVariables === undefined ? {} : { let: letVariables }),
  };
}

/** True for a document that replaces: its first field is no operator. */
export function isReplacement(update: unknown): boolean {
  return isDocument(update) && !Object.keys(update)[0]?.startsWith('$');
}

interface UpdateTotals {
  n: number;
  nModified: number;
  readonly upserted: Document[];
}

function updateStatement(
  call: Call,
  ns: string,
  given: Document,
  index: number,
  totals: UpdateTotals,
): Statement {
  return {
    run: (stmtId) => {
      const outcome = noteWrite(
        call,
        call.view.update(ns, updateSpec(given, call.command['let']), writeContext(call, stmtId)),
      );
      totals.n += outcome.matched;
      totals.nModified += outcome.modified;
      if (outcome.upsertedId === undefined) return;
      totals.n += 1;
      totals.upserted.push({ index, _id: outcome.upsertedId });
    },
    replay: (recorded) => {
      totals.n += 1;
      if (recorded.op === 'i') totals.upserted.push({ index, _id: recorded.id });
      else totals.nModified += 1;
    },
  };
}

async function runUpdate(call: Call): Promise<Document> {
  const ns = namespaceOf(call.command, call.db, true);
  const updates: Document[] = call.command['updates'];
  checkBatchSize(updates.length);
  for (const given of updates) {
    checkShape('update.updates', given, UPDATE_SHAPE);
    checkRetryable(call, toBoolean(given['multi']));
  }
  const totals: UpdateTotals = { n: 0, nModified: 0, upserted: [] };
  const outcome = await runBatch(call, updates.length, (index) =>
    updateStatement(call, ns, updates[index]!, index, totals),
  );
  return {
    n: count(totals.n),
    ...writeStamp(call),
    ...(totals.upserted.length === 0 ? {} : { upserted: totals.upserted }),
    nModified: count(totals.nModified),
    ...batchFields(outcome),
  };
}

/** `update`. */
export const updateCommand = command({
  name: 'update',
  auth: onCollection('update', 'insert'),
  access: 'write',
  inTransaction: true,
  retryable: true,
  shape: { ...BATCH_SHAPE, update: rule.any, updates: required(rule.array), let: rule.object },
  run: runUpdate,
});
