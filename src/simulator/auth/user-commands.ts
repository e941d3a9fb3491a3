/** createUser and its family (4.5). */
import { type Document, UUID } from 'bson';
import type { CommandContext, CommandSpec, Privilege } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { asFlag, isDocument, wrongType } from '../wire/bson.ts';
import { type Accounts, accountId, type RoleName, rolesOf, USERS } from './accounts.ts';
import type { AdminWrites } from './admin-writes.ts';
import { accountName, badValue, required, roleList } from './arguments.ts';
import { assertRestrictions } from './restrictions.ts';
import { isScram, makeCredentials, preparePassword, SCRAM_MECHANISMS, type ScramMechanism } from './scram.ts';
import { usersInfo } from './users-info.ts';

/** What user commands need. */
export interface UserServices {
  readonly accounts: Accounts;
  readonly writes: AdminWrites;
  /** True for the subject of a member, where those are recognised; X.509 users must not look like members. */
  isMember(subject: string): boolean;
}

const FIELDS = ['pwd', 'customData', 'roles', 'mechanisms', 'authenticationRestrictions', 'digestPassword'];
const EXTERNAL = '$external';

/** createUser, updateUser, dropUser, dropAllUsersFromDatabase, usersInfo, grantRolesToUser, revokeRolesFromUser. */
export function userSpecs(services: UserServices): readonly CommandSpec[] {
  const { accounts } = services;
  return [
    {
      name: 'createUser',
      auth: needsForCreate,
      access: 'write',
      fields: FIELDS,
      run: (context) => createUser(context, services),
    },
    {
      name: 'updateUser',
      auth: needsForUpdate,
      access: 'write',
      fields: FIELDS,
      run: (context) => updateUser(context, services),
    },
    {
      name: 'dropUser',
      auth: onDb('dropUser'),
      access: 'write',
      fields: [],
      run: (context) => dropUser(context, services),
    },
    {
      name: 'dropAllUsersFromDatabase',
      auth: onDb('dropUser'),
      access: 'write',
      fields: [],
      run: (context) => dropAll(context, services),
    },
    {
      name: 'usersInfo',
      auth: needsForInfo,
      access: 'read',
      fields: [
        'showPrivileges',
        'showCredentials',
        'showCustomData',
        'showAuthenticationRestrictions',
        'filter',
      ],
      run: (context) => usersInfo(context, accounts),
    },
    {
      name: 'grantRolesToUser',
      auth: needsForRoles('grantRole'),
      access: 'write',
      fields: ['roles'],
      run: (context) => changeRoles(context, services, 'grant'),
    },
    {
      name: 'revokeRolesFromUser',
      auth: needsForRoles('revokeRole'),
      access: 'write',
      fields: ['roles'],
      run: (context) => changeRoles(context, services, 'revoke'),
    },
  ];
}

// ── privileges ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** A privilege on the command's whole database. */
export const onDb =
  (...actions: string[]) =>
  (context: CommandContext): readonly Privilege[] => [
    { resource: { db: context.db, collection: '' }, actions },
  ];

/** The given action on the database of each role in a list that may be malformed. */
export function onRoleDbs(list: unknown, db: string, action: string): readonly Privilege[] {
  if (!Array.isArray(list)) return [];
  const dbs = list.map((item: unknown) =>
    isDocument(item) && typeof item['db'] === 'string' ? item['db'] : db,
  );
  return [...new Set(dbs)].map((name) => ({ resource: { db: name, collection: '' }, actions: [action] }));
}

function needsForCreate(context: CommandContext): readonly Privilege[] {
  const restricts = context.command['authenticationRestrictions'] !== undefined;
  return [
    ...onDb('createUser', ...(restricts ? ['setAuthenticationRestriction'] : []))(context),
    ...onRoleDbs(context.command['roles'], context.db, 'grantRole'),
  ];
}

function needsForUpdate(context: CommandContext): readonly Privilege[] {
  const { command, db } = context;
  const needed: Privilege[] = [];
  const add = (action: string): void =>
    void needed.push({ resource: { db, collection: '' }, actions: [action] });
  if (command['pwd'] !== undefined) add('changePassword');
  if (command['customData'] !== undefined) add('changeCustomData');
  if (command['authenticationRestrictions'] !== undefined) add('setAuthenticationRestriction');
  if (command['roles'] !== undefined) {
    add('revokeRole');
    needed.push(...onRoleDbs(command['roles'], db, 'grantRole'));
  }
  return needed;
}

const needsForRoles =
  (action: 'grantRole' | 'revokeRole') =>
  (context: CommandContext): readonly Privilege[] =>
    onRoleDbs(context.command['roles'], context.db, action);

/** Everyone may look at themselves. */
function needsForInfo(context: CommandContext): readonly Privilege[] {
  const asked = context.command['usersInfo'] as unknown;
  if (isDocument(asked) && asked['forAllDBs'] === true)
    return [{ resource: { db: '', collection: '' }, actions: ['viewUser'] }];
  const names = Array.isArray(asked) ? asked : [asked];
  const dbs = names
    .map((item: unknown) =>
      isDocument(item)
        ? { user: String(item['user']), db: String(item['db']) }
        : { user: String(item), db: context.db },
    )
    .filter((name) => !context.connection.users.some((own) => own.user === name.user && own.db === name.db))
    .map((name) => name.db);
  return [...new Set(dbs)].map((db) => ({ resource: { db, collection: '' }, actions: ['viewUser'] }));
}

// ── commands ───────────────────────────────────────────────────────────────────────────────────────────────────────

async function createUser(context: CommandContext, services: UserServices): Promise<Document> {
  const { command, db, node } = context;
  const user = accountName(command, 'createUser', 'User');
  if (db === 'local') throw badValue('Cannot create users in the local database');
  const pwd = passwordOf(command, 'createUser');
  const roles = roleList(required(command, 'createUser', 'roles', node.version), 'createUser.roles', db);
  const credentials = await credentialsFor(context, user, pwd, 'createUser', services);
  assertRolesExist(services.accounts, roles);
  const restrictions = restrictionsField(command);
  const customData = customDataField(command, 'createUser');
  if (services.accounts.user(db, user) !== undefined) {
    throw new ServerError(51003, 'Location51003', `User "${user}@${db}" already exists`);
  }
  services.writes.insert(context, USERS, {
    _id: accountId(db, user),
    userId: new UUID(),
    user,
    db,
    credentials,
    ...(restrictions === undefined ? {} : { authenticationRestrictions: restrictions }),
    ...(customData === undefined ? {} : { customData }),
    roles: roles.map(roleDocument),
  });
  return {};
}

async function updateUser(context: CommandContext, services: UserServices): Promise<Document> {
  const { command, db } = context;
  const user = accountName(command, 'updateUser', 'User');
  const pwd = passwordOf(command, 'updateUser');
  const given = ['pwd', 'roles', 'customData', 'mechanisms', 'authenticationRestrictions'].some(
    (field) => command[field] !== undefined,
  );
  if (!given) throw badValue('Must specify at least one field to update in updateUser');
  const stored = services.accounts.user(db, user);
  if (stored === undefined) throw new ServerError(11, 'UserNotFound', `User ${user}@${db} not found`);
  const changed: Document = { ...stored };
  if (command['roles'] !== undefined) {
    const roles = roleList(command['roles'], 'updateUser.roles', db);
    assertRolesExist(services.accounts, roles);
    changed['roles'] = roles.map(roleDocument);
  }
  if (pwd !== undefined)
    changed['credentials'] = await credentialsFor(context, user, pwd, 'updateUser', services);
  else if (command['mechanisms'] !== undefined)
    changed['credentials'] = fewerMechanisms(stored, mechanismsOf(command));
  const restrictions = restrictionsField(command);
  if (restrictions !== undefined) changed['authenticationRestrictions'] = restrictions;
  const customData = customDataField(command, 'updateUser');
  if (customData !== undefined) changed['customData'] = customData;
  services.writes.replace(context, USERS, changed);
  return {};
}

function dropUser(context: CommandContext, services: UserServices): Document {
  const user = accountName(context.command, 'dropUser', 'User');
  const gone = services.writes.delete(context, USERS, { _id: accountId(context.db, user) });
  if (gone === 0) throw new ServerError(11, 'UserNotFound', `User '${user}@${context.db}' not found`);
  return {};
}

function dropAll(context: CommandContext, services: UserServices): Document {
  return { n: services.writes.delete(context, USERS, { db: context.db }) };
}

function changeRoles(context: CommandContext, services: UserServices, change: 'grant' | 'revoke'): Document {
  const { command, db, node } = context;
  const name = change === 'grant' ? 'grantRolesToUser' : 'revokeRolesFromUser';
  const user = accountName(command, name, 'User');
  const roles = roleList(required(command, name, 'roles', node.version), `${name}.roles`, db);
  const stored = services.accounts.user(db, user);
  if (stored === undefined)
    throw new ServerError(11, 'UserNotFound', `Could not find user "${user}" for db "${db}"`);
  if (change === 'grant') assertRolesExist(services.accounts, roles);
  services.writes.replace(context, USERS, {
    ...stored,
    roles: changedRoles(rolesOf(stored), roles, change).map(roleDocument),
  });
  return {};
}

/** A list of roles after granting or revoking others; no role twice. */
export function changedRoles(
  present: readonly RoleName[],
  given: readonly RoleName[],
  change: 'grant' | 'revoke',
): readonly RoleName[] {
  const same =
    (a: RoleName) =>
    (b: RoleName): boolean =>
      a.role === b.role && a.db === b.db;
  if (change === 'revoke') return present.filter((role) => !given.some(same(role)));
  return [...present, ...given.filter((role) => !present.some(same(role)))];
}

/** A role as documents name it. */
export const roleDocument = ({ role, db }: RoleName): Document => ({ role, db });

/** 31 for the first role that does not exist. */
export function assertRolesExist(accounts: Accounts, roles: readonly RoleName[]): void {
  const missing = roles.find((role) => !accounts.exists(role));
  if (missing !== undefined)
    throw new ServerError(31, 'RoleNotFound', `Could not find role: ${missing.role}@${missing.db}`);
}

// ── fields ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function passwordOf(command: Document, name: string): string | undefined {
  const pwd: unknown = command['pwd'];
  if (pwd === undefined) return undefined;
  if (typeof pwd !== 'string') throw wrongType(`${name}.pwd`, pwd, 'string');
  if (pwd === '') throw new ServerError(50687, 'Location50687', 'Password cannot be empty');
  return pwd;
}

function mechanismsOf(command: Document): readonly ScramMechanism[] {
  const given: unknown = command['mechanisms'];
  if (given === undefined) return SCRAM_MECHANISMS;
  if (!Array.isArray(given)) throw wrongType('createUser.mechanisms', given, 'array');
  if (given.length === 0) throw badValue('mechanisms field must not be empty');
  for (const name of given as unknown[])
    if (!isScram(String(name))) throw badValue(`Unknown auth mechanism '${String(name)}'`);
  return SCRAM_MECHANISMS.filter((name) => given.includes(name));
}

async function credentialsFor(
  context: CommandContext,
  user: string,
  pwd: string | undefined,
  name: string,
  services: UserServices,
): Promise<Document> {
  const { db, command, node } = context;
  if (db === EXTERNAL) {
    if (pwd !== undefined)
      throw badValue("Cannot set the password for users defined on the '$external' database");
    if (services.isMember(user)) {
      throw badValue(
        'Cannot create an x.509 user with a subjectname that would be recognized as an internal cluster member',
      );
    }
    return { external: true };
  }
  const mechanisms = mechanismsOf(command);
  if (pwd === undefined) {
    throw badValue(
      "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db",
    );
  }
  if (
    command['digestPassword'] !== undefined &&
    !asFlag(command['digestPassword']) &&
    mechanisms.includes('SCRAM-SHA-256')
  ) {
    throw badValue(`Use of SCRAM-SHA-256 requires undigested passwords (${name})`);
  }
  const made: Document = {};
  for (const mechanism of mechanisms)
    made[mechanism] = await credentialOf(mechanism, user, pwd, node.parameters);
  return made;
}

async function credentialOf(
  mechanism: ScramMechanism,
  user: string,
  pwd: string,
  parameters: ReadonlyMap<string, unknown>,
): Promise<Document> {
  const parameter = mechanism === 'SCRAM-SHA-1' ? 'scramIterationCount' : 'scramSHA256IterationCount';
  let prepared: string;
  try {
    prepared = await preparePassword(mechanism, user, pwd);
  } catch {
    throw badValue('Error preflighting UTF-8 conversion of the password');
  }
  return { ...makeCredentials(mechanism, prepared, Number(parameters.get(parameter))) };
}

function fewerMechanisms(stored: Document, wanted: readonly ScramMechanism[]): Document {
  const present = stored['credentials'] as Document;
  const missing = wanted.find((name) => present[name] === undefined);
  if (missing !== undefined) throw badValue('mechanisms field must be a subset of previously set mechanisms');
  return Object.fromEntries(wanted.map((name) => [name, present[name]]));
}

function restrictionsField(command: Document): readonly Document[] | undefined {
  const given: unknown = command['authenticationRestrictions'];
  return given === undefined ? undefined : assertRestrictions(given);
}

function customDataField(command: Document, name: string): Document | undefined {
  const given: unknown = command['customData'];
  if (given === undefined || isDocument(given)) return given;
  throw wrongType(`${name}.customData`, given, 'object');
}
