import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DAY } from '../base/units.ts';
import { type AuthorityPhase, holdersOf, lackingIn, trustOf } from './authority.ts';
import type { Step } from './decisions.ts';
import { desired } from './fixtures.ts';
import { Play } from './play.ts';
import type { Authority, State } from './types.ts';

const BUNDLES: Readonly<Record<AuthorityPhase, Authority>> = {
  stable: { trust: trustOf(['b']), issuer: 'b', notAfter: 3650 * DAY, rotating: false },
  introduced: { trust: trustOf(['a', 'b']), issuer: 'a', notAfter: 3650 * DAY, rotating: true },
  switched: { trust: trustOf(['a', 'b']), issuer: 'b', notAfter: 3650 * DAY, rotating: true },
};
const ORDER: readonly AuthorityPhase[] = ['introduced', 'switched', 'stable'];

/** A set, and an installation that goes from phase to phase when nobody lacks anything any more. */
class Replacement extends Play {
  phases: AuthorityPhase[] = [];
  lost: ReadonlySet<number> = new Set();
  undone: ReadonlySet<number> = new Set();
  #count = 0;
  #before: State;
  /** What processes really run with. */
  readonly true = new Map<string, { readonly trust: string; readonly issuer: string }>();

  constructor() {
    super(desired());
    const certificate = { fingerprint: 'first', notAfter: 300 * DAY, issuer: 'a', trust: trustOf(['a']) };
    this.state = {
      ...this.state,
      members: this.state.members.map((m) => ({
        ...m,
        activated: m.activated && { ...m.activated, certificate },
      })),
    };
    for (const m of this.state.members) this.true.set(m.name, certificate);
    this.authority = { trust: trustOf(['a']), issuer: 'a', notAfter: 3650 * DAY, rotating: false };
    this.#before = this.state;
  }

  override perform(step: Step): void {
    const number = this.#count++;
    if (this.undone.has(number)) return;
    const { trust, issuer } = this.authority as Authority;
    if ('member' in step && step.kind !== 'stepDown') this.true.set(step.member, { trust, issuer });
    super.perform(step);
    if (this.lost.has(number)) this.state = this.#before;
    this.check();
  }

  override pass(): string {
    this.#before = this.state;
    const line = super.pass();
    const next = ORDER[this.phases.length];
    const lacking = lackingIn(this.authority as Authority, holdersOf('', this.state));
    if (lacking.length > 0 || next === undefined) return line;
    this.phases.push(next);
    this.authority = BUNDLES[next];
    return `phase ${next}`;
  }

  /** S12: whom I trust includes who vouches for you, and the other way round. */
  check(): void {
    for (const [a, mine] of this.true)
      for (const [b, theirs] of this.true)
        expect(mine.trust.split(' '), `${a} and ${b} in ${this.phases.at(-1)}`).toContain(theirs.issuer);
  }
}

test('S12 TLS-02 every member passes through every phase before anybody enters the next', () => {
  const set = new Replacement();
  expect(set.toTheEnd().filter((line) => !line.startsWith('wait'))).toEqual([
    'phase introduced',
    ...['orders-2', 'orders-1', 'orders-0'].map((name) => `rotateCertificate ${name}`),
    'phase switched',
    ...['orders-2', 'orders-1', 'orders-0'].map((name) => `rotateCertificate ${name}`),
    'phase stable',
    ...['orders-2', 'orders-1', 'orders-0'].map((name) => `rotateCertificate ${name}`),
    'converged',
  ]);
});

test('S12 A2.7 whatever step is lost or never done, and whether servers take certificates online or not, every pair has a common accepted credential at every moment', () => {
  const numbers = fc.array(fc.nat(20), { maxLength: 8 });
  fc.assert(
    fc.property(numbers, numbers, fc.boolean(), (lost, undone, offline) => {
      const set = new Replacement();
      set.lost = new Set(lost);
      set.undone = new Set(undone);
      set.refusesOnline = offline;
      expect(set.toTheEnd(200).at(-1)).toBe('converged');
      expect([...set.true.values()].every((has) => has.trust === 'b' && has.issuer === 'b')).toBe(true);
    }),
    { numRuns: 40 },
  );
});

test('S12 who is not known lacks everything; who presents nothing lacks nothing', () => {
  const set = new Replacement();
  const [first, ...others] = set.state.members;
  if (first?.activated == null) throw new Error('no member');
  const plain = { ...first, activated: { ...first.activated, tlsMode: 'disabled' as const } };
  const unknown = { ...first, activated: { ...first.activated, certificate: null } };
  const at = (member: typeof first, stage = member.stage): readonly string[] =>
    lackingIn(
      set.authority as Authority,
      holdersOf('default/', { members: [{ ...member, stage }, ...others] }),
    );
  expect([at(first), at(plain), at(unknown), at(first, 'reloading')]).toEqual([
    [],
    [],
    [],
    ['default/orders-0'],
  ]);
  // A record of an older version is of the only authority there was, until there are two.
  set.authority = BUNDLES.introduced;
  expect(at(unknown)).toContain('default/orders-0');
});
