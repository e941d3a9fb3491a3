import { expect, test } from 'vitest';
import { type Lab, nextConfig, reconfigure, settledLab } from './lab.ts';
import type { OpTime } from './optime.ts';

const HOSTS = ['a:1', 'b:1', 'c:1'];
const terms = (lab: Lab, host: string): number[] => lab.node(host).log.map((entry) => entry.op!.t);
const transitions = (lab: Lab, host: string): string[] =>
  lab.story
    .filter((line) => line.includes(` ${host} `) && line.includes('→'))
    .map((line) => line.split(' ').slice(2).join(' '));

test('an old primary’s own writes are rolled back to the common point; committed ones stay', () => {
  const lab = settledLab(HOSTS);
  const kept = lab.write('a:1')!;
  lab.run(100);
  lab.partition(['a:1'], ['b:1', 'c:1']);
  const lost = [lab.write('a:1')!, lab.write('a:1')!];
  lab.until(() => lab.primary()?.host !== 'a:1' && lab.primary() !== undefined);
  const heir = lab.primary()!.host;
  lab.write(heir);
  lab.heal();
  lab.until(() => lab.stateOf('a:1') === 'SECONDARY' && lab.node('a:1').state.rbid === 2);
  lab.run(1_000);
  const has = (op: OpTime): boolean =>
    lab.node('a:1').log.some((entry) => entry.op!.s === op.s && entry.op!.i === op.i && entry.op!.t === op.t);
  expect(has(kept)).toBe(true);
  expect(lost.map(has)).toEqual([false, false]);
  expect(lab.node('a:1').log).toEqual(lab.node(heir).log);
  expect(transitions(lab, 'a:1').slice(-4)).toEqual([
    'PRIMARY → SECONDARY',
    'SECONDARY → ROLLBACK',
    'ROLLBACK → RECOVERING',
    'RECOVERING → SECONDARY',
  ]);
});

test('two divergent stretches of different terms are found by question and answer', () => {
  const lab = settledLab(['a:1', 'b:1', 'c:1', 'd:1', 'e:1'], { settings: { catchUpTimeoutMillis: 0 } });
  // Term 1: a writes alone. Then b leads a new term alone but for its votes, and writes alone, too.
  lab.partition(['a:1'], ['b:1', 'c:1', 'd:1', 'e:1']);
  for (let i = 0; i < 5; i++) lab.write('a:1');
  lab.crash('a:1');
  lab.heal();
  lab.until(() => lab.primary() !== undefined);
  const second = lab.primary()!.host;
  const rest = HOSTS.concat('d:1', 'e:1').filter((host) => host !== 'a:1' && host !== second);
  lab.run(1_000);
  lab.partition([second, 'a:1'], rest);
  for (let i = 0; i < 5; i++) lab.write(second);
  lab.restart('a:1');
  lab.until(() => lab.primary() !== undefined && rest.includes(lab.primary()!.host));
  const third = lab.primary()!.host;
  for (let i = 0; i < 3; i++) lab.write(third);
  lab.run(500);
  lab.heal();
  lab.until(() =>
    ['a:1', second].every((host) => lab.node(host).log.at(-1)?.op?.t === lab.primary()?.state.term),
  );
  lab.run(2_000);
  for (const host of ['a:1', second]) expect(lab.node(host).log).toEqual(lab.node(third).log);
  expect(terms(lab, 'a:1').includes(1)).toBe(true);
  expect(lab.story.some((line) => line.includes('FATAL'))).toBe(false);
});

test('initial sync: STARTUP2 counts for no write majority, and a source that is lost is replaced by another', () => {
  const lab = settledLab(['a:1', 'b:1']);
  for (let i = 0; i < 3; i++) lab.write('a:1');
  lab.add('c:1');
  reconfigure(
    lab,
    nextConfig(lab, (members) => [...members, { _id: 2, host: 'c:1' }]),
  );
  lab.until(() => lab.stateOf('c:1') === 'STARTUP2' && lab.node('c:1').disk.cloning);
  const op = lab.write('a:1')!;
  lab.crash('b:1');
  const id = lab.wait('a:1', {
    kind: 'write',
    op,
    need: { kind: 'count', count: 2 },
    deadline: null,
    term: 1,
  });
  expect(lab.answers.has(id)).toBe(false);
  lab.until(() => lab.answers.has(id));
  expect(lab.stateOf('c:1')).toBe('SECONDARY');
  expect(lab.node('c:1').log.at(-1)).toEqual(lab.node('a:1').log.at(-1));
});

test('ten failed attempts of initial sync end the process', () => {
  const lab = settledLab(['a:1', 'b:1']);
  lab.add('c:1');
  reconfigure(
    lab,
    nextConfig(lab, (members) => [...members, { _id: 2, host: 'c:1', votes: 0, priority: 0 }]),
  );
  lab.failClones = true;
  lab.run(120_000);
  const attempts = lab.story.filter((line) => line.includes('c:1 [21164]'));
  expect(attempts).toHaveLength(10);
  expect(
    lab.story.filter((line) =>
      line.includes('c:1 FATAL The maximum number of initial sync attempts has been exhausted'),
    ),
  ).toHaveLength(1);
});

test('a crash during initial sync starts it over', () => {
  const lab = settledLab(['a:1', 'b:1']);
  lab.add('c:1');
  reconfigure(
    lab,
    nextConfig(lab, (members) => [...members, { _id: 2, host: 'c:1' }]),
  );
  lab.until(() => lab.node('c:1').disk.cloning);
  lab.crash('c:1');
  lab.run(500);
  lab.restart('c:1');
  lab.until(() => lab.stateOf('c:1') === 'STARTUP2');
  expect(lab.until(() => lab.stateOf('c:1') === 'SECONDARY')).toBe(true);
});

test('without chaining everybody follows the primary; with it, replSetSyncFrom may choose another', () => {
  const lab = settledLab(HOSTS);
  expect(lab.node('c:1').state.sync.source).toBe('a:1');
  const id = lab.command('c:1', { kind: 'syncFrom', host: 'b:1' });
  lab.run(1_000);
  expect(lab.answers.get(id)).toEqual({
    refusal: null,
    fields: { syncFromRequested: 'b:1', prevSyncTarget: 'a:1' },
  });
  expect(lab.node('c:1').state.sync.source).toBe('b:1');
  const op = lab.write('a:1')!;
  const wait = lab.wait('a:1', {
    kind: 'write',
    op,
    need: { kind: 'count', count: 3 },
    deadline: null,
    term: 1,
  });
  lab.until(() => lab.answers.has(wait), 1_000);
  expect(lab.answers.get(wait)?.refusal).toBeNull();
  const unchained = { ...nextConfig(lab, (members) => members), settings: { chainingAllowed: false } };
  expect(reconfigure(lab, unchained)).toBeNull();
  lab.run(1_000);
  expect(lab.node('c:1').state.sync.source).toBe('a:1');
});

test.each<[string, string, number, string]>([
  ['a:1', 'b:1', 95, "primaries don't sync"],
  ['arb:1', 'a:1', 95, "arbiters don't sync"],
  ['b:1', 'x:1', 74, 'Could not find member "x:1" in replica set'],
  ['b:1', 'b:1', 72, 'I cannot sync from myself'],
  ['b:1', 'arb:1', 72, 'Cannot sync from "arb:1" because it is an arbiter'],
  ['b:1', 'n:1', 72, 'Cannot sync from "n:1" because it is not a voter'],
])('replSetSyncFrom on %s to %s: %i', (on, host, code, message) => {
  const lab = settledLab([
    'a:1',
    'b:1',
    { host: 'arb:1', arbiterOnly: true },
    { host: 'n:1', votes: 0, priority: 0 },
  ]);
  const id = lab.command(on, { kind: 'syncFrom', host });
  expect(lab.answers.get(id)?.refusal).toMatchObject({ code, message });
});

test('a member whose source’s log begins too late stays RECOVERING and too stale', () => {
  const lab = settledLab(HOSTS);
  lab.crash('c:1');
  for (let i = 0; i < 20; i++) lab.write('a:1');
  lab.run(1_000);
  for (const host of ['a:1', 'b:1']) lab.node(host).logStart = 15;
  lab.restart('c:1');
  lab.until(() => lab.stateOf('c:1') === 'RECOVERING');
  lab.run(5_000);
  expect(lab.stateOf('c:1')).toBe('RECOVERING');
  expect(lab.node('c:1').state.sync.tooStale).toBe(true);
});

test('a delayed member applies late, and is not waited for by a majority', () => {
  const lab = settledLab(['a:1', 'b:1', { host: 'c:1', priority: 0, secondaryDelaySecs: 30 }]);
  const op = lab.write('a:1')!;
  const id = lab.wait('a:1', { kind: 'write', op, need: { kind: 'majority' }, deadline: null, term: 1 });
  lab.run(1_000);
  expect(lab.answers.get(id)?.refusal).toBeNull();
  const has = (): boolean =>
    lab.node('c:1').log.some((entry) => entry.op!.s === op.s && entry.op!.i === op.i);
  expect(has()).toBe(false);
  lab.run(31_000);
  expect(has()).toBe(true);
});

test('an arbiter votes and holds nothing: with one data member down a majority write waits, w:1 does not', () => {
  const lab = settledLab(['a:1', 'b:1', { host: 'arb:1', arbiterOnly: true }]);
  lab.crash('b:1');
  const op = lab.write('a:1')!;
  const majority = lab.wait('a:1', {
    kind: 'write',
    op,
    need: { kind: 'majority' },
    deadline: lab.now + 2_000,
    term: 1,
  });
  const one = lab.wait('a:1', {
    kind: 'write',
    op,
    need: { kind: 'count', count: 1 },
    deadline: null,
    term: 1,
  });
  lab.run(3_000);
  expect(lab.answers.get(one)?.refusal).toBeNull();
  expect(lab.answers.get(majority)?.refusal).toMatchObject({
    code: 64,
    message: 'waiting for replication timed out',
  });
  expect(lab.node('arb:1').log).toEqual([]);
  lab.crash('a:1');
  lab.restart('b:1');
  lab.run(20_000);
  // b lacks the write that only a has, but nobody with a vote and data says so: it leads, and a will roll back.
  expect(lab.stateOf('b:1')).toBe('PRIMARY');
});

test('write concerns that cannot hold are refused at once: 100 and 79; modes count tag values', () => {
  const lab = settledLab(
    [
      { host: 'a:1', tags: { dc: 'east' } },
      { host: 'b:1', tags: { dc: 'west' } },
    ],
    { settings: { getLastErrorModes: { both: { dc: 2 }, three: { dc: 3 } } } },
  );
  const op = lab.write('a:1')!;
  const wait = (need: { kind: 'count'; count: number } | { kind: 'mode'; mode: string }): number =>
    lab.wait('a:1', { kind: 'write', op, need, deadline: null, term: 1 });
  const three = wait({ kind: 'count', count: 3 });
  const unknown = wait({ kind: 'mode', mode: 'none' });
  const toomany = wait({ kind: 'mode', mode: 'three' });
  const both = wait({ kind: 'mode', mode: 'both' });
  expect(lab.answers.get(three)?.refusal).toMatchObject({
    code: 100,
    message: 'Not enough data-bearing nodes',
  });
  expect(lab.answers.get(unknown)?.refusal).toMatchObject({ code: 79 });
  expect(lab.answers.get(toomany)?.refusal).toMatchObject({ code: 100 });
  expect(lab.answers.has(both)).toBe(false);
  lab.run(100);
  expect(lab.answers.get(both)?.refusal).toBeNull();
});

test('readers wait for their cluster time, majority readers for its commitment', () => {
  const lab = settledLab(HOSTS);
  lab.partition(['a:1'], ['b:1', 'c:1']);
  const op = lab.write('a:1')!;
  const local = lab.wait('a:1', { kind: 'read', s: op.s, i: op.i, committed: false });
  const majority = lab.wait('a:1', { kind: 'read', s: op.s, i: op.i, committed: true });
  const elsewhere = lab.wait('b:1', { kind: 'read', s: op.s, i: op.i, committed: true });
  lab.run(500);
  expect([local, majority, elsewhere].map((id) => lab.answers.has(id))).toEqual([true, false, false]);
  lab.heal();
  lab.run(500);
  lab.until(() => [majority, elsewhere].every((id) => lab.answers.has(id)));
  expect([majority, elsewhere].map((id) => lab.answers.get(id)?.refusal)).toEqual([null, null]);
});

test('a member whose credentials all others refuse shows RECOVERING, and the others as not authenticated', () => {
  const lab = settledLab(HOSTS);
  lab.refuseLogins.add('c:1');
  lab.until(() => lab.stateOf('c:1') === 'RECOVERING');
  expect(lab.stateOf('c:1')).toBe('RECOVERING');
  expect(lab.node('c:1').state.peers.map((peer) => peer.authenticated)).toEqual([false, false]);
  lab.refuseLogins.clear();
  expect(lab.until(() => lab.stateOf('c:1') === 'SECONDARY')).toBe(true);
});
