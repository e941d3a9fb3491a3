/** When a set has lost its majority, and who goes on (QRM). */
import { expect, test } from 'vitest';
import { desired } from '../fixtures.ts';
import { views } from '../interpret.ts';
import { Play } from '../play.ts';
import type { Desired, Observed } from '../types.ts';
import { lostQuorum, survivorsOnly } from './quorum.ts';

/** What is lost of a set when these hosts are; `seen` changes what the members that are left say. */
function lost(want: Desired, hosts: readonly string[], change: (o: Observed) => Observed = (o) => o) {
  const set = new Play(want);
  for (const name of hosts) set.lose(name);
  return lostQuorum(views(set.state, change(set.reading())));
}
const mute = { votes: 0 as const, priority: 0 };

test('QRM-01 members without a vote neither make up a majority nor are missed', () => {
  const base = desired({}, 7);
  const want = { ...base, members: base.members.map((m, i) => (i < 5 ? m : { ...m, ...mute })) };
  expect(lost(want, ['db3', 'db4', 'db5'])).toMatchObject({
    down: ['orders-2', 'orders-3', 'orders-4'],
    voters: 5,
  });
  expect(lost(want, ['db4', 'db5', 'db6', 'db7'])).toBeNull();
});

test('QRM-03 S5 a voter whose agent is silent is lost only when everybody who answers has lost it', () => {
  const three = desired();
  expect(lost(three, ['db2', 'db3'])?.down).toEqual(['orders-1', 'orders-2']);
  const five = desired({}, 5);
  expect(lost(five, ['db3', 'db4', 'db5'])?.voters).toBe(5);
  // One of the two that are left still hears the third one.
  const heard = (o: Observed): Observed => ({
    ...o,
    members: o.members.map((m) =>
      m.name === 'orders-1' && m.facts?.database?.kind === 'reachable'
        ? {
            ...m,
            facts: {
              ...m.facts,
              database: {
                ...m.facts.database,
                peers: m.facts.database.peers.map((p) => (p.id === 2 ? { ...p, healthy: true } : p)),
              },
            },
          }
        : m,
    ),
  });
  expect(lost(five, ['db3', 'db4', 'db5'], heard)).toBeNull();
});

test('QRM-03 the first of those that are left can become primary, whatever it was; the others stay as they were', () => {
  const row = (id: number, change = {}) => ({
    _id: id,
    host: `db${id}:27017`,
    priority: 1,
    votes: 1 as const,
    ...change,
  });
  const hidden = { ...mute, hidden: true, secondaryDelaySecs: 3_600 };
  const config = { _id: 'orders', version: 1, members: [row(0), row(1, hidden), row(2, hidden)] };
  expect(survivorsOnly(config, ['db1:27017', 'db2:27017'])).toEqual([
    row(1, { hidden: false, secondaryDelaySecs: 0 }),
    row(2, hidden),
  ]);
  expect(survivorsOnly(config, ['db0:27017'])).toEqual([row(0)]);
});
