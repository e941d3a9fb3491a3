/** What people want of machines over time: maintenance tasks, drawn once, beside everything else a seed stands for. */
import type { Rng } from '../base/rng.ts';
import { type Millis, SECOND } from '../base/units.ts';

export interface TaskPlan {
  readonly name: string;
  readonly owner: string;
  readonly at: Millis;
  /** Machines by name, or members by name. */
  readonly scope: 'hosts' | 'members';
  readonly names: readonly string[];
  readonly mode: 'strong' | 'weak' | 'smart' | 'force';
  /** The engine's own work has 100. */
  readonly priority: number;
  /** How long each is wanted. */
  readonly duration: Millis;
  /** All of them or none. */
  readonly together: boolean;
  readonly maxInFlight: number;
  readonly stepDown: boolean;
  /** Somebody looks first what would be granted. */
  readonly dry: boolean;
  /** What is done to what was granted, and how long that takes. */
  readonly work: 'reboot' | 'kill' | 'look';
  readonly workMillis: Millis;
  /** How what was granted ends; `expire`: nobody gives it back. */
  readonly end: 'complete' | 'drop' | 'expire';
  /** Whoever still waits after this gives up. */
  readonly patience: Millis;
}

/** What there is to be worked on. */
export interface TaskContext {
  readonly hosts: readonly string[];
  readonly clusters: readonly { readonly name: string; readonly members: number }[];
  readonly calmAt: Millis;
}

/** Draws tasks; the first ones come when databases have begun to be there. */
export function drawTasks(rng: Rng, { hosts, clusters, calmAt }: TaskContext): readonly TaskPlan[] {
  const count = 1 + rng.below(4);
  let last: Millis = 0;
  const tasks = Array.from({ length: count }, (_, index): TaskPlan => {
    // Two that come at once, maybe to two control planes, are worth more than two that do not.
    const alone = index === 0 || rng.chance(0.6);
    last = Math.min(calmAt - 100, alone ? 4 * SECOND + rng.below(calmAt) : last + rng.below(10));
    const scope = clusters.length === 0 || rng.chance(0.8) ? 'hosts' : 'members';
    const all =
      scope === 'hosts'
        ? hosts
        : clusters.flatMap(({ name, members }) => Array.from({ length: members }, (_m, i) => `${name}-${i}`));
    const workMillis = 500 + rng.below(rng.chance(0.5) ? 4 * SECOND : 20 * SECOND);
    return {
      name: `work${index}`,
      owner: rng.pick(['eve', 'bob']),
      at: last,
      scope,
      names: shuffled(rng, all).slice(0, rng.chance(0.4) ? 1 : 1 + rng.below(all.length)),
      mode: rng.pick(['strong', 'strong', 'strong', 'weak', 'smart', 'force']),
      priority: rng.pick([-10, 0, 0, 0, 5, 100]),
      duration: workMillis + 8 * SECOND + rng.below(30 * SECOND),
      together: rng.chance(0.15),
      maxInFlight: rng.chance(0.5) ? 1 : 0,
      stepDown: rng.chance(0.4),
      dry: rng.chance(0.3),
      work: rng.pick(['reboot', 'reboot', 'kill', 'look']),
      workMillis,
      end: rng.pick(['complete', 'complete', 'drop', 'expire']),
      patience: 10 * SECOND + rng.below(50 * SECOND),
    };
  });
  return tasks.sort((a, b) => a.at - b.at);
}

const shuffled = <T>(rng: Rng, items: readonly T[]): readonly T[] =>
  items
    .map((item) => ({ item, order: rng.next() }))
    .sort((a, b) => a.order - b.order)
    .map(({ item }) => item);
