import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  flattenConfig,
  MANAGED_KEYS,
  managedKey,
  managedKeyProblems,
  nestConfig,
  unclearKeyProblems,
  validate,
} from './index.ts';

const nested = (dotted: string, value: unknown): unknown =>
  dotted.split('.').reduceRight((below, key) => ({ [key]: below }), value);
const set = (additionalMongodConfig: unknown) => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDB',
  metadata: { name: 'orders' },
  spec: { type: 'ReplicaSet', members: 3, additionalMongodConfig },
});

const FORMS = [
  'storage.dbPath',
  'net.port',
  'net.bindIp',
  'net.tls.mode',
  'net.tls.certificateKeyFile',
  'net.tls.CAFile',
  'net.ssl.mode',
  'net.ssl.PEMKeyFile',
  'replication.replSetName',
  'security.keyFile',
  'security.authorization',
  'security.clusterAuthMode',
  'sharding.clusterRole',
  'systemLog.path',
  'systemLog.destination',
  'processManagement.fork',
  'setParameter.enableLocalhostAuthBypass',
  'setParameter.authenticationMechanisms',
];

test.each(FORMS)('A9.5 CFG-03 %s is refused in dotted, nested and mixed form and in any case', (key) => {
  const [head = '', ...rest] = key.split('.');
  for (const config of [
    { [key]: 'x' },
    nested(key, 'x'),
    { [head]: { [rest.join('.')]: 'x' } },
    { [key.toUpperCase()]: 'x' },
    nested(key.toLowerCase(), 'x'),
  ]) {
    const [problem] = managedKeyProblems(config);
    expect(problem?.key.toLowerCase(), JSON.stringify(config)).toBe(key.toLowerCase());
    expect(problem?.message).toMatch(/^is owned by Belay; /);
    const found = validate(set(config)).problems;
    expect(found.map(({ path }) => path.toLowerCase())).toEqual([
      `spec.additionalmongodconfig.${key.toLowerCase()}`,
    ]);
  }
});

test('CFG-02 a key is either kept for rendering or refused, never lost', () => {
  const keys = fc.constantFrom(
    ...FORMS,
    'operationProfiling.mode',
    'storage.wiredTiger.engineConfig.journalCompressor',
    'net.maxIncomingConnections',
    'setParameter.transactionLifetimeLimitSeconds',
  );
  fc.assert(
    fc.property(fc.uniqueArray(keys, { maxLength: 8 }), fc.boolean(), (list, deep) => {
      const config = Object.assign(
        {},
        ...list.map((key) => (deep ? { [key.split('.')[0] ?? '']: {} } : { [key]: 1 })),
        ...list.map((key) => ({ [key]: 1 })),
      );
      const refused = managedKeyProblems(config).map(({ key }) => key);
      const rendered = new Map(flattenConfig(nestConfig(config)));
      for (const key of list) expect(refused.includes(key) !== (rendered.get(key) === 1), key).toBe(true);
    }),
    { numRuns: 100, seed: 4 },
  );
});

test('ordinary keys are accepted and put into nested form; names of parameters keep their dots', () => {
  const config = {
    'operationProfiling.mode': 'slowOp',
    net: { maxIncomingConnections: 5 },
    'net.compression.compressors': 'zstd',
    setParameter: { 'a.b': 1 },
  };
  expect(managedKeyProblems(config)).toEqual([]);
  expect(nestConfig(config)).toEqual({
    operationProfiling: { mode: 'slowOp' },
    net: { maxIncomingConnections: 5, compression: { compressors: 'zstd' } },
    setParameter: { 'a.b': 1 },
  });
});

test('a section may not be replaced as a whole', () => {
  expect(managedKeyProblems({ net: 5 })[0]?.message).toMatch(/is a section/);
  expect(managedKeyProblems({ net: {} })).toEqual([]);
});

test('the message says what to set instead, and never repeats the value', () => {
  expect(managedKey('net.tls.mode')?.instead).toBe('set spec.security.tls.mode');
  const found = managedKeyProblems({ 'net.tls.certificateKeyFilePassword': 'canary-9' });
  expect(JSON.stringify(found)).not.toContain('canary-9');
  for (const { prefix } of MANAGED_KEYS) expect(prefix).toBe(prefix.toLowerCase());
});

test('keys such as __proto__ do no harm', () => {
  const config = JSON.parse('{"__proto__": {"polluted": 1}, "a.__proto__.polluted": 1}');
  nestConfig(config);
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
});

test('CFG-02 one setting in two spellings is refused, since one of them would be dropped', () => {
  const refused = (config: unknown) => unclearKeyProblems(config).map(({ key }) => key);
  const twice = { 'net.maxIncomingConnections': -5, net: { maxIncomingConnections: 100 } };
  expect(refused(twice)).toEqual(['net.maxIncomingConnections']);
  expect(refused({ setparameter: { 'a.b': 1 }, 'setParameter.a.b': 2 })).toEqual(['setParameter.a.b']);
  expect(refused({ 'a.b': 1, 'a.b.c': 2 })).toEqual(['a.b.c']);
  expect(
    refused({ setParameter: { a: 1, 'a.b': 2 }, net: {}, 'net.compression.compressors': 'zstd' }),
  ).toEqual([]);
  expect(nestConfig({ 'net.compression.compressors': 'zstd', net: {} })).toEqual({
    net: { compression: { compressors: 'zstd' } },
  });
  expect(validate(set(twice)).problems).toEqual([
    {
      path: 'spec.additionalMongodConfig.net.maxIncomingConnections',
      message: 'is given more than once, dotted and nested, and only one would count; keep one of them',
    },
  ]);
});

test('CFG-02 B1.3 so it is in documents of the mongodb.com operator', () => {
  const additionalMongodConfig = { 'net.maxIncomingConnections': -5, net: { maxIncomingConnections: 100 } };
  const document = {
    apiVersion: 'mongodb.com/v1',
    kind: 'MongoDB',
    metadata: { name: 'orders' },
    spec: { type: 'ReplicaSet', version: '8.0.0', members: 3, credentials: 'c', additionalMongodConfig },
  };
  expect(validate(document).problems.map(({ path }) => path)).toEqual([
    'spec.additionalMongodConfig.net.maxIncomingConnections',
  ]);
});

test('CFG-02 a key with nothing between its dots names no setting', () => {
  const config = { '': 1, 'a..b': 2, net: { '': 3 }, '.c': {}, setParameter: { '': 4 } };
  expect(unclearKeyProblems(config).map(({ key }) => key)).toEqual([
    '',
    'a..b',
    'net.',
    '.c',
    'setParameter.',
  ]);
  expect(validate(set({ '': 1, 'a..b': 2 })).problems.map(({ path }) => path)).toEqual([
    'spec.additionalMongodConfig',
    'spec.additionalMongodConfig.a..b',
  ]);
});
