import { expect, test } from 'vitest';
import type { MongoDBStatus } from '../../model/index.ts';
import { desired, host } from '../fixtures.ts';
import { guard } from '../guard.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { preview } from '../preview.ts';
import { status } from '../status.ts';
import type { Desired, Observed } from '../types.ts';

const CHANGED = { operationProfiling: { slowOpThresholdMs: 50 } };

/** A set with hosts enough for all its members. */
class Roomy extends Play {
  override reading(): Observed {
    const hosts = [1, 2, 3, 4, 5].map((n) => host(`db${n}`));
    return { ...super.reading(), hosts };
  }
}

const statusOf = (play: Play, before: MongoDBStatus | null = null): MongoDBStatus => {
  const observed = play.reading();
  const decided = plan(observed, play.desired, play.state, play.now);
  const { desired: want, state, now } = play;
  return status({ observed, desired: want, state, plan: decided, now, warnings: [], before });
};

test('PAU-01 A14.2 suspended and resumed: the same endpoints; the requirement takes runtimes down and keeps their places', () => {
  const play = new Play(desired());
  const before = statusOf(play);
  play.desired = desired({ suspend: true });
  expect(play.toTheEnd().at(-1)).toBe('converged');
  const asleep = statusOf(play);
  expect([asleep.phase, asleep.endpoints, asleep.connectionString]).toEqual([
    'Suspended',
    before.endpoints,
    before.connectionString,
  ]);
  play.desired = desired();
  expect(play.toTheEnd().at(-1)).toBe('converged');
  const after = statusOf(play);
  expect([after.phase, after.endpoints]).toEqual(['Ready', before.endpoints]);
});

test('PAU-04 a pause changes no setting: what is wanted and remembered afterwards is what was before, and nobody restarts', () => {
  const play = new Play(desired());
  play.pass();
  const before = play.state;
  play.desired = desired({ paused: true });
  for (let i = 0; i < 10; i++) expect(play.pass()).toBe('blocked Paused');
  play.desired = desired();
  expect(play.toTheEnd()).toEqual(['converged']);
  expect(play.state).toEqual(before);
});

/** Everything a set may be in the middle of. */
const CHANGES: readonly (readonly [string, Desired, Desired])[] = [
  ['scale up', desired(), desired({}, 5)],
  ['scale down', desired({}, 5), desired()],
  ['configuration', desired(), desired({ mongodConfig: CHANGED })],
  ['version', desired({ version: '8.0.29-13' }), desired({ version: '8.0.32-14' })],
  ['TLS', desired({ tlsMode: 'preferTLS' }), desired({ tlsMode: 'requireTLS' })],
];

test.each(CHANGES)(
  'PAU-06 suspended and resumed at every step of a change of %s: nothing stays as it was called',
  (_, from, to) => {
    for (let at = 0; at < 40; at++) {
      const play = new Roomy(from);
      play.desired = to;
      let over = false;
      for (let pass = 0; pass < at && !over; pass++) over = play.pass() === 'converged';
      play.desired = { ...to, suspend: true };
      expect(play.toTheEnd(80).at(-1), `step ${at}`).toBe('converged');
      const asleep = statusOf(play);
      expect([asleep.phase, asleep.readyMembers], `step ${at}`).toEqual(['Suspended', 0]);
      play.desired = to;
      const waking = statusOf(play, asleep);
      expect(
        waking.conditions.map((c) => c.reason),
        `step ${at}`,
      ).not.toContain('Suspended');
      expect(play.toTheEnd(160).at(-1), `step ${at}`).toBe('converged');
      const is = statusOf(play, waking);
      expect([is.phase, is.readyMembers], `step ${at}`).toEqual(['Ready', to.members.length]);
      expect(is.conditions.find((c) => c.type === 'Ready')?.status).toBe('True');
      if (over) return;
    }
    throw new Error('the change never ended');
  },
);

test('PAU-08 S11 hands off takes effect before what is queued: none of it is done, and the guard refuses what was planned', () => {
  for (const [what, from, to] of CHANGES) {
    const play = new Play(from);
    const planned = new Play(from);
    planned.desired = to;
    play.desired = { ...to, paused: true };
    for (let i = 0; i < 5; i++) expect(play.pass(), what).toBe('blocked Paused');
    planned.pass();
    const step = plan(planned.reading(), to, planned.state, planned.now).act?.steps[0];
    if (step === undefined) continue;
    const { state, now } = planned;
    expect(guard(step, planned.reading(), play.desired, state, now)?.reason, what).toBe('Paused');
  }
});

test('PAU-08 one cluster is left alone while its neighbour goes on', () => {
  const [still, goes] = [new Play(desired()), new Play(desired({ uid: 'another' }))];
  still.desired = desired({ paused: true, mongodConfig: CHANGED });
  goes.desired = desired({ uid: 'another', mongodConfig: CHANGED });
  expect([still.pass(), goes.pass()]).toEqual(['blocked Paused', 'reload orders-2']);
});

test('PAU-04 S11 the plan of a document that pauses is no refusal: what else it says waits until the pause is over', () => {
  const play = new Play(desired());
  const want = desired({ paused: true, generation: 2, mongodConfig: CHANGED });
  expect(preview(play.reading(), want, play.state, 0)).toEqual({
    steps: [],
    refusals: [],
    waits: [{ on: 'Paused', detail: 'spec.paused is true: Belay only watches' }],
    converges: false,
  });
});
