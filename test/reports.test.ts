/** Reports from the field that only real processes can show. */
import { chmodSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { MongoClient } from 'mongodb';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { replicaSet, user } from './support/documents.ts';
import { commandOf, kill, LONG, SIMULATOR_BIN, Stack } from './support/stack.ts';
import { MajorityWriter } from './support/writer.ts';

const GOOD = '8.0.29-13';
const BROKEN = '8.0.32-14';
const HOSTS = ['a', 'b', 'c'] as const;
const PORTS_EACH = 20;
/** Says its version like the real one, and cannot start. */
const BROKEN_MONGOD = `#!/bin/sh
case "$*" in *--version*) echo 'db version v${BROKEN}'; exit 0;; esac
echo 'Fatal: this build is broken' >&2
exit 14
`;

let stack: Stack;
const binDir = (): string => path.join(stack.dir, 'bin');
const startAgent = (name: (typeof HOSTS)[number]) =>
  stack.startAgent(name, {
    address: os.hostname(),
    portsFrom: HOSTS.indexOf(name) * PORTS_EACH,
    binDir: binDir(),
  });

beforeAll(async () => {
  stack = await Stack.start({ agents: [] });
  for (const version of [GOOD, BROKEN]) mkdirSync(path.join(binDir(), version, 'bin'), { recursive: true });
  symlinkSync(path.join(SIMULATOR_BIN, 'mongod'), path.join(binDir(), GOOD, 'bin', 'mongod'));
  const broken = path.join(binDir(), BROKEN, 'bin', 'mongod');
  writeFileSync(broken, BROKEN_MONGOD);
  chmodSync(broken, 0o755);
  for (const name of HOSTS) await startAgent(name);
  await stack.apply(replicaSet('live', { version: GOOD }));
  await stack.apply(user('live'));
  await stack.untilReady('live');
  await stack.untilPhase('live-app', 'Ready', 'default', 'mongodbusers');
}, LONG);
afterAll(() => stack?.stop(), LONG);

const blocked = async (reason: string): Promise<string> => {
  let message = '';
  await stack.until(
    async () => {
      const condition = (await stack.status('live')).conditions?.find((c) => c.type === 'Blocked');
      message = condition?.reason === reason ? condition.message : '';
      return message !== '';
    },
    () => `blocked by ${reason}`,
  );
  return message;
};

/** Writes with majority concern while something is done; nothing acknowledged may be lost. */
async function underWrites(work: () => Promise<void>): Promise<void> {
  const client = await stack.connect('live', 'live-app');
  try {
    const writer = await MajorityWriter.start(client);
    await work();
    await writer.proceeds();
    expect((await writer.stop()).lost).toBe(0);
  } finally {
    await client.close();
  }
}

test(
  'STK-04 A8.1 S1 a version that fails to start stops at the first member, says why, takes nothing else down, and heals when it is taken back',
  () =>
    underWrites(async () => {
      const before = [...stack.mongods()].sort();
      await stack.apply(replicaSet('live', { version: BROKEN }));
      expect(await blocked('ProcessFailing')).toMatch(/live-\d has ended: .*this build is broken/);
      const status = await stack.status('live');
      expect([status.phase, status.readyMembers]).toEqual(['Degraded', 2]);
      const left = stack.mongods().filter((pid) => before.includes(pid));
      expect(left).toHaveLength(2);
      await stack.apply(replicaSet('live', { version: GOOD }));
      await stack.untilReady('live');
      const after = stack.mongods();
      expect([after.length, left.every((pid) => after.includes(pid))]).toEqual([3, true]);
    }),
  LONG,
);

/** The host loses this of its agent's data folder while it is down; then the agent starts again. */
async function losing(name: (typeof HOSTS)[number], folders: readonly string[]): Promise<void> {
  const agent = stack.agents.get(name);
  const ended = new Promise((resolve) => agent?.once('exit', resolve));
  agent?.kill('SIGKILL');
  await ended;
  const dir = stack.agentDir(name);
  for (const pid of stack.mongods()) if (commandOf(pid).some((arg) => arg.includes(dir))) kill(pid);
  for (const folder of folders)
    for (const entry of readdirSync(path.join(dir, folder)))
      rmSync(path.join(dir, folder, entry), { recursive: true, force: true });
  await startAgent(name);
}

test(
  'STK-05 A4.6 S6 a member whose folder is gone from its host is made anew on its volume; without its volume it says so, until it is replaced',
  () =>
    underWrites(async () => {
      const volumes = (): readonly string[] => readdirSync(path.join(stack.agentDir('c'), 'volumes'));
      const [volume] = volumes();
      await losing('c', ['services']);
      await stack.until(() => stack.mongods().length === 3, 'three processes');
      await stack.untilReady('live');
      expect(volumes()).toEqual([volume]);
      await losing('c', ['services', 'volumes']);
      const message = await blocked('VolumeLost');
      expect(message).toContain(`volume ${volume} of live-`);
      expect(stack.mongods()).toHaveLength(2);
      const gone = (await stack.status('live')).members?.find((m) => m.hostName === 'c')?.name ?? '';
      const replaced = await stack.belay(['replace', 'live', gone, '-q']);
      expect({ code: replaced.code, err: replaced.err }).toEqual({ code: 0, err: '' });
      await stack.untilReady('live');
      expect((await stack.status('live')).members?.map((m) => m.name)).not.toContain(gone);
    }),
  LONG,
);

test(
  'QRM-01 QRM-03 S5 two of three hosts are lost: it is said, nothing is forced; the acknowledged operation brings a primary, and who returns joins again',
  async () => {
    const client = await stack.connect('live', 'live-app');
    const docs = (c: MongoClient) =>
      c.db('kept').collection<{ _id: number }>('docs', { writeConcern: { w: 'majority' } });
    await docs(client).insertOne({ _id: 1 });
    await client.close();
    const { primary = '', members = [] } = await stack.status('live');
    const stays = members.find((m) => m.name === primary)?.hostName;
    const lost = HOSTS.filter((name) => name !== stays);
    for (const name of lost) {
      stack.agents.get(name)?.kill('SIGKILL');
      const dir = stack.agentDir(name);
      for (const pid of stack.mongods()) if (commandOf(pid).some((arg) => arg.includes(dir))) kill(pid);
    }
    const message = await blocked('QuorumLost');
    expect(message).toContain(`2 of 3 voters; up: ${primary}`);
    expect((await stack.status('live')).phase).toBe('Degraded');
    const forced = await stack.belay([
      'force-reconfig',
      'live',
      '--acknowledge',
      'LoseUnreplicatedWrites',
      '-q',
    ]);
    expect({ code: forced.code, out: forced.out, err: forced.err }).toMatchObject({
      code: 0,
      out: expect.stringContaining(`goes on with ${primary}`),
    });
    const alone = await stack.connect('live', 'live-app', { directConnection: false });
    await docs(alone).insertOne({ _id: 2 });
    for (const name of lost) await startAgent(name);
    await stack.untilReady('live');
    expect(await docs(alone).countDocuments()).toBe(2);
    const admin = await stack.connect('live', 'clusterAdmin');
    const { config } = await admin.db('admin').command({ replSetGetConfig: 1 });
    expect(config.members.map((m: { votes: number }) => m.votes)).toEqual([1, 1, 1]);
    await admin.close();
    await alone.close();
  },
  LONG,
);
