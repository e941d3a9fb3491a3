import type { Millis } from '../base/units.ts';
import type { OpenIntents } from './intents.ts';
import type { Fence, JournalOutcome, StoredObject } from './ports.ts';
import type { AnyStep } from './provider.ts';

/** What is remembered of an object between passes, while its lease is held: nobody else writes it meanwhile. */
export interface Memory<State, Step extends AnyStep> {
  version: number;
  state: State;
  /** The record as it is in the store; `state` may have learnt more since. */
  saved: State | null;
  readonly open: OpenIntents<Step>;
  /** Last status written or read. */
  status: unknown;
  /** The last pass found nothing to do. */
  converged: boolean;
  /** What that pass saw; null unless it found nothing to do. */
  rest: Rest<State> | null;
  readonly others: Map<string, unknown>;
  /** Outcomes of intents that were seen to be over, to be written with the next write. */
  readonly over: JournalOutcome[];
  /** Steps done or refused, until when they are not repeated: their effect may not be visible yet (L2). */
  readonly settling: Map<string, Millis>;
  /** Steps that the guard refused and nothing was done of since: why, and how often in a row for that. */
  readonly refused: Map<string, { readonly why: string; readonly times: number }>;
  /** The last pass wanted something that the gate did not let through. */
  atTheGate: boolean;
  /** Since when nothing is worked on because what comes next waits for leave (`heldSince`); null: it is not so. */
  heldSince: Millis | null;
}

/** Nothing was to do, and what that was judged from. */
export interface Rest<State> {
  readonly object: StoredObject;
  readonly state: State;
  readonly basis: readonly unknown[];
  readonly until: Millis;
}

/** One pass's thread through its rounds. */
export interface Pass<State, Step extends AnyStep> {
  readonly uid: string;
  readonly fence: Fence;
  readonly memory: Memory<State, Step>;
  object: StoredObject;
}
