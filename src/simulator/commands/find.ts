/** find, count and distinct. */
import type { Document } from 'bson';
import { calculateObjectSize } from 'bson';
import type { FindSpec } from '../contracts.ts';
import { isDocument, isNumber, required, rule, type Shape, toBoolean, toNumber } from './arguments.ts';
import { type Call, command, count, onCollection } from './call.ts';
import { type CursorOptions, FIRST_BATCH, staticSource } from './cursors.ts';
import { fail } from './errors.ts';
import { namespaceOf } from './namespaces.ts';
import { pipe } from './pipe.ts';
import { PROFILE_COLLECTION } from './profiler.ts';
import { tailableSource } from './tailable.ts';

const FIND_SHAPE: Shape = {
  find: rule.any,
  filter: rule.object,
  projection: rule.object,
  sort: rule.object,
  hint: rule.hint,
  collation: rule.object,
  skip: rule.natural,
  limit: rule.natural,
  batchSize: rule.natural,
  singleBatch: rule.flag,
  allowDiskUse: rule.flag,
  max: rule.object,
  min: rule.object,
  returnKey: rule.flag,
  showRecordId: rule.flag,
  tailable: rule.flag,
  oplogReplay: rule.flag,
  noCursorTimeout: rule.flag,
  awaitData: rule.flag,
  allowPartialResults: rule.flag,
  mirrored: rule.flag,
  let: rule.object,
  readOnce: rule.flag,
  allowSpeculativeMajorityRead: rule.flag,
  term: rule.number,
  requestResumeToken: rule.flag,
  $_requestResumeToken: rule.flag,
  $_resumeAfter: rule.object,
  includeQueryStatsMetrics: rule.flag,
  encryptionInformation: rule.object,
  legacyRuntimeConstants: rule.object,
  collectionUUID: rule.any,
};

/** The store's query for a find command. */
export function findSpec(given: Document): FindSpec {
  const spec: Document = {};
  for (const key of ['filter', 'projection', 'sort', 'hint', 'collation', 'min', 'max', 'let'] as const) {
    const value: unknown = given[key];
    if (value !== undefined && value !== null && !isEmptyOption(key, value)) spec[key] = value;
  }
  for (const key of ['skip', 'limit'] as const) {
    const value = toNumber(given[key]);
    if (value !== undefined && value !== 0) spec[key] = value;
  }
  for (const key of ['returnKey', 'showRecordId'] as const) if (toBoolean(given[key])) spec[key] = true;
  return spec as FindSpec;
}

function isEmptyOption(key: string, value: unknown): boolean {
  return key !== 'filter' && isDocument(value) && Object.keys(value).length === 0;
}

function checkFind(given: Document): void {
  if (toBoolean(given['awaitData']) && !toBoolean(given['tailable'])) {
    throw fail(9, 'Cannot set awaitData without tailable');
  }
  if (toBoolean(given['tailable']) && toBoolean(given['singleBatch'])) {
    throw fail(9, "cannot use tailable option with the 'singleBatch' option");
  }
  if (toBoolean(given['tailable']) && given['sort'] && Object.keys(given['sort']).join() !== '$natural') {
    throw fail(9, 'cannot use tailable option with a sort other than {$natural: 1}');
  }
}

function runFind(call: Call): Document {
  const { command: given } = call;
  const ns = namespaceOf(given, call.db);
  checkFind(given);
  const spec = findSpec(given);
  const batchSize = toNumber(given['batchSize']) ?? FIRST_BATCH;
  const single = toBoolean(given['singleBatch']);
  const options = cursorOptions(call);
  if (toBoolean(given['tailable'])) {
    const source = tailableSource(call, ns, spec);
    return call.services.cursors.first(call.context, ns, source, batchSize, {
      ...options,
      awaitData: toBoolean(given['awaitData']),
    });
  }
  const documents = ns.endsWith(`.${PROFILE_COLLECTION}`) ? profiled(call, spec) : call.view.find(ns, spec);
  const limited = single ? documents.slice(0, batchSize) : documents;
  const complete = single || isIdLookup(spec) || (spec.limit !== undefined && documents.length >= spec.limit);
  const extra = call.atClusterTime === null ? {} : { atClusterTime: call.atClusterTime };
  return call.services.cursors.first(
    call.context,
    ns,
    staticSource(limited, complete),
    batchSize,
    options,
    extra,
  );
}

/** The profiler's entries as a find on their collection gives them. */
function profiled(call: Call, spec: FindSpec): Document[] {
  return pipe(call, call.services.profiler.entries(call.db), [
    ...(spec.filter === undefined ? [] : [{ $match: spec.filter }]),
    ...(spec.sort === undefined || '$natural' in spec.sort ? [] : [{ $sort: spec.sort }]),
    ...(spec.skip === undefined ? [] : [{ $skip: spec.skip }]),
    ...(spec.limit === undefined ? [] : [{ $limit: spec.limit }]),
    ...(spec.projection === undefined ? [] : [{ $project: spec.projection }]),
  ]);
}

/** Owner and lifetime of a cursor this call opens. */
export function cursorOptions(call: Call): CursorOptions {
  return {
    noTimeout: toBoolean(call.command['noCursorTimeout']),
    sessionKey: call.session?.key ?? null,
    txnNumber: call.transaction === null ? null : call.session!.txnNumber,
  };
}

/** Equality on `_id` alone finds one document at most: the server knows that it is done. */
function isIdLookup(spec: FindSpec): boolean {
  const keys = Object.keys(spec.filter ?? {});
  if (keys.length !== 1 || keys[0] !== '_id' || spec.skip !== undefined) return false;
  const id: unknown = spec.filter!['_id'];
  return !isDocument(id) || !Object.keys(id)[0]?.startsWith('$');
}

/** `find`. */
export const findCommand = command({
  name: 'find',
  struct: 'FindCommandRequest',
  auth: onCollection('find'),
  access: 'read',
  inTransaction: true,
  readConcern: true,
  shape: FIND_SHAPE,
  run: runFind,
});

// ── count ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function runCount(call: Call): Document {
  const { command: given } = call;
  const ns = namespaceOf(given, call.db);
  const query: Document = given['query'] ?? {};
  const skip = toNumber(given['skip']) ?? 0;
  const limit = Math.abs(toNumber(given['limit']) ?? 0);
  const spec: FindSpec = {
    filter: query,
    ...(given['hint'] === undefined ? {} : { hint: given['hint'] }),
    ...(given['collation'] === undefined ? {} : { collation: given['collation'] }),
  };
  const counted = Object.keys(query).length === 0 && spec.hint === undefined && call.transaction === null;
  const all =
    counted && call.data.info(ns)?.type === 'collection'
      ? call.data.count(ns)
      : call.view.countMatching(ns, query, spec as Document);
  const skipped = Math.max(0, all - skip);
  return { n: count(limit === 0 ? skipped : Math.min(limit, skipped)) };
}

/** `count`. */
export const countCommand = command({
  name: 'count',
  auth: onCollection('find'),
  access: 'read',
  readConcern: true,
  shape: {
    count: rule.any,
    query: rule.object,
    limit: rule.number,
    skip: rule.natural,
    hint: rule.hint,
    collation: rule.object,
    fields: rule.any,
    queryOptions: rule.object,
    encryptionInformation: rule.object,
    collectionUUID: rule.any,
  },
  run: runCount,
});

// ── distinct ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a reply without cursor may hold. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;

function runDistinct(call: Call): Document {
  const { command: given } = call;
  const ns = namespaceOf(given, call.db);
  const query: Document = given['query'] ?? {};
  const options = {
    ...(given['collation'] === undefined ? {} : { collation: given['collation'] }),
    ...(given['hint'] === undefined ? {} : { hint: given['hint'] }),
  };
  const values = call.view.distinct(ns, given['key'], query, options);
  if (calculateObjectSize({ values }) > MAX_REPLY_BYTES) throw fail(17217, 'distinct too big, 16mb cap');
  return { values, ...(call.atClusterTime === null ? {} : { atClusterTime: call.atClusterTime }) };
}

/** `distinct`. */
export const distinctCommand = command({
  name: 'distinct',
  auth: onCollection('find'),
  access: 'read',
  inTransaction: true,
  readConcern: true,
  shape: {
    distinct: rule.any,
    key: required(rule.string),
    query: rule.object,
    hint: rule.hint,
    collation: rule.object,
    collectionUUID: rule.any,
  },
  run: runDistinct,
});

/** True for a number a command may use as a flag value 1, as in `aggregate: 1`. */
export function isOne(value: unknown): boolean {
  return isNumber(value) && toNumber(value) === 1;
}
