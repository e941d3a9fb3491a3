/** Tasks that wait until a primary has handed over: which do, and when what they asked for is looked at again. */
import type { Millis } from '../base/units.ts';
import { type Desk, ENGINE_OWNER, type Entry, type Refusal } from '../maintenance/index.ts';

/** It is told that a primary steps down first, and still wants what it asked for. */
export const waitsForHandOver = (entry: Entry): boolean =>
  entry.stepDown === true &&
  entry.stale !== true &&
  entry.pending.some((p) => p.refusal?.reason === 'PrimaryStepsDown');

/**
 * What was handed over is granted at once, before the member can be elected again. Until then everything stays as it was
 * told.
 */
export function goOn(desk: Desk, entry: Entry, now: Millis): void {
  const tried = desk.check(entry.id, now, { dry: true });
  const waits = tried.pending.some(
    ({ refusal }) => refusal?.reason === 'PrimaryStepsDown' || isOurs(refusal),
  );
  if (tried.granted.length > 0 || !waits) desk.check(entry.id, now);
}

/** The control plane holds a member for it: that lock is no news to whoever waits for just this. */
export const isHandingOver = (desk: Desk, entry: Entry, now: Millis): boolean => {
  const tried = desk.check(entry.id, now, { dry: true });
  return tried.granted.length === 0 && tried.pending.some(({ refusal }) => isOurs(refusal));
};

const isOurs = (refusal: Refusal | null): boolean =>
  refusal?.by.some((b) => b.kind === 'lock' && b.owner === ENGINE_OWNER) === true;
