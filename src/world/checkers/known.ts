/** What could be known at a moment, as far as the true world and the statuses in the store tell: nobody is blamed for the rest. */
import { type Millis, SECOND } from '../../base/units.ts';
import type { StoredObject } from '../../engine/ports.ts';
import type { Stage } from '../stage.ts';
import { type Part, primaryOf, quorumOf, statusOf } from '../truth.ts';
import type { World } from '../world.ts';

/** Heartbeats (10 s) and reports together make a death known within this. */
const KNOWN_AFTER: Millis = 15 * SECOND;
/** What a status says is known to every control plane within this. */
const TOLD_AFTER: Millis = 8 * SECOND;
/** A new primary is known within this. */
const LEADER_KNOWN_AFTER: Millis = 5 * SECOND;

/** Whether people changed the votes of a set so lately that nobody who counted them could know. */
export const votesJustChanged = ({ world, storm }: Stage, within: Millis = KNOWN_AFTER): boolean =>
  world.timeline.now - storm.votesChangedAt < within;

/** Voters that are not well, as they really are. */
export class Deaths {
  readonly #stage: Stage;
  readonly #since = new Map<string, Millis>();

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  look(part: Part): void {
    const { world } = this.#stage;
    const quorum = quorumOf(world, part);
    for (const host of quorum?.voters ?? []) {
      if (quorum?.healthy.includes(host)) this.#since.delete(host);
      else if (!this.#since.has(host)) this.#since.set(host, world.timeline.now);
    }
  }

  /** An address that nobody has any more may come to be another member's. */
  keepOnly(addresses: readonly string[]): void {
    keepOnly(this.#since, addresses);
  }

  /** If this voter is not well, then since so lately that nobody could know. */
  isNews(host: string): boolean {
    const { world, troubled } = this.#stage;
    const { now } = world.timeline;
    const fault = troubled.get(host.split('.')[0] ?? '') ?? Number.NEGATIVE_INFINITY;
    return now - (this.#since.get(host) ?? now) < KNOWN_AFTER || now - fault < KNOWN_AFTER;
  }
}

/** How members are, as the statuses in the store say it. */
export class Told {
  readonly #world: World;
  readonly #unwellSince = new Map<string, Millis>();
  readonly #wellSince = new Map<string, Millis>();

  constructor(world: World) {
    this.#world = world;
  }

  look(object: StoredObject): void {
    const { now } = this.#world.timeline;
    for (const { host, port, health } of statusOf(object)?.members ?? []) {
      const address = `${host}:${port}`;
      if (health === 'healthy') {
        if (this.#unwellSince.delete(address)) this.#wellSince.set(address, now);
      } else if (!this.#unwellSince.has(address)) this.#unwellSince.set(address, now);
    }
  }

  /** An address that nobody has any more may come to be another member's. */
  keepOnly(addresses: readonly string[]): void {
    keepOnly(this.#unwellSince, addresses);
  }

  /** Everybody has been told that it is unknown or unwell. */
  isOut(address: string): boolean {
    const { now } = this.#world.timeline;
    return now - (this.#unwellSince.get(address) ?? now) >= TOLD_AFTER;
  }

  /** It was told to be well again a moment ago, which counts until it must be known otherwise. */
  isJustWell(address: string): boolean {
    return (
      this.#world.timeline.now - (this.#wellSince.get(address) ?? Number.NEGATIVE_INFINITY) < KNOWN_AFTER
    );
  }
}

/** Who leads each set, and since when. */
export class Leaders {
  readonly #world: World;
  readonly #leads = new Map<Part, { readonly host: string; readonly since: Millis }>();

  constructor(world: World) {
    this.#world = world;
  }

  look(part: Part): void {
    const host = primaryOf(this.#world, part)?.host ?? '';
    if (this.#leads.get(part)?.host !== host)
      this.#leads.set(part, { host, since: this.#world.timeline.now });
  }

  /** It has led so long that everybody knows. */
  isKnown(part: Part, host: string): boolean {
    const leads = this.#leads.get(part);
    return leads?.host === host && this.#world.timeline.now - leads.since > LEADER_KNOWN_AFTER;
  }
}

function keepOnly(since: Map<string, Millis>, addresses: readonly string[]): void {
  const there = new Set(addresses);
  for (const address of since.keys()) if (!there.has(address)) since.delete(address);
}
