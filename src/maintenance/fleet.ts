/**
 * A fleet with counters: every verdict costs what the action touches, not what the fleet holds (C5.4). Storage groups, rings,
 * limits and replica sets each count their unavailable parts; a lock or a change of state moves the counters of what it
 * touches and nothing else. Locks are counted references, so that taking one back needs no memory of what was there.
 */
import type { Millis } from '../base/units.ts';
import type {
  Erasure,
  FleetSpec,
  LimitSetSpec,
  NodeSpec,
  NodeState,
  ReplicaSetSpec,
  SetMemberSpec,
} from './fleetSpec.ts';
import type { Permission } from './types.ts';

/** Why a component counts as locked. `pass`: temporarily, by an action granted a moment ago in the same check (C5.2). */
export type LockRef =
  | {
      readonly kind: 'held';
      readonly priority: number;
      readonly permission: Permission;
      readonly task: string;
    }
  | {
      readonly kind: 'queued';
      readonly priority: number;
      readonly task: string;
      readonly owner: string;
    }
  | { readonly kind: 'announced'; readonly priority: number; readonly owner: string; readonly until: Millis }
  | { readonly kind: 'pass'; readonly priority: number; readonly pass: number };

/**
 * What can be locked. `device`: a disk of the node is, which fills the node's place in the limits and nothing more; `aside`: the
 * node is drained or cordoned, which does the same and lets it be locked.
 */
export interface Item {
  readonly kind: 'node' | 'device' | 'aside' | 'disk' | 'vdisk';
  readonly index: number;
}

export const VDISK = { ok: 0, down: 1, locked: 2 } as const;
const STATE: Readonly<Record<NodeState, number>> = { up: 0, down: 1, unknown: 2 };
const STATES: readonly NodeState[] = ['up', 'down', 'unknown'];

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

/** What a fleet's verdicts are made from. Owned by one thread; nothing in it is durable. */
export class Fleet {
  readonly nodes: readonly NodeSpec[];
  readonly limitSets: readonly LimitSet[];
  readonly storages: readonly StateStorage[];
  readonly sets: readonly ReplicaSet[];
  readonly groupIds: readonly number[];
  readonly erasures: readonly Erasure[];
  /** Whether a node carries several disks of the group: then disks of one node go together. */
  readonly groupShared: Uint8Array;
  readonly groupLocked: Int32Array;
  readonly groupDown: Int32Array;
  readonly realmOut: Int32Array;
  readonly realms: number;
  readonly vdiskGroup: Int32Array;
  readonly vdiskDisk: Int32Array;
  readonly vdiskNode: Int32Array;
  readonly vdiskRealm: Int32Array;
  readonly vdiskStatus: Uint8Array;
  readonly diskNode: Int32Array;
  readonly diskStart: Int32Array;
  readonly vdiskStart: Int32Array;
  readonly groupStart: Int32Array;
  readonly groupMembers: Int32Array;
  readonly #state: Uint8Array;
  readonly #started: Float64Array;
  readonly #diskOk: Uint8Array;
  readonly #vdiskOk: Uint8Array;
  readonly #nodeRefs: (LockRef[] | undefined)[];
  readonly #deviceRefs = new Map<number, LockRef[]>();
  readonly #asideRefs = new Map<number, LockRef[]>();
  readonly #diskRefs = new Map<number, LockRef[]>();
  readonly #vdiskRefs = new Map<number, LockRef[]>();
  /** 0 available, 1 down, 2 locked, 3 unknown: as limits count it. */
  readonly #class: Uint8Array;
  readonly #nodeSets: readonly (readonly number[])[];
  readonly #nodeRing: readonly (readonly [storage: number, ring: number] | undefined)[];
  readonly #nodeSet: Int32Array;
  readonly #member: readonly (SetMemberSpec | undefined)[];
  readonly #byKey = new Map<string, number>();
  readonly #byHost = new Map<string, number[]>();
  readonly #byGroup = new Map<number, number>();
  readonly #diskByPath = new Map<string, number>();

  constructor(spec: FleetSpec) {
    this.nodes = withPlaceholders(spec);
    for (const host of spec.hosts ?? []) this.#byHost.set(host, []);
    this.nodes.forEach((node, n) => {
      this.#byKey.set(node.key, n);
      if (node.host === '') return;
      const there = this.#byHost.get(node.host);
      if (there === undefined) this.#byHost.set(node.host, [n]);
      else there.push(n);
    });
    const count = this.nodes.length;
    this.#state = Uint8Array.from(this.nodes, (n) => STATE[n.state]);
    this.#started = Float64Array.from(this.nodes, (n) => n.startedAt ?? Number.NEGATIVE_INFINITY);
    this.#nodeRefs = new Array(count);
    this.#class = new Uint8Array(count);

    const disks = this.nodes.reduce((sum, n) => sum + n.disks.length, 0);
    this.diskStart = new Int32Array(count + 1);
    this.diskNode = new Int32Array(disks);
    this.#diskOk = new Uint8Array(disks);
    const diskAt = new Map<string, number>();
    let d = 0;
    this.nodes.forEach((node, n) => {
      this.diskStart[n] = d;
      for (const disk of node.disks) {
        this.diskNode[d] = n;
        this.#diskOk[d] = disk.ok ? 1 : 0;
        diskAt.set(`${n}/${disk.id}`, d);
        if (disk.path !== undefined) this.#diskByPath.set(`${node.host}\n${disk.path}`, d);
        d++;
      }
    });
    this.diskStart[count] = d;

    const groups = spec.groups ?? [];
    const rows = groups.flatMap((group, g) =>
      group.vdisks.map((v) => {
        const n = this.#byKey.get(v.node) ?? 0;
        return { g, n, disk: diskAt.get(`${n}/${v.disk}`) ?? 0, realm: v.realm, ok: v.ok };
      }),
    );
    rows.sort((a, b) => a.disk - b.disk || a.g - b.g);
    this.vdiskGroup = Int32Array.from(rows, (r) => r.g);
    this.vdiskDisk = Int32Array.from(rows, (r) => r.disk);
    this.vdiskNode = Int32Array.from(rows, (r) => r.n);
    this.#vdiskOk = Uint8Array.from(rows, (r) => (r.ok ? 1 : 0));
    this.vdiskStatus = new Uint8Array(rows.length);
    this.vdiskStart = startsOf(this.vdiskDisk, disks);
    this.groupIds = groups.map((g) => g.id);
    for (const [i, g] of groups.entries()) this.#byGroup.set(g.id, i);
    this.erasures = groups.map((g) => g.erasure);
    const realms = realmNumbers(rows, groups.length);
    this.realms = realms.count;
    this.vdiskRealm = realms.of;
    this.groupLocked = new Int32Array(groups.length);
    this.groupDown = new Int32Array(groups.length);
    this.realmOut = new Int32Array(groups.length * this.realms);
    const byGroup = Int32Array.from(rows.keys()).sort(
      (a, b) => (this.vdiskGroup[a] as number) - (this.vdiskGroup[b] as number),
    );
    this.groupMembers = byGroup;
    this.groupStart = startsOf(
      Int32Array.from(byGroup, (v) => this.vdiskGroup[v] as number),
      groups.length,
    );
    this.groupShared = this.#sharedGroups(groups.length);

    const index = (key: string): number => this.#byKey.get(key) ?? 0;
    this.limitSets = (spec.limits ?? []).map((limit) => ({
      spec: limit,
      total: limit.nodes.length,
      locked: 0,
      down: 0,
      unknown: 0,
      out: new Set<number>(),
    }));
    const nodeSets: number[][] = Array.from({ length: count }, () => []);
    (spec.limits ?? []).forEach((limit, i) => {
      for (const key of limit.nodes) nodeSets[index(key)]?.push(i);
    });
    this.#nodeSets = nodeSets;

    const nodeRing: (readonly [number, number] | undefined)[] = new Array(count);
    this.storages = (spec.stateStorages ?? []).map((storage, s) => ({
      nToSelect: storage.nToSelect,
      rings: storage.rings.map((keys, r): Ring => {
        const nodes = keys.map(index);
        for (const n of nodes) nodeRing[n] = [s, r];
        return {
          nodes,
          disabled: storage.disabled.includes(r),
          bad: 0,
          lastStart: Math.max(...nodes.map((n) => this.#started[n] as number), Number.NEGATIVE_INFINITY),
        };
      }),
    }));
    this.#nodeRing = nodeRing;

    const sets = spec.replicaSets ?? [];
    const setAt = new Map(sets.map((set, i) => [set.key, i]));
    const shardsOf = new Map<string, string[]>();
    for (const set of sets) {
      if (set.configSet === undefined) continue;
      const shards = shardsOf.get(set.configSet);
      if (shards === undefined) shardsOf.set(set.configSet, [set.key]);
      else shards.push(set.key);
    }
    this.#nodeSet = new Int32Array(count).fill(-1);
    const member: (SetMemberSpec | undefined)[] = new Array(count);
    this.sets = sets.map((set, s) => {
      for (const m of set.members) {
        this.#nodeSet[index(m.node)] = s;
        member[index(m.node)] = m;
      }
      const config = set.configSet === undefined ? -1 : (setAt.get(set.configSet) ?? -1);
      return emptySet(
        set,
        set.members.map((m) => index(m.node)),
        config,
        shardsOf.get(set.key) ?? [],
      );
    });
    this.#member = member;

    for (let v = 0; v < rows.length; v++) this.#countVdisk(v, VDISK.ok, this.#vdiskNow(v));
    for (let n = 0; n < count; n++) this.#start(n);
  }

  #sharedGroups(groups: number): Uint8Array {
    const shared = new Uint8Array(groups);
    for (let g = 0; g < groups; g++) {
      const seen = new Set<number>();
      for (let i = this.groupStart[g] as number; i < (this.groupStart[g + 1] as number); i++) {
        const n = this.vdiskNode[this.groupMembers[i] as number] as number;
        if (seen.has(n)) shared[g] = 1;
        seen.add(n);
      }
    }
    return shared;
  }

  // ── looking up ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Index of a node by its key; undefined: there is none. */
  node(key: string): number | undefined {
    return this.#byKey.get(key);
  }
  /** Nodes of a host; undefined: there is no such host. */
  host(name: string): readonly number[] | undefined {
    return this.#byHost.get(name);
  }
  hosts(): Iterable<string> {
    return this.#byHost.keys();
  }
  group(id: number): number | undefined {
    return this.#byGroup.get(id);
  }
  disk(n: number, id: number): number | undefined {
    const at = this.nodes[n]?.disks.findIndex((disk) => disk.id === id) ?? -1;
    return at < 0 ? undefined : (this.diskStart[n] as number) + at;
  }
  diskAtPath(host: string, path: string): number | undefined {
    return this.#diskByPath.get(`${host}\n${path}`);
  }
  state(n: number): NodeState {
    return STATES[this.#state[n] as number] as NodeState;
  }
  startedAt(n: number): Millis {
    return this.#started[n] as number;
  }
  limitSetsOf(n: number): readonly number[] {
    return this.#nodeSets[n] ?? [];
  }
  ringOf(n: number): readonly [storage: number, ring: number] | undefined {
    return this.#nodeRing[n];
  }
  setOf(n: number): ReplicaSet | undefined {
    return this.sets[this.#nodeSet[n] as number];
  }
  memberOf(n: number): SetMemberSpec | undefined {
    return this.#member[n];
  }
  /** Virtual disks of a node lie in a row. */
  vdisksOf(n: number): readonly [from: number, to: number] {
    return [
      this.vdiskStart[this.diskStart[n] as number] as number,
      this.vdiskStart[this.diskStart[n + 1] as number] as number,
    ];
  }
  vdisksOfDisk(d: number): readonly [from: number, to: number] {
    return [this.vdiskStart[d] as number, this.vdiskStart[d + 1] as number];
  }
  diskOk(d: number): boolean {
    return this.#diskOk[d] === 1;
  }
  vdiskOk(v: number): boolean {
    return this.#vdiskOk[v] === 1;
  }
  /** Members of a group, by index of the group. */
  membersOf(g: number): Int32Array {
    return this.groupMembers.subarray(this.groupStart[g] as number, this.groupStart[g + 1] as number);
  }

  // ── locks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Locks on one component, in the order they were taken. */
  refs(item: Item): readonly LockRef[] {
    switch (item.kind) {
      case 'node':
        return this.#nodeRefs[item.index] ?? NONE;
      case 'device':
        return this.#deviceRefs.get(item.index) ?? NONE;
      case 'aside':
        return this.#asideRefs.get(item.index) ?? NONE;
      case 'disk':
        return this.#diskRefs.get(item.index) ?? NONE;
      case 'vdisk':
        return this.#vdiskRefs.get(item.index) ?? NONE;
    }
  }

  lock(item: Item, ref: LockRef): void {
    const refs = this.#refsFor(item);
    refs.push(ref);
    if (refs.length === 1) this.#moved(item);
  }

  unlock(item: Item, ref: LockRef): void {
    const refs = this.#refsFor(item);
    const at = refs.lastIndexOf(ref);
    if (at < 0) return;
    refs.splice(at, 1);
    if (refs.length > 0) return;
    if (item.kind !== 'node') this.#mapOf(item.kind).delete(item.index);
    this.#moved(item);
  }

  #refsFor(item: Item): LockRef[] {
    if (item.kind === 'node') {
      const known = this.#nodeRefs[item.index];
      if (known !== undefined) return known;
      const made: LockRef[] = [];
      this.#nodeRefs[item.index] = made;
      return made;
    }
    const map = this.#mapOf(item.kind);
    const known = map.get(item.index);
    if (known !== undefined) return known;
    const made: LockRef[] = [];
    map.set(item.index, made);
    return made;
  }

  #mapOf(kind: 'device' | 'aside' | 'disk' | 'vdisk'): Map<number, LockRef[]> {
    if (kind === 'aside') return this.#asideRefs;
    if (kind === 'device') return this.#deviceRefs;
    return kind === 'disk' ? this.#diskRefs : this.#vdiskRefs;
  }

  /** Whether the node itself is locked (not merely one of its disks). */
  nodeLocked(n: number): boolean {
    return (this.#nodeRefs[n]?.length ?? 0) > 0;
  }
  /** Whether the node fills a place in the limits by a lock of its own or of one of its disks. */
  nodeOccupied(n: number): boolean {
    return this.#class[n] === CLASS.locked;
  }
  diskLocked(d: number): boolean {
    return this.#diskRefs.has(d);
  }
  vdiskLocked(v: number): boolean {
    return this.#vdiskRefs.has(v);
  }

  /** The first lock came or the last one went. */
  #moved(item: Item): void {
    switch (item.kind) {
      case 'node':
        this.#nodeMoved(item.index);
        return;
      case 'device':
      case 'aside':
        this.#classify(item.index);
        return;
      case 'disk': {
        const [from, to] = this.vdisksOfDisk(item.index);
        for (let v = from; v < to; v++) this.#refreshVdisk(v);
        return;
      }
      case 'vdisk':
        this.#refreshVdisk(item.index);
    }
  }

  // ── what is observed ───────────────────────────────────────────────────────────────────────────────────────────────

  setNode(n: number, state: NodeState, startedAt?: Millis | null): void {
    const was = this.#badReplica(n);
    const wasUp = this.#availableMember(n);
    this.#state[n] = STATE[state];
    if (startedAt !== undefined && startedAt !== null) this.#started[n] = startedAt;
    this.#after(n, was, wasUp);
    const ring = this.#ring(n);
    if (ring !== undefined) ring.lastStart = Math.max(...ring.nodes.map((m) => this.#started[m] as number));
  }

  setDisk(d: number, ok: boolean): void {
    this.#diskOk[d] = ok ? 1 : 0;
    const [from, to] = this.vdisksOfDisk(d);
    for (let v = from; v < to; v++) this.#refreshVdisk(v);
  }

  setVdisk(v: number, ok: boolean): void {
    this.#vdiskOk[v] = ok ? 1 : 0;
    this.#refreshVdisk(v);
  }

  // ── counters ───────────────────────────────────────────────────────────────────────────────────────────────────────

  #nodeMoved(n: number): void {
    const locked = this.nodeLocked(n);
    const down = this.#state[n] !== STATE.up;
    // Locked and down move together with the first lock: what it was before is the other value of `locked`.
    this.#after(n, down || !locked, !down && locked);
  }

  #after(n: number, wasBad: boolean, wasAvailable: boolean): void {
    this.#classify(n);
    const [from, to] = this.vdisksOf(n);
    for (let v = from; v < to; v++) this.#refreshVdisk(v);
    const ring = this.#ring(n);
    const bad = this.#badReplica(n);
    if (ring !== undefined && bad !== wasBad) ring.bad += bad ? 1 : -1;
    const available = this.#availableMember(n);
    if (available !== wasAvailable) this.#countMember(n, available ? 1 : -1);
  }

  #start(n: number): void {
    this.#classify(n);
    const ring = this.#ring(n);
    if (ring !== undefined && this.#badReplica(n)) ring.bad++;
    if (this.#availableMember(n)) this.#countMember(n, 1);
  }

  #ring(n: number): Ring | undefined {
    const at = this.#nodeRing[n];
    return at === undefined ? undefined : this.storages[at[0]]?.rings[at[1]];
  }
  #badReplica(n: number): boolean {
    return this.#state[n] !== STATE.up || this.nodeLocked(n);
  }
  #availableMember(n: number): boolean {
    return this.#state[n] === STATE.up && !this.nodeLocked(n);
  }

  #countMember(n: number, by: number): void {
    const set = this.sets[this.#nodeSet[n] as number];
    const member = this.#member[n];
    if (set === undefined || member === undefined) return;
    if (member.votes === 1) set.upVoters += by;
    if (member.votes === 1 && member.data) set.upDataVoters += by;
    if (member.data && member.delayed !== true) set.upAcknowledging += by;
    if (member.data) set.upCopies += by;
    if (isElectable(member)) set.electable += by;
  }

  #classify(n: number): void {
    const locked = this.nodeLocked(n) || this.#deviceRefs.has(n) || this.#asideRefs.has(n);
    const now = locked ? CLASS.locked : (CLASS_OF_STATE[this.#state[n] as number] as number);
    const was = this.#class[n] as number;
    if (now === was) return;
    this.#class[n] = now;
    for (const s of this.#nodeSets[n] ?? []) {
      const set = this.limitSets[s] as LimitSet;
      if (was === CLASS.locked) set.locked--;
      if (was === CLASS.down) set.down--;
      if (was === CLASS.unknown) set.unknown--;
      if (now === CLASS.locked) set.locked++;
      if (now === CLASS.down) set.down++;
      if (now === CLASS.unknown) set.unknown++;
      if (now !== CLASS.available) set.out.add(n);
      else set.out.delete(n);
    }
  }

  #vdiskNow(v: number): number {
    const n = this.vdiskNode[v] as number;
    const d = this.vdiskDisk[v] as number;
    if (this.nodeLocked(n) || this.#diskRefs.has(d) || this.#vdiskRefs.has(v)) return VDISK.locked;
    const ok = this.#state[n] === STATE.up && this.#diskOk[d] === 1 && this.#vdiskOk[v] === 1;
    return ok ? VDISK.ok : VDISK.down;
  }

  #refreshVdisk(v: number): void {
    const was = this.vdiskStatus[v] as number;
    const now = this.#vdiskNow(v);
    if (was !== now) this.#countVdisk(v, was, now);
  }

  #countVdisk(v: number, was: number, now: number): void {
    this.vdiskStatus[v] = now;
    const g = this.vdiskGroup[v] as number;
    const realm = g * this.realms + (this.vdiskRealm[v] as number);
    const { groupLocked: locked, groupDown: down, realmOut } = this;
    if (was === VDISK.locked) locked[g] = (locked[g] as number) - 1;
    if (was === VDISK.down) down[g] = (down[g] as number) - 1;
    if (now === VDISK.locked) locked[g] = (locked[g] as number) + 1;
    if (now === VDISK.down) down[g] = (down[g] as number) + 1;
    if (was === VDISK.ok && now !== VDISK.ok) realmOut[realm] = (realmOut[realm] as number) + 1;
    if (was !== VDISK.ok && now === VDISK.ok) realmOut[realm] = (realmOut[realm] as number) - 1;
  }
}

const NONE: readonly LockRef[] = [];
const CLASS = { available: 0, down: 1, locked: 2, unknown: 3 } as const;
const CLASS_OF_STATE = [CLASS.available, CLASS.down, CLASS.unknown];

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
