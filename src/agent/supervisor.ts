/**
 * Keeps one database process as it should be: started, adopted after this agent's own restart, restarted when it ends
 * or its snapshot changes, stopped. The process never depends on the agent's life (fail-static).
 */
import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { asBelayError } from '../base/error.ts';
import type { Bytes, Millis } from '../base/units.ts';
import type { ProcessFacts } from '../clusters/facts.ts';
import type { Clock, Log } from '../engine/ports.ts';
import { EXIT_PORT, type Exit, judgeExit } from './exits.ts';
import { PUBLIC, readJson, readTail, removeQuietly, writeJson } from './files.ts';
import { launch, signal } from './launch.ts';
import type { ServicePaths } from './layout.ts';
import {
  ADOPTED_POLL,
  LOG_TAIL,
  RAN_WELL,
  RESTART_CAP,
  RESTART_FIRST,
  STOP_POLL,
  STOP_TIMEOUT,
} from './limits.ts';
import { findByConfig, identify, isAlive, type ProcessIdentity } from './procfs.ts';

/** How a member is to be run. Equal `inputs` mean the same run: a changed one costs a restart. */
export interface RunPlan {
  readonly version: string;
  readonly configVersion: number;
  readonly inputs: string;
  /** What its certificates come to; empty without TLS. */
  readonly certificates: string;
  /** The running process is told of other certificates (`tookCertificates` follows); otherwise they cost a restart. */
  readonly certificatesOnline: boolean;
  readonly limits: { readonly memoryBytes: Bytes | null; readonly cpus: number | null };
  readonly environment: Readonly<Record<string, string>>;
  /**
   * Before every start: looks at the data it is to run on, and writes configuration, certificates and keyfile, while nothing
   * runs with the old ones. Gives the executable's path; what it throws is why nothing is started now.
   */
  readonly prepare: () => Promise<string>;
}

export type Goal =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'stopped'; readonly configVersion: number }
  | { readonly kind: 'run'; readonly plan: RunPlan }
  /** It must not run (S6); the reason is for people. */
  | {
      readonly kind: 'refused';
      readonly code: string;
      readonly message: string;
      readonly configVersion: number;
    };

/** What is remembered of a process across restarts of the agent; written before it is started, with number 0, and after. */
interface RunRecord extends ProcessIdentity {
  readonly since: Millis;
  readonly executable: string;
  readonly version: string;
  readonly configVersion: number;
  readonly inputs: string;
  /** Absent in the notes of earlier agents. */
  readonly certificates?: string;
  /** It answered once with this snapshot. */
  readonly confirmed: boolean;
}

const UNKNOWN_RUN: Omit<RunRecord, 'since'> = {
  pid: 0,
  startTicks: '',
  bootId: '',
  executable: '',
  version: '',
  configVersion: 0,
  inputs: '',
  confirmed: false,
};

export interface SupervisorOptions {
  readonly serviceId: string;
  readonly paths: ServicePaths;
  readonly clock: Clock;
  readonly log: Log;
  readonly changed: () => void;
  /** Takes secrets out of a message; the last words of a process are not ours to trust (S8). */
  readonly redact?: (message: string) => string;
  /** Who has its port just now, in a sentence; null: nobody. */
  readonly portHolder?: () => string | null;
  readonly stopTimeoutMillis?: Millis;
}

interface Ended {
  readonly since: Millis;
  readonly exit: Exit;
  readonly message: string;
  readonly nextStartAt: Millis | null;
  readonly code?: string;
}

export class Supervisor {
  readonly #options: SupervisorOptions;
  #goal: Goal = { kind: 'nothing' };
  #run: RunRecord | null = null;
  #adopted = false;
  #answering = false;
  #ended: Ended | null = null;
  #failures = 0;
  #configError: string | null = null;
  #takenOver = 0;
  #stopping = false;
  #closed = false;
  #busy: Promise<void> | null = null;
  #turning = false;
  #again = false;
  #cancelTimer: () => void = () => {};
  #cancelPoll: () => void = () => {};
  #exitWaiters: (() => void)[] = [];

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  // ── facts ──────────────────────────────────────────────────────────────────────────────────────────────────────

  get facts(): ProcessFacts {
    if (this.#run) {
      const { pid, since } = this.#run;
      return this.#answering
        ? {
            kind: 'running',
            pid,
            since,
            adopted: this.#adopted,
            ...(this.#stopping ? { stopping: true } : {}),
          }
        : { kind: 'starting', pid, since };
    }
    if (!this.#ended) return { kind: 'absent' };
    const { since, exit, message, nextStartAt, code } = this.#ended;
    return {
      kind: 'exited',
      since,
      exitCode: exit.code,
      signal: exit.signal,
      failures: this.#failures,
      nextStartAt,
      message,
      ...(code === undefined ? {} : { code }),
    };
  }

  /** Of the process that runs; null: none does. */
  get version(): string | null {
    return this.#run?.version ?? null;
  }

  /** Version of the snapshot the process runs with (or was stopped for); 0: none yet. */
  get configVersion(): number {
    return this.#takenOver;
  }

  get configError(): string | null {
    return this.#configError;
  }

  get pid(): number | null {
    return this.#run?.pid ?? null;
  }

  // ── orders ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Finds a process that an earlier agent started, without touching it. Call once, before the first goal. */
  adopt(): void {
    const { paths } = this.#options;
    const record = readJson(paths.run) as RunRecord | null;
    if (record && isAlive(record)) {
      this.#take(record);
      return;
    }
    const stray = this.#stray();
    if (stray) this.#take({ ...this.#recordOf(record), ...stray });
    else if (record?.confirmed) this.#takenOver = record.configVersion;
  }

  /**
   * An agent may have died between starting a process and writing down its number: its command line tells. Where no start
   * was ever noted there is none to look for.
   */
  #stray(): ProcessIdentity | null {
    const { run, config } = this.#options.paths;
    return existsSync(run) ? (findByConfig(new Set([config])).get(config) ?? null) : null;
  }

  /** For an agent that comes after this one; a power cut ends the process with the note, so no disk is waited for. */
  #note(record: RunRecord): void {
    writeJson(this.#options.paths.run, record, PUBLIC, 'nothing');
  }

  /** A process that runs is not given up because a full disk takes no note of it: an agent that comes later finds it all the same. */
  #noteRunning(record: RunRecord): void {
    try {
      this.#note(record);
    } catch (failure) {
      const { message } = asBelayError(failure);
      this.#options.log.warn('not noted', { service: this.#options.serviceId, pid: record.pid, message });
    }
  }

  /** Without a record it is not known what a process runs with: empty inputs fit no goal. */
  #recordOf(record: RunRecord | null): RunRecord {
    const since = this.#options.clock.now();
    return record ?? { ...UNKNOWN_RUN, since };
  }

  #take(record: RunRecord): void {
    this.#run = record;
    this.#adopted = true;
    this.#takenOver = record.confirmed ? record.configVersion : 0;
    this.#options.log.info('adopted', { service: this.#options.serviceId, pid: record.pid });
    this.#pollAdopted();
  }

  /** A new goal; `fresh` (a new snapshot, a person) tries at once whatever happened before. */
  setGoal(goal: Goal, fresh: boolean): void {
    if (this.#leaving) return;
    this.#goal = goal;
    if (fresh) {
      this.#failures = 0;
      this.#configError = null;
      if (this.#ended) this.#ended = { ...this.#ended, nextStartAt: this.#options.clock.now() };
    }
    void this.converge();
  }

  /** The database answered: the process is up with its snapshot. */
  confirm(): void {
    const run = this.#run;
    if (!run || this.#answering) return;
    this.#answering = true;
    this.#configError = null;
    if (!run.confirmed) {
      this.#run = { ...run, confirmed: true };
      this.#noteRunning(this.#run);
    }
    this.#takenOver = run.configVersion;
    this.#options.changed();
  }

  /** Looks whether the process still lives; for one that gives no exit event. */
  look(): void {
    if (this.#run && this.#adopted && !isAlive(this.#run)) this.#exited({ code: null, signal: null });
  }

  /** Makes the process what the goal says; calls made meanwhile lead to one more round. */
  converge(): Promise<void> {
    if (this.#busy) {
      this.#again = true;
      return this.#busy;
    }
    const rounds = this.#rounds();
    if (this.#turning) this.#busy = rounds;
    return rounds;
  }

  async #rounds(): Promise<void> {
    this.#turning = true;
    do {
      this.#again = false;
      try {
        await this.#round();
      } catch (failure) {
        const { code, message } = asBelayError(failure);
        this.#failedStart(message, code);
      }
    } while (this.#again && !this.#closed);
    // In the same breath as the last look at `again`: an order that comes later begins its own rounds.
    this.#turning = false;
    this.#busy = null;
  }

  async #round(): Promise<void> {
    if (this.#closed) return;
    const goal = this.#goal;
    if (this.#run) {
      if (goal.kind === 'run' && this.#sameRun(this.#run, goal.plan)) {
        this.#keep(this.#run, goal.plan);
        return;
      }
      await this.#stop();
      this.#again = true;
      return;
    }
    if (goal.kind === 'run') await this.#startWhenDue(goal.plan);
    else this.#rest(goal);
  }

  /** An agent of another release may render differently: the version of the snapshot decides, not the rendering. */
  #sameRun(run: RunRecord, plan: RunPlan): boolean {
    if (run.inputs === plan.inputs) return plan.certificatesOnline || hasCertificates(run, plan);
    return run.configVersion === plan.configVersion && run.version === plan.version && run.confirmed;
  }

  /** The running process already is what the newer snapshot wants: it is taken over without a restart. */
  #keep(run: RunRecord, plan: RunPlan): void {
    const { configVersion, inputs, certificates } = plan;
    // Not what it should be until it took its certificates.
    if (run.inputs === inputs && !hasCertificates(run, plan)) return;
    if (run.configVersion === configVersion && run.inputs === inputs) return;
    this.#run = { ...run, configVersion, inputs, certificates };
    this.#noteRunning(this.#run);
    if (this.#answering) this.#takenOver = plan.configVersion;
    this.#options.changed();
  }

  /** The running process was seen to present the certificates of the newest goal. */
  tookCertificates(): void {
    const goal = this.#goal;
    if (!this.#run || goal.kind !== 'run') return;
    this.#run = { ...this.#run, certificates: goal.plan.certificates };
    this.#noteRunning(this.#run);
    this.#keep(this.#run, goal.plan);
  }

  #rest(goal: Exclude<Goal, { kind: 'run' }>): void {
    if (goal.kind === 'refused') {
      this.#failures = Math.max(this.#failures, 1);
      const since = this.#options.clock.now();
      const { code, message } = goal;
      this.#ended = { since, exit: { code: null, signal: null }, message, nextStartAt: null, code };
    } else {
      this.#ended = null;
      this.#failures = 0;
      if (goal.kind === 'stopped') this.#takenOver = goal.configVersion;
    }
    this.#options.changed();
  }

  // ── start ──────────────────────────────────────────────────────────────────────────────────────────────────────

  async #startWhenDue(plan: RunPlan): Promise<void> {
    const { clock } = this.#options;
    if (this.#ended?.nextStartAt === null) return;
    const due = this.#ended?.nextStartAt ?? 0;
    this.#cancelTimer();
    if (due > clock.now()) this.#cancelTimer = clock.at(due, () => void this.converge());
    else await this.#start(plan);
  }

  async #start(plan: RunPlan): Promise<void> {
    const { paths, clock, serviceId, log } = this.#options;
    const stray = this.#stray();
    if (stray) {
      this.#take({ ...this.#recordOf(readJson(paths.run) as RunRecord | null), ...stray });
      this.#again = true;
      this.#options.changed();
      return;
    }
    const executable = await plan.prepare();
    if (this.#closed) return;
    const { version, configVersion, inputs, certificates } = plan;
    const what = { executable, version, configVersion, inputs, certificates };
    const intent = { ...UNKNOWN_RUN, since: clock.now(), ...what };
    this.#note(intent);
    const child = launch({
      executable,
      args: ['--config', paths.config],
      output: paths.output,
      environment: plan.environment,
      limits: plan.limits,
      unit: `belay-member-${serviceId}`,
    });
    child.once('error', (error) => this.#failedStart(`it could not be started: ${error.message}`));
    if (child.pid === undefined) return;
    this.#ended = null;
    this.#adopted = false;
    this.#answering = false;
    this.#run = { ...intent, pid: child.pid, ...identify(child.pid) };
    this.#watch(child);
    this.#noteRunning(this.#run);
    log.info('started', { service: serviceId, pid: child.pid, configVersion: plan.configVersion });
    this.#options.changed();
  }

  #watch(child: ChildProcess): void {
    const { pid } = child;
    child.once('exit', (code, signalName) => {
      if (this.#run?.pid === pid) this.#exited({ code, signal: signalName });
    });
  }

  #pollAdopted(): void {
    const { clock } = this.#options;
    this.#cancelPoll = clock.at(clock.now() + ADOPTED_POLL, () => {
      this.look();
      if (this.#run && this.#adopted && !this.#closed) this.#pollAdopted();
    });
  }

  // ── end ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #exited(exit: Exit): void {
    const run = this.#run;
    if (!run) return;
    const { clock, paths, log, serviceId } = this.#options;
    const ranWell = this.#answering && clock.now() - run.since >= RAN_WELL;
    this.#run = null;
    this.#answering = false;
    this.#cancelPoll();
    removeQuietly(paths.run);
    for (const waiter of this.#exitWaiters.splice(0)) waiter();
    if (this.#stopping) return;
    const tail = { log: readTail(paths.log, LOG_TAIL), output: readTail(paths.output, LOG_TAIL) };
    const holder = exit.code === EXIT_PORT ? (this.#options.portHolder?.() ?? null) : null;
    const verdict = judgeExit(exit, tail, run.confirmed, holder);
    this.#failures = ranWell ? 1 : this.#failures + 1;
    const message = this.#redact(verdict.message);
    if (verdict.rejectsConfig) this.#configError = message;
    this.#ended = {
      since: clock.now(),
      exit,
      message,
      nextStartAt: verdict.retry ? clock.now() + this.#wait() : null,
    };
    log.warn('ended', { service: serviceId, pid: run.pid, ...exit, message });
    this.#options.changed();
    void this.converge();
  }

  /** Something of ours failed before there was a process (a full disk, for one). */
  #failedStart(message: string, code?: string): void {
    if (this.#run) this.#run = null;
    this.#failures++;
    const { clock } = this.#options;
    this.#ended = {
      since: clock.now(),
      exit: { code: null, signal: null },
      message: this.#redact(message),
      nextStartAt: clock.now() + this.#wait(),
      ...(code === undefined ? {} : { code }),
    };
    this.#options.changed();
    if (!this.#closed) {
      this.#cancelTimer();
      this.#cancelTimer = clock.at(this.#ended.nextStartAt as Millis, () => void this.converge());
    }
  }

  #wait(): Millis {
    return Math.min(RESTART_CAP, RESTART_FIRST * 2 ** Math.max(0, this.#failures - 1));
  }

  #redact(message: string): string {
    return this.#options.redact?.(message) ?? message;
  }

  async #stop(): Promise<void> {
    const run = this.#run;
    if (!run) return;
    this.#stopping = true;
    this.#options.changed();
    const gone = new Promise<void>((resolve) => this.#exitWaiters.push(resolve));
    const timers: (() => void)[] = [];
    const { clock, stopTimeoutMillis = STOP_TIMEOUT } = this.#options;
    timers.push(clock.at(clock.now() + stopTimeoutMillis, () => signal(run.pid, 'SIGKILL')));
    const poll = (): void => {
      this.look();
      if (this.#run) timers.push(clock.at(clock.now() + STOP_POLL, poll));
    };
    signal(run.pid, 'SIGTERM');
    if (this.#adopted) poll();
    await gone;
    for (const cancel of timers) cancel();
    this.#stopping = false;
    this.#ended = null;
    this.#options.log.info('stopped', { service: this.#options.serviceId, pid: run.pid });
    this.#options.changed();
  }

  /** It is being stopped for good. */
  get leaving(): boolean {
    return this.#leaving;
  }
  #leaving = false;

  /** Stops the process for good and resolves when it is gone: whatever is wanted of it meanwhile, it is not started again. */
  async stop(): Promise<void> {
    this.#goal = { kind: 'nothing' };
    this.#leaving = true;
    await this.converge();
  }

  /** Lets go without touching the process. */
  close(): void {
    this.#closed = true;
    this.#cancelTimer();
    this.#cancelPoll();
  }
}

const hasCertificates = (run: RunRecord, plan: RunPlan): boolean =>
  run.certificates === undefined || run.certificates === plan.certificates;
