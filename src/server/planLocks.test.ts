/** Plans while somebody works on the machines they are about. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { recordOf } from '../clusters/index.ts';
import { waitsForLocks } from './planLocks.ts';
import { type ApiRig, type Json, makeApi, ORDERS, orders } from './testing/rig.ts';

let api: ApiRig;
beforeEach(async () => {
  api = await makeApi(undefined, ['db1', 'db2', 'db3', 'db4', 'db5']);
  await api.call('POST', '/api/v1/apply', { body: orders() });
  await api.clock.advance(5 * SECOND);
});
afterEach(() => api.close());

const TASKS = '/api/v1/maintenance/tasks';
async function hold(name: string, host: string): Promise<string> {
  const body = { name, hosts: [host], duration: '30m', reason: 'kernel' };
  const made = await api.call('POST', TASKS, { as: 'operator', body });
  expect(made.status, made.text).toBe(201);
  await api.clock.advance(1);
  return `${String(made.body.groups.flat()[0].deadline).slice(0, 19)}Z`;
}
const waitsOf = ({ body }: { body: { waits: { on: string; detail: string }[] } }) =>
  body.waits.map(({ on, detail }) => `${on}: ${detail}`);
const planned = (spec: Json = {}) => api.call('POST', '/api/v1/apply?dryRun=plan', { body: orders(spec) });
const restart = (members: readonly string[] = []) =>
  api.call('POST', '/api/v1/namespaces/default/operations?dryRun=plan', {
    body: { spec: { type: 'Restart', mongodbResourceRef: { name: 'orders' }, members } },
  });
const CHANGE = { additionalMongodConfig: { operationProfiling: { slowOpThresholdMs: 5 } } };

test('C3.2 C6.4 a plan says which step waits for whose maintenance task, on which host and until when, and is refused by nobody', async () => {
  const { hostName: host } = (await api.call('GET', ORDERS)).body.status.members[2];
  expect([waitsOf(await planned(CHANGE)), waitsOf(await restart())]).toEqual([[], []]);
  const until = await hold('kernel', host);
  const held = `waits: orders-2 on host ${host} is held by task kernel of the operator until ${until}`;
  const change = await planned(CHANGE);
  expect(waitsOf(change)).toEqual([
    `MaintenanceGrant: from step 1 on: orders-2: restart with configuration 2 ${held}`,
  ]);
  expect(change.body).toMatchObject({ refusals: [], converges: true });
  // Who is not held waits too: its set can spare no second member.
  expect(waitsOf(await restart(['orders-1']))).toEqual([
    `MaintenanceGrant: from step 1 on: orders-1: restart with configuration 2 ${held}`,
  ]);
  expect(waitsOf(await planned({ version: '8.0.29-13' }))[0]).toContain(
    `from step 1 on: orders-2: restart with 8.0.29-13 ${held}`,
  );
  // Members that come take nobody down, and one that goes does.
  expect(waitsOf(await planned({ members: 5 }))).toEqual([]);
  expect(waitsOf(await planned({ members: 1 }))[0]).toContain(held);
  expect((await api.call('DELETE', `${TASKS}/kernel`)).status).toBe(204);
  expect(waitsOf(await planned(CHANGE))).toEqual([]);
});

test('C3.2 S13 a plan only asks: nothing is locked, and no place in the queue is taken', async () => {
  const { members } = (await api.call('GET', ORDERS)).body.status;
  await hold('here', members[2].hostName);
  expect(waitsOf(await planned(CHANGE))).toHaveLength(1);
  expect(waitsOf(await restart())).toHaveLength(1);
  expect(api.deps.maintenance.holds('')).toEqual([]);
});

test('C3.1 C3.2 a plan says which more urgent task is to have a member first, though it holds nothing yet', async () => {
  const { members } = (await api.call('GET', ORDERS)).body.status;
  const [, one, two] = members.map((m: Json) => m['hostName']);
  await hold('kernel', two);
  const wish = { name: 'disks', hosts: [one], duration: '30m', reason: 'disks' };
  expect((await api.call('POST', TASKS, { as: 'operator', body: wish })).body.groups.flat()[0].state).toBe(
    'pending',
  );
  expect((await api.call('DELETE', `${TASKS}/kernel`)).status).toBe(204);
  const wanted = `waits: orders-1 on host ${one} is wanted by the more urgent task disks of the operator, which waits too`;
  const word = 'restart with configuration 2';
  expect(waitsOf(await restart(['orders-1']))).toEqual([
    `MaintenanceGrant: from step 1 on: orders-1: ${word} ${wanted}`,
  ]);
  // What nobody has yet holds up nobody but its own.
  expect(waitsOf(await planned(CHANGE))).toEqual([
    `MaintenanceGrant: from step 2 on: orders-1: ${word} ${wanted}`,
  ]);
  expect(api.deps.maintenance.holds('')).toEqual([]);
  expect((await api.call('DELETE', `${TASKS}/disks`)).status).toBe(204);
  expect(waitsOf(await planned(CHANGE))).toEqual([]);
});

test('C3.1 C3.2 a plan says which more urgent task holds up a member by waiting for another one of its set', async () => {
  const object = (await api.deps.store.get({ kind: 'MongoDB', namespace: 'default', name: 'orders' }))!;
  const state = recordOf((await api.deps.store.loadState(object.metadata.uid))?.value);
  const [first] = state.members;
  const wish = { task: 'disks', owner: 'eve', priority: -50, stale: false };
  const by = [{ kind: 'pending', item: 'orders-0', task: 'disks' }];
  const maintenance = {
    switchState: async () => ({ disabled: false }),
    hosts: async () => [{ host: first?.host, waiting: [wish] }],
    holderOf: () => null,
    mayTake: async () => ({ kind: 'refused', refusal: { by } }),
  };
  const deps = { provider: api.deps.provider, maintenance } as unknown as typeof api.deps;
  const disruptions = [{ step: 1, member: 'orders-2', why: 'restart', mode: 'strong' }] as const;
  const told = await waitsForLocks(deps, object, state, { disruptions } as never);
  expect(told.map((w) => w.detail)).toEqual([
    `from step 1 on: orders-2: restart waits: orders-0 on host ${first?.host} is wanted by the more urgent task disks of eve, which waits too`,
  ]);
});

test('C3.2 a plan says that maintenance is switched off, where a step needs a grant', async () => {
  await api.call('PUT', '/api/v1/maintenance/switch', { body: { disabled: true } });
  const change = await planned(CHANGE);
  expect(waitsOf(change)).toEqual([
    'MaintenanceGrant: from step 1 on: maintenance is switched off by the admin, and nothing new is granted: belay maintenance switch on',
  ]);
  expect(change.body).toMatchObject({ refusals: [], converges: true });
  expect(waitsOf(await planned({ members: 5 }))).toEqual([]);
  await api.call('PUT', '/api/v1/maintenance/switch', { body: { disabled: false } });
  expect(waitsOf(await planned(CHANGE))).toEqual([]);
});
