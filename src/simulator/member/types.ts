import type { Millis } from '../../base/units.ts';
import type { ReplicaSetConfig } from './config.ts';
import type { FetchRequest, PeerReply, PeerRequest, SyncMetadata } from './messages.ts';
import type { OpTime, Position } from './optime.ts';

/** Member states by their numbers on the wire. */
export const STATES = {
  STARTUP: 0,
  PRIMARY: 1,
  SECONDARY: 2,
  RECOVERING: 3,
  STARTUP2: 5,
  UNKNOWN: 6,
  ARBITER: 7,
  DOWN: 8,
  ROLLBACK: 9,
  REMOVED: 10,
} as const;
export type StateName = keyof typeof STATES;

/** A command's or a peer's refusal: code, its name and the text the client sees. */
export interface Refusal {
  readonly code: number;
  readonly codeName: string;
  readonly message: string;
  /** More reply fields. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

// ── what a member knows ────────────────────────────────────────────────────────────────────────────────────────────

/** What this member knows of another, by heartbeats and position reports. */
export interface Peer {
  readonly id: number;
  readonly host: string;
  /** null: never heard. */
  readonly up: boolean | null;
  readonly state: number;
  readonly position: Position;
  readonly electionTime: Millis | null;
  readonly term: number;
  readonly syncingTo: string;
  readonly configVersion: number;
  readonly configTerm: number;
  readonly electable: boolean;
  readonly authenticated: boolean;
  readonly message: string;
  readonly pingMillis: Millis;
  readonly upSince: Millis;
  readonly lastReplyAt: Millis;
  readonly lastRequestAt: Millis;
  /** Any sign of life, position reports included; a primary counts its majority by it. */
  readonly lastSeenAt: Millis;
  /** Answered or failed rounds since heartbeats were restarted. */
  readonly rounds: number;
  readonly beat: {
    readonly token: number | null;
    readonly sentAt: Millis;
    readonly dueAt: Millis;
    readonly retriesLeft: number;
    readonly failedSince: Millis | null;
  };
}

export type ElectionReason =
  | 'electionTimeout'
  | 'priorityTakeover'
  | 'stepUpRequest'
  | 'stepUpRequestSkipDryRun'
  | 'catchupTakeover'
  | 'singleNodePromptElection';

export interface Election {
  readonly reason: ElectionReason;
  readonly dryRun: boolean;
  readonly term: number;
  readonly yes: readonly number[];
  readonly no: readonly number[];
  readonly pending: Readonly<Record<number, number>>;
  readonly deadline: Millis;
  /** The stepUp commands waiting for the outcome. */
  readonly askers: readonly number[];
}

export interface Leadership {
  readonly mode: 'catchUp' | 'draining' | 'writable';
  readonly term: number;
  readonly electedAt: Millis;
  /** First operation of the own term; nothing commits before it does. */
  readonly firstOp: OpTime | null;
  readonly catchUpDeadline: Millis | null;
  readonly caughtUpOps: number;
  readonly noopAsked: boolean;
  readonly steppingDown: StepDownAttempt | null;
}
export interface StepDownAttempt {
  readonly id: number;
  readonly force: boolean;
  readonly deadline: Millis;
  readonly until: Millis;
  readonly forShutdown: boolean;
}

export interface ElectionMetrics {
  readonly reason: ElectionReason;
  readonly at: Millis;
  readonly term: number;
  readonly committedAt: OpTime | null;
  readonly lastSeen: OpTime | null;
  readonly votesNeeded: number;
  readonly priority: number;
  readonly timeoutMillis: Millis;
  readonly priorPrimaryId: number | null;
  readonly caughtUpOps: number;
  readonly termStartAt: Millis | null;
  readonly majorityAt: Millis | null;
}
export interface VoteMetrics {
  readonly granted: boolean;
  readonly term: number;
  readonly at: Millis;
  readonly candidateId: number;
  readonly reason: string;
  readonly lastApplied: OpTime | null;
  readonly maxApplied: OpTime | null;
  readonly priority: number;
}

/** Following a sync source. */
export interface Sync {
  readonly source: string | null;
  readonly sourceId: number;
  /** The open fetch. */
  readonly token: number | null;
  readonly after: OpTime | null;
  /** A batch handed to storage and not yet confirmed. */
  readonly applying: OpTime | null;
  readonly retryAt: Millis;
  readonly failures: number;
  readonly sourceApplied: OpTime | null;
  /** Commit point of the source, usable as long as this log is known to be a prefix of the source's. */
  readonly sourceCommitted: Position;
  /** A batch waiting for its delay (secondaryDelaySecs). */
  readonly held: { readonly token: number; readonly upTo: OpTime; readonly at: Millis } | null;
  readonly fetchDeadline: Millis;
  readonly lastBatchAt: Millis;
  /** host → until when it is not chosen. */
  readonly denied: Readonly<Record<string, Millis>>;
  readonly forced: string | null;
  readonly reporting: number | null;
  readonly reportAgain: boolean;
  readonly nextReportAt: Millis;
  readonly info: string;
  readonly infoAt: Millis;
  readonly tooStale: boolean;
  /** After a rollback: not readable before this point. */
  readonly minValid: OpTime | null;
}

export interface InitialSync {
  readonly phase: 'choosing' | 'cloning' | 'applying';
  readonly token: number | null;
  readonly source: string | null;
  readonly attempt: number;
  readonly retryAt: Millis;
  readonly stopAt: OpTime | null;
  readonly sourceRbid: number;
  readonly startedAt: Millis;
}

/** A configuration on its way in; one at a time. */
export type Pending =
  | { readonly kind: 'start'; readonly token: number; readonly config: ReplicaSetConfig }
  | { readonly kind: 'heartbeat'; readonly token: number; readonly config: ReplicaSetConfig }
  | {
      readonly kind: 'initiate';
      readonly token: number;
      readonly config: ReplicaSetConfig;
      readonly id: number;
      readonly self: number;
      readonly quorum: Quorum | null;
    }
  | {
      readonly kind: 'reconfig';
      readonly token: number;
      readonly config: ReplicaSetConfig;
      readonly id: number;
      readonly force: boolean;
      readonly self: number;
      readonly quorum: Quorum | null;
    };
export interface Quorum {
  readonly pending: Readonly<Record<number, string>>;
  readonly answered: readonly string[];
  readonly failed: readonly { readonly host: string; readonly why: string }[];
  readonly deadline: Millis;
}

/** A reconfig command before its turn (the current configuration must be committed) or after it (propagation). */
export type ReconfigWait =
  | {
      readonly kind: 'precondition';
      readonly id: number;
      readonly document: unknown;
      readonly options: ReconfigOptions;
      readonly deadline: Millis | null;
    }
  | {
      readonly kind: 'propagation';
      readonly id: number;
      readonly version: number;
      readonly term: number;
      readonly deadline: Millis | null;
    };
export interface ReconfigOptions {
  readonly force: boolean;
  readonly maxTimeMillis: Millis | null;
  /** A default write concern was set explicitly, so the implicit one may change. */
  readonly explicitDefault: boolean;
  /** Name of the mode the default write concern uses, if any. */
  readonly defaultMode: string | null;
  /** For the version of a forced reconfig. */
  readonly jump: number;
}

/** Something waiting for the log: writers for their write concern, readers for theirs. */
export type Waiter =
  | {
      readonly kind: 'write';
      readonly id: number;
      readonly op: OpTime;
      readonly need:
        | { readonly kind: 'count'; readonly count: number }
        | { readonly kind: 'majority' }
        | { readonly kind: 'mode'; readonly mode: string };
      readonly deadline: Millis | null;
      readonly term: number;
    }
  | {
      readonly kind: 'read';
      readonly id: number;
      readonly s: number;
      readonly i: number;
      readonly committed: boolean;
    };

/** A fetch of another member that this one holds open. */
export interface Poller {
  readonly id: number;
  readonly request: FetchRequest;
  readonly deadline: Millis;
}

/** Everything one member knows and promised. Never changed in place. */
export interface State {
  readonly setName: string;
  readonly address: string;
  readonly configServer: boolean;
  /** Major series as a number (7, 8): some texts differ. */
  readonly series: number;
  readonly seed: number;
  readonly draws: number;
  /** Replaces the default clocks of a configuration that left them at their defaults. */
  readonly clocks: { readonly electionTimeoutMillis?: Millis; readonly heartbeatIntervalMillis?: Millis };
  readonly nextToken: number;
  readonly startedAt: Millis;

  readonly config: ReplicaSetConfig | null;
  /** Index of this member in the configuration; -1: not in it. */
  readonly self: number;
  readonly pending: Pending | null;
  readonly reconfigs: readonly ReconfigWait[];
  /** Commit point when the current configuration was installed: must be committed in it before the next one. */
  readonly configBase: OpTime | null;
  /** This member initiated the set and stands as soon as a majority has the configuration. */
  readonly prompt: boolean;

  readonly term: number;
  readonly vote: { readonly term: number; readonly candidate: number };
  readonly role: 'follower' | 'candidate' | 'leader';
  readonly follower: 'STARTUP' | 'STARTUP2' | 'SECONDARY' | 'RECOVERING' | 'ROLLBACK';
  readonly maintenance: number;
  readonly election: Election | null;
  readonly leader: Leadership | null;
  readonly primaryId: number;
  readonly peers: readonly Peer[];

  readonly applied: Position;
  readonly committed: Position;
  readonly rbid: number;
  readonly hasData: boolean;
  readonly sync: Sync;
  readonly initialSync: InitialSync | null;

  readonly electionAt: Millis | null;
  readonly priorityTakeoverAt: Millis | null;
  readonly catchUpTakeoverAt: Millis | null;
  /** After stepDown and freeze: not electable before. */
  readonly quietUntil: Millis;
  readonly quiescing: { readonly until: Millis } | null;

  readonly waiters: readonly Waiter[];
  /** Earliest deadline among them, as far as known: never later than the true one. */
  readonly waitersDueAt: Millis | null;
  readonly pollers: readonly Poller[];

  readonly candidateMetrics: ElectionMetrics | null;
  readonly voteMetrics: VoteMetrics | null;

  /** Moves on with every change that clients must hear of. */
  readonly topologyCounter: number;
  readonly shown: string;
  readonly shownState: StateName;

  /** When this member wants its next `tick`, if nothing happens before; null: never. */
  readonly dueAt: Millis | null;
}

// ── in and out ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** The member's own log as it is at the moment of the call. Reading only. */
export interface LogView {
  oldest(): OpTime | null;
  last(): Position;
  /** Newest entry at or before the given place. */
  atOrBefore(op: OpTime): OpTime | null;
}

export type Command =
  | { readonly kind: 'initiate'; readonly document: unknown; readonly newSetId: string }
  | { readonly kind: 'reconfig'; readonly document: unknown; readonly options: ReconfigOptions }
  | {
      readonly kind: 'stepDown';
      readonly secs: number;
      /** null: the default, 10 s or, forced, none. */
      readonly catchUpSecs: number | null;
      readonly force: boolean;
    }
  | { readonly kind: 'freeze'; readonly secs: number }
  | { readonly kind: 'maintenance'; readonly on: boolean }
  | { readonly kind: 'syncFrom'; readonly host: string }
  | { readonly kind: 'abortCatchUp' }
  | { readonly kind: 'stepUp'; readonly skipDryRun: boolean }
  | { readonly kind: 'shutdown'; readonly force: boolean; readonly timeoutMillis: Millis };

/** Something that happened. Every input comes with the time it happened at. */
export type Input =
  | {
      readonly kind: 'start';
      readonly config: ReplicaSetConfig | null;
      readonly vote: { readonly term: number; readonly candidate: number } | null;
      /** An initial sync was under way when the process stopped. */
      readonly initialSyncPending: boolean;
      readonly hasData: boolean;
      readonly rbid: number;
    }
  | { readonly kind: 'tick' }
  /** Answers a `findSelf` output: indexes of the configuration's members that are this process. */
  | { readonly kind: 'selfFound'; readonly token: number; readonly indexes: readonly number[] }
  | { readonly kind: 'request'; readonly id: number; readonly request: PeerRequest }
  | { readonly kind: 'reply'; readonly token: number; readonly reply: PeerReply }
  | { readonly kind: 'command'; readonly id: number; readonly command: Command }
  /** The log grew: a local write, a batch, the no-op asked for. */
  | { readonly kind: 'applied'; readonly position: Position; readonly hasData: boolean }
  | { readonly kind: 'rolledBack'; readonly position: Position; readonly rbid: number }
  | {
      readonly kind: 'cloned';
      readonly token: number;
      readonly begin: Position;
      readonly stopAt: OpTime;
      readonly sourceRbid: number;
    }
  | { readonly kind: 'cloneFailed'; readonly token: number; readonly message: string }
  | { readonly kind: 'wait'; readonly waiter: Waiter }
  | { readonly kind: 'cancelWait'; readonly id: number };

export type Severity = 'F' | 'E' | 'W' | 'I' | 'D1';

/** Something to do, in order. Persisting outputs must be durable before the next output is carried out. */
export type Output =
  | { readonly kind: 'saveConfig'; readonly config: ReplicaSetConfig }
  | { readonly kind: 'saveVote'; readonly vote: { readonly term: number; readonly candidate: number } }
  | { readonly kind: 'findSelf'; readonly token: number; readonly config: ReplicaSetConfig }
  | {
      readonly kind: 'send';
      readonly token: number;
      readonly to: string;
      readonly request: PeerRequest;
      readonly timeout: Millis;
    }
  | { readonly kind: 'answerPeer'; readonly id: number; readonly reply: PeerReply }
  /** Answer a held fetch from the log as it is now. */
  | {
      readonly kind: 'serveLog';
      readonly id: number;
      readonly after: OpTime;
      readonly metadata: SyncMetadata;
    }
  | {
      readonly kind: 'answer';
      readonly id: number;
      readonly refusal: Refusal | null;
      readonly fields?: Readonly<Record<string, unknown>>;
    }
  | { readonly kind: 'appendNoop'; readonly o: Readonly<Record<string, unknown>>; readonly term: number }
  /** Apply the batch that came with the reply of this token. */
  | { readonly kind: 'apply'; readonly token: number; readonly upTo: OpTime }
  | { readonly kind: 'rollback'; readonly to: OpTime }
  | { readonly kind: 'clone'; readonly token: number; readonly from: string; readonly attempt: number }
  | { readonly kind: 'abortClone' }
  | { readonly kind: 'initialSyncDone' }
  | { readonly kind: 'stable'; readonly op: OpTime }
  | { readonly kind: 'leftPrimary'; readonly reason: 'stepdown' | 'rollback' | 'initialSync' }
  /** Entering ROLLBACK or REMOVED: client connections are closed. */
  | { readonly kind: 'closeConnections' }
  | { readonly kind: 'topology'; readonly counter: number }
  | { readonly kind: 'stateChanged'; readonly from: StateName; readonly to: StateName }
  | {
      readonly kind: 'log';
      readonly severity: Severity;
      readonly component: string;
      readonly id: number;
      readonly message: string;
      readonly attr?: Readonly<Record<string, unknown>>;
    }
  /** Cannot go on (rollback past the commit point, ten failed initial syncs). */
  | { readonly kind: 'fatal'; readonly message: string };
