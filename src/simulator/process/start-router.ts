/** Start-up of a `mongos`: it listens only once it knows the cluster, and asks the config servers for as long as that takes. */
import { type as osType, release } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import type { KeyFile } from '../auth/keyfile.ts';
import { ServerError } from '../contracts.ts';
import { openMemoryStore } from '../data/index.ts';
import { Router } from '../router/router.ts';
import { RouterTime } from '../router/time.ts';
import { parseSet, type SetAddress, setString } from '../sharding/set-name.ts';
import { Listener } from '../wire/listener.ts';
import { peerPool } from './assemble.ts';
import { assembleRouter } from './assemble-router.ts';
import { buildInfoForLog } from './build-info.ts';
import { forkAndWait, isForkedChild, reportReady } from './fork.ts';
import type { ServerLog } from './log.ts';
import { SimulatorNode } from './node.ts';
import { badOption, censored, OptionsError, option } from './options.ts';
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

const CONFIG_PORT = 27019;
const RETRY_MILLIS = 2_000;
/** Idle connections a router keeps per member. */
const MAX_IDLE = 100;
const EXIT_SHARDING_ERROR = 5;
/** Failures no waiting mends: another set, or binaries that do not fit. */
const FATAL: ReadonlySet<number> = new Set([20, 188]);

/** Starts the router; resolves when it serves or when the process is about to end with an exit code. */
export async function startMongos(input: StartInput): Promise<void> {
  assertOptions(input.options);
  const config = configServersOf(input);
  const parameters = startParameters(input.options);
  const tls = new TlsSettings(input.options);
  const forks = option<boolean>(input.options, 'processManagement.fork') === true;
  if (forks && !isForkedChild() && process.env['MONGODB_CONFIG_OVERRIDE_NOFORK'] !== '1') {
    process.exitCode = await forkAndWait();
    return;
  }
  setProcessName('mongos', input.argv);
  const log = openLog(input);
  onUncaught(log);
  try {
    await serve(input, config, parameters, tls, log);
  } catch (failure) {
    if (!(failure instanceof StartFailure)) throw failure;
    log.log('I', 'CONTROL', 20565, 'mongosMain', 'Now exiting');
    log.log('I', 'CONTROL', 23138, 'mongosMain', 'Shutting down', { exitCode: failure.exitCode });
    process.exit(failure.exitCode);
  }
}

/** The set named by --configdb. */
function configServersOf({ options }: StartInput): SetAddress {
  const given = option<string>(options, 'sharding.configDB');
  if (given === undefined) throw new OptionsError('error: no args for --configdb');
  const address = parseSet(given, CONFIG_PORT);
  if (address === null)
    throw badOption(`configdb supports only replica set connection string, given: ${given}`);
  return address;
}

async function serve(
  input: StartInput,
  config: SetAddress,
  parameters: Map<string, unknown>,
  tls: TlsSettings,
  log: ServerLog,
): Promise<void> {
  const began = Date.now();
  logWire(log, input.version);
  const keys = loadSecurity(input, tls, log);
  logStart(input, log);
  const data = openMemoryStore();
  const shutdown = new Shutdown({ program: 'mongos', log, data });
  onSignals(log, shutdown);
  let server: Server | null = null;
  const listener = new Listener(tls, {
    onAccepted: (socket, peer) => (server === null ? socket.destroy() : server.onAccepted(socket, peer)),
    onRefused: (...why) => server?.onRefused(...why),
  });
  shutdown.listener = listener;
  const port = option<number>(input.options, 'net.port') ?? 27017;
  const node = new SimulatorNode({ ...input, program: 'mongos', log, tls, data, parameters, port });
  const { router, dispatcher, close } = makeRouter(node, keys, config);
  shutdown.closers.push(close);
  await loaded(router, log);
  const bound = await bind(listener, input.options, log);
  node.port = bound.port;
  server = new Server(node, dispatcher, (connection, command) =>
    router.accounts.prepare(connection, command),
  );
  shutdown.attach(node, server);
  router.open();
  writePidFile(input.options, log);
  logWarnings(node, log);
  ready(node, bound, log, began);
  reportReady();
}

function makeRouter(node: SimulatorNode, keys: KeyFile | null, config: SetAddress) {
  const time = new RouterTime(node.processId, () => node.localStamp());
  node.replication = time;
  const router = new Router({ node, time, pool: peerPool(node, keys, MAX_IDLE), config });
  node.configServers = () => setString({ name: router.config.name, hosts: router.config.hosts });
  const { dispatcher, close } = assembleRouter(node, router, keys);
  return {
    router,
    dispatcher,
    close: () => {
      router.close();
      close();
    },
  };
}

/** Waits until the router knows the cluster. Only what waiting can't mend ends the process. */
async function loaded(router: Router, log: ServerLog): Promise<void> {
  for (;;) {
    try {
      await router.load();
      return;
    } catch (failure) {
      if (!(failure instanceof ServerError)) throw failure;
      const error = { code: failure.code, codeName: failure.codeName, errmsg: failure.message };
      if (FATAL.has(failure.code)) {
        log.log('F', 'SHARDING', 22_863, 'mongosMain', 'Error initializing sharding state', { error });
        throw new StartFailure(EXIT_SHARDING_ERROR);
      }
      log.log(
        'W',
        'SHARDING',
        4_603_701,
        'mongosMain',
        'Error initializing sharding state, sleeping for 2 seconds and retrying',
        { error },
      );
      await pause(RETRY_MILLIS);
    }
  }
}

function logStart({ argv, options, version }: StartInput, log: ServerLog): void {
  log.log('I', 'CONTROL', 23403, 'mongosMain', 'Build Info', { buildInfo: buildInfoForLog(version) });
  log.log('I', 'CONTROL', 51765, 'mongosMain', 'Operating System', {
    os: { name: osType(), version: release() },
  });
  log.log('I', 'CONTROL', 21951, 'mongosMain', 'Options set by command line', {
    options: censored(argv, options).parsed,
  });
}
