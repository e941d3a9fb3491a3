/** Puts the parts of a process together: accounts, logins, command tables, replication, hooks. */
import type { Document } from 'bson';
import { AccessControl } from '../auth/access.ts';
import { Accounts } from '../auth/accounts.ts';
import { AdminWrites } from '../auth/admin-writes.ts';
import type { KeyFile } from '../auth/keyfile.ts';
import { Logins } from '../auth/login.ts';
import { roleSpecs } from '../auth/role-commands.ts';
import { isMember, type MemberRule } from '../auth/subject.ts';
import { userSpecs } from '../auth/user-commands.ts';
import { type CommandServices, commandSpecs, createCommandServices } from '../commands/index.ts';
import { PeerPool, peerLogin } from '../replication/peer-pool.ts';
import type { ClusterPart } from '../sharding/index.ts';
import { SUPPORTED_COMPRESSORS } from '../wire/compression.ts';
import type { ClientConnection } from '../wire/connection.ts';
import { Dispatcher } from '../wire/dispatcher.ts';
import { helloSpecs } from '../wire/hello.ts';
import { controlSpecs } from './commands/control.ts';
import { infoSpecs } from './commands/info.ts';
import { parameterSpecs } from './commands/parameters.ts';
import { replicationDisabledSpecs } from './commands/replication-disabled.ts';
import { serverStatusSpec } from './commands/server-status.ts';
import { keepFcv } from './compatibility.ts';
import { internalConnection } from './internal-connection.ts';
import type { SimulatorNode } from './node.ts';
import { option } from './options.ts';

export interface Assembled {
  readonly dispatcher: Dispatcher;
  /** Ends timers and listeners of the parts. */
  close(): void;
}

/** Makes a node able to serve. */
export async function assemble(node: SimulatorNode, keys: KeyFile | null): Promise<Assembled> {
  const accounts = new Accounts(node.data);
  const authEnabled = accessControlWanted(node);
  const access = new AccessControl(node, accounts, {
    enabled: authEnabled,
    localhostException: node.parameters.get('enableLocalhostAuthBypass') === true,
  });
  node.allows = (connection, privileges) => !access.enabled || access.allows(connection, privileges);
  const logins = new Logins(node, accounts, {
    keys,
    clusterAuthMode: () => node.clusterAuthMode,
    memberRule: () => memberRule(node),
  });
  await attachReplication(node, keys);
  node.replication?.onStepDown((reason) => {
    if (reason !== 'stepdown') accounts.invalidate();
  });
  const services = createCommandServices(node);
  node.localStamp = services.localStamp;
  const dispatcher = new Dispatcher({ node, authorizer: access, metrics: node.metrics, hooks: services });
  const writes = new AdminWrites(() => node.stamp());
  const isMemberHere = (subject: string): boolean =>
    node.clusterAuthMode !== 'keyFile' && isMember(subject, memberRule(node));
  node.configServers = () =>
    node.data.find('admin.system.version', { filter: { _id: 'shardIdentity' } })[0]?.[
      'configsvrConnectionString'
    ];
  const cluster = await clusterPart(node, keys, services, authEnabled);
  dispatcher.register(commandSpecs.map(cluster.guarded));
  dispatcher.register(node.replication?.commands ?? replicationDisabledSpecs);
  dispatcher.register(logins.specs());
  dispatcher.register(userSpecs({ accounts, writes, isMember: isMemberHere }));
  dispatcher.register(roleSpecs({ accounts, writes }));
  dispatcher.register(infoSpecs(node, access, dispatcher));
  dispatcher.register(parameterSpecs(node));
  dispatcher.register(controlSpecs(node, authEnabled));
  dispatcher.register([serverStatusSpec(node, logins)]);
  dispatcher.register(helloSpecs(helloServices(node, logins, !authEnabled)));
  dispatcher.register(cluster.specs);
  const connection = internalConnection();
  node.runInternal = (db, command) => dispatcher.runInternal(connection, db, command);
  keepFcv(node);
  return {
    dispatcher,
    close: () => {
      cluster.close();
      services.close();
    },
  };
}

/** Config servers and shards have more to do; the code for that is loaded only then. */
async function clusterPart(
  node: SimulatorNode,
  keys: KeyFile | null,
  services: CommandServices,
  authEnabled: boolean,
): Promise<ClusterPart> {
  const role = option<string>(node.options, 'sharding.clusterRole');
  if (role === undefined || node.replication === null)
    return { specs: [], guarded: (spec) => spec, close: () => undefined };
  const { openClusterPart } = await import('../sharding/index.ts');
  return openClusterPart({ node, services, authEnabled, role, pool: peerPool(node, keys) });
}

/** Connections to other processes of the cluster, as members show themselves to each other. */
export function peerPool(node: SimulatorNode, keys: KeyFile | null, maxIdle?: number): PeerPool {
  return new PeerPool({
    tls: () => node.tls.outbound(),
    login: () => peerLogin(keys, node.clusterAuthMode),
    ...(maxIdle === undefined ? {} : { maxIdle }),
  });
}

export function memberRule(node: SimulatorNode): MemberRule {
  return {
    own: node.tls.ownSubject(),
    override: node.parameters.get('tlsX509ClusterAuthDNOverride') as string | undefined,
    attributes: option<string>(node.options, 'net.tls.clusterAuthX509.attributes'),
  };
}

/** Makes the process a replica-set member when it was started as one; the code for that is loaded only then. */
async function attachReplication(node: SimulatorNode, keys: KeyFile | null): Promise<void> {
  const named = option<string>(node.options, 'replication.replSetName');
  if (named === undefined) return;
  const { createReplication } = await import('../replication/index.ts');
  node.replication = createReplication({
    node,
    setName: named.split('/')[0]!,
    address: node.address,
    configServer: option<string>(node.options, 'sharding.clusterRole') === 'configsvr',
    tls: () => node.tls.outbound(),
    keys,
    clusterAuthMode: () => node.clusterAuthMode,
    closeClientConnections: () => {
      for (const connection of [...node.connections]) if (!connection.internal) connection.close();
    },
  });
}

export function helloServices(
  node: SimulatorNode,
  logins: Logins,
  trustsInternalClaim: boolean,
): Parameters<typeof helloSpecs>[0] {
  return {
    processId: node.processId,
    compressors: compressorsOf(node),
    trustsInternalClaim,
    mechanismsOf: (user, db) => logins.mechanismsOf(user, db),
    speculate: (context, login) => logins.speculate(context, login),
    onClientMetadata: (connection: ClientConnection, doc: Document, negotiatedCompressors) =>
      node.log.log('I', 'NETWORK', 51800, `conn${connection.id}`, 'client metadata', {
        remote: connection.remote,
        client: `conn${connection.id}`,
        negotiatedCompressors,
        doc,
      }),
  };
}

function compressorsOf(node: SimulatorNode): readonly string[] {
  const named = option<string>(node.options, 'net.compression.compressors') ?? 'snappy,zstd,zlib';
  return named
    .split(',')
    .map((name) => name.trim())
    .filter((name) => SUPPORTED_COMPRESSORS.includes(name));
}

/** Key files and member certificates switch access control on, too; `transitionToAuth` leaves it open for a while. */
export function accessControlWanted(node: SimulatorNode): boolean {
  const { options } = node;
  if (option<boolean>(options, 'security.transitionToAuth') === true) return false;
  const authorization = option<string>(options, 'security.authorization');
  if (authorization !== undefined) return authorization === 'enabled';
  return (
    option(options, 'security.keyFile') !== undefined ||
    option(options, 'security.clusterAuthMode') !== undefined
  );
}
