import { expect, test } from 'vitest';
import { desired, host } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { Play } from '../play.ts';
import { withFailure, withMember } from '../state.ts';
import { startStep } from '../steps.ts';
import type { MemberState, OperationRequest } from '../types.ts';
import { operationWait } from './index.ts';

const ref = { mongodbResourceRef: { name: 'orders' } } as const;
const asked = (spec: OperationRequest['spec'], n = 1): OperationRequest => ({
  uid: `op-${n}`,
  name: `orders-${n}`,
  spec,
  createdAt: n,
  cancelRequested: false,
});
const restart = (n = 1): OperationRequest => asked({ type: 'Restart', ...ref, members: [] }, n);

const waitOf = (set: Play, request: OperationRequest): string | null =>
  operationWait({ observed: set.reading(), desired: set.desired, state: set.state, now: set.now }, request);

test('A13.1 an operation whose document vanished is cancelled: nobody asks for the rest of it any more', () => {
  const set = new Play(desired());
  set.requests = [restart()];
  expect(set.pass()).toBe('reload orders-2');
  const gone = advance(set.state, set.desired, { ...set.reading(), requests: [] }, set.now);
  expect(gone.operation).toBeNull();
  set.requests = [];
  expect(set.toTheEnd().filter((line) => line.startsWith('reload'))).toEqual([]);
});

test('S11 A13.6 nothing is begun in a paused cluster; it begins when the pause is over', () => {
  const set = new Play(desired({ paused: true }));
  set.requests = [restart()];
  set.toTheEnd(5);
  expect(set.state.operation).toBeNull();
  expect(waitOf(set, set.requests[0] as OperationRequest)).toBe('the cluster is paused');
  set.desired = desired({ generation: 2 });
  set.toTheEnd();
  expect(set.state.ended).toMatchObject([{ state: 'Succeeded' }]);
});

test('QRM-03 L1 a lost majority is given up for the survivors though an operation that waits was asked for before', () => {
  const set = new Play(desired({}, 5));
  set.now = 7_200_000;
  for (const name of ['db3', 'db4', 'db5']) set.lose(name);
  const force = { type: 'ForceReconfig', ...ref, acknowledge: 'LoseUnreplicatedWrites' } as const;
  set.requests = [asked({ type: 'RaiseFCV', ...ref }), asked(force, 2)];
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  expect(set.state.operation?.uid).toBe('op-2');
});

test('QRM-03 A13.6 a repair that stands behind an operation that runs says how not to wait for it; others do not', () => {
  const set = new Play(desired());
  set.requests = [restart()];
  set.pass();
  const force = { type: 'ForceReconfig', ...ref, acknowledge: 'LoseUnreplicatedWrites' } as const;
  const runs = `${set.state.operation?.name} runs, and operations go one at a time`;
  expect(waitOf(set, asked(force, 2))).toBe(
    `${runs}; not to wait for it: belay cancel ${set.state.operation?.name}`,
  );
  expect(waitOf(set, asked({ type: 'RaiseFCV', ...ref }, 2))).toBe(runs);
});

test('STK-05 L1 of two replacements behind a restart that waits, the one that can be done is done first', () => {
  const set = new Play(desired());
  set.hosts = [1, 2, 3, 4, 5].map((n) => host(`db${n}`));
  const lost = { stage: 'planned', serviceId: null, activated: null, deployedVersion: null } as const;
  set.state = withMember(set.state, 'orders-1', lost);
  set.state = withFailure(set.state, 'import', 'orders-1', 'VolumeNotFound', 'volume v-orders-1 is gone', 0);
  set.requests = [
    restart(),
    asked({ type: 'Replace', ...ref, member: 'orders-2' }, 2),
    asked({ type: 'Replace', ...ref, member: 'orders-1' }, 3),
  ];
  expect(waitOf(set, set.requests[1] as OperationRequest)).toBe('orders-1 is to be made');
  for (let pass = 0; pass < 120; pass++) set.pass();
  expect(set.state.ended.map((e) => [e.uid, e.state])).toEqual([
    ['op-3', 'Succeeded'],
    ['op-1', 'Succeeded'],
    ['op-2', 'Succeeded'],
  ]);
});

test('A13.6 an operation waits while the platform works on a member, not while it clears away one that was replaced', () => {
  const set = new Play(desired());
  const grown = { kind: 'growVolume', member: 'orders-1', sizeBytes: 1 } as const;
  set.state = startStep(set.state, grown, 'grow-1', 0);
  set.requests = [restart()];
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  expect(set.state.operation).toBeNull();
  expect(waitOf(set, restart())).toBe('an infrastructure operation is under way');

  const other = new Play(desired());
  other.hosts = [1, 2, 3, 9].map((n) => host(`db${n}`));
  const [member] = other.state.members as [MemberState];
  const old: MemberState = {
    ...member,
    name: 'orders-9',
    index: 9,
    host: 'db9',
    address: 'db9',
    stage: 'removing',
  };
  other.state = startStep(
    { ...other.state, retired: [old] },
    { kind: 'deleteRuntime', member: 'orders-9' },
    'delete-9',
    0,
  );
  other.requests = [restart()];
  other.state = advance(other.state, other.desired, other.reading(), other.now);
  expect(other.state.pending).toHaveLength(1);
  expect(other.state.operation?.uid).toBe('op-1');
});

test('A13.3 A2.4 a replacement waits while the platform works on another member of the cluster', () => {
  const set = new Play(desired());
  set.hosts = [1, 2, 3, 4].map((n) => host(`db${n}`));
  set.state = startStep(set.state, { kind: 'growVolume', member: 'orders-0', sizeBytes: 1 }, 'grow-0', 0);
  set.requests = [asked({ type: 'Replace', ...ref, member: 'orders-1' })];
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  expect(set.state.operation).toBeNull();
  expect(waitOf(set, set.requests[0] as OperationRequest)).toBe('growVolume of orders-0 is under way');
});

test('A13.3 A14.2 a substitute that was placed before a suspension keeps its place, whatever its host says of new members', () => {
  const set = new Play(desired());
  set.hosts = [1, 2, 3, 4].map((n) => host(`db${n}`));
  set.requests = [asked({ type: 'Replace', ...ref, member: 'orders-1' })];
  while (set.pass() !== 'import orders-3');
  const back = { stage: 'planned', serviceId: null, activated: null, deployedVersion: null } as const;
  set.state = withMember(set.state, 'orders-3', back);
  set.hosts = [1, 2, 3, 4].map((n) => host(`db${n}`, { schedulable: n !== 4 }));
  const next = advance(set.state, set.desired, set.reading(), set.now);
  expect(next.ended).toEqual([]);
  expect(next.operation?.uid).toBe('op-1');
});
