/** A control plane process without its faces: the production engine, provider and platform over this world. */

import { Authority, FLEET_KINDS, InformerFleet } from '../authority/index.ts';
import type { Rng } from '../base/rng.ts';
import type { Millis } from '../base/units.ts';
import { Engine } from '../engine/engine.ts';
import type { Batch, Clock, Log } from '../engine/ports.ts';
import { HostsPlatform } from '../platforms/hosts/platform.ts';
import { addProvider, PROVIDER_KINDS, type RunningProvider } from '../provider/setup.ts';
import { openMemoryStore } from '../store/memory.ts';
import type { MemoryDisk } from '../store/memory-tables.ts';
import { type Serials, worldAuthority } from './authority.ts';
import { Channel, type Fate } from './channel.ts';
import type { Fabric } from './fabric.ts';
import type { Machine } from './machine.ts';
import type { Mutation } from './mutation.ts';
import { type Makes, WorldSecrets } from './secrets.ts';
import { type StoreFate, storeDoor } from './storeDoor.ts';
import type { Timeline } from './timeline.ts';

/** What outlives every process of the control plane. */
export interface Installation {
  readonly disk: MemoryDisk;
  readonly serials: Serials;
  readonly makes: Makes;
  readonly makeUid: () => string;
}

export interface ControlPlaneOptions {
  readonly name: string;
  readonly timeline: Timeline;
  readonly fabric: Fabric;
  readonly rng: Rng;
  readonly installation: Installation;
  readonly machines: ReadonlyMap<string, Machine>;
  readonly mutation: Mutation;
  readonly requestFate: (host: string, what: string) => Fate;
  readonly storeFate: (write: boolean, batch: Batch | null) => StoreFate;
  /** Whether a service's or cluster's requests get no answer just now. */
  readonly hangs: (what: { readonly serviceId?: string; readonly clusterUid?: string }) => boolean;
  /** Arrows this life survives; null: it does not end by itself. */
  readonly arrows: () => number | null;
  readonly died: (plane: ControlPlane, where: string) => void;
  readonly log: (plane: string, level: string, message: string, fields: unknown) => void;
  readonly committed: (plane: string, batch: Batch) => void;
  /** The provider of a new life, before it does anything. */
  readonly born: (plane: ControlPlane, provider: RunningProvider['provider']) => void;
}

/** One name with many lives; one at a time. */
export class ControlPlane {
  readonly name: string;
  /** Wall clock's error against the true time. */
  skew: Millis = 0;
  channel: Channel | null = null;
  provider: RunningProvider | null = null;
  gate: Authority | null = null;
  lives = 0;
  readonly #options: ControlPlaneOptions;
  readonly #feeds = new Set<() => void>();
  #stalledUntil: Millis = 0;
  #life: { alive: boolean; arrows: number | null; readonly close: () => void } | null = null;

  constructor(options: ControlPlaneOptions) {
    this.name = options.name;
    this.#options = options;
  }

  get alive(): boolean {
    return this.#life?.alive ?? false;
  }

  start(): void {
    if (this.alive) return;
    const { timeline, installation, fabric, machines, requestFate, storeFate, mutation } = this.#options;
    const life = { alive: true, arrows: this.#options.arrows(), close: () => real.close() };
    this.#life = life;
    this.lives++;
    const clock = this.#clock(life);
    const log = this.#log(life);
    const { disk, makeUid } = installation;
    const real = openMemoryStore({ clock, disk, makeUid });
    const door = storeDoor({
      store: mutation.store?.(real) ?? real,
      timeline,
      fate: storeFate,
      arrow: (what) => this.#arrow(life, what),
      alive: () => life.alive,
      stalledUntil: () => this.#stalledUntil,
      feeds: this.#feeds,
      committed: (batch) => this.#options.committed(this.name, batch),
    });
    const store = mutation.afterDoor?.(door) ?? door;
    const rng = this.#options.rng.fork(`life ${this.lives}`);
    const channel = new Channel({
      name: this.name,
      timeline,
      fabric,
      clock,
      rng,
      machines,
      fate: requestFate,
      arrow: (what) => this.#arrow(life, what),
      reached: () => this.#reached(),
      hangs: this.#options.hangs,
    });
    this.channel = channel;
    const secrets = new WorldSecrets(store, installation.makes);
    const agents = mutation.agents?.(channel) ?? channel;
    const holder = `${this.name}/${this.lives}`;
    const kinds = [...new Set<string>([...PROVIDER_KINDS, ...FLEET_KINDS])];
    const engine = new Engine({ store, clock, log, holder, kinds });
    const source = new InformerFleet(engine.informer, agents);
    const made = { store, clock, log, source };
    const authority = new Authority(mutation.authority?.(made) ?? made);
    const gate = mutation.gate?.(authority) ?? authority;
    this.gate = gate;
    const provider = addProvider({
      engine,
      store,
      secrets,
      ca: worldAuthority(clock, installation.serials),
      agents,
      platform: new HostsPlatform(agents),
      clock,
      log,
      installation: 'world',
      agentVersion: '0',
      gate,
    });
    this.provider = provider;
    mutation.provider?.(provider.provider);
    this.#options.born(this, provider.provider);
    timeline.promised = true;
    // A process that cannot open its store ends, and whoever looks after it starts it again.
    gate
      .open()
      .then(() => engine.open())
      .catch(() => this.kill('it could not open'));
  }

  /** The process stands still, as one that swaps or is being moved: nothing reaches it until then; then all does. */
  stall(millis: Millis): void {
    const { timeline } = this.#options;
    this.#stalledUntil = Math.max(this.#stalledUntil, timeline.now + millis);
  }

  /** This life does not end by itself any more. */
  spare(): void {
    if (this.#life !== null) this.#life.arrows = null;
  }

  get stalledUntil(): Millis {
    return this.#stalledUntil;
  }

  /** When something that is due now gets to this process. */
  #reached(): Millis {
    return Math.max(this.#options.timeline.now, this.#stalledUntil);
  }

  /** The feed of objects ends, as when a connection to a database is cut. */
  breakFeed(): void {
    this.#options.timeline.promised = true;
    for (const end of [...this.#feeds]) end();
  }

  /** The process ends here and now: whatever it waits for never comes. */
  kill(where: string): void {
    const life = this.#life;
    if (life === null || !life.alive) return;
    life.alive = false;
    life.close();
    this.channel?.die();
    this.#options.timeline.promised = true;
    this.#options.died(this, where);
  }

  #arrow(life: { alive: boolean; arrows: number | null }, what: string): boolean {
    if (life.alive && life.arrows !== null && --life.arrows <= 0) this.kill(what);
    return life.alive;
  }

  #clock(life: { readonly alive: boolean }): Clock {
    const { timeline } = this.#options;
    const now = (): Millis => timeline.now + this.skew;
    return {
      now,
      monotonic: () => timeline.now,
      // A timer runs for a duration: a clock that jumps meanwhile changes nothing.
      at: (time, call) =>
        this.#timer(timeline.now + Math.max(0, time - now()), () => {
          if (!life.alive) return;
          timeline.promised = true;
          call();
        }),
    };
  }

  /** A timer of a process that stands still rings late. */
  #timer(at: Millis, ring: () => void): () => void {
    const { timeline } = this.#options;
    let cancel = timeline.at(at, () => {
      const reached = this.#reached();
      if (reached > timeline.now) cancel = this.#timer(reached, ring);
      else ring();
    });
    return () => cancel();
  }

  #log(life: { readonly alive: boolean }): Log {
    const write =
      (level: string) =>
      (message: string, fields?: Readonly<Record<string, unknown>>): void => {
        if (life.alive) this.#options.log(this.name, level, message, fields ?? {});
      };
    return { debug: () => {}, info: write('info'), warn: write('warn'), error: write('error') };
  }
}
