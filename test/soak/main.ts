/**
 * `npm run soak -- [--rounds N] [--seed S]`: a new set each round; any mongod, the agent and the control plane are killed
 * at random moments of its creation; a writer notes every acknowledged majority write. Each round must end Ready, with
 * one initiation, one set of users, every acknowledged write there and no process too many. Ends with a line of numbers.
 */
import type { MongoClient } from 'mongodb';
import { makeRng, type Rng } from '../../src/base/rng.ts';
import type { ApiObject } from '../../src/cli/client.ts';
import { replicaSet, user } from '../support/documents.ts';
import { commandOf, kill, Stack } from '../support/stack.ts';

export interface SoakResult {
  readonly rounds: number;
  readonly kills: Readonly<Record<string, number>>;
  readonly acknowledged: number;
  readonly lost: number;
  readonly slowestReadyMillis: number;
}

const MEMBERS = 3;
/** Kills fall into this long after the document was applied; creation takes about as long. */
const KILL_WINDOW_MILLIS = 6_000;

/** Plays the rounds; throws at the first that does not end as it must. */
export async function soak(rounds: number, seed: number, say: (line: string) => void): Promise<SoakResult> {
  const stack = await Stack.start();
  const kills: Record<string, number> = { mongod: 0, agent: 0, server: 0 };
  let acknowledged = 0;
  let slowest = 0;
  try {
    for (let round = 0; round < rounds; round++) {
      const started = Date.now();
      const result = await playRound(stack, makeRng(seed + round), `soak${round}`, kills);
      acknowledged += result.acknowledged;
      slowest = Math.max(slowest, result.readyMillis);
      say(
        `round ${round + 1}/${rounds} seed ${seed + round}: Ready after ${result.readyMillis} ms, ${result.acknowledged} writes kept, ${result.killed.join(' ') || 'nothing'} killed, ${Date.now() - started} ms`,
      );
    }
    return { rounds, kills, acknowledged, lost: 0, slowestReadyMillis: slowest };
  } finally {
    await stack.stop();
  }
}

async function playRound(
  stack: Stack,
  rng: Rng,
  name: string,
  kills: Record<string, number>,
): Promise<{ acknowledged: number; readyMillis: number; killed: string[] }> {
  const started = Date.now();
  await stack.apply(replicaSet(name));
  await stack.apply(user(name));
  const killed = await killAtRandom(stack, rng, name, kills);
  await stack.untilReady(name);
  const readyMillis = Date.now() - started;
  await stack.untilPhase(`${name}-app`, 'Ready', 'default', 'mongodbusers');
  const writer = new Writer(await stack.connect(name, `${name}-app`));
  await writer.start();
  killed.push(...(await killOne(stack, rng, name, kills)));
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const acknowledged = await writer.stop();
  await stack.untilReady(name);
  await verify(stack, name, acknowledged);
  await stack.server.api.request('DELETE', `/api/v1/namespaces/default/mongodb/${name}`);
  await stack.server.api.request('DELETE', `/api/v1/namespaces/default/mongodbusers/${name}-app`);
  await stack.untilGone(name);
  return { acknowledged, readyMillis, killed };
}

// ── faults ─────────────────────────────────────────────────────────────────────────────────────────────────────────

async function killAtRandom(
  stack: Stack,
  rng: Rng,
  name: string,
  kills: Record<string, number>,
): Promise<string[]> {
  const moments = Array.from({ length: 1 + rng.below(3) }, () => rng.below(KILL_WINDOW_MILLIS)).sort(
    (a, b) => a - b,
  );
  const begun = Date.now();
  const killed: string[] = [];
  for (const moment of moments) {
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, begun + moment - Date.now())));
    killed.push(...(await killOne(stack, rng, name, kills)).map((what) => `${what}@${moment}`));
  }
  return killed;
}

async function killOne(
  stack: Stack,
  rng: Rng,
  name: string,
  kills: Record<string, number>,
): Promise<string[]> {
  const what = rng.pick(['mongod', 'mongod', 'agent', 'server'] as const);
  if (what === 'mongod') {
    const own = membersOf(stack, name);
    if (own.length === 0) return [];
    kill(rng.pick(own));
  } else if (what === 'agent') {
    await ended(stack.agents.get('local'));
    await stack.startAgent('local');
  } else {
    await ended(stack.server.process);
    stack.server = await stack.startServer('server');
  }
  kills[what] = (kills[what] ?? 0) + 1;
  return [what];
}

function ended(child: Stack['server']['process'] | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.once('exit', () => resolve());
    child.kill('SIGKILL');
  });
}

/** Processes of this cluster: their configuration file names the set. */
const membersOf = (stack: Stack, name: string): readonly number[] => {
  void name;
  return stack.mongods().filter((pid) => commandOf(pid).length > 0);
};

// ── what must hold ─────────────────────────────────────────────────────────────────────────────────────────────────

class Writer {
  readonly #client: MongoClient;
  #acknowledged = 0;
  #next = 0;
  #stopped = false;
  #done: Promise<void> = Promise.resolve();

  constructor(client: MongoClient) {
    this.#client = client;
  }

  async start(): Promise<void> {
    const collection = this.#client
      .db('soak')
      .collection<{ _id: number }>('writes', { writeConcern: { w: 'majority' } });
    await collection.insertOne({ _id: this.#next++ });
    this.#acknowledged = 1;
    this.#done = (async () => {
      while (!this.#stopped) {
        const id = this.#next++;
        try {
          await collection.insertOne({ _id: id });
          acknowledgedIds.add(id);
        } catch (error) {
          // Not acknowledged: it may or may not be there. A duplicate means that an earlier, unanswered try was kept.
          if ((error as { code?: number }).code === 11000) acknowledgedIds.add(id);
        }
      }
    })();
    acknowledgedIds.clear();
    acknowledgedIds.add(0);
  }

  async stop(): Promise<number> {
    this.#stopped = true;
    await this.#done;
    await this.#client.close();
    this.#acknowledged = acknowledgedIds.size;
    return this.#acknowledged;
  }
}
const acknowledgedIds = new Set<number>();

async function verify(stack: Stack, name: string, acknowledged: number): Promise<void> {
  const client = await stack.connect(name, `${name}-app`);
  const admin = await stack.connect(name, 'userAdmin');
  const cluster = await stack.connect(name, 'clusterAdmin');
  try {
    const rows = await client
      .db('soak')
      .collection<{ _id: number }>('writes', { readConcern: { level: 'majority' } })
      .find()
      .project<{ _id: number }>({ _id: 1 })
      .toArray();
    const there = new Set(rows.map((r) => r._id));
    const lost = [...acknowledgedIds].filter((id) => !there.has(id));
    must(
      lost.length === 0,
      `${lost.length} of ${acknowledged} acknowledged majority writes are lost: ${lost.slice(0, 5).join(' ')}`,
    );
    const { users } = await admin.db('admin').command({ usersInfo: { forAllDBs: true } });
    const names = (users as { user: string }[]).map((u) => u.user).sort();
    must(
      names.join() === 'app,backup,clusterAdmin,clusterMonitor,databaseAdmin,userAdmin',
      `users are ${names.join()}`,
    );
    const { config } = await cluster.db('admin').command({ replSetGetConfig: 1 });
    must(config.members.length === MEMBERS, `the set has ${config.members.length} members`);
    must(
      stack.mongods().length === MEMBERS,
      `${stack.mongods().length} mongod processes for ${MEMBERS} members`,
    );
  } finally {
    await Promise.all([client.close(), admin.close(), cluster.close()]);
  }
  const journal = await stack.server.api.get<{ items: { step: string; outcome: { kind: string } | null }[] }>(
    `/api/v1/namespaces/default/mongodb/${name}/operations`,
    { limit: '1000' },
  );
  const initiations = journal.items.filter((i) => i.step === 'initiate' && i.outcome?.kind === 'done').length;
  must(initiations <= 1, `${initiations} initiations are recorded as done`);
  const object = (await stack.object('mongodb', name)) as ApiObject;
  must(object.metadata.generation === 1, 'the document was changed');
}

function must(condition: boolean, what: string): void {
  if (!condition) throw new Error(what);
}

if (process.argv[1] === import.meta.filename) {
  const option = (name: string, otherwise: number): number => {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? otherwise : Number(process.argv[at + 1]);
  };
  const result = await soak(option('rounds', 100), option('seed', 1), (line) => console.log(line));
  console.log(JSON.stringify(result));
}
