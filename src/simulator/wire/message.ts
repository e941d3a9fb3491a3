/** Bodies of the messages: OP_MSG both ways, OP_QUERY in, OP_REPLY out. */
import { BSON, type Document } from 'bson';
import { BSON_OPTIONS } from '../data/bson.ts';
import { crc32c } from './crc32c.ts';
import { encodeFrame, OP_MSG, OP_REPLY, WireFault } from './frame.ts';
import { MAX_MESSAGE_BYTES, MAX_SEQUENCES } from './limits.ts';

const CHECKSUM_PRESENT = 1;
const MORE_TO_COME = 2;
const EXHAUST_ALLOWED = 1 << 16;
const KNOWN_REQUIRED_FLAGS = CHECKSUM_PRESENT | MORE_TO_COME;
const AWAIT_CAPABLE = 8;

export interface OpMsg {
  readonly kind: 'msg';
  readonly command: Document;
  readonly checksum: boolean;
  /** In a request: no reply is wanted. In a reply: more follow without asking. */
  readonly moreToCome: boolean;
  readonly exhaustAllowed: boolean;
}

export interface OpQuery {
  readonly kind: 'query';
  readonly command: Document;
}

/** Reads one OP_MSG body, document sequences merged into the command. `whole` is given when the checksum can be tested. */
export function parseMsg(body: Buffer, whole: Buffer | null): OpMsg {
  if (body.length < 9) throw new WireFault(17, 'ProtocolError', 'OP_MSG is too short', false);
  const flags = body.readUInt32LE(0);
  const unknown = flags & 0xffff & ~KNOWN_REQUIRED_FLAGS;
  if (unknown !== 0)
    throw new WireFault(
      223,
      'IllegalOpMsgFlag',
      `Message contains illegal flags value: Ob${flags.toString(2)}`,
      true,
    );
  const checksum = (flags & CHECKSUM_PRESENT) !== 0;
  if (checksum) verifyChecksum(body, whole);
  const command = readSections(body, 4, checksum ? body.length - 4 : body.length);
  return {
    kind: 'msg',
    command,
    checksum,
    moreToCome: (flags & MORE_TO_COME) !== 0,
    exhaustAllowed: (flags & EXHAUST_ALLOWED) !== 0,
  };
}

function verifyChecksum(body: Buffer, whole: Buffer | null): void {
  if (whole === null) return;
  const end = whole.length - 4;
  if (crc32c(whole.subarray(0, end)) === body.readUInt32LE(body.length - 4)) return;
  throw new WireFault(288, 'ChecksumMismatch', 'OP_MSG checksum does not match contents', true);
}

function readSections(body: Buffer, from: number, end: number): Document {
  let command: Document | null = null;
  const sequences = new Map<string, Document[]>();
  let at = from;
  while (at < end) {
    const kind = body.readUInt8(at);
    at += 1;
    if (kind === 0) {
      if (command !== null)
        throw new WireFault(40430, 'Location40430', 'Multiple body sections in message', true);
      const size = sectionSize(body, at, end);
      command = readDocument(body.subarray(at, at + size));
      at += size;
    } else if (kind === 1) {
      const size = sectionSize(body, at, end);
      const [name, documents] = readSequence(body.subarray(at, at + size));
      if (sequences.has(name))
        throw new WireFault(40431, 'Location40431', `Duplicate document sequence: ${name}`, true);
      sequences.set(name, documents);
      if (sequences.size > MAX_SEQUENCES)
        throw new WireFault(233, 'TooManyDocumentSequences', 'Too many document sequences in OP_MSG', true);
      at += size;
    } else {
      throw new WireFault(40432, 'Location40432', `Unknown section kind ${kind}`, true);
    }
  }
  return mergeSequences(command, sequences);
}

function mergeSequences(command: Document | null, sequences: ReadonlyMap<string, Document[]>): Document {
  if (command === null) throw new WireFault(40587, 'Location40587', 'OP_MSG messages must have a body', true);
  for (const [name, documents] of sequences) {
    if (Object.hasOwn(command, name)) {
      throw new WireFault(
        40433,
        'Location40433',
        `Duplicate field between body and document sequence ${name}`,
        true,
      );
    }
    command[name] = documents;
  }
  return command;
}

function sectionSize(body: Buffer, at: number, end: number): number {
  const size = at + 4 <= end ? body.readInt32LE(at) : -1;
  if (size < 5 || at + size > end)
    throw new WireFault(22, 'InvalidBSON', 'invalid section length in OP_MSG', true);
  return size;
}

function readSequence(section: Buffer): [string, Document[]] {
  const nameEnd = section.indexOf(0, 4);
  if (nameEnd < 0) throw new WireFault(22, 'InvalidBSON', 'invalid document sequence name in OP_MSG', true);
  const documents: Document[] = [];
  let at = nameEnd + 1;
  while (at < section.length) {
    const size = sectionSize(section, at, section.length);
    documents.push(readDocument(section.subarray(at, at + size)));
    at += size;
  }
  return [section.toString('utf8', 4, nameEnd), documents];
}

function readDocument(bytes: Buffer): Document {
  try {
    return BSON.deserialize(bytes, BSON_OPTIONS);
  } catch (failure) {
    throw new WireFault(22, 'InvalidBSON', failure instanceof Error ? failure.message : 'invalid BSON', true);
  }
}

/** What surrounds the document in the longest kind of message, generously. */
const HEAD_BYTES = 1024;

/** A document that is too long to be sent. */
export class ReplyTooLarge extends Error {}

/**
 * Refuses what no message can hold. The limit of stored documents is not this one: other members fetch oplog entries with
 * pre-images, and those of transactions, which are longer.
 */
function serialize(document: Document): Uint8Array {
  const payload = BSON.serialize(document, { ignoreUndefined: true });
  if (payload.length > MAX_MESSAGE_BYTES - HEAD_BYTES) throw new ReplyTooLarge(`${payload.length} bytes`);
  return payload;
}

/** The body of an OP_MSG with one document. */
export function encodeMsgBody(
  document: Document,
  options: { moreToCome?: boolean; exhaustAllowed?: boolean; checksum?: boolean } = {},
): Buffer {
  const payload = serialize(document);
  const body = Buffer.allocUnsafe(5 + payload.length);
  const flags =
    (options.moreToCome === true ? MORE_TO_COME : 0) |
    (options.exhaustAllowed === true ? EXHAUST_ALLOWED : 0) |
    (options.checksum === true ? CHECKSUM_PRESENT : 0);
  body.writeUInt32LE(flags, 0);
  body.writeUInt8(0, 4);
  body.set(payload, 5);
  return body;
}

/** A whole OP_MSG; with `checksum` the CRC-32C over everything before it is added. */
export function encodeMsg(
  requestId: number,
  responseTo: number,
  document: Document,
  options: { moreToCome?: boolean; exhaustAllowed?: boolean; checksum?: boolean } = {},
): Buffer {
  const body = encodeMsgBody(document, options);
  if (options.checksum !== true) return encodeFrame(OP_MSG, requestId, responseTo, body);
  const frame = encodeFrame(OP_MSG, requestId, responseTo, Buffer.concat([body, Buffer.alloc(4)]));
  frame.writeUInt32LE(crc32c(frame.subarray(0, frame.length - 4)), frame.length - 4);
  return frame;
}

/** Reads an OP_QUERY on `<db>.$cmd`; `$query` wrappers are taken off. Any other OP_QUERY ends the connection. */
export function parseQuery(body: Buffer): OpQuery {
  const nameEnd = body.length > 4 ? body.indexOf(0, 4) : -1;
  if (nameEnd < 0) throw new WireFault(17, 'ProtocolError', 'OP_QUERY is too short', false);
  const ns = body.toString('utf8', 4, nameEnd);
  const at = nameEnd + 9;
  if (!ns.endsWith('.$cmd'))
    throw new WireFault(5739101, 'Location5739101', 'OP_QUERY is only supported for commands', false);
  const size = sectionSize(body, at, body.length);
  const query = readDocument(body.subarray(at, at + size));
  const wrapped = Object.keys(query)[0] === '$query' ? query['$query'] : undefined;
  const command: Document = typeof wrapped === 'object' && wrapped !== null ? { ...wrapped } : query;
  if (query['$readPreference'] !== undefined) command['$readPreference'] ??= query['$readPreference'];
  command['$db'] = ns.slice(0, -'.$cmd'.length);
  return { kind: 'query', command };
}

/** A whole OP_REPLY with one document. */
export function encodeReplyBody(document: Document): Buffer {
  const payload = serialize(document);
  const head = Buffer.alloc(20);
  head.writeInt32LE(AWAIT_CAPABLE, 0);
  head.writeInt32LE(1, 16);
  return Buffer.concat([head, payload]);
}

/** A whole OP_REPLY message. */
export function encodeReply(requestId: number, responseTo: number, document: Document): Buffer {
  return encodeFrame(OP_REPLY, requestId, responseTo, encodeReplyBody(document));
}
