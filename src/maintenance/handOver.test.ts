import { expect, test } from 'vitest';
import { admitMember, releaseMember } from './admit.ts';
import { Desk } from './desk.ts';
import { entryOf, specDocument, statusDocument } from './documents.ts';
import { Fleet } from './fleet.ts';
import type { FleetSpec, NodeSpec, ReplicaSetSpec } from './fleetSpec.ts';
import { createTask, refreshTask, type TaskReply, type TaskSpec } from './tasks.ts';
import { taskOf } from './testing/tasks.ts';
import type { Action, Mode } from './types.ts';

const MINUTE = 60_000;

/** A set with a member on each of these hosts; the first one is primary. */
function set(key: string, hosts: readonly string[], more: Partial<ReplicaSetSpec> = {}): FleetSpec {
  const nodes = hosts.map(
    (host, i): NodeSpec => ({
      key: `default/${key}-${i}`,
      name: `${key}-${i}`,
      host,
      kind: 'member',
      state: 'up',
      startedAt: null,
      disks: [],
      cluster: `default/${key}`,
      role: i === 0 ? 'PRIMARY' : 'SECONDARY',
    }),
  );
  const members = nodes.map((n) => ({ node: n.key, votes: 1 as const, priority: 1, data: true }));
  const about = { role: 'replicaSet' as const, writeConcern: 'majority' as const, interruption: false };
  return { nodes, replicaSets: [{ key: `default/${key}`, members, ...about, ...more }] };
}

const deskOf = (...sets: readonly FleetSpec[]): Desk =>
  new Desk(
    new Fleet({
      nodes: sets.flatMap((s) => s.nodes),
      replicaSets: sets.flatMap((s) => s.replicaSets ?? []),
    }),
  );

const task = (uid: string, hosts: readonly string[], more: Partial<TaskSpec> = {}): TaskSpec =>
  taskOf(
    uid,
    hosts.map((host): readonly Action[] => [
      { type: 'lock', scope: { kind: 'host', host }, duration: 10 * MINUTE },
    ]),
    { description: 'kernel', stepDown: true, ...more },
  );

/** What became of each action: performed, or its reason. */
const told = (reply: TaskReply): readonly string[] =>
  reply.groups.flat().map((a) => (a.status === 'PENDING' ? (a.reason ?? 'NotTried') : a.status));

function leads(desk: Desk, key: string, role: string): void {
  const n = desk.fleet.node(key) as number;
  desk.fleet.tell(n, { ...(desk.fleet.nodes[n] as NodeSpec), role });
}

const ask = (id: string, node: string, priority: number) => ({
  id,
  node: `default/${node}`,
  holder: 'MongoDB default/a',
  why: 'hands over',
  priority,
  mode: 'strong' as Mode,
  duration: MINUTE,
});

test('C6.1 C1.2 a primary hands over before its host is granted; without step-down it is granted as it is', () => {
  const desk = deskOf(set('a', ['h0', 'h1', 'h2']));
  const reply = createTask(desk, task('t', ['h0']), 0);
  expect(told(reply)).toEqual(['PrimaryStepsDown']);
  expect(reply.groups[0]?.[0]?.details).toBe('a-0 is primary of default/a and hands over first');
  expect(desk.handOvers()).toEqual([
    { node: 'default/a-0', task: 't', owner: 'eve', priority: 0, mode: 'strong' },
  ]);
  leads(desk, 'default/a-0', 'SECONDARY');
  leads(desk, 'default/a-1', 'PRIMARY');
  expect(told(refreshTask(desk, 't', 1))).toEqual(['PERFORMED']);
  expect(desk.handOvers()).toEqual([]);
  const other = deskOf(set('a', ['h0', 'h1', 'h2']));
  expect(told(createTask(other, task('t', ['h0'], { stepDown: false }), 0))).toEqual(['PERFORMED']);
});

test('C6.1 S13 nobody hands over for what could not be granted anyway, and who cannot lead is said so', () => {
  const desk = deskOf(set('a', ['h0', 'h1', 'h2']), set('b', ['h0', 'h3', 'h4']));
  createTask(desk, task('other', ['h3'], { stepDown: false }), 0);
  const reply = createTask(desk, task('t', ['h0']), 0);
  expect(told(reply)).toEqual(['WouldLoseMajority']);
  expect(desk.handOvers()).toEqual([]);
  const alone = set('c', ['h0', 'h1', 'h2']);
  const members = (alone.replicaSets?.[0]?.members ?? []).map((m, i) => ({
    ...m,
    priority: i === 0 ? 1 : 0,
  }));
  const nobody = deskOf({
    ...alone,
    replicaSets: [{ ...(alone.replicaSets?.[0] as ReplicaSetSpec), members }],
  });
  expect(createTask(nobody, task('t', ['h0']), 0).groups[0]?.[0]?.details).toBe(
    'no electable member of default/c would be left',
  );
  // Force, or an interruption that is allowed: there is nobody to hand over to, and nothing to wait for.
  expect(told(createTask(nobody, task('f', ['h0'], { mode: 'force' }), 0))).toEqual(['PERFORMED']);
  const single = deskOf(set('d', ['h0'], { interruption: true }));
  expect(told(createTask(single, task('t', ['h0']), 0))).toEqual(['PERFORMED']);
});

test('C6.1 a primary hands over for an action that may be granted alone, whatever stands in the way of the others', () => {
  const desk = deskOf(set('a', ['h0', 'h1', 'h2']), set('b', ['h3', 'h4', 'h5']));
  createTask(desk, task('other', ['h4'], { stepDown: false }), 0);
  expect(told(createTask(desk, task('t', ['h0', 'h3']), 0))).toEqual([
    'PrimaryStepsDown',
    'WouldLoseMajority',
  ]);
  expect(desk.handOvers().map(({ node }) => node)).toEqual(['default/a-0']);
});

test('C6.1 all primaries of a host hand over; what a paused set needs is said', () => {
  const desk = deskOf(set('a', ['h0', 'h1', 'h2']), set('b', ['h0', 'h3', 'h4'], { paused: true }));
  const [[action]] = createTask(desk, task('t', ['h0']), 0).groups as [[TaskReply['groups'][0][0]]];
  expect(action?.details).toBe(
    'a-0 is primary of default/a and hands over first; b-0 is primary of default/b, which is paused: let it hand over (rs.stepDown()), or set spec.paused to false',
  );
  expect(desk.handOvers().map(({ node }) => node)).toEqual(['default/a-0', 'default/b-0']);
});

test('C5.3 a member nobody reports may lead, unless another one is known to', () => {
  const desk = deskOf(set('a', ['h0', 'h1', 'h2', 'h3', 'h4']));
  const n = desk.fleet.node('default/a-0') as number;
  const { role: _, ...unknown } = desk.fleet.nodes[n] as NodeSpec;
  desk.fleet.tell(n, { ...unknown, state: 'unknown' });
  const reply = createTask(desk, task('t', ['h0'], { mode: 'weak' }), 0);
  expect(reply.groups[0]?.[0]?.details).toBe(
    'nobody reports a-0, which may be primary of default/a: it is waited until that is known, or go without step-down',
  );
  leads(desk, 'default/a-1', 'PRIMARY');
  expect(told(refreshTask(desk, 't', 1))).toEqual(['PERFORMED']);
});

test('S13 whoever waits for a hand-over has its place: nothing behind it in the task takes it, and a cap counts it', () => {
  const desk = deskOf(set('a', ['h0', 'h1', 'h2']), set('b', ['h5', 'h3', 'h4']));
  const reply = createTask(desk, task('t', ['h0', 'h1', 'h3']), 0);
  expect(told(reply)).toEqual(['PERFORMED', 'PrimaryStepsDown', 'WouldLoseMajority']);
  const capped = deskOf(set('a', ['h0', 'h1', 'h2']), set('b', ['h5', 'h3', 'h4']));
  expect(told(createTask(capped, task('t', ['h0', 'h3'], { maxInFlight: 1 }), 0))).toEqual([
    'PrimaryStepsDown',
    'InFlightCap',
  ]);
});

test('C1.1 a group hands over only when all of it could be granted', () => {
  const desk = deskOf(set('a', ['h0', 'h1', 'h2']), set('b', ['h5', 'h3', 'h4']));
  const groups = [task('x', ['h0', 'h3']).groups.flat()];
  expect(told(createTask(desk, task('t', [], { groups }), 0))).toEqual(['PrimaryStepsDown', 'NotTried']);
  const busy = deskOf(set('a', ['h0', 'h1', 'h2']), set('b', ['h5', 'h3', 'h4']));
  createTask(busy, task('other', ['h4'], { stepDown: false }), 0);
  expect(told(createTask(busy, task('t', [], { groups }), 0))).toEqual(['NotTried', 'WouldLoseMajority']);
  expect(busy.handOvers()).toEqual([]);
});

test('C3.2 the control plane may hand over for a task that waits for it, with that task’s priority, and nobody less urgent', () => {
  const desk = deskOf(set('a', ['h0', 'h1', 'h2']));
  createTask(desk, task('t', ['h0'], { priority: -10 }), 0);
  expect(admitMember(desk, ask('c/a-0', 'a-0', 100), 0).kind).toBe('refused');
  releaseMember(desk, 'c/a-0');
  expect(admitMember(desk, ask('c/a-0', 'a-0', -10), 0).kind).toBe('granted');
});

test('C1.6 S13 a dry run asks nobody to hand over, and a restart forgets nobody', () => {
  const desk = deskOf(set('a', ['h0', 'h1', 'h2']));
  const dry = createTask(desk, task('t', ['h0'], { dryRun: true }), 0);
  expect([told(dry), desk.handOvers()]).toEqual([['PrimaryStepsDown'], []]);
  const { entry } = createTask(desk, task('t', ['h0']), 0);
  if (entry === null) throw new Error('no entry');
  const again = entryOf('t', specDocument(task('t', ['h0']), undefined, 't'), statusDocument(entry, 1));
  expect(again).toEqual(entry);
  expect(new Desk(desk.fleet, desk.book()).handOvers()).toEqual(desk.handOvers());
});
