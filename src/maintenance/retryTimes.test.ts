/** `retry_after` is the true time, wherever locks with an end are all that stands in the way (C1.2, C4.1). */
import { expect, test } from 'vitest';
import { BETTER, type Compat, ORIGINAL } from './compat.ts';
import { Desk } from './desk.ts';
import { Fleet } from './fleet.ts';
import type { FleetSpec, NodeSpec } from './fleetSpec.ts';
import { DEFAULT_RETRY } from './limits.ts';
import { createTask } from './tasks.ts';
import { taskOf } from './testing/tasks.ts';
import type { Action, Mode } from './types.ts';

const node = (n: number, kind: NodeSpec['kind']): NodeSpec => ({
  key: `${n}`,
  name: `node ${n}`,
  host: `h${n}`,
  kind,
  state: 'up',
  startedAt: null,
  cluster: 'c',
  disks: kind === 'storage' ? [{ id: 0, ok: true }] : [],
});

const nodesOf = (count: number, kind: NodeSpec['kind']): NodeSpec[] =>
  Array.from({ length: count }, (_, n) => node(n, kind));

function group(): FleetSpec {
  const nodes = nodesOf(8, 'storage');
  const vdisks = nodes.map((n) => ({ node: n.key, disk: 0, realm: 0, ok: true }));
  return { nodes, groups: [{ id: 1, erasure: 'block-4-2', vdisks }] };
}

function rings(): FleetSpec {
  const nodes = nodesOf(9, 'dynamic');
  return { nodes, stateStorages: [{ nToSelect: 9, rings: nodes.map((n) => [n.key]), disabled: [] }] };
}

function set(): FleetSpec {
  const nodes = nodesOf(5, 'member');
  const members = nodes.map((n) => ({ node: n.key, votes: 1 as const, priority: 1, data: true }));
  const replicaSets = [
    {
      key: 's',
      role: 'replicaSet' as const,
      members,
      writeConcern: 'majority' as const,
      interruption: false,
    },
  ];
  return { nodes, replicaSets };
}

/** Asks for the next node while others are held until the given times: when it is told to come back, and what it gets then. */
function comesBack(spec: FleetSpec, until: readonly number[], mode: Mode) {
  const ask = (desk: Desk, n: number, how: Mode, duration: number | null, now: number) =>
    desk.request(
      {
        owner: `u${n}`,
        mode: how,
        partial: true,
        schedule: false,
        actions: [{ action: { type: 'lock', scope: { kind: 'node', node: `${n}` }, duration }, at: [0, 0] }],
      },
      now,
    );
  const held = (): Desk => {
    const desk = new Desk(new Fleet(spec));
    for (const [n, end] of until.entries())
      expect(ask(desk, n, 'force', end, 0).granted, `node ${n}`).toHaveLength(1);
    return desk;
  };
  const at = ask(held(), until.length, mode, null, 0).refusal?.retryAt ?? null;
  if (at === null) return { at, before: false, after: false };
  const granted = (now: number): boolean => {
    const desk = held();
    desk.expire(now);
    return ask(desk, until.length, mode, null, now).granted.length > 0;
  };
  return { at, before: granted(at - 1), after: granted(at) };
}

const CASES: readonly (readonly [string, FleetSpec, readonly number[], Mode, number])[] = [
  ['a group in strong', group(), [3000, 1000, 2000], 'strong', 3000],
  ['a group in weak', group(), [3000, 1000, 2000], 'weak', 2000],
  ['a group in smart, which falls back to weak', group(), [3000, 1000, 2000], 'smart', 2000],
  ['rings in strong', rings(), [3000, 1000, 2000, 4000, 5000], 'strong', 5000],
  ['rings in weak', rings(), [3000, 1000, 2000, 4000, 5000], 'weak', 2000],
  ['rings in smart', rings(), [3000, 1000, 2000, 4000, 5000], 'smart', 2000],
  ['a set in strong', set(), [3000, 1000, 2000], 'strong', 8000],
  ['a set in weak', set(), [3000, 1000, 2000], 'weak', 7000],
  ['a set in smart', set(), [3000, 1000, 2000], 'smart', 7000],
];

test.each(CASES)('C1.2 C4.1 of %s it is told exactly when it can be had', (_, spec, until, mode, at) => {
  expect(comesBack(spec, until, mode)).toEqual({ at, before: false, after: true });
});

test('C1.2 C6.2 the answer that grants a part of a request tells what the rest waits for, and until when; compat: it tells no time', () => {
  const lock = (n: number): Action[] => [
    { type: 'lock', scope: { kind: 'node', node: `${n}` }, duration: 60_000 },
  ];
  const asked = (compat: Compat) =>
    createTask(new Desk(new Fleet(group())), taskOf('t', [lock(1), lock(2)]), 0, { compat });
  const { groups, retryAfter } = asked(BETTER);
  expect(groups.map(([action]) => action?.status)).toEqual(['PERFORMED', 'PENDING']);
  expect(groups[1]?.[0]?.details).toMatch(/locked by \S+ of task t \(owner \S+\) until 1970-01-01T00:01:00Z/);
  expect(retryAfter).toBe(60_000);
  expect(asked(ORIGINAL).retryAfter).toBeNull();
});

test('C1.2 C3.1 behind a more urgent task it is told when that will have had it, and only when to look where nobody knows', () => {
  const ask = (desk: Desk, n: number, priority: number, duration: number, mode: Mode = 'strong', now = 0) =>
    desk.request(
      {
        uid: `t${n}${priority}`,
        owner: `u${n}`,
        mode,
        priority,
        partial: true,
        schedule: true,
        actions: [{ action: { type: 'lock', scope: { kind: 'node', node: `${n}` }, duration }, at: [0, 0] }],
      },
      now,
    );
  const desk = new Desk(new Fleet(group()));
  ask(desk, 0, 0, 10_000);
  const urgent = ask(desk, 1, -5, 20_000);
  expect(urgent.retryAt).toBe(10_000);
  const same = ask(desk, 1, 0, 1000);
  const other = ask(desk, 2, 0, 1000);
  expect([same, other].map((a) => [a.refusal?.reason, a.refusal?.retryAt, a.retryAt])).toEqual([
    ['HigherPriorityPending', 30_000, 30_000],
    ['TooManyUnavailableVDisks', 30_000, 30_000],
  ]);
  const id = (answer: typeof urgent): string => answer.entry?.id ?? '';
  // The time has come and the urgent task has not asked: from here on nobody knows.
  expect(desk.check(id(other), 30_001, { dry: true }).refusal?.retryAt ?? null).toBeNull();
  expect(desk.check(id(urgent), 10_000).granted).toHaveLength(1);
  expect(desk.check(id(other), 29_999).granted).toHaveLength(0);
  expect(desk.check(id(other), 30_000).granted).toHaveLength(1);

  const down = group();
  const dark = new Desk(
    new Fleet({ ...down, nodes: down.nodes.map((n, i) => (i === 7 ? { ...n, state: 'down' } : n)) }),
  );
  ask(dark, 1, -5, 20_000);
  const behind = ask(dark, 1, 0, 1000);
  expect([behind.refusal?.reason, behind.refusal?.retryAt, behind.retryAt]).toEqual([
    'HigherPriorityPending',
    null,
    DEFAULT_RETRY,
  ]);
});

test('C1.2 C2.5 the only member, and what nobody reports, have no time of which anybody knows', () => {
  const ask = (spec: FleetSpec) => {
    const action = { type: 'lock', scope: { kind: 'node', node: '0' }, duration: null } as const;
    const about = { owner: 'u', mode: 'strong', partial: true, schedule: true } as const;
    const { refusal, retryAt } = new Desk(new Fleet(spec)).request(
      { ...about, actions: [{ action, at: [0, 0] }] },
      0,
    );
    return [refusal?.reason, refusal?.retryAt, retryAt];
  };
  const [first] = nodesOf(1, 'member');
  const alone = set().replicaSets?.map((s) => ({ ...s, members: s.members.slice(0, 1) })) ?? [];
  expect(ask({ nodes: first === undefined ? [] : [first], replicaSets: alone })).toEqual([
    'OnlyMember',
    null,
    DEFAULT_RETRY,
  ]);
  const unknown = group();
  expect(ask({ ...unknown, nodes: unknown.nodes.map((n) => ({ ...n, state: 'unknown' })) })).toEqual([
    'NodeUnknown',
    null,
    DEFAULT_RETRY,
  ]);
});

test.each([
  ['a set', set(), 'down'],
  ['a set', set(), 'unknown'],
  ['a group', group(), 'down'],
] as const)(
  'C1.2 of %s a member that is locked and %3$s besides is named with both, and nobody knows when',
  (_, spec, state) => {
    const nodes = spec.nodes.map((n) => (n.key === '0' ? { ...n, state } : n));
    const desk = new Desk(new Fleet({ ...spec, nodes }));
    const ask = (uid: string, n: number, mode: Mode) =>
      desk.request(
        {
          uid,
          owner: 'eve',
          mode,
          partial: true,
          schedule: true,
          actions: [
            { action: { type: 'lock', scope: { kind: 'node', node: `${n}` }, duration: 60_000 }, at: [0, 0] },
          ],
        },
        0,
      );
    expect(ask('repair', 0, 'force').granted).toHaveLength(1);
    const { refusal } = ask('kernel', 1, 'strong');
    expect(refusal?.message).toContain(
      `node 0 (${state}, and locked by eve-p-1 of task repair (owner eve) until 1970-01-01T00:01:00Z)`,
    );
    expect(refusal?.retryAt).toBeNull();
  },
);
