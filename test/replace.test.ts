/** Members replaced and moved between several hosts, under a client that writes with majority concern all the while. */
import { existsSync, readdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { replicaSet, user } from './support/documents.ts';
import { commandOf, kill, LONG, Stack } from './support/stack.ts';
import { MajorityWriter } from './support/writer.ts';

let stack: Stack;
let writer: MajorityWriter;
const HOSTS = ['db1', 'db2', 'db3'];
/** Each host's part of the one machine's ports. */
const PORTS_EACH = 5;

const startHost = async (name: string): Promise<void> => {
  const at = [...HOSTS, 'db4'].indexOf(name);
  await stack.startAgent(name, { address: os.hostname(), portsFrom: at * PORTS_EACH });
};

beforeAll(async () => {
  stack = await Stack.start({ agents: [] });
  for (const name of HOSTS) await startHost(name);
  await stack.apply(replicaSet('live'));
  await stack.apply(user('live'));
  await stack.untilReady('live');
  await stack.untilPhase('live-app', 'Ready', 'default', 'mongodbusers');
  writer = await MajorityWriter.start(await stack.connect('live', 'live-app'));
}, LONG);
afterAll(async () => {
  await stack?.stop();
}, LONG);

/** Whatever was done: the set takes writes. */
afterEach(() => writer.proceeds(), LONG);

interface Done {
  readonly state?: string;
  readonly message?: string;
}

/** Asks for an operation and waits for its end. */
async function done(spec: Readonly<Record<string, unknown>>): Promise<Done> {
  const name = await stack.operate(spec, 'live');
  const last = async (): Promise<Done> => ((await stack.object('operations', name))?.status ?? {}) as Done;
  await stack.until(
    async () => ['Succeeded', 'Failed', 'Cancelled'].includes((await last()).state ?? ''),
    () => `${name} ended`,
    LONG / 2,
  );
  return last();
}

interface Row {
  readonly name: string;
  readonly hostName?: string;
  readonly state?: string;
}
const members = async (): Promise<readonly Row[]> =>
  ((await stack.status('live')) as { readonly members?: readonly Row[] }).members ?? [];
const named = async (state: string): Promise<Row> => (await members()).find((m) => m.state === state) as Row;

/** The machine dies: its agent and whatever runs there. */
function killHost(name: string): void {
  stack.agents.get(name)?.kill('SIGKILL');
  for (const pid of stack.mongods())
    if (commandOf(pid).some((arg) => arg.includes(stack.agentDir(name)))) kill(pid);
}

const volumesOn = (host: string): readonly string[] => {
  const folder = path.join(stack.agentDir(host), 'volumes');
  return existsSync(folder) ? readdirSync(folder) : [];
};

async function votes(): Promise<readonly unknown[]> {
  const admin = await stack.connect('live', 'clusterAdmin');
  const { config } = await admin.db('admin').command({ replSetGetConfig: 1 });
  await admin.close();
  return config.members.map((m: { votes: number; priority: number }) => [m.votes, m.priority]);
}
const FULL = Array.from({ length: 3 }, () => [1, 1]);

test(
  'A13.3 S5 a secondary is replaced: the new one has its place, nothing is left of the old one',
  async () => {
    const old = await named('SECONDARY');
    expect(await done({ type: 'Replace', member: old.name })).toMatchObject({ state: 'Succeeded' });
    await stack.untilReady('live');
    expect((await members()).map((m) => m.name)).not.toContain(old.name);
    expect(await votes()).toEqual(FULL);
    expect(HOSTS.flatMap(volumesOn)).toHaveLength(3);
    expect(stack.mongods()).toHaveLength(3);
  },
  LONG,
);

test(
  'A13.3 S3 the primary is replaced after it handed over',
  async () => {
    const old = await named('PRIMARY');
    expect(await done({ type: 'Replace', member: old.name })).toMatchObject({ state: 'Succeeded' });
    await stack.untilReady('live');
    expect((await members()).map((m) => m.name)).not.toContain(old.name);
    expect(await votes()).toEqual(FULL);
  },
  LONG,
);

test(
  'A13.7 a member is moved away from its host, to the one that is named',
  async () => {
    await startHost('db4');
    const old = (await members()).find((m) => m.hostName === 'db2') as Row;
    const refused = done({ type: 'Move', member: old.name, host: 'db2' });
    await expect(refused).rejects.toThrow(/is on host db2 already/);
    expect(await done({ type: 'Move', member: old.name, host: 'db4' })).toMatchObject({ state: 'Succeeded' });
    await stack.untilReady('live');
    expect((await members()).map((m) => m.hostName).sort()).toEqual(['db1', 'db3', 'db4']);
    expect(volumesOn('db2')).toEqual([]);
  },
  LONG,
);

test(
  'A13.3 a member whose host died is replaced; what is left there goes when the host is back',
  async () => {
    const old = (await members()).find((m) => m.hostName === 'db3') as Row;
    killHost('db3');
    const ended = await done({ type: 'Replace', member: old.name });
    expect(ended.state).toBe('Succeeded');
    expect(ended.message).toMatch(/what is left on host db3 goes when that host is back/);
    const ready = await stack.untilReady('live');
    expect((ready.status as { warnings: string[] }).warnings.join()).toMatch(
      new RegExp(
        `${old.name} is out of the set; what is left of it on host db3 is removed when that host is back`,
      ),
    );
    expect(await votes()).toEqual(FULL);
    expect(volumesOn('db3')).toHaveLength(1);
    await startHost('db3');
    await stack.until(() => volumesOn('db3').length === 0, 'nothing is left on db3');
    await stack.untilReady('live');
    expect(stack.mongods()).toHaveLength(3);
  },
  LONG,
);

test(
  'A13.3 S4 a host that never comes back is deleted, and with it the memory of what was left there',
  async () => {
    const old = (await members()).find((m) => m.hostName === 'db4') as Row;
    killHost('db4');
    expect((await done({ type: 'Replace', member: old.name })).state).toBe('Succeeded');
    await stack.untilReady('live');
    await stack.server.api.request('DELETE', '/api/v1/namespaces/default/hosts/db4');
    await stack.until(
      async () => !JSON.stringify(await stack.status('live')).includes('out of the set'),
      'forgotten with its host',
    );
    expect(volumesOn('db4')).toHaveLength(1);
    expect(await votes()).toEqual(FULL);
  },
  LONG,
);

test(
  'A13.3 no write that was acknowledged meanwhile is lost',
  async () => {
    const { acknowledged, lost } = await writer.stop();
    expect(acknowledged).toBeGreaterThan(100);
    expect(lost).toBe(0);
  },
  LONG,
);
