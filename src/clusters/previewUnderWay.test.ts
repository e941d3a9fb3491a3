/** Plans that are asked for while an earlier one is being carried out. */
import { expect, test } from 'vitest';
import { DAY } from '../base/units.ts';
import { desired, host, observed, sharded } from './fixtures.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { type Foreseen, foresee } from './preview.ts';
import { type Model, perform } from './previewModel.ts';
import { initialState } from './state.ts';
import { startStep } from './steps.ts';
import type { Desired, Observed, State } from './types.ts';

const versions = ['7.0.43-23', '8.0.29-13', '8.0.32-14'];
const executables = { mongod: versions, mongos: versions };
const hosts = ['db1', 'db2', 'db3', 'db4', 'db5'].map((name) => host(name, { executables }));

const lines = ({ steps }: Foreseen): readonly string[] =>
  steps.map((s) => `${s.verb} ${s.targets.join(' ')}`);

/** What is over with its answer, as far as the record knows, and seen a moment later. */
const AT_ONCE: ReadonlySet<string> = new Set(['initiate', 'stepDown', 'reconfig']);

interface Moment {
  /** The step that was just sent. */
  readonly sent: string;
  readonly told: Foreseen;
  readonly rest: readonly string[];
}

/** Each moment of a plan when a step was sent and the world has not followed yet, with the plan that is told then. */
function moments(from: Observed, want: Desired, state: State, start: number): readonly Moment[] {
  let model: Model = { observed: { ...from, services: from.services ?? [] }, state, initiated: {} };
  const whole = lines(foresee(from, want, state, start));
  const found: Moment[] = [];
  let [at, done] = [start, 0];
  for (let round = 0; round < 200 && done < whole.length; round++) {
    const known = advance(model.state, want, model.observed, at);
    const { act } = plan(model.observed, want, known, at);
    model = { ...model, state: known };
    at += act === null ? 10_000 : 1_000;
    if (act === null) continue;
    const kind = act.steps[0]?.kind ?? '';
    done += 1;
    if (kind === 'forget') break;
    const next = perform(model, act, want, at);
    const told = foresee(model.observed, want, next.state, at);
    if (!AT_ONCE.has(kind)) found.push({ sent: whole[done - 1] ?? '', told, rest: whole.slice(done) });
    model = next;
  }
  return found;
}

/** Members that leave go in any order. */
const isWhole = ({ told, rest }: Moment): boolean =>
  told.converges && told.refusals.length === 0 && lines(told).toSorted().join() === rest.toSorted().join();

const created = (want: Desired): Foreseen => foresee(observed({ hosts }), want, initialState(want), 0);

test.each([
  ['A4.1 a set', desired()],
  ['A4.1 a Standalone', desired({ type: 'Standalone' }, 1)],
  ['A4.1 A5.3 a sharded cluster', sharded()],
])('%s is being made: the plan at each moment is the rest of the plan', (_, want) => {
  const all = moments(observed({ hosts }), want, initialState(want), 0);
  expect(all.filter((moment) => !isWhole(moment))).toEqual([]);
  const importing = all.find(({ sent }) => sent.startsWith('import'))?.told;
  expect(importing?.waits[0]).toMatchObject({ on: 'OperationRunning' });
  expect(all.length).toBeGreaterThan(5);
});

test.each([
  ['A6.3 grows', desired(), desired({ generation: 2 }, 5)],
  ['A6.4 shrinks', desired({}, 5), desired({ generation: 2 }, 3)],
  ['A8.1 is upgraded', desired({ version: '8.0.29-13' }), desired({ generation: 2 })],
  ['A9.3 gets TLS', desired({ tlsMode: 'disabled' }), desired({ generation: 2 })],
  ['A14.1 is deleted', desired(), desired({ deleting: { keepVolumes: false } })],
  ['A14.2 is suspended', desired(), desired({ generation: 2, suspend: true })],
  ['A6.5 gets a shard', sharded(), sharded({ generation: 2 }, { shards: 3 })],
])('%s, and the plan at each moment is the rest of the plan', (_, before, want) => {
  const there = created(before);
  const all = moments(there.observed, want, there.state, 10 * DAY);
  expect(all.filter((moment) => !isWhole(moment))).toEqual([]);
  expect(all.length).toBeGreaterThan(0);
});

test('A14.2 a database that comes back has the rest of its plan too, and no place for what is being made ends it', () => {
  const there = created(desired());
  const asleep = foresee(there.observed, desired({ generation: 2, suspend: true }), there.state, DAY);
  const want = desired({ generation: 3 });
  const all = moments(asleep.observed, want, asleep.state, 2 * DAY);
  expect(all.filter((moment) => !isWhole(moment))).toEqual([]);
  const fresh = observed({ hosts: [] });
  const placement = { host: 'db1', address: 'db1', port: 27_017, portFixed: false };
  const known = { ...initialState(want), credentialsReady: true };
  const sent = startStep(known, { kind: 'import', member: 'orders-0', placement }, 'i1', 0);
  expect(foresee(fresh, want, sent, 0)).toMatchObject({ steps: [], converges: false });
});
