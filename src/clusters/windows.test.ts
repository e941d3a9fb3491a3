import { expect, test } from 'vitest';
import type { MongoDBStatus } from '../model/index.ts';
import { eventsFor } from './events.ts';
import { desired } from './fixtures.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { preview } from './preview.ts';
import { status } from './status.ts';
import type { State } from './types.ts';
import { closedWindow, type DesiredWindow, windowAt } from './windows.ts';

const HOUR = 3_600_000;
const at = (text: string): number => Date.parse(text);
const saturday: DesiredWindow = {
  cron: '0 2 * * 6',
  timeZone: 'Europe/Prague',
  durationMillis: 2 * HOUR,
  text: 'Sat 02:00 for 2h, Europe/Prague',
};

test('C7.1 a window is open from its start until its end in its own time zone', () => {
  // 2026-11-28 is a Saturday; Prague is an hour ahead of UTC in winter.
  expect(windowAt([saturday], at('2026-11-28T00:59:59Z'))).toMatchObject({
    kind: 'closed',
    opensAt: at('2026-11-28T01:00:00Z'),
  });
  const open = { kind: 'open', until: at('2026-11-28T03:00:00Z') };
  expect(windowAt([saturday], at('2026-11-28T01:00:00Z'))).toEqual(open);
  expect(windowAt([saturday], at('2026-11-28T02:59:59Z'))).toEqual(open);
  expect(windowAt([saturday], at('2026-11-28T03:00:00Z'))).toMatchObject({
    kind: 'closed',
    opensAt: at('2026-12-05T01:00:00Z'),
  });
});

test('C7.1 summer time moves the window with the clock on the wall; an hour that is left out opens it after the gap', () => {
  const daily = { ...saturday, cron: '30 2 * * *', durationMillis: HOUR };
  expect(windowAt([daily], at('2026-07-01T00:00:00Z'))).toMatchObject({
    opensAt: at('2026-07-01T00:30:00Z'),
  });
  const gap = windowAt([daily], at('2026-03-28T12:00:00Z'));
  expect(gap.kind === 'closed' && gap.opensAt).toBe(at('2026-03-29T01:00:00Z'));
});

test('C7.1 of several windows the one that is open longest, or that opens first, counts; none means always', () => {
  const long = { ...saturday, cron: '0 2 * * *', durationMillis: 5 * HOUR, text: 'daily' };
  expect(windowAt([saturday, long], at('2026-11-28T01:30:00Z'))).toEqual({
    kind: 'open',
    until: at('2026-11-28T06:00:00Z'),
  });
  expect(windowAt([saturday, long], at('2026-11-25T12:00:00Z'))).toMatchObject({ text: 'daily' });
  expect(windowAt([], 0)).toMatchObject({ kind: 'open' });
});

test('C7.1 a person’s override opens for its time', () => {
  const noon = at('2026-11-25T12:00:00Z');
  const state = { windowOverride: { until: noon + HOUR, operation: 'now' } };
  expect(closedWindow({ windows: [saturday] }, state, noon)).toBeNull();
  expect(closedWindow({ windows: [saturday] }, state, noon + HOUR)).not.toBeNull();
});

const wednesday = at('2026-11-25T12:00:00Z');
const change = { mongodConfig: { setParameter: { a: 1 } }, generation: 2, windows: [saturday] };

test('C7.1 a changed configuration waits for the window and says until when; then it rolls', () => {
  const set = new Play(desired({ windows: [saturday] }));
  set.now = wednesday;
  set.desired = desired(change);
  expect(set.pass()).toBe('wait MaintenanceWindow');
  set.now = at('2026-11-28T01:00:00Z');
  expect(set.toTheEnd().filter((line) => line.startsWith('reload'))).toHaveLength(3);
});

test('C7.1 a member that is down is repaired at once, and scaling takes nothing down', () => {
  const set = new Play(desired({ windows: [saturday] }));
  set.now = wednesday;
  set.crashing.add(1);
  set.desired = desired(change);
  expect(set.pass()).toBe('reload orders-1');
  const grown = new Play(desired({ windows: [saturday] }));
  grown.now = wednesday;
  grown.desired = desired({ windows: [saturday], generation: 2 }, 5);
  expect(grown.toTheEnd().at(-1)).toBe('converged');
});

test('C7.1 a plan goes on to its end and says from which step on it waits for the window', () => {
  const set = new Play(desired({ windows: [saturday] }));
  const plan = preview(set.reading(), desired(change), set.state, wednesday);
  expect(plan.converges).toBe(true);
  expect(plan.steps.filter((s) => s.verb === 'reload')).toHaveLength(3);
  expect(plan.waits).toEqual([
    {
      on: 'MaintenanceWindow',
      detail:
        'from step 1 on: orders-2 waits for the maintenance window (Sat 02:00 for 2h, Europe/Prague), which opens at 2026-11-28 01:00 UTC',
    },
  ]);
});

test('C7.1 OverrideWindows lets the waiting change go on at once and says who asked and why', () => {
  const set = new Play(desired({ windows: [saturday] }));
  set.now = wednesday;
  set.desired = desired(change);
  expect(set.pass()).toBe('wait MaintenanceWindow');
  set.requests = [
    {
      uid: 'op-1',
      name: 'now',
      spec: {
        type: 'OverrideWindows',
        mongodbResourceRef: { name: 'orders' },
        reason: 'CVE-2026-1',
        duration: '2h',
      },
      createdAt: 0,
      cancelRequested: false,
    },
  ];
  expect(set.toTheEnd().filter((line) => line.startsWith('reload'))).toHaveLength(3);
  expect(set.state.ended).toMatchObject([{ state: 'Succeeded' }]);
  expect(set.state.ended[0]?.message).toMatch(/until 2026-11-25T14:00:0\d.000Z: CVE-2026-1$/);
});

test('C7.1 a later override never takes back what an earlier one gave', () => {
  const set = new Play(desired({ windows: [saturday] }));
  const asked = (uid: string, duration: string) => ({
    uid,
    name: uid,
    spec: { type: 'OverrideWindows', mongodbResourceRef: { name: 'orders' }, reason: 'r', duration } as const,
    createdAt: 0,
    cancelRequested: false,
  });
  set.requests = [asked('long', '2h')];
  const first = advance(set.state, set.desired, set.reading(), wednesday);
  set.requests = [asked('long', '2h'), asked('short', '1m')];
  const second = advance(first, set.desired, set.reading(), wednesday + 1000);
  expect(second.windowOverride?.until).toBe(first.windowOverride?.until);
  expect(second.ended).toHaveLength(2);
});

test('C7.1 an override is shown with who, why and until when, begins and ends with an event, and can be ended before its time', () => {
  const set = new Play(desired({ windows: [saturday] }));
  const asked = (uid: string, more: object = {}) => ({
    uid,
    name: uid,
    spec: {
      type: 'OverrideWindows',
      mongodbResourceRef: { name: 'orders' },
      reason: 'CVE-2026-1',
      duration: '2h',
      ...more,
    } as const,
    createdAt: 0,
    cancelRequested: false,
    requestedBy: 'eve',
  });
  const told = (state: State, now: number, before: MongoDBStatus | null) => {
    const o = set.reading();
    const decided = plan(o, set.desired, state, now);
    const is = status({ observed: o, desired: set.desired, state, plan: decided, now, warnings: [], before });
    return { is, events: eventsFor(before, is, now).filter((e) => e.reason.startsWith('Windows')) };
  };
  const quiet = told(set.state, wednesday, null);
  expect([quiet.is.windowOverride, quiet.events]).toEqual([undefined, []]);
  set.requests = [asked('now')];
  const begun = advance(set.state, set.desired, set.reading(), wednesday);
  expect(begun.ended[0]).toMatchObject({ startedAt: wednesday, finishedAt: wednesday });
  const { is, events } = told(begun, wednesday, quiet.is);
  const until = '2026-11-25T14:00:00.000Z';
  expect(is.windowOverride).toEqual({ until, operation: 'now', reason: 'CVE-2026-1', requestedBy: 'eve' });
  expect(events).toEqual([
    {
      type: 'Normal',
      reason: 'WindowsOverridden',
      message: `changes do not wait for the maintenance windows until ${until} (eve: CVE-2026-1)`,
    },
  ]);
  const same = told(begun, wednesday + HOUR, is);
  expect([same.is.windowOverride, same.events]).toEqual([is.windowOverride, []]);
  const over = {
    type: 'Normal',
    reason: 'WindowsOverrideEnded',
    message: 'changes wait for the maintenance windows again (now is over)',
  };
  expect(told(begun, wednesday + 2 * HOUR, is)).toMatchObject({ events: [over] });
  set.requests = [asked('now'), asked('enough', { end: true, reason: 'done' })];
  const ended = advance(begun, set.desired, set.reading(), wednesday + HOUR);
  expect(ended.ended.at(-1)?.message).toBe('changes wait for the windows again: done');
  expect(told(ended, wednesday + HOUR, is)).toMatchObject({ events: [over] });
  expect(closedWindow(set.desired, ended, wednesday + HOUR)).not.toBeNull();
});
