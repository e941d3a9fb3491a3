/** bulkWrite: its statements as inserts, updates and deletes, each where it belongs. */
import { type Document, Int32 } from 'bson';
import { isDocument, toBoolean, toNumber } from '../commands/arguments.ts';
import { count } from '../commands/call.ts';
import { FIRST_BATCH, staticSource } from '../commands/cursors.ts';
import { fail } from '../commands/errors.ts';
import { checkBatchSize } from '../commands/write-batch.ts';
import type { BatchTotals } from '../sharding/batch.ts';
import type { RouteCall } from './call.ts';
import { DELETE, INSERT, runBatch, UPDATE, type WriteKind } from './writes.ts';

const NS = 'admin.$cmd.bulkWrite';

interface Operation {
  readonly kind: WriteKind;
  readonly ns: string;
  readonly statement: Document;
}

function operationOf(given: Document, namespaces: readonly Document[]): Operation {
  const name = Object.keys(given)[0] ?? '';
  const ns: unknown = namespaces[toNumber(given[name]) ?? -1]?.['ns'];
  if (typeof ns !== 'string') throw fail(2, 'BulkWrite ops entry has an invalid nsInfo index.');
  if (name === 'insert') return { kind: INSERT, ns, statement: given['document'] };
  const { filter: q, updateMods: u, constants: c, multi, ...rest } = given;
  delete rest[name];
  if (name === 'update')
    return {
      kind: UPDATE,
      ns,
      statement: {
        q,
        u,
        ...(multi === undefined ? {} : { multi }),
        ...(c === undefined ? {} : { c }),
        ...rest,
      },
    };
  if (name === 'delete')
    return { kind: DELETE, ns, statement: { q, limit: new Int32(toBoolean(multi) ? 0 : 1), ...rest } };
  throw fail(40415, `BSON field 'bulkWrite.ops.${name}' is an unknown field.`);
}

interface Sum {
  nErrors: number;
  nInserted: number;
  nMatched: number;
  nModified: number;
  nUpserted: number;
  nDeleted: number;
}

/** `bulkWrite`. */
export async function runBulkWrite(call: RouteCall): Promise<Document> {
  const { command } = call;
  const given: unknown = command['ops'];
  if (!Array.isArray(given)) throw fail(40414, "BSON field 'bulkWrite.ops' is missing but a required field");
  checkBatchSize(given.length);
  const operations = given.map((op: Document) => operationOf(op, command['nsInfo'] ?? []));
  const ordered = command['ordered'] === undefined || toBoolean(command['ordered']);
  const sum: Sum = { nErrors: 0, nInserted: 0, nMatched: 0, nModified: 0, nUpserted: 0, nDeleted: 0 };
  const results: Document[] = [];
  const concerns: Document[] = [];
  for (const [idx, operation] of operations.entries()) {
    const totals = await runOne(call, operation, idx);
    concerns.push(...totals.concernErrors);
    results.push(resultOf(operation, idx, totals, sum));
    if (ordered && totals.writeErrors.length > 0) break;
  }
  const shown = toBoolean(command['errorsOnly']) ? results.filter(({ ok }) => ok === 0) : results;
  const size = toNumber(command['cursor']?.batchSize) ?? Math.max(FIRST_BATCH, shown.length);
  const cursor = call.router.services.cursors.first(call.context, NS, staticSource(shown, true), size, {
    sessionKey: call.session?.key ?? null,
    txnNumber: null,
  });
  return {
    ...cursor,
    ...Object.fromEntries(Object.entries(sum).map(([name, value]) => [name, count(value)])),
    ...(concerns[0] === undefined ? {} : { writeConcernError: concerns[0] }),
  };
}

function runOne(call: RouteCall, { kind, ns, statement }: Operation, index: number): Promise<BatchTotals> {
  const shell: Document = { [kind.name]: ns.slice(ns.indexOf('.') + 1) };
  for (const field of ['let', 'bypassDocumentValidation', 'writeConcern', 'maxTimeMS', 'comment'])
    if (call.command[field] !== undefined) shell[field] = call.command[field];
  if (kind === INSERT) delete shell['let'];
  const ids: unknown = call.command['stmtIds'];
  const stmtId = Array.isArray(ids) ? (toNumber(ids[index]) ?? index) : index;
  return runBatch(call, { kind, ns, shell, ordered: true, statements: [{ index: 0, stmtId, statement }] });
}

function resultOf({ kind }: Operation, idx: number, totals: BatchTotals, sum: Sum): Document {
  const [error] = totals.writeErrors;
  if (error !== undefined) {
    sum.nErrors += 1;
    const { index: _index, ...rest } = error;
    return { ok: 0, idx, ...rest, n: 0, ...(kind === UPDATE ? { nModified: 0 } : {}) };
  }
  const { n, nModified } = totals;
  if (kind === INSERT) sum.nInserted += n;
  else if (kind === DELETE) sum.nDeleted += n;
  else {
    const [upserted] = totals.upserted;
    sum.nModified += nModified;
    sum.nUpserted += upserted === undefined ? 0 : 1;
    sum.nMatched += n - (upserted === undefined ? 0 : 1);
    const made = isDocument(upserted) ? { upserted: { _id: upserted['_id'] } } : {};
    return { ok: 1, idx, n: count(n), nModified: count(nModified), ...made };
  }
  return { ok: 1, idx, n: count(n) };
}
