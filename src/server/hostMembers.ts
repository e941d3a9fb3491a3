/**
 * Which members every host carries, from the statuses of all databases. Any control plane that shares the store can answer,
 * also one that leads none of these databases; a suspended one's volumes are still on its hosts, so they count.
 */
import type { Informer } from '../engine/informer.ts';
import type { StoredObject } from '../engine/ports.ts';
import type { MongoDBStatus } from '../model/index.ts';

export class HostMembers {
  readonly #byHost = new Map<string, Map<string, readonly string[]>>();

  constructor(informer: Pick<Informer, 'all' | 'onChange'>) {
    informer.onChange(({ before, after }) => this.#learn(before, after));
    for (const object of informer.all('MongoDB')) this.#learn(null, object);
  }

  /** `namespace/member`, in order. */
  on(host: string): readonly string[] {
    return [...(this.#byHost.get(host)?.values() ?? [])].flat().sort();
  }

  #learn(before: StoredObject | null, after: StoredObject | null): void {
    if ((after ?? before)?.kind !== 'MongoDB') return;
    if (before !== null)
      for (const host of placesOf(before).keys()) this.#byHost.get(host)?.delete(before.metadata.uid);
    if (after === null) return;
    for (const [host, members] of placesOf(after)) {
      const clusters = this.#byHost.get(host) ?? new Map<string, readonly string[]>();
      clusters.set(after.metadata.uid, members);
      this.#byHost.set(host, clusters);
    }
  }
}

function placesOf({ metadata, status }: StoredObject): ReadonlyMap<string, readonly string[]> {
  const places = new Map<string, string[]>();
  for (const { name, hostName } of (status as MongoDBStatus | null)?.members ?? []) {
    if (hostName === undefined) continue;
    const members = places.get(hostName) ?? [];
    members.push(`${metadata.namespace}/${name}`);
    places.set(hostName, members);
  }
  return places;
}
