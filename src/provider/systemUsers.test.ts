import { expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import { SYSTEM_USERNAMES } from '../model/index.ts';
import { managedRoles, type SystemUsername, systemRoles, systemUser } from './users.ts';

const roles = (user: SystemUsername, version = '8.0.32-14'): string =>
  systemRoles(user, version)
    .map(({ role, db }) => `${role}@${db}`)
    .sort()
    .join(' ');

test('A5.2 the five system users have the roles that Percona’s operator gives them, no more and no fewer', () => {
  expect(Object.fromEntries(SYSTEM_USERNAMES.map((user) => [user, roles(user)]))).toEqual({
    userAdmin: 'userAdminAnyDatabase@admin',
    clusterAdmin: 'clusterAdmin@admin directShardOperations@admin',
    clusterMonitor: 'clusterMonitor@admin directShardOperations@admin explainRole@admin read@local',
    backup: 'backup@admin clusterMonitor@admin pbmAnyAction@admin readWrite@admin restore@admin',
    databaseAdmin:
      'backup@admin clusterMonitor@admin dbAdminAnyDatabase@admin readAnyDatabase@admin readWriteAnyDatabase@admin restore@admin',
  });
});

test('A5.2 before 8.0 there is no directShardOperations to give', () => {
  for (const version of ['7.0.43-23', '6.0.29-23'])
    for (const user of SYSTEM_USERNAMES)
      expect(roles(user, version), `${user} ${version}`).not.toContain('directShardOperations');
});

test('A5.2 roles that system users refer to are made before the spec’s own', () => {
  const own = { role: 'auditor', db: 'admin', privileges: [], roles: [], authenticationRestrictions: [] };
  expect(managedRoles({ roles: [own] }).map((r) => r.role)).toEqual([
    'explainRole',
    'pbmAnyAction',
    'auditor',
  ]);
  expect(managedRoles({ roles: [] })[1]?.privileges).toEqual([
    { resource: { anyResource: true }, actions: ['anyAction'] },
  ]);
});

test('S8 a system user prints no password', () => {
  const user = systemUser('backup', '8.0.32-14', secret('canary'));
  expect([user.user, user.db, JSON.stringify(user).includes('canary')]).toEqual(['backup', 'admin', false]);
});
