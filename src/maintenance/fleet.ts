/**
 * A fleet with counters: every verdict costs what the action touches, not what the fleet holds (C5.4). Storage groups, rings,
 * limits and replica sets each count their unavailable parts; a lock or a change of state moves the counters of what it
 * touches and nothing else. Locks are counted references, so that taking one back needs no memory of what was there.
 */
import type { Millis } from '../base/units.ts';
import type { Erasure, FleetSpec, NodeSpec, NodeState, SetMemberSpec } from './fleetSpec.ts';
import {
  isElectable,
  type LimitSet,
  layoutDisks,
  layoutGroups,
  layoutLimits,
  layoutNodes,
  layoutRings,
  layoutSets,
  type ReplicaSet,
  type Ring,
  type StateStorage,
} from './layout.ts';
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
      /** When it will have had it, by all deadlines that are known; null: nobody knows. */
      readonly until: Millis | null;
    }
  | {
      readonly kind: 'announced';
      readonly priority: number;
      readonly owner: string;
      readonly until: Millis;
      /** Task that has just given it back. */
      readonly after?: string;
    }
  | { readonly kind: 'pass'; readonly priority: number; readonly pass: number };

/**
 * What can be locked. `device`: a disk of the node is, which fills the node's place in the limits and nothing more; `aside`: the
 * node is drained or cordoned, which does the same and lets it be locked; `host`: a host without nodes, by `hostAt`.
 */
export interface Item {
  readonly kind: 'node' | 'device' | 'aside' | 'disk' | 'vdisk' | 'host';
  readonly index: number;
}

export const VDISK = { ok: 0, down: 1, locked: 2 } as const;
const STATE: Readonly<Record<NodeState, number>> = { up: 0, down: 1, unknown: 2 };
const STATES: readonly NodeState[] = ['up', 'down', 'unknown'];

/** What a fleet's verdicts are made from. Owned by one thread; nothing in it is durable. */
export class Fleet {
  readonly nodes: readonly NodeSpec[];
  readonly limitSets: readonly LimitSet[];
  readonly storages: readonly StateStorage[];
  readonly sets: readonly ReplicaSet[];
  readonly groupIds: readonly number[];
  /** For sentences: `1 of ydb`. */
  readonly groupNames: readonly string[];
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
  readonly #told: NodeSpec[];
  readonly #state: Uint8Array;
  readonly #started: Float64Array;
  readonly #diskOk: Uint8Array;
  readonly #vdiskOk: Uint8Array;
  readonly #nodeRefs: (LockRef[] | undefined)[];
  readonly #deviceRefs = new Map<number, LockRef[]>();
  readonly #asideRefs = new Map<number, LockRef[]>();
  readonly #diskRefs = new Map<number, LockRef[]>();
  readonly #vdiskRefs = new Map<number, LockRef[]>();
  readonly #hostRefs = new Map<number, LockRef[]>();
  /** 0 available, 1 down, 2 locked, 3 unknown: as limits count it. */
  readonly #class: Uint8Array;
  readonly #nodeSets: readonly (readonly number[])[];
  readonly #nodeRing: readonly (readonly [storage: number, ring: number] | undefined)[];
  readonly #nodeSet: Int32Array;
  readonly #member: readonly (SetMemberSpec | undefined)[];
  readonly #byKey: ReadonlyMap<string, number>;
  readonly #byHost: ReadonlyMap<string, readonly number[]>;
  readonly #hostNames: readonly string[];
  readonly #hostNumbers: ReadonlyMap<string, number>;
  readonly #diskById: ReadonlyMap<string, number>;
  readonly #diskByPath: ReadonlyMap<string, number>;

  readonly #spec: FleetSpec;

  constructor(spec: FleetSpec) {
    this.#spec = spec;
    const places = layoutNodes(spec);
    const disks = layoutDisks(places.nodes);
    const groups = spec.groups ?? [];
    const laid = layoutGroups(groups, places.byKey, disks);
    this.nodes = places.nodes;
    this.#byKey = places.byKey;
    this.#byHost = places.byHost;
    this.#hostNames = [...places.byHost.keys()];
    this.#hostNumbers = new Map(this.#hostNames.map((host, h) => [host, h]));
    this.diskStart = disks.diskStart;
    this.diskNode = disks.diskNode;
    this.#diskOk = disks.diskOk;
    this.#diskById = disks.byId;
    this.#diskByPath = disks.byPath;
    this.vdiskGroup = laid.vdiskGroup;
    this.vdiskDisk = laid.vdiskDisk;
    this.vdiskNode = laid.vdiskNode;
    this.vdiskRealm = laid.vdiskRealm;
    this.#vdiskOk = laid.vdiskOk;
    this.vdiskStart = laid.vdiskStart;
    this.groupStart = laid.groupStart;
    this.groupMembers = laid.groupMembers;
    this.groupShared = laid.groupShared;
    this.realms = laid.realms;
    this.groupIds = groups.map((g) => g.id);
    this.groupNames = groups.map((g) => (g.cluster === undefined ? `${g.id}` : `${g.id} of ${g.cluster}`));
    this.erasures = groups.map((g) => g.erasure);
    const limits = layoutLimits(spec.limits ?? [], places);
    this.limitSets = limits.limitSets;
    this.#nodeSets = limits.ofNode;
    const rings = layoutRings(spec, places);
    this.storages = rings.storages;
    this.#nodeRing = rings.ofNode;
    const sets = layoutSets(spec.replicaSets ?? [], places);
    this.sets = sets.sets;
    this.#nodeSet = sets.ofNode;
    this.#member = sets.member;

    const count = this.nodes.length;
    this.#told = [...this.nodes];
    this.#state = Uint8Array.from(this.nodes, (n) => STATE[n.state]);
    this.#started = Float64Array.from(this.nodes, (n) => n.startedAt ?? Number.NEGATIVE_INFINITY);
    this.#nodeRefs = new Array(count);
    this.#class = new Uint8Array(count);
    this.vdiskStatus = new Uint8Array(this.vdiskGroup.length);
    this.groupLocked = new Int32Array(groups.length);
    this.groupDown = new Int32Array(groups.length);
    this.realmOut = new Int32Array(groups.length * this.realms);
    for (let v = 0; v < this.vdiskGroup.length; v++) this.#countVdisk(v, VDISK.ok, this.#vdiskNow(v));
    for (let n = 0; n < count; n++) this.#start(n);
  }

  /** The same components, all of them well and none of them locked: what no waiting makes better than. */
  allWell(): Fleet {
    const { nodes, groups = [] } = this.#spec;
    return new Fleet({
      ...this.#spec,
      nodes: nodes.map((n) => ({
        ...n,
        state: 'up',
        startedAt: null,
        disks: n.disks.map((disk) => ({ ...disk, ok: true })),
      })),
      groups: groups.map((g) => ({ ...g, vdisks: g.vdisks.map((v) => ({ ...v, ok: true })) })),
    });
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
    return this.#hostNames;
  }
  /** Index of a host, for a lock on the host itself; undefined: there is no such host. */
  hostAt(name: string): number | undefined {
    return this.#hostNumbers.get(name);
  }
  hostName(h: number): string {
    return this.#hostNames[h] ?? '';
  }
  disk(n: number, id: number): number | undefined {
    return this.#diskById.get(`${n}/${id}`);
  }
  diskAtPath(host: string, path: string): number | undefined {
    return this.#diskByPath.get(`${host}\n${path}`);
  }
  state(n: number): NodeState {
    return STATES[this.#state[n] as number] as NodeState;
  }
  /** A node as it was told last; `nodes` has it as it was laid out. */
  told(n: number): NodeSpec | undefined {
    return this.#told[n];
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
      case 'host':
        return this.#hostRefs.get(item.index) ?? NONE;
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

  #mapOf(kind: Exclude<Item['kind'], 'node'>): Map<number, LockRef[]> {
    if (kind === 'host') return this.#hostRefs;
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
        return;
      // Nothing runs there, so no counter knows of it.
      case 'host':
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

  /** All that is known of a node now; what it is and where does not change. */
  tell(n: number, node: NodeSpec): void {
    this.#told[n] = node;
    this.setNode(n, node.state, node.startedAt);
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
