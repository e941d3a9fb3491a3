import { afterEach, beforeEach, expect, test } from 'vitest';
import type { CliRig } from './testing/rig.ts';
import { makeTopologyCli, TOPOLOGY } from './testing/topology.ts';

let cli: CliRig;
beforeEach(async () => {
  cli = await makeTopologyCli();
});
afterEach(() => cli.close());

const lines = (text: string): readonly string[] => text.trimEnd().split('\n');

test('C6.1 create shows what is on each host, what was granted and what waits for what', async () => {
  const made = await cli.belay([
    'maintenance',
    'create',
    '--hosts',
    'y1,y2',
    '--name',
    'kernel',
    '--duration',
    '30m',
  ]);
  expect([made.code, made.err]).toEqual([0, '']);
  const [head, first, granted, second, waits, when] = lines(made.out);
  expect([head, first, second]).toEqual([
    'task kernel   2 actions, 1 granted',
    '  y1    node 1 of ydb',
    '  y2    node 2 of ydb',
  ]);
  expect(granted).toMatch(/^ {8}granted until \S+Z as the-admin-p-1$/);
  expect(waits).toMatch(
    /^ {8}waits: too many .* strong allows 1; out: node 1 of ydb \(locked by the-admin-p-1 of task kernel \(owner the admin\) until \S+Z\)$/,
  );
  // It waits for its own turn: going without the rules is no advice.
  expect(when).toMatch(/^ {8}ask again at \S+Z$/);
  const list = await cli.belay(['maintenance', 'list']);
  expect(list.out).toMatch(
    /^NAME +OWNER +MODE +PRIORITY +GRANTED +UNTIL +REASON +ABOUT\nkernel +the admin +strong +0 +1\/2 +\S+Z +– +y1, y2\n$/,
  );
  expect((await cli.belay(['maintenance', 'list', '--owner', 'eve'])).out).toBe(
    'There are no maintenance tasks of eve\n',
  );
});

test('C1.2 where nobody knows when it becomes possible that is said, with a time to look again', async () => {
  const down = TOPOLOGY.replace('id: 8, host: y8, state: Up', 'id: 8, host: y8, state: Down');
  expect(down).not.toBe(TOPOLOGY);
  await cli.belay(['apply', '-f', cli.file('ydb.yaml', down)]);
  await cli.api.clock.advance(1);
  const made = await cli.belay(['maintenance', 'create', '--host', 'y1', '--name', 't']);
  expect(lines(made.out).at(-1)).toMatch(
    /^ +nobody knows when: look again at \S+Z, or: --mode force \(availability is not looked at\)$/,
  );
});

test('C6.1 C6.4 list shows on request what the control plane holds itself; get shows whose a task is and why', async () => {
  const { belay, api } = cli;
  await api.deps.maintenance.acquire({
    id: 'uid-of-orders/orders-1',
    node: 'ydb/2',
    holder: 'MongoDB default/orders',
    why: 'restart: with the new configuration',
    priority: 100,
    mode: 'strong',
    duration: 60_000,
  });
  const asked = ['--priority', '5', '--reason', 'kernel update', '--step-down', '--mode', 'weak'];
  await belay(['maintenance', 'create', '--hosts', 'y1', '--name', 't', ...asked]);
  const all = lines((await belay(['maintenance', 'list', '--all'])).out);
  expect(all.slice(1).sort()).toEqual([
    expect.stringMatching(/^t +the admin +weak +5 +1\/1 +\S+Z +kernel update +y1$/),
    expect.stringMatching(
      /^– +MongoDB default\/orders +strong +100 +1\/1 +\S+Z +restart: with the new configuration +node 2$/,
    ),
  ]);
  expect(lines((await belay(['maintenance', 'list'])).out)).toHaveLength(2);
  expect((await belay(['maintenance', 'list', '--all', '-o', 'name'])).out).toBe('t\n');
  const json = JSON.parse((await belay(['maintenance', 'list', '--all', '-o', 'json'])).out) as {
    name: string;
  }[];
  const [own = ''] = json.flatMap(({ name }) => (name === 't' ? [] : [name]));
  // Nobody but the control plane gives that back.
  const dropped = await belay(['maintenance', 'drop', own]);
  expect([dropped.code, dropped.err]).toEqual([1, expect.stringContaining('Task not found')]);
  expect(lines((await belay(['maintenance', 'get', 't'])).out)[1]).toBe(
    '  owner the admin   mode weak   priority 5   primaries hand over first   reason: kernel update',
  );
});

test('C6.1 refresh, complete and drop; errors name the fix and end with 4', async () => {
  const { belay } = cli;
  await belay(['maintenance', 'create', '--host', 'y1', '--host', 'y2', '--name', 't']);
  expect((await belay(['maintenance', 'complete', 't', '--host', 'y1'])).out).toBe(
    'completed the-admin-p-1\n',
  );
  expect(lines((await belay(['maintenance', 'refresh', 't'])).out)[0]).toBe('task t   1 action, granted');
  expect((await belay(['maintenance', 'complete', 't'])).out).toBe(
    'completed the-admin-p-2\ntask t is done\n',
  );
  const gone = await belay(['maintenance', 'get', 't']);
  expect([gone.code, gone.err]).toEqual([1, expect.stringContaining('Task not found: t')]);
  await belay(['maintenance', 'create', '--node', '3', '--topology', 'ydb', '--name', 'u']);
  expect((await belay(['maintenance', 'drop', 'u'])).out).toBe('task u dropped\n');
  expect(await belay(['maintenance', 'create'])).toMatchObject({ code: 2 });
  const unknown = await belay(['maintenance', 'create', '--host', 'nowhere']);
  expect([unknown.code, unknown.err]).toEqual([4, expect.stringContaining('there is no host nowhere')]);
});

test('C1.3 C6.1 extend holds longer what is held, all of it or what is named; only for its owner and admins', async () => {
  const { belay, api } = cli;
  const env = { BELAY_TOKEN: api.token.operator };
  await belay(
    ['maintenance', 'create', '--host', 'y1,y2', '--mode', 'force', '--duration', '5m', '--name', 't'],
    { env },
  );
  const until = async (): Promise<readonly number[]> => {
    const { out } = await belay(['maintenance', 'get', 't', '-o', 'json']);
    const groups = JSON.parse(out).groups as { deadline: string }[][];
    return groups.flat().map((a) => Math.round((Date.parse(a.deadline) - api.clock.now()) / 60_000));
  };
  expect(await until()).toEqual([5, 5]);
  const extend = ['maintenance', 'extend', 't', '--duration'];
  const one = await belay([...extend, '2h', '--host', 'y1'], { env });
  expect([one.code, lines(one.out)[2]]).toEqual([0, expect.stringContaining('granted until')]);
  expect(await until()).toEqual([120, 5]);
  expect((await belay([...extend, '1h'])).code).toBe(0);
  expect(await until()).toEqual([120, 60]);
  await api.tokens
    .createApiToken({ name: 'eve', role: 'operator', validFor: null })
    .then(async ({ token }) => {
      const other = await belay([...extend, '3h'], { env: { BELAY_TOKEN: token.reveal() } });
      expect([other.code, other.err]).toEqual([4, expect.stringContaining('task t is of the operator')]);
    });
  expect(await until()).toEqual([120, 60]);
  expect((await belay([...extend, 'long'])).code).toBe(4);
  expect((await belay(['maintenance', 'extend', 't'])).code).toBe(2);
  expect((await belay([...extend, '1h', '--host', 'y3'])).err).toContain('task t holds no host y3');
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 'u'], { env });
  const none = await belay(['maintenance', 'extend', 'u', '--duration', '1h'], { env });
  expect([none.code, none.err]).toEqual([4, expect.stringContaining('belay maintenance get u')]);
});

test('C1.3 C6.1 an extension that ends before what is held says that nothing changed and until when it is held', async () => {
  const { belay } = cli;
  await belay(['maintenance', 'create', '--host', 'y1', '--duration', '2h', '--name', 't']);
  const [, , granted = ''] = lines((await belay(['maintenance', 'get', 't'])).out).slice(1);
  const until = /until (\S+)/.exec(granted)?.[1] ?? 'never';
  const shorter = await belay(['maintenance', 'extend', 't', '--duration', '1h']);
  expect([shorter.code, shorter.err]).toEqual([
    0,
    `nothing changed for y1: held until ${until} already, which is longer (give back before: belay maintenance complete t)\n`,
  ]);
  expect((await belay(['maintenance', 'extend', 't', '--duration', '3h'])).err).toBe('');
  const never = await belay(['maintenance', 'extend', 't', '--duration', '1h', '--action', 'foo']);
  expect([never.code, never.err]).toEqual([
    1,
    'error NotFound: task t holds no action foo\nfix: see what it holds: belay maintenance get t\n',
  ]);
});

test('C6.1 a task that has ended is told from one that there never was: how, when, and what to do', async () => {
  const { belay, api } = cli;
  const told = async (...words: string[]) => {
    const { code, err } = await belay(['maintenance', ...words]);
    return [code, ...lines(err)];
  };
  const fix = (name: string) =>
    `fix: it holds nothing any more; if it is still needed, ask again: belay maintenance create; what happened: belay events maintenancetask ${name}`;
  const gone = (name: string, how: string) => [
    1,
    expect.stringMatching(`^error NotFound: Task not found: ${name} has ended at \\S+Z: ${how}$`),
    fix(name),
  ];
  await belay(['maintenance', 'create', '--host', 'y1', '--duration', '5s', '--name', 'short']);
  await api.clock.advance(6000);
  expect(await told('extend', 'short', '--duration', '1h')).toEqual(
    gone('short', 'past their deadline and free again: host y1'),
  );
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 'done']);
  await belay(['maintenance', 'complete', 'done']);
  expect(await told('complete', 'done')).toEqual(gone('done', 'given back by the admin: host y1'));
  expect(await told('get', 'done')).toEqual(gone('done', 'given back by the admin: host y1'));
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 'away']);
  await belay(['maintenance', 'drop', 'away']);
  expect(await told('drop', 'away')).toEqual(gone('away', 'given back by the admin: host y1'));
  expect(await told('drop', 'never')).toEqual([
    1,
    'error NotFound: Task not found: never',
    'fix: see what there is: belay maintenance list',
  ]);
});

test('C6.1 a time limit for no wait is refused, and nothing is asked for', async () => {
  const { belay } = cli;
  const asked = await belay(['maintenance', 'create', '--host', 'y1', '--timeout', '5m']);
  expect([asked.code, asked.err]).toEqual([2, expect.stringContaining('--timeout is about --wait')]);
  expect((await belay(['maintenance', 'list'])).out).toBe('There are no maintenance tasks\n');
});

test('C6.1 what is mistyped below maintenance points to the help of maintenance; its verbs tell their exit codes', async () => {
  const { belay } = cli;
  for (const words of [['bogus'], ['create', '--host', 'y1', '--mode', 'bad']]) {
    const typo = await belay(['maintenance', ...words]);
    expect([typo.code, typo.err]).toEqual([
      2,
      expect.stringContaining('belay maintenance --help lists the verbs'),
    ]);
  }
  expect((await belay(['bogus'])).err).toContain('(belay --help lists the verbs)');
  for (const verb of ['create', 'explain', 'run', 'extend', 'complete'])
    expect((await belay(['maintenance', verb, '--help'])).out).toMatch(/\nExit codes: 0 /);
});

test('C6.1 explain says what would be granted and changes nothing; it ends with 4 when something would wait', async () => {
  const fine = await cli.belay(['maintenance', 'explain', '--hosts', 'y1']);
  expect([fine.code, lines(fine.out)[1]]).toEqual([0, '        would be granted']);
  const waits = await cli.belay(['maintenance', 'explain', '--hosts', 'y1,y2', '-o', 'json']);
  expect(waits.code).toBe(4);
  expect(JSON.parse(waits.out).groups[1][0]).toMatchObject({
    state: 'pending',
    reason: 'TooManyUnavailableVDisks',
  });
  expect((await cli.belay(['maintenance', 'list'])).out).toBe('There are no maintenance tasks\n');
});

test('C6.4 nodes, and hosts with who holds and who waits', async () => {
  const { belay } = cli;
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 't']);
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 'u']);
  const nodes = lines((await belay(['maintenance', 'nodes', '--cluster', 'ydb'])).out);
  expect(nodes[0]).toMatch(/^HOST +NODE +CLUSTER +ROLE +STATE +VERSION +HELD BY$/);
  expect(nodes[1]).toMatch(/^y1 +node 1 of ydb +ydb +storage +Up +– +t \(the admin\) until /);
  const hosts = lines((await belay(['maintenance', 'nodes', '--by-host'])).out);
  expect(hosts.find((line) => line.startsWith('y1'))).toMatch(
    /^y1 +Maintenance +1 +t \(the admin\) until \S+ +u$/,
  );
});

test('C6.1 run takes host after host, runs the command for each and leaves nothing behind', async () => {
  const script = cli.file('work.sh', 'echo "on $1 as $BELAY_MAINTENANCE_HOST"\n');
  const ran = await cli.belay([
    'maintenance',
    'run',
    '--hosts',
    'y1,y2,y3',
    '--settle',
    '0s',
    '--',
    'sh',
    script,
    '{host}',
  ]);
  expect([ran.code, ran.out]).toEqual([0, '3 of 3 done\n']);
  for (const host of ['y1', 'y2', 'y3']) expect(ran.err).toContain(`${host} | on ${host} as ${host}\n`);
  expect((await cli.belay(['maintenance', 'list'])).out).toBe('There are no maintenance tasks\n');
});

test('C6.1 run stops at a command that fails, names it and what it never began, and gives the rest back', async () => {
  const script = cli.file('work.sh', 'test "$1" != y2 || exit 3\n');
  const ran = await cli.belay([
    'maintenance',
    'run',
    '--hosts',
    'y1,y2,y3',
    '--settle',
    '0s',
    '--',
    'sh',
    script,
    '{host}',
  ]);
  expect([ran.code, ran.out]).toEqual([1, '1 of 3 done, failed: y2 (exit 3); not begun: y3\n']);
  expect((await cli.belay(['maintenance', 'list'])).out).toBe('There are no maintenance tasks\n');
  const on = await cli.belay([
    'maintenance',
    'run',
    '--hosts',
    'y1,y2,y3',
    '--settle',
    '0s',
    '--keep-going',
    '--',
    'sh',
    script,
    '{host}',
  ]);
  expect([on.code, on.out]).toEqual([1, '2 of 3 done, failed: y2 (exit 3)\n']);
});

test('C6.1 members are of the namespace the verb is about; problems name the options that were given', async () => {
  const other = await cli.belay(['maintenance', 'create', '--node', 'orders-0', '-n', 'other']);
  expect([other.code, other.err]).toEqual([4, expect.stringContaining('there is no node other/orders-0')]);
  const twice = await cli.belay(['maintenance', 'explain', '--hosts', 'y1,y1', '--hosts', 'y1']);
  expect([twice.code, twice.err]).toEqual([0, 'y1 is named more than once and is taken once\n']);
  const create = ['maintenance', 'create', '--host', 'y1,y2', '--node', '1', '--topology'];
  const bad = await cli.belay([...create, 'ydb', '--duration', 'long']);
  expect(bad.code).toBe(4);
  expect(bad.err.match(/--duration {2}must be a duration/g)).toHaveLength(1);
  expect((await cli.belay([...create, 'ydb'])).err).toContain('--node  node ydb/1 is on host y1, which');
  expect((await cli.belay([...create, 'nope'])).err).toContain('--topology  there is no topology nope');
});

test('C6.4 nodes of what is not known is an error; what is gone still has its events', async () => {
  const { belay } = cli;
  const unknown = await belay(['maintenance', 'nodes', '--cluster', 'nosuch']);
  expect([unknown.code, unknown.out]).toEqual([1, '']);
  expect(unknown.err).toContain('nothing is known of a topology or database nosuch');
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 't']);
  const until = (await belay(['get', 'maintenancetasks'])).out;
  expect(until).toMatch(
    /^NAME +OWNER +MODE +GRANTED +UNTIL +PHASE +AGE\nt +the admin +strong +1\/1 +\S+Z +Ready /,
  );
  expect((await belay(['get', 'maintenancetask', 't', '-o', 'yaml'])).out).toContain('duration: 30m\n');
  await belay(['maintenance', 'drop', 't']);
  const events = await belay(['events', 'maintenancetask', 't']);
  expect([events.code, events.out]).toEqual([0, expect.stringContaining('MaintenanceCompleted')]);
  expect((await belay(['events', 'maintenancetask', 'never'])).code).toBe(1);
});

test('C1.5 complete with nothing held names the way out; the switch is a verb, and doctor tells of it', async () => {
  const { belay } = cli;
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 't']);
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 'u']);
  const none = await belay(['maintenance', 'complete', 'u']);
  expect([none.code, none.err]).toEqual([
    4,
    'error Invalid: task u holds nothing, so there is nothing to give back\nfix: to want nothing any more: belay maintenance drop u\n',
  ]);
  expect((await belay(['maintenance', 'switch', 'off'])).out).toBe(
    'nothing new is granted; what is held stays held\n',
  );
  expect((await belay(['maintenance', 'create', '--host', 'y3'])).err).toContain(
    'belay maintenance switch on',
  );
  expect((await belay(['doctor'])).out).toContain('fix: belay maintenance switch on');
  expect((await belay(['maintenance', 'switch', 'on'])).code).toBe(0);
  expect((await belay(['maintenance', 'create', '--host', 'y3'])).code).toBe(0);
  expect((await belay(['doctor'])).out).not.toContain('belay maintenance switch on');
  expect((await belay(['maintenance', 'switch', 'maybe'])).code).toBe(2);
});

test('help shows durations as people write them', async () => {
  for (const verb of [
    ['maintenance', 'create'],
    ['maintenance', 'run'],
    ['wait'],
    ['restart'],
    ['cancel'],
    ['rotate', 'ca'],
    ['delete'],
    ['host', 'token'],
  ]) {
    const { out } = await cli.belay([...verb, '--help']);
    expect([verb, out]).toEqual([verb, expect.stringMatching(/default: "?\d+[smh]"?\)/)]);
    expect(out).not.toMatch(/default: \d{4}/);
    expect(out.match(/--timeout.*\n.*default: 6h.*default/)).toBeNull();
  }
});

test('C6.4 what is in maintenance is described as that, and as no fault', async () => {
  const { describeText } = await import('./verbs/describe.ts');
  const member = (name: string, health: string) => ({
    name,
    health,
    hostName: 'db7',
    serviceId: `svc-of-${name}`,
    stage: 'active',
    state: 'DOWN',
  });
  const object = {
    apiVersion: 'belay.dev/v1',
    kind: 'MongoDB',
    metadata: { name: 'audit', namespace: 'default' },
    spec: { type: 'ReplicaSet', version: '8.0.32-14' },
    status: { phase: 'Degraded', members: [member('audit-1', 'unknown'), member('audit-2', 'unhealthy')] },
  };
  const text = (held: ReadonlyMap<string, string>): Promise<string> =>
    describeText('MongoDB', object as unknown as Parameters<typeof describeText>[1], [], 0, held);
  const fault = await text(new Map());
  expect(fault).toContain('belay maintenance create --host db7 --duration 2h');
  expect(fault).toContain('belay replace audit audit-1');
  expect(fault).toContain(
    'audit-2 is DOWN: the agent starts it again by itself; its log: services/svc-of-audit-2/mongod.log below the data folder of the agent on host db7',
  );
  const running = structuredClone(object);
  running.status.members = ['SECONDARY', 'STARTUP'].map((state, i) => ({
    ...member(`audit-${i}`, 'unhealthy'),
    state,
  }));
  const runs = await describeText(
    'MongoDB',
    running as unknown as Parameters<typeof describeText>[1],
    [],
    0,
    new Map(),
  );
  expect(runs).not.toContain('starts it again');
  expect(runs).toContain('audit-0 runs as SECONDARY and is not well; its log: services/svc-of-audit-0/');
  expect(runs).toContain(
    'audit-1 runs and does not answer; if it stays so: belay replace audit audit-1; its log:',
  );
  const words = 'in maintenance: kernel (eve) until 2026-11-30T10:00:00Z';
  const held = await text(new Map(['audit-1', 'audit-2'].map((name) => [name, words])));
  expect(lines(held).filter((line) => line.endsWith(words))).toHaveLength(2);
  expect(held).not.toContain('belay replace');
  expect(held).not.toContain('its log');
});

test('QRM-01 A14.1 nobody is told to replace a member of what is being deleted, or of a set that has no majority for it', async () => {
  const { describeText } = await import('./verbs/describe.ts');
  const member = (name: string, replicaSet: string, health: string) => ({
    ...{ name, replicaSet, health, hostName: `host-of-${name}`, stage: 'active', state: 'SECONDARY' },
  });
  const set = (name: string, healthyVoters: number) => ({ name, voters: 3, majority: 2, healthyVoters });
  const members = [
    ...[0, 1, 2].map((i) => member(`s0-${i}`, 's0', i === 0 ? 'healthy' : 'unknown')),
    ...[0, 1, 2].map((i) => member(`s1-${i}`, 's1', i < 2 ? 'healthy' : 'unknown')),
  ];
  const replicaSets = [set('s0', 1), { ...set('s1', 2), primary: 's1-0' }];
  const text = (change: object): Promise<string> =>
    describeText(
      'MongoDB',
      {
        apiVersion: 'belay.dev/v1',
        kind: 'MongoDB',
        metadata: {
          name: 'events',
          namespace: 'default',
          creationTimestamp: '1970-01-01T00:00:00Z',
          ...change,
        },
        spec: { type: 'ShardedCluster', version: '8.0.32-14' },
        status: { phase: 'Degraded', members, replicaSets },
      } as unknown as Parameters<typeof describeText>[1],
      [],
      0,
    );
  const lost = await text({});
  expect(lost.match(/belay replace .*/g)).toEqual(['belay replace events s1-2']);
  expect(lost).toContain('s0 has no majority that is known: bring its members back');
  expect(lost).not.toContain('s1 has no majority');
  const going = await text({ deletionTimestamp: '1970-01-01T00:00:00Z' });
  expect(going).not.toMatch(/belay replace|no majority/);
  expect(going).toContain('host host-of-s1-2 does not answer');
});

test('C6.4 S16 whoever gives back or drops what is not theirs is told whose it was, and so is everybody', async () => {
  const { belay, api } = cli;
  const env = { BELAY_TOKEN: api.token.operator };
  await belay(['maintenance', 'create', '--host', 'y1,y2', '--name', 't'], { env });
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 'u'], { env });
  const done = await belay(['maintenance', 'complete', 't']);
  expect([done.code, done.err]).toEqual([0, 'task t is of the operator, who may still be at work\n']);
  const dropped = await belay(['maintenance', 'drop', 'u']);
  expect(dropped.err).toBe('task u was of the operator, who may still be at work\n');
  expect((await belay(['events', 'maintenancetask', 't'])).out).toContain(
    'given back by the admin: host y1 (owner the operator)',
  );
  expect((await belay(['events', 'maintenancetask', 'u'])).out).toContain(
    'dropped by the admin: host y1 (owner the operator)',
  );
  await belay(['maintenance', 'create', '--host', 'y4', '--name', 'own'], { env });
  expect((await belay(['maintenance', 'drop', 'own'], { env })).err).toBe('');
});

test('C6.4 S16 deleting a task as an object says who did it; get hosts shows a host in maintenance', async () => {
  const { belay, api } = cli;
  const env = { BELAY_TOKEN: api.token.operator };
  const host = 'apiVersion: belay.dev/v1\nkind: Host\nmetadata: { name: db2 }\nspec: {}\n';
  await belay(['apply', '-f', cli.file('host.yaml', host)]);
  await api.clock.advance(1);
  await belay(['maintenance', 'create', '--host', 'db2', '--name', 't'], { env });
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 'v'], { env });
  await belay(['maintenance', 'create', '--host', 'y1', '--name', 'u'], { env });
  const row = async () => lines((await belay(['get', 'hosts'])).out).find((line) => line.startsWith('db2'));
  expect(lines((await belay(['get', 'hosts'])).out)[0]).toMatch(/AGE +MAINTENANCE$/);
  expect(await row()).toMatch(/ t \(the operator\) until \S+Z$/);
  for (const name of ['t', 'u'])
    expect((await belay(['delete', 'maintenancetask', name, '--yes'])).code).toBe(0);
  expect(await row()).toMatch(/ –$/);
  expect((await belay(['events', 'maintenancetask', 't'])).out).toContain(
    'given back by the admin: host db2 (owner the operator)',
  );
  expect((await belay(['events', 'maintenancetask', 'u'])).out).toContain(
    'dropped by the admin: host y1 (owner the operator)',
  );
});

test('C6.4 an agent that is away because somebody works on its host is no fault', async () => {
  const { belay, api } = cli;
  const host = 'apiVersion: belay.dev/v1\nkind: Host\nmetadata: { name: db2 }\nspec: {}\n';
  await belay(['apply', '-f', cli.file('host.yaml', host)]);
  await api.clock.advance(1);
  api.fleet.connect('db2', false);
  expect((await belay(['doctor'])).out).toContain('host db2 is not connected');
  await belay(['maintenance', 'create', '--host', 'db2', '--name', 't']);
  const words = /in maintenance: t \(the admin\) until \S+Z/;
  const doctor = await belay(['doctor']);
  expect([doctor.code, doctor.out]).toEqual([0, expect.stringMatching(words)]);
  expect(doctor.out).not.toContain('belay-agent');
  const described = (await belay(['describe', 'host', 'db2'])).out;
  expect(described).toMatch(words);
  expect(described).not.toContain('start its agent');
});

test('C1.5 a group larger than what may be in flight is refused with the option', async () => {
  const args = ['maintenance', 'create', '--host', 'y1', '--host', 'y2', '--together', '--in-flight', '1'];
  const refused = await cli.belay(args);
  expect(refused.code).toBe(4);
  expect(refused.err).toMatch(/--in-flight +is 1, and a group of 2 is granted whole or not at all/);
});

test('C6.4 S16 who switched new grants off and since when is told, and explain goes on explaining', async () => {
  const { belay } = cli;
  await belay(['maintenance', 'switch', 'off']);
  const off = /switched off by the admin since \S+Z/;
  expect((await belay(['doctor'])).out).toMatch(off);
  expect((await belay(['maintenance', 'list'])).err).toMatch(off);
  expect((await belay(['maintenance', 'nodes', '--by-host'])).err).toMatch(off);
  const explained = await belay(['maintenance', 'explain', '--hosts', 'y1']);
  expect(explained.code).toBe(4);
  expect(lines(explained.out)[0]).toMatch(
    /^maintenance is switched off by the admin since \S+Z: nothing new is granted, .*; without that:$/,
  );
  expect(explained.out).toContain('would be granted');
  const json = await belay(['maintenance', 'explain', '--hosts', 'y1', '-o', 'json']);
  expect([json.code, JSON.parse(json.out).switch]).toMatchObject([4, { disabled: true, by: 'the admin' }]);
  const refused = await belay(['maintenance', 'create', '--host', 'y1']);
  expect([refused.code, refused.err]).toEqual([4, expect.stringContaining('MaintenanceDisabled')]);
  await belay(['maintenance', 'switch', 'on']);
  expect((await belay(['maintenance', 'explain', '--hosts', 'y1'])).code).toBe(0);
  const events = (await belay(['events'])).out;
  expect(events).toMatch(/MaintenanceSwitchedOff .*switched off by the admin/);
  expect(events).toMatch(/MaintenanceSwitchedOn .*switched on by the admin/);
  expect((await belay(['maintenance', 'list'])).err).toBe('');
});
