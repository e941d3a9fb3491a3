/** An application that writes with majority concern all the while, and looks for every acknowledged write at the end. */
import type { Rng } from '../base/rng.ts';
import { type Millis, SECOND } from '../base/units.ts';
import { clusterNamed, membersOf, primaryOf, statusOf } from './truth.ts';
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
    const primary = primaryOf(this.#world, uid);
    if (primary === null || primary.data.users.size < 5) return;
    const id = this.#next++;
    primary.write({ kind: 'write', id }, this.#world.timeline.now + WRITE_LIMIT, (answer) => {
      if (answer.kind !== 'done') return;
      const known = this.acknowledged.get(uid) ?? new Set();
      this.acknowledged.set(uid, known.add(id));
    });
  }

  /** Acknowledged writes that no member of the cluster's own data has; asked when the world is calm. */
  lost(uid: string): readonly number[] {
    const primary = primaryOf(this.#world, uid);
    const writes = primary?.data.writes ?? dataAtRest(this.#world, uid);
    return [...(this.acknowledged.get(uid) ?? [])].filter((id) => !writes.has(id));
  }
}

/** What volumes of a suspended cluster hold: the union, since nobody rolls back there. */
function dataAtRest(world: World, uid: string): ReadonlySet<number> {
  const all = new Set<number>();
  for (const machine of world.machines.values()) {
    for (const volume of machine.disk.volumes.values()) {
      if (volume.owner?.clusterUid !== uid) continue;
      for (const id of volume.data.writes) all.add(id);
    }
  }
  for (const { mongod } of membersOf(world, uid)) for (const id of mongod?.data.writes ?? []) all.add(id);
  return all;
}
