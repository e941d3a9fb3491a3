/** One client connection: reads requests in order, has them run, writes replies, streams where the client allows it. */
import type { Socket } from 'node:net';
import { type Document, UUID } from 'bson';
import type { AuthenticatedUser, Connection } from '../contracts.ts';
import { compressBody, expandBody } from './compression.ts';
import {
  encodeFrame,
  type Frame,
  FrameReader,
  OP_COMPRESSED,
  OP_MSG,
  OP_QUERY,
  OP_REPLY,
  WireFault,
} from './frame.ts';
import { MAX_QUEUED_REQUESTS } from './limits.ts';
import {
  encodeMsg,
  encodeMsgBody,
  encodeReply,
  encodeReplyBody,
  type OpMsg,
  type OpQuery,
  parseMsg,
  parseQuery,
  ReplyTooLarge,
} from './message.ts';

/** What the connection learns when it is accepted. */
export interface Peer {
  readonly id: number;
  readonly remote: string;
  /** Own address of the connection. */
  readonly local: string;
  readonly loopback: boolean;
  readonly tls: boolean;
  readonly sni: string | undefined;
  readonly peerSubject: string | undefined;
}

/** What happens to requests, and who is told about the connection's life. */
export interface ConnectionOwner {
  /** Runs one command; the reply always has `ok`. Never throws. */
  run(connection: ClientConnection, command: Document, origin: 'msg' | 'query'): Promise<Document>;
  /** The command to run next on an exhaust request after this reply, or null when the stream ends. */
  next(command: Document, reply: Document): Document | null;
  onTraffic(bytesIn: number, bytesOut: number): void;
  onFault(connection: ClientConnection, fault: WireFault): void;
  onClose(connection: ClientConnection): void;
}

const HTTP_TEXT = 'It looks like you are trying to access MongoDB over HTTP on the native driver port.\r\n';
const HTTP_ANSWER = `HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: ${HTTP_TEXT.length}\r\n\r\n${HTTP_TEXT}`;

let replyId = 0;
const nextReplyId = (): number => {
  replyId = (replyId + 1) & 0x7fffffff;
  return replyId;
};

/** How replies to one request are framed. */
interface ReplyStyle {
  readonly legacy: boolean;
  readonly compressorId: number | null;
  readonly checksum: boolean;
}

/** A connection with a life: from accept to close. */
export class ClientConnection implements Connection {
  readonly id: number;
  readonly uuid = new UUID();
  readonly remote: string;
  readonly local: string;
  readonly loopback: boolean;
  readonly tls: boolean;
  readonly sni: string | undefined;
  readonly peerSubject: string | undefined;
  users: readonly AuthenticatedUser[] = [];
  internal = false;
  clientMetadata: Document | undefined;
  /** True once a `hello` was seen; metadata may only come with the first. */
  greeted = false;
  /** The client said `helloOk`, so texts speak of primaries. */
  helloOk = false;
  /** The login conversation under way, owned by the authentication part. */
  conversation: unknown;
  readonly #socket: Socket;
  readonly #owner: ConnectionOwner;
  readonly #reader = new FrameReader();
  readonly #queue: Frame[] = [];
  readonly #abort = new AbortController();
  #busy = false;
  #first = true;

  constructor(socket: Socket, peer: Peer, owner: ConnectionOwner) {
    this.id = peer.id;
    this.remote = peer.remote;
    this.local = peer.local;
    this.loopback = peer.loopback;
    this.tls = peer.tls;
    this.sni = peer.sni;
    this.peerSubject = peer.peerSubject;
    this.#socket = socket;
    this.#owner = owner;
    socket.on('data', (chunk: Buffer) => this.#onData(chunk));
    socket.on('error', () => socket.destroy());
    socket.on('end', () => this.#ended());
    socket.on('close', () => this.#ended());
  }

  get appName(): string | undefined {
    const application = this.clientMetadata?.['application'] as Document | undefined;
    const name = application?.['name'];
    return typeof name === 'string' ? name : undefined;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get closed(): boolean {
    return this.#abort.signal.aborted;
  }

  close(): void {
    this.#socket.destroy();
    this.#ended();
  }

  #ended(): void {
    if (this.closed) return;
    this.#abort.abort(new Error('connection closed'));
    this.#owner.onClose(this);
  }

  #onData(chunk: Buffer): void {
    if (this.#first && this.#isHttp(chunk)) return;
    this.#first = false;
    this.#owner.onTraffic(chunk.length, 0);
    try {
      this.#queue.push(...this.#reader.push(chunk));
    } catch (failure) {
      this.#fault(failure as WireFault, 0);
      return;
    }
    if (this.#queue.length > MAX_QUEUED_REQUESTS) this.#socket.pause();
    void this.#drain();
  }

  #isHttp(chunk: Buffer): boolean {
    if (!/^(GET|POST|HEAD|PUT) /.test(chunk.toString('latin1', 0, 5))) return false;
    this.#socket.end(HTTP_ANSWER);
    return true;
  }

  async #drain(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    for (let frame = this.#queue.shift(); frame !== undefined && !this.closed; frame = this.#queue.shift()) {
      if (this.#socket.isPaused() && this.#queue.length < MAX_QUEUED_REQUESTS / 2) this.#socket.resume();
      try {
        await this.#serve(frame);
      } catch (failure) {
        if (!(failure instanceof WireFault)) throw failure;
        this.#fault(failure, frame.requestId);
      }
    }
    this.#busy = false;
  }

  async #serve(frame: Frame): Promise<void> {
    const { request, style } = decode(frame);
    let command = request.command;
    let responseTo = frame.requestId;
    for (;;) {
      const reply = await this.#owner.run(this, command, request.kind);
      if (this.closed) return;
      if (request.kind === 'msg' && request.moreToCome) {
        if (isNotPrimary(reply)) this.close();
        return;
      }
      const streams = request.kind === 'msg' && request.exhaustAllowed;
      const next = streams ? this.#owner.next(command, reply) : null;
      responseTo = this.#send(responseTo, reply, style, next !== null);
      if (next === null) return;
      command = next;
      await this.#flushed();
      if (this.closed) return;
    }
  }

  #send(responseTo: number, reply: Document, style: ReplyStyle, moreToCome: boolean): number {
    const id = nextReplyId();
    const bytes = encodeSafely(id, responseTo, reply, style, moreToCome);
    this.#owner.onTraffic(0, bytes.length);
    this.#socket.write(bytes);
    return id;
  }

  /** Waits until a slow reader took what it was sent, so that a stream never piles up. */
  async #flushed(): Promise<void> {
    if (!this.#socket.writableNeedDrain) return;
    await new Promise<void>((resolve) => {
      this.#socket.once('drain', resolve);
      this.#socket.once('close', () => resolve());
    });
  }

  #fault(fault: WireFault, responseTo: number): void {
    this.#owner.onFault(this, fault);
    if (!fault.reply) {
      this.close();
      return;
    }
    const reply = { ok: 0, errmsg: fault.message, code: fault.code, codeName: fault.codeName };
    this.#socket.end(encodeMsg(nextReplyId(), responseTo, reply));
  }
}

const NOT_PRIMARY: ReadonlySet<unknown> = new Set([10107, 13435, 13436, 189, 11602]);

/** Nobody reads the reply to an unacknowledged write, so a wrong member shows itself by closing the connection. */
const isNotPrimary = (reply: Document): boolean => NOT_PRIMARY.has(reply['code']);

function decode(frame: Frame): { request: OpMsg | OpQuery; style: ReplyStyle } {
  let { opCode, body } = frame;
  let compressorId: number | null = null;
  if (opCode === OP_COMPRESSED) ({ opCode, body, compressorId } = expandBody(body));
  if (opCode === OP_MSG) {
    const request = parseMsg(body, compressorId === null ? frame.whole : null);
    return { request, style: { legacy: false, compressorId, checksum: request.checksum } };
  }
  if (opCode === OP_QUERY)
    return { request: parseQuery(body), style: { legacy: true, compressorId, checksum: false } };
  throw new WireFault(
    5745702,
    'Location5745702',
    `Unsupported opcode ${opCode}. The client driver may require an upgrade. For more details see https://dochub.mongodb.org/core/legacy-opcode-removal`,
    false,
  );
}

/** A reply that can't be encoded becomes an error, so that one bad reply never ends the process. */
function encodeSafely(
  id: number,
  responseTo: number,
  reply: Document,
  style: ReplyStyle,
  moreToCome: boolean,
): Buffer {
  try {
    return encodeStyled(id, responseTo, reply, style, moreToCome);
  } catch (failure) {
    const large = failure instanceof ReplyTooLarge;
    const errmsg = large ? 'reply message was too large' : String(failure);
    const error = large
      ? { code: 10334, codeName: 'BSONObjectTooLarge' }
      : { code: 22, codeName: 'InvalidBSON' };
    return encodeStyled(id, responseTo, { ok: 0, errmsg, ...error }, style, false);
  }
}

function encodeStyled(
  id: number,
  responseTo: number,
  reply: Document,
  style: ReplyStyle,
  moreToCome: boolean,
): Buffer {
  if (style.compressorId !== null) {
    const [opCode, body] = style.legacy
      ? [OP_REPLY, encodeReplyBody(reply)]
      : [OP_MSG, encodeMsgBody(reply, { moreToCome })];
    return encodeFrame(OP_COMPRESSED, id, responseTo, compressBody(style.compressorId, opCode, body));
  }
  if (style.legacy) return encodeReply(id, responseTo, reply);
  return encodeMsg(id, responseTo, reply, { moreToCome, checksum: style.checksum });
}
