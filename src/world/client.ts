/** An application that writes with majority concern all the while, and looks for every acknowledged write at the end. */
import type { Rng } from '../base/rng.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type { StoredObject } from '../engine/ports.ts';
import { reached } from '../simulator/member/optime.ts';
import { chunkOf, routeOf } from './chunks.ts';
import type { DataFolder } from './data.ts';
import type { Answer } from './mongod.ts';
import {
  clusterNamed,
  membersOf,
  type Part,
  partOf,
  primaryOf,
  routersOf,
  setsOf,
  specOf,
  statusOf,
  userSetOf,
} from './truth.ts';
import type { World } from './world.ts';

const WRITE_LIMIT: Millis = 10 * SECOND;

/** Writes to one cluster by its name; what was acknowledged is remembered per uid. */
export class Client {
  readonly acknowledged = new Map<string, Set<number>>();
  readonly #world: World;
  readonly #cluster: string;
  readonly #rng: Rng;
  #next = 1;

  constructor(world: World, cluster: string) {
    this.#world = world;
    this.#cluster = cluster;
    this.#rng = world.rng.fork(`client ${cluster}`);
    this.#later();
  }

  #later(): void {
    const most = this.#world.weather.calm ? 6000 : 2500;
    this.#world.timeline.after(500 + this.#rng.below(most), () => {
      this.#write();
      this.#later();
    });
  }

  /** An application is there as soon as the cluster was ready once. */
  #write(): void {
    const object = clusterNamed(this.#world, this.#cluster);
    if (object === null || statusOf(object)?.phase === undefined) return;
    const { uid } = object.metadata;
    const limit = this.#world.timeline.now + WRITE_LIMIT;
    const came = (id: number, answer: Answer): void => {
      if (answer.kind !== 'done') return;
      const known = this.acknowledged.get(uid) ?? new Set();
      this.acknowledged.set(uid, known.add(id));
    };
    if (specOf(object).type === 'ShardedCluster') {
      this.#throughRouter(object, limit, came);
      return;
    }
    const primary = primaryOf(this.#world, uid);
    if (primary === null || primary.data.users.size < 5) return;
    const id = this.#next++;
    primary.write({ kind: 'write', id }, limit, (answer) => came(id, answer));
  }

  #throughRouter(object: StoredObject, limit: Millis, came: (id: number, answer: Answer) => void): void {
    const routers = membersOf(this.#world, routersOf(object)).flatMap(({ router }) => router ?? []);
    const up = routers.filter(({ phase }) => phase === 'listening');
    const router = up[this.#rng.below(Math.max(1, up.length))];
    if (router === undefined) return;
    const id = this.#next++;
    router.write(id, limit, (answer) => came(id, answer));
  }

  /** Acknowledged writes that nobody finds any more; asked when the world is calm. */
  lost(object: StoredObject): readonly number[] {
    const acknowledged = [...(this.acknowledged.get(object.metadata.uid) ?? [])];
    const sets = new Map(setsOf(object).map((set) => [set, this.#dataOf(set)]));
    if (specOf(object).type !== 'ShardedCluster') {
      const data = sets.get(userSetOf(object));
      return acknowledged.filter((id) => data?.writes.has(id) !== true);
    }
    // Where a router would look: what lies on another shard is lost too.
    const config = sets.get(userSetOf(object)) ?? null;
    return acknowledged.filter((id) => {
      const route = config === null ? null : routeOf(config, chunkOf(id), config.last.op);
      const data = route === null ? null : sets.get(`${object.metadata.uid}/${route.shard}`);
      return data?.writes.has(id) !== true;
    });
  }

  /** What a set's primary has, or the newest of its volumes where nothing runs: a majority's writes are all in that one. */
  #dataOf(set: Part): DataFolder | null {
    const running = primaryOf(this.#world, set)?.data;
    if (running !== undefined) return running;
    const all = [...this.#world.machines.values()]
      .flatMap(({ disk }) => [...disk.volumes.values()])
      .filter(({ owner }) => owner !== null && partOf(owner) === set);
    return all
      .map(({ data }) => data)
      .reduce<DataFolder | null>(
        (best, d) => (best !== null && reached(best.last.op, d.last.op) ? best : d),
        null,
      );
  }
}
