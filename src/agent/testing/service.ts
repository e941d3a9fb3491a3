import type { OwnerMarker } from '../../clusters/facts.ts';
import type { ServiceSpec } from '../../clusters/snapshot.ts';

/** Whose a service of these tests is. */
export const owner = (change: Partial<OwnerMarker> = {}): OwnerMarker => ({
  installation: 'i1',
  clusterUid: 'uid-1',
  member: 'orders-0',
  hostname: 'orders-0',
  proof: 'proof',
  ...change,
});
/** What a service of these tests is to be. */
export const spec = (change: Partial<ServiceSpec> = {}): ServiceSpec => ({
  hostname: 'orders-0',
  host: 'host-a',
  address: 'host-a.test',
  port: 1,
  portFixed: false,
  owner: owner(),
  artifact: { kind: 'belay-agent', version: '0.1.0' },
  prepare: [],
  product: 'mongod',
  environment: {},
  readiness: [],
  volume: { name: 'data', mountPath: '/data', sizeBytes: null, id: null },
  resources: { cpus: null, memoryBytes: null },
  version: '8.0.32-14',
  ...change,
});
