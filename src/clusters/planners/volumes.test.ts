import { expect, test } from 'vitest';
import { GIB } from '../../base/units.ts';
import { desired } from '../fixtures.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { preview } from '../preview.ts';
import { applyOutcome } from '../state.ts';

/** A set with volumes of 10 GiB on a platform whose volumes grow. */
function play(): Play {
  const set = new Play(desired({ volumeBytes: 10 * GIB }));
  set.grows = true;
  expect(set.toTheEnd()).toEqual(['converged']);
  return set;
}
const sizes = (set: Play): readonly (number | null | undefined)[] =>
  set.state.members.map((m) => (m.volumeBytes ?? 0) / GIB);

test('A6.6 A2.4 STO-01 volumes grow all at once, nothing goes down, and the size counts when it was seen to be there', () => {
  const set = play();
  expect(sizes(set)).toEqual([10, 10, 10]);
  set.desired = desired({ volumeBytes: 20 * GIB, generation: 2 });
  expect(preview(set.reading(), set.desired, set.state, 0).steps).toMatchObject([
    { verb: 'growVolume', targets: ['orders-0', 'orders-1', 'orders-2'], impact: 'nothing goes down' },
  ]);
  const config = set.config;
  expect(set.toTheEnd().at(-1)).toBe('converged');
  expect(sizes(set)).toEqual([20, 20, 20]);
  expect(set.config).toBe(config);
});

test('STO-04 a volume grows while its process cannot run: growth waits for nobody', () => {
  const set = play();
  set.crashing = new Set([0, 1, 2]);
  set.desired = desired({ volumeBytes: 20 * GIB, generation: 2 });
  expect(set.pass()).toBe('growVolume orders-0');
  expect(sizes(set)).toEqual([20, 20, 20]);
});

test('A6.6 A3.2 no room is a case for a person, with the agent’s own words, and is tried again', () => {
  const set = play();
  set.desired = desired({ volumeBytes: 20 * GIB, generation: 2 });
  const step = { kind: 'growVolume', member: 'orders-1', sizeBytes: 20 * GIB } as const;
  const message = 'its disk has 1 GiB free: no room for 20 GiB';
  set.state = applyOutcome(
    set.state,
    step,
    's',
    { kind: 'failed', code: 'DiskFull', message, retry: 'later' },
    0,
  );
  const told = plan(set.reading(), set.desired, set.state, 1);
  expect(told.act?.steps.map((s) => 'member' in s && s.member)).toEqual(['orders-0', 'orders-2']);
  expect(told.blocks).toMatchObject([{ by: 'DiskFull', needs: 'capacity', detail: message }]);
  expect(told.waits.some((w) => w.on === 'Backoff')).toBe(true);
  expect(plan(set.reading(), set.desired, set.state, 31_000).act?.steps).toHaveLength(3);
});

test('A4.9 a platform whose volumes do not grow is asked for nothing', () => {
  const set = play();
  set.grows = false;
  set.desired = desired({ volumeBytes: 20 * GIB, generation: 2 });
  expect(set.toTheEnd()).toEqual(['converged']);
});
