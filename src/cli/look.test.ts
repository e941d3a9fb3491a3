import { afterEach, beforeEach, expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { type CliRig, makeCli, ORDERS_YAML, USER_YAML } from './testing/rig.ts';

let cli: CliRig;
beforeEach(async () => {
  cli = await makeCli();
});
afterEach(() => cli.close());

const applied = async (text = ORDERS_YAML): Promise<void> => {
  const { code, err } = await cli.belay(['apply', '-q', '-f', '-'], { stdin: text });
  expect({ code, err }).toEqual({ code: 0, err: '' });
};
const ready = async (): Promise<void> => {
  await applied();
  await cli.api.clock.advance(5 * SECOND);
};

// ── get ────────────────────────────────────────────────────────────────────────────────────────────────────────────

test('get in every form', async () => {
  await ready();
  await applied(USER_YAML);
  await cli.api.clock.advance(5 * SECOND);
  const table = await cli.belay(['get', 'mongodb']);
  expect(table.out).toBe(
    'NAME    TYPE        VERSION    MEMBERS  PHASE  AGE\norders  ReplicaSet  8.0.32-14  3/3      Ready  10 s\n',
  );
  const wide = await cli.belay(['get', 'mdb', 'orders', '-o', 'wide']);
  expect(wide.out).toMatch(
    /READY {2}PRIMARY {3}LAG {2}SHARDS .*NOW {2}AGE\n.*True {3}orders-0 {2}0 s {2}–( +–){4} {4}10 s\n/,
  );
  expect((await cli.belay(['get', 'mongodb/orders', '-o', 'name'])).out).toBe('mongodb/orders\n');
  expect(JSON.parse((await cli.belay(['get', 'mongodb', 'orders', '-o', 'json'])).out)).toMatchObject({
    kind: 'MongoDB',
  });
  expect(JSON.parse((await cli.belay(['get', 'MongoDB', '-o', 'json'])).out)).toMatchObject({
    kind: 'MongoDBList',
  });
  expect((await cli.belay(['get', 'mongodb', 'orders', '-o', 'yaml'])).out).toMatch(
    /^apiVersion: belay\.dev\/v1\nkind: MongoDB\n/,
  );
  expect((await cli.belay(['-o', 'name', 'get', 'mongodb'])).out).toBe('mongodb/orders\n');
  expect((await cli.belay(['get', 'mongodb', '-A'])).out).toMatch(/^NAMESPACE {2}NAME/);
  expect((await cli.belay(['get', 'hosts'])).err).toBe('no hosts found\n');
  const all = await cli.belay(['get', 'all']);
  expect(all.out).toMatch(/^NAME .*PHASE[\s\S]*\n\nNAME .*USERNAME/);
  expect((await cli.belay(['get', 'mongodb,hosts', '-o', 'name'])).code).toBe(0);
});

test('what is exported can be applied again and is unchanged', async () => {
  await ready();
  const { out } = await cli.belay(['get', 'mongodb', 'orders', '-o', 'yaml']);
  expect((await cli.belay(['apply', '-f', '-'], { stdin: out })).out).toBe('mongodb/orders unchanged\n');
  const list = await cli.belay(['get', 'mongodb', '-o', 'json']);
  const items = JSON.parse(list.out)
    .items.map((o: unknown) => JSON.stringify(o))
    .join('\n---\n');
  expect((await cli.belay(['apply', '-f', '-'], { stdin: items })).out).toBe('mongodb/orders unchanged\n');
});

test('namespaces: from -n on either side of the verb, or from the environment', async () => {
  await applied(ORDERS_YAML.replace('name: orders', 'name: orders\n  namespace: prod'));
  for (const args of [
    ['-n', 'prod', 'get', 'mongodb'],
    ['get', 'mongodb', '--namespace=prod'],
    ['get', 'mongodb', '-A'],
  ])
    expect((await cli.belay([...args, '-o', 'name'])).out).toBe('mongodb/orders\n');
  expect((await cli.belay(['get', 'mongodb', '-o', 'name'], { env: { BELAY_NAMESPACE: 'prod' } })).out).toBe(
    'mongodb/orders\n',
  );
  expect((await cli.belay(['get', 'mongodb'])).err).toBe('no mongodb found in namespace default\n');
});

test('get -w prints what is there as a table, then a line for each change that shows, until Ctrl-C, which is a good end', async () => {
  await applied();
  const stop = new AbortController();
  let seen = '';
  const onText = (text: string): void => {
    seen += text;
    if (seen.includes('deleted')) stop.abort();
  };
  const watching = cli.belay(['get', 'mongodb', '-w', '-o', 'wide'], { signal: stop.signal, onText });
  while (!seen.includes('orders')) await new Promise((resolve) => setImmediate(resolve));
  await cli.api.clock.advance(5 * SECOND);
  while (!/Ready +True/.test(seen)) await new Promise((resolve) => setImmediate(resolve));
  await cli.belay(['delete', 'mongodb', 'orders', '--yes', '--no-wait']);
  await cli.api.clock.advance(20 * SECOND);
  const { code, out } = await watching;
  expect(code).toBe(0);
  const lines = out.trimEnd().split('\n');
  expect(lines[0]).toMatch(/^NAME +TYPE/);
  expect(lines.filter((line) => line.startsWith('NAME'))).toHaveLength(1);
  expect(lines.at(-1)).toMatch(/deleted$/);
  const essence = lines.map((line) => line.replace(/\d+ s$/, ''));
  essence.forEach((line, at) => {
    if (at > 0) expect(line).not.toBe(essence[at - 1]);
  });
});

// ── describe and events ────────────────────────────────────────────────────────────────────────────────────────────

test('C7.1 describe shows an override of maintenance windows, who asked for it, why, and how to end it', async () => {
  await applied(`${ORDERS_YAML}  maintenance: { windows: [{ cron: '0 2 * * 6', duration: 2h }] }\n`);
  await cli.api.clock.advance(5 * SECOND);
  const asked = await cli.belay(['override-windows', 'orders', '--reason', 'CVE', '--no-wait', '-o', 'json']);
  expect(asked.code).toBe(0);
  const { name } = JSON.parse(asked.out).metadata;
  await cli.api.clock.advance(5 * SECOND);
  const { out } = await cli.belay(['describe', 'mongodb', 'orders']);
  expect(out).toMatch(
    new RegExp(
      `\\nOverride {5}changes do not wait for maintenance windows until \\S+Z \\(the admin, ${name}\\): CVE\\n`,
    ),
  );
  expect(out).toContain('belay override-windows orders --end');
  expect(out).toContain('WindowsOverridden');
  const none = await cli.belay(['override-windows', 'orders']);
  expect([none.code, none.err]).toEqual([2, expect.stringContaining('--reason WHY')]);
});

test('A6.2 describe shows what sets a member apart: hidden, delay, tags', async () => {
  await applied(
    `${ORDERS_YAML}  memberConfig: [{ tags: { dc: east, rack: a } }, {}, { hidden: true, secondaryDelaySecs: 5400 }]\n`,
  );
  await cli.api.clock.advance(5 * SECOND);
  const { out } = await cli.belay(['describe', 'mongodb', 'orders']);
  expect(out).toMatch(/\n {2}orders-0 +.*priority 1 {2}votes 1, tags dc=east rack=a\n/);
  expect(out).toMatch(/\n {2}orders-1 +.*priority 1 {2}votes 1 {2}/);
  expect(out).toMatch(/\n {2}orders-2 +.*priority 0 {2}votes 1, hidden, delay 1 h 30 min {2}/);
});

test('describe of a degraded set: what is down, how many more may go, what you can do', async () => {
  await ready();
  cli.api.fleet.connect('db2', false);
  await cli.api.clock.advance(360 * SECOND);
  const { code, out } = await cli.belay(['describe', 'mongodb', 'orders']);
  expect(code).toBe(0);
  expect(out).toMatch(/\nPhase {8}Degraded: 2 of 3 voters healthy, majority 2: one more loss stops writes\n/);
  expect(out).toMatch(/\nConditions\n {2}Ready +False +MemberUnreachable +2 of 3 voters healthy/);
  expect(out).toMatch(/\n {2}orders-0 +PRIMARY +healthy +8\.0\.32-14 .*priority 1 {2}votes 1/);
  expect(out).toMatch(/\n {2}orders-1 +.* unknown .*host db2 .*agent last seen \d\d:\d\d:\d\d /);
  expect(out).toMatch(/\nWhat you can do\n {2}host db2 does not answer/);
  expect(out).toMatch(/\nEvents\n[\s\S]*Degraded +mongodb\/orders/);
  const json = JSON.parse((await cli.belay(['describe', 'mongodb', 'orders', '-o', 'json'])).out);
  expect(json).toMatchObject({ object: { kind: 'MongoDB' }, events: expect.any(Array) });
});

test('describe of every other kind', async () => {
  await ready();
  await applied(USER_YAML);
  await applied(
    'apiVersion: belay.dev/v1\nkind: Host\nmetadata: { name: db1, labels: { rack: a } }\nspec: { firstPort: 27100 }\n',
  );
  await applied('apiVersion: v1\nkind: Secret\nmetadata: { name: pw }\nstringData: { password: canary }\n');
  await cli.api.clock.advance(5 * SECOND);
  const user = await cli.belay(['describe', 'mongodbuser/orders-app']);
  expect(user.out).toMatch(/Phase {8}Ready[\s\S]*Spec\n {2}username: app\n/);
  const host = await cli.belay(['describe', 'host', 'db1']);
  expect(host.out).toMatch(/Labels {7}rack=a[\s\S]*Machine\n[\s\S]*Members +default\/orders-0/);
  expect(host.out).not.toContain('undefined');
  const secret = await cli.belay(['describe', 'secret', 'pw']);
  expect(secret.out).toMatch(/keys:\n {4}- password/);
  expect(secret.out).not.toContain('canary');
  expect((await cli.belay(['describe', 'mongodb'])).err).toContain('which mongodb?');
  expect((await cli.belay(['describe', 'events', 'x'])).code).toBe(2);
});

test('events of a namespace, of one object, and as they come', async () => {
  expect((await cli.belay(['events'])).err).toBe('no events in namespace default\n');
  await ready();
  const all = await cli.belay(['events']);
  expect(all.out).toMatch(/^LAST SEEN {2}TYPE +REASON +OBJECT +MESSAGE\n/);
  expect(all.out).toContain('PrimaryElected');
  expect(
    (await cli.belay(['events', 'mongodb', 'orders', '--limit', '1'])).out.trimEnd().split('\n'),
  ).toHaveLength(2);
  expect((await cli.belay(['events', '--limit', '0'])).code).toBe(2);
  expect((await cli.belay(['events', 'mongodb', 'nobody'])).code).toBe(1);
  expect(JSON.parse((await cli.belay(['events', '-o', 'json'])).out)[0].kind).toBe('Event');
  const stop = new AbortController();
  const watching = cli.belay(['events', '-w', '-A'], {
    signal: stop.signal,
    onText: (text) => text.includes('Ready') && stop.abort(),
  });
  expect((await watching).out).toMatch(/^NAMESPACE[\s\S]*PrimaryElected/);
});
