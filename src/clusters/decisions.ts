/** What is decided: steps, why they are done, what is waited for, what blocks, and what became of them. */
import type { Bytes, Millis } from '../base/units.ts';
import type { ReplSetConfig } from './facts.ts';
import type { ActivatedSnapshot, DesiredUser } from './types.ts';

/** One small effect. Every step is idempotent or carries its id; `disruptive` ones need a grant. */
export type Step =
  | { readonly kind: 'ensureCredentials'; readonly members: readonly string[] }
  | { readonly kind: 'import'; readonly member: string; readonly placement: Placement }
  | {
      readonly kind: 'adopt';
      readonly member: string;
      readonly serviceId: string;
      readonly volumeId: string | null;
      readonly placement: Placement;
    }
  | { readonly kind: 'deploy'; readonly member: string; readonly version: string }
  | { readonly kind: 'publish'; readonly member: string; readonly configVersion: number }
  /** A running member takes a new snapshot: its process restarts. Disruptive. */
  | { readonly kind: 'reload'; readonly member: string; readonly configVersion: number }
  /** A running member gets another certificate or bundle and takes it while it runs (A9.4, A13.5). */
  | { readonly kind: 'rotateCertificate'; readonly member: string; readonly configVersion: number }
  /** New passwords of system users are made and kept beside the old ones (A13.4). */
  | { readonly kind: 'stageLogins'; readonly users: readonly string[] }
  /** An agent is given the passwords of this moment of a rotation; its process does not notice. */
  | { readonly kind: 'giveLogins'; readonly member: string; readonly configVersion: number }
  /** A replica set takes the staged passwords. */
  | {
      readonly kind: 'rotateUsers';
      readonly replicaSet: string;
      readonly via: string;
      readonly users: readonly string[];
    }
  /** Every set has them: the staged passwords become the cluster's. */
  | { readonly kind: 'keepLogins'; readonly users: readonly string[] }
  /** A running member gets another binary: its process restarts. Disruptive. */
  | { readonly kind: 'upgrade'; readonly member: string; readonly version: string }
  /**
   * One change of the set's configuration, built on the one that was read: unknown fields stay, at most one vote changes (S5).
   * `change` says it in words.
   */
  | {
      readonly kind: 'reconfig';
      readonly replicaSet: string;
      readonly via: string;
      readonly config: ReplSetConfig;
      readonly change: string;
      /** What each member that joins has to copy, as far as it was counted: kept for later estimates. */
      readonly copies?: Bytes;
      /** The operation by which a person acknowledged that it is forced, without a majority; left out: it is not (S5). */
      readonly forcedBy?: string;
    }
  /** Raises the feature compatibility version, which does not go back (A8.5, S7). `via`: primary, or router of a sharded cluster. */
  | { readonly kind: 'setFcv'; readonly replicaSet: string; readonly via: string; readonly version: string }
  /** An operation sets `spec.suspend` in the cluster's document. */
  | { readonly kind: 'setSuspend'; readonly suspend: boolean }
  /** The primary hands over, so that it can be worked on as a secondary (S3). Disruptive: writes pause. */
  | { readonly kind: 'stepDown'; readonly replicaSet: string; readonly member: string }
  /** A set becomes a shard; harmless when it is one already (A5.3). */
  | {
      readonly kind: 'addShard';
      readonly replicaSet: string;
      readonly via: string;
      /** `set/host:port,…` */
      readonly shard: string;
    }
  | {
      readonly kind: 'stopBalancer';
      readonly via: string;
      readonly wasEnabled: boolean;
      /** What the AutoMerger, which the server stops along, was; left out: not known. */
      readonly autoMerge?: boolean;
      /** What comes next: it rests only when that is granted. Left out: what is under way already. */
      readonly before?: Step;
    }
  /** A person's wish. */
  | { readonly kind: 'switchBalancer'; readonly via: string; readonly enabled: boolean }
  /** Ends the rest of the balancer; `enable` false: it was off before, so nothing is done to it. */
  | {
      readonly kind: 'startBalancer';
      readonly via: string;
      readonly enable: boolean;
      /** What the AutoMerger becomes again; left out: what the server makes of it, on or off like the balancer. */
      readonly autoMerge?: boolean;
    }
  | {
      readonly kind: 'initiate';
      readonly replicaSet: string;
      readonly via: string;
      readonly config: ReplSetConfig;
    }
  | { readonly kind: 'createFirstUser'; readonly replicaSet: string; readonly via: string }
  | { readonly kind: 'reconcileSystemUsers'; readonly replicaSet: string; readonly via: string }
  | { readonly kind: 'applyUser'; readonly via: string; readonly user: DesiredUser; readonly hash: string }
  | {
      readonly kind: 'dropUser';
      readonly via: string;
      readonly username: string;
      readonly db: string;
      readonly uid: string;
    }
  | { readonly kind: 'growVolume'; readonly member: string; readonly sizeBytes: Bytes }
  /** `lostPort`: somebody else has it, and the member gets another one. */
  | { readonly kind: 'deleteRuntime'; readonly member: string; readonly lostPort?: number }
  | { readonly kind: 'deleteVolume'; readonly member: string }
  | { readonly kind: 'deleteSecrets' }
  | { readonly kind: 'forget' };

export interface Placement {
  readonly host: string;
  readonly address: string;
  readonly port: number;
  /** False: a suggestion, the platform takes the next free one when it is taken. */
  readonly portFixed: boolean;
}

/** Why something is done. A closed set: the same names in log, event, condition, metric and UI. */
export type Reason =
  | 'Creating'
  | 'Adopting'
  | 'Bootstrapping'
  | 'UsersMissing'
  | 'UsersChanged'
  | 'UserChanged'
  | 'UserRemoved'
  | 'PortTaken'
  | 'ScaleUp'
  | 'ScaleDown'
  | 'MemberConfigChanged'
  | 'ConfigurationChanged'
  | 'RestartRequested'
  | 'QuorumLost'
  | 'VolumeGrowth'
  | 'PasswordRotation'
  | 'FcvRequested'
  | 'CertificateRotation'
  | 'CertificateExpiring'
  | 'AuthorityChanged'
  | 'ShardMissing'
  /** A person's maintenance task waits for it. */
  | 'HostMaintenance'
  | 'BalancerRests'
  | 'BalancerResumes'
  | 'BalancerSwitched'
  | 'Replacing'
  | 'Moving'
  | 'TlsChanged'
  | 'VersionChanged'
  | 'Resuming'
  | 'Suspending'
  | 'Deleting';

/** Why we wait for the world. */
export type WaitReason =
  | 'AgentNotConnected'
  | 'OperationRunning'
  | 'Backoff'
  | 'ProcessStarting'
  | 'WaitingForPrimary'
  | 'WaitingForMembers'
  | 'WaitingForRouter'
  | 'BalancerFinishing'
  | 'SnapshotNotAcknowledged'
  | 'ObservationStale'
  | 'NoHostAvailable'
  | 'InitialSync'
  | 'RepairRetrying'
  | 'WouldLoseMajority'
  | 'DisruptionInProgress'
  | 'NoElectableSecondary'
  /** Clients do not know yet that the members that could take over are back. */
  | 'ClientsLookAgain'
  /** A13.6: an operation runs, and this waits for its end. */
  | 'OperationInProgress'
  | 'MaintenanceWindow'
  /** C6.4: somebody works on a member's machine, and nobody reports it meanwhile. */
  | 'InMaintenance'
  /** C3.2: somebody else's maintenance, or the state of the fleet, stands in the way; mostly the engine says it. */
  | 'MaintenanceGrant';

/** Why we can't go on without somebody. */
export type BlockReason =
  | 'Paused'
  | 'PortTaken'
  | 'NoExecutables'
  | 'NoHosts'
  | 'OwnershipConflict'
  | 'ForeignData'
  | 'SplitIdentity'
  | 'CredentialRepairRequired'
  | 'ProcessFailing'
  | 'SnapshotRejected'
  | 'OwnershipUnreadable'
  /** Less than a majority of a set's voters is left; only a person may go on without the others (QRM-03). */
  | 'QuorumLost'
  /** A member's volume is not on its host any more; it is never made anew under the same name (S6). */
  | 'VolumeLost'
  | 'DiskFull'
  | 'UserPasswordMissing'
  | 'WouldInterrupt'
  | 'FcvTooOld'
  /** The database or a host refused a step for good, in its own words. */
  | 'Refused'
  | 'VersionStep';

export type Decision =
  | {
      readonly kind: 'act';
      readonly steps: readonly Step[];
      readonly because: Reason;
      readonly detail: string;
    }
  | {
      readonly kind: 'wait';
      readonly on: WaitReason;
      readonly until: Millis;
      readonly detail: string;
      readonly member?: string;
    }
  | {
      readonly kind: 'blocked';
      readonly by: BlockReason;
      readonly needs: 'person' | 'spec' | 'capacity';
      readonly detail: string;
      readonly fix: string;
    }
  | { readonly kind: 'converged' };

/** All a pass decided: at most one `act`, and every wait and block that stands beside it. */
export interface Plan {
  readonly act: Extract<Decision, { kind: 'act' }> | null;
  readonly waits: readonly Extract<Decision, { kind: 'wait' }>[];
  readonly blocks: readonly Extract<Decision, { kind: 'blocked' }>[];
  readonly converged: boolean;
}

/** What became of a step; `unknown` (sent, no answer) is followed by observing, never by a blind retry. */
export type StepOutcome =
  | { readonly kind: 'done'; readonly result: StepResult }
  | {
      readonly kind: 'failed';
      readonly code: string;
      readonly message: string;
      readonly retry: 'later' | 'never';
    }
  | { readonly kind: 'unknown'; readonly message: string };

/** What an effect brings back for the state. */
export interface StepResult {
  /** Infrastructure steps: what to observe from now on. */
  readonly operationId?: string;
  readonly snapshot?: ActivatedSnapshot;
  readonly usersHash?: string;
  /** stopBalancer: what it was right before. */
  readonly balancerWas?: boolean;
  readonly autoMergeWas?: boolean;
  /** reconfig: the one the server gave the configuration, whatever was asked for. */
  readonly term?: number;
  /** setSuspend: the document's generation from then on. */
  readonly generation?: number;
}
