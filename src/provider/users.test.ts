import { expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import { MINUTE, SECOND } from '../base/units.ts';
import type { StoredObject } from '../engine/ports.ts';
import {
  admitted,
  appUser,
  clusterKey,
  create,
  makeRig,
  replicaSet,
  statusOf,
  userKey,
} from './testing/rig.ts';

interface UserStatus {
  readonly phase: string;
  readonly message: string;
  readonly username?: string;
  readonly connectionStringSecretName?: string;
  readonly conditions: readonly { readonly type: string; readonly status: string; readonly reason: string }[];
}

async function ready() {
  const rig = makeRig();
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(5 * SECOND);
  const status = async (name: string): Promise<UserStatus | null> =>
    ((await rig.store.get(userKey(name))) as StoredObject<unknown, UserStatus> | null)?.status ?? null;
  const reason = async (name: string): Promise<string | undefined> =>
    (await status(name))?.conditions[0]?.reason;
  return { ...rig, control, status, reason };
}

test('B3.2 B3.3 URI-02 URI-04 a user is created, confirmed by its own login, and gets its connection string', async () => {
  const { clock, store, fleet, control, status } = await ready();
  await create(
    store,
    'MongoDBUser',
    'app',
    appUser({ username: 'a@b/c %', connectionStringSecretName: 'app-uri' }),
  );
  await clock.advance(1 * SECOND);
  expect(fleet.users('orders-0')).toContain('admin.a@b/c %');
  expect(await status('app')).toMatchObject({
    phase: 'Ready',
    username: 'a@b/c %',
    connectionStringSecretName: 'app-uri',
  });
  const text = async (key: string) =>
    (await control.secrets.get(`users/default/app-uri/${key}`))?.reveal() ?? '';
  const uri = new URL(
    (await text('connectionString.standard')).replace('mongodb:', 'http:').replace(/,[^/]*/, ''),
  );
  expect(decodeURIComponent(uri.username)).toBe('a@b/c %');
  expect(decodeURIComponent(uri.password)).toBe(await text('password'));
  expect(uri.searchParams.get('authSource')).toBe('admin');
  expect(await text('username')).toBe('a@b/c %');
  expect(fleet.done.slice(-2)).toEqual(['reconcileUsers orders-0', 'verifyLogin orders-0']);
  await control.close();
});

test('URI-04 B3.3 a user whose own login does not work yet gets no connection string, says so, and is tried again', async () => {
  const { clock, store, fleet, control, status, reason } = await ready();
  const refusal = {
    kind: 'refused',
    code: 18,
    codeName: 'AuthenticationFailed',
    message: 'Authentication failed.',
    class: 'credentials',
  } as const;
  fleet.hooks = { refuse: (command) => (command.kind === 'verifyLogin' ? refusal : null) };
  await create(store, 'MongoDBUser', 'app', appUser({ connectionStringSecretName: 'app-uri' }));
  await clock.advance(1 * SECOND);
  expect([(await status('app'))?.phase, await reason('app')]).toEqual(['Pending', 'LoginNotConfirmed']);
  expect(await control.secrets.get('users/default/app-uri/connectionString.standard')).toBeNull();
  expect((await statusOf(store, 'orders'))?.phase).not.toBe('Failed');
  fleet.hooks = {};
  await clock.advance(5 * SECOND);
  expect(await reason('app')).toBe('Applied');
  expect(await control.secrets.get('users/default/app-uri/connectionString.standard')).not.toBeNull();
  await control.close();
});

test('USR-11 user, cluster and password may come in any order; each says what it waits for', async () => {
  const rig = makeRig();
  const control = await rig.start('one');
  const spec = appUser({ passwordSecretKeyRef: { name: 'app-password' } });
  await create(rig.store, 'MongoDBUser', 'app', spec);
  await rig.clock.advance(1 * SECOND);
  const reason = async () =>
    ((await rig.store.get(userKey('app')))?.status as UserStatus | null)?.conditions[0]?.reason;
  expect(await reason()).toBe('ClusterNotFound');
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await rig.clock.advance(5 * SECOND);
  expect(await reason()).toBe('UserPasswordMissing');
  await control.secrets.put('users/default/app-password/password', secret('s3cret'));
  control.provider.secretChanged('users/default/app-password/password');
  await rig.clock.advance(0);
  await rig.clock.advance(0);
  expect(await reason()).toBe('Applied');
  await control.close();
});

test('B3.2 a changed password is applied at once, a repeated one changes nothing', async () => {
  const { clock, store, fleet, control, reason } = await ready();
  const name = 'users/default/app-password/password';
  await control.secrets.put(name, secret('first'));
  await create(store, 'MongoDBUser', 'app', appUser({ passwordSecretKeyRef: { name: 'app-password' } }));
  await clock.advance(1 * SECOND);
  const password = (): string | null | undefined => {
    let found: string | null | undefined;
    fleet.meddle('orders-0', (users) => {
      found = users.get('admin.app')?.password;
    });
    return found;
  };
  expect(password()).toBe('first');
  await control.secrets.put(name, secret('second'));
  control.provider.secretChanged(name);
  await clock.advance(1 * SECOND);
  expect(password()).toBe('second');
  expect(await reason('app')).toBe('Applied');
  const before = fleet.done.length;
  await control.secrets.put(name, secret('second'));
  control.provider.secretChanged(name);
  await clock.advance(MINUTE);
  expect(fleet.done).toHaveLength(before);
  await control.close();
});

test('USR-10 a renamed user: the new name first, then the old one goes; the document tells the applied name', async () => {
  const { clock, store, fleet, control, status } = await ready();
  await create(store, 'MongoDBUser', 'app', appUser());
  await clock.advance(1 * SECOND);
  let drops = 2;
  const seen: string[][] = [];
  fleet.hooks = {
    refuse: (command) => {
      seen.push([...fleet.users('orders-0')]);
      return command.kind === 'reconcileUsers' && command.drop.length > 0 && drops-- > 0
        ? {
            kind: 'refused',
            code: 91,
            codeName: 'ShutdownInProgress',
            message: 'going down',
            class: 'transient',
          }
        : null;
    },
  };
  await store.update(userKey('app'), { spec: admitted('MongoDBUser', 'app', appUser({ username: 'app2' })) });
  await clock.advance(20 * SECOND);
  expect(fleet.users('orders-0')).toContain('admin.app2');
  expect(fleet.users('orders-0')).not.toContain('admin.app');
  expect(seen.every((users) => users.includes('admin.app') || users.includes('admin.app2'))).toBe(true);
  expect(await status('app')).toMatchObject({ phase: 'Ready', username: 'app2' });
  await control.close();
});

test('B3.5 USR-08 deletion drops the user, its connection strings and then the document; others stay', async () => {
  const { clock, store, fleet, control } = await ready();
  fleet.meddle('orders-0', (users) => users.set('admin.byHand', { password: 'x', roles: [] }));
  await create(store, 'MongoDBUser', 'app', appUser());
  await create(store, 'MongoDBUser', 'report', appUser({ username: 'report' }));
  await clock.advance(1 * SECOND);
  await store.update(userKey('app'), { delete: true });
  await clock.advance(1 * SECOND);
  expect(await store.get(userKey('app'))).toBeNull();
  const users = fleet.users('orders-0');
  expect(users).not.toContain('admin.app');
  expect(users).toContain('admin.byHand');
  expect(users).toContain('admin.report');
  expect(await control.secrets.list('users/default/orders-app-admin/')).toEqual([]);
  expect(await control.secrets.list('users/default/orders-report-admin/')).not.toEqual([]);
  await control.close();
});

test('B3.2 B3.5 a password somebody gave stays when its user goes; what Belay wrote goes', async () => {
  const { clock, store, control } = await ready();
  const name = 'users/default/app-password/password';
  await control.secrets.put(name, secret('given'));
  await create(store, 'MongoDBUser', 'app', appUser({ passwordSecretKeyRef: { name: 'app-password' } }));
  await clock.advance(1 * SECOND);
  expect(await control.secrets.list('users/default/orders-app-admin/')).not.toEqual([]);
  await store.update(userKey('app'), { delete: true });
  await clock.advance(1 * SECOND);
  expect(await store.get(userKey('app'))).toBeNull();
  expect(await control.secrets.list('users/')).toEqual([name]);
  expect((await control.secrets.get(name))?.reveal()).toBe('given');
  await control.close();
});

test('B3.5 S15 without a primary a changed user is not called applied, and a deleted one does not go', async () => {
  const { clock, store, fleet, control, status, reason } = await ready();
  await create(store, 'MongoDBUser', 'app', appUser());
  await create(store, 'MongoDBUser', 'report', appUser({ username: 'report' }));
  await clock.advance(1 * SECOND);
  expect([await reason('app'), await reason('report')]).toEqual(['Applied', 'Applied']);
  for (const member of ['orders-1', 'orders-2']) fleet.power(member, false);
  const roles = [{ name: 'read', db: 'shop' }];
  await store.update(userKey('report'), {
    spec: admitted('MongoDBUser', 'report', appUser({ username: 'report', roles })),
  });
  await store.update(userKey('app'), { delete: true });
  await clock.advance(1 * SECOND);
  expect((await status('report'))?.phase).toBe('Pending');
  expect((await status('app'))?.phase).toBe('Deleting');
  expect(fleet.users('orders-0')).toContain('admin.app');
  for (const member of ['orders-1', 'orders-2']) fleet.power(member, true);
  await clock.advance(10 * SECOND);
  expect(await store.get(userKey('app'))).toBeNull();
  expect(fleet.users('orders-0')).not.toContain('admin.app');
  expect(await reason('report')).toBe('Applied');
  await control.close();
});

test('B3.5 two documents do not fight over one name: the older has it, the younger says so', async () => {
  const { clock, store, fleet, control, status, reason } = await ready();
  await create(store, 'MongoDBUser', 'first', appUser());
  await clock.advance(1 * SECOND);
  await create(store, 'MongoDBUser', 'second', appUser({ roles: [{ name: 'root', db: 'admin' }] }));
  await clock.advance(1 * SECOND);
  expect(await reason('second')).toBe('NameTaken');
  expect((await status('second'))?.message).toContain('default/first');
  const before = fleet.done.length;
  await clock.advance(MINUTE);
  expect(fleet.done).toHaveLength(before);
  await store.update(userKey('first'), { delete: true });
  await clock.advance(2 * SECOND);
  expect(await store.get(userKey('first'))).toBeNull();
  expect(await reason('second')).toBe('Applied');
  expect(fleet.users('orders-0')).toContain('admin.app');
  await control.close();
});

test('B3.1 B3.5 users of one name in two databases are two users', async () => {
  const rig = makeRig();
  const control = await rig.start('one');
  await create(rig.store, 'MongoDB', 'orders', replicaSet());
  await create(rig.store, 'MongoDBUser', 'here', appUser({ db: 'admin' }));
  await create(rig.store, 'MongoDBUser', 'there', appUser({ db: 'shop' }));
  await rig.clock.advance(30 * SECOND);
  expect(rig.fleet.users('orders-0')).toEqual(expect.arrayContaining(['admin.app', 'shop.app']));
  await control.close();
});

test('B3.5 A5.2 a document that got past admission under the name of a system user is refused all the same', async () => {
  const { clock, store, fleet, control, reason } = await ready();
  const before = fleet.done.length;
  const spec = { ...(admitted('MongoDBUser', 'thief', appUser()) as object), username: 'clusterAdmin' };
  await store.create({ kind: 'MongoDBUser', namespace: 'default', name: 'thief', spec });
  await clock.advance(MINUTE);
  expect(await reason('thief')).toBe('ReservedName');
  expect(fleet.done).toHaveLength(before);
  await control.close();
});

test("B3.4 a secret of that name that is somebody else's is not overwritten", async () => {
  const { clock, store, control, reason } = await ready();
  await control.secrets.put('users/default/mine/connectionString.standard', secret('hands off'));
  await create(store, 'MongoDBUser', 'app', appUser({ connectionStringSecretName: 'mine' }));
  await clock.advance(1 * SECOND);
  expect(await reason('app')).toBe('SecretNotOurs');
  const kept = await control.secrets.get('users/default/mine/connectionString.standard');
  expect(kept?.reveal()).toBe('hands off');
  await control.close();
});

test("B3.5 a vanished MongoDB holds up no user's deletion, and users of a deleted cluster wait for a new one", async () => {
  const { clock, store, fleet, control, reason } = await ready();
  await create(store, 'MongoDBUser', 'app', appUser());
  await create(store, 'MongoDBUser', 'gone', appUser({ username: 'gone' }));
  await clock.advance(1 * SECOND);
  await store.update(clusterKey('orders'), { delete: true });
  await clock.advance(10 * SECOND);
  expect(await store.get(clusterKey('orders'))).toBeNull();
  expect(await reason('app')).toBe('ClusterNotFound');
  const rows = async () => (await control.secrets.list('users/default/')).map((row) => row.split('/')[2]);
  expect(new Set(await rows())).toEqual(new Set(['orders-app-admin', 'orders-gone-admin']));
  await store.update(userKey('gone'), { delete: true });
  await clock.advance(1 * SECOND);
  expect(await store.get(userKey('gone'))).toBeNull();
  expect(new Set(await rows())).toEqual(new Set(['orders-app-admin']));
  await create(store, 'MongoDB', 'orders', replicaSet());
  await clock.advance(10 * SECOND);
  expect((await statusOf(store, 'orders'))?.phase).toBe('Ready');
  expect(await reason('app')).toBe('Applied');
  expect(fleet.users('orders-0')).toContain('admin.app');
  await control.close();
});

test("S8 a user's password is in no row, event or status in the open", async () => {
  const { clock, store, control } = await ready();
  const password = 'canary-0d1f7e5b';
  await control.secrets.put('users/default/app-password/password', secret(password));
  const user = await create(
    store,
    'MongoDBUser',
    'app',
    appUser({ passwordSecretKeyRef: { name: 'app-password' } }),
  );
  await clock.advance(1 * SECOND);
  const cluster = await store.get(clusterKey('orders'));
  const uid = cluster?.metadata.uid ?? '';
  const rows = JSON.stringify([
    cluster,
    await store.get(userKey('app')),
    await store.loadState(uid),
    await store.journal({ clusterUid: uid, limit: 1000 }),
    await store.events({ limit: 1000 }),
    (await store.listSealed('')).map((row) => Buffer.from(row.sealed).toString('latin1')),
  ]);
  expect(rows).toContain(user.metadata.uid);
  expect(rows).not.toContain(password);
  await control.close();
});
