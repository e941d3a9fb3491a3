/** A router's share of replication: it has no data and no set, but it gossips cluster time and says that it is a router. */
import { type Document, Long, type ObjectId, Timestamp } from 'bson';
import type { Millis } from '../../base/units.ts';
import { pause } from '../commands/notifier.ts';
import type { CommandSpec, Replication, Stamp, WriteConcern } from '../contracts.ts';
import { ServerError } from '../contracts.ts';

const ZERO = new Timestamp({ t: 0, i: 0 });

/** What the dispatcher and `hello` ask of a member, answered as a router does. */
export class RouterTime implements Replication {
  readonly setName = '';
  readonly commands: readonly CommandSpec[] = [];
  readonly #processId: ObjectId;
  readonly #local: Stamp;
  #time = ZERO;
  #counter = 0;
  #quiesceUntil: Millis | null = null;

  /** `local` gives optimes for what the router keeps for itself. */
  constructor(processId: ObjectId, local: Stamp) {
    this.#processId = processId;
    this.#local = local;
  }

  readonly stamp: Stamp = () => this.#local();

  helloFields({ legacyNames }: { readonly legacyNames: boolean }): Document {
    if (this.#quiesceUntil !== null) {
      throw new ServerError(91, 'ShutdownInProgress', 'The server is in quiesce mode and will shut down', {
        topologyVersion: this.topologyVersion(),
        remainingQuiesceTimeMillis: Long.fromNumber(Math.max(0, this.#quiesceUntil - performance.now())),
      });
    }
    return {
      [legacyNames ? 'ismaster' : 'isWritablePrimary']: true,
      msg: 'isdbgrid',
      topologyVersion: this.topologyVersion(),
    };
  }

  topologyVersion(): { readonly processId: ObjectId; readonly counter: Long } {
    return { processId: this.#processId, counter: Long.fromNumber(this.#counter) };
  }

  readonly #changed = new AbortController();

  async awaitTopologyChange(counter: Long, maxWait: Millis, signal: AbortSignal): Promise<void> {
    if (Number(counter) < this.#counter) return;
    await pause(maxWait, AbortSignal.any([signal, this.#changed.signal]));
  }

  assertWritable(): void {}
  assertReadable(): void {}
  isWritablePrimary(): boolean {
    return true;
  }
  /** Shards wait. */
  async awaitWriteConcern(): Promise<Document | null> {
    return null;
  }
  /** Shards wait. */
  async awaitReadConcern(): Promise<void> {}
  defaultWriteConcern(): WriteConcern {
    return { w: 'majority' };
  }
  setDefaultConcerns(): void {}
  lastApplied(): null {
    return null;
  }
  majorityCommitted(): null {
    return null;
  }
  electionId(): null {
    return null;
  }
  clusterTime(): Timestamp {
    return this.#time;
  }
  advanceClusterTime(time: Timestamp): void {
    if (time.greaterThan(this.#time)) this.#time = time;
  }

  /** Takes in what a member's reply says of cluster time. */
  hear(reply: Document): void {
    const time: unknown = reply['$clusterTime']?.clusterTime;
    if (time instanceof Timestamp) this.advanceClusterTime(time);
  }

  onStepDown(): void {}
  async start(): Promise<void> {}

  /** Tells clients to go elsewhere for the given time. */
  async shutdown({ timeoutMillis }: { readonly timeoutMillis: Millis }): Promise<void> {
    this.#quiesceUntil = performance.now() + timeoutMillis;
    this.#counter += 1;
    this.#changed.abort();
    if (timeoutMillis > 0) await pause(timeoutMillis, new AbortController().signal);
  }
  stop(): void {}
}
