import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type MongoDB, memberSettings, parseDocuments, validate, validateAll } from './index.ts';
import { withoutNulls } from './paths.ts';

type Spec = Record<string, unknown>;

const set = (spec: Spec = {}, name = 'orders') => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDB',
  metadata: { name },
  spec: { type: 'ReplicaSet', members: 3, ...spec },
});
const shardedSet = (spec: Spec = {}) =>
  set({
    type: 'ShardedCluster',
    members: undefined,
    shardCount: 2,
    mongodsPerShardCount: 3,
    configServerCount: 3,
    mongosCount: 2,
    ...spec,
  });
const user = (spec: Spec = {}) => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDBUser',
  metadata: { name: 'app' },
  spec: {
    username: 'app',
    mongodbResourceRef: { name: 'orders' },
    roles: [{ name: 'read', db: 'a' }],
    ...spec,
  },
});

/** Problems as `path: message`, for short expectations. */
const problems = (document: unknown): string[] =>
  validate(document).problems.map(({ path, message }) => `${path}: ${message}`);
const messageAt = (document: unknown, path: string): string =>
  validate(document)
    .problems.filter((problem) => problem.path === path)
    .map(({ message }) => message)
    .join(' | ');

test('B1.4 a document with more than twenty mistakes gets every one of them, each with its path and line', () => {
  const text = readFileSync(new URL('./testing/twenty-mistakes.yaml', import.meta.url), 'utf8');
  const [document] = parseDocuments(text, 'twenty-mistakes.yaml').documents;
  const found = validate(document?.value).problems;
  const paths = [
    'apiVersion',
    'metadata.name',
    'metadata.namespace',
    'metadata.label',
    'spec.version',
    'spec.featureCompatibilityVersion',
    'spec.members',
    'spec.memberConfig[0].votes',
    'spec.memberConfig[0].priority',
    'spec.memberConfig[1].priority',
    'spec.memberConfig[2].priority',
    'spec.memberConfig[3].priority',
    'spec.memberConfig[4].arbiterOnly',
    'spec.shardCount',
    'spec.backups',
    'spec.port',
    'spec.persistent',
    'spec.password',
    'spec.resources.cpu',
    'spec.resources.memory',
    'spec.storage.size',
    'spec.additionalMongodConfig.net.tls.mode',
    'spec.additionalMongodConfig.storage.dbPath',
    'spec.security.tls.mode',
    'spec.security.tls.additionalCertificateDomains[0]',
    'spec.security.authentication.enabled',
    'spec.security.authentication.modes[0]',
    'spec.security.roles[0].role',
    'spec.security.roles[0].privileges[0].resource',
    'spec.exposure.cidrs[0]',
    'spec.maintenance.windows[0]',
    'spec.maintenance.windows[1].cron',
    'spec.maintenance.windows[2].start',
    'spec.maintenance.windows[2].duration',
    'spec.maintenance.windows[2].timeZone',
    'spec.backup.storage',
    'spec.backup.schedules[0].keep',
    'spec.dataAccess.databases[0]',
  ];
  const given = new Set(found.map(({ path }) => path));
  expect(paths.filter((path) => !given.has(path))).toEqual([]);
  // Each commented line of the file has a problem on that very line.
  const lines = new Set(found.map(({ path }) => document?.locate(path).line));
  const wrong = text.split('\n').flatMap((line, index) => (/# \d+/.test(line) ? [index + 1] : []));
  expect(wrong.filter((line) => !lines.has(line))).toEqual([]);
  expect(JSON.stringify(found)).not.toContain('canary-4711');
  for (const { message } of found) expect(message, message).toMatch(/^[^\n]{5,250}$/);
});

test('a minimal document gets every default and nothing else', () => {
  const { object, warnings } = validate(set());
  expect(warnings).toEqual([]);
  const spec = (object as MongoDB).spec;
  expect(spec).toMatchObject({
    version: '8.0.32-14',
    persistent: true,
    storage: { size: '10Gi' },
    security: { tls: { mode: 'requireTLS' }, authentication: { enabled: true, modes: ['SCRAM-SHA-256'] } },
    placement: { spread: 'preferred' },
    maintenance: { interruption: 'Never', windows: [] },
    suspend: false,
    paused: false,
  });
  expect((object as MongoDB).metadata.namespace).toBe('default');
});

test('VAL-09 what comes out is accepted again and stays the same', () => {
  const documents = [set(), set({ type: 'Standalone', members: undefined }), shardedSet(), user()];
  for (const document of documents) {
    const first = validate(withoutNulls(JSON.parse(JSON.stringify(document))));
    expect(first.problems).toEqual([]);
    expect(validate(JSON.parse(JSON.stringify(first.object))).object).toEqual(first.object);
  }
});

test('VAL-09 empty sections count as absent', () => {
  expect(problems(set({ memberConfig: null, security: null, storage: { size: null } }))).toEqual([]);
  expect(problems({ ...set(), spec: null })).toContain('spec: is required: a map of fields');
});

test('a status in a document is not taken over', () => {
  expect(validate({ ...set(), status: { phase: 'Ready', nonsense: 1 } }).object).not.toHaveProperty('status');
});

test.each([
  [8, 'must be a quoted string such as "8.0.32-14"'],
  [8.0, 'must be a quoted string such as "8.0.32-14"'],
  ['', 'is not a version'],
  ['8', 'is not a version'],
  ['8.0', '8.0 is not in the catalog'],
  ['8.0.12', '8.0.12 is not in the catalog'],
  ['8.3.1-1', '8.3.1-1 is a technical preview and not offered'],
  ['5.0.1-1', 'series 5.0 is not supported'],
])('VAL-07 A1.3 version %j is refused with the list of supported ones', (version, start) => {
  const message = messageAt(set({ version }), 'spec.version');
  expect(message.startsWith(start)).toBe(true);
  if (typeof version === 'string') {
    expect(message).toContain('8.0.32-14 (default), 8.0.29-13, 7.0.43-23, 7.0.40-22, 6.0.29-23 (deprecated)');
  }
});

test('A1.3 a deprecated version is accepted with a warning', () => {
  const result = validate(set({ version: '6.0.29-23' }));
  expect(result.problems).toEqual([]);
  expect(result.warnings).toEqual([
    { path: 'spec.version', message: '6.0.29-23 is deprecated; plan the upgrade to 7.0' },
  ]);
});

test.each([
  [7.0, /must be a quoted string such as "7\.0"/],
  [8, /must be a quoted string such as "7\.0"/],
  ['7', /must be a quoted string such as "7\.0"/],
  ['7.0.1', /must be a quoted string such as "7\.0"/],
  ['', /must be a quoted string such as "7\.0"/],
  [
    '9.9',
    /9\.9 does not fit version 8\.0\.32-14, with which a new cluster begins; accepted: 8\.0, AlwaysMatchVersion/,
  ],
  ['7.0', /accepted: 8\.0, AlwaysMatchVersion/],
])('VAL-07 UPG-01 feature compatibility version %j is refused', (featureCompatibilityVersion, wanted) => {
  expect(messageAt(set({ featureCompatibilityVersion }), 'spec.featureCompatibilityVersion')).toMatch(wanted);
});

test.each(['8.0', 'AlwaysMatchVersion'])('UPG-01 FCV %s fits 8.0', (featureCompatibilityVersion) => {
  expect(problems(set({ featureCompatibilityVersion }))).toEqual([]);
});

test.each([2, 4, 6, 8, 9])('VAL-02 A6.1 %i voting members are refused and never rewritten', (members) => {
  expect(messageAt(set({ members }), 'spec.members')).toBe(
    `${members} is not allowed: a replica set has 1, 3, 5 or 7 voting members; more members can be had without a vote, with votes: 0 in spec.memberConfig`,
  );
});

test.each([1, 3, 5, 7])('A6.1 %i voting members are accepted', (members) => {
  expect(problems(set({ members }))).toEqual([]);
});

test('A6.1 members without a vote do not count', () => {
  expect(problems(set({ members: 4, memberConfig: [{}, {}, {}, { votes: 0 }] }))).toEqual([]);
  const message = messageAt(set({ members: 3, memberConfig: [{ votes: 0 }] }), 'spec.members');
  expect(message).toBe(
    '3 members with 2 votes are not allowed: a replica set has 1, 3, 5 or 7 voting members',
  );
  expect(problems(set({ members: 51 }))).toEqual(['spec.members: must be a whole number from 1 to 50']);
});

test('CFG-01 zero and absent differ: a given 0 stays 0, an absent priority follows from the rest', () => {
  const { object } = validate(
    set({ memberConfig: [{ priority: 0, votes: 1, secondaryDelaySecs: 0 }, {}, { hidden: true }] }),
  );
  const spec = (object as MongoDB).spec;
  if (spec.type !== 'ReplicaSet') throw new Error('wrong type');
  expect(spec.memberConfig[0]).toEqual({ priority: 0, votes: 1, secondaryDelaySecs: 0 });
  expect(spec.memberConfig.map((entry) => memberSettings(entry).priority)).toEqual([0, 1, 0]);
  expect(memberSettings({ votes: 0 })).toMatchObject({ votes: 0, priority: 0 });
  expect(memberSettings(undefined)).toMatchObject({ votes: 1, priority: 1, hidden: false });
});

test('at least one member must be able to become primary', () => {
  const memberConfig = [{ priority: 0 }, { priority: 0 }, { hidden: true }];
  expect(messageAt(set({ memberConfig }), 'spec.memberConfig')).toMatch(/no member could become primary/);
});

test('VAL-01 lists of any length against any number of members: accepted or a clean problem', () => {
  const entry = fc.record(
    {
      votes: fc.constantFrom(0, 1, 2, 'x'),
      priority: fc.constantFrom(0, 1, -1, '1'),
      hidden: fc.boolean(),
      tags: fc.constantFrom({}, { a: 'b' }, { a: 1 }, null),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(
      fc.integer({ min: -2, max: 60 }),
      fc.array(entry, { maxLength: 9 }),
      (members, memberConfig) => {
        const result = validate(set({ members, memberConfig }));
        expect(result.object === undefined).toBe(result.problems.length > 0);
        if (members >= 1 && members <= 50 && memberConfig.length > members) {
          expect(result.problems.map(({ path }) => path)).toContain('spec.memberConfig');
        }
      },
    ),
    { numRuns: 200, seed: 1 },
  );
});

test('VAL-01 no document whatever makes validation throw', () => {
  const values = fc.anything({ withNullPrototype: false, maxDepth: 4 });
  const shaped = fc.record({
    apiVersion: fc.constantFrom('belay.dev/v1', 'mongodb.com/v1', 'psmdb.percona.com/v1', 'v1', 7, null),
    kind: fc.constantFrom(
      'MongoDB',
      'MongoDBUser',
      'Backup',
      'Restore',
      'MaintenanceTask',
      'Host',
      'Secret',
      [],
    ),
    metadata: fc.oneof(values, fc.constant({ name: 'a' })),
    spec: fc.oneof(
      values,
      fc.dictionary(
        fc.constantFrom(
          'type',
          'version',
          'members',
          'memberConfig',
          'security',
          'backup',
          'podSpec',
          'roles',
          '__proto__',
        ),
        fc.oneof(values, fc.constantFrom('ReplicaSet', 'ShardedCluster', 3)),
      ),
    ),
  });
  fc.assert(
    fc.property(fc.oneof(values, shaped), (document) => {
      const result = validate(document);
      const outcomes = [result.object, result.secret, result.passedOver].filter((item) => item !== undefined);
      expect(outcomes.length).toBe(result.problems.length > 0 ? 0 : 1);
    }),
    { numRuns: 400, seed: 2 },
  );
});

test('VAL-12 the longest derived name decides how long a name may be; it starts with a letter', () => {
  const sharded = {
    type: 'ShardedCluster',
    members: undefined,
    shardCount: 1,
    mongodsPerShardCount: 3,
    configServerCount: 3,
    mongosCount: 1,
  };
  for (let length = 1; length <= 64; length++) {
    const name = 'a'.repeat(length);
    expect(problems(set({}, name)).length === 0, `set of ${length}`).toBe(length <= 47);
    expect(problems(withoutNulls(JSON.parse(JSON.stringify(set(sharded, name))))).length === 0).toBe(
      length <= 40,
    );
  }
  expect(messageAt(set({}, 'a'.repeat(55)), 'metadata.name')).toMatch(/has 55 characters, at most 47/);
  expect(messageAt(set({}, 'a'.repeat(70)), 'metadata.name')).toMatch(
    /^has 70 characters without a dot, at most 63 are accepted \| has 70 characters, at most 47 are accepted, since /,
  );
  expect(messageAt(set({}, '9lives'), 'metadata.name')).toMatch(/start with a letter/);
  for (const name of ['Orders', 'or_ders', 'or.ders', 'orders-', '-orders', 'or ders']) {
    expect(problems(set({}, name)), name).toHaveLength(1);
  }
});

test('VAL-12 a name that is too long is told which of its limits that is', () => {
  const told = (name: string) => messageAt({ ...user(), metadata: { name } }, 'metadata.name');
  expect(told('a'.repeat(63))).toBe('');
  expect(told(`a.${'b'.repeat(70)}`)).toBe('has 70 characters without a dot, at most 63 are accepted');
  expect(told(`${'a.'.repeat(130)}a`)).toBe('has 261 characters, at most 253 are accepted');
  for (const name of ['App', 'a_b', 'a..b', 'a-.b', '', 'A'.repeat(300)])
    expect(told(name), name).toMatch(/^must be a DNS name: .* at most 253 characters, 63 between dots$/);
});

test('B1.2 arbiters are refused with the reason', () => {
  expect(messageAt(set({ arbiters: 1 }), 'spec.arbiters')).toMatch(
    /^arbiters are not supported: they hold no data/,
  );
});

test('a field of another type is named as such', () => {
  expect(problems(set({ type: 'Standalone' }))).toEqual([
    'spec.members: belongs to type ReplicaSet, not to Standalone',
  ]);
});

test('a wrong type does not hide the other mistakes', () => {
  const found = problems(set({ type: 'Replicaset', members: 4, memers: 3 }));
  expect(found[0]).toBe(
    'spec.type: must be one of Standalone, ReplicaSet, ShardedCluster; did you mean ReplicaSet?',
  );
  expect(found).toContainEqual(
    expect.stringMatching(/^spec.members: 4 is not allowed: a replica set has 1, 3, 5 or 7 voting members/),
  );
  expect(found).toContain('spec.memers: unknown field, did you mean spec.members?');
});

test('CFG-02 X509 without TLS is refused, not ignored', () => {
  const security = { tls: { mode: 'disabled' }, authentication: { modes: ['X509'] } };
  expect(messageAt(set({ security }), 'spec.security.authentication.modes')).toMatch(
    /X509 needs .*not disabled/,
  );
});

test('A10.1 exposure requires address ranges and warns about everybody', () => {
  expect(messageAt(set({ exposure: {} }), 'spec.exposure.cidrs')).toMatch(/at least one address range/);
  expect(problems(set({ exposure: { enabled: false } }))).toEqual([]);
  const open = validate(set({ exposure: { cidrs: ['0.0.0.0/0'] } }));
  expect(open.problems).toEqual([]);
  expect(open.warnings).toEqual([
    { path: 'spec.exposure.cidrs[0]', message: '0.0.0.0/0 lets everybody connect' },
  ]);
});

test('C7.1 windows are weekly or cron', () => {
  const windows = [
    { days: ['Sat', 'Sun'], start: '02:00', timeZone: 'Europe/Prague', duration: '2h' },
    { cron: '0 2 * * 6', duration: '90m' },
  ];
  expect(problems(set({ maintenance: { windows } }))).toEqual([]);
  const both = { ...windows[0], cron: '0 2 * * 6' };
  expect(problems(set({ maintenance: { windows: [both] } }))).toEqual([
    'spec.maintenance.windows[0]: takes either days and start, or cron',
  ]);
});

test('C7.1 L3 a window that never comes is refused: what waits for it would wait for ever', () => {
  const opens = (cron: string) => problems(set({ maintenance: { windows: [{ cron, duration: '2h' }] } }));
  for (const cron of ['0 3 30 2 *', '0 3 31 4,6 *', '0 3 30-31 feb *'])
    expect(opens(cron)).toEqual([
      'spec.maintenance.windows[0].cron: never comes: no month it names has such a day',
    ]);
  for (const cron of ['0 3 29 2 *', '0 3 30 2 Mon', '0 3 31 * *', '0 3 31 4,5 *'])
    expect(opens(cron)).toEqual([]);
});

test('S1 a single member comes with a warning that restarts wait', () => {
  const path = 'spec.maintenance.interruption';
  expect(validate(set({ members: 1 })).warnings.map((warning) => warning.path)).toContain(path);
  expect(validate(set({ members: 1, maintenance: { interruption: 'Allowed' } })).warnings).toEqual([]);
});

const shards = (spec: Spec = {}) => withoutNulls(JSON.parse(JSON.stringify(shardedSet(spec))));

test('S1 a shard of one member, a single config server or router come with a warning that changes wait', () => {
  const warned = (spec: Spec): string[] => validate(shards(spec)).warnings.map(({ path }) => path);
  expect(warned({})).toEqual([]);
  for (const field of ['mongodsPerShardCount', 'configServerCount', 'mongosCount']) {
    expect(warned({ [field]: 1 })).toEqual([`spec.${field}`]);
    expect(warned({ [field]: 1, maintenance: { interruption: 'Allowed' } })).toEqual([]);
  }
});

test('A6.1 a wrong number of members of shards or config servers is said once, whatever is wrong with it', () => {
  for (const field of ['mongodsPerShardCount', 'configServerCount'])
    for (const count of [0, 2, 4, 51, 2.5])
      expect([field, count, problems(shards({ [field]: count })).length]).toEqual([field, count, 1]);
});

test('CFG-03 a router is refused what only processes with data know, however it is written', () => {
  const routers = (additionalMongodConfig: Spec): string[] =>
    problems(shards({ mongos: { additionalMongodConfig } }));
  const message = 'is no setting of a router, which keeps no data; set it for spec.shard or spec.configSrv';
  for (const config of [
    { storage: { wiredTiger: { engineConfig: { cacheSizeGB: 1 } } } },
    { 'storage.wiredTiger.engineConfig.cacheSizeGB': 1 },
  ])
    expect(routers(config)).toEqual([
      `spec.mongos.additionalMongodConfig.storage.wiredTiger.engineConfig.cacheSizeGB: ${message}`,
    ]);
  expect(routers({ replication: { oplogSizeMB: 990 } })).toEqual([
    `spec.mongos.additionalMongodConfig.replication.oplogSizeMB: ${message}`,
  ]);
  expect(routers({ storage: { dbPath: '/x' } })).toHaveLength(1);
  expect(routers({ replication: { localPingThresholdMs: 20 }, setParameter: { logLevel: 1 } })).toEqual([]);
  expect(
    problems(shards({ shard: { additionalMongodConfig: { storage: { oplogMinRetentionHours: 1 } } } })),
  ).toEqual([]);
});

test('L3 a host whose first port connections may hold comes with a warning', () => {
  const warned = (firstPort: number): string[] =>
    validate({
      apiVersion: 'belay.dev/v1',
      kind: 'Host',
      metadata: { name: 'db1' },
      spec: { firstPort },
    }).warnings.map(({ path }) => path);
  expect([27_017, 32_767, 61_000].flatMap(warned)).toEqual([]);
  expect([32_768, 43_000, 60_999].flatMap(warned)).toEqual(Array(3).fill('spec.firstPort'));
});

test('USR-06 user names may be any text, and system users are refused', () => {
  for (const username of ['svc.app@example', 'Ünïcode', 'with space', 'CN=client,O=x']) {
    expect(problems(user({ username }))).toEqual([]);
  }
  expect(messageAt(user({ username: 'clusterAdmin' }), 'spec.username')).toMatch(/kept by Belay itself/);
  expect(problems(user({ username: 'clusterAdmin', db: 'shop' }))).toEqual([]);
  expect(problems(user({ db: '$external', passwordSecretKeyRef: { name: 'a' } }))).toHaveLength(1);
});

test('S8 a password in a document is refused and never repeated', () => {
  const found = validate(user({ password: 'canary-0815' }));
  expect(found.problems).toHaveLength(1);
  expect(found.problems[0]?.message).toMatch(/secrets never stand in documents/);
  expect(JSON.stringify(found)).not.toContain('canary-0815');
});

test('VAL-05 a host is advertised by name; loopback is for a single machine', () => {
  const host = (address: string) => ({
    apiVersion: 'belay.dev/v1',
    kind: 'Host',
    metadata: { name: 'db1' },
    spec: { address },
  });
  for (const address of ['192.0.2.10', '2001:db8::1', '[2001:db8::1]']) {
    expect(messageAt(host(address), 'spec.address'), address).toMatch(/is an IP address/);
  }
  expect(problems(host('db1.example.com'))).toEqual([]);
  expect(validate(host('127.0.0.1')).warnings).toHaveLength(1);
});

test('kinds and versions: unknown ones with a suggestion, read-only ones refused', () => {
  expect(problems({ ...set(), kind: 'MongoDb' })).toEqual(['kind: is not known, did you mean MongoDB?']);
  expect(problems({ ...set(), apiVersion: undefined })).toEqual(['apiVersion: is required: belay.dev/v1']);
  expect(problems({ ...set(), kind: 'Event' })[0]).toBe('kind: Event is written by the server only');
  expect(problems(7)).toEqual([': must be a map with apiVersion, kind, metadata and spec, not a number']);
  expect(problems([])).toHaveLength(1);
});

test('names given twice in one input are problems of the second', () => {
  const results = validateAll([set(), user(), set({ members: 5 }), set({}, 'other')]);
  expect(results.map(({ problems: found }) => found.map(({ message }) => message))).toEqual([
    [],
    [],
    ['MongoDB default/orders is already given by document 1'],
    [],
  ]);
  expect(results[2]?.object).toBeUndefined();
});

test('TEN-01 a name with two hyphens in a row is refused, and one that was accepted once is kept with a warning', () => {
  const named = set({}, 'prod--orders');
  expect(validate(named).problems).toMatchObject([{ path: 'metadata.name' }]);
  const stored = validate(set()).object as MongoDB;
  const old = { ...stored, metadata: { ...stored.metadata, name: 'prod--orders' } };
  const again = validate(named, { current: old });
  expect([again.problems, again.warnings[0]?.path]).toEqual([[], 'metadata.name']);
});

test('UPG-02 rules that a stored object already breaks become warnings, until the field changes', () => {
  const stored = validate(set()).object as MongoDB;
  const old = { ...stored, spec: { ...stored.spec, version: '8.0.4-1' } };
  const same = validate(set({ version: '8.0.4-1', paused: true }), { current: old });
  expect(same.problems).toEqual([]);
  expect(same.warnings[0]?.message).toMatch(/not in the catalog.*kept, as it was accepted before/);
  expect(validate(set({ version: '8.0.5-1' }), { current: old }).problems).toHaveLength(1);
});

test('operations and events of the server pass their own schema', () => {
  const operation = {
    apiVersion: 'belay.dev/v1',
    kind: 'Operation',
    metadata: { name: 'restart-1' },
    spec: { type: 'Restart', mongodbResourceRef: { name: 'orders' } },
  };
  expect(validate(operation, { readOnlyKinds: true }).problems).toEqual([]);
  const wrong = { ...operation, spec: { type: 'Reboot' } };
  expect(validate(wrong, { readOnlyKinds: true }).problems[0]?.path).toBe('spec.type');
});

test('C1.1 an action of a maintenance task names exactly one component', () => {
  const task = (scope: unknown, type = 'lock') => ({
    apiVersion: 'belay.dev/v1',
    kind: 'MaintenanceTask',
    metadata: { name: 'm-1' },
    spec: { groups: [{ actions: [{ type, scope }] }] },
  });
  expect(problems(task({ host: 'db6' }))).toEqual([]);
  expect(problems(task({ host: 'db6', node: 'orders-1' }))).toHaveLength(1);
  expect(problems(task({}))).toHaveLength(1);
  expect(problems(task({ host: 'db6' }, 'drain'))).toEqual([
    'spec.groups[0].actions[0].scope: drain takes a node only',
  ]);
});

test('VAL-02 counts that only some numbers fit are told with these numbers', () => {
  for (const field of ['mongodsPerShardCount', 'configServerCount'])
    for (const count of [0, 51, 'three'])
      expect(problems(shards({ [field]: count }))).toContain(`spec.${field}: must be 1, 3, 5 or 7`);
});
