/** `belay up`: control plane and a local agent in one process. Databases it started go on when it stops (fail-static). */
import { existsSync, mkdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type RunningAgent, runAgent } from '../agent/index.ts';
import { BelayError } from '../base/error.ts';
import { Secret } from '../base/secret.ts';
import { makeLog } from '../security/log.ts';
import { parseAddress, type RunningServer, startServer } from '../server/start.ts';
import { findExecutables } from './executables.ts';
import { realTerminal, type Terminal } from './output.ts';
import { writeProfile } from './profile.ts';
import { ownVersion } from './verbs/version.ts';

export interface UpOptions {
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
  readonly binDir: string;
  readonly address: string;
  readonly logFile: string;
}

/** Starts both; the agent joins like any other, with a one-time token. */
export async function startLocal(options: LocalOptions): Promise<Local> {
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  const log = makeLog({ level: 'info', destination: options.logFile });
  const server = await startServer({
    dataDir: path.join(options.dataDir, 'server'),
    ...(options.store === undefined ? {} : { storeUrl: options.store }),
    listen: parseAddress(options.listen),
    agentListen: parseAddress(options.agentListen),
    tls: false,
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

/** What to run: the given folder, installed executables, or the simulator when it was asked for. */
export function chooseBinDir(options: Pick<UpOptions, 'binDir' | 'simulate'>, terminal: Terminal): string {
  if (options.simulate) {
    terminal.err('MongoDB executables   the simulator, as asked (a stand-in, not MongoDB)');
    return SIMULATOR_BIN;
  }
  const found = findExecutables(options.binDir);
  if (found !== null) {
    terminal.err(`MongoDB executables   mongod ${found.versions.join(', ')} in ${found.binDir}`);
    return found.binDir;
  }
  const where = options.binDir === undefined ? 'on PATH' : `in ${options.binDir}`;
  throw new BelayError('NoExecutables', `no mongod found ${where}`, {
    retry: 'never',
    fix: 'install Percona Server for MongoDB, name its folder with --bin-dir, or try the simulator: belay up --simulate',
  });
}

/** The verb. Runs until it is told to stop. */
export async function up(options: UpOptions): Promise<void> {
  const terminal = realTerminal(options.color === false);
  const dataDir = path.resolve(
    options.data ??
      path.join(process.env['XDG_DATA_HOME'] ?? path.join(os.homedir(), '.local/share'), 'belay'),
  );
  const binDir = chooseBinDir(options, terminal);
  const local = await startLocal({
    dataDir,
    listen: options.listen,
    agentListen: options.agentListen,
    store: options.store,
    binDir,
    address: options.address,
    logFile: path.join(dataDir, 'belay.log'),
  });
  writeProfile({ server: local.server.url, tokenFile: local.server.tokenFile });
  terminal.out(`control plane   ${local.server.url}`);
  terminal.out(`agents          ${local.server.agentUrls.join(' ')}`);
  terminal.out(`data            ${dataDir}`);
  terminal.out(`token           ${local.server.tokenFile}`);
  terminal.out(
    'next            belay apply -f examples/replica-set.yaml   belay get mongodb   belay describe mongodb orders',
  );
  terminal.out(
    'Ctrl-C stops the control plane and the agent; databases go on, and belay up takes them over again',
  );
  await untilSignal();
  terminal.err('stopping; databases go on');
  await local.close();
}

/** Resolves at the first SIGINT or SIGTERM. Keeps the process alive meanwhile: a lost connection must not end it. */
export function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    const alive = setInterval(() => undefined, 2 ** 30);
    const stop = (): void => {
      clearInterval(alive);
      resolve();
    };
    process.once('SIGINT', stop);
    process.once('SIGTERM', stop);
  });
}
