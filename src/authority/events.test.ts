/** What people read about a task: what was taken, given back, or ran out. */
import { expect, test } from 'vitest';
import type { Action, Entry, Permission } from '../maintenance/index.ts';
import { eventsOf } from './events.ts';

const place = {
  key: { kind: 'MaintenanceTask', namespace: 'default', name: 't' },
  uid: 'uid-t',
  generation: 1,
};
const lock = (scope: Action['scope']): Action => ({ type: 'lock', scope, duration: 1000 });
const host = (name: string): Action => lock({ kind: 'host', host: name });
const held = (id: string, action: Action, deadline: number | null = 9000): Permission =>
  ({ id, action, deadline, owner: 'eve', entry: 'e' }) as unknown as Permission;
const entry = (permissions: readonly Permission[], more: Partial<Entry> = {}): Entry =>
  ({
    owner: 'eve',
    description: '',
    mode: 'weak',
    held: permissions,
    pending: [],
    ...more,
  }) as unknown as Entry;
const said = (before: Entry | null, after: Entry | null, now = 100, by?: string): readonly string[] =>
  eventsOf(place, before, after, now, by).map((e) => `${e.type} ${e.reason}: ${e.message}`);

test('C1.2 S16 what is taken is told once, with who, in which mode and why; each kind of thing by its own name', () => {
  const all = [
    held('1', host('h0')),
    held('2', lock({ kind: 'node', node: 'default/a-0' })),
    held(
      '3',
      lock({
        kind: 'disks',
        disks: [
          { kind: 'id', node: 'ydb/1', disk: 7 },
          { kind: 'path', host: 'h1', path: '/dev/sda' },
          { kind: 'vdisk', group: 1, node: 'ydb/2' },
        ],
      }),
    ),
  ];
  expect(said(null, entry(all, { description: 'kernel' }))).toEqual([
    'Normal MaintenanceGranted: eve took host h0, default/a-0, disk 7 of ydb/1, disk /dev/sda of h1, vdisk of ydb/2 in mode weak (kernel)',
  ]);
  expect(said(entry(all.slice(0, 2)), entry(all.slice(0, 2)))).toEqual([]);
  expect(said(entry([held('1', host('h0'))]), entry([held('1', host('h0')), held('4', host('h4'))]))).toEqual(
    ['Normal MaintenanceGranted: eve took host h4 in mode weak'],
  );
  expect(said(null, null)).toEqual([]);
});

test('C6.4 many things are a few names and a number', () => {
  const hosts = (count: number): readonly Permission[] =>
    Array.from({ length: count }, (_, i) => held(String(i), host(`h${i}`)));
  expect(said(null, entry(hosts(5)))[0]).toContain(
    'took host h0, host h1, host h2, host h3, host h4 in mode',
  );
  expect(said(null, entry(hosts(7)))[0]).toContain('host h4 and 2 more in mode');
});

test('C1.3 what was given back and what ran out are told apart, in an event of its own each', () => {
  const done = held('1', host('h0'), 101);
  const expired = held('2', host('h1'), 100);
  const endless = held('3', host('h2'), null);
  const stays = held('4', host('h3'));
  const before = entry([done, expired, endless, stays]);
  expect(said(before, entry([stays]))).toEqual([
    'Normal MaintenanceCompleted: given back: host h0, host h2',
    'Warning MaintenanceExpired: past their deadline and free again: host h1',
  ]);
  expect(said(entry([done]), null)).toEqual(['Normal MaintenanceCompleted: given back: host h0']);
  expect(eventsOf(place, before, null, 100)[0]).toMatchObject({
    namespace: 'default',
    regarding: { kind: 'MaintenanceTask', name: 't', uid: 'uid-t' },
    at: 100,
  });
});

test('C6.4 S16 who gave back or dropped is told, and whose it was; what only waited is told as well', () => {
  const one = entry([held('1', host('h1'))]);
  const waits = entry([], { pending: [{ action: host('h2') }] as unknown as Entry['pending'] });
  expect(said(one, null, 100, 'jana')).toEqual([
    'Normal MaintenanceCompleted: given back by jana: host h1 (owner eve)',
  ]);
  expect(said(one, null, 100, 'eve')).toEqual(['Normal MaintenanceCompleted: given back by eve: host h1']);
  expect(said(waits, null, 100, 'jana')).toEqual([
    'Normal MaintenanceDropped: not waited for any more, dropped by jana: host h2 (owner eve)',
  ]);
  const granted = entry([held('2', host('h2'))]);
  expect(said(waits, granted, 100, 'jana')).toHaveLength(1);
});
