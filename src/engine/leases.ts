/**
 * Who may act. Clusters are spread over a few leases; the holder renews them all with one write. Properties:
 *   1. we stop acting LEASE_MARGIN before a lease ends that could not be renewed, measured on a clock that never jumps,
 *      from before the renewal was sent: another holder can not start earlier than that;
 *   2. every write and every command carries the epoch, so what still comes late is refused (S9);
 *   3. a lease gained announces its partition, so that all its clusters are looked at (hand-over); so does one that had
 *      lapsed for a moment, since what came meanwhile was turned away.
 */
import { asBelayError } from '../base/error.ts';
import { hash } from '../base/rng.ts';
import type { Millis } from '../base/units.ts';
import { LEASE_MARGIN, LEASE_PARTITIONS, LEASE_RENEW, LEASE_TTL } from './limits.ts';
import type { Clock, Fence, Lease, Log, Store } from './ports.ts';

export interface LeaseOptions {
  readonly store: Pick<Store, 'acquireLeases' | 'releaseLeases'>;
  readonly clock: Clock;
  readonly log: Log;
  /** Unique per process and start. */
  readonly holder: string;
  readonly onGained: (partitions: ReadonlySet<number>) => void;
  readonly onLost: (partitions: ReadonlySet<number>) => void;
  readonly partitions?: number;
}

interface Held {
  readonly fence: Fence;
  /** On the monotonic clock: no acting from here on. */
  readonly until: Millis;
}

/** See the head of this file. */
export class LeaseKeeper {
  /** Renewals written since start: the only writes of a process whose clusters are at rest. */
  renewals = 0;
  readonly #options: LeaseOptions;
  readonly #names: readonly string[];
  #held = new Map<number, Held>();
  #cancel: () => void = () => {};
  #stopped = false;
  #closed = false;
  #renewing: Promise<void> = Promise.resolve();

  constructor(options: LeaseOptions) {
    this.#options = options;
    const count = options.partitions ?? LEASE_PARTITIONS;
    this.#names = Array.from({ length: count }, (_, index) => `clusters/${index}`);
  }

  /** Takes what is free and starts renewing. A store that is down is tried again in the background. */
  async open(): Promise<void> {
    await this.#renew();
  }

  partitionOf(uid: string): number {
    return hash(uid) % this.#names.length;
  }

  /** Ends acting: no new effect starts. The leases stay until `close`, so that what is under way can be written down. */
  stop(): void {
    this.#stopped = true;
  }

  /** The right to act on this uid now, or null. Ask again before every effect. */
  fence(uid: string): Fence | null {
    const held = this.#held.get(this.partitionOf(uid));
    const good = held !== undefined && !this.#stopped && this.#monotonic() < held.until;
    return good ? held.fence : null;
  }

  /** Partitions held now. */
  get held(): number {
    return [...this.#held.values()].filter((h) => this.#monotonic() < h.until).length;
  }

  /** Gives the leases back, so that another can take over at once. Call when nothing acts any more. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel();
    await this.#renewing;
    this.#held.clear();
    await this.#options.store.releaseLeases(this.#options.holder).catch(() => undefined);
  }

  #monotonic(): Millis {
    const { clock } = this.#options;
    return clock.monotonic?.() ?? clock.now();
  }

  async #renew(): Promise<void> {
    const { store, clock, holder, log } = this.#options;
    const sentAt = this.#monotonic();
    try {
      const leases = await store.acquireLeases(this.#names, holder, LEASE_TTL, clock.now());
      this.renewals++;
      if (!this.#closed) this.#take(leases, sentAt + LEASE_TTL - LEASE_MARGIN);
    } catch (failure) {
      const error = asBelayError(failure);
      log.warn('leases could not be renewed', { code: error.code, error: error.message });
      this.#expire();
    }
    if (this.#closed) return;
    this.#cancel = clock.at(clock.now() + LEASE_RENEW, () => {
      this.#renewing = this.#renew();
    });
  }

  #take(leases: readonly Lease[], until: Millis): void {
    const before = this.#held;
    const after = new Map<number, Held>();
    for (const lease of leases) {
      if (lease.holder !== this.#options.holder) continue;
      const partition = this.#names.indexOf(lease.name);
      if (partition >= 0) after.set(partition, { fence: { lease: lease.name, epoch: lease.epoch }, until });
    }
    this.#held = after;
    const now = this.#monotonic();
    const same = (p: number): boolean => before.get(p)?.fence.epoch === after.get(p)?.fence.epoch;
    const lapsed = (p: number): boolean => (before.get(p)?.until ?? 0) <= now;
    this.#announce(
      [...before.keys()].filter((p) => !same(p)),
      this.#options.onLost,
    );
    this.#announce(
      [...after.keys()].filter((p) => !same(p) || lapsed(p)),
      this.#options.onGained,
    );
  }

  /** Drops what can no longer be relied on; called when a renewal failed. */
  #expire(): void {
    const now = this.#monotonic();
    const lost = [...this.#held].filter(([, held]) => held.until <= now).map(([partition]) => partition);
    for (const partition of lost) this.#held.delete(partition);
    this.#announce(lost, this.#options.onLost);
  }

  #announce(partitions: readonly number[], tell: (partitions: ReadonlySet<number>) => void): void {
    if (partitions.length > 0) tell(new Set(partitions));
  }
}
