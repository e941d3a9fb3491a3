/** A small client of its own for talking to other members: one connection, one request at a time. */
import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls, type SecureContextOptions } from 'node:tls';
import { Binary, type Document, deserialize, serialize } from 'bson';
import type { Secret } from '../../base/secret.ts';
import type { Millis } from '../../base/units.ts';
import { ScramClient } from './scram-client.ts';
import { numberOf } from './values.ts';

const OP_MSG = 2013;
const HEADER = 16;
const MAX_MESSAGE = 48_000_000;
const READ = { promoteValues: false, bsonRegExp: true } as const;
/** Wire version range told to other members: any. */
const WIRE_VERSIONS = { minWireVersion: 0, maxWireVersion: 27 };

/** How to dial other members; null: without TLS. */
export interface DialTls {
  readonly context: SecureContextOptions;
  readonly verifyHost: boolean;
  readonly rejectUnauthorized: boolean;
}

/** How to log in at other members. */
export type PeerLogin =
  | { readonly kind: 'none' }
  /** The first key is tried, then the second. */
  | { readonly kind: 'keys'; readonly keys: readonly Secret<string>[] }
  | { readonly kind: 'x509' };

/** A member answered with an error. */
export class PeerError extends Error {
  readonly code: number;
  readonly codeName: string;
  constructor(reply: Document) {
    super(String(reply['errmsg'] ?? 'unknown error'));
    this.code = numberOf(reply['code']) ?? 8;
    this.codeName = String(reply['codeName'] ?? 'UnknownError');
  }
}

/** No answer: refused, reset, timed out, unknown name. `definite` when nothing listens there. */
export class PeerUnreachable extends Error {
  readonly definite: boolean;
  readonly timedOut: boolean;
  constructor(message: string, definite: boolean, timedOut = false) {
    super(message);
    this.definite = definite;
    this.timedOut = timedOut;
  }
}

export interface DialOptions {
  readonly host: string;
  readonly tls: DialTls | null;
  readonly login: PeerLogin;
  readonly timeout: Millis;
}

function split(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) };
}

function dial({ host: address, tls }: DialOptions): Socket {
  const { host, port } = split(address);
  if (tls === null) return connectPlain({ host, port, noDelay: true });
  return connectTls({
    ...tls.context,
    host,
    port,
    ...(/^[\d.]+$|:/.test(host) ? {} : { servername: host }),
    rejectUnauthorized: tls.rejectUnauthorized,
    ...(tls.verifyHost ? {} : { checkServerIdentity: () => undefined }),
  });
}

interface Waiting {
  readonly resolve: (reply: Document) => void;
  readonly reject: (failure: Error) => void;
}

/** A connection to one member, with a life. Any failure ends it. */
export class PeerConnection {
  readonly #socket: Socket;
  #chunks: Buffer[] = [];
  #size = 0;
  /** Bytes that must be there before there is something to do. */
  #needed = HEADER;
  #nextId = 1;
  #waiting: Waiting | null = null;
  #failure: Error | null = null;
  onClose: () => void = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => this.#onData(chunk));
    socket.on('error', (failure) => this.#fail(failure));
    socket.on('close', () => this.#fail(new Error('Connection closed by peer')));
  }

  /** Connects, greets and logs in. Throws PeerUnreachable or PeerError. */
  static async open(options: DialOptions): Promise<PeerConnection> {
    const socket = dial(options);
    socket.setKeepAlive(true, 30_000);
    await opened(socket, options);
    const connection = new PeerConnection(socket);
    try {
      await connection.#greet(options);
    } catch (failure) {
      connection.close();
      throw failure;
    }
    return connection;
  }

  get usable(): boolean {
    return this.#failure === null;
  }

  close(): void {
    this.#fail(new Error('Connection closed'));
  }

  /** Sends one command and waits for its reply, `ok: 0` included as PeerError. */
  async call(db: string, command: Document, timeout: Millis): Promise<Document> {
    const reply = await this.ask(db, command, timeout);
    if (numberOf(reply['ok']) !== 1) throw new PeerError(reply);
    return reply;
  }

  /** Sends one command and gives its reply as it is, good or bad. Throws PeerUnreachable. */
  async ask(db: string, command: Document, timeout: Millis): Promise<Document> {
    return this.#exchange({ ...command, $db: db }, timeout);
  }

  #exchange(command: Document, timeout: Millis): Promise<Document> {
    if (this.#failure !== null) throw new PeerUnreachable(this.#failure.message, false);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => this.#fail(new PeerUnreachable('Request timed out', false, true)),
        timeout,
      );
      const done = (): void => {
        clearTimeout(timer);
        this.#waiting = null;
      };
      this.#waiting = {
        resolve: (reply) => {
          done();
          resolve(reply);
        },
        reject: (failure) => {
          done();
          reject(failure);
        },
      };
      this.#socket.write(encode(this.#nextId++, command));
    });
  }

  async #greet({ login, timeout }: DialOptions): Promise<void> {
    const hello = {
      hello: 1,
      internalClient: WIRE_VERSIONS,
      client: {
        driver: { name: 'NetworkInterfaceTL-ReplNetwork', version: 'simulator' },
        os: { type: process.platform },
      },
    };
    await this.call('admin', hello, timeout);
    if (login.kind === 'none') return;
    if (login.kind === 'x509') {
      await this.call('$external', { authenticate: 1, mechanism: 'MONGODB-X509' }, timeout);
      return;
    }
    for (const [index, key] of login.keys.entries()) {
      try {
        return await this.#logIn(key, timeout);
      } catch (failure) {
        if (!(failure instanceof PeerError) || index === login.keys.length - 1) throw failure;
      }
    }
  }

  async #logIn(key: Secret<string>, timeout: Millis): Promise<void> {
    const scram = new ScramClient(key);
    const text = (reply: Document): string => Buffer.from((reply['payload'] as Binary).value()).toString();
    const first = await this.call(
      'local',
      {
        saslStart: 1,
        mechanism: 'SCRAM-SHA-256',
        payload: new Binary(scram.first()),
        options: { skipEmptyExchange: true },
      },
      timeout,
    );
    const conversationId = first['conversationId'];
    const proof = await scram.proof(text(first));
    const second = await this.call(
      'local',
      { saslContinue: 1, conversationId, payload: new Binary(proof) },
      timeout,
    );
    if (!scram.verify(text(second))) throw new Error('the server does not know the key');
    if (second['done'] !== true) {
      await this.call(
        'local',
        { saslContinue: 1, conversationId, payload: new Binary(Buffer.alloc(0)) },
        timeout,
      );
    }
  }

  #onData(chunk: Buffer) {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    // A long message comes in hundreds of pieces: they are joined once, when all are there.
    while (this.#size >= this.#needed) {
      const head = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
      this.#chunks = [head];
      const length = head.readInt32LE(0);
      if (length < HEADER + 5 || length > MAX_MESSAGE) return this.#fail(new Error('malformed message'));
      this.#needed = length;
      if (this.#size < length) return;
      this.#needed = HEADER;
      this.#onMessage(head.subarray(0, length));
      this.#chunks = [head.subarray(length)];
      this.#size -= length;
    }
  }

  #onMessage(message: Buffer) {
    if (message.readInt32LE(12) !== OP_MSG || message[HEADER + 4] !== 0) {
      return this.#fail(new Error('unexpected message'));
    }
    this.#waiting?.resolve(
      deserialize(message.subarray(HEADER + 5), { ...READ, allowObjectSmallerThanBufferSize: true }),
    );
  }

  #fail(failure: Error): void {
    if (this.#failure !== null) return;
    this.#failure = failure;
    this.#socket.destroy();
    this.#waiting?.reject(
      failure instanceof PeerUnreachable ? failure : new PeerUnreachable(failure.message, false),
    );
    this.onClose();
  }
}

function encode(id: number, command: Document): Buffer {
  const body = serialize(command, { ignoreUndefined: true });
  const head = Buffer.alloc(HEADER + 5);
  head.writeInt32LE(HEADER + 5 + body.length, 0);
  head.writeInt32LE(id, 4);
  head.writeInt32LE(0, 8);
  head.writeInt32LE(OP_MSG, 12);
  return Buffer.concat([head, body]);
}

const DEFINITE = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL']);

function opened(socket: Socket, { host, timeout, tls }: DialOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => done(new PeerUnreachable(`Couldn't get a connection to ${host} within the time limit`, false)),
      timeout,
    );
    const onError = (failure: NodeJS.ErrnoException): void => {
      const text = failure.code === 'ECONNREFUSED' ? 'Connection refused' : failure.message;
      done(
        new PeerUnreachable(
          `Error connecting to ${host} :: caused by :: ${text}`,
          DEFINITE.has(failure.code ?? ''),
        ),
      );
    };
    const onClose = (): void => done(new PeerUnreachable(`Connection to ${host} was closed`, true));
    const onOpen = (): void => done(null);
    const event = tls === null ? 'connect' : 'secureConnect';
    const done = (failure: Error | null): void => {
      clearTimeout(timer);
      socket.off('error', onError);
      socket.off('close', onClose);
      socket.off(event, onOpen);
      if (failure === null) {
        resolve();
        return;
      }
      socket.on('error', () => {});
      socket.destroy();
      reject(failure);
    };
    socket.once('error', onError);
    socket.once('close', onClose);
    socket.once(event, onOpen);
  });
}
