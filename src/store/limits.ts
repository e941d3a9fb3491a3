import { type Bytes, MIB } from '../base/units.ts';

/** Everything in the store that would grow without end has a limit here, with its reason. */
export interface StoreLimits {
  /** Changes kept for watchers. A watcher that falls further behind lists again (`Gone`). */
  readonly changes: number;
  /** Events kept per object: enough for the story of a week of trouble, few enough to print. */
  readonly eventsPerObject: number;
  /** Events kept in all, so that objects that are long gone do not fill the disk. */
  readonly events: number;
  /** Finished steps kept per cluster; open intents are never trimmed (S16). */
  readonly journalPerCluster: number;
  /** Finished steps kept in all; deleted clusters leave theirs behind and age out here. */
  readonly journal: number;
  /** Rows deleted only once a limit is passed by this many: trimming one by one would double the writes. */
  readonly slack: number;
  /** Rows written between two rounds of the limits over whole tables. */
  readonly rowsPerHousekeeping: number;
  /** Largest JSON value of one spec, status, state or detail: a runaway value must not stop everybody else. */
  readonly valueBytes: Bytes;
  /** Objects read from the database at once; between two such chunks others get their turn on the loop. */
  readonly listChunk: number;
  /** Changes a watcher reads at once. */
  readonly watchChunk: number;
  /** Characters of one event's message: a platform's answer can be a whole HTML page. */
  readonly eventMessageChars: number;
}

export const STORE_LIMITS: StoreLimits = {
  changes: 10_000,
  eventsPerObject: 100,
  events: 50_000,
  journalPerCluster: 500,
  journal: 200_000,
  slack: 20,
  rowsPerHousekeeping: 1_000,
  valueBytes: 4 * MIB,
  listChunk: 250,
  watchChunk: 200,
  eventMessageChars: 4_000,
};
