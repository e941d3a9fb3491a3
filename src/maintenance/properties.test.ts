import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RequestInput } from './answers.ts';
import { Desk } from './desk.ts';
import { Fleet } from './fleet.ts';
import type { FleetSpec, NodeState } from './fleetSpec.ts';
import { isFinal } from './reasons.ts';
import { anyFleet } from './testing/fleets.ts';
import { type PlainMode, plainOf, plainPass } from './testing/recount.ts';
import type { Action, Book, Mode } from './types.ts';

/** The same runs every time: a failure is one for everybody. */
const RUNS = { numRuns: 400, seed: 20_261_130 };
const MODES = ['strong', 'weak', 'force'] as const;

/** What happens to a desk, with numbers that are taken modulo what there is. */
type Event =
  | {
      readonly kind: 'ask';
      readonly mode: PlainMode;
      readonly priority: number;
      readonly partial: boolean;
      readonly targets: readonly { readonly host: boolean; readonly at: number }[];
    }
  | { readonly kind: 'again'; readonly at: number }
  | { readonly kind: 'done'; readonly at: number }
  | { readonly kind: 'drop'; readonly at: number }
  | { readonly kind: 'health'; readonly at: number; readonly state: NodeState }
  | { readonly kind: 'wait'; readonly seconds: number };

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('ask' as const),
      mode: fc.constantFrom(...MODES),
      priority: fc.constantFrom(0, 0, -5, 7),
      partial: fc.boolean(),
      targets: fc.array(fc.record({ host: fc.boolean(), at: fc.nat(40) }), { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('again' as const), at: fc.nat(40) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('done' as const), at: fc.nat(40) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('drop' as const), at: fc.nat(40) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('health' as const),
      at: fc.nat(40),
      state: fc.constantFrom<NodeState>('up', 'down', 'unknown'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), seconds: fc.constantFrom(10, 70, 400) }),
  },
);
const events = fc.array(event, { minLength: 1, maxLength: 14 });

const hostsOf = (spec: FleetSpec): readonly string[] => [...new Set(spec.nodes.map((n) => n.host))];
const nodesOf = (spec: FleetSpec, { scope }: Action): readonly string[] => {
  if (scope.kind === 'node') return [scope.node];
  return scope.kind === 'host' ? spec.nodes.filter((n) => n.host === scope.host).map((n) => n.key) : [];
};
/** The order in which actions are looked at: nodes of system tablets last. */
function inPassOrder<T extends { readonly action: Action }>(
  spec: FleetSpec,
  asks: readonly T[],
  created: boolean,
): readonly T[] {
  const tablets = new Set((spec.limits ?? []).filter((l) => l.kind === 'tablets').flatMap((l) => l.nodes));
  const late = (ask: T): boolean => created && nodesOf(spec, ask.action).some((n) => tablets.has(n));
  return [...asks.filter((a) => !late(a)), ...asks.filter(late)];
}

/** A desk with the plain truth beside it. */
class Bench {
  spec: FleetSpec;
  desk: Desk;
  now = 0;
  #fleet: Fleet;

  constructor(spec: FleetSpec, book?: Book) {
    this.spec = spec;
    this.#fleet = new Fleet(spec);
    this.desk = new Desk(this.#fleet, book);
  }

  /** What counts as locked for a request of this priority. */
  locked(priority: number, except: string | null): readonly string[] {
    // Members that settle after work on them.
    const announced = this.desk.announcements().flatMap(({ actions }) => actions);
    const held = [...this.desk.entries()].flatMap((entry) => [
      ...entry.held.flatMap((p) => nodesOf(this.spec, p.action)),
      ...(entry.priority < priority &&
      entry.id !== except &&
      entry.stale !== true &&
      (entry.partial || !entry.pending.some((p) => p.refusal !== null && isFinal(p.refusal.reason)))
        ? entry.pending
            .filter((p) => p.refusal === null || !isFinal(p.refusal.reason))
            .flatMap((p) => nodesOf(this.spec, p.action))
        : []),
    ]);
    return [...held, ...announced.flatMap((action) => nodesOf(this.spec, action))];
  }

  /** What the plain recount grants of some actions now. */
  expected(
    asks: readonly { readonly action: Action }[],
    mode: PlainMode,
    priority: number,
    partial: boolean,
    except: string | null,
  ): readonly string[] {
    const plain = plainOf(this.spec, this.locked(priority, except), this.now);
    const actions = asks.map((ask) => nodesOf(this.spec, ask.action));
    return plainPass(plain, actions, mode, partial).map((i) => JSON.stringify(asks[i]?.action.scope));
  }

  /** Does it, and gives the scopes that were granted: really, and by the plain recount. */
  play(e: Event): { readonly granted: readonly string[]; readonly wanted: readonly string[] } | null {
    const entries = [...this.desk.entries()];
    switch (e.kind) {
      case 'ask': {
        const input = this.input(e);
        this.desk.expire(this.now);
        const wanted = this.expected(
          inPassOrder(this.spec, input.actions, true),
          e.mode,
          e.priority,
          e.partial,
          null,
        );
        const answer = this.desk.request(input, this.now);
        return { wanted, granted: answer.granted.map((p) => JSON.stringify(p.action.scope)) };
      }
      case 'again': {
        this.desk.expire(this.now);
        const waiting = [...this.desk.entries()].filter((x) => x.pending.length > 0);
        const entry = waiting[e.at % Math.max(1, waiting.length)];
        if (entry === undefined) return null;
        const wanted = this.expected(
          entry.pending,
          entry.mode as PlainMode,
          entry.priority,
          entry.partial,
          entry.id,
        );
        const answer = this.desk.check(entry.id, this.now);
        return { wanted, granted: answer.granted.map((p) => JSON.stringify(p.action.scope)) };
      }
      case 'done': {
        const held = entries.flatMap((x) => x.held);
        this.desk.complete(held[e.at % Math.max(1, held.length)]?.id ?? '');
        return null;
      }
      case 'drop':
        this.desk.drop(entries[e.at % Math.max(1, entries.length)]?.id ?? '');
        return null;
      case 'health': {
        const at = e.at % this.spec.nodes.length;
        this.spec = {
          ...this.spec,
          nodes: this.spec.nodes.map((n, i) => (i === at ? { ...n, state: e.state } : n)),
        };
        this.#fleet.setNode(at, e.state);
        return null;
      }
      case 'wait':
        this.now += e.seconds * 1000;
        return null;
    }
  }

  input(e: Extract<Event, { kind: 'ask' }>, dry = false): RequestInput {
    const hosts = hostsOf(this.spec);
    const scopes = e.targets.map(({ host, at }): Action['scope'] =>
      host
        ? { kind: 'host', host: hosts[at % hosts.length] ?? '' }
        : { kind: 'node', node: this.spec.nodes[at % this.spec.nodes.length]?.key ?? '' },
    );
    return {
      owner: 'u',
      mode: e.mode,
      priority: e.priority,
      partial: e.partial,
      schedule: true,
      dry,
      actions: scopes.map((scope, i) => ({
        action: { type: 'lock', scope, duration: 60_000 },
        at: [i, 0] as const,
      })),
    };
  }
}

test('C5.4 S13 counters give the verdicts of a plain recount, whatever happened before', () => {
  fc.assert(
    fc.property(anyFleet, events, (spec, list) => {
      const bench = new Bench(spec);
      for (const e of list) {
        const result = bench.play(e);
        if (result !== null) expect(result.granted).toEqual(result.wanted);
      }
    }),
    RUNS,
  );
});

/** Verdict on one action, by itself, without changing anything. */
const verdict = (
  bench: Bench,
  target: { readonly host: boolean; readonly at: number },
  mode: Mode,
): boolean =>
  bench.desk.request(
    {
      ...bench.input({ kind: 'ask', mode: 'strong', priority: 0, partial: true, targets: [target] }, true),
      mode,
    },
    bench.now,
  ).granted.length > 0;

const target = fc.record({ host: fc.boolean(), at: fc.nat(40) });

test('C2 S13 what strong allows weak allows, and what weak allows force allows', () => {
  fc.assert(
    fc.property(anyFleet, events, target, (spec, list, asked) => {
      const bench = new Bench(spec);
      for (const e of list) bench.play(e);
      const [strong, weak, force] = MODES.map((mode) => verdict(bench, asked, mode));
      expect([strong && !weak, weak && !force]).toEqual([false, false]);
      // Smart is strong first and weak else, for one who holds nothing yet.
      expect(verdict(bench, asked, 'smart') && !force).toBe(false);
    }),
    RUNS,
  );
});

test('S13 a further lock never allows more', () => {
  fc.assert(
    fc.property(
      anyFleet,
      events,
      target,
      fc.nat(40),
      fc.constantFrom(...MODES),
      (spec, list, asked, other, mode) => {
        const bench = new Bench(spec);
        for (const e of list) bench.play(e);
        const before = verdict(bench, asked, mode);
        bench.play({
          kind: 'ask',
          mode: 'force',
          priority: 0,
          partial: true,
          targets: [{ host: false, at: other }],
        });
        expect(verdict(bench, asked, mode) && !before).toBe(false);
      },
    ),
    RUNS,
  );
});

test('C1.1 S13 an atomic group is granted whole or not at all', () => {
  fc.assert(
    fc.property(anyFleet, events, fc.array(target, { minLength: 2, maxLength: 4 }), (spec, list, targets) => {
      const bench = new Bench(spec);
      for (const e of list) bench.play(e);
      const ask = { kind: 'ask', mode: 'weak', priority: 0, partial: false, targets } as const;
      const granted = bench.desk.request(bench.input(ask), bench.now).granted.length;
      expect([0, targets.length]).toContain(granted);
    }),
    RUNS,
  );
});

/** The same fleet with nothing that only waiting makes better. */
const allWell = (spec: FleetSpec): FleetSpec => ({
  ...spec,
  nodes: spec.nodes.map((n) => ({
    ...n,
    state: 'up',
    startedAt: null,
    disks: n.disks.map((disk) => ({ ...disk, ok: true })),
  })),
  groups: (spec.groups ?? []).map((g) => ({ ...g, vdisks: g.vdisks.map((v) => ({ ...v, ok: true })) })),
});

test('C1.1 C1.2 a group is told that it waits in vain where it does, whatever else is in its way, and nowhere else', () => {
  const groups = fc.array(target, { minLength: 2, maxLength: 3 });
  let told = 0;
  fc.assert(
    fc.property(anyFleet, events, groups, fc.constantFrom(...MODES), (spec, list, targets, mode) => {
      const bench = new Bench(spec);
      for (const e of list) bench.play(e);
      const input = bench.input({ kind: 'ask', mode, priority: 0, partial: false, targets }, true);
      const actions = input.actions.map(({ action }) => nodesOf(spec, action));
      const ideal = plainOf(allWell(spec), [], 0);
      const alone = actions.every((nodes) => plainPass(ideal, [nodes], mode, false).length > 0);
      const together = plainPass(ideal, actions, mode, false).length > 0;
      const { code } = bench.desk.request(input, bench.now);
      if (together) expect(['ALLOW', 'DISALLOW_TEMP']).toContain(code);
      else if (alone && code !== 'ALLOW') expect(['WRONG_REQUEST', 'DISALLOW']).toContain(code);
      if (alone && !together && code !== 'ALLOW') told++;
    }),
    RUNS,
  );
  expect(told).toBeGreaterThan(RUNS.numRuns / 10);
});

test('C1.5 S13 a dry run changes nothing', () => {
  fc.assert(
    fc.property(anyFleet, events, event, (spec, list, last) => {
      const bench = new Bench(spec);
      for (const e of list) bench.play(e);
      bench.desk.expire(bench.now);
      const before = JSON.stringify(bench.desk.book());
      if (last.kind === 'ask') bench.desk.request(bench.input(last, true), bench.now);
      for (const entry of bench.desk.entries()) bench.desk.check(entry.id, bench.now, { dry: true });
      expect(JSON.stringify(bench.desk.book())).toBe(before);
    }),
    RUNS,
  );
});

test('C1.6 a restart in the middle changes no verdict', () => {
  fc.assert(
    fc.property(anyFleet, events, events, (spec, before, after) => {
      const straight = new Bench(spec);
      for (const e of before) straight.play(e);
      const again = new Bench(straight.spec, JSON.parse(JSON.stringify(straight.desk.book())) as Book);
      again.now = straight.now;
      for (const e of after) expect(again.play(e)).toEqual(straight.play(e));
      expect(again.desk.book()).toEqual(straight.desk.book());
    }),
    RUNS,
  );
});

test('MNT-04 S13 counters return to where they were when everything is given back', () => {
  fc.assert(
    fc.property(anyFleet, events, (spec, list) => {
      const bench = new Bench(spec);
      for (const e of list) bench.play(e);
      for (const entry of [...bench.desk.entries()]) bench.desk.drop(entry.id);
      const fresh = new Fleet(bench.spec);
      const { fleet } = bench.desk;
      expect([...fleet.groupLocked]).toEqual([...fresh.groupLocked]);
      expect([...fleet.groupDown]).toEqual([...fresh.groupDown]);
      expect([...fleet.realmOut]).toEqual([...fresh.realmOut]);
      expect(fleet.sets).toEqual(fresh.sets);
      expect(fleet.limitSets).toEqual(fresh.limitSets);
      expect(fleet.storages).toEqual(fresh.storages);
    }),
    RUNS,
  );
});
