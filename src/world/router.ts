/**
 * One router of a sharded cluster: a process without data that knows the cluster by asking its config servers. It listens
 * only once it has reached them, serves whatever a majority of them says at that moment, and follows their set's members.
 */
import type { Millis } from '../base/units.ts';
import { majorOf } from '../model/index.ts';
import { compareConfigs } from '../simulator/member/config.ts';
import { chunkOf, routeOf, takes } from './chunks.ts';
import type { Change } from './data.ts';
import {
  type Answer,
  type Exit,
  type Mongod,
  type MongodOptions,
  type Neighbourhood,
  speaks,
} from './mongod.ts';

const RETRY: Millis = 2_000;
/** The program's exit code for config servers that do not fit. */
const EXIT_SHARDING_ERROR = 5;

export interface RouterOptions extends Omit<MongodOptions, 'setName' | 'configServer' | 'data'> {
  /** `set/host:port,…` */
  readonly configServers: string;
}

/** See the head of this file. */
export class Router {
  readonly kind = 'router';
  readonly options: RouterOptions;
  readonly host: string;
  readonly pid: number;
  phase: 'starting' | 'listening' | 'gone' = 'starting';
  since: Millis = 0;
  stopping = false;
  /** It stands still: whoever asks it anything gets no answer. */
  stuck = false;
  readonly #near: Neighbourhood;
  #servers: readonly string[];

  constructor(near: Neighbourhood, options: RouterOptions, pid: number) {
    this.#near = near;
    this.options = options;
    this.pid = pid;
    this.host = `${options.address}:${options.port}`;
    this.#servers = (options.configServers.split('/')[1] ?? '').split(',');
    near.timeline.after(options.startMillis, () => this.#load());
  }

  // ── life ───────────────────────────────────────────────────────────────────────────────────────────────────────

  #load(): void {
    if (this.phase !== 'starting') return;
    const { refuses, port } = this.options;
    const taken = this.#near.listening.has(this.host) || this.#near.routers.has(this.host);
    if (refuses !== null) this.#end({ code: 2, signal: null, message: refuses });
    else if (taken) this.#end({ code: 48, signal: null, message: `port ${port} is in use` });
    else this.#meet();
  }

  #meet(): void {
    const primary = this.stuck ? null : this.configPrimary();
    if (primary === null) {
      this.#near.timeline.after(RETRY, () => this.#load());
      return;
    }
    if (!this.#fits(primary)) {
      const message = `the config servers have feature compatibility version ${primary.data.fcv}`;
      this.#end({ code: EXIT_SHARDING_ERROR, signal: null, message });
      return;
    }
    this.phase = 'listening';
    this.since = this.#near.timeline.now;
    this.#near.routers.set(this.host, this);
    this.options.changed();
  }

  #fits(primary: Mongod): boolean {
    return (majorOf(this.options.version) ?? 0) >= (majorOf(primary.data.fcv ?? '') ?? 0);
  }

  /** SIGTERM: there is nothing to hand over. One that stands still cannot obey. */
  terminate(): void {
    if (this.phase === 'gone' || this.stopping) return;
    this.stopping = true;
    if (!this.stuck) this.#end({ code: 0, signal: null, message: 'it was shut down' });
  }

  kill(signal = 'SIGKILL'): void {
    this.#end({ code: null, signal, message: `it was ended by ${signal}` });
  }

  /** It goes on after it stood still. */
  wake(): void {
    this.stuck = false;
    if (this.stopping) this.#end({ code: 0, signal: null, message: 'it was shut down' });
  }

  #end(exit: Exit): void {
    if (this.phase === 'gone') return;
    if (this.#near.routers.get(this.host) === this) this.#near.routers.delete(this.host);
    this.phase = 'gone';
    this.options.exited(exit);
  }

  // ── the cluster as it knows it ─────────────────────────────────────────────────────────────────────────────────

  /** The primary of the config servers, when it gets through to it; its words are those of a majority. */
  configPrimary(): Mongod | null {
    const reached = this.#reachable(this.#servers);
    const configs = reached.flatMap(({ machine }) => machine.config ?? []);
    const newest = configs.sort(compareConfigs).at(-1);
    if (newest !== undefined) this.#servers = newest.members.map(({ host }) => host);
    return primaryAmong(newest === undefined ? reached : this.#reachable(this.#servers));
  }

  /** The primary of a shard, when it gets through to it. */
  shardPrimary(name: string): Mongod | null {
    if (this.configPrimary()?.data.shards.has(name) !== true) return null;
    // Config servers follow the changes of their shards' sets; the name stays.
    const all = [...this.#near.listening.values()].filter((m) => m.options.setName === name);
    return primaryAmong(all.filter((member) => this.#uses(member)));
  }

  #reachable(hosts: readonly string[]): readonly Mongod[] {
    return hosts.flatMap((host) => {
      const found = this.#near.listening.get(host);
      return found !== undefined && this.#uses(found) ? [found] : [];
    });
  }

  #uses(to: Mongod): boolean {
    const { fabric, walls } = this.#near;
    const { place, tlsMode, keyFile } = this.options;
    if (to.phase !== 'listening' || keyFile !== to.options.keyFile) return false;
    if (!speaks(tlsMode, to.options.tlsMode) || !fabric.reaches(place, to.options.place)) return false;
    for (const wall of walls) if (wall(this.host, to.host)) return false;
    return true;
  }

  // ── writes ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Writes on the config servers with their majority. */
  writeConfig(change: Change, deadline: Millis, answer: (answer: Answer) => void): void {
    const primary = this.configPrimary();
    if (primary === null) answer(NO_CONFIG_PRIMARY);
    else primary.write(change, deadline, (came) => answer(this.phase === 'gone' ? { kind: 'lost' } : came));
  }

  /** A document of an application: it lands on the shard that has its chunk, and is acknowledged by that one's majority. */
  write(id: number, deadline: Millis, answer: (answer: Answer) => void): void {
    const config = this.configPrimary();
    const chunk = chunkOf(id);
    const route = config === null ? null : routeOf(config.data, chunk, config.machine.committed.op);
    const primary = route === null ? null : this.shardPrimary(route.shard);
    if (this.stuck || route === null || primary === null) answer({ kind: 'lost' });
    else if (!takes(primary.data, chunk, route.version)) answer(STALE_CONFIG);
    else
      primary.write({ kind: 'write', id }, deadline, (came) =>
        answer(this.phase === 'gone' || this.stuck ? { kind: 'lost' } : came),
      );
  }
}

/** The writable one of the newest term. */
export const primaryAmong = (members: readonly Mongod[]): Mongod | null =>
  members
    .filter((member) => member.writable)
    .reduce<Mongod | null>(
      (best, m) => (best === null || m.machine.term > best.machine.term ? m : best),
      null,
    );

const NO_CONFIG_PRIMARY: Answer = {
  kind: 'refused',
  refusal: {
    code: 133,
    codeName: 'FailedToSatisfyReadPreference',
    message: 'Could not find host matching read preference { mode: "primary" } for the config servers',
  },
};

const STALE_CONFIG: Answer = {
  kind: 'refused',
  refusal: { code: 13388, codeName: 'StaleConfig', message: 'the chunk is elsewhere, or on its way' },
};
