/**
 * The engine's ports: what it needs of the outside, in its own words. Adapters implement one each and know nothing of
 * each other; only a `main` joins them. All methods may throw BelayError; its `retry` says what the caller may do.
 */
import type { Secret } from '../base/secret.ts';
import type { Bytes, Millis } from '../base/units.ts';
import type { HostFacts, MemberFacts, OperationFacts, ServiceFacts } from '../clusters/facts.ts';
import type { CommandOutcome, MemberCommand, MemberSnapshot, ServiceSpec } from '../clusters/snapshot.ts';
import type { Authority, Capabilities } from '../clusters/types.ts';

// ── clock and log ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Time, so that tests and the deterministic world can own it. */
export interface Clock {
  now(): Millis;
  /** Calls once at (or just after) the given time; returns a canceller. Timers never keep the process alive. */
  at(time: Millis, call: () => void): () => void;
  /** Time that never jumps, for durations such as a lease's life; without it `now` is taken. */
  monotonic?(): Millis;
}

export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

// ── store ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Kubernetes' object shape. Times are ISO 8601 in UTC. `resourceVersion` is a decimal number that grows with every write in the store. */
export interface ObjectMetadata {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** +1 with every change of spec. */
  readonly generation: number;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly creationTimestamp: string;
  readonly deletionTimestamp: string | null;
  readonly finalizers: readonly string[];
}
export interface StoredObject<Spec = unknown, Status = unknown> {
  /** `belay.dev/v1` kind. */
  readonly kind: string;
  readonly metadata: ObjectMetadata;
  readonly spec: Spec;
  readonly status: Status | null;
}
export interface ObjectKey {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}
export interface NewObject {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly spec: unknown;
  readonly status?: unknown;
}
/** Fields left out stay as they are. */
export interface ObjectChange {
  readonly spec?: unknown;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  /** Marks for deletion (never taken back); an object without finalizers then goes at once. */
  readonly delete?: true;
}
export interface ListQuery {
  readonly kind: string;
  readonly namespace?: string;
  /** Kubernetes' equality and set syntax: `a=b,c!=d,e in (x,y),!f`. */
  readonly labelSelector?: string;
  readonly limit?: number;
  readonly continue?: string;
}
export interface ObjectList {
  readonly items: readonly StoredObject[];
  readonly continue: string | null;
  /** Watch from here to miss nothing. */
  readonly resourceVersion: string;
}
export interface ObjectEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: StoredObject;
}

/** A right to act on one partition of the clusters; `epoch` grows with every change of holder (S9). */
export interface Lease {
  readonly name: string;
  readonly holder: string;
  readonly epoch: number;
  readonly expiresAt: Millis;
}
/** Put on every write of the engine: refused with `LeaseLost` (never) when the lease has moved on. */
export interface Fence {
  readonly lease: string;
  readonly epoch: number;
}

export interface JournalIntent {
  /** Step id: unique, made by the engine. */
  readonly id: string;
  readonly clusterUid: string;
  readonly step: string;
  readonly target: string;
  readonly reason: string;
  readonly epoch: number;
  readonly at: Millis;
  readonly detail: unknown;
  /**
   * How long, right before it, nothing was worked on because what comes next waited for leave: for a window, or for what
   * somebody else holds. Absent: it did not. More than the time since the step before: it is not known since when.
   */
  readonly heldBack?: Millis;
}
export interface JournalOutcome {
  readonly id: string;
  readonly at: Millis;
  readonly kind: 'done' | 'failed' | 'unknown' | 'superseded';
  readonly message: string;
}
export interface JournalEntry extends JournalIntent {
  readonly outcome: JournalOutcome | null;
}

export interface NewEvent {
  readonly namespace: string;
  /** What it is about. */
  readonly regarding: { readonly kind: string; readonly name: string; readonly uid: string };
  readonly type: 'Normal' | 'Warning';
  /** One of the named reasons. */
  readonly reason: string;
  readonly message: string;
  readonly at: Millis;
}
/** Equal events (object, type, reason, message) are one row with a count. */
export interface StoredEvent extends NewEvent {
  readonly id: string;
  readonly count: number;
  readonly firstAt: Millis;
}

/** All writes of one moment, in one transaction: all or nothing. */
export interface Batch {
  readonly fence?: Fence;
  /** `version` is what was loaded (0: not there yet). Conflict → StateConflict. `value: null` removes. */
  readonly state?: { readonly uid: string; readonly version: number; readonly value: unknown };
  readonly intents?: readonly JournalIntent[];
  readonly outcomes?: readonly JournalOutcome[];
  /** Equal to the stored status: no write. An object that is gone or has another uid: ignored. */
  readonly status?: readonly { readonly key: ObjectKey; readonly uid: string; readonly value: unknown }[];
  readonly events?: readonly NewEvent[];
  /** Finalizers to take off; an object marked for deletion whose last one goes is removed with its events kept. */
  readonly releases?: readonly {
    readonly key: ObjectKey;
    readonly uid: string;
    readonly finalizer: string;
  }[];
  /** Sealed rows to remove by prefix of their name. */
  readonly secretPrefixesToDelete?: readonly string[];
}

export interface SealedRow {
  readonly name: string;
  readonly sealed: Uint8Array;
  readonly version: number;
}
export interface TokenRow {
  readonly id: string;
  readonly kind: 'api' | 'join';
  /** `admin`, `operator`, `viewer`; for join tokens the host's name or `*`. */
  readonly role: string;
  readonly name: string;
  /** Hash of the secret part. */
  readonly hash: string;
  readonly createdAt: Millis;
  readonly expiresAt: Millis | null;
  readonly usedAt: Millis | null;
}

/** Durable memory. An acknowledged write survives kill -9 of this process at any moment. */
export interface Store {
  // objects
  get(key: ObjectKey): Promise<StoredObject | null>;
  list(query: ListQuery): Promise<ObjectList>;
  /** AlreadyExists (never). */
  create(object: NewObject): Promise<StoredObject>;
  /** NotFound, Conflict when `expect` is not the current resourceVersion. An equal change writes nothing. Null when the object went (delete without finalizers). */
  update(key: ObjectKey, change: ObjectChange, expect?: string): Promise<StoredObject | null>;
  /** Changes after `since` in order, then new ones as they come, until the signal. `Gone` (never) when `since` is older than what is kept. */
  watch(query: {
    readonly kinds?: readonly string[];
    readonly namespace?: string;
    readonly since?: string;
    readonly signal: AbortSignal;
  }): AsyncIterable<ObjectEvent>;

  // engine
  commit(batch: Batch): Promise<{ readonly stateVersion: number | null; readonly wrote: boolean }>;
  loadState(uid: string): Promise<{ readonly version: number; readonly value: unknown } | null>;
  /** Takes or renews leases in one write; gives those held now. Expired ones of others are taken with epoch + 1. */
  acquireLeases(
    names: readonly string[],
    holder: string,
    ttl: Millis,
    now: Millis,
  ): Promise<readonly Lease[]>;
  releaseLeases(holder: string): Promise<void>;
  openIntents(clusterUid: string): Promise<readonly JournalEntry[]>;
  journal(query: { readonly clusterUid: string; readonly limit: number }): Promise<readonly JournalEntry[]>;
  events(query: {
    readonly namespace?: string;
    readonly uid?: string;
    readonly limit: number;
  }): Promise<readonly StoredEvent[]>;
  recordEvents(events: readonly NewEvent[]): Promise<void>;

  // secrets and tokens (rows only: sealing and hashing are the security adapter's)
  getSealed(name: string): Promise<SealedRow | null>;
  listSealed(prefix: string): Promise<readonly SealedRow[]>;
  /** By name a mark that differs after every write, also when a row was removed and made anew. Far cheaper than the rows. */
  sealedMarks(prefix: string): Promise<ReadonlyMap<string, string>>;
  /** `expect` 0: must not exist. Conflict otherwise. Null: unconditional. */
  putSealed(name: string, sealed: Uint8Array, expect: number | null): Promise<number>;
  /** All rows in one transaction, each with the version it was read at (master-key rotation). */
  replaceSealed(rows: readonly SealedRow[]): Promise<void>;
  deleteSealed(prefix: string): Promise<number>;
  putToken(row: TokenRow): Promise<void>;
  getToken(id: string): Promise<TokenRow | null>;
  listTokens(kind: 'api' | 'join'): Promise<readonly TokenRow[]>;
  /** True for exactly one caller, ever. */
  useToken(id: string, now: Millis): Promise<boolean>;
  deleteToken(id: string): Promise<void>;
  getSetting(name: string): Promise<string | null>;
  /** First writer wins; gives the value that stands. */
  initSetting(name: string, value: string): Promise<string>;

  /** Number of write transactions since open; for the no-change benchmark. */
  readonly writes: number;
  close(): Promise<void>;
}

// ── secrets ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The sealed secret store. Names are paths: `clusters/<uid>/users/userAdmin`, `installation/ca`. Values are text. */
export interface Secrets {
  get(name: string): Promise<Secret<string> | null>;
  /** Makes and stores the value once; two callers get the same one. */
  ensure(name: string, make: () => Promise<string> | string): Promise<Secret<string>>;
  put(name: string, value: Secret<string>): Promise<void>;
  list(prefix: string): Promise<readonly string[]>;
  delete(prefix: string): Promise<void>;
}

/** A certificate authority and what it issues. PEM texts; keys only inside Secrets. */
export interface CertificateAuthority {
  /** The bundle everybody trusts, as last read. */
  readonly caPem: string;
  /** The same in the planner's terms. */
  readonly authority: Authority;
  /** Reads it again: another control plane may have gone on with its replacement (S12). */
  refresh(): Promise<void>;
  /** Fingerprint of the trusted authority that issued a certificate; null: none of them did. */
  issuerOf(certificatePem: string): string | null;
  issue(request: CertificateRequest): Promise<IssuedCertificate>;
  /** Certifies somebody else's key: only the key is taken from the PKCS#10 request, all words from `request`. `InvalidRequest` (never). */
  sign(
    csrPem: string,
    request: CertificateRequest,
  ): Promise<Pick<IssuedCertificate, 'certificatePem' | 'fingerprint' | 'notAfter'>>;
}
export interface CertificateRequest {
  readonly commonName: string;
  /** Subject's O and OU: equal on all members of one cluster (server rule for member certificates). */
  readonly organization?: string;
  readonly organizationalUnit?: string;
  /** DNS names and IP addresses. */
  readonly names: readonly string[];
  readonly usages: readonly ('server' | 'client')[];
  readonly validForMillis?: Millis;
}
export interface IssuedCertificate {
  /** Key and certificate, one PEM. */
  readonly combinedPem: Secret<string>;
  readonly certificatePem: string;
  readonly fingerprint: string;
  readonly notAfter: Millis;
}

// ── agents ─────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface MemberRef {
  readonly host: string;
  readonly serviceId: string;
}
/** The last report, kept in memory; reading it costs nothing and asks nobody. */
export interface MemberReport {
  readonly facts: MemberFacts;
  readonly observedAt: Millis;
}
export interface HostReport {
  readonly facts: HostFacts;
  readonly connected: boolean;
  /** Last sign of life. */
  readonly seenAt: Millis;
}

/** What must still hold on the host when an effect begins: what the control plane saw may be over by then. */
export interface Proviso {
  /** Refused with `MemberIsPrimary` (later) while the member leads its set: it is to hand over first (S3). */
  readonly unlessPrimary?: boolean;
}

/** The agents' channel as the control plane sees it. Commands carry the fence: an agent refuses an older epoch (S9). */
export interface Agents {
  hosts(): readonly HostReport[];
  host(name: string): HostReport | null;
  member(ref: MemberRef): MemberReport | null;
  /** Gives the member its snapshot; resolves when the agent has it safely on disk, not when the process runs with it. */
  publish(ref: MemberRef, snapshot: MemberSnapshot, fence: Fence, proviso?: Proviso): Promise<void>;
  run(
    ref: MemberRef,
    command: MemberCommand,
    options: { readonly timeoutMillis: Millis; readonly stepId: string; readonly fence: Fence },
  ): Promise<CommandOutcome>;
  /** Infrastructure on hosts: the platform `hosts` speaks through these. */
  startOperation(host: string, operation: HostOperation, fence: Fence): Promise<void>;
  /**
   * How it stands. With a fence the host takes note of the epoch before it answers: what an older holder has sent and has
   * not arrived by then never lands (S9).
   */
  operation(host: string, operationId: string, fence?: Fence): Promise<OperationFacts>;
  services(host: string): Promise<readonly ServiceFacts[]>;
  /** Something about a host, a member or an operation changed. */
  onChange(listener: (change: AgentChange) => void): () => void;
}
export type AgentChange =
  | { readonly kind: 'host'; readonly host: string }
  | {
      readonly kind: 'member';
      readonly host: string;
      readonly serviceId: string;
      readonly clusterUid: string | null;
    }
  | {
      readonly kind: 'operation';
      readonly host: string;
      readonly operationId: string;
      readonly clusterUid: string | null;
    };

export type HostOperation =
  | { readonly kind: 'import'; readonly id: string; readonly spec: ServiceSpec }
  | (Proviso & {
      readonly kind: 'deploy';
      readonly id: string;
      readonly serviceId: string;
      readonly spec: ServiceSpec;
    })
  | {
      readonly kind: 'growVolume';
      readonly id: string;
      readonly volumeId: string;
      readonly clusterUid: string;
      readonly member: string;
      readonly sizeBytes: Bytes;
    }
  | {
      readonly kind: 'deleteRuntime';
      readonly id: string;
      readonly serviceId: string;
      readonly clusterUid: string;
    }
  | {
      readonly kind: 'deleteVolume';
      readonly id: string;
      readonly volumeId: string;
      readonly clusterUid: string;
      readonly member: string;
    };

// ── platform ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Where services run. Every action is an operation with an id that is observed; starting one twice with the same step id is one. */
export interface Platform {
  readonly name: string;
  readonly capabilities: Capabilities;
  import(spec: ServiceSpec, stepId: string, fence: Fence): Promise<{ readonly operationId: string }>;
  deploy(
    serviceId: string,
    spec: ServiceSpec,
    stepId: string,
    fence: Fence,
    proviso?: Proviso,
  ): Promise<{ readonly operationId: string }>;
  deleteRuntime(
    service: { readonly id: string; readonly host: string; readonly clusterUid: string },
    stepId: string,
    fence: Fence,
  ): Promise<{ readonly operationId: string }>;
  /**
   * Makes a volume larger, whether or not anything runs on it (A6.6, STO-04); one that is as large already is left alone.
   * Fails with `DiskFull` where there is no room, and for a volume that is not its owner's.
   */
  growVolume(
    volume: {
      readonly id: string;
      readonly host: string;
      readonly clusterUid: string;
      readonly member: string;
    },
    sizeBytes: Bytes,
    stepId: string,
    fence: Fence,
  ): Promise<{ readonly operationId: string }>;
  /** Deletes only the volume with this id whose owner marker names this cluster and member (S4). */
  deleteVolume(
    volume: {
      readonly id: string;
      readonly host: string;
      readonly clusterUid: string;
      readonly member: string;
    },
    stepId: string,
    fence: Fence,
  ): Promise<{ readonly operationId: string }>;
  operation(operationId: string): Promise<OperationFacts>;
  /**
   * What became of a step whose answer was lost, asked where it was sent. `unknown`: it never arrived there, and never
   * will, not even from an older holder: it may be placed anew, elsewhere too.
   */
  operationOf(host: string, stepId: string, fence: Fence): Promise<OperationFacts>;
  /** Runtimes and volumes of these hosts; a host that can't be asked is left out and named in `unreachable`. */
  services(
    hosts: readonly string[],
  ): Promise<{ readonly items: readonly ServiceFacts[]; readonly unreachable: readonly string[] }>;
}
