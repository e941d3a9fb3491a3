/** Small worlds for the tests of this room. */

import { DAY } from '../base/units.ts';
import type { DatabaseFacts, MemberFacts, MemberStateName, OwnerMarker, ServiceFacts } from './facts.ts';
import { UNINITIATED } from './previewRouters.ts';
import { configFingerprint, goalOf } from './snapshotInputs.ts';
import { initialState } from './state.ts';
import { initialConfig, memberHost } from './topology.ts';
import type {
  Desired,
  DesiredComponent,
  MemberState,
  Observed,
  ObservedHost,
  OperationRequest,
  State,
} from './types.ts';

export const desired = (change: Partial<Desired> = {}, members = 3): Desired => ({
  uid: '11111111-2222-3333-4444-555555555555',
  namespace: 'default',
  name: 'orders',
  generation: 1,
  type: 'ReplicaSet',
  version: '8.0.32-14',
  members: Array.from({ length: members }, () => ({
    votes: 1,
    priority: 1,
    hidden: false,
    secondaryDelaySecs: 0,
    tags: {},
  })),
  sharded: null,
  mongodConfig: {},
  tlsMode: 'requireTLS',
  certificateDomains: [],
  memoryBytes: null,
  cpus: null,
  volumeBytes: null,
  port: null,
  hosts: null,
  roles: [],
  interruption: false,
  windows: [],
  suspend: false,
  paused: false,
  deleting: null,
  ...change,
});

export const host = (name: string, change: Partial<ObservedHost> = {}): ObservedHost => ({
  name,
  address: name,
  connected: true,
  schedulable: true,
  firstPort: null,
  fingerprint: name,
  executables: { mongod: ['8.0.32-14'] },
  memberCount: 0,
  portsTaken: [],
  ...change,
});

export const observed = (change: Partial<Observed> = {}): Observed => ({
  at: 0,
  members: [],
  services: [],
  operations: {},
  hosts: [host('db1'), host('db2'), host('db3')],
  users: [],
  requests: [],
  authority: null,
  capabilities: {
    publicExposure: false,
    allowlists: false,
    diskGrowth: false,
    resourceLimits: true,
  },
  ...change,
});

/** A state in which every member is placed, deployed and has its snapshot. */
export function placed(want: Desired, change: Partial<MemberState> = {}): State {
  const state = initialState(want);
  return {
    ...state,
    credentialsReady: true,
    goal: goalOf(state, want),
    members: state.members.map((m, i) => ({
      ...m,
      stage: 'healthy' as const,
      host: `db${i + 1}`,
      address: `db${i + 1}`,
      port: 27017,
      serviceId: `s-${m.name}`,
      volumeId: `v-${m.name}`,
      deployedVersion: want.version,
      activated: {
        configVersion: 1,
        tlsMode: want.tlsMode,
        configHash: configFingerprint(want),
        cacheGb: 0.25,
        certificate: null,
        restartToken: null,
        loginToken: null,
      },
      ...change,
    })),
  };
}

/** The same with an initiated set whose users are done. */
export function running(want: Desired): State {
  const state = placed(want, { stage: 'active' });
  const usersHash = JSON.stringify({ schema: 1, series: want.version.split('.')[0], roles: want.roles });
  return {
    ...state,
    phase: 'running',
    replicaSets: state.replicaSets.map((r) => ({
      ...r,
      stage: 'ready' as const,
      replicaSetId: 'id-1',
      usersHash,
    })),
  };
}

const blank = { ...UNINITIATED, binaryVersion: '8.0.32-14', featureCompatibilityVersion: '8.0' };

export const facts = (
  member: MemberState,
  database: Partial<Extract<DatabaseFacts, { kind: 'reachable' }>> = {},
): MemberFacts => ({
  serviceId: member.serviceId ?? '',
  configVersion: 1,
  configError: null,
  process: { kind: 'running', pid: 1, since: -DAY, adopted: false },
  database: { ...blank, ...database },
  certificate: null,
  volume: null,
});

/** A reading of members in the given states; null: not connected. An initiated set when any state is beyond STARTUP. */
export function seen(
  state: State,
  want: Desired,
  states: readonly (MemberStateName | null)[],
  change: Partial<Extract<DatabaseFacts, { kind: 'reachable' }>> = {},
): Observed {
  const config = initialConfig(state, want);
  const initiated = states.some((s) => s !== null && s !== 'STARTUP');
  const peers = state.members.map((m, i) => ({
    id: m.index,
    host: memberHost(m) ?? '',
    state: states[i] ?? ('DOWN' as const),
    healthy: states[i] !== null,
    lagMillis: states[i] === 'SECONDARY' ? 0 : null,
    message: null,
  }));
  return observed({
    members: state.members.map((m, i) => {
      const s = states[i] ?? null;
      const known = initiated
        ? {
            initiated: true,
            state: s,
            term: 1,
            writablePrimary: s === 'PRIMARY',
            replicaSetId: 'id-1',
            config,
            peers,
            usersExist: true,
            authenticated: true,
            ...change,
          }
        : { ...change };
      return {
        name: m.name,
        connected: s !== null,
        observedAt: 0,
        facts: s === null ? null : facts(m, known),
      };
    }),
  });
}

/** A sharded cluster as wanted: two shards of three, three config servers, two routers unless said otherwise. */
export const sharded = (
  change: Partial<Desired> = {},
  counts: {
    readonly shards?: number;
    readonly shard?: number;
    readonly config?: number;
    readonly routers?: number;
  } = {},
): Desired => {
  const plain = desired({ type: 'ShardedCluster', name: 'events', ...change }, 0);
  const component = (members: number): DesiredComponent => ({
    members: desired({}, members).members,
    mongodConfig: {},
    memoryBytes: null,
    cpus: null,
    volumeBytes: null,
  });
  return {
    ...plain,
    sharded: {
      shardCount: counts.shards ?? 2,
      shard: component(counts.shard ?? 3),
      config: component(counts.config ?? 3),
      router: component(counts.routers ?? 2),
    },
    ...change,
  };
};

/** The cluster of these tests, as operations name it. */
export const ref = { mongodbResourceRef: { name: 'orders' } } as const;

/** A wish for an operation, made at the beginning. */
export const requested = (spec: OperationRequest['spec']): OperationRequest => ({
  uid: 'op-1',
  name: 'orders-op',
  spec,
  createdAt: 0,
  cancelRequested: false,
});

/** What marks a service as this member's. */
export const markerOf = (clusterUid: string, member: string): OwnerMarker => ({
  installation: 'i',
  clusterUid,
  member,
  hostname: member,
  proof: 'p',
});

/** A service as the platform lists it: a runtime on db1 that nothing was deployed to yet. */
export const serviceOf = (owner: OwnerMarker, change: Partial<ServiceFacts> = {}): ServiceFacts => ({
  id: 's-1',
  kind: 'runtime',
  host: 'db1',
  hostname: owner.hostname,
  owner,
  masked: false,
  deployed: false,
  port: 27017,
  dataPath: null,
  sizeBytes: null,
  ...change,
});
