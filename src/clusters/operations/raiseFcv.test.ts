import { expect, test } from 'vitest';
import type { Step } from '../decisions.ts';
import { desired, host, observed, sharded } from '../fixtures.ts';
import { guard } from '../guard.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { foresee } from '../preview.ts';
import { initialState } from '../state.ts';
import { applyOutcome } from '../steps.ts';
import type { OperationRequest } from '../types.ts';
import { operationStatus } from './status.ts';

const asked = (version?: string): OperationRequest => ({
  uid: 'op-1',
  name: 'orders-raise-fcv',
  spec: {
    type: 'RaiseFCV',
    mongodbResourceRef: { name: 'orders' },
    ...(version === undefined ? {} : { version }),
  },
  createdAt: 0,
  cancelRequested: false,
});

/** A set that runs `binaries`, has `fcv`, and is asked to raise it. */
function play(binaries: string, fcv: string, version?: string): Play {
  const set = new Play(desired({ version: binaries }));
  set.fcv = fcv;
  set.requests = [asked(version)];
  return set;
}

test('A8.5 FCV is raised once, to that of the binaries, and the operation ends when the set shows it', () => {
  const set = play('8.0.32-14', '7.0');
  expect(set.toTheEnd()).toEqual(['setFcv 8.0', 'converged']);
  expect(set.state.ended).toMatchObject([
    { state: 'Succeeded', message: 'the feature compatibility version is 8.0' },
  ]);
});

test('A8.5 S7 without an operation FCV stays, also after an upgrade of all binaries', () => {
  const set = new Play(desired({ version: '8.0.32-14' }));
  set.fcv = '7.0';
  expect(set.toTheEnd()).toEqual(['converged']);
});

test('A8.5 one that is there already ends at once; going down, skipping and nonsense fail by name', () => {
  const there = play('8.0.32-14', '8.0');
  expect(there.toTheEnd()).toEqual(['converged']);
  expect(there.state.ended).toMatchObject([{ state: 'Succeeded' }]);
  const failing = [
    ['7.0', 'it is 8.0 and does not go down to 7.0'],
    ['9.0', 'binaries of 9.0 are needed everywhere, and spec.version is 8.0.32-14: upgrade first'],
    ['eight', 'eight is no feature compatibility version; write X.Y'],
  ];
  for (const [version, message] of failing) {
    const set = play('8.0.32-14', '8.0', version);
    expect(set.toTheEnd()).toEqual(['converged']);
    expect(set.state.ended).toMatchObject([{ state: 'Failed', message }]);
  }
});

test('S7 A8.5 asked for in the middle of an upgrade it waits until every binary runs the series', () => {
  const set = play('7.0.43-23', '7.0', '8.0');
  set.desired = desired({ version: '8.0.32-14', generation: 2 });
  const told = set.toTheEnd();
  const raised = told.indexOf('setFcv 8.0');
  expect(raised).toBeGreaterThan(told.indexOf('upgrade orders-0'));
  expect(told.at(-1)).toBe('converged');
  expect(set.state.ended).toMatchObject([{ state: 'Succeeded' }]);
});

test('S7 an upgrade that waits for the FCV of the old series gets it by the operation, and goes on', () => {
  const set = new Play(desired({ version: '7.0.43-23' }));
  set.fcv = '6.0';
  set.desired = desired({ version: '8.0.32-14', generation: 2 });
  expect(set.pass()).toBe('blocked FcvTooOld');
  set.requests = [asked()];
  const told = set.toTheEnd();
  expect(told.slice(0, 2)).toEqual(['setFcv 7.0', 'upgrade orders-2']);
  expect(told.at(-1)).toBe('converged');
  expect(set.fcv).toBe('7.0');
});

test('A3.1 A13.1 a refused try shows in the status: how often, and when it is tried again', () => {
  const set = play('8.0.32-14', '7.0');
  const refuse = (step: Step): void => {
    const outcome = { kind: 'failed', code: 'Busy', message: 'an index is built', retry: 'later' } as const;
    set.state = applyOutcome(set.state, step, 's1', outcome, set.now);
  };
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  refuse({ kind: 'setFcv', replicaSet: 'orders', via: 'orders-0', version: '8.0' });
  const scene = { observed: set.reading(), desired: set.desired, state: set.state, now: set.now + 1 };
  const decided = plan(scene.observed, scene.desired, scene.state, scene.now);
  expect(operationStatus(asked(), { ...scene, plan: decided })).toMatchObject({
    state: 'Running',
    message: 'setFcv of orders failed once: an index is built',
    attempts: 1,
    nextTryAt: '1970-01-01T00:00:01.000Z',
  });
});

test('S7 the guard refuses when a binary is another or unknown, and when nobody asks any more', () => {
  const set = play('8.0.32-14', '7.0');
  const step = { kind: 'setFcv', replicaSet: 'orders', via: 'orders-0', version: '8.0' } as const;
  const before = set.reading();
  expect(guard(step, before, set.desired, set.state, 0)?.reason).toBe('Stale');
  expect(set.pass()).toBe('setFcv 8.0');
  set.states[2] = null;
  expect(guard(step, set.reading(), set.desired, set.state, 0)).toMatchObject({
    reason: 'VersionsDiffer',
    detail: 'it is not known what orders-2 runs',
  });
});

test('A8.5 S7 of a sharded cluster it is raised once, through a router', () => {
  const want = sharded();
  const hosts = ['db1', 'db2', 'db3'].map((name) =>
    host(name, { executables: { mongod: ['8.0.32-14'], mongos: ['8.0.32-14'] } }),
  );
  const made = foresee(observed({ hosts }), want, initialState(want), 0);
  const members = made.observed.members.map((m) =>
    m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, featureCompatibilityVersion: '7.0' } } }
      : m,
  );
  const after = foresee({ ...made.observed, members, requests: [asked()] }, want, made.state, 1_000_000);
  expect(after.steps.map((s) => `${s.verb} ${s.targets.join()}`)).toEqual(['setFcv events-cfg']);
  expect(after.state.ended).toMatchObject([{ uid: 'op-1', state: 'Succeeded' }]);
});
