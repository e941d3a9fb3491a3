/**
 * Hosts with agents in memory: the engine's port `Agents` with the behaviour that matters: operations started once per
 * id, snapshots, replica sets that are initiated, elect and know users, volumes that outlive runtimes, and refusal of
 * older epochs. Real time does not pass here: everything is immediate unless told otherwise.
 */
import { BelayError } from '../../base/error.ts';
import { hash } from '../../base/rng.ts';
import { GIB } from '../../base/units.ts';
import type {
  CommandOutcome,
  DatabaseFacts,
  HostFacts,
  MemberCommand,
  MemberSnapshot,
  OperationFacts,
  OwnerMarker,
  ReplSetConfig,
  ServiceFacts,
  ServiceSpec,
} from '../../clusters/index.ts';
import type {
  AgentChange,
  Agents,
  Clock,
  Fence,
  HostOperation,
  HostReport,
  MemberRef,
  MemberReport,
} from '../ports.ts';

/** What lies on a volume: it outlives the runtime. */
interface Data {
  replicaSetId: string | null;
  config: ReplSetConfig | null;
  fcv: string;
  readonly users: Map<string, { readonly password: string | null; readonly roles: readonly unknown[] }>;
}
interface Volume {
  readonly id: string;
  readonly owner: OwnerMarker;
  readonly name: string;
  data: Data;
  sizeBytes: number | null;
}
/** No volume of this fleet gets larger. */
const DISK = 1024 ** 4;
interface Runtime {
  readonly id: string;
  readonly owner: OwnerMarker;
  readonly hostname: string;
  readonly port: number;
  readonly volume: Volume;
  deployed: string | null;
  snapshot: MemberSnapshot | null;
  /** The snapshot its process runs with: another than it was given while it has not taken its certificates. */
  runs: MemberSnapshot | null;
  up: boolean;
}
interface Machine {
  facts: HostFacts;
  connected: boolean;
  readonly runtimes: Map<string, Runtime>;
  readonly volumes: Map<string, Volume>;
  readonly operations: Map<string, OperationFacts>;
}

export interface FleetHooks {
  /** Before an effect reaches its host; throw to lose it. */
  readonly before?: (what: string) => Promise<void> | void;
  /** After it was carried out; throw to lose the answer. */
  readonly after?: (what: string) => Promise<void> | void;
  /** Fails an operation that would otherwise succeed. */
  readonly fail?: (operation: HostOperation) => { readonly code: string; readonly message: string } | null;
  /** Refuses a command. */
  readonly refuse?: (command: MemberCommand) => CommandOutcome | null;
}

/** See the head of this file. */
export class FakeFleet implements Agents {
  readonly #clock: Clock;
  readonly #machines = new Map<string, Machine>();
  readonly #listeners = new Set<(change: AgentChange) => void>();
  readonly #epochs = new Map<string, number>();
  hooks: FleetHooks = {};
  /** Commands carried out, `initiate orders-0` for example. */
  readonly done: string[] = [];
  /** Ids of operations that did something. */
  readonly operationIds: string[] = [];
  readonly snapshots: MemberSnapshot[] = [];
  /** Times `services` was asked. */
  listings = 0;

  constructor(clock: Clock, hosts: readonly string[]) {
    this.#clock = clock;
    for (const host of hosts) this.addHost(host);
  }

  // ── the world's levers ─────────────────────────────────────────────────────────────────────────────────────────

  addHost(name: string, change: Partial<HostFacts> = {}): void {
    const facts: HostFacts = {
      name,
      address: name,
      agentVersion: '0',
      os: 'linux',
      cpus: 4,
      memoryBytes: 8 * GIB,
      diskTotalBytes: 100 * GIB,
      diskFreeBytes: 90 * GIB,
      fingerprint: name,
      executables: { mongod: ['8.0.32-14'] },
      labels: {},
      ...change,
    };
    const empty = { runtimes: new Map(), volumes: new Map(), operations: new Map() };
    this.#machines.set(name, { facts, connected: true, ...empty });
    this.#tell({ kind: 'host', host: name });
  }

  connect(host: string, connected: boolean): void {
    this.#machine(host).connected = connected;
    this.#tell({ kind: 'host', host });
  }

  /** Kills or starts a member's process. */
  power(hostname: string, up: boolean): void {
    for (const [host, machine] of this.#machines) {
      for (const runtime of machine.runtimes.values()) {
        if (runtime.hostname !== hostname) continue;
        runtime.up = up;
        this.#changed(host, runtime);
      }
    }
  }

  /** Users of the set a member belongs to, by `db.name`. */
  users(hostname: string): readonly string[] {
    const runtime = this.runtimes.find((r) => r.hostname === hostname);
    return runtime === undefined ? [] : [...this.#primaryData(runtime).users.keys()].sort();
  }

  /** Changes the set's users behind everybody's back. */
  meddle(hostname: string, change: (users: Data['users']) => void): void {
    const runtime = this.runtimes.find((r) => r.hostname === hostname);
    if (runtime !== undefined) change(this.#primaryData(runtime).users);
    for (const [host, machine] of this.#machines) {
      for (const peer of machine.runtimes.values()) this.#changed(host, peer);
    }
  }

  get runtimes(): readonly Runtime[] {
    return [...this.#machines.values()].flatMap((machine) => [...machine.runtimes.values()]);
  }

  get volumes(): readonly Volume[] {
    return [...this.#machines.values()].flatMap((machine) => [...machine.volumes.values()]);
  }

  // ── reports ────────────────────────────────────────────────────────────────────────────────────────────────────

  hosts(): readonly HostReport[] {
    return [...this.#machines.values()].map((machine) => this.#report(machine));
  }

  host(name: string): HostReport | null {
    const machine = this.#machines.get(name);
    return machine === undefined ? null : this.#report(machine);
  }

  #report({ facts, connected }: Machine): HostReport {
    return { facts, connected, seenAt: this.#clock.now() };
  }

  member({ host, serviceId }: MemberRef): MemberReport | null {
    const runtime = this.#machines.get(host)?.runtimes.get(serviceId);
    if (runtime === undefined) return null;
    const since = 0;
    return {
      observedAt: this.#clock.now(),
      facts: {
        serviceId,
        configVersion: runtime.runs?.configVersion ?? 0,
        configError: null,
        process: isUp(runtime) ? { kind: 'running', pid: 1, since, adopted: false } : { kind: 'absent' },
        database: isUp(runtime) ? this.#database(runtime) : null,
        certificate: null,
        volume: null,
      },
    };
  }

  onChange(listener: (change: AgentChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(change: AgentChange): void {
    for (const listener of this.#listeners) listener(change);
  }

  #changed(host: string, { id, owner }: Runtime): void {
    this.#tell({ kind: 'member', host, serviceId: id, clusterUid: owner.clusterUid });
  }

  // ── databases ──────────────────────────────────────────────────────────────────────────────────────────────────

  #database(runtime: Runtime): DatabaseFacts {
    const { data } = runtime.volume;
    const primary = this.#primaryOf(runtime);
    const state = data.config === null ? 'STARTUP' : primary === runtime ? 'PRIMARY' : 'SECONDARY';
    const users = data.config === null ? data.users : this.#primaryData(runtime).users;
    const monitor = users.get('admin.clusterMonitor');
    return {
      kind: 'reachable',
      binaryVersion: runtime.deployed ?? '',
      featureCompatibilityVersion: data.fcv,
      initiated: data.config !== null,
      setName: data.config?._id ?? null,
      replicaSetId: data.replicaSetId,
      state,
      term: data.config === null ? null : 1,
      writablePrimary: primary === runtime,
      primary: primary === null ? null : `${primary.hostname}`,
      peers:
        data.config?.members.map((member) => ({
          id: member._id,
          host: member.host,
          state: 'SECONDARY' as const,
          healthy: true,
          lagMillis: 0,
          message: null,
        })) ?? [],
      config: data.config,
      initialSyncPercent: null,
      authenticated: users.size === 0 ? null : agentPasswords(runtime).includes(monitor?.password ?? ''),
      usersExist: users.size > 0,
    };
  }

  #peers(runtime: Runtime): readonly Runtime[] {
    return this.runtimes.filter(
      (peer) =>
        peer.owner.clusterUid === runtime.owner.clusterUid &&
        peer.volume.data.replicaSetId === runtime.volume.data.replicaSetId,
    );
  }

  /** The first member that is up, while a majority is. */
  #primaryOf(runtime: Runtime): Runtime | null {
    const { config } = runtime.volume.data;
    if (config === null) return null;
    const up = this.#peers(runtime).filter(isUp);
    return up.length * 2 > config.members.length ? (up[0] ?? null) : null;
  }

  /** Users are the set's, not the member's. */
  #primaryData(runtime: Runtime): Data {
    const first = this.#peers(runtime)[0];
    return (first ?? runtime).volume.data;
  }

  // ── effects ────────────────────────────────────────────────────────────────────────────────────────────────────

  async publish(target: MemberRef, snapshot: MemberSnapshot, fence: Fence): Promise<void> {
    const what = `publish ${snapshot.member}`;
    await this.#effect(target.host, fence, what, () => {
      const runtime = this.#runtime(target);
      this.snapshots.push(snapshot);
      this.done.push(what);
      const { runs } = runtime;
      const pem = snapshot.certificatePem.reveal();
      const other = runs !== null && (runs.certificatePem.reveal() !== pem || runs.caPem !== snapshot.caPem);
      if (!other || !snapshot.certificatesOnline) runtime.runs = snapshot;
      runtime.snapshot = snapshot;
      runtime.up = true;
      this.#changed(target.host, runtime);
    });
  }

  async run(
    target: MemberRef,
    command: MemberCommand,
    { fence }: { readonly timeoutMillis: number; readonly stepId: string; readonly fence: Fence },
  ): Promise<CommandOutcome> {
    const runtime = this.#runtime(target);
    const what = `${command.kind} ${runtime.owner.member}`;
    let outcome: CommandOutcome = { kind: 'done', result: {} };
    await this.#effect(target.host, fence, what, () => {
      outcome = this.hooks.refuse?.(command) ?? this.#run(runtime, command);
      if (outcome.kind === 'done') this.done.push(what);
      for (const [host, machine] of this.#machines) {
        for (const peer of machine.runtimes.values()) {
          if (peer.owner.clusterUid === runtime.owner.clusterUid) this.#changed(host, peer);
        }
      }
    });
    return outcome;
  }

  #run(runtime: Runtime, command: MemberCommand): CommandOutcome {
    switch (command.kind) {
      case 'initiate':
        return this.#initiate(runtime, command.config);
      case 'createFirstUser': {
        const { users } = this.#primaryData(runtime);
        const { user, db, password, roles } = command.user;
        const known = users.get(`${db}.${user}`);
        if (known !== undefined && known.password === password?.reveal()) return done;
        if (users.size > 0) return refused(13, 'Unauthorized', 'credentials');
        users.set(`${db}.${user}`, { password: password?.reveal() ?? null, roles });
        return done;
      }
      case 'reconcileUsers': {
        const { users } = this.#primaryData(runtime);
        if (!loginWorks(users, command.as)) return refused(18, 'AuthenticationFailed', 'credentials');
        for (const { user, db, password, roles } of command.users) {
          users.set(`${db}.${user}`, { password: password?.reveal() ?? null, roles });
        }
        for (const { user, db } of command.drop) users.delete(`${db}.${user}`);
        return done;
      }
      case 'setFcv':
        if (!loginWorks(this.#primaryData(runtime).users, command.as))
          return refused(18, 'AuthenticationFailed', 'credentials');
        for (const peer of this.runtimes)
          if (peer.owner.clusterUid === runtime.owner.clusterUid) peer.volume.data.fcv = command.version;
        return done;
      case 'rotateCertificates':
        if (!loginWorks(this.#primaryData(runtime).users, command.as))
          return refused(18, 'AuthenticationFailed', 'credentials');
        runtime.runs = runtime.snapshot;
        return done;
      case 'verifyLogin':
        return loginWorks(this.#primaryData(runtime).users, command.as)
          ? done
          : refused(18, 'AuthenticationFailed', 'credentials');
      default:
        return refused(59, 'CommandNotFound', 'permanent');
    }
  }

  #initiate(runtime: Runtime, config: ReplSetConfig): CommandOutcome {
    if (runtime.volume.data.config !== null) return done;
    const replicaSetId = hash(`${runtime.owner.clusterUid} ${this.done.length}`).toString(16);
    for (const peer of this.runtimes) {
      if (peer.owner.clusterUid !== runtime.owner.clusterUid) continue;
      peer.volume.data.config = config;
      peer.volume.data.replicaSetId = replicaSetId;
    }
    return done;
  }

  async startOperation(host: string, operation: HostOperation, fence: Fence): Promise<void> {
    await this.#effect(host, fence, operation.kind, () => {
      const machine = this.#machine(host);
      if (machine.operations.has(operation.id)) return;
      this.operationIds.push(operation.id);
      const failure = this.hooks.fail?.(operation) ?? null;
      const facts: OperationFacts =
        failure === null ? this.#operate(host, machine, operation) : { kind: 'failed', ...failure };
      machine.operations.set(operation.id, facts);
      const clusterUid = 'spec' in operation ? operation.spec.owner.clusterUid : operation.clusterUid;
      this.#tell({ kind: 'operation', host, operationId: operation.id, clusterUid });
    });
  }

  #operate(host: string, machine: Machine, operation: HostOperation): OperationFacts {
    switch (operation.kind) {
      case 'import':
        return this.#import(host, machine, operation.spec);
      case 'deploy': {
        const runtime = machine.runtimes.get(operation.serviceId);
        if (runtime === undefined) return failed('NotFound', 'no such service');
        runtime.deployed = operation.spec.version;
        return succeeded({});
      }
      case 'deleteRuntime':
        machine.runtimes.delete(operation.serviceId);
        return succeeded({});
      case 'growVolume': {
        const volume = machine.volumes.get(operation.volumeId);
        const { clusterUid, member, sizeBytes } = operation;
        if (volume?.owner.clusterUid !== clusterUid || volume.owner.member !== member)
          return failed('NotOwned', 'the marker names another owner');
        if (sizeBytes > DISK) return failed('DiskFull', 'the disk is smaller than that');
        volume.sizeBytes = Math.max(volume.sizeBytes ?? 0, sizeBytes);
        return succeeded({ volumeId: volume.id, volumeBytes: sizeBytes });
      }
      case 'deleteVolume': {
        const volume = machine.volumes.get(operation.volumeId);
        if (volume === undefined) return succeeded({});
        if (volume.owner.clusterUid !== operation.clusterUid || volume.owner.member !== operation.member) {
          return failed('NotOwned', 'the marker names another owner');
        }
        machine.volumes.delete(operation.volumeId);
        return succeeded({});
      }
    }
  }

  #import(host: string, machine: Machine, spec: ServiceSpec): OperationFacts {
    const ports = new Map([...machine.runtimes.values()].map((r) => [r.port, r.hostname]));
    let { port } = spec;
    const by = ports.get(port);
    if (by !== undefined && spec.portFixed) return failed('PortTaken', `port ${port} is taken by ${by}`);
    while (ports.has(port)) port++;
    const kept = spec.volume.id === null ? undefined : machine.volumes.get(spec.volume.id);
    const volume = kept ?? this.#newVolume(machine, spec);
    const id = `s-${host}-${machine.operations.size}`;
    const { owner, hostname } = spec;
    machine.runtimes.set(id, {
      id,
      owner,
      hostname,
      port,
      volume,
      deployed: null,
      snapshot: null,
      runs: null,
      up: false,
    });
    return succeeded({ serviceId: id, volumeId: volume.id, host, address: spec.address, port });
  }

  #newVolume(machine: Machine, spec: ServiceSpec): Volume {
    const id = `v-${machine.facts.name}-${machine.operations.size}`;
    const data: Data = { replicaSetId: null, config: null, fcv: '8.0', users: new Map() };
    const { name, sizeBytes } = spec.volume;
    const volume = { id, owner: spec.owner, name, data, sizeBytes };
    machine.volumes.set(id, volume);
    return volume;
  }

  async operation(host: string, operationId: string, fence?: Fence): Promise<OperationFacts> {
    const machine = this.#reachable(host);
    if (fence !== undefined) this.#admit(fence);
    return machine.operations.get(operationId) ?? { kind: 'unknown' };
  }

  async services(host: string): Promise<readonly ServiceFacts[]> {
    this.listings++;
    const machine = this.#reachable(host);
    const common = { host, masked: false, sizeBytes: null };
    return [
      ...[...machine.runtimes.values()].map(
        (runtime): ServiceFacts => ({
          ...common,
          kind: 'runtime',
          id: runtime.id,
          hostname: runtime.hostname,
          owner: runtime.owner,
          deployed: runtime.deployed !== null,
          port: runtime.port,
          dataPath: `/data/${runtime.volume.id}`,
        }),
      ),
      ...[...machine.volumes.values()].map(
        (volume): ServiceFacts => ({
          ...common,
          kind: 'volume',
          sizeBytes: volume.sizeBytes,
          id: volume.id,
          hostname: volume.owner.hostname,
          owner: volume.owner,
          deployed: false,
          port: null,
          dataPath: `/data/${volume.id}`,
        }),
      ),
    ];
  }

  /** S9: an epoch older than one seen is refused. */
  async #effect(host: string, fence: Fence, what: string, act: () => void): Promise<void> {
    await this.hooks.before?.(what);
    this.#reachable(host);
    this.#admit(fence);
    act();
    await this.hooks.after?.(what);
  }

  #admit(fence: Fence): void {
    const newest = this.#epochs.get(fence.lease) ?? 0;
    if (fence.epoch < newest) {
      throw new BelayError('StaleEpoch', 'a newer control plane acts on this cluster', { retry: 'never' });
    }
    this.#epochs.set(fence.lease, fence.epoch);
  }

  #machine(host: string): Machine {
    const machine = this.#machines.get(host);
    if (machine === undefined) throw new BelayError('AgentNotConnected', `no agent on ${host} has joined`);
    return machine;
  }

  #reachable(host: string): Machine {
    const machine = this.#machine(host);
    if (!machine.connected)
      throw new BelayError('AgentNotConnected', `the agent on ${host} is not connected`);
    return machine;
  }

  #runtime({ host, serviceId }: MemberRef): Runtime {
    const runtime = this.#machine(host).runtimes.get(serviceId);
    if (runtime === undefined) throw new BelayError('NotFound', `no service ${serviceId} on ${host}`);
    return runtime;
  }
}

const isUp = (runtime: Runtime): boolean =>
  runtime.up && runtime.snapshot !== null && runtime.deployed !== null;

const done: CommandOutcome = { kind: 'done', result: {} };
const refused = (
  code: number,
  codeName: string,
  kind: 'transient' | 'credentials' | 'permanent',
): CommandOutcome => ({ kind: 'refused', code, codeName, message: codeName, class: kind });
const succeeded = (result: Readonly<Record<string, string | number>>): OperationFacts => ({
  kind: 'succeeded',
  result,
});
const failed = (code: string, message: string): OperationFacts => ({ kind: 'failed', code, message });

function loginWorks(
  users: Data['users'],
  login: { readonly user: string; readonly db: string; readonly password: { reveal(): string } },
): boolean {
  return users.get(`${login.db}.${login.user}`)?.password === login.password.reveal();
}

/** What the agent of a member tries to log in with. */
export const agentPasswords = ({ snapshot }: Runtime): readonly string[] =>
  [snapshot?.monitor, snapshot?.nextMonitor].flatMap((login) => login?.password.reveal() ?? []);
