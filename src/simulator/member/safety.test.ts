import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Lab, type LabNode } from './lab.ts';
import { type OpTime, opTimeText, reached, sameOpTime } from './optime.ts';

/** Watches a lab from outside and remembers what must stay true. */
class Observer {
  readonly leaders = new Map<number, string>();
  readonly committed: OpTime[] = [];
  readonly breaches: string[] = [];

  watch(node: LabNode): void {
    const { state } = node;
    if (state.leader !== null) {
      const known = this.leaders.get(state.leader.term);
      if (known !== undefined && known !== node.host) {
        this.breaches.push(`term ${state.leader.term}: both ${known} and ${node.host} lead`);
      }
      this.leaders.set(state.leader.term, node.host);
    }
    if (state.leader?.mode === 'writable') {
      this.#lead(node);
      const { op } = state.committed;
      const newest = this.committed.at(-1) ?? null;
      if (op !== null && !reached(newest, op)) this.committed.push(op);
    }
  }

  /** A writable primary of a later term has everything that was committed before. */
  #lead(node: LabNode): void {
    for (const op of this.committed) {
      if (op.t >= node.state.leader!.term) continue;
      if (!node.log.some((entry) => sameOpTime(entry.op, op))) {
        this.breaches.push(`${node.host} in term ${node.state.term} lacks committed ${opTimeText(op)}`);
      }
    }
  }
}

type Action =
  | { readonly kind: 'run'; readonly millis: number }
  | { readonly kind: 'write' | 'crash' | 'restart' | 'stepDown' | 'stepUp' | 'freeze'; readonly who: number }
  | { readonly kind: 'cut'; readonly mask: number }
  | { readonly kind: 'heal' }
  | { readonly kind: 'isolatePrimary' }
  | { readonly kind: 'votes'; readonly who: number };

const who = fc.nat({ max: 4 });
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('run' as const), millis: fc.integer({ min: 1, max: 4_000 }) }),
  },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('write' as const), who }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('crash' as const), who }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('restart' as const), who }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom('stepDown' as const, 'stepUp' as const, 'freeze' as const),
      who,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('cut' as const), mask: fc.integer({ min: 1, max: 30 }) }),
  },
  { weight: 3, arbitrary: fc.constantFrom({ kind: 'heal' as const }, { kind: 'isolatePrimary' as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('votes' as const), who }) },
);

function flipVotes(lab: Lab, host: string) {
  const primary = lab.primary();
  const config = primary?.state.config;
  if (!primary || !config) return;
  const members = config.members.map((member) => {
    const { id, newlyAdded: _, horizons: __, ...rest } = member;
    const flipped = member.host === host ? { votes: 1 - member.votes, priority: 1 - member.votes } : {};
    return { ...rest, _id: id, ...flipped };
  });
  lab.command(primary.host, {
    kind: 'reconfig',
    document: {
      _id: config.setName,
      version: config.version + 1,
      members,
      settings: { replicaSetId: config.settings.replicaSetId },
    },
    options: { force: false, maxTimeMillis: 3_000, explicitDefault: true, defaultMode: null, jump: 0 },
  });
}

/** Cuts the newest primary off, together with one other in larger sets: it goes on writing until it notices. */
function isolatePrimary(lab: Lab, hosts: readonly string[]): void {
  const primary = lab.primary();
  if (!primary) return;
  const others = hosts.filter((host) => host !== primary.host);
  const company = hosts.length > 3 ? others.splice(0, 1) : [];
  lab.partition([primary.host, ...company], others);
}

function perform(lab: Lab, hosts: readonly string[], step: Action) {
  if (step.kind === 'run') return lab.run(step.millis);
  if (step.kind === 'heal') return lab.heal();
  if (step.kind === 'isolatePrimary') return isolatePrimary(lab, hosts);
  if (step.kind === 'cut') {
    const inside = hosts.filter((_, index) => (step.mask >> index) & 1);
    return lab.partition(
      inside,
      hosts.filter((host) => !inside.includes(host)),
    );
  }
  const host = hosts[step.who % hosts.length]!;
  const { up } = lab.node(host);
  if (step.kind === 'restart') return up ? undefined : lab.restart(host);
  if (!up) return;
  switch (step.kind) {
    case 'write':
      for (const each of hosts) lab.write(each);
      return;
    case 'crash':
      return lab.crash(host);
    case 'stepDown':
      lab.command(host, { kind: 'stepDown', secs: 20, catchUpSecs: 2, force: step.who % 2 === 0 });
      return;
    case 'stepUp':
      lab.command(host, { kind: 'stepUp', skipDryRun: step.who % 2 === 0 });
      return;
    case 'freeze':
      lab.command(host, { kind: 'freeze', secs: 5 });
      return;
    case 'votes':
      return flipVotes(lab, host);
  }
}

function play(
  size: number,
  seed: number,
  loss: number,
  steps: readonly Action[],
): { lab: Lab; observer: Observer } {
  const hosts = ['a:1', 'b:1', 'c:1', 'd:1', 'e:1'].slice(0, size);
  const lab = new Lab(hosts, {
    seed,
    loss,
    maxDelay: 40,
    clocks: { electionTimeoutMillis: 2_000, heartbeatIntervalMillis: 400 },
  });
  const observer = new Observer();
  lab.watch = (node) => observer.watch(node);
  lab.initiate(
    'a:1',
    hosts.map((host, _id) => ({ _id, host })),
    // Catch-up hides a primary elected with too little; half of the schedules go without it.
    seed % 2 === 0 ? { catchUpTimeoutMillis: 0 } : {},
  );
  lab.run(3_000);
  for (const step of steps) perform(lab, hosts, step);
  return { lab, observer };
}

const schedule = fc.tuple(
  fc.constantFrom(3, 5),
  fc.integer({ min: 1, max: 1_000_000 }),
  fc.constantFrom(0, 0.05, 0.2),
  fc.array(action, { minLength: 10, maxLength: 60 }),
);

test('under any schedule of crashes, partitions, losses and commands there is one primary per term and nothing committed is lost', () => {
  fc.assert(
    fc.property(schedule, ([size, seed, loss, steps]) => {
      const { lab, observer } = play(size, seed, loss, steps);
      expect(observer.breaches).toEqual([]);
      expect(lab.story.filter((line) => line.includes('FATAL'))).toEqual([]);
    }),
    { numRuns: 500, seed: 20_240_601 },
  );
});

const RING: [number, number, number, Action[]] = [
  3,
  1,
  0,
  [
    { kind: 'write', who: 0 },
    { kind: 'isolatePrimary' },
    { kind: 'run', millis: 368 },
    { kind: 'heal' },
    { kind: 'run', millis: 1 },
  ],
];

test('when faults end, a set with all members up has one primary again and equal logs', () => {
  fc.assert(
    fc.property(schedule, ([size, seed, , steps]) => {
      const { lab, observer } = play(size, seed, 0, steps);
      lab.heal();
      for (const node of lab.nodes.values()) if (!node.up) lab.restart(node.host);
      const done = lab.until(() => {
        const primary = lab.primary();
        if (!primary) return false;
        const newest = primary.log.at(-1)?.op ?? null;
        return [...lab.nodes.values()].every(
          (node) =>
            sameOpTime(node.log.at(-1)?.op ?? null, newest) &&
            /^(PRIMARY|SECONDARY)$/.test(lab.stateOf(node.host)),
        );
      }, 120_000);
      expect(done).toBe(true);
      expect(observer.breaches).toEqual([]);
    }),
    // The example once left two followers following each other.
    { numRuns: 200, seed: 20_240_602, examples: [[RING]] },
  );
});

test('equal seeds give equal histories', () => {
  const steps: Action[] = [
    { kind: 'write', who: 0 },
    { kind: 'cut', mask: 1 },
    { kind: 'run', millis: 9_000 },
    { kind: 'heal' },
    { kind: 'run', millis: 9_000 },
  ];
  expect(play(5, 7, 0.1, steps).lab.story).toEqual(play(5, 7, 0.1, steps).lab.story);
});
