/** The server's configuration file, from a snapshot and the paths of its service. Pure. */
import { stringify } from 'yaml';
import type { MemberSnapshot } from '../clusters/snapshot.ts';
import { nestConfig } from '../model/managedKeys.ts';
import type { ServicePaths } from './layout.ts';

type Tree = Record<string, unknown>;

/**
 * `mongod.conf` as YAML. Managed keys are ours whatever the user's configuration says (A9.5: the same table refuses them
 * at admission); everything else of the user's is kept, and wins over our defaults for it (the cache size, RES-02).
 */
export function renderConfig(snapshot: MemberSnapshot, paths: ServicePaths, dataPath: string): string {
  const user = nestConfig(snapshot.userConfig);
  const config =
    snapshot.product === 'mongos'
      ? merge(user, managedRouter(snapshot, paths))
      : merge(merge(defaults(snapshot), user), managed(snapshot, paths, dataPath));
  return stringify(config, { lineWidth: 0 });
}

function defaults(snapshot: MemberSnapshot): Tree {
  return { storage: { wiredTiger: { engineConfig: { cacheSizeGB: snapshot.cacheGb } } } };
}

function managed(snapshot: MemberSnapshot, paths: ServicePaths, dataPath: string): Tree {
  return {
    ...common(snapshot, paths),
    security: { authorization: 'enabled', keyFile: paths.keyFile, clusterAuthMode: 'keyFile' },
    ...(snapshot.replicaSet === '' ? {} : { replication: { replSetName: snapshot.replicaSet } }),
    ...clusterRole(snapshot.role),
    storage: { dbPath: dataPath },
  };
}

/** A router keeps no data, and whom it lets in is what its config servers say. */
function managedRouter(snapshot: MemberSnapshot, paths: ServicePaths): Tree {
  return {
    ...common(snapshot, paths),
    security: { keyFile: paths.keyFile, clusterAuthMode: 'keyFile' },
    sharding: { configDB: snapshot.configServers ?? '' },
  };
}

function common(snapshot: MemberSnapshot, paths: ServicePaths): Tree {
  return {
    systemLog: { destination: 'file', path: paths.log, logAppend: true, logRotate: 'reopen' },
    processManagement: { fork: false },
    net: {
      port: snapshot.port,
      bindIp: bindAddresses(snapshot.bindIp),
      unixDomainSocket: { enabled: false },
      tls: tls(snapshot, paths),
    },
  };
}

/** The agent and the localhost exception need loopback; the wildcard address includes it. */
function bindAddresses(addresses: readonly string[]): string {
  if (addresses.includes('*')) return '0.0.0.0';
  return [...new Set(['127.0.0.1', ...addresses.filter((address) => address !== 'localhost')])].join(',');
}

/** Without TLS the server refuses TLS files, so only the mode is given. */
function tls(snapshot: MemberSnapshot, paths: ServicePaths): Tree {
  if (snapshot.tlsMode === 'disabled') return { mode: 'disabled' };
  return {
    mode: snapshot.tlsMode,
    certificateKeyFile: paths.certificate,
    CAFile: paths.ca,
    allowConnectionsWithoutCertificates: true,
  };
}

function clusterRole(role: MemberSnapshot['role']): Tree {
  if (role === 'replicaSet' || role === 'router') return {};
  return { sharding: { clusterRole: role === 'shardServer' ? 'shardsvr' : 'configsvr' } };
}

const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The second over the first, section by section. */
function merge(under: Tree, over: Tree): Tree {
  const result: Tree = { ...under };
  for (const [key, value] of Object.entries(over)) {
    const below = result[key];
    result[key] = isTree(below) && isTree(value) ? merge(below, value) : value;
  }
  return result;
}
