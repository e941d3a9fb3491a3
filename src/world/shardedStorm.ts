/** Misfortunes of sharded clusters: parts cut off, routers that stand still, chunks on their way, hands at the balancer. */
import type { Millis } from '../base/units.ts';
import type { StoredObject } from '../engine/ports.ts';
import type { ShardedFault } from './faults.ts';
import { clusterNamed, membersOf, primaryOf, routersOf, setsOf, userSetOf } from './truth.ts';
import type { World } from './world.ts';

/** A person switched a balancer without asking us. */
export interface Hand {
  readonly at: Millis;
  readonly uid: string;
  readonly on: boolean;
  readonly autoMerge: boolean;
  /** A majority has it: it is not lost with the primary that took it. */
  kept: boolean;
}

/** Begins one; `until` undoes it after a time, or when calm comes. */
export function beginSharded(
  world: World,
  fault: ShardedFault,
  until: (millis: Millis, undo: () => void) => void,
  hands: Hand[],
): void {
  const object = clusterNamed(world, fault.cluster);
  if (object === null) return;
  switch (fault.kind) {
    case 'configCut': {
      const all = hostsOf(world, userSetOf(object));
      const cut = new Set(rotated(all, fault.which).slice(0, Math.floor(all.length / 2) + 1));
      until(
        fault.millis,
        wall(world, (a, b) => cut.has(a) || cut.has(b)),
      );
      return;
    }
    case 'shardCut': {
      const shards = setsOf(object).slice(1);
      const shard = shards[fault.which % Math.max(1, shards.length)];
      const cut = new Set(shard === undefined ? [] : hostsOf(world, shard));
      until(
        fault.millis,
        wall(world, (a, b) => cut.has(a) !== cut.has(b)),
      );
      return;
    }
    case 'routerStuck': {
      const routers = membersOf(world, routersOf(object)).flatMap(({ router }) => router ?? []);
      const router = routers[fault.which % Math.max(1, routers.length)];
      if (router === undefined) return;
      router.stuck = true;
      until(fault.millis, () => router.wake());
      return;
    }
    case 'migration':
      world.balancers.get(fault.cluster)?.moveSome(fault.millis);
      return;
    case 'balancerByHand':
      switchByHand(world, object, fault, hands);
  }
}

function switchByHand(
  world: World,
  object: StoredObject,
  { on, autoMerge }: Pick<Hand, 'on' | 'autoMerge'>,
  hands: Hand[],
): void {
  const config = primaryOf(world, userSetOf(object));
  if (config === null || config.data.shards.size === 0) return;
  const { uid, name } = object.metadata;
  const apart = on && !autoMerge ? ', the AutoMerger off' : '';
  world.tell('person', `switches the balancer of ${name} ${on ? 'on' : 'off'}${apart}`);
  const hand: Hand = { at: world.timeline.now, uid, on, autoMerge, kept: false };
  hands.push(hand);
  config.write({ kind: 'balancer', on, autoMerge }, null, (answer) => {
    hand.kept = answer.kind === 'done';
  });
}

/** Separates processes; gives the repair. */
function wall(world: World, separates: (a: string, b: string) => boolean): () => void {
  world.walls.add(separates);
  return () => world.walls.delete(separates);
}

const hostsOf = (world: World, set: string): readonly string[] =>
  membersOf(world, set).map(({ record }) => `${record.address}:${record.port}`);

const rotated = <T>(items: readonly T[], by: number): readonly T[] =>
  items.map((_, index) => items[(index + by) % items.length] as T);
