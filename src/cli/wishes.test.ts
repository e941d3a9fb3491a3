/** What verbs of operations ask a server for, word for word. */
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { belay } from './testing/rig.ts';

let server: Server;
let url: string;
let asked: unknown[] = [];

/** A control plane that takes whatever it is asked for. */
async function take(request: IncomingMessage): Promise<unknown> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  const body = JSON.parse(text) as { spec: unknown };
  asked.push({ [`${request.method} ${request.url}`]: body.spec });
  const metadata = { name: 'orders-op-x7k2', namespace: 'default' };
  return { apiVersion: 'belay.dev/v1', kind: 'Operation', metadata, spec: body.spec, status: {} };
}
beforeAll(async () => {
  server = createServer((request, response) => {
    void take(request).then((answer) => {
      response.writeHead(201, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));

test.each<readonly [string, Readonly<Record<string, unknown>>]>([
  ['restart orders', { type: 'Restart', members: [] }],
  [
    'restart mdb/orders --member orders-1 --member orders-2',
    { type: 'Restart', members: ['orders-1', 'orders-2'] },
  ],
  ['replace orders orders-2', { type: 'Replace', member: 'orders-2' }],
  ['move orders orders-2', { type: 'Move', member: 'orders-2', avoidHosts: [] }],
  [
    'move orders orders-2 --to db4 --avoid db3 --avoid db5',
    { type: 'Move', member: 'orders-2', avoidHosts: ['db3', 'db5'], host: 'db4' },
  ],
  ['rotate users orders', { type: 'RotateUsers', users: [] }],
  ['rotate users orders --user clusterMonitor', { type: 'RotateUsers', users: ['clusterMonitor'] }],
  ['rotate tls orders', { type: 'RotateTLS' }],
  ['raise-fcv orders', { type: 'RaiseFCV' }],
  ['raise-fcv orders --to 8.0', { type: 'RaiseFCV', version: '8.0' }],
  [
    'force-reconfig orders --acknowledge LoseUnreplicatedWrites',
    { type: 'ForceReconfig', acknowledge: 'LoseUnreplicatedWrites' },
  ],
  ['override-windows orders --reason CVE', { type: 'OverrideWindows', reason: 'CVE' }],
  [
    'override-windows orders --reason CVE --for 4h',
    { type: 'OverrideWindows', reason: 'CVE', duration: '4h' },
  ],
  ['override-windows orders --end', { type: 'OverrideWindows', end: true }],
  ['suspend orders', { type: 'Suspend' }],
  ['resume orders', { type: 'Resume' }],
  ['balancer on orders', { type: 'StartBalancer' }],
  ['balancer off orders', { type: 'StopBalancer' }],
])('A13.1 C7.1 belay %s', async (line, spec) => {
  asked = [];
  const env = { BELAY_SERVER: url, BELAY_TOKEN: 'blt_x', XDG_CONFIG_HOME: '/nonexistent' };
  const { code, out, err } = await belay([...line.split(' '), '--no-wait'], { env });
  expect({ code, out }, err).toEqual({ code: 0, out: 'operations/orders-op-x7k2 asked for\n' });
  expect(asked).toEqual([
    {
      'POST /api/v1/namespaces/default/operations': { ...spec, mongodbResourceRef: { name: 'orders' } },
    },
  ]);
});

test('A13.1 QRM-03 force-reconfig without an acknowledgement says what is lost and what to give, and asks nobody', async () => {
  asked = [];
  const env = { BELAY_SERVER: url, BELAY_TOKEN: 'blt_x', XDG_CONFIG_HOME: '/nonexistent' };
  const { code, err } = await belay(['force-reconfig', 'orders'], { env });
  expect(code).toBe(2);
  expect(err).toContain('loses writes that only the lost members hold');
  expect(err).toContain('--acknowledge LoseUnreplicatedWrites');
  expect(asked).toEqual([]);
});
