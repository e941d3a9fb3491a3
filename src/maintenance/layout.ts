/** How a fleet lies in memory: numbers for everything, and rows of what belongs together. Made once for each topology. */
import type { Millis } from '../base/units.ts';
import type {
  FleetSpec,
  GroupSpec,
  LimitSetSpec,
  NodeSpec,
  ReplicaSetSpec,
  SetMemberSpec,
} from './fleetSpec.ts';

export interface LimitSet {
  readonly spec: LimitSetSpec;
  readonly total: number;
  locked: number;
  down: number;
  /** Nodes nobody has reported. They count as down (C5.3); the original leaves them out. */
  unknown: number;
  /** Nodes that are not available, for sentences. */
  readonly out: Set<number>;
}

export interface Ring {
  readonly nodes: readonly number[];
  readonly disabled: boolean;
  /** Replicas that are down or locked. */
  bad: number;
  /** Latest start of a replica; it settles for a while after it. */
  lastStart: Millis;
}
export interface StateStorage {
  readonly cluster: string | undefined;
  readonly nToSelect: number;
  readonly rings: readonly Ring[];
}

/** A replica set with what is available of it now: healthy and not locked. */
export interface ReplicaSet {
  readonly spec: ReplicaSetSpec;
  readonly nodes: readonly number[];
  readonly voters: number;
  readonly majority: number;
  readonly dataVoters: number;
  readonly dataMembers: number;
  readonly config: number;
  /** Names of the sets that depend on this one (config servers). */
  readonly shards: readonly string[];
  upVoters: number;
  upDataVoters: number;
  /** Copies that acknowledge writes in time. */
  upAcknowledging: number;
  /** Copies of the data. */
  upCopies: number;
  electable: number;
}

// ── nodes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface NodeLayout {
  readonly nodes: readonly NodeSpec[];
  readonly byKey: ReadonlyMap<string, number>;
  readonly byHost: ReadonlyMap<string, readonly number[]>;
}

export function layoutNodes(spec: FleetSpec): NodeLayout {
  const nodes = withPlaceholders(spec);
  const byKey = new Map<string, number>();
  const byHost = new Map<string, number[]>((spec.hosts ?? []).map((host) => [host, []]));
  nodes.forEach((node, n) => {
    byKey.set(node.key, n);
    if (node.host === '') return;
    const there = byHost.get(node.host);
    if (there === undefined) byHost.set(node.host, [n]);
    else there.push(n);
  });
  return { nodes, byKey, byHost };
}

// ── disks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface DiskLayout {
  /** First disk of each node; one more at the end. */
  readonly diskStart: Int32Array;
  readonly diskNode: Int32Array;
  readonly diskOk: Uint8Array;
  /** By `node index/disk number`. */
  readonly byId: ReadonlyMap<string, number>;
  /** By host and path, with a line break between. */
  readonly byPath: ReadonlyMap<string, number>;
}

export function layoutDisks(nodes: readonly NodeSpec[]): DiskLayout {
  const disks = nodes.reduce((sum, n) => sum + n.disks.length, 0);
  const diskStart = new Int32Array(nodes.length + 1);
  const diskNode = new Int32Array(disks);
  const diskOk = new Uint8Array(disks);
  const byId = new Map<string, number>();
  const byPath = new Map<string, number>();
  let d = 0;
  nodes.forEach((node, n) => {
    diskStart[n] = d;
    for (const disk of node.disks) {
      diskNode[d] = n;
      diskOk[d] = disk.ok ? 1 : 0;
      byId.set(`${n}/${disk.id}`, d);
      if (disk.path !== undefined) byPath.set(`${node.host}\n${disk.path}`, d);
      d++;
    }
  });
  diskStart[nodes.length] = d;
  return { diskStart, diskNode, diskOk, byId, byPath };
}

// ── virtual disks and their groups ─────────────────────────────────────────────────────────────────────────────────

export interface GroupLayout {
  readonly vdiskGroup: Int32Array;
  readonly vdiskDisk: Int32Array;
  readonly vdiskNode: Int32Array;
  readonly vdiskRealm: Int32Array;
  readonly vdiskOk: Uint8Array;
  /** First virtual disk of each disk; those of a node lie in a row. */
  readonly vdiskStart: Int32Array;
  readonly groupStart: Int32Array;
  readonly groupMembers: Int32Array;
  /** Whether a node carries several disks of the group: then disks of one node go together. */
  readonly groupShared: Uint8Array;
  /** Realms that a group has at most. */
  readonly realms: number;
}

export function layoutGroups(
  groups: readonly GroupSpec[],
  byKey: ReadonlyMap<string, number>,
  disks: DiskLayout,
): GroupLayout {
  const rows = groups.flatMap((group, g) =>
    group.vdisks.map((v) => {
      const n = byKey.get(v.node) ?? 0;
      return { g, n, disk: disks.byId.get(`${n}/${v.disk}`) ?? 0, realm: v.realm, ok: v.ok };
    }),
  );
  rows.sort((a, b) => a.disk - b.disk || a.g - b.g);
  const vdiskGroup = Int32Array.from(rows, (r) => r.g);
  const vdiskDisk = Int32Array.from(rows, (r) => r.disk);
  const vdiskNode = Int32Array.from(rows, (r) => r.n);
  const groupMembers = Int32Array.from(rows.keys()).sort(
    (a, b) => (vdiskGroup[a] as number) - (vdiskGroup[b] as number),
  );
  const groupStart = startsOf(
    Int32Array.from(groupMembers, (v) => vdiskGroup[v] as number),
    groups.length,
  );
  const realms = realmNumbers(rows, groups.length);
  return {
    vdiskGroup,
    vdiskDisk,
    vdiskNode,
    vdiskRealm: realms.of,
    vdiskOk: Uint8Array.from(rows, (r) => (r.ok ? 1 : 0)),
    vdiskStart: startsOf(vdiskDisk, disks.diskNode.length),
    groupStart,
    groupMembers,
    groupShared: sharedGroups(groups.length, groupStart, groupMembers, vdiskNode),
    realms: realms.count,
  };
}

function sharedGroups(
  groups: number,
  groupStart: Int32Array,
  groupMembers: Int32Array,
  vdiskNode: Int32Array,
): Uint8Array {
  const shared = new Uint8Array(groups);
  for (let g = 0; g < groups; g++) {
    const members = groupMembers.subarray(groupStart[g] as number, groupStart[g + 1] as number);
    const nodes = new Set(Array.from(members, (v) => vdiskNode[v] as number));
    if (nodes.size < members.length) shared[g] = 1;
  }
  return shared;
}

// ── limits, rings, replica sets ────────────────────────────────────────────────────────────────────────────────────

/** Limits, and by node which of them it belongs to. Nothing is counted yet. */
export function layoutLimits(
  limits: readonly LimitSetSpec[],
  { nodes, byKey }: NodeLayout,
): { readonly limitSets: readonly LimitSet[]; readonly ofNode: readonly (readonly number[])[] } {
  const ofNode: number[][] = Array.from({ length: nodes.length }, () => []);
  limits.forEach((limit, i) => {
    for (const key of limit.nodes) ofNode[byKey.get(key) ?? 0]?.push(i);
  });
  const limitSets = limits.map((spec) => ({
    spec,
    total: spec.nodes.length,
    locked: 0,
    down: 0,
    unknown: 0,
    out: new Set<number>(),
  }));
  return { limitSets, ofNode };
}

type RingPlace = readonly [storage: number, ring: number];

/** Rings, and by node the one it is a replica of. */
export function layoutRings(
  spec: FleetSpec,
  { nodes, byKey }: NodeLayout,
): { readonly storages: readonly StateStorage[]; readonly ofNode: readonly (RingPlace | undefined)[] } {
  const ofNode: (RingPlace | undefined)[] = new Array(nodes.length);
  const storages = (spec.stateStorages ?? []).map((storage, s) => ({
    cluster: storage.cluster,
    nToSelect: storage.nToSelect,
    rings: storage.rings.map((keys, r): Ring => {
      const members = keys.map((key) => byKey.get(key) ?? 0);
      for (const n of members) ofNode[n] = [s, r];
      const starts = members.map((n) => nodes[n]?.startedAt ?? Number.NEGATIVE_INFINITY);
      const lastStart = Math.max(...starts, Number.NEGATIVE_INFINITY);
      return { nodes: members, disabled: storage.disabled.includes(r), bad: 0, lastStart };
    }),
  }));
  return { storages, ofNode };
}

export interface SetLayout {
  readonly sets: readonly ReplicaSet[];
  /** By node; -1: it is in none. */
  readonly ofNode: Int32Array;
  readonly member: readonly (SetMemberSpec | undefined)[];
}

export function layoutSets(sets: readonly ReplicaSetSpec[], { nodes, byKey }: NodeLayout): SetLayout {
  const at = new Map(sets.map((set, i) => [set.key, i]));
  const shardsOf = new Map<string, string[]>();
  for (const set of sets) {
    if (set.configSet === undefined) continue;
    const shards = shardsOf.get(set.configSet);
    if (shards === undefined) shardsOf.set(set.configSet, [set.key]);
    else shards.push(set.key);
  }
  const ofNode = new Int32Array(nodes.length).fill(-1);
  const member: (SetMemberSpec | undefined)[] = new Array(nodes.length);
  const made = sets.map((set, s) => {
    const members = set.members.map((m) => byKey.get(m.node) ?? 0);
    set.members.forEach((m, i) => {
      ofNode[members[i] as number] = s;
      member[members[i] as number] = m;
    });
    const config = set.configSet === undefined ? -1 : (at.get(set.configSet) ?? -1);
    return emptySet(set, members, config, shardsOf.get(set.key) ?? []);
  });
  return { sets: made, ofNode, member };
}

/** Whether a member can become primary. */
export const isElectable = (member: SetMemberSpec): boolean =>
  member.data && member.votes === 1 && member.priority > 0;

function emptySet(
  spec: ReplicaSetSpec,
  nodes: readonly number[],
  config: number,
  shards: readonly string[],
): ReplicaSet {
  const voters = spec.members.filter((m) => m.votes === 1);
  return {
    spec,
    nodes,
    config,
    shards,
    voters: voters.length,
    majority: Math.floor(voters.length / 2) + 1,
    dataVoters: voters.filter((m) => m.data).length,
    dataMembers: spec.members.filter((m) => m.data).length,
    upVoters: 0,
    upDataVoters: 0,
    upAcknowledging: 0,
    upCopies: 0,
    electable: 0,
  };
}

/** Names without a node or a disk behind them become unavailable ones: what is not there cannot be relied on (MNT-14). */
function withPlaceholders(spec: FleetSpec): readonly NodeSpec[] {
  const disks = new Map<string, Set<number>>(
    spec.nodes.map((n) => [n.key, new Set(n.disks.map((d) => d.id))]),
  );
  const missing = new Map<string, Set<number>>();
  const need = (key: string, disk?: number): void => {
    if (disk === undefined ? disks.has(key) : disks.get(key)?.has(disk) === true) return;
    const wanted = missing.get(key) ?? new Set();
    if (disk !== undefined) wanted.add(disk);
    missing.set(key, wanted);
  };
  for (const group of spec.groups ?? []) for (const v of group.vdisks) need(v.node, v.disk);
  for (const storage of spec.stateStorages ?? [])
    for (const ring of storage.rings) for (const key of ring) need(key);
  for (const limit of spec.limits ?? []) for (const key of limit.nodes) need(key);
  for (const set of spec.replicaSets ?? []) for (const member of set.members) need(member.node);
  if (missing.size === 0) return spec.nodes;
  const extra = (key: string): NodeSpec['disks'] =>
    [...(missing.get(key) ?? [])].map((id) => ({ id, ok: false }));
  const known = spec.nodes.map((n) =>
    missing.has(n.key) ? { ...n, disks: [...n.disks, ...extra(n.key)] } : n,
  );
  const ghosts = [...missing.keys()]
    .filter((key) => !disks.has(key))
    .map(
      (key): NodeSpec => ({
        key,
        name: `${key} (not in the topology)`,
        host: '',
        kind: 'storage',
        state: 'unknown',
        startedAt: null,
        cluster: '',
        disks: extra(key),
      }),
    );
  return [...known, ...ghosts];
}

/** Start of each bucket in a sorted list of bucket numbers; one more at the end. */
function startsOf(sorted: Int32Array, buckets: number): Int32Array {
  const starts = new Int32Array(buckets + 1);
  for (const b of sorted) starts[b + 1] = (starts[b + 1] as number) + 1;
  for (let b = 0; b < buckets; b++) starts[b + 1] = (starts[b + 1] as number) + (starts[b] as number);
  return starts;
}

/** Realms of each group numbered from 0, however they are numbered in the document. */
function realmNumbers(
  rows: readonly { readonly g: number; readonly realm: number }[],
  groups: number,
): { readonly count: number; readonly of: Int32Array } {
  const known: Map<number, number>[] = Array.from({ length: groups }, () => new Map());
  let count = 1;
  const of = Int32Array.from(rows, ({ g, realm }) => {
    const group = known[g] as Map<number, number>;
    const number = group.get(realm) ?? group.size;
    group.set(realm, number);
    count = Math.max(count, group.size);
    return number;
  });
  return { count, of };
}
