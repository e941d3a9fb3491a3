/** A fleet as plain data: what the topology documents and the managed databases say about components and their health. */
import type { Millis } from '../base/units.ts';

/** `unknown`: nobody has reported it. It counts as down and is never healthy (C5.3). */
export type NodeState = 'up' | 'down' | 'unknown';

/** One process that serves data: a YDB node, a member of a replica set, or a router (mongos). */
export interface NodeSpec {
  /** Unique in the fleet: `ydb-prod/7`, `default/orders-0`. */
  readonly key: string;
  /** For sentences: `node 7`, `orders-0`. */
  readonly name: string;
  readonly host: string;
  readonly kind: 'storage' | 'dynamic' | 'member' | 'router';
  /** For a member: `up` is PRIMARY, SECONDARY or ARBITER within the lag limit; anything else is down. */
  readonly state: NodeState;
  readonly startedAt: Millis | null;
  readonly disks: readonly DiskSpec[];
  /** Database of a dynamic node. */
  readonly tenant?: string;
  /** Topology or MongoDB it belongs to, for views. */
  readonly cluster: string;
  /** Number in its topology (gRPC). */
  readonly id?: number;
  readonly port?: number;
  readonly version?: string;
  readonly location?: Readonly<Record<string, string>>;
  /** What it is right now, for views: `PRIMARY`, `SECONDARY`, … */
  readonly role?: string;
  /** What is said of it right now, for sentences. */
  readonly note?: string;
}

export interface DiskSpec {
  readonly id: number;
  readonly path?: string;
  /** False: anything but Normal. */
  readonly ok: boolean;
}

/** How a storage group spreads data; `parity` for schemes that are not named here. */
export type Erasure = 'none' | 'block-4-2' | 'mirror-3-dc' | 'mirror-3of4' | 'mirror-3';

/** Copies or parts a group can lose (weak). mirror-3-dc has a rule of its own. */
export const PARITY: Readonly<Record<Erasure, number>> = {
  none: 0,
  'block-4-2': 2,
  'mirror-3': 2,
  'mirror-3of4': 2,
  'mirror-3-dc': 2,
};

export interface GroupSpec {
  readonly id: number;
  /** Topology it belongs to, for sentences: two may have groups of one number. */
  readonly cluster?: string;
  readonly erasure: Erasure;
  readonly vdisks: readonly VDiskSpec[];
}
export interface VDiskSpec {
  readonly node: string;
  readonly disk: number;
  /** Fail realm (data centre). */
  readonly realm: number;
  /** False: not OK, or not replicated. */
  readonly ok: boolean;
}

/** State Storage of one cluster (of one pile of it). Rings are lists of node keys. */
export interface StateStorageSpec {
  /** Topology it belongs to, for sentences. */
  readonly cluster?: string;
  readonly nToSelect: number;
  readonly rings: readonly (readonly string[])[];
  readonly disabled: readonly number[];
}

/** A limit on unavailable nodes (C4). 0 stands for no limit. */
export interface LimitSetSpec {
  readonly kind: 'cluster' | 'tenant' | 'tablets' | 'routers';
  readonly name: string;
  readonly nodes: readonly string[];
  readonly nodesLimit: number;
  readonly percentLimit: number;
}

export interface SetMemberSpec {
  readonly node: string;
  readonly votes: 0 | 1;
  readonly priority: number;
  /** False for an arbiter. */
  readonly data: boolean;
  /** A delayed member holds a copy, but acknowledges too late to count for a write concern. */
  readonly delayed?: boolean;
}

/** A MongoDB replica set. */
export interface ReplicaSetSpec {
  /** Unique in the fleet: `default/orders`, `default/events/shard-0`. */
  readonly key: string;
  readonly role: 'replicaSet' | 'shard' | 'config';
  readonly members: readonly SetMemberSpec[];
  /** Default write concern of the set. */
  readonly writeConcern: 'majority' | number;
  /** The spec accepts an outage of a set that cannot spare a member (`spec.maintenance.interruption`). */
  readonly interruption: boolean;
  /** For a shard: the config-server set it depends on. */
  readonly configSet?: string;
  /** Nobody but a person does anything to it now (`spec.paused`). */
  readonly paused?: boolean;
}

export interface FleetSpec {
  readonly nodes: readonly NodeSpec[];
  readonly groups?: readonly GroupSpec[];
  readonly stateStorages?: readonly StateStorageSpec[];
  readonly limits?: readonly LimitSetSpec[];
  readonly replicaSets?: readonly ReplicaSetSpec[];
  /** Hosts without a node, which may be asked for all the same. */
  readonly hosts?: readonly string[];
}
