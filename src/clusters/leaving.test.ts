import { expect, test } from 'vitest';
import type { ConfigMember, ReplSetConfig } from './facts.ts';
import { desired } from './fixtures.ts';
import { guard } from './guard.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { withMember } from './state.ts';
import type { DesiredMember, Observed } from './types.ts';

/** The set's configuration with one row changed. */
const withRow = ({ config }: Play, index: number, change: Partial<ConfigMember>): ReplSetConfig => ({
  ...config,
  members: config.members.map((row) => (row._id === index ? { ...row, ...change } : row)),
});

/** The reading of a moment at which a member still runs with what it had before. */
function stillAsBefore(o: Observed, name: string): Observed {
  const before = (m: Observed['members'][number]) =>
    m.name === name && m.facts !== null ? { ...m, facts: { ...m.facts, configVersion: 1 } } : m;
  return { ...o, members: o.members.map(before) };
}

test('S2 A6.4 a member that is being restarted when it becomes one too many is seen to its end before it leaves', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: { a: 1 }, generation: 2 });
  expect(play.pass()).toBe('reload orders-2');
  // It is told, still quiesces and looks as healthy as ever.
  const o = stillAsBefore(play.reading(), 'orders-2');
  const fewer = desired({ mongodConfig: { a: 1 }, interruption: true, generation: 3 }, 1);
  const state = advance(play.state, fewer, o, play.now + 1);
  expect(state.members.map((m) => m.stage)).toEqual(['active', 'removing', 'reloading']);
  const reload = { kind: 'reload', member: 'orders-1', configVersion: 2 } as const;
  expect(guard(reload, o, fewer, state, play.now + 1)?.reason).toBe('OperationPending');
  expect(plan(o, fewer, state, play.now + 1).act).toBeNull();
  play.desired = fewer;
  expect(play.toTheEnd().at(-1)).toBe('converged');
  expect(play.config.members).toHaveLength(1);
});

test('A6.4 one that is down with its change, or unknown, may leave at once', () => {
  for (const goes of [(p: Play) => p.crash(2), (p: Play) => p.lose('db3')]) {
    const play = new Play(desired());
    play.desired = desired({ mongodConfig: { a: 1 }, generation: 2 });
    play.pass();
    goes(play);
    play.desired = desired({ mongodConfig: { a: 1 }, generation: 3 }, 1);
    expect(play.pass()).toBe('orders-2 leaves: votes 3 → 2, majority 2 → 2');
  }
});

test('S1 A6.4 a member that goes down any moment is no part of a majority that is to be left', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: { a: 1 }, generation: 2 });
  play.pass();
  play.desired = desired({ mongodConfig: { a: 1 }, generation: 3 }, 2);
  const o = stillAsBefore(play.reading(), 'orders-2');
  const state = advance(play.state, play.desired, o, play.now + 1);
  const config = { ...play.config, version: 2, members: play.config.members.filter((r) => r._id !== 1) };
  const step = { kind: 'reconfig', replicaSet: 'orders', via: 'orders-0', config, change: '' } as const;
  expect(guard(step, o, play.desired, state, play.now + 1)?.reason).toBe('WouldLoseMajority');
});

test('S3 L1 a primary that is not to be one any more waits with its hand-over for those who get their votes first', () => {
  const play = new Play(desired({}, 1));
  const [first, ...rest] = desired().members as [DesiredMember, DesiredMember, DesiredMember];
  play.desired = desired({ members: [{ ...first, priority: 0 }, ...rest], generation: 2 });
  expect(play.toTheEnd().filter((line) => /vote|stepDown|settings|converged/.test(line))).toEqual([
    'orders-1, orders-2 join without vote and priority',
    'orders-1 gets its vote: votes 1 → 2, majority 1 → 2',
    'orders-2 gets its vote: votes 2 → 3, majority 2 → 2',
    'stepDown orders-0',
    'settings of orders-0',
    'converged',
  ]);
});

test('S2 A8.1 one whose upgrade is taken back is under way until its process, which is ending, was seen to be followed', () => {
  const play = new Play(desired({ version: '8.0.29-13' }));
  play.desired = desired({ version: '8.0.32-14', generation: 2 });
  expect([play.pass(), play.pass()]).toEqual(['upgrade orders-2', 'upgrade orders-1']);
  play.desired = desired({ version: '8.0.29-13', generation: 3 });
  play.perform({ kind: 'upgrade', member: 'orders-1', version: '8.0.29-13' });
  // It has all that it is to have, and answers; only its agent knows that it does so for a moment yet.
  const o = play.reading();
  const ending = {
    ...o,
    members: o.members.map((m) =>
      m.name === 'orders-1' && m.facts?.process.kind === 'running'
        ? { ...m, facts: { ...m.facts, process: { ...m.facts.process, stopping: true as const } } }
        : m,
    ),
  };
  const state = advance(play.state, play.desired, ending, play.now + 1);
  const decided = plan(ending, play.desired, state, play.now + 1);
  expect([decided.act, decided.waits.map((w) => w.detail)]).toEqual([
    null,
    ['orders-1 restarts; no other member is touched meanwhile', 'orders-1 is being stopped'],
  ]);
  const upgrade = { kind: 'upgrade', member: 'orders-2', version: '8.0.29-13' } as const;
  expect(guard(upgrade, ending, play.desired, state, play.now + 1)?.reason).toBe('OperationPending');
  expect(play.pass()).toBe('upgrade orders-2');
});

test('S3 A6.4 a primary that leaves and has a successor hands over at once; without one those who stay are let in and get their votes first', () => {
  const leader = (members: number, ofSpec: number): Play => {
    const play = new Play(desired({}, members));
    play.states = play.states.map((_, i) => (i === members - 1 ? 'PRIMARY' : 'SECONDARY'));
    play.desired = desired({ generation: 2 }, ofSpec);
    return play;
  };
  const settings = leader(3, 2);
  settings.config = withRow(settings, 0, { tags: { old: 'yes' } });
  expect(settings.pass()).toBe('stepDown orders-2');

  const promoted = leader(3, 2);
  for (const index of [0, 1]) {
    promoted.config = withRow(promoted, index, { votes: 0, priority: 0 });
    promoted.state = withMember(promoted.state, `orders-${index}`, { stage: 'syncing', caughtUpSince: 0 });
  }
  expect(promoted.pass()).toBe('orders-0 gets its vote: votes 1 → 2, majority 1 → 2');

  const joined = leader(2, 1);
  joined.config = { ...joined.config, members: joined.config.members.filter((row) => row._id !== 0) };
  joined.state = withMember(joined.state, 'orders-0', { stage: 'healthy' });
  expect(joined.pass()).toBe('orders-0 join without vote and priority');
});

test('L3 S3 a primary that leaves and has nobody to take over says so, and who holds up a change is named', () => {
  const play = new Play(desired());
  play.states = ['SECONDARY', 'SECONDARY', 'PRIMARY'];
  for (const index of [0, 1]) play.config = withRow(play, index, { priority: 0 });
  const member = { ...(desired().members[0] as DesiredMember), priority: 0 };
  play.desired = desired({ members: [member, member], generation: 2 });
  const state = advance(play.state, play.desired, play.reading(), 1);
  const [wait] = plan(play.reading(), play.desired, state, 1).waits.filter((w) => /primary/.test(w.detail));
  expect(wait?.detail).toBe('orders-2 is primary and leaves; no caught-up member could take over');

  const sick = new Play(desired({}, 4));
  sick.states = ['PRIMARY', 'RECOVERING', 'RECOVERING', 'SECONDARY'];
  const fewer = desired({ generation: 2 }, 3);
  const learnt = advance(sick.state, fewer, sick.reading(), 1);
  expect(plan(sick.reading(), fewer, learnt, 1).waits.map((w) => w.detail)).toContain(
    "the set's members are not changed while orders-1, orders-2 cannot be counted on",
  );
});

test('L1 S3 a primary that is to lead no more hands over while others still copy, where somebody could take over', () => {
  const play = new Play(desired());
  play.config = withRow(play, 2, { votes: 0, priority: 0 });
  play.state = withMember(play.state, 'orders-2', { stage: 'syncing' });
  play.states = ['PRIMARY', 'SECONDARY', 'STARTUP2'];
  const [first, ...rest] = desired().members as [DesiredMember, DesiredMember, DesiredMember];
  play.desired = desired({ members: [{ ...first, priority: 0 }, ...rest], generation: 2 });
  expect(play.pass()).toBe('stepDown orders-0');
});

test('A6.3 S1 a vote is given only to one that was seen caught up before, and is well now', () => {
  const gets = (caughtUpSince: number | null, state: 'SECONDARY' | 'RECOVERING'): boolean => {
    const play = new Play(desired());
    play.config = withRow(play, 2, { votes: 0, priority: 0 });
    play.states = ['PRIMARY', 'SECONDARY', state];
    const record = withMember(play.state, 'orders-2', { stage: 'syncing', caughtUpSince });
    // As it was when the record was read: nothing is learnt in between.
    const { act } = plan(play.reading(), play.desired, record, 5000);
    return act?.detail.includes('orders-2 gets its vote') === true;
  };
  expect([gets(1000, 'SECONDARY'), gets(null, 'SECONDARY'), gets(5000, 'SECONDARY')]).toEqual([
    true,
    false,
    false,
  ]);
  expect(gets(1000, 'RECOVERING')).toBe(false);
});
