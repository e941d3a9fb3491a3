/** findAndModify: one document changed and given back, before or after. */
import type { Document } from 'bson';
import { isDocument, rule, toBoolean } from './arguments.ts';
import { type Call, command, noteWrite, privilege, writeContext } from './call.ts';
import { fail } from './errors.ts';
import { collectionNamed, namespaceOf } from './namespaces.ts';
import { pipe } from './pipe.ts';
import type { RecordedStatement } from './sessions.ts';
import { injectTransactionalFailure } from './write-batch.ts';
import { updateSpec } from './writes.ts';

interface Outcome {
  readonly lastErrorObject: Document;
  readonly value: Document | null;
}

function check(given: Document): void {
  const { update } = given;
  const remove = toBoolean(given['remove']);
  if (update === undefined && !remove) throw fail(9, 'Either an update or remove=true must be specified');
  if (!remove) return;
  if (update !== undefined) throw fail(9, 'Cannot specify both an update and remove=true');
  if (toBoolean(given['upsert'])) throw fail(9, 'Cannot specify both upsert=true and remove=true ');
  if (toBoolean(given['new'])) {
    throw fail(
      9,
      "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
    );
  }
  if (given['arrayFilters'] !== undefined) throw fail(9, 'Cannot specify arrayFilters and remove=true');
}

function runFindAndModify(call: Call): Document {
  const { command: given, retryable } = call;
  const ns = namespaceOf(given, call.db, true);
  check(given);
  const recorded = retryable?.session.statements.get(0);
  const outcome = recorded ? replay(call, recorded) : execute(call, ns);
  return {
    lastErrorObject: outcome.lastErrorObject,
    value: outcome.value,
    ...(recorded ? { retriedStmtId: 0 } : {}),
  };
}

function execute(call: Call, ns: string): Outcome {
  if (call.retryable !== null) injectTransactionalFailure(call);
  const outcome = toBoolean(call.command['remove']) ? remove(call, ns) : update(call, ns);
  keepImage(call, outcome);
  return outcome;
}

function selection(given: Document): Document {
  const selected: Document = {};
  for (const key of ['sort', 'hint', 'collation', 'let'] as const) {
    const value: unknown = given[key];
    if (value !== undefined && value !== null && !(key === 'sort' && Object.keys(value).length === 0)) {
      selected[key] = value;
    }
  }
  return selected;
}

function remove(call: Call, ns: string): Outcome {
  const { command: given } = call;
  const outcome = noteWrite(
    call,
    call.view.delete(ns, { filter: given['query'] ?? {}, limit: 1, ...selection(given) }, writeContext(call)),
  );
  return { lastErrorObject: { n: outcome.deleted }, value: projected(call, outcome.before) };
}

function update(call: Call, ns: string): Outcome {
  const { command: given } = call;
  const spec = updateSpec(
    {
      q: given['query'] ?? {},
      u: given['update'],
      upsert: given['upsert'],
      arrayFilters: given['arrayFilters'],
      ...selection(given),
    },
    given['let'],
  );
  const outcome = noteWrite(call, call.view.update(ns, spec, writeContext(call)));
  const inserted = outcome.upsertedId !== undefined;
  const wanted = toBoolean(given['new']) ? outcome.after : outcome.before;
  return {
    lastErrorObject: {
      n: inserted ? 1 : outcome.matched,
      updatedExisting: outcome.matched > 0 && !inserted,
      ...(inserted ? { upserted: outcome.upsertedId } : {}),
    },
    value: projected(call, wanted),
  };
}

function projected(call: Call, document: Document | undefined): Document | null {
  if (document === undefined) return null;
  const fields: unknown = call.command['fields'] ?? call.command['projection'];
  if (!isDocument(fields) || Object.keys(fields).length === 0) return document;
  return pipe(call, [document], [{ $project: fields }])[0] ?? null;
}

/** Writes what was answered into the log, so that a repeated statement gets the same answer from any primary. */
function keepImage(call: Call, outcome: Outcome): void {
  const { retryable } = call;
  if (retryable === null || !retryable.session.statements.has(0)) return;
  const { lastErrorObject, value } = outcome;
  const { lsid } = retryable.session;
  const image = { findAndModifyImage: { lastErrorObject, value }, lsid, txnNumber: retryable.txnNumber };
  const noop = call.data.appendNoop(image, writeContext(call));
  call.lastWrite = { ts: noop.ts, t: noop.t };
}

function replay(call: Call, recorded: RecordedStatement): Outcome {
  const image = call.retryable!.session.images.get(0);
  if (image) return { lastErrorObject: image['lastErrorObject'], value: image['value'] };
  if (recorded.op === 'i' && !toBoolean(call.command['new'])) {
    return { lastErrorObject: { n: 1, updatedExisting: false, upserted: recorded.id }, value: null };
  }
  throw fail(217, 'Unable to find the image of the findAndModify operation in the session history');
}

/** `findAndModify`. */
export const findAndModifyCommand = command({
  name: 'findAndModify',
  aliases: ['findandmodify'],
  auth: (context) => {
    const { command: given } = context;
    const actions = ['find', toBoolean(given['remove']) ? 'remove' : 'update'];
    if (toBoolean(given['upsert'])) actions.push('insert');
    return [privilege(context.db, collectionNamed(given), ...actions)];
  },
  access: 'write',
  inTransaction: true,
  retryable: true,
  shape: {
    findAndModify: rule.any,
    findandmodify: rule.any,
    query: rule.object,
    fields: rule.object,
    sort: rule.object,
    hint: rule.hint,
    collation: rule.object,
    arrayFilters: rule.array,
    remove: rule.flag,
    update: { types: ['object', 'array'] },
    upsert: rule.flag,
    new: rule.flag,
    bypassDocumentValidation: rule.flag,
    stmtId: rule.number,
    let: rule.object,
    sampleId: rule.any,
    isTimeseriesNamespace: rule.bool,
    collectionUUID: rule.any,
    encryptionInformation: rule.object,
  },
  run: runFindAndModify,
});
