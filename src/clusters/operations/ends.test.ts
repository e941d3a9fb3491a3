/** When an operation has ended, and what it leaves behind. */
import { expect, test } from 'vitest';
import { desired, host, observed, sharded } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { Play } from '../play.ts';
import { foresee } from '../preview.ts';
import { learnReplacements } from '../replacements.ts';
import { initialState, withMember } from '../state.ts';
import { startStep } from '../steps.ts';
import type { Observed, OperationRequest } from '../types.ts';

const ref = { mongodbResourceRef: { name: 'orders' } } as const;
const asked = (spec: OperationRequest['spec'], change: Partial<OperationRequest> = {}): OperationRequest => ({
  uid: 'op-1',
  name: 'orders-op',
  spec,
  createdAt: 0,
  cancelRequested: false,
  ...change,
});

/** What the record says next, on a reading of now. */
const look = (set: Play) => advance(set.state, set.desired, set.reading(), set.now);

test('A13.2 A13.5 a member counts when it is back, not when it was given its token or certificate', () => {
  const restart = new Play(desired());
  restart.requests = [asked({ type: 'Restart', ...ref, members: ['orders-2'] })];
  expect(restart.pass()).toBe('reload orders-2');
  restart.states[2] = null;
  expect(look(restart).operation?.completed).toEqual([]);
  restart.states[2] = 'SECONDARY';
  expect(look(restart).ended).toMatchObject([{ state: 'Succeeded', completed: ['orders-2'] }]);

  const rotate = new Play(desired());
  rotate.refusesOnline = true;
  rotate.authority = { trust: 'A', issuer: 'A', notAfter: Number.MAX_SAFE_INTEGER, rotating: false };
  rotate.requests = [asked({ type: 'RotateTLS', ...ref })];
  while (rotate.pass() !== 'reload orders-2');
  rotate.states[2] = null;
  expect(look(rotate).operation?.completed).toEqual([]);
  rotate.states[2] = 'SECONDARY';
  expect(look(rotate).operation?.completed).toEqual(['orders-2']);
});

test('A13.4 A13.1 passwords that are the cluster’s by now are no reason to go on: agents hold both', () => {
  const set = new Play(desired());
  const spec = { type: 'RotateUsers', ...ref, users: [] } as const;
  set.requests = [asked(spec)];
  while (set.pass().trim() !== 'keepLogins');
  set.requests = [asked(spec, { cancelRequested: true })];
  expect(look(set).ended).toMatchObject([{ state: 'Cancelled' }]);
});

test('A13.1 A14.2 a resumption is over when the cluster runs, not as soon as it is not suspended any more', () => {
  const set = new Play(desired());
  set.requests = [asked({ type: 'Suspend', ...ref })];
  set.toTheEnd();
  set.requests = [asked({ type: 'Resume', ...ref }, { uid: 'op-2' })];
  while (!set.pass().startsWith('import'));
  expect(set.state.phase).not.toBe('suspended');
  expect(set.state.ended).toEqual([]);
  set.toTheEnd();
  expect(set.state.ended).toMatchObject([{ uid: 'op-2', state: 'Succeeded' }]);
});

test('A8.5 S7 FCV of a sharded cluster is raised when every set shows it, not the first', () => {
  const want = sharded();
  const hosts = ['db1', 'db2', 'db3'].map((name) =>
    host(name, { executables: { mongod: ['8.0.32-14'], mongos: ['8.0.32-14'] } }),
  );
  const made = foresee(observed({ hosts }), want, initialState(want), 0);
  const [shard] = made.state.replicaSets.filter((r) => r.role === 'shardServer');
  const old = new Set(made.state.members.filter((m) => m.replicaSet === shard?.name).map((m) => m.name));
  const fcv = (of: (name: string) => string): Observed => ({
    ...made.observed,
    requests: [asked({ type: 'RaiseFCV', mongodbResourceRef: { name: 'events' }, version: '8.0' })],
    members: made.observed.members.map((m) =>
      m.facts?.database?.kind === 'reachable'
        ? {
            ...m,
            facts: {
              ...m.facts,
              database: { ...m.facts.database, featureCompatibilityVersion: of(m.name) },
            },
          }
        : m,
    ),
  });
  const one = advance(
    made.state,
    want,
    fcv((name) => (old.has(name) ? '7.0' : '8.0')),
    1_000,
  );
  expect(one.ended).toEqual([]);
  expect(one.operation?.uid).toBe('op-1');
  expect(
    advance(
      one,
      want,
      fcv(() => '8.0'),
      2_000,
    ).ended,
  ).toMatchObject([{ state: 'Succeeded' }]);
});

test('QRM-03 A6.4 a member that was leaving anyway does not come back by a forced reconfiguration', () => {
  const set = new Play(desired({}, 5));
  set.now = 7_200_000;
  for (const name of ['db3', 'db4', 'db5']) set.lose(name);
  set.state = withMember(set.state, 'orders-4', { stage: 'removing' });
  const acknowledge = 'LoseUnreplicatedWrites';
  set.requests = [asked({ type: 'ForceReconfig', ...ref, acknowledge })];
  expect(set.pass()).toContain('goes on with 2 of 5 members');
  set.vote();
  const next = look(set);
  expect(next.ended).toMatchObject([
    { state: 'Succeeded', message: expect.stringContaining('left out: orders-2, orders-3:') },
  ]);
  expect(next.members.find((m) => m.name === 'orders-4')?.stage ?? 'removing').toBe('removing');
});

test('A13.3 S4 S2 the old one keeps its place until the new one is in the set, and a new one that is given up its record until the platform is done', () => {
  const set = new Play(desired());
  set.hosts = [1, 2, 3, 4].map((n) => host(`db${n}`));
  set.requests = [asked({ type: 'Replace', ...ref, member: 'orders-1' })];
  set.state = look(set);
  // A person took the old one out by hand.
  set.config = { ...set.config, version: 2, members: set.config.members.filter((r) => r._id !== 1) };
  expect(learnReplacements(set.state, set.reading()).retired ?? []).toEqual([]);

  const placement = { host: 'db4', address: 'db4', port: 27017, portFixed: true };
  const importing = startStep(set.state, { kind: 'import', member: 'orders-3', placement }, 'i3', 0);
  const givenUp = withMember(importing, 'orders-3', { stage: 'removing' });
  expect(learnReplacements(givenUp, set.reading()).members.map((m) => m.name)).toContain('orders-3');
  const over = { ...givenUp, pending: [] };
  expect(learnReplacements(over, set.reading()).retired?.map((m) => m.name)).toEqual(['orders-3']);
});
