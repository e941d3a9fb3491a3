/**
 * `belay maintenance run … -- COMMAND`: takes hosts as they are granted, runs the command for each, gives each back when what
 * is on it has come back, and cleans up however it ends.
 */
import { spawn } from 'node:child_process';
import { BelayError } from '../../base/error.ts';
import { formatDuration } from '../../base/units.ts';
import type { Context } from '../context.ts';
import { EXIT, Exit } from '../exit.ts';
import { makePainter } from '../progress.ts';
import {
  type ActionRow,
  bodyOf,
  type HostRow,
  nameOf,
  nextLook,
  pause,
  type TaskRow,
  taskPath,
  type Wanted,
  waiting,
} from './maintenance.ts';

export interface RunOptions {
  readonly command: readonly string[];
  readonly allHosts: boolean;
  /** How long nothing may change on a host after the command before it is looked at. */
  readonly settleMillis: number;
  /** Go on with others when a command has failed. */
  readonly keepGoing: boolean;
}

interface Job {
  readonly action: ActionRow;
  readonly startedAt: number;
  doing: string;
}

/** See the head of this file. Ends with 1 when a command failed, with 130 after Ctrl-C. */
export async function run(context: Context, asked: Wanted, options: RunOptions): Promise<void> {
  if (options.command.length === 0)
    throw new BelayError('Usage', 'run what?', {
      retry: 'never',
      fix: 'write the command behind --, with {host} in it: -- ssh {host} sudo reboot',
    });
  const hosts = options.allHosts ? (await hostsOf(context)).map((h) => h.host) : asked.hosts;
  const task = await context.client.request<TaskRow>('POST', '/api/v1/maintenance/tasks', {
    body: bodyOf({ ...asked, hosts }),
  });
  const roll = new Roll(context, task, options);
  try {
    await roll.go();
  } finally {
    await roll.cleanUp();
  }
  const { done, failed, total } = roll;
  context.terminal.out(
    `${done} of ${total} done${failed.length === 0 ? '' : `, failed: ${failed.join(', ')}`}`,
  );
  if (failed.length > 0) throw new Exit(EXIT.failed);
}

const hostsOf = async (context: Context): Promise<readonly HostRow[]> =>
  (await context.client.get<{ items: readonly HostRow[] }>('/api/v1/maintenance/hosts')).items;

class Roll {
  readonly total: number;
  readonly failed: string[] = [];
  done = 0;
  readonly #context: Context;
  readonly #options: RunOptions;
  readonly #stop = new AbortController();
  readonly #jobs = new Map<string, Job>();
  readonly #running = new Set<Promise<void>>();
  readonly #paint: (lines: readonly string[]) => void;
  #task: TaskRow | null;
  readonly #name: string;

  constructor(context: Context, task: TaskRow, options: RunOptions) {
    this.#context = context;
    this.#options = options;
    this.#task = task;
    this.#name = task.name;
    this.total = task.groups.flat().length;
    this.#paint = context.quiet ? () => {} : makePainter(context.terminal);
    context.io.interrupted().addEventListener('abort', () => this.#stop.abort());
  }

  async go(): Promise<void> {
    while (this.#task !== null) {
      this.#begin(this.#task);
      this.#show();
      if (this.#running.size > 0) await Promise.race(this.#running);
      else await pause(this.#context, nextLook(this.#context, this.#task));
      if (this.#stop.signal.aborted) throw new Exit(EXIT.interrupted);
      if (this.failed.length > 0 && !this.#options.keepGoing) {
        await Promise.all(this.#running);
        return;
      }
      await this.#again();
    }
    this.#show();
  }

  /** Everything that was granted and has not begun yet. */
  #begin(task: TaskRow): void {
    for (const action of task.groups.flat()) {
      const { id } = action;
      if (id === null || action.state !== 'performed' || this.#jobs.has(id)) continue;
      const job: Job = { action, startedAt: this.#context.now(), doing: this.#options.command[0] ?? '' };
      this.#jobs.set(id, job);
      const work = this.#work(id, job).finally(() => this.#running.delete(work));
      this.#running.add(work);
    }
  }

  async #work(id: string, job: Job): Promise<void> {
    const name = nameOf(job.action);
    const code = await this.#command(name, job.action);
    if (this.#stop.signal.aborted) return;
    if (code !== 0) {
      this.failed.push(`${name} (exit ${code})`);
      this.#context.terminal.err(`${name}: the command ended with ${code}`);
    } else {
      job.doing = 'coming back';
      await this.#cameBack(job).catch(() => undefined);
      this.done++;
    }
    if (this.#stop.signal.aborted) return;
    // Kept locked after a failure only if the roll ends here: then cleaning up gives it back.
    await this.#context.client.request('POST', `${taskPath(this.#name)}/complete`, { body: { ids: [id] } });
  }

  /** Runs the command for one host; its output goes to stderr behind the name. */
  #command(name: string, { scope }: ActionRow): Promise<number> {
    const fill = (text: string): string => text.replaceAll('{host}', name).replaceAll('{node}', name);
    const [program = '', ...args] = this.#options.command.map(fill);
    return new Promise((resolve) => {
      const child = spawn(program, args, {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: {
          ...process.env,
          BELAY_MAINTENANCE_HOST: scope.host ?? '',
          BELAY_MAINTENANCE_NODE: scope.node ?? '',
        },
        signal: this.#stop.signal,
        killSignal: 'SIGTERM',
      });
      for (const stream of [child.stdout, child.stderr]) this.#tell(name, stream);
      child.on('error', (failure) => {
        if (!this.#stop.signal.aborted) this.#context.terminal.err(`${name}: ${failure.message}`);
        resolve(127);
      });
      child.on('close', (code) => resolve(code ?? 1));
    });
  }

  #tell(name: string, stream: NodeJS.ReadableStream): void {
    let rest = '';
    stream.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString('utf8')).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) this.#context.terminal.err(`${name} | ${line}`);
    });
    stream.on('end', () => {
      if (rest !== '') this.#context.terminal.err(`${name} | ${rest}`);
    });
  }

  /** What is on the host is up again. It was looked at long enough after the command that its going down was seen. */
  async #cameBack(job: Job): Promise<void> {
    const name = nameOf(job.action);
    const until = job.action.deadline === null ? Number.POSITIVE_INFINITY : Date.parse(job.action.deadline);
    await pause(this.#context, this.#options.settleMillis);
    while (this.#context.now() < until) {
      const hosts = await hostsOf(this.#context);
      const nodes = hosts.flatMap((h) => h.nodes).filter((n) => n.host === name || n.name === name);
      const down = nodes.filter((n) => n.state !== 'Up');
      if (down.length === 0) return;
      job.doing = `waits for ${down.map((n) => n.name).join(', ')}`;
      await pause(this.#context, 1_000);
    }
  }

  /** Null: nothing is left of the task. */
  async #again(): Promise<void> {
    try {
      this.#task = await this.#context.client.request<TaskRow>('POST', `${taskPath(this.#name)}/refresh`);
    } catch (failure) {
      if (!(failure instanceof BelayError)) throw failure;
      if (failure.code === 'NotFound') this.#task = null;
      // A control plane that is away for a moment must not end a roll in the middle.
      else if (failure.retry === 'never') throw failure;
      else await pause(this.#context, 1_000);
    }
  }

  #show(): void {
    const busy = [...this.#jobs.values()].filter((j) =>
      this.#task?.groups.flat().some((a) => a.id === j.action.id),
    );
    const doing = busy.map(
      (j) => `${nameOf(j.action)} ${j.doing} (${formatDuration(this.#context.now() - j.startedAt)})`,
    );
    const waits = this.#task === null ? [] : waiting(this.#task);
    const [first] = waits.filter((a) => a.message !== '');
    const width = 20;
    const filled = Math.round((this.done / Math.max(1, this.total)) * width);
    const bar = `${'█'.repeat(filled)}${'░'.repeat(width - filled)}`;
    const why = first === undefined ? '' : `   waiting ${nameOf(first)}: ${first.message}`;
    this.#paint([` ${this.done}/${this.total}  ${bar}  ${doing.join(', ')}${why}`.trimEnd()]);
  }

  /** Whatever is still held or wanted is given back; a control plane that cannot be asked lets go at the deadline. */
  async cleanUp(): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled(this.#running);
    if (this.#task === null) return;
    try {
      await this.#context.client.request('DELETE', taskPath(this.#name));
    } catch (failure) {
      if (failure instanceof BelayError && failure.code === 'NotFound') return;
      this.#context.terminal.err(
        `task ${this.#name} could not be dropped; what it holds ends with its deadline`,
      );
    }
  }
}
