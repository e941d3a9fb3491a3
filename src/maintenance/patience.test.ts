import { expect, test } from 'vitest';
import { admitMember, type MemberAsk } from './admit.ts';
import { BETTER, ORIGINAL } from './compat.ts';
import { Desk } from './desk.ts';
import { entryOf, specDocument, statusDocument } from './documents.ts';
import { Fleet } from './fleet.ts';
import type { FleetSpec, NodeSpec } from './fleetSpec.ts';
import { MEMBER_SETTLE } from './limits.ts';
import { forceHelps } from './reasons.ts';
import { completeActions, createTask, currentTask, refreshTask, type TaskSpec } from './tasks.ts';
import { memberNode } from './testing/members.ts';
import { taskOf } from './testing/tasks.ts';
import type { Action } from './types.ts';

const MINUTE = 60_000;
const HOSTS = ['h0', 'h1', 'h2'];

function set(more: Partial<NodeSpec> = {}): FleetSpec {
  const nodes = HOSTS.map((host, i) => memberNode(host, i, i === 0 ? more : {}));
  const members = nodes.map((n) => ({ node: n.key, votes: 1 as const, priority: 1, data: true }));
  const about = { role: 'replicaSet' as const, writeConcern: 'majority' as const, interruption: false };
  return { nodes, replicaSets: [{ key: 'default/a', members, ...about }] };
}
const deskOf = (spec = set()): Desk => new Desk(new Fleet(spec));

const task = (uid: string, hosts: readonly string[], more: Partial<TaskSpec> = {}): TaskSpec =>
  taskOf(
    uid,
    hosts.map((host): readonly Action[] => [
      { type: 'lock', scope: { kind: 'host', host }, duration: 30 * MINUTE },
    ]),
    more,
  );

/** Whether the control plane's own, less urgent work on the last member would be let through. */
const routine = (desk: Desk, now: number): string => {
  const ask: MemberAsk = {
    id: 'a/2',
    node: 'default/a-2',
    holder: 'MongoDB default/a',
    why: 'restart',
    priority: 100,
    mode: 'strong',
    duration: MINUTE,
  };
  const answer = admitMember(desk, ask, now, { dry: true });
  return answer.kind === 'granted' ? 'granted' : answer.refusal.reason;
};

/** Somebody holds the first host, and `t` waits for the last one until it is given back at once. */
function waiting(options: Partial<TaskSpec> = {}, desk = deskOf()): Desk {
  createTask(desk, task('other', ['h0'], { owner: 'bob' }), 0);
  createTask(desk, task('t', ['h2'], options), 0);
  desk.drop(desk.task('other')?.id ?? '');
  return desk;
}

test('C3.1 C6.4 what waits holds nobody back once nobody has asked again five minutes after the time it was told', () => {
  const desk = waiting();
  // It was told to ask again when the lock of thirty minutes has ended and its member has settled.
  const forgotten = 35 * MINUTE + MEMBER_SETTLE;
  expect([routine(desk, 10 * MINUTE), routine(desk, forgotten - 1)]).toEqual([
    'HigherPriorityPending',
    'HigherPriorityPending',
  ]);
  expect(desk.task('t')?.stale).toBeUndefined();
  expect(routine(desk, forgotten)).toBe('granted');
  expect(desk.task('t')).toMatchObject({ stale: true, pending: [{ at: [0, 0] }] });
});

test('C3.1 C1.3 whoever asks again keeps the place, and has it again after it was lost', () => {
  const desk = deskOf(set({ state: 'down' }));
  const waits = (now: number): unknown => refreshTask(desk, 't', now).groups.flat()[0]?.reason;
  // Told nothing better than to ask again in five minutes.
  createTask(desk, task('t', ['h2']), 0);
  for (let now = 5 * MINUTE; now < 60 * MINUTE; now += 9 * MINUTE) {
    expect([waits(now), desk.task('t')?.stale]).toEqual(['WouldLoseMajority', undefined]);
  }
  desk.expire(90 * MINUTE);
  expect(desk.task('t')?.stale).toBe(true);
  desk.fleet.setNode(0, 'up');
  expect(routine(desk, 90 * MINUTE)).toBe('granted');
  desk.fleet.setNode(0, 'down');
  expect([waits(90 * MINUTE), desk.task('t')?.stale]).toEqual(['WouldLoseMajority', undefined]);
  desk.fleet.setNode(0, 'up');
  expect(routine(desk, 90 * MINUTE)).toBe('HigherPriorityPending');
  expect(refreshTask(desk, 't', 91 * MINUTE).groups.flat()[0]?.status).toBe('PERFORMED');
});

test('C3.1 C1.3 a task that holds something is worked on: its rest keeps its place until five minutes after that', () => {
  const desk = deskOf();
  createTask(desk, task('t', ['h0', 'h2']), 0);
  expect(routine(desk, 30 * MINUTE)).toBe('HigherPriorityPending');
  expect(routine(desk, 35 * MINUTE)).toBe('granted');

  const given = deskOf();
  createTask(given, task('t', ['h0', 'h2']), 0);
  completeActions(given, ['eve-p-1'], 28 * MINUTE);
  expect(routine(given, 33 * MINUTE - 1)).toBe('HigherPriorityPending');
});

test('C3.1 new work that is switched off is no reason to lose the place of what is asked for again', () => {
  const desk = waiting();
  desk.configure({ disabled: true });
  refreshTask(desk, 't', 34 * MINUTE);
  desk.configure({ disabled: false });
  expect(routine(desk, 40 * MINUTE)).toBe('HigherPriorityPending');
  expect(desk.task('t')?.refreshedAt).toBe(0);
});

test('C3.1 S13 nobody hands over for a task nobody asks for any more', () => {
  const desk = deskOf(set({ role: 'PRIMARY' }));
  createTask(desk, task('t', ['h0'], { stepDown: true }), 0);
  expect(desk.handOvers()).toMatchObject([{ node: 'default/a-0', task: 't' }]);
  desk.expire(20 * MINUTE);
  expect(desk.handOvers()).toEqual([]);
  refreshTask(desk, 't', 21 * MINUTE);
  expect(desk.handOvers()).toMatchObject([{ node: 'default/a-0', task: 't' }]);
});

test('C5.5 C3.1 compat: what waits holds others back for ever', () => {
  const spec = task('t', ['h2']);
  const run = (compat: typeof BETTER): string => {
    const desk = deskOf();
    createTask(desk, task('other', ['h0'], { owner: 'bob' }), 0);
    createTask(desk, spec, 0, { compat });
    desk.drop(desk.task('other')?.id ?? '');
    return routine(desk, 24 * 60 * MINUTE);
  };
  expect([run(BETTER), run(ORIGINAL)]).toEqual(['granted', 'HigherPriorityPending']);
});

test('C1.6 a task that was forgotten still is after a restart, and documents of older versions have their time', () => {
  const desk = waiting();
  desk.expire(40 * MINUTE);
  const entry = desk.task('t');
  if (entry === undefined) throw new Error('there is no task');
  const spec = specDocument(task('t', ['h2']), undefined, 't');
  const status = statusDocument(entry, 1);
  expect(status).toMatchObject({ stale: true, askBy: '1970-01-01T00:35:05.000Z' });
  expect(entryOf('t', spec, status)).toEqual(entry);
  const { stale: _, askBy: __, ...old } = status;
  const again = new Desk(new Fleet(set()), {
    entries: [entryOf('t', spec, old) as typeof entry],
    announcements: [],
    evicting: [],
    nextPermission: 9,
    nextRequest: 9,
  });
  expect([routine(again, 10 * MINUTE - 1), routine(again, 10 * MINUTE)]).toEqual([
    'HigherPriorityPending',
    'granted',
  ]);
});

test('C1.2 whoever looks at a task is told what stands in the way now, and that nothing does any more', () => {
  const desk = deskOf();
  createTask(desk, task('other', ['h0'], { owner: 'bob' }), 0);
  createTask(desk, task('t', ['h0', 'h1']), 0);
  const look = (now: number): unknown => {
    const { groups, retryAfter } = currentTask(desk, 't', now);
    return [...groups.flat().map((a) => a.reason), retryAfter];
  };
  expect(look(MINUTE)).toEqual(['Locked', 'WouldLoseMajority', 30 * MINUTE]);
  desk.drop(desk.task('other')?.id ?? '');
  const before = JSON.stringify(desk.book());
  expect(look(2 * MINUTE)).toEqual(['AskAgain', 'WouldLoseMajority', 2 * MINUTE]);
  expect(JSON.stringify(desk.book())).toBe(before);
  expect([forceHelps('WouldLoseMajority'), forceHelps('Announced'), forceHelps('NodeUnknown')]).toEqual([
    true,
    false,
    false,
  ]);
});
