/** createRole and its family (4.5). */
import type { Document } from 'bson';
import type { CommandContext, CommandSpec, Privilege } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { asFlag, asNumber, isDocument } from '../wire/bson.ts';
import {
  type Accounts,
  accountId,
  privilegesOf,
  ROLES,
  type RoleName,
  restrictionsOf,
  rolesOf,
  USERS,
} from './accounts.ts';
import type { AdminWrites } from './admin-writes.ts';
import { accountName, badValue, privilegeList, required, roleList, roleName } from './arguments.ts';
import { builtinGrants, builtinNames } from './builtin-roles.ts';
import { type Grant, grantDocument, mergeGrants } from './grants.ts';
import { assertRestrictions } from './restrictions.ts';
import { assertRolesExist, changedRoles, onDb, onRoleDbs, roleDocument } from './user-commands.ts';

/** What role commands need. */
export interface RoleServices {
  readonly accounts: Accounts;
  readonly writes: AdminWrites;
}

const FIELDS = ['privileges', 'roles', 'authenticationRestrictions'];

/** createRole, updateRole, dropRole, dropAllRolesFromDatabase, rolesInfo, the grants and revocations, invalidateUserCache. */
export function roleSpecs(services: RoleServices): readonly CommandSpec[] {
  const write = (
    name: string,
    auth: CommandSpec['auth'],
    fields: readonly string[],
    run: (context: CommandContext, services: RoleServices) => Document,
  ): CommandSpec => ({ name, auth, access: 'write', fields, run: (context) => run(context, services) });
  return [
    write('createRole', needsForWrite('createRole'), FIELDS, createRole),
    write('updateRole', needsForWrite('revokeRole'), FIELDS, updateRole),
    write('dropRole', onDb('dropRole'), [], dropRole),
    write('dropAllRolesFromDatabase', onDb('dropRole'), [], dropAll),
    write('grantPrivilegesToRole', needsForPrivileges('grantRole'), ['privileges'], (context) =>
      changePrivileges(context, services, 'grant'),
    ),
    write('revokePrivilegesFromRole', needsForPrivileges('revokeRole'), ['privileges'], (context) =>
      changePrivileges(context, services, 'revoke'),
    ),
    write('grantRolesToRole', needsForRoles('grantRole'), ['roles'], (context) =>
      changeRoles(context, services, 'grant'),
    ),
    write('revokeRolesFromRole', needsForRoles('revokeRole'), ['roles'], (context) =>
      changeRoles(context, services, 'revoke'),
    ),
    {
      name: 'rolesInfo',
      auth: onDb('viewRole'),
      access: 'read',
      fields: ['showPrivileges', 'showBuiltinRoles', 'showAuthenticationRestrictions'],
      run: (context) => rolesInfo(context, services.accounts),
    },
    {
      name: 'invalidateUserCache',
      adminOnly: true,
      auth: () => [{ resource: { cluster: true }, actions: ['invalidateUserCache'] }],
      access: 'any',
      run: () => {
        services.accounts.invalidate();
        return {};
      },
    },
  ];
}

// ── privileges needed ──────────────────────────────────────────────────────────────────────────────────────────────

const needsForWrite =
  (action: string) =>
  (context: CommandContext): readonly Privilege[] => [
    ...onDb(action)(context),
    ...onRoleDbs(context.command['roles'], context.db, 'grantRole'),
    ...onPrivilegeDbs(context, 'grantRole'),
  ];
const needsForRoles =
  (action: string) =>
  (context: CommandContext): readonly Privilege[] =>
    onRoleDbs(context.command['roles'], context.db, action);
const needsForPrivileges =
  (action: string) =>
  (context: CommandContext): readonly Privilege[] =>
    onPrivilegeDbs(context, action);

/** Whoever hands out privileges must be allowed to grant in the databases they speak of; those on everything belong to admin. */
function onPrivilegeDbs(context: CommandContext, action: string): readonly Privilege[] {
  const given: unknown = context.command['privileges'];
  if (!Array.isArray(given)) return [];
  const dbs = given.map((item: unknown) => {
    const resource: unknown = isDocument(item) ? item['resource'] : undefined;
    const db: unknown = isDocument(resource) ? resource['db'] : undefined;
    return typeof db === 'string' && db !== '' ? db : 'admin';
  });
  return [...new Set(dbs)].map((db) => ({ resource: { db, collection: '' }, actions: [action] }));
}

// ── commands ───────────────────────────────────────────────────────────────────────────────────────────────────────

function createRole(context: CommandContext, { accounts, writes }: RoleServices): Document {
  const { command, db, node } = context;
  const role = accountName(command, 'createRole', 'Role');
  if (db === 'local') throw badValue('Cannot create roles in the local database');
  if (db === '$external') throw badValue('Cannot create roles in the $external database');
  if (builtinGrants(role, db) !== undefined)
    throw badValue('Cannot create roles with the same name as a built-in role');
  const privileges = privilegeList(
    required(command, 'createRole', 'privileges', node.version),
    'createRole.privileges',
  );
  const roles = roleList(required(command, 'createRole', 'roles', node.version), 'createRole.roles', db);
  assertContent(accounts, db, roles, privileges);
  if (accounts.role(db, role) !== undefined) {
    throw new ServerError(51002, 'Location51002', `Role "${role}@${db}" already exists`);
  }
  const limits: unknown = command['authenticationRestrictions'];
  writes.insert(context, ROLES, {
    _id: accountId(db, role),
    role,
    db,
    privileges: mergeGrants(privileges).map(grantDocument),
    roles: roles.map(roleDocument),
    ...(limits === undefined ? {} : { authenticationRestrictions: assertRestrictions(limits) }),
  });
  return {};
}

function updateRole(context: CommandContext, { accounts, writes }: RoleServices): Document {
  const { command, db } = context;
  const stored = storedRole(context, accounts, 'updateRole');
  if (FIELDS.every((field) => command[field] === undefined))
    throw badValue('Must specify at least one field to update in updateRole');
  const changed: Document = { ...stored };
  if (command['privileges'] !== undefined) {
    const privileges = privilegeList(command['privileges'], 'updateRole.privileges');
    assertContent(accounts, db, [], privileges);
    changed['privileges'] = mergeGrants(privileges).map(grantDocument);
  }
  if (command['roles'] !== undefined) {
    const roles = roleList(command['roles'], 'updateRole.roles', db);
    assertContent(accounts, db, roles, []);
    assertNoCycle(accounts, stored, roles);
    changed['roles'] = roles.map(roleDocument);
  }
  const limits: unknown = command['authenticationRestrictions'];
  if (limits !== undefined) changed['authenticationRestrictions'] = assertRestrictions(limits);
  writes.replace(context, ROLES, changed);
  return {};
}

function dropRole(context: CommandContext, { accounts, writes }: RoleServices): Document {
  const stored = storedRole(context, accounts, 'dropRole');
  forget(context, writes, (name) => name.role === stored['role'] && name.db === stored['db']);
  writes.delete(context, ROLES, { _id: stored['_id'] });
  return {};
}

function dropAll(context: CommandContext, { writes }: RoleServices): Document {
  const { db, node } = context;
  const own = node.data.find(ROLES, { filter: { db } }).map((role) => String(role['role']));
  forget(context, writes, (name) => name.db === db && own.includes(name.role));
  return { n: writes.delete(context, ROLES, { db }) };
}

/** Takes roles that go away from every user and role that has them. */
function forget(context: CommandContext, writes: AdminWrites, gone: (name: RoleName) => boolean): void {
  for (const ns of [USERS, ROLES]) {
    for (const document of context.node.data.find(ns, {})) {
      const roles = rolesOf(document);
      const kept = roles.filter((role) => !gone(role));
      if (kept.length < roles.length)
        writes.replace(context, ns, { ...document, roles: kept.map(roleDocument) });
    }
  }
}

function changePrivileges(
  context: CommandContext,
  { accounts, writes }: RoleServices,
  change: 'grant' | 'revoke',
): Document {
  const { command, db, node } = context;
  const name = change === 'grant' ? 'grantPrivilegesToRole' : 'revokePrivilegesFromRole';
  const given = privilegeList(required(command, name, 'privileges', node.version), `${name}.privileges`);
  const stored = storedRole(context, accounts, name);
  if (change === 'grant') assertContent(accounts, db, [], given);
  const present = privilegesOf(stored);
  const changed = change === 'grant' ? mergeGrants([...present, ...given]) : withoutActions(present, given);
  writes.replace(context, ROLES, { ...stored, privileges: changed.map(grantDocument) });
  return {};
}

function withoutActions(present: readonly Grant[], gone: readonly Grant[]): readonly Grant[] {
  const key = (grant: Grant): string => JSON.stringify(grant.resource);
  return present
    .map((grant) => {
      const taken = new Set(
        gone.filter((other) => key(other) === key(grant)).flatMap((other) => [...other.actions]),
      );
      return {
        resource: grant.resource,
        actions: new Set([...grant.actions].filter((action) => !taken.has(action))),
      };
    })
    .filter((grant) => grant.actions.size > 0);
}

function changeRoles(
  context: CommandContext,
  { accounts, writes }: RoleServices,
  change: 'grant' | 'revoke',
): Document {
  const { command, db, node } = context;
  const name = change === 'grant' ? 'grantRolesToRole' : 'revokeRolesFromRole';
  const roles = roleList(required(command, name, 'roles', node.version), `${name}.roles`, db);
  const stored = storedRole(context, accounts, name);
  if (change === 'grant') {
    assertContent(accounts, db, roles, []);
    assertNoCycle(accounts, stored, roles);
  }
  writes.replace(context, ROLES, {
    ...stored,
    roles: changedRoles(rolesOf(stored), roles, change).map(roleDocument),
  });
  return {};
}

/** The role a command changes: 49 for a built-in one, 31 for none. */
function storedRole(context: CommandContext, accounts: Accounts, name: string): Document {
  const role = accountName(context.command, name, 'Role');
  const { db } = context;
  if (builtinGrants(role, db) !== undefined) {
    throw new ServerError(
      49,
      'InvalidRoleModification',
      `${role}@${db} is a built-in role and cannot be modified`,
    );
  }
  const stored = accounts.role(db, role);
  if (stored === undefined) throw new ServerError(31, 'RoleNotFound', `Role ${role}@${db} not found`);
  return stored;
}

/** Roles outside admin may only speak of their own database. */
function assertContent(
  accounts: Accounts,
  db: string,
  roles: readonly RoleName[],
  privileges: readonly Grant[],
): void {
  assertRolesExist(accounts, roles);
  if (db === 'admin') return;
  const foreign = roles.find((role) => role.db !== db);
  if (foreign !== undefined) {
    throw new ServerError(
      49,
      'InvalidRoleModification',
      `Roles on the '${db}' database cannot be granted roles from other databases`,
    );
  }
  if (privileges.some(({ resource }) => resource.kind !== 'collection' || resource.db !== db)) {
    throw new ServerError(
      49,
      'InvalidRoleModification',
      `Roles on the '${db}' database cannot be granted privileges that target other databases or the cluster`,
    );
  }
}

function assertNoCycle(accounts: Accounts, stored: Document, roles: readonly RoleName[]): void {
  const inherited = accounts.resolve(roles).roles;
  if (!inherited.some((role) => role.role === stored['role'] && role.db === stored['db'])) return;
  throw new ServerError(
    49,
    'InvalidRoleModification',
    `Granting ${roles.map((role) => `${role.role}@${role.db}`).join(', ')} to ${stored['role']}@${stored['db']} would introduce a cycle in the role graph.`,
  );
}

// ── rolesInfo ──────────────────────────────────────────────────────────────────────────────────────────────────────

function rolesInfo(context: CommandContext, accounts: Accounts): Document {
  const { command, db, node } = context;
  const asked: unknown = command['rolesInfo'];
  const showPrivileges = asFlag(command['showPrivileges']);
  if (asNumber(asked) === 1) {
    const made = node.data
      .find(ROLES, { filter: { db }, sort: { _id: 1 } })
      .map((role) => ({ role: String(role['role']), db }));
    const builtin = asFlag(command['showBuiltinRoles']) ? builtinNames(db).map((role) => ({ role, db })) : [];
    return { roles: [...made, ...builtin].flatMap((name) => shown(name, accounts, showPrivileges)) };
  }
  const names = (Array.isArray(asked) ? (asked as unknown[]) : [asked]).map((item) => roleName(item, db));
  return { roles: names.flatMap((name) => shown(name, accounts, showPrivileges)) };
}

function shown(name: RoleName, accounts: Accounts, showPrivileges: boolean): Document[] {
  const builtin = builtinGrants(name.role, name.db);
  const stored = builtin === undefined ? accounts.role(name.db, name.role) : undefined;
  if (builtin === undefined && stored === undefined) return [];
  const direct = stored === undefined ? [] : rolesOf(stored);
  const inherited = accounts.resolve(direct);
  const own = builtin ?? privilegesOf(stored ?? {});
  return [
    {
      ...(stored === undefined ? {} : { _id: stored['_id'] }),
      role: name.role,
      db: name.db,
      ...(showPrivileges ? { privileges: mergeGrants(own).map(grantDocument) } : {}),
      roles: direct.map(roleDocument),
      ...(stored === undefined || restrictionsOf(stored).length === 0
        ? {}
        : { authenticationRestrictions: restrictionsOf(stored) }),
      inheritedRoles: inherited.roles.map(roleDocument),
      ...(showPrivileges
        ? { inheritedPrivileges: mergeGrants([...own, ...inherited.grants]).map(grantDocument) }
        : {}),
      isBuiltin: builtin !== undefined,
    },
  ];
}
