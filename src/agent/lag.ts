/** Lag without the noise of an idle set. Pure; the played agent of the deterministic world judges by it too. */
import { type Millis, SECOND } from '../base/units.ts';

/**
 * On an idle set the primary writes a no-op every 10 s, and heartbeats carry it up to 2 s later. Just after an election
 * the step is longer: the last write of the old primary lies an election timeout and such a no-op back. A lag of up to
 * one such step is believed only when it is still there after this long.
 */
export const LAG_CONFIRM: Millis = 2_500;
/** A lag up to here may be that noise. */
export const LAG_NOISE: Millis = 30 * SECOND;
/** A lag that was not known before is doubted from here on: below it nothing depends on it. */
export const LAG_DOUBTED: Millis = 5 * SECOND;
export interface LagMemory {
  readonly shown: Millis | null;
  /** Since when a lag stands that is not shown yet. */
  readonly doubtSince: Millis | null;
}

/**
 * What to show of a lag just read: a small rise is believed only when it lasts, and so is what is read first after an
 * election; everything else at once.
 */
export function settleLag(memory: LagMemory, read: Millis | null, now: Millis): LagMemory {
  const floor = memory.shown === 0 ? 0 : memory.shown === null ? LAG_DOUBTED : Number.POSITIVE_INFINITY;
  const rises = read !== null && read > floor && read <= LAG_NOISE;
  if (!rises) return { shown: read, doubtSince: null };
  const since = memory.doubtSince ?? now;
  if (now - since >= LAG_CONFIRM) return { shown: read, doubtSince: null };
  return { shown: memory.shown, doubtSince: since };
}
