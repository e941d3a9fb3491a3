import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { afterEach, expect, test } from 'vitest';
import { AvailabilityMode, ItemState } from '../grpc/gen/maintenance_pb.js';
import { MaintenanceClient } from '../grpc/testing/client.ts';
import { type RunningServer, type ServerOptions, startServer } from './start.ts';

const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const log = { debug() {}, info() {}, warn() {}, error() {} };
const free = { host: '127.0.0.1', port: 0 };

async function start(change: Partial<ServerOptions> = {}): Promise<RunningServer> {
  const dataDir = mkdtempSync(join(tmpdir(), 'belay-maintenance-'));
  closing.push(() => rmSync(dataDir, { recursive: true, force: true }));
  const maintenance = { ...free, compat: false };
  const server = await startServer({
    dataDir,
    listen: free,
    agentListen: free,
    tls: false,
    version: '1.2.3',
    log,
    maintenance,
    ...change,
  });
  closing.push(() => server.close());
  return server;
}

const tokenOf = (server: RunningServer): string => readFileSync(server.tokenFile, 'utf8').trim();

async function applyTopology(server: RunningServer): Promise<void> {
  const ids = [1, 2, 3, 4, 5, 6, 7, 8];
  const document = {
    apiVersion: 'belay.dev/v1',
    kind: 'Topology',
    metadata: { name: 'ydb' },
    spec: {
      nodes: ids.map((id) => ({
        id,
        host: `y${id}`,
        port: 19001,
        state: 'Up',
        version: '24.1.2',
        disks: [{ id: 1 }],
      })),
      storageGroups: [{ id: 1, erasure: 'block-4-2', vdisks: ids.map((id) => ({ node: id, disk: 1 })) }],
    },
  };
  const { store, maintenance } = server.controlPlane;
  const { admit } = await import('./admission.ts');
  const admitted = admit(document, null, 0);
  if (admitted.kind !== 'object') throw new Error('not an object');
  await store.create({ ...admitted.key, spec: admitted.spec });
  for (;;) {
    if ((await maintenance.nodes('ydb')).length > 0) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function client(
  server: RunningServer,
  ...channel: ConstructorParameters<typeof MaintenanceClient> extends [unknown, unknown, ...infer Rest]
    ? Rest
    : never
): MaintenanceClient {
  const made = new MaintenanceClient(server.maintenancePort ?? 0, '', ...channel);
  closing.push(() => made.close());
  return made;
}

const request = (taskUid: string, nodeId: number) => ({
  taskOptions: { taskUid, availabilityMode: AvailabilityMode.STRONG },
  actionGroups: [
    {
      actions: [
        {
          action: {
            case: 'lockAction' as const,
            value: {
              scope: { scope: { case: 'nodeId' as const, value: nodeId } },
              duration: { seconds: 60n, nanos: 0 },
            },
          },
        },
      ],
    },
  ],
});

test('C6.2 a control plane serves the maintenance service with tokens of the API; tasks are the same over both', async () => {
  const server = await start();
  await applyTopology(server);
  const ydbops = client(server);
  const login = await ydbops.login('first admin', tokenOf(server));
  ydbops.token = login.result.token;
  expect((await ydbops.whoAmI()).result.user).toBe('first admin');
  const { nodes } = (await ydbops.nodes()).result;
  expect(nodes.map((n) => [n.nodeId, n.host, n.port, n.state, n.version])[2]).toEqual([
    3,
    'y3',
    19001,
    ItemState.UP,
    '24.1.2',
  ]);
  expect((await ydbops.create(request('roll', 3))).status).toBe('SUCCESS');
  const seen = await fetch(`${server.url}/api/v1/maintenance/tasks/roll`, {
    headers: { authorization: `Bearer ${tokenOf(server)}` },
  });
  expect(await seen.json()).toMatchObject({
    owner: 'first admin',
    groups: [[{ scope: { node: '3' }, state: 'performed' }]],
  });
});

test('C6.2 over TLS with a certificate of the installation', async () => {
  const server = await start({ tls: true });
  await applyTopology(server);
  const ydbops = client(server, credentials.createSsl(Buffer.from(server.caPem)));
  ydbops.token = tokenOf(server);
  expect((await ydbops.nodes()).result.nodes).toHaveLength(8);
});

test('without TLS the maintenance service is served on this machine only', async () => {
  const elsewhere = { host: '0.0.0.0', port: 0, compat: false };
  await expect(start({ maintenance: elsewhere })).rejects.toMatchObject({ code: 'Usage' });
});
