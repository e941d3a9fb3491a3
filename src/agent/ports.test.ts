/** Ports and places of services on a host, and what a deployment changes of one. */
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { manualClock } from '../channel/testing/clock.ts';
import { quiet } from '../channel/testing/facts.ts';
import type { HostOperation } from '../engine/ports.ts';
import { openExecutables } from './executables.ts';
import { Inventory } from './inventory.ts';
import { openLayout } from './layout.ts';
import { Operations } from './operations.ts';
import { type Scratch, scratch } from './testing/scratch.ts';
import { owner, spec } from './testing/service.ts';

let box: Scratch;
const listening: Server[] = [];
beforeEach(() => {
  box = scratch();
});
afterEach(() => {
  for (const server of listening.splice(0)) server.close();
  box.remove();
});

/** Somebody else's program on a port; 0: any that is free. */
async function listen(port = 0): Promise<number> {
  const server = createServer();
  listening.push(server);
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

function host() {
  const layout = openLayout(join(box.path, 'data'));
  const inventory = new Inventory(layout, 'host-a');
  const executables = { ...openExecutables(join(box.path, 'bin'), ''), find: async () => '/opt/mongod' };
  const operations = new Operations({
    host: 'host-a',
    layout,
    inventory,
    executables,
    clock: manualClock(),
    log: quiet,
    runningPid: () => null,
    serviceChanged: () => {},
    stopService: async () => {},
    refusePrimary: async () => {},
    changed: () => {},
  });
  const carryOut = async (operation: HostOperation): Promise<Record<string, string | number>> => {
    operations.start(operation);
    await operations.settled();
    const facts = operations.facts(operation.id);
    expect(facts).toMatchObject({ kind: 'succeeded' });
    return (facts as { result: Record<string, string | number> }).result;
  };
  const failed = async (operation: HostOperation): Promise<string> => {
    operations.start(operation);
    await operations.settled();
    const facts = operations.facts(operation.id);
    return facts.kind === 'failed' ? facts.code : facts.kind;
  };
  return { inventory, carryOut, failed };
}

test('A4.3 where a port may be chosen, neither a sibling’s nor a stranger’s is', async () => {
  const { carryOut } = host();
  const taken = await listen();
  const first = await carryOut({ kind: 'import', id: 'o1', spec: spec({ port: taken }) });
  expect(Number(first['port'])).toBeGreaterThan(taken);
  const other = spec({ port: Number(first['port']), owner: owner({ clusterUid: 'uid-2' }) });
  const second = await carryOut({ kind: 'import', id: 'o2', spec: other });
  expect(Number(second['port'])).toBeGreaterThan(Number(first['port']));
});

test('A3.4 A4.6 S10 a service that is there keeps its port and its version when it is imported again', async () => {
  const { carryOut, inventory } = host();
  const port = await listen();
  const first = await carryOut({ kind: 'import', id: 'o1', spec: spec({ port }) });
  const serviceId = String(first['serviceId']);
  await carryOut({ kind: 'deploy', id: 'o2', serviceId, spec: spec({ port: Number(first['port']) }) });
  for (const server of listening.splice(0)) await new Promise((resolve) => server.close(resolve));
  expect(await carryOut({ kind: 'import', id: 'o3', spec: spec({ port }) })).toEqual(first);
  expect(inventory.service(serviceId)?.version).toBe('8.0.32-14');
});

test('A6.6 A8.1 a deployment gives a service its new version, resources, environment, address and port', async () => {
  const { carryOut, inventory } = host();
  const port = await listen();
  for (const server of listening.splice(0)) await new Promise((resolve) => server.close(resolve));
  const made = await carryOut({ kind: 'import', id: 'o1', spec: spec({ port }) });
  const serviceId = String(made['serviceId']);
  const change = {
    address: 'other.test',
    environment: { A: 'b' },
    resources: { cpus: 2, memoryBytes: 1024 },
    version: '8.0.29-13',
  };
  const wanted = spec({ port: Number(made['port']) + 1, ...change });
  expect(await carryOut({ kind: 'deploy', id: 'o2', serviceId, spec: wanted })).toMatchObject({
    serviceId,
    volumeId: made['volumeId'],
    version: '8.0.29-13',
  });
  expect(inventory.service(serviceId)).toMatchObject({ ...change, port: Number(made['port']) + 1 });
});

test('S4 S6 A4.3 a service is deployed for its own member only, by proof', async () => {
  const { carryOut, inventory, failed } = host();
  const port = await listen();
  for (const server of listening.splice(0)) await new Promise((resolve) => server.close(resolve));
  const made = await carryOut({ kind: 'import', id: 'o1', spec: spec({ port }) });
  const serviceId = String(made['serviceId']);
  const own = owner({ clusterUid: 'uid-1' });
  for (const [id, other] of [
    { ...own, clusterUid: 'uid-2' },
    { ...own, member: 'orders-1' },
    { ...own, proof: 'a guess' },
  ].entries()) {
    const operation = {
      kind: 'deploy',
      id: `d${id}`,
      serviceId,
      spec: spec({ port, owner: other }),
    } as const;
    expect(await failed(operation), JSON.stringify(other)).toBe('OwnershipConflict');
  }
  expect(inventory.service(serviceId)?.version).toBeNull();
});
