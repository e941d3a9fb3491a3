/** Documents that are applied together. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type CliRig, makeCli } from './testing/rig.ts';

let cli: CliRig;
beforeEach(async () => {
  cli = await makeCli();
});
afterEach(() => cli.close());

const set = (name: string): string =>
  `apiVersion: belay.dev/v1\nkind: MongoDB\nmetadata: {name: ${name}}\nspec: {type: ReplicaSet, members: 3}\n`;
const sharded = (name: string, namespace = 'default'): string => `apiVersion: belay.dev/v1
kind: MongoDB
metadata: {name: ${name}, namespace: ${namespace}}
spec: {type: ShardedCluster, shardCount: 2, mongodsPerShardCount: 3, configServerCount: 3, mongosCount: 1}
`;
const PART = 'ord-s0 is the name of a part of sharded cluster ord; choose another';

test('B1.4 A6.5 of databases that cannot be beside each other none is stored, and a dry run and a plan say so too', async () => {
  for (const verb of [['apply', '--dry-run'], ['apply'], ['plan']]) {
    const stdin = `${sharded('ord')}---\n${set('ord-s0')}`;
    const { code, err } = await cli.belay([...verb, '-f', '-'], { stdin });
    expect([code, err], verb.join(' ')).toEqual([4, expect.stringContaining(`metadata.name  ${PART}\n`)]);
  }
  const other = await cli.belay(['apply', '-f', '-'], { stdin: `${set('ord-s0')}---\n${sharded('ord')}` });
  expect(other.code).toBe(4);
  expect(other.err).toContain('would be called ord-s0, and there is a MongoDB of that name');
  expect((await cli.belay(['get', 'mongodb', '-o', 'name'])).out).toBe('');
});

test('B1.4 a clash is told once, together with what else is wrong, and there is none between namespaces', async () => {
  expect((await cli.belay(['apply', '-f', '-'], { stdin: sharded('ord') })).code).toBe(0);
  const wrong = set('ord-s0').replace('members: 3', 'members: 4');
  const both = await cli.belay(['apply', '-f', '-'], { stdin: `${sharded('ord')}---\n${wrong}` });
  expect([both.code, both.err.split(PART).length - 1]).toEqual([4, 1]);
  expect(both.err).toContain('MongoDB default/ord-s0 was not applied, 2 problems');
  const apart = await cli.belay(['apply', '--dry-run', '-f', '-'], {
    stdin: `${sharded('new', 'other')}---\n${set('new-s0')}`,
  });
  expect(apart.code).toBe(0);
});
