/** S8: secrets are looked for in every place where they must not be. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadMasterKey } from '../src/security/master-key.ts';
import { openSecrets } from '../src/security/secrets.ts';
import { systemClock } from '../src/server/clock.ts';
import { openStore } from '../src/store/open.ts';
import { replicaSet } from './support/documents.ts';
import { kill, LONG, Stack } from './support/stack.ts';

/** Holds every character that quoting, encoding or a regular expression could stumble over. */
const CANARY = `p@ss:/%41 "q' \\ü$&#?+canary-7f3a`;
let stack: Stack;

beforeAll(async () => {
  stack = await Stack.start();
  await stack.apply({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'app-password' },
    stringData: { password: CANARY },
  });
  await stack.apply(replicaSet('canary'));
  await stack.apply({
    apiVersion: 'belay.dev/v1',
    kind: 'MongoDBUser',
    metadata: { name: 'canary-app' },
    spec: {
      username: 'näme:/@x',
      db: 'admin',
      mongodbResourceRef: { name: 'canary' },
      passwordSecretKeyRef: { name: 'app-password' },
      roles: [{ name: 'readWriteAnyDatabase', db: 'admin' }],
    },
  });
  await stack.untilReady('canary');
  await stack.untilPhase('canary-app', 'Ready', 'default', 'mongodbusers');
  // Make noise: restarts, a failed login, a lost agent, all of which are logged.
  kill(stack.mongods()[0] ?? 0);
  await stack
    .connect('canary', 'canary-app', {
      auth: { username: 'näme:/@x', password: `${CANARY}x` },
      serverSelectionTimeoutMS: 3000,
    })
    .catch(() => null);
  stack.agents.get('local')?.kill('SIGKILL');
  await stack.startAgent('local');
  await stack.untilReady('canary');
}, LONG);
afterAll(() => stack?.stop(), LONG);

/** Every secret of the cluster, as the sealed store knows them. */
async function secretsOf(): Promise<readonly string[]> {
  const file = path.join(stack.dir, 'server', 'belay.db');
  const store = await openStore(file, { clock: systemClock });
  try {
    const key = await loadMasterKey({ file: path.join(stack.dir, 'server', 'master.key'), environment: {} });
    const secrets = await openSecrets(store, key);
    // A user's name and the mark of who owns a row are kept beside the secrets, but are none.
    const names = (await secrets.list('')).filter((name) => !/\/(\.owner|username)$/.test(name));
    const values = await Promise.all(names.map(async (name) => (await secrets.get(name))?.reveal() ?? ''));
    // A certificate is public; its key and everything else is not.
    const parts = values.flatMap((v) =>
      v.includes('PRIVATE KEY')
        ? [v.split('-----END')[0]!.split('\n').slice(1, 3).join('\n')]
        : v.startsWith('mongodb://') || v.length < 8
          ? []
          : [v],
    );
    return [
      ...new Set([
        CANARY,
        readFileSync(path.join(stack.dir, 'server', 'master.key'), 'utf8').trim(),
        ...parts,
      ]),
    ];
  } finally {
    await store.close();
  }
}

/** A secret as text may hide in these forms. */
const forms = (secret: string): readonly string[] => [
  secret,
  JSON.stringify(secret).slice(1, -1),
  encodeURIComponent(secret),
  Buffer.from(secret).toString('base64').replace(/=+$/, ''),
  Buffer.from(secret).toString('hex'),
];

function* filesBelow(dir: string): Generator<string> {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const file = path.join(dir, entry.name);
    if (entry.isDirectory()) yield* filesBelow(file);
    else if (entry.isFile()) yield file;
  }
}

test(
  'S8 A2.6 no secret is in logs, database rows, arguments, environments, API answers, events or status',
  async () => {
    const secrets = await secretsOf();
    expect(secrets.length).toBeGreaterThan(8);
    const sinks = new Map<string, string>();
    for (const file of filesBelow(stack.dir)) {
      // Where they must be: the 0600 files of a member, the identity, the master key, the admin token, the data itself.
      if (/\/(snapshot\.json|keyfile|identity\/.*|master\.key|admin\.token|volumes\/.*|tls\/.*)$/.test(file))
        continue;
      sinks.set(file, readFileSync(file, 'latin1'));
    }
    for (const pid of processesOf(stack)) {
      sinks.set(`argv of ${pid}`, read(`/proc/${pid}/cmdline`));
      sinks.set(`environment of ${pid}`, read(`/proc/${pid}/environ`));
    }
    for (const url of ['mongodb', 'mongodbusers', 'hosts', 'events', 'secrets'].flatMap((p) => [
      `/api/v1/namespaces/default/${p}`,
      `/api/v1/${p}`,
    ])) {
      sinks.set(url, JSON.stringify(await stack.server.api.get(url).catch((e: Error) => e.message)));
    }
    for (const tail of ['', '/status', '/events', '/operations', '/connection']) {
      const url = `/api/v1/namespaces/default/mongodb/canary${tail}`;
      sinks.set(url, JSON.stringify(await stack.server.api.get(url)));
    }
    sinks.set('metrics', await (await fetch(`${stack.server.url}/metrics`)).text());
    const leaks: string[] = [];
    for (const [where, text] of sinks) {
      for (const secret of secrets) {
        for (const form of forms(secret))
          if (text.includes(form) || text.includes(Buffer.from(form).toString('latin1')))
            leaks.push(`${where} holds ${secret.slice(0, 4)}…`);
      }
    }
    expect(sinks.size).toBeGreaterThan(20);
    expect(leaks).toEqual([]);
  },
  LONG,
);

test('S8 files that hold secrets are readable by their owner only', () => {
  const open: string[] = [];
  for (const file of filesBelow(stack.dir)) {
    if (
      !/\/(snapshot\.json|keyfile|identity\/.*|master\.key|admin\.token|tls\/(?!ca\.pem).*|belay\.db)$/.test(
        file,
      )
    )
      continue;
    if ((statSync(file).mode & 0o077) !== 0) open.push(file);
  }
  expect(open).toEqual([]);
});

test(
  'CRD-02 URI-02 the odd user name and password log in through the printed connection string',
  async () => {
    const printed = await stack.belay(['connect', 'canary', '--print', '--user', 'canary-app']);
    expect(printed.out).toContain('n%C3%A4me%3A%2F%40x:');
    const client = await stack.connect('canary', 'canary-app');
    const status = await client.db('admin').command({ connectionStatus: 1 });
    await client.close();
    expect(status['authInfo'].authenticatedUsers).toEqual([{ user: 'näme:/@x', db: 'admin' }]);
  },
  LONG,
);

const processesOf = (of: Stack): readonly string[] =>
  execFileSync('ps', ['-eo', 'pid=,args='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(of.dir))
    .map((line) => line.trim().split(/\s+/)[0] as string);

function read(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
