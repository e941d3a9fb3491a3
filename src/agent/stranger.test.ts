/** A port that another process has, and a server that did not answer once. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { MongoClient } from 'mongodb';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { identify, listenerFor, portHolder, portsInUse } from './procfs.ts';
import {
  type Bench,
  configOf,
  makeMember,
  openBench,
  SIMULATOR,
  systemUsers,
  type TestMember,
  until,
} from './testing/bench.ts';

let bench: Bench;
let member: TestMember;
const strangers: ChildProcess[] = [];
const sockets: Socket[] = [];
beforeAll(async () => {
  bench = await openBench();
  member = await makeMember(bench, 'orders-0', { tlsMode: 'disabled' });
  await member.publish({});
  await until(() => expect(member.facts()?.database).toMatchObject({ initiated: false }));
  expect(await member.run({ kind: 'initiate', config: configOf(member) })).toMatchObject({ kind: 'done' });
  await until(() => expect(member.facts()?.database).toMatchObject({ writablePrimary: true }));
  const [first] = systemUsers().users;
  expect(await member.run({ kind: 'createFirstUser', user: first! })).toMatchObject({ kind: 'done' });
  expect(await member.run(systemUsers())).toMatchObject({ kind: 'done' });
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  for (const stranger of strangers) stranger.kill('SIGKILL');
  await bench?.close();
});

const pid = (): number => {
  const process = member.facts()?.process;
  expect(process?.kind).toBe('running');
  return (process as { pid: number }).pid;
};

/** A database of somebody else on the port, which is the primary of a set of its own. */
async function foreignSet(port: number): Promise<ChildProcess> {
  const dbPath = join(bench.box.path, 'foreign');
  mkdirSync(dbPath);
  const args = ['--port', String(port), '--replSet', 'foreign', '--dbpath', dbPath];
  const stranger = spawn(join(SIMULATOR, 'mongod'), args, { stdio: 'ignore' });
  strangers.push(stranger);
  await until(() => expect(listenerFor(port, stranger.pid!).kind).toBe('own'));
  const client = new MongoClient(`mongodb://127.0.0.1:${port}/`, { directConnection: true });
  const config = { _id: 'foreign', members: [{ _id: 0, host: `127.0.0.1:${port}` }] };
  await client.db('admin').command({ replSetInitiate: config });
  await until(async () =>
    expect((await client.db('admin').command({ hello: 1 }))['setName']).toBe('foreign'),
  );
  await client.close();
  return stranger;
}

test('S6 INI-06 whoever has the member’s port instead is named and never taken for its data; freed, it goes on by itself', async () => {
  const own = identify(pid())!;
  await bench.agent.close();
  process.kill(own.pid, 'SIGKILL');
  await until(() => expect(identify(own.pid)).toBeNull());
  const stranger = await foreignSet(member.port);
  const told: string[] = [];
  const stop = bench.agents.onChange(() => told.push(JSON.stringify(member.facts())));
  await bench.startAgent();
  await until(() =>
    expect(member.facts()?.process).toMatchObject({
      kind: 'exited',
      exitCode: 48,
      message: expect.stringContaining(`port ${member.port} is taken by process ${stranger.pid} (`),
    }),
  );
  expect(await member.run(systemUsers())).toMatchObject({ kind: 'refused', class: 'transient' });
  console.log('X2', member.facts()?.process);
  stranger.kill('SIGKILL');
  await until(() =>
    expect(member.facts()?.database).toMatchObject({ setName: 'orders', writablePrimary: true }),
  );
  stop();
  expect(told.filter((facts) => /"setName":"foreign"|data folder/.test(facts))).toEqual([]);
  expect(member.facts()?.process).toMatchObject({ kind: 'running', pid: expect.any(Number) });
}, 90_000);

test('A5.4 a server that does not answer once is asked again over a new connection, and was not written to', async () => {
  await bench.agent.close();
  await bench.startAgent();
  await until(() => expect(member.facts()?.database).toMatchObject({ authenticated: true }));
  const own = pid();
  process.kill(own, 'SIGSTOP');
  try {
    expect(await member.run(systemUsers())).toMatchObject({
      kind: 'refused',
      codeName: 'MongoServerSelectionError',
      class: 'transient',
    });
  } finally {
    process.kill(own, 'SIGCONT');
  }
  expect(await member.run(systemUsers())).toMatchObject({ kind: 'done' });
  expect(pid()).toBe(own);
});

test('A4.3 a port that a connection to elsewhere goes out from is in use, and its process is named', async () => {
  const socket = connect({ host: '127.0.0.1', port: member.port });
  sockets.push(socket);
  await new Promise<void>((resolve) => socket.once('connect', resolve));
  const port = socket.localPort!;
  expect(portsInUse()).toContain(port);
  expect(portHolder(port)).toContain(`a connection of process ${process.pid} (`);
  expect(listenerFor(port, process.pid)).toEqual({ kind: 'nobody' });
  expect(listenerFor(member.port, pid())).toEqual({ kind: 'own' });
  const other = listenerFor(member.port, process.pid);
  expect(other).toMatchObject({ kind: 'other', by: expect.stringContaining(`process ${pid()} (`) });
  expect(portHolder(member.port)).toContain(`process ${pid()} (`);
});
