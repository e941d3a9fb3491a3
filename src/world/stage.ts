/** What a checker may look at: the true world, what people wanted, what the weather did. */
import type { Millis } from '../base/units.ts';
import type { Client } from './client.ts';
import type { People } from './people.ts';
import type { Scenario } from './scenario.ts';
import type { Storm } from './storm.ts';
import type { Watcher, World } from './world.ts';

export interface Stage {
  readonly world: World;
  readonly scenario: Scenario;
  readonly people: People;
  readonly storm: Storm;
  readonly clients: ReadonlyMap<string, Client>;
  /** Last time anything went wrong for a member's machine or process, by host. */
  readonly troubled: Map<string, Millis>;
}

/** One invariant, watched from outside. */
export type Checker = (stage: Stage) => Watcher;
