/** What `belay doctor` says of maintenance tasks. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { CliRig } from './testing/rig.ts';
import { makeTopologyCli } from './testing/topology.ts';

let cli: CliRig;
beforeEach(async () => {
  cli = await makeTopologyCli();
});
afterEach(() => cli.close());

test('C6.4 doctor tells what tasks hold, and which are overdue, wait long or were forgotten', async () => {
  const { belay, api } = cli;
  const doctor = async () =>
    (await belay(['doctor'])).out
      .split('\n')
      .filter((line) => /^. maintenance |^ +fix: .*maintenance/.test(line));
  expect(await doctor()).toEqual([]);
  const cordon = { type: 'cordon', scope: { node: '5' }, duration: '2h' };
  const body = { name: 'cordon', topology: 'ydb', groups: [{ actions: [cordon] }] };
  const made = await api.call('POST', '/api/v1/maintenance/tasks', { body });
  expect([made.status, made.body.errors]).toEqual([201, undefined]);
  const create = (host: string, name: string, duration: string) =>
    belay(['maintenance', 'create', '--host', host, '--name', name, '--duration', duration]);
  await create('y1', 'short', '1m');
  await create('y2', 'dead', '1m');
  await api.clock.advance(70_000);
  await create('y1', 'kernel', '4h');
  await create('y2', 'late', '1m');
  const held = expect.stringMatching(
    /^✔ maintenance +held: node 5 by task cordon of the admin; y1 by task kernel of the admin until \S+Z$/,
  );
  expect(await doctor()).toEqual([held]);
  await api.clock.advance(3 * 3_600_000);
  await belay(['maintenance', 'refresh', 'late']);
  expect(await doctor()).toEqual([
    held,
    expect.stringMatching(
      /^! maintenance +task cordon of the admin holds node 5 longer than it asked for, without a deadline$/,
    ),
    expect.stringMatching(/^ +fix: when its work is done: belay maintenance complete cordon$/),
    expect.stringMatching(
      /^! maintenance +task dead waits and nobody has asked for it since \S+: it holds nobody back/,
    ),
    expect.stringMatching(
      /^! maintenance +task late of the admin was asked for 3 h ago and waits for y2: \S/,
    ),
    expect.stringMatching(
      /^ +fix: see what stands in the way: belay maintenance get late; or give it up: belay maintenance drop late$/,
    ),
  ]);
});
