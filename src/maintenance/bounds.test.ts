/** The edges of what a task may be, of a grant, and of what a host still carries. */
import { expect, test } from 'vitest';
import { admitMember, Grant, type MemberAsk } from './admit.ts';
import { Desk } from './desk.ts';
import { Evictions } from './evictions.ts';
import { Fleet } from './fleet.ts';
import type { FleetSpec, NodeSpec } from './fleetSpec.ts';
import { handOversOf } from './handOver.ts';
import { MAX_ACTIONS, MAX_DESCRIPTION_LENGTH, MAX_UID_LENGTH } from './limits.ts';
import { createTask, dropTask, refreshTask, type TaskSpec, withdrawPending } from './tasks.ts';
import { taskOf } from './testing/tasks.ts';
import type { Action, Entry, Mode, Permission } from './types.ts';

const node = (n: number, host = `h${n}`, kind: NodeSpec['kind'] = 'storage'): NodeSpec => ({
  key: `${n}`,
  name: `node ${n}`,
  host,
  kind,
  state: 'up',
  startedAt: null,
  cluster: 'c',
  disks: kind === 'storage' ? [{ id: 0, ok: true }] : [],
});
const lock = (scope: Action['scope'], duration = 1000): Action => ({ type: 'lock', scope, duration });
const on = (n: number): Action => lock({ kind: 'node', node: `${n}` });
const task = (groups: TaskSpec['groups'], more: Partial<TaskSpec> = {}): TaskSpec =>
  taskOf('t', groups, { mode: 'force', ...more });

test('C1.5 the longest identity, the longest description and the most actions are taken; one more of any is not, and leaves nothing', () => {
  const fleet = new Fleet({ nodes: [node(0)] });
  const said = (spec: TaskSpec): readonly string[] => {
    const desk = new Desk(fleet);
    const { status, issues } = createTask(desk, spec, 0);
    if (status !== 'SUCCESS') expect([...desk.entries()]).toEqual([]);
    return [status, ...issues];
  };
  const of = (length: number): string => 'x'.repeat(length);
  expect(said(task([[on(0)]], { uid: of(MAX_UID_LENGTH) }))).toEqual(['SUCCESS']);
  expect(said(task([[on(0)]], { uid: of(MAX_UID_LENGTH + 1) }))).toEqual([
    'BAD_REQUEST',
    'task_uid is longer than 128 characters',
  ]);
  expect(said(task([[on(0)]], { description: of(MAX_DESCRIPTION_LENGTH) }))).toEqual(['SUCCESS']);
  expect(said(task([[on(0)]], { description: of(MAX_DESCRIPTION_LENGTH + 1) }))).toEqual([
    'BAD_REQUEST',
    'description is longer than 128 characters',
  ]);
  const many = Array.from({ length: MAX_ACTIONS + 1 }, () => [on(0)]);
  expect(said(task(many))).toEqual(['BAD_REQUEST', `a task has at most ${MAX_ACTIONS} actions`]);
  expect(said(task([[on(0)], []]))).toEqual(['BAD_REQUEST', 'Empty actions']);
});

test('C1.5 S13 nobody names a task as the control plane names its own holds, or changes one of those by its name', () => {
  const desk = new Desk(new Fleet({ nodes: [node(0)] }));
  expect(createTask(desk, task([[on(0)]], { uid: 'hold:c/0' }), 0).status).toBe('BAD_REQUEST');
  const ask = {
    id: 'c/0',
    node: '0',
    holder: 'c',
    why: 'w',
    priority: 0,
    mode: 'strong' as Mode,
    duration: 1000,
  };
  expect(admitMember(desk, ask, 0).kind).toBe('granted');
  for (const change of [dropTask, refreshTask, withdrawPending])
    expect(change(desk, 'hold:c/0', 1).issues).toEqual(['Task not found: hold:c/0']);
  expect(desk.task('hold:c/0')?.held).toHaveLength(1);
});

test('S2 S13 a grant holds until its deadline and not at it, without one for ever; nobody else makes one', () => {
  const spec: FleetSpec = { nodes: [node(0)] };
  const ask: MemberAsk = {
    id: 'c/0',
    node: '0',
    holder: 'c',
    why: 'w',
    priority: 0,
    mode: 'strong',
    duration: 1000,
  };
  const desk = new Desk(new Fleet(spec));
  const asked = admitMember(desk, ask, 5);
  if (asked.kind !== 'granted') throw new Error('it is granted');
  const { grant } = asked;
  expect([1004, 1005].map((now) => grant.holdsAt(now))).toEqual([true, false]);
  expect(grant.node).toBe('0');
  const again = admitMember(desk, ask, 6);
  expect(again.kind === 'granted' && again.grant.id).toBe(grant.id);
  expect(() => new Grant(Symbol('maintenance authority'), {} as Permission, '0')).toThrow(
    'only the maintenance',
  );
  expect(admitMember(desk, { ...ask, id: 'c/9', node: '9' }, 6).kind).toBe('refused');
});

test('C1.2 a dry question of the control plane leaves a wish as it is, and remembers none', () => {
  const desk = new Desk(new Fleet({ nodes: [node(0)] }));
  createTask(desk, task([[on(0)]]), 0);
  const ask = {
    id: 'c/0',
    node: '0',
    holder: 'c',
    why: 'w',
    priority: 3,
    mode: 'strong' as Mode,
    duration: 1000,
  };
  const priority = () => desk.task('hold:c/0')?.priority;
  expect(admitMember(desk, ask, 0, { dry: true }).kind).toBe('refused');
  expect(priority()).toBeUndefined();
  admitMember(desk, ask, 0);
  admitMember(desk, { ...ask, priority: 1 }, 0, { dry: true });
  expect(priority()).toBe(3);
  admitMember(desk, { ...ask, priority: 1 }, 0);
  expect(priority()).toBe(1);
  admitMember(desk, { ...ask, priority: 1, mode: 'weak' }, 0);
  expect(desk.task('hold:c/0')?.mode).toBe('weak');
});

test('C5.1 a host is emptied for one request at a time, of the disks of all its nodes; asking does not begin it', () => {
  const nodes = [node(0, 'a'), node(1, 'a'), node(2, 'b'), node(3, 'd', 'dynamic')];
  const vdisks = [0, 1, 1, 2].map((n) => ({ node: `${n}`, disk: 0, realm: 0, ok: true }));
  const fleet = new Fleet({ nodes, groups: [{ id: 1, erasure: 'none', vdisks }] });
  const evictions = new Evictions();
  const take = (host: string, entry: string, dry = false): string | null =>
    evictions.take(fleet, entry, [{ action: lock({ kind: 'host', host }) }], dry)?.message ?? null;
  expect(take('a', 'r-1', true)).toBe('VDisks eviction from host a, VDisks: 3');
  expect(evictions.has('a')).toBe(false);
  expect(take('a', 'r-1')).toBe('VDisks eviction from host a, VDisks: 3');
  expect(take('a', 'r-1')).toBe('VDisks eviction from host a, VDisks: 3');
  expect(take('a', 'r-2')).toBe('host a is being emptied for request r-1 already');
  expect(take('b', 'r-2')).toBe('VDisks eviction from host b, VDisks: 1');
  expect(take('d', 'r-3')).toBeNull();
  expect(evictions.book()).toEqual([
    { host: 'a', entry: 'r-1' },
    { host: 'b', entry: 'r-2' },
    { host: 'd', entry: 'r-3' },
  ]);
  evictions.forget('r-1');
  expect([evictions.has('a'), evictions.has('b')]).toEqual([false, true]);
  evictions.load([{ host: 'x', entry: 'r-9' }]);
  expect(evictions.book()).toEqual([{ host: 'x', entry: 'r-9' }]);
  const two = [{ action: on(0) }, { action: on(1) }];
  expect(evictions.take(fleet, 'r-4', two, false)?.message).toContain('only one restart');
  expect(evictions.take(fleet, 'r-4', [], false)?.code).toBe('WRONG_REQUEST');
});

test('C2.1 C1.2 replicas of several rings on one host are too many for good, but those of a ring that is switched off count for nothing', () => {
  const nodes = [0, 1, 2, 3, 4].map((n) => node(n, n < 2 ? 'a' : `h${n}`, 'dynamic'));
  const rings = [['0'], ['1'], ['2'], ['3'], ['4']];
  const asked = (disabled: readonly number[]): string => {
    const desk = new Desk(new Fleet({ nodes, stateStorages: [{ nToSelect: 3, rings, disabled }] }));
    const host = task([[lock({ kind: 'host', host: 'a' })]], { mode: 'strong' });
    const reply = createTask(desk, host, 0);
    return reply.groups[0]?.[0]?.reason ?? reply.issues.join();
  };
  expect(asked([])).toContain('2 state storage rings have replicas on one host, and strong allows 1');
  expect(asked([2])).toContain('2 state storage rings have replicas on one host');
  expect(asked([1])).not.toContain('have replicas on one host');
});

test('C2.2 C1.2 a refusal over rings says how many are out in which way, and how many the mode allows', () => {
  const nodes = [0, 1, 2, 3, 4, 5].map((n) => node(n, `h${n}`, 'dynamic'));
  const rings = nodes.map((n) => [n.key]);
  const desk = new Desk(new Fleet({ nodes, stateStorages: [{ nToSelect: 5, rings, disabled: [5] }] }));
  const said = (n: number, mode: Mode): string => {
    const reply = createTask(desk, task([[on(n)]], { uid: `t${n}${mode}`, mode }), 0);
    return reply.groups[0]?.[0]?.details ?? reply.groups[0]?.[0]?.status ?? reply.issues.join();
  };
  createTask(desk, task([[on(0)]], { uid: 'first', mode: 'weak' }), 0);
  expect(said(1, 'weak')).toContain(
    'Restarting rings: 2 (this one, 1, included). Temporary (for a 2 minutes) locked rings: 0. Disabled rings: 1. Maximum allowed number of unavailable rings for this mode: 2. ring 0: node 0 (locked by',
  );
  expect(said(2, 'strong')).toContain('unavailable rings for this mode: 1. ring 0:');
});

test('C1.1 C5.5 where groups of several actions are switched off, tasks of one action are taken, and the others refused as such', () => {
  const fleet = new Fleet({ nodes: [node(0), node(1)] });
  const said = (groups: TaskSpec['groups'], composite: boolean): string => {
    const { status, issues } = createTask(new Desk(fleet), task(groups), 0, { composite });
    return [status, ...issues].join(': ');
  };
  expect(said([[on(0)], [on(1)]], false)).toBe('SUCCESS');
  expect(said([[on(0), on(1)]], true)).toBe('SUCCESS');
  expect(said([[on(0), on(1)]], false)).toBe('UNSUPPORTED: Composite action groups are switched off here');
  expect(said([[on(0), on(1)], [on(0)]], true)).toMatch(/^UNSUPPORTED: A task is either a single composite/);
});

test('C6.1 C3.1 of several tasks that wait for one primary the most urgent is handed over for, of equal ones the first', () => {
  const waits = (uid: string | null, priority: number, node: string, more: Partial<Entry> = {}): Entry => {
    const refusal = { reason: 'PrimaryStepsDown', by: [{ kind: 'lock' }, { kind: 'primary', node }] };
    const other = { reason: 'Locked', by: [{ kind: 'primary', node: 'never' }] };
    return {
      id: 'r-9',
      uid,
      owner: 'eve',
      mode: 'weak',
      priority,
      stepDown: true,
      pending: [{ refusal }, { refusal: other }, { refusal: null }],
      ...more,
    } as unknown as Entry;
  };
  const of = (...entries: readonly Entry[]) =>
    handOversOf(entries).map((h) => `${h.node} ${h.task} ${h.priority}`);
  expect(of(waits('a', 5, 'x'), waits('b', 3, 'x'), waits('c', 3, 'x'), waits('d', 4, 'y'))).toEqual([
    'x b 3',
    'y d 4',
  ]);
  expect(of(waits('a', 5, 'x', { stepDown: false }), waits(null, 7, 'y'))).toEqual(['y r-9 7']);
  expect(handOversOf([waits('a', 5, 'x')])[0]).toEqual({
    node: 'x',
    task: 'a',
    owner: 'eve',
    priority: 5,
    mode: 'weak',
  });
});
