import { afterEach, beforeEach, expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { ORDERS } from '../server/testing/rig.ts';
import { type CliRig, makeCli, ORDERS_YAML, type Ran } from './testing/rig.ts';
import { isKept } from './verbs/operations.ts';

let cli: CliRig;
beforeEach(async () => {
  cli = await makeCli();
  await cli.belay(['apply', '-q', '-f', '-'], { stdin: ORDERS_YAML });
  await cli.api.clock.advance(5 * SECOND);
});
afterEach(() => cli.close());

const pause = (paused: boolean) =>
  cli.api.call('PATCH', ORDERS, { body: { spec: { paused } }, type: 'application/merge-patch+json' });

/** Runs a verb that follows something, while time goes by until it ends. */
async function following(args: readonly string[], onText: (text: string) => void = () => {}): Promise<Ran> {
  let over = false;
  const running = cli.belay(args, { onText }).finally(() => {
    over = true;
  });
  while (!over) {
    await cli.api.clock.advance(SECOND);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return running;
}

const named = (text: string): string => /orders-[a-z-]+-[a-z2-9]{4}/.exec(text)?.[0] ?? '';

test('A13.1 restart prints its operation, follows it member by member, and ends with how it went', async () => {
  const { code, out, err } = await following(['restart', 'orders', '--member', 'orders-2']);
  const name = named(out);
  expect({ code, out }).toEqual({
    code: 0,
    out: `operations/${name} Succeeded: 1 member was restarted\n`,
  });
  expect(err).toContain(`operations/${name} asked for\n`);
  expect(err).toContain('  orders-2   ✔ done\n');
  const listed = await cli.belay(['operations', 'orders']);
  expect(listed.out.split('\n')[0]).toMatch(
    /^NAME +TYPE +MONGODB +STATE +PROGRESS +CURRENT +SINCE +MESSAGE$/,
  );
  expect(listed.out).toMatch(
    new RegExp(`^${name} +Restart +orders +Succeeded +100 % +– +\\d+ s +1 member was restarted$`, 'm'),
  );
  const described = await cli.belay(['describe', 'operation', name]);
  expect(described.out).toContain('State        Succeeded, 100 %: 1 member was restarted\n');
  expect(described.out).toContain('Completed    orders-2\n');
  expect(described.out).toContain('Asked by     the admin\n');
  const { out: events } = await cli.belay(['events', 'mongodb', 'orders']);
  const told = events.split('\n').flatMap((line) => /Operation\w+ .*/.exec(line)?.[0] ?? []);
  expect(told.map((line) => line.replace(/ +mongodb\/orders +/, ' '))).toEqual([
    `OperationStarted Restart ${name} (asked for by the admin) begins`,
    `OperationSucceeded Restart ${name} (asked for by the admin): 1 member was restarted`,
  ]);
  // How it ended is said once.
  expect(err).toContain('  state      Succeeded  100 %\n');
  const nobody = await cli.belay(['operations', 'nobody']);
  expect(nobody).toMatchObject({ code: 1, out: '' });
  expect(nobody.err).toBe('error NotFound: mongodb default/nobody does not exist\nfix: there are: orders\n');
});

test('a database without operations has none, and is not mistaken for one that does not exist', async () => {
  expect(await cli.belay(['operations', 'orders'])).toMatchObject({
    code: 0,
    out: '',
    err: 'orders has no operations\n',
  });
  expect(await cli.belay(['operations', 'mongodb/orders', '-o', 'json'])).toMatchObject({
    code: 0,
    out: expect.stringContaining('"items": []'),
  });
});

test('A13.1 --no-wait says how to watch and to stop; cancel stops it; wait tells by its exit code how it ended', async () => {
  await pause(true);
  const asked = await cli.belay(['restart', 'mongodb/orders', '--no-wait']);
  const name = named(asked.out);
  expect(asked).toEqual({
    code: 0,
    out: `operations/${name} asked for\n`,
    err: `watch it: belay wait operation ${name}   stop it: belay cancel ${name}\n`,
  });
  await cli.api.clock.advance(SECOND);
  expect((await cli.belay(['describe', `operation/${name}`])).out).toContain(
    'State        Waiting: the cluster is paused',
  );
  const late = await cli.belay(['wait', 'operation', name, '--timeout', '50ms']);
  expect(late.code).toBe(3);
  expect(late.err).toContain('Waiting: the cluster is paused');
  const stopped = await following(['cancel', `operations/${name}`]);
  expect(stopped).toMatchObject({
    code: 0,
    out: `operations/${name} Cancelled: cancelled before it began\n`,
  });
  expect((await cli.belay(['wait', 'operation', name])).code).toBe(1);
  expect((await cli.belay(['wait', 'operation', name, '--for', 'cancelled'])).code).toBe(0);
  const twice = await cli.belay(['cancel', name]);
  expect(twice.code).toBe(4);
  expect(twice.err).toContain(`${name} has ended: Cancelled`);
});

test('A13.1 what cannot be stopped safely any more is seen by what it says: cancel waits for nothing then', () => {
  const operation = (status: Readonly<Record<string, unknown>>) =>
    ({ metadata: { name: 'x' }, status }) as never;
  const kept = {
    cancelRequested: true,
    cancellable: false,
    message: 'not cancelled: it goes on',
    state: 'Running',
  };
  expect(isKept(operation(kept))).toBe(true);
  expect(isKept(operation({ ...kept, cancelRequested: false }))).toBe(false);
  expect(isKept(operation({ ...kept, cancellable: true }))).toBe(false);
  // Its answer is from before it was asked.
  expect(isKept(operation({ ...kept, message: 'restarts' }))).toBe(false);
  expect(isKept(null)).toBe(false);
});

test('A13.1 Ctrl-C leaves an operation running and says how to watch and how to stop it', async () => {
  await pause(true);
  const stop = new AbortController();
  let seen = '';
  const { code, err } = await cli.belay(['restart', 'orders'], {
    signal: stop.signal,
    onText: (text) => {
      seen += text;
      if (seen.includes('Waiting')) stop.abort();
    },
  });
  const name = named(err);
  expect(code).toBe(130);
  expect(err).toContain(`operations/${name} goes on without this command\n`);
  expect(err).toContain(`  stop it    belay cancel ${name}\n`);
  const { body } = await cli.api.call('GET', `/api/v1/namespaces/default/operations/${name}`);
  expect(body.status).toMatchObject({ state: 'Waiting', cancelRequested: false });
});

test('operations that are refused exit 4 with the reason, and every verb asks for what its name says', async () => {
  const refused = await cli.belay(['restart', 'orders', '--member', 'orders-9']);
  expect(refused).toMatchObject({ code: 4, out: '' });
  expect(refused.err).toContain('there is no member orders-9');
  expect(await cli.belay(['cancel', 'nobody'])).toMatchObject({ code: 1, out: '' });
  expect((await cli.belay(['restart'])).code).toBe(2);
  expect((await cli.belay(['rotate', 'keys', 'orders'])).code).toBe(2);
  expect((await cli.belay(['wait', 'mongodb', 'orders'])).code).toBe(2);
  expect((await cli.belay(['wait', 'operation', 'x', '--for', 'Ready'])).code).toBe(2);
  const awake = await cli.belay(['resume', 'orders']);
  expect([awake.code, awake.out]).toEqual([4, '']);
  expect(awake.err).toContain('Resume of orders: it is not suspended: there is nothing to resume');
  const off = await cli.belay(['balancer', 'off', 'orders']);
  expect(off.code).toBe(4);
  expect(off.err).toContain('StopBalancer of orders: only a sharded cluster has a balancer');
  const host = await cli.belay(['move', 'orders', 'orders-1', '--to', 'db77', '--avoid', 'db78']);
  expect(host.code).toBe(4);
  expect(host.err).toContain('spec.host  there is no host db77');
  expect(host.err).toContain('spec.avoidHosts.0  there is no host db78');
});

test('restart --plan shows the steps and does nothing', async () => {
  const { code, out } = await cli.belay(['restart', 'orders', '--plan']);
  expect(code).toBe(10);
  expect(out).toContain('3 restarts, at most one member down at a time, 1 election.');
  expect((await cli.belay(['operations'])).err).toContain('no operations found');
});
