import { expect, test } from 'vitest';
import { desired } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { preview } from '../preview.ts';
import type { Observed } from '../types.ts';

const CONFIG = { operationProfiling: { slowOpThresholdMs: 50 } };

/** Both secondaries have their configuration; the primary is next. */
function primaryIsNext(): Play {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: CONFIG, generation: 2 });
  expect([play.pass(), play.pass()]).toEqual(['reload orders-2', 'reload orders-1']);
  return play;
}

/** What is planned at a time, of a reading in which one member's process began at another. */
const planned = (play: Play, read: Observed, now: number) =>
  plan(read, play.desired, advance(play.state, play.desired, read, now), now);

const startedAt = (read: Observed, name: string, since: number): Observed => ({
  ...read,
  members: read.members.map((m) =>
    m.name === name && m.facts !== null
      ? { ...m, facts: { ...m.facts, process: { kind: 'running', pid: 1, since, adopted: false } } }
      : m,
  ),
});

test('A8.2 S3 a primary hands over when clients know again of who could take over: ten seconds after they came up', () => {
  const play = primaryIsNext();
  const read = startedAt(play.reading(), 'orders-1', 95_000);
  const soon = planned(play, read, 100_000);
  expect(soon.act).toBeNull();
  expect(soon.waits).toMatchObject([
    {
      on: 'ClientsLookAgain',
      until: 105_000,
      member: 'orders-0',
      detail: expect.stringContaining('orders-1 again'),
    },
  ]);
  expect(planned(play, read, 104_999).act).toBeNull();
  expect(planned(play, read, 105_000).act?.steps).toMatchObject([{ kind: 'stepDown' }]);
});

test('A8.2 a clock of a host that is ahead of ours holds up no hand-over', () => {
  const play = primaryIsNext();
  const read = startedAt(play.reading(), 'orders-1', 3_600_000);
  expect(planned(play, read, 100_000).act?.steps).toMatchObject([{ kind: 'stepDown' }]);
});

test('A13.2 a plan has the hand-over though clients will have to know its secondaries again first', () => {
  const play = new Play(desired());
  const wanted = desired({ mongodConfig: CONFIG, generation: 2 });
  const { steps, waits, converges } = preview(play.reading(), wanted, play.state, 0);
  expect({ verbs: steps.map((s) => s.verb), waits, converges }).toEqual({
    verbs: ['reload', 'reload', 'stepDown', 'reload'],
    waits: [],
    converges: true,
  });
});
