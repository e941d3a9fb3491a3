/** Starts real stand-in processes for tests, on free ports, in folders that go away. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The launchers under test. */
export const MONGOD = fileURLToPath(new URL('../../../simulator/bin/mongod', import.meta.url));
export const MONGOS = fileURLToPath(new URL('../../../simulator/bin/mongos', import.meta.url));

export interface LogLine {
  readonly s: string;
  readonly c: string;
  readonly id: number;
  readonly ctx: string;
  readonly msg: string;
  readonly attr?: Record<string, unknown>;
  readonly tags?: readonly string[];
}

/** A process that serves. */
export interface Running {
  readonly process: ChildProcess;
  readonly port: number;
  readonly lines: readonly string[];
  log(): readonly LogLine[];
  /** Sends a signal and waits for the end: the exit code, or the signal's name. */
  stop(signal?: NodeJS.Signals): Promise<number | string>;
}

/** A process that ended by itself. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Folders and processes of one test file; `clean` ends and removes all of them. */
export class Workshop {
  readonly #root = mkdtempSync(join(tmpdir(), 'belay-sim-'));
  readonly #running = new Set<ChildProcess>();
  #folders = 0;

  /** A fresh path under the workshop's folder. */
  path(name: string): string {
    return join(this.#root, name);
  }

  /** A fresh, empty data folder. */
  folder(): string {
    this.#folders += 1;
    const path = this.path(`data${this.#folders}`);
    mkdirSync(path);
    return path;
  }

  /** Starts a `mongod` (or `mongos`) and waits until it serves; rejects with its output when it ends before. */
  start(args: readonly string[], env: NodeJS.ProcessEnv = {}, program = MONGOD): Promise<Running> {
    const child = this.#spawn(args, env, program);
    const lines: string[] = [];
    let stderr = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr += String(chunk);
    });
    return new Promise((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`exit ${code}: ${stderr}${lines.join('\n')}`)));
      eachLine(child, (line) => {
        lines.push(line);
        if (!line.includes('"id":23016,')) return;
        const port = (JSON.parse(line) as { attr: { port: number } }).attr.port;
        resolve(running(child, port, lines));
      });
    });
  }

  /** Runs a `mongod` (or `mongos`) that is expected to end by itself. */
  async run(args: readonly string[], env: NodeJS.ProcessEnv = {}, program = MONGOD): Promise<Ended> {
    const child = this.#spawn(args, env, program);
    let stdout = '';
    let stderr = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      stdout += String(chunk);
    });
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr += String(chunk);
    });
    const [code] = (await once(child, 'close')) as [number];
    return { code, stdout, stderr };
  }

  /** Ends every process and removes every folder. */
  async clean(): Promise<void> {
    await Promise.all(
      [...this.#running].map((child) => {
        const ended = once(child, 'exit');
        child.kill('SIGKILL');
        return ended;
      }),
    );
    rmSync(this.#root, { recursive: true, force: true });
  }

  #spawn(args: readonly string[], env: NodeJS.ProcessEnv, program: string): ChildProcess {
    const child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    });
    this.#running.add(child);
    child.once('exit', () => this.#running.delete(child));
    return child;
  }
}

function running(child: ChildProcess, port: number, lines: readonly string[]): Running {
  return {
    process: child,
    port,
    lines,
    log: () => lines.map((line) => JSON.parse(line) as LogLine),
    stop: async (signal = 'SIGTERM') => {
      const ended = once(child, 'close');
      child.kill(signal);
      const [code, by] = (await ended) as [number | null, string | null];
      return code ?? by ?? 'unknown';
    },
  };
}

function eachLine(child: ChildProcess, take: (line: string) => void): void {
  let rest = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    const parts = (rest + String(chunk)).split('\n');
    rest = parts.pop() ?? '';
    parts.forEach(take);
  });
}
