import type { Millis } from '../../base/units.ts';

/** Limits of the server on a configuration. */
export const MAX_MEMBERS = 50;
export const MAX_VOTERS = 7;
/** The term of a configuration that was forced, and of an operation written before the first election. */
export const NO_TERM = -1;
/** What a member without configuration gives as its version. */
export const NO_VERSION = -2;

/** Defaults of `settings`; a value equal to its default may be overridden by the process (tests run faster clocks). */
export const DEFAULT_SETTINGS: Settings = {
  chainingAllowed: true,
  heartbeatIntervalMillis: 2_000,
  heartbeatTimeoutSecs: 10,
  electionTimeoutMillis: 10_000,
  catchUpTimeoutMillis: -1,
  catchUpTakeoverDelayMillis: 30_000,
  getLastErrorModes: {},
  replicaSetId: null,
};

export interface MemberConfig {
  readonly id: number;
  readonly host: string;
  readonly arbiterOnly: boolean;
  readonly buildIndexes: boolean;
  readonly hidden: boolean;
  readonly priority: number;
  readonly tags: Readonly<Record<string, string>>;
  readonly horizons: Readonly<Record<string, string>> | null;
  readonly secondaryDelaySecs: number;
  readonly votes: number;
  /** Joined by reconfig and not yet through its initial sync: counts as votes 0 and priority 0. */
  readonly newlyAdded: boolean;
}

export interface Settings {
  readonly chainingAllowed: boolean;
  readonly heartbeatIntervalMillis: Millis;
  readonly heartbeatTimeoutSecs: number;
  readonly electionTimeoutMillis: Millis;
  /** -1: no limit, 0: no catch-up. */
  readonly catchUpTimeoutMillis: Millis;
  readonly catchUpTakeoverDelayMillis: Millis;
  readonly getLastErrorModes: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** ObjectId as hex; null only while a configuration is being made. */
  readonly replicaSetId: string | null;
}

/** A replica set configuration. Arithmetic over it is in this file, its rules are in config-rules.ts. */
export interface ReplicaSetConfig {
  readonly setName: string;
  readonly version: number;
  /** Term of the primary that installed it; NO_TERM when forced. */
  readonly term: number;
  readonly members: readonly MemberConfig[];
  readonly configsvr: boolean;
  readonly writeConcernMajorityJournalDefault: boolean;
  readonly settings: Settings;
}

/** Votes as they count: newly added members have none yet. */
export const isVoter = (member: MemberConfig): boolean => member.votes > 0 && !member.newlyAdded;
/** Priority as it counts. */
export const priorityOf = (member: MemberConfig): number => (member.newlyAdded ? 0 : member.priority);
/** May become primary by its configuration. */
export const isElectable = (member: MemberConfig): boolean => !member.arbiterOnly && priorityOf(member) > 0;

/** Lists of voters by their configuration, which never changes. */
const VOTERS = new WeakMap<ReplicaSetConfig, readonly MemberConfig[]>();

export function voters(config: ReplicaSetConfig): readonly MemberConfig[] {
  const known = VOTERS.get(config);
  if (known !== undefined) return known;
  const list = config.members.filter(isVoter);
  VOTERS.set(config, list);
  return list;
}

/** Votes needed to win an election. */
export const majorityVotes = (config: ReplicaSetConfig): number => Math.floor(voters(config).length / 2) + 1;

/** Members that must have an operation before it is committed. */
export function writeMajority(config: ReplicaSetConfig): number {
  return Math.min(majorityVotes(config), writableVoters(config));
}

/** Voters that hold data. */
export const writableVoters = (config: ReplicaSetConfig): number =>
  voters(config).filter((member) => !member.arbiterOnly).length;

/**
 * The write concern an unset default means: majority, except 1 in sets whose arbiters could make majority writes
 * hang with one data member down.
 */
export function implicitMajority(config: ReplicaSetConfig): boolean {
  const arbiters = config.members.some((member) => member.arbiterOnly);
  return !(arbiters && writableVoters(config) <= majorityVotes(config));
}

/** Later configuration: by term, then version; a forced one (no term) is compared by version alone. */
export function compareConfigs(
  a: { readonly version: number; readonly term: number },
  b: { readonly version: number; readonly term: number },
): number {
  if (a.term === NO_TERM || b.term === NO_TERM) return a.version - b.version;
  return a.term - b.term || a.version - b.version;
}

/** `{version: 3, term: 2}`, as refusals and vote reasons print it. */
export const configText = (config: { readonly version: number; readonly term: number }): string =>
  `{version: ${config.version}, term: ${config.term}}`;
