/** Message boundaries and headers of the wire protocol. */
import { MAX_MESSAGE_BYTES } from './limits.ts';

export const OP_REPLY = 1;
export const OP_QUERY = 2004;
export const OP_COMPRESSED = 2012;
export const OP_MSG = 2013;
export const HEADER_BYTES = 16;

export interface Frame {
  readonly requestId: number;
  readonly responseTo: number;
  readonly opCode: number;
  readonly body: Buffer;
  /** Header and body together, for the checksum. */
  readonly whole: Buffer;
}

/**
 * Bytes that break the protocol. With `reply` the peer is told before the connection ends; without, it just ends.
 */
export class WireFault extends Error {
  readonly code: number;
  readonly codeName: string;
  readonly reply: boolean;
  constructor(code: number, codeName: string, message: string, reply: boolean) {
    super(message);
    this.name = 'WireFault';
    this.code = code;
    this.codeName = codeName;
    this.reply = reply;
  }
}

/** One message on the wire. */
export function encodeFrame(opCode: number, requestId: number, responseTo: number, body: Buffer): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  header.writeInt32LE(HEADER_BYTES + body.length, 0);
  header.writeInt32LE(requestId, 4);
  header.writeInt32LE(responseTo, 8);
  header.writeInt32LE(opCode, 12);
  return Buffer.concat([header, body]);
}

/** Cuts a byte stream into messages. A length outside 16 bytes to 48 MB throws WireFault 17. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #length = 0;

  /** Takes in bytes and gives the messages that are now complete. */
  push(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    const frames: Frame[] = [];
    for (;;) {
      const size = this.#nextSize();
      if (size === null || size > this.#length) return frames;
      frames.push(toFrame(this.#take(size)));
    }
  }

  #nextSize(): number | null {
    if (this.#length < 4) return null;
    if (this.#chunks[0]!.length < 4) this.#join();
    const size = this.#chunks[0]!.readInt32LE(0);
    if (size < HEADER_BYTES || size > MAX_MESSAGE_BYTES) {
      throw new WireFault(17, 'ProtocolError', `recv(): message msgLen ${size} is invalid.`, false);
    }
    return size;
  }

  #take(size: number): Buffer {
    if (this.#chunks[0]!.length < size) this.#join();
    const first = this.#chunks[0]!;
    if (first.length === size) this.#chunks.shift();
    else this.#chunks[0] = first.subarray(size);
    this.#length -= size;
    return first.subarray(0, size);
  }

  #join(): void {
    this.#chunks = [Buffer.concat(this.#chunks)];
  }
}

function toFrame(whole: Buffer): Frame {
  return {
    requestId: whole.readInt32LE(4),
    responseTo: whole.readInt32LE(8),
    opCode: whole.readInt32LE(12),
    body: whole.subarray(HEADER_BYTES),
    whole,
  };
}
