/** Whether a refusal passes by itself; the played agent of the deterministic world judges by it too. Pure. */
import type { CommandOutcome } from '../../clusters/index.ts';

/**
 * A reconfiguration that was built on an older reading (103, its version is not newer): the next reading has the newer
 * configuration, so this passes by itself. Any other is as it was.
 */
export function whenStale<T extends CommandOutcome>(outcome: T): T {
  const stale =
    outcome.kind === 'refused' && outcome.code === 103 && /must be greater than/i.test(outcome.message);
  return stale ? { ...outcome, class: 'transient' } : outcome;
}
