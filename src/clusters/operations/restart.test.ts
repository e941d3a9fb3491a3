import { expect, test } from 'vitest';
import type { ReplSetConfig } from '../facts.ts';
import { desired } from '../fixtures.ts';
import { Play } from '../play.ts';
import type { OperationRequest } from '../types.ts';
import { operationRefusal } from './index.ts';

const asked = (
  change: Partial<OperationRequest> = {},
  members: readonly string[] = [],
): OperationRequest => ({
  uid: 'op-1',
  name: 'orders-restart',
  spec: { type: 'Restart', mongodbResourceRef: { name: 'orders' }, members },
  createdAt: 0,
  cancelRequested: false,
  ...change,
});

const play = (...requests: readonly OperationRequest[]): Play => {
  const set = new Play(desired());
  set.requests = requests;
  return set;
};

test('A13.1 A13.2 S3 a restart takes the secondaries first, highest index first, then the primary after it stepped down', () => {
  const set = play(asked());
  const told = set.toTheEnd();
  expect(told.filter((line) => line.startsWith('reload') || line.startsWith('stepDown'))).toEqual([
    'reload orders-2',
    'reload orders-1',
    'stepDown orders-0',
    'reload orders-0',
  ]);
  expect(told.at(-1)).toBe('converged');
  expect(set.state.operation).toBeNull();
  expect(set.state.ended).toMatchObject([
    {
      uid: 'op-1',
      state: 'Succeeded',
      message: '3 members were restarted',
      completed: ['orders-0', 'orders-1', 'orders-2'],
    },
  ]);
});

test('A13.2 only the members that were named restart', () => {
  const set = play(asked({}, ['orders-1']));
  expect(set.toTheEnd().filter((line) => line.startsWith('reload'))).toEqual(['reload orders-1']);
});

test('A13.1 a restart of a member that is not there fails at once, by name, and touches nothing', () => {
  const set = play(asked({}, ['orders-7']));
  expect(set.toTheEnd()).toEqual(['converged']);
  expect(set.state.ended).toMatchObject([{ state: 'Failed', message: 'there is no member orders-7' }]);
});

test('A13.1 cancelled between two members, the rest keeps running as it is; cancelled before it began, nothing happens', () => {
  const set = play(asked());
  while (!set.pass().startsWith('reload'));
  set.requests = [asked({ cancelRequested: true })];
  expect(set.toTheEnd().filter((line) => line.startsWith('reload'))).toEqual([]);
  expect(set.state.ended).toMatchObject([{ state: 'Cancelled' }]);

  const other = play(asked({ cancelRequested: true }));
  expect(other.toTheEnd()).toEqual(['converged']);
  expect(other.state.ended).toMatchObject([{ state: 'Cancelled', message: 'cancelled before it began' }]);
});

test('A13.6 operations go one at a time, the older first, and a change of scale waits for the end', () => {
  const set = play(asked({}, ['orders-2']), asked({ uid: 'op-2', name: 'second' }, ['orders-1']));
  expect(set.pass()).toBe('reload orders-2');
  expect(set.state.operation?.uid).toBe('op-1');
  set.desired = desired({ generation: 2 }, 5);
  const told = set.toTheEnd();
  expect(told.slice(0, 2)).toEqual(['reload orders-1', 'import orders-3']);
  expect(set.state.ended.map((e) => e.uid)).toEqual(['op-1', 'op-2']);
  expect(set.state.members).toHaveLength(5);
});

test('S1 A13.2 a restart touches nobody while another member is not known to be well', () => {
  const set = play(asked());
  set.states[1] = null;
  expect(set.toTheEnd(5).filter((line) => !line.startsWith('wait'))).toEqual(['did not converge']);
});

const ONLY =
  'WouldInterrupt: orders-0 is the only member: working on it stops the database; set spec.maintenance.interruption: Allowed, or add members';

test('A13.1 A13.6 S1 L1 a restart of the only member is refused where that would interrupt, and holds nothing up', () => {
  const set = new Play(desired({}, 1));
  const scene = { observed: set.reading(), desired: set.desired, state: set.state, now: set.now };
  expect(operationRefusal(scene, asked())).toBe(ONLY);
  expect(operationRefusal({ ...scene, desired: desired({ interruption: true }, 1) }, asked())).toBeNull();
  // It was accepted before the spec said so, and somebody stands behind it.
  set.requests = [asked(), { ...asked(), uid: 'op-2', name: 'orders-later', createdAt: 1, spec: ROTATE }];
  expect(set.toTheEnd().filter((line) => line.startsWith('reload'))).toEqual([]);
  expect(set.state.ended).toMatchObject([
    { uid: 'op-1', state: 'Failed', message: ONLY, startedAt: null },
    { uid: 'op-2', state: 'Succeeded' },
  ]);
});
const ROTATE = { type: 'RotateUsers', mongodbResourceRef: { name: 'orders' }, users: [] } as const;

test('A13.6 S1 a restart of the only member of a set that is to have more waits for them', () => {
  const set = new Play(desired({}, 1));
  set.requests = [asked()];
  set.desired = { ...desired(), generation: 2 };
  const scene = { observed: set.reading(), desired: set.desired, state: set.state, now: set.now };
  expect(operationRefusal(scene, asked())).toBeNull();
  // Two voters can spare nobody either.
  expect(operationRefusal({ ...scene, desired: desired({ generation: 2 }, 2) }, asked())).toBe(ONLY);
  const told = set.toTheEnd();
  expect(told.filter((line) => line.startsWith('import'))).not.toEqual([]);
  expect(set.state.ended).toMatchObject([{ state: 'Succeeded', message: '1 member was restarted' }]);
});

test('A13.6 L1 nor does it begin while the only member is unwell for a moment', () => {
  const set = new Play(desired({}, 1));
  set.down.add(0);
  set.requests = [asked()];
  set.pass();
  expect(set.state.operation).toBeNull();
});

test('A13.6 L1 a restart that waits for a vote which somebody took away gets it back', () => {
  const set = play(asked());
  while (!set.pass().startsWith('reload'));
  const members = set.config?.members.map((row, i) =>
    i === 1 ? { ...row, votes: 0 as const, priority: 0 } : row,
  );
  set.config = { ...(set.config as ReplSetConfig), members: members ?? [] };
  const told = set.toTheEnd();
  expect(told[0]).toBe('settings of orders-1: votes 2 → 3, majority 2 → 2');
  expect(set.state.ended).toMatchObject([{ state: 'Succeeded', message: '3 members were restarted' }]);
});
