/** usersInfo: who the users are. */
import type { Document } from 'bson';
import type { CommandContext } from '../contracts.ts';
import { asFlag, asNumber, isDocument } from '../wire/bson.ts';
import { type Accounts, accountId, restrictionsOf, rolesOf, USERS } from './accounts.ts';
import { badValue } from './arguments.ts';
import { grantDocument } from './grants.ts';

/** Runs usersInfo; 2 for a malformed name. */
export function usersInfo(context: CommandContext, accounts: Accounts): Document {
  const { command, node } = context;
  const { filter, exact } = wanted(command['usersInfo'], context.db);
  if (!exact && (asFlag(command['showPrivileges']) || asFlag(command['showAuthenticationRestrictions']))) {
    throw badValue('Privilege or restriction details require exact-match usersInfo queries');
  }
  const extra: unknown = command['filter'];
  const found = node.data.find(USERS, {
    filter: isDocument(extra) ? { $and: [filter, extra] } : filter,
    sort: { _id: 1 },
  });
  return { users: found.map((user) => shown(user, command, accounts)) };
}

function wanted(asked: unknown, db: string): { readonly filter: Document; readonly exact: boolean } {
  if (isDocument(asked) && asFlag(asked['forAllDBs'])) return { filter: {}, exact: false };
  if (asNumber(asked) !== undefined) return { filter: { db }, exact: false };
  const names = Array.isArray(asked) ? (asked as unknown[]) : [asked];
  return { filter: { _id: { $in: names.map((name) => idOf(name, db)) } }, exact: true };
}

function idOf(name: unknown, db: string): string {
  if (typeof name === 'string') return accountId(db, name);
  if (!isDocument(name)) throw badValue('UserName must be either a string or an object');
  for (const field of ['user', 'db']) {
    if (typeof name[field] !== 'string') throw badValue(`UserName must contain a field named: ${field}`);
  }
  return accountId(name['db'], name['user']);
}

function shown(user: Document, command: Document, accounts: Accounts): Document {
  const credentials = (user['credentials'] ?? {}) as Document;
  const external = credentials['external'] !== undefined;
  return {
    _id: user['_id'],
    userId: user['userId'],
    user: user['user'],
    db: user['db'],
    ...(asFlag(command['showCredentials']) ? { credentials } : {}),
    ...(command['showCustomData'] === false || user['customData'] === undefined
      ? {}
      : { customData: user['customData'] }),
    roles: user['roles'],
    mechanisms: external ? ['external'] : Object.keys(credentials),
    ...details(user, command, accounts),
  };
}

function details(user: Document, command: Document, accounts: Accounts): Document {
  const out: Document = {};
  if (asFlag(command['showPrivileges'])) {
    const effective = accounts.resolve(rolesOf(user), restrictionsOf(user));
    out['inheritedRoles'] = effective.roles.map(({ role, db }) => ({ role, db }));
    out['inheritedPrivileges'] = effective.grants.map(grantDocument);
    out['inheritedAuthenticationRestrictions'] = effective.restrictions;
  }
  if (asFlag(command['showPrivileges']) || asFlag(command['showAuthenticationRestrictions'])) {
    out['authenticationRestrictions'] = restrictionsOf(user);
  }
  return out;
}
