/** One life of a host's agent: members, operations, the gate for epochs, and what it tells the control planes. */
import { LAG_CONFIRM } from '../agent/lag.ts';
import { equalValues } from '../base/equal.ts';
import { BelayError } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type {
  CommandOutcome,
  DatabaseFacts,
  MemberCommand,
  MemberFacts,
  MemberSnapshot,
  OperationFacts,
  ServiceFacts,
} from '../clusters/index.ts';
import type { Fence, HostOperation, Proviso } from '../engine/ports.ts';
import { seriesOf } from '../model/index.ts';
import { noServer, runCommand } from './commands.ts';
import type { Machine, Run, ServiceRecord, Volume } from './machine.ts';
import type { Exit } from './mongod.ts';
import { inDoubt, isQuiet, type Lags, readDatabase } from './observer.ts';
import { type Fate, Operations, refusePrimary } from './operations.ts';
import { isRouterQuiet, readRouter, runRouterCommand } from './routerCommands.ts';
import { type Goal, Supervisor } from './supervisor.ts';

const STATUS_FIRST: Millis = 500;
const STATUS_CAP: Millis = 10_000;
/** A look that gets no answer ends after this. */
const NO_ANSWER: Millis = 4_000;
const SILENT: DatabaseFacts = { kind: 'unreachable', message: 'no answer within 4000 ms' };
/** Changes within this time travel together. */
const REPORT_DELAY: Millis = 10;

/** What an agent needs of the world around it. */
export interface AgentOutside {
  readonly fate: (machine: Machine, operation: HostOperation) => Fate;
  readonly startMillis: () => Millis;
  /** A look at the database takes so long: more than usual makes readings stale. */
  readonly lookMillis: (machine: Machine) => Millis;
  readonly newSetId: () => string;
  readonly started: (machine: Machine) => void;
  readonly died: (machine: Machine) => void;
  /** Facts of these members are new. */
  readonly report: (machine: Machine, serviceIds: readonly string[]) => void;
  readonly operationChanged: (machine: Machine, operation: HostOperation, facts: OperationFacts) => void;
  /** True effects, for checkers: told when they happen. */
  readonly did: (machine: Machine, deed: Deed) => void;
}

/** Something an agent really did because it was told to. */
export type Deed =
  | {
      readonly kind: 'publish';
      readonly serviceId: string;
      readonly snapshot: MemberSnapshot;
      readonly fence: Fence;
    }
  | {
      readonly kind: 'run';
      readonly serviceId: string;
      readonly command: MemberCommand;
      readonly stepId: string;
      readonly fence: Fence;
    }
  | { readonly kind: 'operate'; readonly operation: HostOperation; readonly fence: Fence }
  | { readonly kind: 'stop'; readonly run: Run; readonly record: ServiceRecord | null; readonly why: string }
  | {
      readonly kind: 'deleteVolume';
      readonly operation: Extract<HostOperation, { kind: 'deleteVolume' }>;
    };

/** A member's facts with the cluster they belong to. */
export interface MemberItem {
  readonly clusterUid: string | null;
  readonly facts: MemberFacts;
}

interface Member {
  readonly serviceId: string;
  readonly supervisor: Supervisor;
  readonly lags: Lags;
  readonly answers: Map<string, CommandOutcome>;
  readonly queue: (() => void)[];
  running: boolean;
  database: DatabaseFacts | null;
  foreign: string | null;
  pace: Millis;
  cancelLook: () => void;
  reported: MemberFacts | null;
}

/** See the head of this file. */
export class Agent {
  readonly session: string;
  readonly #machine: Machine;
  readonly #outside: AgentOutside;
  readonly #operations: Operations;
  readonly #members = new Map<string, Member>();
  readonly #news = new Set<string>();
  readonly #older = new Map<string, Set<{ readonly epoch: number; cut: boolean; waiting: (() => void)[] }>>();
  #dead = false;

  constructor(machine: Machine, outside: AgentOutside) {
    this.#machine = machine;
    this.#outside = outside;
    this.session = machine.newId('session');
    this.#operations = new Operations(machine, {
      stopService: (id, gone) => this.#stopService(id, gone),
      serviceChanged: (id) => this.#serviceChanged(id),
      changed: (operation, facts) => outside.operationChanged(machine, operation, facts),
      fate: (operation) => outside.fate(machine, operation),
      volumeDeleted: (operation) => outside.did(machine, { kind: 'deleteVolume', operation }),
    });
    // What belongs to this life must not begin before the machine knows it.
    machine.near.timeline.after(1, () => this.#open());
  }

  #open(): void {
    if (this.#dead) return;
    for (const id of this.#machine.disk.services.keys()) this.#openMember(id);
    this.#operations.resume();
    this.#outside.started(this.#machine);
  }

  die(): void {
    this.#dead = true;
    this.#operations.close();
    for (const member of this.#members.values()) {
      member.supervisor.close();
      member.cancelLook();
    }
    this.#outside.died(this.#machine);
  }

  // ── members ────────────────────────────────────────────────────────────────────────────────────────────────────

  #openMember(serviceId: string): Member {
    const { timeline } = this.#machine.near;
    const supervisor = new Supervisor(this.#machine, serviceId, {
      changed: () => this.#changed(serviceId),
      stops: (run, why) => {
        const record = this.#machine.disk.services.get(serviceId) ?? null;
        this.#outside.did(this.#machine, { kind: 'stop', run, record, why });
      },
      startMillis: this.#outside.startMillis,
    });
    const member: Member = {
      serviceId,
      supervisor,
      lags: new Map(),
      answers: new Map(),
      queue: [],
      running: false,
      database: null,
      foreign: null,
      pace: STATUS_FIRST,
      cancelLook: () => {},
      reported: null,
    };
    this.#members.set(serviceId, member);
    supervisor.adopt();
    if (supervisor.run !== null) timeline.after(1, () => this.processSpoke(serviceId));
    this.#reload(member, false);
    return member;
  }

  #serviceChanged(serviceId: string): void {
    const known = this.#members.get(serviceId);
    if (known === undefined) this.#openMember(serviceId);
    else this.#reload(known, true);
    this.#changed(serviceId);
  }

  #reload(member: Member, fresh: boolean): void {
    member.supervisor.setGoal(this.#goal(member), fresh);
  }

  #goal(member: Member): Goal {
    const { disk } = this.#machine;
    const record = disk.services.get(member.serviceId);
    const snapshot = disk.snapshots.get(member.serviceId);
    if (record === undefined || snapshot === undefined || record.version === null) return { kind: 'nothing' };
    const { configVersion } = snapshot;
    if (snapshot.run === 'stopped') return { kind: 'stopped', configVersion };
    const foreign = member.foreign ?? this.#foreignVolume(record);
    if (foreign !== null) return { kind: 'refused', message: foreign, configVersion };
    return { kind: 'run', snapshot, record };
  }

  #foreignVolume(record: ServiceRecord): string | null {
    const volume = this.#machine.disk.volumes.get(record.volumeId);
    if (volume === undefined) return `the volume ${record.volumeId} is gone or has no readable owner`;
    const { owner } = volume;
    if (owner?.clusterUid === record.owner?.clusterUid && owner?.member === record.owner?.member) return null;
    return 'the data folder belongs to another cluster';
  }

  #stopService(serviceId: string, gone: () => void): void {
    const member = this.#members.get(serviceId);
    const end = (): void => {
      member?.supervisor.close();
      member?.cancelLook();
      this.#members.delete(serviceId);
      this.#changed(serviceId);
      gone();
    };
    if (member === undefined) end();
    else member.supervisor.stop(end);
  }

  /** A person takes the service away: process, record and snapshot, not the volume. */
  removeByHand(serviceId: string): void {
    this.#machine.runs.get(serviceId)?.process.kill();
    this.#stopService(serviceId, () => {
      this.#machine.disk.services.delete(serviceId);
      this.#machine.disk.snapshots.delete(serviceId);
    });
  }

  /** A process said something new: it listens, or a hello shows a change. */
  processSpoke(serviceId: string): void {
    const member = this.#members.get(serviceId);
    if (member === undefined) return;
    member.pace = STATUS_FIRST;
    this.#lookIn(member, this.#outside.lookMillis(this.#machine));
  }

  processEnded(serviceId: string, run: Run, exit: Exit): void {
    const member = this.#members.get(serviceId);
    if (member === undefined) return;
    member.cancelLook();
    member.database = null;
    member.lags.clear();
    member.supervisor.exited(run, exit);
  }

  // ── looking ────────────────────────────────────────────────────────────────────────────────────────────────────

  #lookIn(member: Member, wait: Millis): void {
    member.cancelLook();
    member.cancelLook = this.#machine.near.timeline.after(wait, () => this.#look(member));
  }

  #look(member: Member): void {
    const { run } = member.supervisor;
    if (this.#dead || run === null || run.process.phase !== 'listening') return;
    const snapshot = this.#machine.disk.snapshots.get(member.serviceId);
    if (snapshot === undefined) return;
    const { now } = this.#machine.near.timeline;
    if (run.process.kind === 'router' && run.process.stuck) {
      this.#lookIn(member, NO_ANSWER);
      this.#show(member, SILENT);
      return;
    }
    const facts =
      run.process.kind === 'router'
        ? readRouter(run.process, snapshot)
        : readDatabase(run.process, snapshot, member.lags, now);
    this.#identify(member, facts.replicaSetId, facts.setName, snapshot);
    if (run.process.kind !== 'router') this.#noteRun(member, facts.binaryVersion);
    this.#show(member, facts);
    member.supervisor.confirm();
    const quiet = isQuiet(facts) || isRouterQuiet(facts) ? STATUS_CAP : member.pace;
    member.pace = Math.min(STATUS_CAP, member.pace * 1.5);
    this.#lookIn(member, inDoubt(member.lags) ? LAG_CONFIRM : Math.round(quiet));
  }

  #show(member: Member, facts: DatabaseFacts): void {
    if (equalValues(facts, member.database)) return;
    member.database = facts;
    member.pace = STATUS_FIRST;
    this.#changed(member.serviceId);
  }

  #volumeOf({ serviceId }: Pick<Member, 'serviceId'>): Volume | undefined {
    const { services, volumes } = this.#machine.disk;
    return volumes.get(services.get(serviceId)?.volumeId ?? '');
  }

  /** What has run on the data is kept with it, before anybody is told (S7). */
  #noteRun(member: Member, version: string): void {
    const [volume, series] = [this.#volumeOf(member), seriesOf(version)];
    if (volume === undefined || series === undefined) return;
    if (Number(series) > Number(volume.newestRun ?? 0)) volume.newestRun = series;
  }

  /** The set's id goes into the volume's marker when first seen; data with another one is not ours. */
  #identify(member: Member, id: string | null, setName: string | null, snapshot: MemberSnapshot): void {
    const volume = this.#volumeOf(member);
    const wrongName = setName !== null && setName !== snapshot.replicaSet;
    if (id !== null && volume?.replicaSetId === null) volume.replicaSetId = id;
    const wrongId = id !== null && volume !== undefined && volume.replicaSetId !== id;
    if (member.foreign !== null || (!wrongName && !wrongId)) return;
    member.foreign = `the data folder belongs to another replica set (${setName})`;
    this.#reload(member, false);
  }

  // ── reports ────────────────────────────────────────────────────────────────────────────────────────────────────

  items(): readonly MemberItem[] {
    return [...this.#members.keys()].flatMap((id) => this.item(id) ?? []);
  }

  item(serviceId: string): MemberItem | null {
    const member = this.#members.get(serviceId);
    const record = this.#machine.disk.services.get(serviceId);
    if (member === undefined || record === undefined) return null;
    return { clusterUid: record.owner?.clusterUid ?? null, facts: this.#facts(member) };
  }

  #facts({ serviceId, supervisor, database }: Member): MemberFacts {
    const { run, facts: process, configVersion, configError } = supervisor;
    const silent: DatabaseFacts = { kind: 'unreachable', message: 'its port does not answer yet' };
    return {
      serviceId,
      configVersion,
      configError,
      process,
      database: run === null ? null : (database ?? silent),
      certificate: run?.certificate ?? null,
      volume: null,
      newestRun: this.#volumeOf({ serviceId })?.newestRun ?? null,
    };
  }

  #changed(serviceId: string): void {
    if (this.#dead) return;
    const first = this.#news.size === 0;
    this.#news.add(serviceId);
    if (first) this.#machine.near.timeline.after(REPORT_DELAY, () => this.#tell());
  }

  #tell(): void {
    if (this.#dead) return;
    const changed = [...this.#news].filter((id) => {
      const member = this.#members.get(id);
      if (member === undefined) return true;
      const facts = this.#facts(member);
      const same = equalValues(facts, member.reported);
      member.reported = facts;
      return !same;
    });
    this.#news.clear();
    if (changed.length > 0) this.#outside.report(this.#machine, changed);
  }

  // ── requests ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** S9: an older epoch is refused; a newer one cuts off what runs under older ones and waits for its end. */
  admit(fence: Fence, go: () => void): void {
    const { epochs } = this.#machine.disk;
    const newest = epochs.get(fence.lease) ?? 0;
    if (this.#isStale(fence)) {
      throw new BelayError('StaleEpoch', `lease ${fence.lease} has moved on`, { retry: 'never' });
    }
    epochs.set(fence.lease, Math.max(newest, fence.epoch));
    const older = [...(this.#older.get(fence.lease) ?? [])].filter((run) => run.epoch < fence.epoch);
    for (const run of older) run.cut = true;
    let left = older.length;
    if (left === 0) go();
    for (const run of older) run.waiting.push(() => --left === 0 && go());
  }

  #isStale({ lease, epoch }: Fence): boolean {
    const { disk, bugs } = this.#machine;
    return epoch < (disk.epochs.get(lease) ?? 0) && !bugs.ignoreEpochs;
  }

  publish(serviceId: string, snapshot: MemberSnapshot, fence: Fence, { unlessPrimary }: Proviso): void {
    const { disk } = this.#machine;
    const member = this.#member(serviceId);
    const owner = disk.services.get(serviceId)?.owner ?? null;
    if (owner?.clusterUid !== snapshot.clusterUid || owner.member !== snapshot.member) {
      throw new BelayError('OwnershipConflict', `${serviceId} is not ${snapshot.member}`, { retry: 'never' });
    }
    if (member.supervisor.leaving)
      throw new BelayError('ServiceNotFound', `service ${serviceId} is being removed`, { retry: 'later' });
    const before = disk.snapshots.get(serviceId);
    if (before !== undefined && snapshot.configVersion < before.configVersion) {
      throw new BelayError('StaleSnapshot', 'an older configuration', { retry: 'never' });
    }
    if (unlessPrimary) refusePrimary(this.#machine, serviceId);
    if (this.#machine.diskFull) throw new BelayError('DiskFull', 'no space left on device');
    this.#outside.did(this.#machine, { kind: 'publish', serviceId, snapshot, fence });
    const fresh = before === undefined || snapshotText(before) !== snapshotText(snapshot);
    disk.snapshots.set(serviceId, snapshot);
    if (fresh) member.foreign = null;
    if (fresh)
      for (const asked of member.answers.keys())
        if (asked.endsWith(' rotateCertificates')) member.answers.delete(asked);
    this.#reload(member, fresh);
  }

  /** One after the other per member; the same step asked twice is done once, unless it was not done. */
  run(
    serviceId: string,
    command: MemberCommand,
    options: { readonly timeoutMillis: Millis; readonly stepId: string; readonly fence: Fence },
    end: (outcome: CommandOutcome) => void,
  ): void {
    const member = this.#member(serviceId);
    const known = member.answers.get(`${options.stepId} ${command.kind}`);
    if (known !== undefined) {
      end(known);
      return;
    }
    member.queue.push(() => this.#runNow(member, command, options, end));
    this.#next(member);
  }

  #next(member: Member): void {
    if (member.running || this.#dead) return;
    const work = member.queue.shift();
    if (work === undefined) return;
    member.running = true;
    work();
  }

  #runNow(
    member: Member,
    command: MemberCommand,
    {
      timeoutMillis,
      stepId,
      fence,
    }: { readonly timeoutMillis: Millis; readonly stepId: string; readonly fence: Fence },
    end: (outcome: CommandOutcome) => void,
  ): void {
    const { timeline } = this.#machine.near;
    if (this.#isStale(fence)) {
      // It stood in the queue while another took over.
      member.running = false;
      end({ kind: 'unknown', message: `lease ${fence.lease} has moved on` });
      this.#next(member);
      return;
    }
    const process = member.supervisor.run?.process;
    const entry = { epoch: fence.epoch, cut: false, waiting: [] as (() => void)[] };
    const all = this.#older.get(fence.lease) ?? new Set();
    this.#older.set(fence.lease, all.add(entry));
    let open = true;
    const finish = (outcome: CommandOutcome): void => {
      if (!open || this.#dead) return;
      open = false;
      cancel();
      all.delete(entry);
      if (outcome.kind === 'done') member.answers.set(`${stepId} ${command.kind}`, outcome);
      member.running = false;
      end(outcome);
      for (const call of entry.waiting) call();
      member.pace = STATUS_FIRST;
      this.#lookIn(member, this.#outside.lookMillis(this.#machine));
      this.#next(member);
    };
    const cancel = timeline.after(timeoutMillis, () =>
      finish({ kind: 'unknown', message: `${command.kind} did not end within ${timeoutMillis} ms` }),
    );
    if (process === undefined || process.phase !== 'listening') {
      finish(noServer('MemberNotRunning'));
      return;
    }
    this.#outside.did(this.#machine, { kind: 'run', serviceId: member.serviceId, command, stepId, fence });
    if (command.kind === 'rotateCertificates') {
      const snapshot = this.#machine.disk.snapshots.get(member.serviceId);
      const here = snapshot?.configVersion === command.configVersion;
      if (here) member.supervisor.takeCertificates();
      finish(here ? { kind: 'done', result: {} } : noServer('StaleSnapshot'));
      return;
    }
    const { listening, fabric } = this.#machine.near;
    const reaches = (host: string): boolean => {
      const target = listening.get(host);
      return target !== undefined && fabric.reaches(this.#machine.name, target.options.place);
    };
    const context = {
      timeline,
      alive: () => open && !entry.cut,
      reaches,
      newSetId: this.#outside.newSetId,
      forces: this.#machine.bugs.forcesReconfigs ?? false,
    };
    if (process.kind === 'router')
      runRouterCommand({ ...context, router: process, listening }, command, finish);
    else runCommand({ ...context, mongod: process }, command, finish);
  }

  startOperation(operation: HostOperation, fence: Fence): void {
    if (!this.#machine.disk.operations.has(operation.id)) {
      this.#outside.did(this.#machine, { kind: 'operate', operation, fence });
    }
    this.#operations.start(operation);
  }

  operation(id: string): OperationFacts {
    return this.#operations.facts(id);
  }

  services(): readonly ServiceFacts[] {
    const { disk, name } = this.#machine;
    const common = { host: name, sizeBytes: null };
    const runtimes = [...disk.services.values()].map(
      (record): ServiceFacts => ({
        ...common,
        kind: 'runtime',
        id: record.id,
        hostname: record.hostname,
        owner: record.owner,
        masked: record.owner === null,
        deployed: record.version !== null,
        port: record.port,
        dataPath: `/volumes/${record.volumeId}`,
      }),
    );
    const volumes = [...disk.volumes.values()].map(
      (volume): ServiceFacts => ({
        ...common,
        kind: 'volume',
        id: volume.id,
        hostname: volume.hostname,
        owner: volume.owner,
        masked: volume.owner === null,
        deployed: false,
        port: null,
        dataPath: `/volumes/${volume.id}`,
      }),
    );
    return [...runtimes, ...volumes];
  }

  #member(serviceId: string): Member {
    const member = this.#members.get(serviceId);
    if (member !== undefined) return member;
    throw new BelayError('ServiceNotFound', `service ${serviceId} is not on this host`, { retry: 'later' });
  }
}

/** Everything of a snapshot, its secrets included. */
function snapshotText(snapshot: MemberSnapshot): string {
  const { certificatePem, keyFile, monitor, nextMonitor, ...plain } = snapshot;
  const logins = [monitor, nextMonitor].map((login) => [login?.user, login?.password.reveal()]);
  const secrets = [certificatePem.reveal(), keyFile.reveal(), logins];
  return JSON.stringify([plain, secrets]);
}
