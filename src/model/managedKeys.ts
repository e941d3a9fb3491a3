import { isMap, type Loose } from './paths.ts';

/** A key of mongod's configuration that the system owns, and what a person sets instead. */
export interface ManagedKey {
  /** Dotted path in lower case; it stands for itself and everything below it. */
  readonly prefix: string;
  /** The rest of the sentence "… is owned by Belay; ". */
  readonly instead: string;
}

/** One override that is not allowed. */
export interface ManagedKeyProblem {
  /** Dotted key as the person wrote it, without the field that holds the configuration. */
  readonly key: string;
  readonly message: string;
}

const rule = (prefix: string, instead: string): ManagedKey => ({ prefix: prefix.toLowerCase(), instead });

const TLS_MODE = 'set spec.security.tls.mode';
const TLS_FILES = 'certificates come from spec.security.tls';
const AUTH = 'set spec.security.authentication';

/**
 * The one policy about overriding (A9.5, CFG-03): validation refuses these keys and the agent's rendering uses the
 * same table, so that what was admitted is what runs. Names are compared without case, dotted or nested alike;
 * deprecated aliases (`net.ssl.*`) and command-line spellings are included so that none slips through.
 */
export const MANAGED_KEYS: readonly ManagedKey[] = [
  rule('net.tls.mode', TLS_MODE),
  rule('net.ssl.mode', TLS_MODE),
  rule('net.tls.certificateKeyFile', TLS_FILES),
  rule('net.tls.certificateKeyFilePassword', TLS_FILES),
  rule('net.tls.clusterFile', TLS_FILES),
  rule('net.tls.clusterPassword', TLS_FILES),
  rule('net.tls.CAFile', 'set spec.security.tls.ca'),
  rule('net.tls.clusterCAFile', 'set spec.security.tls.ca'),
  rule('net.tls.CRLFile', TLS_FILES),
  rule('net.tls.certificateSelector', TLS_FILES),
  rule('net.tls.clusterCertificateSelector', TLS_FILES),
  rule('net.tls.allowInvalidCertificates', 'members always check each other'),
  rule('net.tls.allowInvalidHostnames', 'members always check each other'),
  rule('net.tls.allowConnectionsWithoutCertificates', AUTH),
  rule('net.tls.clusterAuthX509', AUTH),
  rule('net.ssl', 'use the net.tls names, and spec.security.tls for certificates'),
  rule('net.port', 'set spec.port'),
  rule('net.bindIp', 'members listen where their host says; spec.exposure opens them to others'),
  rule('net.bindIpAll', 'members listen where their host says; spec.exposure opens them to others'),
  rule('net.ipv6', 'members listen where their host says'),
  rule('net.unixDomainSocket', 'the agent needs its own socket folder'),
  rule('storage.dbPath', 'the data folder belongs to the member, its size is spec.storage.size'),
  rule('storage.engine', 'the engine is always wiredTiger'),
  rule('storage.inMemory', 'the engine is always wiredTiger'),
  rule('replication.replSetName', 'the set is named after the object'),
  rule('replication.replSet', 'the set is named after the object'),
  rule('replication.enableMajorityReadConcern', 'it is always on'),
  rule('security.keyFile', 'the key of the cluster is made and kept by the control plane'),
  rule('security.clusterAuthMode', AUTH),
  rule('security.authorization', AUTH),
  rule('security.transitionToAuth', AUTH),
  rule('security.enableLocalhostAuthBypass', AUTH),
  rule('setParameter.enableLocalhostAuthBypass', AUTH),
  rule('setParameter.authenticationMechanisms', 'set spec.security.authentication.modes'),
  rule('setParameter.enableTestCommands', 'it would open the server to everybody'),
  rule('setParameter.tlsMode', TLS_MODE),
  rule('setParameter.sslMode', TLS_MODE),
  rule('setParameter.clusterAuthMode', AUTH),
  rule('sharding.clusterRole', 'set spec.type'),
  rule('sharding.configDB', 'set spec.type'),
  rule('systemLog.destination', 'the agent reads the log at its own place'),
  rule('systemLog.path', 'the agent reads the log at its own place'),
  rule('systemLog.logAppend', 'the agent reads the log at its own place'),
  rule('systemLog.logRotate', 'the agent rotates logs'),
  rule('systemLog.syslogFacility', 'the agent reads the log at its own place'),
  rule('processManagement', 'the agent supervises the process'),
  rule('config', 'the agent writes the configuration file'),
];

/** The rule that owns a dotted key, if one does. A key above an owned one is not owned itself. */
export function managedKey(dotted: string): ManagedKey | undefined {
  const key = dotted.toLowerCase();
  return MANAGED_KEYS.find(({ prefix }) => key === prefix || key.startsWith(`${prefix}.`));
}

/**
 * All owned keys that a configuration (nested, dotted or mixed, `{'net.tls': {mode: …}}` too) would override.
 * Values never appear in the messages: a configuration may hold passwords (S8).
 */
export function managedKeyProblems(config: unknown): readonly ManagedKeyProblem[] {
  if (!isMap(config)) return [];
  const problems: ManagedKeyProblem[] = [];
  for (const [key, value] of flattenConfig(config)) {
    const owned = managedKey(key);
    if (owned !== undefined) {
      problems.push({ key, message: `is owned by Belay; ${owned.instead}` });
    } else if (value !== null && !isMap(value) && isSection(key)) {
      problems.push({ key, message: 'is a section of the configuration and must be a map' });
    }
  }
  return problems;
}

/** Where a setting that is given twice hides: YAML refuses the same key twice, but not another spelling of it. */
const TWICE = 'is given more than once, dotted and nested, and only one would count; keep one of them';

/**
 * Keys that do not say which setting they mean: with nothing between two dots, or one setting in two spellings, of which
 * rendering would drop one without a word (CFG-02). Values never appear in the messages.
 */
export function unclearKeyProblems(config: unknown): readonly ManagedKeyProblem[] {
  if (!isMap(config)) return [];
  const leaves = flattenConfig(config).map(([key, value]) => ({ key, value, parts: partsOf(key) }));
  const nameless = leaves
    .filter(({ parts }) => parts.includes(''))
    .map(({ key }) => ({
      key,
      message: 'names no setting: something is missing before, between or after its dots',
    }));
  const given = leaves.filter(({ value }) => !isEmptyMap(value));
  const ids = given.map(({ parts }) => idOf(parts));
  const first = new Map(ids.map((id, at) => [id, at] as const).reverse());
  const twice = given.filter((_, at) => first.get(ids[at] ?? '') !== at);
  const below = given.filter(({ parts }) =>
    parts.some((_, end) => end > 0 && first.has(idOf(parts.slice(0, end)))),
  );
  return [
    ...nameless,
    ...twice.map(({ key }) => ({ key, message: TWICE })),
    ...below.map(({ key }) => ({
      key,
      message: 'lies below a setting that has a value of its own; keep one of them',
    })),
  ];
}

/** Where a key of a configuration stands that is the field of this path. */
export const keyPath = (field: string, key: string): string => (key === '' ? field : `${field}.${key}`);

const idOf = (parts: readonly string[]): string => JSON.stringify(parts);
const isEmptyMap = (value: unknown): boolean => isMap(value) && Object.keys(value).length === 0;

/** Sections that mongos does not know (CFG-03): with one of their keys it does not start. One key is for routers alone. */
const DATA_SECTIONS = /^(?:storage|replication)(?:\.|$)/i;
const OF_ROUTERS = 'replication.localpingthresholdms';

/** Keys of a router's configuration that only processes with data have, and that are not refused as owned already. */
export const routerlessKeys = (config: Loose): readonly string[] =>
  flattenConfig(config).flatMap(([key]) =>
    DATA_SECTIONS.test(key) && key.toLowerCase() !== OF_ROUTERS && managedKey(key) === undefined ? [key] : [],
  );

// `net: 5` would replace the section with all that the system writes into it.
function isSection(key: string): boolean {
  const above = `${key.toLowerCase()}.`;
  return MANAGED_KEYS.some(({ prefix }) => prefix.startsWith(above));
}

/** The leaves of a configuration under dotted names. Lists and empty maps are leaves. */
export function flattenConfig(config: Loose, above?: string): [string, unknown][] {
  return Object.entries(config).flatMap(([key, value]): [string, unknown][] => {
    const path = above === undefined ? key : `${above}.${key}`;
    if (isMap(value) && !isEmptyMap(value)) return flattenConfig(value, path);
    return [[path, value]];
  });
}

/**
 * A configuration in nested form, whatever mixture of dotted and nested keys came in, without the keys the system
 * owns: what rendering may merge. Names of parameters below setParameter keep their dots.
 */
export function nestConfig(config: Loose): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const [path, value] of flattenConfig(config)) {
    if (managedKey(path) !== undefined) continue;
    place(root, partsOf(path), value);
  }
  return root;
}

/** The sections and the name of a setting. */
function partsOf(path: string): readonly string[] {
  const parameter = /^setParameter\.(.+)$/i.exec(path)?.[1];
  return parameter === undefined ? path.split('.') : ['setParameter', parameter];
}

function place(root: Record<string, unknown>, parts: readonly string[], value: unknown): void {
  let at = root;
  for (const part of parts.slice(0, -1)) {
    const next = Object.hasOwn(at, part) ? at[part] : undefined;
    const section: Record<string, unknown> = isMap(next) ? (next as Record<string, unknown>) : {};
    Object.defineProperty(at, part, { value: section, enumerable: true, writable: true, configurable: true });
    at = section;
  }
  const last = parts.at(-1) ?? '';
  // An empty section takes nothing away from what another key has put into it.
  if (isEmptyMap(value) && Object.hasOwn(at, last) && isMap(at[last])) return;
  Object.defineProperty(at, last, { value, enumerable: true, writable: true, configurable: true });
}
