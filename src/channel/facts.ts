/** Checks of everything an agent may report: an agent is trusted with its own host, not with the control plane's memory. */
import type { HostFacts, MemberFacts, OperationFacts, ServiceFacts } from '../clusters/facts.ts';
import type { CommandOutcome } from '../clusters/snapshot.ts';
import * as is from './shape.ts';

const STATES = [
  'STARTUP',
  'PRIMARY',
  'SECONDARY',
  'RECOVERING',
  'STARTUP2',
  'UNKNOWN',
  'ARBITER',
  'DOWN',
  'ROLLBACK',
  'REMOVED',
] as const;

const process = is.byKind({
  absent: is.anything,
  starting: is.object({ pid: is.number, since: is.number }),
  running: is.object({ pid: is.number, since: is.number, adopted: is.truth }),
  exited: is.object({
    since: is.number,
    exitCode: is.nullable(is.number),
    signal: is.nullable(is.text),
    failures: is.number,
    nextStartAt: is.nullable(is.number),
    message: is.text,
    code: is.optional(is.text),
  }),
});

const peer = is.object({
  id: is.number,
  host: is.text,
  state: is.oneOf(...STATES),
  healthy: is.truth,
  lagMillis: is.nullable(is.number),
  message: is.nullable(is.text),
});

const config = is.object({
  _id: is.text,
  version: is.number,
  members: is.list(is.object({ _id: is.number, host: is.text, priority: is.number, votes: is.number }), 50),
});

const database = is.byKind({
  unreachable: is.object({ message: is.text }),
  reachable: is.object({
    binaryVersion: is.text,
    featureCompatibilityVersion: is.nullable(is.text),
    initiated: is.nullable(is.truth),
    setName: is.nullable(is.text),
    replicaSetId: is.nullable(is.text),
    state: is.nullable(is.oneOf(...STATES)),
    term: is.nullable(is.number),
    writablePrimary: is.truth,
    primary: is.nullable(is.text),
    peers: is.list(peer, 50),
    config: is.nullable(config),
    initialSyncPercent: is.nullable(is.number),
    authenticated: is.nullable(is.truth),
    usersExist: is.nullable(is.truth),
  }),
});

const member = is.object({
  serviceId: is.text,
  configVersion: is.number,
  configError: is.nullable(is.text),
  process,
  database: is.nullable(database),
  certificate: is.nullable(is.object({ notAfter: is.number, fingerprint: is.text })),
  volume: is.nullable(
    is.object({
      id: is.text,
      totalBytes: is.number,
      freeBytes: is.number,
      usedBytes: is.optional(is.number),
    }),
  ),
  newestRun: is.optional(is.nullable(is.text)),
});

const host = is.object({
  name: is.text,
  address: is.text,
  agentVersion: is.text,
  os: is.text,
  cpus: is.number,
  memoryBytes: is.number,
  diskTotalBytes: is.number,
  diskFreeBytes: is.number,
  fingerprint: is.nullable(is.text),
  executables: is.record(is.list(is.text)),
  labels: is.record(is.text),
  identity: is.optional(is.object({ notAfter: is.number, issuer: is.nullable(is.text), trust: is.text })),
});

const operation = is.byKind({
  running: is.object({ detail: is.text }),
  succeeded: is.object({ result: is.map }),
  failed: is.object({ code: is.text, message: is.text }),
  cancelled: is.object({ message: is.text }),
  unknown: is.anything,
});

/** Owner marker as services and volumes carry it. */
export const ownerShape = is.object({
  installation: is.text,
  clusterUid: is.text,
  member: is.text,
  hostname: is.text,
  proof: is.text,
});

const service = is.object({
  id: is.text,
  hostname: is.text,
  host: is.nullable(is.text),
  kind: is.oneOf('runtime', 'volume'),
  owner: is.nullable(ownerShape),
  masked: is.truth,
  deployed: is.truth,
  port: is.nullable(is.number),
  dataPath: is.nullable(is.text),
  sizeBytes: is.nullable(is.number),
});

const outcome = is.byKind({
  done: is.object({ result: is.map }),
  refused: is.object({
    code: is.nullable(is.number),
    codeName: is.text,
    message: is.text,
    class: is.oneOf('transient', 'credentials', 'permanent'),
  }),
  unknown: is.object({ message: is.text }),
});

const reader =
  <T>(shape: is.Shape, name: string) =>
  (value: unknown): T => {
    shape(value, name);
    return value as T;
  };

/** A member's facts and the cluster it belongs to, as one report item. */
export interface MemberItem {
  readonly clusterUid: string | null;
  readonly facts: MemberFacts;
}

/** Each gives the value back when it has the right shape, else throws BelayError `ProtocolError`. */
export const readMemberItem = reader<MemberItem>(
  is.object({ clusterUid: is.nullable(is.text), facts: member }),
  'member',
);
export const readHostFacts = reader<HostFacts>(host, 'host');
export const readOperationFacts = reader<OperationFacts>(operation, 'operation');
export const readServices = reader<readonly ServiceFacts[]>(is.list(service), 'services');
export const readOutcome = reader<CommandOutcome>(outcome, 'outcome');
