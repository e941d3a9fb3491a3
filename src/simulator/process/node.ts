/** The running process as commands see it, and what this part keeps about it: log, TLS, connections, counters. */
import { hostname } from 'node:os';
import { ObjectId } from 'bson';
import type { DataStore, ParsedOptions, Replication, ServerNode, Stamp } from '../contracts.ts';
import type { ClientConnection } from '../wire/connection.ts';
import { type Metrics, newMetrics } from '../wire/dispatcher.ts';
import type { ServerLog } from './log.ts';
import type { Program } from './option-table.ts';
import { option } from './options.ts';
import type { ShutdownOrder } from './shutdown.ts';
import type { TlsSettings } from './tls.ts';
import type { ClusterAuthMode } from './validate.ts';

const OPEN_ADDRESSES: ReadonlySet<string> = new Set(['0.0.0.0', '::', '*']);
const isLoopbackName = (name: string): boolean =>
  name === 'localhost' || name === '::1' || name.startsWith('127.');

export interface NodeParts {
  readonly program: Program;
  readonly options: ParsedOptions;
  readonly argv: readonly string[];
  readonly version: string;
  readonly log: ServerLog;
  readonly tls: TlsSettings;
  readonly data: DataStore;
  readonly parameters: Map<string, unknown>;
  readonly port: number;
}

/** One process. Replication and the ways to run commands and to end are filled in as the process starts. */
export class SimulatorNode implements ServerNode {
  readonly program: Program;
  readonly options: ParsedOptions;
  readonly argv: readonly string[];
  readonly version: string;
  readonly log: ServerLog;
  readonly tls: TlsSettings;
  readonly data: DataStore;
  readonly parameters: Map<string, unknown>;
  readonly startedAt = new Date();
  readonly processId = new ObjectId();
  readonly metrics: Metrics = newMetrics();
  readonly connections = new Set<ClientConnection>();
  readonly connectionCounts = { created: 0, rejected: 0 };
  /** A router knows it only once it listens. */
  port: number;
  replication: Replication | null = null;
  allows: NonNullable<ServerNode['allows']> = () => true;
  runInternal: ServerNode['runInternal'] = () => Promise.reject(new Error('the process is still starting'));
  /** Ends the process in the given way; rejects when it may not go down. */
  end: (order: ShutdownOrder) => Promise<void> = () => Promise.resolve();
  /** Connection string of the cluster's config servers, where this process belongs to a cluster. */
  configServers: () => string | undefined = () => undefined;
  /** Optimes of unreplicated writes. */
  localStamp: Stamp = () => {
    throw new Error('the process is still starting');
  };
  clusterAuthMode: ClusterAuthMode;

  constructor(parts: NodeParts) {
    this.program = parts.program;
    this.options = parts.options;
    this.argv = parts.argv;
    this.version = parts.version;
    this.log = parts.log;
    this.tls = parts.tls;
    this.data = parts.data;
    this.parameters = parts.parameters;
    this.port = parts.port;
    this.clusterAuthMode = option<ClusterAuthMode>(parts.options, 'security.clusterAuthMode') ?? 'keyFile';
  }

  get logger(): ServerLog {
    return this.log;
  }

  /** The name others reach this process by, as a set initiated without a configuration writes it. */
  get address(): string {
    const all = option<boolean>(this.options, 'net.bindIpAll') === true;
    const named = (option<string>(this.options, 'net.bindIp') ?? 'localhost')
      .split(',')
      .map((name) => name.trim());
    const open = all || named.some((name) => OPEN_ADDRESSES.has(name));
    const foreign = named.find((name) => !name.startsWith('/') && !isLoopbackName(name));
    return `${open ? hostname() : (foreign ?? named[0] ?? 'localhost')}:${this.port}`;
  }

  get testCommandsEnabled(): boolean {
    return this.parameters.get('enableTestCommands') === true;
  }

  /** The source of optimes for replicated writes of this process. */
  stamp(): Stamp {
    return this.replication?.stamp ?? this.localStamp;
  }

  shutdown(exitCode: number): void {
    void this.end({ exitCode, force: true, timeoutMillis: undefined });
  }

  now(): Date {
    return new Date();
  }
}
