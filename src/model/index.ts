/** The language: kinds, one schema each, and everything derived from it. Pure: no I/O, no clock, no Node types. */
export * from './catalog.ts';
export * from './explain.ts';
export { type DeepReadonly, lineText } from './fields.ts';
export type { SecretDocument } from './frontdoor/core.ts';
export { KEPT_FIELDS_ANNOTATION, ORIGIN_ANNOTATION, type ReportEntry } from './frontdoor/foreign.ts';
export { convertMongodbCom, keptFields, MONGODB_COM } from './frontdoor/mongodbCom.ts';
export { publicRules } from './frontdoor/publicRules.ts';
export * from './kinds/backup.ts';
export * from './kinds/event.ts';
export * from './kinds/host.ts';
export * from './kinds/maintenance.ts';
export * from './kinds/mongodb.ts';
export { MAX_SHARDS } from './kinds/mongodb.ts';
export type {
  BackupPolicy,
  DataAccess,
  DataSource,
  Exposure,
  Maintenance,
  MaintenanceWindow,
  Placement,
} from './kinds/mongodbParts.ts';
export { MAX_SET_NAME_LENGTH, MAX_SHARDED_NAME_LENGTH, NO_ARBITERS } from './kinds/mongodbRules.ts';
export * from './kinds/mongodbStatus.ts';
export * from './kinds/operation.ts';
export * from './kinds/security.ts';
export { healthProblems, START_AHEAD, startProblems } from './kinds/topologyRules.ts';
export * from './kinds/user.ts';
export * from './managedKeys.ts';
export * from './meta.ts';
export * from './network.ts';
export type { Warning } from './problems.ts';
export { problemsFromIssues } from './problems.ts';
export * from './quantity.ts';
export { redact, redactText } from './redact.ts';
export * from './reference.ts';
export * from './registry.ts';
export * from './schedule.ts';
export * from './schema.ts';
export * from './validate.ts';
export * from './yaml.ts';
