/** Disk space, told only when it changed by a step worth telling. */
import { statfsSync } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bytes } from '../base/units.ts';
import { SPACE_STEP } from './limits.ts';

export interface Space {
  readonly totalBytes: Bytes;
  readonly freeBytes: Bytes;
}

/** Space of the disk below a path; null when it cannot be read. */
export function readSpace(path: string): Space | null {
  try {
    const { blocks, bavail, bsize } = statfsSync(path);
    return { totalBytes: blocks * bsize, freeBytes: bavail * bsize };
  } catch {
    return null;
  }
}

/** The space to tell: what was told before, unless it moved by a step since. A busy disk is no stream of reports. */
export function steadySpace(told: Space | null, now: Space | null): Space | null {
  if (!told || !now || told.totalBytes !== now.totalBytes) return now;
  const step = now.totalBytes * SPACE_STEP;
  return Math.abs(told.freeBytes - now.freeBytes) < step ? told : now;
}

/** Bytes that a folder takes on its disk; files that go away meanwhile count for nothing. */
export async function usedBytes(path: string): Promise<Bytes> {
  let sum = 0;
  for (const name of await readdir(path, { recursive: true }).catch(() => [])) {
    const found = await lstat(join(path, name)).catch(() => null);
    sum += found?.isFile() ? found.blocks * BLOCK : 0;
  }
  return sum;
}
/** What `st_blocks` counts in, whatever the disk's own blocks are. */
const BLOCK: Bytes = 512;
