/** A snapshot that was sent and whose answer is not known. */
import { expect, test } from 'vitest';
import { desired } from './fixtures.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { applyOutcome, cancelStep, startStep } from './state.ts';

const CONFIG = { operationProfiling: { slowOpThresholdMs: 50 } };
const UNKNOWN = { kind: 'unknown', code: 'Timeout', message: 'no answer' } as const;

/** The first step of a change of configuration is on its way. */
function begun() {
  const play = new Play(desired());
  const wanted = desired({ mongodConfig: CONFIG, generation: 2 });
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

test('S2 A9.1 the same when what was sent is not wanted any more, and when the control plane died before it heard', () => {
  const { play, sent, step } = begun();
  const before = desired({ generation: 3 });
  const later = advance(sent, before, play.reading(), 20_000);
  const next = plan(play.reading(), before, later, 20_000).act?.steps[0];
  expect(next).toMatchObject({ kind: 'rotateCertificate', member: step.member });
});

test('S2 who says that it has what it was sent is back', () => {
  const { play, wanted, step, sent } = begun();
  const read = play.reading();
  const members = read.members.map((m) =>
    m.name === step.member && m.facts !== null
      ? { ...m, facts: { ...m.facts, configVersion: step.configVersion } }
      : m,
  );
  const later = advance(sent, wanted, { ...read, members }, 20_000);
  expect(later.members.find((m) => m.name === step.member)).toMatchObject({ stage: 'active', giving: null });
});

test('A3.1 what was refused before it was sent leaves its member as it was', () => {
  const { play, wanted, step, sent } = begun();
  const later = advance(cancelStep(sent, step, 's1'), wanted, play.reading(), 2000);
  expect(later.members.find((m) => m.name === step.member)).toMatchObject({ stage: 'active', giving: null });
});
