/** Rows of the sealed store that belong to users: whose they are, and what goes with whom (B3.4, DEL-01). */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import type { StoredObject } from '../engine/ports.ts';
import { ManualClock } from '../engine/testing/clock.ts';
import { masterKeyFrom } from '../security/seal.ts';
import { openSecrets } from '../security/secrets.ts';
import { openMemoryStore } from '../store/memory.ts';
import { appUser, create } from './testing/rig.ts';
import { UserSecrets } from './userObjects.ts';

async function scene(change: Readonly<Record<string, unknown>> = {}) {
  const store = openMemoryStore({ clock: new ManualClock() });
  const secrets = await openSecrets(store, masterKeyFrom(randomBytes(32)));
  const user = await create(store, 'MongoDBUser', 'app', appUser(change));
  const put = (row: string, value: string) => secrets.put(`users/default/${row}`, secret(value));
  return { store, secrets, put, user, users: new UserSecrets(secrets) };
}

test('DEL-01 B3.4 what held the strings before goes only when it says that it was this user’s', async () => {
  const { put, user, users } = await scene({ connectionStringSecretName: 'new' });
  for (const name of ['mine', 'foreign', 'bare'])
    await put(`${name}/connectionString.standard`, 'mongodb://');
  await put('mine/.owner', user.metadata.uid);
  await put('foreign/.owner', 'somebody');
  expect(await users.formerRows(user, 'mine')).toEqual(['users/default/mine/']);
  expect(await users.formerRows(user, 'foreign')).toEqual([]);
  expect(await users.formerRows(user, 'bare')).toEqual([]);
  expect(await users.formerRows(user, 'new')).toEqual([]);
});

test('B3.5 a password that somebody gave stays, also in the secret that the strings are written to', async () => {
  const given = { passwordSecretKeyRef: { name: 'shared', key: 'password' } };
  const own = await scene({ ...given, connectionStringSecretName: 'strings' });
  await own.put('strings/.owner', own.user.metadata.uid);
  expect(await own.users.ownedRows(own.user)).toEqual(['users/default/strings/']);
  const both = await scene({ ...given, connectionStringSecretName: 'shared' });
  await both.put('shared/.owner', both.user.metadata.uid);
  const rows = await both.users.ownedRows(both.user);
  expect(rows).toEqual(
    ['.owner', 'username', 'connectionString.standard'].map((k) => `users/default/shared/${k}`),
  );
});

test('B3.2 a password that changes while it is read is read again', async () => {
  const { secrets, put, user } = await scene({ passwordSecretKeyRef: { name: 'shared', key: 'password' } });
  await put('shared/password', 'old');
  let meanwhile = async (): Promise<void> => {};
  const slow = Object.assign(Object.create(secrets) as typeof secrets, {
    get: async (name: string) => {
      const value = await secrets.get(name);
      await meanwhile();
      return value;
    },
    ensure: secrets.ensure.bind(secrets),
  });
  const users = new UserSecrets(slow);
  meanwhile = async () => {
    await put('shared/password', 'new');
    users.changed('users/default/shared/password');
  };
  const fingerprint = async (object: StoredObject) =>
    (await users.desired(object, false)).passwordFingerprint;
  const old = await fingerprint(user);
  meanwhile = async () => {};
  const fresh = await fingerprint(user);
  expect(fresh).not.toBe(old);
  expect(await fingerprint(user)).toBe(fresh);
  expect(users.known(user)).toBe(fresh);
});
