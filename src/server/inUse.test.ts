/** What cannot be deleted while maintenance tasks hold it. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ApiRig, makeApi } from './testing/rig.ts';

let api: ApiRig;
beforeEach(async () => {
  api = await makeApi();
});
afterEach(() => api.close());

const TASKS = '/api/v1/maintenance/tasks';
const document = (kind: string, name: string, spec: object = {}) => ({
  apiVersion: 'belay.dev/v1',
  kind,
  metadata: { name },
  spec,
});
const apply = async (kind: string, name: string, spec: object = {}): Promise<void> => {
  const answer = await api.call('POST', '/api/v1/apply', { body: document(kind, name, spec) });
  expect([answer.status, answer.body.errors]).toEqual([200, undefined]);
  await api.clock.advance(1);
};
const take = async (name: string, what: object): Promise<void> => {
  const made = await api.call('POST', TASKS, { as: 'operator', body: { name, duration: '30m', ...what } });
  expect(made.body.groups.flat().map((a: { state: string }) => a.state)).toEqual(['performed']);
};

test('C1.5 S13 a host that a task holds is not deleted, and the task is named; one that is given back can go', async () => {
  await apply('Host', 'spare');
  await take('kernel', { hosts: ['spare'] });
  const refused = await api.call('DELETE', '/api/v1/hosts/spare');
  expect(refused).toMatchObject({
    status: 409,
    body: {
      code: 'Refused',
      detail: expect.stringMatching(
        /^host spare is held by maintenance task kernel \(owner the operator\) until \d{4}-\S+Z$/,
      ),
      fix: 'wait until the work is done, or give it back: belay maintenance drop kernel',
    },
  });
  expect((await api.call('DELETE', `${TASKS}/kernel`)).status).toBe(204);
  expect((await api.call('DELETE', '/api/v1/hosts/spare')).status).toBe(204);
});

test('C6.3 S13 a topology of which tasks hold a node or a disk is not deleted, and all of them are named', async () => {
  const nodes = [1, 2].map((id) => ({ id, host: `y${id}`, state: 'Up', disks: [{ id: 1 }] }));
  await apply('Topology', 'ydb', { nodes });
  await apply('Topology', 'other', { nodes: [{ id: 1, host: 'z1', state: 'Up' }] });
  await take('kernel', { hosts: ['y1'] });
  const disk = [{ actions: [{ scope: { disk: { node: '2', id: 1 } } }] }];
  await take('disk', { topology: 'ydb', mode: 'force', groups: disk });
  const refused = await api.call('DELETE', '/api/v1/topologies/ydb');
  expect(refused).toMatchObject({ status: 409, body: { code: 'Refused' } });
  expect(refused.body.detail).toMatch(/^topology ydb is held by maintenance task kernel .*, disk \(owner/);
  expect(refused.body.fix).toContain('belay maintenance drop kernel; belay maintenance drop disk');
  // Nobody holds anything of this one.
  expect((await api.call('DELETE', '/api/v1/topologies/other')).status).toBe(204);
  await api.clock.advance(30 * 60_000 + 1);
  expect((await api.call('DELETE', '/api/v1/topologies/ydb')).status).toBe(204);
});

test('C6.3 S13 a node that a task holds stays where its topology document has it, until it is given back', async () => {
  const spec = (hosts: readonly string[]) => ({
    nodes: hosts.map((host, i) => ({ id: i + 1, host, state: 'Up', disks: [{ id: 1 }] })),
  });
  const tried = async (hosts: readonly string[]) => {
    const body = document('Topology', 'ydb', spec(hosts));
    const answer = await api.call('POST', '/api/v1/apply', { body });
    return [answer.status, answer.body.errors?.map((p: { path: string }) => p.path)];
  };
  await apply('Topology', 'ydb', spec(['y1', 'y2', 'y3']));
  await take('kernel', { hosts: ['y1'] });
  const disk = [{ actions: [{ scope: { disk: { node: '2', id: 1 } } }] }];
  await take('disk', { topology: 'ydb', mode: 'force', groups: disk });
  expect(await tried(['yy1', 'yy2', 'yy3'])).toEqual([422, ['spec.nodes[0].host', 'spec.nodes[1].host']]);
  expect(await tried(['y1'])).toEqual([422, ['spec.nodes']]);
  const refused = await api.call('POST', '/api/v1/apply', {
    body: document('Topology', 'ydb', spec(['yy1', 'y2', 'y3'])),
  });
  expect(refused.body.errors[0].message).toMatch(
    /^node 1 on host y1 is held by maintenance task kernel \(owner the operator\) until \S+Z, and stays where it is until then; wait, or give it back: belay maintenance drop kernel$/,
  );
  // What nobody holds may go elsewhere, and come.
  expect(await tried(['y1', 'y2', 'y9', 'y1'])).toEqual([200, undefined]);
  expect((await api.call('DELETE', `${TASKS}/kernel`)).status).toBe(204);
  expect(await tried(['yy1', 'y2', 'y9'])).toEqual([200, undefined]);
});
