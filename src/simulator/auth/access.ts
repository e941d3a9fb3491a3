/** Who may do what: access control of one process, with the localhost exception (4.3). */
import type { AuthenticatedUser, Connection, Privilege, ServerNode } from '../contracts.ts';
import type { Authorizer } from '../wire/dispatcher.ts';
import type { Accounts, Effective } from './accounts.ts';
import { SYSTEM_GRANTS } from './builtin-roles.ts';
import { covers, type Grant } from './grants.ts';

export interface AccessSettings {
  readonly enabled: boolean;
  readonly localhostException: boolean;
}

const EXCEPTION: readonly Grant[] = [
  {
    resource: { kind: 'collection', db: 'admin', collection: '' },
    actions: new Set(['createUser', 'grantRole']),
  },
  { resource: { kind: 'collection', db: '$external', collection: '' }, actions: new Set(['createUser']) },
  {
    resource: { kind: 'cluster' },
    actions: new Set(['addShard', 'replSetConfigure', 'replSetGetStatus', 'issueDirectShardOperations']),
  },
];
/** Arbiters hold no users, so someone near must be able to look at them and stop them. */
const ARBITER_EXCEPTION: readonly Grant[] = [
  {
    resource: { kind: 'cluster' },
    actions: new Set(['getCmdLineOpts', 'getParameter', 'serverStatus', 'shutdown']),
  },
];

export const SYSTEM_USER: AuthenticatedUser = { user: '__system', db: 'local' };

/** True for the user that other members log in as. */
export const isSystemUser = (user: AuthenticatedUser): boolean =>
  user.user === SYSTEM_USER.user && (user.db === 'local' || user.db === '$external');

/** The authorizer of one process. */
export class AccessControl implements Authorizer {
  readonly #settings: AccessSettings;
  readonly #accounts: Accounts;
  readonly #node: ServerNode;

  constructor(node: ServerNode, accounts: Accounts, settings: AccessSettings) {
    this.#node = node;
    this.#accounts = accounts;
    this.#settings = settings;
  }

  get enabled(): boolean {
    return this.#settings.enabled;
  }

  isLoggedIn(connection: Connection): boolean {
    return connection.users.length > 0;
  }

  allows(connection: Connection, privileges: readonly Privilege[]): boolean {
    return covers(this.grantsOf(connection), privileges);
  }

  /** All a connection may do at this moment; user changes count at once. */
  grantsOf(connection: Connection): readonly Grant[] {
    if (connection.users.length === 0) return this.#exceptionGrants(connection);
    if (connection.users.some(isSystemUser)) return SYSTEM_GRANTS;
    return connection.users.flatMap((user) => this.effectiveOf(user).grants);
  }

  effectiveOf(user: AuthenticatedUser): Effective {
    return this.#accounts.ofUser(user.db, user.user);
  }

  #exceptionGrants(connection: Connection): readonly Grant[] {
    if (!this.#settings.localhostException || !connection.loopback || this.#accounts.hasAny()) return [];
    return this.#isArbiter() ? [...EXCEPTION, ...ARBITER_EXCEPTION] : EXCEPTION;
  }

  #isArbiter(): boolean {
    try {
      return this.#node.replication?.helloFields({ legacyNames: false })['arbiterOnly'] === true;
    } catch {
      return false;
    }
  }
}
