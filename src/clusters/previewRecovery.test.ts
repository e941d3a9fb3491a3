import { expect, test } from 'vitest';
import { desired } from './fixtures.ts';
import { Play } from './play.ts';
import { preview } from './preview.ts';

const reloads = (
  set: Play,
  want = desired({ generation: 2, mongodConfig: { net: { compression: 'x' } } }),
) => {
  const { steps, waits, converges } = preview(set.reading(), want, set.state, 1000);
  return {
    steps: steps.map((s) => `${s.verb} ${s.targets.join()}`),
    waits: waits.map((w) => w.on),
    converges,
  };
};

test('while a member is down the plan says what it waits for, and every step from then on', () => {
  const set = new Play(desired());
  const well = reloads(set);
  expect(well).toMatchObject({ waits: [], converges: true });
  set.states[1] = null;
  const down = reloads(set);
  expect(down.waits).toContain('WouldLoseMajority');
  expect(down.steps).toEqual(well.steps);
});

test('what needs a person is no wait: the plan ends there', () => {
  const set = new Play(desired({ version: '7.0.43-23' }));
  set.fcv = '6.0';
  const want = desired({ version: '8.0.32-14', generation: 2 });
  const { steps, refusals, waits } = preview(set.reading(), want, set.state, 0);
  expect({ steps, waits, refused: refusals.map((r) => r.by) }).toEqual({
    steps: [],
    waits: [],
    refused: ['FcvTooOld'],
  });
});

test('STK-04 the plan of a corrected spec ends without the old refusal: the member that is down comes up with it', () => {
  const set = new Play(desired());
  set.desired = desired({ generation: 2, mongodConfig: { setParameter: { noSuchParameter: 1 } } });
  set.crashing.add(2);
  set.toTheEnd(4);
  const plan = preview(set.reading(), desired({ generation: 3 }), set.state, set.now + 600_000);
  expect([plan.converges, plan.refusals]).toEqual([true, []]);
  expect(plan.steps.map((s) => `${s.verb} ${s.targets.join()}`)).toContain('reload orders-2');
});

test('A13.2 a plan taken while a secondary could not log in yet has no step that is not taken: users are on their way', () => {
  const set = new Play(desired());
  const read = set.reading();
  const members = read.members.map((m) =>
    m.name === 'orders-1' && m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, authenticated: false } } }
      : m,
  );
  const wanted = desired({ generation: 2, mongodConfig: { operationProfiling: { slowOpThresholdMs: 1 } } });
  const plan = preview({ ...read, members }, wanted, set.state, 0);
  expect(plan.steps.map((s) => `${s.verb} ${s.targets.join()}`)).toEqual([
    'reload orders-2',
    'reload orders-1',
    'stepDown orders-0',
    'reload orders-0',
  ]);
});

test('A5.4 making the system users again in a plan leaves the primary who it was', () => {
  const set = new Play(desired());
  set.states = ['SECONDARY', 'PRIMARY', 'SECONDARY'];
  const roles = [{ role: 'r', db: 'admin', privileges: [], roles: [], authenticationRestrictions: [] }];
  const wanted = desired({
    generation: 2,
    roles,
    mongodConfig: { operationProfiling: { slowOpThresholdMs: 1 } },
  });
  const plan = preview(set.reading(), wanted, set.state, 0);
  expect(plan.steps.map((s) => s.targets.join())).toEqual([
    'orders',
    'orders-2',
    'orders-0',
    'orders-1',
    'orders-1',
  ]);
});
