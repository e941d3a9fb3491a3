import { afterEach, expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { OPERATIONS_KEPT, OPERATIONS_OPEN } from './limits.ts';
import { type ApiRig, type Json, makeApi, ORDERS, orders } from './testing/rig.ts';

const opened: ApiRig[] = [];
afterEach(async () => {
  for (const rig of opened.splice(0)) await rig.close();
});

const OPERATIONS = '/api/v1/namespaces/default/operations';

/** A control plane with a running set `orders`. */
async function running(spec: Json = {}): Promise<ApiRig> {
  const rig = await makeApi();
  opened.push(rig);
  await rig.call('POST', '/api/v1/apply', { body: orders(spec) });
  await rig.clock.advance(5 * SECOND);
  expect((await rig.call('GET', ORDERS)).body.status.phase).toBe('Ready');
  return rig;
}

const restart = (members: readonly string[] = [], more: Json = {}): Json => ({
  spec: { type: 'Restart', mongodbResourceRef: { name: 'orders' }, members, ...more },
});

test('A13.1 an operation gets a name, is taken up, and says who asked, how it went and when', async () => {
  const { call, clock } = await running();
  const asked = await call('POST', OPERATIONS, { as: 'operator', body: restart(['orders-2']) });
  expect(asked.status, asked.text).toBe(201);
  const { name } = asked.body.metadata;
  expect(name).toMatch(/^orders-restart-[a-z2-9]{4}$/);
  expect(asked.body).toMatchObject({
    kind: 'Operation',
    spec: { type: 'Restart', members: ['orders-2'] },
    status: { state: 'Waiting', requestedBy: 'the operator', cancellable: true },
  });
  await clock.advance(30 * SECOND);
  const { body } = await call('GET', `${OPERATIONS}/${name}`, { as: 'viewer' });
  expect(body.status).toMatchObject({
    state: 'Succeeded',
    message: '1 member was restarted',
    completedMembers: ['orders-2'],
    progressPercent: 100,
    cancellable: false,
    requestedBy: 'the operator',
  });
  const listed = await call('GET', `${OPERATIONS}?labelSelector=belay.dev/mongodb%3Dorders`);
  expect(listed.body.items.map((o: { metadata: { name: string } }) => o.metadata.name)).toEqual([name]);
});

test('A13.1 what cannot be done is refused before anything is stored, with what is wrong', async () => {
  const { call } = await running();
  const ask = (spec: Json, as: 'operator' | 'viewer' = 'operator') =>
    call('POST', OPERATIONS, { as, body: { spec: { mongodbResourceRef: { name: 'orders' }, ...spec } } });
  expect((await ask({ type: 'Restart' }, 'viewer')).status).toBe(403);
  expect(await ask({ type: 'Restart', members: ['orders-7'] })).toMatchObject({
    status: 409,
    body: { code: 'Refused', detail: 'Restart of orders: there is no member orders-7' },
  });
  expect(await ask({ type: 'Restart', mongodbResourceRef: { name: 'ordres' } })).toMatchObject({
    status: 422,
    body: {
      errors: [
        {
          path: 'spec.mongodbResourceRef.name',
          message: 'there is no MongoDB default/ordres; there are: orders',
        },
      ],
    },
  });
  expect(await ask({ type: 'Backup', backup: 'nightly' })).toMatchObject({
    status: 409,
    body: { code: 'Refused', detail: 'Backup of orders: is not part of this version of Belay' },
  });
  expect((await ask({ type: 'Reboot' })).body.errors[0].path).toBe('spec.type');
  expect((await ask({ type: 'Move', member: 'orders-0', host: 'db77' })).body.errors).toEqual([
    { path: 'spec.host', message: 'there is no host db77' },
  ]);
  expect((await call('GET', OPERATIONS)).body.items).toEqual([]);
});

test('A13.1 S1 a restart that would interrupt is refused with what a document is refused with, also where only its plan is asked for', async () => {
  const { call } = await running({ members: 1 });
  for (const path of [OPERATIONS, `${OPERATIONS}?dryRun=plan`])
    expect(await call('POST', path, { body: restart() })).toMatchObject({
      status: 409,
      body: {
        code: 'Refused',
        detail: expect.stringMatching(/^Restart of orders: WouldInterrupt: orders-0 is the only member/),
      },
    });
});

test('an operation cannot be changed, is dry-run without a trace, and another kind or namespace is refused', async () => {
  const { call } = await running();
  const dry = await call('POST', `${OPERATIONS}?dryRun=validate`, { as: 'viewer', body: restart() });
  expect(dry).toMatchObject({ status: 200, body: { kind: 'Operation', spec: { type: 'Restart' } } });
  expect((await call('GET', OPERATIONS)).body.items).toEqual([]);
  const named = { ...restart(), metadata: { name: 'mine' } };
  expect((await call('POST', OPERATIONS, { body: named })).status).toBe(201);
  expect((await call('POST', OPERATIONS, { body: named })).body.code).toBe('AlreadyExists');
  expect((await call('PUT', `${OPERATIONS}/mine`, { body: named })).status).toBe(404);
  expect((await call('POST', OPERATIONS, { body: orders() })).body.code).toBe('Malformed');
  const elsewhere = { ...restart(), metadata: { name: 'mine', namespace: 'other' } };
  expect((await call('POST', OPERATIONS, { body: elsewhere })).body.code).toBe('Malformed');
});

test('A13.1 L3 a plan of an operation says what holds the operation up, and what its steps wait for', async () => {
  const { call, clock, fleet } = await running();
  const planned = async () => {
    const { body } = await call('POST', `${OPERATIONS}?dryRun=plan`, { as: 'viewer', body: restart() });
    const waits = body.waits.map((w: { on: string; detail: string }) => `${w.on}: ${w.detail}`);
    return { waits, steps: body.steps.length > 0, converges: body.converges };
  };
  expect(await planned()).toEqual({ waits: [], steps: true, converges: true });
  fleet.connect('db3', false);
  await clock.advance(5 * SECOND);
  const away = [
    'AgentNotConnected: nothing is known of orders-2: no agent on host db3 reports it',
    'WouldLoseMajority: restart of orders-1 waits for orders-2 (not reported): healthy voters 2 of 3, majority 2',
  ];
  expect(await planned()).toEqual({ waits: away, steps: true, converges: true });
  await call('PATCH', ORDERS, { body: { spec: { paused: true } }, type: 'application/merge-patch+json' });
  await clock.advance(5 * SECOND);
  expect(await planned()).toEqual({
    waits: ['OperationInProgress: the cluster is paused', 'Paused: spec.paused is true: Belay only watches'],
    steps: false,
    converges: false,
  });
});

test('C7.1 who overrides windows, why and until when is on record and in the status, and it is ended by a verb of its own', async () => {
  const windows = [{ cron: '0 2 * * 6', duration: '2h' }];
  const { call, clock } = await running({ maintenance: { windows } });
  const ask = (more: Json) =>
    call('POST', OPERATIONS, {
      as: 'operator',
      body: {
        spec: { type: 'OverrideWindows', mongodbResourceRef: { name: 'orders' }, reason: 'CVE', ...more },
      },
    });
  expect(await ask({ end: true })).toMatchObject({ status: 409, body: { code: 'Refused' } });
  const { name } = (await ask({ duration: '1h' })).body.metadata;
  await clock.advance(5 * SECOND);
  const { until, ...shown } = (await call('GET', ORDERS)).body.status.windowOverride;
  expect(shown).toEqual({ operation: name, reason: 'CVE', requestedBy: 'the operator' });
  const { body } = await call('GET', `${OPERATIONS}/${name}`);
  expect(body).toMatchObject({ spec: { reason: 'CVE' }, status: { requestedBy: 'the operator' } });
  expect(body.status.message).toBe(`changes do not wait for windows until ${until}: CVE`);
  const cancelled = await call('POST', `${OPERATIONS}/${name}/cancel`, { as: 'operator' });
  expect(cancelled.body.fix).toContain('belay override-windows orders --end');
  // A shorter one takes nothing back, and says so.
  const shorter = (await ask({ duration: '5m' })).body.metadata.name;
  await clock.advance(5 * SECOND);
  expect((await call('GET', `${OPERATIONS}/${shorter}`)).body.status.message).toBe(
    `changes do not wait for windows until ${until} already (${name}), so 5m from now on changes nothing; to end it before, ask for its end: belay override-windows orders --end`,
  );
  const forged = await ask({ reason: 'CVE\nerror: \u001b[31mred' });
  expect([forged.status, JSON.stringify(forged.body.errors)]).toEqual([
    422,
    expect.stringContaining('must be one line without control characters'),
  ]);
  const bare = await ask({ reason: undefined });
  expect([bare.status, JSON.stringify(bare.body.errors)]).toEqual([
    422,
    expect.stringContaining('say why changes may not wait'),
  ]);
  const last = await ask({ end: true, reason: undefined });
  expect(last.status).toBe(201);
  await clock.advance(5 * SECOND);
  expect((await call('GET', `${OPERATIONS}/${last.body.metadata.name}`)).body.status.message).toBe(
    'changes wait for the windows again',
  );
  expect((await call('GET', ORDERS)).body.status).not.toHaveProperty('windowOverride');
  await ask({ duration: '1m' });
  await clock.advance(5 * SECOND);
  expect((await call('GET', ORDERS)).body.status).toHaveProperty('windowOverride');
  // Its time passes at a cluster that is at rest.
  await clock.advance(2 * 60 * SECOND);
  expect((await call('GET', ORDERS)).body.status).not.toHaveProperty('windowOverride');
  const events = (await call('GET', `${ORDERS}/events`)).body.items.map(
    (e: { spec: { reason: string } }) => e.spec.reason,
  );
  expect(events).toEqual(expect.arrayContaining(['WindowsOverridden', 'WindowsOverrideEnded']));
});

test('A13.1 cancelled before it began nothing is done; cancelling what has ended is refused with how it ended', async () => {
  const { call, clock, fleet } = await running({ paused: false });
  await call('PATCH', ORDERS, {
    body: { spec: { paused: true } },
    type: 'application/merge-patch+json',
  });
  const { name } = (await call('POST', OPERATIONS, { body: restart() })).body.metadata;
  await clock.advance(5 * SECOND);
  const waits = (await call('GET', `${OPERATIONS}/${name}`)).body.status;
  expect(waits).toMatchObject({ state: 'Waiting', message: 'the cluster is paused' });
  const done = fleet.done.length;
  const cancelled = await call('POST', `${OPERATIONS}/${name}/cancel`, { as: 'operator' });
  expect(cancelled.status).toBe(202);
  await clock.advance(5 * SECOND);
  const { status } = (await call('GET', `${OPERATIONS}/${name}`)).body;
  expect(status).toMatchObject({ state: 'Cancelled', message: 'cancelled before it began' });
  expect(fleet.done.length).toBe(done);
  expect(await call('POST', `${OPERATIONS}/${name}/cancel`)).toMatchObject({
    status: 409,
    body: { code: 'Refused', detail: `${name} has ended: Cancelled, cancelled before it began` },
  });
  expect((await call('POST', `${OPERATIONS}/nobody/cancel`)).status).toBe(404);
});

test('A13.1 deleting an operation that has not ended cancels it, and it goes when it has ended', async () => {
  const { call, clock } = await running();
  const pause = (paused: boolean) =>
    call('PATCH', ORDERS, { body: { spec: { paused } }, type: 'application/merge-patch+json' });
  await pause(true);
  const { name } = (await call('POST', OPERATIONS, { body: restart(['orders-2']) })).body.metadata;
  expect((await call('DELETE', `${OPERATIONS}/${name}`)).status).toBe(202);
  await clock.advance(30 * SECOND);
  expect((await call('GET', `${OPERATIONS}/${name}`)).status).toBe(404);
  await pause(false);
  const other = (await call('POST', OPERATIONS, { body: restart(['orders-2']) })).body.metadata.name;
  await clock.advance(30 * SECOND);
  expect((await call('GET', `${OPERATIONS}/${other}`)).body.status.state).toBe('Succeeded');
  expect((await call('DELETE', `${OPERATIONS}/${other}`)).status).toBe(204);
});

const SUSPEND = { spec: { type: 'Suspend', mongodbResourceRef: { name: 'orders' } } };

test('A13.1 A14.2 suspend and resume change the document when their turn has come, and tell how many members are there', async () => {
  const { call, clock, store } = await running();
  const ask = async (type: string): Promise<string> =>
    (await call('POST', OPERATIONS, { body: { spec: { type, mongodbResourceRef: { name: 'orders' } } } }))
      .body.metadata.name;
  const stateOf = async (name: string) => (await call('GET', `${OPERATIONS}/${name}`)).body.status;
  const refused = async (type: string) => {
    const { status, body } = await call('POST', OPERATIONS, {
      body: { spec: { type, mongodbResourceRef: { name: 'orders' } } },
    });
    return [status, body.code, body.detail];
  };
  expect(await refused('Resume')).toEqual([
    409,
    'Refused',
    'Resume of orders: it is not suspended: there is nothing to resume',
  ]);
  const down = await ask('Suspend');
  await clock.advance(30 * SECOND);
  expect(await stateOf(down)).toMatchObject({
    state: 'Succeeded',
    completedMembers: ['orders-0', 'orders-1', 'orders-2'],
  });
  const asleep = (await call('GET', ORDERS)).body;
  expect(asleep).toMatchObject({
    metadata: { generation: 2 },
    spec: { suspend: true },
    status: { phase: 'Suspended' },
  });
  expect(await refused('Suspend')).toEqual([409, 'Refused', 'Suspend of orders: it is suspended already']);
  // As `belay delete --keep-volumes` leaves it.
  await store.update(
    { kind: 'MongoDB', namespace: 'default', name: 'orders' },
    { annotations: { 'belay.dev/kept-by-delete': 'true', team: 'shop' } },
  );
  const restarts = await ask('Restart');
  const up = await ask('Resume');
  // What is asked for and has not begun may be taken back.
  expect((await call('POST', `${OPERATIONS}?dryRun=validate`, { body: SUSPEND })).status).toBe(200);
  await clock.advance(30 * SECOND);
  expect(await stateOf(up)).toMatchObject({ state: 'Succeeded', message: 'it runs again' });
  const awake = (await call('GET', ORDERS)).body;
  expect(awake).toMatchObject({ spec: { suspend: false }, metadata: { annotations: { team: 'shop' } } });
  expect(Object.keys(awake.metadata.annotations)).toEqual(['team']);
  expect((await stateOf(restarts)).state).not.toBe('Waiting');
});

test('history is bounded, waiting ones are bounded, and records go with the cluster', async () => {
  const { call, clock, store } = await running();
  await call('PATCH', ORDERS, { body: { spec: { paused: true } }, type: 'application/merge-patch+json' });
  for (let i = 0; i < OPERATIONS_OPEN; i++)
    expect((await call('POST', OPERATIONS, { body: restart() })).status).toBe(201);
  expect(await call('POST', OPERATIONS, { body: restart() })).toMatchObject({
    status: 409,
    body: { code: 'Refused', detail: `orders has ${OPERATIONS_OPEN} operations that have not ended` },
  });
  for (const { metadata } of (await call('GET', OPERATIONS)).body.items)
    await call('POST', `${OPERATIONS}/${metadata.name}/cancel`);
  await clock.advance(5 * SECOND);
  const template = (await store.list({ kind: 'Operation' })).items[0];
  for (let i = OPERATIONS_OPEN; i < OPERATIONS_KEPT + 5; i++) {
    const { labels, annotations } = template?.metadata ?? {};
    await store.create({
      kind: 'Operation',
      namespace: 'default',
      name: `old-${i}`,
      spec: template?.spec,
      status: template?.status,
      ...(labels && annotations ? { labels, annotations } : {}),
    });
  }
  expect((await call('POST', OPERATIONS, { body: restart() })).status).toBe(201);
  expect((await call('GET', `${OPERATIONS}?limit=1000`)).body.items).toHaveLength(OPERATIONS_KEPT);
  await call('DELETE', ORDERS);
  await clock.advance(60 * SECOND);
  expect((await call('GET', ORDERS)).status).toBe(404);
  expect((await call('GET', OPERATIONS)).body.items).toEqual([]);
});
