/** What members say to each other. */
import type { Millis } from '../../base/units.ts';
import type { ReplicaSetConfig } from './config.ts';
import type { OpTime, Position } from './optime.ts';

export interface HeartbeatRequest {
  readonly kind: 'heartbeat';
  readonly setName: string;
  /** NO_VERSION (-2): the sender has none. */
  readonly configVersion: number;
  readonly configTerm: number;
  readonly from: string;
  readonly fromId: number;
  readonly term: number;
  readonly primaryId: number;
  /** Part of the quorum check of replSetInitiate: answer whether there is data. */
  readonly checkEmpty: boolean;
  readonly replicaSetId: string | null;
}
export interface HeartbeatReply {
  readonly kind: 'heartbeat';
  readonly setName: string;
  readonly state: number;
  readonly configVersion: number;
  readonly configTerm: number;
  readonly term: number;
  readonly primaryId: number;
  readonly position: Position;
  readonly committed: OpTime | null;
  readonly syncingTo: string;
  readonly electionTime: Millis | null;
  readonly electable: boolean;
  readonly hasData: boolean;
  readonly replicaSetId: string | null;
  /** Only when newer than the caller's. */
  readonly config: ReplicaSetConfig | null;
}
export interface VoteRequest {
  readonly kind: 'vote';
  readonly setName: string;
  readonly dryRun: boolean;
  readonly term: number;
  readonly candidateIndex: number;
  readonly configVersion: number;
  readonly configTerm: number;
  readonly lastApplied: OpTime | null;
}
export interface VoteReply {
  readonly kind: 'vote';
  readonly term: number;
  readonly granted: boolean;
  readonly reason: string;
}
/** Positions the sender knows of itself and of those that sync through it, told to its sync source. */
export interface PositionRequest {
  readonly kind: 'positions';
  readonly term: number;
  readonly configVersion: number;
  readonly positions: readonly (Position & { readonly memberId: number })[];
}
export interface PositionReply {
  readonly kind: 'positions';
  readonly term: number;
}
/** Asks for entries after `after`; held open until there are some, or news, or `maxWait` passed. */
export interface FetchRequest {
  readonly kind: 'fetch';
  readonly after: OpTime;
  readonly knownCommitted: OpTime | null;
  readonly knownPrimary: number;
  readonly term: number;
  readonly fromId: number;
  readonly maxWait: Millis;
}
/** What the source says of itself with every batch. */
export interface SyncMetadata {
  readonly term: number;
  readonly primaryId: number;
  readonly selfId: number;
  readonly committed: OpTime | null;
  readonly committedWall: Millis;
  readonly lastApplied: OpTime | null;
  readonly rbid: number;
  readonly syncSource: string;
  readonly configVersion: number;
}
export interface FetchReply {
  readonly kind: 'fetch';
  readonly metadata: SyncMetadata;
  /**
   * `entries`: the source has `after`; `upTo` is the newest optime of the batch (null: nothing new). `diverged`: it lacks
   * `after`; `ancestor` is its newest entry before. `tooStale`: its log begins after `after`.
   */
  readonly result:
    | { readonly kind: 'entries'; readonly upTo: OpTime | null; readonly count: number }
    | { readonly kind: 'diverged'; readonly ancestor: OpTime | null }
    | { readonly kind: 'tooStale' };
}
/** A hand-off: stand for election now. */
export interface StepUpRequest {
  readonly kind: 'stepUp';
  readonly skipDryRun: boolean;
}
export interface DoneReply {
  readonly kind: 'done';
}
export interface FailedReply {
  readonly kind: 'failed';
  readonly code: number;
  readonly codeName: string;
  readonly message: string;
  /** No answer at all (refused, reset, timed out). */
  readonly network: boolean;
}
export type PeerRequest = HeartbeatRequest | VoteRequest | PositionRequest | FetchRequest | StepUpRequest;
export type PeerReply = HeartbeatReply | VoteReply | PositionReply | FetchReply | DoneReply | FailedReply;
