import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { makeRng, type Rng } from '../../src/base/rng.ts';
import type { ApiObject } from '../../src/cli/client.ts';
import { replicaSet, user } from '../support/documents.ts';
import { Stack } from '../support/stack.ts';
import { MajorityWriter } from '../support/writer.ts';

export interface LifeOptions {
  readonly rounds: number;
  readonly seed: number;
  /** A sharded cluster instead of a replica set. */
  readonly sharded: boolean;
  /** Nobody is killed. */
  readonly calm: boolean;
  /** Names of changes; all of them when empty. */
  readonly only: readonly string[];
  readonly say: (line: string) => void;
}

export interface LifeResult {
  readonly rounds: number;
  readonly changes: number;
  readonly kills: number;
  readonly acknowledged: number;
  readonly lost: number;
  /** By change, the longest time between two acknowledged writes. */
  readonly longestGapMillis: Readonly<Record<string, number>>;
  readonly stepDownGapMillis: number;
}

const OLD = '7.0.43-23';
const NEW = '8.0.32-14';
/** Kills fall into this long after a change was asked for. */
const KILL_WINDOW_MILLIS = 2_500;

/** Twenty members, one after the other, on a busy machine. */
const PATIENCE_MILLIS = 400_000;

/** One change: what is asked for, and how it looks when it is done. */
interface Change {
  readonly name: string;
  /** The new spec; the same when an operation is asked for. */
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly operation?: Readonly<Record<string, unknown>>;
}

/** In this order: each builds on the one before. */
const CHANGES: readonly Change[] = [
  { name: 'scale 3 → 5', spec: { members: 5 } },
  { name: 'scale 5 → 3', spec: { members: 3 } },
  { name: 'cache', spec: { resources: { memory: '2Gi' } } },
  { name: 'restart', operation: { type: 'Restart' } },
  { name: 'replace', operation: { type: 'Replace', member: 'first' } },
  { name: 'TLS off', spec: { security: { tls: { mode: 'disabled' } } } },
  { name: 'TLS on', spec: { security: { tls: { mode: 'requireTLS' } } } },
  { name: 'upgrade', spec: { version: NEW } },
  { name: 'raise FCV', operation: { type: 'RaiseFCV' } },
  { name: 'rotate TLS', operation: { type: 'RotateTLS' } },
  { name: 'rotate users', operation: { type: 'RotateUsers' } },
];

const SHARDED_CHANGES: readonly Change[] = [
  { name: 'add a shard', spec: { shardCount: 3 } },
  { name: 'grow shards', spec: { mongodsPerShardCount: 5 } },
  { name: 'cache', spec: { resources: { memory: '2Gi' } } },
  { name: 'restart', operation: { type: 'Restart' } },
  { name: 'replace a config server', operation: { type: 'Replace', member: 'first' } },
  { name: 'upgrade', spec: { version: NEW } },
  { name: 'raise FCV', operation: { type: 'RaiseFCV' } },
  { name: 'rotate TLS', operation: { type: 'RotateTLS' } },
  { name: 'rotate users', operation: { type: 'RotateUsers' } },
];

const SHARDED: Readonly<Record<string, unknown>> = {
  type: 'ShardedCluster',
  members: undefined,
  shardCount: 2,
  mongodsPerShardCount: 3,
  configServerCount: 3,
  mongosCount: 2,
};

/** Plays the rounds; throws at the first change that does not end as it must. */
export async function life(options: LifeOptions): Promise<LifeResult> {
  const stack = await Stack.start({ agents: [] });
  stack.patience = PATIENCE_MILLIS;
  const totals: Totals = { changes: 0, kills: 0, acknowledged: 0, stepDown: 0, gaps: {} };
  try {
    await stack.startAgent('local', { binDir: stack.builds([OLD, NEW]) });
    for (let round = 0; round < options.rounds; round++)
      await new Round(stack, makeRng(options.seed + round), `life${round}`, options, totals).play();
    const { changes, kills, acknowledged, stepDown, gaps } = totals;
    return {
      rounds: options.rounds,
      changes,
      kills,
      acknowledged,
      lost: 0,
      longestGapMillis: gaps,
      stepDownGapMillis: stepDown,
    };
  } finally {
    await stack.stop();
  }
}

interface Totals {
  changes: number;
  kills: number;
  acknowledged: number;
  stepDown: number;
  gaps: Record<string, number>;
}

class Round {
  readonly #stack: Stack;
  readonly #rng: Rng;
  readonly #name: string;
  readonly #options: LifeOptions;
  readonly #totals: Totals;
  #spec: Record<string, unknown> = { version: OLD, security: { tls: { mode: 'requireTLS' } } };

  constructor(stack: Stack, rng: Rng, name: string, options: LifeOptions, totals: Totals) {
    this.#stack = stack;
    this.#rng = rng;
    this.#name = name;
    this.#options = options;
    this.#totals = totals;
    if (options.sharded) this.#spec = { ...this.#spec, ...SHARDED };
  }

  async play(): Promise<void> {
    const { only } = this.#options;
    await this.#apply();
    await this.#stack.apply(user(this.#name));
    await this.#stack.untilReady(this.#name);
    await this.#stack.untilPhase(`${this.#name}-app`, 'Ready', 'default', 'mongodbusers');
    if (!this.#options.sharded) await this.#stepDown();
    const changes = this.#options.sharded ? SHARDED_CHANGES : CHANGES;
    for (const change of changes)
      if (only.length === 0 || only.includes(change.name)) await this.#change(change);
    await this.#stack.server.api.request('DELETE', `/api/v1/namespaces/default/mongodb/${this.#name}`);
    await this.#stack.server.api.request(
      'DELETE',
      `/api/v1/namespaces/default/mongodbusers/${this.#name}-app`,
    );
    await this.#stack.untilGone(this.#name);
  }

  #apply(): Promise<unknown> {
    return this.#stack.apply(replicaSet(this.#name, this.#spec));
  }

  /** What an election costs by itself: the yardstick for every change. */
  async #stepDown(): Promise<void> {
    const writer = await this.#writer();
    const admin = await this.#stack.connect(this.#name, 'clusterAdmin');
    await admin
      .db('admin')
      .command({ replSetStepDown: 60, secondaryCatchUpPeriodSecs: 10 })
      .catch(() => undefined);
    await admin.close();
    await writer.proceeds();
    await this.#stack.untilReady(this.#name);
    const { longestGapMillis } = await writer.stop();
    this.#totals.stepDown = Math.max(this.#totals.stepDown, longestGapMillis);
    this.#options.say(`${this.#name} bare stepDown: longest pause of writes ${longestGapMillis} ms`);
  }

  async #writer(): Promise<MajorityWriter> {
    return MajorityWriter.start(await this.#stack.connect(this.#name, `${this.#name}-app`));
  }

  async #change(change: Change): Promise<void> {
    const started = Date.now();
    // Old connection strings stay good through every change, as an application has it.
    const writer = await this.#writer();
    const followed = this.#follow(writer);
    const operation = await this.#ask(change);
    const killed = this.#options.calm ? null : await this.#killTheControlPlane();
    if (operation !== null) await this.#untilSucceeded(operation);
    const ready = await this.#stack.untilReady(this.#name);
    await followed.stop();
    await writer.proceeds();
    const report = await writer.stop();
    await this.#verify(change, ready);
    this.#totals.changes++;
    this.#totals.acknowledged += report.acknowledged;
    this.#totals.gaps[change.name] = Math.max(this.#totals.gaps[change.name] ?? 0, report.longestGapMillis);
    if (report.lost > 0) throw new Error(`${change.name}: ${report.lost} acknowledged writes are gone`);
    this.#options.say(
      `${this.#name} ${change.name}: ${Date.now() - started} ms${killed === null ? '' : `, control plane killed after ${killed} ms`}, ${report.acknowledged} writes, ${report.errors} errors, longest pause ${report.longestGapMillis} ms`,
    );
  }

  /** Changes over when the connection string does, as an application does that reads it from its secret (TLS-08). */
  #follow(writer: MajorityWriter): { readonly stop: () => Promise<void> } {
    const tls = async (): Promise<boolean | null> => {
      const status = await this.#stack.status(this.#name).catch(() => null);
      return status === null ? null : String(status['connectionString']).includes('tls=true');
    };
    let stopped = false;
    let last: boolean | null = null;
    const look = async (): Promise<void> => {
      const now = await tls();
      if (last !== null && now !== null && now !== last)
        await writer.use(await this.#stack.connect(this.#name, `${this.#name}-app`));
      last = now ?? last;
    };
    const done = (async () => {
      while (!stopped) {
        await look().catch(() => undefined);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      await look();
    })();
    return {
      stop: () => {
        stopped = true;
        return done;
      },
    };
  }

  /** Asks for the change; gives the operation's name when it is one. */
  async #ask(change: Change): Promise<string | null> {
    if (change.spec !== undefined) {
      this.#spec = { ...this.#spec, ...change.spec };
      await this.#apply();
      return null;
    }
    const member = await this.#firstMember();
    const asked = { ...change.operation, ...(change.operation?.['member'] === undefined ? {} : { member }) };
    return this.#stack.operate(asked, this.#name);
  }

  async #firstMember(): Promise<string> {
    const { members } = await this.#stack.status(this.#name);
    const role = this.#options.sharded ? 'config' : 'replica';
    return String(members?.find((m) => (m as { role?: string }).role === role)?.name);
  }

  async #killTheControlPlane(): Promise<number> {
    const moment = this.#rng.below(KILL_WINDOW_MILLIS);
    await new Promise((resolve) => setTimeout(resolve, moment));
    const { process } = this.#stack.server;
    const gone = new Promise((resolve) => process.once('exit', resolve));
    process.kill('SIGKILL');
    await gone;
    this.#stack.server = await this.#stack.startServer('server');
    this.#totals.kills++;
    return moment;
  }

  async #untilSucceeded(operation: string): Promise<void> {
    let last: unknown;
    await this.#stack.until(
      async () => {
        const object = await this.#stack.object('operations', operation);
        last = object?.status;
        const state = (object?.status as { state?: string } | undefined)?.state;
        if (state === 'Failed' || state === 'Cancelled')
          throw new Error(`${operation} ${JSON.stringify(last)}`);
        return state === 'Succeeded';
      },
      () => `operation ${operation} succeeded; last: ${JSON.stringify(last)}`,
    );
  }

  #members(): number {
    const count = (key: string, usual = 0): number => Number(this.#spec[key] ?? usual);
    if (!this.#options.sharded) return count('members', 3);
    return (
      count('shardCount') * count('mongodsPerShardCount') + count('configServerCount') + count('mongosCount')
    );
  }

  /** The end state is that of the spec, with as many processes as members and everything active. */
  async #verify(change: Change, ready: ApiObject): Promise<void> {
    const wanted = this.#members();
    const status = ready.status as {
      members: { name: string; stage: string; version: string; tlsMode: string }[];
      featureCompatibilityVersion: string;
    };
    const tls = (this.#spec['security'] as { tls: { mode: string } }).tls.mode;
    const seen = status.members.map((m) => `${m.stage} ${m.version} ${m.tlsMode}`);
    const should = Array.from({ length: wanted }, () => `active ${this.#spec['version']} ${tls}`);
    if (seen.join() !== should.join())
      throw new Error(`${change.name}: members are ${seen.join(', ')}, not ${should.join(', ')}`);
    await this.#stack.until(
      () => this.#stack.mongods().length === wanted,
      () => `${wanted} processes after ${change.name}; there are ${this.#stack.mongods().length}`,
    );
    if (change.name === 'raise FCV' && status.featureCompatibilityVersion !== '8.0')
      await this.#stack.until(
        async () =>
          (await this.#stack.object('mongodb', this.#name).then((o) => o?.status as typeof status))
            .featureCompatibilityVersion === '8.0',
        'FCV 8.0',
      );
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '1' },
      seed: { type: 'string', default: '1' },
      calm: { type: 'boolean', default: false },
      sharded: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true, default: [] },
    },
  });
  const { rounds, seed, calm, only, sharded } = values;
  const say = (line: string): void => console.log(line);
  console.log(
    JSON.stringify(await life({ rounds: Number(rounds), seed: Number(seed), calm, only, sharded, say })),
  );
}
