/** The provider's brain: pure decisions about one cluster. */
export { type AuthorityHolder, type AuthorityPhase, holdersOf, lackingIn, trustOf } from './authority.ts';
export { certificateNeed, takesOnline } from './certificates.ts';
export type * from './decisions.ts';
export { changeRemarks, type DesiredSource, desiredFrom, remarks, unsupportedFeatures } from './desired.ts';
export { type Disruption, disruptionsOf, underWay } from './disruption.ts';
export { type EventDraft, eventsFor } from './events.ts';
export * from './facts.ts';
export { guard, type Refusal } from './guard.ts';
export { stateOf, views } from './interpret.ts';
export { advance } from './learn.ts';
export * from './limits.ts';
export { taskText } from './maintained.ts';
export { clusterOfGroup, groupNames, type NamedSpec, nameClash } from './nameClash.ts';
export { OPERATION_TYPES, operationIdle, operationRefusal, operationWait } from './operations/index.ts';
export { loginsNow } from './operations/rotateUsers.ts';
export { operationStatus } from './operations/status.ts';
export { plan } from './plan.ts';
export { oldestVersion, systemUsersHash, userHash } from './planners/users.ts';
export { type Foreseen, foresee, type Preview, type PreviewStep, preview } from './preview.ts';
export { recordOf } from './record.ts';
export type * from './snapshot.ts';
export {
  activatedSnapshot,
  cacheGb,
  configFingerprint,
  goalOf,
  nextTlsMode,
  type SnapshotInputs,
  snapshotInputs,
} from './snapshotInputs.ts';
export { everyMember, initialState, isInfrastructure, memberOf } from './state.ts';
export { causedByUs, knownStatus, type StatusInput, status } from './status.ts';
export { applyOutcome, cancelStep, EFFORTS, startStep, targetOf } from './steps.ts';
export * from './topology.ts';
export type * from './types.ts';
export { activeOverride } from './windows.ts';
