import type { Document } from 'bson';
import { expect, test } from 'vitest';
import type { RouteCall } from './call.ts';
import { SHARDING_COMMANDS } from './sharding-commands.ts';

test('A8.3 a stop of the balancer is waited for as long as the client says', async () => {
  const sent: Document[] = [];
  const run = async (_: string, command: Document): Promise<Document> => {
    sent.push(command);
    return { ok: 1 };
  };
  const router = { config: { run }, timeFields: () => ({}) };
  const stop = SHARDING_COMMANDS.find(({ name }) => name === 'balancerStop');
  for (const limit of [{}, { maxTimeMS: 0 }, { maxTimeMS: 500 }]) {
    const call = { command: { balancerStop: 1, ...limit }, router, hear: () => undefined };
    await stop?.run(call as unknown as RouteCall);
  }
  expect(sent.map(({ wait }) => wait)).toEqual([undefined, undefined, 500]);
});
