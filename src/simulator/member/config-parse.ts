import { err, ok, type Result } from '../../base/result.ts';
import {
  DEFAULT_SETTINGS,
  type MemberConfig,
  NO_TERM,
  type ReplicaSetConfig,
  type Settings,
} from './config.ts';

type Fields = Readonly<Record<string, unknown>>;
const MAX_INT = 2_147_483_647;
const MAX_DELAY_SECS = 31_622_400;
const TOP_FIELDS = new Set([
  '_id',
  'version',
  'term',
  'members',
  'configsvr',
  'protocolVersion',
  'writeConcernMajorityJournalDefault',
  'settings',
  'repaired',
  '$db',
]);
const MEMBER_FIELDS = new Set([
  '_id',
  'host',
  'arbiterOnly',
  'buildIndexes',
  'hidden',
  'priority',
  'tags',
  'horizons',
  'secondaryDelaySecs',
  'slaveDelay',
  'votes',
  'newlyAdded',
]);

/** Thrown inside this file only; parseConfig turns it into a value. */
class ParseFailure extends Error {}
const fail = (message: string): never => {
  throw new ParseFailure(message);
};

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'double';
  return 'object';
}

const wrongType = (path: string, value: unknown, wanted: string): never =>
  fail(`BSON field '${path}' is the wrong type '${typeName(value)}', expected type '${wanted}'`);

function int(path: string, value: unknown, min: number, max: number): number {
  if (typeof value !== 'number') return wrongType(path, value, '[int, decimal, double, long]');
  const whole = Math.trunc(value);
  const field = path.slice(path.lastIndexOf('.') + 1);
  if (whole < min) fail(`BSON field '${field}' value must be >= ${min}, actual value '${whole}'`);
  if (whole > max) fail(`BSON field '${field}' value must be <= ${max}, actual value '${whole}'`);
  return whole;
}

function bool(path: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  if (typeof value === 'number') return value !== 0;
  return wrongType(path, value, '[bool, int, decimal, double, long]');
}

const or = <T>(value: unknown, fallback: T, read: (value: unknown) => T): T =>
  value === undefined ? fallback : read(value);

function noUnknown(type: string, fields: Fields, known: ReadonlySet<string>): void {
  for (const name of Object.keys(fields)) {
    if (!known.has(name)) fail(`BSON field '${type}.${name}' is an unknown field.`);
  }
}

function strings(path: string, value: unknown): Readonly<Record<string, string>> {
  if (!isFields(value)) return wrongType(path, value, 'object');
  for (const [key, tag] of Object.entries(value)) {
    if (typeof tag !== 'string') fail(`${path}.${key} field has non-string value of type ${typeName(tag)}`);
  }
  return value as Readonly<Record<string, string>>;
}

/** `host` gets the default port; an empty host or a bad port is refused. */
export function normalHost(path: string, value: unknown): string {
  if (typeof value !== 'string') return wrongType(path, value, 'string');
  const match = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/.exec(value);
  if (!match) return fail(`FailedToParse: bad host '${value}'`);
  const [, host = '', port] = match;
  if (host === '') return fail(`Empty host component parsing HostAndPort from "${value}"`);
  if (port === undefined) return `${host}:27017`;
  if (!/^\d+$/.test(port)) return fail(`Bad digit in port "${port}" parsing HostAndPort from "${value}"`);
  const number = Number(port);
  if (number < 1 || number > 65_535) {
    return fail(`Port number ${port} out of range parsing HostAndPort from "${value}"`);
  }
  return `${host}:${number}`;
}

function parseMember(value: unknown, index: number): MemberConfig {
  if (!isFields(value)) return wrongType(`ReplSetConfig.members.${index}`, value, 'object');
  noUnknown('MemberConfig', value, MEMBER_FIELDS);
  const required = (name: string): unknown =>
    value[name] === undefined
      ? fail(`BSON field 'MemberConfig.${name}' is missing but a required field`)
      : value[name];
  const arbiterOnly = or(value['arbiterOnly'], false, (v) => bool('MemberConfig.arbiterOnly', v));
  const priority = or(value['priority'], arbiterOnly ? 0 : 1, (v) =>
    typeof v === 'number' ? v : wrongType('MemberConfig.priority', v, '[int, decimal, double, long]'),
  );
  if (priority < 0 || priority > 1000) {
    fail(
      `BSON field 'priority' value must be ${priority < 0 ? '>= 0' : '<= 1000'}, actual value '${priority}'`,
    );
  }
  return {
    id: int('MemberConfig._id', required('_id'), 0, 255),
    host: normalHost('MemberConfig.host', required('host')),
    arbiterOnly,
    buildIndexes: or(value['buildIndexes'], true, (v) => bool('MemberConfig.buildIndexes', v)),
    hidden: or(value['hidden'], false, (v) => bool('MemberConfig.hidden', v)),
    // The server turns an arbiter's old default priority 1 into 0 without a word.
    priority: arbiterOnly && priority === 1 ? 0 : priority,
    tags: or(value['tags'], {}, (v) => strings('tags', v)),
    horizons: or<Readonly<Record<string, string>> | null>(value['horizons'], null, (v) =>
      strings('horizons', v),
    ),
    secondaryDelaySecs: or(value['secondaryDelaySecs'] ?? value['slaveDelay'], 0, (v) =>
      int('MemberConfig.secondaryDelaySecs', v, 0, MAX_DELAY_SECS),
    ),
    votes: or(value['votes'], 1, (v) => int('MemberConfig.votes', v, 0, 1)),
    newlyAdded: or(value['newlyAdded'], false, (v) => bool('MemberConfig.newlyAdded', v)),
  };
}

function parseModes(value: unknown): Settings['getLastErrorModes'] {
  if (!isFields(value)) return wrongType('ReplSetConfigSettings.getLastErrorModes', value, 'object');
  const modes: Record<string, Record<string, number>> = {};
  for (const [name, rules] of Object.entries(value)) {
    if (!isFields(rules)) return wrongType(`getLastErrorModes.${name}`, rules, 'object');
    const mode: Record<string, number> = {};
    for (const [tag, count] of Object.entries(rules)) {
      mode[tag] = int(`getLastErrorModes.${name}.${tag}`, count, 1, MAX_INT);
    }
    modes[name] = mode;
  }
  return modes;
}

function parseSettings(value: unknown): Settings {
  if (value === undefined) return DEFAULT_SETTINGS;
  if (!isFields(value)) return wrongType('ReplSetConfig.settings', value, 'object');
  const whole = (name: keyof Settings, min: number): number =>
    or(value[name], DEFAULT_SETTINGS[name] as number, (v) =>
      int(`ReplSetConfigSettings.${name}`, v, min, MAX_INT),
    );
  return {
    chainingAllowed: or(value['chainingAllowed'], true, (v) =>
      bool('ReplSetConfigSettings.chainingAllowed', v),
    ),
    heartbeatIntervalMillis: whole('heartbeatIntervalMillis', 1),
    heartbeatTimeoutSecs: whole('heartbeatTimeoutSecs', 1),
    electionTimeoutMillis: whole('electionTimeoutMillis', 1),
    catchUpTimeoutMillis: whole('catchUpTimeoutMillis', -1),
    catchUpTakeoverDelayMillis: whole('catchUpTakeoverDelayMillis', -1),
    getLastErrorModes: or(value['getLastErrorModes'], {}, parseModes),
    replicaSetId: or<string | null>(value['replicaSetId'], null, (v) => (v === null ? null : String(v))),
  };
}

/**
 * Reads a configuration document whose numbers are plain and whose ObjectIds are hex text. The error is the server's inner
 * reason (callers wrap it in 93). Unknown fields are refused at the top and in members, ignored in `settings`.
 */
export function parseConfig(document: unknown): Result<ReplicaSetConfig, string> {
  try {
    if (!isFields(document)) return err('no configuration specified');
    noUnknown('ReplSetConfig', document, TOP_FIELDS);
    const name = document['_id'];
    if (name === undefined) fail("BSON field 'ReplSetConfig._id' is missing but a required field");
    if (typeof name !== 'string') return wrongType('ReplSetConfig._id', name, 'string');
    if (name === '') fail('Replica set configuration must have non-empty _id field');
    const members = document['members'];
    if (members === undefined) fail("BSON field 'ReplSetConfig.members' is missing but a required field");
    if (!Array.isArray(members)) return wrongType('ReplSetConfig.members', members, 'array');
    if (or(document['protocolVersion'], 1, Number) !== 1) {
      fail(`BSON field 'protocolVersion' value must be = 1, actual value '${document['protocolVersion']}'`);
    }
    return ok({
      setName: name as string,
      version: or(document['version'], 1, (v) => int('ReplSetConfig.version', v, 1, MAX_INT)),
      term: or(document['term'], NO_TERM, (v) =>
        int('ReplSetConfig.term', v, NO_TERM, Number.MAX_SAFE_INTEGER),
      ),
      members: members.map(parseMember),
      configsvr: or(document['configsvr'], false, (v) => bool('ReplSetConfig.configsvr', v)),
      writeConcernMajorityJournalDefault: or(document['writeConcernMajorityJournalDefault'], true, (v) =>
        bool('ReplSetConfig.writeConcernMajorityJournalDefault', v),
      ),
      settings: parseSettings(document['settings']),
    });
  } catch (failure) {
    if (failure instanceof ParseFailure) return err(failure.message);
    throw failure;
  }
}
