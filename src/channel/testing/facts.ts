/** Small valid facts for tests. */
import { secret } from '../../base/secret.ts';
import type { HostFacts, MemberFacts } from '../../clusters/facts.ts';
import type { MemberSnapshot } from '../../clusters/snapshot.ts';
import type { Log } from '../../engine/ports.ts';

export const quiet: Log = { debug() {}, info() {}, warn() {}, error() {} };

export const hostFacts = (name: string, change: Partial<HostFacts> = {}): HostFacts => ({
  name,
  address: `${name}.test`,
  agentVersion: '0.1.0',
  os: 'Linux',
  cpus: 2,
  memoryBytes: 1024,
  diskTotalBytes: 1024,
  diskFreeBytes: 512,
  fingerprint: null,
  executables: { mongod: ['8.0.32-14'] },
  labels: {},
  ...change,
});

export const memberFacts = (serviceId: string, change: Partial<MemberFacts> = {}): MemberFacts => ({
  serviceId,
  configVersion: 1,
  configError: null,
  process: { kind: 'absent' },
  database: null,
  certificate: null,
  volume: null,
  ...change,
});

/** A snapshot whose secrets are the given text, so that a test can look for it. */
export const snapshot = (canary: string, change: Partial<MemberSnapshot> = {}): MemberSnapshot => ({
  configVersion: 1,
  restartToken: null,
  certificatesOnline: false,
  nextMonitor: null,
  clusterUid: 'uid-1',
  cluster: 'default/orders',
  member: 'orders-0',
  replicaSet: 'orders',
  role: 'replicaSet',
  product: 'mongod',
  version: '8.0.32-14',
  run: 'running',
  hostname: 'orders-0',
  port: 27017,
  bindIp: ['127.0.0.1'],
  tlsMode: 'requireTLS',
  cacheGb: 0.25,
  userConfig: {},
  limits: { memoryBytes: null, cpus: null },
  caPem: 'ca',
  certificatePem: secret(`certificate ${canary}`),
  keyFile: secret(`key ${canary}`),
  monitor: { user: 'clusterMonitor', db: 'admin', password: secret(`monitor ${canary}`) },
  hash: 'hash',
  ...change,
});
