/** Replication of one process: the member machine over real sockets and the process's storage. */
import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Document, Int32, type Long, type ObjectId, Timestamp } from 'bson';
import type { Secret } from '../../base/secret.ts';
import type { Millis } from '../../base/units.ts';
import type { OpTime as BsonOpTime, Replication, ServerNode, Stamp, WriteConcern } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { isWritable, stateOf } from '../member/turn.ts';
import type { State, Waiter } from '../member/types.ts';
import { adminCommands } from './commands.ts';
import { defaultWriteConcern, modesOf, storeDefaults } from './default-concerns.ts';
import { electionIdOf, helloFields, topologyVersion } from './hello.ts';
import { peerCommands } from './peer-commands.ts';
import type { DialTls } from './peer-connection.ts';
import { PeerPool, peerLogin } from './peer-pool.ts';
import { Runtime } from './runtime.ts';
import { fromBson, numberOf, toBson } from './values.ts';

/**
 * What the process part passes in. Afterwards it sets `node.replication`, registers `commands`, and calls `start()` once the
 * listener accepts connections (members find themselves by calling their own address).
 */
export interface ReplicationOptions {
  readonly node: ServerNode;
  /** `--replSet` without the part after a slash. */
  readonly setName: string;
  /** host:port this process is reached at; replSetInitiate without a configuration uses it. */
  readonly address: string;
  /** Started with `--configsvr`. */
  readonly configServer?: boolean;
  /** For jitter; random by default. */
  readonly seed?: number;
  /** How to dial other members, asked for every new connection; null: without TLS. Default: without TLS. */
  readonly tls?: () => DialTls | null;
  /** The key file's keys; null or empty: members do not log in (no access control). */
  readonly keys?: readonly Secret<string>[] | null;
  /** `keyFile` (default) and `sendKeyFile` show a key, `sendX509` and `x509` the certificate. Asked for every new connection. */
  readonly clusterAuthMode?: () => string;
  /** Closes all client connections that are not other members': on ROLLBACK and REMOVED. */
  readonly closeClientConnections?: () => void;
  /** The member cannot go on (ten failed initial syncs, impossible rollback). Default: ends the process with 14. */
  readonly onFatal?: (message: string) => void;
}

/** Clocks and delays from the environment, for tests and demos. */
const ENV = {
  electionTimeout: 'BELAY_SIM_ELECTION_TIMEOUT_MILLIS',
  heartbeat: 'BELAY_SIM_HEARTBEAT_MILLIS',
  initialSync: 'BELAY_SIM_INITIAL_SYNC_MILLIS',
} as const;

function millisFromEnvironment(name: string): Millis | undefined {
  const value = Number(process.env[name]);
  return process.env[name] !== undefined && Number.isFinite(value) && value > 0 ? value : undefined;
}

function clocks(): State['clocks'] {
  const electionTimeoutMillis = millisFromEnvironment(ENV.electionTimeout);
  const heartbeatIntervalMillis = millisFromEnvironment(ENV.heartbeat);
  return {
    ...(electionTimeoutMillis === undefined ? {} : { electionTimeoutMillis }),
    ...(heartbeatIntervalMillis === undefined ? {} : { heartbeatIntervalMillis }),
  };
}

/** Makes the replication of one process; `start` sets it going. */
export function createReplication(options: ReplicationOptions): Replication {
  const { node } = options;
  const pool = new PeerPool({
    tls: options.tls ?? (() => null),
    login: () => peerLogin(options.keys, options.clusterAuthMode?.() ?? 'keyFile'),
  });
  const runtime = new Runtime({
    node,
    pool,
    member: {
      setName: options.setName,
      address: options.address,
      seed: options.seed ?? randomInt(2 ** 31),
      configServer: options.configServer ?? false,
      series: Number(node.version.split('.')[0]),
      clocks: clocks(),
      startedAt: node.startedAt.getTime(),
    },
    initialSyncMillis: millisFromEnvironment(ENV.initialSync) ?? 0,
    closeClientConnections: options.closeClientConnections ?? (() => {}),
    onFatal:
      options.onFatal ??
      ((message) => {
        node.logger.log('F', '-', 23089, 'ReplCoord', 'Fatal assertion', { reason: message });
        node.shutdown(14);
      }),
  });
  return new RunningReplication(options.setName, runtime);
}

class RunningReplication implements Replication {
  readonly setName: string;
  readonly commands: Replication['commands'];
  readonly #runtime: Runtime;

  constructor(setName: string, runtime: Runtime) {
    this.setName = setName;
    this.#runtime = runtime;
    this.commands = [...adminCommands(runtime), ...peerCommands(runtime)];
  }

  helloFields(given: { readonly legacyNames: boolean; readonly sni?: string | undefined }): Document {
    const { state, processId } = this.#runtime;
    return helloFields({
      state,
      processId,
      now: this.#runtime.now(),
      legacyNames: given.legacyNames,
      sni: given.sni,
    });
  }

  topologyVersion(): { readonly processId: ObjectId; readonly counter: Long } {
    return topologyVersion(this.#runtime.state, this.#runtime.processId);
  }

  awaitTopologyChange(counter: Long, maxWait: Millis, signal: AbortSignal): Promise<void> {
    return this.#runtime.awaitTopologyChange(counter, maxWait, signal);
  }

  assertWritable(db: string): void {
    if (db === 'local' || isWritable(this.#runtime.state)) return;
    throw this.#notNow(10107, 'NotWritablePrimary', 'not primary');
  }

  assertReadable(db: string, secondaryOk: boolean): void {
    const { state } = this.#runtime;
    if (db === 'local' || isWritable(state)) return;
    if (!secondaryOk) {
      throw this.#notNow(13435, 'NotPrimaryNoSecondaryOk', 'not primary and secondaryOk=false');
    }
    const shown = stateOf(state);
    if (shown === 'PRIMARY' || shown === 'SECONDARY') return;
    throw this.#notNow(
      13436,
      'NotPrimaryOrSecondary',
      'not primary or secondary; cannot currently read from this replSet member',
    );
  }

  isWritablePrimary(): boolean {
    return isWritable(this.#runtime.state);
  }

  readonly stamp: Stamp = () => {
    const { state } = this.#runtime;
    if (!isWritable(state)) throw this.#notNow(10107, 'NotWritablePrimary', 'not primary');
    return this.#runtime.nextOpTime(state.term);
  };

  async awaitWriteConcern(
    opTime: BsonOpTime,
    concern: WriteConcern,
    signal: AbortSignal,
  ): Promise<Document | null> {
    const op = fromBson(opTime);
    const w = concern.w ?? this.defaultWriteConcern().w ?? 1;
    if (op === null || w === 0) return null;
    const { state } = this.#runtime;
    if (w === 1 && state.leader !== null) return null;
    const wtimeout = concern.wtimeout ?? 0;
    const need: Extract<Waiter, { kind: 'write' }>['need'] =
      typeof w === 'number'
        ? { kind: 'count', count: w }
        : w === 'majority'
          ? { kind: 'majority' }
          : { kind: 'mode', mode: w };
    const deadline = wtimeout > 0 ? this.#runtime.now() + wtimeout : null;
    const refused = await this.#runtime.wait(
      (id) => ({ kind: 'write', id, op, need, deadline, term: op.t }),
      signal,
    );
    if (refused === null) return null;
    const shown: Document = {
      w: typeof w === 'number' ? new Int32(w) : w,
      ...(concern.j === undefined ? {} : { j: concern.j }),
      wtimeout: new Int32(wtimeout),
      provenance: concern.w === undefined ? 'implicitDefault' : 'clientSupplied',
    };
    const errInfo = refused.code === 64 ? { wtimeout: true, writeConcern: shown } : { writeConcern: shown };
    return { code: new Int32(refused.code), codeName: refused.codeName, errmsg: refused.message, errInfo };
  }

  async awaitReadConcern(concern: Document, signal: AbortSignal): Promise<void> {
    const { afterClusterTime: after, atClusterTime, level } = concern;
    const time =
      after instanceof Timestamp ? after : atClusterTime instanceof Timestamp ? atClusterTime : null;
    const committed = level === 'majority' || level === 'snapshot';
    if (time === null && !committed) return;
    if (time !== null) this.#assertKnown(time);
    const last = this.#runtime.data.lastApplied();
    if (time !== null && last?.ts.lessThan(time)) void this.#runtime.encourage(time);
    const { s, i } = time === null ? { s: 0, i: 0 } : { s: time.t, i: time.i };
    const refused = await this.#runtime.wait((id) => ({ kind: 'read', id, s, i, committed }), signal);
    if (refused !== null) throw this.#runtime.asError(refused);
  }

  #assertKnown(time: Timestamp): void {
    const now = this.#runtime.clusterTime;
    if (time.lessThanOrEqual(now)) return;
    const show = (ts: Timestamp): string => `{ ts: Timestamp(${ts.t}, ${ts.i}) }`;
    throw new ServerError(
      72,
      'InvalidOptions',
      `readConcern afterClusterTime value must not be greater than the current clusterTime. Requested clusterTime: ${show(time)}; current clusterTime: ${show(now)}`,
    );
  }

  defaultWriteConcern(): WriteConcern {
    return defaultWriteConcern(this.#runtime.data, this.#runtime.state);
  }

  setDefaultConcerns(concerns: { readonly write?: WriteConcern; readonly read?: Document }): void {
    const { node, data, clusterTime } = this.#runtime;
    storeDefaults(
      data,
      {
        ...(concerns.write === undefined ? {} : { write: { ...concerns.write } }),
        ...(concerns.read === undefined ? {} : { read: concerns.read }),
      },
      { stamp: this.stamp, now: node.now(), clusterTime, modes: modesOf(this.#runtime.state) },
    );
  }

  lastApplied(): BsonOpTime | null {
    return this.#runtime.data.lastApplied();
  }

  majorityCommitted(): BsonOpTime | null {
    const { op } = this.#runtime.state.committed;
    return op === null ? null : toBson(op);
  }

  electionId(): ObjectId | null {
    return electionIdOf(this.#runtime.state);
  }

  /** Zero until the set is initiated. */
  clusterTime(): Timestamp {
    return this.#runtime.state.config === null ? new Timestamp({ t: 0, i: 0 }) : this.#runtime.clusterTime;
  }

  advanceClusterTime(time: Timestamp): void {
    if (this.#runtime.state.config !== null) this.#runtime.advanceClusterTime(time);
  }

  onStepDown(listener: (reason: 'stepdown' | 'rollback' | 'initialSync') => void): void {
    this.#runtime.onStepDown(listener);
  }

  async start(): Promise<void> {
    this.#runtime.start();
  }

  async shutdown(order: { readonly force: boolean; readonly timeoutMillis: Millis }): Promise<void> {
    const fields = await this.#runtime.command({ kind: 'shutdown', ...order });
    const until = numberOf(fields['quiesceUntil']) ?? 0;
    const left = until - this.#runtime.now();
    if (left > 0) await pause(left);
  }

  stop(): void {
    this.#runtime.stop();
  }

  #notNow(code: number, codeName: string, message: string): ServerError {
    return new ServerError(code, codeName, message, { topologyVersion: this.topologyVersion() });
  }
}
