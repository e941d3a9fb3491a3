/** Keeps one database process of a host as its snapshot says, by the rules of the agent's own supervisor. */
import { X509Certificate } from 'node:crypto';
import { remembered } from '../base/memo.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type { MemberFacts, MemberSnapshot, ProcessFacts } from '../clusters/index.ts';
import type { Machine, Run, ServiceRecord } from './machine.ts';
import { type Exit, Mongod } from './mongod.ts';
import { Router } from './router.ts';

const RESTART_FIRST: Millis = 500;
const RESTART_CAP: Millis = 30 * SECOND;
const RAN_WELL: Millis = 10 * SECOND;
const STOP_TIMEOUT: Millis = 45 * SECOND;

export type Goal =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'stopped'; readonly configVersion: number }
  | { readonly kind: 'run'; readonly snapshot: MemberSnapshot; readonly record: ServiceRecord }
  | { readonly kind: 'refused'; readonly message: string; readonly configVersion: number };

export interface SupervisorOutside {
  readonly changed: () => void;
  /** Told before a running process is stopped, whatever for. */
  readonly stops: (run: Run, why: string) => void;
  readonly startMillis: () => Millis;
}

/** See the head of this file. */
export class Supervisor {
  configVersion = 0;
  configError: string | null = null;
  answering = false;
  readonly #machine: Machine;
  readonly #serviceId: string;
  readonly #outside: SupervisorOutside;
  #goal: Goal = { kind: 'nothing' };
  #adopted = false;
  #ended: { since: Millis; exit: Exit; nextStartAt: Millis | null } | null = null;
  #failures = 0;
  #stopping = false;
  #gone: (() => void)[] = [];
  #closed = false;
  #cancelStart: () => void = () => {};

  constructor(machine: Machine, serviceId: string, outside: SupervisorOutside) {
    this.#machine = machine;
    this.#serviceId = serviceId;
    this.#outside = outside;
  }

  get run(): Run | null {
    return this.#machine.runs.get(this.#serviceId) ?? null;
  }

  get stopping(): boolean {
    return this.#stopping;
  }

  get facts(): ProcessFacts {
    const { run } = this;
    if (run !== null) {
      const { pid } = run.process;
      return this.answering
        ? {
            kind: 'running',
            pid,
            since: run.since,
            adopted: this.#adopted,
            ...(this.#stopping ? { stopping: true } : {}),
          }
        : { kind: 'starting', pid, since: run.since };
    }
    if (this.#ended === null) return { kind: 'absent' };
    const { since, exit, nextStartAt } = this.#ended;
    const { code: exitCode, signal, message, why } = exit;
    const code = why === undefined ? {} : { code: why };
    return {
      kind: 'exited',
      since,
      exitCode,
      signal,
      failures: this.#failures,
      nextStartAt,
      message,
      ...code,
    };
  }

  /** Takes over a process that an earlier life of the agent started. */
  adopt(): void {
    const { run } = this;
    if (run === null) return;
    this.#adopted = true;
    this.configVersion = run.confirmed ? run.configVersion : 0;
  }

  /** It is being stopped for good. */
  leaving = false;

  setGoal(goal: Goal, fresh: boolean): void {
    if (this.leaving) return;
    this.#goal = goal;
    if (fresh) {
      this.#failures = 0;
      this.configError = null;
      if (this.#ended !== null) this.#ended.nextStartAt = this.#machine.near.timeline.now;
    }
    this.converge();
  }

  /** The database answered. */
  confirm(): void {
    const { run } = this;
    if (run === null || this.answering) return;
    this.answering = true;
    this.configError = null;
    run.confirmed = true;
    this.configVersion = run.configVersion;
    this.#outside.changed();
  }

  converge(): void {
    if (this.#closed || this.#stopping) return;
    const { run } = this;
    const goal = this.#goal;
    if (run !== null) {
      if (goal.kind === 'run' && sameRun(run, goal)) this.#keep(run, goal.snapshot);
      else this.#stop(run);
    } else if (goal.kind === 'run') this.#startWhenDue(goal);
    else this.#rest(goal);
  }

  /** The running process presents the certificates of the newest goal from now on. */
  takeCertificates(): void {
    const { run } = this;
    const goal = this.#goal;
    if (run === null || goal.kind !== 'run') return;
    run.certificates = certificatesOf(goal.snapshot);
    run.certificate = certificateOf(goal.snapshot);
    run.process.options.caPem = goal.snapshot.caPem;
    this.#keep(run, goal.snapshot);
    this.#outside.changed();
  }

  #keep(run: Run, snapshot: MemberSnapshot): void {
    if (run.certificates !== certificatesOf(snapshot)) return;
    if (run.configVersion === snapshot.configVersion) return;
    run.configVersion = snapshot.configVersion;
    if (this.answering) this.configVersion = snapshot.configVersion;
    this.#outside.changed();
  }

  #rest(goal: Exclude<Goal, { kind: 'run' }>): void {
    if (goal.kind === 'refused') {
      this.#failures = Math.max(this.#failures, 1);
      const exit = { code: null, signal: null, message: goal.message, why: 'ForeignData' };
      this.#ended = { since: this.#machine.near.timeline.now, exit, nextStartAt: null };
    } else {
      this.#ended = null;
      this.#failures = 0;
      if (goal.kind === 'stopped') this.configVersion = goal.configVersion;
    }
    for (const gone of this.#gone.splice(0)) gone();
    this.#outside.changed();
  }

  // ── start ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #startWhenDue(goal: Extract<Goal, { kind: 'run' }>): void {
    if (this.#ended?.nextStartAt === null) return;
    const due = this.#ended?.nextStartAt ?? 0;
    const { timeline } = this.#machine.near;
    this.#cancelStart();
    if (due > timeline.now) this.#cancelStart = timeline.at(due, () => this.converge());
    else this.#start(goal);
  }

  #start({ snapshot, record }: Extract<Goal, { kind: 'run' }>): void {
    const machine = this.#machine;
    const { timeline } = machine.near;
    const volume = machine.disk.volumes.get(record.volumeId);
    if (volume === undefined || machine.diskFull) {
      this.#failed({ code: null, signal: null, message: 'no space left on device' });
      return;
    }
    this.#ended = null;
    this.#adopted = false;
    this.answering = false;
    const common = {
      place: machine.name,
      address: record.address,
      port: snapshot.port,
      version: record.version ?? snapshot.version,
      keyFile: snapshot.keyFile.reveal(),
      tlsMode: snapshot.tlsMode,
      caPem: snapshot.caPem,
      refuses: badOption(snapshot.userConfig),
      startMillis: this.#outside.startMillis(),
      exited: (exit: Exit) => this.#processEnded(process, exit),
      changed: () => machine.agent?.processSpoke(this.#serviceId),
    };
    const pid = 1 + machine.near.rng.below(30_000);
    const { replicaSet: setName, configServers = '' } = snapshot;
    const configServer = snapshot.role === 'configServer';
    const process: Mongod | Router =
      snapshot.product === 'mongos'
        ? new Router(machine.near, { ...common, configServers }, pid)
        : new Mongod(machine.near, { ...common, setName, configServer, data: volume.data }, pid);
    machine.runs.set(this.#serviceId, {
      process,
      since: timeline.now,
      version: record.version ?? '',
      configVersion: snapshot.configVersion,
      inputs: inputsOf(snapshot, record),
      certificates: certificatesOf(snapshot),
      confirmed: false,
      certificate: certificateOf(snapshot),
    });
    this.#outside.changed();
  }

  /** A process ends for the machine, whoever supervises it by then. */
  #processEnded(process: Mongod | Router, exit: Exit): void {
    const run = this.#machine.runs.get(this.#serviceId);
    if (run?.process !== process) return;
    this.#machine.runs.delete(this.#serviceId);
    this.#machine.agent?.processEnded(this.#serviceId, run, exit);
  }

  // ── end ────────────────────────────────────────────────────────────────────────────────────────────────────────

  exited(run: Run, exit: Exit): void {
    const { now } = this.#machine.near.timeline;
    const ranWell = this.answering && now - run.since >= RAN_WELL;
    this.answering = false;
    if (this.#stopping) {
      this.#stopping = false;
      this.#ended = null;
      this.#outside.changed();
      this.converge();
      return;
    }
    if (ranWell) this.#failures = 0;
    if (exit.code === 2) this.configError = exit.message;
    this.#failed(exit, exit.code !== 2 && exit.code !== 62);
  }

  #failed(exit: Exit, retry = true): void {
    const { now } = this.#machine.near.timeline;
    this.#failures++;
    const wait = Math.min(RESTART_CAP, RESTART_FIRST * 2 ** Math.min(10, this.#failures - 1));
    this.#ended = { since: now, exit, nextStartAt: retry ? now + wait : null };
    this.#outside.changed();
    this.converge();
  }

  #stop(run: Run): void {
    this.#stopping = true;
    this.#outside.stops(run, this.#goal.kind === 'run' ? 'restart' : this.#goal.kind);
    this.#outside.changed();
    const { process } = run;
    process.terminate();
    this.#machine.near.timeline.after(STOP_TIMEOUT, () => process.kill());
  }

  /** Stops the process for good; calls when it is gone. */
  stop(gone: () => void): void {
    this.#gone.push(gone);
    this.#goal = { kind: 'nothing' };
    this.leaving = true;
    this.converge();
  }

  /** Lets go without touching the process. */
  close(): void {
    this.#closed = true;
    this.#cancelStart();
  }
}

function certificateOf({ certificatePem }: MemberSnapshot): MemberFacts['certificate'] {
  const pem = certificatePem.reveal();
  return certificateFacts(pem.slice(pem.indexOf('-----BEGIN CERTIFICATE')));
}

/** Parsing costs; equal certificates are read once. */
const certificateFacts = remembered(1000, (part): NonNullable<MemberFacts['certificate']> => {
  const { validTo, fingerprint256 } = new X509Certificate(part);
  const fingerprint = `sha256:${fingerprint256.replaceAll(':', '').toLowerCase()}`;
  return { notAfter: Date.parse(validTo), fingerprint };
});

const sameRun = (run: Run, { snapshot, record }: Extract<Goal, { kind: 'run' }>): boolean =>
  run.inputs === inputsOf(snapshot, record) &&
  (snapshot.certificatesOnline || run.certificates === certificatesOf(snapshot));

/** What a process can be given while it runs. */
const certificatesOf = ({ tlsMode, caPem, certificatePem }: MemberSnapshot): string =>
  tlsMode === 'disabled' ? '' : `${caPem}${certificatePem.reveal()}`;

/** Everything that goes into a process's files: a change of it costs a restart. */
function inputsOf(snapshot: MemberSnapshot, record: ServiceRecord): string {
  const { port, bindIp, tlsMode, cacheGb, userConfig, replicaSet, role, limits } = snapshot;
  const { configServers, restartToken } = snapshot;
  const secrets = [snapshot.keyFile.reveal()];
  const shape = [port, bindIp, tlsMode, cacheGb, userConfig, replicaSet, role, limits, configServers];
  const plain = [record.version, ...shape, restartToken];
  return JSON.stringify([plain, secrets]);
}

/** The world's server knows every option but those named like this. */
export const BAD_OPTION = 'noSuchOption';

function badOption(config: MemberSnapshot['userConfig']): string | null {
  return JSON.stringify(config).includes(BAD_OPTION) ? `unrecognised option '${BAD_OPTION}'` : null;
}
