import { expect, test } from 'vitest';
import type { Step } from '../decisions.ts';
import type { ServiceFacts } from '../facts.ts';
import { desired, host } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { initialState } from '../state.ts';
import { startStep } from '../steps.ts';
import type { Desired, Observed, State } from '../types.ts';

const gone = (want: Desired, keepVolumes = false): Desired => ({ ...want, deleting: { keepVolumes } });

/** Deletes what is remembered in this state, on a platform that does as told; gives the steps in order. */
function deleted(
  want: Desired,
  from: State,
  reading: (state: State) => Observed,
  limit = 40,
): readonly string[] {
  const lines: string[] = [];
  let state = from;
  for (let pass = 0; pass < limit; pass++) {
    const now = pass * 1000;
    const o = reading(state);
    state = advance(state, want, o, now);
    const steps = plan(o, want, state, now).act?.steps ?? [];
    for (const [i, step] of steps.entries()) {
      lines.push(`${step.kind} ${'member' in step ? step.member : ''}`.trim());
      if (step.kind === 'forget') return lines;
      state = carriedOut(state, want, o, step, `d${pass}.${i}`, now);
    }
  }
  return [...lines, 'not deleted'];
}

function carriedOut(state: State, want: Desired, o: Observed, step: Step, id: string, now: number): State {
  if (step.kind === 'deleteSecrets') return { ...state, secretsDeleted: true };
  const ended = { kind: 'succeeded', result: {} } as const;
  return advance(startStep(state, step, id, now), want, { ...o, operations: { [id]: ended } }, now);
}

const RUNTIMES = ['deleteRuntime orders-0', 'deleteRuntime orders-1', 'deleteRuntime orders-2'];
const VOLUMES = ['deleteVolume orders-0', 'deleteVolume orders-1', 'deleteVolume orders-2'];

test('DEL-06 A14.3 runtimes first and their absence seen, then volumes, then secrets, then the record', () => {
  const play = new Play(desired());
  const reading = (state: State): Observed => {
    play.state = state;
    return play.reading();
  };
  expect(deleted(gone(desired()), play.state, reading)).toEqual([
    ...RUNTIMES,
    ...VOLUMES,
    'deleteSecrets',
    'forget',
  ]);
});

test('DEL-06 a runtime that an interrupted pass left behind is found by its marker and goes before any volume', () => {
  const play = new Play(desired());
  const stray: ServiceFacts = {
    id: 's-stray',
    hostname: 'orders-1',
    host: 'db2',
    kind: 'runtime',
    owner: {
      installation: 'i',
      clusterUid: play.state.uid,
      member: 'orders-1',
      hostname: 'orders-1',
      proof: 'p',
    },
    masked: false,
    deployed: true,
    port: 27017,
    dataPath: null,
    sizeBytes: null,
  };
  const members = play.state.members.map((m) => (m.name === 'orders-1' ? { ...m, serviceId: null } : m));
  const o = { ...play.reading(), services: [stray] };
  const step = plan(o, gone(desired()), { ...play.state, members }, 0).act?.steps;
  expect(step).toMatchObject([{ kind: 'adopt', member: 'orders-1', serviceId: 's-stray' }]);
});

test('DEL-04 A3.6 a set in any kind of error goes: no step waits for the database, volumes only by the policy', () => {
  const broken: readonly (readonly [string, Partial<Pick<Play, 'states' | 'desired' | 'crashing'>>])[] = [
    ['crashing', { crashing: new Set([0, 1, 2]) }],
    ['leaderless', { states: ['SECONDARY', 'SECONDARY', 'SECONDARY'] }],
    ['recovering', { states: ['PRIMARY', 'RECOVERING', 'STARTUP2'] }],
    ['rolling', { desired: desired({ tlsMode: 'disabled' }) }],
    ['scaling', { desired: desired({}, 5) }],
    ['refused', { desired: desired({ version: '6.0.29-23' }) }],
  ];
  for (const [what, change] of broken) {
    for (const keepVolumes of [false, true]) {
      const play = new Play(desired());
      Object.assign(play, change);
      for (let i = 0; i < 3; i++) play.pass();
      const want = gone(play.desired, keepVolumes);
      const lines = deleted(want, play.state, (state) => {
        play.state = state;
        return { ...play.reading(), hosts: [1, 2, 3, 4, 5].map((n) => host(`db${n}`)) };
      });
      const last = lines.at(-1);
      expect([last, lines.some((l) => l.startsWith('deleteVolume'))], what).toEqual(['forget', !keepVolumes]);
    }
  }
});

test('DEL-04 a set that never got anywhere goes at once', () => {
  const want = gone(desired());
  const play = new Play(desired());
  const nothing: Observed = { ...play.reading(), members: [], services: [] };
  expect(deleted(want, initialState(want), () => nothing)).toEqual(['deleteSecrets', 'forget']);
});

test('A3.6 A14.3 while all that goes is under way, nothing else is wanted of it and nothing blocks it', () => {
  const play = new Play(desired());
  const want = gone(desired());
  const read = play.reading();
  // One cannot take its configuration, another is not of the spec any more: of no interest now.
  const members = read.members.map((m) =>
    m.name === 'orders-1' && m.facts !== null
      ? { ...m, facts: { ...m.facts, configError: 'no such option' } }
      : m,
  );
  const reading = { ...read, members };
  const steps = plan(reading, want, play.state, 0).act?.steps ?? [];
  expect(steps).toHaveLength(3);
  const state = steps.reduce((s, step, i) => startStep(s, step, `d${i}`, 0), play.state);
  const next = plan(reading, want, state, 1000);
  expect(next).toMatchObject({ act: null, blocks: [], converged: false });
  expect(next.waits.map((w) => w.on)).toEqual(['OperationRunning', 'OperationRunning', 'OperationRunning']);
});
