/** getMore and killCursors. */
import type { Document } from 'bson';
import { Long } from 'bson';
import { required, rule, toBoolean, toNumber, typeName, wrongType } from './arguments.ts';
import { type Call, command } from './call.ts';
import { AWAIT_DATA_DEFAULT, type Cursor, takeBatch, userOf } from './cursors.ts';
import { fail, throwIfAborted } from './errors.ts';
import { collectionNamed } from './namespaces.ts';
import { markChangeStream } from './services.ts';

async function runGetMore(call: Call): Promise<Document> {
  const { command: given, services } = call;
  const id: Long = given['getMore'];
  const cursor = services.cursors.find(id);
  checkOwner(call, cursor);
  if (cursor.source.kind === 'changeStream') markChangeStream(call.context);
  const maxTime = toNumber(given['maxTimeMS']);
  if (maxTime !== undefined && !cursor.awaitData) {
    throw fail(2, 'cannot set maxTimeMS on getMore command for a non-awaitData cursor');
  }
  const release = services.cursors.pin(cursor);
  try {
    injectCheckoutFailure(call);
    if ((toNumber(cursor.origin['maxTimeMS']) ?? 0) > 0) services.failpoints.timeOut();
    return await nextBatch(call, cursor, maxTime);
  } catch (failure) {
    services.cursors.kill(id);
    throw failure;
  } finally {
    release(call.node.now().getTime());
  }
}

function checkOwner(call: Call, cursor: Cursor): void {
  const ns = `${call.db}.${call.command['collection']}`;
  if (ns !== cursor.ns) {
    throw fail(
      13,
      `Requested getMore on namespace '${ns}', but cursor belongs to a different namespace ${cursor.ns}`,
    );
  }
  if (cursor.user !== userOf(call.context)) {
    throw fail(13, `cursor id ${cursor.id.toString()} was not created by the authenticated user`);
  }
  checkSession(call, cursor);
}

/** A cursor belongs to the session, and inside transactions to the transaction, that opened it. */
function checkSession(call: Call, cursor: Cursor): void {
  const key = call.session?.key ?? null;
  const id = cursor.id.toString();
  const where = (name: string | null) => (name === null ? '' : `, which was created in session ${name}`);
  if (cursor.sessionKey === null && key !== null) {
    throw fail(
      50736,
      `Cannot run getMore on cursor ${id}, which was not created in a session, in session ${key}`,
    );
  }
  if (cursor.sessionKey !== null && key === null) {
    throw fail(50737, `Cannot run getMore on cursor ${id}${where(cursor.sessionKey)}, without an lsid`);
  }
  if (cursor.sessionKey !== key) {
    throw fail(50738, `Cannot run getMore on cursor ${id}${where(cursor.sessionKey)}, in session ${key}`);
  }
  if (cursor.txnNumber === null && call.transaction !== null) {
    throw fail(
      50739,
      `Cannot run getMore on cursor ${id}, which was not created in a transaction, in transaction ${call.session!.txnNumber}`,
    );
  }
  if (cursor.txnNumber === null) return;
  if (call.transaction === null) {
    throw fail(
      50740,
      `Cannot run getMore on cursor ${id}, which was created in a transaction, without a txnNumber`,
    );
  }
  if (cursor.txnNumber !== call.session!.txnNumber) {
    throw fail(
      50741,
      `Cannot run getMore on cursor ${id}, which was created in transaction ${cursor.txnNumber}, in transaction ` +
        `${call.session!.txnNumber}`,
    );
  }
}

function injectCheckoutFailure(call: Call): void {
  const data = call.services.failpoints.enter('failGetMoreAfterCursorCheckout');
  if (data === null) return;
  if (toBoolean(data['closeConnection'])) call.context.connection.close();
  const code = toNumber(data['errorCode']);
  if (code !== undefined) {
    throw fail(code, "Hit the 'failGetMoreAfterCursorCheckout' failpoint");
  }
}

async function nextBatch(call: Call, cursor: Cursor, maxTime: number | undefined): Promise<Document> {
  const { command: given, services, context } = call;
  const asked = toNumber(given['batchSize']);
  const limit = asked === undefined || asked === 0 ? Number.POSITIVE_INFINITY : asked;
  let taken = takeBatch(cursor.source, limit);
  if (cursor.awaitData && cursor.source.wait) {
    const deadline = Date.now() + (maxTime ?? AWAIT_DATA_DEFAULT);
    const killed = cursor.killed.signal;
    const signal = AbortSignal.any([context.signal, killed]);
    while (taken.batch.length === 0 && taken.more && !killed.aborted) {
      const left = deadline - Date.now();
      if (left <= 0) break;
      await cursor.source.wait(left, signal);
      throwIfAborted(context.signal);
      taken = takeBatch(cursor.source, limit);
    }
  }
  if (cursor.killed.signal.aborted)
    throw fail(237, 'operation was interrupted because the cursor was killed');
  const token = cursor.source.postBatchResumeToken?.();
  if (!taken.more) services.cursors.kill(cursor.id);
  return {
    cursor: {
      nextBatch: taken.batch,
      ...(token === undefined ? {} : { postBatchResumeToken: token }),
      ...(call.atClusterTime === null ? {} : { atClusterTime: call.atClusterTime }),
      id: taken.more ? cursor.id : Long.ZERO,
      ns: cursor.ns,
    },
  };
}

/** `getMore`. Who may go on with a cursor is decided by its owner, not by a privilege. */
export const getMoreCommand = command({
  name: 'getMore',
  auth: 'login',
  access: 'any',
  inTransaction: true,
  readConcern: true,
  shape: {
    getMore: rule.long,
    collection: required(rule.string),
    batchSize: rule.natural,
    term: rule.number,
    lastKnownCommittedOpTime: rule.object,
    includeQueryStatsMetrics: rule.flag,
  },
  run: runGetMore,
});

function runKillCursors(call: Call): Document {
  const ids: unknown[] = call.command['cursors'];
  const ns = `${call.db}.${collectionNamed(call.command)}`;
  const killed: Long[] = [];
  const notFound: Long[] = [];
  for (const [index, id] of ids.entries()) {
    if (typeName(id) !== 'long') throw wrongType(`killCursors.cursors.${index}`, typeName(id), ['long']);
    const cursor = call.services.cursors.list().find((open) => open.id.equals(id as Long));
    const mine = cursor !== undefined && cursor.ns === ns;
    if (mine && call.services.cursors.kill(id as Long)) killed.push(id as Long);
    else notFound.push(id as Long);
  }
  return { cursorsKilled: killed, cursorsNotFound: notFound, cursorsAlive: [], cursorsUnknown: [] };
}

/** `killCursors`. */
export const killCursorsCommand = command({
  name: 'killCursors',
  auth: 'login',
  access: 'any',
  inTransaction: true,
  shape: { killCursors: rule.string, cursors: required(rule.array) },
  run: runKillCursors,
});
