import { expect, test } from 'vitest';
import type { Connection, Privilege, ServerNode } from '../contracts.ts';
import { AccessControl } from './access.ts';
import type { Accounts } from './accounts.ts';

const createUser: Privilege = { resource: { db: 'admin', collection: '' }, actions: ['createUser'] };
const initiate: Privilege = { resource: { cluster: true }, actions: ['replSetConfigure'] };
const read: Privilege = { resource: { db: 'shop', collection: 'c' }, actions: ['find'] };

function control(users: boolean, localhostException = true): AccessControl {
  const accounts = { hasAny: () => users, ofUser: () => ({ grants: [], restrictions: [] }) };
  return new AccessControl({} as ServerNode, accounts as unknown as Accounts, {
    enabled: true,
    localhostException,
  });
}
const connection = (loopback: boolean, users: readonly { user: string; db: string }[] = []): Connection =>
  ({ loopback, users }) as unknown as Connection;

test('the localhost exception: from this machine, without a login, until there is a user; enough to begin, no more', () => {
  const open = control(false);
  expect([createUser, initiate, read].map((p) => open.allows(connection(true), [p]))).toEqual([
    true,
    true,
    false,
  ]);
  for (const [access, from] of [
    [control(true), connection(true)],
    [open, connection(false)],
    [control(false, false), connection(true)],
    [open, connection(true, [{ user: 'app', db: 'shop' }])],
  ] as const)
    expect([createUser, initiate, read].map((p) => access.allows(from, [p]))).toEqual([false, false, false]);
});

test('members may do everything, by key or by certificate; a user of that name elsewhere may not', () => {
  const access = control(true);
  const as = (db: string): boolean => access.allows(connection(false, [{ user: '__system', db }]), [read]);
  expect([as('local'), as('$external'), as('admin')]).toEqual([true, true, false]);
});
