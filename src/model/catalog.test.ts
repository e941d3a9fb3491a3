import { expect, test } from 'vitest';
import {
  CATALOG,
  DEFAULT_VERSION,
  findBuild,
  PBM_PACKAGE_VERSION,
  packagePins,
  preparationCommands,
  resolveVersion,
  SUPPORTED_SERIES,
} from './index.ts';

test('A1.1 the catalog pins these builds, names the default and the deprecated one, and where they were read', () => {
  expect(CATALOG.map(({ version }) => version)).toEqual([
    '8.0.32-14',
    '8.0.29-13',
    '7.0.43-23',
    '7.0.40-22',
    '6.0.29-23',
  ]);
  expect(CATALOG.filter(({ isDefault }) => isDefault).map(({ version }) => version)).toEqual([
    DEFAULT_VERSION,
  ]);
  expect(CATALOG.filter(({ deprecated }) => deprecated).map(({ version }) => version)).toEqual(['6.0.29-23']);
  expect(SUPPORTED_SERIES).toEqual(['8.0', '7.0', '6.0']);
  expect(new Set(CATALOG.map(({ source }) => source.index))).toEqual(
    new Set(['psmdb-80', 'psmdb-70', 'psmdb-60'].map((name) => `${name} noble amd64 package index`)),
  );
  for (const { source } of CATALOG) expect(source.readOn).toMatch(/^\d{4}-\d{2}-\d{2}$/);
});

test('A1.2 package pins carry .noble and PBM is 2.16.0-1.noble', () => {
  expect(PBM_PACKAGE_VERSION).toBe('2.16.0-1.noble');
  for (const build of CATALOG) {
    const pins = packagePins(build);
    expect(pins).toContain(`percona-server-mongodb-server=${build.version}.noble`);
    for (const pin of pins) expect(pin).toMatch(/^[a-z-]+=.+\.noble$/);
  }
});

test('A1.4 A1.5 preparation uses percona-release with https, telemetry off, exact pins, the same each time', () => {
  for (const build of CATALOG) {
    const commands = preparationCommands(build);
    const repositories = commands.filter(({ argv }) => argv[0] === 'percona-release');
    expect(repositories.map(({ argv }) => argv[2])).toEqual([build.repository, 'pbm']);
    for (const { argv } of repositories) expect(argv.slice(-2)).toEqual(['--scheme', 'https']);
    for (const { env } of commands) expect(env['PERCONA_TELEMETRY_DISABLE']).toBe('1');
    expect(commands.at(-1)?.argv).toEqual(expect.arrayContaining([...packagePins(build)]));
    expect(preparationCommands(build)).toEqual(commands);
  }
});

test.each([
  ['8.0.32-14', 'exact', '8.0.32-14'],
  ['8.0.12', 'mapped', '8.0.32-14'],
  ['8.0.12-ent', 'mapped', '8.0.32-14'],
  ['8.0', 'mapped', '8.0.32-14'],
  ['7.0.2-ent', 'mapped', '7.0.43-23'],
  ['6.0.5', 'mapped', '6.0.29-23'],
])('B1.3 at the front door %s is %s to %s', (text, kind, version) => {
  const resolved = resolveVersion(text, { lenient: true });
  expect(resolved.kind).toBe(kind);
  if (resolved.kind === 'refused') throw new Error('refused');
  expect(resolved.build).toBe(findBuild(version));
  if (kind === 'mapped')
    expect(resolved.warning).toContain(`${text} runs as Percona Server for MongoDB ${version}`);
});

test.each(['4.4.0-ent', '5.0', '9.0.1', '8.1.2', '8.3.1-1', 'latest', '', '8', '8.0.x', '8.0.1.2'])(
  'A1.3 %j is refused at the front door with the list',
  (text) => {
    const resolved = resolveVersion(text, { lenient: true });
    expect(resolved.kind).toBe('refused');
    if (resolved.kind === 'refused') expect(resolved.message).toContain('8.0.32-14 (default)');
  },
);
