/** Steps of a start-up that `mongod` and `mongos` share: log, keys and certificates, sockets, the lines in between. */
import { rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { type KeyFile, KeyFileError, readKeyFile } from '../auth/keyfile.ts';
import type { ParsedOptions } from '../contracts.ts';
import type { Listener } from '../wire/listener.ts';
import { isPercona, wireVersionOf } from '../wire/versions.ts';
import { BindError, type Bound, bindAll } from './bind.ts';
import { ServerLog } from './log.ts';
import type { SimulatorNode } from './node.ts';
import type { Program } from './option-table.ts';
import { OptionsError, option } from './options.ts';
import { TlsFileError, type TlsSettings } from './tls.ts';
import { assertClusterAuth } from './validate.ts';

/** What a start-up begins with. */
export interface StartInput {
  readonly argv: readonly string[];
  readonly options: ParsedOptions;
  readonly version: string;
}

/** A start-up that ends with an exit code; the log has said why. */
export class StartFailure extends Error {
  readonly exitCode: number;
  constructor(exitCode: number) {
    super(`exit ${exitCode}`);
    this.exitCode = exitCode;
  }
}

/** `ps` shows the command line as it was given, and the program as the name, like the real one. */
export function setProcessName(program: Program, argv: readonly string[]): void {
  process.title = [program, ...argv].join(' ');
  try {
    writeFileSync('/proc/self/comm', program);
  } catch {
    // Only Linux has it.
  }
}

/** Opens the log the options ask for. Throws OptionsError when it cannot be written. */
export function openLog({ options, version }: StartInput): ServerLog {
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

/** Reads certificates and the key file. */
export function loadSecurity(input: StartInput, tls: TlsSettings, log: ServerLog): KeyFile | null {
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

/** Takes the port. */
export async function bind(listener: Listener, options: ParsedOptions, log: ServerLog): Promise<Bound> {
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

/** Leaves the process number where asked; it goes with the process. */
export function writePidFile(options: ParsedOptions, log: ServerLog): void {
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

/** The first lines of every log. */
export function logWire(log: ServerLog, version: string): void {
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

/** What an operator should know of this start. */
export function logWarnings(node: SimulatorNode, log: ServerLog): void {
  log.startupWarning(
    'CONTROL',
    5_000_000,
    `This is the Belay simulator, a stand-in for ${node.program} without its storage engine. Do not keep data you need in it`,
    { version: node.version, ...(isPercona(node.version) ? { psmdbVersion: node.version } : {}) },
  );
  if (
    node.program === 'mongod' &&
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
}

/** The lines harnesses wait for. */
export function ready(node: SimulatorNode, bound: Bound, log: ServerLog, began: number): void {
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
  log.log('I', 'CONTROL', 8423403, 'initandlisten', `${node.program} startup complete`, {
    'Summary of time elapsed': {
      'Startup from clean shutdown?': true,
      Statistics: { totalMillis: Date.now() - began },
    },
  });
}
