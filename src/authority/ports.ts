import type { Millis } from '../base/units.ts';
import type { FleetSpec } from '../maintenance/index.ts';

/**
 * Where the authority's picture of the fleet comes from: one part per topology or database. A part that has not changed is
 * the same object as before, so that looking costs nothing when nothing happened.
 */
export interface FleetSource {
  parts(now: Millis): ReadonlyMap<string, FleetSpec>;
  /** Something changed; the parts are asked for when they are needed. */
  onChange(listener: () => void): () => void;
}
