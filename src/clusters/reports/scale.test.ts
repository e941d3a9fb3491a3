import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Step } from '../decisions.ts';
import type { ConfigMember, MemberStateName } from '../facts.ts';
import { desired } from '../fixtures.ts';
import { Play } from '../play.ts';
import { applyOutcome, startStep } from '../steps.ts';
import type { Desired } from '../types.ts';

const votersOf = (rows: readonly ConfigMember[]): readonly string[] =>
  rows.filter((row) => row.votes === 1).map((row) => row.host);

/** A set whose server takes one vote's change at a time, never by force, and whose platform counts what it holds. */
class Server extends Play {
  readonly held = new Set<string>();
  readonly order: string[] = [];
  maxVoters = 0;
  /** Reconfigurations that are refused because the one before is not committed yet. */
  uncommitted = 0;

  constructor(want: Desired) {
    super(want);
    for (const m of this.state.members) this.held.add(`runtime ${m.name}`).add(`volume ${m.name}`);
  }

  override perform(step: Step): void {
    if (step.kind === 'reconfig') {
      if (this.uncommitted > 0) {
        this.refuse(step);
        return;
      }
      expect(JSON.stringify(step)).not.toContain('force');
      const [before, after] = [votersOf(this.config.members), votersOf(step.config.members)];
      const changed =
        before.filter((h) => !after.includes(h)).length + after.filter((h) => !before.includes(h)).length;
      expect(changed, step.change).toBeLessThan(2);
      this.maxVoters = Math.max(this.maxVoters, after.length);
      for (const row of this.config.members)
        if (!step.config.members.some((r) => r.host === row.host)) this.order.push(`out ${row.host}`);
    }
    if (step.kind === 'import') this.held.add(`runtime ${step.member}`).add(`volume ${step.member}`);
    if (step.kind === 'deleteRuntime') this.held.delete(`runtime ${step.member}`);
    if (step.kind === 'deleteVolume') {
      expect(this.held.has(`runtime ${step.member}`)).toBe(false);
      this.held.delete(`volume ${step.member}`);
    }
    if (step.kind === 'deleteRuntime' || step.kind === 'deleteVolume')
      this.order.push(`${step.kind} ${step.member}`);
    super.perform(step);
  }

  private refuse(step: Step): void {
    this.uncommitted--;
    const code = 'CurrentConfigNotCommittedYet';
    const failed = { kind: 'failed', code, message: 'not committed', retry: 'later' } as const;
    this.state = applyOutcome(startStep(this.state, step, 'x', this.now), step, 'x', failed, this.now);
  }

  scale(members: number): void {
    this.desired = desired({}, members);
    expect(this.toTheEnd(120).at(-1)).toBe('converged');
    expect(this.config.members).toHaveLength(members);
    this.lines.length = 0;
  }

  elect(index: number): void {
    const members = this.state.members;
    this.states = [];
    for (const m of members) this.states[m.index] = m.index === index ? 'PRIMARY' : 'SECONDARY';
  }
}

test('SCL-01 S5 S3 7 → 3 and 3 → 7 with every possible primary: one vote a time, without force', () => {
  for (let primary = 0; primary < 7; primary++) {
    const server = new Server(desired({}, 7));
    server.elect(primary);
    server.scale(3);
    expect(server.order.filter((line) => line.startsWith('out'))).toHaveLength(4);
    server.scale(7);
    expect(votersOf(server.config.members)).toHaveLength(7);
  }
});

test('SCL-01 A6.4 a primary that leaves steps down before it is taken out of the configuration', () => {
  const server = new Server(desired({}, 5));
  server.elect(4);
  server.desired = desired();
  const lines = server.toTheEnd();
  const [handOver, leaves] = [
    lines.findIndex((l) => l.startsWith('stepDown orders-4')),
    lines.findIndex((l) => l.startsWith('orders-4 leaves')),
  ];
  expect(handOver).toBeGreaterThanOrEqual(0);
  expect(leaves).toBeGreaterThan(handOver);
});

test('SCL-02 S5 a configuration that is not committed yet is waited for and sent again, never forced', () => {
  const server = new Server(desired({}, 5));
  server.uncommitted = 3;
  server.scale(3);
  server.uncommitted = 2;
  server.scale(5);
});

test('SCL-02 SCL-01 random sequences of sizes and primaries converge without force and one vote at a time', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom(1, 3, 5, 7), fc.nat(6)), { minLength: 1, maxLength: 5 }),
      (moves) => {
        const server = new Server(desired());
        for (const [size, pick] of moves) {
          const members = server.state.members;
          server.elect(members[pick % members.length]?.index ?? 0);
          server.scale(size);
        }
      },
    ),
    { numRuns: 40 },
  );
});

test('SCL-05 A6.4 order of 5 → 3: out of the configuration, then the process, then the volume', () => {
  const server = new Server(desired({}, 5));
  server.scale(3);
  for (const [name, host] of [
    ['orders-4', 'db5:27017'],
    ['orders-3', 'db4:27017'],
  ] as const) {
    const at = (line: string): number => server.order.indexOf(line);
    expect(at(`out ${host}`)).toBeGreaterThanOrEqual(0);
    expect(at(`deleteRuntime ${name}`)).toBeGreaterThan(at(`out ${host}`));
    expect(at(`deleteVolume ${name}`)).toBeGreaterThan(at(`deleteRuntime ${name}`));
  }
});

test('SCL-05 nothing of a member is taken down while the set still counts on it', () => {
  const server = new Server(desired({}, 5));
  server.states = ['PRIMARY', 'RECOVERING', 'RECOVERING', 'SECONDARY', 'SECONDARY'] as MemberStateName[];
  server.desired = desired();
  for (let pass = 0; pass < 10; pass++) expect(server.pass()).toMatch(/^wait/);
  expect(server.order).toEqual([]);
});

test('SCL-07 7 → 9 and back: the two beyond seven have no vote, and nobody restarts', () => {
  const server = new Server(desired({}, 7));
  const nine = desired({}, 9);
  const members = nine.members.map((m, i) => (i < 7 ? m : { ...m, votes: 0 as const, priority: 0 }));
  server.desired = { ...nine, members };
  const up = server.toTheEnd();
  expect(up.at(-1)).toBe('converged');
  expect(server.maxVoters).toBe(7);
  expect(server.config.members.map((row) => [row.votes, row.priority])).toEqual([
    ...Array(7).fill([1, 1]),
    [0, 0],
    [0, 0],
  ]);
  server.lines.length = 0;
  server.desired = desired({}, 7);
  const down = server.toTheEnd();
  expect(down.at(-1)).toBe('converged');
  expect([...up, ...down].filter((l) => /^(reload|upgrade|stepDown)/.test(l))).toEqual([]);
});

test('SCL-10 A6.4 counts up and down leave nothing on the platform that nobody wants', () => {
  const server = new Server(desired());
  for (const size of [5, 3, 7, 1, 3]) {
    server.scale(size);
    const wanted = server.state.members.flatMap((m) => [`runtime ${m.name}`, `volume ${m.name}`]);
    expect([...server.held].sort()).toEqual(wanted.sort());
  }
});

test('MBR-02 A6.3 1 → 3 → 1 → 3: the first member stays primary untouched, and who returns is somebody new', () => {
  const server = new Server(desired({}, 1));
  for (const size of [3, 1, 3]) {
    server.scale(size);
    expect(server.states[0]).toBe('PRIMARY');
  }
  expect(server.state.members.map((m) => m.index)).toEqual([0, 3, 4]);
  expect(server.state.members.map((m) => m.volumeId)).toEqual(['v-orders-0', 'v-orders-3', 'v-orders-4']);
  expect(server.state.members[0]?.activated?.configVersion).toBe(1);
});
