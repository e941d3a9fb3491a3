import type { Problem } from '../../base/error.ts';
import { isDnsName, isIpLiteral } from '../network.ts';
import { booleanAt, isMap, type Loose, listAt, mapAt, numberAt, textAt } from '../paths.ts';

/** Whether a public document turns TLS on: by a certificate prefix or by the older switch. */
export function usesTls(spec: Loose): boolean {
  const security = mapAt(spec, 'security');
  return security['certsSecretPrefix'] !== undefined || booleanAt(security, 'tls', 'enabled') === true;
}

/**
 * The documented validation rules of the public resource. Their texts are part of that interface and kept word for
 * word, so that scripts which look for them go on working (B1.1).
 */
export function publicRules(spec: Loose): Problem[] {
  return [...shapeRules(spec), ...authenticationRules(spec), ...horizonRules(spec), ...roleRules(spec)];
}

function shapeRules(spec: Loose): Problem[] {
  const problems: Problem[] = [];
  const add = (path: string, message: string): void => void problems.push({ path, message });
  const type = textAt(spec, 'type');
  if (spec['opsManager'] !== undefined && spec['cloudManager'] !== undefined) {
    add('spec.cloudManager', 'either spec.cloudManager or spec.opsManager can be set');
  }
  if (type === 'ReplicaSet' && (numberAt(spec, 'members') ?? 0) === 0) {
    add('spec.members', "'spec.members' must be specified if type of MongoDB is ReplicaSet");
  }
  if (type === 'ShardedCluster') problems.push(...shardedRules(spec));
  const sharded = ['mongos', 'configSrv', 'shard'].find((key) => isMap(spec[key]));
  if (sharded !== undefined && (type === 'ReplicaSet' || type === 'Standalone')) {
    const text = `'spec.mongos', 'spec.configSrv', 'spec.shard' cannot be specified if type of MongoDB is ${type}`;
    add(`spec.${sharded}`, text);
  }
  const fcv = textAt(spec, 'featureCompatibilityVersion');
  if (fcv !== undefined && fcv !== 'AlwaysMatchVersion' && !/^\d+\.\d+$/.test(fcv)) {
    const text = `invalid feature compatibility version "${fcv}", possible values are: 'AlwaysMatchVersion' or 'major.minor'`;
    add('spec.featureCompatibilityVersion', text);
  }
  return problems;
}

function shardedRules(spec: Loose): Problem[] {
  const problems: Problem[] = [];
  if (isMap(spec['additionalMongodConfig'])) {
    const message = "'spec.additionalMongodConfig' cannot be specified if type of MongoDB is ShardedCluster";
    problems.push({ path: 'spec.additionalMongodConfig', message });
  }
  const shards = numberAt(spec, 'shardCount') ?? null;
  if (shards === null || shards === 0) {
    const message = `shardCount must be ${shards === null ? 'specified' : 'at least 1'}`;
    problems.push({ path: 'spec.shardCount', message });
  }
  const names = ['mongodsPerShardCount', 'mongosCount', 'configServerCount'];
  for (const name of names)
    if (numberAt(spec, name) === 0)
      problems.push({ path: `spec.${name}`, message: `${name} must be at least 1` });
  const missing = names.filter((name) => numberAt(spec, name) === undefined);
  if (missing.length > 0 && textAt(spec, 'topology') !== 'MultiCluster') {
    const message = `The following fields must be specified in single cluster topology: ${missing.join(', ')}`;
    problems.push({ path: `spec.${missing[0]}`, message });
  }
  return problems;
}

function authenticationRules(spec: Loose): Problem[] {
  const problems: Problem[] = [];
  const at = 'spec.security.authentication';
  const authentication = mapAt(spec, 'security', 'authentication');
  const modes = listAt(authentication, 'modes').map(String);
  const agentMode = textAt(authentication, 'agents', 'mode');
  if (modes.includes('X509') && !usesTls(spec)) {
    const message = 'Cannot have a non-tls deployment when x509 authentication is enabled';
    problems.push({ path: `${at}.modes`, message });
  }
  if (authentication['enabled'] === true && modes.length === 0) {
    problems.push({ path: `${at}.modes`, message: 'Cannot enable authentication without modes specified' });
  }
  if (agentMode !== undefined && agentMode !== '' && modes.length > 0 && !modes.includes(agentMode)) {
    const message =
      'Cannot configure an Agent authentication mechanism that is not specified in authentication modes';
    problems.push({ path: `${at}.agents.mode`, message });
  }
  if (modes.includes('SCRAM-SHA-1') && agentMode !== undefined && agentMode !== 'MONGODB-CR') {
    // The misspelling is part of the documented text.
    const message = 'Cannot configure SCRAM-SHA-1 without using MONGODB-CR in te Agent Mode';
    problems.push({ path: `${at}.agents.mode`, message });
  }
  if (modes.length > 1 && agentMode === undefined) {
    const message =
      'spec.security.authentication.agents.mode must be specified if more than one entry is present in spec.security.authentication.modes';
    problems.push({ path: `${at}.agents.mode`, message });
  }
  for (const [index, mode] of modes.entries()) {
    if (mode !== 'LDAP' && mode !== 'OIDC') continue;
    const enterprise = /-ent$/.test(textAt(spec, 'version') ?? '');
    const message = enterprise
      ? `${mode} is not supported by Belay; accepted: SCRAM, SCRAM-SHA-256, SCRAM-SHA-1, X509`
      : `Cannot enable ${mode} authentication with MongoDB Community Builds`;
    problems.push({ path: `${at}.modes[${index}]`, message });
  }
  return problems;
}

function horizonRules(spec: Loose): Problem[] {
  const path = 'spec.connectivity.replicaSetHorizons';
  const horizons = listAt(spec, 'connectivity', 'replicaSetHorizons');
  if (horizons.length === 0) return [];
  const problems: Problem[] = [];
  if (!usesTls(spec))
    problems.push({ path, message: 'TLS must be enabled in order to use replica set horizons' });
  if (horizons.length !== numberAt(spec, 'members')) {
    const message = 'Number of horizons must be equal to number of members in replica set';
    problems.push({ path, message });
  }
  const seen = new Set<string>();
  for (const [index, horizon] of horizons.entries()) {
    for (const [name, address] of Object.entries(isMap(horizon) ? horizon : {})) {
      const host = String(address).replace(/:\d+$/, '');
      const where = `${path}[${index}].${name}`;
      if (!isDnsName(host.toLowerCase()) || isIpLiteral(host)) {
        problems.push({ path: where, message: 'Horizons must have valid domain names' });
      }
      if (seen.has(String(address)))
        problems.push({ path: where, message: 'is the address of another member too' });
      seen.add(String(address));
    }
  }
  return problems;
}

function roleRules(spec: Loose): Problem[] {
  const problems: Problem[] = [];
  const security = mapAt(spec, 'security');
  if (listAt(security, 'roles').length > 0 && listAt(security, 'roleRefs').length > 0) {
    const message = 'At most one of roles or roleRefs can be non-empty';
    problems.push({ path: 'spec.security', message });
  }
  if (listAt(security, 'roleRefs').length > 0) {
    const message =
      'ClusterMongoDBRole is not supported by Belay yet; copy the roles into spec.security.roles';
    problems.push({ path: 'spec.security.roleRefs', message });
  }
  return problems;
}
