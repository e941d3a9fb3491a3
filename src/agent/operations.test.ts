import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { manualClock } from '../channel/testing/clock.ts';
import { quiet } from '../channel/testing/facts.ts';
import type { OperationFacts } from '../clusters/facts.ts';
import type { HostOperation } from '../engine/ports.ts';
import { openExecutables } from './executables.ts';
import { PUBLIC, readJson, writeJson } from './files.ts';
import { Inventory } from './inventory.ts';
import { openLayout } from './layout.ts';
import { OPERATIONS_KEPT } from './limits.ts';
import { Operations, type OperationsOptions } from './operations.ts';
import { usedBytes } from './space.ts';
import { type Scratch, scratch } from './testing/scratch.ts';
import { owner, spec } from './testing/service.ts';

let box: Scratch;
beforeEach(() => {
  box = scratch();
});
afterEach(() => box.remove());

function host(options: Partial<OperationsOptions> = {}) {
  const layout = openLayout(join(box.path, 'data'));
  const inventory = new Inventory(layout, 'host-a');
  const seen: string[] = [];
  const operations = new Operations({
    host: 'host-a',
    layout,
    inventory,
    executables: openExecutables(join(box.path, 'bin'), ''),
    clock: manualClock(),
    log: quiet,
    runningPid: () => null,
    serviceChanged: (id) => void seen.push(`changed ${id}`),
    stopService: async (id) => void seen.push(`stopped ${id}`),
    refusePrimary: async () => {},
    changed: (id, uid, facts) => void seen.push(`${id} ${uid} ${facts.kind}`),
    ...options,
  });
  const carryOut = async (operation: HostOperation): Promise<OperationFacts> => {
    operations.start(operation);
    await operations.settled();
    return operations.facts(operation.id);
  };
  return { layout, inventory, operations, carryOut, seen };
}
const resultOf = (facts: OperationFacts): Record<string, string> => {
  expect(facts.kind).toBe('succeeded');
  return (facts as { result: Record<string, string> }).result;
};

test('A4.3 import makes a service and a volume that carries its owner, and says their ids', async () => {
  const { carryOut, inventory, seen } = host();
  const { serviceId, volumeId } = resultOf(await carryOut({ kind: 'import', id: 'o1', spec: spec() })) as {
    serviceId: string;
    volumeId: string;
  };
  expect(inventory.service(serviceId)).toMatchObject({ owner: owner(), volumeId, version: null });
  expect(inventory.volume(volumeId)?.owner).toEqual(owner());
  expect(inventory.facts().map((facts) => [facts.kind, facts.id, facts.owner, facts.deployed])).toEqual([
    ['runtime', serviceId, owner(), false],
    ['volume', volumeId, owner(), false],
  ]);
  expect(seen).toEqual([`changed ${serviceId}`, 'o1 uid-1 succeeded']);
});

test('S10, A3.4 the same import by id or by owner makes nothing twice', async () => {
  const { carryOut, inventory } = host();
  const first = await carryOut({ kind: 'import', id: 'o1', spec: spec() });
  expect(await carryOut({ kind: 'import', id: 'o1', spec: spec() })).toEqual(first);
  expect(await carryOut({ kind: 'import', id: 'o2', spec: spec() })).toEqual(first);
  expect(inventory.facts()).toHaveLength(2);
});

test('S10 an operation is carried out once per id, however it ended', async () => {
  const { carryOut, seen } = host();
  const ids = resultOf(await carryOut({ kind: 'import', id: 'o1', spec: spec() }));
  const told = seen.length;
  expect(resultOf(await carryOut({ kind: 'import', id: 'o1', spec: spec() }))).toEqual(ids);
  const deploy = { kind: 'deploy', id: 'o2', serviceId: ids['serviceId'] as string, spec: spec() } as const;
  expect(await carryOut(deploy)).toMatchObject({ kind: 'failed', code: 'NoExecutables' });
  expect(await carryOut(deploy)).toMatchObject({ kind: 'failed', code: 'NoExecutables' });
  expect(seen.slice(told)).toEqual(['o2 uid-1 failed']);
});

test('S4 A2.6 a volume whose marker cannot be written gets no data folder', () => {
  const { inventory, layout } = host();
  mkdirSync(layout.volume('vol-1').owner, { recursive: true });
  expect(() => inventory.createVolume('vol-1', owner(), 0)).toThrow();
  expect(existsSync(layout.volume('vol-1').data)).toBe(false);
});

test('A2.7 an import that was cut off goes on with the ids it had decided', async () => {
  const { operations, layout } = host();
  operations.start({ kind: 'import', id: 'o1', spec: spec() });
  const journalled = JSON.parse(readFileSync(layout.operation('o1'), 'utf8'));
  await operations.settled();
  writeFileSync(layout.operation('o1'), JSON.stringify(journalled));

  const next = host();
  expect(next.operations.facts('o1').kind).toBe('running');
  next.operations.resume();
  await next.operations.settled();
  expect(resultOf(next.operations.facts('o1'))).toMatchObject(journalled.place);
  expect(next.inventory.facts()).toHaveLength(2);
});

test('A4.6 an operation nobody started here is unknown; ended ones survive a restart of the agent', async () => {
  const { carryOut } = host();
  const ended = await carryOut({ kind: 'import', id: 'step/1:a', spec: spec() });
  const next = host();
  expect(next.operations.facts('step/1:a')).toEqual(ended);
  expect(next.operations.facts('other')).toEqual({ kind: 'unknown' });
});

test('A14.2 a kept volume is found again by its owner or its id, whatever became of its service', async () => {
  const { carryOut, inventory } = host();
  const first = resultOf(await carryOut({ kind: 'import', id: 'o1', spec: spec() })) as Record<
    string,
    string
  >;
  const volumeId = first['volumeId'] as string;
  writeFileSync(join(inventory.dataPath(volumeId), 'data.wt'), 'precious');
  await carryOut({
    kind: 'deleteRuntime',
    id: 'o2',
    serviceId: first['serviceId'] as string,
    clusterUid: 'uid-1',
  });
  expect(readFileSync(join(inventory.dataPath(volumeId), 'data.wt'), 'utf8')).toBe('precious');

  const byOwner = resultOf(await carryOut({ kind: 'import', id: 'o3', spec: spec() }));
  expect(byOwner).toMatchObject({ volumeId });
  const byId = spec({ volume: { ...spec().volume, id: volumeId } });
  expect(resultOf(await carryOut({ kind: 'import', id: 'o4', spec: byId }))).toMatchObject({ volumeId });
  const lost = spec({ owner: owner({ member: 'orders-1' }), volume: { ...spec().volume, id: 'vol-lost' } });
  expect(await carryOut({ kind: 'import', id: 'o5', spec: lost })).toMatchObject({ code: 'VolumeNotFound' });
});

test('A4.4, S6 a volume of somebody else, or data without an owner, is a conflict and stays untouched', async () => {
  const { carryOut, layout } = host();
  const foreign = layout.volume('vol-foreign');
  mkdirSync(foreign.data, { recursive: true });
  writeFileSync(join(foreign.data, 'data.wt'), 'theirs');
  const asked = spec({ volume: { ...spec().volume, id: 'vol-foreign' } });
  expect(await carryOut({ kind: 'import', id: 'o1', spec: asked })).toMatchObject({
    code: 'OwnershipConflict',
  });
  writeFileSync(
    foreign.owner,
    JSON.stringify({
      id: 'vol-foreign',
      owner: owner({ clusterUid: 'uid-2' }),
      createdAt: 1,
      replicaSetId: null,
    }),
  );
  expect(await carryOut({ kind: 'import', id: 'o2', spec: asked })).toMatchObject({
    code: 'OwnershipConflict',
  });
  const deletion = {
    kind: 'deleteVolume',
    volumeId: 'vol-foreign',
    clusterUid: 'uid-1',
    member: 'orders-0',
  } as const;
  expect(await carryOut({ ...deletion, id: 'o3' })).toMatchObject({ code: 'OwnershipConflict' });
  expect(readFileSync(join(foreign.data, 'data.wt'), 'utf8')).toBe('theirs');
  expect(readdirSync(layout.services)).toEqual([]);
});

test('A4.3 the same member under another proof is refused, another cluster’s member of that name is not', async () => {
  const { carryOut } = host();
  await carryOut({ kind: 'import', id: 'o1', spec: spec() });
  const forged = spec({ owner: owner({ proof: 'forged' }) });
  expect(await carryOut({ kind: 'import', id: 'o2', spec: forged })).toMatchObject({
    code: 'OwnershipConflict',
  });
  const namesake = spec({ owner: owner({ clusterUid: 'uid-2' }) });
  expect((await carryOut({ kind: 'import', id: 'o3', spec: namesake })).kind).toBe('succeeded');
});

test('deploy needs an executable of this very version and says which there are', async () => {
  box.script('bin/8.0.29-13/bin/mongod', 'echo "db version v8.0.29-13"');
  const { carryOut, inventory, seen } = host();
  const { serviceId } = resultOf(await carryOut({ kind: 'import', id: 'o1', spec: spec() })) as {
    serviceId: string;
  };
  const failed = await carryOut({ kind: 'deploy', id: 'o2', serviceId, spec: spec() });
  expect(failed).toMatchObject({ kind: 'failed', code: 'NoExecutables' });
  expect((failed as { message: string }).message).toBe('no mongod 8.0.32-14 on this host (found: 8.0.29-13)');
  box.script('bin/mongod', 'echo "db version v8.0.32-14"');
  expect((await carryOut({ kind: 'deploy', id: 'o3', serviceId, spec: spec() })).kind).toBe('succeeded');
  expect(inventory.service(serviceId)?.version).toBe('8.0.32-14');
  expect(seen.filter((line) => line === `changed ${serviceId}`)).toHaveLength(2);
});

test('two clusters that want one port: a fixed one is refused with who has it, a free one is the next', async () => {
  const { carryOut } = host();
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const taken = await carryOut({ kind: 'import', id: 'o1', spec: spec({ port, portFixed: true }) });
  expect(taken).toMatchObject({ kind: 'failed', code: 'PortTaken' });
  expect((taken as { message: string }).message).toContain(`process ${process.pid}`);
  server.close();

  const first = await carryOut({ kind: 'import', id: 'o2', spec: spec({ port, portFixed: true }) });
  expect(resultOf(first)).toMatchObject({ port, host: 'host-a', address: 'host-a.test' });
  const other = { port, owner: owner({ clusterUid: 'uid-2' }) };
  const sibling = await carryOut({ kind: 'import', id: 'o3', spec: spec({ ...other, portFixed: true }) });
  expect(sibling).toMatchObject({ code: 'PortTaken' });
  expect((sibling as { message: string }).message).toContain('orders-0 of cluster uid-1');
  const moved = resultOf(await carryOut({ kind: 'import', id: 'o4', spec: spec(other) }));
  expect(Number(moved['port'])).toBeGreaterThan(port);
});

test('a port that somebody took between import and deploy is refused at the deploy', async () => {
  box.script('bin/mongod', 'echo "db version v8.0.32-14"');
  const { carryOut } = host();
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  server.close();
  const mine = spec({ port });
  const { serviceId } = resultOf(await carryOut({ kind: 'import', id: 'o1', spec: mine })) as {
    serviceId: string;
  };
  const thief = createServer();
  await new Promise<void>((resolve) => thief.listen(port, '127.0.0.1', resolve));
  expect(await carryOut({ kind: 'deploy', id: 'o2', serviceId, spec: mine })).toMatchObject({
    code: 'PortTaken',
  });
  thief.close();
});

test('S4 deletions: the runtime stops first and its volume stays; a volume goes only unused, by id and by owner', async () => {
  const { carryOut, inventory, layout, seen } = host();
  const ids = resultOf(await carryOut({ kind: 'import', id: 'o1', spec: spec() })) as Record<string, string>;
  const [serviceId, volumeId] = [ids['serviceId'] as string, ids['volumeId'] as string];
  const volume = { kind: 'deleteVolume', volumeId, clusterUid: 'uid-1', member: 'orders-0' } as const;
  expect(await carryOut({ ...volume, id: 'o2' })).toMatchObject({ code: 'VolumeInUse' });
  const wrong = { kind: 'deleteRuntime', id: 'o3', serviceId, clusterUid: 'uid-2' } as const;
  expect(await carryOut(wrong)).toMatchObject({ code: 'OwnershipConflict' });
  expect((await carryOut({ ...wrong, id: 'o4', clusterUid: 'uid-1' })).kind).toBe('succeeded');
  expect(seen).toContain(`stopped ${serviceId}`);
  expect(existsSync(layout.service(serviceId).folder)).toBe(false);
  expect(inventory.volume(volumeId)).not.toBeNull();
  expect(await carryOut({ ...volume, id: 'o5', member: 'orders-1' })).toMatchObject({
    code: 'OwnershipConflict',
  });
  expect((await carryOut({ ...volume, id: 'o6' })).kind).toBe('succeeded');
  expect((await carryOut({ ...volume, id: 'o7' })).kind).toBe('succeeded');
  expect(inventory.facts()).toEqual([]);
  expect(readdirSync(layout.trash)).toEqual([]);
});

test('S4 a runtime is forgotten only when its process is gone: until then the volume counts as used', async () => {
  let gone = (): void => {};
  const stopService = (): Promise<void> =>
    new Promise((resolve) => {
      gone = resolve;
    });
  const { carryOut, operations, inventory, layout } = host({ stopService });
  const ids = resultOf(await carryOut({ kind: 'import', id: 'o1', spec: spec() }));
  const [serviceId, volumeId] = [ids['serviceId'] as string, ids['volumeId'] as string];
  operations.start({ kind: 'deleteRuntime', id: 'o2', serviceId, clusterUid: 'uid-1' });
  operations.start({ kind: 'deleteVolume', id: 'o3', volumeId, clusterUid: 'uid-1', member: 'orders-0' });
  await new Promise((resolve) => setImmediate(resolve));
  expect(operations.facts('o2').kind).toBe('running');
  expect(operations.facts('o3')).toMatchObject({ kind: 'failed', code: 'VolumeInUse' });
  expect([existsSync(layout.service(serviceId).folder), inventory.service(serviceId)?.id]).toEqual([
    true,
    serviceId,
  ]);
  gone();
  await operations.settled();
  expect(operations.facts('o2').kind).toBe('succeeded');
  expect(inventory.service(serviceId)).toBeNull();
});

test('an id that climbs out of its folder is no id', async () => {
  const { carryOut, layout } = host();
  const climbing = spec({ volume: { ...spec().volume, id: '../services' } });
  expect(await carryOut({ kind: 'import', id: '../../x', spec: climbing })).toMatchObject({
    code: 'OwnershipConflict',
  });
  expect(readdirSync(layout.operations)).toHaveLength(1);
  const deletion = {
    kind: 'deleteVolume',
    id: 'o2',
    volumeId: '..',
    clusterUid: 'uid-1',
    member: 'orders-0',
  } as const;
  expect((await carryOut(deletion)).kind).toBe('succeeded');
  expect(existsSync(layout.services)).toBe(true);
});

test('A6.6 STO-04 S4 a volume grows while its disk has room, with what it holds counted; only for its owner, and never smaller', async () => {
  const { carryOut, inventory } = host();
  const volume = { ...spec().volume, sizeBytes: 1000 };
  const made = resultOf(await carryOut({ kind: 'import', id: 'o1', spec: spec({ volume }) }));
  const volumeId = made['volumeId'] as string;
  expect(made['volumeBytes']).toBe(1000);
  const grow = (id: string, sizeBytes: number, clusterUid = 'uid-1'): Promise<OperationFacts> =>
    carryOut({ kind: 'growVolume', id, volumeId, clusterUid, member: owner().member, sizeBytes });
  expect(resultOf(await grow('g1', 5000))).toMatchObject({ volumeBytes: 5000 });
  expect(resultOf(await grow('g2', 10))).toMatchObject({ volumeBytes: 5000 });
  expect(await grow('g3', 2 ** 52)).toMatchObject({
    kind: 'failed',
    code: 'DiskFull',
    message: expect.stringContaining('no room for'),
  });
  expect(await grow('g4', 6000, 'uid-2')).toMatchObject({ kind: 'failed', code: 'OwnershipConflict' });
  expect(inventory.facts().find((facts) => facts.kind === 'volume')?.sizeBytes).toBe(5000);
});

test('A6.6 STO-04 what a volume holds and what its disk has free is what it may grow to, to the byte; a disk nobody can read has none', async () => {
  let free: number | null = 1000;
  const space = () => (free === null ? null : { totalBytes: 10_000, freeBytes: free });
  const { carryOut, inventory } = host({ space });
  const volume = { ...spec().volume, sizeBytes: 10 };
  const made = resultOf(await carryOut({ kind: 'import', id: 'o1', spec: spec({ volume }) }));
  const volumeId = made['volumeId'] as string;
  writeFileSync(join(inventory.dataPath(volumeId), 'data'), 'x'.repeat(100_000));
  const used = await usedBytes(inventory.dataPath(volumeId));
  expect(used).toBeGreaterThanOrEqual(100_000);
  const grow = (id: string, sizeBytes: number): Promise<OperationFacts> =>
    carryOut({ kind: 'growVolume', id, volumeId, clusterUid: 'uid-1', member: owner().member, sizeBytes });
  expect(await grow('g1', used + 1001)).toMatchObject({ kind: 'failed', code: 'DiskFull' });
  expect(resultOf(await grow('g2', used + 1000))).toMatchObject({ volumeBytes: used + 1000 });
  free = null;
  expect(await grow('g3', used + 1001)).toMatchObject({ kind: 'failed', code: 'DiskFull' });
  expect(inventory.volume(volumeId)?.sizeBytes).toBe(used + 1000);
});

test('A4.6 S10 the journal forgets what began first of what has ended, never what is under way, however the ids are ordered', async () => {
  const clock = manualClock();
  const first = host({ clock, stopService: () => new Promise(() => {}) });
  const made = resultOf(await first.carryOut({ kind: 'import', id: 'zz', spec: spec() }));
  // One that hangs began before all others.
  await clock.advance(1);
  first.operations.start({
    kind: 'deleteRuntime',
    id: 'zy',
    serviceId: made['serviceId'] as string,
    clusterUid: 'uid-1',
  });
  const entry = readJson(first.layout.operation('zz')) as object;
  const old = (n: number): string => `m-${String(1000 - n)}`;
  for (let n = 1; n <= OPERATIONS_KEPT + 1; n++) {
    const operation = {
      kind: 'deleteVolume',
      id: old(n),
      volumeId: 'gone',
      clusterUid: 'uid-1',
      member: 'x',
    };
    const told = {
      operation,
      facts: { kind: 'succeeded', result: {} },
      startedAt: clock.now() + n,
      place: null,
    };
    writeJson(first.layout.operation(old(n)), { ...entry, ...told }, PUBLIC, 'file');
  }
  const { operations } = host({ clock, stopService: () => new Promise(() => {}) });
  const left = (ids: readonly string[]): readonly string[] => ids.map((id) => operations.facts(id).kind);
  expect(left(['zz', 'zy', old(1), old(2), old(OPERATIONS_KEPT + 1)])).toEqual([
    'unknown',
    'running',
    'unknown',
    'succeeded',
    'succeeded',
  ]);
  expect(readdirSync(first.layout.operations)).toHaveLength(OPERATIONS_KEPT + 1);
});

test('S7 A8.4 what a newer major has answered with is not given to an older one, whoever asks; the same series and a newer one are', async () => {
  const found = { ...openExecutables(join(box.path, 'bin'), ''), find: async () => '/opt/mongod' };
  const { carryOut, inventory } = host({ executables: found });
  const made = resultOf(await carryOut({ kind: 'import', id: 'o1', spec: spec() }));
  const [serviceId, volumeId] = [made['serviceId'] as string, made['volumeId'] as string];
  const deploy = (id: string): Promise<OperationFacts> =>
    carryOut({ kind: 'deploy', id, serviceId, spec: spec() });
  const major = Number(spec().version.split('.')[0]);
  expect((await deploy('d1')).kind).toBe('succeeded');
  for (const older of [major - 1, major])
    expect(inventory.noteRun(volumeId, `${older}.0`)).toBe(`${older}.0`);
  expect((await deploy('d2')).kind).toBe('succeeded');
  expect(inventory.noteRun(volumeId, `${major + 1}.0`)).toBe(`${major + 1}.0`);
  // It never becomes less, and outlives the agent.
  expect(inventory.noteRun(volumeId, `${major}.0`)).toBe(`${major + 1}.0`);
  expect(await deploy('d3')).toMatchObject({
    kind: 'failed',
    code: 'DataIsNewer',
    message: expect.stringMatching(/^9\.0 has run on the data of orders-0, and 8\.0/),
  });
});
