/** The engine's numbers, each with its reason. Times in milliseconds. */
import { MINUTE, type Millis, SECOND } from '../base/units.ts';

/**
 * Passes running at once. A pass is mostly waiting for answers, so this bounds memory, not CPU; one that has waited
 * longer than SLOW_AFTER no longer counts (L4).
 */
export const PASS_PARALLELISM = 32;
/** A pass that has not ended after this long makes room for others and its key queues with the slow ones (L4). */
export const SLOW_AFTER: Millis = 1 * SECOND;
/** Passes of slow keys that may be started while others wait. */
export const SLOW_PARALLELISM = 8;
/** Effects of one cluster in flight at once: members of a set are seven at most, a sharded cluster has many. */
export const EFFECT_PARALLELISM = 16;
/** Plan-and-act rounds of one pass before the key goes to the end of the queue, so that a busy cluster lets others in. */
export const MAX_ROUNDS = 24;
/** A step whose effect is not visible yet is looked at again after this long, unless an event comes sooner (L2). */
export const SETTLE: Millis = 1 * SECOND;
/** A step that the guard refuses for the same again is a matter of moments at first; from this many times on the waits double … */
export const REFUSED_OFTEN = 3;
/** … up to this, for one that planner and guard judge differently for good. */
export const REFUSED_CAP: Millis = 10 * SECOND;
/** A7.2: the slowest a cluster with pending work is looked at. */
export const REQUEUE_PENDING: Millis = 5 * SECOND;
/** A7.2: the slowest a converged cluster is looked at. */
export const REQUEUE_CONVERGED: Millis = 30 * SECOND;
/** A converged object whose world did not change is planned anew all the same after this long: certificates grow old. */
export const REST_LIMIT: Millis = 5 * MINUTE;
/** Part of a converged object's wait that is taken off at most, by its uid, so that a fleet's looks are spread out. */
export const REQUEUE_SPREAD = 0.2;
/** A pass that failed (store down, a bug) is tried again after this long … */
export const PASS_RETRY_FIRST: Millis = 1 * SECOND;
/** … doubling up to this. */
export const PASS_RETRY_CAP: Millis = 1 * MINUTE;
/** How long a lease lives without renewal: the longest a hand-over takes after a crash. */
export const LEASE_TTL: Millis = 5 * SECOND;
/** Three renewals fit into one life of a lease, so that one slow write loses nothing. */
export const LEASE_RENEW: Millis = 1_500;
/** A holder stops acting this long before its lease ends, for clocks that run unequally and writes under way. */
export const LEASE_MARGIN: Millis = 1 * SECOND;
/** Leases the clusters are spread over; several control planes can share them later. */
export const LEASE_PARTITIONS = 16;
/** The feed of objects is opened again after this long when it broke. */
export const WATCH_RETRY: Millis = 1 * SECOND;
/**
 * How long closing waits for effects under way. What is not answered by then stays an open intent, which the next holder
 * of the lease takes up: closing late would only delay the hand-over.
 */
export const CLOSE_PATIENCE: Millis = 5 * SECOND;
