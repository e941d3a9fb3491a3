/** What a Topology document and pushed health say, as a part of the fleet. */
import { formatMoment, type Millis } from '../base/units.ts';
import { parseDuration, type Topology } from '../model/index.ts';
import { nodeKeyOf } from './documents.ts';
import type {
  FleetSpec,
  GroupSpec,
  LimitSetSpec,
  NodeSpec,
  NodeState,
  StateStorageSpec,
} from './fleetSpec.ts';

type Spec = Topology['spec'];
type Status = Topology['status'];
type NodeDocument = Spec['nodes'][number];

const STATES: Readonly<Record<'Up' | 'Down' | 'Unknown', NodeState>> = {
  Up: 'up',
  Down: 'down',
  Unknown: 'unknown',
};

/** How far what was pushed is believed now. Each node, disk and virtual disk ages by itself (C5.3). */
interface Ageing {
  /** `observedAt` of a thing; without one it was told by the last push. */
  isOld(observedAt: string | undefined): boolean;
  /** When it was told, in words. */
  text(observedAt: string | undefined): string;
  /** States of nodes in the document are believed no more: nodes were pushed for so long, and these never. */
  readonly documentIsOld: boolean;
}

function ageing({ healthMaxAge }: Spec, status: Status | null, now: Millis): Ageing {
  const last = status?.health?.observedAt;
  const age = maxAge(healthMaxAge);
  const isOld = (at: string | undefined): boolean => at !== undefined && Date.parse(at) + age <= now;
  return {
    isOld: (at) => isOld(at ?? last),
    text: (at) => formatMoment(Date.parse(at ?? last ?? '')),
    documentIsOld: isOld(nodesSince(status)),
  };
}

/** Infinite: never too old. */
function maxAge(text: string): Millis {
  const age = parseDuration(text);
  return age.ok && age.value > 0 ? age.value : Number.POSITIVE_INFINITY;
}

/** Before it was noted by itself, everything aged with the last push. */
const nodesSince = (status: Status | null): string | undefined => {
  const health = status?.health;
  return (
    health?.nodesSince ?? (health?.nodes.some((n) => n.state !== undefined) ? health.observedAt : undefined)
  );
};

/** When the next pushed state, or the document's, gets too old; null: nothing will. */
export function healthUntil(spec: Spec, status: Status | null, now: Millis): Millis | null {
  const { health } = status ?? {};
  if (health === undefined) return null;
  const age = maxAge(spec.healthMaxAge);
  const times = new Set([nodesSince(status)]);
  for (const told of [health.nodes, health.disks, health.vdisks])
    for (const { observedAt } of told) times.add(observedAt ?? health.observedAt);
  let next = Number.POSITIVE_INFINITY;
  for (const at of times) {
    const until = at === undefined ? now : Date.parse(at) + age;
    if (until > now) next = Math.min(next, until);
  }
  return Number.isFinite(next) ? next : null;
}

/** What was told too long ago to be believed, and since when the first of it is not. */
export interface OldHealth {
  /** Names of nodes whose state is unknown for it. */
  readonly nodes: readonly string[];
  readonly disks: number;
  readonly since: Millis;
}

/** Null: all that was pushed is believed. */
export function oldHealth(name: string, spec: Spec, status: Status | null, now: Millis): OldHealth | null {
  const { health } = status ?? {};
  if (health === undefined) return null;
  const ages = ageing(spec, status, now);
  const told = new Map(health.nodes.map((n) => [n.id, n]));
  const old = spec.nodes.filter((node) => stateOf(node, told.get(node.id), ages, spec).note !== undefined);
  const nodeTimes = old.map(({ id }) =>
    told.get(id)?.state === undefined ? nodesSince(status) : told.get(id)?.observedAt,
  );
  const diskTimes = [...health.disks, ...health.vdisks]
    .map((d) => d.observedAt)
    .filter((at) => ages.isOld(at));
  if (old.length + diskTimes.length === 0) return null;
  const ends = [...nodeTimes, ...diskTimes].map(
    (at) => Date.parse(at ?? health.observedAt ?? '') + maxAge(spec.healthMaxAge),
  );
  const since = ends.reduce((a, b) => Math.min(a, b));
  return { nodes: old.map(({ id }) => `node ${id} of ${name}`), disks: diskTimes.length, since };
}

/** The part of the fleet that one Topology describes. Health that is too old is unknown, and unknown counts as down (C5.3). */
export function topologyFleet(name: string, spec: Spec, status: Status | null, now: Millis): FleetSpec {
  const ages = ageing(spec, status, now);
  const told = new Map(status?.health?.nodes.map((n) => [n.id, n]));
  const disks = new Map(status?.health?.disks.map((d) => [`${d.node}/${d.disk}`, d]));
  const vdisks = new Map(status?.health?.vdisks.map((v) => [`${v.group}/${v.node}/${v.disk ?? ''}`, v]));
  const vdiskOf = (group: number, node: number, disk: number) =>
    vdisks.get(`${group}/${node}/${disk}`) ?? vdisks.get(`${group}/${node}/`);
  const key = (id: number): string => nodeKeyOf(String(id), name);
  const nodes = spec.nodes.map((node): NodeSpec => {
    const news = told.get(node.id);
    const { state, note } = stateOf(node, news, ages, spec);
    const startedAt = news?.startedAt ?? node.startedAt;
    const version = news?.version ?? node.version;
    return {
      key: key(node.id),
      name: `node ${node.id} of ${name}`,
      id: node.id,
      host: node.host,
      kind: node.tenant === undefined ? 'storage' : 'dynamic',
      state: STATES[state],
      ...(note === undefined ? {} : { note }),
      startedAt: startedAt === undefined ? null : Date.parse(startedAt),
      cluster: name,
      location: node.location,
      disks: node.disks.map((d) => ({
        id: d.id,
        ...(d.path === undefined ? {} : { path: d.path }),
        ok: isWell(disks.get(`${node.id}/${d.id}`), d.state, 'Normal', ages),
      })),
      ...(node.tenant === undefined ? {} : { tenant: node.tenant }),
      ...(node.port === undefined ? {} : { port: node.port }),
      ...(version === undefined ? {} : { version }),
    };
  });
  const groups = spec.storageGroups.map(
    (group): GroupSpec => ({
      id: group.id,
      cluster: name,
      erasure: group.erasure,
      vdisks: group.vdisks.map((v) => ({
        node: key(v.node),
        disk: v.disk,
        realm: v.realm ?? 0,
        ok: isWell(vdiskOf(group.id, v.node, v.disk), v.state ?? 'Ok', 'Ok', ages),
      })),
    }),
  );
  return { nodes, groups, stateStorages: storagesOf(name, spec, key), limits: limitsOf(name, spec, key) };
}

type ToldNode = NonNullable<NonNullable<Status>['health']>['nodes'][number];

/** What counts as a node's state, and why it is unknown although somebody has told it once. */
function stateOf(
  node: NodeDocument,
  news: ToldNode | undefined,
  ages: Ageing,
  { healthMaxAge }: Spec,
): { readonly state: 'Up' | 'Down' | 'Unknown'; readonly note?: string } {
  const old = (told: string): { readonly state: 'Unknown'; readonly note: string } => ({
    state: 'Unknown',
    note: `${told}, and healthMaxAge is ${healthMaxAge}`,
  });
  if (news?.state !== undefined)
    return ages.isOld(news.observedAt)
      ? old(`it was last reported ${news.state} at ${ages.text(news.observedAt)}`)
      : { state: news.state };
  if (node.state !== undefined && ages.documentIsOld)
    return old('health is pushed, and no push has told its state');
  return { state: node.state ?? 'Unknown' };
}

/** A disk that nobody has pushed is as the document says; one that was, until that is too old. */
function isWell<S extends string>(
  news: { readonly state: S; readonly observedAt?: string | undefined } | undefined,
  written: S,
  well: S,
  ages: Ageing,
): boolean {
  if (news === undefined) return written === well;
  return news.state === well && !ages.isOld(news.observedAt);
}

/** Each pile of a bridged cluster has rings and limits of its own. */
function piles(nodes: readonly NodeDocument[]): readonly (readonly [string, readonly NodeDocument[]])[] {
  const by = new Map<string, NodeDocument[]>();
  for (const node of nodes) {
    const pile = by.get(node.pile ?? '');
    if (pile === undefined) by.set(node.pile ?? '', [node]);
    else pile.push(node);
  }
  return [...by];
}

function storagesOf(name: string, spec: Spec, key: (id: number) => string): readonly StateStorageSpec[] {
  const { stateStorage } = spec;
  if (stateStorage === undefined) return [];
  const pileOf = new Map(spec.nodes.map((node) => [node.id, node.pile ?? '']));
  return piles(spec.nodes).flatMap(([pile]) => {
    const mine = stateStorage.rings
      .map((ring, r) => ({ ring, r }))
      .filter(({ ring }) => (pileOf.get(ring[0] ?? 0) ?? '') === pile);
    if (mine.length === 0) return [];
    return [
      {
        cluster: name,
        nToSelect: stateStorage.nToSelect,
        rings: mine.map(({ ring }) => ring.map(key)),
        disabled: mine.flatMap(({ r }, i) => (stateStorage.disabledRings.includes(r) ? [i] : [])),
      },
    ];
  });
}

function limitsOf(name: string, spec: Spec, key: (id: number) => string): readonly LimitSetSpec[] {
  const limit = (
    kind: LimitSetSpec['kind'],
    of: string,
    nodes: readonly number[],
    numbers: { readonly nodes: number; readonly percent: number },
  ): LimitSetSpec => ({
    kind,
    name: of,
    nodes: nodes.map(key),
    nodesLimit: numbers.nodes,
    percentLimit: numbers.percent,
  });
  const { cluster, tenant } = spec.limits;
  const tenants = [...new Set(spec.nodes.flatMap((node) => node.tenant ?? []))];
  const none = { nodes: 0, percent: 0 };
  const idsOf = (nodes: readonly NodeDocument[]): readonly number[] => nodes.map((node) => node.id);
  return [
    ...piles(spec.nodes).map(([pile, nodes]) =>
      limit('cluster', pile === '' ? name : `${name} pile ${pile}`, idsOf(nodes), cluster),
    ),
    ...tenants.map((t) => limit('tenant', t, idsOf(spec.nodes.filter((node) => node.tenant === t)), tenant)),
    ...(spec.systemTabletNodes.length === 0 ? [] : [limit('tablets', name, spec.systemTabletNodes, none)]),
  ];
}

/** Several parts as one fleet: a host that appears in two of them is one host (C6.3). */
export function joinFleets(parts: readonly FleetSpec[]): FleetSpec {
  return {
    nodes: parts.flatMap((p) => p.nodes),
    groups: parts.flatMap((p) => p.groups ?? []),
    stateStorages: parts.flatMap((p) => p.stateStorages ?? []),
    limits: parts.flatMap((p) => p.limits ?? []),
    replicaSets: parts.flatMap((p) => p.replicaSets ?? []),
    hosts: parts.flatMap((p) => p.hosts ?? []),
  };
}
