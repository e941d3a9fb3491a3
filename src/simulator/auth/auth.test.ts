import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Privilege } from '../contracts.ts';
import { builtinGrants } from './builtin-roles.ts';
import { covers } from './grants.ts';
import { assertRestrictions, meetsRestrictions } from './restrictions.ts';
import { makeCredentials, preparePassword, ScramConversation, type ScramMechanism } from './scram.ts';
import { isMemberSubject, parseSubject } from './subject.ts';

/** The client's half of the conversation, written from the RFC. */
function clientProof(
  mechanism: ScramMechanism,
  prepared: string,
  serverFirst: string,
  bare: string,
): { message: string; verify: string } {
  const digest = mechanism === 'SCRAM-SHA-1' ? 'sha1' : 'sha256';
  const [, nonce, salt, iterations] = /^r=([^,]*),s=([^,]*),i=(\d+)$/.exec(serverFirst)!;
  const salted = pbkdf2Sync(
    prepared,
    Buffer.from(salt!, 'base64'),
    Number(iterations),
    digest === 'sha1' ? 20 : 32,
    digest,
  );
  const hmac = (key: Buffer, text: string): Buffer => createHmac(digest, key).update(text).digest();
  const clientKey = hmac(salted, 'Client Key');
  const withoutProof = `c=biws,r=${nonce}`;
  const authMessage = `${bare},${serverFirst},${withoutProof}`;
  const signature = hmac(createHash(digest).update(clientKey).digest(), authMessage);
  const proof = Buffer.from(clientKey.map((byte, index) => byte ^ signature[index]!)).toString('base64');
  return {
    message: `${withoutProof},p=${proof}`,
    verify: `v=${hmac(hmac(salted, 'Server Key'), authMessage).toString('base64')}`,
  };
}

const mechanisms = fc.constantFrom<ScramMechanism>('SCRAM-SHA-1', 'SCRAM-SHA-256');

test('SCRAM proves the right password and no other', async () => {
  const password = fc.stringMatching(/^[ -~]{1,20}$/);
  await fc.assert(
    fc.asyncProperty(mechanisms, password, password, async (mechanism, right, tried) => {
      const credentials = makeCredentials(mechanism, await preparePassword(mechanism, 'u', right), 1000);
      const conversation = ScramConversation.start(mechanism, Buffer.from('n,,n=u,r=abc'), [credentials])!;
      const { message, verify } = clientProof(
        mechanism,
        await preparePassword(mechanism, 'u', tried),
        conversation.firstReply,
        'n=u,r=abc',
      );
      expect(conversation.finish(Buffer.from(message))).toBe(right === tried ? verify : undefined);
    }),
    {
      numRuns: 20,
      examples: [
        ['SCRAM-SHA-256', 'same', 'same'],
        ['SCRAM-SHA-1', 'same', 'same'],
      ],
    },
  );
});

test('SCRAM-SHA-256 compares passwords after SASLprep', async () => {
  expect(await preparePassword('SCRAM-SHA-256', 'u', 'I\u00adX')).toBe('IX');
  expect(await preparePassword('SCRAM-SHA-256', 'u', '\u2168')).toBe('IX');
  await expect(preparePassword('SCRAM-SHA-256', 'u', 'bad\u0007\u00e9')).rejects.toThrow();
});

test('user names may hold the characters SCRAM gives a meaning', () => {
  const credentials = makeCredentials('SCRAM-SHA-256', 'x', 1000);
  expect(
    ScramConversation.start('SCRAM-SHA-256', Buffer.from('n,,n=a=2Cb=3Dc,r=1'), [credentials])?.user,
  ).toBe('a,b=c');
  for (const bad of ['n,,n=a=2Db,r=1', 'p=tls-unique,,n=a,r=1', 'n,,n=a', '']) {
    expect(ScramConversation.start('SCRAM-SHA-256', Buffer.from(bad), [credentials])).toBeUndefined();
  }
});

const needs = (db: string, collection: string, ...actions: string[]): Privilege => ({
  resource: { db, collection },
  actions,
});
const cluster = (...actions: string[]): Privilege => ({ resource: { cluster: true }, actions });

test.each([
  ['read', 'app', needs('app', 'c', 'find'), true],
  ['read', 'app', needs('app', 'c', 'insert'), false],
  ['read', 'app', needs('other', 'c', 'find'), false],
  ['read', 'app', needs('app', 'system.users', 'find'), false],
  ['readWrite', 'app', needs('app', 'c', 'insert', 'update', 'remove'), true],
  ['readWrite', 'app', needs('app', 'c', 'collMod'), false],
  ['readAnyDatabase', 'admin', needs('anything', 'c', 'find'), true],
  ['readAnyDatabase', 'admin', needs('config', 'c', 'find'), false],
  ['readAnyDatabase', 'admin', needs('local', 'oplog.rs', 'find'), false],
  ['userAdminAnyDatabase', 'admin', needs('app', '', 'createUser', 'grantRole'), true],
  ['userAdminAnyDatabase', 'admin', cluster('replSetGetStatus'), false],
  [
    'clusterAdmin',
    'admin',
    cluster(
      'replSetConfigure',
      'replSetStateChange',
      'shutdown',
      'setParameter',
      'getCmdLineOpts',
      'addShard',
      'removeShard',
      'listShards',
      'setFeatureCompatibilityVersion',
      'setDefaultRWConcern',
      'rotateCertificates',
      'fsync',
    ),
    true,
  ],
  ['clusterAdmin', 'admin', needs('app', '', 'dropDatabase'), true],
  ['clusterAdmin', 'admin', needs('app', 'c', 'find'), false],
  [
    'clusterMonitor',
    'admin',
    cluster(
      'serverStatus',
      'replSetGetStatus',
      'replSetGetConfig',
      'getParameter',
      'getLog',
      'hostInfo',
      'listDatabases',
      'listShards',
      'top',
      'inprog',
    ),
    true,
  ],
  ['clusterMonitor', 'admin', cluster('setParameter'), false],
  ['clusterMonitor', 'admin', needs('config', 'shards', 'find'), true],
  ['backup', 'admin', needs('local', 'oplog.rs', 'find'), true],
  ['restore', 'admin', needs('admin', 'system.users', 'insert', 'remove'), true],
  ['root', 'admin', needs('app', 'c', 'find', 'insert', 'dropCollection'), true],
  ['root', 'admin', cluster('replSetConfigure'), true],
  ['root', 'admin', { resource: { anyResource: true }, actions: ['anyAction'] } as Privilege, false],
  ['__system', 'admin', { resource: { anyResource: true }, actions: ['anyAction'] } as Privilege, true],
])('%s@%s allows %j: %s', (role, db, needed, allowed) => {
  expect(covers(builtinGrants(role, db)!, [needed])).toBe(allowed);
});

test('roles of the admin database do not exist elsewhere', () => {
  expect(builtinGrants('root', 'app')).toBeUndefined();
  expect(builtinGrants('toString', 'admin')).toBeUndefined();
});

test('a member is known by O, OU and DC, in any order', () => {
  const own = 'CN=a,OU=members,O=Belay';
  expect(isMemberSubject('CN=b,O=Belay,OU=members', own)).toBe(true);
  expect(isMemberSubject('CN=b,O=Belay', own)).toBe(false);
  expect(isMemberSubject('CN=b,OU=members,OU=more,O=Belay', own)).toBe(false);
  expect(isMemberSubject('CN=b', 'CN=a')).toBe(false);
  expect(parseSubject('CN=a\\,b,O=c')).toEqual([
    { type: 'CN', value: 'a,b' },
    { type: 'O', value: 'c' },
  ]);
});

test('logins can be limited to addresses', () => {
  const limits = assertRestrictions([
    { clientSource: ['10.0.0.0/8', '::1'] },
    { serverAddress: ['192.168.1.1'] },
  ]);
  expect(meetsRestrictions([limits], '10.2.3.4', '127.0.0.1')).toBe(true);
  expect(meetsRestrictions([limits], '11.2.3.4', '127.0.0.1')).toBe(false);
  expect(meetsRestrictions([limits], '11.2.3.4', '192.168.1.1')).toBe(true);
  expect(
    meetsRestrictions([limits, assertRestrictions([{ clientSource: '11.0.0.0/8' }])], '10.2.3.4', ''),
  ).toBe(false);
  expect(() => assertRestrictions([{ clientSource: ['10.0.0.0/99'] }])).toThrow(/Invalid IP/);
});
