/** What changes between a plan and its effect. */
import { expect, test } from 'vitest';
import { openMemoryStore } from '../store/memory.ts';
import { Engine } from './engine.ts';
import { Executor } from './executor.ts';
import { createToy, silentLog, startToyEngine, toyKey } from './testing/bench.ts';
import { ManualClock, settle } from './testing/clock.ts';
import { type ToyHooks, ToyWorld, toyProvider } from './testing/toy.ts';

/** Plays until nothing is to do; `meanwhile` happens once, during the first look. */
async function play(meanwhile: (store: ReturnType<typeof openMemoryStore>) => Promise<unknown>) {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const world = new ToyWorld();
  const order: string[] = [];
  let once = true;
  const hooks: ToyHooks = {
    observe: async (_, fresh) => {
      order.push(fresh ? 'fresh' : 'look');
      if (once) await meanwhile(store);
      once = false;
    },
    perform: (step, effect) => {
      order.push(`${step.kind} ${step.box}`);
      effect();
    },
  };
  await createToy(store, 'a', ['x']);
  const engine = await startToyEngine({ store, clock, world, holder: 'one', hooks });
  await settle();
  await engine.close();
  return order;
}

test.each([
  ['an annotation', { annotations: { asked: 'yes' } }],
  ['the spec', { spec: { boxes: ['x'], more: true } }],
])('S11 S15 %s that came meanwhile is planned for before anything is done', async (_, change) => {
  const order = await play((store) => store.update(toyKey('a'), change));
  expect(order.slice(0, 4)).toEqual(['look', 'look', 'fresh', 'make x']);
});

test('S4 S11 nothing planned for one object is done to another that took its name meanwhile', async () => {
  const order = await play(async (store) => {
    await store.update(toyKey('a'), { finalizers: [], delete: true });
    await createToy(store, 'a', ['y']);
  });
  expect(order).toContain('open y');
  expect(order.join()).not.toContain('x');
});

/** An engine whose right to act gets a newer epoch when told: it was lost and came back unnoticed. */
async function renewed(boxes: readonly string[], hooks: ToyHooks) {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const world = new ToyWorld();
  let later = 0;
  const engine = new Engine({ store, clock, log: silentLog, holder: 'one', kinds: ['Toy'] });
  const { informer, leases, metrics } = engine;
  const fence = (uid: string) => {
    const held = leases.fence(uid);
    return held === null ? null : { ...held, epoch: held.epoch + later };
  };
  const provider = toyProvider(world, hooks);
  const parts = { provider, store, informer, leases: { fence }, clock, log: silentLog, metrics };
  engine.add(new Executor(parts));
  const { metadata } = await createToy(store, 'a', boxes);
  const move = (): void => {
    later = 1;
  };
  const journal = async () => {
    await engine.open();
    await settle();
    await engine.close();
    const entries = await store.journal({ clusterUid: metadata.uid, limit: 10 });
    return entries.map((e) => `${e.step} ${e.target}`);
  };
  return { world, move, journal };
}

test('S9 a right that was lost and came back while the guard looked carries no effect of before', async () => {
  let move = (): void => {};
  const { world, journal, ...scene } = await renewed(['x', 'y'], {
    guard: () => {
      move();
      return null;
    },
  });
  move = scene.move;
  expect(await journal()).toEqual(['make x', 'make y']);
  expect(world.effects).toEqual([]);
});

test('S9 S16 nothing more is begun under a right that ended during a step', async () => {
  let move = (): void => {};
  const { journal, ...scene } = await renewed(['x'], {
    perform: (_, effect) => {
      effect();
      move();
    },
  });
  move = scene.move;
  // To open it is another round.
  expect(await journal()).toEqual(['make x']);
});
