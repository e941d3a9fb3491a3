/** Cases at the edge of what planners decide: the exact moment, the one member that is different. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DAY, GIB } from '../../base/units.ts';
import type { Step } from '../decisions.ts';
import type { ProcessFacts } from '../facts.ts';
import { desired, host, observed, ref, requested, sharded } from '../fixtures.ts';
import { views } from '../interpret.ts';
import { advance } from '../learn.ts';
import { RETRY_CAP } from '../limits.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { foresee } from '../preview.ts';
import { spaceOf } from '../space.ts';
import { initialState, retryOf, withFailure, withMember } from '../state.ts';
import { applyOutcome, startStep } from '../steps.ts';
import type { Desired, DesiredUser, MemberState, Observed } from '../types.ts';
import { type DesiredWindow, type WindowState, windowAt } from '../windows.ts';
import { notOfSeries } from './fcv.ts';
import { isDue } from './planner.ts';

const steps = (set: Play, state = set.state): readonly Step[] =>
  plan(set.reading(), set.desired, state, set.now).act?.steps ?? [];
/** Passes until one says this; a set that never does is a failure, not an endless test. */
function passUntil(set: Play, line: string): void {
  for (let left = 60; left > 0; left--) if (set.pass().startsWith(line)) return;
  throw new Error(`never: ${line}`);
}

// ── moments ────────────────────────────────────────────────────────────────────────────────────────────────────────

function withCertificates(want: Desired, notAfter: number): Play {
  const set = new Play(want);
  set.authority = { trust: 'A', issuer: 'A', notAfter: 3_650 * DAY, rotating: false };
  for (const { name, activated } of set.state.members)
    set.state = withMember(set.state, name, {
      activated: activated && {
        ...activated,
        certificate: { fingerprint: `old ${name}`, notAfter, issuer: 'A', trust: 'A' },
      },
    });
  return set;
}

test('A9.4 the last thirty days of a certificate begin at their first second', () => {
  const set = withCertificates(desired(), 40 * DAY);
  set.now = 10 * DAY - 2_000;
  expect(set.pass()).toBe('converged');
  expect(set.pass()).toBe('rotateCertificate orders-2');
});

test.each(['6.0.29-23', '7.0.43-23', '8.0.32-14'])(
  'A9.4 every offered series takes a certificate without a restart: %s',
  (version) => {
    expect(withCertificates(desired({ version }), 20 * DAY).pass()).toBe('rotateCertificate orders-2');
  },
);

test('A9.1 A9.4 a member that is down gets its new certificate under a version of its own', () => {
  const set = withCertificates(desired(), 20 * DAY);
  set.crash(2);
  expect(set.state.members[2]?.activated?.configVersion).toBe(set.state.configVersion);
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  expect(steps(set)).toEqual([
    { kind: 'reload', member: 'orders-2', configVersion: set.state.configVersion + 1 },
  ]);
});

test('A6.3 a member that was seen caught up once is looked at again after a second, one that was not after the usual time', () => {
  const set = new Play(desired());
  set.desired = desired({}, 4);
  passUntil(set, 'orders-3 join');
  const until = (): number | undefined => {
    const o = set.reading();
    set.state = advance(set.state, set.desired, o, set.now);
    const { waits } = plan(o, set.desired, set.state, set.now);
    const wait = waits.find((w) => w.on === 'InitialSync');
    return wait === undefined ? undefined : wait.until - set.now;
  };
  set.states[3] = 'STARTUP2';
  expect(until()).toBe(5_000);
  set.states[3] = 'SECONDARY';
  expect(until()).toBe(1_000);
});

test('C7.1 the order in which windows are written means nothing', () => {
  const window = fc.record({
    cron: fc.constantFrom('0 2 * * 6', '30 4 * * *', '0 22 * * 1', '15 3 1 * *'),
    timeZone: fc.constantFrom('UTC', 'Europe/Prague'),
    durationMillis: fc.constantFrom(1, 5, 30).map((hours) => hours * 3_600_000),
  });
  const windows = fc
    .array(window, { minLength: 2, maxLength: 4 })
    .map((list) => list.map((w, i): DesiredWindow => ({ ...w, text: `${w.cron} ${i}` })));
  const when = fc.integer({ min: Date.parse('2026-01-01'), max: Date.parse('2027-01-01') });
  fc.assert(
    fc.property(windows, when, (list, now) => {
      const [a, b] = [windowAt(list, now), windowAt([...list].reverse(), now)];
      const essence = (state: WindowState) => ({ ...state, text: '' });
      expect(essence(a)).toEqual(essence(b));
      const alone = list.map((w) => windowAt([w], now));
      // Open as long as any is, else until the first opens.
      const open = alone.flatMap((w) => (w.kind === 'open' ? [w.until] : []));
      const opens = alone.flatMap((w) => (w.kind === 'closed' ? [w.opensAt] : []));
      expect(a).toMatchObject(
        open.length > 0
          ? { kind: 'open', until: Math.max(...open) }
          : { kind: 'closed', opensAt: Math.min(...opens) },
      );
    }),
    { numRuns: 60 },
  );
});

// ── the member that is different ───────────────────────────────────────────────────────────────────────────────────

test.each(['STARTUP2', 'ROLLBACK'] as const)(
  'S1 A9.1 a member in %s is not restarted: that would only begin again',
  (state) => {
    const set = new Play(desired());
    set.desired = desired({ mongodConfig: { a: 1 }, generation: 2 });
    set.states[2] = state;
    expect(set.pass()).toBe('wait InitialSync');
  },
);

test('A6.3 A8.1 a version that changes while members join reaches them before they have a vote, and the others by the roller', () => {
  const set = new Play(desired({ version: '8.0.29-13' }));
  const executables = { mongod: ['8.0.29-13', '8.0.32-14'] };
  set.hosts = [1, 2, 3, 4].map((n) => host(`db${n}`, { executables }));
  set.desired = desired({ version: '8.0.29-13', generation: 2 }, 4);
  passUntil(set, 'publish orders-3');
  set.desired = desired({ version: '8.0.32-14', generation: 3 }, 4);
  const told = set.toTheEnd(80);
  expect(told.at(-1)).toBe('converged');
  expect(told).toContain('deploy orders-3');
  expect(told.filter((line) => line.startsWith('upgrade'))).toEqual([
    'upgrade orders-2',
    'upgrade orders-1',
    'upgrade orders-0',
  ]);
  expect(set.state.members.map((m) => m.deployedVersion)).toEqual(Array(4).fill('8.0.32-14'));
});

test('L3 STK-07 a process that ended is started again by its agent, and a person is asked from the third time on, or when it is not', () => {
  const set = new Play(desired());
  const told = (failures: number, nextStartAt: number | null) => {
    const o = set.reading();
    const process = {
      kind: 'exited',
      since: 0,
      exitCode: 14,
      signal: null,
      failures,
      nextStartAt,
      message: 'it met an error',
    } as const;
    const members = o.members.map((m) =>
      m.name === 'orders-1' && m.facts !== null
        ? { ...m, facts: { ...m.facts, process, database: null } }
        : m,
    );
    const { waits, blocks } = plan({ ...o, members }, set.desired, set.state, 1_000);
    return [blocks.map((b) => b.by), waits.find((w) => w.on === 'ProcessStarting')?.until];
  };
  expect(told(1, 4_000)).toEqual([[], 4_000]);
  expect(told(2, 500)).toEqual([[], 6_000]);
  expect(told(3, 4_000)).toEqual([['ProcessFailing'], undefined]);
  expect(told(1, null)).toEqual([['ProcessFailing'], undefined]);
});

test('L3 ROL-07 a process that does not answer is starting for a minute, then it runs; one that is being stopped is neither', () => {
  const set = new Play(desired());
  const told = (process: Partial<Extract<ProcessFacts, { kind: 'running' }>>): string | undefined => {
    const o = set.reading();
    const members = o.members.map((m) =>
      m.name === 'orders-1' && m.facts !== null
        ? {
            ...m,
            facts: {
              ...m.facts,
              process: { kind: 'running', pid: 1, since: 0, adopted: false, ...process } as const,
              database: { kind: 'unreachable', message: 'no answer' } as const,
            },
          }
        : m,
    );
    return plan({ ...o, members }, set.desired, set.state, 100_000).waits.find(
      (w) => w.on === 'ProcessStarting',
    )?.detail;
  };
  expect(told({ since: 41_000 })).toBe('orders-1 is starting: no answer');
  expect(told({ since: 39_000 })).toBe('orders-1 runs and does not answer: no answer');
  expect(told({ since: 99_000, stopping: true })).toBe('orders-1 is being stopped');
});

test('A6.6 a volume neither grows while something else is done to its member, nor when its member leaves', () => {
  const set = new Play(desired({ volumeBytes: 10 * GIB }));
  set.grows = true;
  set.toTheEnd();
  set.desired = desired({ volumeBytes: 20 * GIB, generation: 2 });
  const growing = (state = set.state): readonly unknown[] =>
    steps(set, state).flatMap((s) => (s.kind === 'growVolume' ? [s.member] : []));
  expect(growing()).toEqual(['orders-0', 'orders-1', 'orders-2']);
  const busy = { kind: 'deploy', member: 'orders-1', version: '8.0.32-14' } as const;
  expect(growing(startStep(set.state, busy, 'd', 0))).toEqual(['orders-0', 'orders-2']);
  expect(growing(withMember(set.state, 'orders-2', { stage: 'removing' }))).toEqual(['orders-0', 'orders-1']);
});

test('STO-06 only disks of hosts that carry a member are warned of', () => {
  const set = new Play(desired());
  const disk = { totalBytes: 100 * GIB, freeBytes: 5 * GIB };
  const space = (name: string) => {
    const o = { ...set.reading(), hosts: [host('db1'), host(name, { disk }), host('db3')] };
    return spaceOf(views(set.state, o), o);
  };
  expect(space('db2')).toMatchObject({ status: 'False', reason: 'Low' });
  expect(space('db9').status).not.toBe('False');
});

test('STK-06 A13.4 an agent whose process is down has its passwords and holds nobody up', () => {
  const set = new Play(desired());
  set.requests = [requested({ type: 'RotateUsers', ...ref, users: [] })];
  passUntil(set, 'giveLogins orders-1');
  set.crash(1);
  expect(set.pass()).toBe('giveLogins orders-2');
});

test('A13.4 L3 one that does not take the new password yet is told of as on its way, and not as a fault', () => {
  const set = new Play(desired());
  set.requests = [requested({ type: 'RotateUsers', ...ref, users: [] })];
  passUntil(set, 'keepLogins ');
  const said = (role: MemberState['role']): readonly string[] => {
    const failed = withFailure(
      withMember(set.state, 'orders-0', { role }),
      'giveLogins',
      'orders-0',
      'LoginNotConfirmed',
      'Authentication failed.',
      set.now,
    );
    return plan(set.reading(), set.desired, failed, set.now + 1).waits.map((w) => `${w.on}: ${w.detail}`);
  };
  expect(said('router')).toContain(
    'Backoff: orders-0 does not take the new password yet, since routers keep users for a while; it is asked again: Authentication failed.',
  );
  expect(said('replicaSet').join()).toContain('since it reaches secondaries a little later');
});

// ── sets of a cluster ──────────────────────────────────────────────────────────────────────────────────────────────

test('A13.4 S12 passwords are the cluster’s only when every one of its sets has them', () => {
  const want = sharded();
  const hosts = ['db1', 'db2', 'db3'].map((name) =>
    host(name, { executables: { mongod: ['8.0.32-14'], mongos: ['8.0.32-14'] } }),
  );
  const made = foresee(observed({ hosts }), want, initialState(want), 0);
  const requests = [requested({ type: 'RotateUsers', mongodbResourceRef: { name: 'events' }, users: [] })];
  const told = foresee({ ...made.observed, requests }, want, made.state, 0);
  const verbs = told.steps.map((s) => s.verb).filter((v) => v === 'rotateUsers' || v === 'keepLogins');
  expect(verbs).toEqual([...made.state.replicaSets.map(() => 'rotateUsers'), 'keepLogins']);
});

// ── feature compatibility version ──────────────────────────────────────────────────────────────────────────────────

test('S7 A8.5 both what was deployed and what runs count for a member’s series, and what is not known does not', () => {
  const set = new Play(desired());
  const differs = (deployed: string | null, runs: string | null): string | null => {
    const state = withMember(set.state, 'orders-1', { deployedVersion: deployed });
    const all = views(state, set.reading()).map((v) =>
      v.member.name !== 'orders-1' || v.database === null
        ? v
        : { ...v, database: runs === null ? null : { ...v.database, binaryVersion: runs } },
    );
    return notOfSeries(all, '8.0');
  };
  expect(differs('8.0.32-14', '8.0.29-13')).toBeNull();
  expect(differs('7.0.43-23', '8.0.32-14')).toBe('orders-1 is deployed as 7.0.43-23');
  expect(differs(null, '8.0.32-14')).toBe('orders-1 is deployed as nothing yet');
  expect(differs('8.0.32-14', '7.0.43-23')).toBe('orders-1 runs 7.0.43-23');
  expect(differs('8.0.32-14', null)).toBe('it is not known what orders-1 runs');
});

test('S7 a binary that ran is not put back across majors, also while nobody hears of it', () => {
  const set = new Play(desired({ version: '7.0.43-23' }));
  set.fcv = '7.0';
  set.desired = desired({ version: '8.0.32-14', generation: 2 });
  expect(set.pass()).toBe('upgrade orders-2');
  set.desired = desired({ version: '7.0.43-23', generation: 3 });
  expect(set.pass()).toBe('blocked VersionStep');
  set.states[2] = null;
  for (let pass = 0; pass < 3; pass++) expect(set.pass()).toBe('blocked VersionStep');
});

// ── users ──────────────────────────────────────────────────────────────────────────────────────────────────────────

test('USR-10 the old name of a user is dropped when the new one is known to be there, not when it was only sent', () => {
  const set = new Play(desired());
  const user = (username: string): DesiredUser => ({
    uid: 'u1',
    name: 'app',
    username,
    db: 'shop',
    roles: [],
    passwordRef: 'p',
    passwordFingerprint: 'f',
    deleting: false,
  });
  const decided = (state: typeof set.state, username: string): readonly Step[] =>
    plan({ ...set.reading(), users: [user(username)] }, set.desired, state, set.now).act?.steps ?? [];
  const done = { kind: 'done', result: {} } as const;
  const [first] = decided(set.state, 'old') as [Step];
  const applied = applyOutcome(startStep(set.state, first, 'a', 0), first, 'a', done, 0);
  expect(decided(applied, 'old')).toEqual([]);
  const [second] = decided(applied, 'new') as [Step];
  const sent = startStep(applied, second, 'b', 0);
  expect(decided(sent, 'new').map((s) => s.kind)).toEqual(['applyUser']);
  const known = applyOutcome(sent, second, 'b', done, 0);
  expect(decided(known, 'new')).toMatchObject([{ kind: 'dropUser', username: 'old' }]);
});

test('A13.4 S12 system users are not made equal to passwords that are about to be replaced', () => {
  const set = new Play(desired());
  set.requests = [requested({ type: 'RotateUsers', ...ref, users: [] })];
  const drift = (): Observed => {
    const o = set.reading();
    return {
      ...o,
      members: o.members.map((m) =>
        m.facts?.database?.kind === 'reachable'
          ? { ...m, facts: { ...m.facts, database: { ...m.facts.database, authenticated: false } } }
          : m,
      ),
    };
  };
  const kinds = (): readonly string[] =>
    (plan(drift(), set.desired, set.state, set.now).act?.steps ?? []).map((s) => s.kind);
  passUntil(set, 'rotateUsers');
  expect(kinds()).not.toContain('reconcileSystemUsers');
  passUntil(set, 'keepLogins');
  expect(kinds()).toContain('reconcileSystemUsers');
});

// ── deletion ───────────────────────────────────────────────────────────────────────────────────────────────────────

test('DEL-06 S4 nothing is forgotten while an import may still make something', () => {
  const placement = { host: 'db1', address: 'db1', port: 27017, portFixed: true };
  const step = { kind: 'import', member: 'orders-0', placement } as const;
  for (const keepVolumes of [false, true]) {
    const want = { ...desired(), deleting: { keepVolumes } };
    const importing = startStep(initialState(want), step, 'i', 0);
    const o = observed({ services: [] });
    expect(plan(o, want, importing, 1).act).toBeNull();
    const next = keepVolumes ? 'forget' : 'deleteSecrets';
    expect(plan(o, want, { ...importing, pending: [] }, 1).act?.steps).toEqual([{ kind: next }]);
  }
});

// ── failures ───────────────────────────────────────────────────────────────────────────────────────────────────────

test('A3.1 A3.2 A2.4 an operation that was accepted has not succeeded: its failures count on until it was seen to end well', () => {
  const want = desired();
  const set = new Play(want);
  const deploy = { kind: 'deploy', member: 'orders-1', version: '8.0.32-14' } as const;
  const accepted = { kind: 'done', result: { operationId: 'op' } } as const;
  const told = (n: number, how: 'failed' | 'succeeded', state: typeof set.state) => {
    const started = applyOutcome(startStep(state, deploy, `d${n}`, 0), deploy, `d${n}`, accepted, 0);
    const end =
      how === 'failed'
        ? ({ kind: 'failed', code: 'Broken', message: 'no' } as const)
        : ({ kind: 'succeeded', result: {} } as const);
    return advance(started, want, { ...set.reading(), operations: { [`d${n}`]: end } }, 0);
  };
  let state = set.state;
  for (const n of [1, 2, 3]) {
    state = told(n, 'failed', state);
    expect(retryOf(state, 'deploy', 'orders-1')?.failures).toBe(n);
  }
  expect(retryOf(told(4, 'succeeded', state), 'deploy', 'orders-1')).toBeNull();
});

test('A3.2 L3 a wait that a clock set back has made longer than any wait can be is over', () => {
  const due = (left: number): boolean => isDue({ nextTryAt: 7_000_000 + left }, 7_000_000);
  expect([due(-1), due(0), due(1), due(RETRY_CAP), due(RETRY_CAP + 1)]).toEqual([
    true,
    true,
    false,
    false,
    true,
  ]);
});
