import { expect, test } from 'vitest';
import { nextConfig, reconfigure, settledLab } from './lab.ts';
import { member } from './member.ts';
import type { PeerReply, VoteRequest } from './messages.ts';
import type { LogView, Output, State } from './types.ts';

const HOSTS = ['a:1', 'b:1', 'c:1'];
const EMPTY: LogView = { oldest: () => null, last: () => ({ op: null, wall: 0 }), atOrBefore: () => null };

function ask(
  state: State,
  request: VoteRequest,
  now: number,
): { state: State; outputs: readonly Output[]; reply: PeerReply | undefined } {
  const [next, outputs] = member(state, { kind: 'request', id: 1, request }, now, EMPTY);
  const answer = outputs.find((output) => output.kind === 'answerPeer');
  return { state: next, outputs, reply: answer?.reply };
}

function voteFrom(state: State, change: Partial<VoteRequest> = {}): VoteRequest {
  return {
    kind: 'vote',
    setName: 'rs0',
    dryRun: false,
    term: state.term + 1,
    candidateIndex: 1,
    configVersion: state.config!.version,
    configTerm: state.config!.term,
    lastApplied: state.applied.op,
    ...change,
  };
}

test('a vote is saved before it is answered, is given once per term, and survives a restart', () => {
  const lab = settledLab(HOSTS);
  const { state } = lab.node('c:1');
  const first = ask(state, voteFrom(state), lab.now);
  expect(first.reply).toMatchObject({ kind: 'vote', granted: true });
  const kinds = first.outputs.map((output) => output.kind);
  expect(kinds).toContain('saveVote');
  expect(kinds.indexOf('saveVote')).toBeLessThan(kinds.indexOf('answerPeer'));
  const second = ask(first.state, voteFrom(state, { candidateIndex: 0 }), lab.now);
  expect(second.reply).toMatchObject({
    granted: false,
    reason: 'already voted for another candidate (b:1) this term (2)',
  });
  expect(ask(first.state, voteFrom(state), lab.now).reply).toMatchObject({ granted: true });

  lab.node('c:1').disk.vote = { term: 2, candidate: 1 };
  lab.crash('c:1');
  lab.restart('c:1');
  lab.run(5);
  const again = lab.node('c:1').state;
  expect(again.term).toBe(2);
  expect(ask(again, voteFrom(state, { candidateIndex: 0 }), lab.now).reply).toMatchObject({ granted: false });
});

test.each<[string, (state: State) => Partial<VoteRequest>, string]>([
  [
    'an older configuration',
    () => ({ configVersion: 0 }),
    "candidate's config with {version: 0, term: 1} is older than mine with {version: 1, term: 1}",
  ],
  ['a lower term', (state) => ({ term: state.term - 1 }), "candidate's term (0) is lower than mine (1)"],
  ['another set', () => ({ setName: 'x' }), "candidate's set name (x) differs from mine (rs0)"],
  [
    'less data',
    () => ({ lastApplied: { t: 1, s: 5, i: 1 } }),
    "candidate's data is staler than mine. candidate's last written OpTime: { ts: Timestamp(5, 1), t: 1 }",
  ],
])('no vote for %s', (_, change, reason) => {
  const lab = settledLab(HOSTS);
  const { state } = lab.node('c:1');
  const { reply, outputs } = ask(state, voteFrom(state, change(state)), lab.now);
  expect(reply).toMatchObject({ granted: false, reason: expect.stringContaining(reason) });
  expect(outputs.some((output) => output.kind === 'saveVote')).toBe(false);
});

test('a dry run stores no vote; an arbiter that sees a healthy primary refuses, a data member does not', () => {
  const lab = settledLab(['a:1', 'b:1', { host: 'arb:1', arbiterOnly: true }]);
  const data = lab.node('b:1').state;
  const dry = ask(data, voteFrom(data, { dryRun: true, candidateIndex: 2 }), lab.now);
  expect(dry.reply).toMatchObject({ granted: true });
  expect(dry.outputs.some((output) => output.kind === 'saveVote')).toBe(false);
  const arbiter = lab.node('arb:1').state;
  expect(ask(arbiter, voteFrom(arbiter, { lastApplied: data.applied.op }), lab.now).reply).toMatchObject({
    granted: false,
    reason: 'can see a healthy primary (a:1) of equal or greater priority',
  });
});

test('a primary that hears of a newer term in a position report steps down and counts nothing', () => {
  const lab = settledLab(HOSTS);
  lab.partition(['a:1'], ['b:1', 'c:1']);
  const op = lab.write('a:1')!;
  lab.run(1);
  const { state } = lab.node('a:1');
  const report = {
    kind: 'positions',
    term: state.term + 1,
    configVersion: 1,
    positions: [{ memberId: 1, op, wall: lab.now }],
  } as const;
  const [next] = member(state, { kind: 'request', id: 1, request: report }, lab.now, EMPTY);
  expect(next).toMatchObject({ role: 'follower', term: 2 });
  expect(next.committed.op).not.toEqual(op);
  const [same] = member(
    state,
    { kind: 'request', id: 1, request: { ...report, term: state.term } },
    lab.now,
    EMPTY,
  );
  expect(same.committed.op).toEqual(op);
});

test('a primary without a majority gives up after the election timeout', () => {
  const lab = settledLab(HOSTS);
  lab.partition(['a:1'], ['b:1', 'c:1']);
  const began = lab.now;
  lab.until(() => lab.stateOf('a:1') === 'SECONDARY');
  expect(lab.now - began).toBeGreaterThanOrEqual(8_000);
  expect(lab.now - began).toBeLessThanOrEqual(12_100);
  expect(lab.story.some((line) => line.includes("[21809] Can't see a majority of the set"))).toBe(true);
});

test('priority takeover: a member of higher priority takes the role after (rank + 1) election timeouts', () => {
  const lab = settledLab(['a:1', { host: 'b:1', priority: 2 }, 'c:1']);
  lab.until(() => lab.primary()?.host === 'b:1', 30_000);
  expect(lab.primary()?.host).toBe('b:1');
  expect(
    lab.story.some((line) => line.includes('[4615660] Starting an election for a priority takeover')),
  ).toBe(true);
  expect(lab.primary()!.state.candidateMetrics?.reason).toBe('priorityTakeover');
});

test('raising a priority by reconfig moves the primary; lowering the own below the others does, too', () => {
  const lab = settledLab(HOSTS);
  expect(
    reconfigure(
      lab,
      nextConfig(lab, (members) => members.map((m) => (m['_id'] === 2 ? { ...m, priority: 5 } : m))),
    ),
  ).toBeNull();
  lab.until(() => lab.primary()?.host === 'c:1', 40_000);
  expect(lab.primary()?.host).toBe('c:1');
});

test('a frozen member does not stand; unfrozen it does', () => {
  const lab = settledLab(HOSTS);
  for (const host of ['b:1', 'c:1']) lab.command(host, { kind: 'freeze', secs: 60 });
  lab.crash('a:1');
  lab.run(30_000);
  expect(lab.primary()).toBeUndefined();
  const id = lab.command('b:1', { kind: 'freeze', secs: 0 });
  expect(lab.answers.get(id)?.fields).toEqual({ info: 'unfreezing' });
  lab.until(() => lab.primary() !== undefined, 30_000);
  expect(lab.primary()?.host).toBe('b:1');
});

test('freeze and maintenance are refused on a primary (95); maintenance shows RECOVERING and counts', () => {
  const lab = settledLab(HOSTS);
  const codeOf = (id: number): unknown => lab.answers.get(id)?.refusal?.code;
  expect(codeOf(lab.command('a:1', { kind: 'freeze', secs: 5 }))).toBe(95);
  expect(codeOf(lab.command('a:1', { kind: 'maintenance', on: true }))).toBe(95);
  lab.command('b:1', { kind: 'maintenance', on: true });
  lab.command('b:1', { kind: 'maintenance', on: true });
  lab.command('b:1', { kind: 'maintenance', on: false });
  expect(lab.stateOf('b:1')).toBe('RECOVERING');
  lab.command('b:1', { kind: 'maintenance', on: false });
  expect(lab.stateOf('b:1')).toBe('SECONDARY');
  expect(codeOf(lab.command('b:1', { kind: 'maintenance', on: false }))).toBe(96);
});

test('stepDown checks its arguments first, in the server’s order', () => {
  const lab = settledLab(HOSTS);
  const stepDown = (host: string, secs: number, catchUpSecs: number | null, force = false): unknown =>
    lab.answers.get(lab.command(host, { kind: 'stepDown', secs, catchUpSecs, force }))?.refusal;
  expect(stepDown('b:1', -1, null)).toMatchObject({
    code: 2,
    message: 'stepdown period must be a positive integer',
  });
  expect(stepDown('b:1', 60, -1)).toMatchObject({ code: 2 });
  expect(stepDown('b:1', 5, null)).toMatchObject({
    code: 2,
    message: 'stepdown period must be longer than secondaryCatchUpPeriodSecs',
  });
  expect(stepDown('b:1', 60, null)).toMatchObject({ code: 10107, message: "not primary so can't step down" });
  lab.crash('b:1');
  lab.crash('c:1');
  lab.write('a:1');
  lab.run(1);
  lab.command('a:1', { kind: 'stepDown', secs: 60, catchUpSecs: 5, force: false });
  expect(stepDown('a:1', 60, 5)).toMatchObject({ code: 117 });
});

test('hello’s counter moves when a stepdown begins to wait and when it fails', () => {
  const lab = settledLab(HOSTS);
  lab.crash('b:1');
  lab.crash('c:1');
  lab.write('a:1');
  lab.run(10);
  const before = lab.node('a:1').state.topologyCounter;
  const id = lab.command('a:1', { kind: 'stepDown', secs: 60, catchUpSecs: 1, force: false });
  expect(lab.node('a:1').state.topologyCounter).toBe(before + 1);
  lab.until(() => lab.answers.has(id));
  expect(lab.node('a:1').state.topologyCounter).toBe(before + 2);
});

test('writers that wait when their primary steps down get 189', () => {
  const lab = settledLab(HOSTS);
  lab.partition(['a:1'], ['b:1', 'c:1']);
  const op = lab.write('a:1')!;
  const id = lab.wait('a:1', { kind: 'write', op, need: { kind: 'majority' }, deadline: null, term: 1 });
  lab.command('a:1', { kind: 'stepDown', secs: 60, catchUpSecs: 0, force: true });
  expect(lab.answers.get(id)?.refusal).toMatchObject({ code: 189, codeName: 'PrimarySteppedDown' });
});

test('shutdown of a primary hands over first, then quiesces until the time is over', () => {
  const lab = settledLab(HOSTS);
  const began = lab.now;
  const id = lab.command('a:1', { kind: 'shutdown', force: false, timeoutMillis: 15_000 });
  lab.until(() => lab.answers.has(id));
  expect(lab.answers.get(id)).toEqual({ refusal: null, fields: { quiesceUntil: began + 15_000 } });
  lab.until(() => lab.primary() !== undefined, 1_000);
  expect(lab.primary()?.host).not.toBe('a:1');
});

test('shutdown of a primary nobody can replace: refused, or with force after the whole time', () => {
  const lab = settledLab(['a:1']);
  const refused = lab.command('a:1', { kind: 'shutdown', force: false, timeoutMillis: 2_000 });
  lab.run(3_000);
  expect(lab.answers.get(refused)?.refusal).toMatchObject({ code: 262 });
  expect(lab.write('a:1')).not.toBeNull();
  const began = lab.now;
  const forced = lab.command('a:1', { kind: 'shutdown', force: true, timeoutMillis: 2_000 });
  lab.run(3_000);
  expect(lab.answers.get(forced)?.fields).toEqual({ quiesceUntil: began + 2_000 });
});

test('a forced stepDown of a lone member keeps it down for its period, then it leads again', () => {
  const lab = settledLab(['a:1']);
  const began = lab.now;
  lab.command('a:1', { kind: 'stepDown', secs: 5, catchUpSecs: null, force: true });
  expect(lab.stateOf('a:1')).toBe('SECONDARY');
  lab.until(() => lab.primary() !== undefined);
  expect(lab.now - began).toBeGreaterThanOrEqual(5_000);
  expect(lab.now - began).toBeLessThan(5_200);
});

test('the story of a first election, as the log tells it', () => {
  const lab = settledLab(HOSTS);
  const told = lab.story
    .filter(
      (line) => line.includes(' a:1 ') && /\[(21438|21444|6015300|21450|21364|21363|21331)\]|→/.test(line),
    )
    .map((line) => line.split(' ').slice(2).join(' '));
  expect(told).toEqual([
    'STARTUP → STARTUP2',
    'STARTUP2 → RECOVERING',
    'RECOVERING → SECONDARY',
    '[21438] Conducting a dry run election to see if we could be elected',
    '[21444] Dry election run succeeded, running for election',
    '[6015300] Storing last vote document in local storage for my election',
    '[21450] Election succeeded, assuming primary role',
    'SECONDARY → PRIMARY',
    '[21364] Caught up to the latest optime known via heartbeats after becoming primary',
    '[21363] Exited primary catch-up mode',
    '[21331] Transition to primary complete; database writes are now permitted',
  ]);
});
