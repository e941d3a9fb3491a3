import { expect, test } from 'vitest';
import { DAY } from '../base/units.ts';
import type { MongoDBStatus } from '../model/index.ts';
import { eventsFor } from './events.ts';
import { desired, host, observed, running, seen } from './fixtures.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { initialState, withMember } from './state.ts';
import { causedByUs, status } from './status.ts';
import { startStep } from './steps.ts';
import type { Desired, Observed, State } from './types.ts';

const d = desired();
const state = running(d);
const HEALTHY = ['PRIMARY', 'SECONDARY', 'SECONDARY'] as const;
const of = (
  o: Observed,
  now = 0,
  more: { state?: State; want?: Desired; before?: MongoDBStatus } = {},
): MongoDBStatus => {
  const { state: record = state, want = d, before = null } = more;
  const decided = plan(o, want, record, now);
  return status({ observed: o, desired: want, state: record, plan: decided, now, warnings: [], before });
};
const condition = (is: MongoDBStatus, type: string) => is.conditions.find((c) => c.type === type);

test('S15 Ready is said of the generation looked at, and only when all members are known to be healthy', () => {
  const good = of(seen(state, d, HEALTHY), 0, { want: desired({ generation: 7 }) });
  expect([good.phase, good.observedGeneration, condition(good, 'Ready')?.observedGeneration]).toEqual([
    'Ready',
    7,
    7,
  ]);
  for (const states of [
    ['PRIMARY', 'SECONDARY', null],
    ['PRIMARY', 'SECONDARY', 'RECOVERING'],
    ['SECONDARY', 'SECONDARY', 'SECONDARY'],
  ] as const) {
    const is = of(seen(state, d, states));
    expect(is.phase, states.join()).not.toBe('Ready');
    expect(condition(is, 'Ready')?.status, states.join()).toBe('False');
  }
});

test('S15 a member nobody reports is unknown, with the time it was last seen; it is not counted as ready', () => {
  const o = seen(state, d, ['PRIMARY', 'SECONDARY', null]);
  const is = of({ ...o, members: o.members.map((m) => ({ ...m, observedAt: 86_400_000 })) });
  expect(is.members.map((m) => m.health)).toEqual(['healthy', 'healthy', 'unknown']);
  expect([is.readyMembers, is.members[2]?.lastSeen]).toEqual([2, '1970-01-02T00:00:00.000Z']);
  expect(condition(is, 'Ready')?.reason).toBe('MemberUnreachable');
});

test('A7.4 C6.2 a status tells since when each process runs; of one that is down, or not reported, nothing', () => {
  const o = seen(state, d, ['PRIMARY', 'SECONDARY', null]);
  const [first, second, third] = o.members;
  const ran = { kind: 'running', pid: 1, since: 86_400_000, adopted: false } as const;
  const starting = { kind: 'starting', pid: 1, since: 86_400_000 } as const;
  const members = [
    { ...first, facts: { ...first?.facts, process: ran } },
    { ...second, facts: { ...second?.facts, process: starting } },
    third,
  ] as Observed['members'];
  expect(of({ ...o, members }).members.map((m) => m.startedAt)).toEqual([
    '1970-01-02T00:00:00.000Z',
    undefined,
    undefined,
  ]);
});

test('A7.4 how many more losses writes survive is said', () => {
  const message = (states: Parameters<typeof seen>[2], members: number): string | undefined => {
    const want = desired({}, members);
    const record = running(want);
    return of(seen(record, want, states), 0, { state: record, want }).message;
  };
  expect(message(['PRIMARY', 'SECONDARY', null], 3)).toMatch(/2 of 3 .* one more loss stops writes/);
  expect(message(['SECONDARY', 'RECOVERING', 'RECOVERING'], 3)).toMatch(/1 of 3 .* writes are stopped/);
  expect(message(['SECONDARY', null, null], 3)).toMatch(/1 of 3 .* 2 not known, so nothing can be said/);
  expect(message([null, null, null], 3)).toMatch(/0 of 3 .* 3 not known/);
  expect(message([...HEALTHY, 'SECONDARY', null], 5)).toMatch(/4 of 5 .* 1 more may be lost/);
});

test('TLS-05 A9.7 the certificate that ends first is reported thirty days before, and when it has ended', () => {
  const o = seen(state, d, HEALTHY);
  const ending = (days: readonly number[]): Observed => ({
    ...o,
    members: o.members.map((m, i) => ({
      ...m,
      facts: m.facts && {
        ...m.facts,
        certificate: { notAfter: (days[i] as number) * DAY, fingerprint: 'f' },
      },
    })),
  });
  const says = (days: readonly number[]): unknown => {
    const { reason, status: value } = condition(of(ending(days)), 'TLSCertificate') ?? {};
    return [value, reason];
  };
  expect(says([90, 31, 60])).toEqual(['True', 'Valid']);
  expect(says([90, 30, 60])).toEqual(['False', 'ExpiresSoon']);
  expect(says([90, 60, 0])).toEqual(['False', 'Expired']);
  expect(condition(of(o), 'TLSCertificate')?.reason).toBe('NotReported');
  expect(condition(of(ending([90, 30, 60])), 'TLSCertificate')?.message).toContain('orders-1');
});

test('A15.1 members that share a host, or may share a machine, are said', () => {
  const on = (
    hosts: readonly string[],
    known: readonly string[] = [...new Set(hosts)],
  ): readonly string[] | undefined => {
    const record = { ...state, members: state.members.map((m, i) => ({ ...m, host: hosts[i] as string })) };
    const o = seen(record, d, HEALTHY);
    const reported = [...new Set(hosts)].map((name, i) => host(name, { fingerprint: known[i] ?? null }));
    return of({ ...o, hosts: reported }, 0, { state: record }).warnings;
  };
  expect(on(['db1', 'db2', 'db3'])).toEqual([]);
  expect(on(['db1', 'db1', 'db1'])).toEqual([expect.stringContaining('losing it loses the set')]);
  expect(on(['db1', 'db1', 'db2'])).toEqual([expect.stringContaining('host db1 carries more than one')]);
  expect(on(['db1', 'db2', 'db3'], ['same', 'same', 'x'])).toEqual([
    expect.stringContaining('the same machine'),
  ]);
  expect(on(['db1', 'db2', 'db3'], ['a', 'b'])).toEqual([expect.stringContaining('unknown')]);
});

test('B2.12 a cluster that waits for an operation has the same status at every look', () => {
  const record = startStep(state, { kind: 'deploy', member: 'orders-2', version: d.version }, 'x', 0);
  const o = seen(record, d, HEALTHY);
  const first = of(o, 1_000, { state: record });
  expect(of(o, 63_000, { state: record, before: first })).toEqual(first);
  expect(JSON.stringify(first)).toContain('deploy of orders-2 runs');
});

test('A7.5 events: phases, primaries and members that went or came back, each once', () => {
  const good = of(seen(state, d, HEALTHY));
  const bad = of(seen(state, d, ['SECONDARY', 'PRIMARY', null]), 0, { before: good });
  const reasons = (from: MongoDBStatus | null, to: MongoDBStatus): readonly string[] =>
    eventsFor(from, to, 0).map((e) => `${e.type} ${e.reason}`);
  expect(reasons(null, good)).toEqual(['Normal PrimaryElected', 'Normal Ready']);
  expect(reasons(good, good)).toEqual([]);
  expect(reasons(good, bad)).toEqual([
    'Normal PrimaryElected',
    'Warning MemberUnreachable',
    'Warning Degraded',
  ]);
  expect(reasons(bad, good)).toEqual(['Normal PrimaryElected', 'Normal MemberHealthy', 'Normal Ready']);
});

test('A6.5 that a member is being placed is told with the intent, until it is known where it is', () => {
  const want = desired({}, 1);
  const bare: State = { ...initialState(want), credentialsReady: true };
  const seenBy = (record: State) => of(observed({ services: [] }), 0, { state: record, want }).members[0];
  expect(seenBy({ ...bare, credentialsReady: false })).not.toHaveProperty('importSent');
  expect(seenBy(bare)).toMatchObject({ stage: 'planned', importSent: true });
  const placement = { host: 'db1', address: 'db1', port: 27_017, portFixed: false };
  const sent = startStep(bare, { kind: 'import', member: 'orders-0', placement }, 'i1', 0);
  expect(seenBy(sent)).toMatchObject({ stage: 'planned', importSent: true });
  const there = withMember(bare, 'orders-0', { stage: 'imported', serviceId: 's-1', host: 'db1' });
  expect(seenBy(there)).not.toHaveProperty('importSent');
});

test('L3 an event about a member names it once', () => {
  const good = of(seen(state, d, HEALTHY));
  const bad = of(seen(state, d, ['PRIMARY', 'SECONDARY', 'RECOVERING']));
  const said = (after: MongoDBStatus) =>
    eventsFor(good, after, 0)
      .filter((e) => e.reason === 'MemberUnhealthy')
      .map((e) => e.message);
  const name = bad.members[2]?.name ?? '';
  expect(said(bad)).toEqual([`${name} is RECOVERING`]);
  const other = bad.members.map((m) => (m.name === name ? { ...m, message: 'its log is full' } : m));
  expect(said({ ...bad, members: other })).toEqual([`${name} its log is full`]);
});

test('members that end with their set’s deletion are no warning', () => {
  const good = of(seen(state, d, HEALTHY));
  const bad = of(seen(state, d, ['PRIMARY', 'SECONDARY', 'RECOVERING']));
  const events = eventsFor(good, { ...bad, phase: 'Deleting' }, 0);
  expect(events.filter((e) => e.type === 'Warning')).toEqual([]);
});

test('C5.3 votes are told of members nobody reports too, as the newest configuration anybody shows has them', () => {
  const alone = of(seen(state, d, [null, 'SECONDARY', null]));
  expect(alone.members.map(({ health, votes }) => [health, votes])).toEqual([
    ['unknown', 1],
    ['healthy', 1],
    ['unknown', 1],
  ]);
});

test('S3 A7.5 an election that we asked for, and a member that we restart, give no warning; one that takes too long, or that nobody asked for, does', () => {
  const before = of(seen(state, d, HEALTHY));
  const unknown = state.members.map((m) => ({
    id: m.index,
    host: `${m.address}:${m.port}`,
    state: 'SECONDARY' as const,
    healthy: true,
    lagMillis: null,
    message: null,
  }));
  const leaderless = seen(state, d, ['SECONDARY', 'SECONDARY', 'SECONDARY'], { peers: unknown });
  const handedOver = startStep(state, { kind: 'stepDown', replicaSet: 'orders', member: 'orders-0' }, 's', 0);
  const told = (o: Observed, now: number, record: State) => {
    const input = {
      observed: o,
      desired: d,
      state: record,
      plan: plan(o, d, record, now),
      now,
      warnings: [],
    };
    const is = status({ ...input, before });
    const events = eventsFor(before, is, now, causedByUs({ ...input, before }));
    return [is.phase, events.filter((e) => e.type === 'Warning').map((e) => e.reason)];
  };
  expect(told(leaderless, 10_000, handedOver)).toEqual(['Reconciling', []]);
  const sick = ['MemberUnhealthy', 'MemberUnhealthy', 'MemberUnhealthy', 'Degraded'];
  expect(told(leaderless, 16_000, handedOver)).toEqual(['Degraded', sick]);
  expect(told(leaderless, 10_000, state)).toEqual(['Degraded', sick]);
  // Who is down besides is a fault all the same.
  const lost = seen(state, d, ['SECONDARY', 'SECONDARY', null], { peers: unknown });
  expect(told(lost, 10_000, handedOver)).toEqual(['Degraded', ['MemberUnreachable', 'Degraded']]);
  const down = seen(state, d, ['PRIMARY', 'SECONDARY', 'RECOVERING']);
  const restarting = {
    ...state,
    members: state.members.map((m) => (m.index === 2 ? { ...m, stage: 'reloading' as const } : m)),
  };
  expect(told(down, 0, restarting)).toEqual(['Reconciling', []]);
  expect(told(down, 0, state)[1]).toEqual(['MemberUnhealthy', 'Degraded']);
});

test('C6.4 a member down under a person’s lock is shown in maintenance, and is no fault', () => {
  const held = { member: 'orders-2', task: 'm-1', owner: 'eve', until: 600_000 };
  const before = of({ ...seen(state, d, HEALTHY), maintenance: [held] });
  expect([before.phase, before.members[2]?.maintenance?.until]).toEqual([
    'Ready',
    '1970-01-01T00:10:00.000Z',
  ]);
  for (const [down, health] of [
    [null, 'unknown'],
    ['RECOVERING', 'unhealthy'],
  ] as const) {
    const is = of({ ...seen(state, d, ['PRIMARY', 'SECONDARY', down]), maintenance: [held] }, 0, { before });
    const text = 'is in maintenance: task m-1 of eve until 1970-01-01T00:10:00Z';
    expect([is.phase, is.message]).toEqual(['Reconciling', `orders-2 ${text}`]);
    expect(is.members[2]).toMatchObject({ health, message: text });
    expect(condition(is, 'Ready')).toMatchObject({ status: 'False', reason: 'InMaintenance' });
    const events = eventsFor(before, is, 0);
    expect(events.filter(({ type }) => type === 'Warning')).toEqual([]);
    expect(events.map(({ reason }) => reason)).toContain('MemberInMaintenance');
  }
});

test('C6.4 L3 what is waited for is the maintenance, and not the agent of a machine that is rebooted; once the lock has ended it is the agent', () => {
  const held = { member: 'orders-2', task: 'm-1', owner: 'eve', until: 600_000 };
  const away = seen(state, d, ['PRIMARY', 'SECONDARY', null]);
  const is = of({ ...away, maintenance: [held] });
  const text = 'orders-2 is in maintenance: task m-1 of eve until 1970-01-01T00:10:00Z';
  expect([is.now, condition(is, 'Progressing')]).toMatchObject([
    text,
    { reason: 'InMaintenance', message: text },
  ]);
  // A change that is to reach it waits for the same.
  const want = desired({ generation: 2, mongodConfig: { operationProfiling: { slowOpThresholdMs: 5 } } });
  const record = advance(state, want, away, 0);
  const waits = (o: Observed) => plan(o, want, record, 0).waits.map((w) => `${w.on}: ${w.detail}`);
  expect(waits({ ...away, maintenance: [held] }).filter((w) => w.includes('orders-2 is in'))).toEqual([
    `InMaintenance: ${text}`,
  ]);
  expect(waits({ ...away, maintenance: [held] }).join()).not.toContain('AgentNotConnected');
  const over = of(away);
  expect([over.now, condition(over, 'Progressing')?.reason]).toEqual([
    'nothing is known of orders-2: no agent on host db3 reports it',
    'AgentNotConnected',
  ]);
  // Somebody else's machine is no reason for this one's silence.
  const other = of({ ...away, maintenance: [{ ...held, member: 'orders-1' }] });
  expect(condition(other, 'Progressing')?.reason).toBe('AgentNotConnected');
});

test('A7.4 STK-04 what a person must correct is what a status says, not that the member it stops restarts', () => {
  const want = desired({ generation: 2, mongodConfig: { operationProfiling: { slowOpThresholdMs: 5 } } });
  const o = seen(state, d, ['PRIMARY', 'SECONDARY', 'SECONDARY']);
  const members = state.members.map((m, i) => (i === 2 ? { ...m, stage: 'reloading' as const } : m));
  const wrong = (change: object): MongoDBStatus => {
    const reported = o.members.map((m, i) =>
      i === 2 && m.facts !== null ? { ...m, facts: { ...m.facts, database: null, ...change } } : m,
    );
    return of({ ...o, members: reported }, 0, { want, state: { ...state, members } });
  };
  const exited = { kind: 'exited', since: 0, exitCode: 2, signal: null, failures: 3, nextStartAt: 9 };
  for (const [by, is] of [
    ['SnapshotRejected', wrong({ configError: 'Unrecognized option: nosuch' })],
    ['ProcessFailing', wrong({ process: { ...exited, message: 'Unrecognized option: nosuch' } })],
  ] as const) {
    expect(is.now, by).toMatch(new RegExp(`^${by}: orders-2 .*Unrecognized option: nosuch; correct what`));
    expect(condition(is, 'Blocked')?.reason).toBe(by);
    expect(condition(is, 'Progressing')).toMatchObject({ status: 'False', reason: by });
  }
});

test('A7.4 a set that runs and only cannot get more members has not failed, and says what stops it', () => {
  const want = desired({ generation: 2 }, 5);
  const o = { ...seen(state, d, HEALTHY), hosts: [host('db1', { schedulable: false })] };
  const is = of(o, 0, { want, state: advance(state, want, o, 0) });
  expect([is.phase, condition(is, 'Blocked')?.reason]).toEqual(['Reconciling', 'NoHosts']);
  expect(is.message).toContain('new members are not to be placed on db1');
});

test('C6.4 S15 what is down besides is a fault all the same, and so is a set without a primary', () => {
  const held = [{ member: 'orders-2', task: 'm-1', owner: 'eve', until: null }];
  const two = of({ ...seen(state, d, ['PRIMARY', 'RECOVERING', null]), maintenance: held });
  expect([two.phase, condition(two, 'Ready')?.reason]).toEqual(['Degraded', 'MemberUnreachable']);
  const none = of({ ...seen(state, d, ['SECONDARY', 'SECONDARY', null]), maintenance: held });
  expect(none.phase).toBe('Degraded');
  const gone = of(seen(state, d, ['PRIMARY', 'SECONDARY', null]));
  expect([gone.phase, gone.members[2]?.maintenance]).toEqual(['Degraded', undefined]);
});

test('A7.5 a sentence about a member names it once, wherever in it that is', () => {
  const before = of(seen(state, d, HEALTHY));
  const after = of(seen(state, d, ['PRIMARY', 'SECONDARY', 'RECOVERING']));
  const told = (said: string): string | undefined => {
    const members = after.members.map((m) => (m.name === 'orders-2' ? { ...m, message: said } : m));
    const events = eventsFor(before, { ...after, members }, 0);
    return events.find((e) => e.reason === 'MemberUnhealthy')?.message;
  };
  expect(told('has ended')).toBe('orders-2 has ended');
  expect(told('orders-2 has ended: no')).toBe('orders-2 has ended: no');
  const waits = 'restart of orders-2 waits for orders-1: healthy voters 2 of 3, majority 2';
  expect(told(waits)).toBe(waits);
  expect(told('waits for orders-20')).toBe('orders-2 waits for orders-20');
  const retry = { action: 'reload', member: 'orders-2', code: 'MemberIsPrimary', failures: 99, nextTryAt: 0 };
  const failing = {
    ...state,
    retries: [{ ...retry, message: 'orders-2 is primary by now: it hands over first' }],
  };
  expect(condition(of(seen(state, d, HEALTHY), 0, { state: failing }), 'Blocked')?.message).toBe(
    'reload of orders-2 keeps failing (99 times): it is primary by now: it hands over first',
  );
});
