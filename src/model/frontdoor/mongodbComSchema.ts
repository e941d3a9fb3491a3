import { z } from 'zod';
import { quotedText, someText, wholeNumber } from '../fields.ts';

// Facts of the public resource definition: field names, types, enumerations and bounds. Objects are open, since the
// definition itself keeps unknown fields; what is not named here is carried along and reported (B1.3).

const count = (): z.ZodInt => wholeNumber(0, 1_000);
const open = <Shape extends z.ZodRawShape>(shape: Shape) => z.looseObject(shape);
const anyMap = z.record(z.string(), z.unknown());
const textMap = z.record(z.string(), z.string());
const secretRef = open({ name: z.string().optional(), key: z.string().optional() });

const persistenceVolume = open({
  storage: z.string({ error: 'must be a quoted string such as "10Gi"' }).optional(),
  storageClass: z.string().optional(),
  labelSelector: anyMap.optional(),
});

/** Pod settings: only resources and the data volume mean something here. */
export const podSpecSchema = open({
  persistence: open({
    single: persistenceVolume.optional(),
    multiple: open({
      data: persistenceVolume.optional(),
      journal: persistenceVolume.optional(),
      logs: persistenceVolume.optional(),
    }).optional(),
  }).optional(),
  podTemplate: anyMap.optional(),
});

const statefulSet = open({ spec: anyMap.optional(), metadata: anyMap.optional() });

const memberConfig = open({
  votes: wholeNumber(0, 1).optional(),
  priority: z.union([z.string(), z.number()], { error: 'must be a quoted string such as "1.5"' }).optional(),
  tags: textMap.optional(),
});

const agent = open({
  startupOptions: textMap.optional(),
  logLevel: z.string().optional(),
  maxLogFileDurationHours: z.int().optional(),
});

const component = open({
  additionalMongodConfig: anyMap.optional(),
  agent: agent.optional(),
  clusterSpecList: z.array(z.unknown()).optional(),
});

const role = open({
  role: z.string(),
  db: z.string(),
  privileges: z
    .array(
      open({
        actions: z.array(z.string()),
        resource: open({
          db: z.string().optional(),
          collection: z.string().optional(),
          cluster: z.boolean().optional(),
        }),
      }),
    )
    .optional(),
  roles: z.array(open({ role: z.string(), db: z.string() })).optional(),
  authenticationRestrictions: z
    .array(
      open({ clientSource: z.array(z.string()).optional(), serverAddress: z.array(z.string()).optional() }),
    )
    .optional(),
});

const authentication = open({
  enabled: z.boolean(),
  modes: z
    .array(z.enum(['X509', 'SCRAM', 'SCRAM-SHA-1', 'MONGODB-CR', 'SCRAM-SHA-256', 'LDAP', 'OIDC']))
    .optional(),
  internalCluster: z.string().optional(),
  ignoreUnknownUsers: z.boolean().optional(),
  requireClientTLSAuthentication: z.boolean().optional(),
  agents: open({ mode: z.string(), automationUserName: z.string().optional() }).optional(),
  ldap: anyMap.optional(),
  oidcProviderConfigs: z.array(anyMap).optional(),
});

const security = open({
  certsSecretPrefix: z.string().optional(),
  tls: open({
    enabled: z.boolean().optional(),
    ca: z.string().optional(),
    additionalCertificateDomains: z.array(z.string()).optional(),
  }).optional(),
  authentication: authentication.optional(),
  roles: z.array(role).optional(),
  roleRefs: z.array(open({ name: z.string(), kind: z.enum(['ClusterMongoDBRole']) })).optional(),
});

const project = open({ configMapRef: open({ name: z.string().optional() }).optional() });

/** Spec of a `mongodb.com/v1` MongoDB. */
export const publicMongodbSpec = open({
  type: z.enum(['Standalone', 'ReplicaSet', 'ShardedCluster']),
  version: quotedText('8.0.12'),
  members: wholeNumber(0, 50).optional(),
  memberConfig: z.array(memberConfig).optional(),
  shardCount: count().optional(),
  mongodsPerShardCount: count().optional(),
  configServerCount: count().optional(),
  mongosCount: count().optional(),
  opsManager: project.optional(),
  cloudManager: project.optional(),
  credentials: z.string().optional(),
  featureCompatibilityVersion: quotedText('7.0').optional(),
  clusterDomain: z.string().optional(),
  logLevel: z.enum(['DEBUG', 'INFO', 'WARN', 'ERROR', 'FATAL']).optional(),
  persistent: z.boolean().optional(),
  service: z.string().optional(),
  podSpec: podSpecSchema.optional(),
  configSrvPodSpec: podSpecSchema.optional(),
  mongosPodSpec: podSpecSchema.optional(),
  shardPodSpec: podSpecSchema.optional(),
  shardSpecificPodSpec: z.array(podSpecSchema).optional(),
  shardOverrides: z.array(open({ shardNames: z.array(z.string()).min(1) })).optional(),
  statefulSet: statefulSet.optional(),
  additionalMongodConfig: anyMap.optional(),
  shard: component.optional(),
  configSrv: component.optional(),
  mongos: component.optional(),
  connectivity: open({ replicaSetHorizons: z.array(textMap).optional() }).optional(),
  externalAccess: open({ externalDomain: z.string().optional() }).optional(),
  prometheus: open({
    port: z.int().optional(),
    username: z.string(),
    passwordSecretRef: secretRef,
    metricsPath: z
      .string()
      .regex(/^\/[a-z0-9]+$/, { error: 'must be a path such as "/metrics"' })
      .optional(),
  }).optional(),
  agent: agent.optional(),
  backup: open({ mode: z.enum(['enabled', 'disabled', 'terminated']).optional() }).optional(),
  security: security.optional(),
  topology: z.enum(['SingleCluster', 'MultiCluster']).optional(),
  duplicateServiceObjects: z.boolean().optional(),
});

/** Spec of a `mongodb.com/v1` MongoDBUser. */
export const publicUserSpec = open({
  username: someText(),
  db: z.string().optional(),
  mongodbResourceRef: open({ name: z.string(), namespace: z.string().optional() }),
  passwordSecretKeyRef: open({ name: z.string(), key: z.string().optional() }).optional(),
  roles: z.array(open({ name: z.string(), db: z.string() })).optional(),
  connectionStringSecretName: z.string().optional(),
});
