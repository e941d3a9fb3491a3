/** Start-up of a `mongod`: from good options to "Waiting for connections", or to the exit code of what went wrong (1.1). */

import { rmSync, writeFileSync } from 'node:fs';
import { hostname, type as osType, release } from 'node:os';
import { dirname } from 'node:path';
import type { Document } from 'bson';
import { type KeyFile, KeyFileError, readKeyFile } from '../auth/keyfile.ts';
import type { DataStore, ParsedOptions } from '../contracts.ts';
import { Listener } from '../wire/listener.ts';
import { isPercona, wireVersionOf } from '../wire/versions.ts';
import { assemble } from './assemble.ts';
import { BindError, type Bound, bindAll, portOf } from './bind.ts';
import { buildInfoForLog } from './build-info.ts';
import { assertCompatible, CompatibilityError } from './compatibility.ts';
import { type DataFolder, DataFolderError, openDataFolder } from './data-folder.ts';
import { forkAndWait, isForkedChild, reportReady } from './fork.ts';
import { ServerLog } from './log.ts';
import { SimulatorNode } from './node.ts';
import { censored, OptionsError, option } from './options.ts';
import { startParameters } from './parameters.ts';
import { Server } from './server.ts';
import { Shutdown } from './shutdown.ts';
import { onSignals, onUncaught } from './signals.ts';
import { TlsFileError, TlsSettings } from './tls.ts';
import { assertClusterAuth, assertOptions } from './validate.ts';

export interface StartInput {
  readonly argv: readonly string[];
  readonly options: ParsedOptions;
  readonly version: string;
}

/** A start-up that ends with an exit code; the log has said why. */
class StartFailure extends Error {
  readonly exitCode: number;
  constructor(exitCode: number) {
    super(`exit ${exitCode}`);
    this.exitCode = exitCode;
  }
}

/** Starts the server; resolves when it serves or when the process is about to end with an exit code. */
export async function startMongod(input: StartInput): Promise<void> {
  assertOptions(input.options);
  const parameters = startParameters(input.options);
  const tls = new TlsSettings(input.options);
  if (
    option<boolean>(input.options, 'processManagement.fork') === true &&
    !isForkedChild() &&
    process.env['MONGODB_CONFIG_OVERRIDE_NOFORK'] !== '1'
  ) {
    process.exitCode = await forkAndWait();
    return;
  }
  setProcessName(input.argv);
  const log = openLog(input);
  onUncaught(log);
  try {
    await serve(input, parameters, tls, log);
  } catch (failure) {
    if (!(failure instanceof StartFailure)) throw failure;
    log.log('I', 'CONTROL', 20565, 'initandlisten', 'Now exiting');
    log.log('I', 'CONTROL', 23138, 'initandlisten', 'Shutting down', { exitCode: failure.exitCode });
    process.exit(failure.exitCode);
  }
}

async function serve(
  input: StartInput,
  parameters: Map<string, unknown>,
  tls: TlsSettings,
  log: ServerLog,
): Promise<void> {
  const began = Date.now();
  logWire(log, input.version);
  const keys = loadSecurity(input, tls, log);
  logStart(input, log);
  const folder = await openFolder(input, log);
  const data = await openData(folder);
  const shutdown = new Shutdown({ log, folder, data });
  onSignals(log, shutdown);
  // The port is taken before the node is complete; who comes too early must come again.
  let server: Server | null = null;
  const listener = new Listener(tls, {
    onAccepted: (socket, peer) => (server === null ? socket.destroy() : server.onAccepted(socket, peer)),
    onRefused: (...why) => server?.onRefused(...why),
  });
  shutdown.listener = listener;
  try {
    checkData(data, input.version, log);
    if (option<boolean>(input.options, 'repair') === true) throw new StartFailure(0);
    const bound = await bind(listener, input.options, log);
    const node = new SimulatorNode({ ...input, log, tls, data, parameters, port: bound.port });
    const { dispatcher, close } = await assemble(node, keys);
    shutdown.closers.push(close);
    server = new Server(node, dispatcher);
    shutdown.attach(node, server);
    await node.replication?.start();
    writePidFile(input.options, log);
    logWarnings(node, log);
    ready(node, bound, log, began);
  } catch (failure) {
    if (failure instanceof StartFailure) await shutdown.abandon();
    throw failure;
  }
  reportReady();
}

/** `ps` shows the command line as it was given, and `mongod` as the name, like the real one. */
function setProcessName(argv: readonly string[]): void {
  process.title = ['mongod', ...argv].join(' ');
  try {
    writeFileSync('/proc/self/comm', 'mongod');
  } catch {
    // Only Linux has it.
  }
}

// ── steps ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function openLog({ options, version }: StartInput): ServerLog {
  const log = new ServerLog({
    version,
    path: option<string>(options, 'systemLog.path') ?? null,
    append: option<boolean>(options, 'systemLog.logAppend') === true,
    rotation: option<'rename' | 'reopen'>(options, 'systemLog.logRotate') ?? 'rename',
    utc: option<string>(options, 'systemLog.timeStampFormat') === 'iso8601-utc',
    verbosity: option<number>(options, 'systemLog.verbosity') ?? 0,
    quiet: option<boolean>(options, 'systemLog.quiet') === true,
  });
  try {
    log.open();
  } catch (failure) {
    const path = option<string>(options, 'systemLog.path');
    const errno = (failure as NodeJS.ErrnoException).errno ?? 0;
    throw new OptionsError(
      `Error during global initialization: FileNotOpen: Failed to probe "${path}": errno ${-errno}, folder ${dirname(path ?? '')}`,
      1,
    );
  }
  return log;
}

function loadSecurity(input: StartInput, tls: TlsSettings, log: ServerLog): KeyFile | null {
  const globalError = (code: number, codeName: string, errmsg: string): StartFailure => {
    log.log('E', 'CONTROL', 20574, 'main', 'Error during global initialization', {
      error: { code, codeName, errmsg },
    });
    return new StartFailure(1);
  };
  const clusterAuth = assertClusterAuth(input.options, tls.mode());
  if (clusterAuth !== null) throw globalError(2, 'BadValue', clusterAuth);
  try {
    tls.load();
  } catch (failure) {
    if (failure instanceof TlsFileError) throw globalError(failure.code, failure.codeName, failure.message);
    throw failure;
  }
  const path = option<string>(input.options, 'security.keyFile');
  if (path === undefined) return null;
  try {
    return readKeyFile(path);
  } catch (failure) {
    if (!(failure instanceof KeyFileError)) throw failure;
    const error = { code: failure.code, codeName: failure.codeName, errmsg: failure.message };
    log.log('I', 'ACCESS', 20254, 'main', 'Read security file failed', { error });
    log.log('F', 'CONTROL', 20575, 'main', 'Error creating service context', {
      error: 'Location5579201: Unable to acquire security key[s]',
    });
    throw new StartFailure(1);
  }
}

async function openFolder({ options }: StartInput, log: ServerLog): Promise<DataFolder> {
  const path = option<string>(options, 'storage.dbPath') ?? '/data/db';
  try {
    const folder = await openDataFolder(path);
    if (folder.unclean) {
      const lockFile = `${path}/mongod.lock`;
      log.log('W', 'STORAGE', 22271, 'initandlisten', 'Detected unclean shutdown - Lock file is not empty', {
        lockFile,
      });
      log.log('W', 'STORAGE', 22302, 'initandlisten', 'Recovering data from the last clean checkpoint.');
    }
    return folder;
  } catch (failure) {
    if (!(failure instanceof DataFolderError)) throw failure;
    log.log('E', 'STORAGE', 20557, 'initandlisten', 'DBException in initAndListen, terminating', {
      error: failure.message,
    });
    throw new StartFailure(100);
  }
}

async function openData(folder: DataFolder): Promise<DataStore> {
  const { openDataStore } = await import('../data/index.ts');
  return openDataStore({ dbPath: folder.path });
}

function checkData(data: DataStore, version: string, log: ServerLog): void {
  try {
    assertCompatible(data, version);
  } catch (failure) {
    if (!(failure instanceof CompatibilityError)) throw failure;
    log.log('F', 'CONTROL', 20573, 'initandlisten', 'Wrong mongod version', { error: failure.message });
    throw new StartFailure(62);
  }
}

async function bind(listener: Listener, options: ParsedOptions, log: ServerLog): Promise<Bound> {
  try {
    return await bindAll(listener, options);
  } catch (failure) {
    if (!(failure instanceof BindError)) throw failure;
    log.log('E', 'STORAGE', 20568, 'initandlisten', 'Error setting up listener', {
      error: { code: 9001, codeName: 'SocketException', errmsg: failure.reason },
    });
    throw new StartFailure(48);
  }
}

function writePidFile(options: ParsedOptions, log: ServerLog): void {
  const path = option<string>(options, 'processManagement.pidFilePath');
  if (path === undefined) return;
  try {
    writeFileSync(path, `${process.pid}\n`);
    process.on('exit', () => rmSync(path, { force: true }));
  } catch (failure) {
    log.log('E', 'CONTROL', 23323, 'main', 'ERROR: Cannot write pid file', {
      pidFilePath: path,
      errno: String(failure),
    });
    throw new StartFailure(1);
  }
}

// ── log lines ──────────────────────────────────────────────────────────────────────────────────────────────────────

function logWire(log: ServerLog, version: string): void {
  log.log(
    'I',
    'CONTROL',
    23285,
    'main',
    "Automatically disabling TLS 1.0, to force-enable TLS 1.0 specify --sslDisabledProtocols 'none'",
  );
  const maxWireVersion = wireVersionOf(version);
  log.log('I', 'NETWORK', 4915701, 'main', 'Initialized wire specification', {
    spec: {
      incomingExternalClient: { minWireVersion: 0, maxWireVersion },
      incomingInternalClient: { minWireVersion: 0, maxWireVersion },
      outgoing: { minWireVersion: 6, maxWireVersion },
      isInternalClient: true,
    },
  });
}

function logStart({ argv, options, version }: StartInput, log: ServerLog): void {
  const line = (component: string, id: number, msg: string, attr: Document): void =>
    log.log('I', component, id, 'initandlisten', msg, attr);
  line('CONTROL', 4615611, 'MongoDB starting', {
    pid: process.pid,
    port: portOf(options),
    dbPath: option<string>(options, 'storage.dbPath') ?? '/data/db',
    architecture: '64-bit',
    host: hostname(),
  });
  line('CONTROL', 23403, 'Build Info', { buildInfo: buildInfoForLog(version) });
  line('CONTROL', 51765, 'Operating System', { os: { name: osType(), version: release() } });
  line('CONTROL', 21951, 'Options set by command line', { options: censored(argv, options).parsed });
}

function logWarnings(node: SimulatorNode, log: ServerLog): void {
  log.startupWarning(
    'CONTROL',
    5_000_000,
    'This is the Belay simulator, a stand-in for mongod without its storage engine. Do not keep data you need in it',
    { version: node.version, ...(isPercona(node.version) ? { psmdbVersion: node.version } : {}) },
  );
  if (
    option<string>(node.options, 'security.authorization') !== 'enabled' &&
    option(node.options, 'security.keyFile') === undefined &&
    option(node.options, 'security.clusterAuthMode') === undefined
  ) {
    log.startupWarning(
      'CONTROL',
      22120,
      'Access control is not enabled for the database. Read and write access to data and configuration is unrestricted',
    );
  }
  if (node.tls.enabled && !node.tls.hasCa) {
    log.startupWarning(
      'CONTROL',
      22132,
      'No client certificate validation can be performed since no CA file has been provided. Please specify an sslCAFile parameter',
    );
  }
  if (process.getuid?.() === 0) {
    log.startupWarning(
      'CONTROL',
      22138,
      'You are running this process as the root user, which is not recommended',
    );
  }
  if (node.replication === null && node.data.getLocal('system.replset') !== undefined) {
    log.startupWarning(
      'CONTROL',
      20547,
      "Document(s) exist in 'system.replset', but started without --replSet. Database contents may appear inconsistent with the writes that were visible when this node was running as part of a replica set. Restart with --replSet unless you are doing maintenance and no other clients are connected.",
    );
  }
}

function ready(node: SimulatorNode, bound: Bound, log: ServerLog, began: number): void {
  const old = Number(node.version.split('.')[0]) < 8;
  for (const address of bound.addresses) {
    log.log('I', 'NETWORK', 23015, 'listener', 'Listening on', {
      address: old || address.startsWith('/') ? address : `${address}:${bound.port}`,
    });
  }
  log.log('I', 'NETWORK', 23016, 'listener', 'Waiting for connections', {
    port: bound.port,
    ssl: node.tls.enabled ? 'on' : 'off',
  });
  log.log('I', 'CONTROL', 8423403, 'initandlisten', 'mongod startup complete', {
    'Summary of time elapsed': {
      'Startup from clean shutdown?': true,
      Statistics: { totalMillis: Date.now() - began },
    },
  });
}
