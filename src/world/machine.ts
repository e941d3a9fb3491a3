/** One host: what lies on its disk, what runs on it, and the agent that looks after both. */
import type { Rng } from '../base/rng.ts';
import { GIB, type Millis } from '../base/units.ts';
import type {
  HostFacts,
  MemberFacts,
  MemberSnapshot,
  OperationFacts,
  OwnerMarker,
  ServiceSpec,
} from '../clusters/index.ts';
import type { HostOperation } from '../engine/ports.ts';
import { Agent, type AgentOutside } from './agent.ts';
import type { DataFolder } from './data.ts';
import type { Mongod, Neighbourhood } from './mongod.ts';
import type { AgentBugs } from './mutation.ts';
import type { Router } from './router.ts';

export interface ServiceRecord {
  readonly id: string;
  readonly owner: OwnerMarker | null;
  readonly hostname: string;
  readonly address: string;
  readonly port: number;
  readonly volumeId: string;
  readonly version: string | null;
  readonly resources: ServiceSpec['resources'];
}

/** A volume with the marker that says whose it is. */
export interface Volume {
  readonly id: string;
  readonly owner: OwnerMarker | null;
  readonly hostname: string;
  /** Id of the set the data belongs to, once seen. */
  replicaSetId: string | null;
  /** Newest series that has answered with the data (S7). */
  newestRun?: string;
  readonly data: DataFolder;
}

export interface OperationEntry {
  readonly operation: HostOperation;
  facts: OperationFacts;
  /** Decided before anything was made. */
  place: { readonly serviceId: string; readonly volumeId: string; readonly port: number } | null;
}

/** What survives everything but the disk's own end. */
export interface HostDisk {
  readonly services: Map<string, ServiceRecord>;
  readonly volumes: Map<string, Volume>;
  readonly snapshots: Map<string, MemberSnapshot>;
  readonly operations: Map<string, OperationEntry>;
  /** Newest epoch seen per lease (S9). */
  readonly epochs: Map<string, number>;
}

/** A database process or a router, and what was written down of it when it was started. */
export interface Run {
  readonly process: Mongod | Router;
  readonly since: Millis;
  readonly version: string;
  configVersion: number;
  inputs: string;
  certificates: string;
  confirmed: boolean;
  /** What the process was started with. */
  certificate: MemberFacts['certificate'];
}

export interface MachineOptions {
  readonly name: string;
  readonly versions: readonly string[];
  readonly near: Neighbourhood;
  readonly rng: Rng;
  readonly outside: AgentOutside;
  readonly bugs: AgentBugs;
}

/** See the head of this file. */
export class Machine {
  readonly name: string;
  readonly address: string;
  readonly near: Neighbourhood;
  readonly rng: Rng;
  readonly bugs: AgentBugs;
  readonly disk: HostDisk = {
    services: new Map(),
    volumes: new Map(),
    snapshots: new Map(),
    operations: new Map(),
    epochs: new Map(),
  };
  readonly runs = new Map<string, Run>();
  versions: readonly string[];
  diskFull = false;
  up = true;
  agent: Agent | null;
  readonly #outside: AgentOutside;
  #ids = 0;

  constructor(options: MachineOptions) {
    this.name = options.name;
    this.address = `${options.name}.test`;
    this.versions = options.versions;
    this.near = options.near;
    this.rng = options.rng;
    this.bugs = options.bugs;
    this.#outside = options.outside;
    this.agent = new Agent(this, options.outside);
  }

  newId(prefix: string): string {
    this.#ids++;
    return `${prefix}-${this.name}-${this.#ids}`;
  }

  get facts(): HostFacts {
    return {
      name: this.name,
      address: this.address,
      agentVersion: '0',
      os: 'linux',
      cpus: 8,
      memoryBytes: 32 * GIB,
      diskTotalBytes: 100 * GIB,
      diskFreeBytes: this.diskFull ? 0 : 90 * GIB,
      fingerprint: this.name,
      executables: { mongod: this.versions, mongos: this.versions },
      labels: {},
    };
  }

  crashAgent(): void {
    this.agent?.die();
    this.agent = null;
  }

  startAgent(): void {
    if (this.up && this.agent === null) this.agent = new Agent(this, this.#outside);
  }

  /** The power goes: agent and databases with it. */
  crash(): void {
    this.up = false;
    this.crashAgent();
    for (const run of [...this.runs.values()]) run.process.kill('SIGKILL');
    this.runs.clear();
  }

  boot(): void {
    this.up = true;
    this.startAgent();
  }
}
