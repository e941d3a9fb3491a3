import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { elementFields } from './explain.ts';
import {
  advertisedHostProblem,
  documentJsonSchema,
  explain,
  findKind,
  flatMongodbJsonSchema,
  isCidr,
  isIpv6,
  isTimeZone,
  jsonSchema,
  KINDS,
  openApiComponents,
  parseBytes,
  parseCpuMillis,
  parseCron,
  parseDocuments,
  parseDuration,
  redact,
  referenceMarkdown,
  validate,
} from './index.ts';
import { type FieldShape, shapeOf } from './shapes.ts';

const value = <T>(result: { ok: true; value: T } | { ok: false }): T | undefined =>
  result.ok ? result.value : undefined;

function everyField(path: string, shape: FieldShape): [string, FieldShape][] {
  const below = [...elementFields(shape)].flatMap(([name, schema]) =>
    everyField(`${path}.${name}`, shapeOf(name, schema)),
  );
  return [[path, shape], ...below];
}

test('B1.5 every field of every kind has a description, and explain finds it', () => {
  for (const info of KINDS) {
    for (const [path, shape] of everyField(info.kind, shapeOf(info.kind, info.schema)).slice(1)) {
      expect(shape.description, path).toMatch(/^\S.{3,}[.…]$/);
      const found = explain(path);
      expect(found.kind, path).toBe('found');
      if (found.kind === 'found') expect(found.text, path).toContain(shape.description);
    }
  }
});

test('explain answers short names and paths, and suggests', () => {
  const text = (target: string, path?: string): string => {
    const found = explain(target, path);
    return found.kind === 'found' ? found.text : found.message;
  };
  expect(text('mdb.spec.security.tls.mode')).toContain('Accepted: disabled, allowTLS, preferTLS, requireTLS');
  expect(text('mongodb', 'spec.type')).toContain('Accepted: ReplicaSet, Standalone, ShardedCluster');
  expect(text('mdb', 'spec.memberConfig[0].votes')).toContain('spec.memberConfig.0.votes');
  expect(text('mdb', 'spec.memers')).toBe('MongoDB.spec has no field memers, did you mean members?');
  expect(text('mongdb')).toBe('mongdb is not a kind, did you mean mongodb?');
  expect(text('mdb', 'spec.version')).toContain('default "8.0.32-14"');
});

test('kinds are found by kind, plural, singular and short name, and no name means two kinds', () => {
  for (const info of KINDS) {
    for (const name of [info.kind, info.plural, info.singular, ...info.shortNames, info.kind.toUpperCase()]) {
      expect(findKind(name)?.kind, name).toBe(info.kind);
    }
  }
  expect(findKind('nothing')).toBeUndefined();
});

test('JSON Schema and OpenAPI come from the same schemas', () => {
  const schema = JSON.stringify(jsonSchema('mongodb'));
  expect(schema).toContain('"memberConfig"');
  expect(schema).toContain('Preference for becoming primary');
  expect(schema).not.toContain('9007199254740991');
  const names = Object.keys(openApiComponents().schemas);
  for (const { kind } of KINDS) expect(names).toEqual(expect.arrayContaining([kind, `${kind}List`]));
  expect(JSON.stringify(flatMongodbJsonSchema())).not.toContain('oneOf');
  expect(JSON.stringify(documentJsonSchema())).not.toContain('"Event"}');
});

test('the reference names every kind, field, build and owned key', () => {
  const text = referenceMarkdown();
  for (const info of KINDS) expect(text).toContain(`## ${info.kind}\n`);
  for (const part of [
    '`spec.memberConfig[].votes`',
    '`status.members[].lagMillis`',
    '8.0.32-14',
    '`storage.dbpath`',
    '`"requireTLS"`',
  ]) {
    expect(text).toContain(part);
  }
});

test('B1.3 every example is accepted without a change', () => {
  const folder = new URL('../../examples/', import.meta.url);
  const files = readdirSync(folder).filter((name) => name.endsWith('.yaml'));
  expect(files.length).toBeGreaterThanOrEqual(6);
  for (const file of files) {
    const parsed = parseDocuments(readFileSync(new URL(file, folder), 'utf8'), file);
    expect(parsed.problems).toEqual([]);
    expect(parsed.documents.length).toBeGreaterThan(0);
    for (const document of parsed.documents) expect(validate(document.value).problems, file).toEqual([]);
  }
});

test('sizes, processors and durations', () => {
  expect(['10Gi', '512Mi', '16G', '1.5Gi', '700M', '1024'].map((text) => value(parseBytes(text)))).toEqual([
    10 * 2 ** 30,
    512 * 2 ** 20,
    16e9,
    1.5 * 2 ** 30,
    700e6,
    1024,
  ]);
  expect(['500m', '2', '0.25'].map((text) => value(parseCpuMillis(text)))).toEqual([500, 2000, 250]);
  expect(['90s', '1h30m', '7d', '0s', '250ms'].map((text) => value(parseDuration(text)))).toEqual([
    90_000, 5_400_000, 604_800_000, 0, 250,
  ]);
  for (const text of ['', '10GB', '-1Gi', '0', 'Gi', '1e3', '999999999Pi'])
    expect(parseBytes(text).ok, text).toBe(false);
  for (const text of ['', 'two', '0', '-1', '1.5k']) expect(parseCpuMillis(text).ok, text).toBe(false);
  for (const text of ['', '1', '1 h', '1y', 'h', '-1h']) expect(parseDuration(text).ok, text).toBe(false);
});

test('C7.1 cron lines', () => {
  expect(value(parseCron('*/15 2-4 1,15 jan-mar sat'))).toEqual({
    minutes: [0, 15, 30, 45],
    hours: [2, 3, 4],
    daysOfMonth: [1, 15],
    months: [1, 2, 3],
    daysOfWeek: [6],
    eitherDay: true,
  });
  expect(value(parseCron('0 0 * * 7'))?.daysOfWeek).toEqual([0]);
  expect(value(parseCron('@daily'))).toMatchObject({ minutes: [0], hours: [0], eitherDay: false });
  for (const text of [
    '',
    '* * * *',
    '* * * * * *',
    '60 * * * *',
    '* 24 * * *',
    '* * 0 * *',
    '* * * 13 *',
    '5-1 * * * *',
    '*/0 * * * *',
    'a * * * *',
    '@often',
  ]) {
    expect(parseCron(text).ok, text).toBe(false);
  }
  expect(['Europe/Prague', 'UTC', 'America/New_York'].every(isTimeZone)).toBe(true);
  expect(['Prague', '', '+02:00', 'Europe/Atlantis'].some(isTimeZone)).toBe(false);
});

test('VAL-05 addresses, ranges and advertised names', () => {
  for (const text of ['10.0.0.0/8', '0.0.0.0/0', '203.0.113.7/32', '2001:db8::/32', '::/0'])
    expect(isCidr(text), text).toBe(true);
  for (const text of [
    '10.0.0.0',
    '10.0.0.0/33',
    '10.0.0/8',
    '256.0.0.0/8',
    'a/8',
    '::/129',
    '10.0.0.0/8/8',
    '',
  ])
    expect(isCidr(text), text).toBe(false);
  for (const text of ['::1', '2001:db8::1', '[fe80::1]', '1:2:3:4:5:6:7:8', '::ffff:10.0.0.1'])
    expect(isIpv6(text), text).toBe(true);
  for (const text of ['db1', '1:2', '1::2::3', ':::', '12345::', '1:2:3:4:5:6:7:8:9', '1:2:3:4:5:6:7::8'])
    expect(isIpv6(text), text).toBe(false);
  for (const text of ['db1', 'db1.example.com', 'DB1.Example.com', 'localhost', '127.0.0.1'])
    expect(advertisedHostProblem(text), text).toBeUndefined();
  for (const text of ['192.0.2.10', '2001:db8::1', '[2001:db8::1]', 'db_1', 'db1:27017', ''])
    expect(advertisedHostProblem(text), text).toBeDefined();
});

test('S8 redaction hides secret-sounding values and passwords in addresses, and keeps references', () => {
  const before = {
    password: 'a',
    adminPwd: 'b',
    apiKey: 'c',
    passwordSecretRef: { name: 'kept', key: 'password' },
    list: [{ accessToken: 'd' }, 'mongodb://app:e@db1,db2/?x=1'],
    key: 'kept',
  };
  expect(redact(before)).toEqual({
    password: '***',
    adminPwd: '***',
    apiKey: '***',
    passwordSecretRef: { name: 'kept', key: 'password' },
    list: [{ accessToken: '***' }, 'mongodb://app:***@db1,db2/?x=1'],
    key: 'kept',
  });
});
