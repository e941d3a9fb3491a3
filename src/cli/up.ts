/** `belay up`: control plane and a local agent in one process. Databases it started go on when it stops (fail-static). */
import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { openExecutables } from '../agent/executables.ts';
import { type RunningAgent, runAgent } from '../agent/index.ts';
import { BelayError } from '../base/error.ts';
import { Secret } from '../base/secret.ts';
import { CATALOG } from '../model/index.ts';
import { makeLog } from '../security/log.ts';
import {
  isLoopback,
  parseAddress,
  type RunningServer,
  type ServerOptions,
  startServer,
} from '../server/start.ts';
import type { Io } from './io.ts';
import { type MaintenanceListen, maintenanceOf } from './maintenanceListen.ts';
import { type Terminal, terminalOf } from './output.ts';
import { writeProfile } from './profile.ts';
import { ownVersion } from './version.ts';

export interface UpOptions extends MaintenanceListen {
  readonly data?: string;
  readonly listen: string;
  readonly agentListen: string;
  readonly store?: string;
  readonly binDir?: string;
  readonly simulate?: boolean;
  readonly address: string;
  readonly color?: boolean;
}

/** Where the simulator's stand-ins are. */
export const SIMULATOR_BIN = fileURLToPath(new URL('../../simulator/bin', import.meta.url));

/** A control plane and its local agent. */
export interface Local {
  readonly server: RunningServer;
  readonly agent: RunningAgent;
  /** Stops both; databases go on. */
  close(): Promise<void>;
}

export interface LocalOptions {
  readonly dataDir: string;
  readonly listen: string;
  readonly agentListen: string;
  readonly store?: string | undefined;
  /** Null: executables on PATH. */
  readonly binDir: string | null;
  readonly address: string;
  readonly logFile: string;
  readonly maintenance?: ServerOptions['maintenance'];
}

/** Starts both; the agent joins like any other, with a one-time token. */
export async function startLocal(options: LocalOptions): Promise<Local> {
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  const log = makeLog({ level: 'info', destination: options.logFile });
  const listen = parseAddress(options.listen);
  const server = await startServer({
    dataDir: path.join(options.dataDir, 'server'),
    ...(options.store === undefined ? {} : { storeUrl: options.store }),
    listen,
    agentListen: parseAddress(options.agentListen),
    // Passwords and tokens go over this connection: off this machine only encrypted.
    tls: !isLoopback(listen.host),
    ...(options.maintenance === undefined ? {} : { maintenance: options.maintenance }),
    version: ownVersion(),
    log,
  });
  try {
    const agentDir = path.join(options.dataDir, 'agent');
    const joined = existsSync(path.join(agentDir, 'identity'));
    const invitation = joined ? null : await server.createJoinToken('local', 600_000);
    const agent = await runAgent({
      dataDir: agentDir,
      name: 'local',
      address: options.address,
      urls: server.agentUrls,
      ...(invitation === null
        ? {}
        : { joinToken: new Secret(invitation.token), caFingerprint: invitation.caFingerprint }),
      binDir: options.binDir,
      labels: {},
      log,
    });
    return {
      server,
      agent,
      close: async () => {
        await agent.close();
        await server.close();
      },
    };
  } catch (error) {
    await server.close();
    throw error;
  }
}

/**
 * A folder in which the simulator stands in for every build of the catalog, as if all were installed: it plays the
 * version of the folder it is called by. The links are made anew, since the program may have moved since the last time.
 */
export function simulatedBuilds(dataDir: string): string {
  const folder = path.join(dataDir, 'simulator');
  for (const { version } of CATALOG) {
    const bin = path.join(folder, version, 'bin');
    mkdirSync(bin, { recursive: true, mode: 0o700 });
    for (const program of ['mongod', 'mongos']) {
      const link = path.join(bin, program);
      rmSync(link, { force: true });
      symlinkSync(path.join(SIMULATOR_BIN, program), link);
    }
  }
  return folder;
}

/** What to run: the simulator when it was asked for, the given folder, or what is on PATH (null). `NoExecutables`. */
export async function chooseBinDir(
  options: Pick<UpOptions, 'binDir' | 'simulate'>,
  dataDir: string,
  terminal: Terminal,
): Promise<string | null> {
  if (options.simulate) {
    terminal.err('MongoDB executables   the simulator, as asked (a stand-in, not MongoDB)');
    return simulatedBuilds(dataDir);
  }
  const binDir = options.binDir === undefined ? null : path.resolve(options.binDir);
  const { mongod = [] } = await openExecutables(binDir).found();
  if (mongod.length > 0) {
    terminal.err(
      `MongoDB executables   mongod ${mongod.join(', ')} ${binDir === null ? 'on PATH' : `for ${binDir}`}`,
    );
    return binDir;
  }
  throw new BelayError(
    'NoExecutables',
    `no mongod found ${binDir === null ? 'on PATH' : `in ${binDir} or on PATH`}`,
    {
      retry: 'never',
      fix: 'install Percona Server for MongoDB, name its folder with --bin-dir, or try the simulator: belay up --simulate',
    },
  );
}

/** The verb. Runs until it is told to stop. */
export async function up(options: UpOptions, io: Io): Promise<void> {
  const terminal = terminalOf(io, options.color === false);
  const dataDir = path.resolve(
    options.data ??
      path.join(
        io.env['XDG_DATA_HOME'] || path.join(io.env['HOME'] || os.homedir(), '.local/share'),
        'belay',
      ),
  );
  const binDir = await chooseBinDir(options, dataDir, terminal);
  const { listen, agentListen, store, address } = options;
  const logFile = path.join(dataDir, 'belay.log');
  const local = await startLocal({
    dataDir,
    listen,
    agentListen,
    store,
    binDir,
    address,
    logFile,
    ...maintenanceOf(options),
  });
  const { url, tokenFile, caFile, agentUrls, maintenancePort } = local.server;
  const tls = url.startsWith('https:');
  writeProfile({ server: url, tokenFile, ...(tls ? { caFile } : {}) }, io.env);
  terminal.out(`control plane   ${url}`);
  terminal.out(`agents          ${agentUrls.join(' ')}`);
  if (maintenancePort !== null)
    terminal.out(`maintenance     grpc${tls ? 's' : ''}://localhost:${maintenancePort}`);
  terminal.out(`data            ${dataDir}`);
  terminal.out(`log             ${logFile}`);
  terminal.out(`token           ${tokenFile}`);
  if (tls) terminal.out(`CA              ${caFile}`);
  terminal.out(
    'next            belay apply -f examples/replica-set.yaml   belay get mongodb   belay describe mongodb orders',
  );
  terminal.out(
    'Ctrl-C stops the control plane and the agent; databases go on, and belay up takes them over again',
  );
  await untilSignal().stopped;
  terminal.err('stopping; databases go on');
  await local.close();
}

/**
 * Resolves at the first SIGINT or SIGTERM; a second one ends the process at once. Keeps the process alive meanwhile, since
 * a lost connection must not end it, until `release` is called or a signal came.
 */
export function untilSignal(): { readonly stopped: Promise<void>; readonly release: () => void } {
  let release = (): void => {};
  const stopped = new Promise<void>((resolve) => {
    const alive = setInterval(() => undefined, 2 ** 30);
    release = () => {
      clearInterval(alive);
      process.off('SIGINT', stop);
      process.off('SIGTERM', stop);
    };
    function stop(): void {
      release();
      resolve();
    }
    process.once('SIGINT', stop);
    process.once('SIGTERM', stop);
  });
  return { stopped, release };
}
