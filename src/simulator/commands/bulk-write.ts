/** bulkWrite (8.0): many statements over many collections in one command. */
import type { Document } from 'bson';
import type { CommandContext, Privilege } from '../contracts.ts';
import { checkShape, isDocument, required, rule, type Shape, toBoolean, toNumber } from './arguments.ts';
import {
  type Call,
  command,
  count,
  loginOnly,
  noteWrite,
  privilege,
  writeContext,
  writeStamp,
} from './call.ts';
import { FIRST_BATCH, staticSource } from './cursors.ts';
import { fail } from './errors.ts';
import { cursorOptions } from './find.ts';
import { checkCollectionName, checkDbName, splitNamespace } from './namespaces.ts';
import type { RecordedStatement } from './sessions.ts';
import { checkBatchSize, checkRetryable, runBatch, type Statement } from './write-batch.ts';
import { deleteOne, updateSpec } from './writes.ts';

const NS = 'admin.$cmd.bulkWrite';

const OP_SHAPES: Readonly<Record<string, Shape>> = {
  insert: { insert: required(rule.number), document: required(rule.object) },
  update: {
    update: required(rule.number),
    filter: required(rule.object),
    updateMods: { types: ['object', 'array'], required: true },
    arrayFilters: rule.array,
    multi: rule.flag,
    upsert: rule.flag,
    hint: rule.hint,
    collation: rule.object,
    constants: rule.object,
    sort: rule.object,
    sampleId: rule.any,
    upsertSupplied: rule.flag,
  },
  delete: {
    delete: required(rule.number),
    filter: required(rule.object),
    multi: rule.flag,
    hint: rule.hint,
    collation: rule.object,
    sampleId: rule.any,
  },
};

type Kind = 'insert' | 'update' | 'delete';

interface Operation {
  readonly kind: Kind;
  readonly ns: string;
  readonly given: Document;
}

interface Totals {
  nErrors: number;
  nInserted: number;
  nMatched: number;
  nModified: number;
  nUpserted: number;
  nDeleted: number;
}

function parseOperations(call: Call): Operation[] {
  const namespaces: Document[] = call.command['nsInfo'];
  const names = namespaces.map((info) => {
    checkShape('bulkWrite.nsInfo', info, {
      ns: required(rule.string),
      collectionUUID: rule.any,
      encryptionInformation: rule.object,
      isTimeseriesNamespace: rule.bool,
    });
    const { db, collection } = splitNamespace(info['ns']);
    checkDbName(db);
    checkCollectionName(db, collection, true);
    return info['ns'] as string;
  });
  return (call.command['ops'] as Document[]).map((given) => parseOperation(call, given, names));
}

function parseOperation(call: Call, given: Document, names: readonly string[]): Operation {
  const kind = Object.keys(given)[0] as Kind;
  const shape = OP_SHAPES[kind];
  if (!isDocument(given) || shape === undefined) {
    throw fail(40415, `BSON field 'bulkWrite.ops.${kind}' is an unknown field.`);
  }
  checkShape(`bulkWrite.ops.${kind}`, given, shape);
  const index = toNumber(given[kind])!;
  const ns = names[index];
  if (ns === undefined) throw fail(2, `BulkWrite ops entry has an invalid nsInfo index.`);
  checkRetryable(call, toBoolean(given['multi']));
  return { kind, ns, given };
}

function runOperation(
  call: Call,
  operation: Operation,
  idx: number,
  totals: Totals,
  results: Document[],
): Statement {
  const note = (fields: Document) => results.push({ ok: 1, idx, ...fields });
  return {
    run: (stmtId) => {
      switch (operation.kind) {
        case 'insert':
          return runInsert(call, operation, stmtId, totals, note);
        case 'update':
          return runUpdate(call, operation, stmtId, totals, note);
        case 'delete': {
          const { filter, hint, collation, multi } = operation.given;
          const limit = toBoolean(multi) ? 0 : 1;
          const n = deleteOne(call, operation.ns, { q: filter, limit, hint, collation }, stmtId);
          totals.nDeleted += n;
          note({ n: count(n) });
        }
      }
    },
    replay: (recorded) => replay(operation, recorded, totals, note),
  };
}

function runInsert(
  call: Call,
  operation: Operation,
  stmtId: number,
  totals: Totals,
  note: (fields: Document) => void,
): void {
  noteWrite(call, call.view.insert(operation.ns, operation.given['document'], writeContext(call, stmtId)));
  totals.nInserted += 1;
  note({ n: 1 });
}

function runUpdate(
  call: Call,
  operation: Operation,
  stmtId: number,
  totals: Totals,
  note: (fields: Document) => void,
): void {
  const { filter, updateMods, constants, ...rest } = operation.given;
  const spec = updateSpec(
    { ...rest, q: filter, u: updateMods, ...(constants === undefined ? {} : { c: constants }) },
    call.command['let'],
  );
  const outcome = noteWrite(call, call.view.update(operation.ns, spec, writeContext(call, stmtId)));
  const upserted = outcome.upsertedId === undefined ? {} : { upserted: { _id: outcome.upsertedId } };
  const inserted = outcome.upsertedId === undefined ? 0 : 1;
  totals.nMatched += outcome.matched;
  totals.nModified += outcome.modified;
  totals.nUpserted += inserted;
  note({ n: count(outcome.matched + inserted), nModified: count(outcome.modified), ...upserted });
}

function replay(
  operation: Operation,
  recorded: RecordedStatement,
  totals: Totals,
  note: (fields: Document) => void,
): void {
  if (operation.kind === 'insert') {
    totals.nInserted += 1;
    note({ n: 1 });
  } else if (operation.kind === 'delete') {
    totals.nDeleted += 1;
    note({ n: 1 });
  } else if (recorded.op === 'i') {
    totals.nUpserted += 1;
    note({ n: 1, nModified: 0, upserted: { _id: recorded.id } });
  } else {
    totals.nMatched += 1;
    totals.nModified += 1;
    note({ n: 1, nModified: 1 });
  }
}

async function runBulkWrite(call: Call): Promise<Document> {
  if (Number.parseInt(call.node.version, 10) < 8) throw fail(59, "no such command: 'bulkWrite'");
  const { command: given } = call;
  checkBatchSize((given['ops'] as Document[]).length);
  const operations = parseOperations(call);
  const totals: Totals = { nErrors: 0, nInserted: 0, nMatched: 0, nModified: 0, nUpserted: 0, nDeleted: 0 };
  const results: Document[] = [];
  const outcome = await runBatch(call, operations.length, (index) =>
    runOperation(call, operations[index]!, index, totals, results),
  );
  for (const { index, code, errmsg, ...extra } of outcome.writeErrors) {
    totals.nErrors += 1;
    const failed = operations[index]!;
    const nModified = failed.kind === 'update' ? { nModified: 0 } : {};
    results.push({ ok: 0, idx: index, code, errmsg, ...extra, n: 0, ...nModified });
  }
  results.sort((left, right) => left['idx'] - right['idx']);
  const shown = toBoolean(given['errorsOnly']) ? results.filter((result) => result['ok'] === 0) : results;
  const batchSize = toNumber(given['cursor']?.batchSize) ?? Math.max(FIRST_BATCH, shown.length);
  return {
    ...call.services.cursors.first(
      call.context,
      NS,
      staticSource(shown, true),
      batchSize,
      cursorOptions(call),
    ),
    ...Object.fromEntries(Object.entries(totals).map(([key, value]) => [key, count(value)])),
    ...(outcome.retriedStmtIds.length === 0 ? {} : { retriedStmtIds: outcome.retriedStmtIds }),
    ...writeStamp(call),
  };
}

function bulkPrivileges(context: CommandContext): readonly Privilege[] {
  const namespaces: Document[] = Array.isArray(context.command['nsInfo']) ? context.command['nsInfo'] : [];
  const operations: Document[] = Array.isArray(context.command['ops']) ? context.command['ops'] : [];
  const needed = operations.flatMap((operation) => {
    const kind = Object.keys(operation)[0] ?? '';
    const ns: unknown = namespaces[toNumber(operation[kind]) ?? -1]?.['ns'];
    if (typeof ns !== 'string') return [];
    const { db, collection } = splitNamespace(ns);
    const actions = kind === 'delete' ? ['remove'] : kind === 'update' ? ['update'] : ['insert'];
    if (kind === 'update' && toBoolean(operation['upsert'])) actions.push('insert');
    return [privilege(db, collection, ...actions)];
  });
  return needed.length > 0 ? needed : loginOnly(context);
}

/** `bulkWrite`. */
export const bulkWriteCommand = command({
  name: 'bulkWrite',
  adminOnly: true,
  auth: bulkPrivileges,
  access: 'write',
  inTransaction: true,
  retryable: true,
  shape: {
    bulkWrite: rule.number,
    ops: required(rule.array),
    nsInfo: required(rule.array),
    cursor: rule.object,
    bypassDocumentValidation: rule.flag,
    ordered: rule.flag,
    let: rule.object,
    errorsOnly: rule.flag,
    stmtId: rule.number,
    stmtIds: rule.array,
  },
  run: runBulkWrite,
});
