/** Whoever takes a primary is told that it could hand over first. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type CliRig, makeCli, ORDERS_YAML } from './testing/rig.ts';

let cli: CliRig;
beforeEach(async () => {
  cli = await makeCli();
});
afterEach(() => cli.close());

/** A set on hosts of its own, ready; gives the host of its first member, which leads. */
async function readySet(members: number): Promise<string> {
  for (const host of ['db1', 'db2', 'db3']) {
    const yaml = `apiVersion: belay.dev/v1\nkind: Host\nmetadata: {name: ${host}}\nspec: {}\n`;
    await cli.belay(['apply', '-f', '-'], { stdin: yaml });
  }
  await cli.belay(['apply', '-f', '-'], { stdin: ORDERS_YAML.replace('members: 3', `members: ${members}`) });
  await cli.api.clock.advance(10_000);
  const { body } = await cli.api.call('GET', '/api/v1/namespaces/default/mongodb/orders');
  expect(body.status.phase).toBe('Ready');
  return body.status.members[0].hostName;
}

test('C6.1 create, get and explain of a primary name --step-down, unless it was asked for', async () => {
  const host = await readySet(3);
  const told = async (...words: readonly string[]): Promise<readonly string[]> =>
    (await cli.belay(['maintenance', ...words])).out.split('\n').filter((line) => line.includes('primary'));
  const explained = await told('explain', '--host', host);
  expect(explained).toEqual([
    expect.stringMatching(
      /^ +primary now: orders-0; writes wait for an election when that goes down; to have it hand over first, ask with --step-down$/,
    ),
  ]);
  expect(await told('explain', '--node', 'orders-0')).toHaveLength(1);
  expect(await told('explain', '--node', 'orders-1')).toEqual([]);
  const made = await told('create', '--host', host, '--name', 'kernel');
  expect(made).toEqual([
    expect.stringContaining('belay maintenance drop kernel, and ask again with --step-down'),
  ]);
  expect(await told('get', 'kernel')).toEqual(made);
  await cli.belay(['maintenance', 'drop', 'kernel']);
  await cli.api.clock.advance(6_000);
  const asked = await told('create', '--host', host, '--name', 'again', '--step-down');
  expect(asked).toEqual([
    expect.stringContaining('orders-0 is primary of default/orders and hands over first'),
  ]);
});

test('C6.1 nobody is told to have the only member hand over', async () => {
  const host = await readySet(1);
  const { out } = await cli.belay(['maintenance', 'create', '--host', host, '--mode', 'force']);
  expect(out).toContain('orders-0 (PRIMARY)');
  expect(out).not.toContain('--step-down');
});
