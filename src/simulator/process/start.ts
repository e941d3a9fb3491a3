/** Start-up of a `mongod`: from good options to "Waiting for connections", or to the exit code of what went wrong (1.1). */
import { hostname, type as osType, release } from 'node:os';
import type { Document } from 'bson';
import type { DataStore } from '../contracts.ts';
import { Listener } from '../wire/listener.ts';
import { assemble } from './assemble.ts';
import { portOf } from './bind.ts';
import { buildInfoForLog } from './build-info.ts';
import { assertCompatible, CompatibilityError } from './compatibility.ts';
import { type DataFolder, DataFolderError, openDataFolder } from './data-folder.ts';
import { forkAndWait, isForkedChild, reportReady } from './fork.ts';
import type { ServerLog } from './log.ts';
import { SimulatorNode } from './node.ts';
import { censored, option } from './options.ts';
import { startParameters } from './parameters.ts';
import { Server } from './server.ts';
import { Shutdown } from './shutdown.ts';
import { onSignals, onUncaught } from './signals.ts';
import {
  bind,
  loadSecurity,
  logWarnings,
  logWire,
  openLog,
  ready,
  StartFailure,
  type StartInput,
  setProcessName,
  writePidFile,
} from './start-parts.ts';
import { TlsSettings } from './tls.ts';
import { assertOptions } from './validate.ts';

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
  setProcessName('mongod', input.argv);
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
  const shutdown = new Shutdown({ program: 'mongod', log, folder, data });
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
    const node = new SimulatorNode({
      ...input,
      program: 'mongod',
      log,
      tls,
      data,
      parameters,
      port: bound.port,
    });
    const { dispatcher, close } = await assemble(node, keys);
    shutdown.closers.push(close);
    server = new Server(node, dispatcher);
    shutdown.attach(node, server);
    await node.replication?.start();
    writePidFile(input.options, log);
    logWarnings(node, log);
    warnOfSet(node, log);
    ready(node, bound, log, began);
  } catch (failure) {
    if (failure instanceof StartFailure) await shutdown.abandon();
    throw failure;
  }
  reportReady();
}

// ── steps ──────────────────────────────────────────────────────────────────────────────────────────────────────────

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

// ── log lines ──────────────────────────────────────────────────────────────────────────────────────────────────────

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

function warnOfSet(node: SimulatorNode, log: ServerLog): void {
  if (node.replication === null && node.data.getLocal('system.replset') !== undefined) {
    log.startupWarning(
      'CONTROL',
      20547,
      "Document(s) exist in 'system.replset', but started without --replSet. Database contents may appear inconsistent with the writes that were visible when this node was running as part of a replica set. Restart with --replSet unless you are doing maintenance and no other clients are connected.",
    );
  }
}
