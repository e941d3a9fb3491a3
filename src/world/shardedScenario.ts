/** Scenarios with a sharded cluster: drawn from a stream of their own, small enough that a seed stays cheap. */
import { makeRng, type Rng } from '../base/rng.ts';
import { type Millis, SECOND } from '../base/units.ts';
import { ASKED_FOR, type Edit, type EditKind } from './edits.ts';
import { drawFaults, drawRates, type Fault, type FaultKind } from './faults.ts';
import { type ClusterPlan, LAST_MAJOR, NEWEST, OLDER, type Scenario } from './scenario.ts';

/** Seeds below this were kept before there were head starts: they stay what they were. */
const HEAD_STARTS_FROM = 2000;

/** Draws everything of a seed with one sharded cluster and, at times, a small replica set beside it. */
export function drawShardedScenario(seed: number): Scenario {
  const scenario = drawAll(seed);
  const rng = makeRng(seed).fork('head start');
  return seed >= HEAD_STARTS_FROM && rng.chance(0.75) ? withHeadStart(rng, scenario) : scenario;
}

/**
 * It takes long until a sharded cluster is there, longer than most wishes wait: here nothing goes wrong before it is, and what
 * people want comes to a cluster that runs.
 */
function withHeadStart(rng: Rng, scenario: Scenario): Scenario {
  const by = 16 * SECOND + rng.below(8 * SECOND);
  const begin = Math.max(...scenario.clusters.map(({ createdAt }) => createdAt)) + by;
  const later = <T extends { readonly at: Millis }>(things: readonly T[]): readonly T[] =>
    things.map((thing) => ({ ...thing, at: begin + thing.at }));
  const { rates } = scenario;
  return {
    ...scenario,
    edits: later(scenario.edits),
    faults: later(scenario.faults),
    calmAt: begin + scenario.calmAt,
    // Of these one alone would hold up the whole making of it.
    rates: {
      ...rates,
      operationSlow: 0,
      operationForgotten: 0,
      held: rates.held / 4,
      deaths: rates.deaths / 2,
    },
  };
}

function drawAll(seed: number): Scenario {
  const rng = makeRng(seed).fork('sharded');
  const hosts = Array.from({ length: rng.pick([1, 2, 3, 3, 3, 4]) }, (_, index) => ({
    name: `h${index + 1}`,
    versions: [NEWEST, OLDER, LAST_MAJOR],
  }));
  const names = hosts.map((host) => host.name);
  const cluster = drawCluster(rng);
  const clusters = rng.chance(0.12) ? [cluster, neighbour(rng)] : [cluster];
  const calmAt = 20 * SECOND + rng.below(40 * SECOND);
  const planes = rng.chance(0.3) ? 2 : 1;
  const edits = [
    ...drawUsers(rng.fork('users'), cluster, calmAt),
    ...drawEdits(rng.fork('edits'), cluster, calmAt),
    ...drawOperations(rng.fork('operations'), cluster, calmAt),
  ].sort((a, b) => a.at - b.at);
  const moments = [cluster.createdAt, ...edits.map((edit) => edit.at)];
  const context = { hosts: names, clusters: clusters.map(({ name }) => name), planes, calmAt, moments };
  const usual = rng.chance(0.6) ? drawFaults(rng.fork('faults'), context) : [];
  const own = drawShardedFaults(rng.fork('own faults'), cluster.name, calmAt, moments);
  const faults = [...usual, ...own].sort((a, b) => a.at - b.at);
  const often = (chance: number, most: number): number => (rng.chance(chance) ? rng.next() * most : 0);
  const rates = {
    ...drawRates(rng.fork('rates')),
    shardingLost: often(0.4, 0.8),
    shardingDeaths: often(0.3, 0.8),
  };
  return { kind: 'sharded', seed, hosts, planes, clusters, edits, faults, rates, calmAt };
}

function drawCluster(rng: Rng): ClusterPlan {
  const shards = rng.pick([1, 1, 2, 2, 2, 3]);
  const perShard = shards === 3 ? 1 : rng.pick([1, 3, 3]);
  const configServers = rng.pick([1, 3, 3, 3, 3, 3]);
  const routers = rng.pick([1, 2, 2, 2, 3]);
  const alone = configServers === 1 || perShard === 1 || routers === 1;
  return {
    name: 'orders',
    createdAt: 100 + rng.below(2 * SECOND),
    members: shards * perShard + configServers + routers,
    version: rng.pick([NEWEST, NEWEST, OLDER, LAST_MAJOR]),
    tlsMode: rng.pick(['requireTLS', 'disabled', 'preferTLS', 'requireTLS']),
    hosts: null,
    users: rng.below(2),
    squatted: false,
    sharded: { shards, perShard, configServers, routers },
    interruption: configServers === 1 || rng.chance(alone ? 0.6 : 0.1),
  };
}

const neighbour = (rng: Rng): ClusterPlan => ({
  name: 'stock',
  createdAt: 100 + rng.below(4 * SECOND),
  members: 1,
  version: NEWEST,
  tlsMode: 'requireTLS',
  hosts: null,
  users: 0,
  squatted: false,
  sharded: null,
  interruption: false,
});

// ── what is wanted ─────────────────────────────────────────────────────────────────────────────────────────────────

const drawUsers = (
  rng: Rng,
  { name: cluster, createdAt, users }: ClusterPlan,
  calmAt: Millis,
): readonly Edit[] =>
  Array.from({ length: users }, (_, index) => ({
    kind: 'user',
    cluster,
    user: `app${index}`,
    at: Math.min(calmAt - 100, createdAt + rng.below(15 * SECOND)),
  }));

function drawEdits(rng: Rng, cluster: ClusterPlan, calmAt: Millis): readonly Edit[] {
  const edits: Edit[] = [];
  const count = rng.below(4);
  for (let index = 0; index < count; index++) {
    const at = cluster.createdAt + 200 + rng.below(rng.chance(0.3) ? 8 * SECOND : calmAt);
    for (const edit of drawOne(rng, cluster)) {
      const later = edits.length === 0 || edit.back !== true ? 0 : 500 + rng.below(20 * SECOND);
      const when = at + later;
      if (when < calmAt) edits.push({ ...edit.kind, at: when, cluster: cluster.name });
    }
  }
  return edits;
}

interface Wish {
  readonly kind: EditKind;
  /** It takes the one before back, some time later. */
  readonly back?: true;
}

function drawOne(rng: Rng, { sharded, users }: ClusterPlan): readonly Wish[] {
  const { shards = 1, perShard = 1, routers = 1 } = sharded ?? {};
  const user = `app${rng.below(Math.max(1, users))}`;
  const value = 1 + rng.below(4);
  const counts = (part: Extract<EditKind, { kind: 'counts' }>['part'], to: number): readonly Wish[] => [
    { kind: { kind: 'counts', part, to } },
  ];
  switch (rng.below(18)) {
    case 0:
    case 1:
      return counts('shards', Math.min(3, shards + 1));
    case 2:
      return counts('shardMembers', perShard === 1 ? 3 : rng.pick(shards === 1 ? [1, 5] : [1, 1, 3]));
    case 3:
      return counts('configServers', rng.pick([1, 3, 5]));
    case 4:
      return counts('routers', rng.pick([1, 2, 3, routers + 1]));
    case 5:
      // Refused: a shard does not go, and a type does not change.
      return rng.chance(0.5) ? counts('shards', Math.max(1, shards - 1)) : [{ kind: { kind: 'changeType' } }];
    case 6:
    case 7:
    case 8:
      return [{ kind: { kind: 'version', version: rng.pick([NEWEST, NEWEST, OLDER, LAST_MAJOR]) } }];
    case 9:
    case 10: {
      const bad = rng.chance(0.15);
      const again: readonly Wish[] = [{ kind: { kind: 'config', value, bad: false }, back: true }];
      return [{ kind: { kind: 'config', value, bad } }, ...(bad || rng.chance(0.3) ? again : [])];
    }
    case 11: {
      const bad = rng.chance(0.3);
      const again: readonly Wish[] = [{ kind: { kind: 'routerConfig', value, bad: false }, back: true }];
      return [{ kind: { kind: 'routerConfig', value, bad } }, ...(bad && rng.chance(0.7) ? again : [])];
    }
    case 12:
    case 13:
      return [{ kind: { kind: 'tls', mode: rng.pick(['disabled', 'allowTLS', 'preferTLS', 'requireTLS']) } }];
    case 14:
      return [{ kind: { kind: 'memory', gib: value } }];
    case 15: {
      const on: Wish = { kind: { kind: 'suspend', on: true } };
      return rng.chance(0.8) ? [on, { kind: { kind: 'suspend', on: false }, back: true }] : [on];
    }
    case 16:
      return rng.chance(0.5)
        ? [{ kind: { kind: 'pause', on: true } }, { kind: { kind: 'pause', on: false }, back: true }]
        : [{ kind: { kind: 'delete' } }, { kind: { kind: 'recreate' }, back: true }];
    default:
      return [{ kind: rng.chance(0.5) ? { kind: 'password', user } : { kind: 'userRoles', user } }];
  }
}

function drawOperations(
  rng: Rng,
  { name: cluster, createdAt }: ClusterPlan,
  calmAt: Millis,
): readonly Edit[] {
  const edits: Edit[] = [];
  const count = rng.chance(0.6) ? 1 + rng.below(3) : 0;
  for (let index = 0; index < count; index++) {
    const name = `${cluster}-op${index}`;
    const at = Math.min(calmAt - 200, createdAt + rng.below(calmAt));
    const type = rng.chance(0.35)
      ? rng.pick(['StartBalancer', 'StopBalancer'] as const)
      : rng.pick(ASKED_FOR);
    edits.push({ kind: 'operation', cluster, at, name, type, which: rng.below(24) });
    if (!rng.chance(0.15)) continue;
    edits.push({ kind: 'cancel', cluster, name, at: Math.min(calmAt - 100, at + rng.below(15 * SECOND)) });
  }
  return edits;
}

// ── what goes wrong ────────────────────────────────────────────────────────────────────────────────────────────────

function drawShardedFaults(
  rng: Rng,
  cluster: string,
  calmAt: Millis,
  moments: readonly Millis[],
): readonly Fault[] {
  return Array.from({ length: rng.below(5) }, () => {
    const near = rng.chance(0.6) ? rng.pick(moments) : rng.below(calmAt);
    const at = Math.min(calmAt - 100, near + rng.below(10 * SECOND));
    return { ...drawFault(rng, cluster, at), at };
  });
}

function drawFault(rng: Rng, cluster: string, at: Millis): FaultKind {
  const millis = SECOND + rng.below(rng.chance(0.5) ? 8 * SECOND : 30 * SECOND);
  const which = rng.below(7);
  switch (rng.below(5)) {
    case 0:
      return { kind: 'configCut', cluster, which, millis };
    case 1:
      return { kind: 'shardCut', cluster, which, millis };
    case 2:
      return { kind: 'routerStuck', cluster, which, millis };
    case 3:
      return { kind: 'migration', cluster, millis };
    default:
      return handAtBalancer(rng, cluster, at);
  }
}

function handAtBalancer(rng: Rng, cluster: string, at: Millis): FaultKind {
  const on = rng.chance(0.4);
  return {
    kind: 'balancerByHand',
    cluster,
    on,
    autoMerge: on && rng.fork(`automerge ${at}`).chance(0.5),
  };
}
