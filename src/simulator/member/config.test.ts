import { expect, test } from 'vitest';
import { implicitMajority, majorityVotes, type ReplicaSetConfig, writeMajority } from './config.ts';
import { parseConfig } from './config-parse.ts';
import { initiateProblem, markNewlyAdded, reconfigProblem, voterChanges } from './config-rules.ts';

type Fields = Record<string, unknown>;

const member = (id: number, more: Fields = {}): Fields => ({ _id: id, host: `h${id}:1`, ...more });
const document = (members: Fields[], more: Fields = {}): Fields => ({
  _id: 'rs0',
  version: 1,
  members,
  ...more,
});

function parsed(given: unknown): ReplicaSetConfig {
  const result = parseConfig(given);
  if (!result.ok) throw new Error(result.error);
  return result.value;
}

const three = (): ReplicaSetConfig => parsed(document([member(0), member(1), member(2)]));
const many = (count: number, more: (id: number) => Fields = () => ({})): Fields[] =>
  Array.from({ length: count }, (_, id) => member(id, more(id)));

test.each<[string, unknown, string]>([
  ['nothing', null, 'no configuration specified'],
  ['no name', { members: [] }, "BSON field 'ReplSetConfig._id' is missing but a required field"],
  ['no members', { _id: 'rs0' }, "BSON field 'ReplSetConfig.members' is missing but a required field"],
  [
    'unknown top field',
    document([member(0)], { foo: 1 }),
    "BSON field 'ReplSetConfig.foo' is an unknown field.",
  ],
  [
    'unknown member field',
    document([member(0, { prio: 1 })]),
    "BSON field 'MemberConfig.prio' is an unknown field.",
  ],
  ['no host', document([{ _id: 0 }]), "BSON field 'MemberConfig.host' is missing but a required field"],
  [
    'bad port',
    document([{ _id: 0, host: 'h:0' }]),
    'Port number 0 out of range parsing HostAndPort from "h:0"',
  ],
  [
    'version 0',
    document([member(0)], { version: 0 }),
    "BSON field 'version' value must be >= 1, actual value '0'",
  ],
  ['id 256', document([member(256)]), "BSON field '_id' value must be <= 255, actual value '256'"],
  ['votes 2', document([member(0, { votes: 2 })]), "BSON field 'votes' value must be <= 1, actual value '2'"],
  [
    'priority 1001',
    document([member(0, { priority: 1001 })]),
    "BSON field 'priority' value must be <= 1000, actual value '1001'",
  ],
  [
    'number tag',
    document([member(0, { tags: { dc: 1 } })]),
    'tags.dc field has non-string value of type int',
  ],
  [
    'negative interval',
    document([member(0)], { settings: { heartbeatIntervalMillis: 0 } }),
    "BSON field 'heartbeatIntervalMillis' value must be >= 1, actual value '0'",
  ],
])('parsing refuses %s', (_, given, text) => {
  expect(parseConfig(given)).toEqual({ ok: false, error: text });
});

test('parsing fills in the defaults, a port, and an arbiter’s silent priority 0; unknown settings are ignored', () => {
  const config = parsed(
    document([{ _id: 0, host: 'a' }, member(1, { arbiterOnly: true, priority: 1 })], {
      settings: { whatever: 1 },
    }),
  );
  expect(config.members[0]).toEqual({
    id: 0,
    host: 'a:27017',
    arbiterOnly: false,
    buildIndexes: true,
    hidden: false,
    priority: 1,
    tags: {},
    horizons: null,
    secondaryDelaySecs: 0,
    votes: 1,
    newlyAdded: false,
  });
  expect(config.members[1]?.priority).toBe(0);
  expect(config.settings).toMatchObject({ electionTimeoutMillis: 10_000, heartbeatIntervalMillis: 2_000 });
});

test.each<[string, Fields[], string]>([
  ['no member', [], 'contains 0 members, but must have at least 1'],
  ['51 members', many(51, () => ({ votes: 0, priority: 0 })), 'contains 51 members'],
  ['8 voters', many(8), 'contains 8 voting members, but must be at least 1 and no more than 7'],
  ['only priority 0', [member(0, { priority: 0 })], 'at least one non-arbiter member with priority > 0'],
  ['same id', [member(0), { _id: 0, host: 'x:1' }], 'same _id field, members.0._id == members.1._id == 0'],
  [
    'same host',
    [member(0), { _id: 1, host: 'h0:1' }],
    'same host field, members.0.host == members.1.host == h0:1',
  ],
  ['localhost and others', [member(0), { _id: 1, host: 'localhost:1' }], 'found 1 out of 2'],
  [
    'arbiter without vote',
    [member(0), member(1, { arbiterOnly: true, votes: 0 })],
    'Arbiter must vote (cannot have 0 votes)',
  ],
  [
    'arbiter with tags',
    [member(0), member(1, { arbiterOnly: true, tags: { a: 'b' } })],
    'Cannot set tags on arbiters.',
  ],
  [
    'priority without vote',
    [member(0), member(1, { votes: 0 })],
    'priority must be 0 when non-voting (votes:0)',
  ],
  ['hidden with priority', [member(0), member(1, { hidden: true })], 'priority must be 0 when hidden=true'],
  [
    'delayed with priority',
    [member(0), member(1, { secondaryDelaySecs: 5 })],
    'priority must be 0 when secondaryDelaySecs is used',
  ],
  [
    'no indexes with priority',
    [member(0), member(1, { buildIndexes: false })],
    'priority must be 0 when buildIndexes=false',
  ],
  ['different horizons', [member(0, { horizons: { x: 'a:1' } }), member(1)], 'different horizon mapping'],
  ['IP horizon', [member(0, { horizons: { x: '10.0.0.1:1' } })], 'split horizon configuration using IP'],
])('initiate refuses %s', (_, members, text) => {
  expect(initiateProblem(parsed(document(members)), false)).toContain(text);
});

test('initiate wants version 1 and no id of its own, and config servers know what they are', () => {
  expect(initiateProblem(parsed(document([member(0)], { version: 2 })), false)).toContain(
    'must have version 1, but found 2',
  );
  expect(
    initiateProblem(parsed(document([member(0)], { settings: { replicaSetId: 'f'.repeat(24) } })), false),
  ).toContain('replicaSetId');
  expect(initiateProblem(parsed(document([member(0)])), true)).toContain('must have configsvr:true');
  expect(initiateProblem(parsed(document([member(0)], { configsvr: true })), false)).toContain(
    'must be started with the --configsvr flag',
  );
});

const next = (change: (members: Fields[]) => Fields[], version = 2): ReplicaSetConfig =>
  parsed(document(change([member(0), member(1), member(2)]), { version }));

test.each<[string, ReplicaSetConfig, string | null]>([
  [
    'the same version',
    next((m) => m, 1),
    'version and term must be greater than old, but {version: 1, term: -1} is not greater than {version: 1, term: -1} for replica set rs0',
  ],
  [
    'two voters added',
    next((m) => [...m, member(3), member(4)]),
    'can only add or remove at most 1 voting member',
  ],
  [
    'two votes taken',
    next(([a]) => [a!, member(1, { votes: 0, priority: 0 }), member(2, { votes: 0, priority: 0 })]),
    'at most 1 voting member',
  ],
  ['a voter swapped for another id', next(([a, b]) => [a!, b!, member(3)]), 'at most 1 voting member'],
  [
    'a host under another id',
    next(([a, b]) => [a!, b!, { _id: 9, host: 'h2:1' }]),
    'both have members with host of h2:1 but in the new configuration the _id field is 9',
  ],
  [
    'a member turned arbiter',
    next(([a, b]) => [a!, b!, member(2, { arbiterOnly: true })]),
    'arbiterOnly field for member h2:1; to make this change, remove then re-add',
  ],
  ['one voter added', next((m) => [...m, member(3)]), null],
  [
    'many non-voters added',
    next((m) => [...m, ...[3, 4, 5].map((id) => member(id, { votes: 0, priority: 0 }))]),
    null,
  ],
])('reconfig: %s', (_, config, text) => {
  const problem = reconfigProblem(three(), config, { force: false, configServer: false });
  if (text === null) expect(problem).toBeNull();
  else expect(problem).toContain(text);
});

test('a PSA set may not come about with both data members electable from one writable member', () => {
  const old = parsed(document([member(0), member(2, { arbiterOnly: true })]));
  const psa = (priority: number): ReplicaSetConfig =>
    parsed(document([member(0), member(1, { priority }), member(2, { arbiterOnly: true })], { version: 2 }));
  expect(reconfigProblem(old, psa(1), { force: false, configServer: false })).toContain('PSA topology');
  expect(reconfigProblem(old, psa(0), { force: false, configServer: false })).toBeNull();
});

test('newlyAdded goes to new voting ids only, counts as no vote, and its removal is no voter change', () => {
  const old = three();
  const marked = markNewlyAdded(
    old,
    next((m) => [...m, member(3), member(4, { votes: 0, priority: 0 })]),
  );
  expect(marked.members.map((m) => m.newlyAdded)).toEqual([false, false, false, true, false]);
  expect(majorityVotes(marked)).toBe(2);
  const welcomed = { ...marked, members: marked.members.map((m) => ({ ...m, newlyAdded: false })) };
  expect(majorityVotes(welcomed)).toBe(3);
  expect(voterChanges(marked, welcomed)).toBe(0);
});

test('majorities: votes count arbiters, writes need members with data, PSA’s implicit default is w:1', () => {
  const psa = parsed(document([member(0), member(1), member(2, { arbiterOnly: true })]));
  expect([majorityVotes(psa), writeMajority(psa), implicitMajority(psa)]).toEqual([2, 2, false]);
  const pssa = parsed(document([...many(3), member(3, { arbiterOnly: true })]));
  expect([majorityVotes(pssa), writeMajority(pssa), implicitMajority(pssa)]).toEqual([3, 3, false]);
  expect([majorityVotes(three()), writeMajority(three()), implicitMajority(three())]).toEqual([2, 2, true]);
});
