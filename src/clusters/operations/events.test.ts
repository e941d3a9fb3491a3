/** What a cluster's events tell of its operations. */
import { expect, test } from 'vitest';
import type { MongoDBStatus } from '../../model/index.ts';
import { eventsFor } from '../events.ts';
import { desired } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { status } from '../status.ts';
import type { OperationRequest } from '../types.ts';
import { operationsTold } from './told.ts';

const asked = (name: string, more: Partial<OperationRequest> = {}): OperationRequest => ({
  uid: `uid-of-${name}`,
  name,
  spec: { mongodbResourceRef: { name: 'orders' }, type: 'Restart', members: [] },
  createdAt: 0,
  cancelRequested: false,
  requestedBy: 'eve',
  ...more,
});

/** A set, with what its status and its events would be at each look. */
class Told {
  readonly play = new Play(desired());
  before: MongoDBStatus | null = null;
  readonly events: string[] = [];

  look(): readonly string[] {
    const { play } = this;
    const observed = play.reading();
    play.state = advance(play.state, play.desired, observed, play.now);
    const { state, now } = play;
    const decided = plan(observed, play.desired, state, now);
    const { before } = this;
    const is = status({ observed, desired: play.desired, state, plan: decided, now, warnings: [], before });
    const events = eventsFor(before, is, now).filter((e) => e.reason.startsWith('Operation'));
    // As a control plane that starts reads it: what was written, and nothing else.
    this.before = JSON.parse(JSON.stringify(is));
    const told = events.map((e) => `${e.type} ${e.reason}: ${e.message}`);
    this.events.push(...told);
    return told;
  }
}

test('A7.5 A13.1 an operation that begins, and how it ends, is an event once each, with its name and who asked', () => {
  const told = new Told();
  told.look();
  told.play.requests = [asked('again')];
  expect(told.look()).toEqual(['Normal OperationStarted: Restart again (asked for by eve) begins']);
  expect(told.before?.operation).toBe('again');
  expect(told.look()).toEqual([]);
  for (let pass = 0; pass < 40; pass++) {
    told.play.pass();
    told.look();
  }
  expect(told.events).toHaveLength(2);
  expect(told.events[1]).toMatch(/^Normal OperationSucceeded: Restart again \(asked for by eve\): /);
  // Its document says so: nothing is left of it in the status, and nothing is told again.
  told.play.requests = [];
  expect([told.look(), told.before?.operations, told.before?.operation]).toEqual([[], undefined, undefined]);
});

test('A7.5 A13.1 one that never begins tells only of its end, a failure as a warning, and several at once each', () => {
  const told = new Told();
  told.look();
  const off = { mongodbResourceRef: { name: 'orders' }, type: 'StopBalancer' } as const;
  told.play.requests = [
    asked('no', { spec: off, requestedBy: undefined as never }),
    asked('back', { cancelRequested: true }),
  ];
  expect(told.look().toSorted()).toEqual([
    'Normal OperationCancelled: Restart back (asked for by eve): cancelled before it began',
    'Warning OperationFailed: StopBalancer no: only a sharded cluster has a balancer',
  ]);
  expect(told.look()).toEqual([]);
});

test('A7.5 one whose document vanished while it ran is told of by what the status before knew', () => {
  const told = new Told();
  told.play.requests = [asked('again')];
  told.look();
  const over = { uid: 'uid-of-again', state: 'Cancelled', message: 'gone' } as const;
  const state = {
    ...told.play.state,
    operation: null,
    ended: [{ ...over, startedAt: 0, finishedAt: 1, completed: [] }],
  };
  const none = { ...told.play.reading(), requests: [] };
  expect(operationsTold(state, none, told.before).operations).toMatchObject([{ ...over, name: 'again' }]);
  expect(operationsTold(state, none, null)).toEqual({});
});
