/**
 * One control plane per data folder, and no wait after a crash. The folder names the process that holds the leases; a
 * new start that finds that process dead gives its leases back in its name, instead of waiting for them to end.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { BelayError } from '../base/error.ts';
import type { Log, Store } from '../engine/ports.ts';
import { atomicWriteFile } from '../security/files.ts';

interface Instance {
  readonly pid: number;
  /** Start of that process in clock ticks since boot: a pid alone may have been given to another. */
  readonly startedAt: string;
  readonly holder: string;
}

export interface ClaimedFolder {
  /** The name leases are held under. */
  readonly holder: string;
  release(): void;
}

const FILE = 'control-plane.json';

/** Claims the folder. `DataFolderInUse` (never) while another control plane lives in it. */
export async function claimFolder(
  folder: string,
  store: Pick<Store, 'releaseLeases'>,
  log: Log,
): Promise<ClaimedFolder> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, FILE);
  const before = readInstance(file);
  if (before !== null && lives(before)) {
    throw new BelayError('DataFolderInUse', `a control plane with process id ${before.pid} uses ${folder}`, {
      retry: 'never',
      fix: `Stop it first, or give this one another folder.`,
    });
  }
  if (before !== null) {
    log.info('the control plane before this one did not stop orderly', { pid: before.pid });
    await store.releaseLeases(before.holder);
  }
  const holder = `${process.pid}-${randomUUID()}`;
  const instance: Instance = { pid: process.pid, startedAt: startOf(process.pid) ?? '', holder };
  await atomicWriteFile(file, JSON.stringify(instance), 0o600);
  return { holder, release: () => rmSync(file, { force: true }) };
}

function readInstance(file: string): Instance | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Instance;
  } catch {
    return null;
  }
}

const lives = (instance: Instance): boolean => startOf(instance.pid) === instance.startedAt;

/** Field 22 of /proc/PID/stat; the name in field 2 may hold blanks and brackets. Null: no such process. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null;
  } catch {
    return null;
  }
}
