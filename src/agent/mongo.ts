/** Connections to this host's own members over loopback, with the official driver. */
import { connect } from 'node:net';
import { createSecureContext, type SecureContext } from 'node:tls';
import { type Document, MongoClient, type MongoClientOptions, MongoServerError } from 'mongodb';
import { HOUR, type Millis } from '../base/units.ts';
import type { Login, MemberSnapshot } from '../clusters/snapshot.ts';
import type { Clock } from '../engine/ports.ts';
import { type Refusal, refused } from './commands/refusals.ts';
import { CLIENT_IDLE, CONTEXTS_KEPT } from './limits.ts';

/** Where a member listens; TLS exactly when the snapshot it runs with says so (TLS-08). */
export interface Endpoint {
  readonly port: number;
  readonly caPem: string | null;
}

export const endpointOf = (snapshot: MemberSnapshot): Endpoint => ({
  port: snapshot.port,
  caPem: snapshot.tlsMode === 'disabled' ? null : snapshot.caPem,
});

/** Nothing here waits long: the process is on this machine. */
const SELECTION: Millis = 3_000;
/** For practical purposes never: a streaming monitor needs no regular checks, and nobody else should pay for any. */
const NEVER: Millis = 24 * HOUR;

/** Called with every hello the server pushes, and once when the stream breaks. */
export interface HelloStream {
  readonly hello: (reply: Document) => void;
  readonly broken: (failure: Error) => void;
}

/**
 * A client for one member. It costs next to nothing while idle: no regular checks, and connections that close when
 * unused. With a stream the driver's monitor holds one connection on which the server pushes a hello whenever something
 * changes. The certificate must come from our authority; its names are not checked on loopback, since SCRAM proves both
 * sides.
 */
export function openClient(
  endpoint: Endpoint,
  login: Login | null,
  stream: HelloStream | null = null,
): MongoClient {
  const options: MongoClientOptions = {
    appName: 'belay-agent',
    directConnection: true,
    serverMonitoringMode: stream === null ? 'poll' : 'stream',
    heartbeatFrequencyMS: NEVER,
    serverSelectionTimeoutMS: SELECTION,
    connectTimeoutMS: SELECTION,
    minPoolSize: 0,
    maxPoolSize: 2,
    maxIdleTimeMS: CLIENT_IDLE,
    retryReads: false,
    retryWrites: false,
    ...(endpoint.caPem === null
      ? {}
      : { tls: true, ca: endpoint.caPem, checkServerIdentity: () => undefined }),
    ...(login === null
      ? {}
      : { auth: { username: login.user, password: login.password.reveal() }, authSource: login.db }),
  };
  const client = new MongoClient(`mongodb://127.0.0.1:${endpoint.port}/`, options);
  if (endpoint.caPem !== null) shareTls(client, endpoint.caPem);
  if (stream !== null) {
    client.on('serverHeartbeatSucceeded', (event) => stream.hello(event.reply));
    client.on('serverHeartbeatFailed', (event) => stream.broken(event.failure));
  }
  return client;
}

const contexts = new Map<string, SecureContext>();

/**
 * One TLS context for all members under one authority. The driver passes this option on to Node's TLS but knows no way to
 * set it; without it every connection of every member keeps a parsed copy of the authority.
 */
function shareTls(client: MongoClient, caPem: string): void {
  let context = contexts.get(caPem);
  if (!context) {
    if (contexts.size >= CONTEXTS_KEPT) contexts.clear();
    context = createSecureContext({ ca: caPem });
    contexts.set(caPem, context);
  }
  (client.options as { secureContext?: SecureContext }).secureContext = context;
}

/** Whether anybody listens on this port of the machine; far cheaper than a driver's attempt. */
export function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, timeout: SELECTION });
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => end(true));
    socket.once('timeout', () => end(false));
    socket.once('error', () => end(false));
  });
}

/** Closes without waiting: sockets of a dead server must not hold anything up. */
export function dropClient(client: MongoClient | null): void {
  client?.close().catch(() => {});
}

// ── clients for commands ───────────────────────────────────────────────────────────────────────────────────────────

interface Kept {
  readonly client: MongoClient;
  cancel: () => void;
}

/** One member's clients by login, reused and closed when idle. */
export class ClientPool {
  readonly #clock: Clock;
  readonly #kept = new Map<string, Kept>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get(endpoint: Endpoint, login: Login | null): MongoClient {
    const key = JSON.stringify([endpoint, login && [login.user, login.db, login.password.reveal()]]);
    const kept = this.#kept.get(key) ?? { client: openClient(endpoint, login), cancel: () => {} };
    this.#kept.set(key, kept);
    kept.cancel();
    kept.cancel = this.#clock.at(this.#clock.now() + CLIENT_IDLE, () => this.#drop(key));
    return kept.client;
  }

  /** The process ended or changed its mode: nothing of the old connections is any use. */
  clear(): void {
    for (const key of [...this.#kept.keys()]) this.#drop(key);
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key);
    this.#kept.delete(key);
    kept?.cancel();
    dropClient(kept?.client ?? null);
  }
}

// ── what went wrong ────────────────────────────────────────────────────────────────────────────────────────────────

/** The server's or driver's failure as an outcome. The driver's messages hold no credentials. */
export function refusal(failure: unknown): Refusal {
  if (failure instanceof MongoServerError) {
    const code = typeof failure.code === 'number' ? failure.code : 0;
    return refused(code, failure.codeName ?? `Location${code}`, failure.errmsg ?? failure.message);
  }
  const { name, message } = failure instanceof Error ? failure : { name: 'Error', message: String(failure) };
  return {
    kind: 'refused',
    code: null,
    codeName: name,
    message,
    class: isDriverError(name) ? 'transient' : 'permanent',
  };
}

/** Everything the driver itself raises about connections, selection and time. */
const isDriverError = (name: string): boolean => /^Mongo|^AbortError$|^PoolCleared/.test(name);

/** What the driver raises before it has a connection to send on. */
const NEVER_SENT = new Set([
  'MongoServerSelectionError',
  'MongoTopologyClosedError',
  'MongoNotConnectedError',
  'MongoWaitQueueTimeoutError',
]);

/** No answer came back for something that was sent: it may have happened. */
export const mayHaveHappened = (failure: unknown): boolean =>
  !(failure instanceof MongoServerError) &&
  failure instanceof Error &&
  !NEVER_SENT.has(failure.name) &&
  isDriverError(failure.name);

export const codeOf = (failure: unknown): number | null =>
  failure instanceof MongoServerError && typeof failure.code === 'number' ? failure.code : null;
