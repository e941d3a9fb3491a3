import { expect, test } from 'vitest';
import { MINUTE, SECOND } from '../base/units.ts';
import type { Plan, Step, StepOutcome } from './decisions.ts';
import { desired, placed, running, seen } from './fixtures.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { applyOutcome } from './steps.ts';
import type { Desired, Observed, State } from './types.ts';

const want = desired();
const refusal = (code: string, message: string): StepOutcome => ({
  kind: 'failed',
  code,
  message,
  retry: 'never',
});

/** A cluster that is looked at again and again. */
class Looked {
  state: State;
  constructor(state: State) {
    this.state = state;
  }
  look(observed: Observed, now: number, spec: Desired = want): Plan {
    this.state = advance(this.state, spec, observed, now);
    return plan(observed, spec, this.state, now);
  }
}

const initiate = (state: State): Step =>
  plan(seen(state, want, ['STARTUP', 'STARTUP', 'STARTUP']), want, state, 0).act?.steps[0] as Step;

test('A3.3 INI-07 what the server refuses for good stands as a block in its words and is not sent again while nothing changes', () => {
  const state = placed(want);
  const outcome = refusal('AlreadyInitialized', 'already initialized as orders with db9:27017');
  const looked = new Looked(applyOutcome(state, initiate(state), 'i', outcome, 0));
  const blank = seen(state, want, ['STARTUP', 'STARTUP', 'STARTUP']);
  for (let at = 0; at < 10 * MINUTE; at += MINUTE) {
    const { act, blocks } = looked.look(blank, at);
    expect([act, blocks.map((b) => b.by)]).toEqual([null, ['Refused']]);
    expect(blocks[0]?.detail).toBe(
      'initiate of orders was refused: already initialized as orders with db9:27017',
    );
  }
  expect(looked.look(blank, 10 * MINUTE).act?.steps[0]?.kind).toBe('initiate');
});

test('STK-04 a refused step is sent again at once when the spec changed, and when the world did', () => {
  const state = placed(want);
  const blank = seen(state, want, ['STARTUP', 'STARTUP', 'STARTUP']);
  const another = { ...blank, members: blank.members.map((m) => ({ ...m, observedAt: 7 })) };
  const restarted = seen(state, want, ['STARTUP', 'STARTUP', 'STARTUP'], {
    featureCompatibilityVersion: '7.0',
  });
  const refused = () => {
    const looked = new Looked(applyOutcome(state, initiate(state), 'i', refusal('BadValue', 'no'), 0));
    expect(looked.look(blank, 0).act).toBeNull();
    return looked;
  };
  expect(refused().look(another, SECOND).act, 'a look that shows the same').toBeNull();
  expect(refused().look(blank, SECOND, desired({ generation: 2 })).act?.steps[0]?.kind).toBe('initiate');
  expect(refused().look(restarted, SECOND).act?.steps[0]?.kind).toBe('initiate');
});

test('A5.4 credentials that do not fit are tried again when something changed and at the slowest pace, not in between', () => {
  const state = running(want);
  const drift = seen(state, want, ['PRIMARY', 'SECONDARY', 'SECONDARY'], { authenticated: false });
  const step: Step = { kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' };
  const outcome = refusal('CredentialRepairRequired', 'login failed');
  const looked = new Looked(applyOutcome(state, step, 'r', outcome, 0));
  expect(looked.look(drift, SECOND)).toMatchObject({
    act: null,
    blocks: [{ by: 'CredentialRepairRequired' }],
  });
  expect(looked.look(drift, 9 * MINUTE).act).toBeNull();
  expect(looked.look(drift, 10 * MINUTE).act?.steps).toEqual([step]);
  const repaired = seen(state, want, ['PRIMARY', 'SECONDARY', 'SECONDARY'], { authenticated: true });
  const other = new Looked(applyOutcome(state, step, 'r', outcome, 0));
  other.look(drift, SECOND);
  expect(other.look(repaired, 2 * SECOND).act?.steps).toEqual([step]);
});

test('A3.2 infrastructure is never given up: a host’s "never" waits and is tried again like any failure', () => {
  const state = placed(want, { stage: 'planned', serviceId: null, activated: null });
  const step = { kind: 'deleteRuntime', member: 'orders-0' } as const;
  const failed = applyOutcome(state, step, 'd', refusal('OwnershipConflict', 'not ours'), 0);
  expect(failed.retries).toMatchObject([{ nextTryAt: 30 * SECOND, failures: 1 }]);
  expect(failed.retries[0]?.refused).toBeUndefined();
});
