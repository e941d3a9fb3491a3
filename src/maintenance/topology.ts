/** What a Topology document and pushed health say, as a part of the fleet. */
import type { Millis } from '../base/units.ts';
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

/** Until when pushed health is believed; null: for ever, or nothing was pushed. */
export function healthUntil(spec: Spec, status: Status | null): Millis | null {
  const observedAt = status?.health?.observedAt;
  const age = parseDuration(spec.healthMaxAge);
  if (observedAt === undefined || !age.ok || age.value === 0) return null;
  return Date.parse(observedAt) + age.value;
}

/** The part of the fleet that one Topology describes. Health that is too old is unknown, and unknown counts as down (C5.3). */
export function topologyFleet(name: string, spec: Spec, status: Status | null, now: Millis): FleetSpec {
  const until = healthUntil(spec, status);
  const stale = until !== null && until <= now;
  const told = new Map(status?.health?.nodes.map((n) => [n.id, n]));
  const disks = new Map(status?.health?.disks.map((d) => [`${d.node}/${d.disk}`, d.state]));
  const vdisks = new Map(status?.health?.vdisks.map((v) => [`${v.group}/${v.node}`, v.state]));
  const key = (id: number): string => nodeKeyOf(String(id), name);
  const nodes = spec.nodes.map((node): NodeSpec => {
    const news = told.get(node.id);
    const state = stale ? 'Unknown' : (news?.state ?? node.state ?? 'Unknown');
    const startedAt = news?.startedAt ?? node.startedAt;
    const version = news?.version ?? node.version;
    return {
      key: key(node.id),
      name: `node ${node.id} of ${name}`,
      id: node.id,
      host: node.host,
      kind: node.tenant === undefined ? 'storage' : 'dynamic',
      state: STATES[state],
      startedAt: startedAt === undefined ? null : Date.parse(startedAt),
      cluster: name,
      location: node.location,
      disks: node.disks.map((d) => ({
        id: d.id,
        ...(d.path === undefined ? {} : { path: d.path }),
        ok: (disks.get(`${node.id}/${d.id}`) ?? d.state) === 'Normal',
      })),
      ...(node.tenant === undefined ? {} : { tenant: node.tenant }),
      ...(node.port === undefined ? {} : { port: node.port }),
      ...(version === undefined ? {} : { version }),
    };
  });
  const groups = spec.storageGroups.map(
    (group): GroupSpec => ({
      id: group.id,
      erasure: group.erasure,
      vdisks: group.vdisks.map((v) => ({
        node: key(v.node),
        disk: v.disk,
        realm: v.realm ?? 0,
        ok: (vdisks.get(`${group.id}/${v.node}`) ?? v.state ?? 'Ok') === 'Ok',
      })),
    }),
  );
  return { nodes, groups, stateStorages: storagesOf(spec, key), limits: limitsOf(name, spec, key) };
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

function storagesOf(spec: Spec, key: (id: number) => string): readonly StateStorageSpec[] {
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
