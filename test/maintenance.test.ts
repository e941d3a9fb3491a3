/**
 * Three databases on five hosts, a client that writes to each with majority concern, and a rolling task that restarts
 * everything on host after host.
 */
import { writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { replicaSet, user } from './support/documents.ts';
import { commandOf, LONG, Stack } from './support/stack.ts';
import { MajorityWriter } from './support/writer.ts';

let stack: Stack;
const HOSTS = ['db1', 'db2', 'db3', 'db4', 'db5'];
const SETS = ['alpha', 'beta', 'gamma'];
/** Each set is on three of them, and every host carries one or two. */
const hostsOf = (set: number): readonly string[] =>
  [0, 1, 2].map((k) => HOSTS[(set * 2 + k) % HOSTS.length] as string);
const setsOn = (host: string): readonly string[] => SETS.filter((_, i) => hostsOf(i).includes(host));
/** Each host's part of the one machine's ports. */
const PORTS_EACH = 4;

beforeAll(async () => {
  stack = await Stack.start({ agents: [] });
  stack.patience = LONG;
  for (const [i, name] of HOSTS.entries())
    await stack.startAgent(name, { address: os.hostname(), portsFrom: i * PORTS_EACH });
  for (const [i, name] of SETS.entries()) {
    await stack.apply(replicaSet(name, { placement: { hosts: hostsOf(i) } }));
    await stack.apply(user(name));
  }
  for (const name of SETS) {
    await stack.untilReady(name);
    await stack.untilPhase(`${name}-app`, 'Ready', 'default', 'mongodbusers');
  }
}, LONG);
afterAll(() => stack?.stop(), LONG);

/** Processes of databases on a host. */
const processesOn = (host: string): readonly number[] =>
  stack.mongods().filter((pid) => commandOf(pid).some((arg) => arg.includes(`${stack.agentDir(host)}/`)));

interface Told {
  readonly groups: readonly (readonly {
    readonly state: string;
    readonly reason: string;
    readonly message: string;
  }[])[];
}

/** Looks at everything again and again while something runs. */
class Watch {
  /** Sets that were seen with processes gone on more than one of their hosts. */
  readonly tooManyDown: string[] = [];
  /** Actions that were looked at and wait without a word. */
  readonly unexplained: string[] = [];
  readonly refusals = new Set<string>();

  async during<T>(work: Promise<T>): Promise<T> {
    let over = false;
    const ended = work.finally(() => {
      over = true;
    });
    while (!over) {
      await this.#look();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return ended;
  }

  async #look(): Promise<void> {
    const short = HOSTS.filter((host) => processesOn(host).length < setsOn(host).length);
    for (const set of SETS) {
      const down = short.filter((host) => setsOn(host).includes(set));
      if (down.length > 1) this.tooManyDown.push(`${set}: ${down.join(', ')}`);
    }
    const tasks = await stack.server.api.get<{ items: readonly Told[] }>('/api/v1/maintenance/tasks');
    for (const action of tasks.items.flatMap((task) => task.groups.flat())) {
      if (action.state !== 'pending' || action.reason === 'NotTried') continue;
      this.refusals.add(action.reason);
      if (action.message === '') this.unexplained.push(action.reason);
    }
  }
}

/** Name and host of a set's primary as its status has it. */
async function primaryOf(set: string): Promise<{ readonly name: string; readonly host: string }> {
  const { members = [] } = await stack.status(set);
  const primary = members.find((m) => m.state === 'PRIMARY');
  return { name: primary?.name ?? '', host: primary?.hostName ?? '' };
}

test(
  'C6.1 S3 L3 --step-down: every primary on the host hands over first, then the host is granted; writes go on',
  async () => {
    const before = await primaryOf('alpha');
    const writer = await MajorityWriter.start(await stack.connect('alpha', 'alpha-app'));
    const asked = await stack.belay([
      ...[
        'maintenance',
        'create',
        '--host',
        before.host,
        '--step-down',
        '--name',
        'board',
        '--priority',
        '-5',
      ],
      ...['--reason', 'new board'],
    ]);
    expect([asked.code, asked.err]).toEqual([0, '']);
    expect(asked.out).toContain(`${before.name} is primary of default/alpha and hands over first`);
    expect(asked.out).toContain('granted as soon as that is done');
    const states = async (): Promise<readonly string[]> => {
      const task = await stack.server.api.get<Told>('/api/v1/maintenance/tasks/board');
      return task.groups.flat().map((a) => `${a.state} ${a.reason}`);
    };
    await stack.until(async () => (await states()).join() === 'performed OK', 'the host is granted');
    const after = await primaryOf('alpha');
    expect(after.name).not.toBe(before.name);
    const leads = await Promise.all(setsOn(before.host).map((set) => primaryOf(set)));
    expect(leads.filter(({ host }) => host === before.host)).toEqual([]);
    await writer.proceeds();
    const events = await stack.belay(['events']);
    expect(events.out).toContain(`took host ${before.host} in mode strong (new board)`);
    expect((await stack.belay(['maintenance', 'drop', 'board'])).code).toBe(0);
    expect((await writer.stop()).lost).toBe(0);
    await stack.untilReady('alpha');
  },
  LONG,
);

test(
  'C1 C2.5 C6.1 S1 S13 a rolling task restarts all hosts one after the other; no write is lost',
  async () => {
    const writers = await Promise.all(
      SETS.map(async (name) => MajorityWriter.start(await stack.connect(name, `${name}-app`))),
    );
    const before = new Map(HOSTS.map((host) => [host, processesOn(host)]));
    expect([...before.values()].flat()).toHaveLength(9);
    const script = path.join(stack.dir, 'restart.sh');
    writeFileSync(
      script,
      `for dir in /proc/[0-9]*; do
  if tr '\\0' ' ' < "$dir/cmdline" 2>/dev/null | grep -q -- "mongod.*${stack.dir}/agent-$1/"; then kill -KILL "\${dir#/proc/}"; fi
done
`,
    );
    const watch = new Watch();
    const running = stack.belay([
      ...['maintenance', 'run', '--all-hosts', '--in-flight', '2', '--reason', 'kernel', '--name', 'roll'],
      ...['--', 'sh', script, '{host}'],
    ]);
    const ran = await watch.during(running);
    expect([ran.code, ran.out]).toEqual([0, '5 of 5 done\n']);
    expect([watch.tooManyDown, watch.unexplained]).toEqual([[], []]);
    expect(watch.refusals.size).toBeGreaterThan(0);
    for (const host of HOSTS) {
      const now = processesOn(host);
      expect([host, now.length]).toEqual([host, before.get(host)?.length]);
      expect(now.filter((pid) => before.get(host)?.includes(pid))).toEqual([]);
    }
    const reports = await Promise.all(writers.map((writer) => writer.stop()));
    for (const report of reports) {
      expect(report.acknowledged).toBeGreaterThan(0);
      expect(report.lost).toBe(0);
    }
    const tasks = await stack.belay(['maintenance', 'list']);
    expect(tasks.out).toBe('There are no maintenance tasks\n');
  },
  LONG * 2,
);
