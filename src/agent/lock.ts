/** One agent per data folder: two would fight over the same processes. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { BelayError } from '../base/error.ts';
import { readJson, removeQuietly } from './files.ts';
import { identify, isAlive, type ProcessIdentity } from './procfs.ts';

/** Takes the lock or throws BelayError `AlreadyRunning` (never). A lock of a dead process is taken over. Gives its release. */
export function takeLock(path: string): () => void {
  const own = identify(process.pid) ?? { pid: process.pid, startTicks: '', bootId: '' };
  for (let tries = 0; tries < 3; tries++) {
    try {
      const file = openSync(path, 'wx', 0o600);
      writeSync(file, JSON.stringify(own));
      closeSync(file);
      return () => removeQuietly(path);
    } catch (failure) {
      if ((failure as NodeJS.ErrnoException).code !== 'EEXIST') throw failure;
      const holder = readJson(path) as ProcessIdentity | null;
      if (holder && isAlive(holder)) {
        throw new BelayError(
          'AlreadyRunning',
          `an agent (process ${holder.pid}) already uses this data folder`,
          {
            retry: 'never',
            fix: 'Stop it first, or give this one another folder with --data.',
          },
        );
      }
      removeQuietly(path);
    }
  }
  throw new BelayError('AlreadyRunning', 'another agent is starting on this data folder', { retry: 'later' });
}
