import { expect, test } from 'vitest';
import { BETTER, type Compat, ORIGINAL } from './compat.ts';
import { Desk, type DeskOptions } from './desk.ts';
import { Fleet } from './fleet.ts';
import type { FleetSpec, NodeSpec } from './fleetSpec.ts';
import {
  completeActions,
  createTask,
  dropTask,
  getTask,
  listTasks,
  refreshTask,
  type TaskSpec,
} from './tasks.ts';
import { taskOf } from './testing/tasks.ts';
import type { Action, Mode } from './types.ts';

const MINUTE = 60_000;

function ydb(
  count: number,
  more: Partial<FleetSpec> = {},
  hosts = (i: number): string => `h${i}`,
): FleetSpec {
  const nodes = Array.from(
    { length: count },
    (_, i): NodeSpec => ({
      key: `${i}`,
      name: `node ${i}`,
      host: hosts(i),
      kind: 'storage',
      state: 'up',
      startedAt: -1_000_000,
      cluster: 'c',
      disks: [{ id: 0, ok: true }],
    }),
  );
  const vdisks = nodes.map((n) => ({ node: n.key, disk: 0, realm: 0, ok: true }));
  return { nodes, groups: [{ id: 7, erasure: 'block-4-2', vdisks }], ...more };
}

const node = (n: number, minutes = 1): Action => ({
  type: 'lock',
  scope: { kind: 'node', node: `${n}` },
  duration: minutes * MINUTE,
});
const one = (...nodes: readonly number[]): TaskSpec['groups'] => nodes.map((n) => [node(n)]);
const deskOf = (spec: FleetSpec, options?: DeskOptions): Desk =>
  new Desk(new Fleet(spec), undefined, options);
const states = (groups: ReturnType<typeof createTask>['groups']): readonly string[] =>
  groups.flat().map((a) => `${JSON.stringify(a.action.scope).replace(/\D/g, '')} ${a.status} ${a.reason}`);

test('C1.5 duplicates, empty groups, bad priorities, unknown ids: a clear error and nothing left behind', () => {
  const desk = deskOf(ydb(8));
  createTask(desk, taskOf('t', one(0)), 0);
  const before = JSON.stringify(desk.book());
  const wrong: readonly (readonly [Partial<TaskSpec>, string])[] = [
    [{ uid: 't' }, 'Maintenance task already exists: t'],
    [{ groups: [] }, 'Empty actions'],
    [{ groups: [[]] }, 'Empty actions'],
    [{ priority: 101 }, 'priority 101 is not a whole number from -100 to 100'],
    [{ priority: 0.5 }, 'priority 0.5 is not a whole number from -100 to 100'],
    [{ mode: null }, 'Unknown availability mode'],
    [{ groups: one(99) }, 'there is no node 99'],
    [{ uid: 'x'.repeat(129) }, 'task_uid is longer than 128 characters'],
  ];
  for (const [change, message] of wrong) {
    const reply = createTask(desk, taskOf('n', one(1), change), 0);
    expect([reply.status, reply.issues]).toEqual(['BAD_REQUEST', [message]]);
  }
  expect(refreshTask(desk, 'nope', 0).status).toBe('BAD_REQUEST');
  expect(dropTask(desk, 'nope', 0).status).toBe('BAD_REQUEST');
  expect(completeActions(desk, ['nope'], 0)).toMatchObject({
    status: 'BAD_REQUEST',
    issues: ['Unknown permission: nope'],
  });
  expect(completeActions(desk, ['eve-p-1', 'nope'], 0).status).toBe('BAD_REQUEST');
  expect(JSON.stringify(desk.book())).toBe(before);
});

test('C1.3 MNT-07 an action past its deadline counts as completed; the pending rest stays obtainable', () => {
  const desk = deskOf(ydb(8));
  createTask(desk, taskOf('t', one(0, 1, 2, 3, 4, 5)), 0);
  const seen: number[] = [];
  for (let minute = 2; desk.task('t') !== undefined; minute += 3) {
    seen.push(getTask(desk, 't', minute * MINUTE).groups.length);
    refreshTask(desk, 't', minute * MINUTE);
  }
  expect(seen).toEqual([5, 4, 3, 2, 1, 0]);
});

test('MNT-07 compat: an expired action stays for twice its time and takes its task along', () => {
  const desk = deskOf(ydb(8), { compat: ORIGINAL });
  createTask(desk, taskOf('t', one(0, 1)), 0);
  expect(getTask(desk, 't', 2 * MINUTE).groups).toHaveLength(2);
  // A node that is up is free again at the deadline all the same.
  expect(createTask(desk, taskOf('other', one(3)), 2 * MINUTE).groups.flat()[0]?.status).toBe('PERFORMED');
  expect(getTask(desk, 't', 3 * MINUTE).status).toBe('BAD_REQUEST');
});

test('C5.2 nodes of one host see each other; compat: a host takes two disks of a group', () => {
  const verdict = (compat: Compat): string | undefined => {
    const desk = deskOf(
      ydb(8, {}, () => 'h'),
      { compat },
    );
    const all: Action = { type: 'lock', scope: { kind: 'host', host: 'h' }, duration: MINUTE };
    const reply = createTask(desk, taskOf('t', [[all]]), 0, { compat });
    return reply.groups.flat()[0]?.status ?? reply.issues[0];
  };
  expect(verdict(ORIGINAL)).toBe('PERFORMED');
  expect(verdict(BETTER)).toBe(
    'The request is incorrect: too many disks from the one group (7, block-4-2): those of node 0, node 1',
  );
});

test('C5.5 api-110 an unknown host is refused at once; compat: it waits for ever', () => {
  const groups: TaskSpec['groups'] = [
    [node(0)],
    [{ type: 'lock', scope: { kind: 'host', host: 'nope' }, duration: null }],
  ];
  const better = deskOf(ydb(8));
  expect(createTask(better, taskOf('t', groups), 0)).toMatchObject({
    status: 'BAD_REQUEST',
    issues: ['there is no host nope'],
  });
  expect([...better.entries()]).toEqual([]);
  const reply = createTask(deskOf(ydb(8), { compat: ORIGINAL }), taskOf('t', groups), 0, {
    compat: ORIGINAL,
  });
  expect(states(reply.groups)).toEqual(['0 PERFORMED OK', ' PENDING NoSuchHost']);
});

test('C5.5 der-004 weak is never stricter than strong for rings; compat: it is', () => {
  const stateStorages = [{ nToSelect: 1, rings: [['0'], ['1'], ['2']], disabled: [] }];
  const reasonIn = (compat: Compat, mode: Mode): unknown => {
    const desk = deskOf({ ...ydb(3), groups: [], stateStorages }, { compat });
    return createTask(desk, taskOf('t', one(0), { mode }), 0, { compat }).groups.flat()[0]?.reason;
  };
  expect([reasonIn(BETTER, 'weak'), reasonIn(BETTER, 'strong')]).toEqual(['OK', 'OK']);
  expect([reasonIn(ORIGINAL, 'weak'), reasonIn(ORIGINAL, 'strong')]).toEqual([
    'TooManyUnavailableStateStorageRings',
    'OK',
  ]);
});

test('C1.5 a dry run shows what waits as well and leaves nothing; compat: only what would be granted', () => {
  const run = (compat: Compat): readonly string[] => {
    const desk = deskOf(ydb(8), { compat });
    const reply = createTask(desk, taskOf('t', one(0, 1), { dryRun: true }), 0, { compat });
    expect([...desk.entries()]).toEqual([]);
    expect(reply.groups.flat().every((a) => a.id === null)).toBe(true);
    return states(reply.groups);
  };
  expect(run(BETTER)).toEqual(['0 PERFORMED OK', '1 PENDING TooManyUnavailableVDisks']);
  expect(run(ORIGINAL)).toEqual(['0 PERFORMED OK']);
});

test('C1.1 an atomic group that is too much only because of others waits; compat: it is called impossible', () => {
  const run = (compat: Compat): string => {
    const desk = deskOf(ydb(8), { compat });
    createTask(desk, taskOf('other', one(4)), 0, { compat });
    const groups = [[node(0), node(1)]];
    return createTask(desk, taskOf('t', groups, { mode: 'weak' }), 0, { compat }).status;
  };
  expect([run(BETTER), run(ORIGINAL)]).toEqual(['SUCCESS', 'BAD_REQUEST']);
});

test('C5.3 unknown nodes fill a place in the limits; compat: they do not', () => {
  const run = (compat: Compat): unknown => {
    const spec = ydb(8);
    const nodes = spec.nodes.map((n, i) => (i === 7 ? { ...n, state: 'unknown' as const } : n));
    const limits = [
      { kind: 'cluster' as const, name: 'c', nodes: nodes.map((n) => n.key), nodesLimit: 1, percentLimit: 0 },
    ];
    const desk = deskOf({ nodes, limits }, { compat });
    return createTask(desk, taskOf('t', one(0)), 0, { compat }).groups.flat()[0]?.reason;
  };
  expect([run(BETTER), run(ORIGINAL)]).toEqual(['DisabledNodesLimitReached', 'OK']);
});

test('C1.2 MNT-08 MNT-16 a ring that settles says until when, and that is the time to ask again', () => {
  const spec = ydb(3);
  const nodes = spec.nodes.map((n, i) => (i === 1 ? { ...n, startedAt: 0 } : n));
  const stateStorages = [{ nToSelect: 3, rings: [['0'], ['1'], ['2']], disabled: [] }];
  const reply = createTask(deskOf({ nodes, stateStorages }), taskOf('t', one(0)), MINUTE);
  expect(reply.groups.flat()[0]?.details).toMatch(
    /Temporary \(for a 2 minutes\) locked rings: 1\..*ring 1 settles until 1970-01-01T00:02:00Z/,
  );
  expect(reply.retryAfter).toBe(2 * MINUTE);
});

test('C1.2 a full group says which nodes are out, by whom and until when', () => {
  const desk = deskOf(ydb(8));
  createTask(desk, taskOf('first', [[node(3, 30)]]), 0);
  const reply = createTask(desk, taskOf('second', one(0)), MINUTE);
  expect(reply.groups.flat()[0]?.details).toBe(
    'too many unavailable vdisks: 2 of 8 in group 7 (block-4-2) would be out, strong allows 1; out: node 3 (locked by eve-p-1 of task first (owner eve) until 1970-01-01T00:30:00Z)',
  );
  expect(reply.retryAfter).toBe(30 * MINUTE);
});

test('C1.5 list is by owner, get changes nothing, drop gives everything back', () => {
  const desk = deskOf(ydb(8));
  createTask(desk, taskOf('a', one(0, 1)), 0);
  createTask(desk, taskOf('b', one(2), { owner: 'bob' }), 0);
  expect([listTasks(desk, '', 0), listTasks(desk, 'bob', 0)]).toEqual([['a', 'b'], ['b']]);
  const before = JSON.stringify(desk.book());
  getTask(desk, 'a', 5_000);
  expect(JSON.stringify(desk.book())).toBe(before);
  dropTask(desk, 'a', 0);
  expect(states(refreshTask(desk, 'b', 0).groups)).toEqual(['2 PERFORMED OK']);
});

test('MNT-27 one blocked task holds up no other', () => {
  const desk = deskOf({ nodes: ydb(101).nodes });
  createTask(desk, taskOf('blocker', one(0)), 0);
  const granted = Array.from({ length: 101 }, (_, i) => createTask(desk, taskOf(`t${i}`, one(i)), 0)).filter(
    (reply) => reply.groups.flat()[0]?.status === 'PERFORMED',
  );
  expect(granted).toHaveLength(100);
});

test('MNT-30 whoever knows the task goes on with it when its requester is gone', () => {
  const first = deskOf(ydb(8));
  createTask(first, taskOf('t', one(0, 1)), 0);
  const second = new Desk(new Fleet(ydb(8)), first.book());
  expect(completeActions(second, ['eve-p-1'], 0).status).toBe('SUCCESS');
  expect(states(refreshTask(second, 't', 0).groups)).toEqual(['1 PERFORMED OK']);
});

test('MNT-14 MNT-28 a node that is gone counts as out and its lock ends with its task', () => {
  const desk = deskOf(ydb(8));
  createTask(desk, taskOf('t', one(5)), 0);
  const spec = ydb(8);
  desk.replaceFleet(new Fleet({ ...spec, nodes: spec.nodes.filter((n) => n.key !== '5') }));
  expect(states(createTask(desk, taskOf('u', one(0)), 0).groups)).toEqual([
    '0 PENDING TooManyUnavailableVDisks',
  ]);
  dropTask(desk, 't', 0);
  expect([...desk.entries()].map((e) => e.uid)).toEqual(['u']);
});

test('unit-005 a permission past its deadline locks nothing; locks are seen by priority', () => {
  const desk = deskOf(ydb(8), { locksPriority: true });
  createTask(desk, taskOf('low', one(0), { priority: 20 }), 0);
  expect(states(createTask(desk, taskOf('high', one(0), { priority: 5 }), 0).groups)).toEqual([
    '0 PERFORMED OK',
  ]);
  expect(states(createTask(desk, taskOf('equal', one(0), { priority: 5 }), 0).groups)).toEqual([
    '0 PENDING Locked',
  ]);
  // MNT-09: counted once, and the lower one still holds when the higher one ends.
  expect(desk.fleet.groupLocked[0]).toBe(1);
  dropTask(desk, 'high', 0);
  expect(desk.fleet.nodeLocked(0)).toBe(true);
  expect(states(refreshTask(desk, 'equal', 2 * MINUTE).groups)).toEqual(['0 PERFORMED OK']);
});

test('MNT-01 force passes limits and groups but no existing lock', () => {
  const spec = ydb(9, {
    limits: [
      { kind: 'cluster', name: 'c', nodes: ydb(9).nodes.map((n) => n.key), nodesLimit: 0, percentLimit: 13 },
    ],
  });
  const nodes = spec.nodes.map((n, i) => (i < 2 ? { ...n, state: 'down' as const } : n));
  const desk = deskOf({ ...spec, nodes });
  const modes = (['strong', 'weak', 'force', 'force'] as const).map(
    (mode, i) => createTask(desk, taskOf(`${i}`, one(5), { mode }), 0).groups.flat()[0]?.reason,
  );
  expect(modes).toEqual(['DisabledNodesLimitReached', 'DisabledNodesLimitReached', 'OK', 'Locked']);
});

test('MNT-17 drained and cordoned nodes fill a place in the limits and can be locked; compat: they fill none', () => {
  const run = (compat: Compat): readonly unknown[] => {
    const nodes = ydb(20).nodes;
    const limits = [
      {
        kind: 'cluster' as const,
        name: 'c',
        nodes: nodes.map((n) => n.key),
        nodesLimit: 0,
        percentLimit: 30,
      },
    ];
    const desk = deskOf({ nodes, limits }, { compat });
    const cordon = [0, 1, 2, 3, 4, 5, 6].map((n): readonly Action[] => [{ ...node(n), type: 'cordon' }]);
    createTask(desk, taskOf('aside', cordon), 0, { compat });
    const own = createTask(desk, taskOf('own', one(0)), 0, { compat }).groups.flat()[0];
    return [own?.status, createTask(desk, taskOf('more', one(10)), 0, { compat }).groups.flat()[0]?.reason];
  };
  expect(run(BETTER)).toEqual(['PERFORMED', 'DisabledNodesLimitReached']);
  expect(run(ORIGINAL)).toEqual(['PERFORMED', 'OK']);
});

test('C3.1 who is less urgent gets nothing that a more urgent task still waits for; equal priority has no queue', () => {
  const desk = deskOf(ydb(8));
  createTask(desk, taskOf('holder', one(0)), 0);
  createTask(desk, taskOf('urgent', one(1), { priority: -5 }), 0);
  const late = createTask(desk, taskOf('routine', one(2), { priority: 5 }), 0).groups.flat()[0];
  expect([late?.status, late?.details]).toEqual(['PENDING', expect.stringContaining('task urgent')]);
  completeActions(desk, ['eve-p-1'], 1);
  // The group is free now, and still kept for whoever is more urgent.
  expect(states(refreshTask(desk, 'routine', 2).groups)).toEqual(['2 PENDING TooManyUnavailableVDisks']);
  expect(states(refreshTask(desk, 'urgent', 3).groups)).toEqual(['1 PERFORMED OK']);
  dropTask(desk, 'urgent', 4);
  createTask(desk, taskOf('equal', one(3), { priority: 5 }), 5);
  expect(states(getTask(desk, 'equal', 6).groups)).toEqual(['3 PERFORMED OK']);
  expect(states(refreshTask(desk, 'routine', 7).groups)).toEqual(['2 PENDING TooManyUnavailableVDisks']);
});

test('C1.3 a completed action is gone from its task, and what still waits stays in it', () => {
  const desk = deskOf(ydb(8));
  createTask(desk, taskOf('t', one(0, 1)), 0);
  expect(completeActions(desk, ['eve-p-1'], 1).status).toBe('SUCCESS');
  expect(states(getTask(desk, 't', 2).groups)).toEqual(['1 PENDING TooManyUnavailableVDisks']);
  expect(states(refreshTask(desk, 't', 3).groups)).toEqual(['1 PERFORMED OK']);
  expect(completeActions(desk, ['eve-p-2'], 4).status).toBe('SUCCESS');
  expect(getTask(desk, 't', 5).status).toBe('BAD_REQUEST');
});

test('C5.5 C1.2 a full group tells the true time to ask again; compat: only a lock does, all else says five minutes', () => {
  const times = (compat: Compat): readonly unknown[] => {
    const desk = deskOf(ydb(8), { compat });
    createTask(desk, taskOf('other', [[node(0, 20)]]), 0, { compat });
    const group = createTask(desk, taskOf('group', one(1)), 0, { compat });
    const lock = createTask(desk, taskOf('lock', one(0)), 0, { compat });
    return [group.retryAfter, lock.retryAfter];
  };
  expect(times(BETTER)).toEqual([20 * MINUTE, 20 * MINUTE]);
  expect(times(ORIGINAL)).toEqual([5 * MINUTE, 20 * MINUTE]);
});

test('C1.2 C4.1 C4.2 a limit that is reached says when enough are back, as far as locks alone are in the way', () => {
  const nodes = ydb(20).nodes;
  const limit = (kind: 'cluster' | 'tablets', more: object = {}) => ({
    kind,
    name: 'c',
    nodes: nodes.map((n) => n.key),
    nodesLimit: 0,
    percentLimit: 0,
    ...more,
  });
  const retry = (spec: FleetSpec, mode: Mode, ...minutes: readonly number[]): unknown => {
    const desk = deskOf(spec);
    minutes.forEach((m, i) => void createTask(desk, taskOf(`o${i}`, [[node(i, m)]], { mode: 'force' }), 0));
    const reply = createTask(desk, taskOf('t', one(19), { mode }), 0);
    return [reply.groups.flat()[0]?.reason, reply.retryAfter === null ? null : reply.retryAfter / MINUTE];
  };
  const reached = 'DisabledNodesLimitReached';
  const two = { nodes, limits: [limit('cluster', { nodesLimit: 2 })] };
  // Of three that are out two have to be back: the second to come back is the true time.
  expect(retry(two, 'strong', 30, 10, 20)).toEqual([reached, 20]);
  expect(retry({ nodes, limits: [limit('cluster', { percentLimit: 13 })] }, 'strong', 30, 10)).toEqual([
    reached,
    10,
  ]);
  expect(
    retry(
      { nodes: nodes.slice(0, 20), limits: [limit('tablets')] },
      'strong',
      ...Array.from({ length: 10 }, (_, i) => 40 - i),
    ),
  ).toEqual(['SysTabletsNodeLimitReached', 31]);
  // Who is down comes back at a time nobody knows.
  const down = nodes.map((n, i) => (i < 2 ? { ...n, state: 'down' as const } : n));
  expect(retry({ nodes: down, limits: [limit('cluster', { nodesLimit: 2 })] }, 'strong')).toEqual([
    reached,
    5,
  ]);
});
