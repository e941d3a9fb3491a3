/**
 * A13.3 under everything at once: sizes, victims, cancellation at any moment, changes of the spec, machines that go and
 * come. What must never happen is watched by a server that knows the truth, not by the planner's own predicates.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Step } from '../decisions.ts';
import type { ConfigMember } from '../facts.ts';
import { desired, host } from '../fixtures.ts';
import { Play } from '../play.ts';
import { memberOf } from '../state.ts';
import { memberHost, stayingMembers } from '../topology.ts';
import type { Desired, DesiredMember, MemberState, OperationRequest } from '../types.ts';

const votersOf = (rows: readonly ConfigMember[]): readonly string[] =>
  rows.filter((r) => r.votes === 1).map((r) => r.host);

class Truth extends Play {
  /** Where each member was, by name: those that are gone included. */
  readonly places = new Map<string, string>();
  readonly deleted: string[] = [];

  override perform(step: Step): void {
    if (step.kind === 'reconfig') this.#reconfig(step.config.members);
    // A suspension takes down everybody.
    const suspends = step.kind === 'deleteRuntime' && this.desired.suspend;
    if ((step.kind === 'deleteRuntime' || step.kind === 'deleteVolume') && !suspends)
      this.#takesDown(step.member, step.kind);
    if (step.kind === 'stepDown') this.#handsOver();
    super.perform(step);
    for (const m of this.state.members) if (memberHost(m)) this.places.set(m.name, memberHost(m) ?? '');
  }

  /** Who comes back elects; who is away does not. */
  override pass(): string {
    if (this.primary() === null) this.vote();
    return super.pass();
  }

  #member(at: string): MemberState | undefined {
    return this.state.members.find((m) => memberHost(m) === at);
  }

  #reconfig(after: readonly ConfigMember[]): void {
    const before = this.config.members;
    const [was, is] = [votersOf(before), votersOf(after)];
    expect(is.length, 'A13.3 never an eighth voter').toBeLessThanOrEqual(7);
    const changed = [...was.filter((h) => !is.includes(h)), ...is.filter((h) => !was.includes(h))];
    expect(changed.length, 'S5 one vote a time').toBeLessThan(2);
    const up = (at: string): boolean => {
      const member = this.#member(at);
      return member !== undefined && this.isUp(member) && !this.isCopying(member);
    };
    for (const voters of [was, is])
      expect(voters.filter(up).length, 'S1 a majority of the voters is well').toBeGreaterThan(
        voters.length / 2,
      );
    for (const row of after) {
      const old = before.find((r) => r.host === row.host);
      if (old === undefined) expect([row.votes, row.priority], 'S5 joins without vote').toEqual([0, 0]);
      const member = this.#member(row.host);
      if (old?.votes === 0 && row.votes === 1 && member !== undefined)
        expect(this.isCopying(member), 'A6.3 no vote while it copies').toBe(false);
    }
    for (const row of before)
      if (!after.some((r) => r.host === row.host))
        expect(this.primary() === null || memberHost(this.primary() as MemberState), 'S3').not.toBe(row.host);
  }

  #takesDown(name: string, kind: string): void {
    const at = this.places.get(name);
    expect(
      this.config.members.some((r) => r.host === at),
      `S4 ${kind} of ${name}, which is in the set`,
    ).toBe(false);
    expect(this.lostHosts.has(memberOf(this.state, name)?.host ?? ''), `${name} on a host that is away`).toBe(
      false,
    );
    this.deleted.push(name);
  }

  #handsOver(): void {
    const heirs = this.state.members.filter((m) => {
      const row = this.config.members.find((r) => r.host === memberHost(m));
      return (
        m !== this.primary() && row?.votes === 1 && row.priority > 0 && this.isUp(m) && !this.isCopying(m)
      );
    });
    expect(heirs.length, 'S3 somebody can take over').toBeGreaterThan(0);
  }
}

const sizes = fc.constantFrom(1, 3, 5, 7);
const victims = fc.constantFrom('primary', 'secondary', 'down', 'lost') as fc.Arbitrary<
  'primary' | 'secondary' | 'down' | 'lost'
>;
const changes = fc.constantFrom(
  'none',
  'scale up',
  'scale down',
  'config',
  'version',
  'votes',
  'pause',
  'suspend',
);
const moments = fc.option(fc.nat(24), { nil: null });

interface Case {
  readonly size: number;
  readonly victim: 'primary' | 'secondary' | 'down' | 'lost';
  readonly cancelAt: number | null;
  readonly change: string;
  readonly changeAt: number;
  readonly move: boolean;
  readonly syncPasses: number;
  /** When a host of another member is away for some passes. */
  readonly trouble: number | null;
  /** When the host that was lost is there again; null: never. */
  readonly backAt: number | null;
}

const cases: fc.Arbitrary<Case> = fc.record({
  size: sizes,
  victim: victims,
  cancelAt: moments,
  change: changes,
  changeAt: fc.nat(24),
  move: fc.boolean(),
  syncPasses: fc.nat(4),
  trouble: moments,
  backAt: fc.option(fc.integer({ min: 20, max: 40 }), { nil: null }),
});

/** Settings that differ from place to place, so that it is seen whether they stay with the place. */
const placed = (size: number): Desired => {
  const base = desired({}, size);
  const members = base.members.map((m, i): DesiredMember => ({ ...m, tags: { place: `p${i}` } }));
  return { ...base, members, interruption: true };
};

function changed(want: Desired, change: string): Desired {
  const { members } = want;
  const next = { ...want, generation: want.generation + 1 };
  switch (change) {
    case 'scale up':
      return { ...next, members: placed(Math.min(7, members.length + 2)).members };
    case 'scale down':
      return { ...next, members: members.slice(0, Math.max(1, members.length - 2)) };
    case 'config':
      return { ...next, mongodConfig: { operationProfiling: { slowOpThresholdMs: 5 } } };
    case 'version':
      return { ...next, version: '8.0.12-4' };
    case 'votes':
      return {
        ...next,
        members: members.map((m, i) =>
          i > 0 && i === members.length - 1 ? { ...m, votes: 0, priority: 0 } : m,
        ),
      };
    case 'pause':
      return { ...next, paused: true };
    case 'suspend':
      return { ...next, suspend: true };
    default:
      return want;
  }
}

function scenario({ size, victim, move, syncPasses }: Case): { set: Truth; old: MemberState } {
  const set = new Truth(placed(size));
  const versions = ['8.0.32-14', '8.0.12-4'];
  set.hosts = Array.from({ length: size + 3 }, (_, i) =>
    host(`db${i + 1}`, { executables: { mongod: versions } }),
  );
  set.syncPasses = syncPasses;
  const old = set.state.members[victim === 'primary' || size === 1 ? 0 : size - 2] as MemberState;
  if (size > 1 && victim === 'down') set.crash(old.index);
  if (size > 1 && victim === 'lost') set.lose(old.host ?? '');
  const ref = { mongodbResourceRef: { name: 'orders' }, member: old.name };
  set.requests = [
    {
      uid: 'op-1',
      name: 'change',
      spec: move ? { type: 'Move', ...ref, avoidHosts: ['db1'] } : { type: 'Replace', ...ref },
      createdAt: 0,
      cancelRequested: false,
    },
  ];
  return { set, old };
}

function play(one: Case): { set: Truth; old: MemberState; cancelled: boolean } {
  const { set, old } = scenario(one);
  const want = set.desired;
  let away: string | null = null;
  for (let pass = 0; pass < 140; pass++) {
    if (pass === one.cancelAt)
      set.requests = set.requests.map((r): OperationRequest => ({ ...r, cancelRequested: true }));
    if (pass === one.changeAt) set.desired = changed(want, one.change);
    if (pass === one.changeAt + 12 && ['pause', 'suspend'].includes(one.change))
      set.desired = { ...want, generation: want.generation + 2 };
    if (pass === one.trouble) {
      away = set.state.members.find((m) => m.name !== old.name && m.host !== null)?.host ?? null;
      if (away !== null) set.lose(away);
    }
    if (one.trouble !== null && away !== null && pass === one.trouble + 6) set.lose(away, false);
    if (pass === one.backAt && one.victim === 'lost') set.lose(old.host ?? '', false);
    set.pass();
  }
  return { set, old, cancelled: set.state.ended[0]?.state === 'Cancelled' };
}

/** The substitute had joined, and came back as an eighth with the place of the member that stayed. */
const GIVEN_UP_AND_SUSPENDED: Case = {
  size: 7,
  victim: 'primary',
  cancelAt: 4,
  change: 'suspend',
  changeAt: 4,
  move: false,
  syncPasses: 0,
  trouble: null,
  backAt: null,
};

test('A13.3 A13.6 A13.7 S1 S3 S4 S5 L1 whatever happens meanwhile, a replacement keeps the rules and ends with the right members', () => {
  fc.assert(
    fc.property(cases, (one) => {
      const { set, old, cancelled } = play(one);
      const { state } = set;
      const goneForGood = one.victim === 'lost' && one.size > 1 && one.backAt === null;
      expect(state.operation, 'L1 it is over').toBeNull();
      expect(state.ended, 'with an outcome').toHaveLength(1);
      const outcome = state.ended[0];
      const succeeded = outcome?.state === 'Succeeded';
      // A smaller spec may have had no place for it before it began.
      const late =
        one.change === 'scale down' && /no place|leaves the set|no member/.test(outcome?.message ?? '');
      expect(succeeded || cancelled || late, outcome?.message).toBe(true);
      if (succeeded) expect(state.members.map((m) => m.name)).not.toContain(old.name);
      expect(state.members.some((m) => m.replacement !== undefined)).toBe(false);
      if (!goneForGood) expect(state.retired, 'nothing is left anywhere').toBeUndefined();
      // A member that was not replaced is down as before.
      if (!succeeded && (goneForGood || (one.victim === 'down' && one.size > 1))) return;
      expect(state.members, 'as many as the spec wants').toHaveLength(set.desired.members.length);
      const rows = stayingMembers(state).map((m) => set.config.members.find((r) => r.host === memberHost(m)));
      expect(
        rows.map((r) => [r?.tags?.['place'], r?.votes]),
        'settings by place',
      ).toEqual(set.desired.members.map((m) => [m.tags['place'], m.votes]));
      expect(set.config.members).toHaveLength(set.desired.members.length);
      expect(set.pass()).toBe('converged');
    }),
    { numRuns: 300, examples: [[GIVEN_UP_AND_SUSPENDED]] },
  );
}, 60_000);
