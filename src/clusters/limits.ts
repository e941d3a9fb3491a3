/** The provider's numbers, each with its reason. Times in milliseconds. */
import { DAY, MINUTE, type Millis, SECOND } from '../base/units.ts';

/** A3.2: the first retry of a failed infrastructure action. */
export const RETRY_FIRST: Millis = 30 * SECOND;
/** A3.2: doubled up to here and then for ever at this pace. */
export const RETRY_CAP: Millis = 10 * MINUTE;
/** A3.3: from this many consecutive failures on, the status says that the action keeps failing. */
export const RETRY_KEEPS_FAILING = 10;
/** A5.4: repair of system users starts here … */
export const REPAIR_FIRST: Millis = 1 * SECOND;
/** … and doubles up to here. */
export const REPAIR_CAP: Millis = 1 * MINUTE;
/** A7.2: the slowest a cluster with pending work is looked at. Events come much sooner. */
export const REQUEUE_PENDING: Millis = 5 * SECOND;
/** A7.2: the slowest a converged cluster is looked at. */
export const REQUEUE_CONVERGED: Millis = 30 * SECOND;
/** S1, A6.3: a secondary further behind does not count as healthy. */
export const LAG_LIMIT: Millis = 10 * SECOND;
/** A9.4: certificates of ours are renewed when no more than this is left of their life. */
export const CERTIFICATE_RENEWAL: Millis = 30 * DAY;

/** A disk with less than this share free is reported: at usual growth it leaves days, not minutes. */
export const SPACE_WARNING = 0.1;
/** A6.3: the earliest second look at a member that was seen caught up once. */
export const SECOND_LOOK: Millis = 1 * SECOND;
/** MongoDB's default port; the first the platform tries. */
export const FIRST_PORT = 27017;
/** The last that there is. */
export const LAST_PORT = 65_535;
/** Drivers' default `heartbeatFrequencyMS`: how often they look for a member that was away. */
export const CLIENTS_LOOK: Millis = 10 * SECOND;
/** How long an election after a hand-over of ours may take before a set without a primary is called degraded. */
export const ELECTION_PATIENCE: Millis = 15 * SECOND;
/** The six hex digits of a hash shown to people are enough to tell snapshots apart; stored ones are whole. */
export const MAX_VOTERS = 7;
/** In place of an applied user's hash: the database may know it or not; it is dropped with its document all the same (USR-08). */
export const UNCONFIRMED = '';
/** A router that was not asked itself tells within this what was done to the balancer through another one. */
export const BALANCER_KNOWN: Millis = 30 * SECOND;
