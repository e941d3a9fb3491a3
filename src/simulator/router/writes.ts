/** insert, update, delete and bulkWrite: statements go to the shards that own what they are about. */
import { type Document, Int32, ObjectId } from 'bson';
import { isDocument, toBoolean, toNumber } from '../commands/arguments.ts';
import { count } from '../commands/call.ts';
import { asServerError, fail } from '../commands/errors.ts';
import { namespaceOf, splitNamespace } from '../commands/namespaces.ts';
import { checkBatchSize } from '../commands/write-batch.ts';
import { equalValues } from '../data/index.ts';
import {
  addReply,
  type BatchTotals,
  type Group,
  newTotals,
  rounds,
  type Targeted,
} from '../sharding/batch.ts';
import { ownerOf, ownersOf, type RoutingTable } from '../sharding/chunks.ts';
import { keyOf, valueAtPath } from '../sharding/shard-key.ts';
import { exactKey, targetsOf } from '../sharding/targeting.ts';
import { atLeast } from '../wire/versions.ts';
import { assertGood, type RouteCall, StaleRoute } from './call.ts';
import type { Route } from './catalog.ts';
import { drain, fromConfig } from './reads.ts';

/** A kind of write and where its statements are in the command. */
export interface WriteKind {
  readonly name: 'insert' | 'update' | 'delete';
  readonly list: 'documents' | 'updates' | 'deletes';
}
export const INSERT: WriteKind = { name: 'insert', list: 'documents' };
export const UPDATE: WriteKind = { name: 'update', list: 'updates' };
export const DELETE: WriteKind = { name: 'delete', list: 'deletes' };

/** A statement on its way. */
interface Planned extends Targeted {
  readonly statement: Document;
  readonly stmtId: number;
}

/** What the client sent, statement by statement. */
export interface Batch {
  readonly kind: WriteKind;
  readonly ns: string;
  /** The command around the statements. */
  readonly shell: Document;
  readonly ordered: boolean;
  readonly statements: readonly {
    readonly index: number;
    readonly stmtId: number;
    readonly statement: Document;
  }[];
}

/** `insert`, `update` and `delete`. */
export async function runWrite(call: RouteCall, kind: WriteKind): Promise<Document> {
  const ns = namespaceOf(call.command, call.db, true);
  const given: unknown = call.command[kind.list];
  if (!Array.isArray(given))
    throw fail(40414, `BSON field '${kind.name}.${kind.list}' is missing but a required field`);
  checkBatchSize(given.length);
  if ((await call.router.catalog.route(ns)).kind === 'config') return fromConfig(call, call.body(), true);
  const { [kind.list]: _list, stmtIds: _ids, stmtId: _id, ...shell } = call.body();
  const ordered = call.command['ordered'] === undefined || toBoolean(call.command['ordered']);
  const statements = given.map((statement: Document, index: number) => ({
    index,
    stmtId: stmtIdOf(call.command, index),
    statement: kind === INSERT ? withId(statement) : statement,
  }));
  const totals = await runBatch(call, { kind, ns, shell, ordered, statements });
  return reply(kind, totals);
}

function stmtIdOf(command: Document, index: number): number {
  const list: unknown = command['stmtIds'];
  if (Array.isArray(list)) return toNumber(list[index]) ?? index;
  return (toNumber(command['stmtId']) ?? 0) + index;
}

/** Documents get their id here, so that a shard key on `_id` has a value. */
const withId = (document: Document): Document =>
  isDocument(document) && document['_id'] === undefined ? { _id: new ObjectId(), ...document } : document;

function reply(kind: WriteKind, totals: BatchTotals): Document {
  const errors = [...totals.writeErrors].sort((left, right) => left['index'] - right['index']);
  const [concern] = totals.concernErrors;
  return {
    n: count(totals.n),
    ...(kind === UPDATE ? { nModified: count(totals.nModified) } : {}),
    ...(totals.upserted.length === 0 ? {} : { upserted: totals.upserted.map((entry) => ({ ...entry })) }),
    ...(errors.length === 0 ? {} : { writeErrors: errors }),
    ...(concern === undefined ? {} : { writeConcernError: concern }),
    ...(totals.retried.length === 0 ? {} : { retriedStmtIds: totals.retried }),
    ...(totals.labels.size === 0 ? {} : { errorLabels: [...totals.labels] }),
  };
}

/** Runs statements until the end or, when ordered, the first error; goes again with those a shard refused as stale. */
export async function runBatch(call: RouteCall, batch: Batch): Promise<BatchTotals> {
  const totals = newTotals();
  const done = new Set<string>();
  await call.along(batch.ns, true, async (route) => {
    const planned: Planned[] = [];
    for (const entry of batch.statements) {
      if (isDone(entry.index, totals, done)) continue;
      try {
        planned.push({ ...entry, ...(await plan(call, route, batch, entry.statement)) });
      } catch (failure) {
        if (failure instanceof StaleRoute || call.transaction !== null) throw failure;
        note(totals, entry.index, failure);
        if (batch.ordered) break;
      }
    }
    const stop = (): boolean => batch.ordered && totals.writeErrors.length > 0 && planned.length === 0;
    if (stop()) return;
    await sendRounds(call, route, batch, planned, totals, done);
  });
  return totals;
}

const doneKey = (index: number, shard: string): string => `${index}/${shard}`;

function isDone(index: number, totals: BatchTotals, done: ReadonlySet<string>): boolean {
  return totals.writeErrors.some((error) => error['index'] === index) || done.has(doneKey(index, '*'));
}

function note(totals: BatchTotals, index: number, failure: unknown): void {
  const error = asServerError(failure);
  totals.writeErrors.push({ index, code: error.code, ...error.extra, errmsg: error.message });
}

async function sendRounds(
  call: RouteCall,
  route: Route,
  batch: Batch,
  planned: readonly Planned[],
  totals: BatchTotals,
  done: Set<string>,
): Promise<void> {
  const first = Math.min(Number.POSITIVE_INFINITY, ...totals.writeErrors.map(({ index }) => Number(index)));
  const open = planned.filter(({ index }) => !batch.ordered || index < first);
  for (const round of rounds(open, batch.ordered)) {
    const groups = round
      .map(({ shard, statements }) => ({
        shard,
        statements: statements.filter(({ index }) => !done.has(doneKey(index, shard))),
      }))
      .filter(({ statements }) => statements.length > 0);
    const sent = await Promise.allSettled(
      groups.map((group) => sendGroup(call, route, batch, group, totals, done)),
    );
    const failed = sent.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
    if (failed.length > 0) throw failed.find((failure) => !(failure instanceof StaleRoute)) ?? failed[0];
    for (const { statements } of groups) for (const { index } of statements) done.add(doneKey(index, '*'));
    if (batch.ordered && totals.writeErrors.length > 0) return;
  }
}

async function sendGroup(
  call: RouteCall,
  route: Route,
  { kind, ns, shell }: Batch,
  group: Group<Planned>,
  totals: BatchTotals,
  done: Set<string>,
): Promise<void> {
  const stmtIds = group.statements.map(({ stmtId }) => new Int32(stmtId));
  const command = {
    ...shell,
    [kind.list]: group.statements.map(({ statement }) => statement),
    ...(call.numbered ? { stmtIds } : {}),
    ...(await call.writeConcern()),
  };
  const how = { writes: true, repeatable: false, several: group.statements.length > 1 };
  const { reply: answer } = await call.send(group.shard, command, route, how, splitNamespace(ns).db);
  assertGood(answer);
  addReply(totals, answer, group);
  for (const { index } of group.statements) done.add(doneKey(index, group.shard));
}

// ── targeting ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Where a statement goes, and how it is put there. */
async function plan(
  call: RouteCall,
  route: Route,
  { kind, ns }: Batch,
  statement: Document,
): Promise<{ readonly shards: readonly string[]; readonly statement: Document }> {
  if (route.kind === 'unsharded') return { shards: [route.primary], statement };
  if (route.kind !== 'sharded') throw fail(26, `Database of ${ns} not found`);
  if (kind === INSERT) return { shards: [ownerForInsert(route.table, statement)], statement };
  const one = kind === DELETE ? toNumber(statement['limit']) === 1 : !toBoolean(statement['multi']);
  if (kind === UPDATE) checkKeyChange(route.table, statement['q'], statement['u']);
  return targetOne(call, route, ns, statement, one, kind === UPDATE && toBoolean(statement['upsert']));
}

/** The shard a new document belongs to. */
function ownerForInsert(table: RoutingTable, document: Document): string {
  const key = keyOf(table.pattern, document);
  if (key === null) throw fail(61, `The shard key of ${table.ns} cannot be an array or lie within one`);
  return ownerOf(table, key);
}

/** Targets of an update or delete. One document without the whole key: the shard that has it is looked for first. */
async function targetOne(
  call: RouteCall,
  route: Extract<Route, { kind: 'sharded' }>,
  ns: string,
  statement: Document,
  one: boolean,
  upsert: boolean,
): Promise<{ readonly shards: readonly string[]; readonly statement: Document }> {
  const { table } = route;
  const q: Document = statement['q'] ?? {};
  const simple = statement['collation'] === undefined;
  const key = simple ? exactKey(table.pattern, q) : null;
  if (key !== null) return { shards: [ownerOf(table, key)], statement };
  const owner = ownerOfReplacement(table, statement);
  if (owner !== null) return { shards: [owner], statement };
  if (upsert)
    throw fail(
      61,
      `An upsert on a sharded collection must contain the shard key and have the simple collation (${ns})`,
    );
  const targets = targetsOf(table, q, simple);
  if (!one || targets.length === 1) return { shards: targets, statement };
  if (isById(q)) return { shards: ownersOf(table.chunks), statement };
  if (!atLeast(call.router.node.version, '7.1'))
    throw fail(
      72,
      'A {multi:false} update or delete on a sharded collection must contain the shard key (and have the simple collation), but this one targeted several shards',
    );
  return firstWithMatch(call, route, ns, statement, targets);
}

/** True for equality on `_id`, which names one document, wherever it is. */
export function isById(q: Document): boolean {
  const id: unknown = q['_id'];
  return id !== undefined && !(isDocument(id) && Object.keys(id)[0]?.startsWith('$'));
}

async function firstWithMatch(
  call: RouteCall,
  route: Route,
  ns: string,
  statement: Document,
  targets: readonly string[],
): Promise<{ readonly shards: readonly string[]; readonly statement: Document }> {
  const { q, collation, sort } = statement;
  const find = {
    find: ns.slice(ns.indexOf('.') + 1),
    filter: q,
    projection: { _id: 1 },
    limit: 1,
    ...(collation === undefined ? {} : { collation }),
    ...(sort === undefined ? {} : { sort }),
  };
  for (const shard of targets) {
    const [found] = await drain(call, route, [shard], find);
    if (found !== undefined)
      return { shards: [shard], statement: { ...statement, q: { $and: [{ _id: found['_id'] }, q] } } };
  }
  return { shards: [targets[0]!], statement };
}

/** The shard of a replacement that has the key the query lacks. */
function ownerOfReplacement(table: RoutingTable, statement: Document): string | null {
  const { u } = statement;
  if (!isDocument(u) || Object.keys(u)[0]?.startsWith('$')) return null;
  const filled = table.pattern.every(({ path }) => path === '_id' || valueAtPath(u, path) != null);
  const document =
    u['_id'] === undefined && statement['q']?._id !== undefined ? { _id: statement['q']._id, ...u } : u;
  if (!filled) return null;
  const key = keyOf(table.pattern, document);
  return key === null ? null : ownerOf(table, key);
}

/** Refuses updates that would give a document another key: this router does not move documents between shards. */
function checkKeyChange(table: RoutingTable, q: unknown, u: unknown): void {
  if (!isDocument(u)) return;
  const query = isDocument(q) ? q : {};
  const replaces = !Object.keys(u)[0]?.startsWith('$');
  for (const { path } of table.pattern) {
    const fixed: unknown = query[path];
    const known = fixed !== undefined && !(isDocument(fixed) && Object.keys(fixed)[0]?.startsWith('$'));
    const changes = replaces
      ? known && !(path === '_id' && u['_id'] === undefined) && !equalValues(fixed, valueAtPath(u, path))
      : touches(u, path, known ? fixed : NOTHING);
    if (changes)
      throw fail(66, `the simulator's router does not change shard keys (field ${path} of ${table.ns})`);
  }
}

const NOTHING = Symbol('no value is known');

/** True when operators give a path another value than the known one. */
function touches(u: Document, path: string, known: unknown): boolean {
  return Object.entries(u).some(([operator, fields]) => {
    if (operator === '$setOnInsert' || !isDocument(fields) || !Object.hasOwn(fields, path)) return false;
    return operator !== '$set' || known === NOTHING || !equalValues(known, fields[path]);
  });
}
