import { expect, test } from 'vitest';
import type { Step } from './decisions.ts';
import { disruptionsOf, underWay } from './disruption.ts';
import { desired, observed, running, sharded } from './fixtures.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { withMember } from './state.ts';
import { startStep } from './steps.ts';
import type { Desired, State } from './types.ts';

/** What the whole of a replacement asks the authority for, in order. */
function askedFor(members: number): readonly string[] {
  const set = new Play(desired({}, members));
  const spec = { type: 'Replace', mongodbResourceRef: { name: 'orders' }, member: 'orders-0' } as const;
  set.requests = [{ uid: 'op', name: 'orders-replace', spec, createdAt: 0, cancelRequested: false }];
  const asked: string[] = [];
  for (let pass = 0; pass < 60 && set.state.ended.length === 0; pass++) {
    const reading = set.reading();
    const steps = plan(reading, set.desired, set.state, set.now).act?.steps ?? [];
    for (const step of steps)
      for (const { member, why } of disruptionsOf(step, set.state, reading, set.desired))
        asked.push(`${member} ${why}`);
    set.pass();
  }
  expect(set.state.ended[0]?.state).toBe('Succeeded');
  return asked;
}

test('A13.3 S13 the replacement of a member asks for its leave', () => {
  expect(askedFor(3)).toContain('orders-0 leaves the set');
});

test('A13.3 L1 the replacement of the only member asks for nothing: two voters could spare nobody, and nothing goes down', () => {
  expect(askedFor(1)).toEqual([]);
});

test('A6.4 L1 a set that shrinks to one member asks for nothing at its last step', () => {
  const set = new Play(desired());
  set.toTheEnd();
  set.desired = desired({ generation: 2 }, 1);
  const asked: string[] = [];
  for (let pass = 0; pass < 60 && set.config.members.length > 1; pass++) {
    const reading = set.reading();
    for (const step of plan(reading, set.desired, set.state, set.now).act?.steps ?? [])
      if (set.config.members.length === 2)
        asked.push(...disruptionsOf(step, set.state, reading, set.desired).map((d) => d.why));
    set.pass();
  }
  expect(set.config.members.length).toBe(1);
  expect(asked).toEqual([]);
});

test('S2 A8.1 a member that the platform upgrades, or that is coming back, keeps its grant; the others hold none', () => {
  const { state, desired: want } = new Play(desired());
  expect(underWay(state, want)).toEqual([]);
  const upgraded = startStep(state, { kind: 'upgrade', member: 'orders-1', version: want.version }, 'u1', 0);
  expect(underWay(upgraded, want)).toEqual(['orders-1']);
  const grown = startStep(state, { kind: 'growVolume', member: 'orders-1', sizeBytes: 1 }, 'g1', 0);
  expect(underWay(grown, want)).toEqual([]);
  for (const stage of ['reloading', 'upgrading'] as const)
    expect(underWay(withMember(state, 'orders-2', { stage }), want)).toEqual(['orders-2']);
});

test('A14.2 S13 a suspension takes down by force who serves, all or nobody, and asks for nobody who serves no more; a deletion asks nobody', () => {
  const set = new Play(desired());
  const step: Step = { kind: 'deleteRuntime', member: 'orders-1' };
  const asked = (state: State, want = desired({ suspend: true })) =>
    disruptionsOf(step, state, set.reading(), want).map((d) => [d.member, d.mode].join());
  expect(asked(set.state)).toEqual(['orders-0,force', 'orders-1,force', 'orders-2,force']);
  expect(asked(withMember(set.state, 'orders-0', { activated: null }))).toEqual([
    'orders-1,force',
    'orders-2,force',
  ]);
  expect(asked(withMember(set.state, 'orders-1', { stage: 'removing' }))).toEqual([]);
  expect(asked(withMember(set.state, 'orders-1', { activated: null }))).toEqual([]);
  expect(asked(set.state, desired({ suspend: true, deleting: { keepVolumes: true } }))).toEqual([]);
  // What is granted is kept until all are down, whatever the order in which they go.
  const begun = startStep(set.state, step, 'd1', 0);
  expect(underWay(begun, desired({ suspend: true }))).toEqual(['orders-0', 'orders-1', 'orders-2']);
  expect(underWay(begun, desired())).toEqual([]);
});

test('S2 C2.5 a hand-over of three asks for the primary; a member without a vote leaves without a question', () => {
  const set = new Play(desired());
  const handOver: Step = { kind: 'stepDown', replicaSet: 'orders', member: 'orders-0' };
  const asked = (step: Step) =>
    disruptionsOf(step, set.state, set.reading(), set.desired).map(({ member }) => member);
  expect(asked(handOver)).toEqual(['orders-0']);
  const base = { kind: 'reconfig', replicaSet: 'orders', via: 'orders-0', change: '' } as const;
  const config = { ...set.config, version: 2, members: set.config.members.slice(0, 2) };
  expect(asked({ ...base, config })).toEqual(['orders-2']);
  const rows = set.config.members.map((r, i) => (i === 2 ? { ...r, votes: 0 as const, priority: 0 } : r));
  set.config = { ...set.config, members: rows };
  expect(asked({ ...base, config })).toEqual([]);
});

test('C2.5 C3.2 a router that leaves asks for itself; one that never served, or of a cluster that is deleted, does not', () => {
  const want = sharded();
  const all = running(want);
  const router = all.members.find(({ role }) => role === 'router')?.name ?? '';
  const step: Step = { kind: 'deleteRuntime', member: router };
  const askedBy = (state: State, change: Partial<Desired> = {}): readonly string[] =>
    disruptionsOf(step, state, observed(), sharded(change)).map(({ member, why }) => `${member} ${why}`);
  const leaving = withMember(all, router, { stage: 'removing' });
  expect(askedBy(leaving)).toEqual([`${router} leaves`]);
  expect(askedBy(withMember(leaving, router, { activated: null }))).toEqual([]);
  expect(askedBy(leaving, { deleting: { keepVolumes: false } })).toEqual([]);
});

test('A14.2 S2 while the members of a cluster stop their grants are kept beside those of who restarts; before the first stops only these', () => {
  const set = new Play(desired());
  const asleep = desired({ suspend: true });
  const restarting = withMember(set.state, 'orders-2', { stage: 'reloading' });
  expect(underWay(restarting, asleep)).toEqual(['orders-2']);
  const grown = startStep(restarting, { kind: 'growVolume', member: 'orders-0', sizeBytes: 1 }, 'g1', 0);
  expect(underWay(grown, asleep)).toEqual(['orders-2']);
  const stopping = startStep(grown, { kind: 'deleteRuntime', member: 'orders-1' }, 'd1', 0);
  expect(new Set(underWay(stopping, asleep))).toEqual(new Set(['orders-0', 'orders-1', 'orders-2']));
  // Also once those who stop are known by nothing else.
  const restarts = withMember(stopping, 'orders-2', { activated: null });
  expect(new Set(underWay(restarts, asleep))).toEqual(new Set(['orders-0', 'orders-1', 'orders-2']));
  // One that leaves, and serves nobody any more, is kept for nobody.
  expect(underWay(withMember(stopping, 'orders-2', { stage: 'removing' }), asleep)).toEqual([
    'orders-0',
    'orders-1',
  ]);
  const [first] = disruptionsOf(
    { kind: 'deleteRuntime', member: 'orders-1' },
    set.state,
    set.reading(),
    asleep,
  );
  expect(first).toMatchObject({ member: 'orders-0', why: 'is suspended', mode: 'force' });
});
