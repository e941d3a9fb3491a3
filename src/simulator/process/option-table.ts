/** The options of `mongod` and `mongos`: names on the command line and in the config file. One row, one option. */

/** Which executable is played. */
export type Program = 'mongod' | 'mongos';

export type OptionType = 'string' | 'int' | 'double' | 'bool' | 'list';

export interface OptionRow {
  /** Place in the config file, dots between levels. */
  readonly path: string;
  /** Name on the command line without dashes; absent when there is none. */
  readonly cli?: string;
  readonly type: OptionType;
  /** On the command line the option stands alone and means this value. */
  readonly given?: unknown;
  readonly choices?: readonly string[];
  readonly min?: number;
  readonly max?: number;
  /** Older command-line names of the same option. */
  readonly aliases?: readonly string[];
  /** Older config-file names of the same option. */
  readonly oldPaths?: readonly string[];
  readonly secret?: boolean;
  /** Series in which the option was removed; unknown from then on. */
  readonly removedIn?: string;
  /** Series the option came with. */
  readonly since?: string;
  /** Only Percona builds know it. */
  readonly percona?: boolean;
  /** Only this program has it; absent: both. */
  readonly only?: Program;
}

const TLS_MODES = ['disabled', 'allowTLS', 'preferTLS', 'requireTLS', 'allowSSL', 'preferSSL', 'requireSSL'];

const text = (path: string, cli?: string, more: Partial<OptionRow> = {}): OptionRow => ({
  path,
  ...(cli === undefined ? {} : { cli }),
  type: 'string',
  ...more,
});
const flag = (path: string, cli?: string, more: Partial<OptionRow> = {}): OptionRow => ({
  path,
  ...(cli === undefined ? {} : { cli }),
  type: 'bool',
  given: true,
  ...more,
});
const int = (path: string, cli?: string, more: Partial<OptionRow> = {}): OptionRow => ({
  path,
  ...(cli === undefined ? {} : { cli }),
  type: 'int',
  ...more,
});
const tls = (
  name: string,
  cli: string,
  old: string,
  oldCli: string,
  more: Partial<OptionRow> = {},
): OptionRow => ({
  path: `net.tls.${name}`,
  cli,
  type: 'string',
  aliases: [oldCli],
  oldPaths: [`net.ssl.${old}`],
  ...more,
});
const tlsFlag = (name: string, cli: string, oldCli: string): OptionRow => ({
  path: `net.tls.${name}`,
  cli,
  type: 'bool',
  given: true,
  aliases: [oldCli],
  oldPaths: [`net.ssl.${name}`],
});

const NET: readonly OptionRow[] = [
  int('net.port', 'port', { min: 0, max: 65535 }),
  text('net.bindIp', 'bind_ip'),
  flag('net.bindIpAll', 'bind_ip_all'),
  int('net.maxIncomingConnections', 'maxConns', { min: 5 }),
  flag('net.ipv6', 'ipv6'),
  int('net.listenBacklog', 'listenBacklog'),
  flag('net.wireObjectCheck', 'objcheck'),
  text('net.compression.compressors', 'networkMessageCompressors'),
  flag('net.unixDomainSocket.enabled', 'nounixsocket', { given: false }),
  text('net.unixDomainSocket.pathPrefix', 'unixSocketPrefix'),
  int('net.unixDomainSocket.filePermissions', 'filePermissions'),
  tls('mode', 'tlsMode', 'mode', 'sslMode', { choices: TLS_MODES }),
  tls('certificateKeyFile', 'tlsCertificateKeyFile', 'PEMKeyFile', 'sslPEMKeyFile'),
  tls('certificateKeyFilePassword', 'tlsCertificateKeyFilePassword', 'PEMKeyPassword', 'sslPEMKeyPassword', {
    secret: true,
  }),
  tls('clusterFile', 'tlsClusterFile', 'clusterFile', 'sslClusterFile'),
  tls('clusterPassword', 'tlsClusterPassword', 'clusterPassword', 'sslClusterPassword', { secret: true }),
  tls('CAFile', 'tlsCAFile', 'CAFile', 'sslCAFile'),
  tls('clusterCAFile', 'tlsClusterCAFile', 'clusterCAFile', 'sslClusterCAFile'),
  tls('CRLFile', 'tlsCRLFile', 'CRLFile', 'sslCRLFile'),
  tls('disabledProtocols', 'tlsDisabledProtocols', 'disabledProtocols', 'sslDisabledProtocols'),
  tlsFlag(
    'allowConnectionsWithoutCertificates',
    'tlsAllowConnectionsWithoutCertificates',
    'sslAllowConnectionsWithoutCertificates',
  ),
  tlsFlag('allowInvalidCertificates', 'tlsAllowInvalidCertificates', 'sslAllowInvalidCertificates'),
  tlsFlag('allowInvalidHostnames', 'tlsAllowInvalidHostnames', 'sslAllowInvalidHostnames'),
  tlsFlag('FIPSMode', 'tlsFIPSMode', 'sslFIPSMode'),
  text('net.tls.logVersions', 'tlsLogVersions'),
  text('net.tls.clusterAuthX509.attributes', 'tlsClusterAuthX509Attributes', { since: '7.0' }),
  text('net.tls.clusterAuthX509.extensionValue', 'tlsClusterAuthX509ExtensionValue', { since: '7.0' }),
];

const SECURITY: readonly OptionRow[] = [
  text('security.authorization', 'auth', {
    given: 'enabled',
    choices: ['enabled', 'disabled'],
    only: 'mongod',
  }),
  text('security.authorization', 'noauth', {
    given: 'disabled',
    choices: ['enabled', 'disabled'],
    only: 'mongod',
  }),
  text('security.keyFile', 'keyFile'),
  text('security.clusterAuthMode', 'clusterAuthMode', {
    choices: ['keyFile', 'sendKeyFile', 'sendX509', 'x509'],
  }),
  flag('security.transitionToAuth', 'transitionToAuth'),
  flag('security.javascriptEnabled', 'noscripting', { given: false }),
  text('security.clusterIpSourceAllowlist', 'clusterIpSourceAllowlist', { type: 'list' }),
  flag('security.redactClientLogData', 'redactClientLogData'),
  flag('security.enableEncryption', 'enableEncryption', { percona: true }),
  text('security.encryptionKeyFile', 'encryptionKeyFile', { percona: true }),
  text('security.encryptionCipherMode', 'encryptionCipherMode', { percona: true }),
  ...['serverName', 'tokenFile', 'secret', 'serverCAFile'].map((name) =>
    text(`security.vault.${name}`, `vault${name[0]!.toUpperCase()}${name.slice(1)}`, { percona: true }),
  ),
  int('security.vault.port', 'vaultPort', { percona: true }),
  flag('security.vault.rotateMasterKey', 'vaultRotateMasterKey', { percona: true }),
  ...[
    'servers',
    'transportSecurity',
    'bind.method',
    'bind.queryUser',
    'userToDNMapping',
    'authz.queryTemplate',
  ].map((name) => text(`security.ldap.${name}`, undefined, { percona: true })),
  text('security.ldap.bind.queryPassword', undefined, { percona: true, secret: true }),
];

const STORAGE: readonly OptionRow[] = [
  text('storage.dbPath', 'dbpath'),
  flag('storage.directoryPerDB', 'directoryperdb'),
  text('storage.engine', 'storageEngine', { choices: ['wiredTiger', 'inMemory'] }),
  { path: 'storage.syncPeriodSecs', cli: 'syncdelay', type: 'double', min: 0 },
  flag('storage.journal.enabled', 'journal', { removedIn: '6.1' }),
  flag('storage.journal.enabled', 'nojournal', { removedIn: '6.1', given: false }),
  int('storage.journal.commitIntervalMs', 'journalCommitInterval', { min: 1, max: 500 }),
  { path: 'storage.oplogMinRetentionHours', cli: 'oplogMinRetentionHours', type: 'double', min: 0 },
  {
    path: 'storage.wiredTiger.engineConfig.cacheSizeGB',
    cli: 'wiredTigerCacheSizeGB',
    type: 'double',
    min: 0.25,
    max: 10000,
  },
  {
    path: 'storage.wiredTiger.engineConfig.cacheSizePct',
    cli: 'wiredTigerCacheSizePct',
    type: 'double',
    min: 0,
    max: 80,
    since: '8.1',
  },
  text('storage.wiredTiger.engineConfig.journalCompressor', 'wiredTigerJournalCompressor', {
    choices: ['none', 'snappy', 'zlib', 'zstd'],
  }),
  flag('storage.wiredTiger.engineConfig.directoryForIndexes', 'wiredTigerDirectoryForIndexes'),
  text('storage.wiredTiger.engineConfig.configString', 'wiredTigerEngineConfigString'),
  int('storage.wiredTiger.engineConfig.zstdCompressionLevel', 'zstdDefaultCompressionLevel'),
  text('storage.wiredTiger.collectionConfig.blockCompressor', 'wiredTigerCollectionBlockCompressor', {
    choices: ['none', 'snappy', 'zlib', 'zstd'],
  }),
  flag('storage.wiredTiger.indexConfig.prefixCompression', 'wiredTigerIndexPrefixCompression'),
  {
    path: 'storage.inMemory.engineConfig.inMemorySizeGB',
    cli: 'inMemorySizeGB',
    type: 'double',
    percona: true,
  },
];

const ROLES = ['shardsvr', 'configsvr'];
const REST: readonly OptionRow[] = [
  text('replication.replSetName', 'replSet', { oldPaths: ['replication.replSet'], only: 'mongod' }),
  int('replication.oplogSizeMB', 'oplogSize', { min: 1, only: 'mongod' }),
  flag('replication.enableMajorityReadConcern', 'enableMajorityReadConcern', { only: 'mongod' }),
  int('replication.localPingThresholdMs', 'localThreshold', { min: 0, only: 'mongos' }),
  text('sharding.clusterRole', 'shardsvr', { given: 'shardsvr', choices: ROLES, only: 'mongod' }),
  text('sharding.clusterRole', 'configsvr', { given: 'configsvr', choices: ROLES, only: 'mongod' }),
  text('sharding.configDB', 'configdb', { only: 'mongos' }),
  text('systemLog.destination', 'syslog', { given: 'syslog', choices: ['file', 'syslog'] }),
  text('systemLog.path', 'logpath'),
  flag('systemLog.logAppend', 'logappend'),
  text('systemLog.logRotate', 'logRotate', { choices: ['rename', 'reopen'] }),
  text('systemLog.timeStampFormat', 'timeStampFormat', { choices: ['iso8601-local', 'iso8601-utc'] }),
  text('systemLog.syslogFacility', 'syslogFacility'),
  int('systemLog.verbosity', undefined, { min: 0, max: 5 }),
  flag('systemLog.quiet', 'quiet'),
  flag('systemLog.traceAllExceptions', 'traceExceptions'),
  flag('processManagement.fork', 'fork'),
  text('processManagement.pidFilePath', 'pidfilepath'),
  text('processManagement.timeZoneInfo', 'timeZoneInfo'),
  text('operationProfiling.mode', undefined, { choices: ['off', 'slowOp', 'all'] }),
  int('operationProfiling.slowOpThresholdMs', 'slowms'),
  { path: 'operationProfiling.slowOpSampleRate', cli: 'slowOpSampleRate', type: 'double', min: 0, max: 1 },
  text('operationProfiling.filter'),
  int('operationProfiling.rateLimit', 'rateLimit', { percona: true }),
  flag('cloud.monitoring.free.state', undefined, { type: 'string', removedIn: '7.0' }),
  ...['destination', 'format', 'path', 'filter'].map((name) =>
    text(`auditLog.${name}`, `audit${name[0]!.toUpperCase()}${name.slice(1)}`, { percona: true }),
  ),
  flag('repair', 'repair', { only: 'mongod' }),
  flag('notablescan', 'notablescan', { only: 'mongod' }),
];

const onMongod = (row: OptionRow): OptionRow => ({ ...row, only: 'mongod' });
/** Encryption and directories are a server's business. */
const SECURED_DATA = /^security\.(enableEncryption|encryption|vault)/;

/** Every option but `config`, `help`, `version`, `setParameter` and the `-v` family, which are read by themselves. */
export const OPTION_TABLE: readonly OptionRow[] = [
  ...NET,
  ...SECURITY.map((row) => (SECURED_DATA.test(row.path) ? onMongod(row) : row)),
  ...STORAGE.map(onMongod),
  ...REST,
];

/** Log components whose verbosity the config file may set. */
export const LOG_COMPONENT_PATH = /^systemLog\.component\.[A-Za-z.]+\.verbosity$/;
