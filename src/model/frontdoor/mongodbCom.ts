import type { z } from 'zod';
import { resolveVersion } from '../catalog.ts';
import { NO_ARBITERS } from '../kinds/mongodbRules.ts';
import { API_VERSION } from '../meta.ts';
import { isMap, type Loose, listAt, mapAt, textAt, withoutNulls } from '../paths.ts';
import { problemsFromIssues } from '../problems.ts';
import { redact } from '../redact.ts';
import { fieldsOf, namesAt, schemaAt } from '../shapes.ts';
import { nearest } from '../suggest.ts';
import { Conversion, type Foreign, KEPT_FIELDS_ANNOTATION, ORIGIN_ANNOTATION } from './foreign.ts';
import { publicMongodbSpec, publicUserSpec } from './mongodbComSchema.ts';
import { convertConfig } from './mongodbConfig.ts';
import { convertPodSpec } from './podSpec.ts';
import { publicRules } from './publicRules.ts';
import { convertSecurity } from './security.ts';

/** API version of the public operator's resources. */
export const MONGODB_COM = 'mongodb.com/v1';

const KINDS: Readonly<Record<string, string>> = {
  ClusterMongoDBRole: 'is not supported yet; copy its roles into spec.security.roles of each MongoDB',
  MongoDBMultiCluster: 'is not supported; declare one MongoDB per cluster',
  MongoDBCommunity: 'is not supported; declare a MongoDB',
  MongoDBOpsManager: 'is not needed: this control plane takes the place of Ops Manager',
};

/** Converts a `mongodb.com/v1` MongoDB or MongoDBUser, unchanged as the public operator takes it (B1.3). */
export function convertMongodbCom(document: Loose): Foreign {
  const kind = textAt(document, 'kind') ?? '';
  if (kind === 'MongoDB') return convert(document, publicMongodbSpec, convertMongodb);
  if (kind === 'MongoDBUser') return convert(document, publicUserSpec, convertUser);
  const message = KINDS[kind] ?? `is not known in ${MONGODB_COM}; accepted: MongoDB, MongoDBUser`;
  return { problems: [{ path: 'kind', message }], warnings: [], report: [], origin: (path) => path };
}

function convert(
  document: Loose,
  schema: z.ZodObject,
  convertSpec: (spec: Loose, conversion: Conversion) => void,
): Foreign {
  const conversion = new Conversion();
  const clean = withoutNulls(document) as Loose;
  const spec = mapAt(clean, 'spec');
  const parsed = schema.safeParse(clean['spec'] ?? {});
  if (!parsed.success) {
    const found = problemsFromIssues(parsed.error.issues, spec, { namesAt: (path) => namesAt(schema, path) });
    conversion.problems.push(...found.map(({ path, message }) => ({ path: below(path), message })));
  }
  convertSpec(spec, conversion);
  reportUnknown(spec, schema, conversion);
  const kept = Object.keys(conversion.kept).length > 0 ? JSON.stringify(redact(conversion.kept)) : undefined;
  return {
    problems: conversion.problems,
    warnings: conversion.warnings,
    report: conversion.report,
    origin: (path) => conversion.origin(path),
    document: {
      apiVersion: API_VERSION,
      kind: clean['kind'],
      metadata: convertMetadata(clean['metadata'], kept),
      spec: conversion.spec,
    },
  };
}

const below = (path: string): string => (path === '' ? 'spec' : `spec.${path}`);

function convertMetadata(metadata: unknown, kept: string | undefined): unknown {
  if (!isMap(metadata)) return metadata;
  const annotations = {
    ...mapAt(metadata, 'annotations'),
    [ORIGIN_ANNOTATION]: MONGODB_COM,
    ...(kept === undefined ? {} : { [KEPT_FIELDS_ANNOTATION]: kept }),
  };
  return { ...metadata, annotations };
}

const K8S = 'has no meaning outside Kubernetes';
const SERVED = 'this control plane takes the place of Ops Manager';
const AGENT = 'belongs to the agent of Ops Manager, which is not used here';

/** Fields that mean nothing here, with the sentence that says why. */
const IGNORED: Readonly<Record<string, string>> = {
  opsManager: SERVED,
  cloudManager: SERVED,
  credentials: SERVED,
  clusterDomain: K8S,
  logLevel: AGENT,
  service: K8S,
  statefulSet: K8S,
  agent: AGENT,
  duplicateServiceObjects: K8S,
  externalAccess: `${K8S}; to reach the database from outside set spec.exposure.cidrs in ${API_VERSION}`,
  connectivity: `horizons are not supported yet; to reach the database from outside set spec.exposure.cidrs in ${API_VERSION}`,
  prometheus: 'metrics of all members are served by the control plane under /metrics',
  backup: `schedules of Ops Manager are not used here; set spec.backup in ${API_VERSION}`,
};

function convertMongodb(spec: Loose, conversion: Conversion): void {
  conversion.problems.push(...publicRules(spec));
  if (spec['arbiters'] !== undefined && spec['arbiters'] !== 0) conversion.problem('arbiters', NO_ARBITERS);
  conversion.set('type', spec['type']);
  convertVersion(spec, conversion);
  conversion.set('featureCompatibilityVersion', fcvOf(spec));
  conversion.set('persistent', spec['persistent']);
  convertMembers(spec, conversion);
  const { tlsMode } = convertConfig(spec['additionalMongodConfig'], 'additionalMongodConfig', conversion);
  convertSharded(spec, conversion);
  convertPodSpec(spec['podSpec'], 'podSpec', '', conversion);
  convertSecurity(spec, tlsMode, conversion);
  for (const [key, reason] of Object.entries(IGNORED)) conversion.ignored(key, spec[key], reason);
  if (spec['topology'] === 'MultiCluster') {
    conversion.problem('topology', 'MultiCluster is not supported; declare one MongoDB per cluster');
  } else {
    conversion.ignored('topology', spec['topology'], 'there is one topology only');
  }
  convertSingle(spec, conversion);
}

function convertVersion(spec: Loose, conversion: Conversion): void {
  const version = textAt(spec, 'version');
  if (version === undefined) return;
  const resolved = resolveVersion(version, { lenient: true });
  if (resolved.kind === 'refused') {
    conversion.set('version', version);
    return;
  }
  conversion.set('version', resolved.build.version, 'version');
  if (resolved.kind === 'mapped') {
    conversion.mapped('version', resolved.warning);
    conversion.warnings.push({ path: 'spec.version', message: resolved.warning });
  }
}

// A bad one is reported by the public rules in their own words; once is enough.
function fcvOf(spec: Loose): unknown {
  const fcv = textAt(spec, 'featureCompatibilityVersion');
  return fcv !== undefined && /^(\d+\.\d+|AlwaysMatchVersion)$/.test(fcv) ? fcv : undefined;
}

function convertMembers(spec: Loose, conversion: Conversion): void {
  if (spec['type'] === 'Standalone') {
    conversion.ignored('members', spec['members'], 'a Standalone has one member');
    conversion.ignored('memberConfig', spec['memberConfig'], 'a Standalone has one member');
    return;
  }
  if (spec['type'] !== 'ReplicaSet') {
    conversion.ignored('members', spec['members'], 'belongs to type ReplicaSet');
    conversion.ignored('memberConfig', spec['memberConfig'], 'belongs to type ReplicaSet');
    return;
  }
  if (spec['members'] !== 0) conversion.set('members', spec['members']);
  if (!Array.isArray(spec['memberConfig'])) return;
  const config = listAt(spec, 'memberConfig').map((entry, index) => {
    if (!isMap(entry)) return {};
    const priority = numeric(entry['priority']);
    if (typeof entry['priority'] === 'string' && priority === undefined) {
      const message = 'must be a quoted number such as "1.5"';
      conversion.problem(`memberConfig[${index}].priority`, message);
    }
    const { votes, tags, arbiterOnly, hidden, secondaryDelaySecs } = entry;
    return withoutUndefined({ votes, priority, tags, arbiterOnly, hidden, secondaryDelaySecs });
  });
  conversion.set('memberConfig', config);
}

function numeric(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string' || !/^\d+(\.\d+)?$/.test(value.trim())) return undefined;
  return Number(value);
}

const withoutUndefined = (map: Loose): Loose =>
  Object.fromEntries(Object.entries(map).filter(([, value]) => value !== undefined));

function convertSharded(spec: Loose, conversion: Conversion): void {
  const parts = [
    ['shard', 'shardPodSpec'],
    ['configSrv', 'configSrvPodSpec'],
    ['mongos', 'mongosPodSpec'],
  ] as const;
  const counts = ['shardCount', 'mongodsPerShardCount', 'configServerCount', 'mongosCount'];
  if (spec['type'] !== 'ShardedCluster') {
    for (const key of [
      ...counts,
      ...parts.map(([, pods]) => pods),
      'shardSpecificPodSpec',
      'shardOverrides',
    ]) {
      conversion.ignored(key, spec[key], 'belongs to type ShardedCluster');
    }
    return;
  }
  for (const key of counts) if (spec[key] !== 0) conversion.set(key, spec[key]);
  for (const [part, pods] of parts) {
    const section = mapAt(spec, part);
    convertConfig(section['additionalMongodConfig'], `${part}.additionalMongodConfig`, conversion);
    conversion.ignored(`${part}.agent`, section['agent'], AGENT);
    conversion.ignored(
      `${part}.clusterSpecList`,
      section['clusterSpecList'],
      'belongs to topology MultiCluster',
    );
    convertPodSpec(spec[pods], pods, `${part}.`, conversion);
  }
  for (const key of ['shardOverrides', 'shardSpecificPodSpec']) {
    if (listAt(spec, key).length > 0) {
      conversion.problem(key, 'settings of single shards are not supported yet; all shards are alike');
    }
  }
}

// Under Kubernetes a single pod is simply restarted; here an outage must be allowed, so its document allows it.
function convertSingle(spec: Loose, conversion: Conversion): void {
  const standalone = spec['type'] === 'Standalone';
  if (standalone) conversion.mapped('type', 'runs as a replica set of one member');
  if (!standalone && !(spec['type'] === 'ReplicaSet' && spec['members'] === 1)) return;
  conversion.set('maintenance.interruption', 'Allowed', 'type');
  conversion.mapped('type', 'spec.maintenance.interruption is Allowed: a single member may be restarted');
}

function convertUser(spec: Loose, conversion: Conversion): void {
  const db = textAt(spec, 'db') === '' ? undefined : spec['db'];
  conversion.set('username', spec['username']);
  conversion.set('db', db);
  const { name, namespace } = mapAt(spec, 'mongodbResourceRef');
  if (isMap(spec['mongodbResourceRef'])) {
    conversion.set('mongodbResourceRef', withoutUndefined({ name, namespace }));
  }
  const secret = mapAt(spec, 'passwordSecretKeyRef');
  if (db === '$external') {
    const reason = 'users of $external have no password';
    conversion.ignored('passwordSecretKeyRef', spec['passwordSecretKeyRef'], reason);
  } else if (textAt(secret, 'name') !== undefined) {
    const key = textAt(secret, 'key') === '' ? undefined : secret['key'];
    conversion.set('passwordSecretKeyRef', withoutUndefined({ name: secret['name'], key }));
  }
  const roles = listAt(spec, 'roles').map((role) =>
    isMap(role) ? withoutUndefined({ name: role['name'], db: role['db'] }) : role,
  );
  if (roles.length > 0) conversion.set('roles', roles);
  conversion.set('connectionStringSecretName', spec['connectionStringSecretName']);
}

/** Unknown fields at any depth of the known structure, each kept and reported once. */
function reportUnknown(
  value: unknown,
  schema: z.core.$ZodType,
  conversion: Conversion,
  path: PropertyKey[] = [],
): void {
  if (Array.isArray(value)) {
    const item = schemaAt(schema, [0]);
    if (item === undefined) return;
    for (const [index, entry] of value.entries()) reportUnknown(entry, item, conversion, [...path, index]);
    return;
  }
  const fields = fieldsOf(schema);
  if (!isMap(value) || fields.size === 0) return;
  for (const [key, entry] of Object.entries(value)) {
    const field = fields.get(key);
    const here = [...path, key];
    if (field !== undefined) reportUnknown(entry, field, conversion, here);
    else if (!isReported(here, conversion)) {
      const near = nearest(key, [...fields.keys()]);
      const hint = near === undefined ? '' : `, did you mean ${near}?`;
      conversion.unknown(here, entry, `unknown field, kept as it is${hint}`);
    }
  }
}

// What was reported as a whole (or refused in its own words) is not reported again piece by piece.
function isReported(path: readonly PropertyKey[], conversion: Conversion): boolean {
  const top = String(path[0]);
  if (Object.hasOwn(conversion.kept, top) || top === 'arbiters') return true;
  const settings = ['arbiterOnly', 'hidden', 'secondaryDelaySecs'];
  return top === 'memberConfig' && settings.includes(String(path.at(-1)));
}

/** The fields of a foreign spec that were kept, read back from a converted object. */
export function keptFields(annotations: Readonly<Record<string, string>>): Loose {
  try {
    const value: unknown = JSON.parse(annotations[KEPT_FIELDS_ANNOTATION] ?? '{}');
    return isMap(value) ? value : {};
  } catch {
    return {};
  }
}
