/** The fleet out of the store's feed: topologies with pushed health, managed databases with their statuses, and hosts. */
import type { Millis } from '../base/units.ts';
import type { Informer, ObjectChanged } from '../engine/informer.ts';
import type { Agents, StoredObject } from '../engine/ports.ts';
import { type FleetSpec, healthUntil, managedFleet, topologyFleet } from '../maintenance/index.ts';
import type { MongoDBSpec, MongoDBStatus, Topology } from '../model/index.ts';
import type { FleetSource } from './ports.ts';

/** Kinds the fleet is made from; the informer must keep them. */
export const FLEET_KINDS = ['MongoDB', 'Host', 'Topology'] as const;

const HOSTS = 'hosts';

/** Name of an object's part of the fleet. */
export const partName = (kind: string, namespace: string, name: string): string =>
  kind === 'Topology' ? `topology/${name}` : `mongodb/${namespace}/${name}`;

/** See the head of this file. Call `close` when nobody looks any more. */
export class InformerFleet implements FleetSource {
  readonly #informer: Pick<Informer, 'all' | 'onChange'>;
  readonly #agents: Pick<Agents, 'host' | 'onChange'>;
  readonly #listeners = new Set<() => void>();
  readonly #stop: readonly (() => void)[];
  #parts: ReadonlyMap<string, FleetSpec> = new Map();
  /** Objects whose part has to be made anew, by name of the part; null: all of them. */
  #dirty: Map<string, StoredObject | null> | null = null;
  /** When pushed health gets too old, by name of the part. */
  readonly #until = new Map<string, Millis>();
  readonly #byHost = new Map<string, Set<string>>();

  constructor(informer: Pick<Informer, 'all' | 'onChange'>, agents: Pick<Agents, 'host' | 'onChange'>) {
    this.#informer = informer;
    this.#agents = agents;
    this.#stop = [
      informer.onChange((change) => this.#learn(change)),
      agents.onChange((change) => {
        if (change.kind === 'host') this.#hostChanged(change.host);
      }),
    ];
  }

  close(): void {
    for (const stop of this.#stop) stop();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  parts(now: Millis): ReadonlyMap<string, FleetSpec> {
    for (const [name, until] of this.#until) if (until <= now) this.#markTopology(name);
    if (this.#dirty !== null && this.#dirty.size === 0) return this.#parts;
    const parts = new Map(this.#parts);
    if (this.#dirty === null) {
      parts.clear();
      for (const kind of ['Topology', 'MongoDB']) {
        for (const object of this.#informer.all(kind)) this.#make(parts, nameOf(object), object, now);
      }
      parts.set(HOSTS, this.#hosts());
    } else {
      for (const [name, object] of this.#dirty) {
        if (name === HOSTS) parts.set(HOSTS, this.#hosts());
        else this.#make(parts, name, object, now);
      }
    }
    this.#dirty = new Map();
    this.#parts = parts;
    return parts;
  }

  #hosts(): FleetSpec {
    return { nodes: [], hosts: this.#informer.all('Host').map((host) => host.metadata.name) };
  }

  #make(parts: Map<string, FleetSpec>, name: string, object: StoredObject | null, now: Millis): void {
    this.#until.delete(name);
    if (object === null) {
      parts.delete(name);
      return;
    }
    const part = object.kind === 'Topology' ? this.#topology(name, object, now) : this.#database(object);
    for (const host of new Set(part.nodes.map((node) => node.host))) {
      const names = this.#byHost.get(host);
      if (names === undefined) this.#byHost.set(host, new Set([name]));
      else names.add(name);
    }
    parts.set(name, part);
  }

  #topology(name: string, object: StoredObject, now: Millis): FleetSpec {
    const spec = object.spec as Topology['spec'];
    const status = (object.status as Topology['status'] | null) ?? null;
    const until = healthUntil(spec, status, now);
    if (until !== null) this.#until.set(name, until);
    return topologyFleet(object.metadata.name, spec, status, now);
  }

  #database({ metadata, spec, status }: StoredObject): FleetSpec {
    const { namespace, name } = metadata;
    const database = {
      namespace,
      name,
      spec: spec as MongoDBSpec,
      status: status as MongoDBStatus | null,
    };
    // A host this process has never heard of may be another control plane's: then the status alone is believed.
    return managedFleet(database, (host) => this.#agents.host(host)?.connected !== false);
  }

  #learn({ before, after }: ObjectChanged): void {
    const object = after ?? before;
    if (object === null) return;
    if (object.kind === 'Host') this.#mark(HOSTS, null);
    else if (object.kind === 'Topology' || object.kind === 'MongoDB') this.#mark(nameOf(object), after);
  }

  #hostChanged(host: string): void {
    for (const name of this.#byHost.get(host) ?? []) {
      const object = this.#informer.all('MongoDB').find((o) => nameOf(o) === name);
      if (object !== undefined) this.#mark(name, object);
    }
  }

  #markTopology(name: string): void {
    const object = this.#informer.all('Topology').find((o) => nameOf(o) === name);
    if (object !== undefined) this.#mark(name, object);
    else this.#until.delete(name);
  }

  #mark(name: string, object: StoredObject | null): void {
    this.#dirty?.set(name, object);
    for (const listener of this.#listeners) listener();
  }
}

const nameOf = ({ kind, metadata }: StoredObject): string =>
  partName(kind, metadata.namespace, metadata.name);
