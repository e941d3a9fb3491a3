/** When a set of a sharded cluster is registered as a shard. */
import { expect, test } from 'vitest';
import { host, observed, sharded } from '../fixtures.ts';
import { views } from '../interpret.ts';
import { plan } from '../plan.ts';
import { type Foreseen, foresee } from '../preview.ts';
import { initialState, withMember, withReplicaSet } from '../state.ts';
import type { Desired, MemberState, Observed, State } from '../types.ts';
import { planShards } from './sharding.ts';

const versions = ['7.0.43-23', '8.0.29-13', '8.0.32-14'];
const hosts = [host('db1', { executables: { mongod: versions, mongos: versions } })];
const made = (want: Desired): Foreseen => foresee(observed({ hosts }), want, initialState(want), 0);

/** A cluster of series 8.0 one of whose shards is made and not registered yet. */
function beforeRegistration(want: Desired = sharded()) {
  const { state, observed: seen } = made(want);
  const set = state.replicaSets.find((r) => r.role === 'shardServer')?.name ?? '';
  const replicaSets = state.replicaSets.map((r) => (r.name === set ? { ...r, registered: false } : r));
  const bare: State = { ...state, replicaSets };
  const members = seen.members.map((m) => {
    const database = m.facts?.database;
    if (m.facts == null || database?.kind !== 'reachable') return m;
    const router = database.router;
    const fcv =
      router === undefined ? { featureCompatibilityVersion: '8.0' } : { router: { ...router, shards: [] } };
    return { ...m, facts: { ...m.facts, database: { ...database, ...fcv } } };
  });
  const [member, second] = bare.members.filter((m) => m.replicaSet === set) as [MemberState, MemberState];
  return { want, bare, set, member, second, unlisted: { ...seen, members } };
}

test('S7 A5.3 a set whose binaries are older than the cluster’s compatibility version is no shard before it has theirs', () => {
  const { want, bare, set, member, second, unlisted } = beforeRegistration();
  expect(plan(unlisted, want, bare, 1_000).act?.steps).toMatchObject([{ kind: 'addShard', replicaSet: set }]);
  const old = { deployedVersion: '7.0.43-23' };
  // One that was replaced hears of it too, as long as it runs.
  const retired: MemberState = { ...member, ...old, name: 'events-s0-9', host: 'db1' };
  const runsOld: Observed = {
    ...unlisted,
    members: unlisted.members.map((m) =>
      m.name === second.name && m.facts?.database?.kind === 'reachable'
        ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, binaryVersion: '7.0.43-23' } } }
        : m,
    ),
  };
  const cases = [
    [withMember(bare, member.name, old), unlisted, `${member.name} runs 8.0`],
    // An accepted deployment proves nothing: what runs may still be the binary before.
    [withMember(bare, second.name, { stage: 'upgrading' }), unlisted, `${second.name} runs 8.0`],
    [bare, runsOld, `${second.name} runs 8.0`],
    [{ ...bare, retired: [retired] }, unlisted, 'events-s0-9, which has left it, is gone'],
  ] as const;
  for (const [late, reading, why] of cases) {
    const decided = plan(reading, want, late, 1_000);
    expect(decided.act?.steps.map((s) => s.kind) ?? []).not.toContain('addShard');
    expect(decided.waits.map((w) => w.detail).join()).toContain(`becomes a shard when ${why}`);
  }
});

test('S7 A5.3 what is left of a replaced member holds up no other set, nor its own where nobody reaches it', () => {
  const { want, bare, set, member, unlisted } = beforeRegistration();
  const left = { ...member, name: 'events-s0-9', deployedVersion: '7.0.43-23' };
  for (const gone of [
    { ...left, host: 'db1', replicaSet: 'events-s1' },
    { ...left, host: 'db9' },
    { ...left, host: 'db1', serviceId: null },
  ]) {
    const reading = { ...unlisted, hosts: [...unlisted.hosts, host('db9', { connected: false })] };
    const decided = plan(reading, want, { ...bare, retired: [gone] }, 1_000);
    expect(decided.act?.steps).toMatchObject([{ kind: 'addShard', replicaSet: set }]);
  }
});

test('A5.3 a set is registered when its users are made and one of its members is a full one, not before', () => {
  const { want, bare, set, member, unlisted } = beforeRegistration(sharded({}, { shard: 1 }));
  const shards = (state: State) =>
    planShards({ observed: unlisted, desired: want, state, now: 1_000, all: views(state, unlisted) });
  const kinds = (state: State): readonly string[] =>
    (shards(state)?.decisions ?? []).map((d) => (d?.kind === 'act' ? d.steps[0]?.kind : d?.kind) ?? '');
  expect(kinds(bare)).toEqual(['addShard']);
  expect(kinds(withReplicaSet(bare, set, { stage: 'users' }))).toEqual([]);
  expect(kinds(withMember(bare, member.name, { stage: 'reloading' }))).toEqual(['wait']);
});
