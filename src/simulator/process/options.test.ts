import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { censored, parseOptions } from './options.ts';
import { startParameters } from './parameters.ts';
import { assertClusterAuth, assertOptions } from './validate.ts';
import { playedVersion } from './version.ts';

const folder = mkdtempSync(join(tmpdir(), 'belay-options-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function parsed(argv: readonly string[], version = '8.0.32-14'): Promise<unknown> {
  const line = await parseOptions(argv, version);
  return line.kind === 'run' ? line.options : line.kind;
}
function file(text: string): string {
  const path = join(folder, 'mongod.conf');
  writeFileSync(path, text);
  return path;
}

test('command line and config file make one document; the command line wins', async () => {
  const config = file(
    'net:\n  port: 27030\n  bindIp: 127.0.0.1,10.0.0.1\n  tls: {mode: requireTLS}\nstorage.dbPath: /data\nreplication: {replSetName: rs0}\nsetParameter: {ttlMonitorEnabled: false}\n',
  );
  expect(
    await parsed(['-f', config, '--port', '27031', '--setParameter', 'notablescan=true', '-vv']),
  ).toEqual({
    config,
    net: { port: 27031, bindIp: '127.0.0.1,10.0.0.1', tls: { mode: 'requireTLS' } },
    storage: { dbPath: '/data' },
    replication: { replSetName: 'rs0' },
    setParameter: { ttlMonitorEnabled: 'false', notablescan: 'true' },
    systemLog: { verbosity: 2 },
  });
});

test.each([
  [
    ['--foo'],
    "Error parsing command line: unrecognised option '--foo'\ntry 'mongod --help' for more information",
  ],
  [['--port'], "Error parsing command line: the required argument for option '--port' is missing\n"],
  [['--port', 'abc'], "Error parsing command line: the argument ('abc') for option '--port' is invalid\n"],
  [['--port', '70000'], 'net.port must be between 0 and 65535, but attempted to set to: 70000'],
  [['--port', '1', '--port', '2'], 'Multiple occurrences of option "--port"'],
  [['extra'], 'too many positional options have been specified on the command line'],
  [
    ['--config', '/nonexistent.conf'],
    "Error opening config file: No such file or directory\ntry 'mongod --help'",
  ],
  [['--tlsMode', 'maybe'], 'Invalid value for option net.tls.mode'],
  [
    ['--wiredTigerCacheSizeGB', '0.1'],
    'storage.wiredTiger.engineConfig.cacheSizeGB must be between 0.25 and 10000',
  ],
])('%j ends with 2 and says why', async (argv, text) => {
  await expect(parsed(argv)).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining(text) });
});

test.each([
  ['storage:\n  journal:\n    enabled: true\n', 'Unrecognized option: storage.journal.enabled\ntry'],
  ['net:\n  prot: 1\n', 'Unrecognized option: net.prot'],
  ['net:\n  port: yes please\n', 'Invalid value for option net.port'],
  ['net: [1\n', 'Error parsing YAML config file: yaml-cpp: error at line'],
  ['just text\n', 'Error parsing YAML config file'],
])('the config file %j ends with 2 and says why', async (text, message) => {
  await expect(parsed(['-f', file(text)])).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringContaining(message),
  });
});

test('options come and go with versions and builds', async () => {
  const journal = file('storage:\n  journal:\n    enabled: true\n');
  expect(await parsed(['-f', journal], '6.0.5')).toMatchObject({ storage: { journal: { enabled: true } } });
  expect(await parsed(['--enableEncryption'])).toEqual({ security: { enableEncryption: true } });
  await expect(parsed(['--enableEncryption'], '8.0.5')).rejects.toMatchObject({ exitCode: 2 });
});

test.each([
  [{ net: { bindIp: 'a', bindIpAll: true } }, 'both --bind_ip'],
  [{ processManagement: { fork: true } }, '--fork has to be used with --logpath or --syslog'],
  [{ sharding: { clusterRole: 'shardsvr' } }, 'Cannot start a shardsvr as a standalone server'],
  [{ systemLog: { destination: 'syslog' } }, 'syslog'],
  [{ systemLog: { destination: 'file' } }, 'systemLog.path is required'],
])('%j is a conflict', (options, text) => {
  expect(() => assertOptions(options)).toThrow(text);
});

test('unknown parameters end the start', () => {
  expect(() => startParameters({ setParameter: { x: '1' } })).toThrow(
    'Illegal --setParameter parameter: "x"',
  );
  expect(startParameters({ setParameter: { enableTestCommands: '1' } }).get('enableTestCommands')).toBe(true);
});

test('cluster authentication by certificate needs TLS to other members', () => {
  expect(assertClusterAuth({ security: { clusterAuthMode: 'x509' } }, 'disabled')).toBe(
    'need to enable TLS via the tlsMode flag',
  );
  expect(assertClusterAuth({ security: { clusterAuthMode: 'x509' } }, 'allowTLS')).toMatch(/allowTLS mode/);
  expect(assertClusterAuth({ security: { clusterAuthMode: 'x509' } }, 'requireTLS')).toBeNull();
});

test('S8 passwords of certificate files are not shown', () => {
  const options = { net: { tls: { certificateKeyFilePassword: 'canary' } } };
  const shown = censored(
    ['--tlsCertificateKeyFilePassword', 'canary', '--sslPEMKeyPassword=canary'],
    options,
  );
  expect(JSON.stringify(shown)).not.toContain('canary');
  expect(shown.parsed).toEqual({ net: { tls: { certificateKeyFilePassword: '<password>' } } });
});

test('the version comes from the environment or from the folder of the executable', () => {
  expect(playedVersion({ BELAY_SIM_CALLED_AS: '/opt/7.0.22-12/bin/mongod' })).toBe('7.0.22-12');
  expect(
    playedVersion({ BELAY_SIM_CALLED_AS: '/opt/7.0.22-12/bin/mongod', BELAY_SIM_VERSION: '6.0.1' }),
  ).toBe('6.0.1');
  expect(playedVersion({ BELAY_SIM_CALLED_AS: '/usr/local/bin/mongod' })).toBe('8.0.32-14');
});
