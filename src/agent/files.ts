/** Files that are whole or not there: written aside, synced, then renamed. */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { BelayError } from '../base/error.ts';

/** Only the agent's user may read it. */
export const PRIVATE = 0o600;
export const PUBLIC = 0o644;

/**
 * Replaces a file: after return it survives a power cut, and nobody ever sees half of it. Secrets get mode 0600, before
 * the first byte. Errors: `DiskFull` (later), `FileNotWritten` (later).
 */
export function atomicWrite(path: string, data: string, mode: number = PUBLIC): void {
  replace(path, data, mode, 'file and name');
}

/**
 * Replaces a file that is no record but made from others, or that means nothing after a power cut: nobody ever sees half
 * of it, the end of this process loses nothing, and no disk is waited for. Errors: as `atomicWrite`.
 */
export function derivedWrite(path: string, data: string, mode: number = PUBLIC): void {
  replace(path, data, mode, 'nothing');
}

/** What is on the disk when it returns: `file`: after a power cut there is the old one or the new one, whole. */
type Synced = 'file and name' | 'file' | 'nothing';

function replace(path: string, data: string, mode: number, synced: Synced): void {
  const aside = `${path}.${randomBytes(4).toString('hex')}.tmp`;
  try {
    const file = openSync(aside, 'wx', mode);
    try {
      writeSync(file, data);
      if (synced !== 'nothing') fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(aside, path);
    if (synced === 'file and name') syncFolder(dirname(path));
  } catch (failure) {
    removeQuietly(aside);
    throw fileError(path, failure);
  }
}

/** The same for what is there already: equal content is no write. */
export function derivedWriteIfChanged(path: string, data: string, mode: number = PUBLIC): void {
  if (readText(path) !== data) derivedWrite(path, data, mode);
}

export function writeJson(
  path: string,
  value: unknown,
  mode: number = PUBLIC,
  synced: Synced = 'file and name',
): void {
  replace(path, `${JSON.stringify(value)}\n`, mode, synced);
}

/** The file's text, or null when there is none. */
export function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw fileError(path, failure);
  }
}

/** The parsed file, or null when there is none or it is no JSON (a damaged file must not stop all other members). */
export function readJson(path: string): unknown {
  const text = readText(path);
  if (text === null) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Makes a folder and those above it; durable when it returns, unless it holds only what can be made again. */
export function makeFolder(path: string, mode = 0o700, synced: 'name' | 'nothing' = 'name'): void {
  if (existsSync(path)) return;
  try {
    mkdirSync(path, { recursive: true, mode });
    if (synced === 'name') syncFolder(dirname(path));
  } catch (failure) {
    throw fileError(path, failure);
  }
}

/** The last bytes of a file as text, from a line's beginning; empty when there is none. */
export function readTail(path: string, bytes: number): string {
  try {
    const { size } = statSync(path);
    const file = openSync(path, 'r');
    try {
      const start = Math.max(0, size - bytes);
      const buffer = Buffer.alloc(size - start);
      readSync(file, buffer, 0, buffer.length, start);
      const text = buffer.toString('utf8');
      return start === 0 ? text : text.slice(text.indexOf('\n') + 1);
    } finally {
      closeSync(file);
    }
  } catch {
    return '';
  }
}

export function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

export function removeQuietly(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // Not there is what was wanted; anything else shows at the next use.
  }
}

function fileError(path: string, failure: unknown): BelayError {
  const { code, message } = failure as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new BelayError('DiskFull', `no space left on the disk for ${path}`, {
      fix: 'Free space on this disk or make it larger; Belay goes on by itself.',
      cause: failure,
    });
  }
  return new BelayError('FileNotWritten', message, { cause: failure });
}

/** Nothing is in the folder, or there is none. */
export function isEmpty(path: string): boolean {
  try {
    return statSync(path).isDirectory() && readdirSync(path).length === 0;
  } catch {
    return true;
  }
}
