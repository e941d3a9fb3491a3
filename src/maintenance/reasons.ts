/** What only availability stands against: force does not look at it. Locks, outages and what is not known it waits for too. */
const AVAILABILITY = [
  'TooManyUnavailableVDisks',
  'TooManyUnavailableStateStorageRings',
  'DisabledNodesLimitReached',
  'TenantDisabledNodesLimitReached',
  'SysTabletsNodeLimitReached',
  'RouterLimitReached',
  'WouldLoseMajority',
  'TooManyUnavailableMembers',
  'WriteConcernUnsatisfiable',
  'NoElectableMember',
  'LastCopy',
  'OnlyMember',
  'TooManyOnOneHost',
  'ConfigServersUnavailable',
  'NoParity',
] as const;

/** Stable names of what stands in the way; the same in REST, CLI, status and (mapped) in gRPC. */
const REASONS = [
  ...AVAILABILITY,
  'TooManyTogether',
  'PrimaryStepsDown',
  'Locked',
  'HigherPriorityPending',
  'Announced',
  'Settling',
  'NodeUnknown',
  'WrongRequest',
  'NoSuchHost',
  'NoSuchNode',
  'NoSuchDisk',
  'NoSuchService',
  'OneAtATime',
  'InFlightCap',
  'Disabled',
  'Evicting',
  'WaitsForWindow',
  'AskAgain',
] as const;
export type ReasonCode = (typeof REASONS)[number];

/** Waiting does not help: only another mode, another request or another topology does. */
const FINAL: ReadonlySet<string> = new Set<ReasonCode>([
  'TooManyOnOneHost',
  'TooManyTogether',
  'WrongRequest',
  'NoParity',
  'NoSuchHost',
  'NoSuchNode',
  'NoSuchDisk',
  'NoSuchService',
]);

/** Whether an action that is refused with this reason waits in vain. */
export const isFinal = (reason: ReasonCode): boolean => FINAL.has(reason);

const OVERRIDDEN: ReadonlySet<string> = new Set(AVAILABILITY);

/** Whether the mode `force` would not be refused for this reason. */
export const forceHelps = (reason: ReasonCode): boolean => OVERRIDDEN.has(reason);

const KNOWN: ReadonlySet<string> = new Set(REASONS);

/** Whether a text is one of the reasons. */
export const isReason = (text: string): text is ReasonCode => KNOWN.has(text);
