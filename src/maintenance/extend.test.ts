import { expect, test } from 'vitest';
import { Desk } from './desk.ts';
import { Fleet } from './fleet.ts';
import type { NodeSpec } from './fleetSpec.ts';
import { createTask, extendActions, getTask, refreshTask, type TaskSpec, withdrawPending } from './tasks.ts';
import { taskOf } from './testing/tasks.ts';

const MINUTE = 60_000;
const nodes = ['0', '1'].map(
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
);
const task = (uid: string, keys: readonly string[]): TaskSpec =>
  taskOf(
    uid,
    keys.map((node) => [{ type: 'lock', scope: { kind: 'node', node }, duration: MINUTE }]),
  );

test('C1.3 S13 what is held can be held longer until its deadline, never shorter, and others are told of the new end', () => {
  const desk = new Desk(new Fleet({ nodes }));
  createTask(desk, task('t', ['0']), 0);
  createTask(desk, task('u', ['0']), 0);
  expect(extendActions(desk, ['eve-p-1'], 5 * MINUTE, MINUTE / 2)).toBe('SUCCESS');
  expect(extendActions(desk, ['eve-p-1'], 1, MINUTE / 2)).toBe('SUCCESS');
  const end = 5.5 * MINUTE;
  expect(getTask(desk, 't', MINUTE).groups.flat()[0]?.deadline).toBe(end);
  expect(refreshTask(desk, 'u', 2 * MINUTE)).toMatchObject({
    retryAfter: end,
    groups: [[{ status: 'PENDING', refusal: { reason: 'Locked', retryAt: end } }]],
  });
  // A desk that is opened from the books goes on the same way.
  const again = new Desk(new Fleet({ nodes }), desk.book());
  expect(refreshTask(again, 'u', end - 1).groups.flat()[0]?.status).toBe('PENDING');
  expect(refreshTask(again, 'u', end).groups.flat()[0]?.status).toBe('PERFORMED');
  expect(extendActions(again, ['eve-p-1'], MINUTE, end)).toBe('BAD_REQUEST');
});

test('C1.3 S13 of several actions all are held longer or none', () => {
  const desk = new Desk(new Fleet({ nodes }));
  createTask(desk, task('t', ['0']), 0);
  const before = JSON.stringify(desk.book());
  expect(extendActions(desk, ['eve-p-1', 'eve-p-9'], 5 * MINUTE, 1)).toBe('BAD_REQUEST');
  expect(JSON.stringify(desk.book())).toBe(before);
});

test('C1.3 C3.1 what is not wanted any more holds nobody back, and what is held stays held', () => {
  const desk = new Desk(new Fleet({ nodes }));
  createTask(desk, task('t', ['0']), 0);
  createTask(desk, task('u', ['0', '1']), 0);
  expect(
    withdrawPending(desk, 'u', 1)
      .groups.flat()
      .map((a) => a.status),
  ).toEqual(['PERFORMED']);
  createTask(desk, task('v', ['0']), 1);
  expect(withdrawPending(desk, 'v', 2)).toMatchObject({ status: 'SUCCESS', entry: null });
  expect(withdrawPending(desk, 'v', 2).status).toBe('BAD_REQUEST');
});
