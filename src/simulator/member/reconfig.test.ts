import { expect, test } from 'vitest';
import { nextConfig, reconfigure, settledLab } from './lab.ts';

const HOSTS = ['a:1', 'b:1', 'c:1'];
type Fields = Record<string, unknown>;

test('initiate: codes 23, 93 and 74 as a client sees them', () => {
  const lab = settledLab(['a:1']);
  const codeOf = (id: number): unknown => lab.answers.get(id)?.refusal?.code;
  const again = lab.initiate('a:1', [{ _id: 0, host: 'a:1' }]);
  expect(lab.answers.get(again)?.refusal).toMatchObject({ code: 23, message: 'already initialized' });
  lab.add('n:1');
  const try_ = (document: unknown): number =>
    lab.command('n:1', { kind: 'initiate', document, newSetId: '0'.repeat(24) });
  const otherName = try_({ _id: 'other', members: [{ _id: 0, host: 'n:1' }] });
  const twoVersions = try_({ _id: 'rs0', version: 2, members: [{ _id: 0, host: 'n:1' }] });
  const noSelf = try_({ _id: 'rs0', members: [{ _id: 0, host: 'x:1' }] });
  lab.run(10);
  const unelectable = try_({
    _id: 'rs0',
    members: [
      { _id: 0, host: 'n:1', priority: 0 },
      { _id: 1, host: 'x:1' },
    ],
  });
  lab.run(10);
  expect([otherName, twoVersions, noSelf, unelectable].map(codeOf)).toEqual([93, 93, 93, 93]);
  const deadMember = try_({
    _id: 'rs0',
    members: [
      { _id: 0, host: 'n:1' },
      { _id: 1, host: 'x:1' },
    ],
  });
  lab.run(100);
  expect(lab.answers.get(deadMember)?.refusal).toEqual({
    code: 74,
    codeName: 'NodeNotFound',
    message:
      'replSetInitiate quorum check failed because not all proposed set members responded affirmatively: x:1 failed with Error connecting to x:1 :: caused by :: Connection refused',
  });
  const taken = try_({
    _id: 'rs0',
    members: [
      { _id: 0, host: 'n:1' },
      { _id: 1, host: 'a:1' },
    ],
  });
  lab.run(100);
  expect(codeOf(taken)).toBe(103);
});

test('reconfig: 10107 on a secondary, 94 without a configuration, 93 for another name, 103 for the rules', () => {
  const lab = settledLab(HOSTS);
  const same = nextConfig(lab, (members) => members);
  expect(reconfigure(lab, same, { on: 'b:1' })).toEqual({
    code: 10107,
    codeName: 'NotWritablePrimary',
    message:
      'New config is rejected :: caused by :: replSetReconfig should only be run on a writable PRIMARY. Current state SECONDARY;',
  });
  lab.add('n:1');
  expect(reconfigure(lab, same, { on: 'n:1' })).toMatchObject({ code: 94 });
  expect(reconfigure(lab, { ...same, _id: 'other' })).toMatchObject({ code: 93 });
  expect(reconfigure(lab, { ...same, foo: 1 })).toMatchObject({ code: 93 });
  expect(reconfigure(lab, { ...same, version: 1 })).toMatchObject({
    code: 103,
    message: expect.stringContaining('{version: 1, term: 1} is not greater than {version: 1, term: 1}'),
  });
  const twoVoters = nextConfig(lab, (members) => [
    ...members,
    { _id: 3, host: 'd:1' },
    { _id: 4, host: 'e:1' },
  ]);
  expect(reconfigure(lab, twoVoters)).toMatchObject({ code: 103 });
  const marked = nextConfig(lab, (members) => members.map((member) => ({ ...member, newlyAdded: true })));
  expect(reconfigure(lab, marked)).toMatchObject({ code: 93 });
});

test('reconfig: 104 when the primary could not be elected, 74 when it is not in it', () => {
  const lab = settledLab(HOSTS);
  const primaryZero = nextConfig(lab, ([a, ...rest]) => [{ ...a, priority: 0 }, ...rest]);
  expect(reconfigure(lab, primaryZero)).toMatchObject({
    code: 104,
    message:
      'This node, a:1, with _id 0 is not electable under the new configuration with {version: 2, term: 1} for replica set rs0',
  });
  const withoutPrimary = nextConfig(lab, ([, ...rest]) => rest);
  expect(reconfigure(lab, withoutPrimary)).toMatchObject({
    code: 74,
    message:
      'No host described in new configuration with {version: 2, term: 1} for replica set rs0 maps to this node',
  });
});

test('a dead member may be added while a majority of the new voters answers, and one more than that may not', () => {
  const lab = settledLab(HOSTS);
  const grown = nextConfig(lab, (members) => [...members, { _id: 3, host: 'dead:1' }]);
  expect(reconfigure(lab, grown)).toBeNull();
  lab.crash('b:1');
  lab.run(500);
  const other = nextConfig(lab, (members) => members.map((m) => ({ ...m, tags: { x: 'y' } })));
  expect(reconfigure(lab, other)).toBeNull();
});

test('the next reconfig waits until the current one is on a majority: 308 when maxTimeMS is over', () => {
  const lab = settledLab(HOSTS, { settings: { electionTimeoutMillis: 60_000 } });
  const first = nextConfig(lab, (members) => members.map((m) => ({ ...m, tags: { round: '1' } })));
  lab.partition(['a:1'], ['b:1', 'c:1']);
  const id = lab.command('a:1', {
    kind: 'reconfig',
    document: first,
    options: { force: true, maxTimeMillis: null, explicitDefault: false, defaultMode: null, jump: 1 },
  });
  lab.run(100);
  expect(lab.answers.get(id)?.refusal).toBeNull();
  lab.write('a:1');
  const second = { ...first, version: lab.node('a:1').state.config!.version + 1 };
  // A forced configuration (no term) needs no commitment before the next; the one after does.
  const next = reconfigure(lab, second, { on: 'a:1', maxTimeMillis: 500 });
  expect(next).toMatchObject({
    code: 74,
    message: expect.stringContaining('not enough voting nodes responded; required 2'),
  });
});

test('308 names the configuration that has not reached a majority', () => {
  const lab = settledLab(HOSTS, { settings: { electionTimeoutMillis: 60_000, heartbeatTimeoutSecs: 1 } });
  lab.crash('b:1');
  lab.run(50);
  const first = nextConfig(lab, (members) => members.map((m) => ({ ...m, tags: { round: '1' } })));
  const open = lab.command('a:1', {
    kind: 'reconfig',
    document: first,
    options: { force: false, maxTimeMillis: null, explicitDefault: false, defaultMode: null, jump: 0 },
  });
  // Cut c off between its answer to the quorum check and the arrival of the new configuration.
  lab.until(() => lab.node('a:1').state.config!.version === 2);
  lab.crash('c:1');
  lab.run(200);
  expect(lab.answers.has(open)).toBe(false);
  const second = { ...first, version: 3 };
  expect(reconfigure(lab, second, { on: 'a:1', maxTimeMillis: 300 })).toEqual({
    code: 308,
    codeName: 'CurrentConfigNotCommittedYet',
    message:
      'New config is rejected :: caused by :: Current config with {version: 2, term: 1} has not yet propagated to a majority of nodes :: caused by :: operation exceeded time limit',
  });
});

test('a member that joins as a voter is newlyAdded until it is readable; the primary then takes the mark off itself', () => {
  const lab = settledLab(HOSTS);
  lab.add('d:1');
  const grown = nextConfig(lab, (members) => [...members, { _id: 3, host: 'd:1' }]);
  expect(reconfigure(lab, grown)).toBeNull();
  expect(lab.primary()!.state.config).toMatchObject({ version: 2 });
  expect(lab.primary()!.state.config!.members[3]!.newlyAdded).toBe(true);
  lab.until(() => lab.primary()!.state.config!.version === 3);
  expect(lab.stateOf('d:1')).toBe('SECONDARY');
  expect(lab.primary()!.state.config!.members[3]!.newlyAdded).toBe(false);
  lab.run(1_000);
  expect(lab.node('d:1').state.config!.version).toBe(3);
});

test('an existing non-voter gets its vote without the mark', () => {
  const lab = settledLab(['a:1', 'b:1', { host: 'c:1', votes: 0, priority: 0 }]);
  const voting = nextConfig(lab, ([a, b, c]) => [a!, b!, { ...c, votes: 1 }]);
  expect(reconfigure(lab, voting)).toBeNull();
  expect(lab.primary()!.state.config!.members[2]).toMatchObject({ votes: 1, newlyAdded: false });
});

test('a removed member shows REMOVED, closes its connections and takes no part; it comes back when it is added again', () => {
  const lab = settledLab(HOSTS);
  const without = nextConfig(lab, ([a, b]) => [a!, b!]);
  const with_ = nextConfig(lab, (members) => members);
  expect(reconfigure(lab, without)).toBeNull();
  // Nobody tells it any more; it learns from the answers to its own heartbeats.
  lab.run(5_000);
  expect(lab.stateOf('c:1')).toBe('REMOVED');
  expect(reconfigure(lab, { ...with_, version: 3 })).toBeNull();
  lab.run(5_000);
  expect(lab.stateOf('c:1')).toBe('SECONDARY');
});

test('force works on a secondary without a primary and jumps the version; the term is gone', () => {
  const lab = settledLab(HOSTS);
  const rescue = nextConfig(lab, ([, b]) => [b!]);
  lab.crash('a:1');
  lab.crash('c:1');
  lab.run(20_000);
  expect(lab.primary()).toBeUndefined();
  expect(reconfigure(lab, rescue, { on: 'b:1', force: true })).toBeNull();
  expect(lab.node('b:1').state.config).toMatchObject({ version: 10_009, term: -1 });
  lab.until(() => lab.primary() !== undefined);
  expect(lab.primary()!.host).toBe('b:1');
});

test('a reconfig that changes the implicit default write concern is refused unless a default was set', () => {
  const lab = settledLab(['a:1', 'b:1']);
  lab.add('arb:1');
  const withArbiter = nextConfig(lab, ([a, b]) => [
    a!,
    { ...b, priority: 0 },
    { _id: 2, host: 'arb:1', arbiterOnly: true } as Fields,
  ]);
  expect(reconfigure(lab, withArbiter)).toMatchObject({
    code: 103,
    message: expect.stringContaining('would change the implicit default write concern'),
  });
  expect(reconfigure(lab, withArbiter, { explicitDefault: true })).toBeNull();
  lab.run(3_000);
  expect(lab.stateOf('arb:1')).toBe('ARBITER');
});

test('only one at a time: a second reconfig during the first gets 109', () => {
  const lab = settledLab(HOSTS);
  const options = { force: true, maxTimeMillis: null, explicitDefault: false, defaultMode: null, jump: 1 };
  const document = nextConfig(lab, (members) => members);
  lab.command('a:1', { kind: 'reconfig', document, options: { ...options, force: false } });
  const second = lab.command('a:1', { kind: 'reconfig', document, options });
  expect(lab.answers.get(second)?.refusal).toMatchObject({
    code: 109,
    message: 'Cannot run replSetReconfig because the node is currently updating its configuration',
  });
});
