import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Answer, type ApiRig, makeApi } from './testing/rig.ts';

let api: ApiRig;
beforeEach(async () => {
  api = await makeApi();
});
afterEach(() => api.close());

const TASKS = '/api/v1/maintenance/tasks';
const node = (id: number) => ({ id, host: `y${id}`, state: 'Up', disks: [{ id: 1 }] });
const ids = [1, 2, 3, 4, 5, 6, 7, 8];
const topology = (spec: Record<string, unknown> = {}) => ({
  apiVersion: 'belay.dev/v1',
  kind: 'Topology',
  metadata: { name: 'ydb' },
  spec: {
    nodes: ids.map(node),
    storageGroups: [{ id: 1, erasure: 'block-4-2', vdisks: ids.map((id) => ({ node: id, disk: 1 })) }],
    limits: { cluster: { percent: 0 } },
    ...spec,
  },
});
const put = async (document: unknown = topology()): Promise<void> => {
  const answer = await api.call('POST', '/api/v1/apply', { body: document });
  expect([answer.status, answer.body.errors]).toEqual([200, undefined]);
  await api.clock.advance(1);
};
interface Shown {
  readonly scope: { readonly host?: string; readonly node?: string };
  readonly state: string;
}
const states = ({ body }: Answer): readonly string[] =>
  (body.groups as readonly Shown[][]).flat().map((a) => `${a.scope.host ?? a.scope.node} ${a.state}`);

test('C6.1 a task is asked for, looked at, refreshed, completed and dropped over REST', async () => {
  await put();
  const made = await api.call('POST', TASKS, {
    as: 'operator',
    body: { name: 'kernel', hosts: ['y1', 'y2'], duration: '30m', reason: 'kernel', stepDown: true },
  });
  expect([made.status, states(made)]).toEqual([201, ['y1 performed', 'y2 pending']]);
  // Nothing of a topology leads anything: nobody is waited for.
  expect(made.body.stepDown).toBe(true);
  const [, waits] = made.body.groups.flat();
  expect(waits).toMatchObject({ reason: 'TooManyUnavailableVDisks', members: ['node 2 of ydb'] });
  const own = 'locked by the-operator-p-1 of task kernel (owner the operator)';
  expect([waits.message, waits.forceHelps]).toEqual([expect.stringContaining(own), false]);
  const again = await api.call('POST', `${TASKS}/kernel/refresh`);
  expect(again.body.groups.flat()[1].message).toContain(own);
  expect(again.body.retryAfter).toBe(again.body.groups.flat()[0].deadline);
  expect(made.body.owner).toBe('the operator');
  const done = await api.call('POST', `${TASKS}/kernel/complete`, { body: { hosts: ['y1'] } });
  expect(done.body.completed).toEqual(['the-operator-p-1']);
  expect(states(await api.call('POST', `${TASKS}/kernel/refresh`))).toEqual(['y2 performed']);
  expect((await api.call('GET', TASKS, { as: 'viewer' })).body.items).toHaveLength(1);
  expect((await api.call('GET', `${TASKS}?owner=nobody`)).body.items).toEqual([]);
  expect((await api.call('DELETE', `${TASKS}/kernel`)).status).toBe(204);
  expect((await api.call('GET', `${TASKS}/kernel`)).body).toMatchObject({ status: 404, code: 'NotFound' });
});

test('C1.5 what is named twice, and a topology that is not there, are refused with their fields', async () => {
  await put();
  const problems = async (body: unknown) => (await api.call('POST', TASKS, { body })).body.errors;
  expect(await problems({ hosts: ['y1', 'y2', 'y1'], nodes: ['2', '3', '3'], topology: 'ydb' })).toEqual([
    { path: 'hosts.2', message: 'host y1 is named twice' },
    { path: 'nodes.0', message: 'node ydb/2 is on host y2, which is asked for as well' },
    { path: 'nodes.2', message: 'node ydb/3 is named twice' },
  ]);
  expect(await problems({ hosts: ['y1'], topology: 'nope' })).toEqual([
    { path: 'topology', message: 'there is no topology nope' },
  ]);
  const groups = [{ actions: [{ scope: { host: 'db9' } }] }];
  expect(await problems({ topology: 'ydb', groups })).toEqual([
    { path: 'groups.0.actions.0.scope', message: 'host db9 carries nothing of topology ydb' },
  ]);
  expect((await api.call('GET', TASKS)).body.items).toEqual([]);
});

test('C1.5 a document that can never be granted is warned of, shown as refused, and can be dropped', async () => {
  await put();
  const document = {
    apiVersion: 'belay.dev/v1',
    kind: 'MaintenanceTask',
    metadata: { name: 'doc' },
    spec: { groups: [{ actions: [{ scope: { host: 'nowhere' } }] }] },
  };
  const applied = await api.call('POST', '/api/v1/apply', { body: document });
  expect(applied.text).toContain('can never be granted as things are: there is no host nowhere');
  await api.clock.advance(60_000);
  expect((await api.call('GET', `${TASKS}/doc`)).body).toMatchObject({
    code: 'Invalid',
    detail: 'Maintenance task doc was refused: there is no host nowhere',
  });
  expect((await api.call('DELETE', `${TASKS}/doc`)).status).toBe(204);
  expect((await api.call('GET', `${TASKS}/doc`)).status).toBe(404);
});

test('C1.3 C6.1 what is held is held longer, and what waits is given up, over REST', async () => {
  await put();
  const body = { name: 't', hosts: ['y1', 'y2'], duration: '10m' };
  const made = await api.call('POST', TASKS, { as: 'operator', body });
  const [{ id, deadline }] = made.body.groups.flat();
  const extend = (more: Record<string, unknown>) =>
    api.call('POST', `${TASKS}/t/extend`, { as: 'operator', body: { ids: [id], duration: '1h', ...more } });
  const longer = await extend({});
  const ends = Date.parse(longer.body.groups.flat()[0].deadline);
  expect([longer.status, ends - Date.parse(deadline)]).toEqual([200, 50 * 60_000]);
  for (const duration of ['0s', 'long', ''])
    expect((await extend({ duration })).body).toMatchObject({
      code: 'Invalid',
      errors: [{ path: 'duration' }],
    });
  expect((await extend({ ids: ['nobody-p-1'] })).body).toMatchObject({
    code: 'NotFound',
    detail: 'task t holds no action nobody-p-1',
  });
  const left = await api.call('POST', `${TASKS}/t/withdraw`);
  expect(left.body.task.groups.flat()).toHaveLength(1);
  await api.clock.advance(60 * 60_000 + 1);
  expect((await api.call('GET', `${TASKS}/t`)).status).toBe(404);
});

test('C1.5 wrong requests: a code, every problem, and nothing left behind', async () => {
  await put();
  const send = async (body: unknown) => (await api.call('POST', TASKS, { body })).body;
  expect(await send({ hosts: ['nowhere'] })).toMatchObject({
    code: 'Invalid',
    detail: 'there is no host nowhere',
  });
  expect(await send({})).toMatchObject({ code: 'Invalid' });
  expect(await send({ hosts: ['y1'], priority: 200 })).toMatchObject({ code: 'Invalid' });
  expect(await send({ hosts: ['y1'], hots: 1 })).toMatchObject({
    errors: [{ path: 'hots', message: 'unknown field' }],
  });
  const bounds = 'must be from 1s to 30d';
  for (const duration of ['0s', '1000000h'])
    expect(await send({ hosts: ['y1'], duration })).toMatchObject({
      errors: [{ path: 'duration', message: bounds }],
    });
  const groups = [{ actions: [{ scope: { host: 'y1' }, duration: '31d' }] }];
  expect(await send({ groups })).toMatchObject({
    errors: [{ path: 'groups.0.actions.0.duration', message: bounds }],
  });
  await send({ name: 't', hosts: ['y1'] });
  expect(await send({ name: 't', hosts: ['y2'] })).toMatchObject({ code: 'AlreadyExists', status: 409 });
  expect((await api.call('POST', TASKS, { as: 'viewer', body: { hosts: ['y1'] } })).status).toBe(403);
  expect((await api.call('GET', TASKS)).body.items).toHaveLength(1);
});

test('C1.5 a reason and an owner are one line that no terminal acts on, over REST and as a document', async () => {
  await put();
  for (const field of ['reason', 'owner']) {
    const over = await api.call('POST', TASKS, { body: { hosts: ['y1'], [field]: 'a\nb\u001b[31m' } });
    expect([over.status, over.body.errors]).toEqual([
      422,
      [expect.objectContaining({ message: 'must be one line without control characters' })],
    ]);
    const groups = [{ actions: [{ scope: { host: 'y1' } }] }];
    const document = { ...topology(), kind: 'MaintenanceTask', spec: { groups, [field]: 'a\u009bb' } };
    const applied = await api.call('POST', '/api/v1/apply', { body: document });
    expect(JSON.stringify(applied.body)).toContain('must be one line without control characters');
  }
});

test('C6.1 S13 explain tells what would be granted and what stands in the way, and changes nothing', async () => {
  await put();
  const answer = await api.call('POST', '/api/v1/maintenance/explain', {
    as: 'viewer',
    body: { nodes: ['1', '2'], topology: 'ydb' },
  });
  expect(states(answer)).toEqual(['1 performed', '2 pending']);
  expect((await api.call('GET', TASKS)).body.items).toEqual([]);
  const weak = await api.call('POST', '/api/v1/maintenance/explain', {
    body: { nodes: ['1', '2'], topology: 'ydb', mode: 'weak', together: true },
  });
  expect(states(weak)).toEqual(['1 performed', '2 performed']);
});

test('C6.3 C5.3 health is pushed; what is old or was never told counts as down', async () => {
  await put(topology({ healthMaxAge: '1m' }));
  const push = (nodes: unknown) => api.call('POST', '/api/v1/topologies/ydb/health', { body: { nodes } });
  const nodesNow = async () => {
    await api.clock.advance(1);
    return (await api.call('GET', '/api/v1/maintenance/nodes?cluster=ydb')).body.items.map(
      (n: { state: string }) => n.state,
    );
  };
  expect((await push([{ id: 3, state: 'Down' }])).status).toBe(200);
  expect((await nodesNow()).slice(1, 4)).toEqual(['Up', 'Down', 'Up']);
  expect(
    states(await api.call('POST', TASKS, { body: { name: 't', nodes: ['1'], topology: 'ydb' } })),
  ).toEqual(['1 pending']);
  await push([{ id: 3, state: 'Up' }]);
  await api.clock.advance(1);
  expect(states(await api.call('POST', `${TASKS}/t/refresh`))).toEqual(['1 performed']);
  await push([{ id: 1, state: 'Down' }]);
  expect((await nodesNow()).slice(0, 2)).toEqual(['Maintenance', 'Up']);
  await api.clock.advance(61_000);
  expect(new Set((await nodesNow()).slice(1))).toEqual(new Set(['Unknown']));
});

test('C5.3 C6.3 every node ages by itself; a push that does not name it makes it no younger', async () => {
  await put(topology({ healthMaxAge: '10s' }));
  const push = async (...told: readonly number[]) => {
    const body = { nodes: told.map((id) => ({ id, state: 'Up' })) };
    expect((await api.call('POST', '/api/v1/topologies/ydb/health', { body })).status).toBe(200);
    await api.clock.advance(3_000);
  };
  const nodesNow = async (): Promise<readonly string[]> => {
    const { body } = await api.call('GET', '/api/v1/maintenance/nodes?cluster=ydb');
    return body.items.map((n: { state: string }) => n.state);
  };
  await push(1, 2);
  await push(1);
  await push(1);
  // What no push has named is as the document says, for as long as a push is believed.
  expect(await nodesNow()).toEqual(ids.map(() => 'Up'));
  await push(1);
  expect(await nodesNow()).toEqual(['Up', ...ids.slice(1).map(() => 'Unknown')]);
  const { body } = await api.call('POST', TASKS, { body: { nodes: ['2'], topology: 'ydb' } });
  expect(body.groups[0][0].message).toContain(
    'it was last reported Up at 2023-11-14T22:13:20Z, and healthMaxAge is 10s',
  );
  await api.clock.advance(10_000);
  expect(new Set(await nodesNow())).toEqual(new Set(['Unknown']));
  await push();
  expect(new Set(await nodesNow())).toEqual(new Set(['Unknown']));
  await push(1, 2);
  expect((await nodesNow()).slice(0, 3)).toEqual(['Up', 'Up', 'Unknown']);
});

test('C5.3 what was told of a disk gets old too, and a version told of a node makes its state no younger', async () => {
  await put(topology({ healthMaxAge: '10s' }));
  const push = async (body: unknown) => {
    expect((await api.call('POST', '/api/v1/topologies/ydb/health', { body })).status).toBe(200);
    await api.clock.advance(6_000);
  };
  const nodes = [1, 2, 3, 4, 5, 6].map((id) => ({ id, state: 'Up' }));
  await push({ nodes, disks: [{ node: 2, disk: 1, state: 'Normal' }] });
  await push({ nodes: [...nodes.slice(0, 4), { id: 5, version: '25.1' }] });
  const tell = async (id: number) =>
    (await api.call('POST', '/api/v1/maintenance/explain', { body: { nodes: [`${id}`], topology: 'ydb' } }))
      .body.groups[0][0].message;
  const message = await tell(1);
  expect(message).toContain('node 2 of ydb (its disk is not Normal)');
  expect(message).toContain('node 5 of ydb (unknown)');
  expect(message).toContain('node 6 of ydb (unknown)');
});

test('C6.3 C1.5 a push that names what is not there is refused whole, with every problem and its place', async () => {
  await put();
  const body = {
    nodes: [
      { id: 1, state: 'Down' },
      { id: 12, state: 'Up' },
      { id: 1, state: 'Up' },
      { id: 2, startedAt: '2099-01-01T00:00:00Z' },
    ],
    disks: [
      { node: 12, disk: 1, state: 'Normal' },
      { node: 1, disk: 7, state: 'Normal' },
    ],
    vdisks: [
      { group: 5, node: 1, state: 'Ok' },
      { group: 1, node: 12, state: 'Ok' },
    ],
  };
  const answer = await api.call('POST', '/api/v1/topologies/ydb/health', { body });
  expect([answer.status, answer.body.code]).toEqual([422, 'Invalid']);
  expect(answer.body.errors.map((e: { path: string; message: string }) => `${e.path}: ${e.message}`)).toEqual(
    [
      'nodes[1].id: there is no node 12',
      'nodes[2].id: node 1 is given twice, first at nodes[0].id',
      'nodes[3].startedAt: must not lie in the future: no node has started then',
      'disks[0].node: there is no node 12',
      'disks[1].disk: node 1 has no disk 7',
      'vdisks[0].group: there is no storage group 5',
      'vdisks[1].node: storage group 1 has no virtual disk on node 12',
    ],
  );
  const { body: nodes } = await api.call('GET', '/api/v1/maintenance/nodes?cluster=ydb');
  expect(nodes.items[0].state).toBe('Up');
});

test('C6.3 L3 a start in the future is refused: its ring would never settle', async () => {
  const document = topology({ nodes: ids.map((id) => ({ ...node(id), startedAt: '2099-01-01T00:00:00Z' })) });
  const answer = await api.call('POST', '/api/v1/apply', { body: document });
  expect(answer.body.errors).toHaveLength(8);
  expect(answer.body.errors[7]).toEqual({
    path: 'spec.nodes[7].startedAt',
    message: 'must not lie in the future: no node has started then',
  });
});

test('C1.2 C6.3 a refusal names the topology whose group, ring and nodes stand in the way', async () => {
  const stateStorage = { nToSelect: 3, rings: [[1], [2], [3]] };
  await put(topology({ stateStorage, storageGroups: [] }));
  await put({ ...topology(), metadata: { name: 'other' } });
  const tell = async (body: unknown) =>
    (await api.call('POST', '/api/v1/maintenance/explain', { body })).body;
  const groups = await tell({ nodes: ['1', '2'], topology: 'other' });
  expect(groups.groups[1][0].message).toContain('in group 1 of other (block-4-2)');
  const rings = await tell({ nodes: ['1', '2'], topology: 'ydb' });
  expect(rings.groups[1][0].message).toContain('ring 0 of ydb: node 1 of ydb');
  const both = await tell({ nodes: ['1', '2'], topology: 'other', together: true });
  expect(both.detail).toBe(
    'The request is incorrect: too many disks from the one group (1 of other, block-4-2): those of node 1 of other, node 2 of other',
  );
});

test('C1.1 C1.5 a group larger than what may be in flight is refused with its field, asked for or written down', async () => {
  await put();
  const message =
    'is 1, and a group of 2 is granted whole or not at all: make it at least 2, leave it out, or ask for them one by one';
  const body = { hosts: ['y1', 'y2'], together: true, mode: 'weak', maxInFlight: 1 };
  const refused = await api.call('POST', TASKS, { body });
  expect([refused.status, refused.body.code]).toEqual([422, 'Invalid']);
  expect(refused.body.errors).toEqual([{ path: 'maxInFlight', message }]);
  const document = {
    apiVersion: 'belay.dev/v1',
    kind: 'MaintenanceTask',
    metadata: { name: 'both' },
    spec: {
      mode: 'weak',
      maxInFlight: 1,
      groups: [{ actions: ['y1', 'y2'].map((host) => ({ scope: { host } })) }],
    },
  };
  const applied = await api.call('POST', '/api/v1/apply', { body: document });
  expect(applied.body.errors).toEqual([{ path: 'spec.maxInFlight', message }]);
  expect((await api.call('POST', TASKS, { body: { ...body, maxInFlight: 2 } })).status).toBe(201);
});

test('C1.2 what waits for its turn in its own task says so', async () => {
  await put();
  const body = { nodes: ['1', '2'], topology: 'ydb', mode: 'weak', maxInFlight: 1 };
  const { body: made } = await api.call('POST', TASKS, { body });
  expect(made.groups[1][0]).toMatchObject({
    reason: 'InFlightCap',
    message: 'waits for its turn: the task holds at most 1 at a time',
  });
});

test('C6.4 hosts with holders and waiting tasks; a document that is applied is a task of who applied it', async () => {
  await put();
  const document = {
    apiVersion: 'belay.dev/v1',
    kind: 'MaintenanceTask',
    metadata: { name: 'by-hand' },
    spec: { groups: [{ actions: [{ scope: { host: 'y5' }, duration: '10m' }] }] },
  };
  expect((await api.call('POST', '/api/v1/apply', { as: 'operator', body: document })).status).toBe(200);
  await api.clock.advance(1);
  const { body } = await api.call('GET', '/api/v1/maintenance/hosts');
  const y5 = body.items.find((h: { host: string }) => h.host === 'y5');
  expect(y5).toMatchObject({
    state: 'Maintenance',
    holders: [{ task: 'by-hand', owner: 'the operator' }],
    waiting: [],
  });
  const object = await api.call('GET', '/api/v1/maintenancetasks/by-hand');
  expect(object.body.status).toMatchObject({ phase: 'Ready', message: '1 granted, 0 waiting' });
  expect((await api.call('DELETE', '/api/v1/maintenancetasks/by-hand')).status).toBe(204);
  await api.clock.advance(1);
  expect((await api.call('GET', TASKS)).body.items).toEqual([]);
});

test('C1.5 an admin switches new grants off; what is held can still be given back', async () => {
  await put();
  await api.call('POST', TASKS, { body: { name: 't', hosts: ['y1'] } });
  expect(
    (await api.call('PUT', '/api/v1/maintenance/switch', { as: 'operator', body: { disabled: true } }))
      .status,
  ).toBe(403);
  await api.call('PUT', '/api/v1/maintenance/switch', { body: { disabled: true } });
  expect((await api.call('POST', TASKS, { body: { hosts: ['y2'] } })).body).toMatchObject({
    code: 'MaintenanceDisabled',
    status: 503,
  });
  expect((await api.call('POST', `${TASKS}/t/complete`, { body: { all: true } })).body).toEqual({
    completed: ['the-admin-p-1'],
    task: null,
  });
});

test('C5.4 C6.3 a topology of a thousand nodes and ninety thousand virtual disks is taken over REST and planned on', async () => {
  const all = Array.from({ length: 1000 }, (_, i) => i + 1);
  const disks = Array.from({ length: 10 }, (_, id) => ({ id }));
  const storageGroups = Array.from({ length: 11_250 }, (_, id) => ({
    id,
    erasure: 'block-4-2',
    vdisks: [1, 2, 3, 4, 5, 6, 7, 8].map((k) => ({
      node: Math.floor(id / 90) * 8 + k,
      disk: Math.floor((id % 90) / 9),
    })),
  }));
  const nodes = all.map((id) => ({ id, host: `y${id}`, state: 'Up', disks }));
  const body = {
    apiVersion: 'belay.dev/v1',
    kind: 'Topology',
    metadata: { name: 'big' },
    spec: { nodes, storageGroups, limits: { cluster: { percent: 0 } } },
  };
  expect((await api.call('PUT', '/api/v1/topologies/big', { body })).status).toBe(201);
  await api.clock.advance(1);
  const made = await api.call('POST', TASKS, {
    body: { name: 'all', nodes: all.map(String), topology: 'big' },
  });
  expect(states(made).filter((s) => s.endsWith('performed'))).toHaveLength(125);
});

test('A7.4 C5.3 a topology shows whether health is pushed and when it got too old, though nobody writes that', async () => {
  const reasons = async (path: string) => {
    const { body } = await api.call('GET', path, { as: 'viewer' });
    const { status } = body.items?.[0] ?? body;
    return [status.phase, ...status.conditions.map((c: { reason: string }) => c.reason)];
  };
  await put();
  expect(await reasons('/api/v1/topologies/ydb')).toEqual([
    'Ready',
    'Valid',
    'NeverPushed',
    'UpToDate',
    'AllUp',
  ]);
  const nodes = ids.map((id) => ({ id, state: 'Up' }));
  await api.call('POST', '/api/v1/topologies/ydb/health', { body: { nodes } });
  expect(await reasons('/api/v1/topologies')).toEqual(['Ready', 'Valid', 'Pushed', 'UpToDate', 'AllUp']);
  await api.call('POST', '/api/v1/topologies/ydb/health', { body: { nodes: [{ id: 2, state: 'Down' }] } });
  expect((await reasons('/api/v1/topologies')).at(-1)).toBe('NodesDown');
  await api.clock.advance(5 * 60_000);
  for (const path of ['/api/v1/topologies/ydb', '/api/v1/topologies'])
    expect(await reasons(path)).toEqual(['Degraded', 'Valid', 'Pushed', 'HealthTooOld', 'NodesUnknown']);
});

test('C1.5 C6.4 S13 nobody but an admin asks in the name of somebody else, over REST and as a document', async () => {
  await put();
  const document = {
    apiVersion: 'belay.dev/v1',
    kind: 'MaintenanceTask',
    metadata: { name: 'forged' },
    spec: { owner: 'boss', mode: 'force', groups: [{ actions: [{ scope: { host: 'y5' } }] }] },
  };
  const message =
    'must be the operator, who asks: only admins ask for others; leave it out, or have an admin ask';
  const path = '/api/v1/maintenancetasks/forged';
  for (const [method, url] of [
    ['POST', '/api/v1/apply'],
    ['PUT', path],
  ] as const) {
    const refused = await api.call(method, url, { as: 'operator', body: document });
    expect([refused.status, refused.body.errors]).toEqual([422, [{ path: 'spec.owner', message }]]);
  }
  const body = { name: 'forged', owner: 'boss', hosts: ['y5'], mode: 'force' };
  const refused = await api.call('POST', TASKS, { as: 'operator', body });
  expect([refused.status, refused.body.errors]).toEqual([422, [{ path: 'owner', message }]]);
  expect((await api.call('GET', TASKS)).body.items).toEqual([]);
  expect((await api.call('POST', '/api/v1/apply', { body: document })).status).toBe(200);
  // What stands already is no new claim.
  const again = await api.call('POST', '/api/v1/apply', { as: 'operator', body: document });
  expect(again.body.outcome).toBe('unchanged');
});

test('C5.3 C6.3 a push without a state starts no clock; what is wrong with a body is told as of documents', async () => {
  await put(topology({ healthMaxAge: '1m' }));
  const push = (body: unknown) => api.call('POST', '/api/v1/topologies/ydb/health', { body });
  expect((await push({ nodes: [{ id: 1 }] })).body.errors).toEqual([
    {
      path: 'nodes[0].state',
      message: 'is required where nothing else is told of a node: Up, Down or Unknown',
    },
  ]);
  for (let i = 0; i < 3; i++) {
    expect((await push({ nodes: [{ id: 1, version: '25.1' }] })).status).toBe(200);
    await api.clock.advance(61_000);
  }
  const { body } = await api.call('GET', '/api/v1/maintenance/nodes?cluster=ydb');
  expect(new Set(body.items.map((n: { state: string }) => n.state))).toEqual(new Set(['Up']));
  expect((await push({ nodes: [{ id: 1, state: 'up?' }] })).body.errors).toEqual([
    { path: 'nodes[0].state', message: 'must be one of Up, Down, Unknown; did you mean Up?' },
  ]);
  const put1 = await api.call('PUT', '/api/v1/maintenance/switch', { body: { disabled: 'yes' } });
  expect(put1.body.errors).toEqual([{ path: 'disabled', message: 'must be true or false, not text' }]);
});
