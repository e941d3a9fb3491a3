import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { BelayError } from '../base/error.ts';
import { type ManualClock, manualClock } from '../channel/testing/clock.ts';
import { quiet } from '../channel/testing/facts.ts';
import { signal } from './launch.ts';
import { servicePaths } from './layout.ts';
import { findByConfig, identify } from './procfs.ts';
import { type RunPlan, Supervisor } from './supervisor.ts';
import { type Scratch, scratch } from './testing/scratch.ts';

let box: Scratch;
let clock: ManualClock;
const open: Supervisor[] = [];
/** What is done when a supervisor says that something changed. */
let heard: () => void = () => {};

beforeEach(() => {
  box = scratch();
  heard = () => {};
  clock = manualClock();
  mkdirSync(join(box.path, 'tls'));
});
afterEach(() => {
  // One that was started just now may not show its arguments yet: its number is known all the same.
  for (const supervisor of open.splice(0)) {
    const { pid } = supervisor;
    supervisor.close();
    if (pid !== null) signal(pid, 'SIGKILL');
  }
  const path = servicePaths(box.path).config;
  for (const { pid } of findByConfig(new Set([path])).values()) process.kill(pid, 'SIGKILL');
  box.remove();
});

function supervise(
  options: { stopTimeoutMillis?: number; redact?: (text: string) => string } = {},
): Supervisor {
  const supervisor = new Supervisor({
    serviceId: 's1',
    paths: servicePaths(box.path),
    clock,
    log: quiet,
    changed: () => heard(),
    ...options,
  });
  open.push(supervisor);
  return supervisor;
}

const plan = (executable: string, change: Partial<RunPlan> = {}): RunPlan => ({
  version: '8.0.32-14',
  configVersion: 1,
  inputs: 'a',
  certificates: '',
  certificatesOnline: false,
  limits: { memoryBytes: null, cpus: null },
  environment: {},
  prepare: async () => executable,
  ...change,
});
const run = (executable: string, change: Partial<RunPlan> = {}) =>
  ({ kind: 'run', plan: plan(executable, change) }) as const;
/** Lives until it is told to end. Not `exec`: its own arguments must stay to be found by. */
const LIVES = 'trap "exit 0" TERM; while :; do sleep 0.05; done';
const until = (check: () => void): Promise<void> => vi.waitFor(check, { timeout: 5_000, interval: 5 });

async function exited(supervisor: Supervisor): Promise<Extract<Supervisor['facts'], { kind: 'exited' }>> {
  await until(() => expect(supervisor.facts.kind).toBe('exited'));
  return supervisor.facts as Extract<Supervisor['facts'], { kind: 'exited' }>;
}

test('a process is started with its files written first, and is running once its database answered', async () => {
  const server = box.script('mongod', LIVES);
  const supervisor = supervise();
  const config = servicePaths(box.path).config;
  const prepare = async () => {
    writeFileSync(config, 'x');
    return server;
  };
  supervisor.setGoal(run(server, { prepare }), true);
  await until(() => expect(supervisor.facts.kind).toBe('starting'));
  expect(existsSync(config)).toBe(true);
  expect(supervisor.configVersion).toBe(0);
  supervisor.confirm();
  expect(supervisor.facts).toMatchObject({ kind: 'running', adopted: false });
  expect(supervisor.configVersion).toBe(1);
});

test('fail-static: the process outlives its agent and the next agent adopts it without a restart', async () => {
  const server = box.script('mongod', LIVES);
  const first = supervise();
  first.setGoal(run(server), true);
  await until(() => expect(first.pid).not.toBeNull());
  first.confirm();
  const { pid } = first;
  first.close();

  const second = supervise();
  second.adopt();
  expect(second.pid).toBe(pid);
  expect(second.configVersion).toBe(1);
  second.setGoal(run(server), false);
  second.confirm();
  expect(second.facts).toMatchObject({ kind: 'running', pid, adopted: true });

  process.kill(pid as number, 'SIGKILL');
  await until(() => {
    clock.advance(1_000);
    expect(second.pid).not.toBe(pid);
  });
});

test('a process whose agent died before it wrote down the number is found, not started twice', async () => {
  const server = box.script('mongod', LIVES);
  const first = supervise();
  first.setGoal(run(server), true);
  await until(() => expect(first.pid).not.toBeNull());
  first.close();
  const paths = servicePaths(box.path);
  const record = JSON.parse(readFileSync(paths.run, 'utf8'));
  writeFileSync(paths.run, JSON.stringify({ ...record, pid: 0, startTicks: '', bootId: '' }));
  await until(() => expect(findByConfig(new Set([paths.config])).size).toBe(1));

  const second = supervise();
  second.adopt();
  expect(second.pid).toBe(first.pid);
  second.setGoal(run(server), false);
  await second.converge();
  expect(second.pid).toBe(first.pid);
});

test('a process that was not there when this agent looked around is found before a second one is started', async () => {
  const server = box.script('mongod', LIVES);
  const second = supervise();
  second.adopt();
  const first = supervise();
  first.setGoal(run(server), true);
  await until(() => expect(first.pid).not.toBeNull());
  const paths = servicePaths(box.path);
  await until(() => expect(findByConfig(new Set([paths.config])).size).toBe(1));
  first.close();
  second.setGoal(run(server), false);
  await second.converge();
  expect(second.pid).toBe(first.pid);
});

test('a process that ran well begins the waits anew, however often it failed before', async () => {
  const server = box.script('mongod', `[ -e ${box.path}/well ] || exit 14; ${LIVES}`);
  const supervisor = supervise();
  supervisor.setGoal(run(server), true);
  for (let failures = 1; failures <= 3; failures++) {
    await until(() => expect(supervisor.facts).toMatchObject({ kind: 'exited', failures }));
    if (failures === 3) writeFileSync(join(box.path, 'well'), '');
    clock.advance(8_000);
  }
  await until(() => expect(supervisor.facts.kind).toBe('starting'));
  supervisor.confirm();
  clock.advance(60_000);
  process.kill(supervisor.pid as number, 'SIGKILL');
  await until(() => expect(supervisor.facts).toMatchObject({ kind: 'exited', failures: 1 }));
});

test('of a process and a child that still shows its arguments the process is the one that is found', async () => {
  const server = box.script(
    'mongod',
    `(trap "" TERM; : > ${box.path}/forked; while :; do sleep 0.05; done) & wait`,
  );
  const first = supervise();
  first.setGoal(run(server), true);
  await until(() => expect(existsSync(join(box.path, 'forked'))).toBe(true));
  const { config } = servicePaths(box.path);
  expect(findByConfig(new Set([config])).get(config)?.pid).toBe(first.pid);
});

test('a number that was given to another process since is not adopted', async () => {
  const paths = servicePaths(box.path);
  const own = identify(process.pid);
  writeFileSync(
    paths.run,
    JSON.stringify({ ...own, startTicks: '1', configVersion: 1, confirmed: true, inputs: 'a' }),
  );
  const supervisor = supervise();
  supervisor.adopt();
  expect(supervisor.facts).toEqual({ kind: 'absent' });
});

test('a process that ends is started again after waits that double up to the cap, and success begins them anew', async () => {
  const server = box.script('mongod', 'exit 14');
  const supervisor = supervise();
  supervisor.setGoal(run(server), true);
  const waits: number[] = [];
  for (let round = 1; round <= 8; round++) {
    await until(() =>
      expect(supervisor.facts).toMatchObject({ kind: 'exited', failures: round, exitCode: 14 }),
    );
    const facts = await exited(supervisor);
    waits.push((facts.nextStartAt as number) - clock.now());
    clock.advance(waits.at(-1) as number);
  }
  expect(waits).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
});

test('a killed process of long standing comes back after the first wait', async () => {
  const server = box.script('mongod', LIVES);
  const supervisor = supervise();
  supervisor.setGoal(run(server), true);
  await until(() => expect(supervisor.pid).not.toBeNull());
  supervisor.confirm();
  const { pid } = supervisor;
  clock.advance(60_000);
  process.kill(pid as number, 'SIGKILL');
  const facts = await exited(supervisor);
  expect(facts).toMatchObject({ signal: 'SIGKILL', exitCode: null, failures: 1 });
  clock.advance(500);
  await until(() => expect(supervisor.facts.kind).toBe('starting'));
  expect(supervisor.pid).not.toBe(pid);
});

test('A9.2 a configuration the server refuses is reported with its words, waits, and a newer one heals it', async () => {
  const bad = box.script(
    'bad',
    `echo "Unrecognized option: storage.journal.enabled" >&2
echo "try 'mongod --help' for more information" >&2
exit 2`,
  );
  const good = box.script('good', LIVES);
  const supervisor = supervise();
  supervisor.setGoal(run(bad), true);
  const facts = await exited(supervisor);
  expect(facts.nextStartAt).toBeNull();
  expect(supervisor.configError).toBe(
    'the options were refused: Unrecognized option: storage.journal.enabled',
  );
  expect(supervisor.configVersion).toBe(0);
  supervisor.setGoal(run(good, { configVersion: 2, inputs: 'b' }), true);
  await until(() => expect(supervisor.facts.kind).toBe('starting'));
  supervisor.confirm();
  expect(supervisor.configError).toBeNull();
  expect(supervisor.configVersion).toBe(2);
});

test('only a snapshot that changes the run restarts the process; a newer one with the same run is just taken over', async () => {
  const server = box.script('mongod', LIVES);
  const supervisor = supervise();
  supervisor.setGoal(run(server), true);
  await until(() => expect(supervisor.pid).not.toBeNull());
  supervisor.confirm();
  const { pid } = supervisor;
  supervisor.setGoal(run(server, { configVersion: 2 }), true);
  await until(() => expect(supervisor.configVersion).toBe(2));
  expect(supervisor.pid).toBe(pid);
  supervisor.setGoal(run(server, { configVersion: 3, inputs: 'b' }), true);
  await until(() => expect(supervisor.facts.kind).toBe('starting'));
  expect(supervisor.pid).not.toBe(pid);
  expect(identify(pid as number)).toBeNull();
  expect(supervisor.configVersion).toBe(2);
});

test('S2 stopping waits for the server’s own shutdown, says so meanwhile, and kills only after the limit', async () => {
  const server = box.script('mongod', `trap "" TERM; while :; do : > ${box.path}/ready; sleep 0.05; done`);
  const supervisor = supervise();
  supervisor.setGoal(run(server), true);
  await until(() => expect(existsSync(join(box.path, 'ready'))).toBe(true));
  const { pid } = supervisor;
  supervisor.confirm();
  const told: unknown[] = [];
  heard = () => told.push(supervisor.facts);
  supervisor.setGoal({ kind: 'stopped', configVersion: 4 }, true);
  await until(() => expect(told).toMatchObject([{ kind: 'running', pid, stopping: true }]));
  clock.advance(44_000);
  // It still writes: a signal that was sent would have ended it before.
  for (let sign = 0; sign < 3; sign++) {
    rmSync(join(box.path, 'ready'), { force: true });
    await until(() => expect(existsSync(join(box.path, 'ready'))).toBe(true));
  }
  expect(identify(pid as number)).not.toBeNull();
  clock.advance(1_000);
  await until(() => expect(supervisor.facts).toEqual({ kind: 'absent' }));
  expect(supervisor.configVersion).toBe(4);
});

test('S6 a refused member is not started and says why', async () => {
  const supervisor = supervise();
  const message = 'the data folder belongs to another cluster';
  supervisor.setGoal({ kind: 'refused', code: 'ForeignData', message, configVersion: 1 }, true);
  const said = { code: 'ForeignData', message, nextStartAt: null, exitCode: null };
  expect(await exited(supervisor)).toMatchObject(said);
});

test('S10 a process that is found running when it is to be started is taken over, and that is told', async () => {
  const server = box.script('mongod', LIVES);
  const first = supervise();
  first.setGoal(run(server), true);
  const path = servicePaths(box.path).config;
  await until(() => expect(findByConfig(new Set([path])).size).toBe(1));
  const { pid } = first;
  first.close();
  let told = 0;
  heard = () => told++;
  const second = supervise();
  second.setGoal(run(server), true);
  await until(() => expect(second.pid).toBe(pid));
  expect(told).toBe(1);
});

test('STO-04 a process that answers is running with its snapshot, also when no note of it can be taken', async () => {
  const { run: note } = servicePaths(box.path);
  const server = box.script('mongod', `rm -f ${note}; mkdir ${note}; : > ${box.path}/ready; ${LIVES}`);
  const supervisor = supervise();
  supervisor.setGoal(run(server), true);
  await until(() => expect(existsSync(join(box.path, 'ready'))).toBe(true));
  supervisor.confirm();
  expect([supervisor.facts.kind, supervisor.configVersion]).toEqual(['running', 1]);
});

test('S8 the last words of a process are reported without the secrets in them', async () => {
  const server = box.script('mongod', 'echo "cannot use canary-3 as a key" >&2; exit 1');
  const supervisor = supervise({ redact: (text) => text.replaceAll('canary-3', '***') });
  supervisor.setGoal(run(server), true);
  expect((await exited(supervisor)).message).toBe('it could not start: cannot use *** as a key');
});

test('an executable that is gone is a failed start that is tried again', async () => {
  const supervisor = supervise();
  supervisor.setGoal(run(join(box.path, 'nothing')), true);
  const facts = await exited(supervisor);
  expect(facts.message).toContain('could not be started');
  expect(facts.nextStartAt).not.toBeNull();
});

test('a disk that is full when the files are written is a failed start with these words', async () => {
  const supervisor = supervise();
  const prepare = async () => {
    throw new Error('no space left on the disk for mongod.conf');
  };
  supervisor.setGoal(run(box.script('mongod', LIVES), { prepare }), true);
  expect((await exited(supervisor)).message).toContain('no space left');
});

test('S6 STO-02 what cannot be started now because its data is not there is looked at again by itself, and starts when it is', async () => {
  const server = box.script('mongod', LIVES);
  const supervisor = supervise();
  let looks = 0;
  const prepare = async (): Promise<string> => {
    if (++looks < 3) throw new BelayError('VolumeNotFound', 'the data is gone');
    return server;
  };
  supervisor.setGoal(run(server, { prepare }), true);
  expect(await exited(supervisor)).toMatchObject({ code: 'VolumeNotFound', failures: 1 });
  await until(() => {
    clock.advance(1_000);
    expect(supervisor.facts.kind).toBe('starting');
  });
  expect(looks).toBe(3);
});

test('an agent that closes while a start is prepared starts nothing any more', async () => {
  const supervisor = supervise();
  const server = box.script('mongod', LIVES);
  const found = Promise.withResolvers<string>();
  const prepare = vi.fn(() => found.promise);
  supervisor.setGoal(run(server, { prepare }), true);
  await until(() => expect(prepare).toHaveBeenCalled());
  supervisor.close();
  found.resolve(server);
  await supervisor.converge();
  expect(supervisor.pid).toBeNull();
  expect(existsSync(servicePaths(box.path).run)).toBe(false);
});

test('A2.4 A14.2 what is stopped for good is not started again, whatever is wanted of it while it stops', async () => {
  const server = box.script('mongod', `trap "" TERM; while :; do : > ${box.path}/ready; sleep 0.05; done`);
  const supervisor = supervise();
  supervisor.setGoal(run(server), true);
  await until(() => expect(existsSync(join(box.path, 'ready'))).toBe(true));
  expect(supervisor.leaving).toBe(false);
  const gone = supervisor.stop();
  expect(supervisor.leaving).toBe(true);
  supervisor.setGoal(run(server, { configVersion: 2 }), true);
  clock.advance(45_000);
  await gone;
  expect(supervisor.facts).toEqual({ kind: 'absent' });
  await supervisor.converge();
  // A child that the killed shell had just forked bears its arguments for a moment.
  await until(() => expect(findByConfig(new Set([servicePaths(box.path).config])).size).toBe(0));
});
