import type { z } from 'zod';
import type { Problem } from '../../base/error.ts';
import { resolveVersion } from '../catalog.ts';
import { keyPath, managedKeyProblems, routerlessKeys, unclearKeyProblems } from '../managedKeys.ts';
import { envelope } from '../meta.ts';
import { isDnsLabel, isDnsName, isWholeInternet } from '../network.ts';
import { booleanAt, isMap, type Loose, listAt, mapAt, numberAt, textAt } from '../paths.ts';
import { parseDuration } from '../quantity.ts';
import { neverComes, parseCron } from '../schedule.ts';
import {
  anyMongodbSpecSchema,
  FIELDS_BY_TYPE,
  type MemberConfig,
  memberSettings,
  mongodbSchema,
  replicaSetSpecSchema,
  shardedClusterSpecSchema,
  standaloneSpecSchema,
  VOTING_COUNTS,
} from './mongodb.ts';
import { fcvFormProblems } from './mongodbFcv.ts';

const STATUS = mongodbSchema.shape.status;
const BY_TYPE: Readonly<Record<string, z.ZodType>> = {
  Standalone: envelope('MongoDB', standaloneSpecSchema, STATUS),
  ReplicaSet: envelope('MongoDB', replicaSetSpecSchema, STATUS),
  ShardedCluster: envelope('MongoDB', shardedClusterSpecSchema, STATUS),
};
const ANY_TYPE = envelope('MongoDB', anyMongodbSpecSchema, STATUS);

/** Longest name of a MongoDB: `<name>-49-svc-external` must still be a DNS label (VAL-12). */
export const MAX_SET_NAME_LENGTH = 63 - '-49-svc-external'.length;
/** The same for sharded clusters, whose longest derived name is `<name>-mongos-99-svc-external`. */
export const MAX_SHARDED_NAME_LENGTH = 63 - '-mongos-99-svc-external'.length;

/** The schema for one document: that of its type, or one with all fields when the type is not right. */
export function mongodbInputSchema(document: Loose): z.ZodType {
  return BY_TYPE[textAt(document, 'spec', 'type') ?? ''] ?? ANY_TYPE;
}

/** Better words for fields that exist, but elsewhere. */
export function explainMongodbField(
  path: readonly PropertyKey[],
  name: string,
  document: Loose,
): string | undefined {
  const at = path.map(String).join('.');
  const owner = FIELDS_BY_TYPE[name];
  if (at === 'spec' && owner !== undefined) {
    return `belongs to type ${owner}, not to ${textAt(document, 'spec', 'type')}`;
  }
  if (at === 'spec' && name === 'arbiters') return NO_ARBITERS;
  if (/^spec\.memberConfig\.\d+$/.test(at) && /^arbiter/i.test(name)) return NO_ARBITERS;
  if (at === 'spec.security.tls' && name === 'enabled') return 'set spec.security.tls.mode instead';
  return undefined;
}

/** Why arbiters are refused (B1.2). */
export const NO_ARBITERS =
  'arbiters are not supported: they hold no data, and with them a majority can acknowledge writes that one failure loses; use a data-bearing member';

/** Rules about several fields of a MongoDB. Works on unfinished documents too: whatever is not right is left out. */
export function mongodbRules(document: Loose): { problems: Problem[]; warnings: Problem[] } {
  const found = { problems: [] as Problem[], warnings: [] as Problem[] };
  const spec = mapAt(document, 'spec');
  checkName(document, found.problems);
  checkVersion(spec, found);
  checkMembers(spec, found);
  checkConfig(spec, found.problems);
  checkAuthentication(spec, found.problems);
  checkRoles(spec, found.problems);
  checkExposure(spec, found);
  checkWindows(spec, found.problems);
  checkSingles(spec, found);
  return found;
}

type Found = { problems: Problem[]; warnings: Problem[] };

function checkName(document: Loose, problems: Problem[]): void {
  const name = textAt(document, 'metadata', 'name');
  // The schema says already what is wrong with a text that is no DNS name at all, but of one that is too long a larger limit.
  if (name === undefined || !(isDnsName(name) || /^[-a-z0-9]{64,}$/.test(name))) return;
  const path = 'metadata.name';
  const sharded = textAt(document, 'spec', 'type') === 'ShardedCluster';
  const most = sharded ? MAX_SHARDED_NAME_LENGTH : MAX_SET_NAME_LENGTH;
  if (!/^[a-z]/.test(name)) {
    problems.push({
      path,
      message: 'must start with a letter, since names of members and services derive from it',
    });
  } else if (name.length > most) {
    const message = `has ${name.length} characters, at most ${most} are accepted, since names of members and services derive from it`;
    problems.push({ path, message });
  } else if (name.includes('--')) {
    // Elsewhere than in `default` a service is called NAMESPACE--MEMBER: two clusters could meet in one name.
    problems.push({
      path,
      message: 'must not contain two hyphens in a row, which end the namespace in names of services',
    });
  } else if (!isDnsLabel(name)) {
    problems.push({
      path,
      message: 'must not contain dots, since names of members and services derive from it',
    });
  }
}

function checkVersion(spec: Loose, found: Found): void {
  const version = textAt(spec, 'version');
  if (version !== undefined) {
    const resolved = resolveVersion(version);
    if (resolved.kind === 'refused') found.problems.push({ path: 'spec.version', message: resolved.message });
    else if (resolved.warning !== undefined) {
      found.warnings.push({ path: 'spec.version', message: resolved.warning });
    }
  }
  found.problems.push(...fcvFormProblems(spec));
}

const VOTING_TEXT = 'a replica set has 1, 3, 5 or 7 voting members';

function checkMembers(spec: Loose, found: Found): void {
  const members = numberAt(spec, 'members');
  const config = listAt(spec, 'memberConfig');
  if (members !== undefined && Number.isInteger(members) && members >= 1 && members <= 50) {
    checkVoters(members, config, found.problems);
  }
  for (const [index, entry] of config.entries()) checkMember(entry, `spec.memberConfig[${index}]`, found);
  for (const key of ['mongodsPerShardCount', 'configServerCount']) {
    const count = numberAt(spec, key);
    if (
      count === undefined ||
      count < 1 ||
      count > 50 ||
      !Number.isInteger(count) ||
      VOTING_COUNTS.includes(count)
    )
      continue;
    found.problems.push({ path: `spec.${key}`, message: `${count} is not allowed: ${VOTING_TEXT}` });
  }
  checkConfigServers(spec, found.problems);
}

/** Every shard depends on the config servers: one alone is a risk that has to be taken in so many words. */
function checkConfigServers(spec: Loose, problems: Problem[]): void {
  if (numberAt(spec, 'configServerCount') !== 1) return;
  if (textAt(spec, 'maintenance', 'interruption') === 'Allowed') return;
  const message =
    '1 is not allowed: the whole cluster would stop with its only config server; use 3, or accept that with spec.maintenance.interruption: Allowed';
  problems.push({ path: 'spec.configServerCount', message });
}

function checkVoters(members: number, config: readonly unknown[], problems: Problem[]): void {
  if (config.length > members) {
    const message = `has ${config.length} entries for ${members} members; give one per member at most`;
    problems.push({ path: 'spec.memberConfig', message });
  }
  const settings = Array.from({ length: members }, (_, index) => memberSettings(asMember(config[index])));
  const voters = settings.filter(({ votes }) => votes === 1).length;
  if (!VOTING_COUNTS.includes(voters)) {
    const message =
      voters === members
        ? `${members} is not allowed: ${VOTING_TEXT}; more members can be had without a vote, with votes: 0 in spec.memberConfig`
        : `${members} members with ${voters} votes are not allowed: ${VOTING_TEXT}`;
    problems.push({ path: 'spec.members', message });
  }
  if (!settings.some(({ votes, priority }) => votes === 1 && priority > 0)) {
    const message = 'no member could become primary: at least one needs a vote and a priority above 0';
    problems.push({ path: 'spec.memberConfig', message });
  }
}

// Fields of the wrong type have their own problem already; they count as absent here.
function asMember(entry: unknown): MemberConfig {
  const votes = numberAt(entry, 'votes');
  const priority = numberAt(entry, 'priority');
  const hidden = booleanAt(entry, 'hidden');
  const secondaryDelaySecs = numberAt(entry, 'secondaryDelaySecs');
  return {
    ...(votes === undefined ? {} : { votes }),
    ...(priority === undefined ? {} : { priority }),
    ...(hidden === undefined ? {} : { hidden }),
    ...(secondaryDelaySecs === undefined ? {} : { secondaryDelaySecs }),
  };
}

/** The server's own rules for one member (static validation of a set's configuration). */
function checkMember(entry: unknown, path: string, found: Found): void {
  const { votes, priority, hidden, secondaryDelaySecs: delay = 0 } = asMember(entry);
  const given = priority !== undefined && priority > 0;
  const zero = { path: `${path}.priority` };
  if (given && votes === 0) {
    found.problems.push({ ...zero, message: 'must be 0 for a member without a vote (votes: 0)' });
  }
  if (given && hidden === true) found.problems.push({ ...zero, message: 'must be 0 for a hidden member' });
  if (given && delay > 0) {
    found.problems.push({ ...zero, message: 'must be 0 for a delayed member (secondaryDelaySecs)' });
  }
  if (delay > 0 && hidden !== true) {
    found.warnings.push({
      path: `${path}.secondaryDelaySecs`,
      message: 'a delayed member should be hidden, or clients read old data',
    });
  }
  if (delay > 0 && votes !== 0) {
    found.warnings.push({
      path: `${path}.secondaryDelaySecs`,
      message: 'a delayed member should have votes: 0, or majority writes may wait for it',
    });
  }
}

function checkConfig(spec: Loose, problems: Problem[]): void {
  const places = ['', 'shard.', 'configSrv.', 'mongos.'];
  for (const place of places) {
    const field = `${place}additionalMongodConfig`;
    const config = place === '' ? spec[field] : mapAt(spec, place.slice(0, -1))['additionalMongodConfig'];
    for (const { key, message } of [...managedKeyProblems(config), ...unclearKeyProblems(config)]) {
      problems.push({ path: keyPath(`spec.${field}`, key), message });
    }
  }
  const routers = mapAt(spec, 'mongos')['additionalMongodConfig'];
  for (const key of isMap(routers) ? routerlessKeys(routers) : [])
    problems.push({
      path: `spec.mongos.additionalMongodConfig.${key}`,
      message: 'is no setting of a router, which keeps no data; set it for spec.shard or spec.configSrv',
    });
  if (
    textAt(spec, 'type') === 'ShardedCluster' &&
    Object.keys(mapAt(spec, 'additionalMongodConfig')).length > 0
  ) {
    problems.push({
      path: 'spec.additionalMongodConfig',
      message:
        'a ShardedCluster has spec.shard, spec.configSrv and spec.mongos with their own additionalMongodConfig',
    });
  }
}

function checkAuthentication(spec: Loose, problems: Problem[]): void {
  const authentication = mapAt(spec, 'security', 'authentication');
  const tls = mapAt(spec, 'security', 'tls');
  if (authentication['enabled'] === false) {
    const message = 'authentication cannot be turned off; leave the field out and create a MongoDBUser';
    problems.push({ path: 'spec.security.authentication.enabled', message });
  }
  if (!listAt(authentication, 'modes').includes('X509')) return;
  const mode = textAt(tls, 'mode') ?? 'requireTLS';
  if (mode === 'disabled' || mode === 'allowTLS') {
    const message = `X509 needs spec.security.tls.mode preferTLS or requireTLS, not ${mode}`;
    problems.push({ path: 'spec.security.authentication.modes', message });
  }
}

function checkRoles(spec: Loose, problems: Problem[]): void {
  const seen = new Map<string, number>();
  for (const [index, role] of listAt(spec, 'security', 'roles').entries()) {
    const path = `spec.security.roles[${index}]`;
    const id = `${textAt(role, 'db')}.${textAt(role, 'role')}`;
    const first = seen.get(id);
    if (first !== undefined)
      problems.push({ path, message: `is the same role as spec.security.roles[${first}]` });
    else seen.set(id, index);
    for (const [at, privilege] of listAt(role, 'privileges').entries()) {
      const resource = mapAt(privilege, 'resource');
      const where = `${path}.privileges[${at}].resource`;
      const named = resource['db'] !== undefined || resource['collection'] !== undefined;
      if (resource['cluster'] === false)
        problems.push({ path: `${where}.cluster`, message: 'must be true, or be left out' });
      if (resource['cluster'] === true && named) {
        problems.push({ path: where, message: 'takes either cluster: true, or db and collection' });
      }
      if (isMap(privilege) && resource['cluster'] === undefined && !named) {
        problems.push({ path: where, message: 'needs cluster: true, or db and collection' });
      }
    }
  }
}

function checkExposure(spec: Loose, found: Found): void {
  if (!isMap(spec['exposure'])) return;
  const cidrs = listAt(spec, 'exposure', 'cidrs');
  const path = 'spec.exposure.cidrs';
  if (cidrs.length === 0 && booleanAt(spec, 'exposure', 'enabled') !== false) {
    found.problems.push({
      path,
      message: 'at least one address range is required, such as "203.0.113.0/24"',
    });
  }
  for (const [index, cidr] of cidrs.entries()) {
    if (typeof cidr !== 'string') continue;
    if (cidrs.indexOf(cidr) < index)
      found.problems.push({ path: `${path}[${index}]`, message: `${cidr} is given twice` });
    if (isWholeInternet(cidr))
      found.warnings.push({ path: `${path}[${index}]`, message: `${cidr} lets everybody connect` });
  }
}

/** What would wait for ever would wait in silence. */
function checkCron(path: string, text: string | undefined, problems: Problem[]): void {
  const cron = text === undefined ? undefined : parseCron(text);
  if (cron?.ok && neverComes(cron.value))
    problems.push({ path, message: 'never comes: no month it names has such a day' });
}

function checkWindows(spec: Loose, problems: Problem[]): void {
  for (const [index, window] of listAt(spec, 'maintenance', 'windows').entries()) {
    if (!isMap(window)) continue;
    const path = `spec.maintenance.windows[${index}]`;
    const weekly = window['days'] !== undefined || window['start'] !== undefined;
    const cron = window['cron'] !== undefined;
    if (weekly && cron) problems.push({ path, message: 'takes either days and start, or cron' });
    else if (!cron && (listAt(window, 'days').length === 0 || window['start'] === undefined)) {
      problems.push({ path, message: 'needs days and start, such as days: [Sat], start: "02:00", or cron' });
    }
    checkCron(`${path}.cron`, textAt(window, 'cron'), problems);
    const duration = parseDuration(textAt(window, 'duration') ?? '');
    if (duration.ok && (duration.value < 60_000 || duration.value > 7 * 86_400_000)) {
      problems.push({ path: `${path}.duration`, message: 'must be from 1m to 7d' });
    }
  }
  const seen = new Set<string>();
  for (const [index, schedule] of listAt(spec, 'backup', 'schedules').entries()) {
    checkCron(`spec.backup.schedules[${index}].cron`, textAt(schedule, 'cron'), problems);
    const name = textAt(schedule, 'name');
    if (name === undefined) continue;
    if (seen.has(name)) {
      problems.push({ path: `spec.backup.schedules[${index}].name`, message: `${name} is given twice` });
    }
    seen.add(name);
  }
}

/** Groups of a sharded cluster that can spare nobody when there is one of them. */
const SINGLES = [
  ['mongodsPerShardCount', 'member in each shard'],
  ['configServerCount', 'config server'],
  ['mongosCount', 'router'],
] as const;

function checkSingles(spec: Loose, found: Found): void {
  const type = textAt(spec, 'type');
  const single = type === 'Standalone' || (type === 'ReplicaSet' && numberAt(spec, 'members') === 1);
  if (single && textAt(spec, 'maintenance', 'interruption') !== 'Allowed') {
    found.warnings.push({
      path: 'spec.maintenance.interruption',
      message:
        'with a single member every restart is an outage, so upgrades and repairs wait until this is Allowed',
    });
  }
  if (type === 'ShardedCluster' && textAt(spec, 'maintenance', 'interruption') !== 'Allowed')
    for (const [field, what] of SINGLES)
      if (numberAt(spec, field) === 1)
        found.warnings.push({
          path: `spec.${field}`,
          message: `with 1 ${what} its every restart is an outage, so upgrades and repairs wait until there are more or spec.maintenance.interruption is Allowed`,
        });
  if (booleanAt(spec, 'persistent') === false) {
    found.warnings.push({ path: 'spec.persistent', message: 'data is lost with the member' });
    if (single) return;
  }
  const dataAccess = listAt(spec, 'dataAccess', 'databases');
  for (const [index, name] of dataAccess.entries()) {
    if (!['admin', 'local', 'config'].includes(String(name))) continue;
    const message = `${String(name)} is a system database and never in scope`;
    found.problems.push({ path: `spec.dataAccess.databases[${index}]`, message });
  }
}
