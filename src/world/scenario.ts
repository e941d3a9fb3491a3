/** What a seed stands for: machines, clusters, what people want and when, and what goes wrong. Plain data, drawn once. */
import type { Rng } from '../base/rng.ts';
import { makeRng } from '../base/rng.ts';
import { type Millis, SECOND } from '../base/units.ts';
import { drawEdits, drawOperations, drawTunings, type Edit } from './edits.ts';
import { drawFaults, drawRates, type Fault, type Rates } from './faults.ts';
import type { TaskPlan } from './tasks.ts';

export const NEWEST = '8.0.32-14';
export const OLDER = '8.0.29-13';
export const LAST_MAJOR = '7.0.43-23';

export interface ClusterPlan {
  readonly name: string;
  readonly createdAt: Millis;
  readonly members: number;
  readonly version: string;
  readonly tlsMode: 'disabled' | 'allowTLS' | 'preferTLS' | 'requireTLS';
  /** Hosts it may be on; null: any. */
  readonly hosts: readonly string[] | null;
  readonly users: number;
  /** Somebody else's service stands at one of its names already. */
  readonly squatted: boolean;
  /** Null: one replica set. */
  readonly sharded: ShardedPlan | null;
  /** Members that cannot be spared may be interrupted all the same. */
  readonly interruption: boolean;
}

export interface ShardedPlan {
  readonly shards: number;
  readonly perShard: number;
  readonly configServers: number;
  readonly routers: number;
}

/** What a seed is about. Each kind has a stream of its own: the same seed of another kind is another story. */
export type ScenarioKind = 'replicaSets' | 'sharded' | 'maintained' | 'maintainedSharded';

export interface Scenario {
  readonly kind: ScenarioKind;
  readonly seed: number;
  readonly hosts: readonly { readonly name: string; readonly versions: readonly string[] }[];
  readonly planes: number;
  readonly clusters: readonly ClusterPlan[];
  readonly edits: readonly Edit[];
  readonly faults: readonly Fault[];
  readonly rates: Rates;
  /** Of people who work on machines; absent: nobody does. */
  readonly tasks?: readonly TaskPlan[];
  /** When faults and edits end; times are since the beginning. */
  readonly calmAt: Millis;
}

/** Worlds of replica sets. */
export function drawSets(seed: number): Scenario {
  const rng = makeRng(seed).fork('scenario');
  const hostCount = rng.pick([1, 2, 3, 3, 3, 4, 5]);
  const hosts = Array.from({ length: hostCount }, (_, index) => ({
    name: `h${index + 1}`,
    versions: rng.chance(0.05) ? [NEWEST] : [NEWEST, OLDER, LAST_MAJOR],
  }));
  const names = hosts.map((host) => host.name);
  const clusterCount = rng.pick([1, 1, 1, 1, 2, 2, 3]);
  const clusters = Array.from({ length: clusterCount }, (_, index) =>
    drawCluster(rng, index, clusterCount, names),
  );
  const calmAt = 15 * SECOND + rng.below(40 * SECOND);
  const planes = rng.chance(0.3) ? 2 : 1;
  const wanted = drawEdits(rng.fork('edits'), clusters, calmAt);
  const asked = drawOperations(rng.fork('operations'), clusters, calmAt);
  const tuned = drawTunings(rng.fork('tunings'), clusters, calmAt);
  const edits = [...wanted, ...asked, ...tuned].sort((a, b) => a.at - b.at);
  const moments = [...clusters.map((cluster) => cluster.createdAt), ...edits.map((edit) => edit.at)];
  const context = { hosts: names, clusters: clusters.map((c) => c.name), planes, calmAt, moments };
  const faults = drawFaults(rng.fork('faults'), context);
  return {
    kind: 'replicaSets',
    seed,
    hosts,
    planes,
    clusters,
    edits,
    faults,
    rates: drawRates(rng.fork('rates')),
    calmAt,
  };
}

function drawCluster(rng: Rng, index: number, count: number, hosts: readonly string[]): ClusterPlan {
  const members = count > 1 ? rng.pick([1, 3, 3]) : rng.pick([1, 1, 3, 3, 3, 3, 3, 5, 7]);
  const some = hosts.filter(() => rng.chance(0.7));
  return {
    name: ['orders', 'stock', 'users'][index] as string,
    createdAt: 100 + rng.below(2 * SECOND),
    members,
    version: rng.pick([NEWEST, NEWEST, OLDER, LAST_MAJOR]),
    tlsMode: rng.pick(['requireTLS', 'disabled', 'preferTLS', 'requireTLS']),
    hosts: rng.chance(0.3) && some.length > 0 ? some : null,
    users: rng.below(3),
    squatted: rng.chance(0.03),
    sharded: null,
    interruption: false,
  };
}
