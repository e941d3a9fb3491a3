import { z } from 'zod';
import { DEFAULT_VERSION } from '../catalog.ts';
import { bytesText, cpuText, type DeepReadonly, quotedText, wholeNumber } from '../fields.ts';
import { envelope } from '../meta.ts';
import {
  backupSchema,
  dataAccessSchema,
  dataSourceSchema,
  exposureSchema,
  maintenanceSchema,
  placementSchema,
} from './mongodbParts.ts';
import { mongodbStatusSchema } from './mongodbStatus.ts';
import { securitySchema } from './security.ts';

/** Default port of a member. */
export const DEFAULT_PORT = 27017;
/** Most members of a set, voting or not; a limit of the server. */
export const MAX_MEMBERS = 50;
/** Most shards of a cluster; a limit of this product, far above what one control plane was tried with. */
export const MAX_SHARDS = 100;
/** Most routers of a cluster; a limit of this product. */
export const MAX_ROUTERS = 100;
/** Numbers of voting members that make a sound majority (A6.1). */
export const VOTING_COUNTS: readonly number[] = [1, 3, 5, 7];

/** Values of `spec.type`. */
export const MONGODB_TYPES = ['Standalone', 'ReplicaSet', 'ShardedCluster'] as const;
export type MongoDBType = (typeof MONGODB_TYPES)[number];

/** Platforms that can carry a cluster. */
export const PLATFORMS = ['hosts', 'zerops', 'kubernetes'] as const;

const mongodConfig = (what: string) =>
  z
    .record(z.string(), z.unknown())
    .default({})
    .describe(
      `Settings for ${what}, in the form of its configuration file or with dotted keys. Keys that Belay owns are refused with the field to set instead.`,
    );

const resourcesSchema = z.strictObject({
  cpu: cpuText().optional().describe('Processors of one member, such as "2" or "500m".'),
  memory: bytesText()
    .optional()
    .describe(
      'Memory of one member, such as "4Gi"; the cache is computed from it: max(0.25, 0.5·(GB − 0.5)).',
    ),
});

const storageSchema = z.strictObject({
  size: bytesText()
    .default('10Gi')
    .describe('Size of the data volume of one member. It can grow, never shrink.'),
  class: z.string().optional().describe('Storage class, where the platform has classes.'),
});

/** Settings of one member; its place in the list is the index of the member. Zero and absent differ (CFG-01). */
const memberConfigSchema = z.strictObject({
  votes: wholeNumber(0, 1).optional().describe('1 (default) or 0. At most seven members vote.'),
  priority: z
    .number({ error: (issue) => (issue.input === undefined ? undefined : 'must be a number from 0 to 1000') })
    .min(0, { error: 'must be a number from 0 to 1000' })
    .max(1000, { error: 'must be a number from 0 to 1000' })
    .optional()
    .describe(
      'Preference for becoming primary, 0 to 1000; 1 by default, 0 for members that do not vote, hide or lag.',
    ),
  hidden: z.boolean().optional().describe('Hidden from clients; needs priority 0.'),
  tags: z
    .record(z.string(), z.string({ error: 'must be text, the server accepts no other tag values' }))
    .optional()
    .describe('Tags for read preferences and write concerns.'),
  secondaryDelaySecs: wholeNumber(0, 31_536_000)
    .optional()
    .describe('Seconds this member stays behind on purpose; needs priority 0.'),
});

const componentSchema = z.strictObject({
  additionalMongodConfig: mongodConfig('these processes'),
  resources: resourcesSchema.prefault({}).describe('Processors and memory of one of these processes.'),
});

const dataComponentSchema = componentSchema.extend({
  storage: storageSchema.prefault({}).describe('Data volume of one of these members.'),
});

const common = {
  version: quotedText(DEFAULT_VERSION)
    .default(DEFAULT_VERSION)
    .describe('Pinned build of Percona Server for MongoDB; `belay catalog` lists them.'),
  featureCompatibilityVersion: quotedText('7.0')
    .optional()
    .describe(
      'What a new cluster begins with: the feature compatibility version of its version, such as "8.0", or AlwaysMatchVersion, which is the same. Later it changes nothing and upgrades never raise what is in force: belay raise-fcv NAME does when you are sure.',
    ),
  additionalMongodConfig: mongodConfig('mongod'),
  persistent: z.boolean().default(true).describe('Keep data on a volume that outlives the member.'),
  port: wholeNumber(1, 65_535)
    .optional()
    .describe(
      'Port of the first member on a host; further members on that same host take the next ones. Without it the platform takes the first free ones from 27017 on.',
    ),
  security: securitySchema.prefault({}).describe('TLS, authentication and roles.'),
  platform: z.enum(PLATFORMS).default('hosts').describe('What carries the members.'),
  resources: resourcesSchema.prefault({}).describe('Processors and memory of one member.'),
  storage: storageSchema.prefault({}).describe('Data volume of one member.'),
  exposure: exposureSchema
    .optional()
    .describe('Reach the database from outside. Without it the database is private.'),
  placement: placementSchema.prefault({}).describe('Which hosts may carry members, and how they are spread.'),
  maintenance: maintenanceSchema.prefault({}).describe('When and how the database may be disturbed.'),
  backup: backupSchema.optional().describe('Scheduled backups and point-in-time recovery.'),
  dataSource: dataSourceSchema
    .optional()
    .describe('Backup that a new cluster is filled from; it cannot be changed.'),
  dataAccess: dataAccessSchema.optional().describe('Access of assistants through the data-access companion.'),
  suspend: z.boolean().default(false).describe('Stop all members and keep their volumes and credentials.'),
  paused: z.boolean().default(false).describe('Leave the cluster alone: no effect of any kind while true.'),
} as const;

const replicaSetFields = {
  members: wholeNumber(1, MAX_MEMBERS).describe('Number of members. 1, 3, 5 or 7 of them vote.'),
  memberConfig: z
    .array(memberConfigSchema)
    .default([])
    .describe('Settings by member index; members without an entry have one vote and priority 1.'),
} as const;

/** All of their members vote. */
const votingCount = () => wholeNumber(1, MAX_MEMBERS, 'must be 1, 3, 5 or 7');

const shardedFields = {
  shardCount: wholeNumber(1, MAX_SHARDS).describe(
    'Number of shards. It can grow, and shrink only by shards of which nothing was made yet.',
  ),
  mongodsPerShardCount: votingCount().describe('Members of each shard: 1, 3, 5 or 7.'),
  configServerCount: votingCount().describe('Members of the config-server set: 1, 3, 5 or 7.'),
  mongosCount: wholeNumber(1, MAX_ROUTERS).describe('Number of routers.'),
  shard: dataComponentSchema.prefault({}).describe('Settings of the shard members.'),
  configSrv: dataComponentSchema.prefault({}).describe('Settings of the config servers.'),
  mongos: componentSchema.prefault({}).describe('Settings of the routers.'),
} as const;

const typeText = 'Standalone, ReplicaSet or ShardedCluster. It cannot be changed.';

/** A single server, run as a one-member set (B1.2). */
export const standaloneSpecSchema = z.strictObject({
  type: z.literal('Standalone').describe(typeText),
  ...common,
});
/** One replica set. */
export const replicaSetSpecSchema = z.strictObject({
  type: z.literal('ReplicaSet').describe(typeText),
  ...replicaSetFields,
  ...common,
});
/** Shards, config servers and routers. */
export const shardedClusterSpecSchema = z.strictObject({
  type: z.literal('ShardedCluster').describe(typeText),
  ...shardedFields,
  ...common,
});

/** All fields of all types: for documents whose type is missing or wrong, so that the rest is still checked. */
export const anyMongodbSpecSchema = z.strictObject({
  type: z.enum(MONGODB_TYPES).describe(typeText),
  members: replicaSetFields.members.optional(),
  memberConfig: replicaSetFields.memberConfig,
  shardCount: shardedFields.shardCount.optional(),
  mongodsPerShardCount: shardedFields.mongodsPerShardCount.optional(),
  configServerCount: shardedFields.configServerCount.optional(),
  mongosCount: shardedFields.mongosCount.optional(),
  shard: shardedFields.shard,
  configSrv: shardedFields.configSrv,
  mongos: shardedFields.mongos,
  ...common,
});

/** Spec of a MongoDB, told apart by `type`. */
export const mongodbSpecSchema = z.discriminatedUnion('type', [
  replicaSetSpecSchema,
  standaloneSpecSchema,
  shardedClusterSpecSchema,
]);

/** Fields that belong to some types only, for messages about fields in the wrong place. */
export const FIELDS_BY_TYPE: Readonly<Record<string, MongoDBType>> = {
  ...Object.fromEntries(Object.keys(replicaSetFields).map((key) => [key, 'ReplicaSet' as const])),
  ...Object.fromEntries(Object.keys(shardedFields).map((key) => [key, 'ShardedCluster' as const])),
};

/** A database: standalone, replica set or sharded cluster. */
export const mongodbSchema = envelope('MongoDB', mongodbSpecSchema, mongodbStatusSchema);

export type MongoDB = DeepReadonly<z.output<typeof mongodbSchema>>;
export type MongoDBSpec = MongoDB['spec'];
export type ReplicaSetSpec = DeepReadonly<z.output<typeof replicaSetSpecSchema>>;
export type StandaloneSpec = DeepReadonly<z.output<typeof standaloneSpecSchema>>;
export type ShardedClusterSpec = DeepReadonly<z.output<typeof shardedClusterSpecSchema>>;
export type MemberConfig = DeepReadonly<z.output<typeof memberConfigSchema>>;
export type Resources = DeepReadonly<z.output<typeof resourcesSchema>>;
export type Storage = DeepReadonly<z.output<typeof storageSchema>>;

/** Settings of one member with the defaults that depend on each other filled in. */
export interface MemberSettings {
  readonly votes: 0 | 1;
  readonly priority: number;
  readonly hidden: boolean;
  readonly tags: Readonly<Record<string, string>>;
  readonly secondaryDelaySecs: number;
}

/**
 * The effective settings of a member. A priority that was not given is 1, or 0 for a member that does not vote, is
 * hidden or delayed, as the server demands; given values are never changed.
 */
export function memberSettings(config: MemberConfig | undefined): MemberSettings {
  const votes = config?.votes === 0 ? 0 : 1;
  const hidden = config?.hidden ?? false;
  const secondaryDelaySecs = config?.secondaryDelaySecs ?? 0;
  const electable = votes === 1 && !hidden && secondaryDelaySecs === 0;
  return {
    votes,
    hidden,
    secondaryDelaySecs,
    priority: config?.priority ?? (electable ? 1 : 0),
    tags: config?.tags ?? {},
  };
}
