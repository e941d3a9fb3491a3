/** find, count, distinct and what reads like them. */
import { type Document, Long } from 'bson';
import { toBoolean } from '../commands/arguments.ts';
import { count } from '../commands/call.ts';
import { FIRST_BATCH } from '../commands/cursors.ts';
import { fail } from '../commands/errors.ts';
import { findSpec } from '../commands/find.ts';
import { namespaceOf } from '../commands/namespaces.ts';
import {
  collatorOf,
  compareValues,
  compileProjection,
  compileSort,
  isDocument,
  toNumber,
  valueKey,
} from '../data/index.ts';
import { targetsOf } from '../sharding/targeting.ts';

import { assertGood, clientReply, type RouteCall, type Sending } from './call.ts';
import type { Route } from './catalog.ts';
import { type RemoteCursor, type RemoteOptions, RemoteSource } from './remote-source.ts';

export const READ: Sending = { writes: false, repeatable: true };

/** Shards a read concerns. */
export function readTargets(route: Route, filter: unknown, collation: unknown): readonly string[] {
  if (route.kind === 'unsharded') return [route.primary];
  if (route.kind !== 'sharded') return [];
  return targetsOf(route.table, isDocument(filter) ? filter : {}, collation === undefined);
}

/** Opens the same cursor command on shards. */
export async function openCursors(
  call: RouteCall,
  route: Route,
  shards: readonly string[],
  command: Document,
): Promise<readonly RemoteCursor[]> {
  return Promise.all(
    shards.map(async (shard) => {
      const { host, reply } = await call.send(shard, command, route, READ);
      const { cursor } = assertGood(reply);
      const client = await call.router.client(shard);
      return remoteCursor(client, host, cursor);
    }),
  );
}

/** A member's cursor as one to go on with. */
export function remoteCursor(client: RemoteCursor['client'], host: string, cursor: Document): RemoteCursor {
  const ns = String(cursor['ns']);
  const dot = ns.indexOf('.');
  return {
    client,
    host,
    db: ns.slice(0, dot),
    collection: ns.slice(dot + 1),
    id: cursor['id'] as Long,
    firstBatch: cursor['firstBatch'],
    token: cursor['postBatchResumeToken'],
  };
}

/** Session fields for going on with cursors of this call. */
export function cursorSession(call: RouteCall): Document {
  if (call.session === null) return {};
  if (call.transaction === null) return { lsid: call.session.lsid };
  return { lsid: call.session.lsid, txnNumber: call.command['txnNumber'], autocommit: false };
}

/** The first reply of a router's cursor over others. */
export async function replyWith(
  call: RouteCall,
  ns: string,
  remotes: readonly RemoteCursor[],
  options: Omit<RemoteOptions, 'session'>,
  batchSize: number,
): Promise<Document> {
  const source = new RemoteSource(remotes, { ...options, session: cursorSession(call) });
  await source.prime(call.context.signal);
  return call.router.services.cursors.first(call.context, ns, source, batchSize, {
    awaitData: true,
    noTimeout: toBoolean(call.command['noCursorTimeout']),
    sessionKey: call.session?.key ?? null,
    txnNumber: null,
  });
}

/** Everything a cursor command gives on these shards, as lists by shard. */
export async function drain(
  call: RouteCall,
  route: Route,
  shards: readonly string[],
  command: Document,
): Promise<readonly Document[]> {
  const remotes = await openCursors(call, route, shards, command);
  const source = new RemoteSource(remotes, { session: cursorSession(call) });
  const all: Document[] = [];
  while (!source.ended()) {
    const document = source.peek();
    if (document === undefined) await source.wait(DRAIN_WAIT, call.context.signal);
    else {
      all.push(document);
      source.shift();
    }
  }
  return all;
}

const DRAIN_WAIT = 600_000;

/** Sends a read to the config servers' primary or the member the client prefers. */
export async function fromConfig(call: RouteCall, command: Document, writes = false): Promise<Document> {
  const { config } = call.router;
  const session = call.session === null ? {} : { lsid: call.session.lsid };
  const number = writes && call.numbered ? { txnNumber: call.command['txnNumber'] } : {};
  const answer = await config.runAt(
    call.db,
    { ...command, ...session, ...number, ...call.router.timeFields() },
    {
      resend: !writes || call.numbered ? 'always' : 'unsent',
      preference: writes ? undefined : call.command['$readPreference'],
    },
  );
  call.hear(answer.reply);
  const reply = assertGood(answer.reply);
  const cursor = reply['cursor'] as Document | undefined;
  if (cursor?.['firstBatch'] === undefined || cursor['id'] === undefined) return clientReply(reply);
  const remote = remoteCursor(config, answer.host, cursor);
  const size = Math.max(1, remote.firstBatch.length);
  return replyWith(call, String(cursor['ns']), [remote], {}, remote.firstBatch.length === 0 ? 0 : size);
}

// ── find ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** `find`. */
export async function runFind(call: RouteCall): Promise<Document> {
  const ns = namespaceOf(call.command, call.db);
  return call.along(ns, false, async (route) => {
    if (route.kind === 'config') return fromConfig(call, call.body());
    if (route.kind === 'none') return emptyCursor(ns);
    const shards = readTargets(route, call.command['filter'], call.command['collation']);
    return shards.length === 1 ? findOnOne(call, ns, route, shards) : findOnMany(call, ns, route, shards);
  });
}

export const emptyCursor = (ns: string): Document => ({ cursor: { firstBatch: [], id: Long.ZERO, ns } });

async function findOnOne(
  call: RouteCall,
  ns: string,
  route: Route,
  shards: readonly string[],
): Promise<Document> {
  const remotes = await openCursors(call, route, shards, call.body());
  const tails = toBoolean(call.command['tailable']);
  const batchSize = toNumber(call.command['batchSize']);
  return replyWith(call, ns, remotes, { batchSize, tails }, batchSize ?? FIRST_BATCH);
}

async function findOnMany(
  call: RouteCall,
  ns: string,
  route: Route,
  shards: readonly string[],
): Promise<Document> {
  const given = call.body();
  const spec = findSpec(given);
  if (toBoolean(given['tailable']))
    throw fail(72, 'tailable cursors are not possible on sharded collections');
  const batchSize = toNumber(given['batchSize']);
  const single = toBoolean(given['singleBatch']);
  const { sort } = spec;
  const ordered = sort !== undefined && !('$natural' in sort);
  const { skip: _skip, limit: _limit, projection: _projection, ...rest } = given;
  const wanted = spec.limit === undefined ? undefined : spec.limit + (spec.skip ?? 0);
  const command = {
    ...(ordered ? rest : { ...rest, ...(spec.projection && { projection: spec.projection }) }),
    ...(wanted === undefined ? {} : { limit: wanted }),
  };
  const remotes = await openCursors(call, route, shards, command);
  const collator = collatorOf(spec.collation);
  const options = {
    skip: spec.skip ?? 0,
    ...(spec.limit === undefined ? {} : { limit: spec.limit }),
    ...(ordered ? { compare: compileSort(sort, collator) } : {}),
    ...(ordered && spec.projection !== undefined ? { project: projector(spec.projection, spec.let) } : {}),
    batchSize,
  };
  const size = batchSize ?? FIRST_BATCH;
  const limited = single ? { ...options, limit: Math.min(spec.limit ?? size, size) } : options;
  return replyWith(call, ns, remotes, limited, size);
}

function projector(projection: Document, variables: Document | undefined): (document: Document) => Document {
  const project = compileProjection(projection, {
    find: true,
    ...(variables === undefined ? {} : { variables }),
  });
  return (document) => project(document);
}

// ── count, distinct ────────────────────────────────────────────────────────────────────────────────────────────────

/** `count`. */
export async function runCount(call: RouteCall): Promise<Document> {
  const ns = namespaceOf(call.command, call.db);
  return call.along(ns, false, async (route) => {
    if (route.kind === 'config') return fromConfig(call, call.body());
    const shards = readTargets(route, call.command['query'], call.command['collation']);
    if (shards.length === 1) {
      const { reply } = await call.send(shards[0]!, call.body(), route, READ);
      return clientReply(assertGood(reply));
    }
    const { skip, limit, ...rest } = call.body();
    const [from, most] = [toNumber(skip) ?? 0, Math.abs(toNumber(limit) ?? 0)];
    const counts = await Promise.all(shards.map((shard) => call.send(shard, rest, route, READ)));
    const all = counts.reduce((sum, { reply }) => sum + (toNumber(assertGood(reply)['n']) ?? 0), 0);
    const left = Math.max(0, all - from);
    return { n: count(most === 0 ? left : Math.min(left, most)) };
  });
}

/** `distinct`. */
export async function runDistinct(call: RouteCall): Promise<Document> {
  const ns = namespaceOf(call.command, call.db);
  return call.along(ns, false, async (route) => {
    if (route.kind === 'config') return fromConfig(call, call.body());
    const collation = call.command['collation'] as Document | undefined;
    const shards = readTargets(route, call.command['query'], collation);
    const replies = await Promise.all(shards.map((shard) => call.send(shard, call.body(), route, READ)));
    const collator = collatorOf(collation);
    const values = new Map<string, unknown>();
    for (const { reply } of replies)
      for (const value of assertGood(reply)['values'] as unknown[]) {
        const key = valueKey(value, collator);
        if (!values.has(key)) values.set(key, value);
      }
    return { values: [...values.values()].sort((left, right) => compareValues(left, right, collator)) };
  });
}

// ── getMore ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A getMore without what belongs to the transaction: the router's cursors know it themselves. */
export function plainGetMore(command: Document): Document {
  const {
    txnNumber: _number,
    autocommit: _commit,
    startTransaction: _start,
    readConcern: _concern,
    ...rest
  } = command;
  return rest;
}
