import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { ORDERS } from '../server/testing/rig.ts';
import { type CliRig, makeCli, ORDERS_YAML, USER_YAML } from './testing/rig.ts';

let cli: CliRig;
beforeEach(async () => {
  cli = await makeCli();
});
afterEach(() => cli.close());

const EXAMPLES = new URL('../../examples/', import.meta.url).pathname;
const applied = async (text = ORDERS_YAML): Promise<void> => {
  const { code, err } = await cli.belay(['apply', '-q', '-f', '-'], { stdin: text });
  expect({ code, err }).toEqual({ code: 0, err: '' });
};
const ready = async (): Promise<void> => {
  await applied();
  await cli.api.clock.advance(5 * SECOND);
};

// ── apply ──────────────────────────────────────────────────────────────────────────────────────────────────────────

test('apply says what became of each document, in order, and exits 0', async () => {
  const file = cli.file(
    'all.yaml',
    `${ORDERS_YAML}---\n${USER_YAML}---\napiVersion: v1\nkind: Secret\nmetadata: { name: pw }\nstringData: { password: x }\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: cm }\n`,
  );
  const first = await cli.belay(['apply', '-f', file]);
  expect(first.code).toBe(0);
  expect(first.out).toBe('mongodb/orders created\nmongodbusers/orders-app created\nsecrets/pw created\n');
  expect(first.err).toContain(`${file}:26:7  warning  kind  ConfigMap of Kubernetes has no meaning here`);
  const again = await cli.belay(['apply', '-f', file, '-q']);
  expect(again).toEqual({
    code: 0,
    out: 'mongodb/orders unchanged\nmongodbusers/orders-app unchanged\nsecrets/pw unchanged\n',
    err: '',
  });
  expect((await cli.belay(['apply', '-f', file, '-o', 'name', '-q'])).out).toBe(
    'mongodb/orders\nmongodbusers/orders-app\nsecrets/pw\n',
  );
  const json = JSON.parse((await cli.belay(['apply', '-q', '-f', file, '-o', 'json'])).out);
  expect(json).toMatchObject({ kind: 'List', items: [{ kind: 'MongoDB' }, { kind: 'MongoDBUser' }] });
});

test('apply --dry-run checks and changes nothing', async () => {
  const { code, out } = await cli.belay(['apply', '--dry-run', '-f', '-'], { stdin: ORDERS_YAML });
  expect({ code, out }).toEqual({ code: 0, out: 'mongodb/orders created (dry run)\n' });
  expect((await cli.belay(['get', 'mongodb'])).err).toBe('no mongodb found in namespace default\n');
});

test('apply of a folder takes its yaml and json files, in order of their names', async () => {
  cli.file('b.yaml', USER_YAML);
  cli.file(
    'a.json',
    JSON.stringify({
      apiVersion: 'belay.dev/v1',
      kind: 'MongoDB',
      metadata: { name: 'orders' },
      spec: { type: 'ReplicaSet', version: '8.0.32-14', members: 3 },
    }),
  );
  cli.file('c.txt', 'not for us');
  expect((await cli.belay(['apply', '-f', cli.dir])).out).toBe(
    'mongodb/orders created\nmongodbusers/orders-app created\n',
  );
});

test('a wrong second document leaves the first one unapplied', async () => {
  const file = cli.file(
    'two.yaml',
    `${ORDERS_YAML}---\n${USER_YAML.replace('username: app', 'username: 7')}`,
  );
  const { code, out, err } = await cli.belay(['apply', '-f', file]);
  expect({ code, out }).toEqual({ code: 4, out: '' });
  expect(err).toBe(
    `${file}: MongoDBUser default/orders-app was not applied, 1 problem\n  15:13  spec.username  must be text, not a number\n`,
  );
  expect((await cli.belay(['get', 'mongodb', '-o', 'name'])).out).toBe('');
});

test('B1.4 a document with twenty mistakes gets all of them with line, column and field, sorted and aligned', async () => {
  const file = cli.file(
    'bad.yaml',
    readFileSync(new URL('../model/testing/twenty-mistakes.yaml', import.meta.url), 'utf8'),
  );
  const { code, err } = await cli.belay(['apply', '-f', file]);
  expect(code).toBe(4);
  const [head = '', ...lines] = err.trimEnd().split('\n');
  expect(head).toMatch(/^.*bad\.yaml: MongoDB Team A\/9_Orders was not applied, (\d+) problems$/);
  expect(lines).toHaveLength(Number(/(\d+) problems/.exec(head)?.[1]));
  const places = lines.map(
    (line) => /^ {2}(\d+):(\d+) +(\S+) +(.+)$/.exec(line)?.slice(1, 3).map(Number) ?? [0, 0],
  );
  const sorted = [...places].sort(([a = 0, b = 0], [c = 0, d = 0]) => a - c || b - d);
  expect(places).toEqual(sorted);
  expect(places.every(([line = 0]) => line > 1)).toBe(true);
  expect(lines).toContainEqual(
    expect.stringMatching(/^ {2}21:3 +spec\.backups +unknown field, did you mean spec\.backup\?$/),
  );
  const short = lines.filter((line) => (/^ {2}\S+ +(\S+)/.exec(line)?.[1]?.length ?? 99) <= 40);
  const columns = new Set(short.map((line) => /^( {2}\S+ +\S+ +)/.exec(line)?.[1]?.length));
  expect(columns.size).toBe(1);
  expect(err).not.toContain('canary-4711');
  const json = await cli.belay(['apply', '-f', file, '-o', 'json']);
  expect(JSON.parse(json.err).errors[0]).toEqual({
    file,
    line: expect.any(Number),
    column: expect.any(Number),
    path: expect.any(String),
    message: expect.any(String),
    code: 'Invalid',
  });
});

test('text that cannot be read says file, line and column, and nothing is applied', async () => {
  const good = cli.file('good.yaml', ORDERS_YAML);
  const bad = cli.file('bad.yaml', 'kind: MongoDB\nspec: [1, 2\nmembers: 3\n');
  const { code, out, err } = await cli.belay(['apply', '-f', good, '-f', bad]);
  expect({ code, out }).toEqual({ code: 4, out: '' });
  expect(err).toMatch(/^\S*bad\.yaml:\d+:\d+ {2}is not valid YAML: /);
  expect((await cli.belay(['get', 'mongodb', '-o', 'name'])).out).toBe('');
  expect((await cli.belay(['apply', '-f', cli.file('empty.yaml', '# nothing\n')])).code).toBe(2);
  const missing = await cli.belay(['apply', '-f', 'nowhere.yaml']);
  expect(missing).toEqual({
    code: 2,
    out: '',
    err: 'error Usage: nowhere.yaml does not exist\nfix: give a file, a folder or - for standard input with -f\n',
  });
  expect((await cli.belay(['apply'])).err).toContain('name a file, a folder or - with -f');
});

test('one name given twice is refused with both places; in two namespaces it is two objects', async () => {
  const file = cli.file('twice.yaml', `${ORDERS_YAML}---\n${ORDERS_YAML}`);
  const { code, err } = await cli.belay(['apply', '-f', file]);
  expect(code).toBe(4);
  expect(err).toContain(
    `  13:9  metadata.name  MongoDB default/orders is given twice (first in ${file}:4:9)`,
  );
  const other = `${ORDERS_YAML}---\n${ORDERS_YAML.replace('name: orders', 'name: orders\n  namespace: prod')}`;
  expect((await cli.belay(['apply', '-f', '-'], { stdin: other })).code).toBe(0);
  const unnamed = cli.file('a.yaml', 'kind: MongoDB\n');
  const second = cli.file('b.yaml', 'kind: MongoDB\n');
  expect((await cli.belay(['apply', '-f', unnamed, '-f', second])).err).not.toContain('given twice');
});

test('warnings stand with their place; the public sample is taken', async () => {
  const { code, out, err } = await cli.belay(['apply', '-f', `${EXAMPLES}mongodb-com-replica-set.yaml`]);
  expect({ code, out }).toEqual({ code: 0, out: 'mongodb/my-replica-set created\n' });
  expect(err).toMatch(/mongodb-com-replica-set\.yaml:\d+:\d+ {2}warning {2}spec\.podSpec/);
  expect((await cli.belay(['apply', '-q', '-f', `${EXAMPLES}mongodb-com-replica-set.yaml`])).err).toBe('');
});

test('a conflict is told at its document', async () => {
  const file = cli.file(
    'old.yaml',
    ORDERS_YAML.replace('name: orders', 'name: orders\n  resourceVersion: "1"'),
  );
  const { code, err } = await cli.belay(['apply', '-f', file]);
  expect(code).toBe(4);
  expect(err).toContain('MongoDB default/orders was not applied, 1 problem');
  expect(err).toContain('fix: read it again');
});

// ── plan ───────────────────────────────────────────────────────────────────────────────────────────────────────────

test('plan prints every step and exits 10, 0 when there is nothing to do, 4 when it is refused', async () => {
  const file = cli.file('orders.yaml', ORDERS_YAML);
  const fresh = await cli.belay(['plan', '-f', file]);
  expect(fresh.code).toBe(10);
  expect(fresh.out).toMatch(/^MongoDB default\/orders {3}new\n\n 1 {2}ensureCredentials/);
  expect(fresh.out).toMatch(/\n\d+ steps, nothing goes down\.\nHow long it takes is not known/);
  expect(JSON.parse((await cli.belay(['plan', '-f', file, '-o', 'json'])).out)).toMatchObject({
    converges: true,
  });
  await ready();
  expect(await cli.belay(['plan', '-f', file])).toMatchObject({
    code: 0,
    out: expect.stringContaining('nothing to do'),
  });
  const asleep = await cli.belay(['plan', '-f', '-'], { stdin: `${ORDERS_YAML}  suspend: true\n` });
  expect(asleep.code).toBe(10);
  expect(asleep.out).toContain('generation 1 → 2\n  spec.suspend   false → true\n');
  expect(asleep.out).toContain('members go down in 1 of them.');
  const bad = await cli.belay(['plan', '-f', '-'], {
    stdin: ORDERS_YAML.replace('members: 3', 'members: 4'),
  });
  expect(bad).toMatchObject({
    code: 4,
    out: '',
    err: expect.stringContaining('cannot be planned, 1 problem'),
  });
});

test('a plan without hosts says what stands in the way and exits 4', async () => {
  await cli.close();
  cli = await makeCli(undefined, []);
  const { code, out } = await cli.belay(['plan', '-f', '-'], { stdin: ORDERS_YAML });
  expect(code).toBe(4);
  expect(out).toMatch(/refused {2}NoHosts: no host has joined\n {9}start an agent/);
});

// ── wait ───────────────────────────────────────────────────────────────────────────────────────────────────────────

test('wait ends as soon as it holds, and shows who is where on the way', async () => {
  await applied();
  const waiting = cli.belay(['wait', 'mongodb', 'orders', '--for', 'Ready']);
  await cli.api.clock.advance(5 * SECOND);
  const { code, out, err } = await waiting;
  expect({ code, out }).toEqual({ code: 0, out: 'mongodb/orders Ready\n' });
  expect(err).toContain('orders-0   ✔ imported  ✔ deployed  ✔ running   PRIMARY    lag –');
  expect(err).toContain('✔ users 5/5');
  expect(err).not.toContain('\u001b');
  expect(new Set(err.split('\n')).size).toBeGreaterThan(3);
  for (const goal of ['condition=Ready', 'phase=Ready', 'condition=Blocked=False'])
    expect((await cli.belay(['wait', 'mongodb/orders', `--for=${goal}`, '-q'])).code).toBe(0);
  await applied(USER_YAML);
  await cli.api.clock.advance(5 * SECOND);
  expect((await cli.belay(['wait', 'mdbu', 'orders-app', '--for', 'Ready', '-q'])).out).toBe(
    'mongodbusers/orders-app Ready\n',
  );
});

test('a wait that runs out exits 3 and says what was waited for', async () => {
  await cli.close();
  cli = await makeCli(undefined, []);
  await applied();
  await cli.api.clock.advance(SECOND);
  const { code, err } = await cli.belay([
    'wait',
    'mongodb',
    'orders',
    '--for',
    'Ready',
    '--timeout',
    '50ms',
    '-q',
  ]);
  expect(code).toBe(3);
  expect(err).toMatch(
    /^error WaitTimedOut: Ready of mongodb\/orders was not reached within 50 ms; phase \w+: no host has joined/,
  );
  expect(err).toContain('fix: look closer: belay describe mongodb orders');
});

test('waiting for what is not there fails at once; for its absence it is over at once', async () => {
  const { code, err } = await cli.belay(['wait', 'mongodb', 'nobody', '--for', 'Ready']);
  expect(code).toBe(1);
  expect(err).toContain('error NotFound: mongodb default/nobody does not exist');
  expect(await cli.belay(['wait', 'mongodb', 'nobody', '--for', 'delete'])).toMatchObject({
    code: 0,
    out: 'mongodb/nobody deleted\n',
  });
  for (const goal of ['phase=a=b', 'x y', '='])
    expect((await cli.belay(['wait', 'mongodb', 'nobody', '--for', goal])).code).toBe(2);
});

test('what can never come is refused at once, not waited for: an unknown condition, status or phase', async () => {
  await applied();
  await cli.api.clock.advance(5 * SECOND);
  for (const goal of [
    'nonsense',
    'condition=Suspended',
    'condition=Ready=maybe',
    'phase=Never',
    'Suspended=False',
  ]) {
    const { code, err } = await cli.belay(['wait', 'mongodb', 'orders', '--for', goal]);
    expect([code, err]).toEqual([
      2,
      expect.stringContaining(`error Usage: ${goal} is neither a condition nor a phase of mongodb\n`),
    ]);
    expect(err).toContain('fix: conditions: Ready, Progressing, Blocked');
  }
  const host = await cli.belay(['wait', 'host', 'db1', '--for', 'condition=Ready']);
  expect([host.code, host.err]).toEqual([2, expect.stringContaining('fix: phases: Pending, ')]);
  // Every condition there is can be waited for.
  const { conditions } = JSON.parse((await cli.belay(['get', 'mdb', 'orders', '-o', 'json'])).out).status;
  for (const { type, status } of conditions) {
    const goal = `condition=${type}=${status}`;
    expect((await cli.belay(['wait', 'mongodb', 'orders', '-q', '--for', goal])).code, goal).toBe(0);
  }
});

test('Ctrl-C while waiting ends with 130', async () => {
  await applied();
  const stop = new AbortController();
  const waiting = cli.belay(['wait', 'mongodb', 'orders', '--for', 'phase=Failed'], {
    signal: stop.signal,
    onText: () => stop.abort(),
  });
  expect((await waiting).code).toBe(130);
});

test('apply --wait follows to Ready', async () => {
  const waiting = cli.belay(['apply', '-f', '-', '--wait'], { stdin: `${ORDERS_YAML}---\n${USER_YAML}` });
  for (let done = false; !done; ) {
    await cli.api.clock.advance(SECOND);
    done = await Promise.race([
      waiting.then(() => true),
      new Promise<false>((r) => setImmediate(() => r(false))),
    ]);
  }
  expect((await waiting).code).toBe(0);
  expect((await cli.belay(['get', 'mongodbusers', '-o', 'wide'])).out).toContain('Ready');
});

// ── delete ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const deleted = async (args: readonly string[], options = {}) => {
  const running = cli.belay(['delete', ...args], options);
  for (let done = false; !done; done = await settled(running)) await cli.api.clock.advance(SECOND);
  return running;
};

const settled = (running: Promise<unknown>): Promise<boolean> =>
  Promise.race([running.then(() => true), new Promise<false>((r) => setImmediate(() => r(false)))]);

test('data is deleted only after a yes', async () => {
  await ready();
  const nobody = await cli.belay(['delete', 'mongodb', 'orders']);
  expect(nobody).toEqual({
    code: 2,
    out: '',
    err: 'error Usage: deleting MongoDB orders destroys its data\nfix: add --yes, or --keep-volumes to keep data and credentials\n',
  });
  const asked: string[] = [];
  const no = await cli.belay(['delete', 'mongodb', 'orders'], { ask: async (q) => asked.push(q) === 0 });
  expect(no).toMatchObject({ code: 1, err: 'nothing was deleted\n' });
  expect(asked).toEqual(['Delete MongoDB orders with all data? This cannot be undone.']);
  expect((await cli.belay(['get', 'mongodb', '-o', 'name'])).out).toBe('mongodb/orders\n');
  const yes = await deleted(['mongodb/orders'], { ask: async () => true });
  expect(yes).toMatchObject({ code: 0, out: 'mongodb/orders deleted\n' });
  expect((await cli.belay(['delete', 'mongodb', 'orders', '--yes'])).code).toBe(1);
});

test('several databases are asked to go before the first one is waited for', async () => {
  await ready();
  await applied(ORDERS_YAML.replace('name: orders', 'name: carts'));
  await cli.api.clock.advance(5 * SECOND);
  // With a host away neither can be gone: both are only marked.
  cli.api.fleet.connect('db1', false);
  const going = cli.belay(['delete', 'mongodb', 'orders', 'carts', '--yes']);
  const marked = async (): Promise<number> => {
    const { out } = await cli.belay(['get', 'mongodb', '-o', 'json']);
    return out.match(/"deletionTimestamp"/g)?.length ?? 0;
  };
  await expect.poll(marked).toBe(2);
  cli.api.fleet.connect('db1', true);
  for (let done = false; !done; done = await settled(going)) await cli.api.clock.advance(SECOND);
  expect((await going).out).toBe('mongodb/orders deleted\nmongodb/carts deleted\n');
});

test('A14.2 delete --keep-volumes suspends, says how to come back, and needs no yes', async () => {
  await ready();
  const kept = await deleted(['mongodb', 'orders', '--keep-volumes']);
  expect(kept).toMatchObject({
    code: 0,
    out: expect.stringContaining('mongodb/orders suspended: volumes, credentials and certificates are kept'),
  });
  expect((await cli.belay(['get', 'mongodb'])).out).toContain('Suspended');
  const described = await cli.belay(['describe', 'mongodb', 'orders']);
  expect(described.out).toContain('bring it back:');
  expect((await cli.belay(['delete', 'host', 'db1', '--keep-volumes'])).code).toBe(1);
});

test('several objects, whole files, users: all must be there before the first one goes', async () => {
  await ready();
  await applied(USER_YAML);
  await cli.api.clock.advance(5 * SECOND);
  const file = cli.file('all.yaml', `${ORDERS_YAML}---\n${USER_YAML}`);
  expect((await cli.belay(['delete', 'mongodb', 'orders', 'nobody', '--yes'])).code).toBe(1);
  expect((await cli.belay(['get', 'mongodb', '-o', 'name'])).out).toBe('mongodb/orders\n');
  const all = await deleted(['-f', file, '--yes']);
  expect(all.out).toBe('mongodbusers/orders-app deleted\nmongodb/orders deleted\n');
  expect((await cli.belay(['delete', 'mongodb'])).code).toBe(2);
  await applied('apiVersion: v1\nkind: Secret\nmetadata: { name: pw }\nstringData: { password: x }\n');
  expect((await cli.belay(['delete', 'secret', 'pw'])).out).toBe('secrets/pw deleted\n');
});

// ── who gets in ────────────────────────────────────────────────────────────────────────────────────────────────────

test('tokens: made, listed, revoked; a join token comes with the command to run', async () => {
  const made = await cli.belay(['token', 'create', 'ci', '--role', 'operator', '--ttl', '1h']);
  expect(made.out).toMatch(/^belay_api_\S+\n$/);
  const id = /token (\w+) \(operator\)/.exec(made.err)?.[1] ?? '';
  expect((await cli.belay(['token', 'list'])).out).toMatch(new RegExp(`${id} +ci +operator`));
  expect((await cli.belay(['get', 'mongodb'], { env: { BELAY_TOKEN: made.out } })).code).toBe(0);
  expect((await cli.belay(['token', 'revoke', id])).out).toBe(`token ${id} revoked\n`);
  expect((await cli.belay(['get', 'mongodb'], { env: { BELAY_TOKEN: made.out } })).code).toBe(4);
  expect((await cli.belay(['token', 'create', 'x', '--role', 'king'])).code).toBe(2);
  const join = await cli.belay(['host', 'token', 'db7']);
  expect(join.out).toMatch(
    /^BELAY_JOIN_TOKEN=belay_join_\S+ belay agent --data \S+ --server https:\/\/plane:7718 --ca-fingerprint sha256:00 --name db7\n$/,
  );
});

test('refusals of the server exit 4 and say who may', async () => {
  const viewer = { env: { BELAY_TOKEN: cli.api.token.viewer } };
  const refused = await cli.belay(['apply', '-f', '-'], { ...viewer, stdin: ORDERS_YAML });
  expect(refused).toMatchObject({
    code: 4,
    err: expect.stringContaining(
      'error Forbidden: token the viewer has role viewer, but operator is needed: Create or change',
    ),
  });
  expect((await cli.belay(['apply', '--dry-run', '-f', '-'], { ...viewer, stdin: ORDERS_YAML })).code).toBe(
    0,
  );
  expect((await cli.belay(['plan', '-f', '-'], { ...viewer, stdin: ORDERS_YAML })).code).toBe(10);
  const none = await cli.belay(['get', 'mongodb'], { env: { BELAY_TOKEN: '' } });
  expect(none).toMatchObject({
    code: 4,
    err: expect.stringContaining('error Unauthorized: no token was sent'),
  });
  const json = await cli.belay(['get', 'mongodb', '-o', 'json'], { env: { BELAY_TOKEN: '' } });
  expect(JSON.parse(json.err)).toMatchObject({
    code: 'Unauthorized',
    detail: expect.any(String),
    fix: expect.any(String),
  });
  expect((await cli.api.call('GET', ORDERS)).status).toBe(404);
});
