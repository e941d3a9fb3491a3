/** Failures of the operating system that people meet on a command line, in words and with a way out. */
import { asBelayError, BelayError } from '../base/error.ts';

const FULL: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT']);
/** What stands in the way of using a path, by the name of the failure. */
const WAYS_OUT: Readonly<Record<string, string>> = {
  EACCES: 'it belongs to another user or is closed: give it to the user that runs this, or name another',
  EPERM: 'it belongs to another user or is closed: give it to the user that runs this, or name another',
  EROFS: 'it lies on a file system that is mounted read-only: name another',
  ENOTDIR: 'something in this path is a file and no folder: name another',
  EEXIST: 'there is a file where a folder has to be: name another',
  EISDIR: 'there is a folder where a file has to be: name another',
  ELOOP: 'links in this path go round in circles: name another',
  ENAMETOOLONG: 'the path is too long: name a shorter one',
};

/** As `asBelayError`; a path that cannot be used becomes `FileNotWritable`, a full disk `DiskFull`, both with a fix. */
export function asFailure(failure: unknown): BelayError {
  if (failure instanceof BelayError) return failure;
  const { code, path, message } = (failure ?? {}) as {
    readonly code?: unknown;
    readonly path?: unknown;
    readonly message?: string;
  };
  if (typeof path !== 'string' || typeof code !== 'string') return asBelayError(failure);
  if (FULL.has(code))
    return new BelayError('DiskFull', `no space left to write ${path}`, {
      retry: 'never',
      fix: 'free space, or name another folder',
      cause: failure,
    });
  const fix = WAYS_OUT[code];
  if (fix === undefined) return asBelayError(failure);
  return new BelayError('FileNotWritable', `${path} cannot be used: ${message ?? code}`, {
    retry: 'never',
    fix,
    cause: failure,
  });
}
