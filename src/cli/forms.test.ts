/** Every verb answers in the form that was asked for, on the stream a program reads. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { type CliRig, makeCli, ORDERS_YAML, USER_YAML } from './testing/rig.ts';
import { shellArguments } from './verbs/connect.ts';

let cli: CliRig;
beforeAll(async () => {
  cli = await makeCli();
  await cli.belay(['apply', '-q', '-f', '-'], { stdin: `${ORDERS_YAML}---\n${USER_YAML}` });
  await cli.api.clock.advance(5 * SECOND);
});
afterAll(() => cli.close());

const CHANGED = ORDERS_YAML.replace('members: 3', 'members: 5');
const BAD = ORDERS_YAML.replace('members: 3', 'members: 4').replace('orders', 'other');

test('plan -o json: the plan alone, and nothing on the other stream', async () => {
  const { code, out, err } = await cli.belay(['plan', '-o', 'json', '-f', '-'], { stdin: CHANGED });
  expect([code, err]).toEqual([10, '']);
  expect(JSON.parse(out)).toMatchObject({ kind: 'MongoDB', name: 'orders', refusals: [], converges: true });
});

test('plan -o json of what is refused: in the shape of a plan, and the failure in the shape of every other', async () => {
  const { code, out, err } = await cli.belay(['plan', '-o', 'json', '-f', '-'], {
    stdin: `${CHANGED}---\n${BAD}`,
  });
  expect(code).toBe(4);
  const [good, bad] = JSON.parse(out);
  expect(good).toMatchObject({ name: 'orders', refusals: [] });
  expect(bad).toMatchObject({
    kind: 'MongoDB',
    name: 'other',
    steps: [],
    converges: false,
    refusals: [{ by: 'Invalid', detail: expect.stringMatching(/:\d+:\d+ spec\.members 4 is not allowed/) }],
  });
  expect(JSON.parse(err)).toMatchObject({
    code: 'Invalid',
    detail: '1 document refused',
    errors: [{ path: 'spec.members', line: expect.any(Number), column: expect.any(Number) }],
  });
  const apply = await cli.belay(['apply', '-o', 'json', '-f', '-'], { stdin: BAD });
  expect(JSON.parse(apply.err)).toMatchObject({ code: 'Invalid', detail: '1 document refused' });
});

test('explain -o json and yaml: the same as data; -o name: what can be explained further', async () => {
  const field = JSON.parse((await cli.belay(['explain', 'mongodb.spec.storage', '-o', 'json'])).out);
  expect(field).toMatchObject({
    kind: 'MongoDB',
    path: 'spec.storage',
    name: 'storage',
    required: false,
    fields: [
      { name: 'size', default: '10Gi', description: expect.stringContaining('Size') },
      { name: 'class' },
    ],
  });
  expect((await cli.belay(['explain', 'mongodb.spec.platform', '-o', 'yaml'])).out).toMatch(
    /accepted:\n {2}- hosts\n/,
  );
  expect((await cli.belay(['explain', 'mongodb.spec.storage', '-o', 'name'])).out).toBe(
    'spec.storage.size\nspec.storage.class\n',
  );
  expect((await cli.belay(['explain', '-o', 'name'])).out).toMatch(/^mongodb\n/);
});

test.each([
  ['plan', ['-f', '-'], /^mongodb\/orders\n$/],
  ['describe', ['mongodb', 'orders'], /^mongodb\/orders\n$/],
  ['wait', ['mongodb', 'orders', '--for', 'Ready'], /^mongodb\/orders\n$/],
  ['events', [], /^(events\/\S+\n)+$/],
  ['convert', ['-f', '-'], /^mongodb\/orders\n$/],
  ['catalog', [], /^(\d\S+\n)+$/],
  ['get', ['mongodb'], /^mongodb\/orders\n$/],
] as const)('%s -o name prints names and nothing else', async (verb, words, shape) => {
  const { out } = await cli.belay([verb, ...words, '-o', 'name'], { stdin: ORDERS_YAML });
  expect(out).toMatch(shape);
});

test('-o name of what is made, deleted and taken back', async () => {
  await cli.belay(['apply', '-q', '-f', '-'], { stdin: USER_YAML.replace('orders-app', 'gone') });
  const deleted = await cli.belay(['delete', 'mongodbuser', 'gone', '--yes', '--no-wait', '-o', 'name']);
  expect(deleted.out).toBe('mongodbusers/gone\n');
  const { id } = JSON.parse((await cli.belay(['token', 'create', 'ci', '-o', 'json'])).out);
  expect((await cli.belay(['token', 'list', '-o', 'name'])).out.split('\n')).toContain(id);
  expect((await cli.belay(['token', 'revoke', id, '-o', 'name'])).out).toBe(`${id}\n`);
});

test('-o name where there is no name is refused, not ignored', async () => {
  for (const words of [
    ['version'],
    ['doctor'],
    ['connect', 'orders'],
    ['host', 'token'],
    ['token', 'create', 'x'],
  ]) {
    const { code, out, err } = await cli.belay([...words, '-o', 'name']);
    expect([code, out], words.join(' ')).toEqual([2, '']);
    expect(err).toContain('has no names to print');
  }
});

test('events: the newest last, as the help says, and what a moment amounts to after its causes', async () => {
  cli.api.fleet.connect('db2', false);
  await cli.api.clock.advance(60 * SECOND);
  cli.api.fleet.connect('db2', true);
  await cli.api.clock.advance(60 * SECOND);
  expect((await cli.belay(['events', '--help'])).out).toContain('the newest last');
  const items = JSON.parse((await cli.belay(['events', 'mongodb', 'orders', '-o', 'json'])).out) as {
    spec: { reason: string };
    lastTimestamp?: string;
  }[];
  const reasons =
    JSON.stringify(items)
      .match(/"reason":"\w+"/g)
      ?.map((r) => r.slice(10, -1)) ?? [];
  expect(reasons.at(-1)).toBe('Ready');
  expect(reasons.indexOf('MemberUnreachable')).toBeLessThan(reasons.indexOf('Degraded'));
  const [two, one] = await Promise.all(
    ['2', '1'].map((limit) => cli.belay(['events', 'mongodb', 'orders', '--limit', limit])),
  );
  const last = (out: string | undefined): string =>
    out?.trimEnd().split('\n').at(-1)?.replace(/ +/g, ' ') ?? '';
  expect(last(two?.out)).toBe(last(one?.out));
});

test('CFG-02 apply of a mongodb.com/v1 document without TLS says that members run with TLS disabled; a clear no is not repeated', async () => {
  const document = (security: string): string =>
    `apiVersion: mongodb.com/v1\nkind: MongoDB\nmetadata: { name: plain }\nspec:\n  type: ReplicaSet\n  members: 3\n  version: 8.0.32\n  opsManager: { configMapRef: { name: x } }\n  credentials: y\n${security}`;
  const silent = await cli.belay(['apply', '--dry-run', '-f', '-'], { stdin: document('') });
  expect(silent.code).toBe(0);
  expect(silent.err).toMatch(/warning {2}spec\.security\.tls {2}members run with TLS disabled/);
  const no = document('  security: { tls: { enabled: false } }\n');
  expect((await cli.belay(['apply', '--dry-run', '-f', '-'], { stdin: no })).err).not.toContain(
    'TLS disabled',
  );
  const yes = document('  security: { tls: { enabled: true } }\n');
  expect((await cli.belay(['apply', '--dry-run', '-f', '-'], { stdin: yes })).err).not.toContain(
    'TLS disabled',
  );
});

test('connect -- ARGS: mongosh connects first, then does what it was given, or stays open', () => {
  const script = '/tmp/x/connect.js';
  const load = ['--eval', 'load("/tmp/x/connect.js")'];
  expect(shellArguments(script, [])).toEqual(['--shell', script]);
  expect(shellArguments(script, ['--eval', 'db.hello()'])).toEqual([...load, '--eval', 'db.hello()']);
  expect(shellArguments(script, ['--eval=1'])).toEqual([...load, '--eval=1']);
  expect(shellArguments(script, ['job.js'])).toEqual([...load, 'job.js']);
  expect(shellArguments(script, ['--norc'])).toEqual([...load, '--shell', '--norc']);
});
