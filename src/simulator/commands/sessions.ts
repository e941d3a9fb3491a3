/**
 * Logical sessions: who they are, when they end, and what their numbered operations did. The history of retryable writes and
 * transactions follows the oplog, so that every member, also a new primary, can answer a repeated statement.
 */
import { createHash } from 'node:crypto';
import type { Document, Long } from 'bson';
import { Binary, UUID } from 'bson';
import { MINUTE, type Millis } from '../../base/units.ts';
import type { CommandContext, DataStore, OplogEntry, OpTime } from '../contracts.ts';
import { isDocument, toBigInt, typeName } from './arguments.ts';
import { fail } from './errors.ts';
import type { OpenTransaction } from './transactions.ts';

/** A session without use ends after this time. */
export const SESSION_LIMIT: Millis = 30 * MINUTE;

/** What one statement of a retryable write did. */
export interface RecordedStatement {
  readonly op: OplogEntry['op'];
  readonly id: unknown;
  readonly opTime: OpTime;
}

/** Everything known of one session. `txnNumber` is the newest seen, -1 when none was. */
export interface Session {
  readonly key: string;
  /** `{id, uid}` as oplog entries carry it. */
  readonly lsid: Document;
  /** Owner, when a user was logged in. */
  user: string;
  startedAt: Date;
  lastUsed: Millis;
  txnNumber: bigint;
  kind: 'none' | 'retryable' | 'transaction';
  status: 'inProgress' | 'committed' | 'aborted';
  statements: Map<number, RecordedStatement>;
  /** Images of findAndModify by statement. */
  images: Map<number, Document>;
  transaction: OpenTransaction | null;
  commitOpTime: OpTime | null;
  /** True once a client named it here, not only the oplog. */
  used: boolean;
}

/** The sessions of one process. */
export class Sessions {
  private readonly byKey = new Map<string, Session>();

  /** The session a command names, touched; null when it names none. 14 or 72 for a malformed one. */
  ofCommand(context: CommandContext): Session | null {
    const given: unknown = context.command['lsid'];
    if (given === undefined || given === null) {
      if (context.command['txnNumber'] !== undefined) {
        throw fail(72, 'Transaction number requires a session ID to also be specified');
      }
      return null;
    }
    const session = this.get(fullSessionId(context, given));
    session.lastUsed = context.node.now().getTime();
    if (!session.used) {
      session.used = true;
      session.startedAt = context.node.now();
    }
    session.user = context.connection.users.map((user) => `${user.user}@${user.db}`).join(',');
    return session;
  }

  /** The session of a full id, made when it is new. */
  get(lsid: Document): Session {
    const key = sessionKey(lsid);
    const present = this.byKey.get(key);
    if (present) return present;
    const session: Session = {
      key,
      lsid,
      user: '',
      startedAt: new Date(0),
      lastUsed: 0,
      txnNumber: -1n,
      kind: 'none',
      status: 'inProgress',
      statements: new Map(),
      images: new Map(),
      transaction: null,
      commitOpTime: null,
      used: false,
    };
    this.byKey.set(key, session);
    return session;
  }

  find(key: string): Session | undefined {
    return this.byKey.get(key);
  }

  list(): readonly Session[] {
    return [...this.byKey.values()];
  }

  delete(key: string): void {
    this.byKey.delete(key);
  }

  /** Sessions without use for too long. */
  expired(now: Millis): readonly Session[] {
    return this.list().filter(
      (session) => session.transaction === null && now - session.lastUsed > SESSION_LIMIT,
    );
  }

  /** Takes a session's numbers from an applied oplog entry. */
  observe(entry: OplogEntry): void {
    if (entry.op === 'n') {
      this.observeImage(entry);
      this.observeHistory(entry);
    }
    if (entry.lsid === undefined || entry.txnNumber === undefined) return;
    const session = this.get(entry.lsid);
    if (session.lastUsed === 0) session.lastUsed = entry.wall.getTime();
    const number = toBigInt(entry.txnNumber);
    if (number < session.txnNumber) return;
    if (number > session.txnNumber)
      renumber(session, number, isTransaction(entry) ? 'transaction' : 'retryable');
    record(session, entry);
  }

  /** What findAndModify answered travels in a no-op after its write. */
  private observeImage(entry: OplogEntry): void {
    const { findAndModifyImage: image, lsid, txnNumber } = entry.o;
    if (!isDocument(image) || lsid === undefined) return;
    const session = this.get(lsid);
    if (toBigInt(txnNumber) === session.txnNumber) session.images.set(0, image);
  }

  /** What statements did elsewhere comes along with a moved range, in a no-op. */
  private observeHistory(entry: OplogEntry): void {
    const { writeHistory: history, lsid, txnNumber } = entry.o;
    if (!Array.isArray(history) || lsid === undefined) return;
    const session = this.get(lsid);
    if (session.lastUsed === 0) session.lastUsed = entry.wall.getTime();
    const number = toBigInt(txnNumber);
    if (number < session.txnNumber) return;
    if (number > session.txnNumber) renumber(session, number, 'retryable');
    const opTime = { ts: entry.ts, t: entry.t };
    for (const { stmtId, op, id } of history as Document[]) {
      if (!session.statements.has(Number(stmtId))) session.statements.set(Number(stmtId), { op, id, opTime });
    }
  }

  /** Forgets all numbers and reads them from the oplog again: at start, after a rollback or an initial sync. */
  rebuild(data: DataStore): void {
    for (const session of this.byKey.values()) renumber(session, -1n, 'none');
    let after: OpTime | null = null;
    for (;;) {
      const page: readonly OplogEntry[] = data.oplogAfter(after, 1_000);
      for (const entry of page) this.observe(entry);
      const last = page.at(-1);
      if (last === undefined || page.length < 1_000) return;
      after = { ts: last.ts, t: last.t };
    }
  }
}

/** Makes a number the session's newest and drops what belonged to the older one. */
export function renumber(session: Session, number: bigint, kind: Session['kind']): void {
  session.transaction?.discard();
  session.transaction = null;
  session.txnNumber = number;
  session.kind = kind;
  session.status = 'inProgress';
  session.statements = new Map();
  session.images = new Map();
  session.commitOpTime = null;
}

function isTransaction(entry: OplogEntry): boolean {
  return entry.op === 'c' && entry.o['applyOps'] !== undefined;
}

function record(session: Session, entry: OplogEntry): void {
  const opTime = { ts: entry.ts, t: entry.t };
  if (entry.op === 'c') {
    if (!isTransaction(entry)) return;
    session.status = 'committed';
    session.commitOpTime = opTime;
    return;
  }
  const stmtId = Number(entry.stmtId ?? 0);
  const id: unknown = entry.o2?.['_id'] ?? entry.o['_id'];
  session.statements.set(stmtId, { op: entry.op, id, opTime });
}

/** Starts or goes on with a retryable write under this number: 225 when a newer one was seen. */
export function enterRetryable(session: Session, txnNumber: bigint): void {
  if (txnNumber < session.txnNumber) {
    const newer = session.kind === 'transaction' ? 'transaction' : 'retryable write';
    throw fail(
      225,
      `Retryable write with txnNumber ${txnNumber} is prohibited on session ${sessionText(session)} because a newer ` +
        `${newer} with txnNumber ${session.txnNumber} has already started on this session.`,
    );
  }
  if (txnNumber > session.txnNumber) {
    renumber(session, txnNumber, 'retryable');
    return;
  }
  if (session.kind === 'transaction') {
    throw fail(
      50911,
      `Cannot start a retryable write with txnNumber ${txnNumber} on session ${sessionText(session)} because a ` +
        'multi-document transaction with the same number has already started on this session.',
    );
  }
}

/** `{id, uid}` of a client's lsid; `uid` is the digest of the logged-in user unless a member hands one on. */
export function fullSessionId(context: CommandContext, given: unknown): Document {
  if (!isDocument(given)) {
    throw fail(
      14,
      `BSON field 'OperationSessionInfo.lsid' is the wrong type '${typeName(given)}', expected type 'object'`,
    );
  }
  const id: unknown = given['id'];
  if (id === undefined)
    throw fail(40414, "BSON field 'OperationSessionInfo.lsid.id' is missing but a required field");
  if (typeName(id) !== 'binData') {
    throw fail(
      14,
      `BSON field 'OperationSessionInfo.lsid.id' is the wrong type '${typeName(id)}', expected type 'binData'`,
    );
  }
  return { id: new UUID((id as Binary).buffer.subarray(0, 16)), uid: given['uid'] ?? userDigest(context) };
}

function userDigest(context: CommandContext): Binary {
  const user = context.connection.users[0];
  const digest = createHash('sha256')
    .update(user === undefined ? '' : `${user.user}@${user.db}`)
    .digest();
  return new Binary(digest);
}

/** The name of a session inside this process. */
export function sessionKey(lsid: Document): string {
  const hex = (value: Binary) => Buffer.from(value.buffer).toString('hex');
  return `${hex(lsid['id'])}:${lsid['uid'] === undefined ? '' : hex(lsid['uid'])}`;
}

/** A session as messages print it. */
export function sessionText(session: Session): string {
  const uid = session.lsid['uid'] as Binary | undefined;
  return `${String(session.lsid['id'])} - ${uid === undefined ? '' : Buffer.from(uid.buffer).toString('base64')} -  - `;
}

/** The number of a retryable write or transaction as the oplog stores it. */
export function numberOf(context: CommandContext): { readonly value: bigint; readonly long: Long } | null {
  const given: unknown = context.command['txnNumber'];
  if (given === undefined || given === null) return null;
  if (typeName(given) !== 'long') {
    throw fail(
      14,
      `BSON field 'OperationSessionInfo.txnNumber' is the wrong type '${typeName(given)}', expected type 'long'`,
    );
  }
  const value = toBigInt(given);
  if (value < 0n) throw fail(72, 'Transaction number cannot be negative');
  return { value, long: given as Long };
}
