import { deflateSync, inflateSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { WireFault } from './frame.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';

interface Compressor {
  readonly id: number;
  readonly name: string;
  compress(bytes: Buffer): Buffer;
  expand(bytes: Buffer, size: number): Buffer;
}

const COMPRESSORS: readonly Compressor[] = [
  { id: 0, name: 'noop', compress: (bytes) => bytes, expand: (bytes) => bytes },
  {
    id: 2,
    name: 'zlib',
    compress: (bytes) => deflateSync(bytes),
    expand: (bytes, size) => inflateSync(bytes, { maxOutputLength: size + 1 }),
  },
  {
    id: 3,
    name: 'zstd',
    compress: (bytes) => zstdCompressSync(bytes),
    expand: (bytes, size) => zstdDecompressSync(bytes, { maxOutputLength: size + 1 }),
  },
];

/** What the stand-in can offer; snappy is accepted in the options and never negotiated. */
export const SUPPORTED_COMPRESSORS: readonly string[] = ['zstd', 'zlib'];

/** The server's compressors in the client's order, or undefined when they share none. */
export function negotiateCompression(
  wanted: readonly unknown[],
  enabled: readonly string[],
): string[] | undefined {
  const shared = wanted.filter((name): name is string => typeof name === 'string' && enabled.includes(name));
  return shared.length > 0 ? shared : undefined;
}

/** The body of an OP_COMPRESSED message around another message's body. */
export function compressBody(compressorId: number, originalOpCode: number, body: Buffer): Buffer {
  const head = Buffer.allocUnsafe(9);
  head.writeInt32LE(originalOpCode, 0);
  head.writeInt32LE(body.length, 4);
  head.writeUInt8(compressorId, 8);
  return Buffer.concat([head, byId(compressorId).compress(body)]);
}

/** Undoes `compressBody`. Unknown compressors, wrong sizes and broken data end the connection. */
export function expandBody(body: Buffer): { opCode: number; compressorId: number; body: Buffer } {
  if (body.length < 9) throw new WireFault(17, 'ProtocolError', 'Compressed message is too short', false);
  const size = body.readInt32LE(4);
  const compressorId = body.readUInt8(8);
  if (size < 0 || size > MAX_MESSAGE_BYTES)
    throw new WireFault(
      17,
      'ProtocolError',
      'Decompressed message would be larger than maximum message size',
      false,
    );
  const expanded = expandWith(byId(compressorId), body.subarray(9), size);
  if (expanded.length !== size)
    throw new WireFault(17, 'ProtocolError', 'Decompressing message returned less data than expected', false);
  return { opCode: body.readInt32LE(0), compressorId, body: expanded };
}

function byId(id: number): Compressor {
  const found = COMPRESSORS.find((compressor) => compressor.id === id);
  if (found === undefined)
    throw new WireFault(17, 'ProtocolError', `Compressed message used an unknown compressor ${id}`, false);
  return found;
}

function expandWith(compressor: Compressor, bytes: Buffer, size: number): Buffer {
  try {
    return compressor.expand(bytes, size);
  } catch {
    throw new WireFault(17, 'ProtocolError', `Could not decompress ${compressor.name} data`, false);
  }
}
