/** Commands about sessions and transactions. */
import type { Document } from 'bson';
import { UUID } from 'bson';
import { isDocument, required, rule, toBoolean } from './arguments.ts';
import { type Call, command, onCluster, writeContext } from './call.ts';
import { fail } from './errors.ts';
import { fullSessionId, numberOf, type Session, sessionKey } from './sessions.ts';
import { abortTransaction, commitTransaction, noSuchTransaction } from './transactions.ts';
import { injectTransactionalFailure } from './write-batch.ts';

/** Minutes a session lives without use. */
const TIMEOUT_MINUTES = 30;

const startSession = command({
  name: 'startSession',
  auth: 'login',
  access: 'any',
  run: (call) => {
    const id = new UUID();
    const session = call.services.sessions.get(fullSessionId(call.context, { id }));
    session.used = true;
    session.startedAt = call.node.now();
    session.lastUsed = call.node.now().getTime();
    return { id: { id }, timeoutMinutes: TIMEOUT_MINUTES };
  },
});

function sessionsIn(call: Call, list: unknown): string[] {
  if (!Array.isArray(list)) throw fail(14, 'sessions must be given as an array');
  return list.map((given) => sessionKey(fullSessionId(call.context, given)));
}

const endSessions = command({
  name: 'endSessions',
  auth: 'none',
  access: 'any',
  shape: { endSessions: required(rule.array), txnNumber: rule.any },
  run: (call) => {
    call.services.killSessions(sessionsIn(call, call.command['endSessions']), true, call.context);
    return {};
  },
});

const refreshSessions = command({
  name: 'refreshSessions',
  auth: 'login',
  access: 'any',
  shape: { refreshSessions: required(rule.array) },
  run: (call) => {
    for (const key of sessionsIn(call, call.command['refreshSessions'])) {
      const session = call.services.sessions.find(key);
      if (session) session.lastUsed = call.node.now().getTime();
    }
    return {};
  },
});

const killSessions = command({
  name: 'killSessions',
  auth: 'login',
  access: 'any',
  shape: { killSessions: required(rule.array) },
  run: (call) => {
    const keys = sessionsIn(call, call.command['killSessions']);
    kill(call, (session) =>
      keys.length === 0 ? session.user === ownUser(call) : keys.includes(session.key),
    );
    return {};
  },
});

const ownUser = (call: Call): string =>
  call.context.connection.users.map(({ user, db }) => `${user}@${db}`).join(',');

function kill(call: Call, meant: (session: Session) => boolean): void {
  const keys = call.services.sessions
    .list()
    .filter(meant)
    .map((session) => session.key);
  call.services.killSessions(keys, false, call.context);
}

const killAllSessions = command({
  name: 'killAllSessions',
  auth: onCluster('killAnySession'),
  access: 'any',
  shape: { killAllSessions: required(rule.array) },
  run: (call) => {
    const users: Document[] = call.command['killAllSessions'];
    const names = users.map(({ user, db }) => `${user}@${db}`);
    kill(call, (session) => names.length === 0 || names.includes(session.user));
    return {};
  },
});

const killAllSessionsByPattern = command({
  name: 'killAllSessionsByPattern',
  auth: onCluster('killAnySession'),
  access: 'any',
  shape: { killAllSessionsByPattern: required(rule.array) },
  run: (call) => {
    const patterns: Document[] = call.command['killAllSessionsByPattern'];
    kill(call, (session) => patterns.length === 0 || patterns.some((pattern) => matches(session, pattern)));
    return {};
  },
});

function matches(session: Session, pattern: Document): boolean {
  const lsid: unknown = pattern['lsid'];
  if (isDocument(lsid)) {
    return sessionKey({ id: lsid['id'] }).split(':')[0] === session.key.split(':')[0];
  }
  const users: Document[] | undefined = pattern['users'];
  return users === undefined || users.some(({ user, db }) => `${user}@${db}` === session.user);
}

/** What `$listSessions` and `$listLocalSessions` give. */
export function sessionDocuments(call: Call, body: Document): Document[] {
  const users: Document[] | undefined = body['users'];
  const names = toBoolean(body['allUsers'])
    ? null
    : (users?.map(({ user, db }) => `${user}@${db}`) ?? [ownUser(call)]);
  return call.services.sessions
    .list()
    .filter((session) => session.used && (names === null || names.includes(session.user)))
    .map((session) => ({
      _id: session.lsid,
      lastUse: new Date(session.lastUsed),
      ...(session.user === '' ? {} : { user: { name: session.user } }),
    }));
}

// ── end of transactions ────────────────────────────────────────────────────────────────────────────────────────────

function numbered(call: Call): { readonly session: Session; readonly txnNumber: bigint } {
  const number = numberOf(call.context);
  const { session } = call;
  if (
    call.node.replication === null ||
    number === null ||
    session === null ||
    call.command['autocommit'] !== false
  ) {
    throw fail(125, `${call.context.name} must be run within a transaction`);
  }
  return { session, txnNumber: number.value };
}

/** Commits; the dispatcher waits for the write concern, also when the commit is a repeated one. */
function runCommit(call: Call): Document {
  const { session, txnNumber } = numbered(call);
  const replication = call.node.replication!;
  const number = numberOf(call.context)!.long;
  call.lastWrite = commitTransaction(session, txnNumber, (transaction) => {
    injectTransactionalFailure(call);
    const outcome = transaction.view.commit({
      ...writeContext(call),
      session: { lsid: session.lsid, txnNumber: number, stmtId: 0 },
    });
    const last = outcome.entries.at(-1);
    return last ? { ts: last.ts, t: last.t } : replication.lastApplied();
  });
  return {};
}

const commit = command({
  name: 'commitTransaction',
  adminOnly: true,
  auth: 'login',
  access: 'write',
  inTransaction: true,
  shape: { commitTransaction: rule.any, recoveryToken: rule.object },
  run: runCommit,
});

function runAbort(call: Call): Document {
  const { session, txnNumber } = numbered(call);
  if (txnNumber !== session.txnNumber || session.kind !== 'transaction')
    throw noSuchTransaction(session, txnNumber);
  if (session.status === 'committed') {
    throw fail(256, `Transaction with { txnNumber: ${txnNumber} } has been committed.`);
  }
  if (session.transaction === null) {
    throw fail(251, `Transaction with { txnNumber: ${txnNumber} } has been aborted.`);
  }
  abortTransaction(session);
  return {};
}

const abort = command({
  name: 'abortTransaction',
  adminOnly: true,
  auth: 'login',
  access: 'write',
  inTransaction: true,
  shape: { abortTransaction: rule.any, recoveryToken: rule.object },
  run: runAbort,
});

/** The commands of this file. */
export const SESSION_COMMANDS = [
  startSession,
  endSessions,
  refreshSessions,
  killSessions,
  killAllSessions,
  killAllSessionsByPattern,
  commit,
  abort,
];
