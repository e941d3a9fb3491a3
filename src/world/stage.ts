/** What a checker may look at: the true world, what people wanted, what the weather did. */
import type { Millis } from '../base/units.ts';
import type { Client } from './client.ts';
import type { People } from './people.ts';
import type { Scenario } from './scenario.ts';
import type { Storm } from './storm.ts';
import { clusterByUid, isInUse, type Part, specOf } from './truth.ts';
import type { Watcher, World } from './world.ts';

export interface Stage {
  readonly world: World;
  readonly scenario: Scenario;
  readonly people: People;
  readonly storm: Storm;
  readonly clients: ReadonlyMap<string, Client>;
  /** Last time anything went wrong for a member's machine or process, by host. */
  readonly troubled: Map<string, Millis>;
  /** Last time a person wanted all of a cluster down (deletion, suspension), by uid. */
  readonly downAsked: Map<string, Millis>;
}

/** A removal that was asked for may take this long: an effect, a slow operation, a document read a moment before. */
export const REMOVAL_TAKES: Millis = 150_000;

/** Whether a person asked for this stop: the whole cluster down, or an interruption allowed. */
export function stopIsAskedFor({ world, downAsked }: Stage, part: Part): boolean {
  const uid = part.split('/')[0] as string;
  const object = clusterByUid(world, uid);
  if (object === null || object.metadata.deletionTimestamp !== null) return true;
  const spec = specOf(object);
  const lately = world.timeline.now - (downAsked.get(uid) ?? Number.NEGATIVE_INFINITY) < REMOVAL_TAKES;
  return spec.suspend || lately || spec.maintenance.interruption === 'Allowed' || !isInUse(world, part);
}

/** One invariant, watched from outside. */
export type Checker = (stage: Stage) => Watcher;
