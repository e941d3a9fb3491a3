/** The agent channel's numbers, each with its reason. Times in milliseconds. */
import { type Bytes, HOUR, KIB, MIB, type Millis, SECOND } from '../base/units.ts';

/** Changes when a message changes its meaning; new optional fields do not change it. */
export const PROTOCOL_VERSION = 1;
/** One message: a first report of a host with two thousand members still fits. */
export const MAX_MESSAGE: Bytes = 16 * MIB;
/** Above this many unsent bytes a side holds back reports; they collapse into the newest one meanwhile. */
export const BACKPRESSURE: Bytes = 1 * MIB;
/** How long held reports wait before the buffer is looked at again. */
export const BACKPRESSURE_RETRY: Millis = 100;
/** Changes within this time travel in one message, so that an election is one report and not five. */
export const REPORT_DELAY: Millis = 10;
/** Ping both ways; cheap, and routers on the way forget idle connections after a minute or more. */
export const PING_INTERVAL: Millis = 15 * SECOND;
/** Two missed pings: the connection is dead. */
export const PINGS_MISSED = 2;
/** Connections are pinged in this many groups, so that two thousand hosts are no burst. */
export const PING_GROUPS = 15;
/** First wait before a new connection … */
export const RECONNECT_FIRST: Millis = 200;
/** … growing up to this. */
export const RECONNECT_CAP: Millis = 5 * SECOND;
/** Another agent took over this host's name: come back slowly, so that two of them do not fight. */
export const REPLACED_WAIT: Millis = 30 * SECOND;
/** A connection that has not said hello by then is closed. */
export const HELLO_TIMEOUT: Millis = 10 * SECOND;
/** Requests under way to one host. */
export const MAX_REQUESTS = 512;
/** Publishing and starting an operation end with a file written; a slow disk gets this long. */
export const EFFECT_TIMEOUT: Millis = 15 * SECOND;
/** One look at a host (A7.1). */
export const LOOK_TIMEOUT: Millis = 4 * SECOND;
/** The agent answers a command in its own time limit; the answer gets this much more for the way. */
export const ANSWER_GRACE: Millis = 2 * SECOND;
/** Certificates are renewed when less than this part of their life is left. */
export const RENEW_BELOW = 1 / 3;
/** How often the agent looks whether its certificate needs renewal. */
export const RENEW_CHECK: Millis = 1 * HOUR;
/** Body of a join request or answer: a few certificates. */
export const MAX_JOIN_BODY: Bytes = 64 * KIB;
/** A join over a slow line. */
export const JOIN_TIMEOUT: Millis = 15 * SECOND;

/** Close codes of the socket (4000 to 4999 are for applications). */
export const CLOSE = { protocol: 4000, replaced: 4001, refused: 4002, shutdown: 4003 } as const;
