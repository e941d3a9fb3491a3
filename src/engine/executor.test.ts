import { expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { SECOND } from '../base/units.ts';
import { openMemoryStore } from '../store/memory.ts';
import type { Store } from './ports.ts';
import { createToy, Reaper, startToyEngine, toyKey } from './testing/bench.ts';
import { ManualClock, settle } from './testing/clock.ts';
import { type ToyHooks, ToyWorld } from './testing/toy.ts';

function scene(hooks?: ToyHooks) {
  const clock = new ManualClock();
  let made = 0;
  // Looks are spread by identity: the same in every run.
  const store = openMemoryStore({ clock, makeUid: () => `uid-${++made}` });
  const world = new ToyWorld();
  const start = (holder: string, over: Store = store) =>
    startToyEngine({ store: over, clock, world, holder, ...(hooks === undefined ? {} : { hooks }) });
  return { clock, store, world, start };
}

const ready = async (store: Store, name: string): Promise<boolean> => {
  const status = (await store.get(toyKey(name)))?.status as {
    conditions: { status: string }[];
    observedGeneration: number;
  } | null;
  return status?.conditions[0]?.status === 'True';
};

const doubles = (world: ToyWorld): readonly string[] => {
  const done = world.effects.map((e) => `${e.kind} ${e.box}`);
  return done.filter((item, index) => done.indexOf(item) !== index);
};

test('a new object converges at once, without waiting for any timer', async () => {
  const { store, world, start } = scene();
  await createToy(store, 'a', ['x', 'y', 'z']);
  const engine = await start('one');
  await settle();
  expect(await ready(store, 'a')).toBe(true);
  expect(world.effects.map((e) => `${e.kind} ${e.box}`)).toEqual([
    'make x',
    'make y',
    'make z',
    'open x',
    'open y',
    'open z',
  ]);
  await engine.close();
});

test('S16 every effect has exactly one earlier intent with its reason, and an outcome', async () => {
  const { store, world, start } = scene();
  const { metadata } = await createToy(store, 'a', ['x', 'y']);
  const engine = await start('one');
  await settle();
  const journal = await store.journal({ clusterUid: metadata.uid, limit: 100 });
  for (const effect of world.effects) {
    const entries = journal.filter((entry) => entry.id === effect.stepId);
    expect(entries).toHaveLength(1);
    expect(entries[0]).toMatchObject({ step: effect.kind, target: effect.box, reason: 'Wanted' });
    expect(entries[0]?.outcome?.kind).toBe('done');
  }
  await engine.close();
});

test('A7.2 a converged object is looked at every 30 s, and looking makes no write', async () => {
  const { clock, store, start } = scene();
  await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await settle();
  const passes = engine.metrics.passes;
  const writes: unknown[] = [];
  const commit = store.commit.bind(store);
  store.commit = (batch) => {
    writes.push(batch);
    return commit(batch);
  };
  await clock.advance(95 * SECOND);
  expect(engine.metrics.passes - passes).toBe(3);
  expect(writes).toEqual([]);
  await engine.close();
});

test('a converged object is not read again while all its reading was made of is the same, for five minutes at most', async () => {
  const part = { of: ['the world'] };
  let basis: readonly unknown[] | null = [part, 'x'];
  let readings = 0;
  const { clock, store, world, start } = scene({ basis: () => basis, observe: () => void readings++ });
  await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await settle();
  // Its own status made the object a new one, which is no news.
  await clock.advance(60 * SECOND);
  const before = readings;
  await clock.advance(120 * SECOND);
  expect(readings).toBe(before);
  basis = [{ ...part }, 'x'];
  await clock.advance(30 * SECOND);
  expect(readings).toBe(before + 1);
  basis = null;
  await clock.advance(30 * SECOND);
  expect(readings).toBe(before + 2);
  basis = [part];
  await clock.advance(60 * SECOND);
  const rested = readings;
  await clock.advance(200 * SECOND);
  expect(readings).toBe(rested);
  await clock.advance(130 * SECOND);
  expect(readings).toBe(rested + 1);
  await store.update(toyKey('a'), { spec: { boxes: ['x', 'y'] } });
  await settle();
  expect(world.open).toContain('y');
  expect((await store.get(toyKey('a')))?.status).toMatchObject({ observedGeneration: 2, open: 2 });
  await engine.close();
});

test('while the world is still expected to report after a start, nothing is judged and nothing written', async () => {
  let until = 0;
  let readings = 0;
  const { clock, store, world, start } = scene({ expecting: () => until, observe: () => void readings++ });
  until = clock.now() + 7 * SECOND;
  await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await clock.advance(6 * SECOND);
  expect([readings, world.effects.length, (await store.get(toyKey('a')))?.status]).toEqual([0, 0, null]);
  await clock.advance(1 * SECOND);
  expect(await ready(store, 'a')).toBe(true);
  await engine.close();
});

test('a change of spec is acted on at once, a status written by ourselves wakes nobody', async () => {
  const { store, world, start } = scene();
  await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await settle();
  const passes = engine.metrics.passes;
  await settle();
  expect(engine.metrics.passes).toBe(passes);
  await store.update(toyKey('a'), { spec: { boxes: ['x', 'y'] } });
  await settle();
  expect(world.open.has('y')).toBe(true);
  expect((await store.get(toyKey('a')))?.status).toMatchObject({ observedGeneration: 2, open: 2 });
  await engine.close();
});

test('deletion ends with the finalizer gone, the object gone and the record gone', async () => {
  const { store, start } = scene();
  const { metadata } = await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await settle();
  await store.update(toyKey('a'), { delete: true });
  await settle();
  expect(await store.get(toyKey('a'))).toBeNull();
  expect(await store.loadState(metadata.uid)).toBeNull();
  await createToy(store, 'a', ['q']);
  await settle();
  expect(await ready(store, 'a')).toBe(true);
  await engine.close();
});

test('A2.7 S10 death at every arrow: the next control plane converges and nothing is done twice', async () => {
  let arrows = 0;
  for (let arrow = 1; ; arrow++) {
    const reaper = new Reaper(arrow);
    const hooks: ToyHooks = {
      perform: async (_step, effect) => {
        await reaper.arrow();
        effect();
        await reaper.arrow();
      },
    };
    const { clock, store, world } = scene();
    await createToy(store, 'a', ['x', 'y']);
    await startToyEngine({ store: reaper.store(store), clock, world, holder: 'first', hooks });
    await settle();
    if (!reaper.dead) break;
    arrows++;
    const second = await startToyEngine({ store, clock, world, holder: 'second' });
    await clock.advance(10 * SECOND);
    expect({ arrow, ready: await ready(store, 'a') }).toEqual({ arrow, ready: true });
    expect({ arrow, doubles: doubles(world) }).toEqual({ arrow, doubles: [] });
    const open = await store.openIntents((await store.get(toyKey('a')))?.metadata.uid ?? '');
    expect({ arrow, open }).toEqual({ arrow, open: [] });
    await second.close();
  }
  expect(arrows).toBeGreaterThan(12);
});

test('A2.7 death at every arrow of a deletion leaves nothing behind', async () => {
  for (let arrow = 1; ; arrow++) {
    const reaper = new Reaper(arrow);
    const { clock, store, world, start } = scene();
    const { metadata } = await createToy(store, 'a', ['x']);
    const before = await start('zero');
    await settle();
    await before.close();
    await store.update(toyKey('a'), { delete: true });
    const hooks: ToyHooks = {
      perform: async (_step, effect) => {
        await reaper.arrow();
        effect();
        await reaper.arrow();
      },
    };
    await startToyEngine({ store: reaper.store(store), clock, world, holder: 'first', hooks });
    await settle();
    if (!reaper.dead) break;
    const second = await start('second');
    await clock.advance(10 * SECOND);
    expect({ arrow, object: await store.get(toyKey('a')) }).toEqual({ arrow, object: null });
    expect(await store.loadState(metadata.uid)).toBeNull();
    await second.close();
  }
});

test.each([
  ['unknown', new BelayError('NoAnswer', 'no answer', { retry: 'unknown-outcome' })],
  ['unclassified', new TypeError('nothing is said about what was sent')],
])('S10 an %s outcome is observed: what was done after all is not sent again', async (_, failure) => {
  const { clock, store, world, start } = scene({
    perform: (step, effect) => {
      effect();
      if (step.kind === 'make') throw failure;
    },
  });
  const { metadata } = await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await clock.advance(1 * SECOND);
  expect(await ready(store, 'a')).toBe(true);
  expect(doubles(world)).toEqual([]);
  const journal = await store.journal({ clusterUid: metadata.uid, limit: 10 });
  expect(journal.map((e) => [e.step, e.outcome?.kind])).toEqual([
    ['make', 'superseded'],
    ['open', 'done'],
  ]);
  await engine.close();
});

test('an unknown outcome of something that was not done is sent again under the same id, with growing waits', async () => {
  const sent: number[] = [];
  let lost = 3;
  const { clock, store, start, world } = scene({
    perform: (_step, effect) => {
      sent.push(clock.now());
      if (lost-- > 0) throw new BelayError('NoAnswer', 'no answer', { retry: 'unknown-outcome' });
      effect();
    },
  });
  const { metadata } = await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await clock.advance(8 * SECOND);
  expect(await ready(store, 'a')).toBe(true);
  expect(sent.slice(1, 4).map((at, i) => at - (sent[i] ?? 0))).toEqual([1000, 2000, 4000]);
  const journal = await store.journal({ clusterUid: metadata.uid, limit: 10 });
  expect(journal.filter((e) => e.step === 'make')).toHaveLength(1);
  expect(world.effects[0]?.stepId).toBe(journal[0]?.id);
  await engine.close();
});

test('a failed effect is written down with its message and tried again when the plan says so', async () => {
  let failures = 2;
  const { clock, store, start } = scene({
    perform: (_step, effect) => {
      if (failures-- > 0) throw new BelayError('QuotaExceeded', 'no more boxes today');
      effect();
    },
  });
  const { metadata } = await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await clock.advance(1 * SECOND);
  expect(await ready(store, 'a')).toBe(false);
  await clock.advance(6 * SECOND);
  expect(await ready(store, 'a')).toBe(true);
  const journal = await store.journal({ clusterUid: metadata.uid, limit: 10 });
  expect(journal.map((e) => e.outcome?.message)).toEqual([
    'no more boxes today',
    'no more boxes today',
    '',
    '',
  ]);
  expect(new Set(journal.map((e) => e.id)).size).toBe(4);
  await engine.close();
});

test('a refused step is not done, its record is taken back, and the refusal does not spin', async () => {
  let refuse = true;
  let asked = 0;
  const { clock, store, world, start } = scene({
    guard: () => {
      asked++;
      return refuse ? { reason: 'Changed', detail: 'the world moved' } : null;
    },
  });
  const { metadata } = await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await settle();
  expect(world.effects).toEqual([]);
  expect(asked).toBe(1);
  const state = (await store.loadState(metadata.uid))?.value as { pending: string[] };
  expect(state.pending).toEqual([]);
  refuse = false;
  await clock.advance(2 * SECOND);
  expect(await ready(store, 'a')).toBe(true);
  const journal = await store.journal({ clusterUid: metadata.uid, limit: 10 });
  expect(journal.map((e) => [e.step, e.outcome?.kind])).toEqual([
    ['make', 'superseded'],
    ['make', 'done'],
    ['open', 'done'],
  ]);
  await engine.close();
});

test('L2 a step whose effect is never seen is repeated once a second at most', async () => {
  const { clock, store, world, start } = scene({ blind: true });
  await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await clock.advance(5 * SECOND);
  const opens = world.effects.filter((e) => e.kind === 'open').length;
  expect(opens).toBeGreaterThan(1);
  expect(opens).toBeLessThanOrEqual(6);
  await engine.close();
});

test('S11 a change that arrives between the plan and the effect is seen before anything is done', async () => {
  const { store, world, start } = scene({
    observe: async (object, fresh) => {
      if (!fresh && object.metadata.deletionTimestamp === null) {
        await store.update(toyKey('a'), { delete: true });
      }
    },
  });
  await createToy(store, 'a', ['x']);
  const engine = await start('one');
  await settle();
  expect(world.effects.map((e) => e.kind)).toEqual(['forget']);
  await engine.close();
});

test('S9 L1 two control planes on one store: one acts; when it dies the other takes over and nothing is done twice', async () => {
  const reaper = new Reaper(7);
  const { clock, store, world, start } = scene();
  const hooks: ToyHooks = {
    perform: async (_step, effect) => {
      await reaper.arrow();
      effect();
    },
  };
  await startToyEngine({ store: reaper.store(store), clock, world, holder: 'one', hooks });
  const two = await start('two');
  expect(two.leases.held).toBe(0);
  await createToy(store, 'a', ['x', 'y', 'z']);
  await clock.advance(3 * SECOND);
  expect(reaper.dead).toBe(true);
  expect(two.metrics.passes).toBe(0);
  await clock.advance(6 * SECOND);
  expect(await ready(store, 'a')).toBe(true);
  expect(doubles(world)).toEqual([]);
  expect(new Set(world.effects.map((e) => e.fence.epoch))).toEqual(new Set([1, 2]));
  await two.close();
});

test('S9 a control plane that was asleep past its lease can neither write nor act', async () => {
  const { clock, store, world, start } = scene();
  const { metadata } = await createToy(store, 'a', ['x']);
  let wakeUp = (): void => {};
  const asleep = new Promise<void>((resolve) => {
    wakeUp = resolve;
  });
  const errors: string[] = [];
  const hooks: ToyHooks = {
    perform: async (_step, effect) => {
      await asleep;
      effect();
    },
  };
  let acquired = false;
  const once = new Proxy(store, {
    get: (_, name) => {
      if (name !== 'acquireLeases') {
        const value = Reflect.get(store, name, store) as unknown;
        return typeof value === 'function' ? value.bind(store) : value;
      }
      return async (...args: Parameters<Store['acquireLeases']>) => {
        if (acquired) throw new BelayError('StoreUnavailable', 'asleep');
        acquired = true;
        return store.acquireLeases(...args);
      };
    },
  });
  const one = await startToyEngine({
    store: once,
    clock,
    world,
    holder: 'one',
    hooks,
    log: { debug: () => {}, info: () => {}, warn: (m) => errors.push(m), error: (m) => errors.push(m) },
  });
  await clock.advance(4 * SECOND);
  expect(one.leases.fence(metadata.uid)).toBeNull();
  const two = await start('two');
  await clock.advance(3 * SECOND);
  expect(await ready(store, 'a')).toBe(true);
  const before = [...world.effects];
  wakeUp();
  await clock.advance(3 * SECOND);
  expect(world.effects).toEqual(before);
  expect(errors).toContain('leases lost');
  await two.close();
});

test('L4 an object whose world hangs delays no other', async () => {
  const { clock, store, start } = scene({
    observe: (object) =>
      object.metadata.name.startsWith('sick') ? new Promise<never>(() => {}) : Promise.resolve(),
  });
  for (let i = 0; i < 60; i++) await createToy(store, `sick-${i}`, ['x']);
  await createToy(store, 'healthy', ['h']);
  await start('one');
  await clock.advance(3 * SECOND);
  expect(await ready(store, 'healthy')).toBe(true);
});

test('RST-03 a write that collides is read again at once and harms nothing', async () => {
  const { store, start } = scene();
  await createToy(store, 'a', ['x']);
  const commit = store.commit.bind(store);
  let collisions = 2;
  store.commit = async (batch) => {
    if (batch.state !== undefined && collisions-- > 0)
      throw new BelayError('StateConflict', 'changed meanwhile');
    return commit(batch);
  };
  const engine = await start('one');
  await settle();
  expect(await ready(store, 'a')).toBe(true);
  expect(engine.metrics.passFailures).toBe(0);
  await engine.close();
});

test('S10 RST-03 whichever write is carried out and its answer lost, the record is read again and all is done once', async () => {
  for (let lost = 1; lost <= 8; lost++) {
    const { clock, store, world, start } = scene();
    const commit = store.commit.bind(store);
    let writes = 0;
    store.commit = async (batch) => {
      // Who never gets over it tries without end, in no time.
      if (writes++ > 1_000) return new Promise(() => {});
      const result = await commit(batch);
      if (writes === lost) throw new BelayError('StoreUnavailable', 'the connection broke');
      return result;
    };
    await createToy(store, 'a', ['x', 'y']);
    const engine = await start('one');
    await clock.advance(60 * SECOND);
    expect(await ready(store, 'a'), `${lost}`).toBe(true);
    expect(doubles(world), `${lost}`).toEqual([]);
    await engine.close();
  }
});

test('closing hands the leases over: the next control plane needs no wait', async () => {
  const { store, world, start } = scene();
  const one = await start('one');
  await one.close();
  await createToy(store, 'a', ['x']);
  const two = await start('two');
  await settle();
  expect(await ready(store, 'a')).toBe(true);
  expect(world.effects[0]?.fence.epoch).toBe(2);
  await two.close();
});

test('closing in the middle of work starts no further step and waits for what runs, but not for ever', async () => {
  let release = (): void => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { clock, store, world, start } = scene({
    perform: async (step, effect) => {
      if (step.kind === 'make') await held;
      effect();
    },
  });
  const { metadata } = await createToy(store, 'a', ['x']);
  const engine = await start('one');
  const closing = engine.close();
  await settle();
  release();
  await closing;
  expect(world.effects.map((e) => e.kind)).toEqual(['make']);
  expect((await store.journal({ clusterUid: metadata.uid, limit: 9 }))[0]?.outcome?.kind).toBe('done');

  const stuck = scene({ perform: () => new Promise<never>(() => {}) });
  await createToy(stuck.store, 'b', ['x']);
  const second = await stuck.start('two');
  let closed = false;
  void second.close().then(() => {
    closed = true;
  });
  await stuck.clock.advance(4 * SECOND);
  expect(closed).toBe(false);
  await stuck.clock.advance(2 * SECOND);
  expect(closed).toBe(true);
  await clock.advance(0);
});
