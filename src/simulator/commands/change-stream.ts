/** Change streams: opening and resuming them, and following the committed part of the log. */
import type { Document, Timestamp } from 'bson';
import { calculateObjectSize } from 'bson';
import type { Millis } from '../../base/units.ts';
import type { OpTime, Replication } from '../contracts.ts';
import type { Pipeline } from './aggregate.ts';
import { checkShape, isDocument, rule, type Shape, toBoolean, typeName } from './arguments.ts';
import type { Call } from './call.ts';
import {
  type ChangeEvent,
  type EventOptions,
  eventsOf,
  type ImageMode,
  type Scope,
} from './change-events.ts';
import { readLevel } from './concerns.ts';
import type { CursorSource } from './cursors.ts';
import { fail } from './errors.ts';
import { cursorOptions } from './find.ts';
import { splitNamespace } from './namespaces.ts';
import { pipe } from './pipe.ts';
import { decodeToken, encodeToken, mark, type Position } from './resume-token.ts';
import { markChangeStream } from './services.ts';

/** Stages that may follow `$changeStream`. */
const ALLOWED: ReadonlySet<string> = new Set([
  '$addFields',
  '$match',
  '$project',
  '$replaceRoot',
  '$replaceWith',
  '$redact',
  '$set',
  '$unset',
  '$changeStreamSplitLargeEvent',
]);
/** Stages there are, but not here (20); any other name is 40324. */
const REFUSED: ReadonlySet<string> = new Set([
  '$bucket',
  '$bucketAuto',
  '$changeStream',
  '$collStats',
  '$count',
  '$currentOp',
  '$densify',
  '$documents',
  '$facet',
  '$fill',
  '$geoNear',
  '$graphLookup',
  '$group',
  '$indexStats',
  '$limit',
  '$listLocalSessions',
  '$listSessions',
  '$lookup',
  '$merge',
  '$out',
  '$sample',
  '$setWindowFields',
  '$skip',
  '$sort',
  '$sortByCount',
  '$unionWith',
  '$unwind',
]);
/** Entries read from the log at once. */
const PAGE = 256;
/** An event may not be larger than this; `$changeStreamSplitLargeEvent` cuts it. */
const MAX_EVENT_BYTES = 16 * 1024 * 1024;
/** Waiting again after the commit point did not move, so that no loop can run hot. */
const COMMIT_RETRY: Millis = 50;

const STAGE_SHAPE: Shape = {
  resumeAfter: rule.any,
  startAfter: rule.any,
  startAtOperationTime: rule.timestamp,
  fullDocument: rule.string,
  fullDocumentBeforeChange: rule.string,
  showExpandedEvents: rule.flag,
  showMigrationEvents: rule.flag,
  showSystemEvents: rule.flag,
  showRawUpdateDescription: rule.flag,
  allChangesForCluster: rule.flag,
  allowToRunOnConfigDB: rule.flag,
  allowToRunOnSystemNS: rule.flag,
};

/** Runs an aggregate that starts with `$changeStream`. */
export async function openChangeStream(call: Call, pipeline: Pipeline, batchSize: number): Promise<Document> {
  markChangeStream(call.context);
  const { replication } = call.node;
  if (replication === null) throw fail(40573, 'The $changeStream stage is only supported on replica sets');
  if (call.transaction !== null) {
    throw fail(
      263,
      'Operation not permitted in transaction :: caused by :: $changeStream cannot be used in a transaction',
    );
  }
  const level = readLevel(call.command['readConcern']).level;
  if (level !== undefined && level !== 'majority') {
    throw fail(
      72,
      `Aggregation stage $changeStream cannot run with a readConcern other than 'majority'. Current readConcern: { level: "${level}" }`,
    );
  }
  const stage = stageOf(pipeline.stages[0]!['$changeStream']);
  const options = eventOptions(call, pipeline, stage);
  const stages = pipeline.stages.slice(1);
  checkStages(stages);
  const start = startPosition(call, stage, replication);
  const source = new ChangeStreamSource(call, options, stages, start);
  const ns = pipeline.ns ?? `${call.db}.$cmd.aggregate`;
  return call.services.cursors.first(call.context, ns, source, batchSize, {
    ...cursorOptions(call),
    awaitData: true,
  });
}

function stageOf(given: unknown): Document {
  if (!isDocument(given)) {
    throw fail(50808, `$changeStream stage expects a document as argument, found: ${typeName(given)}`);
  }
  checkShape('$changeStream', given, STAGE_SHAPE);
  return given;
}

const MODES: readonly ImageMode[] = ['default', 'updateLookup', 'whenAvailable', 'required'];
const BEFORE_MODES: readonly ImageMode[] = ['off', 'whenAvailable', 'required'];

function imageMode(stage: Document, field: string, allowed: readonly ImageMode[]): ImageMode {
  const mode: unknown = stage[field] ?? allowed[0];
  if (allowed.includes(mode as ImageMode)) return mode as ImageMode;
  throw fail(
    2,
    `Enumeration value '${String(mode)}' for field '$changeStream.${field}' is not a valid value.`,
  );
}

function eventOptions(call: Call, pipeline: Pipeline, stage: Document): EventOptions {
  return {
    scope: scopeOf(call, pipeline, toBoolean(stage['allChangesForCluster'])),
    fullDocument: imageMode(stage, 'fullDocument', MODES),
    fullDocumentBeforeChange: imageMode(stage, 'fullDocumentBeforeChange', BEFORE_MODES),
    expanded: toBoolean(stage['showExpandedEvents']),
  };
}

function scopeOf(call: Call, pipeline: Pipeline, cluster: boolean): Scope {
  const { db } = call;
  if (cluster) {
    if (db === 'admin' && pipeline.ns === null) return { kind: 'cluster' };
    throw fail(
      72,
      "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with no " +
        `collection name; found ${pipeline.ns ?? `${db}.$cmd.aggregate`}`,
    );
  }
  if (db === 'admin' || db === 'local' || db === 'config') {
    throw fail(73, `$changeStream may not be opened on the internal ${db} database`);
  }
  if (pipeline.ns === null) return { kind: 'database', db };
  if (call.data.info(pipeline.ns)?.type === 'view') {
    throw fail(166, `Namespace ${pipeline.ns} is a view, not a collection`);
  }
  const { collection } = splitNamespace(pipeline.ns);
  if (collection.startsWith('system.')) {
    throw fail(73, `$changeStream may not be opened on the internal ${pipeline.ns} collection`);
  }
  return { kind: 'collection', db, collection };
}

function checkStages(stages: readonly Document[]): void {
  for (const [index, stage] of stages.entries()) {
    const name = Object.keys(stage)[0]!;
    if (REFUSED.has(name)) throw fail(20, `${name} is not permitted in a $changeStream pipeline`);
    if (!ALLOWED.has(name)) throw fail(40324, `Unrecognized pipeline stage name: '${name}'`);
    if (name === '$changeStreamSplitLargeEvent' && index !== stages.length - 1) {
      throw fail(7182802, '$changeStreamSplitLargeEvent must be the last stage in the pipeline');
    }
  }
}

// ── where to begin ─────────────────────────────────────────────────────────────────────────────────────────────────

function startPosition(call: Call, stage: Document, replication: Replication): Position {
  const given = ['resumeAfter', 'startAfter', 'startAtOperationTime'].filter((key) => stage[key] != null);
  if (given.length > 1) {
    throw fail(40674, 'Only one type of resume option is allowed, but multiple were found.');
  }
  const option = given[0];
  if (option === undefined) return mark(after(replication.lastApplied()?.ts ?? replication.clusterTime()));
  if (option === 'startAtOperationTime') {
    const ts: Timestamp = stage['startAtOperationTime'];
    checkHistory(call, ts);
    return mark(ts);
  }
  const position = decodeToken(option, stage[option]);
  if (position.invalidate && option === 'resumeAfter') {
    throw fail(
      260,
      "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification.",
    );
  }
  checkHistory(call, position.ts);
  return position;
}

function after(ts: Timestamp): Timestamp {
  return new (ts.constructor as typeof Timestamp)({ t: ts.t, i: ts.i + 1 });
}

function checkHistory(call: Call, ts: Timestamp): void {
  const oldest = call.data.oldestOplog();
  if (oldest === null || !ts.lessThan(oldest.ts)) return;
  throw historyLost();
}

function historyLost(): Error {
  return fail(
    286,
    'Executor error during getMore :: caused by :: Resume of change stream was not possible, as the resume point may ' +
      'no longer be in the oplog.',
  );
}

/** The last entry before a time; reading goes on after it. */
function entryBefore(call: Call, ts: Timestamp): OpTime | null {
  const last = call.data.lastApplied();
  if (last?.ts.lessThan(ts)) return last;
  let before: OpTime | null = null;
  for (;;) {
    const page = call.data.oplogAfter(before, PAGE);
    for (const entry of page) {
      if (!entry.ts.lessThan(ts)) return before;
      before = { ts: entry.ts, t: entry.t };
    }
    if (page.length < PAGE) return before;
  }
}

// ── the stream ─────────────────────────────────────────────────────────────────────────────────────────────────────

class ChangeStreamSource implements CursorSource {
  readonly kind = 'changeStream';
  private readonly call: Call;
  private readonly options: EventOptions;
  private readonly stages: readonly Document[];
  private readonly split: boolean;
  private readonly start: Position;
  /** The last entry that was read. */
  private read: OpTime | null;
  private queue: Document[] = [];
  private token: Position | Document;
  /** All events before this time were handed out or did not match. */
  private scanned: Timestamp;
  private invalidated = false;
  private resuming: boolean;

  constructor(call: Call, options: EventOptions, stages: readonly Document[], start: Position) {
    this.call = call;
    this.options = options;
    this.split = stages.at(-1)?.['$changeStreamSplitLargeEvent'] !== undefined;
    this.stages = this.split ? stages.slice(0, -1) : stages;
    this.start = start;
    this.resuming = start.kind === 'event';
    this.read = entryBefore(call, start.ts);
    this.scanned = start.ts;
    this.token = start;
    pipe(call, [], this.stages);
  }

  peek(): Document | undefined {
    while (this.queue.length === 0 && !this.invalidated && this.readPage());
    return this.queue[0];
  }

  shift(): void {
    const event = this.queue.shift();
    if (event) this.token = event['_id'];
  }

  ended(): boolean {
    return this.invalidated && this.queue.length === 0;
  }

  postBatchResumeToken(): Document {
    const last = isPosition(this.token) ? encodeToken(this.token) : this.token;
    if (this.queue.length > 0 || this.invalidated) return last;
    const seen = encodeToken(mark(this.scanned));
    return last['_data'] > seen['_data'] ? last : seen;
  }

  /** Reads some committed entries; false when there are none left. */
  private readPage(): boolean {
    const committed = this.call.node.replication!.majorityCommitted();
    if (committed === null) return false;
    this.checkNotOverwritten();
    const page = this.call.data
      .oplogAfter(this.read, PAGE)
      .filter((entry) => !entry.ts.greaterThan(committed.ts));
    for (const entry of page) {
      this.read = { ts: entry.ts, t: entry.t };
      this.scanned = entry.ts;
      if (this.resuming && entry.ts.greaterThan(this.start.ts)) this.failToResume();
      for (const event of eventsOf(entry, this.options, this.call.data)) {
        if (!this.isSeen(entry.ts, event)) this.take(event);
        if (this.invalidated) return true;
      }
      if (this.resuming && entry.ts.equals(this.start.ts)) this.resuming = false;
    }
    return page.length > 0;
  }

  /** The log forgets its beginning; a stream that has not read that far is lost. */
  private checkNotOverwritten(): void {
    const oldest = this.call.data.oldestOplog();
    if (oldest === null || this.read === null) return;
    const next = this.call.data.oplogAfter(this.read, 1)[0];
    const forgotten = this.read.ts.lessThan(oldest.ts) && this.call.data.oplogFind(this.read) === undefined;
    if (forgotten && next?.ts.equals(oldest.ts)) throw historyLost();
  }

  private failToResume(): never {
    throw fail(
      280,
      `cannot resume stream; the resume token was not found. ${JSON.stringify(encodeToken(this.start))}`,
    );
  }

  /** True for events at or before the place the stream resumes from. */
  private isSeen(ts: Timestamp, event: ChangeEvent): boolean {
    const { start } = this;
    if (start.kind !== 'event' || !ts.equals(start.ts)) return false;
    if (event.index !== start.index) return event.index < start.index;
    if (start.invalidate) return true;
    return !event.invalidate && start.fragment === 0;
  }

  private take(event: ChangeEvent): void {
    if (event.invalidate) {
      this.invalidated = true;
      this.queue.push(event.document);
      return;
    }
    for (const document of pipe(this.call, [event.document], this.stages)) {
      checkToken(event.document, document);
      this.queue.push(...this.fragments(document));
    }
  }

  private fragments(document: Document): Document[] {
    if (calculateObjectSize(document) <= MAX_EVENT_BYTES) return [document];
    if (!this.split) {
      throw fail(
        10334,
        `BSONObj size: ${calculateObjectSize(document)} is invalid. Size must be between 0 and ${MAX_EVENT_BYTES}`,
      );
    }
    const pieces = splitEvent(document);
    const place = decodeToken('resumeAfter', document['_id']);
    const seen =
      this.start.kind === 'event' && this.start.ts.equals(place.ts) && this.start.index === place.index;
    return pieces
      .map((piece, index) => ({
        _id: encodeToken({ ...place, fragment: index + 1 }),
        splitEvent: { fragment: index + 1, of: pieces.length },
        ...piece,
      }))
      .slice(seen ? this.start.fragment : 0);
  }

  async wait(limit: Millis, signal: AbortSignal): Promise<void> {
    const replication = this.call.node.replication!;
    const deadline = Date.now() + limit;
    if (!uncommitted(replication)) await this.call.services.applied.wait(limit, signal);
    const left = deadline - Date.now();
    if (left <= 0 || signal.aborted || !uncommitted(replication)) return;
    await awaitCommit(replication, AbortSignal.any([signal, AbortSignal.timeout(left)]));
    if (uncommitted(replication)) await this.call.services.applied.wait(Math.min(left, COMMIT_RETRY), signal);
  }
}

const isPosition = (token: Position | Document): token is Position => 'ts' in token;

function uncommitted(replication: Replication): boolean {
  const applied = replication.lastApplied();
  const committed = replication.majorityCommitted();
  return applied !== null && (committed === null || committed.ts.lessThan(applied.ts));
}

async function awaitCommit(replication: Replication, signal: AbortSignal): Promise<void> {
  const applied = replication.lastApplied();
  if (applied === null) return;
  try {
    await replication.awaitReadConcern({ level: 'majority', afterClusterTime: applied.ts }, signal);
  } catch {
    // The wait ended without the point being committed; the reader looks again by itself.
  }
}

/** A pipeline may change anything but the token. */
function checkToken(before: Document, after: Document): void {
  if (after['_id']?.['_data'] === before['_id']['_data']) return;
  throw fail(
    280,
    'Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Modifying the ' +
      '_id field of an event makes it impossible to resume the stream from that point. Only transformations that retain ' +
      `the unmodified _id field are allowed. Expected: ${JSON.stringify({ _id: before['_id'] })} but found: ` +
      JSON.stringify(after['_id'] === undefined ? {} : { _id: after['_id'] }),
  );
}

/** Top-level fields in as few pieces as fit; a single field that is too large still travels alone. */
function splitEvent(document: Document): Document[] {
  const { _id, ...fields } = document;
  const pieces: Document[] = [];
  let piece: Document = {};
  for (const [key, value] of Object.entries(fields)) {
    const grown = { ...piece, [key]: value };
    if (Object.keys(piece).length > 0 && calculateObjectSize(grown) > MAX_EVENT_BYTES - 1024) {
      pieces.push(piece);
      piece = { [key]: value };
    } else piece = grown;
  }
  return [...pieces, piece];
}
