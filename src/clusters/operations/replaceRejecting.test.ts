/** Replacing who cannot take its configuration. */
import { expect, test } from 'vitest';
import { desired, host, ref, requested } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { Play } from '../play.ts';
import { preview } from '../preview.ts';
import { memberOf } from '../state.ts';
import type { Desired, Observed } from '../types.ts';
import { operationWait } from './index.ts';

const BAD: Partial<Desired> = { generation: 2, mongodConfig: { nonsense: 1 } };
const replacement = requested({ type: 'Replace', ...ref, member: 'orders-2' });

/** A set of which the last member has rejected what it was given. */
class Rejecting extends Play {
  rejects = true;
  override reading(): Observed {
    const o = super.reading();
    const given = (memberOf(this.state, 'orders-2')?.activated?.configVersion ?? 0) > 1;
    const members = o.members.map((m) =>
      m.name === 'orders-2' && m.facts !== null && given && this.rejects
        ? { ...m, facts: { ...m.facts, configError: 'Unrecognized option: nonsense', database: null } }
        : m,
    );
    return { ...o, members, hosts: [1, 2, 3, 4].map((n) => host(`db${n}`)) };
  }
}

const waitOf = ({ state, desired: wanted, now }: Play, observed: Observed): string | null =>
  operationWait({ state, desired: wanted, now, observed }, replacement);

test('A13.3 STK-04 nobody is replaced while the new one would get what the old one rejects: the plan says so, and nothing begins', () => {
  const set = new Rejecting(desired());
  set.desired = desired(BAD);
  while (set.pass() !== 'reload orders-2');
  set.requests = [replacement];
  const told = preview(set.reading(), set.desired, set.state, set.now);
  expect([told.steps, told.refusals.map((r) => r.by)]).toEqual([[], ['SnapshotRejected']]);
  set.pass();
  expect(set.state.operation).toBeNull();
  expect(waitOf(set, set.reading())).toBe(
    'orders-2 cannot take its configuration, which the new one would get too: correct the spec first',
  );
  // The spec is corrected: the member comes back with it, and is replaced then.
  set.desired = desired({ generation: 3 });
  set.rejects = false;
  set.toTheEnd();
  expect(set.state.ended).toMatchObject([{ state: 'Succeeded' }]);
});

test('A13.3 who alone rejects what another one runs may well be replaced', () => {
  const set = new Rejecting(desired());
  set.desired = desired(BAD);
  while (set.pass() !== 'reload orders-2');
  const activated = memberOf(set.state, 'orders-2')?.activated ?? null;
  const members = set.state.members.map((m) => (m.name === 'orders-1' ? { ...m, activated } : m));
  set.state = { ...set.state, members };
  set.requests = [replacement];
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  expect(set.state.operation?.uid).toBe(replacement.uid);
});
