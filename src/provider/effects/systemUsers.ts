/** Effects on the system users in the database. */
import { type MemberCommand, oldestVersion, type Step, systemUsersHash } from '../../clusters/index.ts';
import type { Effect } from '../../engine/provider.ts';
import { SYSTEM_USERNAMES } from '../../model/index.ts';
import { stagedPasswords } from '../names.ts';
import { managedRoles, type SystemUsername, systemUser, USER_ADMIN } from '../users.ts';
import { command, commandAs } from './commands.ts';
import { done, type Work } from './work.ts';

export async function createFirstUser(work: Work, via: string): Promise<Effect> {
  const { password } = await work.credentials.login(work.state.uid, USER_ADMIN);
  const user = systemUser(USER_ADMIN, oldestVersion(work.state, work.desired), password);
  return command(work, via, { kind: 'createFirstUser', user });
}

export async function reconcileSystemUsers(work: Work, via: string): Promise<Effect> {
  const { desired, state, credentials } = work;
  const users = await Promise.all(
    SYSTEM_USERNAMES.map(async (name) =>
      systemUser(name, oldestVersion(state, desired), (await credentials.login(state.uid, name)).password),
    ),
  );
  const as = await credentials.login(state.uid);
  const what: MemberCommand = {
    kind: 'reconcileUsers',
    as,
    roles: managedRoles(desired),
    users,
    drop: [],
  };
  return command(work, via, what, { usersHash: systemUsersHash({ desired, state }) });
}

/** A13.4: one set; after a crash or a lost answer userAdmin itself may have the old password or the new one. */
export async function rotateUsers(work: Work, step: Extract<Step, { kind: 'rotateUsers' }>): Promise<Effect> {
  const { desired, state, credentials } = work;
  const version = oldestVersion(state, desired);
  const users = await Promise.all(
    step.users.map(async (name) => {
      const user = name as SystemUsername;
      const next =
        (await credentials.stagedLogin(state.uid, user)) ?? (await credentials.login(state.uid, user));
      return systemUser(user, version, next.password);
    }),
  );
  return commandAs(work, step.via, USER_ADMIN, (as) => ({
    kind: 'reconcileUsers',
    as,
    roles: [],
    users,
    drop: [],
  }));
}

export async function keepLogins({ credentials, state }: Work, users: readonly string[]): Promise<Effect> {
  await credentials.keep(state.uid, users);
  return { ...done({}), also: { secretPrefixesToDelete: [stagedPasswords(state.uid)] } };
}
