import type { Scene } from '../planners/planner.ts';
import type { EndedOperation, OperationRequest, RunningOperation, State } from '../types.ts';

/** What the record knows of an operation while it runs. */
export type Begun = Pick<RunningOperation, 'members' | 'work'>;

/** How far an operation has come on a reading. `ended` non-null: it is over, with this result and one sentence. */
export interface Progress {
  readonly completed: readonly string[];
  readonly ended: Pick<EndedOperation, 'state' | 'message'> | null;
  /** The record as it is left when it has ended otherwise than well; else as it is. */
  readonly left?: State;
  /** Member it works on and percent of the way, where members alone do not tell. */
  readonly current?: string;
  readonly percent?: number;
}

/**
 * One kind of operation (A13.1). A rule only judges and remembers: the work itself is done by the planners, which look at
 * `State.operation`, under the same guard as everything else. All of it pure; a crash between any two passes changes
 * nothing, since the record says what was begun (A2.7).
 */
export interface OperationRule {
  /** Why it can never be done as it is asked for: it fails at once and nothing was touched. Null: it can. */
  readonly refuse: (scene: Scene, request: OperationRequest) => string | null;
  /** Why it may not begin yet: it stays Waiting with this sentence. Null: it may. */
  readonly waitFor: (scene: Scene, request: OperationRequest) => string | null;
  /** Freezes what it will do, and what else of the record changes with that. */
  readonly begin: (
    scene: Scene,
    request: OperationRequest,
  ) => { readonly begun: Begun; readonly state: State };
  readonly progress: (scene: Scene, operation: RunningOperation) => Progress;
  /** The record without it, where it can be left safely now; else the reason why it goes on. */
  readonly cancel: (scene: Scene, operation: RunningOperation) => State | string;
  /** Whether members may join and leave while it runs (A13.6). */
  readonly movesMembers: boolean;
}
