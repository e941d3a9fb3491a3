import { Double, Int32, Long } from 'bson';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compressBody, expandBody, negotiateCompression } from './compression.ts';
import { crc32c } from './crc32c.ts';
import { encodeFrame, FrameReader, OP_MSG, OP_QUERY, WireFault } from './frame.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';
import { encodeMsg, encodeMsgBody, parseMsg, parseQuery } from './message.ts';

const body = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));

test('messages come out whole, however the stream is cut', () => {
  fc.assert(
    fc.property(
      fc.array(body, { minLength: 1, maxLength: 8 }),
      fc.array(fc.nat(400), { maxLength: 12 }),
      (bodies, cuts) => {
        const stream = Buffer.concat(bodies.map((part, index) => encodeFrame(OP_MSG, index, 7, part)));
        const reader = new FrameReader();
        const frames = [];
        let at = 0;
        for (const cut of [...cuts, stream.length]) {
          frames.push(...reader.push(stream.subarray(at, at + cut)));
          at = Math.min(stream.length, at + cut);
        }
        expect(frames.map((frame) => frame.body)).toEqual(bodies);
        expect(frames.map((frame) => frame.requestId)).toEqual(bodies.map((_, index) => index));
      },
    ),
  );
});

test('a message longer than 48 MB or shorter than its header ends the connection without an answer', () => {
  for (const size of [15, 0, -1, MAX_MESSAGE_BYTES + 1]) {
    const head = Buffer.alloc(16);
    head.writeInt32LE(size, 0);
    expect(() => new FrameReader().push(head)).toThrow(expect.objectContaining({ reply: false }));
  }
});

const value = fc.oneof(
  fc.string(),
  fc.boolean(),
  fc.integer().map((n) => new Int32(n)),
  fc.double({ noNaN: true }).map((n) => new Double(n)),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((n) => Long.fromBigInt(n)),
);

test('OP_MSG keeps documents with their number types, with and without checksum', () => {
  const key = fc.stringMatching(/^[a-z]{1,6}$/);
  fc.assert(
    fc.property(fc.dictionary(key, value, { maxKeys: 5 }), fc.boolean(), (fields, checksum) => {
      const command = { ping: new Int32(1), ...fields };
      const [frame] = new FrameReader().push(encodeMsg(1, 0, command, { checksum }));
      const parsed = parseMsg(frame!.body, frame!.whole);
      expect(parsed).toMatchObject({ checksum, moreToCome: false });
      expect(JSON.stringify(parsed.command)).toBe(JSON.stringify(command));
    }),
  );
});

test('a changed byte is found by the checksum', () => {
  const frame = encodeMsg(1, 0, { ping: 1, text: 'abc' }, { checksum: true });
  frame[30]! ^= 1;
  const [damaged] = new FrameReader().push(frame);
  expect(() => parseMsg(damaged!.body, damaged!.whole)).toThrow(
    expect.objectContaining({ code: 288, reply: true }),
  );
  expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
});

test('unknown required flags are refused, unknown optional ones are not', () => {
  const required = encodeMsgBody({ ping: 1 });
  required.writeUInt32LE(1 << 5, 0);
  expect(() => parseMsg(required, null)).toThrow(expect.objectContaining({ code: 223, reply: true }));
  const optional = encodeMsgBody({ ping: 1 });
  optional.writeUInt32LE(1 << 20, 0);
  expect(parseMsg(optional, null).command).toHaveProperty('ping');
});

test('document sequences become arrays of the command', () => {
  const doc = encodeMsgBody({ a: 1 }).subarray(5);
  const name = Buffer.from('documents\0');
  const head = Buffer.alloc(5);
  head.writeUInt8(1, 0);
  head.writeInt32LE(4 + name.length + doc.length * 2, 1);
  const message = Buffer.concat([encodeMsgBody({ insert: 'c' }), head, name, doc, doc]);
  expect(parseMsg(message, null).command['documents']).toHaveLength(2);
  expect(() => parseMsg(Buffer.concat([message, message.subarray(4)]), null)).toThrow(WireFault);
});

test('compressed bodies come back, with every compressor the server knows', () => {
  fc.assert(
    fc.property(body, fc.constantFrom(0, 2, 3), (original, compressor) => {
      const expanded = expandBody(compressBody(compressor, OP_MSG, original));
      expect(expanded).toMatchObject({ opCode: OP_MSG, compressorId: compressor });
      expect(expanded.body.equals(original)).toBe(true);
    }),
  );
  expect(() => expandBody(Buffer.concat([Buffer.alloc(8), Buffer.from([9, 1])]))).toThrow(WireFault);
  expect(negotiateCompression(['snappy', 'zlib', 'zstd'], ['zstd', 'zlib'])).toEqual(['zlib', 'zstd']);
  expect(negotiateCompression(['snappy'], ['zlib'])).toBeUndefined();
});

test('a lie about the expanded size is refused before memory is taken', () => {
  const bomb = compressBody(2, OP_MSG, Buffer.alloc(100_000));
  bomb.writeInt32LE(10, 4);
  expect(() => expandBody(bomb)).toThrow(WireFault);
});

test('old drivers may wrap the command of an OP_QUERY', () => {
  const document = encodeMsgBody({
    $query: { isMaster: 1 },
    $readPreference: { mode: 'secondary' },
  }).subarray(5);
  const query = Buffer.concat([Buffer.alloc(4), Buffer.from('admin.$cmd\0'), Buffer.alloc(8), document]);
  const [frame] = new FrameReader().push(encodeFrame(OP_QUERY, 1, 0, query));
  expect(Object.keys(parseQuery(frame!.body).command)).toEqual(['isMaster', '$readPreference', '$db']);
});
