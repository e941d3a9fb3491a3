/** Puts the parts of a router together: accounts from the config servers, logins, the command table. */
import { AccessControl } from '../auth/access.ts';
import { Accounts } from '../auth/accounts.ts';
import { AdminWrites } from '../auth/admin-writes.ts';
import type { KeyFile } from '../auth/keyfile.ts';
import { Logins } from '../auth/login.ts';
import { roleSpecs } from '../auth/role-commands.ts';
import { userSpecs } from '../auth/user-commands.ts';
import { createCommandServices } from '../commands/index.ts';
import type { Router } from '../router/router.ts';
import { accountSpecs, routerSpecs } from '../router/specs.ts';
import { Dispatcher } from '../wire/dispatcher.ts';
import { helloSpecs } from '../wire/hello.ts';
import { type Assembled, accessControlWanted, helloServices, memberRule } from './assemble.ts';
import { controlSpecs } from './commands/control.ts';
import { infoSpecs } from './commands/info.ts';
import { parameterSpecs } from './commands/parameters.ts';
import { serverStatusSpec } from './commands/server-status.ts';
import { internalConnection } from './internal-connection.ts';
import type { SimulatorNode } from './node.ts';

/** Makes a router's node able to serve. */
export function assembleRouter(node: SimulatorNode, router: Router, keys: KeyFile | null): Assembled {
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
  const services = createCommandServices(node);
  node.localStamp = services.localStamp;
  const dispatcher = new Dispatcher({ node, authorizer: access, metrics: node.metrics, hooks: services });
  const writes = new AdminWrites(() => node.stamp());
  dispatcher.register(logins.specs());
  dispatcher.register(infoSpecs(node, access, dispatcher));
  dispatcher.register(parameterSpecs(node));
  dispatcher.register(controlSpecs(node, authEnabled));
  dispatcher.register([serverStatusSpec(node, logins)]);
  dispatcher.register(routerSpecs(router));
  const account = { accounts, writes, isMember: () => false };
  dispatcher.register(accountSpecs(router, [...userSpecs(account), ...roleSpecs(account)]));
  dispatcher.register(helloSpecs(helloServices(node, logins, !authEnabled)));
  const connection = internalConnection();
  node.runInternal = (db, command) => dispatcher.runInternal(connection, db, command);
  return { dispatcher, close: () => services.close() };
}
