/**
 * The balancer of one sharded cluster: where it may run it makes shards even, one chunk at a time. A move copies for a while;
 * then the giver takes no more, the taker gets all, the config servers write down who has it, and the giver lets go, each by a
 * majority before the next. It may stop between any two of them: who was left giving asks the config servers how it ended, and
 * first makes sure that it cannot end in another way.
 */
import type { Rng } from '../base/rng.ts';
import { type Millis, SECOND } from '../base/units.ts';
import { CHUNKS, chunkOf, type Route, routeOf, takes } from './chunks.ts';
import type { Change, DataFolder } from './data.ts';
import type { Answer, Mongod } from './mongod.ts';
import { clusterNamed, primaryOf, setsOf, userSetOf } from './truth.ts';
import type { World } from './world.ts';

const WRITE_LIMIT: Millis = 10 * SECOND;

/** A chunk on its way. */
interface Move {
  readonly config: Mongod;
  readonly chunk: number;
  readonly from: Route;
  readonly to: string;
}

/** See the head of this file. */
export class Balancer {
  readonly #world: World;
  readonly #cluster: string;
  readonly #rng: Rng;

  constructor(world: World, cluster: string) {
    this.#world = world;
    this.#cluster = cluster;
    this.#rng = world.rng.fork(`balancer ${cluster}`);
    this.#later();
  }

  #later(): void {
    this.#world.timeline.after(SECOND + this.#rng.below(5 * SECOND), () => {
      this.#round();
      this.#later();
    });
  }

  #round(): void {
    const config = this.#configPrimary();
    if (config === null || config.moving !== null) return;
    for (const giver of this.#shards()) this.#endLeft(config, giver);
    const uneven = this.#uneven(config);
    if (uneven !== null) this.#begin(uneven, 50 + this.#rng.below(this.#world.weather.calm ? 500 : 4000));
  }

  /** Moves a chunk to another shard, even or not; it copies that long. */
  moveSome(millis: Millis): void {
    const config = this.#configPrimary();
    if (config === null || config.moving !== null || !config.data.balancerOn) return;
    const chunk = this.#rng.below(CHUNKS);
    const from = routeOf(config.data, chunk, config.machine.committed.op);
    const others = [...config.data.shards.keys()].filter((name) => name !== from?.shard);
    if (from !== null && others.length > 0)
      this.#begin({ config, chunk, from, to: this.#rng.pick(others) }, millis);
  }

  /** A chunk from the shard with the most to the one with the fewest; null: it is even, or the balancer is off. */
  #uneven(config: Mongod): Move | null {
    const { data, machine } = config;
    if (!data.balancerOn || data.shards.size < 2) return null;
    const routes = Array.from({ length: CHUNKS }, (_, chunk) => routeOf(data, chunk, machine.committed.op));
    const count = (name: string): number => routes.filter((route) => route?.shard === name).length;
    const names = [...data.shards.keys()].sort((a, b) => count(b) - count(a));
    const [most, fewest] = [names[0] as string, names.at(-1) as string];
    const chunk = routes.findIndex((route) => route?.shard === most);
    const from = routes[chunk];
    return from == null || count(most) - count(fewest) < 2 ? null : { config, chunk, from, to: fewest };
  }

  // ── one move ───────────────────────────────────────────────────────────────────────────────────────────────────

  #begin(move: Move, copies: Millis): void {
    const { config, chunk, from, to } = move;
    const waiting: (() => void)[] = [];
    config.moving = { waiting };
    this.#world.tell('balancer', `moves chunk ${chunk} of ${this.#cluster} from ${from.shard} to ${to}`);
    const over = (how: string): void => {
      this.#world.tell('balancer', `chunk ${chunk} of ${this.#cluster} ${how}`);
      config.moving = null;
      for (const wake of waiting) wake();
    };
    this.#world.timeline.after(copies, () => this.#give(move, over));
  }

  #give(move: Move, over: (how: string) => void): void {
    const { config, chunk, from, to } = move;
    const [giver, taker] = [this.#primary(from.shard), this.#primary(to)];
    const reaches = giver !== null && taker !== null && config.canUse(giver) && giver.canUse(taker);
    if (!reaches || !takes(giver.data, chunk, from.version)) {
      over('stays: its shards are not ready');
      return;
    }
    const version = from.version + 1;
    const ids = [...giver.data.writes].filter((id) => chunkOf(id) === chunk);
    this.#write(giver, { kind: 'gives', chunk, version }, over, () =>
      this.#write(this.#primary(to), { kind: 'gets', chunk, version, ids }, over, () => {
        const late = newest(config.data, chunk) !== from.version;
        const known = late ? null : config;
        this.#write(known, { kind: 'chunk', chunk, shard: to, version }, over, () => over(`is on ${to}`));
      }),
    );
  }

  #write(at: Mongod | null, change: Change, over: (how: string) => void, then: () => void): void {
    const came = ({ kind }: Answer): void => {
      if (kind === 'done') then();
      else over(`is left at ${change.kind}`);
    };
    if (at === null) came({ kind: 'lost' });
    else at.write(change, this.#world.timeline.now + WRITE_LIMIT, came);
  }

  // ── what is left of moves ──────────────────────────────────────────────────────────────────────────────────────

  #endLeft(config: Mongod, giver: Mongod): void {
    if (!giver.canUse(config)) return;
    const own = giver.options.setName;
    for (const [chunk, { state, version }] of giver.data.chunks) {
      if (state !== 'giving') continue;
      const route = routeOf(config.data, chunk, config.machine.committed.op);
      const write = (at: Mongod, change: Change): void =>
        at.write(change, this.#world.timeline.now + WRITE_LIMIT, () => {});
      if (route !== null && route.version >= version) {
        const kept = route.shard === own;
        write(
          giver,
          kept ? { kind: 'keeps', chunk, version: route.version } : { kind: 'gave', chunk, version },
        );
      } else if (newest(config.data, chunk) < version) {
        // From now on the move's own entry would come too late.
        write(config, { kind: 'chunk', chunk, shard: own, version: version + 1 });
      }
    }
  }

  // ── who is there ───────────────────────────────────────────────────────────────────────────────────────────────

  #configPrimary(): Mongod | null {
    const object = clusterNamed(this.#world, this.#cluster);
    return object === null ? null : primaryOf(this.#world, userSetOf(object));
  }

  #shards(): readonly Mongod[] {
    const object = clusterNamed(this.#world, this.#cluster);
    const sets = object === null ? [] : setsOf(object).slice(1);
    return sets.flatMap((set) => primaryOf(this.#world, set) ?? []);
  }

  #primary(shard: string): Mongod | null {
    return this.#shards().find(({ options }) => options.setName === shard) ?? null;
  }
}

/** The count of a chunk's moves by all that is written down here, a majority's or not. */
function newest({ placements }: DataFolder, chunk: number): number {
  const last = placements.findLast(({ change }) => change.kind === 'chunk' && change.chunk === chunk);
  return last?.change.kind === 'chunk' ? last.change.version : 0;
}
