import { expect, test } from 'vitest';
import type { DatabaseFacts, MemberStateName } from './facts.ts';
import { desired, host, placed, running, seen } from './fixtures.ts';
import { initiated, isHealthy, majority, primaryOf, quorumOf, runsItsSnapshot, views } from './interpret.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { withMember } from './state.ts';
import type { Observed } from './types.ts';

type Database = Extract<DatabaseFacts, { kind: 'reachable' }>;
const d = desired();
const state = running(d);
const HEALTHY = ['PRIMARY', 'SECONDARY', 'SECONDARY'] as const;

const changed = (o: Observed, at: number, change: (database: Database) => Partial<Database>): Observed => ({
  ...o,
  members: o.members.map((m, i) =>
    i === at && m.facts?.database?.kind === 'reachable'
      ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, ...change(m.facts.database) } } }
      : m,
  ),
});
const healthy = (o: Observed): readonly boolean[] => {
  const all = views(state, o);
  return all.map((v) => isHealthy(v, all));
};
/** All members say that the third one is so far behind. */
const lagging = (lagMillis: number | null): Observed =>
  [0, 1, 2].reduce(
    (o, at) =>
      changed(o, at, ({ peers }) => ({ peers: peers.map((p, i) => (i === 2 ? { ...p, lagMillis } : p)) })),
    seen(state, d, HEALTHY),
  );

test('S1 a secondary is healthy within ten seconds of lag; an unknown lag is not health', () => {
  expect(healthy(lagging(0))).toEqual([true, true, true]);
  expect(healthy(lagging(10_000))).toEqual([true, true, true]);
  expect(healthy(lagging(10_001))).toEqual([true, true, false]);
  expect(healthy(lagging(null))).toEqual([true, true, false]);
});

test('S1 a member that is to be behind and does not vote is well at its distance; a voter that is behind is not', () => {
  const delayed = (lagMillis: number, votes: 0 | 1): Observed => {
    const o = lagging(lagMillis);
    return changed(o, 0, ({ config }) => ({
      config: config && {
        ...config,
        members: config.members.map((row, i) =>
          i === 2 ? { ...row, votes, secondaryDelaySecs: 3600 } : row,
        ),
      },
    }));
  };
  expect(healthy(delayed(3_600_000, 0))).toEqual([true, true, true]);
  expect(healthy(delayed(3_611_000, 0))).toEqual([true, true, false]);
  expect(healthy(delayed(3_600_000, 1))).toEqual([true, true, false]);
});

test('S1 only PRIMARY and SECONDARY are healthy, whatever lag they report', () => {
  for (const told of ['STARTUP2', 'RECOVERING', 'ROLLBACK', 'REMOVED', 'STARTUP', 'UNKNOWN'] as const) {
    const o = changed(lagging(0), 2, () => ({ state: told as MemberStateName }));
    expect(healthy(o)[2], told).toBe(false);
  }
});

test('S1 a primary that takes no writes yet, or any more, is not healthy', () => {
  expect(healthy(changed(seen(state, d, HEALTHY), 0, () => ({ writablePrimary: false })))[0]).toBe(false);
});

test('S15 what was reported over a channel that is closed now counts for nothing', () => {
  const o = seen(state, d, HEALTHY);
  const cut = { ...o, members: o.members.map((m, i) => (i === 2 ? { ...m, connected: false } : m)) };
  expect(healthy(cut)).toEqual([true, true, false]);
});

test('of two members that think they are primary the one of the newer term counts, in any order', () => {
  for (const [old, fresh] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const o = changed(
      changed(seen(state, d, ['PRIMARY', 'PRIMARY', 'SECONDARY']), old, () => ({ term: 3 })),
      fresh,
      () => ({ term: 4 }),
    );
    expect(primaryOf(views(state, o))?.member.name).toBe(`orders-${fresh}`);
  }
});

test('S1 a majority is more than half, counted over the voters of the configuration in force', () => {
  expect([1, 2, 3, 4, 5, 6, 7].map(majority)).toEqual([1, 2, 2, 3, 3, 4, 4]);
  const o = [0, 1, 2].reduce(
    (reading, at) =>
      changed(reading, at, ({ config }) => ({
        config: config && {
          ...config,
          members: config.members.map((m, i) => (i === 2 ? { ...m, votes: 0 } : m)),
        },
      })),
    seen(state, d, HEALTHY),
  );
  expect(quorumOf(views(state, o))).toEqual({ voters: 2, healthyVoters: 2, needed: 2 });
});

test('S6 a set counts as not initiated only when every member says so', () => {
  const fresh = placed(d);
  const up = seen(fresh, d, ['STARTUP', 'STARTUP', 'STARTUP']);
  expect(initiated(views(fresh, up))).toBe(false);
  expect(initiated(views(fresh, seen(fresh, d, ['STARTUP', null, 'STARTUP'])))).toBeNull();
  expect(
    initiated(
      views(
        fresh,
        changed(up, 1, () => ({ initiated: null })),
      ),
    ),
  ).toBeNull();
  expect(
    initiated(
      views(
        fresh,
        changed(up, 1, () => ({ initiated: true })),
      ),
    ),
  ).toBe(true);
  expect(initiated([])).toBeNull();
});

test('A9.4 a member runs its snapshot when process, answer and version all say so', () => {
  const member = state.members[0]!;
  const wanted = withMember(state, 'orders-0', { activated: { ...member.activated!, configVersion: 2 } });
  const o = seen(wanted, d, HEALTHY);
  const reported = (configVersion: number, kind: 'running' | 'starting' = 'running'): Observed => ({
    ...o,
    members: o.members.map((m) => ({
      ...m,
      facts: m.facts && {
        ...m.facts,
        configVersion,
        process:
          kind === 'running'
            ? { kind, pid: 1, since: 0, adopted: false }
            : { kind: 'starting', pid: 1, since: 0 },
      },
    })),
  });
  const runs = (reading: Observed): boolean => runsItsSnapshot(views(wanted, reading)[0]!);
  expect([runs(reported(1)), runs(reported(2)), runs(reported(3)), runs(reported(2, 'starting'))]).toEqual([
    false,
    true,
    true,
    false,
  ]);
});

test('S2 a member that was given its change and has not taken it over yet holds back all others', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: { a: 1 } });
  const before = play.reading();
  expect(play.pass()).toBe('reload orders-2');
  // The agent has not said anything new: all three look as healthy as before.
  const p = plan(before, play.desired, play.state, 0);
  expect([p.act, p.converged]).toEqual([null, false]);
  expect(p.waits.map((w) => w.on)).toContain('DisruptionInProgress');
});

test('S6 the same member is asked to initiate every time, however often it failed', () => {
  const fresh = placed(d);
  const o = seen(fresh, d, ['STARTUP', 'STARTUP', 'STARTUP']);
  const via = (failures: number): unknown => {
    const retries = Array.from({ length: failures }, (_, i) => ({
      action: i === 0 ? 'initiate' : 'publish',
      member: i === 0 ? 'orders' : `orders-${i - 1}`,
      failures: i + 1,
      code: 'X',
      message: 'm',
      nextTryAt: 0,
    }));
    return plan(o, d, { ...fresh, retries }, 1).act?.steps[0];
  };
  for (const failures of [0, 1, 2, 3])
    expect(via(failures), `${failures}`).toMatchObject({ kind: 'initiate', via: 'orders-0' });
});

test('S6 a set whose members have all lost their data is not made anew; a person is asked', () => {
  const o = seen(state, d, ['STARTUP', 'STARTUP', 'STARTUP']);
  const p = plan(o, d, state, 0);
  expect([p.act, p.blocks[0]?.by, p.blocks[0]?.needs]).toEqual([null, 'ForeignData', 'person']);
});

test('DEL-06 no volume goes while a runtime is left, also when hosts of others cannot be asked', () => {
  const deleting = desired({ deleting: { keepVolumes: false } });
  const o = { ...seen(state, d, HEALTHY), hosts: [host('db1')] };
  const some = {
    ...state,
    members: state.members.map((m, i) => (i === 0 ? { ...m, serviceId: null } : m)),
  };
  const p = plan(o, deleting, some, 0);
  expect([p.act, p.waits.every((w) => w.on === 'AgentNotConnected')]).toEqual([null, true]);
});
