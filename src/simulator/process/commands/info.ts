/** Commands that tell about the process: build, host, options, log, connection, the command table. */
import { arch, cpus, hostname, type as osType, release, totalmem } from 'node:os';
import { type Document, Long } from 'bson';
import type { AccessControl } from '../../auth/access.ts';
import { grantDocument } from '../../auth/grants.ts';
import type { CommandContext, CommandSpec } from '../../contracts.ts';
import { ServerError } from '../../contracts.ts';
import { asFlag, stringField } from '../../wire/bson.ts';
import { ClientConnection } from '../../wire/connection.ts';
import type { Dispatcher } from '../../wire/dispatcher.ts';
import { inApiVersion1 } from '../../wire/stable-api.ts';
import { atLeast } from '../../wire/versions.ts';
import { buildInfo } from '../build-info.ts';
import type { SimulatorNode } from '../node.ts';
import { censored } from '../options.ts';

const MIB = 1024 * 1024;

/** A privilege on the cluster. */
export const onCluster =
  (action: string): CommandSpec['auth'] =>
  () => [{ resource: { cluster: true }, actions: [action] }];

/** ping, buildInfo, hostInfo, getCmdLineOpts, getLog, whatsmyuri, connectionStatus, listCommands, features. */
export function infoSpecs(
  node: SimulatorNode,
  access: AccessControl,
  dispatcher: Dispatcher,
): readonly CommandSpec[] {
  return [
    { name: 'ping', auth: 'none', access: 'any', run: () => ({}) },
    {
      name: 'buildInfo',
      aliases: ['buildinfo'],
      auth: 'none',
      access: 'any',
      run: () => buildInfo(node.version),
    },
    { name: 'hostInfo', auth: onCluster('hostInfo'), access: 'any', run: () => hostInfo(node) },
    {
      name: 'getCmdLineOpts',
      adminOnly: true,
      auth: onCluster('getCmdLineOpts'),
      access: 'any',
      run: () => censored([node.program, ...node.argv], node.options),
    },
    {
      name: 'getLog',
      adminOnly: true,
      auth: onCluster('getLog'),
      access: 'any',
      run: (context) => getLog(context, node),
    },
    {
      name: 'whatsmyuri',
      auth: 'none',
      access: 'any',
      run: ({ connection }) => ({ you: connection.remote }),
    },
    {
      name: 'connectionStatus',
      auth: 'none',
      access: 'any',
      run: (context) => connectionStatus(context, access),
    },
    { name: 'listCommands', auth: 'none', access: 'any', run: () => listCommands(dispatcher) },
    { name: 'features', auth: 'none', access: 'any', run: () => ({ js: false, oidMachine: process.pid }) },
  ];
}

function hostInfo(node: SimulatorNode): Document {
  const cores = cpus().length;
  const memory = Long.fromNumber(Math.floor(totalmem() / MIB));
  return {
    system: {
      currentTime: node.now(),
      hostname: hostname(),
      cpuAddrSize: 64,
      memSizeMB: memory,
      memLimitMB: memory,
      numCores: cores,
      numCoresAvailableToProcess: cores,
      cpuArch: arch() === 'arm64' ? 'aarch64' : 'x86_64',
      numaEnabled: false,
    },
    os: { type: osType(), name: osType(), version: release() },
    extra: { versionString: `${osType()} ${release()}`, cpuString: cpus()[0]?.model ?? '', pageSize: 4096 },
  };
}

function getLog({ command }: CommandContext, node: SimulatorNode): Document {
  const name = stringField(command, 'getLog', 'getLog');
  if (name === '*') return { names: ['global', 'startupWarnings'] };
  if (name !== 'global' && name !== 'startupWarnings')
    throw new ServerError(96, 'OperationFailed', `No log named '${name}'`);
  const { total, lines } = node.log.lines(name);
  return { totalLinesWritten: total, log: lines };
}

function connectionStatus({ command, connection, node }: CommandContext, access: AccessControl): Document {
  const authInfo: Document = {
    authenticatedUsers: connection.users.map(({ user, db }) => ({ user, db })),
    authenticatedUserRoles: connection.users.flatMap((user) =>
      access.effectiveOf(user).roles.map(({ role, db }) => ({ role, db })),
    ),
  };
  if (asFlag(command['showPrivileges']))
    authInfo['authenticatedUserPrivileges'] = access.grantsOf(connection).map(grantDocument);
  const named = atLeast(node.version, '7.2') && connection instanceof ClientConnection;
  return { authInfo, ...(named ? { uuid: connection.uuid } : {}) };
}

function listCommands(dispatcher: Dispatcher): Document {
  const entries = [...dispatcher.specs()]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map((spec) => [
      spec.name,
      {
        help: 'no help defined',
        requiresAuth: spec.auth !== 'none',
        secondaryOk: spec.access === 'any',
        adminOnly: spec.adminOnly === true,
        apiVersions: inApiVersion1(spec.name) ? ['1'] : [],
        deprecatedApiVersions: [],
      },
    ]);
  return { commands: Object.fromEntries(entries) as Document };
}
