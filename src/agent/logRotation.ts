/** STO-07: a server that writes its log for ever fills its disk; nobody but the agent rotates it. */
import { existsSync, renameSync, statSync } from 'node:fs';
import { LOG_LIMIT, LOGS_KEPT } from './limits.ts';

/**
 * Moves a log that is too large out of the way, keeping a few older ones, and lets its server open a new one (`reopen`;
 * `logRotate: reopen` makes the server do just that on a signal). A small one, or none, stays as it is.
 */
export function rotateLog(log: string, reopen: () => void): void {
  if (!existsSync(log) || statSync(log).size < LOG_LIMIT) return;
  for (let age = LOGS_KEPT; age > 1; age--) {
    if (existsSync(`${log}.${age - 1}`)) renameSync(`${log}.${age - 1}`, `${log}.${age}`);
  }
  renameSync(log, `${log}.1`);
  reopen();
}
