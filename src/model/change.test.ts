import { expect, test } from 'vitest';
import { type BelayObject, validate, validateChange } from './index.ts';

type Spec = Record<string, unknown>;
const object = (spec: Spec = {}): BelayObject => {
  const result = validate({
    apiVersion: 'belay.dev/v1',
    kind: 'MongoDB',
    metadata: { name: 'orders' },
    spec: { type: 'ReplicaSet', members: 3, ...spec },
  });
  if (result.object === undefined) throw new Error(JSON.stringify(result.problems));
  return result.object;
};
const sharded = (spec: Spec = {}): BelayObject => {
  const result = validate({
    apiVersion: 'belay.dev/v1',
    kind: 'MongoDB',
    metadata: { name: 'orders' },
    spec: {
      type: 'ShardedCluster',
      shardCount: 3,
      mongodsPerShardCount: 3,
      configServerCount: 3,
      mongosCount: 2,
      ...spec,
    },
  });
  if (result.object === undefined) throw new Error(JSON.stringify(result.problems));
  return result.object;
};
const changes = (before: BelayObject, after: BelayObject, status?: unknown): string[] =>
  validateChange({ ...before, status }, after).problems.map(({ path, message }) => `${path}: ${message}`);

test('an unchanged object has no problem', () => {
  expect(validateChange(object(), object())).toEqual({ problems: [], warnings: [] });
});

test('B1.2 A6.5 the type cannot be changed', () => {
  expect(changes(object(), sharded())[0]).toMatch(
    /^spec.type: cannot be changed once created \(it is ReplicaSet\); create a new database and copy the data with mongodump/,
  );
});

test('A6.5 A6.7 a shard of which nothing was made can be taken back; one that was placed, begun or registered cannot', () => {
  const [three, two] = [sharded(), sharded({ shardCount: 2 })];
  const set = (index: number, more: object = {}) => ({
    name: `orders-s${index}`,
    role: 'shard',
    stage: 'ready',
    registered: true,
    ...more,
  });
  const member = (index: number, more: object = {}) => ({
    name: `orders-s${index}-0`,
    replicaSet: `orders-s${index}`,
    role: 'shard',
    stage: 'active',
    hostName: 'db1',
    serviceId: 's-1',
    ...more,
  });
  const status = (last: object, ...members: readonly object[]) => ({
    replicaSets: [{ name: 'orders-cfg', role: 'config', stage: 'ready' }, set(0), set(1), last],
    members: [member(0), member(1), ...members],
  });
  const planned = set(2, { stage: 'planned', registered: false });
  const unplaced = { stage: 'planned', hostName: undefined, serviceId: undefined };
  expect(changes(three, two, status(planned, member(2, unplaced)))).toEqual([]);
  // It was asked for so lately that nobody has looked at it.
  expect(changes(three, two, { replicaSets: [set(0), set(1)], members: [member(0)] })).toEqual([]);
  const made = [
    status(planned, member(2, { ...unplaced, hostName: 'db1' })),
    status(planned, member(2, { ...unplaced, serviceId: 's-2' })),
    status(planned, member(2, { ...unplaced, importSent: true })),
    status({ ...planned, stage: 'users' }, member(2, unplaced)),
    status({ ...planned, registered: true }, member(2, unplaced)),
  ];
  for (const one of made)
    expect(changes(three, two, one)[0]).toBe(
      'spec.shardCount: cannot shrink from 3 to 2: removing shards is not supported',
    );
  expect(changes(three, sharded({ shardCount: 1 }), status(planned, member(2, unplaced)))[0]).toMatch(
    /cannot shrink from 3 to 1: .*; 2 of them are made already/,
  );
});

test('A6.5 shards cannot be removed, adding is fine', () => {
  expect(changes(sharded(), sharded({ shardCount: 2 }))[0]).toMatch(/cannot shrink from 3 to 2/);
  expect(changes(sharded(), sharded({ shardCount: 4 }))).toEqual([]);
});

test('A6.6 B2.9 volumes only grow, compared as sizes and not as text', () => {
  const size = (text: string) => object({ storage: { size: text } });
  expect(changes(size('20Gi'), size('10Gi'))[0]).toMatch(
    /^spec.storage.size: cannot shrink from 20Gi to 10Gi/,
  );
  expect(changes(size('9Gi'), size('10Gi'))).toEqual([]);
  expect(changes(size('1Gi'), size('1024Mi'))).toEqual([]);
  expect(changes(size('1Gi'), size('1G'))).toHaveLength(1);
});

test('A6.6 a wish that no volume has grown for can be taken back; below what is there stays refused', () => {
  const size = (text: string) => object({ storage: { size: text } });
  const there = (...members: object[]) => ({
    members: members.map((m, i) => ({ name: `orders-${i}`, role: 'replica', stage: 'active', ...m })),
  });
  const ten = { volumeBytes: 10 * 1024 ** 3 };
  const back = (to: string, status: unknown) => changes(size('900Ti'), size(to), status);
  expect(back('10Gi', there(ten, ten, ten))).toEqual([]);
  expect(back('20Gi', there(ten, ten, ten))).toEqual([]);
  expect(back('9Gi', there(ten, ten, ten))[0]).toBe(
    'spec.storage.size: cannot shrink from the 10Gi that the volume of orders-0 has to 9Gi: volumes only grow',
  );
  expect(back('10Gi', there(ten, { volumeBytes: 20 * 1024 ** 3 }))[0]).toMatch(
    /from the 20Gi that the volume of orders-1 has/,
  );
  // One that leaves takes its volume along; one that was never placed has none.
  expect(back('10Gi', there(ten, { volumeBytes: 20 * 1024 ** 3, stage: 'removing' }))).toEqual([]);
  expect(back('1Gi', there({ stage: 'planned' }, { stage: 'planned' }))).toEqual([]);
  // What is not known is what was wished for.
  for (const unknown of [there(ten, {}), undefined])
    expect(back('10Gi', unknown)[0]).toMatch(/cannot shrink from 900Ti to 10Gi/);
});

test('A8.4 S7 majors are neither skipped nor gone down', () => {
  const version = (text: string) => object({ version: text });
  expect(changes(version('6.0.29-23'), version('8.0.32-14'))[0]).toMatch(/in one step: upgrade to 7.0 first/);
  expect(changes(version('8.0.32-14'), version('7.0.43-23'))[0]).toMatch(/downgrades across major versions/);
  expect(changes(version('7.0.43-23'), version('8.0.32-14'))).toEqual([]);
  const back = validateChange(version('8.0.32-14'), version('8.0.29-13'));
  expect(back.problems).toEqual([]);
  expect(back.warnings[0]?.message).toMatch(/is older than/);
});

test('A8.1 A8.4 S7 an upgrade that never ran on any data may be taken back, be no member up; any other may not', () => {
  const [old, next] = [object({ version: '8.0.32-14' }), object({ version: '7.0.43-23' })];
  type Member = readonly [version: string | undefined, newestRun: string | undefined, more?: object];
  const status = (featureCompatibilityVersion: string, ...members: readonly Member[]) => ({
    featureCompatibilityVersion,
    members: members.map(([version, newestRun, more], i) => ({
      name: `orders-${i}`,
      role: 'replica',
      stage: 'active',
      ...(version === undefined ? {} : { version }),
      ...(newestRun === undefined ? {} : { newestRun }),
      ...more,
    })),
  });
  const up: Member = ['7.0.43-23', '7.0'];
  const ended: Member = [undefined, '7.0'];
  const router: Member = ['8.0.32-14', undefined, { role: 'router' }];
  const planned: Member = [undefined, undefined, { stage: 'planned' }];
  for (const safe of [[up, up, ended], [ended], [up, up, ended, router], [up, up, ended, planned]])
    expect(changes(old, next, status('7.0', ...safe))).toEqual([]);
  const unsafe = [
    status('8.0', up, up, ended),
    status('7.0', up, up, ['8.0.32-14', '8.0']),
    // It ran the newer one and has ended since: that nothing runs now proves nothing.
    status('7.0', up, up, [undefined, '8.0']),
    status('7.0', up, up, [undefined, undefined]),
    status('7.0', ['7.0.43-23', undefined]),
    status('7.0'),
  ];
  for (const one of unsafe) expect(changes(old, next, one)[0]).toMatch(/downgrades across major versions/);
});

test('A8.4 the next major waits for the old major to be in force', () => {
  const [old, next] = [object({ version: '7.0.43-23' }), object({ version: '8.0.32-14' })];
  expect(changes(old, next, { featureCompatibilityVersion: '6.0' })[0]).toMatch(
    /while the feature compatibility version is 6.0: it must be 7.0/,
  );
  expect(changes(old, next, { featureCompatibilityVersion: '7.0' })).toEqual([]);
});

test('UPG-01 A8.4 A8.5 the FCV of a document is for a new cluster: later it neither changes nor blocks, which is said', () => {
  type Wish = readonly [featureCompatibilityVersion: string, version?: string];
  const spec = ([featureCompatibilityVersion, version = '7.0.43-23']: Wish) => ({
    ...object().spec,
    version,
    featureCompatibilityVersion,
  });
  const warned = (before: Wish, inForce: string | null, after: Wish) => {
    const status = inForce === null ? {} : { featureCompatibilityVersion: inForce };
    const current = { kind: 'MongoDB', metadata: { name: 'orders' }, spec: spec(before), status };
    const document = { ...current, apiVersion: 'belay.dev/v1', spec: spec(after) };
    const found = validate(document, { current });
    expect(found.problems).toEqual([]);
    return found.warnings.filter(({ path }) => path === 'spec.featureCompatibilityVersion');
  };
  const said = [
    {
      path: 'spec.featureCompatibilityVersion',
      message:
        'is what a new cluster begins with and changes nothing now: belay raise-fcv orders raises what is in force, nothing lowers it',
    },
  ];
  const next = '8.0.32-14';
  // As it was created, up to the next major, and on after the FCV was raised.
  expect(warned(['7.0'], null, ['7.0'])).toEqual([]);
  expect(warned(['7.0'], '7.0', ['7.0', next])).toEqual([]);
  expect(warned(['7.0', next], '8.0', ['7.0', next])).toEqual(said);
  // Changed by itself, up and down, and what would have to go up with the version.
  expect(warned(['7.0', next], '7.0', ['8.0', next])).toEqual(said);
  expect(warned(['8.0', next], '8.0', ['7.0', next])).toEqual(said);
  expect(warned(['AlwaysMatchVersion'], '7.0', ['AlwaysMatchVersion', next])).toEqual(said);
  expect(warned(['AlwaysMatchVersion'], '7.0', ['AlwaysMatchVersion'])).toEqual([]);
  // A value that could never stand there can be replaced.
  expect(warned(['4.2.4'], '7.0', ['7.0'])).toEqual([]);
});

test('TLS is not turned off together with a change of members', () => {
  const off = { security: { tls: { mode: 'disabled' } } };
  expect(changes(object(), object({ ...off, members: 5 }))[0]).toMatch(
    /^spec.security.tls.mode: cannot be turned off/,
  );
  expect(changes(object(), object(off))).toEqual([]);
});

test('a data source may be taken out, but not exchanged or added later', () => {
  const from = (backup: string) => object({ dataSource: { backup } });
  expect(changes(from('a'), object())).toEqual([]);
  expect(changes(from('a'), from('b'))).toHaveLength(1);
  expect(changes(object(), from('b'))).toHaveLength(1);
});

test('requests cannot be changed, a user stays with its database', () => {
  const make = (kind: string, spec: Spec): BelayObject => {
    const result = validate({ apiVersion: 'belay.dev/v1', kind, metadata: { name: 'a' }, spec });
    if (result.object === undefined) throw new Error(JSON.stringify(result.problems));
    return result.object;
  };
  const backup = (type: string) => make('Backup', { mongodbResourceRef: { name: 'orders' }, type });
  expect(changes(backup('logical'), backup('physical'))).toEqual([
    'spec: cannot be changed once created; create another object',
  ]);
  const user = (name: string, username: string) =>
    make('MongoDBUser', { username, mongodbResourceRef: { name } });
  expect(changes(user('orders', 'u1'), user('orders', 'u2'))).toEqual([]);
  expect(changes(user('orders', 'u1'), user('other', 'u1'))).toHaveLength(1);
});

test('one problem of a changed document brings no untrue ones along', () => {
  const document = {
    apiVersion: 'belay.dev/v1',
    kind: 'MongoDB',
    metadata: { name: 'orders' },
    spec: { type: 'ReplicaSet', members: 0 },
  };
  const { problems } = validate(document, { current: object() as never });
  expect(problems.map((p) => p.path)).toEqual(['spec.members']);
});
