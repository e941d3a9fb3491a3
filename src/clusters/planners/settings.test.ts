/** Settings of members, and when a change of the set waits. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { desired } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { applyOutcome, startStep } from '../steps.ts';
import { configRow } from '../topology.ts';
import type { Desired, DesiredMember } from '../types.ts';

const settings: fc.Arbitrary<DesiredMember> = fc
  .record({
    votes: fc.constantFrom(0 as const, 1 as const),
    priority: fc.integer({ min: 0, max: 3 }),
    hidden: fc.boolean(),
    secondaryDelaySecs: fc.constantFrom(0, 3_600),
    tags: fc.dictionary(fc.constantFrom('rack', 'room'), fc.constantFrom('a', 'b')),
  })
  // What admission lets through: a member without a vote, hidden or delayed is never primary.
  .map((m) => (m.votes === 0 || m.hidden || m.secondaryDelaySecs > 0 ? { ...m, priority: 0 } : m));
/** The first two keep a majority that may be primary. */
const spec = fc
  .array(settings, { minLength: 3, maxLength: 3 })
  .map((others): Desired => ({ ...desired(), members: [...desired({}, 2).members, ...others] }));

test('CFG-01 S5 L1 whatever settings a spec gives its members, and whatever they were, the set gets just these, one vote at a time', () => {
  fc.assert(
    fc.property(spec, spec, (before, after) => {
      const set = new Play(before);
      set.desired = { ...after, generation: 2 };
      for (let pass = 0; pass < 12; pass++) {
        const voters = set.config.members.filter((r) => r.votes === 1).map((r) => r.host);
        const line = set.pass();
        const now = set.config.members.filter((r) => r.votes === 1).map((r) => r.host);
        const changed = [...voters, ...now].filter((h) => !voters.includes(h) || !now.includes(h));
        expect(changed.length, line).toBeLessThan(2);
        if (line === 'converged') break;
      }
      const rows = set.config.members.map(({ hidden, secondaryDelaySecs, tags, ...row }) => ({
        ...row,
        ...(hidden ? { hidden } : {}),
        ...(secondaryDelaySecs ? { secondaryDelaySecs } : {}),
        ...(Object.keys(tags ?? {}).length > 0 ? { tags } : {}),
      }));
      const wanted = set.state.members.map((m, i) =>
        configRow(m, after.members[i] as DesiredMember, set.config.members[i]?.host ?? ''),
      );
      expect(rows).toEqual(wanted);
      expect(set.pass()).toBe('converged');
    }),
    { numRuns: 60 },
  );
});

const change = (want: Desired, at: number, by: Partial<DesiredMember>): Desired => ({
  ...want,
  generation: want.generation + 1,
  members: want.members.map((m, i) => (i === at ? { ...m, ...by } : m)),
});

test.each<Partial<DesiredMember>>([
  { priority: 2 },
  { priority: 0, hidden: true },
  { priority: 0, votes: 0, secondaryDelaySecs: 60 },
  { tags: { rack: 'a' } },
])('CFG-01 A13.6 a change of nothing but %j is made, and made back, by one reconfiguration each', (by) => {
  const set = new Play(desired());
  const before = set.desired;
  set.desired = change(before, 2, by);
  expect(set.pass()).toContain('settings of orders-2');
  expect(set.config.members[2]).toMatchObject(by);
  expect(set.pass()).toBe('converged');
  set.desired = { ...before, generation: 3 };
  expect(set.pass()).toContain('settings of orders-2');
  expect(set.pass()).toBe('converged');
});

test('CFG-01 S5 the vote of a second member waits for a later change; what others get besides does not', () => {
  const set = new Play(desired({}, 5));
  const mute = { votes: 0 as const, priority: 0 };
  set.desired = change(change(change(set.desired, 2, mute), 3, mute), 4, { tags: { rack: 'a' } });
  expect(set.pass()).toContain('settings of orders-2, orders-4');
  expect(set.pass()).toContain('settings of orders-3');
});

test('L2 the order in which a server gives its tags back is no difference', () => {
  const set = new Play(change(desired(), 1, { tags: { rack: 'a', room: 'b' } }));
  const members = set.config.members.map((r) =>
    r.tags === undefined ? r : { ...r, tags: { room: 'b', rack: 'a' } },
  );
  set.config = { ...set.config, members };
  expect(set.pass()).toBe('converged');
});

test('S3 CFG-01 a primary that is to be none any more hands over first, though it keeps its vote', () => {
  const set = new Play(desired());
  set.desired = change(set.desired, 0, { priority: 0 });
  expect(set.pass()).toBe('stepDown orders-0');
  expect(set.pass()).toContain('settings of orders-0');
  expect(set.toTheEnd().at(-1)).toBe('converged');
});

test('A3.1 L2 a reconfiguration that failed is asked for again after its wait, not before', () => {
  const set = new Play(desired());
  set.desired = change(set.desired, 1, { tags: { rack: 'a' } });
  set.state = advance(set.state, set.desired, set.reading(), 1_000);
  const step = plan(set.reading(), set.desired, set.state, 1_000).act?.steps[0];
  if (step?.kind !== 'reconfig') throw new Error('a reconfiguration is due');
  const failed = { kind: 'failed', code: 'NodeNotFound', message: 'no quorum', retry: 'later' } as const;
  const state = applyOutcome(startStep(set.state, step, 's', 1_000), step, 's', failed, 1_000);
  const waiting = plan(set.reading(), set.desired, state, 1_999);
  expect([waiting.act, waiting.waits.map((w) => w.on)]).toEqual([null, ['Backoff']]);
  expect(plan(set.reading(), set.desired, state, 2_000).act?.steps).toEqual([step]);
});

test('S1 A6.3 a member that is about to be restarted gets no vote before it', () => {
  const set = new Play(desired());
  set.desired = desired({}, 4);
  for (let left = 20; left > 0 && set.state.members[3]?.caughtUpSince == null; left--) set.pass();
  const upgrade = { kind: 'upgrade', member: 'orders-3', version: '8.0.32-14' } as const;
  const busy = startStep(set.state, upgrade, 'u', set.now);
  const decided = (state: typeof busy) => plan(set.reading(), set.desired, state, set.now + 1_000).act?.steps;
  expect(decided(busy)).toBeUndefined();
  expect(decided(set.state)).toMatchObject([{ change: expect.stringContaining('orders-3 gets its vote') }]);
});
