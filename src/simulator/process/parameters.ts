/** Server parameters: what exists, its default, and when it may be set. */
import type { ParsedOptions } from '../contracts.ts';
import { badOption } from './options.ts';

export interface ParameterRow {
  readonly name: string;
  readonly value: unknown;
  readonly startup: boolean;
  readonly runtime: boolean;
}

const both = (name: string, value: unknown): ParameterRow => ({ name, value, startup: true, runtime: true });
const atStart = (name: string, value: unknown): ParameterRow => ({
  name,
  value,
  startup: true,
  runtime: false,
});

/** Parameters with their defaults. `tlsMode`, `clusterAuthMode` and the compatibility version are read from the process instead. */
export const PARAMETERS: readonly ParameterRow[] = [
  atStart('enableLocalhostAuthBypass', true),
  atStart('enableTestCommands', false),
  atStart('authenticationMechanisms', ['MONGODB-X509', 'SCRAM-SHA-1', 'SCRAM-SHA-256']),
  both('transactionLifetimeLimitSeconds', 60),
  both('ttlMonitorEnabled', true),
  both('ttlMonitorSleepSecs', 60),
  both('notablescan', false),
  both('cursorTimeoutMillis', 600_000),
  both(
    'shutdownTimeoutMillisForSignaledShutdown',
    Number(process.env['BELAY_SIM_SHUTDOWN_MILLIS'] ?? 15_000),
  ),
  both(
    'mongosShutdownTimeoutMillisForSignaledShutdown',
    Number(process.env['BELAY_SIM_SHUTDOWN_MILLIS'] ?? 15_000),
  ),
  both('defaultFindReplicaSetHostTimeoutMS', 15_000),
  atStart('opensslCipherConfig', ''),
  atStart('tlsX509ClusterAuthDNOverride', ''),
  atStart('oplogFetcherUsesExhaust', true),
  both('warmMinConnectionsInShardingTaskExecutorPoolOnStartup', true),
  both('logLevel', 0),
  both('logComponentVerbosity', {}),
  atStart('disableLogicalSessionCacheRefresh', false),
  atStart('localLogicalSessionTimeoutMinutes', 30),
  both('scramIterationCount', 10_000),
  both('scramSHA256IterationCount', 15_000),
  both('authFailedDelayMs', 0),
  both('userCacheInvalidationIntervalSecs', 30),
  both('quiet', false),
  both('requireApiVersion', false),
  both('internalQueryPlanEvaluationMaxResults', 101),
  both('internalQueryMaxBlockingSortMemoryUsageBytes', 104_857_600),
  both('internalQueryExecYieldIterations', 1000),
  both('maxTransactionLockRequestTimeoutMillis', 5),
  both('maxAcceptableLogicalClockDriftSecs', 31_536_000),
  both('periodicNoopIntervalSecs', 10),
  atStart('writePeriodicNoops', true),
  both('initialSyncSourceReadPreference', ''),
  both('numInitialSyncAttempts', 10),
  both('maxSyncSourceLagSecs', 30),
  both('changeSyncSourceThresholdMillis', 5),
  both('maxNumSyncSourceChangesPerHour', 3),
  both('rollbackTimeLimitSecs', 86_400),
  both('createRollbackDataFiles', true),
  both('priorityTakeoverFreshnessWindowSeconds', 2),
  both('catchUpTakeoverDelayMillis', 30_000),
  atStart('replWriterThreadCount', 16),
  atStart('replBatchLimitBytes', 104_857_600),
  both('syncdelay', 60),
  both('journalCommitInterval', 100),
  both('wiredTigerConcurrentReadTransactions', 128),
  both('wiredTigerConcurrentWriteTransactions', 128),
  atStart('wiredTigerCursorCacheSize', -100),
  both('diagnosticDataCollectionEnabled', true),
  both('diagnosticDataCollectionDirectorySizeMB', 200),
  both('diagnosticDataCollectionPeriodMillis', 1000),
  both('enableFlowControl', true),
  both('flowControlTargetLagSeconds', 10),
  both('minSnapshotHistoryWindowInSeconds', 300),
  both('maxIndexBuildMemoryUsageMegabytes', 200),
  both('indexMaxNumGeneratedKeysPerDocument', 100_000),
  both('profilingRateLimit', 1),
  both('honorSystemUmask', false),
  both('tcmallocReleaseRate', 1),
  both('connPoolMaxConnsPerHost', 200),
  both('connPoolMaxInUseConnsPerHost', 2147483647),
  both('globalConnPoolIdleTimeoutMinutes', 2147483647),
  both('connPoolMaxShardedConnsPerHost', 200),
  atStart('ShardingTaskExecutorPoolMinSize', 1),
  both('rangeDeleterBatchSize', 2147483647),
  both('suppressNoTLSPeerCertificateWarning', false),
  atStart('tlsWithholdClientCertificate', false),
  atStart('ldapUserCacheInvalidationInterval', 30),
  atStart('watchdogPeriodSeconds', -1),
  both('replSetResizeOplogMaxMB', 0),
  both('heapProfilingEnabled', false),
  both('defaultMaxTimeMS', { readOperations: 0 }),
  both('maxValidateMemoryUsageMB', 200),
  both('allowDiskUseByDefault', true),
  both('enableDetailedConnectionHealthMetricLogLines', true),
  both('auditAuthorizationSuccess', false),
];

const ROWS = new Map(PARAMETERS.map((row) => [row.name, row]));

/** The row of a parameter, if there is such a one. */
export const parameterRow = (name: string): ParameterRow | undefined => ROWS.get(name);

/** Start-up values over defaults. An unknown or unfit one throws OptionsError (exit 2). */
export function startParameters(options: ParsedOptions): Map<string, unknown> {
  const values = new Map<string, unknown>(PARAMETERS.map((row) => [row.name, row.value]));
  const given = (options['setParameter'] ?? {}) as Record<string, string>;
  for (const [name, raw] of Object.entries(given)) {
    if (name === 'tlsMode' || name === 'sslMode' || name === 'clusterAuthMode') {
      values.set(name, raw);
      continue;
    }
    const row = ROWS.get(name);
    if (row === undefined) throw badOption(`Illegal --setParameter parameter: "${name}"`);
    if (!row.startup) throw badOption(`Cannot use --setParameter to set "${name}" at startup`);
    values.set(name, readText(row, raw));
  }
  return values;
}

function readText(row: ParameterRow, raw: string): unknown {
  const bad = () => badOption(`Invalid value for parameter ${row.name}: ${raw}`);
  if (typeof row.value === 'boolean') {
    if (raw === 'true' || raw === '1') return true;
    if (raw === 'false' || raw === '0') return false;
    throw bad();
  }
  if (typeof row.value === 'number') {
    const number = Number(raw);
    if (raw.trim() === '' || !Number.isFinite(number)) throw bad();
    return number;
  }
  if (Array.isArray(row.value)) return raw.split(',').map((item) => item.trim());
  if (typeof row.value === 'object') {
    try {
      return JSON.parse(raw) as unknown;
    } catch {
      throw bad();
    }
  }
  return raw;
}
