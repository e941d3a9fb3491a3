import fc from 'fast-check';
import { expect, test } from 'vitest';
import { keptFields, type MongoDB, type MongoDBUser, parseDocuments, validate } from '../index.ts';

const read = (text: string): unknown => parseDocuments(text, 'a.yaml').documents[0]?.value;
const set = (spec: string, name = 'my-replica-set'): unknown =>
  read(
    `apiVersion: mongodb.com/v1\nkind: MongoDB\nmetadata: {name: ${name}}\nspec:\n${spec.replace(/^/gm, '  ')}`,
  );
const BASE = `type: ReplicaSet
version: 8.0.12-ent
members: 3
opsManager: {configMapRef: {name: my-project}}
credentials: my-credentials
`;
const converted = (document: unknown): MongoDB => {
  const result = validate(document);
  expect(result.problems).toEqual([]);
  return result.object as MongoDB;
};
const problems = (document: unknown): string[] =>
  validate(document).problems.map(({ path, message }) => `${path}: ${message}`);
const report = (document: unknown): string[] =>
  validate(document).report.map(({ path, kind }) => `${kind} ${path}`);

test('B1.3 a plain replica set of the public operator becomes one of ours', () => {
  const object = converted(set(`${BASE}persistent: true\n`));
  expect(object).toMatchObject({
    apiVersion: 'belay.dev/v1',
    kind: 'MongoDB',
    metadata: { name: 'my-replica-set', annotations: { 'belay.dev/origin': 'mongodb.com/v1' } },
    spec: {
      type: 'ReplicaSet',
      version: '8.0.32-14',
      members: 3,
      persistent: true,
      security: { tls: { mode: 'disabled' }, authentication: { enabled: true } },
    },
  });
});

test('B1.3 what means nothing outside Kubernetes is kept and reported, never silently dropped', () => {
  const document = set(`${BASE}statefulSet: {spec: {serviceName: a}}
service: my-service
clusterDomain: mycompany.net
logLevel: WARN
agent: {startupOptions: {maxLogFiles: "30"}}
backup: {mode: enabled}
externalAccess: {externalService: {spec: {type: LoadBalancer}}}
prometheus: {username: prom, passwordSecretRef: {name: prom-password}}
somethingNew: {a: 1}
opsMangaer: {}
`);
  const result = validate(document);
  expect(result.problems).toEqual([]);
  const names = [
    'opsManager',
    'credentials',
    'statefulSet',
    'service',
    'clusterDomain',
    'logLevel',
    'agent',
    'backup',
    'externalAccess',
    'prometheus',
  ];
  expect(report(document)).toEqual(expect.arrayContaining(names.map((name) => `ignored spec.${name}`)));
  expect(result.report).toContainEqual({
    path: 'spec.somethingNew',
    kind: 'kept',
    message: 'unknown field, kept as it is',
  });
  expect(result.report.find(({ path }) => path === 'spec.opsMangaer')?.message).toMatch(
    /did you mean opsManager/,
  );
  const warned = new Set(result.warnings.map(({ path }) => path));
  for (const name of names) expect(warned.has(`spec.${name}`), name).toBe(true);
  const kept = keptFields((result.object as MongoDB).metadata.annotations);
  const given = (document as { spec: Record<string, unknown> }).spec;
  for (const name of [...names, 'somethingNew', 'opsMangaer']) expect(kept[name], name).toEqual(given[name]);
});

test('B1.3 every field of a document is converted, reported or refused', () => {
  const spec = fc.dictionary(
    fc.constantFrom(
      'service',
      'statefulSet',
      'agent',
      'prometheus',
      'xyz',
      'podSpec',
      'shardPodSpec',
      'memberConfig',
      'connectivity',
      'topology',
      'logLevel',
      'shardOverrides',
      'duplicateServiceObjects',
      'mongosPodSpec',
    ),
    fc.constantFrom({ a: 1 }, { persistence: {} }, 'x', 3, [], [{}], true),
  );
  fc.assert(
    fc.property(spec, (extra) => {
      const result = validate({
        apiVersion: 'mongodb.com/v1',
        kind: 'MongoDB',
        metadata: { name: 'a' },
        spec: { type: 'ReplicaSet', version: '8.0.1', members: 3, ...extra },
      });
      const said = [...result.report, ...result.problems].map(({ path }) => path);
      const converts = ['podSpec', 'memberConfig'];
      for (const [key, value] of Object.entries(extra)) {
        if (converts.includes(key) && typeof value === 'object') continue;
        expect(
          said.some((path) => path.startsWith(`spec.${key}`)),
          `${key} ${JSON.stringify(result)}`,
        ).toBe(true);
      }
    }),
    { numRuns: 200, seed: 5 },
  );
});

test('processors, memory and the data volume come out of podSpec, the rest is reported', () => {
  const document = set(`${BASE}podSpec:
  podTemplate:
    spec:
      containers:
        - name: sidecar
          resources: {limits: {memory: 99Gi}}
        - name: mongodb-enterprise-database
          resources:
            limits: {cpu: "0.25", memory: 512M}
            requests: {cpu: "0.1"}
  persistence:
    multiple:
      data: {storage: 12Gi, storageClass: fast}
      journal: {storage: 1Gi, labelSelector: {matchLabels: {app: my-app}}}
      logs: {storage: 500M}
  podAntiAffinityTopologyKey: nodeId
`);
  const object = converted(document);
  expect(object.spec.resources).toEqual({ cpu: '0.25', memory: '512M' });
  expect(object.spec.storage).toEqual({ size: '12Gi', class: 'fast' });
  expect(report(document)).toEqual(
    expect.arrayContaining([
      'ignored spec.podSpec',
      'ignored spec.podSpec.persistence.multiple.journal',
      'ignored spec.podSpec.persistence.multiple.logs',
    ]),
  );
  const older = converted(set(`${BASE}podSpec: {memory: 512M, cpu: "0.5"}\n`));
  expect(older.spec.resources).toEqual({ cpu: '0.5', memory: '512M' });
});

test.each([
  ['security: {tls: {enabled: true}}', 'requireTLS'],
  ['security: {certsSecretPrefix: prod, tls: {ca: my-ca}}', 'requireTLS'],
  ['security: {tls: {enabled: true}}\nadditionalMongodConfig: {net: {ssl: {mode: preferSSL}}}', 'preferTLS'],
  ['security: {tls: {enabled: true}}\nadditionalMongodConfig: {net.tls.mode: allowTLS}', 'allowTLS'],
  ['security: {tls: {enabled: false}}', 'disabled'],
  ['persistent: true', 'disabled'],
])('TLS of %j is %s', (extra, mode) => {
  expect(converted(set(`${BASE}${extra}\n`)).spec.security.tls.mode).toBe(mode);
});

test('CFG-02 a TLS mode without TLS is refused, not ignored', () => {
  const document = set(`${BASE}additionalMongodConfig: {net.tls.mode: requireTLS}\n`);
  expect(problems(document)).toEqual([
    expect.stringMatching(/^spec.additionalMongodConfig: net.tls.mode is ignored without/),
  ]);
});

test.each([
  ['["SCRAM"]', ['SCRAM-SHA-256']],
  ['["SCRAM-SHA-256"]', ['SCRAM-SHA-256']],
  ['["MONGODB-CR"]', ['SCRAM-SHA-1']],
])('authentication modes %s become %j', (modes, wanted) => {
  const security = `security: {authentication: {enabled: true, modes: ${modes}, ignoreUnknownUsers: true}}\n`;
  expect(converted(set(BASE + security)).spec.security.authentication.modes).toEqual(wanted);
});

test('mongod settings: the port becomes a field, log settings are left to the agent, owned keys are refused', () => {
  const document = set(`${BASE}additionalMongodConfig:
  net.port: 40000
  systemLog: {logAppend: true, verbosity: 4}
  operationProfiling.mode: slowOp
`);
  const object = converted(document);
  expect(object.spec.port).toBe(40000);
  expect(object.spec.additionalMongodConfig).toEqual({
    systemLog: { verbosity: 4 },
    operationProfiling: { mode: 'slowOp' },
  });
  expect(report(document)).toContain('ignored spec.additionalMongodConfig.systemLog.logAppend');
  const refused = set(`${BASE}additionalMongodConfig: {storage: {dbPath: /x}, net: {port: 99999}}\n`);
  expect(problems(refused)).toEqual([
    'spec.additionalMongodConfig.net.port: must be a whole number from 1 to 65535',
    expect.stringMatching(/^spec.additionalMongodConfig.storage.dbPath: is owned by Belay/),
  ]);
});

test('priorities are texts there and numbers here; zero stays zero', () => {
  const document = set(
    `${BASE}memberConfig:\n  - {votes: 1, priority: "0"}\n  - {priority: "2.5", tags: {dc: a}}\n`,
  );
  const spec = converted(document).spec as unknown as { memberConfig: unknown };
  expect(spec.memberConfig).toEqual([
    { votes: 1, priority: 0 },
    { priority: 2.5, tags: { dc: 'a' } },
  ]);
  const wrong = set(`${BASE}memberConfig:\n  - {priority: "high"}\n`);
  expect(problems(wrong)).toEqual(['spec.memberConfig[0].priority: must be a quoted number such as "1.5"']);
});

test('B1.2 a Standalone may be restarted as it would be there', () => {
  const object = converted(set('type: Standalone\nversion: 8.0.12\nmembers: 1\n'));
  expect(object.spec).toMatchObject({ type: 'Standalone', maintenance: { interruption: 'Allowed' } });
});

test('B1.2 arbiters are refused with the reason', () => {
  expect(problems(set(`${BASE}arbiters: 1\n`))).toEqual([
    expect.stringMatching(/^spec.arbiters: arbiters are not supported/),
  ]);
  const member = set(`${BASE}memberConfig: [{}, {}, {arbiterOnly: true}]\n`);
  expect(problems(member)).toEqual([
    expect.stringMatching(/^spec.memberConfig\[2\].arbiterOnly: arbiters are not/),
  ]);
});

const TEXTS: readonly (readonly [string, string, string])[] = [
  [
    'members',
    'type: ReplicaSet\nversion: 8.0.12\n',
    "spec.members: 'spec.members' must be specified if type of MongoDB is ReplicaSet",
  ],
  [
    'x509',
    `${BASE}security: {authentication: {enabled: true, modes: [X509]}}\n`,
    'spec.security.authentication.modes: Cannot have a non-tls deployment when x509 authentication is enabled',
  ],
  [
    'no modes',
    `${BASE}security: {authentication: {enabled: true}}\n`,
    'spec.security.authentication.modes: Cannot enable authentication without modes specified',
  ],
  [
    'agent mode',
    `${BASE}security: {authentication: {enabled: true, modes: [SCRAM], agents: {mode: X509}}}\n`,
    'spec.security.authentication.agents.mode: Cannot configure an Agent authentication mechanism that is not specified in authentication modes',
  ],
  [
    'two modes',
    `${BASE}security: {tls: {enabled: true}, authentication: {enabled: true, modes: [SCRAM, X509]}}\n`,
    'spec.security.authentication.agents.mode: spec.security.authentication.agents.mode must be specified if more than one entry is present in spec.security.authentication.modes',
  ],
  [
    'ldap',
    'type: ReplicaSet\nmembers: 3\nversion: 8.0.12\nsecurity: {authentication: {enabled: true, modes: [LDAP]}}\n',
    'spec.security.authentication.modes[0]: Cannot enable LDAP authentication with MongoDB Community Builds',
  ],
  [
    'two managers',
    `${BASE}cloudManager: {configMapRef: {name: a}}\n`,
    'spec.cloudManager: either spec.cloudManager or spec.opsManager can be set',
  ],
  [
    'fcv',
    `${BASE}featureCompatibilityVersion: "8.0.1"\n`,
    `spec.featureCompatibilityVersion: invalid feature compatibility version "8.0.1", possible values are: 'AlwaysMatchVersion' or 'major.minor'`,
  ],
  [
    'horizons',
    `${BASE}connectivity: {replicaSetHorizons: [{h: "a.b:1"}, {h: "a.b:2"}, {h: "a.b:3"}]}\n`,
    'spec.connectivity.replicaSetHorizons: TLS must be enabled in order to use replica set horizons',
  ],
  [
    'horizon count',
    `${BASE}security: {tls: {enabled: true}}\nconnectivity: {replicaSetHorizons: [{h: "a.b:1"}]}\n`,
    'spec.connectivity.replicaSetHorizons: Number of horizons must be equal to number of members in replica set',
  ],
  [
    'shards',
    'type: ShardedCluster\nversion: 8.0.12\nmongodsPerShardCount: 3\nmongosCount: 2\nconfigServerCount: 3\n',
    'spec.shardCount: shardCount must be specified',
  ],
  [
    'counts',
    'type: ShardedCluster\nversion: 8.0.12\nshardCount: 1\nmongosCount: 2\n',
    'spec.mongodsPerShardCount: The following fields must be specified in single cluster topology: mongodsPerShardCount, configServerCount',
  ],
  [
    'counts of nothing',
    'type: ShardedCluster\nversion: 8.0.12\nshardCount: 1\nmongodsPerShardCount: 3\nmongosCount: 0\nconfigServerCount: 3\n',
    'spec.mongosCount: mongosCount must be at least 1',
  ],
  [
    'no shards',
    'type: ShardedCluster\nversion: 8.0.12\nshardCount: 0\nmongodsPerShardCount: 3\nmongosCount: 2\nconfigServerCount: 3\n',
    'spec.shardCount: shardCount must be at least 1',
  ],
  [
    'sharded config',
    'type: ShardedCluster\nversion: 8.0.12\nshardCount: 1\nmongodsPerShardCount: 3\nmongosCount: 2\nconfigServerCount: 3\nadditionalMongodConfig: {a: 1}\n',
    "spec.additionalMongodConfig: 'spec.additionalMongodConfig' cannot be specified if type of MongoDB is ShardedCluster",
  ],
  [
    'mongos in a set',
    `${BASE}mongos: {additionalMongodConfig: {}}\n`,
    "spec.mongos: 'spec.mongos', 'spec.configSrv', 'spec.shard' cannot be specified if type of MongoDB is ReplicaSet",
  ],
];

test.each(TEXTS)('B1.1 the documented rule about %s keeps its text', (_, spec, wanted) => {
  expect(problems(set(spec))).toContain(wanted);
});

test('A1.3 an unsupported series is refused with the list, at the path of the given document', () => {
  expect(problems(set(BASE.replace('8.0.12', '4.4.0')))).toEqual([
    'spec.version: series 4.4 is not supported; supported: 8.0.32-14 (default), 8.0.29-13, 7.0.43-23, 7.0.40-22, 6.0.29-23 (deprecated)',
  ]);
  expect(problems(set(BASE.replace('8.0.12-ent', '8.0')))).toEqual([
    'spec.version: must be a quoted string such as "8.0.12"',
  ]);
});

test('a sharded cluster converts with its parts', () => {
  const document = set(`type: ShardedCluster
version: 8.0.12
shardCount: 2
mongodsPerShardCount: 3
mongosCount: 2
configServerCount: 3
shard: {additionalMongodConfig: {operationProfiling.mode: slowOp}}
shardPodSpec: {persistence: {single: {storage: 20Gi}}}
configSrvPodSpec: {persistence: {single: {storage: 5Gi}}}
`);
  expect(converted(document).spec).toMatchObject({
    shardCount: 2,
    shard: { storage: { size: '20Gi' }, additionalMongodConfig: { operationProfiling: { mode: 'slowOp' } } },
    configSrv: { storage: { size: '5Gi' } },
  });
});

test('B3 a user of the public operator becomes one of ours', () => {
  const document = read(`apiVersion: mongodb.com/v1
kind: MongoDBUser
metadata: {name: my-scram-user, namespace: team}
spec:
  passwordSecretKeyRef: {name: my-scram-secret, key: password}
  username: my-scram-user
  db: admin
  mongodbResourceRef: {name: my-scram-enabled-replica-set}
  roles: [{db: admin, name: clusterAdmin}, {db: admin, name: readWriteAnyDatabase}]
`);
  const result = validate(document);
  expect(result.problems).toEqual([]);
  expect((result.object as MongoDBUser).spec).toEqual({
    username: 'my-scram-user',
    db: 'admin',
    mongodbResourceRef: { name: 'my-scram-enabled-replica-set' },
    passwordSecretKeyRef: { name: 'my-scram-secret', key: 'password' },
    roles: [
      { name: 'clusterAdmin', db: 'admin' },
      { name: 'readWriteAnyDatabase', db: 'admin' },
    ],
  });
});

test('S8 secret-looking values in unknown fields are not kept', () => {
  const document = set(
    `${BASE}custom: {password: canary-1, uri: "mongodb://a:canary-2@h/"}\nagent: {startupOptions: {apiToken: canary-3}}\n`,
  );
  const result = validate(document);
  expect(result.problems).toEqual([]);
  expect(JSON.stringify(result)).not.toMatch(/canary/);
  expect(keptFields((result.object as MongoDB).metadata.annotations)['custom']).toEqual({
    password: '***',
    uri: 'mongodb://a:***@h/',
  });
});

test('a Secret document is for the sealed store; other documents of Kubernetes are passed over', () => {
  const document = read(
    'apiVersion: v1\nkind: Secret\nmetadata: {name: pw}\ndata: {password: cMOkc3N3w7ZyZA==}\nstringData: {other: canary-4}\n',
  );
  const result = validate(document);
  expect(result.object).toBeUndefined();
  expect(result.secret?.namespace).toBe('default');
  expect(result.secret?.values['password']?.reveal()).toBe('pässwörd');
  expect(result.secret?.values['other']?.reveal()).toBe('canary-4');
  expect(JSON.stringify(result)).not.toContain('canary-4');
  expect(
    problems(read('apiVersion: v1\nkind: Secret\nmetadata: {name: pw}\ndata: {password: "not base64!"}\n')),
  ).toEqual(['data.password: must be base64 of UTF-8 text']);
  const map = validate(
    read('apiVersion: v1\nkind: ConfigMap\nmetadata: {name: my-project}\ndata: {baseUrl: x}\n'),
  );
  expect(map.problems).toEqual([]);
  expect(map.passedOver).toMatch(/ConfigMap of Kubernetes/);
});

test('kinds that are not taken are refused with what to do', () => {
  const kind = (apiVersion: string, name: string) =>
    validate({ apiVersion, kind: name, metadata: { name: 'a' }, spec: {} }).problems;
  expect(kind('mongodb.com/v1', 'ClusterMongoDBRole')[0]?.message).toMatch(
    /not supported yet; copy its roles/,
  );
  expect(kind('mongodb.com/v1', 'MongoDBOpsManager')[0]?.message).toMatch(/takes the place of Ops Manager/);
  expect(kind('psmdb.percona.com/v1', 'PerconaServerMongoDB')[0]?.message).toMatch(
    /not supported yet; declare a MongoDB/,
  );
});
