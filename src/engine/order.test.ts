import { expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { openMemoryStore } from '../store/memory.ts';
import { Engine } from './engine.ts';
import { Executor } from './executor.ts';
import { LeaseKeeper } from './leases.ts';
import { LEASE_MARGIN, LEASE_TTL } from './limits.ts';
import type { Batch, Store } from './ports.ts';
import { createToy, silentLog, startToyEngine } from './testing/bench.ts';
import { ManualClock, settle } from './testing/clock.ts';
import { type ToyHooks, type ToyState, ToyWorld, toyProvider } from './testing/toy.ts';

const same = (state: ToyState): ToyState => state;

function scene(commit: (batch: Batch, go: () => ReturnType<Store['commit']>) => ReturnType<Store['commit']>) {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const world = new ToyWorld();
  const inner = store.commit.bind(store);
  store.commit = (batch) => commit(batch, () => inner(batch));
  const start = (hooks: ToyHooks = {}) => startToyEngine({ store, clock, world, holder: 'one', hooks });
  return { clock, store, world, start };
}

test('S16 A2.7 no effect begins before its intent is committed', async () => {
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { store, world, start } = scene(async (batch, go) => {
    if (batch.intents !== undefined) await gate;
    return go();
  });
  await createToy(store, 'a', ['x']);
  const engine = await start();
  await settle();
  expect(world.effects).toEqual([]);
  release();
  await settle();
  expect(world.effects.map((e) => e.kind)).toEqual(['make', 'open']);
  await engine.close();
});

test('S16 an intent that cannot be written has no effect', async () => {
  const { clock, store, world, start } = scene(async (batch, go) => {
    if (batch.intents !== undefined) throw new BelayError('StoreUnavailable', 'cut off');
    return go();
  });
  await createToy(store, 'a', ['x']);
  const engine = await start();
  await clock.advance(60_000);
  expect(world.effects).toEqual([]);
  await engine.close();
});

test('S9 every commit of an engine carries its fence', async () => {
  const unfenced: Batch[] = [];
  const { store, world, start } = scene((batch, go) => {
    if (batch.fence === undefined) unfenced.push(batch);
    return go();
  });
  await createToy(store, 'a', ['x']);
  const engine = await start();
  await settle();
  expect([world.effects.length, unfenced]).toEqual([2, []]);
  await engine.close();
});

test('S1 S6 the guard judges a fresh reading, taken after the intent was written and before the effect', async () => {
  const order: string[] = [];
  const { store, start } = scene((batch, go) => {
    if (batch.intents !== undefined) order.push('intent');
    return go();
  });
  await createToy(store, 'a', ['x']);
  const engine = await start({
    observe: (_, fresh) => {
      order.push(fresh ? 'fresh' : 'look');
    },
    guard: () => {
      order.push('guard');
      return null;
    },
    perform: (step, effect) => {
      order.push(step.kind);
      effect();
    },
  });
  await settle();
  const one = (effect: string): readonly string[] => ['look', 'intent', 'fresh', 'guard', effect];
  expect(order).toEqual([...one('make'), ...one('open'), 'look']);
  await engine.close();
});

test('S9 a right that ended while the guard looked leads to no effect', async () => {
  const { store, world, start } = scene((_, go) => go());
  await createToy(store, 'a', ['x']);
  let stop = (): void => {};
  const engine = await start({
    guard: () => {
      stop();
      return null;
    },
    observe: () => {},
  });
  stop = () => engine.leases.stop();
  await store.update({ kind: 'Toy', namespace: 'default', name: 'a' }, { spec: { boxes: ['x', 'y'] } });
  const before = world.effects.length;
  await settle();
  expect(world.effects.slice(before)).toEqual([]);
  expect(
    await store.openIntents((await store.list({ kind: 'Toy' })).items[0]?.metadata.uid ?? ''),
  ).toHaveLength(1);
  await engine.close();
});

test('S10 a step that is due again is a new effort under an id of its own, also when the record stayed as it was', async () => {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const world = new ToyWorld();
  const forgetful = { ...toyProvider(world), start: same, cancel: same, applyOutcome: same };
  const life = async (holder: string): Promise<Engine> => {
    const engine = new Engine({ store, clock, log: silentLog, holder, kinds: ['Toy'] });
    const { informer, leases, metrics } = engine;
    engine.add(
      new Executor({ provider: forgetful, store, informer, leases, clock, log: silentLog, metrics }),
    );
    await engine.open();
    await clock.advance(2_000);
    return engine;
  };
  const { metadata } = await createToy(store, 'a', ['x']);
  const ids: string[] = [];
  let engine = await life('one');
  for (let effort = 0; effort < 4; effort++) {
    if (effort === 2) {
      await engine.close();
      engine = await life('two');
    }
    world.made.delete('x');
    engine.wake('Toy', metadata.uid);
    await clock.advance(2_000);
    expect(world.made.has('x'), `effort ${effort}`).toBe(true);
  }
  ids.push(...world.effects.filter((e) => e.kind === 'make').map((e) => e.stepId));
  expect([ids.length, new Set(ids).size]).toEqual([5, 5]);
  await engine.close();
});

test('S9 a lease counts from when it was asked for, not from when the answer came', async () => {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  let asked = 0;
  const slow = async (...args: Parameters<Store['acquireLeases']>) => {
    // Only the first question is answered, and late.
    if (asked++ > 0) throw new BelayError('StoreUnavailable', 'cut off');
    const leases = await store.acquireLeases(...args);
    await new Promise<void>((resolve) => clock.at(clock.now() + LEASE_MARGIN, resolve));
    return leases;
  };
  const keeper = new LeaseKeeper({
    store: { acquireLeases: slow, releaseLeases: () => Promise.resolve() },
    clock,
    log: silentLog,
    holder: 'one',
    onGained: () => {},
    onLost: () => {},
  });
  const opening = keeper.open();
  await clock.advance(LEASE_MARGIN);
  await opening;
  expect(keeper.fence('x')).not.toBeNull();
  await clock.advance(LEASE_TTL - 2 * LEASE_MARGIN - 1);
  expect(keeper.fence('x')).not.toBeNull();
  await clock.advance(1);
  expect(keeper.fence('x')).toBeNull();
  await keeper.close();
});
