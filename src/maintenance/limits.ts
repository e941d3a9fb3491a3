/** Numbers of this room, each with its reason. */
import { MINUTE, type Millis, SECOND } from '../base/units.ts';

/** How long a component is locked when neither action nor request says so (CMS: DefaultPermissionDuration). */
export const DEFAULT_DURATION: Millis = 5 * MINUTE;
/**
 * When to look again where nobody knows when it will be possible (CMS: DefaultRetryTime): an interval and no promise. A member
 * is down, its health is not known, a set has no other, or what is more urgent waits for such a thing.
 */
export const DEFAULT_RETRY: Millis = 5 * MINUTE;
/** Whoever has not asked again so long after the time they were told to has forgotten what they wanted. */
export const ASKS_AGAIN_WITHIN: Millis = 5 * MINUTE;
/** A State Storage replica takes part fully only some time after its start. */
export const RING_SETTLE: Millis = 2 * MINUTE;
/**
 * What is known of a member follows its process by moments. So long after a task has given it back it is not believed to be
 * well: whoever comes next might see it as it was before it was worked on (ROL-06).
 */
export const MEMBER_SETTLE: Millis = 5 * SECOND;
/** So long a hand-over takes at most where nothing is in its way: when to ask again for what waits for one. */
export const HAND_OVER_TAKES: Millis = 15 * SECOND;
/** Unavailable nodes of a database or cluster in percent (C4.1); 10 % blocked clusters of eight nodes. */
export const DEFAULT_LIMIT_PERCENT = 13;
/** Names in one sentence; more help nobody. */
export const NAMES_SHOWN = 5;
/** Most actions of one request: keeps answers and checks bounded. */
export const MAX_ACTIONS = 100_000;
/** Identity and description of a task (YDB's own limits). */
export const MAX_UID_LENGTH = 128;
export const MAX_DESCRIPTION_LENGTH = 128;
/** Name of a host. */
export const MAX_HOST_LENGTH = 255;
/** Highest priority there is: what a person has approved by hand. */
export const APPROVED_PRIORITY = -1_000_000;
