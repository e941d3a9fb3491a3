/** What the engine asks of the provider between steps. */
import { expect, test } from 'vitest';
import { desiredFrom, initialState, type State, type Step, startStep } from '../clusters/index.ts';
import type { StoredObject } from '../engine/ports.ts';
import type { MongoDBSpec } from '../model/index.ts';
import { type MongoDBDeps, mongodbProvider, urgency } from './mongodb.ts';
import type { Reading } from './observe.ts';
import { admitted, replicaSet } from './testing/rig.ts';
import { placed } from './testing/steps.ts';

const metadata = { uid: 'u1', namespace: 'default', name: 'orders', generation: 1, deletionTimestamp: null };
const spec = admitted('MongoDB', 'orders', replicaSet()) as MongoDBSpec;
const desired = desiredFrom({ metadata, spec });
const object = { kind: 'MongoDB', metadata, spec, status: null } as unknown as StoredObject;
const provider = (change: Partial<MongoDBDeps> = {}) => mongodbProvider(change as MongoDBDeps, () => {});

const deploy = (member: string): Step => ({ kind: 'deploy', member, version: '8.0.32-14' });
const both: State = startStep(
  startStep(initialState(desired), deploy('orders-0'), 's0', 0),
  deploy('orders-1'),
  's1',
  0,
);

test('A2.7 S10 what is taken back of a refused step is its own pending record, and nobody else’s', () => {
  const left = provider().cancel(both, deploy('orders-0'), 's0');
  expect(left.pending.map((p) => p.stepId)).toEqual(['s1']);
});

test('S10 only work on hosts is over when nothing is pending of it; what was said to a database stays open', () => {
  const { isOver } = provider();
  const config = { _id: 'orders', version: 2, members: [] };
  const reconfig: Step = { kind: 'reconfig', replicaSet: 'orders', via: 'orders-0', config, change: '' };
  expect(isOver?.(deploy('orders-0'), 's0', both)).toBe(false);
  expect(isOver?.(deploy('orders-0'), 's9', both)).toBe(true);
  expect(isOver?.(reconfig, 's9', both)).toBe(false);
});

test('C3.2 C2.5 what takes a member down is asked for by its name, with the installation’s urgency', () => {
  const reload: Step = { kind: 'reload', member: 'orders-2', configVersion: 2 };
  const state = placed(desired);
  const reading = { members: [] } as unknown as Reading;
  const ask = (change: Partial<MongoDBDeps>) =>
    provider(change).disruptions?.(reload, reading, { object, desired, state });
  expect(ask({})).toMatchObject([
    {
      id: 'u1/orders-2',
      node: 'default/orders-2',
      holder: 'MongoDB default/orders',
      why: 'restart with configuration 2',
      priority: 100,
      mode: 'strong',
    },
  ]);
  expect(ask({ maintenancePriority: 7 })).toMatchObject([{ priority: 7 }]);
});

test('S2 S14 what is under way is told under the ids it was asked for by', () => {
  const state = placed(desired);
  const members = state.members.map((m, i) => (i === 1 ? { ...m, stage: 'reloading' as const } : m));
  const told = provider().underWay?.({ object, desired, state: { ...state, members } });
  expect(told).toEqual(['u1/orders-1']);
});

test('C3.2 our own work is as urgent as it is set to be; what is done for a more urgent task is as urgent as that', () => {
  expect(urgency(undefined, 100)).toBe(100);
  expect(urgency(undefined, 20)).toBe(20);
  expect([urgency(5, 20), urgency(50, 20)]).toEqual([5, 20]);
});
