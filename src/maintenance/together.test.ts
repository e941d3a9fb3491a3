import { expect, test } from 'vitest';
import { BETTER, type Compat, ORIGINAL } from './compat.ts';
import { Desk } from './desk.ts';
import { Fleet } from './fleet.ts';
import type { FleetSpec, NodeSpec } from './fleetSpec.ts';
import { createTask, type TaskSpec } from './tasks.ts';
import { taskOf } from './testing/tasks.ts';
import type { Action, Mode } from './types.ts';

function nodesOf(kind: NodeSpec['kind'], count: number): readonly NodeSpec[] {
  return Array.from({ length: count }, (_, i) => ({
    key: `default/a-${i}`,
    name: `a-${i}`,
    host: `h${i}`,
    kind,
    state: 'up',
    startedAt: null,
    disks: [],
    cluster: 'default/a',
  }));
}

function set(count: number): FleetSpec {
  const nodes = nodesOf('member', count);
  const members = nodes.map((n) => ({ node: n.key, votes: 1 as const, priority: 1, data: true }));
  const about = { role: 'replicaSet' as const, writeConcern: 'majority' as const, interruption: false };
  return { nodes, replicaSets: [{ key: 'default/a', members, ...about }] };
}

function limited(percentLimit: number): FleetSpec {
  const nodes = nodesOf('storage', 8);
  const of = nodes.map((n) => n.key);
  return { nodes, limits: [{ kind: 'cluster', name: 'c', nodes: of, nodesLimit: 0, percentLimit }] };
}

function ringed(): FleetSpec {
  const nodes = nodesOf('storage', 3).map((n) => ({ ...n, startedAt: -1_000_000 }));
  return { nodes, stateStorages: [{ nToSelect: 3, rings: nodes.map((n) => [n.key]), disabled: [] }] };
}

const together = (hosts: readonly string[], mode: Mode, priority = 0): TaskSpec =>
  taskOf(
    `t-${hosts.join('-')}`,
    [hosts.map((host): Action => ({ type: 'lock', scope: { kind: 'host', host }, duration: 60_000 }))],
    { mode, priority },
  );

/** The status of a group, and what is said of it. */
function asked(
  spec: FleetSpec,
  hosts: readonly string[],
  mode: Mode = 'strong',
  compat: Compat = BETTER,
): unknown {
  const desk = new Desk(new Fleet(spec));
  const { status, issues } = createTask(desk, together(hosts, mode), 0, { compat });
  return [status, ...issues];
}

test('C1.1 C1.2 a group that is too many members of one set is refused at once with the way out, however it is asked for', () => {
  expect(asked(set(3), ['h0', 'h1'])).toEqual([
    'BAD_REQUEST',
    'a-0, a-1 of default/a go down together: they are asked for together, and strong does not allow so many; ask for them one by one, use another mode, or force (an outage)',
  ]);
  expect(asked(set(5), ['h0', 'h1'], 'weak')).toEqual(['SUCCESS']);
  expect(asked(set(5), ['h0', 'h1'], 'smart')).toContain('BAD_REQUEST');
  expect(asked(set(3), ['h0', 'h1'], 'force')).toEqual(['SUCCESS']);
});

test('C1.1 C1.2 the same for limits, rings, and one that is named twice', () => {
  expect(asked(limited(13), ['h0', 'h1'])).toEqual([
    'BAD_REQUEST',
    '2 of 8 nodes of cluster c are asked for together, at most 1 may be unavailable; ask for them one by one, or force',
  ]);
  expect(asked(limited(25), ['h0', 'h1'])).toEqual(['SUCCESS']);
  expect(asked(ringed(), ['h0', 'h1'])).toEqual([
    'BAD_REQUEST',
    '2 state storage rings have replicas in this group, and strong allows 1; ask for them one by one, use another mode, or force (an outage)',
  ]);
  expect(asked(set(3), ['h2', 'h2'])).toEqual(['BAD_REQUEST', 'a-2 is in this group twice: name it once']);
});

test('C1.1 C3.1 a group that others stand in the way of waits, and what became impossible holds nobody back', () => {
  const desk = new Desk(new Fleet(set(5)));
  createTask(desk, { ...together(['h4'], 'weak'), uid: 'other' }, 0);
  expect(createTask(desk, together(['h0', 'h1'], 'weak', -5), 0).groups.flat()).toMatchObject([
    { status: 'PENDING', refusal: null },
    { status: 'PENDING', reason: 'WouldLoseMajority' },
  ]);
  const urgent = (): string | null =>
    createTask(desk, { ...together(['h0'], 'weak'), uid: 'look', dryRun: true }, 0).groups.flat()[0]
      ?.reason ?? null;
  expect(urgent()).toBe('HigherPriorityPending');
  desk.replaceFleet(new Fleet({ ...set(3), nodes: set(3).nodes }));
  desk.drop(desk.task('other')?.id ?? '');
  desk.check(desk.task('t-h0-h1')?.id ?? '', 0);
  expect(desk.task('t-h0-h1')?.pending.map((p) => p.refusal?.reason ?? null)).toEqual([
    null,
    'TooManyTogether',
  ]);
  expect(urgent()).toBe('OK');
});

test('C1.1 C1.2 a group that can never be had is told so at once, also where something that passes is in its way', () => {
  const desk = new Desk(new Fleet(set(3)));
  createTask(desk, { ...together(['h2'], 'weak'), uid: 'other' }, 0);
  const both = 'a-0, a-1 of default/a go down together: they are asked for together, and strong does not';
  expect(createTask(desk, together(['h0', 'h1'], 'strong'), 0)).toMatchObject({
    status: 'BAD_REQUEST',
    issues: [expect.stringContaining(both)],
    entry: null,
  });
  // One that could be had later waits.
  const five = new Desk(new Fleet(set(5)));
  createTask(five, { ...together(['h2'], 'weak'), uid: 'other' }, 0);
  expect(createTask(five, together(['h0', 'h1'], 'weak'), 0).status).toBe('SUCCESS');
  expect(createTask(five, { ...together(['h3', 'h4'], 'strong'), uid: 'u' }, 0).status).toBe('BAD_REQUEST');
});

test('C5.5 C1.2 compat: a group that is more than the limit waits', () => {
  expect([asked(limited(13), ['h0', 'h1'], 'strong', ORIGINAL)]).toEqual([['SUCCESS']]);
});

test('C1.1 C1.5 a group larger than what may be in flight is refused at once; the original does not look at it', () => {
  const asked = (maxInFlight: number, compat: Compat = BETTER) => {
    const desk = new Desk(new Fleet(limited(100)), undefined, { compat });
    return createTask(desk, { ...together(['h0', 'h1'], 'force'), maxInFlight }, 0, { compat });
  };
  expect([asked(1).status, asked(1).issues]).toEqual([
    'BAD_REQUEST',
    [
      'the most actions in flight is 1, and a group of 2 is granted whole or not at all: make it at least 2, leave it out, or ask for them one by one',
    ],
  ]);
  for (const reply of [asked(2), asked(0), asked(1, ORIGINAL)])
    expect(reply.groups.flat().map((view) => view.status)).toEqual(['PERFORMED', 'PERFORMED']);
});
