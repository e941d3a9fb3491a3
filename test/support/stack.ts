/**
 * A whole installation of processes for journeys: control plane, agents and whatever they start, in one scratch folder,
 * on free ports, all killed at the end. Only what a user has is used: executables, the API, the official driver.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import {
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { MongoClient, type MongoClientOptions } from 'mongodb';
import { Secret } from '../../src/base/secret.ts';
import { ApiClient, type ApiObject, objectPath } from '../../src/cli/client.ts';
import { type StatusRow, statusOf } from '../../src/cli/rows.ts';
import { freePort } from '../../src/engine/testing/freePort.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const BELAY = path.join(ROOT, 'bin/belay');
export const SIMULATOR_BIN = path.join(ROOT, 'simulator/bin');

/** Real clocks run in journeys; this is only how long a broken one may take to fail. */
export const PATIENCE = 60_000;
/** Time limit of a test with several waits. */
export const LONG = 240_000;

export interface Server {
  readonly process: ChildProcess;
  readonly url: string;
  readonly agentUrl: string;
  readonly token: string;
  readonly api: ApiClient;
}

export interface ServerStart {
  readonly storeUrl?: string;
  readonly ports?: { readonly api: number; readonly agents: number };
  readonly args?: readonly string[];
}

export interface StackOptions {
  readonly server?: ServerStart;
  readonly storeUrl?: string;
  readonly agents?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export class Stack {
  readonly dir: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #options: StackOptions;
  readonly #processes = new Set<ChildProcess>();
  #spawned = 0;
  /** Stacks of one machine keep out of each other's way, below the ports the system gives to clients. */
  readonly #firstPort = 10_000 + 20 * randomInt(1_000);
  readonly #joined = new Map<string, string>();
  readonly #ports = new Map<string, { api: number; agents: number }>();
  /** How long a wait may take; more where many members change one after the other. */
  patience = PATIENCE;
  server!: Server;
  agents = new Map<string, ChildProcess>();

  private constructor(options: StackOptions) {
    this.#options = options;
    this.dir = mkdtempSync(path.join(os.tmpdir(), 'belay-test-'));
    this.#env = {
      ...process.env,
      NO_COLOR: '1',
      XDG_CONFIG_HOME: path.join(this.dir, 'config'),
      BELAY_SERVER: '',
      BELAY_TOKEN: '',
      // Real servers take 15 s to leave a set; journeys delete many.
      BELAY_SIM_SHUTDOWN_MILLIS: '500',
      ...options.env,
    } as Record<string, string>;
  }

  static async start(options: StackOptions = {}): Promise<Stack> {
    const stack = new Stack(options);
    try {
      stack.server = await stack.startServer('server', options.server);
      for (const name of options.agents ?? ['local']) await stack.startAgent(name);
      return stack;
    } catch (error) {
      await stack.stop();
      throw error;
    }
  }

  /** Starts (or starts again) a control plane with its own data folder; its ports stay the same. */
  async startServer(name: string, options: ServerStart = {}): Promise<Server> {
    const data = path.join(this.dir, name);
    const ports = options.ports ?? this.#ports.get(name) ?? { api: 0, agents: 0 };
    const args = [
      'server',
      '--data',
      data,
      '--listen',
      `127.0.0.1:${ports.api}`,
      '--agent-listen',
      `127.0.0.1:${ports.agents}`,
      ...(options.args ?? []),
    ];
    const storeUrl = options.storeUrl ?? this.#options.storeUrl;
    if (storeUrl !== undefined) args.push('--store', storeUrl);
    const child = this.spawn(args);
    const line = await lineOf(child, 'control plane ready');
    const ready = JSON.parse(line) as { url: string; agents: string[]; tokenFile: string };
    this.#ports.set(name, {
      api: Number(new URL(ready.url).port),
      agents: ports.agents || Number(new URL(ready.agents[0] as string).port),
    });
    const token = readFileSync(ready.tokenFile, 'utf8').trim();
    return {
      process: child,
      url: ready.url,
      agentUrl: ready.agents[0] as string,
      token,
      api: new ApiClient(ready.url, new Secret(token)),
    };
  }

  /**
   * Starts an agent; the first time it joins with a one-time token. Several that carry members of one set need an address
   * that is not localhost; on one machine they also keep out of each other's ports (`portsFrom`).
   */
  async startAgent(
    name: string,
    options: {
      readonly urls?: readonly string[];
      readonly binDir?: string;
      readonly address?: string;
      readonly portsFrom?: number;
    } = {},
  ): Promise<ChildProcess> {
    const urls = options.urls ?? [this.server.agentUrl];
    const data = path.join(this.dir, `agent-${name}`);
    const args = [
      'agent',
      '--data',
      data,
      '--name',
      name,
      '--address',
      options.address ?? 'localhost',
      '--bin-dir',
      options.binDir ?? SIMULATOR_BIN,
    ];
    let env = {};
    if (!this.#joined.has(name)) {
      const invitation = await this.server.api.request<{ token: string; caFingerprint: string }>(
        'POST',
        '/api/v1/join-tokens',
        { body: { host: name } },
      );
      args.push('--server', ...urls, '--ca-fingerprint', invitation.caFingerprint);
      env = { BELAY_JOIN_TOKEN: invitation.token };
      this.#joined.set(name, data);
    }
    const child = this.spawn(args, env);
    this.agents.set(name, child);
    await this.until(async () => {
      const host = await this.server.api
        .get<ApiObject>(objectPath('hosts', 'default', name))
        .catch(() => null);
      return (host?.status as { connected?: boolean } | undefined)?.connected === true;
    }, `agent ${name} connected`);
    await this.server.api.request('PUT', objectPath('hosts', 'default', name), {
      body: {
        apiVersion: 'belay.dev/v1',
        kind: 'Host',
        metadata: { name },
        spec: { firstPort: this.#firstPort + (options.portsFrom ?? 0) },
      },
    });
    return child;
  }

  /** A folder in which the simulator stands in for these versions, as if they were installed. */
  builds(versions: readonly string[]): string {
    const bin = path.join(this.dir, 'bin');
    for (const version of versions) {
      mkdirSync(path.join(bin, version, 'bin'), { recursive: true });
      for (const program of readdirSync(SIMULATOR_BIN))
        symlinkSync(path.join(SIMULATOR_BIN, program), path.join(bin, version, 'bin', program));
    }
    return bin;
  }

  /** Asks for an operation as `belay` does; gives its name. */
  async operate(spec: Readonly<Record<string, unknown>>, cluster: string): Promise<string> {
    const body = {
      apiVersion: 'belay.dev/v1',
      kind: 'Operation',
      metadata: {},
      spec: { ...spec, mongodbResourceRef: { name: cluster } },
    };
    const at = objectPath('operations', 'default');
    return (await this.server.api.request<ApiObject>('POST', at, { body })).metadata.name;
  }

  agentDir(name = 'local'): string {
    return path.join(this.dir, `agent-${name}`);
  }

  spawn(args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
    const child = spawn(BELAY, args, { env: { ...this.#env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    // Logs are kept with the scratch folder, which BELAY_KEEP=1 leaves behind for a look.
    const log = createWriteStream(path.join(this.dir, `${args[0]}-${this.#spawned++}.log`));
    child.stdout?.pipe(log, { end: false });
    child.stderr?.pipe(log, { end: false });
    this.#processes.add(child);
    child.on('exit', () => this.#processes.delete(child));
    return child;
  }

  /** Runs a verb as a user would; gives code and both outputs. */
  belay(args: readonly string[], input?: string): Promise<{ code: number | null; out: string; err: string }> {
    return new Promise((resolve) => {
      const env = { ...this.#env, BELAY_SERVER: this.server.url, BELAY_TOKEN: this.server.token };
      const child = spawn(BELAY, args, { env, stdio: ['pipe', 'pipe', 'pipe'] });
      let out = '';
      let err = '';
      child.stdout.on('data', (d) => {
        out += d;
      });
      child.stderr.on('data', (d) => {
        err += d;
      });
      child.on('close', (code) => resolve({ code, out, err }));
      child.stdin.end(input ?? '');
    });
  }

  apply(document: unknown, namespace = 'default'): Promise<{ outcome: string; objects: ApiObject[] }> {
    return this.server.api.request('POST', '/api/v1/apply', { body: document, query: { namespace } });
  }

  async object(plural: string, name: string, namespace = 'default'): Promise<ApiObject | null> {
    try {
      return await this.server.api.get<ApiObject>(objectPath(plural, namespace, name));
    } catch (error) {
      if ((error as { code?: string }).code === 'NotFound') return null;
      throw error;
    }
  }

  async status(name: string, namespace = 'default'): Promise<StatusRow> {
    const object = await this.object('mongodb', name, namespace);
    return object === null ? {} : statusOf(object);
  }

  async untilReady(name: string, namespace = 'default'): Promise<ApiObject> {
    return this.untilPhase(name, 'Ready', namespace);
  }

  async untilPhase(
    name: string,
    phase: string,
    namespace = 'default',
    plural = 'mongodb',
  ): Promise<ApiObject> {
    let last: ApiObject | null = null;
    await this.until(
      async () => {
        last = await this.object(plural, name, namespace).catch(() => last);
        return (
          last !== null &&
          statusOf(last).phase === phase &&
          statusOf(last).observedGeneration === last.metadata.generation
        );
      },
      () => `${plural} ${name} ${phase}; last: ${JSON.stringify(last?.status).slice(0, 3000)}`,
    );
    return last as unknown as ApiObject;
  }

  async untilGone(name: string, namespace = 'default'): Promise<void> {
    await this.until(
      async () => (await this.object('mongodb', name, namespace)) === null,
      `mongodb ${name} gone`,
    );
  }

  /** Polls an outside view; journeys watch processes they do not own. */
  async until(
    condition: () => Promise<boolean> | boolean,
    what: string | (() => string),
    patience = this.patience,
  ): Promise<void> {
    const end = Date.now() + patience;
    while (!(await condition())) {
      if (Date.now() > end) throw new Error(`not reached: ${typeof what === 'string' ? what : what()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** A driver client, logged in as a MongoDBUser (by object name) or a system user. */
  async connect(
    name: string,
    user: string,
    options: MongoClientOptions = {},
    namespace = 'default',
  ): Promise<MongoClient> {
    const connection = await this.server.api.request<{
      connectionString: string;
      tls: boolean;
      caPem: string;
    }>('POST', `${objectPath('mongodb', namespace, name)}/connection`, { body: { user } });
    const client = new MongoClient(connection.connectionString, {
      serverSelectionTimeoutMS: 60_000,
      ...(connection.tls ? { ca: connection.caPem } : {}),
      ...options,
    } as MongoClientOptions);
    return client.connect();
  }

  /** Process ids of mongods started by an agent of this stack. */
  mongods(): readonly number[] {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .filter(
        (pid) =>
          commandOf(pid).some((arg) => arg.includes(this.dir)) && /mongod/.test(commandOf(pid).join(' ')),
      );
  }

  async stop(): Promise<void> {
    for (const child of this.#processes) child.kill('SIGKILL');
    await new Promise((resolve) => setTimeout(resolve, 50));
    for (let round = 0; round < 5; round++) {
      const left = this.mongods();
      if (left.length === 0) break;
      for (const pid of left) kill(pid);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    if (process.env['BELAY_KEEP'] === undefined)
      rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

export function kill(pid: number, signal: NodeJS.Signals = 'SIGKILL'): void {
  try {
    process.kill(pid, signal);
  } catch {
    // gone already
  }
}

export function commandOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

/** The first output line that contains a text. */
export function lineOf(child: ChildProcess, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let seen = '';
    const take = (chunk: Buffer): void => {
      seen += chunk.toString('utf8');
      const line = seen
        .split('\n')
        .slice(0, -1)
        .find((l) => l.includes(text));
      if (line !== undefined) resolve(line);
    };
    child.stdout?.on('data', take);
    child.stderr?.on('data', take);
    child.on('exit', (code) =>
      reject(new Error(`ended with ${code} before "${text}":\n${seen.slice(-3000)}`)),
    );
  });
}

/** Which of these tools are there; tests that need one say so in their title when it is not. */
export function has(command: string, ...args: readonly string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'ignore', timeout: 20_000 });
    return true;
  } catch {
    return false;
  }
}

/** Free ports of this machine, to be named in advance. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) ports.add(await freePort());
  return [...ports];
}
