/** The agent's numbers, each with its reason. Times in milliseconds. */
import { type Bytes, MIB, MINUTE, type Millis, SECOND } from '../base/units.ts';

/** First wait before a process that ended is started again … */
export const RESTART_FIRST: Millis = 500;
/** … doubling up to this. */
export const RESTART_CAP: Millis = 30 * SECOND;
/** A process that ran at least this long was not a failed start: its next end begins the waits anew. */
export const RAN_WELL: Millis = 10 * SECOND;
/**
 * SIGTERM to SIGKILL. The server steps down (up to 15 s), then serves a quiesce period (15 s): a shorter limit kills
 * every healthy member, and the next start recovers from its journal.
 */
export const STOP_TIMEOUT: Millis = 45 * SECOND;
/** A process of an earlier agent gives no exit event: it is looked at this often. */
export const ADOPTED_POLL: Millis = 1 * SECOND;
/** While waiting for such a process to end. */
export const STOP_POLL: Millis = 50;

/** The end of a log that is read for the reason of an exit. */
export const LOG_TAIL: Bytes = 32 * 1024;
/** Longest reason in a fact. */
export const MESSAGE_LENGTH = 400;
/** A log above this size is moved away (STO-07) … */
export const LOG_LIMIT: Bytes = 64 * MIB;
/** … and so many old ones are kept. */
export const LOGS_KEPT = 3;

/** A new process is probed this often until it listens … */
export const PROBE_FIRST: Millis = 50;
/** … slowing down to this. */
export const PROBE_CAP: Millis = 1 * SECOND;
/** One observation, whatever it asks (A7.1). */
export const OBSERVE_TIMEOUT: Millis = 4 * SECOND;
/** Looks at a set in which something is going on, at first … */
export const STATUS_FIRST: Millis = 500;
/** … slowing down to this, which is also how often a quiet set is asked for its lag. */
export const STATUS_CAP: Millis = 10 * SECOND;
/** The feature compatibility version is read again after this long. */
export const FCV_EVERY: Millis = 1 * MINUTE;
/** A login that failed is tried again after this long … */
export const LOGIN_RETRY_FIRST: Millis = 250;
/** … doubling up to this. */
export const LOGIN_RETRY_CAP: Millis = 10 * SECOND;
/** Connections and clients for commands close after this long without use. */
export const CLIENT_IDLE: Millis = 60 * SECOND;
/** Authorities whose TLS context is kept: one per installation, two while it changes. */
export const CONTEXTS_KEPT = 8;
/** So long an agent that has just started looks at its databases before it says anything: less than it may be silent (A7.1). */
export const FIRST_LOOKS: Millis = 3 * SECOND;
/** Disk sizes, host facts and logs are looked at this often. */
export const HOUSEKEEPING: Millis = 30 * SECOND;
/** Free space is reported in steps of this part of the whole, so that a busy disk is no stream of reports. */
export const SPACE_STEP = 0.01;
/** What a volume holds is counted file by file, which costs something with many collections. */
export const COUNT_EVERY: Millis = 10 * MINUTE;
/** … and told when it changed by this share: it is for estimates only. */
export const USED_STEP = 0.1;

/** Commands waiting for one member. */
export const MAX_QUEUED_COMMANDS = 32;
/** Answers kept by step id, so that a command asked twice is done once. */
export const ANSWERS_KEPT = 64;
/** Ended operations kept on disk for a control plane that was away. */
export const OPERATIONS_KEPT = 500;
/** How long `--version` of an executable may take. */
export const VERSION_TIMEOUT: Millis = 20 * SECOND;
/** A wait for a reachable peer before an initiation. */
export const PEER_TIMEOUT: Millis = 2 * SECOND;
/** First try to join again after a network failure; the same cap as a reconnect. */
export const JOIN_RETRY: Millis = 2 * SECOND;
/** Ports looked at when a free one may be chosen. */
export const PORTS_TRIED = 2_000;
