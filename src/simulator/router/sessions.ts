/** Ends of transactions and sessions through the router. */
import type { Document } from 'bson';
import { fail } from '../commands/errors.ts';
import { fullSessionId, numberOf } from '../commands/sessions.ts';
import { assertGood, clientReply, type RouteCall } from './call.ts';
import { type RoutedTransaction, recoveryShard } from './transactions.ts';

/** `commitTransaction`: on the shard with writes last, with the client's write concern; repeated as often as asked. */
export async function runCommit(call: RouteCall): Promise<Document> {
  const { transaction, fields } = ending(call);
  if (transaction === undefined)
    return commitBy(call, call.command['recoveryToken']?.recoveryShardId, fields);
  if (transaction.state === 'aborted') throw fail(251, 'Transaction has been aborted.');
  const last = recoveryShard(transaction);
  if (last === undefined) {
    transaction.state = 'committed';
    return {};
  }
  if (transaction.state === 'open') {
    const readers = [...transaction.participants.keys()].filter((shard) => shard !== last);
    await Promise.all(readers.map((shard) => endAt(call, shard, 'commitTransaction', fields)));
  }
  transaction.state = 'committed';
  return commitBy(call, last, fields);
}

/** Commits where the client, or this router, knows that the writes are. */
async function commitBy(call: RouteCall, shard: unknown, fields: Document): Promise<Document> {
  if (typeof shard !== 'string') throw fail(251, 'the transaction is not known to this router');
  const { writeConcern } = { ...(await call.writeConcern()), ...call.body() } as Document;
  const concern = writeConcern === undefined ? {} : { writeConcern };
  const reply = await endAt(call, shard, 'commitTransaction', { ...fields, ...concern });
  return { ...clientReply(assertGood(reply)), recoveryToken: { recoveryShardId: shard } };
}

/** `abortTransaction`. */
export async function runAbort(call: RouteCall): Promise<Document> {
  const { transaction, fields } = ending(call);
  if (transaction === undefined || transaction.state === 'aborted')
    throw fail(251, 'the transaction is not known to this router');
  if (transaction.state === 'committed') throw fail(256, 'Transaction has been committed.');
  await abortEverywhere(call, transaction, fields);
  return {};
}

/** Ends a transaction on all its shards; those that can't be reached end it by themselves in time. */
export async function abortEverywhere(
  call: RouteCall,
  transaction: RoutedTransaction,
  fields: Document,
): Promise<void> {
  transaction.state = 'aborted';
  const shards = [...transaction.participants.keys()];
  await Promise.allSettled(shards.map((shard) => endAt(call, shard, 'abortTransaction', fields)));
}

/** What ends a transaction: its number and session. */
export function transactionFields(call: RouteCall): Document {
  return { lsid: call.session?.lsid, txnNumber: call.command['txnNumber'], autocommit: false };
}

function ending(call: RouteCall): {
  readonly transaction: RoutedTransaction | undefined;
  readonly fields: Document;
} {
  const number = numberOf(call.context);
  if (call.session === null || number === null || call.command['autocommit'] !== false)
    throw fail(125, `${call.context.name} must be run within a transaction`);
  const transaction = call.router.transactions.find(call.session.key, number.value);
  return { transaction, fields: transactionFields(call) };
}

async function endAt(call: RouteCall, shard: string, name: string, fields: Document): Promise<Document> {
  const client = await call.router.client(shard);
  const reply = await client.run(
    'admin',
    { [name]: 1, ...fields, ...call.router.timeFields() },
    { resend: 'always' },
  );
  call.hear(reply);
  return reply;
}

/** Tells every shard to end sessions; those that can't be reached end them in time. */
export async function tellShards(call: RouteCall): Promise<void> {
  const { name } = call.context;
  const given: unknown = call.command[name];
  const full =
    Array.isArray(given) && (name === 'killSessions' || name === 'endSessions' || name === 'refreshSessions');
  const sessions = full ? given.map((lsid: unknown) => fullSessionId(call.context, lsid)) : given;
  const shards = [...call.router.catalog.shards.keys()];
  await Promise.allSettled(
    shards.map(async (shard) => {
      const client = await call.router.client(shard);
      return client.run(
        'admin',
        { [name]: sessions },
        { resend: 'always', select: TELL_LIMIT, timeout: TELL_LIMIT },
      );
    }),
  );
}

const TELL_LIMIT = 2_000;
