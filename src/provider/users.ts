/** The five system users, the roles they need and how a cluster's own users are handed to an agent (A5.2, percona operator's set). */

import type { Secret } from '../base/secret.ts';
import type { Desired, ManagedRole, ManagedUser } from '../clusters/index.ts';
import { majorOf, type SYSTEM_USERNAMES } from '../model/index.ts';

export type SystemUsername = (typeof SYSTEM_USERNAMES)[number];

/** The only user that the localhost exception allows to create, and the login that keeps all others right. */
export const USER_ADMIN: SystemUsername = 'userAdmin';

type RoleRef = { readonly role: string; readonly db: string };
const onAdmin = (...roles: readonly string[]): readonly RoleRef[] =>
  roles.map((role) => ({ role, db: 'admin' }));

/** From 8.0 on, shards refuse direct operations without this role; replica sets know it too and ignore it. */
const direct = (version: string): readonly RoleRef[] =>
  (majorOf(version) ?? 0) >= 8 ? onAdmin('directShardOperations') : [];

/** Roles of one system user in the given version. */
export function systemRoles(user: SystemUsername, version: string): readonly RoleRef[] {
  switch (user) {
    case 'userAdmin':
      return onAdmin('userAdminAnyDatabase');
    case 'clusterAdmin':
      return [...onAdmin('clusterAdmin'), ...direct(version)];
    case 'clusterMonitor':
      return [...onAdmin('explainRole', 'clusterMonitor'), { role: 'read', db: 'local' }, ...direct(version)];
    case 'backup':
      return onAdmin('readWrite', 'clusterMonitor', 'restore', 'backup', 'pbmAnyAction');
    case 'databaseAdmin':
      return onAdmin(
        'readWriteAnyDatabase',
        'readAnyDatabase',
        'restore',
        'backup',
        'dbAdminAnyDatabase',
        'clusterMonitor',
      );
  }
}

/** Roles that system users refer to; made before them. */
const SYSTEM_ROLES: readonly ManagedRole[] = [
  {
    role: 'explainRole',
    db: 'admin',
    privileges: [
      {
        resource: { db: '', collection: '' },
        actions: ['collStats', 'dbHash', 'dbStats', 'find', 'listCollections', 'listIndexes'],
      },
      {
        resource: { db: '', collection: 'system.profile' },
        actions: ['collStats', 'dbHash', 'dbStats', 'find', 'indexStats'],
      },
      {
        resource: { db: '', collection: 'system.version' },
        actions: ['collStats', 'dbHash', 'dbStats', 'find', 'listCollections', 'listIndexes'],
      },
    ],
    roles: [],
  },
  {
    role: 'pbmAnyAction',
    db: 'admin',
    privileges: [{ resource: { anyResource: true }, actions: ['anyAction'] }],
    roles: [],
  },
];

/** All roles a set must have: those of system users, then the spec's own. */
export const managedRoles = (desired: Pick<Desired, 'roles'>): readonly ManagedRole[] => [
  ...SYSTEM_ROLES,
  ...desired.roles,
];

/** One system user with its password. */
export const systemUser = (user: SystemUsername, version: string, password: Secret<string>): ManagedUser => ({
  user,
  db: 'admin',
  password,
  roles: systemRoles(user, version),
});
