/** One call of a client through the router: finding the way, sending, and going again when the way was an old one. */
import { type Document, Timestamp } from 'bson';
import { type Millis, SECOND } from '../../base/units.ts';
import { codeName, fail } from '../commands/errors.ts';
import { pause } from '../commands/notifier.ts';
import { fullSessionId, numberOf, sessionKey } from '../commands/sessions.ts';
import { type CommandContext, ServerError } from '../contracts.ts';
import { toNumber } from '../data/index.ts';
import { ownersOf } from '../sharding/chunks.ts';
import type { Answer, Resend } from '../sharding/set-client.ts';
import { type Route, versionFields } from './catalog.ts';
import type { Router } from './router.ts';
import { type RoutedTransaction, takePart } from './transactions.ts';

/** Fields of a client's command that the router puts in itself. */
const OWN: ReadonlySet<string> = new Set([
  '$db',
  '$clusterTime',
  'lsid',
  'txnNumber',
  'autocommit',
  'startTransaction',
  'recoveryToken',
]);
/** A router with an old table looks again for so long: a range that moves holds up requests. */
const STALE_LIMIT: Millis = 60 * SECOND;
const STALE_CODES: ReadonlySet<number> = new Set([13388, 249, 63, 150]);

/** A shard says that the router's table is old. */
export class StaleRoute extends Error {
  readonly reply: Document;
  constructor(reply: Document) {
    super(String(reply['errmsg']));
    this.reply = reply;
  }
}

/** How a command is sent to one shard. */
export interface Sending {
  readonly writes: boolean;
  /** May be sent again although it may have been run. */
  readonly repeatable: boolean;
  /** More than one statement: not even sent again when refused, part of it may have been run. */
  readonly several?: boolean;
}

/** One client's call. */
export class RouteCall {
  readonly context: CommandContext;
  readonly router: Router;
  readonly command: Document;
  readonly db: string;
  readonly session: { readonly lsid: Document; readonly key: string } | null;
  readonly transaction: RoutedTransaction | null;
  /** The newest time any shard worked at, for the reply. */
  operationTime: Timestamp | null = null;

  /** `transaction` is given where the call already takes part in one. */
  constructor(router: Router, context: CommandContext, transaction?: RoutedTransaction | null) {
    this.router = router;
    this.context = context;
    this.command = context.command;
    this.db = context.db;
    const lsid: unknown = context.command['lsid'];
    const full = lsid === undefined ? null : fullSessionId(context, lsid);
    this.session = full === null ? null : { lsid: full, key: sessionKey(full) };
    this.transaction = transaction === undefined ? this.#transaction() : transaction;
  }

  #transaction(): RoutedTransaction | null {
    const { command, context, session } = this;
    const ends = context.name === 'commitTransaction' || context.name === 'abortTransaction';
    if (command['autocommit'] !== false || ends) return null;
    const number = numberOf(context);
    if (session === null || number === null)
      throw fail(72, "'autocommit' field requires a transaction number to also be specified");
    const starts = command['startTransaction'] === true;
    return this.router.transactions.enter(session.key, number.value, starts, command['readConcern']);
  }

  /** The same client's call with another command. */
  derived(name: string, command: Document): RouteCall {
    const { lsid, txnNumber, autocommit } = this.command;
    const session = Object.entries({ lsid, txnNumber, autocommit }).filter(
      ([, value]) => value !== undefined,
    );
    const whole = { ...command, ...Object.fromEntries(session), $db: this.db };
    return new RouteCall(this.router, { ...this.context, name, command: whole }, this.transaction);
  }

  /** The client's command without what belongs to the way. */
  body(): Document {
    const body = Object.fromEntries(Object.entries(this.command).filter(([name]) => !OWN.has(name)));
    if (this.transaction !== null) delete body['readConcern'];
    return body;
  }

  /** True when statements of this call have numbers, so that shards know a repeated one. */
  get numbered(): boolean {
    return this.transaction === null && this.command['txnNumber'] !== undefined && this.session !== null;
  }

  /** Session fields for a shard; a shard new to the transaction is told to start it. */
  sessionFields(shard: string, writes: boolean): Document {
    const { session, transaction, command } = this;
    if (session === null) return {};
    if (transaction === null) {
      const number = writes && command['txnNumber'] !== undefined ? { txnNumber: command['txnNumber'] } : {};
      return { lsid: session.lsid, ...number };
    }
    const isNew = takePart(transaction, shard, writes);
    const begin = {
      startTransaction: true,
      ...(transaction.readConcern && { readConcern: transaction.readConcern }),
    };
    return {
      lsid: session.lsid,
      txnNumber: command['txnNumber'],
      autocommit: false,
      ...(isNew ? begin : {}),
    };
  }

  /** Sends to one shard and gives the answer, good or bad; throws StaleRoute when the shard knows better. */
  async send(
    shard: string,
    command: Document,
    route: Route,
    how: Sending,
    db: string = this.db,
  ): Promise<Answer> {
    const full = {
      ...command,
      ...versionFields(route),
      ...this.sessionFields(shard, how.writes),
      ...this.router.timeFields(),
    };
    const preference: Document | undefined = this.command['$readPreference'];
    const client = await this.router.client(shard);
    const answer = await client.runAt(db, full, {
      resend: this.#resend(how),
      ...(how.writes || this.transaction !== null ? {} : { preference }),
    });
    this.hear(answer.reply);
    const code = toNumber(answer.reply['code']);
    if (toNumber(answer.reply['ok']) !== 1 && code !== undefined && STALE_CODES.has(code)) {
      if (this.transaction !== null && full['startTransaction'] === true)
        this.transaction.participants.delete(shard);
      throw new StaleRoute(answer.reply);
    }
    return answer;
  }

  #resend(how: Sending): Resend {
    if (this.transaction !== null) return 'never';
    if (how.repeatable || (how.writes && this.numbered)) return 'always';
    return how.several === true ? 'never' : 'unsent';
  }

  /** Notes the time a shard worked at. */
  hear(reply: Document): void {
    const at: unknown = reply['operationTime'];
    if (at instanceof Timestamp && (this.operationTime === null || at.greaterThan(this.operationTime)))
      this.operationTime = at;
  }

  /** Does something along a route, again with a fresh one as long as shards say that it is old. */
  async along<T>(ns: string, writes: boolean, work: (route: Route) => Promise<T>): Promise<T> {
    const { catalog } = this.router;
    const until = performance.now() + STALE_LIMIT;
    for (let wait = 5; ; wait = Math.min(wait * 2, 500)) {
      const route = await (writes ? catalog.routeForWrite(ns) : catalog.route(ns));
      try {
        return await work(route);
      } catch (failure) {
        if (!(failure instanceof StaleRoute)) throw failure;
        if (performance.now() > until) throw errorOf(failure.reply);
        catalog.forget(ns);
        await pause(wait, this.context.signal);
        if (this.context.signal.aborted) throw this.context.signal.reason;
      }
    }
  }

  /** A pipeline's write concern: only those that write have the cluster's default. */
  async writeConcernFor(stages: readonly Document[]): Promise<Document> {
    const last = Object.keys(stages.at(-1) ?? {})[0];
    return last === '$out' || last === '$merge' ? this.writeConcern() : {};
  }

  /** The command's write concern, the cluster's default where it gives none. */
  async writeConcern(): Promise<Document> {
    if (this.transaction !== null || this.command['writeConcern'] !== undefined) return {};
    const set = await this.router.catalog.writeConcern();
    return set === undefined ? {} : { writeConcern: set };
  }
}

/** A bad reply as an error with all it says. */
export function errorOf(reply: Document): ServerError {
  const { ok: _ok, errmsg, code, codeName: name, errorLabels, ...rest } = reply;
  const { $clusterTime: _time, operationTime: _at, topologyVersion: _version, ...extra } = rest;
  const number = toNumber(code) ?? 8;
  return new ServerError(number, String(name ?? codeName(number)), String(errmsg), extra, errorLabels);
}

/** The reply when it is good; throws it as an error when not. */
export function assertGood(reply: Document): Document {
  if (toNumber(reply['ok']) === 1) return reply;
  throw errorOf(reply);
}

/** A shard's reply without what only means something between it and the router. */
export function clientReply(reply: Document): Document {
  const {
    $clusterTime: _time,
    operationTime: _at,
    topologyVersion: _version,
    electionId: _election,
    opTime: _op,
    ...rest
  } = reply;
  return rest;
}

/** Shards that must be asked when nothing narrows it down. */
export function allTargets(route: Route): readonly string[] {
  if (route.kind === 'sharded') return ownersOf(route.table.chunks);
  return route.kind === 'unsharded' ? [route.primary] : [];
}
