import { expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import { type Desired, desiredFrom, initialState, type State } from '../clusters/index.ts';
import type { MongoDBSpec } from '../model/index.ts';
import { encodeUserInfo, userConnectionString } from './connection.ts';
import { admitted, replicaSet } from './testing/rig.ts';

const spec = admitted('MongoDB', 'orders', replicaSet({ members: 1 })) as MongoDBSpec;
const metadata = {
  uid: 'u',
  namespace: 'default',
  name: 'orders',
  generation: 1,
  deletionTimestamp: null,
};
const desired: Desired = desiredFrom({ metadata, spec });
function at(address: string): State {
  const state = initialState(desired);
  return { ...state, members: state.members.map((m) => ({ ...m, address, port: 27017 })) };
}
const uri = (username: string, password: string | null, db: string, address = 'db1'): string =>
  userConnectionString(at(address), desired, {
    username,
    db,
    password: password === null ? null : secret(password),
  })?.reveal() ?? '';

test('URI-02 CRD-03 whatever a name or password holds comes back out of the string, encoded once', () => {
  for (const text of ['p@ss:w/rd?', '100% +&#', "it's (a) *!*", 'ü€😀', 'a%20b', '[x]', '\\"']) {
    const found = /^mongodb:\/\/([^:@/]+):([^:@/]+)@db1:27017\//.exec(uri(text, text, 'admin'));
    expect(
      [found?.[1], found?.[2]].map((part) => decodeURIComponent(part ?? '')),
      text,
    ).toEqual([text, text]);
    expect(found?.[2]).toMatch(/^[A-Za-z0-9._~%-]+$/);
  }
  expect(encodeUserInfo(' ')).toBe('%20');
});

test('B3.1 URI-02 the login happens in the database the user lives in', () => {
  const source = (db: string): string | null =>
    new URL(uri('app', 'x', db).replace('mongodb:', 'http:')).searchParams.get('authSource');
  expect([source('admin'), source('shop'), source('a&b=c')]).toEqual(['admin', 'shop', 'a&b=c']);
});

test('a user kept outside logs in by certificate and needs no password', () => {
  expect(uri('CN=app,O=acme', null, '$external')).toBe(
    'mongodb://CN%3Dapp%2CO%3Dacme@db1:27017/?replicaSet=orders&tls=true&authSource=%24external&authMechanism=MONGODB-X509',
  );
});

test('an IPv6 address keeps its brackets behind the login', () => {
  expect(uri('app', 'x', 'admin', 'fd00::1')).toContain('mongodb://app:x@[fd00::1]:27017/?');
});

test('S8 the string is a secret until somebody reveals it', () => {
  const text = userConnectionString(at('db1'), desired, {
    username: 'app',
    db: 'admin',
    password: secret('canary'),
  });
  expect(`${text} ${JSON.stringify({ text })}`).not.toContain('canary');
});
