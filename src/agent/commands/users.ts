/** Users and roles: the first one through the localhost exception, then everything else by the user administrator. */
import { isDeepStrictEqual } from 'node:util';
import type { Db, Document } from 'mongodb';
import type {
  CommandOutcome,
  Login,
  ManagedRole,
  ManagedUser,
  MemberCommand,
} from '../../clusters/snapshot.ts';
import { mayHaveHappened, refusal } from '../mongo.ts';
import { admin, type CommandContext, done, notPrimary, tryLogin, unless } from './context.ts';
import { refused } from './refusals.ts';

const UNAUTHORIZED = 13;
const AUTHENTICATION_FAILED = 18;
const USER_EXISTS = 51003;
const ROLE_EXISTS = 51002;
const USER_NOT_FOUND = 11;
const ROLE_NOT_FOUND = 31;

const loginOf = (user: ManagedUser): Login | null =>
  user.password === null ? null : { user: user.user, db: user.db, password: user.password };

/**
 * Creates the first user. When the exception is closed or the user exists, a login with this very credential decides: it
 * works after a lost answer (A5.1), and if it does not, somebody else made the users.
 */
export async function createFirstUser(context: CommandContext, user: ManagedUser): Promise<CommandOutcome> {
  const elsewhere = await notPrimary(context);
  if (elsewhere) return elsewhere;
  const login = loginOf(user);
  if (!login) return refused(0, 'NoPassword', `${user.user} has no password to be made with`);
  try {
    const made = await unless(
      [UNAUTHORIZED, USER_EXISTS],
      admin(context, null).command({
        createUser: user.user,
        pwd: login.password.reveal(),
        roles: [...user.roles],
      }),
    );
    if (made) return done({ created: true });
  } catch (failure) {
    if (!mayHaveHappened(failure)) return refusal(failure);
  }
  const known = await tryLogin(context, login);
  if (known.kind === 'done') return done({ created: false, already: true });
  if (known.code !== AUTHENTICATION_FAILED) return known;
  return refused(
    AUTHENTICATION_FAILED,
    'AuthenticationFailed',
    `users exist, but ${user.user} cannot log in`,
  );
}

type Reconcile = Extract<MemberCommand, { kind: 'reconcileUsers' }>;

/**
 * Makes users and roles equal to the wanted ones and writes only what differs: roles are compared without order
 * (percona.md 1.9), a password by logging in with it. Users and roles not named are never touched (USR-08).
 */
export async function reconcileUsers(context: CommandContext, command: Reconcile): Promise<CommandOutcome> {
  const elsewhere = await notPrimary(context);
  if (elsewhere) return elsewhere;
  const db = admin(context, command.as);
  const changes: Changes = { created: [], updated: [], dropped: [] };
  for (const role of command.roles) await reconcileRole(context, db, role, changes);
  const present = await usersPresent(db, command.users);
  const work = command.users.map((user) =>
    reconcileUser(context, db, user, present.get(key(user)) ?? null, command.as, changes),
  );
  const failed = (await Promise.allSettled(work)).find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  for (const user of command.drop) await dropUser(context, db, user, changes);
  return done({ ...changes });
}

interface Changes {
  readonly created: string[];
  readonly updated: string[];
  readonly dropped: string[];
}

const key = (named: { readonly db: string; readonly user?: string; readonly role?: string }): string =>
  `${named.db}.${named.user ?? named.role}`;

// ── roles ──────────────────────────────────────────────────────────────────────────────────────────────────────────

async function reconcileRole(
  context: CommandContext,
  db: Db,
  role: ManagedRole,
  changes: Changes,
): Promise<void> {
  context.signal.throwIfAborted();
  const inDb = db.client.db(role.db);
  const reply = await db.command({
    rolesInfo: { role: role.role, db: role.db },
    showPrivileges: true,
    showAuthenticationRestrictions: true,
  });
  const found = (reply['roles'] as Document[])[0] ?? null;
  if (found && sameRole(found, role)) return;
  const restrictions = role.authenticationRestrictions;
  const content = {
    privileges: [...role.privileges],
    roles: [...role.roles],
    ...(restrictions === undefined ? {} : { authenticationRestrictions: [...restrictions] }),
  };
  if (!found) {
    const made = await unless([ROLE_EXISTS], inDb.command({ createRole: role.role, ...content }));
    if (made) {
      changes.created.push(key(role));
      return;
    }
  }
  await inDb.command({ updateRole: role.role, ...content });
  changes.updated.push(key(role));
}

function sameRole(found: Document, role: ManagedRole): boolean {
  if (!sameRefs(found['roles'], role.roles) || !samePrivileges(found['privileges'], role.privileges))
    return false;
  const { authenticationRestrictions: wanted } = role;
  // The server gives a list of lists: one inner list per role that restricts.
  const [own = []] = (found['authenticationRestrictions'] ?? []) as unknown[][];
  return wanted === undefined || isDeepStrictEqual(own, wanted);
}

/** Privileges as a set: order of privileges, actions and resource fields means nothing. */
const samePrivileges = (found: unknown, wanted: readonly unknown[]): boolean =>
  canonicalPrivileges(found) === canonicalPrivileges(wanted);

function canonicalPrivileges(privileges: unknown): string {
  const list = Array.isArray(privileges) ? (privileges as { resource?: object; actions?: string[] }[]) : [];
  const texts = list.map(({ resource = {}, actions = [] }) => {
    const fields = Object.entries(resource).sort(([a], [b]) => (a < b ? -1 : 1));
    return JSON.stringify([fields, [...new Set(actions)].sort()]);
  });
  return [...new Set(texts)].sort().join('\n');
}

interface RoleRef {
  readonly role: string;
  readonly db: string;
}

const sameRefs = (found: unknown, wanted: readonly RoleRef[]): boolean => {
  const list = Array.isArray(found) ? (found as RoleRef[]) : [];
  const names = (refs: readonly RoleRef[]): string =>
    [...new Set(refs.map((ref) => key(ref)))].sort().join('\n');
  return names(list) === names(wanted);
};

// ── users ──────────────────────────────────────────────────────────────────────────────────────────────────────────

async function usersPresent(db: Db, users: readonly ManagedUser[]): Promise<ReadonlyMap<string, Document>> {
  if (users.length === 0) return new Map();
  const reply = await db.command({ usersInfo: users.map(({ user, db: of }) => ({ user, db: of })) });
  return new Map((reply['users'] as Document[]).map((user) => [`${user['db']}.${user['user']}`, user]));
}

async function reconcileUser(
  context: CommandContext,
  db: Db,
  user: ManagedUser,
  found: Document | null,
  as: Login,
  changes: Changes,
): Promise<void> {
  context.signal.throwIfAborted();
  const inDb = db.client.db(user.db);
  const pwd = user.password === null ? {} : { pwd: user.password.reveal() };
  let present = found;
  if (!present) {
    const made = await unless(
      [USER_EXISTS],
      inDb.command({ createUser: user.user, ...pwd, roles: [...user.roles] }),
    );
    if (made) {
      changes.created.push(key(user));
      return;
    }
    present = {};
  }
  const roles = sameRefs(present['roles'], user.roles) ? {} : { roles: [...user.roles] };
  const password = (await passwordFits(context, user, as)) ? {} : pwd;
  const change = { ...roles, ...password };
  if (Object.keys(change).length === 0) return;
  context.signal.throwIfAborted();
  await inDb.command({ updateUser: user.user, ...change });
  changes.updated.push(key(user));
}

/** Only a clear "wrong password" is drift; when a login cannot be tried, nothing is written. */
async function passwordFits(context: CommandContext, user: ManagedUser, as: Login): Promise<boolean> {
  const login = loginOf(user);
  if (!login) return true;
  const own = user.user === as.user && user.db === as.db;
  if (own && login.password.reveal() === as.password.reveal()) return true;
  const outcome = await tryLogin(context, login);
  if (outcome.kind === 'done') return true;
  if (outcome.code === AUTHENTICATION_FAILED) return false;
  throw new LoginNotTried(outcome.message);
}

/** The login could not be tried; passes by itself. */
class LoginNotTried extends Error {
  override readonly name = 'MongoLoginNotTried';
}

async function dropUser(
  context: CommandContext,
  db: Db,
  user: { readonly user: string; readonly db: string },
  changes: Changes,
): Promise<void> {
  context.signal.throwIfAborted();
  const gone = await unless(
    [USER_NOT_FOUND, ROLE_NOT_FOUND],
    db.client.db(user.db).command({ dropUser: user.user }),
  );
  if (gone) changes.dropped.push(key(user));
}
