import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { type LaunchSpec, processEnvironment, scoped, serviceManager } from './launch.ts';
import { scratch } from './testing/scratch.ts';

const spec: LaunchSpec = {
  executable: '/usr/bin/mongod',
  args: ['--config', '/x/mongod.conf'],
  output: '/x/output.log',
  environment: {},
  limits: { memoryBytes: 2 ** 31, cpus: 1.5 },
  unit: 'belay-member-s1',
};

test('A1.4, S8 a database process gets no telemetry, and nothing of our environment it does not need', () => {
  const own = {
    PATH: '/bin',
    BELAY_TOKEN: 'canary',
    MONGODB_URI: 'canary',
    BELAY_SIM_DELAY: '1',
    LC_ALL: 'C',
  };
  expect(processEnvironment({ EXTRA: 'x', PERCONA_TELEMETRY_DISABLE: '0' }, own)).toEqual({
    PATH: '/bin',
    LC_ALL: 'C',
    BELAY_SIM_DELAY: '1',
    EXTRA: 'x',
    PERCONA_TELEMETRY_DISABLE: '1',
  });
});

test('with systemd a member is a scope of its own with its limits, so that the agent’s end does not reach it', () => {
  expect(scoped(spec, 'system')).toEqual([
    ...['systemd-run', '--scope', '--quiet', '--collect', '--unit=belay-member-s1'],
    ...['-p', 'MemoryMax=2147483648', '-p', 'CPUQuota=150%', '--'],
    ...['/usr/bin/mongod', '--config', '/x/mongod.conf'],
  ]);
  const free = { ...spec, limits: { memoryBytes: null, cpus: null } };
  expect(scoped(free, 'user').slice(0, 3)).toEqual(['systemd-run', '--user', '--scope']);
  expect(scoped(free, 'user')).not.toContain('-p');
});

test('systemd is asked only where it runs the machine and would listen to this user', () => {
  const all = () => true;
  expect(serviceManager({}, 0, () => false)).toBeNull();
  expect(serviceManager({}, 0, all)).toBe('system');
  expect(serviceManager({}, 1000, all)).toBeNull();
  expect(serviceManager({ XDG_RUNTIME_DIR: '/run/user/1000' }, 1000, all)).toBe('user');
  expect(
    serviceManager({ XDG_RUNTIME_DIR: '/nowhere' }, 1000, (path) => path === '/run/systemd/system'),
  ).toBeNull();
});

const analyze = spawnSync('systemd-analyze', ['--version']).status === 0;

test.skipIf(!analyze)('the systemd units are valid (skipped where there is no systemd-analyze)', () => {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const box = scratch();
  for (const name of ['belay-server.service', 'belay-agent.service']) {
    const unit = readFileSync(join(root, 'packaging/systemd', name), 'utf8');
    const file = join(box.path, name);
    writeFileSync(file, unit.replaceAll('/usr/bin/belay', join(root, 'bin/belay')));
    const checked = spawnSync('systemd-analyze', ['verify', '--man=no', file], { encoding: 'utf8' });
    expect(checked.stderr + checked.stdout).toBe('');
    expect(checked.status).toBe(0);
  }
  box.remove();
});

test('the agent’s unit ends only the agent: members are adopted by the next one (fail-static)', () => {
  const unit = readFileSync(new URL('../../packaging/systemd/belay-agent.service', import.meta.url), 'utf8');
  expect(unit).toMatch(/^KillMode=process$/m);
});
