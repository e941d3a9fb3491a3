/** A snapshot that was sent and whose answer is not known. */
import { expect, test } from 'vitest';
import { desired, placed, seen } from './fixtures.ts';
import { guard } from './guard.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { memberOf, withMember } from './state.ts';
import { applyOutcome, cancelStep, startStep } from './steps.ts';
import type { ActivatedSnapshot, Desired, Observed, State } from './types.ts';

const CONFIG = { operationProfiling: { slowOpThresholdMs: 50 } };
const UNKNOWN = { kind: 'unknown', code: 'Timeout', message: 'no answer' } as const;

/** The first step of a change of configuration is on its way. */
function begun(change: Partial<Desired> = {}) {
  const play = new Play(desired(change));
  const wanted = desired({ ...change, mongodConfig: CONFIG, generation: 2 });
  const state = advance(play.state, wanted, play.reading(), 1000);
  const step = plan(play.reading(), wanted, state, 1000).act?.steps[0];
  if (step?.kind !== 'reload') throw new Error('no reload');
  return { play, wanted, step, sent: startStep(state, step, 's1', 1000) };
}

test('S2 A3.1 whose snapshot was sent without an answer is given one again before another member is touched', () => {
  const { play, wanted, step, sent } = begun();
  const state = applyOutcome(sent, step, 's1', UNKNOWN, 16_000);
  // It looks as before: healthy, with what it had. It may be on its way down all the same.
  const later = advance(state, wanted, play.reading(), 20_000);
  expect(later.members.find((m) => m.name === step.member)?.stage).toBe('reloading');
  expect(plan(play.reading(), wanted, later, 20_000).act?.steps).toMatchObject([
    { kind: 'reload', member: step.member },
  ]);
});

test('S2 CFG-01 such a member comes before a primary that is to be hidden and hands over for that', () => {
  const { play, wanted, step, sent } = begun();
  const state = applyOutcome(sent, step, 's1', UNKNOWN, 16_000);
  const members = wanted.members.map((m, i) => (i === 0 ? { ...m, hidden: true, priority: 0 } : m));
  const hidden = { ...wanted, members, generation: 3 };
  const later = advance(state, hidden, play.reading(), 20_000);
  expect(plan(play.reading(), hidden, later, 20_000).act?.steps).toMatchObject([
    { kind: 'reload', member: step.member },
  ]);
  // Whoever has had what it was sent holds nobody up.
  const had = withMember(later, step.member, { stage: 'active', unanswered: [] });
  expect(plan(play.reading(), hidden, had, 20_000).act?.steps).toMatchObject([{ kind: 'stepDown' }]);
});

test('S2 A9.1 the same when what was sent is not wanted any more, and when the control plane died before it heard', () => {
  const { play, sent, step } = begun();
  const before = desired({ generation: 3 });
  const later = advance(sent, before, play.reading(), 20_000);
  const next = plan(play.reading(), before, later, 20_000).act?.steps[0];
  expect(next).toMatchObject({ kind: 'rotateCertificate', member: step.member });
});

test('S2 A9.1 who says that it has what it was sent is given the same again, so that it is known what it runs with', () => {
  const { play, wanted, step, sent } = begun();
  const took = tookIt(play, step);
  const later = advance(sent, wanted, took, 20_000);
  expect(stageOf(later, step.member)).toBe('reloading');
  expect(plan(took, wanted, later, 20_000).act?.steps).toEqual([step]);
  const activated = { ...activatedOf(later, step.member), configVersion: step.configVersion };
  const done = { kind: 'done', result: { snapshot: activated } } as const;
  const known = advance(applyOutcome(later, step, 's2', done, 21_000), wanted, took, 21_000);
  expect(known.members.find((m) => m.name === step.member)).toMatchObject({
    stage: 'active',
    unanswered: [],
  });
});

test('S15 A9.1 who took what nobody wants any more is given what is wanted, also when it does not come up with it', () => {
  const { play, sent, step } = begun();
  const before = desired({ generation: 3 });
  for (const down of [false, true]) {
    if (down) play.down.add(2);
    const took = tookIt(play, step);
    const later = advance(sent, before, took, 20_000);
    expect(stageOf(later, step.member)).toBe('reloading');
    const next = plan(took, before, later, 20_000).act?.steps[0];
    if (next?.kind !== 'reload') throw new Error(`${next?.kind}`);
    expect(next.member).toBe(step.member);
    expect(next.configVersion).toBeGreaterThan(step.configVersion);
  }
});

test('A3.1 what was refused before it was sent leaves its member as it was', () => {
  const { play, wanted, step, sent } = begun();
  const later = advance(cancelStep(sent, step, 's1'), wanted, play.reading(), 2000);
  expect(later.members.find((m) => m.name === step.member)).toMatchObject({
    stage: 'active',
    unanswered: [],
  });
});

test('A3.1 S2 what was sent before and never answered is not forgotten when something later is refused', () => {
  const { step, sent } = begun();
  const again = { ...step, configVersion: step.configVersion + 1 };
  const twice = startStep(sent, again, 's2', 2000);
  const failed = { kind: 'failed', code: 'X', message: 'no', retry: 'later' } as const;
  for (const after of [cancelStep(twice, again, 's2'), applyOutcome(twice, again, 's2', failed, 3000)])
    expect(memberOf(after, step.member)?.unanswered).toEqual([step.configVersion]);
});

test('S15 STK-11 before a set is initiated too: who may have taken another configuration is given the wanted one', () => {
  const want = desired();
  const state = advance(placed(want), want, seen(placed(want), want, ['STARTUP', 'STARTUP', 'STARTUP']), 1);
  const step = { kind: 'publish', member: 'orders-2', configVersion: 2 } as const;
  const sent = startStep(state, step, 's1', 2);
  const reading = seen(sent, want, ['STARTUP', 'STARTUP', 'STARTUP']);
  const publishes = (of: State): readonly string[] =>
    (plan(reading, want, of, 3).act?.steps ?? []).map((s) => `${s.kind} ${'member' in s ? s.member : ''}`);
  expect(publishes(state)).not.toContain('publish orders-2');
  expect(publishes(sent)).toEqual(['publish orders-2']);
  expect(publishes(cancelStep(sent, step, 's1'))).not.toContain('publish orders-2');
});

test('S2 A9.1 one that did not take what nobody wants any more is not restarted where it takes certificates online; where it cannot, or is down, it is', () => {
  const back = desired({ generation: 3 });
  const next = (play: Play, state: State) =>
    plan(play.reading(), back, advance(state, back, play.reading(), 20_000), 20_000).act?.steps[0];
  const up = begun();
  expect(next(up.play, up.sent)).toMatchObject({ kind: 'rotateCertificate', member: up.step.member });
  const down = begun();
  down.play.down.add(2);
  expect(next(down.play, down.sent)).toMatchObject({ kind: 'reload', member: down.step.member });
  // Its server takes certificates only by a restart.
  const plain = begun();
  const retry = {
    action: 'rotateCertificate',
    failures: 1,
    code: 'CertificateNotTaken',
    message: 'no',
    nextTryAt: 0,
  };
  const refused = { ...plain.sent, retries: [{ ...retry, member: plain.step.member }] };
  expect(next(plain.play, refused)).toMatchObject({ kind: 'reload', member: plain.step.member });
  // Of one that nobody reports nothing is done.
  const away = begun();
  away.play.lose('db3');
  expect(next(away.play, away.sent)).toBeUndefined();
});

test('A8.1 S2 one whose answer is open and that is to have another binary gets that', () => {
  const { play, sent, step } = begun({ version: '8.0.29-13' });
  const newer = desired({ generation: 3 });
  const later = advance(sent, newer, play.reading(), 20_000);
  expect(plan(play.reading(), newer, later, 20_000).act?.steps).toMatchObject([
    { kind: 'upgrade', member: step.member, version: newer.version },
  ]);
});

/** Its agent says that it has what it was sent. */
function tookIt(play: Play, { member, configVersion }: { member: string; configVersion: number }): Observed {
  const read = play.reading();
  const members = read.members.map((m) =>
    m.name === member && m.facts !== null ? { ...m, facts: { ...m.facts, configVersion } } : m,
  );
  return { ...read, members };
}

const stageOf = (state: State, member: string): string | undefined => memberOf(state, member)?.stage;
const activatedOf = (state: State, member: string) => memberOf(state, member)?.activated as ActivatedSnapshot;

test('S6 INI-07 whose initiation was not answered is asked again himself, whatever the spec makes of him since', () => {
  const want = desired();
  const up = ['STARTUP', 'STARTUP', 'STARTUP'] as const;
  const state = placed(want);
  const step = plan(seen(state, want, up), want, state, 1).act?.steps[0];
  if (step?.kind !== 'initiate') throw new Error(`${step?.kind}`);
  expect(step.via).toBe('orders-0');
  const sent = startStep(state, step, 's1', 1);
  const hidden = { votes: 1, priority: 0, hidden: true, secondaryDelaySecs: 0, tags: {} } as const;
  const changed = desired({ members: [hidden, ...desired({}, 2).members], generation: 2 });
  const next = plan(seen(sent, changed, up), changed, sent, 20_000).act?.steps[0];
  if (next?.kind !== 'initiate') throw new Error(`${next?.kind}`);
  expect(next.via).toBe('orders-0');
  expect(next.config.members[0]).toMatchObject({ priority: 1, votes: 1 });
  const other = { ...next, via: 'orders-1' };
  expect(guard(next, seen(sent, changed, up), changed, sent, 20_000)).toBeNull();
  const again = startStep(sent, other, 's2', 20_000);
  expect(guard(other, seen(sent, changed, up), changed, again, 20_000)).toMatchObject({
    reason: 'AlreadyInitiated',
  });
  // Refused for good, anybody may be asked.
  const refused = { kind: 'failed', code: 'X', message: 'no', retry: 'later' } as const;
  const free = applyOutcome(sent, step, 's1', refused, 2);
  expect(free.replicaSets[0]).toMatchObject({ initiating: false, initiatedVia: null });
});

test('S3 L1 one whose answer is open and that has been elected since hands over before it is given it again', () => {
  const { play, wanted, step, sent } = begun();
  const state = applyOutcome(sent, step, 's1', UNKNOWN, 16_000);
  play.states = ['SECONDARY', 'SECONDARY', 'PRIMARY'];
  const later = advance(state, wanted, play.reading(), 20_000);
  expect(stageOf(later, step.member)).toBe('reloading');
  expect(plan(play.reading(), wanted, later, 20_000).act?.steps).toEqual([
    { kind: 'stepDown', replicaSet: 'orders', member: step.member },
  ]);
});
