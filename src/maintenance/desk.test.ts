import { expect, test } from 'vitest';
import { ORIGINAL } from './compat.ts';
import { Desk, type DeskOptions } from './desk.ts';
import { Fleet } from './fleet.ts';
import type { NodeSpec } from './fleetSpec.ts';
import type { Action } from './types.ts';

const MINUTE = 60_000;
const fleet = (): Fleet =>
  new Fleet({
    nodes: ['0', '1'].map(
      (key): NodeSpec => ({
        key,
        name: `node ${key}`,
        host: `h${key}`,
        kind: 'storage',
        state: 'up',
        startedAt: -1_000_000,
        cluster: 'c',
        disks: [],
      }),
    ),
    groups: [{ id: 1, erasure: 'none', vdisks: [{ node: '1', disk: 0, realm: 0, ok: true }] }],
  });
const deskOf = (options?: DeskOptions): Desk => new Desk(fleet(), undefined, options);

const lock = (node: string): Action => ({
  type: 'lock',
  scope: { kind: 'node', node },
  duration: 10 * MINUTE,
});
const asking = (node: string, evict = false) => ({
  owner: 'eve',
  mode: 'strong' as const,
  partial: true,
  schedule: true,
  evict,
  actions: [{ action: lock(node), at: [0, 0] as const }],
});

test('C5.2 an outage counts that begins within the default time after the work, and none that begins later', () => {
  for (const [from, reason] of [
    [15 * MINUTE, 'Announced'],
    [15 * MINUTE + 1, undefined],
  ] as const) {
    const desk = deskOf();
    desk.announce({ id: 'n', owner: 'adam', actions: [lock('0')], from });
    expect(desk.request(asking('0'), 0).refusal?.reason).toBe(reason);
  }
});

test('C1.3 S13 nothing is held longer at the moment of its end, also where an expired permission stays for a while', () => {
  const desk = deskOf({ compat: ORIGINAL });
  const id = desk.request(asking('0'), 0).granted[0]?.id ?? '';
  expect(desk.extend(id, 30 * MINUTE, 10 * MINUTE)).toBe(false);
  expect(desk.permission(id)?.deadline).toBe(10 * MINUTE);
});

test('C5.1 a host is not emptied any more for a request that was dropped', () => {
  const desk = deskOf();
  const { entry } = desk.request(asking('1', true), 0);
  expect([desk.isEvicting('h1'), desk.request(asking('1', true), 1).code]).toEqual([true, 'WRONG_REQUEST']);
  expect(desk.drop(entry?.id ?? '')).toBe(true);
  expect([desk.isEvicting('h1'), desk.request(asking('1', true), 2).code]).toEqual([false, 'DISALLOW_TEMP']);
});

test('S13 not even a person can approve what is locked already', () => {
  const desk = deskOf();
  const first = desk.request(asking('0'), 0);
  const { entry } = desk.request(asking('0'), 1);
  const id = entry?.id ?? '';
  expect(desk.approve(id, 2)).toMatchObject({ granted: [], refusal: { reason: 'Locked' } });
  desk.complete(first.granted[0]?.id ?? '');
  expect(desk.approve(id, 3)).toMatchObject({ code: 'ALLOW', granted: [{ entry: id }] });
});

test('C1.6 what changed and is not written yet is still to be written after another reading of the fleet', () => {
  const desk = deskOf();
  const { entry } = desk.request(asking('0'), 0);
  desk.replaceFleet(fleet());
  expect(desk.takeChanges()).toEqual([entry?.id]);
});
