/** serverStatus: the sections a control plane and the drivers' tests read. */
import { hostname } from 'node:os';
import { type Document, Long } from 'bson';
import type { Logins } from '../../auth/login.ts';
import type { CommandContext, CommandSpec } from '../../contracts.ts';
import { asFlag, isDocument } from '../../wire/bson.ts';
import { GENERIC_ARGUMENTS } from '../../wire/generic.ts';
import type { SimulatorNode } from '../node.ts';
import { option } from '../options.ts';
import { onCluster } from './info.ts';

const MIB = 1024 * 1024;
const CACHE_BYTES = 256 * MIB;
const DEFAULT_CONNECTIONS = 838_860;

/** serverStatus. */
export function serverStatusSpec(node: SimulatorNode, logins: Logins): CommandSpec {
  return {
    name: 'serverStatus',
    auth: onCluster('serverStatus'),
    access: 'any',
    run: (context) => serverStatus(context, node, logins),
  };
}

type Section = (node: SimulatorNode, logins: Logins) => Document | undefined;

const long = (value: number): Long => Long.fromNumber(Math.floor(value));

const SECTIONS: Readonly<Record<string, Section>> = {
  asserts: () => ({ regular: 0, warning: 0, msg: 0, user: 0, tripwire: 0, rollovers: 0 }),
  connections,
  extra_info: () => ({ note: 'fields vary by platform', page_faults: long(0) }),
  flowControl: () => ({
    enabled: true,
    targetRateLimit: 1_000_000_000,
    isLagged: false,
    isLaggedCount: 0,
    isLaggedTimeMicros: long(0),
  }),
  globalLock: (node) => ({
    totalTime: long((Date.now() - node.startedAt.getTime()) * 1000),
    currentQueue: { total: 0, readers: 0, writers: 0 },
    activeClients: { total: 0, readers: 0, writers: 0 },
  }),
  logicalSessionRecordCache: () => ({ activeSessionsCount: 0 }),
  mem: () => {
    const { rss, heapTotal, external } = process.memoryUsage();
    return {
      bits: 64,
      resident: Math.ceil(rss / MIB),
      virtual: Math.ceil((rss + heapTotal + external) / MIB),
      supported: true,
    };
  },
  metrics: ({ metrics }) => ({
    commands: {},
    document: {
      deleted: long(metrics.opcounters.delete),
      inserted: long(metrics.opcounters.insert),
      returned: long(metrics.opcounters.query),
      updated: long(metrics.opcounters.update),
    },
    ttl: { deletedDocuments: long(0), passes: long(0) },
  }),
  network: ({ metrics }) => ({
    bytesIn: long(metrics.bytesIn),
    bytesOut: long(metrics.bytesOut),
    physicalBytesIn: long(metrics.bytesIn),
    physicalBytesOut: long(metrics.bytesOut),
    numRequests: long(metrics.requests),
  }),
  opLatencies: ({ metrics }) => ({
    reads: { latency: long(0), ops: long(metrics.opcounters.query) },
    writes: {
      latency: long(0),
      ops: long(metrics.opcounters.insert + metrics.opcounters.update + metrics.opcounters.delete),
    },
    commands: { latency: long(0), ops: long(metrics.opcounters.command) },
  }),
  opcounters: ({ metrics }) =>
    Object.fromEntries(Object.entries(metrics.opcounters).map(([name, count]) => [name, long(count)])),
  opcountersRepl: () =>
    Object.fromEntries(
      ['insert', 'query', 'update', 'delete', 'getmore', 'command'].map((name) => [name, long(0)]),
    ),
  repl,
  security,
  sharding,
  storageEngine: () => ({
    name: 'wiredTiger',
    supportsCommittedReads: true,
    oldestRequiredTimestampForCrashRecovery: undefined,
    supportsPendingDrops: true,
    dropPendingIdents: long(0),
    supportsSnapshotReadConcern: true,
    readOnly: false,
    persistent: true,
    backupCursorOpen: false,
  }),
  transactions: () => ({
    retriedCommandsCount: long(0),
    currentActive: long(0),
    currentInactive: long(0),
    currentOpen: long(0),
    totalAborted: long(0),
    totalCommitted: long(0),
    totalStarted: long(0),
  }),
  transportSecurity: (node) => {
    const tls = [...node.connections].filter((connection) => connection.tls).length;
    return { '1.0': long(0), '1.1': long(0), '1.2': long(0), '1.3': long(tls), unknown: long(0) };
  },
  wiredTiger: (node) => ({
    uri: 'statistics:',
    cache: {
      'maximum bytes configured': long(
        (option<number>(node.options, 'storage.wiredTiger.engineConfig.cacheSizeGB') ??
          CACHE_BYTES / (1024 * MIB)) *
          1024 *
          MIB,
      ),
      'bytes currently in the cache': long(process.memoryUsage().heapUsed),
      'tracked dirty bytes in the cache': long(0),
    },
    concurrentTransactions: {
      read: { out: 0, available: 128, totalTickets: 128 },
      write: { out: 0, available: 128, totalTickets: 128 },
    },
  }),
};

function serverStatus({ command }: CommandContext, node: SimulatorNode, logins: Logins): Document {
  const uptime = Date.now() - node.startedAt.getTime();
  const reply: Document = {
    host: `${hostname()}${node.port === 27017 ? '' : `:${node.port}`}`,
    version: node.version,
    process: node.program,
    simulator: true,
    pid: long(process.pid),
    uptime: uptime / 1000,
    uptimeMillis: long(uptime),
    uptimeEstimate: long(uptime / 1000),
    localTime: node.now(),
  };
  for (const [name, section] of Object.entries(SECTIONS)) {
    if (!wanted(command, name) || (node.program === 'mongos' && OF_DATA.has(name))) continue;
    const content = section(node, logins);
    if (content !== undefined) reply[name] = content;
  }
  return reply;
}

/** Sections of processes with data; routers have none. */
const OF_DATA: ReadonlySet<string> = new Set([
  'flowControl',
  'globalLock',
  'opLatencies',
  'opcountersRepl',
  'repl',
  'storageEngine',
  'wiredTiger',
]);
const MAX_CHUNK_BYTES = 128 * MIB;

/** What routers and shards say of the cluster they belong to. */
function sharding(node: SimulatorNode): Document | undefined {
  const configsvrConnectionString = node.configServers();
  if (configsvrConnectionString === undefined) return undefined;
  return { configsvrConnectionString, maxChunkSizeInBytes: long(MAX_CHUNK_BYTES) };
}

/** All sections unless one is switched off by name, or `none: 1` asks for the named ones only. */
function wanted(command: Document, name: string): boolean {
  const asked: unknown = command[name];
  if (asked !== undefined && !GENERIC_ARGUMENTS.has(name)) return isDocument(asked) || asFlag(asked);
  return !asFlag(command['none']);
}

function connections(node: SimulatorNode): Document {
  const current = node.connections.size;
  const limit = option<number>(node.options, 'net.maxIncomingConnections') ?? DEFAULT_CONNECTIONS;
  return {
    current,
    available: limit - current,
    totalCreated: node.connectionCounts.created,
    rejected: node.connectionCounts.rejected,
    active: 1,
    threaded: current,
    exhaustIsMaster: long(0),
    exhaustHello: long(0),
    awaitingTopologyChanges: long(0),
  };
}

function repl(node: SimulatorNode): Document | undefined {
  if (node.replication === null) return undefined;
  try {
    return { ...node.replication.helloFields({ legacyNames: false }), rbid: 1 };
  } catch {
    return undefined;
  }
}

function security(node: SimulatorNode, logins: Logins): Document {
  const mechanisms = [...logins.counts].map(([name, counts]) => [
    name,
    {
      speculativeAuthenticate: { received: long(counts.speculative), successful: long(counts.speculative) },
      authenticate: { received: long(counts.received), successful: long(counts.successful) },
    },
  ]);
  const { certificate } = node.tls;
  return {
    authentication: {
      saslSupportedMechsReceived: long(0),
      mechanisms: Object.fromEntries(mechanisms) as Document,
    },
    ...(certificate === null
      ? {}
      : {
          SSLServerSubjectName: node.tls.ownSubject(),
          SSLServerHasCertificateAuthority: node.tls.hasCa,
          SSLServerCertificateExpirationDate: new Date(certificate.validTo),
        }),
  };
}
