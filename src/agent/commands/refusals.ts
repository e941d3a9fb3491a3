/** What helps against a refusal; the played agent of the deterministic world judges by it too. Pure. */
import type { CommandOutcome } from '../../clusters/index.ts';

/** A5.4: elections, step-downs, shutdowns, conflicts, timeouts and networks pass by themselves. */
const TRANSIENT = new Set([
  6, 7, 24, 46, 50, 64, 74, 89, 91, 94, 109, 112, 117, 133, 189, 202, 216, 262, 308, 9001, 10107, 11600,
  11601, 11602, 13435, 13436,
]);
/** Authentication or privileges: only another credential helps. */
const CREDENTIALS = new Set([13, 18]);

/** What the server refuses with this code. */
export function refused(code: number, codeName: string, message: string): Refusal {
  const kind = CREDENTIALS.has(code) ? 'credentials' : TRANSIENT.has(code) ? 'transient' : 'permanent';
  return { kind: 'refused', code, codeName, message, class: kind };
}

export type Refusal = Extract<CommandOutcome, { kind: 'refused' }>;

/**
 * A reconfiguration that was built on an older reading (103, its version is not newer): the next reading has the newer
 * configuration, so this passes by itself. Any other is as it was.
 */
export function whenStale<T extends CommandOutcome>(outcome: T): T {
  const stale =
    outcome.kind === 'refused' && outcome.code === 103 && /must be greater than/i.test(outcome.message);
  return stale ? { ...outcome, class: 'transient' } : outcome;
}
