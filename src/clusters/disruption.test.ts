import { expect, test } from 'vitest';
import { disruptionsOf } from './disruption.ts';
import { desired } from './fixtures.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';

/** What the whole of a replacement asks the authority for, in order. */
function askedFor(members: number): readonly string[] {
  const set = new Play(desired({}, members));
  const spec = { type: 'Replace', mongodbResourceRef: { name: 'orders' }, member: 'orders-0' } as const;
  set.requests = [{ uid: 'op', name: 'orders-replace', spec, createdAt: 0, cancelRequested: false }];
  const asked: string[] = [];
  for (let pass = 0; pass < 60 && set.state.ended.length === 0; pass++) {
    const reading = set.reading();
    const steps = plan(reading, set.desired, set.state, set.now).act?.steps ?? [];
    for (const step of steps)
      for (const { member, why } of disruptionsOf(step, set.state, reading, set.desired))
        asked.push(`${member} ${why}`);
    set.pass();
  }
  expect(set.state.ended[0]?.state).toBe('Succeeded');
  return asked;
}

test('A13.3 S13 the replacement of a member asks for its leave', () => {
  expect(askedFor(3)).toContain('orders-0 leaves the set');
});

test('A13.3 L1 the replacement of the only member asks for nothing: two voters could spare nobody, and nothing goes down', () => {
  expect(askedFor(1)).toEqual([]);
});

test('A6.4 L1 a set that shrinks to one member asks for nothing at its last step', () => {
  const set = new Play(desired());
  set.toTheEnd();
  set.desired = desired({ generation: 2 }, 1);
  const asked: string[] = [];
  for (let pass = 0; pass < 60 && set.config.members.length > 1; pass++) {
    const reading = set.reading();
    for (const step of plan(reading, set.desired, set.state, set.now).act?.steps ?? [])
      if (set.config.members.length === 2)
        asked.push(...disruptionsOf(step, set.state, reading, set.desired).map((d) => d.why));
    set.pass();
  }
  expect(set.config.members.length).toBe(1);
  expect(asked).toEqual([]);
});
