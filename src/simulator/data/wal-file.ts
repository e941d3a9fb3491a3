/** Framed records in files: length, CRC-32, BSON. What both the write-ahead log and the snapshot are made of. */
import {
  closeSync,
  existsSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  writeSync,
} from 'node:fs';
import { crc32 } from 'node:zlib';
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { decode, encode } from './bson.ts';

/**
 * The disk failed (full, or unreadable). Fatal: memory and disk may no longer agree, so the process has to end. Nothing that
 * wasn't acknowledged is kept, nothing that was is lost.
 */
export class StorageFailure extends ServerError {
  readonly fatal = true;
  constructor(message: string, cause: unknown) {
    const full = (cause as NodeJS.ErrnoException | undefined)?.code === 'ENOSPC';
    super(full ? 14031 : 8, full ? 'OutOfDiskSpace' : 'UnknownError', message);
    this.name = 'StorageFailure';
    this.cause = cause;
  }
}

const HEADER_BYTES = 8;
/** Why 128 MiB: no record is larger than a few documents of 16 MiB; a larger length is a torn or foreign header. */
const MAX_RECORD_BYTES = 128 * 1024 * 1024;

/** One record as bytes. */
export function frame(record: Document): Buffer {
  const payload = encode(record);
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
  bytes.writeUInt32LE(payload.length, 0);
  bytes.writeUInt32LE(crc32(payload), 4);
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

/** The whole records at the start of `bytes`, and where they end; what follows is torn. */
export function unframe(bytes: Buffer): { readonly records: readonly Document[]; readonly end: number } {
  const records: Document[] = [];
  let at = 0;
  while (at + HEADER_BYTES <= bytes.length) {
    const length = bytes.readUInt32LE(at);
    const end = at + HEADER_BYTES + length;
    if (length > MAX_RECORD_BYTES || end > bytes.length) break;
    const payload = bytes.subarray(at + HEADER_BYTES, end);
    if (crc32(payload) !== bytes.readUInt32LE(at + 4)) break;
    records.push(decode(payload));
    at = end;
  }
  return { records, end: at };
}

/** Reads all whole records of a file; an absent file has none. Error: StorageFailure when it can't be read. */
export function readFrames(path: string): {
  readonly records: readonly Document[];
  readonly end: number;
  readonly torn: number;
} {
  if (!existsSync(path)) return { records: [], end: 0, torn: 0 };
  try {
    const bytes = readFileSync(path);
    const frames = unframe(bytes);
    return { ...frames, torn: bytes.length - frames.end };
  } catch (cause) {
    throw new StorageFailure(`Cannot read ${path}: ${String(cause)}`, cause);
  }
}

/**
 * A file of frames open for appending. `append` returns when the operating system has the bytes (they survive the death of
 * the process); they go to the disk itself at most {@link SYNC_DELAY_MILLIS} later.
 */
export class AppendFile {
  readonly path: string;
  private readonly fd: number;
  private length: number;
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  /** Opens or creates; `end` cuts off what is torn. */
  constructor(path: string, end?: number) {
    this.path = path;
    try {
      this.fd = openSync(path, 'a', 0o600);
      if (end !== undefined && fstatSync(this.fd).size > end) ftruncateSync(this.fd, end);
      this.length = fstatSync(this.fd).size;
    } catch (cause) {
      throw new StorageFailure(`Cannot open ${path}: ${String(cause)}`, cause);
    }
  }

  get bytes(): number {
    return this.length;
  }

  /** Appends; on failure the file is as it was and StorageFailure is thrown. */
  append(bytes: Buffer): void {
    let written = 0;
    try {
      while (written < bytes.length) written += writeSync(this.fd, bytes, written);
    } catch (cause) {
      this.cutBack();
      throw new StorageFailure(`Cannot write ${this.path}: ${String(cause)}`, cause);
    }
    this.length += bytes.length;
    this.syncSoon();
  }

  private cutBack(): void {
    try {
      ftruncateSync(this.fd, this.length);
    } catch {
      // The torn record stays and is cut off at the next start.
    }
  }

  private syncSoon(): void {
    if (this.timer || this.closed) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (!this.closed) fdatasync(this.fd, () => undefined);
    }, SYNC_DELAY_MILLIS);
    this.timer.unref();
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    clearTimeout(this.timer);
    try {
      fdatasyncSync(this.fd);
    } catch {
      // What the disk refuses now was never promised to survive it.
    }
    closeSync(this.fd);
  }
}

/** The server's default journal commit interval. */
const SYNC_DELAY_MILLIS = 100;
