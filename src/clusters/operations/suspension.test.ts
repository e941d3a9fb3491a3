import { expect, test } from 'vitest';
import { desired } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { Play } from '../play.ts';
import type { OperationRequest } from '../types.ts';
import { operationWait } from './index.ts';
import { operationStatus } from './status.ts';

const asked = (type: 'Suspend' | 'Resume' | 'Restart', uid: string = type): OperationRequest => {
  const mongodbResourceRef = { name: 'orders' };
  const spec = type === 'Restart' ? { type, mongodbResourceRef, members: [] } : { type, mongodbResourceRef };
  return { uid, name: `orders-${uid}`, spec, createdAt: 0, cancelRequested: false };
};

const endedOf = (set: Play) => set.state.ended.map((e) => `${e.uid} ${e.state}: ${e.message}`);

test('A13.1 A14.2 suspend sets the spec when its turn has come, and ends when no runtime is left; resume brings all back', () => {
  const set = new Play(desired());
  set.requests = [asked('Suspend')];
  const down = set.toTheEnd();
  expect(down[0]).toBe('setSuspend true');
  expect(down.filter((line) => line.startsWith('deleteRuntime'))).not.toEqual([]);
  expect(down.some((line) => line.startsWith('deleteVolume'))).toBe(false);
  expect(set.desired.suspend).toBe(true);
  expect(endedOf(set)).toEqual(['Suspend Succeeded: suspended; data and credentials are kept']);
  set.requests = [asked('Resume')];
  expect(set.toTheEnd()).toContain('setSuspend false');
  expect(set.state.members.map((m) => m.stage)).toEqual(['active', 'active', 'active']);
  expect(endedOf(set)).toEqual(['Resume Succeeded: it runs again']);
});

test('A13.6 what waits for the end of a suspension does not stand in the way of it', () => {
  const set = new Play(desired());
  set.requests = [asked('Suspend'), asked('Restart')];
  set.toTheEnd();
  expect(set.state.ended.map((e) => [e.uid, e.state])).toEqual([['Suspend', 'Succeeded']]);
  const scene = { observed: set.reading(), desired: set.desired, state: set.state, now: set.now };
  expect(operationWait(scene, asked('Restart'))).toBe(
    'the cluster is suspended; it begins when that is resumed: belay resume orders',
  );
  set.requests = [asked('Suspend'), asked('Restart'), asked('Resume')];
  const told = set.toTheEnd();
  expect(told.filter((line) => line.startsWith('setSuspend'))).toEqual([
    'setSuspend true',
    'setSuspend false',
  ]);
  expect(set.state.ended.map((e) => [e.uid, e.state])).toEqual([
    ['Suspend', 'Succeeded'],
    ['Resume', 'Succeeded'],
    ['Restart', 'Succeeded'],
  ]);
});

test('A13.1 who wants a cluster back waits for no suspension, which may be waiting itself; nor the reverse', () => {
  const set = new Play(desired());
  set.requests = [asked('Suspend')];
  expect(set.pass()).toBe('setSuspend true');
  set.requests = [asked('Suspend'), { ...asked('Resume'), createdAt: 5 }];
  expect(set.toTheEnd()).toContain('setSuspend false');
  expect(endedOf(set)).toEqual([
    'Suspend Cancelled: orders-Resume takes it back',
    'Resume Succeeded: it runs again',
  ]);
  // One that was asked for before is no answer to it, nor one that was cancelled.
  const other = new Play(desired());
  other.requests = [{ ...asked('Suspend'), createdAt: 5 }];
  other.pass();
  other.requests = [
    { ...asked('Suspend'), createdAt: 5 },
    { ...asked('Resume', 'before'), createdAt: 1 },
    { ...asked('Resume', 'not'), createdAt: 9, cancelRequested: true },
  ];
  const next = advance(other.state, other.desired, other.reading(), other.now + 1);
  expect(next.operation?.uid).toBe('Suspend');
});

test('A13.1 a suspension that the spec says already is not cancelled; a document that says otherwise wins', () => {
  const late = new Play(desired());
  late.requests = [asked('Suspend')];
  expect(late.pass()).toBe('setSuspend true');
  late.requests = [{ ...asked('Suspend'), cancelRequested: true }];
  late.toTheEnd();
  expect(endedOf(late)).toEqual(['Suspend Succeeded: suspended; data and credentials are kept']);

  const set = new Play(desired());
  set.requests = [asked('Suspend')];
  expect(set.pass()).toBe('setSuspend true');
  set.desired = { ...set.desired, suspend: false, generation: set.desired.generation + 1 };
  set.toTheEnd();
  expect(endedOf(set)).toEqual(['Suspend Failed: spec.suspend was set to false meanwhile']);
  expect(set.state.members.map((m) => m.stage)).toEqual(['active', 'active', 'active']);
});

test('L3 a restart in a cluster that the document suspended meanwhile says what it waits for', () => {
  const set = new Play(desired());
  set.requests = [asked('Restart')];
  set.pass();
  set.desired = { ...set.desired, suspend: true, generation: set.desired.generation + 1 };
  set.toTheEnd();
  const plan = { act: null, waits: [], blocks: [], converged: true };
  const scene = { observed: set.reading(), desired: set.desired, state: set.state, now: set.now, plan };
  const told = operationStatus(asked('Restart'), scene);
  expect(told.state).toBe('Running');
  expect(told.message).toBe('the cluster is suspended; it goes on when it is resumed');
});
