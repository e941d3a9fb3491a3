/** currentOp, killOp and top. */
import type { Document } from 'bson';
import { Long } from 'bson';
import { required, rule, toBoolean, toNumber } from './arguments.ts';
import { type Call, command, loginOnly, onCluster } from './call.ts';
import { fail } from './errors.ts';
import { commandNamespace } from './namespaces.ts';
import type { Operation } from './operations.ts';
import { pipe } from './pipe.ts';

const WRITES: Readonly<Record<string, string>> = {
  insert: 'insert',
  update: 'update',
  delete: 'remove',
  find: 'query',
  getMore: 'getmore',
};

function describe(call: Call, operation: Operation): Document {
  const { context, startedAt } = operation;
  const { connection } = context;
  const micros = Math.max(1, (call.node.now().getTime() - startedAt.getTime()) * 1_000);
  const session =
    operation.sessionKey === null ? undefined : call.services.sessions.find(operation.sessionKey);
  return {
    type: 'op',
    host: call.node.address,
    desc: `conn${connection.id}`,
    connectionId: connection.id,
    client: connection.remote,
    ...(connection.appName === undefined ? {} : { appName: connection.appName }),
    ...(connection.clientMetadata === undefined ? {} : { clientMetadata: connection.clientMetadata }),
    active: true,
    currentOpTime: call.node.now().toISOString(),
    effectiveUsers: connection.users.map(({ user, db }) => ({ user, db })),
    threaded: true,
    opid: operation.opId,
    ...(session === undefined ? {} : { lsid: session.lsid }),
    secs_running: Long.fromNumber(Math.floor(micros / 1_000_000)),
    microsecs_running: Long.fromNumber(micros),
    op: WRITES[context.name] ?? 'command',
    ns: commandNamespace(context.command, context.db),
    redacted: false,
    command: context.command,
    numYields: 0,
    locks: {},
    waitingForLock: false,
    lockStats: {},
    waitingForFlowControl: false,
    flowControlStats: {},
  };
}

/** What runs now, and with `idle` the open transactions and cursors between two commands. */
export function currentOperations(call: Call, options: { readonly idle: boolean }): Document[] {
  const running = call.services.operations.list().map((operation) => describe(call, operation));
  const busy = new Set(call.services.operations.list().map((operation) => operation.sessionKey));
  const transactions = call.services.sessions
    .list()
    .filter((session) => session.transaction !== null && !busy.has(session.key))
    .map((session) => ({
      type: 'idleSession',
      host: call.node.address,
      desc: 'inactive transaction',
      active: false,
      lsid: session.lsid,
      transaction: {
        parameters: {
          txnNumber: Long.fromBigInt(session.txnNumber),
          autocommit: false,
          readConcern: session.transaction!.readConcern,
        },
        startWallClockTime: session.transaction!.startedAt.toISOString(),
      },
    }));
  const cursors = options.idle
    ? call.services.cursors.list().map((cursor) => ({
        type: 'idleCursor',
        host: call.node.address,
        ns: cursor.ns,
        active: false,
        cursor: {
          cursorId: cursor.id,
          originatingCommand: cursor.origin,
          tailable: cursor.source.kind !== 'static',
        },
      }))
    : [];
  return [...running, ...transactions, ...cursors];
}

/** `currentOp`: further fields filter. */
const currentOpCommand = command({
  name: 'currentOp',
  adminOnly: true,
  auth: (context) =>
    toBoolean(context.command['$ownOps'])
      ? loginOnly(context)
      : [{ resource: { cluster: true }, actions: ['inprog'] }],
  access: 'any',
  run: (call) => {
    const { command: given } = call;
    const filter: Document = {};
    for (const [key, value] of Object.entries(given)) if (isFilter(key)) filter[key] = value;
    const all = currentOperations(call, { idle: toBoolean(given['$all']) });
    return { inprog: pipe(call, all, Object.keys(filter).length === 0 ? [] : [{ $match: filter }]) };
  },
});

const NOT_FILTERS: ReadonlySet<string> = new Set([
  'currentOp',
  'lsid',
  'comment',
  'maxTimeMS',
  'readConcern',
  'apiVersion',
]);
const isFilter = (key: string): boolean => !key.startsWith('$') && !NOT_FILTERS.has(key);

/** `killOp`: answers alike whether there is such an operation or not. */
const killOpCommand = command({
  name: 'killOp',
  adminOnly: true,
  auth: onCluster('killop'),
  access: 'any',
  shape: { killOp: rule.any, op: required(rule.any) },
  run: (call) => {
    const opId = toNumber(call.command['op']);
    if (opId === undefined) {
      throw fail(14, `Expected field "op" to have numeric type, but found ${typeof call.command['op']}`);
    }
    call.services.operations.kill(opId, fail(11601, 'operation was interrupted'));
    return { info: 'attempting to kill op' };
  },
});

/** `top`: usage by collection; this server does not measure it. */
const topCommand = command({
  name: 'top',
  adminOnly: true,
  auth: onCluster('top'),
  access: 'any',
  run: (call) => {
    const none = { time: Long.ZERO, count: Long.ZERO };
    const totals: Document = { note: 'all times in microseconds' };
    for (const db of call.data.databases()) {
      for (const info of call.data.collections(db)) {
        totals[`${db}.${info.name}`] = Object.fromEntries(
          [
            'total',
            'readLock',
            'writeLock',
            'queries',
            'getmore',
            'insert',
            'update',
            'remove',
            'commands',
          ].map((key) => [key, none]),
        );
      }
    }
    return { totals };
  },
});

/** The commands of this file. */
export const OPERATION_COMMANDS = [currentOpCommand, killOpCommand, topCommand];
