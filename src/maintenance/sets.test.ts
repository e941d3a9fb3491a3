import { expect, test } from 'vitest';
import { admitMember, type MemberAsk, releaseMember } from './admit.ts';
import { Desk } from './desk.ts';
import { Fleet } from './fleet.ts';
import type { FleetSpec, NodeSpec, NodeState, ReplicaSetSpec } from './fleetSpec.ts';
import { MEMBER_SETTLE } from './limits.ts';
import { completeActions, createTask, dropTask, refreshTask, type TaskSpec } from './tasks.ts';
import type { Action, Mode } from './types.ts';

const MINUTE = 60_000;

/** A set of members on hosts h0, h1, …: one letter each (u up, d down, ? unknown, n no vote, a arbiter, z delayed). */
function set(key: string, letters: string, more: Partial<ReplicaSetSpec> = {}, firstHost = 0): FleetSpec {
  const stateOf = (c: string): NodeState => (c === 'd' ? 'down' : c === '?' ? 'unknown' : 'up');
  const nodes = [...letters].map(
    (c, i): NodeSpec => ({
      key: `${key}-${i}`,
      name: `${key}-${i}`,
      host: `h${firstHost + i}`,
      kind: 'member',
      state: stateOf(c),
      startedAt: null,
      disks: [],
      cluster: key,
    }),
  );
  const members = [...letters].map((c, i) => ({
    node: `${key}-${i}`,
    votes: c === 'n' || c === 'z' ? (0 as const) : (1 as const),
    priority: c === 'a' || c === 'n' || c === 'z' ? 0 : 1,
    data: c !== 'a',
    delayed: c === 'z',
  }));
  return {
    nodes,
    replicaSets: [
      { key, role: 'replicaSet', members, writeConcern: 'majority', interruption: false, ...more },
    ],
  };
}

const together = (...specs: readonly FleetSpec[]): FleetSpec => ({
  nodes: specs.flatMap((s) => s.nodes),
  replicaSets: specs.flatMap((s) => s.replicaSets ?? []),
  limits: specs.flatMap((s) => s.limits ?? []),
});

const lock = (scope: Action['scope']): Action => ({ type: 'lock', scope, duration: 10 * MINUTE });
const host = (name: string): Action => lock({ kind: 'host', host: name });

/** Asks for hosts one after the other and gives what became of each: granted, or the reason. */
function ask(desk: Desk, hosts: readonly string[], mode: Mode = 'strong', now = 0): readonly string[] {
  return hosts.map((name) => {
    const answer = desk.request(
      { owner: 'u', mode, partial: true, schedule: false, actions: [{ action: host(name), at: [0, 0] }] },
      now,
    );
    return answer.granted.length > 0 ? 'granted' : (answer.refusal?.reason ?? '');
  });
}
const asked = (spec: FleetSpec, hosts: readonly string[], mode?: Mode): readonly string[] =>
  ask(new Desk(new Fleet(spec)), hosts, mode);

test('C2.5 strong takes one voter of five, weak as many as leave a majority', () => {
  expect(asked(set('a', 'uuuuu'), ['h0', 'h1', 'h2'])).toEqual([
    'granted',
    'TooManyUnavailableMembers',
    'TooManyUnavailableMembers',
  ]);
  expect(asked(set('a', 'uuuuu'), ['h0', 'h1', 'h2'], 'weak')).toEqual([
    'granted',
    'granted',
    'WouldLoseMajority',
  ]);
});

test('C2.5 MNT-25 of three members one may go, in strong and in weak', () => {
  for (const mode of ['strong', 'weak', 'smart'] as const)
    expect(asked(set('a', 'uuu'), ['h0', 'h1'], mode)).toEqual(['granted', 'WouldLoseMajority']);
});

test('C5.3 a member that is down or unknown counts as out, and may be worked on itself', () => {
  for (const letters of ['udu', 'u?u'])
    expect(asked(set('a', letters), ['h0', 'h1'])).toEqual(['WouldLoseMajority', 'granted']);
});

test('C2.4 smart takes a second voter for another task only, and never a majority', () => {
  const desk = new Desk(new Fleet(set('a', 'uuuuu')));
  expect(ask(desk, ['h0', 'h1', 'h2'], 'smart')).toEqual(['granted', 'granted', 'WouldLoseMajority']);
  const own = new Desk(new Fleet(set('b', 'uuuuu'))).request(
    {
      owner: 'u',
      mode: 'smart',
      partial: true,
      schedule: true,
      actions: ['h0', 'h1'].map((h, i) => ({ action: host(h), at: [i, 0] as const })),
    },
    0,
  );
  expect(own.granted).toHaveLength(1);
});

test('C2.5 the default write concern stays satisfiable', () => {
  expect(asked(set('a', 'uuu', { writeConcern: 3 }), ['h0'])).toEqual(['WriteConcernUnsatisfiable']);
  expect(asked(set('a', 'uuu', { writeConcern: 2 }), ['h0'])).toEqual(['granted']);
  // A delayed member is a copy, but acknowledges too late.
  expect(asked(set('a', 'uuuz', { writeConcern: 3 }), ['h0'])).toEqual(['WriteConcernUnsatisfiable']);
  // Two members with data and an arbiter: w:majority needs both.
  expect(asked(set('a', 'uua'), ['h0', 'h2'])).toEqual(['WriteConcernUnsatisfiable', 'granted']);
});

test('C2.5 an electable member remains', () => {
  const spec = set('a', 'uuu');
  const [only] = spec.replicaSets ?? [];
  const members = only?.members.map((m, i) => ({ ...m, priority: i === 0 ? 1 : 0 })) ?? [];
  const fleet = { ...spec, replicaSets: [{ ...(only as ReplicaSetSpec), members }] };
  expect(asked(fleet, ['h0', 'h1'])).toEqual(['NoElectableMember', 'granted']);
});

test('C2.5 the last copy of the data is never released short of force', () => {
  const spec = set('a', 'udd', { interruption: true });
  for (const mode of ['strong', 'weak', 'smart'] as const)
    expect(asked(spec, ['h0'], mode)).toEqual(['LastCopy']);
  expect(asked(spec, ['h0'], 'force')).toEqual(['granted']);
});

test('C2.5 MNT-23 a single member waits with a hint, unless the spec allows interruption', () => {
  const desk = new Desk(new Fleet(set('a', 'u')));
  const { refusal } = desk.request(
    {
      owner: 'u',
      mode: 'strong',
      partial: true,
      schedule: false,
      actions: [{ action: host('h0'), at: [0, 0] }],
    },
    0,
  );
  expect([refusal?.reason, refusal?.message]).toEqual([
    'OnlyMember',
    'a-0 is the only member of a with data: any work on it is an outage. Set spec.maintenance.interruption to Allowed, or use force',
  ]);
  expect(asked(set('a', 'u', { interruption: true }), ['h0'])).toEqual(['granted']);
  expect(asked(set('a', 'u'), ['h0'], 'force')).toEqual(['granted']);
});

test('C2.5 interruption that is allowed does not give away a set that can spare a member', () => {
  expect(asked(set('a', 'udu', { interruption: true }), ['h0'])).toEqual(['WouldLoseMajority']);
});

test('C2.5 config servers count for every shard behind them', () => {
  const config = set('cfg', 'uuu', { role: 'config' });
  const shard = (key: string): FleetSpec => set(key, 'uuu', { role: 'shard', configSet: 'cfg' }, 10);
  const healthy = together(config, shard('s0'));
  expect(asked(healthy, ['h0', 'h1', 'h10'])).toEqual(['granted', 'WouldLoseMajority', 'granted']);
  const sick = together(set('cfg', 'udd', { role: 'config' }), shard('s0'));
  expect(asked(sick, ['h10'])).toEqual(['ConfigServersUnavailable']);
  const desk = new Desk(new Fleet(together(set('cfg', 'uud', { role: 'config' }), shard('s0'), shard('s1'))));
  const answer = desk.request(
    {
      owner: 'u',
      mode: 'weak',
      partial: true,
      schedule: false,
      actions: [{ action: host('h0'), at: [0, 0] }],
    },
    0,
  );
  expect(answer.refusal?.message).toBe(
    'cfg would have 1 of 3 voters, its majority is 2, and every shard depends on it: s0, s1; out: cfg-2 (down) on h2',
  );
});

test('C2.5 C5.2 members of one host are too many for the write concern, whoever acknowledges too late is there', () => {
  const one = set('a', 'uuunz', { writeConcern: 3 });
  const nodes = one.nodes.map((n, i) => (i === 3 ? { ...n, host: 'h0' } : n));
  expect(asked({ ...one, nodes }, ['h0'])).toEqual(['TooManyOnOneHost']);
  const more = set('a', 'uuunn', { writeConcern: 3 });
  const down = more.nodes.map((n, i) =>
    i === 3 ? { ...n, host: 'h0' } : i === 4 ? { ...n, state: 'down' as const } : n,
  );
  expect(asked({ ...more, nodes: down }, ['h0'])).toEqual(['WriteConcernUnsatisfiable']);
});

test('C5.2 C6.3 a host takes all its members: two of one set on it are too many in strong', () => {
  const one = set('a', 'uuuuu');
  const nodes = one.nodes.map((n, i) => (i === 1 ? { ...n, host: 'h0' } : n));
  expect(asked({ ...one, nodes }, ['h0'])).toEqual(['TooManyOnOneHost']);
  expect(asked({ ...one, nodes }, ['h0'], 'smart')).toEqual(['TooManyOnOneHost']);
  expect(asked({ ...one, nodes }, ['h0'], 'weak')).toEqual(['granted']);
  const several = together(set('a', 'uuu'), set('b', 'uuu'), set('c', 'udu'));
  expect(asked(several, ['h0', 'h2', 'h1'])).toEqual(['WouldLoseMajority', 'WouldLoseMajority', 'granted']);
});

test('C2.5 routers are limited by share; one may always go', () => {
  const nodes = Array.from(
    { length: 10 },
    (_, i): NodeSpec => ({
      ...(set('r', 'u').nodes[0] as NodeSpec),
      key: `r${i}`,
      name: `r${i}`,
      host: `h${i}`,
      kind: 'router',
    }),
  );
  const limits = [
    {
      kind: 'routers' as const,
      name: 'events',
      nodes: nodes.map((n) => n.key),
      nodesLimit: 0,
      percentLimit: 20,
    },
  ];
  expect(asked({ nodes, limits }, ['h0', 'h1', 'h2'])).toEqual(['granted', 'granted', 'RouterLimitReached']);
});

test('C1.2 MNT-05 a refusal names lock, holder, task, deadline and the members in the way, and the true time', () => {
  const desk = new Desk(new Fleet(together(set('a', 'uuu'), set('b', 'uuu'))));
  const hosts = (uid: string, name: string) =>
    desk.request(
      {
        uid,
        owner: 'eve',
        mode: 'strong',
        partial: true,
        schedule: true,
        actions: [{ action: host(name), at: [0, 0] }],
      },
      0,
    );
  hosts('kernel', 'h0');
  const second = hosts('disk', 'h1');
  expect(second.refusal?.message).toBe(
    'a would have 1 of 3 voters, its majority is 2; out: a-0 (locked by eve-p-1 of task kernel (owner eve) until 1970-01-01T00:10:00Z) on h0',
  );
  expect([second.refusal?.by, second.retryAt]).toEqual([
    [{ kind: 'replicaSet', set: 'a', out: ['a-0'] }],
    // The lock ends, and the member has settled.
    10 * MINUTE + MEMBER_SETTLE,
  ]);
  const again = hosts('again', 'h0');
  expect(again.refusal?.by).toEqual([
    { kind: 'lock', item: 'a-0', lock: 'eve-p-1', task: 'kernel', owner: 'eve', deadline: 10 * MINUTE },
  ]);
  expect(again.retryAt).toBe(10 * MINUTE);
});

const member = (id: string, node: string, priority = 0): MemberAsk => ({
  id,
  node,
  holder: 'MongoDB default/a',
  why: 'restart with the new configuration',
  priority,
  mode: 'strong',
  duration: 5 * MINUTE,
});

test('C3.2 S13 the control plane asks like everybody else: a granted host makes it wait, and the reverse', () => {
  const desk = new Desk(new Fleet(set('a', 'uuu')));
  const first = admitMember(desk, member('a/0', 'a-0'), 0);
  expect(first.kind).toBe('granted');
  expect(admitMember(desk, member('a/0', 'a-0'), 0)).toEqual(first);
  expect(ask(desk, ['h1'])).toEqual(['WouldLoseMajority']);
  releaseMember(desk, 'a/0');
  expect(ask(desk, ['h1'])).toEqual(['granted']);
  const refused = admitMember(desk, member('a/2', 'a-2'), 0);
  expect(refused).toMatchObject({
    kind: 'refused',
    refusal: { reason: 'WouldLoseMajority' },
    retryAt: 10 * MINUTE + MEMBER_SETTLE,
  });
});

test('C3.1 C3.2 a pending urgent repair holds back a routine step, and an urgent step a routine task', () => {
  const desk = new Desk(new Fleet(set('a', 'uuu')));
  ask(desk, ['h2']);
  const urgent = {
    owner: 'eve',
    uid: 'repair',
    mode: 'strong' as const,
    partial: true,
    schedule: true,
    priority: -10,
  };
  desk.request({ ...urgent, actions: [{ action: host('h1'), at: [0, 0] }] }, 0);
  desk.complete('u-p-1');
  expect(admitMember(desk, member('a/0', 'a-0'), 0)).toMatchObject({ kind: 'refused' });
  expect(admitMember(desk, member('a/0', 'a-0', -20), 0)).toMatchObject({ kind: 'granted' });
  releaseMember(desk, 'a/0');
  desk.drop('eve-r-2');
  ask(desk, ['h2']);
  expect(admitMember(desk, member('a/0', 'a-0', -20), 0)).toMatchObject({ kind: 'refused' });
  for (const entry of [...desk.entries()]) if (entry.owner === 'u') desk.drop(entry.id);
  expect(ask(desk, ['h1'])).toEqual(['WouldLoseMajority']);
});

test('C1.2 a host that can never be granted is refused for that, whatever passing thing is met on it first', () => {
  const all = together(set('a', 'udu'), set('b', 'uuuuu'));
  const nodes = all.nodes.map((n) => (n.key === 'b-1' ? { ...n, host: 'h0' } : n));
  expect(asked({ ...all, nodes }, ['h0', 'h2'])).toEqual(['TooManyOnOneHost', 'WouldLoseMajority']);
  expect(asked({ ...all, nodes }, ['h0'], 'weak')).toEqual(['WouldLoseMajority']);
});

test('C1.2 a host that can never be granted in a mode is refused at once, and holds nobody back', () => {
  const spec = set('a', 'uuu');
  const desk = new Desk(
    new Fleet({ ...spec, nodes: spec.nodes.map((n, i) => (i < 2 ? { ...n, host: 'h0' } : n)) }),
  );
  const reply = desk.request(
    {
      uid: 'hopeless',
      owner: 'u',
      mode: 'weak',
      partial: true,
      schedule: true,
      priority: -10,
      actions: ['h0', 'h2'].map((h, i) => ({ action: host(h), at: [i, 0] as const })),
    },
    0,
  );
  expect(reply.pending.map((p) => p.refusal?.message)).toEqual([
    'a-0, a-1 of a go down together: they are on one host, and weak does not allow so many; spread them, use another mode, or force (an outage)',
  ]);
  desk.complete('u-p-1');
  expect(admitMember(desk, member('a/0', 'a-0', 5), 0).kind).toBe('granted');
});

test('ROL-06 a member counts as out for some seconds after its work: what is known of it may be from before', () => {
  const desk = new Desk(new Fleet(set('a', 'uuu')));
  const task: TaskSpec = {
    uid: 'roll',
    owner: 'eve',
    description: '',
    mode: 'strong',
    priority: 0,
    dryRun: false,
    maxInFlight: 1,
    groups: [[host('h0')], [host('h1')]],
  };
  createTask(desk, task, 0);
  completeActions(desk, ['eve-p-1'], 1_000);
  const soon = refreshTask(desk, 'roll', 2_000);
  expect(soon.groups[0]?.[0]?.details).toContain(
    'a-0 (given back a moment ago by task roll (owner eve) and counts as out until 1970-01-01T00:00:06Z, when it is known how it came back)',
  );
  expect(soon.retryAfter).toBe(6_000);
  const itself = createTask(desk, { ...task, uid: 'again', groups: [[host('h0')]] }, 2_000).groups.flat()[0];
  expect([itself?.reason, itself?.refusal?.by]).toEqual([
    'Settling',
    [{ kind: 'settling', item: 'a-0', task: 'roll', owner: 'eve', until: 6_000 }],
  ]);
  desk.drop(desk.task('again')?.id ?? '');
  expect(refreshTask(desk, 'roll', 6_001).groups[0]?.[0]?.status).toBe('PERFORMED');
  expect(desk.announcements()).toEqual([]);
});

test('ROL-06 C1.3 however work ends, members settle: completed, dropped or expired, and not where nothing was done', () => {
  const roll = (end: (desk: Desk) => void, at: number): readonly (string | undefined)[] => {
    const desk = new Desk(new Fleet(set('a', 'uuu')));
    const spec = { owner: 'eve', description: '', mode: 'strong' as const, priority: 0, dryRun: false };
    createTask(desk, { ...spec, uid: 'roll', maxInFlight: 0, groups: [[host('h0')]] }, 0);
    end(desk);
    return [at, at + 6_000].map(
      (now) => admitMember(desk, member(`a/${now}`, 'a-1'), now, { dry: true }).kind,
    );
  };
  expect(roll((desk) => completeActions(desk, ['eve-p-1'], 1_000), 1_000)).toEqual(['refused', 'granted']);
  expect(roll((desk) => dropTask(desk, 'roll', 1_000), 1_000)).toEqual(['refused', 'granted']);
  expect(roll(() => {}, 10 * MINUTE)).toEqual(['refused', 'granted']);
  expect(roll((desk) => desk.drop('eve-r-1'), 1_000)).toEqual(['granted', 'granted']);
});
