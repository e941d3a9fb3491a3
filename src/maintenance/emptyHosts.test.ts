/** Hosts that carry nothing: whoever holds one holds the host itself (C1.5, S13). */
import { expect, test } from 'vitest';
import { admitMember } from './admit.ts';
import { Desk } from './desk.ts';
import { Fleet } from './fleet.ts';
import type { FleetSpec } from './fleetSpec.ts';
import { createTask, dropTask, refreshTask, type TaskSpec } from './tasks.ts';
import { memberNode } from './testing/members.ts';
import { taskOf } from './testing/tasks.ts';
import type { Action } from './types.ts';

const MINUTE = 60_000;
const lock = (host: string): Action => ({
  type: 'lock',
  scope: { kind: 'host', host },
  duration: 5 * MINUTE,
});
const task = (uid: string, hosts: readonly string[], more: Partial<TaskSpec> = {}): TaskSpec =>
  taskOf(
    uid,
    hosts.map((host) => [lock(host)]),
    more,
  );
const empty = (): Desk => new Desk(new Fleet({ nodes: [], hosts: ['h1', 'h2'] }));

/** A set of three, its first member on h2. */
const placed: FleetSpec = {
  hosts: ['h1', 'h2', 'h3', 'h4'],
  nodes: ['h2', 'h3', 'h4'].map((host, i) => memberNode(host, i)),
  replicaSets: [
    {
      key: 'default/a',
      role: 'replicaSet',
      writeConcern: 'majority',
      interruption: false,
      members: [0, 1, 2].map((i) => ({ node: `default/a-${i}`, votes: 1, priority: 1, data: true })),
    },
  ],
};

test('C1.5 S13 a host without members is held by one task at a time; the next waits, and is told for whom and until when', () => {
  const desk = empty();
  const [first] = createTask(desk, task('e1', ['h2']), 0).groups.flat();
  expect([first?.status, first?.deadline]).toEqual(['PERFORMED', 5 * MINUTE]);
  const asked = task('e2', ['h2', 'h1'], { owner: 'adam' });
  const dry = createTask(desk, { ...asked, dryRun: true }, 1_000).groups.flat();
  expect(dry.map((v) => v.status).sort()).toEqual(['PENDING', 'PERFORMED']);
  const reply = createTask(desk, asked, 1_000);
  const waits = reply.groups.flat().find((v) => v.status === 'PENDING');
  expect(waits?.details).toBe(
    "Cannot lock host h2: node state: 'Locked': it is locked by eve-p-1 of task e1 (owner eve) until 1970-01-01T00:05:00Z",
  );
  expect(waits?.refusal).toMatchObject({
    reason: 'Locked',
    retryAt: 5 * MINUTE,
    by: [{ kind: 'lock', item: 'host h2', lock: 'eve-p-1', task: 'e1', owner: 'eve', deadline: 5 * MINUTE }],
  });
  const forced = createTask(desk, task('e3', ['h2'], { mode: 'force' }), 1_000).groups.flat();
  expect(forced[0]?.reason).toBe('Locked');
  dropTask(desk, 'e1', 2_000);
  expect(
    refreshTask(desk, 'e2', 3_000)
      .groups.flat()
      .map((v) => v.status),
  ).toEqual(['PERFORMED', 'PERFORMED']);
});

test('C1.3 C3.1 a lock on a host without members ends with its deadline, and a more urgent task goes first', () => {
  const desk = empty();
  createTask(desk, task('e1', ['h2']), 0);
  createTask(desk, task('urgent', ['h2'], { priority: -1 }), 1_000);
  const later = createTask(desk, task('e2', ['h2']), 5 * MINUTE + 1).groups.flat()[0];
  expect([later?.reason, later?.details]).toEqual([
    'HigherPriorityPending',
    "Cannot lock host h2: node state: 'Locked': it is wanted by the more urgent task urgent (owner eve, priority -1)",
  ]);
  expect(refreshTask(desk, 'urgent', 5 * MINUTE + 2).groups.flat()[0]?.status).toBe('PERFORMED');
});

test('C1.5 one group that names a host without members twice is refused', () => {
  const twice = taskOf('t', [[lock('h2'), lock('h2')]]);
  expect(createTask(empty(), twice, 0).issues).toEqual(['host h2 is in this group twice: name it once']);
});

test('S2 S13 members that come to a held host are held with it, and what leaves it leaves the lock behind', () => {
  const desk = empty();
  createTask(desk, task('e1', ['h2']), 0);
  desk.replaceFleet(new Fleet(placed));
  const ask = {
    id: 'a/a-0',
    node: 'default/a-0',
    holder: 'MongoDB default/a',
    why: 'restart',
    priority: 0,
    mode: 'strong' as const,
    duration: MINUTE,
  };
  const refused = admitMember(desk, ask, 1_000, { dry: true });
  expect(refused.kind === 'refused' && refused.refusal.message).toContain('of task e1 (owner eve)');
  expect(createTask(desk, task('e2', ['h2']), 1_000).groups.flat()[0]?.reason).toBe('Locked');
  desk.replaceFleet(new Fleet({ nodes: [], hosts: ['h1', 'h2'] }));
  expect(createTask(desk, task('e3', ['h2']), 2_000).groups.flat()[0]?.reason).toBe('Locked');
  // Another control plane, or the next start, knows it too.
  const again = new Desk(new Fleet({ nodes: [], hosts: ['h1', 'h2'] }), desk.book());
  expect(createTask(again, task('e4', ['h2']), 2_000).groups.flat()[0]?.reason).toBe('Locked');
});
