import { expect, test } from 'vitest';
import { disruptionsOf } from '../disruption.ts';
import type { MemberStateName } from '../facts.ts';
import { desired, running, seen } from '../fixtures.ts';
import type { Desired, HandOverRequest, Plan } from '../index.ts';
import { plan } from '../plan.ts';

const asked = (member: string): HandOverRequest => ({
  member,
  task: 'm-1',
  owner: 'eve',
  priority: 5,
  mode: 'weak',
});

function planned(
  states: readonly (MemberStateName | null)[],
  member: string,
  change: Partial<Desired> = {},
): { readonly plan: Plan; readonly disruptions: ReturnType<typeof disruptionsOf> } {
  const want = desired(change);
  const state = running(want);
  const observed = { ...seen(state, want, states), handOvers: [asked(member)] };
  const decided = plan(observed, want, state, 0);
  const disruptions = (decided.act?.steps ?? []).flatMap((s) => disruptionsOf(s, state, observed, want));
  return { plan: decided, disruptions };
}

test('C6.1 S3 a primary hands over for a person’s task, as urgent as that task and at its mode', () => {
  const { plan: decided, disruptions } = planned(['PRIMARY', 'SECONDARY', 'SECONDARY'], 'orders-0');
  expect(decided.act?.because).toBe('HostMaintenance');
  expect(decided.act?.steps).toEqual([{ kind: 'stepDown', replicaSet: 'orders', member: 'orders-0' }]);
  expect(disruptions).toEqual([
    { member: 'orders-0', why: 'hands over for task m-1 of eve', mode: 'weak', priority: 5 },
  ]);
});

test('C6.1 who does not lead has nothing to hand over, nor has a cluster that is to rest', () => {
  expect(planned(['PRIMARY', 'SECONDARY', 'SECONDARY'], 'orders-1').plan.act).toBeNull();
  const paused = planned(['PRIMARY', 'SECONDARY', 'SECONDARY'], 'orders-0', { paused: true }).plan;
  expect([paused.act, paused.blocks[0]?.by]).toEqual([null, 'Paused']);
});

test('C6.1 S3 L3 without a caught-up secondary the primary stays, and it is said which task waits for what', () => {
  const { plan: decided } = planned(['PRIMARY', 'RECOVERING', 'RECOVERING'], 'orders-0');
  expect(decided.act).toBeNull();
  expect(decided.waits.find((w) => w.on === 'NoElectableSecondary')?.detail).toBe(
    'task m-1 of eve waits for orders-0 to hand over, and no caught-up secondary could take over',
  );
});

test('C6.1 S2 nobody hands over while a member is down because of us', () => {
  const want = desired();
  const record = running(want);
  const members = record.members.map((m, i) => (i === 2 ? { ...m, stage: 'reloading' as const } : m));
  const observed = { ...seen(record, want, ['PRIMARY', 'SECONDARY', null]), handOvers: [asked('orders-0')] };
  const decided = plan(observed, want, { ...record, members }, 0);
  expect(decided.act).toBeNull();
  expect(decided.waits.map(({ detail }) => detail)).toContain(
    'orders-0 hands over for task m-1 of eve when orders-2 is back',
  );
});
