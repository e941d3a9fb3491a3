import { expect, test } from 'vitest';
import { Lab, type LabOptions } from './lab.ts';

const HOSTS = ['a:1', 'b:1', 'c:1'];
const members = (hosts: readonly string[] = HOSTS): Record<string, unknown>[] =>
  hosts.map((host, _id) => ({ _id, host }));

function threeMembers(options: LabOptions = {}): Lab {
  const lab = new Lab(HOSTS, options);
  lab.initiate('a:1', members());
  expect(
    lab.until(() => lab.primary() !== undefined && HOSTS.every((h) => /ARY$/.test(lab.stateOf(h)))),
  ).toBe(true);
  return lab;
}

test('initiate: the initiator is elected at once, the others copy its data and become readable', () => {
  const lab = new Lab(HOSTS);
  const id = lab.initiate('a:1', members());
  const began = lab.now;
  lab.until(() => lab.primary() !== undefined);
  expect(lab.answers.get(id)).toEqual({ refusal: null, fields: {} });
  expect(lab.primary()?.host).toBe('a:1');
  expect(lab.primary()?.state.term).toBe(1);
  expect(lab.now - began).toBeLessThan(1_000);
  lab.run(2_000);
  expect(HOSTS.map((host) => lab.stateOf(host))).toEqual(['PRIMARY', 'SECONDARY', 'SECONDARY']);
});

test('a lone member elects itself as soon as it is initiated', () => {
  const lab = new Lab(['a:1']);
  lab.initiate('a:1', members(['a:1']));
  lab.run(50);
  expect(lab.stateOf('a:1')).toBe('PRIMARY');
});

test('a write is committed when a majority has it, within a few message delays', () => {
  const lab = threeMembers();
  lab.run(1_000);
  const op = lab.write('a:1')!;
  const id = lab.wait('a:1', { kind: 'write', op, need: { kind: 'majority' }, deadline: null, term: 1 });
  const began = lab.now;
  lab.until(() => lab.answers.has(id), 1_000);
  expect(lab.answers.get(id)?.refusal).toBeNull();
  expect(lab.now - began).toBeLessThan(20);
});

test('failover: the primary dies, another takes over after the election timeout, committed writes are there', () => {
  const lab = threeMembers();
  const op = lab.write('a:1')!;
  lab.run(100);
  lab.crash('a:1');
  const began = lab.now;
  lab.until(() => lab.primary() !== undefined);
  expect(lab.now - began).toBeGreaterThan(8_000);
  expect(lab.now - began).toBeLessThan(14_000);
  const heir = lab.primary()!;
  expect(heir.host).not.toBe('a:1');
  expect(heir.log.some((entry) => entry.op?.s === op.s && entry.op.i === op.i)).toBe(true);
  lab.restart('a:1');
  lab.run(5_000);
  expect(lab.stateOf('a:1')).toBe('SECONDARY');
});

test('stepDown hands over at once to a member that is caught up', () => {
  const lab = threeMembers();
  const id = lab.command('a:1', { kind: 'stepDown', secs: 60, catchUpSecs: null, force: false });
  const began = lab.now;
  lab.until(() => lab.primary() !== undefined && lab.primary()!.host !== 'a:1');
  expect(lab.answers.get(id)?.refusal).toBeNull();
  expect(lab.now - began).toBeLessThan(500);
});

test('stepDown without a caught-up member is refused with 262 and the primary writes again', () => {
  const lab = threeMembers();
  lab.crash('b:1');
  lab.crash('c:1');
  lab.write('a:1');
  const id = lab.command('a:1', { kind: 'stepDown', secs: 60, catchUpSecs: 2, force: false });
  expect(lab.write('a:1')).toBeNull();
  lab.until(() => lab.answers.has(id));
  expect(lab.answers.get(id)?.refusal?.code).toBe(262);
  expect(lab.write('a:1')).not.toBeNull();
});
