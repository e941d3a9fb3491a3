/** The engine with a gate: what is asked, kept and given back over several passes (C3.2, S2, S13). */
import { expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { admitMember, Desk, Fleet, type MemberAsk, releaseMember } from '../maintenance/index.ts';
import { openMemoryStore } from '../store/memory.ts';
import { Engine } from './engine.ts';
import { Executor } from './executor.ts';
import type { Gate } from './gate.ts';
import { heldBefore, heldSince } from './heldBack.ts';
import { createToy, silentLog } from './testing/bench.ts';
import { ManualClock, settle } from './testing/clock.ts';
import { type ToyHooks, ToyWorld, toyProvider } from './testing/toy.ts';

const LONG = 3_600 * SECOND;

/** Boxes are members of one set: to open one takes it down, and that is under way for as long as `down` names it. */
async function scene(
  hooks: ToyHooks = {},
  duration = LONG,
  takes: (box: string) => readonly string[] = (box) => [box],
  together = false,
) {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock, makeUid: () => 'uid-1' });
  const nodes = ['x', 'y', 'z'].map((name) => ({
    key: `default/${name}`,
    name,
    host: name,
    kind: 'member' as const,
    state: 'up' as const,
    startedAt: null,
    disks: [],
    cluster: 'default/a',
  }));
  const members = nodes.map(({ key }) => ({ node: key, votes: 1 as const, priority: 1, data: true }));
  const set = { key: 'default/a', role: 'replicaSet' as const, members, writeConcern: 'majority' as const };
  const desk = new Desk(new Fleet({ nodes, replicaSets: [{ ...set, interruption: false }] }));
  const held = new Set<string>();
  const released: string[] = [];
  const asked: string[] = [];
  const gate: Gate = {
    acquire: async (ask) => {
      asked.push(ask.id);
      const admission = admitMember(desk, ask, clock.now());
      held.add(ask.id);
      return admission;
    },
    mayTake: async (ask) => admitMember(desk, ask, clock.now(), { dry: true }),
    release: async (id) => {
      releaseMember(desk, id);
      held.delete(id);
      released.push(id);
    },
    holds: (prefix) => [...held].filter((id) => id.startsWith(prefix)),
    handOvers: () => [],
    holderOf: () => null,
    hostHolderOf: () => null,
    onChange: () => () => {},
  };
  const ask = (box: string): MemberAsk => ({
    id: `uid-1/${box}`,
    node: `default/${box}`,
    holder: 'Toy default/a',
    why: 'is opened',
    priority: 100,
    mode: 'strong',
    duration,
  });
  const world = new ToyWorld();
  const down = new Set<string>();
  const toy = toyProvider(world, hooks);
  const provider: typeof toy = {
    ...toy,
    plan: (subject, observed, now) => {
      const plan = toy.plan(subject, observed, now);
      if (!together || plan.act?.steps[0]?.kind !== 'open') return plan;
      const shut = subject.desired.boxes.filter((box) => !observed.open.includes(box));
      return { ...plan, act: { ...plan.act, steps: shut.map((box) => ({ kind: 'open', box })) } };
    },
    disruptions: (step: { kind: string; box: string }) =>
      step.kind === 'open' ? takes(step.box).map(ask) : [],
    underWay: () => [...down].map((box) => `uid-1/${box}`),
  };
  const engine = new Engine({ store, clock, log: silentLog, holder: 'one', kinds: ['Toy'] });
  const { informer, leases, metrics } = engine;
  const executor = new Executor({ provider, store, informer, leases, clock, log: silentLog, metrics, gate });
  engine.add(executor);
  await engine.open();
  await settle();
  const opened = (): readonly string[] => world.effects.filter((e) => e.kind === 'open').map((e) => e.box);
  return { clock, store, engine, executor, desk, held, asked, released, down, opened, metrics, world };
}

test('S2 C3.2 a grant is kept while its work is under way; the next member waits for it, and nothing is held at the end', async () => {
  const { clock, store, engine, executor, held, released, down, opened } = await scene();
  down.add('x');
  await createToy(store, 'a', ['x', 'y']);
  await clock.advance(20 * SECOND);
  expect(opened()).toEqual(['x']);
  expect([...held].sort()).toEqual(['uid-1/x', 'uid-1/y']);
  expect(executor.waitingAtGate()).toEqual(['uid-1']);
  // Who waits keeps its place: it does not ask anew at every look.
  expect(released).toEqual([]);
  down.delete('x');
  await clock.advance(20 * SECOND);
  expect(opened()).toEqual(['x', 'y']);
  await clock.advance(60 * SECOND);
  expect([...held]).toEqual([]);
  expect(executor.waitingAtGate()).toEqual([]);
  await engine.close();
});

test('S2 S13 a grant that ended before the effect begins is none: nothing is taken down with it', async () => {
  let late = 0;
  const clocks: ManualClock[] = [];
  const slow: ToyHooks = {
    observe: (_, fresh) => {
      if (fresh && late > 0) clocks[0]?.jump(late);
    },
  };
  const { clock, store, engine, opened, metrics } = await scene(slow, SECOND);
  clocks.push(clock);
  await createToy(store, 'a', []);
  late = 2 * SECOND;
  const key = { kind: 'Toy', namespace: 'default', name: 'a' };
  const object = await store.get(key);
  await store.update(key, { spec: { boxes: ['x'] } }, object?.metadata.resourceVersion);
  await clock.advance(3 * SECOND);
  expect(opened()).toEqual([]);
  expect(metrics.refusals.get('NoGrant')).toBeGreaterThan(0);
  late = 0;
  await clock.advance(60 * SECOND);
  expect(opened()).toEqual(['x']);
  await engine.close();
});

test('S13 a step that takes another member down on the fresh reading than it was granted is not done', async () => {
  let fresh = false;
  const { clock, store, engine, opened, metrics } = await scene(
    {
      observe: (_, now) => {
        fresh = now;
      },
    },
    LONG,
    () => (fresh ? ['z'] : ['x']),
  );
  await createToy(store, 'a', ['x']);
  await clock.advance(10 * SECOND);
  expect(opened()).toEqual([]);
  expect(metrics.refusals.get('NoGrant')).toBeGreaterThan(0);
  await engine.close();
});

test('S14 what a process before was granted is given back by the next look, also of a cluster at rest', async () => {
  const { clock, store, engine, held, opened } = await scene({ basis: () => [] });
  await createToy(store, 'a', ['x']);
  await clock.advance(70 * SECOND);
  expect([opened(), [...held]]).toEqual([['x'], []]);
  held.add('uid-1/y');
  await clock.advance(40 * SECOND);
  expect([...held]).toEqual([]);
  await engine.close();
});

test('S2 L1 of steps that are due together, who waits at the gate holds up no other', async () => {
  const { clock, store, engine, down, opened } = await scene(
    {},
    LONG,
    (box) => (box === 'z' ? [] : [box]),
    true,
  );
  down.add('x');
  await createToy(store, 'a', ['x', 'y', 'z']);
  await clock.advance(SECOND);
  expect(opened()).toEqual(['x', 'z']);
  down.delete('x');
  await clock.advance(20 * SECOND);
  expect(opened()).toEqual(['x', 'z', 'y']);
  await engine.close();
});

test('S13 S11 nothing is asked for what is not wanted any more, and nothing done that stopped being wanted while it was asked', async () => {
  for (const when of ['before', 'while'] as const) {
    const key = { kind: 'Toy', namespace: 'default', name: 'a' };
    let changes = 0;
    const takeBack = async (): Promise<void> => {
      if (changes > 0 || ![...made.world.made].includes('x')) return;
      changes++;
      await made.store.update(key, { spec: { boxes: [] } });
    };
    const made = await scene({ observe: () => (when === 'before' ? takeBack() : undefined) }, LONG, (box) => {
      if (when === 'while') void takeBack();
      return [box];
    });
    const { clock, store, engine, opened, asked } = made;
    await createToy(store, 'a', ['x']);
    await clock.advance(20 * SECOND);
    expect(changes, when).toBe(1);
    expect(opened(), when).toEqual([]);
    expect(asked, when).toEqual(when === 'before' ? [] : ['uid-1/x']);
    await engine.close();
  }
});

test('C7.1 the journal tells how long a step waited at the gate once what was begun before it was over', async () => {
  const { clock, store, engine, desk, down, opened } = await scene();
  const journal = async (): Promise<readonly (readonly [string, number | undefined])[]> => {
    const entries = await store.journal({ clusterUid: 'uid-1', limit: 10 });
    return entries.filter((e) => e.step === 'open').map(({ target, heldBack }) => [target, heldBack]);
  };
  const other = { id: 'other', node: 'default/z', holder: 'eve', why: 'works there', priority: 0 };
  down.add('x');
  await createToy(store, 'a', ['x', 'y', 'z']);
  await clock.advance(20 * SECOND);
  admitMember(desk, { ...other, mode: 'force', duration: LONG }, clock.now());
  down.delete('x');
  await clock.advance(40 * SECOND);
  expect(opened()).toEqual(['x']);
  releaseMember(desk, 'other');
  await clock.advance(10 * SECOND);
  const [x, [, heldBack] = [], z] = await journal();
  // The wait was over when y was opened.
  expect(z).toEqual(['z', undefined]);
  expect(x).toEqual(['x', undefined]);
  // From the end of the work on x to the release, each as far as it is looked at every five seconds.
  expect(heldBack).toBeGreaterThanOrEqual(35 * SECOND);
  expect(heldBack).toBeLessThanOrEqual(45 * SECOND);
  await engine.close();
});

test('C7.1 who takes over a wait does not know since when it lasts', () => {
  const waits = (on: string) => ({ act: null, waits: [{ on, until: 0, detail: '' }] });
  const status = { conditions: [{ type: 'Ready' }, { type: 'Progressing', reason: 'MaintenanceWindow' }] };
  expect(heldSince(heldBefore(status), waits('MaintenanceWindow'), false, 5)).toBe(0);
  expect(heldBefore({ conditions: [{ type: 'Progressing', reason: 'ScaleUp' }] })).toBeNull();
  // A status may be of another version, and of another shape.
  for (const odd of [
    null,
    'x',
    {},
    { conditions: 'none' },
    { conditions: { type: 'Ready' } },
    { conditions: [null] },
  ])
    expect(heldBefore(odd)).toBeNull();
  expect(heldSince(null, waits('InMaintenance'), false, 5)).toBe(5);
  expect(heldSince(3, waits('MaintenanceGrant'), false, 5)).toBe(3);
  // Something is worked on, or waited for that belongs to the work.
  expect(heldSince(3, waits('MaintenanceGrant'), true, 5)).toBeNull();
  expect(heldSince(3, waits('InitialSync'), false, 5)).toBeNull();
  const both = [...waits('MaintenanceGrant').waits, ...waits('InitialSync').waits];
  expect(heldSince(3, { act: null, waits: both }, false, 5)).toBeNull();
  expect(heldSince(3, { act: null, waits: [] }, false, 5)).toBeNull();
});
