/** A vote on its way: what others must know of it, and when it is not given. */
import { expect, test } from 'vitest';
import { desired } from './fixtures.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { status } from './status.ts';
import type { Observed, State } from './types.ts';

/** One member grows to three; the next step gives orders-1 its vote. */
function growing(): Play {
  const play = new Play(desired({}, 1));
  play.desired = desired({ generation: 2 });
  while (!play.pass().endsWith('join without vote and priority'));
  expect(play.pass()).toBe('wait InitialSync');
  return play;
}

function told(play: Play, observed: Observed, state: State): readonly unknown[] {
  const { desired: want, now } = play;
  const decided = plan(observed, want, state, now);
  const is = status({ observed, desired: want, state, plan: decided, now, warnings: [], before: null });
  return (is.members ?? []).map((m) => [m.votes, m.voteSent ?? false]);
}

test('S13 C5.3 a vote is told as sent from the intent on until it was seen: before that nobody knows what can be spared', () => {
  const play = growing();
  const before = play.reading();
  play.now += 1000;
  const state = advance(play.state, play.desired, before, play.now);
  // With the very intent.
  expect(told(play, before, state)).toEqual([
    [1, false],
    [0, true],
    [0, false],
  ]);
  expect(play.pass()).toBe('orders-1 gets its vote: votes 1 → 2, majority 1 → 2');
  // It is done, and the last reading does not show it.
  expect(told(play, before, play.state)[1]).toEqual([0, true]);
  const seen = play.reading();
  expect(told(play, seen, advance(play.state, play.desired, seen, play.now))[1]).toEqual([1, false]);
});

test('C2.5 S1 nobody gets a vote while somebody works on it: it was given away because it has none', () => {
  const play = growing();
  const held = { member: 'orders-1', task: 'kernel', owner: 'eve', until: null };
  const o = { ...play.reading(), maintenance: [held] };
  play.now += 1000;
  const state = advance(play.state, play.desired, o, play.now);
  expect(plan(o, play.desired, state, play.now).act?.because).toBe('ScaleUp');
  const both = { ...o, maintenance: [held, { ...held, member: 'orders-2' }] };
  const { act, waits } = plan(both, play.desired, state, play.now);
  expect([act, waits.map((w) => w.detail)]).toEqual([
    null,
    expect.arrayContaining(['orders-1 is in maintenance; it votes afterwards']),
  ]);
  expect(play.pass()).toMatch(/^orders-1 gets its vote/);
});
