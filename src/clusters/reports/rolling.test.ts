import { expect, test } from 'vitest';
import { MINUTE, SECOND } from '../../base/units.ts';
import type { Step } from '../decisions.ts';
import type { DatabaseFacts, MemberStateName, PeerFacts } from '../facts.ts';
import { desired, placed, seen } from '../fixtures.ts';
import { guard } from '../guard.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { status } from '../status.ts';
import { memberHost } from '../topology.ts';
import type { Desired, Observed } from '../types.ts';

type Database = Extract<DatabaseFacts, { kind: 'reachable' }>;

/** A set whose members see each other and themselves as told. */
class Rolling extends Play {
  /** Changes a member's row in the lists of all its peers, or of one. */
  rows: ((row: PeerFacts, seenBy: number) => PeerFacts) | null = null;
  /** What a look shows instead of the truth; a cache that lags. */
  stale: Observed | null = null;
  readonly stopped: number[] = [];

  constructor() {
    super(desired());
    this.desired = desired({ mongodConfig: { operationProfiling: { slowOpThresholdMs: 50 } } });
  }

  override reading(): Observed {
    if (this.stale !== null) return this.stale;
    const o = super.reading();
    return { ...o, members: o.members.map((m, i) => ({ ...m, facts: m.facts && this.view(m.facts, i) })) };
  }

  private view(facts: NonNullable<Observed['members'][number]['facts']>, index: number): typeof facts {
    const { database } = facts;
    if (database?.kind !== 'reachable' || this.rows === null) return facts;
    const peers = database.peers.map((row) => this.rows?.(row, index) ?? row);
    return { ...facts, database: { ...database, peers } satisfies Database };
  }

  override perform(step: Step): void {
    if (step.kind === 'reload')
      this.stopped.push(this.state.members.find((m) => m.name === step.member)?.index ?? -1);
    super.perform(step);
  }

  hostOf(index: number): string {
    return memberHost(this.state.members[index]!) ?? '';
  }

  wait(passes: number): void {
    for (let i = 0; i < passes; i++) expect(this.pass()).toMatch(/^wait /);
  }
}

test('ROL-01 S1 the next member waits while the restarted one syncs, recovers or lags, and the guard looks again', () => {
  const play = new Rolling();
  expect(play.pass()).toBe('reload orders-2');
  for (const busy of ['STARTUP2', 'RECOVERING', 'ROLLBACK'] as MemberStateName[]) {
    play.states[2] = busy;
    play.wait(5);
  }
  play.states[2] = 'SECONDARY';
  play.rows = (row) => (row.host === play.hostOf(2) ? { ...row, lagMillis: 300_000 } : row);
  play.wait(5);
  const step: Step = { kind: 'reload', member: 'orders-1', configVersion: 2 };
  expect(guard(step, play.reading(), play.desired, play.state, play.now)?.reason).toBe('OperationPending');
  expect(play.stopped).toEqual([2]);
  play.rows = null;
  expect(play.pass()).toBe('reload orders-1');
});

test('ROL-01 S1 lag that comes up between plan and effect is seen by the guard', () => {
  const play = new Rolling();
  play.state = advance(play.state, play.desired, play.reading(), 0);
  const step = plan(play.reading(), play.desired, play.state, 0).act?.steps[0] as Step;
  expect(step).toMatchObject({ kind: 'reload', member: 'orders-2' });
  play.rows = (row) => (row.host === play.hostOf(1) ? { ...row, lagMillis: 300_000 } : row);
  expect(guard(step, play.reading(), play.desired, play.state, 0)?.reason).toBe('WouldLoseMajority');
});

test('ROL-02 a start that takes long (indexes, recovery) is not over while the database does not answer; it shows', () => {
  const play = new Rolling();
  play.pass();
  const o = play.reading();
  const message = 'port 27017 does not answer yet: index build in progress';
  const members = o.members.map((m, i) =>
    i === 2 && m.facts
      ? { ...m, facts: { ...m.facts, database: { kind: 'unreachable', message } as const } }
      : m,
  );
  play.stale = { ...o, members };
  for (let minute = 0; minute < 180; minute++) {
    play.now += MINUTE;
    play.wait(1);
  }
  expect(play.stopped).toEqual([2]);
  const decided = plan(play.stale, play.desired, play.state, play.now);
  const is = status({
    observed: play.stale,
    desired: play.desired,
    state: play.state,
    plan: decided,
    now: play.now,
    warnings: [],
    before: null,
  });
  expect(is.members[2]?.message).toContain('index build in progress');
});

test('ROL-06 S2 a view that lags behind shows the stopped member as it was: no second one is stopped on it', () => {
  const play = new Rolling();
  const before = play.reading();
  play.pass();
  play.stale = before;
  play.wait(30);
  expect(play.stopped).toEqual([2]);
  const other: Step = { kind: 'reload', member: 'orders-1', configVersion: 2 };
  expect(guard(other, before, play.desired, play.state, play.now)?.reason).toBe('OperationPending');
  play.stale = null;
  expect(play.pass()).toBe('reload orders-1');
});

test('ROL-07 S1 the next member waits until every healthy peer sees the restarted one, and says who does not', () => {
  const play = new Rolling();
  play.pass();
  play.rows = (row, seenBy) =>
    row.host === play.hostOf(2) && seenBy === 1 ? { ...row, healthy: false } : row;
  play.wait(40);
  const { waits } = plan(play.reading(), play.desired, play.state, play.now);
  expect(waits.map((w) => w.detail).join()).toContain('orders-2 is back, but orders-1 does not see it yet');
  expect(play.stopped).toEqual([2]);
  play.rows = null;
  expect(play.pass()).toBe('reload orders-1');
});

test('ROL-07 L3 who is waited for is said with what it lacks, also where all voters are healthy', () => {
  const play = new Rolling();
  play.rows = (row, seenBy) =>
    row.host === play.hostOf(1) && seenBy === 0 ? { ...row, healthy: false } : row;
  const waits = (): string => {
    const state = advance(play.state, play.desired, play.reading(), 0);
    return plan(play.reading(), play.desired, state, 0)
      .waits.map((w) => w.detail)
      .join('\n');
  };
  expect(waits()).toContain(
    'restart of orders-2 waits for orders-1 (orders-0 does not see it yet): healthy voters 3 of 3, majority 2',
  );
  play.rows = null;
  play.states[1] = 'RECOVERING';
  expect(waits()).toContain('waits for orders-1 (RECOVERING): healthy voters 2 of 3');
  play.states[1] = null;
  expect(waits()).toContain('waits for orders-1 (not reported): healthy voters 2 of 3');
});

test('ROL-07 S1 a peer’s doubt that comes up after the plan stops the guard too', () => {
  const play = new Rolling();
  play.rows = (row, seenBy) =>
    row.host === play.hostOf(1) && seenBy === 0 ? { ...row, healthy: false } : row;
  const state = advance(play.state, play.desired, play.reading(), 0);
  expect(plan(play.reading(), play.desired, state, 0).act).toBeNull();
  const step: Step = { kind: 'reload', member: 'orders-2', configVersion: 2 };
  expect(guard(step, play.reading(), play.desired, state, 0)?.reason).toBe('WouldLoseMajority');
});

/** A member that a person added to the set is primary; none of ours is. */
function withExternalPrimary(play: Rolling): Observed {
  const o = play.reading();
  const external = 'elsewhere:27017';
  const config = {
    ...play.config,
    members: [...play.config.members, { _id: 9, host: external, priority: 10, votes: 1 as const }],
  };
  const members = o.members.map((m) => {
    if (m.facts?.database?.kind !== 'reachable') return m;
    const { peers } = m.facts.database;
    const first = peers[0] as PeerFacts;
    const row: PeerFacts = { ...first, id: 9, host: external, state: 'PRIMARY', lagMillis: null };
    const others = peers.map((p) => ({ ...p, state: 'SECONDARY' as const, lagMillis: 0 }));
    const database: Database = {
      ...m.facts.database,
      state: 'SECONDARY',
      writablePrimary: false,
      primary: external,
      config,
      peers: [...others, row],
    };
    return { ...m, facts: { ...m.facts, database } };
  });
  return { ...o, members };
}

test('ROL-11 a primary outside of our reach is never asked for anything: no step-down, no reconfiguration', () => {
  const play = new Rolling();
  const outside = withExternalPrimary(play);
  for (const want of [play.desired, desired({}, 5), desired({}, 1)]) {
    let state = play.state;
    for (let now = 0; now < MINUTE; now += SECOND) {
      state = advance(state, want, outside, now);
      const kinds = plan(outside, want, state, now).act?.steps.map((s) => s.kind) ?? [];
      expect(kinds).not.toContain('stepDown');
      expect(kinds).not.toContain('reconfig');
    }
  }
  const step: Step = { kind: 'stepDown', replicaSet: 'orders', member: 'orders-0' };
  expect(guard(step, outside, play.desired, play.state, 0)?.reason).toBe('NotPrimary');
});

test('ROL-13 a slow first start is waited for: nobody is started again because it takes long', () => {
  const want: Desired = desired();
  let state = placed(want, { stage: 'deployed' });
  const o = seen(state, want, ['STARTUP', 'STARTUP', 'STARTUP']);
  const pulling = {
    ...o,
    members: o.members.map((m) => ({
      ...m,
      facts: m.facts && {
        ...m.facts,
        process: { kind: 'starting', pid: 1, since: 0 } as const,
        database: null,
      },
    })),
  };
  for (let now = 0; now < 30 * MINUTE; now += 5 * SECOND) {
    state = advance(state, want, pulling, now);
    const decided = plan(pulling, want, state, now);
    expect(decided.act).toBeNull();
    expect(decided.waits.map((w) => w.on)).toContain('ProcessStarting');
  }
  state = advance(state, want, o, 30 * MINUTE);
  expect(plan(o, want, state, 30 * MINUTE).act?.steps.map((s) => s.kind)).toEqual(['initiate']);
});
