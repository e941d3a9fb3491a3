/** The server's error codes and names, and short ways to make a refusal. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';

/** Names of the codes used here; a code without an entry is called `Location<code>`. */
const CODE_NAMES: Readonly<Record<number, string>> = {
  1: 'InternalError',
  2: 'BadValue',
  4: 'NoSuchKey',
  6: 'HostUnreachable',
  7: 'HostNotFound',
  8: 'UnknownError',
  9: 'FailedToParse',
  10: 'CannotMutateObject',
  11: 'UserNotFound',
  12: 'UnsupportedFormat',
  13: 'Unauthorized',
  14: 'TypeMismatch',
  15: 'Overflow',
  16: 'InvalidLength',
  17: 'ProtocolError',
  18: 'AuthenticationFailed',
  20: 'IllegalOperation',
  21: 'EmptyArrayOperation',
  22: 'InvalidBSON',
  23: 'AlreadyInitialized',
  24: 'LockTimeout',
  26: 'NamespaceNotFound',
  27: 'IndexNotFound',
  28: 'PathNotViable',
  29: 'NonExistentPath',
  31: 'RoleNotFound',
  33: 'PrivilegeNotFound',
  34: 'CannotBackfillArray',
  40: 'ConflictingUpdateOperators',
  43: 'CursorNotFound',
  47: 'NoMatchingDocument',
  46: 'LockBusy',
  48: 'NamespaceExists',
  50: 'MaxTimeMSExpired',
  52: 'DollarPrefixedFieldName',
  53: 'InvalidIdField',
  54: 'NotSingleValueField',
  56: 'EmptyFieldName',
  57: 'DottedFieldName',
  59: 'CommandNotFound',
  61: 'ShardKeyNotFound',
  62: 'OplogOperationUnsupported',
  64: 'WriteConcernFailed',
  65: 'MultipleErrorsOccurred',
  66: 'ImmutableField',
  67: 'CannotCreateIndex',
  68: 'IndexAlreadyExists',
  72: 'InvalidOptions',
  73: 'InvalidNamespace',
  74: 'NodeNotFound',
  76: 'NoReplicationEnabled',
  79: 'UnknownReplWriteConcern',
  85: 'IndexOptionsConflict',
  86: 'IndexKeySpecsConflict',
  89: 'NetworkTimeout',
  91: 'ShutdownInProgress',
  93: 'InvalidReplicaSetConfig',
  94: 'NotYetInitialized',
  95: 'NotSecondary',
  96: 'OperationFailed',
  97: 'NoProjectionFound',
  100: 'UnsatisfiableWriteConcern',
  112: 'WriteConflict',
  115: 'CommandNotSupported',
  117: 'ConflictingOperationInProgress',
  121: 'DocumentValidationFailure',
  125: 'CommandFailed',
  133: 'FailedToSatisfyReadPreference',
  134: 'ReadConcernMajorityNotAvailableYet',
  136: 'CappedPositionLost',
  143: 'CursorInUse',
  146: 'ExceededMemoryLimit',
  150: 'StaleEpoch',
  165: 'ViewDepthLimitExceeded',
  166: 'CommandNotSupportedOnView',
  167: 'OptionNotSupportedOnView',
  168: 'InvalidPipelineOperator',
  175: 'QueryPlanKilled',
  189: 'PrimarySteppedDown',
  193: 'ShardingStateNotInitialized',
  197: 'InvalidIndexSpecificationOption',
  206: 'NoSuchSession',
  211: 'KeyNotFound',
  217: 'IncompleteTransactionHistory',
  225: 'TransactionTooOld',
  228: 'TransactionAborted',
  234: 'RetryChangeStream',
  237: 'CursorKilled',
  238: 'NotImplemented',
  239: 'SnapshotTooOld',
  246: 'SnapshotUnavailable',
  250: 'TransactionCoordinatorSteppingDown',
  251: 'NoSuchTransaction',
  256: 'TransactionCommitted',
  257: 'TransactionTooLarge',
  258: 'UnknownFeatureCompatibilityVersion',
  260: 'InvalidResumeToken',
  261: 'TooManyLogicalSessions',
  262: 'ExceededTimeLimit',
  263: 'OperationNotSupportedInTransaction',
  267: 'PreparedTransactionInProgress',
  269: 'DataModifiedByRepair',
  272: 'NoShardingEnabled',
  280: 'ChangeStreamFatalError',
  286: 'ChangeStreamHistoryLost',
  290: 'TransactionExceededLifetimeLimitSeconds',
  291: 'NoQueryExecutionPlans',
  292: 'QueryExceededMemoryLimitNoDiskUseAllowed',
  310: 'CannotDropShardKeyIndex',
  314: 'ObjectIsBusy',
  317: 'ConnectionPoolExpired',
  322: 'APIVersionError',
  323: 'APIStrictError',
  332: 'CannotDowngrade',
  352: 'UnsupportedOpQueryCommand',
  358: 'InternalTransactionNotSupported',
  359: 'CannotConvertIndexToUnique',
  361: 'ResumeTenantChangeStream',
  384: 'ConnectionError',
  391: 'ReauthenticationRequired',
  400: 'CannotUpgrade',
  402: 'ResourceExhausted',
  406: 'TransactionAPIMustRetryTransaction',
  407: 'TransactionAPIMustRetryCommit',
  462: 'IngressRequestRateLimitExceeded',
  9001: 'SocketException',
  10003: 'CannotGrowDocumentInCappedNamespace',
  10107: 'NotWritablePrimary',
  10334: 'BSONObjectTooLarge',
  11000: 'DuplicateKey',
  11600: 'InterruptedAtShutdown',
  11601: 'Interrupted',
  11602: 'InterruptedDueToReplStateChange',
  13297: 'DatabaseDifferCase',
  13388: 'StaleConfig',
  13435: 'NotPrimaryNoSecondaryOk',
  13436: 'NotPrimaryOrSecondary',
  17280: 'KeyTooLong',
  31082: 'SearchNotEnabled',
  50915: 'BackupCursorOpenConflictWithCheckpoint',
};

/** The server's name of an error code: `DuplicateKey`, or `Location40414` where there is none. */
export function codeName(code: number): string {
  return CODE_NAMES[code] ?? `Location${code}`;
}

/** A refusal with the name that belongs to the code. */
export function fail(code: number, message: string, extra: Document = {}, labels?: string[]): ServerError {
  return new ServerError(code, codeName(code), message, extra, labels);
}

/** Throws the reason of an aborted signal as a ServerError: 50, 11600, 11601 or 11602 as given by whoever aborted. */
export function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw interruption(signal);
}

/** The ServerError behind an aborted signal; anything unknown is 11601 Interrupted. */
export function interruption(signal: AbortSignal): ServerError {
  const reason: unknown = signal.reason;
  return reason instanceof ServerError ? reason : fail(11601, 'operation was interrupted');
}

/** Any failure as a ServerError, so that it can become an entry of `writeErrors`. */
export function asServerError(failure: unknown): ServerError {
  if (failure instanceof ServerError) return failure;
  return fail(1, failure instanceof Error ? failure.message : String(failure));
}
