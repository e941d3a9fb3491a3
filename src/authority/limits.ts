/** Numbers of this room, each with its reason. */
import { MINUTE, type Millis, SECOND } from '../base/units.ts';

/** How often a decision is made anew because another control plane was faster; each time one of them gets through. */
export const ATTEMPTS = 20;
/** A wish of the engine that nobody repeats for so long is given up: whoever had it is gone or wants something else. */
export const WISH_PATIENCE: Millis = 2 * MINUTE;
/** A wish that waits is written again at most this often: only its being alive changes. */
export const WISH_REFRESH: Millis = 30 * SECOND;
/** A task that was found without a decision is decided on after this. */
export const ADOPT_DELAY: Millis = 5 * SECOND;
/** When the store was not to be reached, deadlines are tried again after this. */
export const SWEEP_RETRY: Millis = 5 * SECOND;
/** Parts of a fleet up to so many nodes are compared by content, so that a change of health moves counters only. */
export const SMALL_PART = 500;
