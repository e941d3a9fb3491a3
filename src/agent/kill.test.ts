import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { caFingerprint } from '../channel/index.ts';
import { commandLine } from './procfs.ts';
import { type Bench, makeMember, openBench, SIMULATOR, type TestMember, until } from './testing/bench.ts';

let bench: Bench;
let member: TestMember;
let agent: ChildProcess | null = null;
beforeAll(async () => {
  bench = await openBench();
  member = await makeMember(bench, 'orders-0');
  await bench.agent.close();
  await until(() => expect(bench.agents.host('host-a')?.connected).toBe(false));
});
afterAll(async () => {
  agent?.kill('SIGKILL');
  await bench?.close();
});

const entry = fileURLToPath(new URL('testing/agentProcess.ts', import.meta.url));
function startAgent(): ChildProcess {
  const args = [bench.dataDir, bench.url, caFingerprint(bench.ca.caPem), SIMULATOR];
  return fork(entry, args, { execArgv: ['--disable-warning=ExperimentalWarning'], stdio: 'ignore' });
}
const connected = (): Promise<unknown> =>
  until(() => expect(bench.agents.host('host-a')?.connected).toBe(true));

/** Every living process of this member, however it was started. */
function processes(): readonly number[] {
  const config = join(bench.dataDir, 'services', member.serviceId, 'mongod.conf');
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && commandLine(pid).join(' ').includes(config));
}

/** Moments of a restart, each seen from outside; the agent is killed as soon as it has come. */
const moments: Readonly<Record<string, (before: readonly number[]) => boolean>> = {
  'the snapshot is on disk': () => true,
  'the old process is gone': (before) => !processes().some((pid) => before.includes(pid)),
  'a new process is there': (before) => processes().some((pid) => !before.includes(pid)),
  'the new process is reported': () => member.facts()?.process.kind === 'starting',
  'the new process is up': (before) => {
    const process = member.facts()?.process;
    return process?.kind === 'running' && !before.includes(process.pid);
  },
};

async function kill(): Promise<void> {
  agent?.kill('SIGKILL');
  if (agent) await once(agent, 'exit');
  await until(() => expect(bench.agents.host('host-a')?.connected).toBe(false));
}

let version = 0;
test.each(Object.entries(moments))(
  'A2.7 killed when %s, the agent leaves one process, and the next agent finishes the work',
  async (_name, reached) => {
    version++;
    agent = startAgent();
    await connected();
    const before = processes();
    await member.publish({ configVersion: version, cacheGb: 0.25 * version });
    await vi.waitFor(() => expect(reached(before)).toBe(true), { timeout: 20_000, interval: 1 });
    await kill();

    agent = startAgent();
    await connected();
    await until(() => {
      expect(member.facts()).toMatchObject({ configVersion: version, process: { kind: 'running' } });
      expect(member.facts()?.database).toMatchObject({ kind: 'reachable', initiated: false });
    });
    expect(member.facts()?.process).toMatchObject({ pid: processes()[0] });
    expect(processes()).toHaveLength(1);
    await kill();
  },
  60_000,
);
