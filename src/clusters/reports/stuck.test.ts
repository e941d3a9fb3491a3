import { expect, test } from 'vitest';
import type { Step } from '../decisions.ts';
import { disruptionsOf } from '../disruption.ts';
import { desired, host, observed, placed, seen } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { withMember } from '../state.ts';
import { status } from '../status.ts';
import { startStep } from '../steps.ts';
import type { Observed, ObservedMember, OperationRequest } from '../types.ts';

const CHANGED = { operationProfiling: { slowOpThresholdMs: 50 } };
const WRONG = { setParameter: { noSuchParameter: 1 } };

/** A set one of whose members may lose what is on its host. */
class Lossy extends Play {
  /** Indexes of members whose runtime their connected host neither reports nor lists. */
  readonly gone = new Set<number>();
  volumeLost = false;

  override reading(): Observed {
    const o = super.reading();
    const members = o.members.map((m, i) => {
      const record = this.state.members[i];
      return record !== undefined && this.gone.has(record.index) && record.serviceId !== null
        ? { ...m, facts: null, connected: true }
        : m;
    });
    return { ...o, members };
  }

  override perform(step: Step): void {
    const index = 'member' in step ? Number(step.member.split('-').at(-1)) : -1;
    if (step.kind === 'import' && this.volumeLost && this.gone.has(index)) {
      const id = `lost${this.now}`;
      const message = `volume v-${step.member} of ${step.member} is not on this host`;
      const failed = { kind: 'failed', code: 'VolumeNotFound', message } as const;
      this.state = startStep(this.state, step, id, this.now);
      const o = { ...this.reading(), operations: { [id]: failed } };
      this.state = advance(this.state, this.desired, o, this.now);
      return;
    }
    if (step.kind === 'import') this.gone.delete(index);
    super.perform(step);
  }
}

test('STK-04 a configuration that cannot work is taken back: only the member that had it is touched, and all is well', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: WRONG });
  expect(play.pass()).toBe('reload orders-2');
  play.crashing.add(2);
  for (let i = 0; i < 10; i++) expect(play.pass()).toBe('blocked ProcessFailing');
  const [block] = plan(play.reading(), play.desired, play.state, play.now).blocks;
  expect(block?.fix).toMatch(
    /services\/s-orders-2\/mongod\.log below the data folder of the agent on host db3$/,
  );
  play.desired = desired();
  expect(play.pass()).toBe('reload orders-2');
  play.crashing.clear();
  expect(play.toTheEnd()).toEqual(['converged']);
});

test('STK-04 A3.1 a host that rejects the new version is left alone as soon as the old one is wanted again', () => {
  const play = new Play(desired({ version: '8.0.29-13' }));
  play.desired = desired({ version: '8.0.32-14' });
  play.state = advance(play.state, play.desired, play.reading(), 1);
  const step = plan(play.reading(), play.desired, play.state, 1).act?.steps[0] as Step;
  const failed = { kind: 'failed', code: 'NoExecutables', message: 'no mongod 8.0.32-14 on db3' } as const;
  const o = { ...play.reading(), operations: { up: failed } };
  play.state = advance(startStep(play.state, step, 'up', 1), play.desired, o, 2);
  expect(play.pass()).toMatch(/^blocked NoExecutables/);
  play.desired = desired({ version: '8.0.29-13' });
  expect(play.toTheEnd()).toEqual(['converged']);
});

test('STK-05 S1 a member that lost its runtime is made again before anybody is restarted; the restart waits, then comes', () => {
  const play = new Lossy(desired());
  play.desired = desired({ mongodConfig: CHANGED });
  play.gone.add(1);
  const lines = play.toTheEnd().filter((l) => !l.startsWith('wait'));
  expect(lines.slice(0, 3)).toEqual(['import orders-1', 'deploy orders-1', 'publish orders-1']);
  expect(lines.slice(3)).toEqual(['reload orders-2', 'stepDown orders-0', 'reload orders-0', 'converged']);
});

test('STK-05 S6 a member whose volume is gone too is never made anew under its name: it says so, and nothing else goes down', () => {
  const play = new Lossy(desired());
  play.gone.add(1);
  play.volumeLost = true;
  play.desired = desired({ mongodConfig: CHANGED });
  for (let i = 0; i < 20; i++) play.pass();
  const decided = plan(play.reading(), play.desired, play.state, play.now);
  expect(decided.blocks.map((b) => [b.by, b.detail])).toEqual([
    ['VolumeLost', 'volume v-orders-1 of orders-1 is not on this host'],
  ]);
  expect(decided.waits.map((w) => w.detail).join()).toContain('orders-1');
  expect(play.state.members.map((m) => m.activated?.configVersion)).toEqual([1, undefined, 1]);
  play.volumeLost = false;
  play.now += 600_000;
  expect(play.toTheEnd().at(-1)).toBe('converged');
});

test('STK-05 S6 a running member that ends without its data is said to have lost its volume, with the way out', () => {
  const play = new Play(desired());
  const { reading } = play;
  play.reading = (): Observed => {
    const seen = reading.call(play);
    const ended = {
      ...({ kind: 'exited', since: 0, exitCode: null, signal: null, failures: 1, nextStartAt: 9 } as const),
      ...{ code: 'VolumeNotFound', message: 'the volume v-orders-2 is gone or has no readable owner' },
    } as const;
    const without = (m: ObservedMember): ObservedMember =>
      m.name === 'orders-2' && m.facts !== null
        ? { ...m, facts: { ...m.facts, database: null, process: ended } }
        : m;
    return { ...seen, members: seen.members.map(without) };
  };
  const { act, blocks } = plan(play.reading(), play.desired, play.state, play.now);
  expect([act, blocks.map(({ by, detail, fix }) => [by, detail, fix])]).toEqual([
    null,
    [
      [
        'VolumeLost',
        'orders-2 on host db3 is not started: the volume v-orders-2 is gone or has no readable owner',
        'bring the volume back to its host, or replace the member: belay replace orders orders-2',
      ],
    ],
  ]);
});

test('STK-07 S1 of three the failed one gets the correction first, without waiting for others', () => {
  const play = new Play(desired());
  play.crashing.add(0);
  play.states = [null, 'PRIMARY', 'SECONDARY'];
  play.states[0] = 'SECONDARY';
  play.desired = desired({ mongodConfig: CHANGED });
  expect(play.pass()).toBe('reload orders-0');
  play.crashing.clear();
  const rest = play.toTheEnd();
  expect(rest.filter((l) => l.startsWith('reload'))).toEqual(['reload orders-2', 'reload orders-1']);
  expect(rest.at(-1)).toBe('converged');
});

test('STK-07 a member that is down while a majority is too still gets its correction: it may be the cure', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: CHANGED });
  play.crashing.add(1).add(2);
  play.states = ['SECONDARY', 'SECONDARY', 'SECONDARY'];
  expect(play.pass()).toMatch(/^reload orders-[12]$/);
});

test('STK-11 before the set exists a wrong setting is corrected on all members at once; nothing is asked of a database', () => {
  const wrong = desired({ mongodConfig: WRONG });
  const record = placed(wrong, { stage: 'deployed' });
  const crashed = seen(record, wrong, ['STARTUP', 'STARTUP', 'STARTUP']);
  const exited = {
    kind: 'exited',
    since: 0,
    exitCode: 2,
    signal: null,
    failures: 3,
    nextStartAt: null,
    message: 'unknown parameter',
  } as const;
  const down = {
    ...crashed,
    members: crashed.members.map((m) => ({
      ...m,
      facts: m.facts && { ...m.facts, process: exited, database: null },
    })),
  };
  const right = desired();
  const learnt = advance(record, right, down, 1);
  const steps = plan(down, right, learnt, 1).act?.steps ?? [];
  expect(steps.map((s) => `${s.kind} ${'member' in s ? s.member : ''}`)).toEqual([
    'publish orders-0',
    'publish orders-1',
    'publish orders-2',
  ]);
});

test('STK-06 L3 one member that crashes in a loop holds up nobody’s users, and says itself what is wrong', () => {
  const play = new Play(desired());
  play.crashing.add(2);
  const user = {
    uid: 'u1',
    name: 'app',
    username: 'app',
    db: 'admin',
    roles: [],
    passwordRef: 'p',
    passwordFingerprint: 'f',
    deleting: false,
  };
  const o = { ...play.reading(), users: [user] };
  play.state = advance(play.state, play.desired, o, 1);
  const decided = plan(o, play.desired, play.state, 1);
  expect(decided.act?.steps.map((s) => s.kind)).toEqual(['applyUser']);
  expect(decided.blocks.map((b) => b.by)).toEqual(['ProcessFailing']);
  const is = status({
    observed: o,
    desired: play.desired,
    state: play.state,
    plan: decided,
    now: 1,
    warnings: [],
    before: null,
  });
  expect([is.phase, is.members[2]?.message]).toEqual(['Degraded', 'Unrecognized option']);
});

const request = (spec: OperationRequest['spec'], createdAt: number): OperationRequest => ({
  uid: `op-${createdAt}`,
  name: `orders-${spec.type}`,
  spec,
  createdAt,
  cancelRequested: false,
});
const ref = { mongodbResourceRef: { name: 'orders' } } as const;
const spare = [1, 2, 3, 4].map((n) => host(`db${n}`));
/** So many looks, whatever stands in the way in between. */
const passes = (play: Play, count: number): readonly string[] =>
  Array.from({ length: count }, () => play.pass());
const done = (play: Play): readonly string[] => play.state.ended.map((e) => `${e.uid} ${e.state}`);

test('STK-05 A13.6 a restart that waits for a lost member does not hold up that member’s replacement; afterwards it is done', () => {
  const play = new Lossy(desired());
  play.hosts = spare;
  play.gone.add(1);
  play.volumeLost = true;
  play.requests = [request({ type: 'Restart', ...ref, members: ['orders-2'] }, 1)];
  for (let i = 0; i < 10; i++) expect(play.pass()).not.toMatch(/^reload/);
  play.requests = [...play.requests, request({ type: 'Replace', ...ref, member: 'orders-1' }, 2)];
  const lines = passes(play, 120);
  expect(done(play)).toEqual(['op-2 Succeeded', 'op-1 Succeeded']);
  expect(lines.filter((l) => l.startsWith('reload'))).toEqual(['reload orders-2']);
  expect(play.config.members.map((row) => row.host)).toEqual(['db1:27017', 'db3:27017', expect.any(String)]);
});

test('STK-05 S2 a member without a runtime leaves its set without asking anybody: it serves nobody', () => {
  const play = new Play(desired());
  const o = play.reading();
  const rest = play.config.members.slice(0, 2);
  const config = { ...play.config, version: 2, members: rest };
  const step: Step = { kind: 'reconfig', replicaSet: 'orders', via: 'orders-0', config, change: '' };
  const asked = (state: typeof play.state) =>
    disruptionsOf(step, state, o, play.desired).map(({ member }) => member);
  expect(asked(play.state)).toEqual(['orders-2']);
  expect(asked(withMember(play.state, 'orders-2', { serviceId: null }))).toEqual([]);
});

test.each([
  ['passwords first', ['RotateUsers', 'Replace']],
  ['replacement first', ['Replace', 'RotateUsers']],
] as const)('STK-06 MBR-03 a crash-looping member is replaced and passwords are rotated, %s', (_, order) => {
  const play = new Play(desired());
  play.hosts = spare;
  play.down.add(0);
  play.vote();
  const asked = {
    RotateUsers: { type: 'RotateUsers', ...ref, users: [] },
    Replace: { type: 'Replace', ...ref, member: 'orders-0' },
  } as const;
  play.requests = order.map((type, i) => request(asked[type], i + 1));
  passes(play, 160);
  expect(done(play)).toEqual(['op-1 Succeeded', 'op-2 Succeeded']);
  expect(play.state.members.map((m) => m.name)).toEqual(['orders-1', 'orders-2', 'orders-3']);
  expect(play.config.members.map((row) => row.votes)).toEqual([1, 1, 1]);
});

test('A4.6 what a connected host neither reports nor lists is made again at its place; an unlisted silence is not', () => {
  const want = desired();
  const play = new Play(want);
  const o = play.reading();
  const silent = { ...o, members: o.members.map((m, i) => (i === 1 ? { ...m, facts: null } : m)) };
  const known = observed({ services: null }).services;
  expect(advance(play.state, want, { ...silent, services: known }, 1).members[1]?.stage).toBe('active');
  const gone = advance(play.state, want, silent, 1).members[1];
  expect(gone).toMatchObject({ stage: 'planned', serviceId: null, volumeId: 'v-orders-1', port: 27017 });
});
