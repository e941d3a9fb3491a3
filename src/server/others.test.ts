import { expect, test } from 'vitest';
import { makeApi, orders } from './testing/rig.ts';

test('who names what is not there is told of a few others, and where there are more how to see all', async () => {
  const rig = await makeApi();
  const fix = async (): Promise<unknown> =>
    (await rig.call('GET', '/api/v1/namespaces/default/mongodb/nobody')).body.fix;
  for (const name of ['a', 'b', 'c', 'd', 'e'])
    await rig.call('POST', '/api/v1/apply', { body: orders({}, { name }) });
  expect(await fix()).toBe('there are: a, b, c, d, e');
  await rig.call('POST', '/api/v1/apply', { body: orders({}, { name: 'f' }) });
  expect(await fix()).toBe('there are: a, b, c, d, e and more; all: belay get mongodb -n default');
  await rig.close();
});
