/** What is written down of steps whose end is not plain: replaced, over, broken, or held back by a clock. */
import { expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { HOUR, SECOND } from '../base/units.ts';
import { openMemoryStore } from '../store/memory.ts';
import { Engine } from './engine.ts';
import { Executor } from './executor.ts';
import type { Clock } from './ports.ts';
import { createToy, silentLog, toyKey } from './testing/bench.ts';
import { ManualClock, settle } from './testing/clock.ts';
import { type ToyHooks, ToyWorld, toyProvider } from './testing/toy.ts';

type Toy = ReturnType<typeof toyProvider>;
const lost = new BelayError('NoAnswer', 'no answer', { retry: 'unknown-outcome' });

/** One toy of one box, by a provider that differs in a few things, on a clock people may set. */
async function scene(hooks: ToyHooks, change: (toy: Toy) => Partial<Toy> = () => ({})) {
  const steady = new ManualClock();
  let set = 0;
  const clock: Clock = {
    now: () => steady.now() + set,
    monotonic: () => steady.now(),
    at: (time, call) => steady.at(time - set, call),
  };
  const store = openMemoryStore({ clock });
  const world = new ToyWorld();
  const toy = toyProvider(world, hooks);
  const provider: Toy = { ...toy, ...change(toy) };
  const engine = new Engine({ store, clock, log: silentLog, holder: 'one', kinds: ['Toy'] });
  const { informer, leases, metrics } = engine;
  engine.add(new Executor({ provider, store, informer, leases, clock, log: silentLog, metrics }));
  const { metadata } = await createToy(store, 'a', ['x']);
  await engine.open();
  await settle();
  const journal = async () =>
    (await store.journal({ clusterUid: metadata.uid, limit: 20 })).map((e) =>
      e.outcome === undefined || e.outcome === null
        ? [e.step, 'open']
        : [e.step, e.outcome.kind, ...(e.outcome.message === '' ? [] : [e.outcome.message])],
    );
  const setBack = (by: number): void => {
    set -= by;
  };
  return { steady, store, world, engine, metrics, journal, setBack };
}

test('S10 S16 a step planned anew with another content is another effort, and the one before is closed', async () => {
  let size = 1;
  let answers = false;
  const { steady, engine, journal } = await scene(
    {
      perform: (_, effect) => {
        if (!answers) throw lost;
        effect();
      },
    },
    (toy) => ({
      plan: (subject, observed, now) => {
        const plan = toy.plan(subject, observed, now);
        const steps = plan.act?.steps.map((step) => ({ ...step, size })) ?? [];
        return plan.act === null ? plan : { ...plan, act: { ...plan.act, steps } };
      },
    }),
  );
  expect(await journal()).toEqual([['make', 'open']]);
  size = 2;
  answers = true;
  await steady.advance(10 * SECOND);
  expect(await journal()).toEqual([
    ['make', 'superseded', 'planned anew'],
    ['make', 'done'],
    ['open', 'done'],
  ]);
  await engine.close();
});

test('A2.7 S16 a step that the record shows to be over is closed, though its answer never came', async () => {
  let opens = false;
  const { steady, world, engine, journal } = await scene(
    {
      perform: (step, effect) => {
        if (step.kind === 'open' && !opens) throw new BelayError('Broken', 'no', { retry: 'later' });
        effect();
        if (step.kind === 'make') throw lost;
      },
    },
    () => ({ isOver: (step) => step.kind === 'make' && world.made.has(step.box) }),
  );
  // Not at convergence only: work goes on for as long as the box does not open.
  await steady.advance(2 * SECOND);
  expect((await journal())[0]).toEqual(['make', 'superseded', 'its end was observed']);
  opens = true;
  await engine.close();
});

test('A3.1 a step without an answer waits by a clock that nobody sets: one set back holds nothing up', async () => {
  let answers = false;
  const { steady, world, engine, setBack } = await scene({
    perform: (_, effect) => {
      if (!answers) throw lost;
      effect();
    },
  });
  setBack(HOUR);
  answers = true;
  await steady.advance(6 * SECOND);
  expect(world.open).toContain('x');
  await engine.close();
});

test('S10 of a step that broke an invariant nothing is concluded: it stays open, and the pass is a failure', async () => {
  let broken = true;
  const { steady, world, engine, metrics, journal } = await scene({
    perform: (_, effect) => {
      if (broken) throw new BelayError('InvariantBroken', 'S6: twice', { retry: 'never' });
      effect();
    },
  });
  await steady.advance(2 * SECOND);
  expect(metrics.passFailures).toBeGreaterThan(0);
  expect(await journal()).toEqual([['make', 'open']]);
  broken = false;
  await steady.advance(10 * SECOND);
  expect(world.open).toContain('x');
  expect((await journal())[0]).toEqual(['make', 'done']);
  await engine.close();
});

test('an object that was being deleted before we knew it gets no finalizer of ours', async () => {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const world = new ToyWorld();
  const spec = { boxes: ['x'] };
  await store.create({ kind: 'Toy', namespace: 'default', name: 'a', spec, finalizers: ['other/finalizer'] });
  await store.update(toyKey('a'), { delete: true });
  const engine = new Engine({ store, clock, log: silentLog, holder: 'one', kinds: ['Toy'] });
  const { informer, leases, metrics } = engine;
  const provider = toyProvider(world);
  engine.add(new Executor({ provider, store, informer, leases, clock, log: silentLog, metrics }));
  await engine.open();
  await clock.advance(2 * SECOND);
  expect((await store.get(toyKey('a')))?.metadata.finalizers).toEqual(['other/finalizer']);
  expect(metrics.passFailures).toBe(0);
  await engine.close();
});

test('what changes while a reading is taken shows at the next look, not after five minutes', async () => {
  let basis = [{}];
  let readings = 0;
  let meanwhile = false;
  const { steady, engine } = await scene({
    basis: () => basis,
    observe: () => {
      readings++;
      if (meanwhile) basis = [{}];
      meanwhile = false;
    },
  });
  await steady.advance(60 * SECOND);
  meanwhile = true;
  basis = [{}];
  await steady.advance(30 * SECOND);
  const before = readings;
  await steady.advance(30 * SECOND);
  expect(readings).toBe(before + 1);
  await steady.advance(60 * SECOND);
  expect(readings).toBe(before + 1);
  await engine.close();
});

test('S9 of objects whose lease was lost nothing is remembered, nor are they counted as converged', async () => {
  const { steady, store, engine, metrics } = await scene({});
  expect(metrics.converged).toBe(1);
  // Another process took all leases over after this one stood still.
  steady.jump(60 * SECOND);
  const names = Array.from({ length: 16 }, (_, index) => `clusters/${index}`);
  await store.acquireLeases(names, 'two', HOUR, steady.now());
  await steady.advance(3 * SECOND);
  expect(engine.leases.held).toBe(0);
  expect(metrics.converged).toBe(0);
  await engine.close();
});

test('L2 a step that planner and guard judge differently for good is asked for ever less often, and soon again when the reason is another', async () => {
  let detail = 'not ours';
  const { steady, metrics, world } = await scene({}, () => ({
    guard: () => (detail === '' ? null : { reason: 'NotOwned', detail }),
  }));
  const asked = async (seconds: number): Promise<number> => {
    const before = metrics.refusals.get('NotOwned') ?? 0;
    for (let i = 0; i < seconds; i++) await steady.advance(SECOND);
    return (metrics.refusals.get('NotOwned') ?? 0) - before;
  };
  // After three times at intervals of a second they come after 2, 4 and 8 seconds, then every ten.
  expect([await asked(20), await asked(60)]).toEqual([6, 6]);
  detail = 'of another reason';
  expect(await asked(10)).toBeGreaterThan(2);
  detail = '';
  await asked(10);
  expect(world.made.size).toBe(1);
});
