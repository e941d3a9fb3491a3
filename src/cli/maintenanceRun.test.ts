import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { MINUTE } from '../base/units.ts';
import { type CliRig, makeCli, type Ran, type RunOptions } from './testing/rig.ts';
import { TOPOLOGY } from './testing/topology.ts';
import { AWAY_LIMIT } from './verbs/patience.ts';

let cli: CliRig;
beforeEach(async () => {
  cli = await makeCli();
  await cli.belay(['apply', '-f', cli.file('ydb.yaml', `${TOPOLOGY}  healthMaxAge: 10d\n`)]);
  await cli.api.clock.advance(1);
});
afterEach(() => cli.close());

/** A command that says `started HOST` and ends when the test lets it. */
function held(): { readonly command: readonly string[]; readonly release: () => Promise<void> } {
  const gate = join(cli.dir, 'gate');
  execFileSync('sh', ['-c', 'mkfifo "$0"', gate]);
  const script = cli.file(
    'held.sh',
    'trap "" INT TERM\necho "started $1"\ntest "$1" = y1 || exit 0\nread -r line < "$2"\n',
  );
  return { command: ['sh', script, '{host}', gate], release: () => writeFile(gate, 'go\n') };
}

/** Waiting moves the clock of the control plane, one wait after the other; `each` is done after every one. */
function playedTime(each: () => Promise<void> | void = () => {}): NonNullable<RunOptions['sleep']> {
  let turn: Promise<unknown> = Promise.resolve();
  return (millis, signal) => {
    turn = turn.then(async () => {
      if (signal.aborted) return;
      await cli.api.clock.advance(millis);
      await each();
    });
    return turn as Promise<void>;
  };
}

const roll = (options: readonly string[], command: readonly string[], how: RunOptions): Promise<Ran> =>
  cli.belay(['maintenance', 'run', '--name', 'roll', '--settle', '0s', ...options, '--', ...command], how);
const tasks = async (): Promise<readonly string[]> => {
  const { body } = await cli.api.call('GET', '/api/v1/maintenance/tasks');
  const all = body.items as readonly { name: string; groups: readonly ActionShown[][] }[];
  return all.map((t) => `${t.name}: ${t.groups.flat().map((a) => `${a.scope.host} ${a.state}`)}`);
};
interface ActionShown {
  readonly scope: { readonly host: string };
  readonly state: string;
}

test('C6.1 C1.3 S13 run holds a host as long as its command runs, far beyond the duration, then goes on', async () => {
  const { command, release } = held();
  const from = cli.api.clock.now();
  let seen: readonly string[] | null = null;
  const sleep = playedTime(async () => {
    if (seen !== null || cli.api.clock.now() < from + 45 * MINUTE) return;
    seen = await tasks();
    await release();
  });
  const ran = await roll(['--hosts', 'y1,y2', '--duration', '10m'], command, { sleep });
  expect(seen).toEqual(['roll: y1 performed,y2 pending']);
  expect([ran.code, ran.out]).toEqual([0, '2 of 2 done\n']);
  expect(ran.err).not.toContain('warning');
  expect(await tasks()).toEqual([]);
});

test('C6.1 S13 run says when a host is not locked any more under its command, and goes on with the next', async () => {
  const { command, release } = held();
  let taken = false;
  const ran = await roll(['--hosts', 'y1,y2', '--duration', '10m'], command, {
    sleep: playedTime(async () => {
      if (taken) return;
      taken = true;
      await cli.belay(['maintenance', 'complete', 'roll', '--host', 'y1']);
    }),
    onText: (text) => {
      if (text.includes('not locked any more')) void release();
    },
  });
  expect(ran.err).toContain(
    'warning: y1 is not locked any more, and its command still runs: others may take what is on it\n',
  );
  expect([ran.code, ran.out]).toEqual([0, '2 of 2 done\n']);
  expect(await tasks()).toEqual([]);
});

/** Requests fail while `away` says so. */
const flaky =
  (away: () => boolean): typeof fetch =>
  (...given) =>
    away()
      ? Promise.reject(new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') }))
      : fetch(...given);

test('C6.1 run outlives a control plane that is away for a while, and says so', async () => {
  const from = cli.api.clock.now();
  const now = (): number => cli.api.clock.now() - from;
  const { command, release } = held();
  let over = false;
  const ran = await roll(['--hosts', 'y1,y2', '--duration', '20m'], command, {
    fetch: flaky(() => now() > MINUTE && now() < 14 * MINUTE),
    sleep: playedTime(async () => {
      if (over || now() < 25 * MINUTE) return;
      over = true;
      expect(await tasks()).toEqual(['roll: y1 performed,y2 pending']);
      await release();
    }),
  });
  expect(ran.err).toContain('connect ECONNREFUSED; it is asked again for 15 min');
  expect(ran.err).toContain('the control plane is back after 4 min\n');
  expect([ran.code, ran.out]).toEqual([0, '2 of 2 done\n']);
});

test('C6.1 run gives a control plane up that stays away, waits for its command, and says what stays locked', async () => {
  const from = cli.api.clock.now();
  const { command, release } = held();
  let away = false;
  const ran = await roll(['--hosts', 'y1,y2', '--duration', '10m'], command, {
    fetch: flaky(() => away),
    sleep: playedTime(),
    onText: (text) => {
      if (text.includes('started y1')) away = true;
      if (text.includes('could not be renewed')) void release();
    },
  });
  expect(ran.code).toBe(1);
  expect(ran.err).toContain('warning: the lock of y1 could not be renewed (no answer from');
  expect(ran.err).toContain('task roll could not be dropped; y1 is locked until 20');
  expect(ran.err).toContain('error ServerUnreachable');
  expect(cli.api.clock.now() - from).toBeGreaterThanOrEqual(AWAY_LIMIT);
});

test('C6.1 create --wait outlives a control plane that is away; Ctrl-C says what stays', async () => {
  await cli.belay(['maintenance', 'create', '--host', 'y1', '--name', 'first', '--duration', '6m']);
  const from = cli.api.clock.now();
  const now = (): number => cli.api.clock.now() - from;
  const wait = ['maintenance', 'create', '--host', 'y1', '--wait', '--name'];
  const ran = await cli.belay([...wait, 'second'], {
    fetch: flaky(() => now() > 1000 && now() < 5 * MINUTE),
    sleep: playedTime(),
  });
  expect([ran.code, ran.out]).toEqual([0, expect.stringContaining('task second   1 action, granted')]);
  expect(ran.err).toMatch(/asked again for 15 min[^\n]*\nthe control plane is back after 4 min\n$/);
  const stop = new AbortController();
  const left = await cli.belay([...wait, 'third'], {
    signal: stop.signal,
    sleep: async () => stop.abort(),
  });
  expect([left.code, left.err]).toEqual([
    130,
    'task third stays: 0 granted, 1 still wanted, which holds back less urgent work; give it up: belay maintenance drop third\n',
  ]);
});

test('C6.1 S13 after Ctrl-C run waits for the command, says so, keeps the host locked until its end and begins nothing more', async () => {
  const { command, release } = held();
  const stop = new AbortController();
  let seen: readonly string[] = [];
  const ran = await roll(['--hosts', 'y1,y2'], command, {
    signal: stop.signal,
    onText: (text) => {
      if (text.includes('started y1')) stop.abort();
      if (text.includes('still runs on'))
        void tasks().then((now) => {
          seen = now;
          return release();
        });
    },
  });
  expect(ran.err).toContain(
    'nothing more is begun; the command still runs on y1, which stays locked until it ends; Ctrl-C again gives up\n',
  );
  expect(seen.join()).toMatch(/^roll: y1 performed/);
  expect([ran.code, ran.out]).toEqual([130, '']);
  expect(ran.err).toContain('interrupted: 1 of 2 done; not begun: y2\n');
  expect(ran.err).not.toContain('started y2');
  expect(await tasks()).toEqual([]);
});

test('C6.1 S13 a second Ctrl-C gives up: what stays locked until when is said, and nothing more is wanted', async () => {
  const script = cli.file('work.sh', 'echo started; exec sleep 60\n');
  const [stop, insist] = [new AbortController(), new AbortController()];
  const ran = await roll(['--hosts', 'y1,y2', '--duration', '10m'], ['sh', script], {
    signal: stop.signal,
    insist: insist.signal,
    sleep: playedTime(),
    fetch: async (...given) => {
      const answer = await fetch(...given);
      if (String(given[0]).endsWith('/withdraw')) insist.abort();
      return answer;
    },
    onText: (text) => {
      if (text.includes('started')) stop.abort();
    },
  });
  expect(ran.code).toBe(130);
  expect(ran.err).toMatch(
    /y1 stays locked until \S+Z: its command may still run\. When it is well: belay maintenance drop roll\n/,
  );
  expect(await tasks()).toEqual(['roll: y1 performed']);
});

test('C6.1 S13 a host that does not come back is a failure, and the next is not begun', async () => {
  const script = cli.file('work.sh', 'echo "started $1"\n');
  const ran = await roll(
    ['--hosts', 'y1,y2', '--duration', '2m', '--settle', '5s'],
    ['sh', script, '{host}'],
    {
      sleep: playedTime(async () => {
        const nodes = [{ id: 1, state: 'Down' }];
        await cli.api.call('POST', '/api/v1/topologies/ydb/health', { body: { nodes } });
      }),
    },
  );
  expect([ran.code, ran.out]).toEqual([
    1,
    '0 of 2 done, failed: y1 (not up again: node 1 of ydb); not begun: y2\n',
  ]);
  expect(ran.err).toContain('y1: node 1 of ydb not up again 2 min after the command\n');
  expect(ran.err).not.toContain('started y2');
});

test('C6.1 run whose task somebody drops names what it never began, and does not count as done', async () => {
  const { command, release } = held();
  const ran = await roll(['--hosts', 'y1,y2'], command, {
    sleep: playedTime(),
    onText: (text) => {
      if (text.includes('started y1')) void cli.belay(['maintenance', 'drop', 'roll']).then(release);
    },
  });
  expect([ran.code, ran.out]).toEqual([1, '1 of 2 done; not begun: y2\n']);
  expect(ran.err).toContain('task roll is not there any more: nothing more is begun\n');
});

test('C6.1 {host} and {node} are the machine and the node that was taken; {node} is refused where hosts are', async () => {
  const script = cli.file('work.sh', 'echo "$1 $2 $BELAY_MAINTENANCE_HOST $BELAY_MAINTENANCE_NODE"\n');
  const nodes = ['--nodes', '3,4,3', '--topology', 'ydb'];
  const ran = await roll(nodes, ['sh', script, '{host}', '{node}'], {});
  expect([ran.code, ran.out]).toEqual([0, '2 of 2 done\n']);
  expect(ran.err).toContain('3 is named more than once and is taken once\n');
  expect(ran.err).toContain('3 | y3 3 y3 3\n');
  expect(ran.err).toContain('4 | y4 4 y4 4\n');
  const hosts = await roll(['--hosts', 'y1'], ['sh', script, '{node}'], {});
  expect([hosts.code, hosts.err]).toEqual([
    2,
    expect.stringContaining('{node} means nothing where whole hosts are taken'),
  ]);
  expect(await tasks()).toEqual([]);
});
