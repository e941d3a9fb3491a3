/**
 * What an agent is given for one member: everything it needs to run it alone, for ever, when nobody answers (fail-static).
 * Secrets are `Secret` values here; the channel and the agent's 0600 cache are the only places that reveal them.
 */
import type { Secret } from '../base/secret.ts';
import type { Bytes } from '../base/units.ts';
import type { TlsMode } from '../model/index.ts';
import type { OwnerMarker, ReplSetConfig } from './facts.ts';
import type { MemberRole } from './types.ts';

export interface Login {
  readonly user: string;
  readonly db: string;
  readonly password: Secret<string>;
}

/** Individually activated goal of one member (A9.1). Equal `configVersion` means equal content. */
export interface MemberSnapshot {
  readonly configVersion: number;
  readonly clusterUid: string;
  /** `namespace/name` of the cluster, for people. */
  readonly cluster: string;
  readonly member: string;
  readonly replicaSet: string;
  readonly role: MemberRole;
  readonly product: 'mongod' | 'mongos';
  /** `set/host:port,…` of the config servers; only a router has it. */
  readonly configServers?: string;
  readonly version: string;
  readonly run: 'running' | 'stopped';
  readonly hostname: string;
  readonly port: number;
  /** Addresses to listen on besides loopback; `*` for all. */
  readonly bindIp: readonly string[];
  readonly tlsMode: TlsMode;
  readonly cacheGb: number;
  /** The user's own mongod configuration, nested; managed keys lose against ours by the shared policy (A9.5). */
  readonly userConfig: Readonly<Record<string, unknown>>;
  readonly limits: { readonly memoryBytes: Bytes | null; readonly cpus: number | null };
  readonly caPem: string;
  /** Key and certificate in one PEM; written atomically (A2.6). */
  readonly certificatePem: Secret<string>;
  readonly keyFile: Secret<string>;
  /** clusterMonitor: the agent's own reading of status. */
  readonly monitor: Login;
  /** While passwords change: the one to come, taken when the other is refused (A13.4). */
  readonly nextMonitor: Login | null;
  readonly hash: string;
  /** Another value than before: the process restarts even if nothing else changed (A13.2). Null: never asked for. */
  readonly restartToken: string | null;
  /** Other certificates than those the process runs with reach it by `rotateCertificates`, not by a restart (A9.4). */
  readonly certificatesOnline: boolean;
}

/** Users and roles a set must have; passwords travel only inside the command. */
export interface ManagedUser {
  readonly user: string;
  readonly db: string;
  readonly password: Secret<string> | null;
  readonly roles: readonly { readonly role: string; readonly db: string }[];
}
export interface ManagedRole {
  readonly role: string;
  readonly db: string;
  readonly privileges: readonly unknown[];
  readonly roles: readonly { readonly role: string; readonly db: string }[];
  readonly authenticationRestrictions?: readonly unknown[];
}

/** What an agent can be asked to do with its member's database, over loopback with the official driver. All are idempotent. */
export type MemberCommand =
  | { readonly kind: 'initiate'; readonly config: ReplSetConfig }
  | { readonly kind: 'createFirstUser'; readonly user: ManagedUser }
  | {
      /** Logs in as `as` and makes users and roles equal to these; writes only what differs. */
      readonly kind: 'reconcileUsers';
      readonly as: Login;
      readonly roles: readonly ManagedRole[];
      readonly users: readonly ManagedUser[];
      readonly drop: readonly { readonly user: string; readonly db: string }[];
    }
  | { readonly kind: 'verifyLogin'; readonly as: Login }
  /** The running process takes the certificates of this snapshot; done when it was seen to present them. */
  | { readonly kind: 'rotateCertificates'; readonly as: Login; readonly configVersion: number }
  | {
      readonly kind: 'reconfig';
      readonly as: Login;
      readonly config: ReplSetConfig;
      readonly maxTimeMillis: number;
      /** Without a majority, because a person acknowledged what that may cost (S5). */
      readonly force?: true;
    }
  | {
      /** Through a router. Done when the set is a shard already. */
      readonly kind: 'addShard';
      readonly as: Login;
      /** `set/host:port,…` */
      readonly shard: string;
    }
  /** Through a router: on, or off with the end of a migration waited for. */
  | {
      readonly kind: 'setBalancer';
      readonly as: Login;
      readonly enabled: boolean;
      readonly maxTimeMillis: number;
      /** What the AutoMerger is afterwards; left out: on or off like the balancer. */
      readonly autoMerge?: boolean;
    }
  | {
      /** X.Y; confirmed where the binary asks for it (A8.5). */
      readonly kind: 'setFcv';
      readonly as: Login;
      readonly version: string;
    }
  | {
      readonly kind: 'stepDown';
      readonly as: Login;
      readonly forSeconds: number;
      readonly catchUpSeconds: number;
    };

/** A command's answer. `unknown`: it was sent and no answer came; observe. */
export type CommandOutcome =
  | { readonly kind: 'done'; readonly result: Readonly<Record<string, unknown>> }
  | {
      readonly kind: 'refused';
      /** The server's code, or null when no server answered. */
      readonly code: number | null;
      readonly codeName: string;
      readonly message: string;
      /** transient: election, stepdown, network, timeout · credentials: authentication or privileges · permanent: anything else (A5.4). */
      readonly class: 'transient' | 'credentials' | 'permanent';
    }
  | { readonly kind: 'unknown'; readonly message: string };

/**
 * A runtime to be made, in words no platform owns (A4.3, A4.8). The platform renders artifact, preparation commands,
 * environment, port, readiness and volume mount in its own way; nothing in here is secret. It is one process on every
 * platform: one that can run copies of a service is told to run one (ADR 19).
 */
export interface ServiceSpec {
  readonly hostname: string;
  readonly host: string | null;
  readonly address: string;
  /** Wanted port; when `portFixed` is false the platform takes the next free one if it is taken. The result names the real one. */
  readonly port: number;
  readonly portFixed: boolean;
  readonly owner: OwnerMarker;
  readonly artifact: { readonly kind: 'belay-agent'; readonly version: string };
  readonly prepare: readonly string[];
  /** The server program the runtime carries. */
  readonly product: 'mongod' | 'mongos';
  readonly environment: Readonly<Record<string, string>>;
  /** Absolute path of the readiness executable inside the artifact and its arguments. */
  readonly readiness: readonly string[];
  readonly volume: {
    readonly name: string;
    readonly mountPath: string;
    readonly sizeBytes: Bytes | null;
    readonly id: string | null;
  };
  readonly resources: { readonly cpus: number | null; readonly memoryBytes: Bytes | null };
  readonly version: string;
}
