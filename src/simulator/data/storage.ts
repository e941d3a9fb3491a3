/**
 * The durable side of a store: numbered write-ahead log segments and a snapshot.
 * A record is acknowledged when the operating system has it. When the log has grown, a new segment is begun, the state at that
 * point is written to a snapshot beside the running store, and the older segments go once the snapshot has its name.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Document } from 'bson';
import { toNumber } from './bson.ts';
import { isWholeSnapshot } from './snapshot.ts';
import { AppendFile, frame, readFrames, StorageFailure } from './wal-file.ts';

/** Where a store's records go. */
export interface Storage {
  /** Appends records, numbered in order; durable against the death of the process at return. Gives the bytes written. */
  append(records: readonly Document[]): number;
  /** Begins a checkpoint if the log has grown enough and none is running. */
  checkpointIfDue(snapshot: (seq: number) => Iterable<Document>): void;
  close(): Promise<void>;
}

/** What was found at opening. */
interface Recovered {
  readonly snapshot: readonly Document[];
  readonly log: readonly Document[];
  /** Bytes of an unfinished record cut off at the end. */
  readonly tornBytes: number;
}

/** For unit tests and the deterministic world: nothing is kept. */
export class NoStorage implements Storage {
  append(): number {
    return 0;
  }
  checkpointIfDue(): void {}
  async close(): Promise<void> {}
}

/** Why 16 MiB: replaying that much takes well under a second. */
const CHECKPOINT_BYTES = 16 * 1024 * 1024;
const SNAPSHOT = 'sim-data.snapshot';
const SEGMENT = /^sim-data\.wal\.(\d+)$/;
const segmentName = (number: number): string => `sim-data.wal.${String(number).padStart(6, '0')}`;

export class FileStorage implements Storage {
  private readonly directory: string;
  private readonly checkpointBytes: number;
  private file: AppendFile;
  private segment: number;
  private seq: number;
  private snapshotBytes = 0;
  private checkpoint: Promise<void> | undefined;
  private closed = false;

  private constructor(directory: string, checkpointBytes: number, segment: number, end: number, seq: number) {
    this.directory = directory;
    this.checkpointBytes = checkpointBytes;
    this.segment = segment;
    this.seq = seq;
    this.file = new AppendFile(join(directory, segmentName(segment)), end);
  }

  /**
   * Opens a data folder and gives what it holds: the snapshot's records and the log records after it. A torn record at the end of
   * the log was never acknowledged and is cut off. Error: StorageFailure for a damaged snapshot or a gap in the log.
   */
  static open(
    directory: string,
    checkpointBytes = CHECKPOINT_BYTES,
  ): { storage: FileStorage; recovered: Recovered } {
    mkdirSync(directory, { recursive: true });
    rmSync(join(directory, `${SNAPSHOT}.tmp`), { force: true });
    const snapshot = readSnapshot(directory);
    let seq = snapshot.length > 0 ? (toNumber(snapshot[0]!['seq']) ?? 0) : 0;
    const log: Document[] = [];
    const segments = listSegments(directory);
    let end = 0;
    let tornBytes = 0;
    for (const segment of segments) {
      const frames = readFrames(join(directory, segmentName(segment)));
      end = frames.end;
      tornBytes = frames.torn;
      for (const record of frames.records) {
        const number = toNumber(record['n'])!;
        if (number <= seq) continue;
        if (number !== seq + 1) {
          throw new StorageFailure(
            `The log in ${directory} has a gap: record ${seq + 1} is missing`,
            undefined,
          );
        }
        log.push(record);
        seq = number;
      }
    }
    const storage = new FileStorage(directory, checkpointBytes, segments.at(-1) ?? 1, end, seq);
    return { storage, recovered: { snapshot, log, tornBytes } };
  }

  append(records: readonly Document[]): number {
    const first = this.seq + 1;
    const frames = records.map((record, index) => frame({ n: first + index, ...record }));
    const bytes = frames.length === 1 ? frames[0]! : Buffer.concat(frames);
    this.file.append(bytes);
    this.seq += records.length;
    return bytes.length;
  }

  checkpointIfDue(snapshot: (seq: number) => Iterable<Document>): void {
    // Twice the snapshot's size keeps the work in proportion to what is written.
    if (this.checkpoint || this.closed) return;
    if (this.file.bytes < Math.max(this.checkpointBytes, this.snapshotBytes * 2)) return;
    const records = snapshot(this.seq);
    const old = this.segment;
    const previous = this.file;
    this.file = new AppendFile(join(this.directory, segmentName(old + 1)));
    this.segment = old + 1;
    previous.close();
    this.checkpoint = this.writeSnapshot(records, old).finally(() => {
      this.checkpoint = undefined;
    });
  }

  /** Writes the snapshot in slices. A failure leaves the old snapshot and all segments: nothing is lost, the next one tries again. */
  private async writeSnapshot(records: Iterable<Document>, lastSegment: number): Promise<void> {
    const temporary = join(this.directory, `${SNAPSHOT}.tmp`);
    let fd: number | undefined;
    try {
      fd = openSync(temporary, 'w', 0o600);
      const bytes = await this.writeSlices(fd, records);
      if (bytes === undefined) return;
      fsyncSync(fd);
      closeSync(fd);
      fd = undefined;
      renameSync(temporary, join(this.directory, SNAPSHOT));
      this.snapshotBytes = bytes;
      for (const segment of listSegments(this.directory)) {
        if (segment <= lastSegment) rmSync(join(this.directory, segmentName(segment)), { force: true });
      }
    } catch {
      rmSync(temporary, { force: true });
    } finally {
      if (fd !== undefined) closeSync(fd);
    }
  }

  private async writeSlices(fd: number, records: Iterable<Document>): Promise<number | undefined> {
    let total = 0;
    let sinceYield = 0;
    for (const record of records) {
      if (this.closed) return undefined;
      const bytes = frame(record);
      let written = 0;
      while (written < bytes.length) written += writeSync(fd, bytes, written);
      total += bytes.length;
      sinceYield += bytes.length;
      if (sinceYield > 256 * 1024) {
        sinceYield = 0;
        await nextTurn();
      }
    }
    return total;
  }

  async close(): Promise<void> {
    this.closed = true;
    await this.checkpoint;
    this.file.close();
  }
}

function listSegments(directory: string): number[] {
  return readdirSync(directory)
    .flatMap((name) => SEGMENT.exec(name)?.[1] ?? [])
    .map(Number)
    .toSorted((left, right) => left - right);
}

function readSnapshot(directory: string): readonly Document[] {
  const path = join(directory, SNAPSHOT);
  if (!existsSync(path)) return [];
  const { records } = readFrames(path);
  if (!isWholeSnapshot(records)) throw new StorageFailure(`${path} is damaged`, undefined);
  return records;
}
