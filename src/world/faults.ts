/** What goes wrong, as plain data: single misfortunes with a beginning and an end, and rates of small ones. */
import type { Rng } from '../base/rng.ts';
import { MINUTE, type Millis, SECOND } from '../base/units.ts';

export type FaultKind =
  | { readonly kind: 'hostCrash'; readonly host: string; readonly millis: Millis }
  | { readonly kind: 'agentCrash'; readonly host: string; readonly millis: Millis }
  | { readonly kind: 'processKill'; readonly host: string; readonly which: number }
  | {
      readonly kind: 'cutAgent';
      readonly plane: number;
      readonly host: string;
      readonly millis: Millis;
      readonly silently: boolean;
    }
  | { readonly kind: 'cutHosts'; readonly a: string; readonly b: string; readonly millis: Millis }
  | { readonly kind: 'isolate'; readonly host: string; readonly millis: Millis; readonly silently: boolean }
  | { readonly kind: 'slowHost'; readonly host: string; readonly millis: Millis; readonly by: Millis }
  | { readonly kind: 'staleLooks'; readonly host: string; readonly millis: Millis; readonly by: Millis }
  | { readonly kind: 'diskFull'; readonly host: string; readonly millis: Millis }
  | { readonly kind: 'planeKill'; readonly plane: number }
  | { readonly kind: 'planeStall'; readonly plane: number; readonly millis: Millis }
  | { readonly kind: 'runtimeGone'; readonly host: string; readonly which: number }
  | { readonly kind: 'foreignVolume'; readonly host: string; readonly cluster: string }
  | { readonly kind: 'clockJump'; readonly plane: number; readonly by: Millis }
  | { readonly kind: 'store'; readonly how: 'slow' | 'failing' | 'full'; readonly millis: Millis }
  | { readonly kind: 'feedBreaks'; readonly plane: number }
  | { readonly kind: 'stepDowns'; readonly cluster: string; readonly times: number }
  | { readonly kind: 'meddle'; readonly cluster: string; readonly how: Meddling }
  | { readonly kind: 'copies'; readonly millis: Millis }
  | { readonly kind: 'shortCertificates'; readonly millis: Millis; readonly life: Millis }
  /** A majority of the config servers is cut off from everybody. */
  | { readonly kind: 'configCut'; readonly cluster: string; readonly which: number; readonly millis: Millis }
  /** A shard is cut off from routers and config servers; its members have each other. */
  | { readonly kind: 'shardCut'; readonly cluster: string; readonly which: number; readonly millis: Millis }
  /** A router answers nothing. */
  | {
      readonly kind: 'routerStuck';
      readonly cluster: string;
      readonly which: number;
      readonly millis: Millis;
    }
  /** The balancer, where it may run, moves a chunk. */
  | { readonly kind: 'migration'; readonly cluster: string; readonly millis: Millis }
  /** A person switches the balancer without asking us, and the AutoMerger, which goes along, to what they want. */
  | {
      readonly kind: 'balancerByHand';
      readonly cluster: string;
      readonly on: boolean;
      readonly autoMerge: boolean;
    };
export type Meddling =
  | 'dropMonitor'
  | 'changeBackup'
  | 'dropRole'
  | 'changeAdmin'
  | 'dropAppUser'
  | 'priorities'
  | 'votes';
export type Fault = FaultKind & { readonly at: Millis };

/** Chances of small misfortunes, each on its own in many calls. */
export interface Rates {
  readonly requestLost: number;
  readonly answerLost: number;
  readonly doubled: number;
  readonly held: number;
  readonly operationFails: number;
  readonly operationSlow: number;
  readonly operationForgotten: number;
  readonly storeAnswerLost: number;
  readonly storeSlow: number;
  /** Chance that a life of a control plane ends at one of its first arrows. */
  readonly deaths: number;
  /** Chance that, while an intent to take something down is being written, another member falls. */
  readonly ambushes: number;
  /** Answers of addShard and of switching the balancer that are lost. */
  readonly shardingLost: number;
  /** Chance that a control plane dies around such a step. */
  readonly shardingDeaths: number;
}

export interface FaultContext {
  readonly hosts: readonly string[];
  readonly clusters: readonly string[];
  readonly planes: number;
  readonly calmAt: Millis;
  /** When something is wanted: misfortunes like to come then. */
  readonly moments: readonly Millis[];
}

/** Many seeds have one kind of trouble, some have all, some have none. */
export function drawRates(rng: Rng): Rates {
  const maybe = (chance: number, most: number): number => (rng.chance(chance) ? rng.next() * most : 0);
  return {
    requestLost: maybe(0.2, 0.2),
    answerLost: maybe(0.3, 0.3),
    doubled: maybe(0.3, 0.5),
    held: maybe(0.2, 0.1),
    operationFails: maybe(0.25, 0.4),
    operationSlow: maybe(0.25, 0.3),
    operationForgotten: maybe(0.1, 0.2),
    storeAnswerLost: maybe(0.15, 0.1),
    storeSlow: maybe(0.2, 0.3),
    deaths: maybe(0.35, 1),
    ambushes: maybe(0.4, 1),
    shardingLost: 0,
    shardingDeaths: 0,
  };
}

export function drawFaults(rng: Rng, context: FaultContext): readonly Fault[] {
  const count = rng.chance(0.1) ? 0 : rng.below(7);
  const kinds = shuffled(rng, KINDS).slice(0, 1 + rng.below(5));
  const faults: Fault[] = [];
  for (let index = 0; index < count; index++) {
    const near = rng.chance(0.6) ? rng.pick(context.moments) : rng.below(context.calmAt);
    const at = Math.min(context.calmAt - 100, near + rng.below(rng.chance(0.5) ? 2 * SECOND : 8 * SECOND));
    faults.push({ ...drawOne(rng, rng.pick(kinds), context), at });
  }
  return faults.sort((a, b) => a.at - b.at);
}

/** Misfortunes of sharded clusters alone. */
export const SHARDED_KINDS = ['configCut', 'shardCut', 'routerStuck', 'migration', 'balancerByHand'] as const;
export type ShardedFault = Extract<Fault, { readonly kind: (typeof SHARDED_KINDS)[number] }>;
type UsualKind = Exclude<FaultKind['kind'], ShardedFault['kind']>;

/** Every kind of misfortune that is drawn by itself. */
export const KINDS: readonly UsualKind[] = [
  'hostCrash',
  'agentCrash',
  'processKill',
  'cutAgent',
  'cutHosts',
  'isolate',
  'slowHost',
  'staleLooks',
  'diskFull',
  'planeKill',
  'planeStall',
  'runtimeGone',
  'foreignVolume',
  'clockJump',
  'store',
  'feedBreaks',
  'stepDowns',
  'meddle',
  'copies',
  'shortCertificates',
];

function shuffled<T>(rng: Rng, items: readonly T[]): readonly T[] {
  return items
    .map((item) => ({ item, order: rng.next() }))
    .sort((a, b) => a.order - b.order)
    .map(({ item }) => item);
}

function drawOne(rng: Rng, kind: UsualKind, context: FaultContext): FaultKind {
  const host = rng.pick(context.hosts);
  const plane = rng.below(context.planes);
  const cluster = rng.pick(context.clusters);
  const millis = 300 + rng.below(rng.chance(0.5) ? 5 * SECOND : 30 * SECOND);
  const silently = rng.chance(0.5);
  switch (kind) {
    case 'hostCrash':
    case 'agentCrash':
    case 'diskFull':
      return { kind, host, millis };
    case 'processKill':
      return { kind, host, which: rng.below(7) };
    case 'cutAgent':
      return { kind, plane, host, millis, silently };
    case 'cutHosts':
      return { kind, a: host, b: rng.pick(context.hosts), millis };
    case 'isolate':
      return { kind, host, millis, silently };
    case 'slowHost':
      return { kind, host, millis, by: 50 + rng.below(2 * SECOND) };
    case 'staleLooks':
      return { kind, host, millis, by: 200 + rng.below(6 * SECOND) };
    case 'planeKill':
      return { kind, plane };
    case 'planeStall':
      // Longer than a lease lives, or it is no more than a slow store.
      return { kind, plane, millis: 5 * SECOND + rng.below(20 * SECOND) };
    case 'runtimeGone':
      return { kind, host, which: rng.below(7) };
    case 'foreignVolume':
      return { kind, host, cluster };
    case 'clockJump':
      return { kind, plane, by: (rng.chance(0.5) ? 1 : -1) * (SECOND + rng.below(10 * MINUTE)) };
    case 'store':
      return { kind, how: rng.pick(['slow', 'failing', 'full']), millis };
    case 'feedBreaks':
      return { kind, plane };
    case 'stepDowns':
      return { kind, cluster, times: 1 + rng.below(3) };
    case 'meddle': {
      const all: readonly Meddling[] = [
        'dropMonitor',
        'changeBackup',
        'dropRole',
        'changeAdmin',
        'dropAppUser',
        'priorities',
        'votes',
      ];
      return { kind, cluster, how: rng.pick(all) };
    }
    case 'copies':
      return { kind, millis };
    case 'shortCertificates':
      return { kind, millis, life: 2 * SECOND + rng.below(40 * SECOND) };
  }
}
