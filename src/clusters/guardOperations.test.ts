/** What operations, replacements and rotations brought to the guard. */
import { expect, test } from 'vitest';
import type { Step } from './decisions.ts';
import { desired, host, observed, running, seen, sharded } from './fixtures.ts';
import { guard, type Refusal } from './guard.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { foresee } from './preview.ts';
import { initialState, withMember } from './state.ts';
import { startStep } from './steps.ts';
import type { Desired, Observed, OperationRequest, RunningOperation, State } from './types.ts';

const d = desired();
const HEALTHY = ['PRIMARY', 'SECONDARY', 'SECONDARY'] as const;
const reasonOf = (
  step: Step,
  state: State = running(d),
  o: Observed = seen(state, d, HEALTHY),
  want: Desired = d,
): Refusal['reason'] | null => guard(step, o, want, state, 1_000)?.reason ?? null;

const runs = (work: RunningOperation['work'], type: RunningOperation['type']): RunningOperation => ({
  uid: 'op-1',
  name: 'orders-op',
  type,
  startedAt: 0,
  members: ['orders-0', 'orders-1', 'orders-2'],
  completed: [],
  work,
});

test('QRM-03 S5 a forced step is refused for another operation than the one it was planned for, and on another configuration', () => {
  const play = new Play(desired({}, 5));
  play.now = 7_200_000;
  for (const host of ['db3', 'db4', 'db5']) play.lose(host);
  const request: OperationRequest = {
    uid: 'force',
    name: 'orders-force',
    spec: {
      type: 'ForceReconfig',
      mongodbResourceRef: { name: 'orders' },
      acknowledge: 'LoseUnreplicatedWrites',
    },
    createdAt: 0,
    cancelRequested: false,
  };
  play.requests = [request];
  const o = play.reading();
  const state = advance(play.state, play.desired, o, play.now);
  const step = plan(o, play.desired, state, play.now).act?.steps[0] as Extract<Step, { kind: 'reconfig' }>;
  expect(reasonOf(step, state, o, play.desired)).toBeNull();
  const operation = { ...(state.operation as RunningOperation), uid: 'another' };
  expect(reasonOf(step, { ...state, operation }, o, play.desired)).toBe('NotAcknowledged');
  const later = { ...step, config: { ...step.config, version: step.config.version + 1 } };
  expect(reasonOf(later, state, o, play.desired)).toBe('Stale');
  // Whoever answers stays, the one with the newest write above all.
  for (const { host } of step.config.members.filter((row) => row.votes === 1)) {
    const members = step.config.members.filter((row) => row.host !== host);
    const less = { ...step, config: { ...step.config, members } };
    expect(reasonOf(less, state, o, play.desired), host).toBe('NotAcknowledged');
  }
});

test('S3 S5 A13.3 a reconfiguration never drops the primary of now and never gives an eighth vote', () => {
  const without = new Play(d);
  const base = { kind: 'reconfig', replicaSet: 'orders', via: 'orders-0', change: '' } as const;
  const two = { ...without.config, version: 2, members: without.config.members.slice(1) };
  expect(reasonOf({ ...base, config: two }, without.state, without.reading())).toBe('NotSecondary');

  const seven = new Play(desired({}, 7));
  const [row] = seven.config.members;
  const eighth = { ...row, _id: 9, host: 'db9:27017', votes: 1 as const, priority: 1 };
  const config = { ...seven.config, version: 2, members: [...seven.config.members, eighth] };
  expect(reasonOf({ ...base, config }, seven.state, seven.reading(), seven.desired)).toBe('VotesChanged');
});

/** Every member was given a certificate that ends then. */
function certified(notAfter: number): State {
  const state = running(d);
  return {
    ...state,
    members: state.members.map((m) => ({
      ...m,
      activated: m.activated && {
        ...m.activated,
        certificate: { fingerprint: m.name, notAfter, issuer: 'A', trust: 'A' },
      },
    })),
  };
}

test('A9.4 S2 a certificate is taken online by a member that runs, beside nobody under way and among healthy peers, unless it has run out', () => {
  const step: Step = { kind: 'rotateCertificate', member: 'orders-2', configVersion: 2 };
  const state = certified(9_000);
  expect(reasonOf(step, state)).toBeNull();
  for (const stage of ['reloading', 'upgrading'] as const)
    expect(reasonOf(step, withMember(state, 'orders-1', { stage }))).toBe('OperationPending');
  const sick = seen(state, d, ['PRIMARY', 'RECOVERING', 'SECONDARY']);
  expect(reasonOf(step, state, sick)).toBe('WouldLoseMajority');
  expect(reasonOf(step, certified(1_000), sick), 'peers refuse it already').toBeNull();
  const o = seen(state, d, HEALTHY);
  const exited = {
    kind: 'exited',
    since: 0,
    exitCode: 1,
    signal: null,
    failures: 1,
    nextStartAt: null,
    message: '',
  } as const;
  const members = o.members.map((m) =>
    m.name === 'orders-2' && m.facts ? { ...m, facts: { ...m.facts, process: exited } } : m,
  );
  expect(reasonOf(step, state, { ...o, members })).toBe('MemberNotReady');
});

test('CRD-11 passwords are given in a snapshot in which nothing else is new: neither a restart nor another configuration', () => {
  const step: Step = { kind: 'giveLogins', member: 'orders-2', configVersion: 2 };
  const state = running(d);
  expect(reasonOf(step, state)).toBeNull();
  const restarted = { ...state, operation: runs({ kind: 'Restart' }, 'Restart') };
  expect(reasonOf(step, restarted)).toBe('OperationPending');
  const goal = { tlsMode: 'requireTLS', hash: 'another' } as const;
  expect(reasonOf(step, { ...state, goal })).toBe('OperationPending');
  const goes = startStep(state, { kind: 'deleteRuntime', member: 'orders-2' }, 's1', 0);
  expect(reasonOf(step, goes)).toBe('OperationPending');
});

test('S7 FCV is raised to nothing but what the running operation asks for', () => {
  const state = {
    ...running(d),
    operation: runs({ kind: 'RaiseFCV', version: '8.0', told: [] }, 'RaiseFCV'),
  };
  const step = { kind: 'setFcv', replicaSet: 'orders', via: 'orders-0', version: '8.0' } as const;
  expect(reasonOf(step, state)).toBeNull();
  expect(reasonOf({ ...step, version: '8.1' }, state)).toBe('Stale');
});

test('A14.3 S4 neither record nor a member’s volume goes while something of it is left, and a suspension is not set on what is being deleted', () => {
  const deleting = desired({ deleting: { keepVolumes: false } });
  const base = running(d);
  const members = base.members.map((m) => ({ ...m, serviceId: null }));
  const [old] = base.members;
  const left = { ...base, members, retired: old === undefined ? [] : [{ ...old, name: 'orders-9' }] };
  expect(reasonOf({ kind: 'forget' }, { ...base, members }, undefined, deleting)).toBeNull();
  expect(reasonOf({ kind: 'forget' }, left, undefined, deleting)).toBe('NotDeleting');
  expect(reasonOf({ kind: 'setSuspend', suspend: true }, base)).toBeNull();
  expect(reasonOf({ kind: 'setSuspend', suspend: true }, base, undefined, deleting)).toBe('Stale');

  const volume = (member: string) => ({
    id: 'v-orders-0',
    hostname: 'orders-0',
    host: 'db1',
    kind: 'volume' as const,
    owner: { installation: 'i', clusterUid: d.uid, member, hostname: member, proof: 'p' },
    masked: false,
    deployed: false,
    port: null,
    dataPath: null,
    sizeBytes: null,
  });
  const step: Step = { kind: 'deleteVolume', member: 'orders-0' };
  const gone = { ...base, members };
  expect(reasonOf(step, gone, observed({ services: [volume('orders-0')] }), deleting)).toBeNull();
  expect(reasonOf(step, gone, observed({ services: [volume('orders-1')] }), deleting)).toBe('NotOwned');
});

test('A8.3 S14 no member of a set is taken down before the balancer was stopped; routers may be', () => {
  const want = sharded();
  const executables = { mongod: ['8.0.32-14'], mongos: ['8.0.32-14'] };
  const hosts = ['db1', 'db2', 'db3'].map((name) => host(name, { executables }));
  const { state, observed: reading } = foresee(observed({ hosts }), want, initialState(want), 0);
  const shard = state.members.findLast((m) => m.role === 'shardServer')?.name ?? '';
  const router = state.members.find((m) => m.role === 'router')?.name ?? '';
  const reload = (member: string): Step => ({ kind: 'reload', member, configVersion: 2 });
  expect(reasonOf(reload(shard), state, reading, want)).toBe('BalancerRuns');
  expect(reasonOf(reload(router), state, reading, want)).not.toBe('BalancerRuns');
  // A stop that nobody has answered yet is none.
  const asked = { ...state, balancer: { wasEnabled: true, confirmed: false } };
  expect(reasonOf(reload(shard), asked, reading, want)).toBe('BalancerRuns');
  const rests = { ...state, balancer: { wasEnabled: true, confirmed: true } };
  expect(reasonOf(reload(shard), rests, reading, want)).not.toBe('BalancerRuns');
  // One of which it is not known how far behind it is runs all the same.
  const unsure = {
    ...reading,
    members: reading.members.map((m) =>
      m.name === shard && m.facts?.database?.kind === 'reachable'
        ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, state: 'RECOVERING' as const } } }
        : m,
    ),
  };
  expect(reasonOf(reload(shard), state, unsure, want)).toBe('BalancerRuns');
});
