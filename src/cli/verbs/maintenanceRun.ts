/**
 * `belay maintenance run … -- COMMAND`: takes hosts as they are granted, runs the command for each, gives each back when what
 * is on it has come back, and cleans up however it ends. A host stays locked as long as its command runs, however long that
 * takes and whatever else happens: who gives one back under a running command has two members of a set down.
 */
import { BelayError } from '../../base/error.ts';
import { formatDuration, formatLimit, type Millis, SECOND } from '../../base/units.ts';
import type { Context } from '../context.ts';
import { EXIT, Exit } from '../exit.ts';
import { makePainter } from '../progress.ts';
import { ask, taskPath, type Wanted } from './maintenance.ts';
import { Patience } from './patience.ts';
import { pause } from './pause.ts';
import { checkCommand, type Place, placeOf, type Started, start } from './rollCommand.ts';
import {
  type ActionRow,
  type HostRow,
  type NodeRow,
  nameOf,
  nextLook,
  type TaskRow,
  waiting,
} from './taskText.ts';

export interface RunOptions {
  readonly command: readonly string[];
  readonly allHosts: boolean;
  /** How long nothing may change on a host after the command before it is looked at. */
  readonly settleMillis: Millis;
  /** Go on with others when a command has failed. */
  readonly keepGoing: boolean;
}

/** Longest sleep before a look at the clock: one that was set on, or a machine that slept, is noticed in time. */
const LOOK_AT_CLOCK: Millis = 30 * SECOND;

/** See the head of this file. Ends with 1 when a command failed or something was never begun, with 130 after Ctrl-C. */
export async function run(context: Context, asked: Wanted, options: RunOptions): Promise<void> {
  checkCommand(options.command, options.allHosts || asked.hosts.length > 0);
  const hosts = options.allHosts ? (await hostsOf(context)).map((h) => h.host) : asked.hosts;
  const task = await ask(context, '/api/v1/maintenance/tasks', { ...asked, hosts });
  const roll = new Roll(context, task, options, asked.topology);
  try {
    await roll.go();
  } finally {
    await roll.end();
  }
  const { done, failed, total, left } = roll;
  // Named one and all: who goes on later asks for just these.
  const rest = left.length === 0 ? '' : `; not begun: ${left.join(', ')}`;
  if (context.io.interrupted().aborted) {
    context.terminal.err(`interrupted: ${done} of ${total} done${rest}`);
    throw new Exit(EXIT.interrupted);
  }
  const bad = failed.length === 0 ? '' : `, failed: ${failed.join(', ')}`;
  context.terminal.out(`${done} of ${total} done${bad}${rest}`);
  if (failed.length + left.length > 0) throw new Exit(EXIT.failed);
}

const hostsOf = async (context: Context): Promise<readonly HostRow[]> =>
  (await context.client.get<{ items: readonly HostRow[] }>('/api/v1/maintenance/hosts')).items;

interface Job {
  readonly id: string;
  readonly action: ActionRow;
  readonly name: string;
  readonly startedAt: Millis;
  /** How long it was asked for, and is asked for again. */
  readonly duration: Millis;
  /** By our own clock: that of the control plane may be another. */
  until: Millis;
  doing: string;
  command: Started | null;
  /** The lock has ended under it. */
  lost: boolean;
}

class Roll {
  readonly total: number;
  readonly failed: string[] = [];
  done = 0;
  readonly #context: Context;
  readonly #options: RunOptions;
  readonly #topology: string | undefined;
  /** Ctrl-C: nothing more is begun. */
  readonly #stop: AbortSignal;
  /** A second one: nothing is waited for. */
  readonly #quit: AbortSignal;
  readonly #patience: Patience;
  readonly #jobs = new Map<string, Job>();
  /** Ids of everything that was begun, over or not. */
  readonly #begun = new Set<string>();
  /** Names of what no command was started for. */
  readonly #left: Set<string>;
  readonly #running = new Set<Promise<void>>();
  readonly #paint: (lines: readonly string[]) => void;
  /** What ended a piece of work that is no failure of its command. */
  #fault: unknown = null;
  #saidDisabled = false;
  #task: TaskRow | null;
  readonly #name: string;

  constructor(context: Context, task: TaskRow, options: RunOptions, topology: string | undefined) {
    this.#context = context;
    this.#options = options;
    this.#topology = topology;
    this.#task = task;
    this.#name = task.name;
    this.total = task.groups.flat().length;
    this.#left = new Set(task.groups.flat().map(nameOf));
    this.#paint = context.quiet ? () => {} : makePainter(context.terminal);
    this.#stop = context.io.interrupted();
    this.#quit = context.io.insisted();
    this.#patience = new Patience(context);
    this.#stop.addEventListener('abort', () => this.#sayStopping());
  }

  /** What no command was started for, in the order it was asked for. */
  get left(): readonly string[] {
    return [...this.#left];
  }

  /** Until nothing is left of the task, a command has failed, or Ctrl-C. */
  async go(): Promise<void> {
    while (this.#task !== null && !this.#stop.aborted) {
      this.#begin(this.#task);
      this.#show();
      if (this.#running.size > 0) await Promise.race([...this.#running, aborted(this.#stop)]);
      else await pause(this.#context, nextLook(this.#task, this.#context.now()), this.#stop);
      if (this.#fault !== null) throw this.#fault;
      if (this.#stop.aborted || (this.failed.length > 0 && !this.#options.keepGoing)) return;
      await this.#again();
    }
    this.#show();
    if (this.#task === null && this.#left.size > 0)
      this.#context.terminal.err(`task ${this.#name} is not there any more: nothing more is begun`);
  }

  /** Everything that was granted and has not begun yet. */
  #begin(task: TaskRow): void {
    for (const action of task.groups.flat()) {
      const { id, deadline } = action;
      if (id === null || action.state !== 'performed' || this.#begun.has(id)) continue;
      this.#begun.add(id);
      const now = this.#context.now();
      const told = deadline === null ? Number.POSITIVE_INFINITY : Date.parse(deadline) - now;
      const job: Job = {
        id,
        action,
        name: nameOf(action),
        startedAt: now,
        duration: action.durationMillis,
        until: now + Math.min(action.durationMillis, Math.max(0, told)),
        doing: this.#options.command[0] ?? '',
        command: null,
        lost: false,
      };
      this.#jobs.set(id, job);
      const work = this.#work(job)
        .catch((failure) => {
          this.#fault ??= failure;
        })
        .finally(() => this.#running.delete(work));
      this.#running.add(work);
    }
  }

  async #work(job: Job): Promise<void> {
    const place = placeOf(job.action, this.#topology, await this.#nodes());
    if (this.#stop.aborted) return;
    const over = new AbortController();
    const kept = this.#keep(job, AbortSignal.any([over.signal, this.#quit]));
    try {
      job.command = start(this.#context, this.#options.command, job.name, place);
      this.#left.delete(job.name);
      const end = await job.command.ended;
      job.command = null;
      await this.#judge(job, place, end);
    } finally {
      over.abort();
      await kept;
    }
    if (!this.#quit.aborted && !job.lost) await this.#giveBack(job);
    this.#jobs.delete(job.id);
  }

  /** How it went: by the command's end, and by what is on the host afterwards. */
  async #judge(job: Job, place: Place, end: number | string): Promise<void> {
    const { name } = job;
    if (end !== 0) {
      const how = typeof end === 'number' ? `exit ${end}` : end;
      this.failed.push(`${name} (${how})`);
      this.#context.terminal.err(`${name}: the command ended with ${end}`);
      return;
    }
    job.doing = 'coming back';
    const down = await this.#cameBack(job, place);
    if (down.length > 0) {
      this.failed.push(`${name} (not up again: ${down.join(', ')})`);
      this.#context.terminal.err(
        `${name}: ${down.join(', ')} not up again ${formatLimit(job.duration)} after the command`,
      );
      return;
    }
    this.done++;
  }

  /** What is not up again so long as the host was asked for; none after Ctrl-C, when nobody waits for it. */
  async #cameBack(job: Job, place: Place): Promise<readonly string[]> {
    const keys = new Set(place.nodes.map((n) => n.key));
    const until = this.#context.now() + job.duration;
    // It is looked at long enough after the command that its going down was seen.
    await pause(this.#context, this.#options.settleMillis, this.#stop);
    for (;;) {
      if (this.#stop.aborted) return [];
      const there = (await this.#nodes()).filter((n) => keys.has(n.key) && n.state !== 'Up');
      const down = there.map((n) => n.name);
      if (down.length === 0 || this.#context.now() >= until) return down;
      job.doing = `waits for ${down.join(', ')}`;
      await pause(this.#context, SECOND, this.#stop);
    }
  }

  /** Holds the lock until the work is over: asks for it again when half of its time has passed, or says that it has ended. */
  async #keep(job: Job, over: AbortSignal): Promise<void> {
    const path = `${taskPath(this.#name)}/extend`;
    while (!over.aborted) {
      const wait = job.until - job.duration / 2 - this.#context.now();
      if (wait > 0) {
        await pause(this.#context, Math.min(wait, LOOK_AT_CLOCK), over);
        continue;
      }
      const body = { ids: [job.id], duration: `${job.duration}ms` };
      try {
        const askedAt = await this.#patience.ask(async () => {
          const at = this.#context.now();
          await this.#context.client.request('POST', path, { body });
          return at;
        }, over);
        job.until = askedAt + job.duration;
      } catch (failure) {
        if (over.aborted) return;
        return this.#cannotKeep(job, failure);
      }
    }
  }

  #cannotKeep(job: Job, failure: unknown): void {
    const { terminal } = this.#context;
    job.lost = failure instanceof BelayError && failure.code === 'NotFound';
    const why = failure instanceof Error ? failure.message : String(failure);
    terminal.err(
      job.lost
        ? `warning: ${job.name} is not locked any more, and its command still runs: others may take what is on it`
        : `warning: the lock of ${job.name} could not be renewed (${why}); it ends at ${iso(job.until)}, and its command still runs`,
    );
  }

  /** One that is not held any more, an answer that was lost among the reasons, is given back already. */
  async #giveBack({ id }: Job): Promise<void> {
    const complete = { body: { ids: [id] } };
    await this.#patience
      .ask(
        () => this.#context.client.request('POST', `${taskPath(this.#name)}/complete`, complete),
        this.#quit,
      )
      .catch(unlessGone);
  }

  /** Null: nothing is left of the task. */
  async #again(): Promise<void> {
    this.#task = await this.#patience
      .ask(() => this.#context.client.request<TaskRow>('POST', `${taskPath(this.#name)}/refresh`), this.#stop)
      .catch((failure) => {
        if (this.#stop.aborted || this.#isDisabled(failure)) return this.#task;
        return unlessGone(failure);
      });
  }

  /** New grants are switched off: that is waited out. */
  #isDisabled(failure: unknown): boolean {
    if (!(failure instanceof BelayError) || failure.code !== 'MaintenanceDisabled') return false;
    if (!this.#saidDisabled) this.#context.terminal.err(`${failure.message}; waits until they are on again`);
    this.#saidDisabled = true;
    return true;
  }

  async #nodes(): Promise<readonly NodeRow[]> {
    const path = '/api/v1/maintenance/nodes';
    const ask = () => this.#context.client.get<{ items: readonly NodeRow[] }>(path);
    return (await this.#patience.ask(ask, this.#quit)).items;
  }

  #show(): void {
    const doing = [...this.#jobs.values()].map(
      (j) => `${j.name} ${j.doing} (${formatDuration(this.#context.now() - j.startedAt)})`,
    );
    const waits = this.#task === null ? [] : waiting(this.#task);
    const [first] = waits.filter((a) => a.message !== '');
    const width = 20;
    const filled = Math.round((this.done / Math.max(1, this.total)) * width);
    const bar = `${'█'.repeat(filled)}${'░'.repeat(width - filled)}`;
    const why = first === undefined ? '' : `   waiting ${nameOf(first)}: ${first.message}`;
    this.#paint([` ${this.done}/${this.total}  ${bar}  ${doing.join(', ')}${why}`.trimEnd()]);
  }

  // ── the end ────────────────────────────────────────────────────────────────────────────────────────────────────────

  get #busy(): readonly Job[] {
    return [...this.#jobs.values()].filter((job) => job.command !== null);
  }

  #sayStopping(): void {
    const names = this.#busy.map((job) => job.name);
    if (names.length === 0) return;
    if (this.#context.io.terminated?.()) {
      for (const job of this.#busy) job.command?.terminate();
      this.#context.terminal.err(
        `nothing more is begun; the command on ${names.join(', ')} is asked to end, and what it works on stays locked until then`,
      );
      return;
    }
    this.#context.terminal.err(
      `nothing more is begun; the command still runs on ${names.join(', ')}, which stays locked until it ends; Ctrl-C again gives up`,
    );
  }

  /** Commands that run are waited for. Then whatever is still held or wanted is given back. */
  async end(): Promise<void> {
    if (this.#running.size > 0 && this.#task !== null) await this.#wantNothingMore();
    await Promise.race([Promise.allSettled(this.#running), aborted(this.#quit)]);
    if (this.#quit.aborted) return this.#giveUp();
    if (this.#task === null) return;
    try {
      const drop = () => this.#context.client.request('DELETE', taskPath(this.#name));
      await this.#patience.ask(drop, this.#quit);
    } catch (failure) {
      if (failure instanceof BelayError && failure.code === 'NotFound') return;
      const until = [...this.#jobs.values()].map((job) => `; ${job.name} is locked until ${iso(job.until)}`);
      this.#context.terminal.err(`task ${this.#name} could not be dropped${until.join('')}`);
    }
  }

  /** Others need not wait for what this roll would have taken next. Dropping the task later does it as well. */
  async #wantNothingMore(): Promise<void> {
    await this.#context.client.request('POST', `${taskPath(this.#name)}/withdraw`).catch(() => undefined);
  }

  #giveUp(): void {
    for (const job of this.#jobs.values()) {
      const why = job.command === null ? 'it was not given back yet' : 'its command may still run';
      job.command?.abandon();
      this.#context.terminal.err(
        `${job.name} stays locked until ${iso(job.until)}: ${why}. When it is well: belay maintenance drop ${this.#name}`,
      );
    }
  }
}

const iso = (at: Millis): string => new Date(at).toISOString();

/** Null for what is not there any more. */
function unlessGone(failure: unknown): null {
  if (failure instanceof BelayError && failure.code === 'NotFound') return null;
  throw failure;
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
