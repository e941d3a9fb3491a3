/** What the official driver never sends, or never shows: the protocol byte by byte against a real process. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { BSON, type Document, type Long } from 'bson';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { compressBody, expandBody } from '../wire/compression.ts';
import {
  encodeFrame,
  type Frame,
  FrameReader,
  OP_COMPRESSED,
  OP_MSG,
  OP_QUERY,
  OP_REPLY,
} from '../wire/frame.ts';
import { encodeMsg, encodeMsgBody, parseMsg } from '../wire/message.ts';
import { type Running, Workshop } from './launch.testing.ts';

const workshop = new Workshop();
let server: Running;
beforeAll(async () => {
  server = await workshop.start(['--dbpath', workshop.folder(), '--port', '0', '--nounixsocket']);
});
afterAll(() => workshop.clean());

/** A client that speaks in frames. */
class RawClient {
  readonly socket: Socket;
  readonly #frames: Frame[] = [];
  #wake: () => void = () => undefined;
  closed = false;

  constructor(port: number) {
    const reader = new FrameReader();
    this.socket = connect(port, '127.0.0.1');
    this.socket.on('data', (chunk) => {
      this.#frames.push(...reader.push(chunk as Buffer));
      this.#wake();
    });
    this.socket.on('close', () => {
      this.closed = true;
      this.#wake();
    });
    this.socket.on('error', () => undefined);
  }

  /** The next message, or null when the server closed the connection instead. */
  async next(): Promise<Frame | null> {
    while (this.#frames.length === 0 && !this.closed)
      await new Promise<void>((resolve) => (this.#wake = resolve));
    return this.#frames.shift() ?? null;
  }

  async ask(message: Buffer): Promise<Frame | null> {
    this.socket.write(message);
    return this.next();
  }
}

async function withRaw<T>(use: (client: RawClient) => Promise<T>): Promise<T> {
  const client = new RawClient(server.port);
  try {
    return await use(client);
  } finally {
    client.socket.destroy();
  }
}
const documentOf = (frame: Frame | null): Document => parseMsg(frame!.body, frame!.whole).command;
const ping = { ping: 1, $db: 'admin' };

test('a checksum is answered with a checksum', () =>
  withRaw(async (client) => {
    const reply = await client.ask(encodeMsg(1, 0, ping, { checksum: true }));
    expect(parseMsg(reply!.body, reply!.whole)).toMatchObject({ checksum: true });
    expect(reply).toMatchObject({ opCode: OP_MSG, responseTo: 1 });
    expect(parseMsg((await client.ask(encodeMsg(2, 0, ping)))!.body, null)).toMatchObject({
      checksum: false,
    });
  }));

test('a wrong checksum and illegal flags are answered, then the connection ends', async () => {
  const broken = encodeMsg(1, 0, ping, { checksum: true });
  broken[broken.length - 1]! ^= 1;
  const illegal = encodeMsg(1, 0, ping);
  illegal.writeUInt32LE(1 << 3, 16);
  for (const [message, code] of [
    [broken, 288],
    [illegal, 223],
  ] as const) {
    await withRaw(async (client) => {
      expect(Number(documentOf(await client.ask(message))['code'])).toBe(code);
      expect(await client.next()).toBeNull();
    });
  }
});

test('unknown operations, compressors and lengths end the connection without a word', async () => {
  const compressed = Buffer.concat([compressBody(0, OP_MSG, encodeMsgBody(ping))]);
  compressed.writeUInt8(77, 8);
  const long = Buffer.alloc(16);
  long.writeInt32LE(50_000_000, 0);
  for (const message of [
    encodeFrame(2002, 1, 0, Buffer.alloc(20)),
    encodeFrame(OP_COMPRESSED, 1, 0, compressed),
    long,
  ]) {
    await withRaw(async (client) => expect(await client.ask(message)).toBeNull());
  }
});

test('a compressed request is answered in its compressor, whatever was negotiated', async () => {
  for (const compressor of [0, 2, 3]) {
    await withRaw(async (client) => {
      const request = encodeFrame(OP_COMPRESSED, 9, 0, compressBody(compressor, OP_MSG, encodeMsgBody(ping)));
      const reply = await client.ask(request);
      const expanded = expandBody(reply!.body);
      expect(expanded).toMatchObject({ compressorId: compressor, opCode: OP_MSG });
      expect(Number(parseMsg(expanded.body, null).command['ok'])).toBe(1);
    });
  }
});

test('the first greeting of old drivers is answered as OP_REPLY, other commands are not served so', () =>
  withRaw(async (client) => {
    const query = (command: Document): Buffer =>
      encodeFrame(
        OP_QUERY,
        5,
        0,
        Buffer.concat([
          Buffer.alloc(4),
          Buffer.from('admin.$cmd\0'),
          Buffer.from([0, 0, 0, 0, 255, 255, 255, 255]),
          BSON.serialize(command),
        ]),
      );
    const reply = await client.ask(query({ isMaster: 1, helloOk: true }));
    expect(reply).toMatchObject({ opCode: OP_REPLY, responseTo: 5 });
    expect(reply!.body.readInt32LE(0)).toBe(8);
    expect(reply!.body.readInt32LE(16)).toBe(1);
    expect(BSON.deserialize(reply!.body.subarray(20))).toMatchObject({
      helloOk: true,
      ismaster: true,
      maxWireVersion: 25,
      ok: 1,
    });
    const refused = await client.ask(query({ find: 'c' }));
    expect(BSON.deserialize(refused!.body.subarray(20))).toMatchObject({ ok: 0, code: 352 });
  }));

test('an exhaust cursor streams all batches; each answers the one before', () =>
  withRaw(async (client) => {
    const documents = Array.from({ length: 9 }, (_, n) => ({ _id: n }));
    await client.ask(encodeMsg(1, 0, { insert: 'stream', documents, $db: 't' }));
    const first = documentOf(
      await client.ask(encodeMsg(2, 0, { find: 'stream', batchSize: 2, sort: { _id: 1 }, $db: 't' })),
    );
    const more = { getMore: first['cursor'].id as Long, collection: 'stream', batchSize: 3, $db: 't' };
    let reply = await client.ask(encodeMsg(3, 0, more, { exhaustAllowed: true }));
    const seen: number[] = [];
    let before = 3;
    for (;;) {
      const parsed = parseMsg(reply!.body, null);
      expect(reply!.responseTo).toBe(before);
      seen.push(
        ...(parsed.command['cursor'].nextBatch as Document[]).map((document) => Number(document['_id'])),
      );
      if (!parsed.moreToCome) break;
      before = reply!.requestId;
      reply = await client.next();
    }
    expect(seen).toEqual([2, 3, 4, 5, 6, 7, 8]);
    expect(Number(documentOf(await client.ask(encodeMsg(4, 0, ping)))['ok'])).toBe(1);
  }));

test('requests sent together are answered in order, and one without reply is done before the next', () =>
  withRaw(async (client) => {
    const silent = encodeMsg(
      1,
      0,
      { insert: 'order', documents: [{ _id: 1 }], $db: 't' },
      { moreToCome: true },
    );
    client.socket.write(
      Buffer.concat([silent, encodeMsg(2, 0, { find: 'order', $db: 't' }), encodeMsg(3, 0, ping)]),
    );
    const found = await client.next();
    expect(found!.responseTo).toBe(2);
    expect(documentOf(found)['cursor'].firstBatch).toHaveLength(1);
    expect((await client.next())!.responseTo).toBe(3);
  }));

test('a message without a database or with broken BSON is refused', async () => {
  await withRaw(async (client) => {
    expect(documentOf(await client.ask(encodeMsg(1, 0, { ping: 1 })))).toMatchObject({
      code: expect.anything(),
    });
    const broken = encodeMsg(2, 0, ping);
    broken.writeUInt8(0x77, 25);
    expect(Number(documentOf(await client.ask(broken))['code'])).toBe(22);
    expect(await client.next()).toBeNull();
  });
  const client = new RawClient(server.port);
  await once(client.socket, 'connect');
  client.socket.destroy();
  expect(server.process.exitCode).toBeNull();
});
