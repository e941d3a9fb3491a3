/** From an admitted document to the planner's terms, and what of the language this version cannot carry out yet. */
import type { Problem } from '../base/error.ts';
import type { Bytes } from '../base/units.ts';
import {
  type MaintenanceWindow,
  type MongoDBSpec,
  memberSettings,
  nestConfig,
  PLATFORMS,
  parseBytes,
  parseCpuMillis,
  parseDuration,
  type ShardedClusterSpec,
  WEEKDAYS,
} from '../model/index.ts';
import { booleanAt, isMap, type Loose, mapAt, textAt } from '../model/paths.ts';
import { stable } from './snapshotInputs.ts';
import type { Desired, DesiredComponent, DesiredMember, DesiredShards } from './types.ts';
import type { DesiredWindow } from './windows.ts';

/** What of an object's metadata counts. */
export interface DesiredSource {
  readonly metadata: {
    readonly uid: string;
    readonly namespace: string;
    readonly name: string;
    readonly generation: number;
    readonly deletionTimestamp: string | null;
  };
  readonly spec: MongoDBSpec;
}

/** Translates an admitted spec (validated, defaults filled in, version resolved to a pinned build). */
export function desiredFrom(source: DesiredSource): Desired {
  const { metadata, spec } = source;
  return {
    uid: metadata.uid,
    namespace: metadata.namespace,
    name: metadata.name,
    generation: metadata.generation,
    type: spec.type,
    version: spec.version,
    members: membersOf(spec),
    sharded: shardedOf(spec),
    mongodConfig: withMechanisms(nestConfig(spec.additionalMongodConfig), spec),
    tlsMode: spec.security.tls.mode,
    certificateDomains: spec.security.tls.additionalCertificateDomains,
    memoryBytes: bytes(spec.resources.memory),
    cpus: cpus(spec.resources.cpu),
    volumeBytes: bytes(spec.storage.size),
    port: spec.port ?? null,
    hosts: spec.placement.hosts ?? null,
    roles: spec.security.roles.map((r) => ({
      role: r.role,
      db: r.db,
      privileges: r.privileges,
      roles: r.roles,
      authenticationRestrictions: r.authenticationRestrictions,
    })),
    interruption: spec.maintenance.interruption === 'Allowed',
    windows: spec.maintenance.windows.map(windowOf),
    suspend: spec.suspend,
    paused: spec.paused,
    deleting: metadata.deletionTimestamp === null ? null : { keepVolumes: false },
  };
}

/**
 * Only the mechanisms the spec names are offered (CFG-02). SCRAM-SHA-256 always is one of them: members and system users
 * log in with it.
 */
function withMechanisms(
  config: Readonly<Record<string, unknown>>,
  spec: MongoDBSpec,
): Readonly<Record<string, unknown>> {
  const modes = new Set<string>(['SCRAM-SHA-256', ...spec.security.authentication.modes]);
  const names: Readonly<Record<string, string>> = { X509: 'MONGODB-X509' };
  const authenticationMechanisms = [...modes].map((m) => names[m] ?? m).join(',');
  const own = config['setParameter'];
  const parameters = typeof own === 'object' && own !== null ? own : {};
  return { ...config, setParameter: { authenticationMechanisms, ...parameters } };
}

/** A Standalone is run as a one-member set, to which members can be added later (B1.2). */
function membersOf(spec: MongoDBSpec): readonly DesiredMember[] {
  if (spec.type === 'ShardedCluster') return [];
  if (spec.type !== 'ReplicaSet') return [memberSettings(undefined)];
  return Array.from({ length: spec.members }, (_, i) => memberSettings(spec.memberConfig[i]));
}

/** Parts of a sharded cluster; what a part does not set for itself is the cluster's. */
function shardedOf(spec: MongoDBSpec): DesiredShards | null {
  if (spec.type !== 'ShardedCluster') return null;
  const component = (count: number, part: ShardedPart): DesiredComponent => {
    const own = nestConfig(part.additionalMongodConfig);
    const shared = withMechanisms(nestConfig(spec.additionalMongodConfig), spec);
    return {
      members: Array.from({ length: count }, () => memberSettings(undefined)),
      mongodConfig: part === spec.mongos ? withMechanisms(own, spec) : merged(shared, own),
      memoryBytes: bytes(part.resources?.memory ?? spec.resources.memory),
      cpus: cpus(part.resources?.cpu ?? spec.resources.cpu),
      volumeBytes: bytes((part as { storage?: { size?: string } }).storage?.size ?? spec.storage.size),
    };
  };
  return {
    shardCount: spec.shardCount,
    shard: component(spec.mongodsPerShardCount, spec.shard),
    config: component(spec.configServerCount, spec.configSrv),
    router: component(spec.mongosCount, spec.mongos),
  };
}

type ShardedPart = ShardedClusterSpec['mongos'];

/** Nested settings laid over others, leaf by leaf. */
function merged(
  under: Readonly<Record<string, unknown>>,
  over: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const result: Record<string, unknown> = { ...under };
  for (const [key, value] of Object.entries(over)) {
    const below = result[key];
    result[key] = isMap(below) && isMap(value) ? merged(below, value) : value;
  }
  return result;
}

/** Days and a time of day are a cron line too. */
function windowOf(window: MaintenanceWindow): DesiredWindow {
  const { days = [], start = '00:00', timeZone } = window;
  const [hour, minute] = start.split(':').map(Number);
  const duration = parseDuration(window.duration);
  const cron = window.cron ?? `${minute} ${hour} * * ${days.map((d) => WEEKDAYS.indexOf(d)).join(',')}`;
  const when = window.cron === undefined ? `${days.join(', ')} ${start}` : window.cron;
  return {
    cron,
    timeZone,
    durationMillis: duration.ok ? duration.value : 0,
    text: `${when} for ${window.duration}, ${timeZone}`,
  };
}

/** Quantities were checked at admission; a wrong one cannot get here. */
function bytes(text: string | undefined): Bytes | null {
  if (text === undefined) return null;
  const parsed = parseBytes(text);
  return parsed.ok ? parsed.value : null;
}

function cpus(text: string | undefined): number | null {
  if (text === undefined) return null;
  const parsed = parseCpuMillis(text);
  return parsed.ok ? parsed.value / 1000 : null;
}

/**
 * Parts of the language that no planner carries out yet: refused at admission, so that nothing is promised and ignored
 * (A4.9, CFG-02). Works on unfinished specs too: whatever is not right is left out.
 */
export function unsupportedFeatures(spec: Loose): readonly Problem[] {
  const problems: Problem[] = [];
  const not = (path: string, what: string): void => {
    problems.push({ path, message: `${what} is not part of this version of Belay; leave it out` });
  };
  const isOn = (part: string): boolean => isMap(spec[part]) && booleanAt(spec, part, 'enabled') !== false;
  const platform = PLATFORMS.find((known) => known === textAt(spec, 'platform'));
  if (platform !== undefined && platform !== 'hosts')
    problems.push({
      path: 'spec.platform',
      message: `platform ${platform} is not part of this version of Belay; use hosts`,
    });
  if (isOn('exposure')) not('spec.exposure', 'public exposure on the platform hosts');
  if (isOn('backup')) not('spec.backup', 'backup');
  if (spec['dataSource'] !== undefined) not('spec.dataSource', 'filling a new cluster from a backup');
  if (isOn('dataAccess')) not('spec.dataAccess', 'access of assistants');
  const [tls, placement] = [mapAt(spec, 'security', 'tls'), mapAt(spec, 'placement')];
  if (tls['certsSecretPrefix'] !== undefined)
    not('spec.security.tls.certsSecretPrefix', 'a supplied certificate');
  if (tls['ca'] !== undefined) not('spec.security.tls.ca', 'a supplied CA');
  if (placement['hostSelector'] !== undefined)
    problems.push({
      path: 'spec.placement.hostSelector',
      message: 'is not part of this version of Belay; name the hosts in spec.placement.hosts',
    });
  if (placement['spreadLabel'] !== undefined) not('spec.placement.spreadLabel', 'spreading by label');
  if (placement['spread'] === 'required') not('spec.placement.spread', 'required spreading');
  return problems;
}

/** What of a change reaches only members that are made later, or nobody: said, since silence would promise more (CFG-02). */
export function changeRemarks(before: MongoDBSpec, after: MongoDBSpec): readonly Problem[] {
  const found: Problem[] = [];
  const say = (path: string, changed: boolean, message: string): void => {
    if (changed) found.push({ path, message });
  };
  const kept = 'members that have their place keep it; only new ones follow this';
  say('spec.port', before.port !== after.port, kept);
  say('spec.placement', stable(before.placement) !== stable(after.placement), kept);
  return found;
}

/** What is accepted though it changes nothing here. */
export function remarks(spec: MongoDBSpec): readonly Problem[] {
  const found: Problem[] = [];
  if (!spec.persistent) {
    found.push({
      path: 'spec.persistent',
      message: 'has no effect on hosts: data is kept on a volume all the same',
    });
  }
  if (spec.storage.class !== undefined) {
    found.push({
      path: 'spec.storage.class',
      message: 'has no effect on hosts, which have no storage classes',
    });
  }
  return found;
}
