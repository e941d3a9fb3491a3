/** Reports about what a document may say: settled at admission, by the same checks as the API's. */
import { expect, test } from 'vitest';
import { GIB } from '../../base/units.ts';
import { type MongoDBSpec, validate } from '../../model/index.ts';
import { desiredFrom, unsupportedFeatures } from '../desired.ts';
import { desired, placed } from '../fixtures.ts';
import { cacheGb, snapshotInputs } from '../snapshotInputs.ts';

const document = (spec: Readonly<Record<string, unknown>>) => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDB',
  metadata: { name: 'orders' },
  spec: { type: 'ReplicaSet', version: '8.0.32-14', members: 3, ...spec },
});
const problems = (spec: Readonly<Record<string, unknown>>): readonly string[] =>
  validate(document(spec)).problems.map((p) => `${p.path} ${p.message}`);
const admitted = (spec: Readonly<Record<string, unknown>>): MongoDBSpec => {
  const { object, problems: found } = validate(document(spec));
  if (object === undefined) throw new Error(JSON.stringify(found));
  return object.spec as MongoDBSpec;
};

test('SCL-07 A6.1 eight voters are refused with the reason, more members without a vote are not; fifty is the end', () => {
  expect(problems({ members: 8 })[0]).toContain('a replica set has 1, 3, 5 or 7 voting members');
  const silent = { votes: 0 };
  const two = Array.from({ length: 9 }, (_, i) => (i < 7 ? {} : silent));
  expect(problems({ members: 9, memberConfig: two })).toEqual([]);
  const many = Array.from({ length: 51 }, (_, i) => (i < 7 ? {} : silent));
  expect(problems({ members: 51, memberConfig: many })[0]).toContain('50');
});

test('QRM-01 A6.1 4 → 2 cannot be asked for: the even counts are refused', () => {
  for (const members of [2, 4]) expect(problems({ members })[0]).toContain(`${members} is not allowed`);
});

test('SCL-10 STO-01 arbiters are refused with the reason, so none can be left behind', () => {
  expect(problems({ arbiters: 1 })[0]).toContain('arbiters are not supported');
  expect(problems({ memberConfig: [{ arbiterOnly: true }] })[0]).toContain('arbiters are not supported');
});

test('CFG-01 zero and absent differ from the document to the set’s configuration', () => {
  const of = (memberConfig: readonly unknown[]) =>
    desiredFrom({
      metadata: { uid: 'u', namespace: 'default', name: 'orders', generation: 1, deletionTimestamp: null },
      spec: admitted({ members: 5, memberConfig }),
    }).members;
  const zero = { votes: 0, priority: 0, hidden: true, secondaryDelaySecs: 0 };
  const silent = [{}, { priority: 0 }, { priority: 2 }, zero, { votes: 0 }];
  expect(of(silent).map((m) => [m.votes, m.priority, m.secondaryDelaySecs])).toEqual([
    [1, 1, 0],
    [1, 0, 0],
    [1, 2, 0],
    [0, 0, 0],
    [0, 0, 0],
  ]);
});

test('CFG-02 CFG-03 TLS and paths in the user’s configuration are refused in every spelling, never dropped', () => {
  const forms: readonly Readonly<Record<string, unknown>>[] = [
    { 'net.tls.mode': 'requireTLS' },
    { net: { tls: { mode: 'requireTLS' } } },
    { 'net.ssl.mode': 'requireSSL' },
    { net: { ssl: { mode: 'requireSSL' } } },
    { Net: { TLS: { mode: 'requireTLS' } } },
    { 'storage.dbPath': '/data/db' },
    { storage: { dbPath: '/data/db' } },
    { 'STORAGE.DBPATH': '/data/db' },
    { 'net.port': 1 },
    { 'net.bindIp': '0.0.0.0' },
    { 'replication.replSetName': 'x' },
    { 'security.keyFile': '/k' },
    { 'sharding.clusterRole': 'shardsvr' },
    { 'systemLog.path': '/l' },
  ];
  for (const additionalMongodConfig of forms) {
    const found = problems({ additionalMongodConfig });
    expect(found, JSON.stringify(additionalMongodConfig)).toHaveLength(1);
    expect(found[0]).toMatch(/^spec\.additionalMongodConfig\./);
  }
});

test('RES-02 A9.6 every version is told its cache explicitly, whatever the machine has', () => {
  for (const version of ['6.0.29-23', '7.0.43-23', '8.0.32-14']) {
    const want = desired({ version, memoryBytes: 16 * GIB });
    const state = placed(want);
    expect(snapshotInputs(state, want, state.members[0]!, 1).cacheGb).toBe(7.75);
  }
  expect(cacheGb({ memoryBytes: null })).toBe(0.25);
});

test('UPG-01 the compatibility version of a new cluster is "X.Y" of its binary; anything else is refused', () => {
  const refused: readonly unknown[] = ['4.2.4', '9.9', '6.0', '7.0', '8', 8, 8.0, ''];
  for (const featureCompatibilityVersion of refused)
    expect(problems({ featureCompatibilityVersion })[0], String(featureCompatibilityVersion)).toContain(
      'spec.featureCompatibilityVersion',
    );
  expect(problems({ featureCompatibilityVersion: '8.0' })).toEqual([]);
});

test('A4.9 what this version cannot carry out is refused, so that it cannot go wrong half-way: backups', () => {
  const refused = (spec: unknown) => unsupportedFeatures(spec as MongoDBSpec).map((p) => p.path);
  const spec = admitted({});
  expect(refused(spec)).toEqual([]);
  expect(refused({ ...spec, backup: { enabled: true } })).toEqual(['spec.backup']);
});
