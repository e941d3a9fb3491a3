/** The roles every server has, as privileges (4.6). */
import type { Grant, GrantResource } from './grants.ts';

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

const READ = words(
  'changeStream collStats dbHash dbStats find killCursors listCollections listIndexes listSearchIndexes planCacheRead',
);
const WRITE =
  words(`convertToCapped createCollection createIndex createSearchIndexes dropCollection dropIndex dropSearchIndex
  insert remove renameCollectionSameDB update updateSearchIndex`);
const READ_WRITE = [...READ, ...WRITE];
const USER_ADMIN =
  words(`changeCustomData changePassword createRole createUser dropRole dropUser grantRole revokeRole
  setAuthenticationRestriction viewRole viewUser`);
const DB_ADMIN =
  words(`analyze bypassDocumentValidation collMod collStats compact compactStructuredEncryptionData convertToCapped
  createCollection createIndex createSearchIndexes dbStats dropCollection dropDatabase dropIndex dropSearchIndex
  enableProfiler indexStats listCollections listIndexes listSearchIndexes planCacheIndexFilter planCacheRead planCacheWrite
  queryStatsRead reIndex renameCollectionSameDB storageDetails updateSearchIndex validate`);
const PROFILE = [...READ, ...words('convertToCapped createCollection dropCollection')];
const MONITOR_CLUSTER =
  words(`checkFreeMonitoringStatus connPoolStats getClusterParameter getCmdLineOpts getDefaultRWConcern
  getLog getParameter getShardMap hostInfo inprog listDatabases listSessions listShards netstat operationMetrics
  queryStatsRead replSetGetConfig replSetGetStatus serverStatus shardingState top useUUID`);
const MONITOR_DATA = words('collStats dbStats getDatabaseVersion getShardVersion indexStats useUUID');
const MANAGE_CLUSTER =
  words(`addShard appendOplogNote applicationMessage checkMetadataConsistency cleanupOrphaned
  flushRouterConfig getClusterParameter getDefaultRWConcern listSessions listShards querySettings removeShard
  replSetConfigure replSetGetConfig replSetGetStatus replSetResizeOplog replSetStateChange resync setClusterParameter setDefaultRWConcern
  setFeatureCompatibilityVersion setFreeMonitoring transitionFromDedicatedConfigServer transitionToDedicatedConfigServer`);
const MANAGE_DATA =
  words(`analyzeShardKey clearJumboFlag enableSharding moveChunk moveCollection refineCollectionShardKey
  reshardCollection splitChunk splitVector unshardCollection`);
const HOST_CLUSTER =
  words(`applicationMessage closeAllDatabases connPoolSync cpuProfiler dropConnections flushRouterConfig fsync
  getDefaultRWConcern invalidateUserCache killAnyCursor killAnySession killop logRotate oidReset resync rotateCertificates
  setParameter setUserWriteBlockMode bypassWriteBlockingMode shutdown touch unlock`);
const RESTORE_DATA =
  words(`bypassDocumentValidation changeCustomData changePassword collMod convertToCapped createCollection
  createIndex createRole createSearchIndexes createUser dropCollection dropDatabase dropRole dropUser grantRole insert
  listCollections listIndexes remove revokeRole update viewRole viewUser`);
const ACCOUNT_COLLECTIONS = words(
  'system.users system.roles system.version system.new_users system.backup_users',
);

const on = (db: string, collection: string, actions: readonly string[]): Grant => ({
  resource: { kind: 'collection', db, collection },
  actions: new Set(actions),
});
const cluster = (actions: readonly string[]): Grant => ({
  resource: { kind: 'cluster' },
  actions: new Set(actions),
});
const anywhere = (actions: readonly string[]): Grant => ({
  resource: { kind: 'any' } satisfies GrantResource,
  actions: new Set(actions),
});

type Maker = (db: string) => readonly Grant[];

const read: Maker = (db) => [on(db, '', READ), on(db, 'system.js', READ)];
const readWrite: Maker = (db) => [on(db, '', READ_WRITE), on(db, 'system.js', READ_WRITE)];
const dbAdmin: Maker = (db) => [
  on(db, '', DB_ADMIN),
  on(db, 'system.profile', PROFILE),
  on(db, 'system.views', PROFILE),
  on(db, 'system.js', DB_ADMIN),
];
const userAdmin: Maker = (db) => [on(db, '', USER_ADMIN)];

/** Roles that exist in every database. */
const DATABASE_ROLES: Readonly<Record<string, Maker>> = {
  read,
  readWrite,
  dbAdmin,
  userAdmin,
  dbOwner: (db) => [...readWrite(db), ...dbAdmin(db), ...userAdmin(db)],
  enableSharding: (db) => [on(db, '', words('enableSharding refineCollectionShardKey reshardCollection'))],
};

const readAny: Maker = () => [...read(''), cluster(['listDatabases'])];
const readWriteAny: Maker = () => [...readWrite(''), cluster(['listDatabases'])];
const dbAdminAny: Maker = () => [
  ...dbAdmin(''),
  cluster(words('listDatabases killCursors applicationMessage')),
];
const userAdminAny: Maker = () => [
  on('', '', USER_ADMIN),
  on('local', '', USER_ADMIN),
  on('config', '', USER_ADMIN),
  ...['system.users', 'system.roles'].map((name) => on('admin', name, [...READ, 'createIndex', 'dropIndex'])),
  ...['system.version', 'system.new_users', 'system.backup_users'].map((name) => on('admin', name, READ)),
  cluster(words('authSchemaUpgrade invalidateUserCache listDatabases')),
];
const monitor: Maker = () => [
  cluster(MONITOR_CLUSTER),
  on('', '', MONITOR_DATA),
  on('local', '', [...MONITOR_DATA, 'listCollections', 'listIndexes']),
  on('config', '', [...MONITOR_DATA, ...READ]),
  on('local', 'system.replset', READ),
  on('local', 'replset.election', READ),
  on('local', 'replset.minvalid', READ),
  on('', 'system.profile', ['find', ...MONITOR_DATA]),
];
const manager: Maker = () => [
  cluster(MANAGE_CLUSTER),
  on('', '', MANAGE_DATA),
  on('config', '', [...MANAGE_DATA, ...READ, 'insert', 'remove', 'update', 'createIndex']),
  on('local', '', ['enableSharding', 'moveChunk']),
  on('local', 'system.replset', READ),
];
const host: Maker = () => [cluster(HOST_CLUSTER), on('', '', ['killCursors'])];
const clusterAdmin: Maker = () => [
  ...monitor(''),
  ...manager(''),
  ...host(''),
  on('', '', words('dropDatabase importCollection exportCollection')),
  cluster(words('importCollection exportCollection')),
];
const backup: Maker = () => [
  anywhere(words('collStats listCollections listIndexes listSearchIndexes')),
  cluster(
    words(
      'appendOplogNote getParameter listDatabases serverStatus setUserWriteBlockMode bypassWriteBlockingMode',
    ),
  ),
  ...['', 'local', 'config'].map((db) => on(db, '', ['find'])),
  ...['system.js', 'system.profile', 'system.views', 'system.replset'].map((name) => on('', name, ['find'])),
  ...ACCOUNT_COLLECTIONS.map((name) => on('admin', name, ['find'])),
  ...['insert', 'update', 'find'].map((action) => on('admin', 'mms.backup', [action])),
  on('config', 'settings', words('insert update')),
];
const restore: Maker = () => [
  anywhere(words('listCollections listIndexes')),
  cluster(
    words('bypassWriteBlockingMode forceUUID getParameter listDatabases setUserWriteBlockMode useUUID'),
  ),
  ...['', 'local', 'config'].map((db) => on(db, '', RESTORE_DATA)),
  ...['system.js', 'system.views'].map((name) => on('', name, RESTORE_DATA)),
  ...ACCOUNT_COLLECTIONS.map((name) => on('admin', name, [...RESTORE_DATA, 'find'])),
  on('admin', 'tempusers', [...RESTORE_DATA, 'find']),
  on('admin', 'temproles', [...RESTORE_DATA, 'find']),
];
const direct: Maker = () => [cluster(['issueDirectShardOperations'])];

/** Roles of the admin database only. */
const ADMIN_ROLES: Readonly<Record<string, Maker>> = {
  readAnyDatabase: readAny,
  readWriteAnyDatabase: readWriteAny,
  dbAdminAnyDatabase: dbAdminAny,
  userAdminAnyDatabase: userAdminAny,
  clusterMonitor: monitor,
  clusterManager: manager,
  hostManager: host,
  clusterAdmin,
  backup,
  restore,
  directShardOperations: direct,
  searchCoordinator: () => [...readAny(''), on('config', '', READ)],
  root: () => [
    ...clusterAdmin(''),
    ...userAdminAny(''),
    ...dbAdminAny(''),
    ...readWriteAny(''),
    ...backup(''),
    ...restore(''),
    ...direct(''),
    anywhere(['validate']),
  ],
  __queryableBackup: () => [
    ...backup(''),
    anywhere(words('collStats dbStats indexStats')),
    ...read('local'),
    ...read('config'),
  ],
  __system: () => [anywhere(['anyAction'])],
};

/** The grants of a built-in role, or undefined when there is none of that name in that database. */
export function builtinGrants(role: string, db: string): readonly Grant[] | undefined {
  const maker = Object.hasOwn(DATABASE_ROLES, role)
    ? DATABASE_ROLES[role]
    : db === 'admin' && Object.hasOwn(ADMIN_ROLES, role)
      ? ADMIN_ROLES[role]
      : undefined;
  return maker?.(db);
}

/** Names of the built-in roles of a database, sorted. */
export function builtinNames(db: string): readonly string[] {
  const names = db === 'admin' ? { ...DATABASE_ROLES, ...ADMIN_ROLES } : DATABASE_ROLES;
  return Object.keys(names).sort();
}

/** All grants of the process itself and of other members. */
export const SYSTEM_GRANTS: readonly Grant[] = [anywhere(['anyAction'])];
