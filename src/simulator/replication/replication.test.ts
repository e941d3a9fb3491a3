import { Int32, Long, Timestamp } from 'bson';
import { afterEach, expect, test, vi } from 'vitest';
import { eventually, startMember, type TestMember, type TestMemberOptions } from './testing/rig.ts';

const running: TestMember[] = [];
const never = new AbortController().signal;

async function start(options: TestMemberOptions = {}): Promise<TestMember> {
  const member = await startMember(options);
  running.push(member);
  return member;
}

async function startSet(count: number): Promise<TestMember[]> {
  vi.stubEnv('BELAY_SIM_ELECTION_TIMEOUT_MILLIS', '1000');
  vi.stubEnv('BELAY_SIM_HEARTBEAT_MILLIS', '200');
  const members = await Promise.all(Array.from({ length: count }, () => start()));
  const config = { _id: 'rs0', version: 1, members: members.map(({ host }, _id) => ({ _id, host })) };
  expect(await members[0]!.run({ replSetInitiate: config })).toEqual({ ok: 1 });
  await eventually('a primary', () => members.some((member) => member.replication.isWritablePrimary()));
  await eventually('all readable', () => members.every((member) => readable(member)));
  return members;
}

function readable(member: TestMember): boolean {
  const hello = member.replication.helloFields({ legacyNames: false });
  return hello['isWritablePrimary'] === true || hello['secondary'] === true;
}

const primaryOf = (members: readonly TestMember[]): TestMember => {
  const primary = members.find((member) => member.replication.isWritablePrimary());
  if (!primary) throw new Error('no primary');
  return primary;
};

function insert(member: TestMember, value: number): void {
  const { data, replication } = member;
  const context = { stamp: replication.stamp, wall: new Date() };
  if (!data.info('test.c')) data.create('test.c', {}, context);
  data.insert('test.c', { _id: new Int32(value) }, context);
}

const valuesOf = (member: TestMember): number[] =>
  member.data
    .find('test.c', {})
    .map((document) => Number(document['_id']))
    .sort((a, b) => a - b);

afterEach(() => {
  for (const member of running.splice(0)) member.kill();
  vi.unstubAllEnvs();
});

test('a majority write is on another member, a killed primary is replaced, and it catches up when it is back', async () => {
  const members = await startSet(3);
  const primary = primaryOf(members);
  insert(primary, 1);
  const op = primary.replication.lastApplied()!;
  expect(await primary.replication.awaitWriteConcern(op, { w: 3 }, never)).toBeNull();
  expect(await primary.replication.awaitWriteConcern(op, { w: 'majority' }, never)).toBeNull();
  for (const member of members) expect(valuesOf(member)).toEqual([1]);

  primary.kill();
  const left = members.filter((member) => member !== primary);
  await eventually('a new primary', () => left.some((member) => member.replication.isWritablePrimary()));
  const heir = primaryOf(left);
  insert(heir, 2);
  expect(
    await heir.replication.awaitWriteConcern(heir.replication.lastApplied()!, { w: 2 }, never),
  ).toBeNull();

  const port = Number(primary.host.split(':')[1]);
  const back = await start({ port, data: primary.data });
  await eventually('caught up', () => valuesOf(back).length === 2 && readable(back));
  expect(valuesOf(back)).toEqual([1, 2]);
});

test('writes of a cut-off primary are undone in its data when it comes back; acknowledged ones stay', async () => {
  const members = await startSet(3);
  const old = primaryOf(members);
  insert(old, 1);
  const op = old.replication.lastApplied()!;
  expect(await old.replication.awaitWriteConcern(op, { w: 3 }, never)).toBeNull();
  const reasons: string[] = [];
  old.replication.onStepDown((reason) => reasons.push(reason));
  const heal = old.isolate();
  insert(old, 2);
  const waiting = old.replication.awaitWriteConcern(old.replication.lastApplied()!, { w: 'majority' }, never);
  const left = members.filter((member) => member !== old);
  await eventually('a new primary', () => left.some((member) => member.replication.isWritablePrimary()));
  insert(primaryOf(left), 3);
  expect(await waiting).toMatchObject({ codeName: 'PrimarySteppedDown' });
  heal();
  await eventually('rolled back', () => valuesOf(old).join() === '1,3' && readable(old));
  expect(reasons).toEqual(['stepdown', 'rollback']);
  expect(await old.run({ replSetGetRBID: 1 })).toEqual({ rbid: new Int32(2), ok: 1 });
});

test('a member added by reconfig copies the data and then votes', async () => {
  const members = await startSet(1);
  const [first] = members as [TestMember];
  insert(first, 1);
  const joining = await start();
  const { config } = await first.run({ replSetGetConfig: 1 });
  const next = {
    ...config,
    version: new Int32(2),
    members: [...config['members'], { _id: 1, host: joining.host }],
  };
  expect(await first.run({ replSetReconfig: next })).toEqual({ ok: 1 });
  await eventually('joined', () => readable(joining) && valuesOf(joining).length === 1);
  await eventually('votes', () => first.replication.helloFields({ legacyNames: false })['setVersion'] > 2);
  const status = await first.run({ replSetGetStatus: 1 });
  expect(Number(status['votingMembersCount'])).toBe(2);
  const shown = await first.run({ replSetGetConfig: 1 });
  expect(shown['config'].members[1]).not.toHaveProperty('newlyAdded');
});

test('hello, status and config have the server’s fields in the server’s order and types', async () => {
  const [member] = (await startSet(1)) as [TestMember];
  const hello = member.replication.helloFields({ legacyNames: true });
  expect(Object.keys(hello)).toEqual([
    'topologyVersion',
    'hosts',
    'setName',
    'setVersion',
    'ismaster',
    'secondary',
    'primary',
    'me',
    'electionId',
    'lastWrite',
  ]);
  expect(hello['topologyVersion'].counter).toBeInstanceOf(Long);
  expect(hello['electionId'].toHexString()).toBe('7fffffff0000000000000001');
  const status = await member.run({ replSetGetStatus: 1 });
  expect(Object.keys(status)).toEqual([
    'set',
    'date',
    'myState',
    'term',
    'syncSourceHost',
    'syncSourceId',
    'heartbeatIntervalMillis',
    'majorityVoteCount',
    'writeMajorityCount',
    'votingMembersCount',
    'writableVotingMembersCount',
    'optimes',
    'lastStableRecoveryTimestamp',
    'electionCandidateMetrics',
    'members',
    'ok',
  ]);
  expect(status['lastStableRecoveryTimestamp']).toBeInstanceOf(Timestamp);
  const { config } = await member.run({ replSetGetConfig: 1 });
  expect(Object.keys(config)).toEqual([
    '_id',
    'version',
    'term',
    'members',
    'protocolVersion',
    'writeConcernMajorityJournalDefault',
    'settings',
  ]);
});

test('before initiation: 94, then default configuration with info2 and me', async () => {
  const member = await start();
  expect(await member.run({ replSetGetStatus: 1 })).toMatchObject({ ok: 0, code: 94 });
  expect(member.replication.helloFields({ legacyNames: false })).toMatchObject({
    isWritablePrimary: false,
    info: 'Does not have a valid replica set config',
    isreplicaset: true,
  });
  expect(await member.run({ replSetInitiate: {} })).toEqual({
    info2: 'no configuration specified. Using a default configuration for the set',
    me: member.host,
    ok: 1,
  });
  await eventually('primary', () => member.replication.isWritablePrimary());
  expect(await member.run({ replSetInitiate: {} })).toMatchObject({ ok: 0, code: 23 });
});

test('initiate fails with 74 when a member does not answer and with 110 when one has data', async () => {
  const [first, second] = [await start(), await start()];
  const config = (host: string): object => ({
    _id: 'rs0',
    members: [
      { _id: 0, host: first.host },
      { _id: 1, host },
    ],
  });
  const dead = await first.run({ replSetInitiate: config('127.0.0.1:1') });
  expect(dead).toMatchObject({ ok: 0, code: 74, codeName: 'NodeNotFound' });
  expect(dead['errmsg']).toContain('127.0.0.1:1 failed with');
  second.data.create(
    'test.c',
    {},
    { stamp: () => ({ ts: new Timestamp({ t: 1, i: 1 }), t: Long.fromNumber(-1) }), wall: new Date() },
  );
  const full = await first.run({ replSetInitiate: config(second.host) });
  expect(full).toMatchObject({ ok: 0, code: 110 });
  expect(full['errmsg']).toBe(`'${second.host}' has data already, cannot initiate set.`);
});

test('in quiesce waiting hellos end with 91 and the remaining time', async () => {
  const [first] = (await startSet(1)) as [TestMember];
  const { counter } = first.replication.topologyVersion();
  const waiting = first.replication.awaitTopologyChange(counter, 60_000, never);
  const down = first.replication.shutdown({ force: true, timeoutMillis: 150 });
  await waiting;
  await down;
  expect(() => first.replication.helloFields({ legacyNames: false })).toThrow(/quiesce mode/);
});

test('a causal read of a time nobody has written yet makes the idle set write one; a time nobody knows is refused', async () => {
  const members = await startSet(3);
  const secondary = members.find((member) => !member.replication.isWritablePrimary())!;
  const now = secondary.replication.clusterTime();
  const later = new Timestamp({ t: now.t + 5, i: 1 });
  const concern = { level: 'local', afterClusterTime: later };
  await expect(secondary.replication.awaitReadConcern(concern, never)).rejects.toMatchObject({ code: 72 });
  for (const member of members) member.replication.advanceClusterTime(later);
  await secondary.replication.awaitReadConcern(concern, never);
  expect(secondary.replication.lastApplied()!.ts.greaterThanOrEqual(later)).toBe(true);
});

test('default concerns: implicit majority until set, then global', async () => {
  const [member] = (await startSet(1)) as [TestMember];
  expect(member.replication.defaultWriteConcern()).toEqual({ w: 'majority' });
  const set = await member.run({ setDefaultRWConcern: 1, defaultWriteConcern: { w: new Int32(1) } });
  expect(set).toMatchObject({
    ok: 1,
    defaultWriteConcernSource: 'global',
    defaultReadConcernSource: 'implicit',
  });
  expect(member.replication.defaultWriteConcern()).toEqual({ w: 1 });
  expect(await member.run({ setDefaultRWConcern: 1, defaultWriteConcern: {} })).toMatchObject({ code: 20 });
});
