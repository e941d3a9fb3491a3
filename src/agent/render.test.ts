import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { snapshot } from '../channel/testing/facts.ts';
import { servicePaths } from './layout.ts';
import { renderConfig } from './render.ts';

const paths = servicePaths('/var/lib/belay/services/s1');
const render = (change: Parameters<typeof snapshot>[1]) =>
  renderConfig(snapshot('canary', change), paths, '/var/lib/belay/volumes/v1/data');

test('the whole file for a member of a TLS replica set', () => {
  expect(render({})).toMatchInlineSnapshot(`
    "storage:
      wiredTiger:
        engineConfig:
          cacheSizeGB: 0.25
      dbPath: /var/lib/belay/volumes/v1/data
    systemLog:
      destination: file
      path: /var/lib/belay/services/s1/mongod.log
      logAppend: true
      logRotate: reopen
    processManagement:
      fork: false
    net:
      port: 27017
      bindIp: 127.0.0.1
      unixDomainSocket:
        enabled: false
      tls:
        mode: requireTLS
        certificateKeyFile: /var/lib/belay/services/s1/tls/member.pem
        CAFile: /var/lib/belay/services/s1/tls/ca.pem
        allowConnectionsWithoutCertificates: true
    security:
      authorization: enabled
      keyFile: /var/lib/belay/services/s1/keyfile
      clusterAuthMode: keyFile
    replication:
      replSetName: orders
    "
  `);
});

test('without TLS no TLS file is named, since the server refuses that', () => {
  expect(parse(render({ tlsMode: 'disabled' })).net.tls).toEqual({ mode: 'disabled' });
});

test('A9.5 managed keys are ours however they are written; the rest of the user’s configuration is kept', () => {
  const config = parse(
    render({
      userConfig: {
        'net.port': 1,
        net: { bindIp: '0.0.0.0', compression: { compressors: 'zstd' }, tls: { mode: 'disabled' } },
        'storage.dbPath': '/data/db',
        Security: { keyFile: '/etc/key' },
        systemLog: { path: '/tmp/log', verbosity: 1 },
        storage: { wiredTiger: { engineConfig: { cacheSizeGB: 2 } } },
        setParameter: { enableLocalhostAuthBypass: false, ttlMonitorEnabled: false },
        'operationProfiling.mode': 'slowOp',
      },
    }),
  );
  expect(config.net).toMatchObject({
    port: 27017,
    bindIp: '127.0.0.1',
    compression: { compressors: 'zstd' },
  });
  expect(config.net.tls.mode).toBe('requireTLS');
  expect(config.storage).toEqual({
    dbPath: '/var/lib/belay/volumes/v1/data',
    wiredTiger: { engineConfig: { cacheSizeGB: 2 } },
  });
  expect(config.security.keyFile).toBe('/var/lib/belay/services/s1/keyfile');
  expect(config.Security).toBeUndefined();
  expect(config.systemLog).toMatchObject({ path: '/var/lib/belay/services/s1/mongod.log', verbosity: 1 });
  expect(config.setParameter).toEqual({ ttlMonitorEnabled: false });
  expect(config.operationProfiling).toEqual({ mode: 'slowOp' });
});

test('loopback is always listened on; a wildcard covers it', () => {
  expect(parse(render({ bindIp: [] })).net.bindIp).toBe('127.0.0.1');
  expect(parse(render({ bindIp: ['10.0.0.4', 'localhost'] })).net.bindIp).toBe('127.0.0.1,10.0.0.4');
  expect(parse(render({ bindIp: ['*'] })).net.bindIp).toBe('0.0.0.0');
});

test('A5.3 shards and config servers get their role', () => {
  expect(parse(render({ role: 'shardServer' })).sharding).toEqual({ clusterRole: 'shardsvr' });
  expect(parse(render({ role: 'configServer' })).sharding).toEqual({ clusterRole: 'configsvr' });
});

test('S8 no secret is in the configuration file, and a zero survives', () => {
  const text = render({ userConfig: { replication: { oplogSizeMB: 0 } } });
  expect(text).not.toContain('canary');
  expect(parse(text).replication).toEqual({ oplogSizeMB: 0, replSetName: 'orders' });
});
