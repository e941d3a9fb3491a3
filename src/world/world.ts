/** Everything there is in one run: machines, network, control planes, the store's disk, people's own door to it. */
import { makeRng, type Rng } from '../base/rng.ts';
import type { Millis } from '../base/units.ts';
import type { Batch, Store } from '../engine/ports.ts';
import type { RunningProvider } from '../provider/setup.ts';
import type { Output } from '../simulator/member/index.ts';
import { openMemoryStore } from '../store/memory.ts';
import { memoryDisk } from '../store/memory-tables.ts';
import type { AgentOutside, Deed } from './agent.ts';
import { newSerials } from './authority.ts';
import type { Balancer } from './balancer.ts';
import { ControlPlane, type Installation } from './controlPlane.ts';
import { Fabric } from './fabric.ts';
import { Machine } from './machine.ts';
import type { Mongod, Neighbourhood } from './mongod.ts';
import type { Mutation } from './mutation.ts';
import { Narrator } from './narrator.ts';
import type { Router } from './router.ts';
import { Timeline } from './timeline.ts';
import { Looked } from './truth.ts';
import type { Weather } from './weather.ts';

/** Those who watch the true world: each may look at what it needs. */
export interface Watcher {
  /** An agent really did something it was told to. */
  deed?(machine: Machine, deed: Deed): void;
  /** A control plane's write is in the store. */
  committed?(plane: string, batch: Batch): void;
  logged?(plane: string, message: string, fields: unknown): void;
  /** A member made a step. */
  member?(mongod: Mongod, outputs: readonly Output[]): void;
  /** A new life of a control plane; its provider may be listened to. */
  born?(plane: ControlPlane, provider: RunningProvider['provider']): void;
  /** Every virtual second. */
  second?(): void;
  /** The run is over and was good so far. */
  end?(): void;
}

export interface WorldOptions {
  readonly seed: number;
  readonly hosts: readonly { readonly name: string; readonly versions: readonly string[] }[];
  readonly planes: number;
  readonly mutation: Mutation;
  readonly weather: (world: World) => Weather;
}

/** See the head of this file. */
export class World {
  readonly seed: number;
  readonly timeline = new Timeline();
  readonly narrator: Narrator;
  readonly rng: Rng;
  readonly fabric: Fabric;
  readonly machines = new Map<string, Machine>();
  readonly planes: ControlPlane[] = [];
  readonly installation: Installation;
  /** People's and the API server's door: nothing of the weather reaches it. */
  readonly people: Store;
  readonly #watchers: { readonly [K in keyof Watcher]-?: Watcher[] } = {
    deed: [],
    committed: [],
    logged: [],
    member: [],
    born: [],
    second: [],
    end: [],
  };
  readonly weather: Weather;
  readonly listening: Map<string, Mongod> = new Map();
  readonly routers: Map<string, Router> = new Map();
  readonly walls: Set<(a: string, b: string) => boolean> = new Set();
  readonly mutation: Mutation;
  /** Of sharded clusters, by name. */
  readonly balancers = new Map<string, Balancer>();
  /** The cluster whose members answer nothing (L4). */
  hanging: string | null = null;
  /** What was found in this second's look; null: none is under way. */
  looked: Looked | null = null;
  #sets = 0;

  constructor(options: WorldOptions) {
    const { seed, hosts, planes, mutation } = options;
    this.seed = seed;
    this.mutation = mutation;
    this.rng = makeRng(seed);
    this.narrator = new Narrator(this.timeline);
    this.fabric = new Fabric(this.rng.fork('network'));
    const uids = this.rng.fork('uids');
    const makeUid = (): string =>
      uids
        .below(2 ** 31)
        .toString(16)
        .padStart(8, '0') + uids.below(2 ** 31).toString(16);
    this.installation = { disk: memoryDisk(), serials: newSerials(), makes: new Map(), makeUid };
    const clock = {
      now: () => this.timeline.now,
      at: (at: Millis, call: () => void) => this.timeline.at(at, call),
    };
    this.people = openMemoryStore({ clock, disk: this.installation.disk, makeUid });
    this.weather = options.weather(this);
    const near = this.#neighbourhood();
    for (const { name, versions } of hosts) {
      const rng = this.rng.fork(`host ${name}`);
      const bugs = mutation.agentBugs ?? {};
      this.machines.set(name, new Machine({ name, versions, near, rng, bugs, outside: this.#outside() }));
    }
    for (let index = 0; index < planes; index++) this.planes.push(this.#plane(`plane${index + 1}`));
    this.#eachSecond();
  }

  tell(who: string, what: string): void {
    this.narrator.tell(who, what);
  }

  /** From now on it is told what it can hear. */
  watch(watcher: Watcher): void {
    for (const [what, hearers] of Object.entries(this.#watchers)) {
      if (watcher[what as keyof Watcher] !== undefined) hearers.push(watcher);
    }
  }

  /** The run is over. */
  end(): void {
    for (const watcher of this.#watchers.end) watcher.end?.();
  }

  #eachSecond(): void {
    this.timeline.after(1000, () => {
      this.looked = new Looked();
      for (const watcher of this.#watchers.second) watcher.second?.();
      this.looked = null;
      this.#eachSecond();
    });
  }

  #neighbourhood(): Neighbourhood {
    return {
      timeline: this.timeline,
      fabric: this.fabric,
      listening: this.listening,
      routers: this.routers,
      walls: this.walls,
      rng: this.rng.fork('members'),
      watch: (mongod, outputs) => this.#memberStep(mongod, outputs),
      cloneTakes: () => this.weather.clone(),
    };
  }

  #memberStep(mongod: Mongod, outputs: readonly Output[]): void {
    for (const output of outputs) {
      if (output.kind === 'stateChanged') this.tell(mongod.host, `${output.from} → ${output.to}`);
      else if (output.kind === 'saveConfig') {
        const { version, term, members } = output.config;
        this.tell(
          mongod.host,
          `configuration ${version}/${term} with ${members.map((m) => m.host).join(' ')}`,
        );
      }
    }
    for (const watcher of this.#watchers.member) watcher.member?.(mongod, outputs);
  }

  #outside(): AgentOutside {
    const each = (act: (plane: ControlPlane) => void): void => {
      for (const plane of this.planes) act(plane);
    };
    return {
      fate: (machine, operation) => this.weather.operation(machine, operation),
      startMillis: () => this.weather.startMillis(),
      lookMillis: (machine) => this.weather.lookMillis(machine),
      newSetId: () => {
        this.#sets++;
        return this.#sets.toString(16).padStart(24, '0');
      },
      started: (machine) => each((plane) => plane.channel?.agentStarted(machine.name)),
      died: (machine) => each((plane) => plane.channel?.agentDied(machine.name)),
      report: (machine, ids) => {
        const { agent } = machine;
        if (agent === null) return;
        const items = ids.map((id) => agent.item(id));
        each((plane) => plane.channel?.report(machine.name, agent, ids, items));
      },
      operationChanged: (machine, operation, facts) => {
        this.tell(
          machine.name,
          `${operation.kind} ${operation.id}: ${facts.kind}${'code' in facts ? ` ${facts.code}` : ''}`,
        );
        const { agent } = machine;
        if (agent !== null) each((plane) => plane.channel?.operationChanged(machine.name, agent, operation));
      },
      did: (machine, deed) => this.#deed(machine, deed),
    };
  }

  #deed(machine: Machine, deed: Deed): void {
    this.tell(machine.name, deedText(deed));
    for (const watcher of this.#watchers.deed) watcher.deed?.(machine, deed);
  }

  #plane(name: string): ControlPlane {
    return new ControlPlane({
      name,
      timeline: this.timeline,
      fabric: this.fabric,
      rng: this.rng.fork(name),
      installation: this.installation,
      machines: this.machines,
      mutation: this.mutation,
      requestFate: (host, what) => this.weather.request(host, what),
      storeFate: (write, batch) => this.weather.store(write, batch),
      hangs: ({ serviceId, clusterUid }) => this.#hangs(serviceId, clusterUid),
      arrows: () => this.weather.arrows(),
      died: (plane, where) => {
        this.tell(plane.name, `dies ${where}`);
        this.weather.planeDied(plane);
      },
      log: (plane, level, message, fields) => this.#logged(plane, level, message, fields),
      committed: (plane, batch) => this.#committed(plane, batch),
      born: (plane, provider) => {
        for (const watcher of this.#watchers.born) watcher.born?.(plane, provider);
      },
    });
  }

  #hangs(serviceId: string | undefined, clusterUid: string | undefined): boolean {
    if (this.hanging === null) return false;
    if (clusterUid === this.hanging) return true;
    for (const machine of this.machines.values()) {
      if (machine.disk.services.get(serviceId ?? '')?.owner?.clusterUid === this.hanging) return true;
    }
    return false;
  }

  #logged(plane: string, level: string, message: string, fields: unknown): void {
    if (level !== 'info' || message !== 'step done')
      this.tell(plane, `${level} ${message} ${JSON.stringify(fields)}`);
    for (const watcher of this.#watchers.logged) watcher.logged?.(plane, message, fields);
  }

  #committed(plane: string, batch: Batch): void {
    for (const { id, step, target, reason } of batch.intents ?? [])
      this.tell(plane, `intends ${step} ${target} because ${reason} (${id})`);
    for (const { id, kind, message } of batch.outcomes ?? []) this.tell(plane, `${kind} ${id} ${message}`);
    for (const { key, value } of batch.status ?? []) {
      const status = value as { phase?: unknown; message?: unknown } | null;
      this.tell(plane, `status of ${key.kind} ${key.name}: ${status?.phase ?? ''} ${status?.message ?? ''}`);
    }
    for (const { reason, message } of batch.events ?? []) this.tell(plane, `event ${reason}: ${message}`);
    for (const watcher of this.#watchers.committed) watcher.committed?.(plane, batch);
  }
}

function deedText(deed: Deed): string {
  switch (deed.kind) {
    case 'publish':
      return `publish ${deed.snapshot.member} ${deed.snapshot.configVersion} (epoch ${deed.fence.epoch})`;
    case 'run':
      return `run ${deed.command.kind} on ${deed.serviceId} (epoch ${deed.fence.epoch})`;
    case 'operate':
      return `${deed.operation.kind} ${deed.operation.id} (epoch ${deed.fence.epoch})`;
    case 'stop':
      return `stops ${deed.run.process.host} for ${deed.why}`;
    case 'deleteVolume':
      return `deletes volume ${deed.operation.volumeId}`;
  }
}
