/** Open cursors: sources of documents, batches by count and size, ownership and time limits. */
import { randomBytes } from 'node:crypto';
import type { Document } from 'bson';
import { calculateObjectSize, Long } from 'bson';
import { MINUTE, type Millis } from '../../base/units.ts';
import type { CommandContext } from '../contracts.ts';
import { fail } from './errors.ts';

/** Documents in the first batch where the client names no size. */
export const FIRST_BATCH = 101;
/** Bytes of one batch; one larger document still travels alone. */
const BATCH_BYTES = 16 * 1024 * 1024;
/** What an array element costs besides its value: type, position in decimal digits, end. */
const ELEMENT_BYTES = 9;
/** An idle cursor goes after this time (cursorTimeoutMillis), unless noCursorTimeout was asked for. */
const IDLE_LIMIT: Millis = 10 * MINUTE;
/** A tailing getMore without maxTimeMS waits this long for news. */
export const AWAIT_DATA_DEFAULT: Millis = 1_000;

/** Where a cursor's documents come from. */
export interface CursorSource {
  readonly kind: 'static' | 'tailable' | 'changeStream';
  /** The next document without taking it; undefined when there is none now. */
  peek(): Document | undefined;
  shift(): void;
  /** True when nothing can follow although `peek` was not asked again (a limit was reached, a stream ended). */
  ended(): boolean;
  /** Waits for news at most so long; resolves early when the signal aborts. Only on sources that can grow. */
  wait?(limit: Millis, signal: AbortSignal): Promise<void>;
  postBatchResumeToken?(): Document;
  close?(): void;
}

/** A finished list. `complete` tells that the list is all there can be (limit reached, equality on `_id`). */
export function staticSource(documents: readonly Document[], complete = false): CursorSource {
  let next = 0;
  return {
    kind: 'static',
    peek: () => documents[next],
    shift: () => {
      next += 1;
    },
    ended: () => complete && next >= documents.length,
  };
}

/** One open cursor. */
export interface Cursor {
  readonly id: Long;
  readonly ns: string;
  readonly source: CursorSource;
  readonly awaitData: boolean;
  readonly noTimeout: boolean;
  readonly sessionKey: string | null;
  /** Set for cursors opened inside a transaction. */
  readonly txnNumber: bigint | null;
  readonly user: string;
  /** The command that opened it, for currentOp. */
  readonly origin: Document;
  lastUsed: Millis;
  pinned: boolean;
  /** Aborted when the cursor is killed, so that a waiting getMore ends. */
  readonly killed: AbortController;
}

/** Who a new cursor belongs to and how long it lives. */
export interface CursorOptions {
  readonly awaitData?: boolean;
  readonly noTimeout?: boolean;
  readonly sessionKey: string | null;
  readonly txnNumber: bigint | null;
}

/** Takes documents up to the count and the size limit. `more` tells whether the cursor must stay open. */
export function takeBatch(source: CursorSource, limit: number): { batch: Document[]; more: boolean } {
  const batch: Document[] = [];
  let bytes = 0;
  while (batch.length < limit) {
    const document = source.peek();
    if (document === undefined) return { batch, more: source.kind !== 'static' && !source.ended() };
    bytes += limit === 1 ? 0 : calculateObjectSize(document) + ELEMENT_BYTES;
    if (bytes > BATCH_BYTES && batch.length > 0) break;
    batch.push(document);
    source.shift();
  }
  return { batch, more: !source.ended() };
}

/** The cursors of one process. */
export class Cursors {
  private readonly open = new Map<string, Cursor>();

  /** Makes the reply of a command that opens a cursor: the first batch, and an id when there is more. */
  first(
    context: CommandContext,
    ns: string,
    source: CursorSource,
    batchSize: number,
    options: CursorOptions,
    extra: Document = {},
  ): Document {
    const { batch, more } = takeBatch(source, batchSize);
    const token = source.postBatchResumeToken?.();
    const id = more ? this.add(context, ns, source, options).id : Long.ZERO;
    return {
      cursor: {
        firstBatch: batch,
        ...(token === undefined ? {} : { postBatchResumeToken: token }),
        ...extra,
        id,
        ns,
      },
    };
  }

  /** Opens a cursor over the source. */
  add(context: CommandContext, ns: string, source: CursorSource, options: CursorOptions): Cursor {
    const cursor: Cursor = {
      id: newCursorId(),
      ns,
      source,
      awaitData: options.awaitData ?? false,
      noTimeout: options.noTimeout ?? false,
      sessionKey: options.sessionKey,
      txnNumber: options.txnNumber,
      user: userOf(context),
      origin: context.command,
      lastUsed: context.node.now().getTime(),
      pinned: false,
      killed: new AbortController(),
    };
    this.open.set(cursor.id.toString(), cursor);
    return cursor;
  }

  /** The cursor with that id, or 43 CursorNotFound. */
  find(id: Long): Cursor {
    const cursor = this.open.get(id.toString());
    if (cursor === undefined) throw fail(43, `cursor id ${id.toString()} not found`);
    return cursor;
  }

  /** Reserves the cursor for one getMore (143 when another one has it) and gives the release. */
  pin(cursor: Cursor): (now: Millis) => void {
    if (cursor.pinned) throw fail(143, `cursor id ${cursor.id.toString()} is already in use`);
    cursor.pinned = true;
    return (now) => {
      cursor.pinned = false;
      cursor.lastUsed = now;
    };
  }

  /** Closes a cursor; false when there is none. */
  kill(id: Long): boolean {
    const cursor = this.open.get(id.toString());
    if (cursor === undefined) return false;
    this.open.delete(id.toString());
    cursor.killed.abort();
    cursor.source.close?.();
    return true;
  }

  killWhere(meant: (cursor: Cursor) => boolean): void {
    for (const cursor of [...this.open.values()]) if (meant(cursor)) this.kill(cursor.id);
  }

  list(): readonly Cursor[] {
    return [...this.open.values()];
  }

  /** Closes what was idle for too long. Cursors of a session live as long as the session does. */
  expire(now: Millis, limit: Millis = IDLE_LIMIT): void {
    this.killWhere(
      (cursor) =>
        !cursor.pinned && !cursor.noTimeout && cursor.sessionKey === null && now - cursor.lastUsed > limit,
    );
  }
}

/** The user a cursor belongs to; '' without authentication. */
export function userOf(context: CommandContext): string {
  return context.connection.users.map((user) => `${user.user}@${user.db}`).join(',');
}

function newCursorId(): Long {
  const bytes = randomBytes(8);
  bytes[7] = bytes[7]! & 0x7f;
  bytes[0] = bytes[0]! | 1;
  return Long.fromBytesLE([...bytes]);
}
