/** What an operation's document tells of it: when, how far, and how it ended (A13.1). */
import { expect, test } from 'vitest';
import { desired } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { withMember } from '../state.ts';
import type { OperationRequest } from '../types.ts';
import { operationRefusal } from './index.ts';
import { operationStatus } from './status.ts';

const asked = (change: Partial<OperationRequest> = {}): OperationRequest => ({
  uid: 'op-1',
  name: 'orders-restart',
  spec: { type: 'Restart', mongodbResourceRef: { name: 'orders' }, members: [] },
  createdAt: 0,
  cancelRequested: false,
  ...change,
});
/** How it stands on a reading of now. */
function told(set: Play, request = set.requests[0] as OperationRequest) {
  const observed = set.reading();
  set.state = advance(set.state, set.desired, observed, set.now);
  const { desired: want, state, now } = set;
  const decided = plan(observed, want, state, now);
  return operationStatus(request, { observed, desired: want, state, plan: decided, now });
}
const at = (millis: number): string => new Date(millis).toISOString();

test('A13.1 it began when its turn came and ended when the last member was back, and both stay as they were', () => {
  const set = new Play(desired());
  set.requests = [asked()];
  set.desired = desired({ paused: true });
  expect(told(set)).toMatchObject({ state: 'Waiting', cancellable: true });
  expect(told(set)).not.toHaveProperty('startedAt');
  set.desired = desired();
  set.now = 60_000;
  expect(told(set)).toMatchObject({ state: 'Running', startedAt: at(60_000), progressPercent: 0 });
  set.pass();
  set.now = 90_000;
  expect(told(set)).toMatchObject({
    state: 'Running',
    startedAt: at(60_000),
    completedMembers: ['orders-2'],
    currentMember: 'orders-0',
    progressPercent: 33,
  });
  expect(told(set)).not.toHaveProperty('finishedAt');
  while (set.state.ended.length === 0) set.pass();
  const end = set.now;
  set.now += 3_600_000;
  expect(told(set)).toMatchObject({
    state: 'Succeeded',
    startedAt: at(60_000),
    finishedAt: at(end),
    progressPercent: 100,
    cancellable: false,
  });
});

test('A13.1 one that was cancelled before it began never started', () => {
  const set = new Play(desired());
  set.now = 5_000;
  set.requests = [asked({ cancelRequested: true })];
  expect(told(set)).toMatchObject({ state: 'Cancelled', finishedAt: at(5_000), cancelRequested: true });
  expect(told(set)).not.toHaveProperty('startedAt');
  expect(told(set)).not.toHaveProperty('progressPercent');
});

test('A13.1 a wish to cancel that cannot be followed now is answered with why', () => {
  const set = new Play(desired());
  const spec = { type: 'RotateUsers', mongodbResourceRef: { name: 'orders' }, users: [] } as const;
  set.requests = [asked({ spec })];
  while (!set.pass().startsWith('rotateUsers'));
  set.requests = [asked({ spec, cancelRequested: true })];
  expect(told(set)).toMatchObject({
    state: 'Running',
    cancellable: false,
    message: expect.stringMatching(/^not cancelled: passwords are being changed/),
  });
});

test('A13.1 A13.2 what was done in the moment of the wish to cancel counts as done', () => {
  const set = new Play(desired());
  set.requests = [asked()];
  expect(set.pass()).toBe('reload orders-2');
  set.requests = [asked({ cancelRequested: true })];
  expect(told(set)).toMatchObject({ state: 'Cancelled', completedMembers: ['orders-2'] });
});

test('A13.6 only a repair overtakes what waits: a restart behind a raise that waits for a member waits too', () => {
  const set = new Play(desired());
  set.fcv = '7.0';
  set.lose('db2');
  const raise = { type: 'RaiseFCV', mongodbResourceRef: { name: 'orders' }, version: '8.0' } as const;
  set.requests = [
    asked({ name: 'orders-raise', spec: raise }),
    asked({ uid: 'op-2', name: 'orders-restart', createdAt: 1 }),
  ];
  const second = set.requests[1] as OperationRequest;
  expect(told(set, second)).toMatchObject({
    state: 'Waiting',
    message: 'orders-raise was asked for before',
  });
  expect(set.state.operation).toBeNull();
  set.lose('db2', false);
  while (set.state.ended.length === 0) set.pass();
  expect(set.state.ended.map((e) => e.uid)).toEqual(['op-1']);
});

test('A13.1 A14.1 in a cluster that is being deleted what runs and what waits ends, and nothing is begun', () => {
  const set = new Play(desired());
  set.requests = [asked(), asked({ uid: 'op-2', name: 'orders-again', createdAt: 1 })];
  set.pass();
  set.desired = { ...set.desired, deleting: { keepVolumes: true } };
  const ends = set.requests.map((request) => told(set, request));
  for (const end of ends)
    expect(end).toMatchObject({ state: 'Cancelled', message: 'the cluster is being deleted' });
  expect(set.state.operation).toBeNull();
});

test('A13.2 L1 a restart does not wait for a member that is about to leave', () => {
  const set = new Play(desired());
  set.requests = [asked({ spec: { ...asked().spec, members: ['orders-1'] } as OperationRequest['spec'] })];
  expect(told(set)).toMatchObject({ state: 'Running' });
  set.state = withMember(set.state, 'orders-1', { stage: 'removing' });
  expect(told(set)).toMatchObject({ state: 'Succeeded' });
});

test('A13.5 certificates are rotated as long as any member serves TLS, and refused when none does any more', () => {
  const set = new Play(desired());
  const spec = { type: 'RotateTLS', mongodbResourceRef: { name: 'orders' } } as const;
  const refused = (disabled: number): string | null => {
    const want = desired({ tlsMode: 'disabled', generation: 2 });
    const members = set.state.members.map((m, i) => ({
      ...m,
      activated:
        m.activated && ({ ...m.activated, tlsMode: i < disabled ? 'disabled' : 'allowTLS' } as const),
    }));
    const scene = { observed: set.reading(), desired: want, state: { ...set.state, members }, now: 0 };
    return operationRefusal(scene, asked({ spec }));
  };
  expect([refused(0), refused(2)]).toEqual([null, null]);
  expect(refused(3)).toContain('TLS is disabled');
});
