import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { BelayError } from '../base/error.ts';

/**
 * Writes a file so that after a crash at any moment either the old or the new content is there as a whole:
 * a new file beside it, synced, renamed over it, folder synced. Makes the folder (0700) when there is none.
 * The mode is set before the first byte, so a secret is never readable by others in between.
 * `DiskFull` (later), `FileNotWritable` (later).
 */
export async function atomicWriteFile(path: string, data: string | Uint8Array, mode: number): Promise<void> {
  const folder = dirname(path);
  const temporary = join(folder, `.${basename(path)}.${randomBytes(6).toString('hex')}.new`);
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeSynced(temporary, data, mode);
    await rename(temporary, path);
    await syncFolder(folder);
  } catch (failure) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw translate(failure, path);
  }
}

async function writeSynced(path: string, data: string | Uint8Array, mode: number): Promise<void> {
  await using file = await openNew(path, mode);
  // The umask may have taken bits away.
  await file.chmod(mode);
  await file.writeFile(data);
  await file.sync();
}

const openNew = (path: string, mode: number): Promise<FileHandle> => open(path, 'wx', mode & 0o600);

/** Makes a rename in this folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}

function translate(failure: unknown, path: string): BelayError {
  const code = (failure as { code?: unknown }).code;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new BelayError('DiskFull', `no space left for ${path}; what was there before is untouched`, {
      fix: 'Free space on that disk.',
      cause: failure,
    });
  }
  const message = failure instanceof Error ? failure.message : String(failure);
  return new BelayError('FileNotWritable', `${path} cannot be written: ${message}`, {
    fix: 'Check the path and that this user may write there.',
    cause: failure,
  });
}
