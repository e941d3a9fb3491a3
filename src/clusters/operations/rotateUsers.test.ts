import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Step } from '../decisions.ts';
import { desired } from '../fixtures.ts';
import { guard } from '../guard.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { startStep } from '../steps.ts';
import type { OperationRequest, State } from '../types.ts';
import { loginsNow } from './rotateUsers.ts';

const asked = (users: readonly string[] = [], change: Partial<OperationRequest> = {}): OperationRequest => ({
  uid: 'op-1',
  name: 'orders-users',
  spec: { type: 'RotateUsers', mongodbResourceRef: { name: 'orders' }, users },
  createdAt: 0,
  cancelRequested: false,
  ...change,
});

/**
 * A set whose database and agents remember passwords: `old` or `new`. A control plane that dies leaves the effect done and
 * the record as it was with the intent.
 */
class Passwords extends Play {
  database: 'old' | 'new' = 'old';
  kept: 'old' | 'new' = 'old';
  staged = false;
  readonly agents = new Map<string, readonly ('old' | 'new')[]>();
  /** Steps (by number) whose outcome is lost, and those of which not even the effect was done. */
  lost: ReadonlySet<number> = new Set();
  undone: ReadonlySet<number> = new Set();
  #count = 0;

  override perform(step: Step): void {
    const number = this.#count++;
    if (this.undone.has(number)) return;
    this.#effect(step, this.state);
    super.perform(step);
    if (this.lost.has(number) && this.#before !== null) this.state = this.#before;
    this.check();
  }
  #before: State | null = null;

  override pass(): string {
    this.#before = this.state;
    const line = super.pass();
    this.check();
    return line;
  }

  #effect(step: Step, state: State): void {
    if (step.kind === 'stageLogins') this.staged = true;
    if (step.kind === 'rotateUsers') this.database = this.staged ? 'new' : this.database;
    if (step.kind === 'keepLogins') this.kept = this.staged ? 'new' : this.kept;
    if (step.kind !== 'giveLogins' && step.kind !== 'reload' && step.kind !== 'rotateCertificate') return;
    const both = loginsNow(state)?.both === true && this.staged;
    this.agents.set(step.member, both ? [this.kept, 'new'] : [this.kept]);
  }

  check(): void {
    for (const { name } of this.state.members) {
      const holds = this.agents.get(name) ?? ['old'];
      expect(holds, `S12: ${name} at ${this.database}`).toContain(this.database);
    }
  }
}

const play = (users: readonly string[] = []): Passwords => {
  const set = new Passwords(desired());
  set.requests = [asked(users)];
  return set;
};

test('A13.4 S12 CRD-11 passwords are staged, given besides, changed, kept and given alone: agent by agent, and nothing restarts', () => {
  const set = play();
  expect(set.toTheEnd()).toEqual([
    'stageLogins ',
    'giveLogins orders-0',
    'giveLogins orders-1',
    'giveLogins orders-2',
    'rotateUsers ',
    'keepLogins ',
    'giveLogins orders-0',
    'giveLogins orders-1',
    'giveLogins orders-2',
    'converged',
  ]);
  expect([...set.agents.values()]).toEqual([['new'], ['new'], ['new']]);
  expect(set.state.ended).toMatchObject([
    {
      state: 'Succeeded',
      message: '5 passwords were changed',
      completed: ['orders-0', 'orders-1', 'orders-2'],
    },
  ]);
});

test('A13.4 a password that no agent uses is changed without asking agents', () => {
  const set = new Play(desired());
  set.requests = [asked(['databaseAdmin'])];
  expect(set.toTheEnd()).toEqual(['stageLogins ', 'rotateUsers ', 'keepLogins ', 'converged']);
  expect(set.state.ended).toMatchObject([{ message: 'the password of databaseAdmin was changed' }]);
});

test('A13.4 A13.1 unknown users are refused by name; it is cancelled safely before the database knows, and not while it changes', () => {
  const wrong = play(['root']);
  expect(wrong.toTheEnd()).toEqual(['converged']);
  expect(wrong.state.ended).toMatchObject([{ state: 'Failed', message: /no system user root/ }]);

  const set = play();
  while (!set.pass().startsWith('giveLogins'));
  set.requests = [asked([], { cancelRequested: true })];
  expect(set.toTheEnd()).toEqual(['converged']);
  expect(set.state.ended).toMatchObject([{ state: 'Cancelled' }]);

  const late = play();
  while (!late.pass().startsWith('rotateUsers'));
  late.requests = [asked([], { cancelRequested: true })];
  late.pass();
  expect(late.kept).toBe('new');
});

test('A13.4 S12 passwords wait for an agent that is silent, by name', () => {
  const set = play();
  set.pass();
  set.states[1] = null;
  set.toTheEnd(10);
  expect(set.database).toBe('old');
  expect(set.pass()).toMatch(/^wait /);
  set.states[1] = 'SECONDARY';
  expect(set.toTheEnd(40).at(-1)).toBe('converged');
});

test('A13.4 CRD-11 S12 a changed configuration meanwhile is rolled out under the roller’s questions, and rotation goes on', () => {
  const set = play();
  while (!set.pass().startsWith('giveLogins'));
  set.desired = desired({ mongodConfig: { a: 1 }, generation: 2 });
  const told = set.toTheEnd();
  expect(told.filter((l) => l.startsWith('reload'))).toHaveLength(3);
  expect(told.at(-1)).toBe('converged');
  expect(set.state.ended).toMatchObject([{ state: 'Succeeded' }]);
});

test('S12 A2.7 A13.4 whatever step is lost or never done, every agent holds a password that its database accepts at every moment', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(14), { maxLength: 6 }),
      fc.array(fc.nat(14), { maxLength: 6 }),
      (lost, undone) => {
        const set = play();
        set.lost = new Set(lost);
        set.undone = new Set(undone);
        expect(set.toTheEnd(80).at(-1)).toBe('converged');
        expect([set.database, set.kept, ...set.agents.values()]).toEqual([
          'new',
          'new',
          ['new'],
          ['new'],
          ['new'],
        ]);
      },
    ),
    { numRuns: 150 },
  );
});

test('A13.6 CRD-11 a rotation does not begin while a member waits for a change that only more members would allow', () => {
  const set = new Play(desired({}, 1));
  set.desired = desired(
    { generation: 2, mongodConfig: { operationProfiling: { slowOpThresholdMs: 7 } }, interruption: false },
    1,
  );
  set.requests = [asked()];
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  set.state = advance(set.state, set.desired, set.reading(), set.now);
  expect(set.state.operation).toBeNull();
  const grown = desired(
    { generation: 3, mongodConfig: { operationProfiling: { slowOpThresholdMs: 7 } }, interruption: false },
    3,
  );
  expect(advance(set.state, grown, set.reading(), set.now).members).toHaveLength(3);
});

test('A2.4 A13.4 who is being taken away is given no passwords, and nobody’s change while it is', () => {
  const set = play();
  for (let pass = 0; pass < 20 && loginsNow(set.state) === null; pass++) set.pass();
  const next = (state: State): string | undefined => {
    const { act, waits } = plan(set.reading(), set.desired, state, set.now);
    const step = act?.steps[0];
    return step === undefined ? waits[0]?.on : `${step.kind} ${'member' in step ? step.member : ''}`;
  };
  const first = next(set.state);
  expect(first).toMatch(/^giveLogins /);
  const member = first?.split(' ')[1] ?? '';
  const gone = startStep(set.state, { kind: 'deleteRuntime', member }, 'd1', set.now);
  expect(next(gone)).not.toBe(first);
  const give = { kind: 'giveLogins', member, configVersion: set.state.configVersion + 1 } as const;
  const publish = { kind: 'publish', member, configVersion: set.state.configVersion + 1 } as const;
  expect(guard(give, set.reading(), set.desired, set.state, set.now, 'x')).toBeNull();
  for (const step of [give, publish])
    expect(guard(step, set.reading(), set.desired, gone, set.now, 'x')).toEqual({
      reason: 'OperationPending',
      detail: `deleteRuntime of ${member} is under way`,
    });
  // With all of them on their way no password is changed either: one of them may come back without the new one.
  const all = set.state.members.reduce(
    (state, m) => startStep(state, { kind: 'deleteRuntime', member: m.name }, `d-${m.name}`, set.now),
    set.state,
  );
  expect(next(all)).toMatch(/^(OperationRunning|WaitingForMembers)$/);
});
