import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { postgresMissing, startPostgres } from '../src/store/testing/postgres.ts';
import { replicaSet, user } from './support/documents.ts';
import { freePorts, LONG, type Server, Stack } from './support/stack.ts';

const missing = postgresMissing();
let stack: Stack;
let postgres: Awaited<ReturnType<typeof startPostgres>>;
let second: Server;

beforeAll(async () => {
  if (missing !== undefined) return;
  postgres = await startPostgres();
  const [api1, agents1, api2, agents2] = (await freePorts(4)) as [number, number, number, number];
  const urls = [`https://127.0.0.1:${agents1}`, `https://127.0.0.1:${agents2}`];
  const args = ['--public-url', ...urls];
  stack = await Stack.start({
    storeUrl: postgres.url,
    agents: [],
    server: { ports: { api: api1, agents: agents1 }, args },
  });
  const key = path.join(stack.dir, 'server', 'master.key');
  second = await stack.startServer('second', {
    ports: { api: api2, agents: agents2 },
    args: [...args, '--master-key-file', key],
  });
  await stack.startAgent('local');
}, LONG);
afterAll(async () => {
  await stack?.stop();
  await postgres?.stop();
}, LONG);

/** Every step that ended well, as `step target`; twice in the list would be done twice. */
async function doneSteps(api: Server['api'], name: string): Promise<string[]> {
  const { items } = await api.get<{
    items: { step: string; target: string; outcome: { kind: string } | null }[];
  }>(`/api/v1/namespaces/default/mongodb/${name}/operations`, { limit: '1000' });
  return items.filter((i) => i.outcome?.kind === 'done').map((i) => `${i.step} ${i.target}`);
}

test.skipIf(missing !== undefined)(
  `S9 S10 L1 two control planes on one PostgreSQL: one acts, the other takes over when it is killed, nothing is done twice${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  async () => {
    const first = stack.server;
    await stack.apply(replicaSet('shared'));
    await stack.untilReady('shared');
    const steps = await doneSteps(second.api, 'shared');
    expect(steps.length).toBeGreaterThan(8);
    expect(new Set(steps).size).toBe(steps.length);

    await stack.apply(replicaSet('handed-over'));
    await stack.until(
      async () => (await doneSteps(second.api, 'handed-over')).some((s) => s.startsWith('import')),
      'the first one is at work',
    );
    first.process.kill('SIGKILL');
    stack.server = second;
    await stack.untilReady('handed-over');
    await stack.untilReady('shared');
    const all = await doneSteps(second.api, 'handed-over');
    const twice = all.filter((s, i) => all.indexOf(s) !== i && !s.startsWith('publish'));
    expect(twice).toEqual([]);
    expect(stack.mongods().length).toBe(6);

    await stack.apply(user('shared'));
    await stack.untilPhase('shared-app', 'Ready', 'default', 'mongodbusers');
    const client = await stack.connect('shared', 'shared-app');
    await client
      .db('x')
      .collection('t')
      .insertOne({ a: 1 }, { writeConcern: { w: 'majority' } });
    await client.close();
  },
  LONG,
);
