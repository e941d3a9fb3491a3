/** What goes into a member's snapshot besides secrets, and the fingerprint by which a change of it is seen. */
import { GIB } from '../base/units.ts';
import type { MemberSnapshot } from './snapshot.ts';
import { serviceHostname } from './topology.ts';
import type { Desired, MemberState, State } from './types.ts';

/** A9.6: max(0.25, 0.5·(maxRAM − 0.5)) GB, to two decimals. Without a memory limit: the smallest, so that many members fit one machine. */
export function cacheGb(desired: Pick<Desired, 'memoryBytes'>): number {
  if (desired.memoryBytes === null) return 0.25;
  return Math.max(0.25, Math.floor(0.5 * (desired.memoryBytes / GIB - 0.5) * 100) / 100);
}

/**
 * A6.1, A6.2: changes of resources, config, TLS and version count; the number of members does not, so that a change of
 * scale alone reloads nobody. Key order does not count.
 */
export function configFingerprint(
  desired: Pick<
    Desired,
    'version' | 'tlsMode' | 'mongodConfig' | 'certificateDomains' | 'memoryBytes' | 'cpus' | 'members'
  >,
): string {
  return stable({
    version: desired.version,
    tlsMode: desired.tlsMode,
    config: desired.mongodConfig,
    domains: [...desired.certificateDomains].sort(),
    memoryBytes: desired.memoryBytes,
    cpus: desired.cpus,
  });
}

/** JSON with sorted keys. */
export function stable(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(stable).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const entries = Object.entries(value)
      .filter(([, v]) => v !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${entries.map(([k, v]) => `${JSON.stringify(k)}:${stable(v)}`).join(',')}}`;
  }
  return JSON.stringify(value) ?? 'null';
}

export type SnapshotInputs = Omit<MemberSnapshot, 'caPem' | 'certificatePem' | 'keyFile' | 'monitor'>;

/** The snapshot of one member without its secrets. The member must have been placed. */
export function snapshotInputs(
  state: State,
  desired: Desired,
  member: MemberState,
  configVersion: number,
): SnapshotInputs {
  return {
    configVersion,
    clusterUid: state.uid,
    cluster: `${desired.namespace}/${desired.name}`,
    member: member.name,
    replicaSet: member.replicaSet,
    role: 'replicaSet',
    product: 'mongod',
    version: desired.version,
    run: 'running',
    hostname: serviceHostname(desired, member.name),
    port: member.port ?? 0,
    bindIp: member.address === null || member.address === 'localhost' ? [] : ['*'],
    tlsMode: desired.tlsMode,
    cacheGb: cacheGb(desired),
    userConfig: desired.mongodConfig,
    limits: { memoryBytes: desired.memoryBytes, cpus: desired.cpus },
    hash: configFingerprint(desired),
  };
}
