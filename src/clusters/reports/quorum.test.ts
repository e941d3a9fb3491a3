import { expect, test } from 'vitest';
import type { Step } from '../decisions.ts';
import { desired } from '../fixtures.ts';
import { guard } from '../guard.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { preview } from '../preview.ts';
import { status } from '../status.ts';
import type { Observed, OperationRequest } from '../types.ts';

const REQUEST: OperationRequest = {
  uid: 'force',
  name: 'orders-force-reconfig-x',
  spec: {
    type: 'ForceReconfig',
    mongodbResourceRef: { name: 'orders' },
    acknowledge: 'LoseUnreplicatedWrites',
  },
  createdAt: 0,
  cancelRequested: false,
};

/** Five members over two sites, of which one is lost; the survivors know when they last wrote. */
class TwoSites extends Play {
  writes: Readonly<Record<string, number>> = {};
  /** Members that a forced reconfiguration left out and that have come back. */
  readonly back = new Set<string>();

  constructor(members = 5) {
    super(desired({}, members));
    this.now = 7_200_000;
  }

  override reading(): Observed {
    const o = super.reading();
    const members = o.members.map((m) => {
      if (m.facts?.database?.kind !== 'reachable') return m;
      const at = this.writes[m.name];
      const lone = this.primary() === null && at !== undefined ? { lastAppliedAt: at } : {};
      const removed = this.back.has(m.name) && !m.facts.database.initiated;
      const outside = removed ? { initiated: true, state: 'REMOVED' as const, replicaSetId: 'id-1' } : {};
      return { ...m, facts: { ...m.facts, database: { ...m.facts.database, ...lone, ...outside } } };
    });
    return { ...o, members };
  }

  status() {
    const observed = this.reading();
    this.state = advance(this.state, this.desired, observed, this.now);
    const decided = plan(observed, this.desired, this.state, this.now);
    const { desired: want, state, now } = this;
    return status({ observed, desired: want, state, plan: decided, now, warnings: [], before: null });
  }
}

function siteLost(): TwoSites {
  const play = new TwoSites();
  for (const host of ['db3', 'db4', 'db5']) play.lose(host);
  play.writes = { 'orders-0': 1_000, 'orders-1': 3_600_000 };
  return play;
}

const steps = (play: Play, passes: number): readonly string[] =>
  Array.from({ length: passes }, () => play.pass());

test('QRM-01 QRM-03 a lost majority is said with who is missing, who is left and the newest write, and nothing is forced', () => {
  const play = siteLost();
  for (const line of steps(play, 60)) expect(line).not.toMatch(/goes on with|leaves|settings/);
  const is = play.status();
  expect(is.phase).toBe('Degraded');
  const message = is.conditions.find((c) => c.type === 'Blocked')?.message ?? '';
  expect(is.conditions.find((c) => c.type === 'Blocked')?.reason).toBe('QuorumLost');
  const lost =
    'orders has lost its majority: orders-2, orders-3, orders-4 not known and reached by nobody, 3 of 5 voters';
  expect(message).toContain(lost);
  // The other condition says no more of them than this one.
  expect(is.conditions.find((c) => c.type === 'Ready')?.message).toContain('3 not known');
  expect(message).toContain('up: orders-1, orders-0; the newest write is in orders-1');
  expect(message).toContain('belay force-reconfig orders --acknowledge LoseUnreplicatedWrites');
  expect(play.config.members).toHaveLength(5);
});

test('QRM-01 L3 of those that are lost, who is down and who is only not heard of are told apart', () => {
  const play = new TwoSites();
  for (const host of ['db3', 'db4']) play.lose(host);
  play.crash(4);
  play.pass();
  expect(play.status().conditions.find((c) => c.type === 'Blocked')?.message).toContain(
    'orders-4 down, orders-2, orders-3 not known and reached by nobody, 3 of 5 voters',
  );
});

test('QRM-03 S5 the acknowledged operation keeps the survivors, goes through the freshest, and a primary is elected', () => {
  const play = siteLost();
  play.requests = [REQUEST];
  const shown = preview(play.reading(), play.desired, play.state, play.now).steps.map((s) => s.detail);
  expect(shown[0]).toBe('orders goes on with 2 of 5 members, forced through orders-1');
  expect(play.pass()).toBe('orders goes on with 2 of 5 members, forced through orders-1');
  expect(play.config.members.map((row) => [row.host, row.votes, row.priority])).toEqual([
    ['db1:27017', 1, 1],
    ['db2:27017', 1, 1],
  ]);
  play.vote();
  expect(play.primary()).not.toBeNull();
  play.pass();
  expect(play.state.ended).toMatchObject([
    {
      uid: 'force',
      state: 'Succeeded',
      message: expect.stringContaining('left out: orders-2, orders-3, orders-4'),
    },
  ]);
  expect(play.status().conditions.find((c) => c.type === 'Blocked')?.reason).not.toBe('QuorumLost');
});

test('QRM-03 members that tell of their primary before they tell of their configuration do not make it a failure', () => {
  const play = siteLost();
  play.requests = [REQUEST];
  const old = play.config;
  play.pass();
  const forced = play.config;
  play.config = old;
  play.states = ['SECONDARY', 'PRIMARY'];
  play.pass();
  expect(play.state.ended).toEqual([]);
  play.config = forced;
  play.pass();
  expect(play.state.ended).toMatchObject([{ state: 'Succeeded' }]);
});

test('QRM-03 a set that came back by itself before anything was sent is left as it is', () => {
  const play = siteLost();
  play.requests = [REQUEST];
  const o = play.reading();
  play.state = advance(play.state, play.desired, o, play.now);
  for (const host of ['db3', 'db4', 'db5']) play.lose(host, false);
  play.pass();
  expect(play.state.ended).toMatchObject([
    { state: 'Failed', message: expect.stringContaining('nothing was forced') },
  ]);
  expect(play.config.members).toHaveLength(5);
});

test('QRM-03 S4 who was left out joins again like a new member when its host is back; nobody’s volume is touched', () => {
  const play = siteLost();
  play.requests = [REQUEST];
  play.pass();
  play.vote();
  play.pass();
  play.requests = [];
  for (const [i, host] of ['db3', 'db4', 'db5'].entries()) {
    play.back.add(`orders-${i + 2}`);
    play.lose(host, false);
  }
  const lines = play.toTheEnd(80);
  expect(lines.at(-1)).toBe('converged');
  expect(lines.filter((l) => /delete/.test(l))).toEqual([]);
  expect(lines.some((l) => l.includes('join without vote and priority'))).toBe(true);
  expect(play.config.members.map((row) => row.votes)).toEqual([1, 1, 1, 1, 1]);
});

test('QRM-03 S5 it is refused while there is a primary, a majority, or a loss that only silence tells', () => {
  const whole = new TwoSites();
  whole.requests = [REQUEST];
  whole.pass();
  expect(whole.state.ended).toMatchObject([
    { state: 'Failed', message: expect.stringContaining('nothing is forced') },
  ]);
  const enough = new TwoSites();
  enough.lose('db4');
  enough.lose('db5');
  enough.states = ['SECONDARY', 'SECONDARY', 'SECONDARY'];
  enough.requests = [REQUEST];
  enough.pass();
  expect(enough.state.ended).toMatchObject([{ state: 'Failed' }]);
  const silent = siteLost();
  silent.requests = [REQUEST];
  const o = silent.reading();
  const seeing: Observed = {
    ...o,
    members: o.members.map((m) =>
      m.facts?.database?.kind === 'reachable'
        ? {
            ...m,
            facts: {
              ...m.facts,
              database: {
                ...m.facts.database,
                peers: m.facts.database.peers.map((p) => ({ ...p, healthy: true })),
              },
            },
          }
        : m,
    ),
  };
  const told = advance(silent.state, silent.desired, seeing, silent.now);
  expect(told.ended).toMatchObject([{ state: 'Failed' }]);
  expect(plan(seeing, silent.desired, told, silent.now).blocks.map((b) => b.by)).not.toContain('QuorumLost');
});

test('QRM-03 S5 the guard refuses a forced step without the operation, after the loss is over, and when a survivor came back', () => {
  const play = siteLost();
  play.requests = [REQUEST];
  const o = play.reading();
  const state = advance(play.state, play.desired, o, play.now);
  const step = plan(o, play.desired, state, play.now).act?.steps[0] as Step;
  expect(step).toMatchObject({ kind: 'reconfig', via: 'orders-1', forcedBy: 'force' });
  expect(guard(step, o, play.desired, state, play.now)).toBeNull();
  expect(guard(step, o, play.desired, { ...state, operation: null }, play.now)?.reason).toBe(
    'NotAcknowledged',
  );
  play.lose('db3', false);
  expect(guard(step, play.reading(), play.desired, state, play.now)?.reason).toBe('NotAcknowledged');
});

test('QRM-01 S5 what shrinks by a document goes one by one and never below a majority, whatever goes down meanwhile', () => {
  const play = new TwoSites();
  play.desired = desired();
  play.lose('db5');
  play.lose('db4');
  const lines = play.toTheEnd(60);
  expect(lines.filter((l) => l.includes('leaves'))).toEqual([
    'orders-4 leaves: votes 5 → 4, majority 3 → 3',
    'orders-3 leaves: votes 4 → 3, majority 3 → 2',
  ]);
});
