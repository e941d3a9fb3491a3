/** The provider's vocabulary: what is wanted (Desired), remembered (State), seen (Observed) and decided (Decision). */
import type { Bytes, Millis } from '../base/units.ts';
import type { OperationSpec, OperationType, TlsMode } from '../model/index.ts';
import type { MemberFacts, OperationFacts, ServiceFacts } from './facts.ts';
import type { DesiredWindow } from './windows.ts';

// ── desired ────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface DesiredMember {
  readonly votes: 0 | 1;
  readonly priority: number;
  readonly hidden: boolean;
  readonly secondaryDelaySecs: number;
  readonly tags: Readonly<Record<string, string>>;
}

/** What a process is part of. */
export type MemberRole = 'replicaSet' | 'shardServer' | 'configServer' | 'router';

/** One part of a sharded cluster: its members and what is set for them alone. */
export interface DesiredComponent {
  readonly members: readonly DesiredMember[];
  readonly mongodConfig: Readonly<Record<string, unknown>>;
  readonly memoryBytes: Bytes | null;
  readonly cpus: number | null;
  readonly volumeBytes: Bytes | null;
}

export interface DesiredShards {
  readonly shardCount: number;
  readonly shard: DesiredComponent;
  readonly config: DesiredComponent;
  readonly router: DesiredComponent;
}

/** What the spec asks for, in the planner's terms: every default filled in, nothing optional. */
export interface Desired {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly generation: number;
  readonly type: 'Standalone' | 'ReplicaSet' | 'ShardedCluster';
  /** A pinned catalog version, `8.0.32-14`. */
  readonly version: string;
  /** Members of the one set; empty for a sharded cluster. */
  readonly members: readonly DesiredMember[];
  /** Null but for a sharded cluster. */
  readonly sharded: DesiredShards | null;
  /** User's mongod configuration, nested; managed keys were refused at admission. */
  readonly mongodConfig: Readonly<Record<string, unknown>>;
  readonly tlsMode: TlsMode;
  /** Extra names for member certificates. */
  readonly certificateDomains: readonly string[];
  readonly memoryBytes: Bytes | null;
  readonly cpus: number | null;
  readonly volumeBytes: Bytes | null;
  /** Fixed port of the first member on each host; null: the platform chooses. */
  readonly port: number | null;
  /** Names of hosts that may carry members; null: any. */
  readonly hosts: readonly string[] | null;
  readonly roles: readonly DesiredRole[];
  /** A set whose members cannot be spared may be interrupted all the same (spec.maintenance.interruption). */
  readonly interruption: boolean;
  /** When voluntary disruption may happen; always when empty (C7.1). */
  readonly windows: readonly DesiredWindow[];
  readonly suspend: boolean;
  /** Hands off: no effect at all (S11). */
  readonly paused: boolean;
  readonly deleting: null | { readonly keepVolumes: boolean };
}

export interface DesiredRole {
  readonly role: string;
  readonly db: string;
  readonly privileges: readonly unknown[];
  readonly roles: readonly { readonly role: string; readonly db: string }[];
  readonly authenticationRestrictions: readonly unknown[];
}

/** A MongoDBUser that refers to this cluster. */
export interface DesiredUser {
  readonly uid: string;
  readonly name: string;
  readonly username: string;
  readonly db: string;
  readonly roles: readonly { readonly role: string; readonly db: string }[];
  /** Which sealed secret holds the password, and a fingerprint of its value, so that a change is seen. */
  readonly passwordRef: string | null;
  readonly passwordFingerprint: string | null;
  /** The secret for its connection strings, where the document names one (DEL-01). */
  readonly connectionSecret?: string;
  readonly deleting: boolean;
}

// ── state: only what cannot be observed again (A2) ──────────────────────────────────────────────────────────────────

export type MemberStage =
  | 'planned'
  | 'imported'
  | 'deployed'
  | 'healthy'
  | 'syncing'
  | 'active'
  /** Given a new snapshot or binary; active again only when it was seen to run with it and to have caught up (A8.1, A9.4). */
  | 'reloading'
  | 'upgrading'
  | 'removing';

export interface MemberState {
  /** `orders-0`; also the member's service hostname. */
  readonly name: string;
  /** Monotonic; never used twice in a cluster's life. */
  readonly index: number;
  readonly role: MemberRole;
  /** The set it belongs to; routers belong to none, and have the name of their group here. */
  readonly replicaSet: string;
  readonly shardIndex: number | null;
  readonly stage: MemberStage;
  /**
   * Versions of snapshots that were sent and whose answer is not known: it may be restarting for one although it says nothing
   * of it yet, and run with another than is remembered (S2, A9.1). Empty or absent: every answer came.
   */
  readonly unanswered?: readonly number[];
  /** A configuration in which it votes was sent: it may count although no reading shows it yet (S1). */
  readonly voteSent?: boolean;
  /** Machine the platform placed it on, known after import. */
  readonly host: string | null;
  /** Name and port the set and clients use, known after import. */
  readonly address: string | null;
  readonly port: number | null;
  /** Ports it was given and could not open, since it last ran: others are tried. */
  readonly lostPorts?: readonly number[];
  readonly serviceId: string | null;
  readonly volumeId: string | null;
  /** The size its volume was made with or last grew to; null: not known. */
  readonly volumeBytes?: Bytes | null;
  readonly deployedVersion: string | null;
  /** Its binary was changed, and nobody has seen it back with it. */
  readonly unproven?: boolean;
  /** Newest release series that was seen to run on its volume (S7); absent: none yet. */
  readonly newestRun?: string;
  /** The snapshot this member was individually given (A9.1). */
  readonly activated: ActivatedSnapshot | null;
  /** Since when a syncing member has been seen caught up, reading after reading (A6.3); null: it is behind or unknown. */
  readonly caughtUpSince: Millis | null;
  /** Where it stands in the order of `spec.memberConfig`, when that is not its index: it took the place of another (A13.3). */
  readonly place?: number;
  /** As long as it is on its way to another member's place (A13.3). */
  readonly replacement?: Replacement;
}

/** A place that a member is to take, frozen when the operation began: later changes of documents do not turn it round (A13.7). */
export interface Replacement {
  /** The member that has the place now. */
  readonly of: string;
  /** What the place has in the set: taken over as it is, so that no vote is won or lost by it (S5). */
  readonly settings: DesiredMember;
  /** The host it is moved to; null: the platform chooses. */
  readonly host: string | null;
  /** Hosts it must not come to. */
  readonly avoidHosts: readonly string[];
  readonly because: 'Replacing' | 'Moving';
}

export interface ActivatedSnapshot {
  readonly configVersion: number;
  readonly tlsMode: TlsMode;
  readonly configHash: string;
  readonly cacheGb: number;
  /** What it was last given to present, and whom it trusts; null: not known (S12). */
  readonly certificate: GivenCertificate | null;
  /** The operation that last asked for a restart of this member; a new one is a new reason to restart (A13.2). */
  readonly restartToken: string | null;
  /** Which passwords its agent was given: those of this rotation (A13.4). Null: of none. */
  readonly loginToken: string | null;
}

export interface GivenCertificate {
  /** SHA-256, hex. */
  readonly fingerprint: string;
  readonly notAfter: Millis;
  /** Fingerprint of the authority that issued it. */
  readonly issuer: string;
  /** `Authority.trust` of the bundle that was given along. */
  readonly trust: string;
}

export type ReplicaSetStage = 'bootstrap' | 'users' | 'ready';

export interface ReplicaSetState {
  readonly name: string;
  readonly role: Exclude<MemberRole, 'router'>;
  readonly shardIndex: number | null;
  /** A5.3: a router was seen to list it as a shard. Always false for others. */
  readonly registered: boolean;
  readonly stage: ReplicaSetStage;
  /**
   * The initiation was sent and not refused: from here on members are treated as a set's, though none may say so yet (S2, S6).
   */
  readonly initiating: boolean;
  /** Through whom it was sent first: another try goes there too, since that one may be about to form the set (S6). */
  readonly initiatedVia?: string | null;
  /** settings.replicaSetId first seen; a different one later is never written over (INI-06). */
  readonly replicaSetId: string | null;
  /** Fingerprint of system users and roles last applied. */
  readonly usersHash: string | null;
  /** When its primary was last asked to hand over; an election follows. */
  readonly handedOverAt?: Millis;
  /** The configuration last given to it and taken: a reading with an older one of that term is from before. */
  readonly reconfigured?: { readonly version: number; readonly term: number | null };
  /** Feature compatibility version as a primary last told it; it stays in the data while none is there. */
  readonly fcv?: string;
}

export type InfrastructureAction =
  | 'import'
  | 'deploy'
  | 'upgrade'
  | 'growVolume'
  | 'deleteRuntime'
  | 'deleteVolume';

/** An infrastructure operation under way (A2.4): settings become applied only after it was seen to succeed. */
export interface PendingOperation {
  readonly action: InfrastructureAction;
  readonly member: string;
  /** The step that started it; the platform deduplicates on it. */
  readonly stepId: string;
  readonly operationId: string | null;
  readonly startedAt: Millis;
  readonly version: string | null;
  /** What a volume grows to. */
  readonly volumeBytes?: Bytes;
}

/** A3: consecutive failures of one action on one member. */
export interface RetryState {
  readonly action: string;
  readonly member: string;
  readonly failures: number;
  /** The platform's or agent's error code, `PortTaken` for example. */
  readonly code: string;
  readonly message: string;
  readonly nextTryAt: Millis;
  /** Refused for good: not asked again before the spec or the world looks other than this mark; null: not taken yet. */
  readonly refused?: { readonly on: number | null };
  /** Of a snapshot: the version that was tried. A newer one does not wait for this one's next try (STK-04). */
  readonly tried?: number;
}

/** A MongoDBUser as last applied to the database (USR-08, USR-10). */
export interface AppliedUser {
  readonly uid: string;
  readonly username: string;
  readonly db: string;
  /** The secret its connection strings were written to, where its document named one. */
  readonly connectionSecret?: string;
  /** What was applied; `UNCONFIRMED` while no answer has told that it was. */
  readonly hash: string;
}

/** What every member is to run now: the spec's fingerprint at this phase of a TLS transition (A2.1, A9.3). */
export interface Goal {
  readonly hash: string;
  readonly tlsMode: TlsMode;
  /** In a sharded cluster the roles have settings of their own; a change of one role's reloads only its members. */
  readonly roles?: Readonly<Record<Exclude<MemberRole, 'replicaSet'>, string>>;
}

export interface State {
  readonly schema: 1;
  readonly uid: string;
  readonly backupPrefix: string;
  readonly phase: 'creating' | 'running' | 'suspended' | 'deleting';
  /** Grows with every new goal. */
  readonly configVersion: number;
  readonly goal: Goal | null;
  /** Next index of each set (and of the routers), by name: never one twice. */
  readonly nextMemberIndex: Readonly<Record<string, number>>;
  readonly credentialsReady: boolean;
  readonly members: readonly MemberState[];
  readonly replicaSets: readonly ReplicaSetState[];
  readonly pending: readonly PendingOperation[];
  readonly retries: readonly RetryState[];
  readonly users: readonly AppliedUser[];
  readonly suspended: boolean;
  readonly secretsDeleted: boolean;
  /** A8.3, S14: we stopped the balancer, or found it off; null: it is nobody's business now. */
  readonly balancer: BalancerRest | null;
  /** What a router last answered to us about it, and when: routers that were not asked tell of it later. Absent: nothing. */
  readonly balancerSet?: { readonly on: boolean; readonly at: Millis; readonly autoMerge?: boolean };
  /**
   * Members out of their set for good, of which something is left on a host: removed when that host is there, in nobody's
   * way until then (A13.3). Absent: none.
   */
  readonly retired?: readonly MemberState[];
  /** C7.1: a person let voluntary disruption happen outside the windows. Absent: nobody did, or it was ended. */
  readonly windowOverride?: WindowOverride;
  /** The one operation that runs (A13.6); others wait in the order in which they were asked for. */
  readonly operation: RunningOperation | null;
  /** Operations that ended and whose documents do not say so yet. */
  readonly ended: readonly EndedOperation[];
  /** Keys owned by other parts (backup engine): kept through every save (A2.5). */
  readonly [foreign: string]: unknown;
}

/** Until when, by which operation, why and for whom; records of older versions do not say the last two. */
export interface WindowOverride {
  readonly until: Millis;
  readonly operation: string;
  readonly reason?: string;
  readonly requestedBy?: string;
}

/** What is remembered from before the balancer was stopped until it is what it was again. */
export interface BalancerRest {
  readonly wasEnabled: boolean;
  /** The stop was answered; before, it may or may not have happened. */
  readonly confirmed: boolean;
  /** When that was; absent: not known. */
  readonly at?: Millis;
  /** A start was sent, and no answer came: it may run because of us. */
  readonly waking?: true;
  /** It was sent more than once: an off that an answer tells of the moment before may be our own doing. */
  readonly again?: true;
  /** What the AutoMerger was, which the server switches along with the balancer; absent: not known. */
  readonly autoMerge?: boolean;
}

// ── operations (A13.1) ─────────────────────────────────────────────────────────────────────────────────────────────

/** An `Operation` document about this cluster that has not ended. */
export interface OperationRequest {
  readonly uid: string;
  readonly name: string;
  readonly spec: OperationSpec;
  readonly createdAt: Millis;
  readonly cancelRequested: boolean;
  /** Who asked for it, where its document says so. */
  readonly requestedBy?: string;
}

/** What an operation will do, frozen when it began: later changes of documents do not turn it round (A13.7). */
export type OperationWork =
  /** `told`: a router answered that it is switched. */
  | { readonly kind: 'SwitchBalancer'; readonly enabled: boolean; readonly told: boolean }
  | { readonly kind: 'Restart' }
  /** Fingerprints that members had when it began. */
  | { readonly kind: 'RotateTLS'; readonly before: Readonly<Record<string, string | null>> }
  /** `staged`: new passwords are made · `begun`: the database may know them · `sets` have them · `kept`: they are the cluster's. */
  | {
      readonly kind: 'RotateUsers';
      readonly users: readonly string[];
      readonly staged: boolean;
      readonly begun: boolean;
      readonly sets: readonly string[];
      readonly kept: boolean;
    }
  /** Another member takes this one's place; where it may come to stands in its own record (A13.7). */
  | { readonly kind: 'Replace'; readonly substitute: string }
  /** `told`: sets that said that it is raised, whose members have not shown it yet. */
  | { readonly kind: 'RaiseFCV'; readonly version: string; readonly told: readonly string[] }
  /** `keep`: hosts of the set's configuration that are left, the one with the newest write first; `via` is that member. */
  | {
      readonly kind: 'ForceReconfig';
      readonly replicaSet: string;
      readonly via: string;
      readonly keep: readonly string[];
      /** When it was last sent; members tell of a new configuration a little later than of their primary. */
      readonly sentAt: Millis | null;
    }
  /** `told`: the document's generation that says so; null: it was not told yet. */
  | { readonly kind: 'Suspension'; readonly suspend: boolean; readonly told: number | null };

export interface RunningOperation {
  readonly uid: string;
  readonly name: string;
  readonly type: OperationType;
  readonly startedAt: Millis;
  /** Members it works on. */
  readonly members: readonly string[];
  readonly completed: readonly string[];
  readonly work: OperationWork;
}

export interface EndedOperation {
  readonly uid: string;
  readonly state: 'Succeeded' | 'Failed' | 'Cancelled';
  readonly message: string;
  readonly startedAt: Millis | null;
  readonly finishedAt: Millis;
  readonly completed: readonly string[];
}

// ── observed ───────────────────────────────────────────────────────────────────────────────────────────────────────

export interface ObservedMember {
  readonly name: string;
  /** Null: no agent has reported it, which is unknown and never healthy. */
  readonly facts: MemberFacts | null;
  readonly observedAt: Millis | null;
  /** The agent's channel is open now. */
  readonly connected: boolean;
}

/** One reading of the world around one cluster. */
export interface Observed {
  readonly at: Millis;
  readonly members: readonly ObservedMember[];
  /** Null: the platform could not be asked in time. */
  readonly services: readonly ServiceFacts[] | null;
  readonly operations: Readonly<Record<string, OperationFacts>>;
  readonly hosts: readonly ObservedHost[];
  readonly users: readonly DesiredUser[];
  /** Operations asked for that have not ended, oldest first. */
  readonly requests: readonly OperationRequest[];
  /** Members that people's maintenance tasks wait for to hand over; absent: none. */
  readonly handOvers?: readonly HandOverRequest[];
  /** Members that a person's task holds now; absent: none. */
  readonly maintenance?: readonly InMaintenance[];
  /** The certificate authority at this moment; null: it could not be read, and nothing is concluded from it. */
  readonly authority: Authority | null;
  /** Ports taken on each host by services of other clusters. */
  readonly capabilities: Capabilities;
}

/** Somebody works on a member, or may: that it is down is no fault (C6.4). */
export interface InMaintenance {
  readonly member: string;
  readonly task: string;
  readonly owner: string;
  /** Null: until the task is dropped. */
  readonly until: Millis | null;
}

/** A person wants to work on what a primary runs on, and waits for it to hand over. */
export interface HandOverRequest {
  readonly member: string;
  /** For people: the task and whose it is. */
  readonly task: string;
  readonly owner: string;
  /** The hand-over is as urgent as the task, and may cost what the task may. */
  readonly priority: number;
  readonly mode: 'strong' | 'weak' | 'force' | 'smart';
}

/** The installation's certificate authority as clusters need to know it (S12). */
export interface Authority {
  /** Identity of the bundle that everybody is to trust now. */
  readonly trust: string;
  /** Fingerprint of the authority that issues now. */
  readonly issuer: string;
  /** When that authority ends: nothing it issues lives longer (TLS-05). */
  readonly notAfter: Millis;
  /** It is being replaced: whoever's trust is not known has to be given the new one. */
  readonly rotating: boolean;
}

export interface ObservedHost {
  readonly name: string;
  readonly address: string;
  readonly connected: boolean;
  readonly schedulable: boolean;
  /** First port for members here (Host.spec.firstPort); null: the usual one. */
  readonly firstPort: number | null;
  readonly fingerprint: string | null;
  readonly executables: Readonly<Record<string, readonly string[]>>;
  readonly memberCount: number;
  /** A person's task that holds the whole host now; absent: none. */
  readonly maintenance?: Omit<InMaintenance, 'member'>;
  /** The disk its agent's data folder is on, logs of members included; left out while it is not known. */
  readonly disk?: { readonly totalBytes: Bytes; readonly freeBytes: Bytes };
  readonly portsTaken: readonly { readonly port: number; readonly by: string }[];
}

/** What a platform can do; using what it cannot is an unsupported-feature refusal (A4.9). Several copies of one router are nothing Belay uses (ADR 19). */
export interface Capabilities {
  readonly publicExposure: boolean;
  readonly allowlists: boolean;
  readonly diskGrowth: boolean;
  /** A volume is a folder of its host's disk: it holds no more than that disk, and grows only by being promised more. */
  readonly volumesOnHostDisk?: boolean;
  readonly resourceLimits: boolean;
}
