import { expect, test } from 'vitest';
import { GIB } from '../../base/units.ts';
import { desired } from '../fixtures.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { preview } from '../preview.ts';
import { status } from '../status.ts';
import { applyOutcome } from '../steps.ts';
import type { Observed } from '../types.ts';

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

/** A set on disks of these sizes and with so much free, in GiB, whose hosts count what a volume holds. */
class OnDisks extends Play {
  disks: readonly (readonly [total: number, free: number])[] = [];
  override reading(): Observed {
    const o = super.reading();
    const members = o.members.map((m, i) => {
      const [total = 0, free = 0] = this.disks[i] ?? [];
      const volume = { id: `v-${m.name}`, totalBytes: total * GIB, freeBytes: free * GIB };
      return m.facts === null ? m : { ...m, facts: { ...m.facts, volume } };
    });
    return { ...o, members, capabilities: { ...o.capabilities, volumesOnHostDisk: true } };
  }
}

function onDisks(...disks: OnDisks['disks']): OnDisks {
  const set = new OnDisks(desired({ volumeBytes: 10 * GIB }));
  set.grows = true;
  set.disks = disks;
  expect(set.toTheEnd()).toEqual(['converged']);
  set.desired = desired({ volumeBytes: 60 * GIB, generation: 2 });
  return set;
}

test('A6.6 STO-01 more than a whole disk is refused by the plan, and no volume grows, so that it can be taken back', () => {
  const set = onDisks([100, 90], [50, 45], [100, 90]);
  const told = preview(set.reading(), set.desired, set.state, 0);
  expect([told.steps, told.converges]).toEqual([[], false]);
  expect(told.refusals).toMatchObject([
    {
      by: 'DiskFull',
      detail:
        'the volume of orders-1 cannot be 60 GiB: the whole disk is 50 GiB on host db2; no volume grows meanwhile',
      fix: expect.stringContaining('set spec.storage.size back'),
    },
  ]);
  const both = onDisks([50, 45], [50, 45], [100, 90]);
  expect(preview(both.reading(), both.desired, both.state, 0).refusals.map((r) => r.detail)).toEqual([
    'volumes of orders-0, orders-1 cannot be 60 GiB: the whole disks are 50 GiB on host db1, 50 GiB on host db2; no volume grows meanwhile',
  ]);
  expect(set.toTheEnd()).toEqual(['blocked DiskFull']);
  expect(sizes(set)).toEqual([10, 10, 10]);
  set.desired = desired({ volumeBytes: 10 * GIB, generation: 3 });
  expect(set.toTheEnd()).toEqual(['converged']);
});

test('A6.6 where only the host can count, its volume is tried before others grow, and the plan says so', () => {
  const set = onDisks([100, 90], [100, 45], [100, 90]);
  const [first, second] = preview(set.reading(), set.desired, set.state, 0).steps;
  expect(first).toMatchObject({
    targets: ['orders-1'],
    detail:
      'volumes of orders-1 grow to 60 GiB, if their hosts find the room (free on the disk of orders-1 45 GiB)',
  });
  expect(second?.targets).toEqual(['orders-0', 'orders-2']);
  const step = { kind: 'growVolume', member: 'orders-1', sizeBytes: 60 * GIB } as const;
  const failed = { kind: 'failed', code: 'DiskFull', message: 'no room for 60 GiB', retry: 'later' } as const;
  set.state = applyOutcome(set.state, step, 's', failed, 0);
  expect(set.pass()).toBe('blocked DiskFull');
  expect(sizes(set)).toEqual([10, 10, 10]);
});

test('STO-06 a promise that the disk cannot keep is said in the status', () => {
  const set = onDisks([100, 90], [50, 45], [100, 90]);
  set.desired = desired({ volumeBytes: 10 * GIB });
  set.state = {
    ...set.state,
    members: set.state.members.map((m, i) => (i === 1 ? { ...m, volumeBytes: 60 * GIB } : m)),
  };
  const told = status({
    observed: set.reading(),
    desired: set.desired,
    state: set.state,
    plan: plan(set.reading(), set.desired, set.state, 0),
    now: 0,
    warnings: [],
    before: null,
  });
  expect(told.warnings).toEqual([
    'the volume of orders-1 is to hold 60 GiB, and its disk on host db2 is 50 GiB in all',
  ]);
  expect(told.members.map((m) => m.volumeBytes)).toEqual([10 * GIB, 60 * GIB, 10 * GIB]);
});
