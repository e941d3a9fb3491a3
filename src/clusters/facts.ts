/**
 * Raw facts: what agents and platforms report about the world, before anyone judges it. Agents produce them, the channel
 * carries them unchanged, `interpret` turns them into `Observed`. No secret may ever be in here (S8).
 */
import type { Bytes, Millis } from '../base/units.ts';

/** The one process an agent supervises for a service. */
export type ProcessFacts =
  | { readonly kind: 'absent' }
  | { readonly kind: 'starting'; readonly pid: number; readonly since: Millis }
  | {
      readonly kind: 'running';
      readonly pid: number;
      readonly since: Millis;
      readonly adopted: boolean;
      /** It was told to end, and may answer for some time yet. */
      readonly stopping?: true;
    }
  | {
      readonly kind: 'exited';
      readonly since: Millis;
      readonly exitCode: number | null;
      readonly signal: string | null;
      /** Consecutive failed starts. */
      readonly failures: number;
      /** Next start by the agent itself; null when it waits for a new snapshot. */
      readonly nextStartAt: Millis | null;
      /** Last error lines of the process, one sentence, no secrets. */
      readonly message: string;
      /** Why it was not started, as one of our own error codes; absent: it was, or nobody named a reason. */
      readonly code?: string;
    };

export type MemberStateName =
  | 'STARTUP'
  | 'PRIMARY'
  | 'SECONDARY'
  | 'RECOVERING'
  | 'STARTUP2'
  | 'UNKNOWN'
  | 'ARBITER'
  | 'DOWN'
  | 'ROLLBACK'
  | 'REMOVED';

/** One row of replSetGetStatus.members as this member sees it. */
export interface PeerFacts {
  readonly id: number;
  /** host:port. */
  readonly host: string;
  readonly state: MemberStateName;
  readonly healthy: boolean;
  /** Behind the primary's last applied operation, null when unknown. Reported in steps of a second, so that an idle set reports nothing. */
  readonly lagMillis: Millis | null;
  readonly message: string | null;
}

/** One member of the replica-set configuration as stored in the set. */
export interface ConfigMember {
  readonly _id: number;
  readonly host: string;
  readonly priority: number;
  readonly votes: 0 | 1;
  readonly hidden?: boolean;
  readonly arbiterOnly?: boolean;
  readonly buildIndexes?: boolean;
  readonly secondaryDelaySecs?: number;
  readonly tags?: Readonly<Record<string, string>>;
}

/** The set's configuration; unknown fields are kept (STK-09) and given back on reconfig. */
export interface ReplSetConfig {
  readonly _id: string;
  readonly version: number;
  readonly term?: number;
  readonly members: readonly ConfigMember[];
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly [other: string]: unknown;
}

/** What the database process answers on loopback. */
export type DatabaseFacts =
  | { readonly kind: 'unreachable'; readonly message: string }
  | {
      readonly kind: 'reachable';
      /** buildInfo.version of the process really running, Percona's suffix included when it gives one (`8.0.32-14`). */
      readonly binaryVersion: string;
      readonly featureCompatibilityVersion: string | null;
      /** Not a member of an initiated set yet. */
      readonly initiated: boolean | null;
      readonly setName: string | null;
      /** settings.replicaSetId as hex: two different ids under one cluster are a critical condition (INI-06). */
      readonly replicaSetId: string | null;
      readonly state: MemberStateName | null;
      readonly term: number | null;
      readonly writablePrimary: boolean;
      /** host:port of the primary this member knows. */
      readonly primary: string | null;
      readonly peers: readonly PeerFacts[];
      readonly config: ReplSetConfig | null;
      /** Time of the newest write it holds; told only while the set has no primary, since it changes with every write. */
      readonly lastAppliedAt?: Millis;
      /** Initial sync progress in percent while it runs. */
      readonly initialSyncPercent: number | null;
      /** Whether the agent's monitor login works; null: not tried (no users yet). */
      readonly authenticated: boolean | null;
      /** Whether users exist on this member (the localhost exception is closed); null when unknown. */
      readonly usersExist: boolean | null;
      /** What a router (mongos) tells; absent for a mongod, which has all of the above instead. */
      readonly router?: RouterFacts;
    };

/** What a router answers on loopback. Everything above that a router cannot know is null there. */
export interface RouterFacts {
  /** It got an answer from a majority of the config servers, so what follows is of now. */
  readonly configReachable: boolean;
  /** Shards as registered: names are those of their replica sets. Null: not known (no login yet, config servers away). */
  readonly shards:
    | readonly { readonly name: string; readonly host: string; readonly draining: boolean }[]
    | null;
  /** `off`: somebody stopped the balancer. Null: not known. */
  readonly balancer: 'full' | 'off' | null;
  /** A migration is under way: a stopped balancer still finishes it. */
  readonly balancing: boolean;
  /** Whether the AutoMerger may merge chunks where the balancer runs; absent: nobody ever said, or an agent that cannot tell. */
  readonly autoMerge?: boolean;
}

/** A router of which nothing is known yet, or that reaches no majority of the config servers. */
export const ROUTER_UNREACHED: RouterFacts = {
  configReachable: false,
  shards: null,
  balancer: null,
  balancing: false,
};

export interface VolumeFacts {
  readonly id: string;
  /** Of the file system it is on. */
  readonly totalBytes: Bytes;
  readonly freeBytes: Bytes;
  /** What the volume itself holds, counted now and then; absent: not counted yet. */
  readonly usedBytes?: Bytes;
}

/** Everything an agent knows of one service. Sent when it changes, not when it is merely read again. */
export interface MemberFacts {
  readonly serviceId: string;
  /** Version of the snapshot the agent has written to disk and the process runs with; 0: none. */
  readonly configVersion: number;
  /** A snapshot the agent could not take over: why, in one sentence. */
  readonly configError: string | null;
  readonly process: ProcessFacts;
  readonly database: DatabaseFacts | null;
  readonly certificate: { readonly notAfter: Millis; readonly fingerprint: string } | null;
  readonly volume: VolumeFacts | null;
  /**
   * Newest release series (`8.0`) whose process has answered with the data of this member's volume; null: none has. Absent:
   * an agent that cannot tell, for which nothing is proven (S7).
   */
  readonly newestRun?: string | null;
}

/** What binds a service or a volume to a member of ours (A4.3). `proof` is an HMAC by the cluster's owner key over the rest; not a secret. */
export interface OwnerMarker {
  readonly installation: string;
  readonly clusterUid: string;
  readonly member: string;
  readonly hostname: string;
  readonly proof: string;
}

/** A service (runtime) or volume as the platform lists it. */
export interface ServiceFacts {
  readonly id: string;
  readonly hostname: string;
  /** Which machine carries it, where the platform tells. */
  readonly host: string | null;
  readonly kind: 'runtime' | 'volume';
  readonly owner: OwnerMarker | null;
  /** The platform hides variables and the marker can't be read (A4.7). */
  readonly masked: boolean;
  readonly deployed: boolean;
  readonly port: number | null;
  readonly dataPath: string | null;
  readonly sizeBytes: Bytes | null;
}

/** What an agent says of its machine when it joins and when it changes. */
export interface HostFacts {
  readonly name: string;
  /** How other machines and clients reach members here: a name, never a literal IP outside a single local host. */
  readonly address: string;
  readonly agentVersion: string;
  readonly os: string;
  readonly cpus: number;
  readonly memoryBytes: Bytes;
  readonly diskTotalBytes: Bytes;
  readonly diskFreeBytes: Bytes;
  /** Machine identity for failure domains, best effort (A15.1). */
  readonly fingerprint: string | null;
  /** Executables found: product to versions, `mongod: ['8.0.32-14']`. */
  readonly executables: Readonly<Record<string, readonly string[]>>;
  readonly labels: Readonly<Record<string, string>>;
  /** The agent's own certificate and whom it trusts; absent: an agent that cannot tell (S12). */
  readonly identity?: HostIdentity;
}

export interface HostIdentity {
  readonly notAfter: Millis;
  /** Fingerprint of the trusted authority that issued it; null: none of them did. */
  readonly issuer: string | null;
  /** As `Authority.trust`. */
  readonly trust: string;
}

/** How an infrastructure operation stands. `unknown`: the platform has no memory of it (A4.6). */
export type OperationFacts =
  | { readonly kind: 'running'; readonly detail: string }
  | { readonly kind: 'succeeded'; readonly result: Readonly<Record<string, string | number>> }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string }
  | { readonly kind: 'cancelled'; readonly message: string }
  | { readonly kind: 'unknown' };
