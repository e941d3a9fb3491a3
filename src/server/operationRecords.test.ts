/** What the record of an operation keeps, and for how long (A13.1). */
import { afterEach, expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { OPERATIONS_KEPT, OPERATIONS_OPEN } from './limits.ts';
import { type ApiRig, type Json, makeApi, orders } from './testing/rig.ts';

const opened: ApiRig[] = [];
afterEach(async () => {
  for (const rig of opened.splice(0)) await rig.close();
});

const OPERATIONS = '/api/v1/namespaces/default/operations';
const restart = (metadata: Json = {}): Json => ({
  metadata,
  spec: { type: 'Restart', mongodbResourceRef: { name: 'orders' } },
});

/** A set that is paused: what is asked for waits. */
async function paused(): Promise<ApiRig> {
  const rig = await makeApi();
  opened.push(rig);
  await rig.call('POST', '/api/v1/apply', { body: orders({ paused: true }) });
  await rig.clock.advance(SECOND);
  return rig;
}
const stored = async (rig: ApiRig, name: string) =>
  (await rig.store.get({ kind: 'Operation', namespace: 'default', name }))?.metadata;

/** Records of operations that ended, made by hand, a second apart; their names tell nothing of their age. */
async function history(rig: ApiRig, count: number): Promise<void> {
  for (let i = count - 1; i >= 0; i--) {
    await rig.store.create({
      kind: 'Operation',
      namespace: 'default',
      name: `old-${String(i).padStart(3, '0')}`,
      spec: restart()['spec'],
      labels: { 'belay.dev/mongodb': 'orders' },
      status: { state: 'Succeeded' },
    });
    await rig.clock.advance(SECOND);
  }
}
const names = async (rig: ApiRig): Promise<readonly string[]> =>
  (await rig.store.list({ kind: 'Operation' })).items.map((o) => o.metadata.name).sort();

test('A13.1 who asked, of whom and who cancelled is the server’s word, whatever the document says', async () => {
  const rig = await paused();
  const forged = restart({
    name: 'mine',
    labels: { 'belay.dev/mongodb': 'invoices', team: 'shop' },
    annotations: {
      'belay.dev/requested-by': 'the king',
      'belay.dev/cancel-requested': 'the king',
      note: 'x',
    },
  });
  const asked = await rig.call('POST', OPERATIONS, { as: 'operator', body: forged });
  expect(asked.status, asked.text).toBe(201);
  expect(await stored(rig, 'mine')).toMatchObject({
    labels: { 'belay.dev/mongodb': 'orders', team: 'shop' },
    annotations: { 'belay.dev/requested-by': 'the operator', note: 'x' },
    finalizers: ['belay.dev/operation'],
  });
  expect((await stored(rig, 'mine'))?.annotations).not.toHaveProperty('belay.dev/cancel-requested');
  // One that nobody takes up stays as people left it.
  await rig.store.create({
    kind: 'Operation',
    namespace: 'default',
    name: 'orphan',
    spec: { type: 'Restart', mongodbResourceRef: { name: 'gone' } },
  });
  expect((await rig.call('POST', `${OPERATIONS}/orphan/cancel`, { as: 'operator' })).status).toBe(202);
  expect((await rig.call('POST', `${OPERATIONS}/orphan/cancel`, { as: 'admin' })).status).toBe(202);
  expect((await stored(rig, 'orphan'))?.annotations).toEqual({
    'belay.dev/cancel-requested': 'the operator',
  });
});

test('A13.1 the oldest that ended make room for a new one, and a dry run makes none', async () => {
  const rig = await paused();
  await history(rig, OPERATIONS_KEPT);
  await rig.call('POST', `${OPERATIONS}?dryRun=validate`, { body: restart() });
  expect(await names(rig)).toHaveLength(OPERATIONS_KEPT);
  await rig.call('POST', OPERATIONS, { body: restart({ name: 'new' }) });
  const before = Array.from({ length: OPERATIONS_KEPT }, (_, i) => `old-${String(i).padStart(3, '0')}`);
  expect(await names(rig)).toEqual(['new', ...before.slice(0, -1)]);
});

test('A13.1 operations of another namespace’s database of that name count for nothing', async () => {
  const rig = await paused();
  const elsewhere = { ...orders({ paused: true }), metadata: { name: 'orders', namespace: 'other' } };
  await rig.call('POST', '/api/v1/apply', { body: elsewhere });
  await rig.clock.advance(SECOND);
  const there = '/api/v1/namespaces/other/operations';
  for (let i = 0; i < OPERATIONS_OPEN; i++)
    expect((await rig.call('POST', there, { body: restart() })).status).toBe(201);
  expect((await rig.call('POST', there, { body: restart() })).body.code).toBe('Refused');
  expect((await rig.call('POST', OPERATIONS, { body: restart() })).status).toBe(201);
});

test('A13.1 nothing is asked of a database that is being deleted', async () => {
  const rig = await paused();
  const key = { kind: 'MongoDB', namespace: 'default', name: 'orders' };
  const object = await rig.store.get(key);
  const finalizers = [...(object?.metadata.finalizers ?? []), 'other/finalizer'];
  await rig.store.update(key, { finalizers, delete: true });
  expect(await rig.call('POST', OPERATIONS, { body: restart() })).toMatchObject({
    status: 409,
    body: { code: 'BeingDeleted' },
  });
});

test('A13.1 an operation about a database that is gone goes at once; one that waits is cancelled first', async () => {
  const rig = await paused();
  await rig.call('POST', OPERATIONS, { body: restart({ name: 'waits' }) });
  await rig.store.create({
    kind: 'Operation',
    namespace: 'default',
    name: 'orphan',
    spec: { type: 'Restart', mongodbResourceRef: { name: 'gone' } },
    finalizers: ['belay.dev/operation'],
  });
  expect((await rig.call('DELETE', `${OPERATIONS}/orphan`)).status).toBe(204);
  expect((await rig.call('DELETE', `${OPERATIONS}/waits`)).status).toBe(202);
  await rig.clock.advance(5 * SECOND);
  expect(await names(rig)).toEqual([]);
});
