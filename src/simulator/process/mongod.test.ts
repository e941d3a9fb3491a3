import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { MongoClient, type MongoClientOptions } from 'mongodb';
import { afterAll, expect, test } from 'vitest';
import { MONGOD, type Running, Workshop } from './launch.testing.ts';

const workshop = new Workshop();
afterAll(() => workshop.clean());

const standalone = (folder = workshop.folder()): string[] => [
  '--dbpath',
  folder,
  '--port',
  '0',
  '--nounixsocket',
];

async function withClient<T>(
  server: Running,
  use: (client: MongoClient) => Promise<T>,
  options: MongoClientOptions = {},
): Promise<T> {
  const client = new MongoClient(`mongodb://127.0.0.1:${server.port}/`, {
    serverSelectionTimeoutMS: 15_000,
    ...options,
  });
  try {
    return await use(await client.connect());
  } finally {
    await client.close();
  }
}

test.concurrent('the official driver finds a standalone that says it is a simulator', async () => {
  const server = await workshop.start(standalone());
  await withClient(server, async (client) => {
    const admin = client.db('admin');
    const hello = await admin.command({ hello: 1 });
    expect(Object.keys(hello)).toEqual([
      'isWritablePrimary',
      'topologyVersion',
      'maxBsonObjectSize',
      'maxMessageSizeBytes',
      'maxWriteBatchSize',
      'localTime',
      'logicalSessionTimeoutMinutes',
      'connectionId',
      'minWireVersion',
      'maxWireVersion',
      'readOnly',
      'ok',
    ]);
    expect(hello).toMatchObject({ isWritablePrimary: true, maxWireVersion: 25 });
    expect(await admin.command({ buildInfo: 1 })).toMatchObject({
      version: '8.0.32-14',
      psmdbVersion: '8.0.32-14',
      versionArray: [8, 0, 32, 0],
      simulator: true,
      modules: ['belay-simulator'],
    });
    const warnings = await admin.command({ getLog: 'startupWarnings' });
    expect(warnings['log'].join('\n')).toContain('Belay simulator');
    expect(await admin.command({ getCmdLineOpts: 1 })).toMatchObject({ parsed: { net: { port: 0 } } });
    expect((await admin.command({ serverStatus: 1 }))['storageEngine'].name).toBe('wiredTiger');
    expect((await admin.command({ serverStatus: 1, none: 1, mem: 1 }))['repl']).toBeUndefined();
    await expect(admin.command({ replSetGetStatus: 1 })).rejects.toMatchObject({ code: 76 });
  });
  expect(await server.stop()).toBe(0);
});

test.concurrent('compression with zlib and with the server in the middle of a stream works', async () => {
  const server = await workshop.start(standalone());
  await withClient(
    server,
    async (client) => {
      const text = 'x'.repeat(100_000);
      await client
        .db('t')
        .collection('c')
        .insertMany(Array.from({ length: 50 }, (_, n) => ({ n, text })));
      const found = await client.db('t').collection('c').find({}, { batchSize: 7 }).toArray();
      expect(found.map((one) => one['n'])).toEqual(Array.from({ length: 50 }, (_, n) => n));
      expect(found.at(-1)?.['text']).toBe(text);
    },
    { compressors: ['zlib'] },
  );
  await server.stop();
});

test.concurrent('the log is JSON in the columns of the server, from the first line to the exit code', async () => {
  const server = await workshop.start(standalone());
  expect(await server.stop()).toBe(0);
  const ids = server.log().map((line) => line.id);
  for (const id of [4615611, 23403, 21951, 23015, 23016, 8423403, 23377, 20565, 23138])
    expect(ids).toContain(id);
  expect(server.log().at(-1)).toMatchObject({ id: 23138, msg: 'Shutting down', attr: { exitCode: 0 } });
  for (const line of server.lines) {
    expect(line).toMatch(
      /^\{"t":\{"\$date":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"\},"s":"[FEWI]", {2}"c":"[A-Z-]+", {1,8} ?"id":\d+, *"svc":"-", "ctx":"/,
    );
    expect(line.indexOf('"ctx"') - line.indexOf('"id"')).toBe('"id":23016,   "svc":"-", '.length);
  }
});

test.concurrent('kill -9 loses nothing that was acknowledged, and the next start says what happened', async () => {
  const folder = workshop.folder();
  const first = await workshop.start(standalone(folder));
  await withClient(first, (client) => client.db('t').collection<{ _id: number }>('c').insertOne({ _id: 7 }));
  expect(await first.stop('SIGKILL')).toBe('SIGKILL');
  expect(readFileSync(`${folder}/mongod.lock`, 'utf8')).toBe(`${first.process.pid}\n`);
  const second = await workshop.start(standalone(folder));
  expect(second.log().map((line) => line.id)).toEqual(expect.arrayContaining([22271, 22302]));
  expect(await withClient(second, (client) => client.db('t').collection('c').find().toArray())).toEqual([
    { _id: 7 },
  ]);
  await second.stop();
  expect(statSync(`${folder}/mongod.lock`).size).toBe(0);
});

test.concurrent('start-up failures end with the exit codes of the server', async () => {
  const folder = workshop.folder();
  const server = await workshop.start(standalone(folder));
  const taken = String(server.port);
  const key = workshop.path('open.key');
  writeFileSync(key, 'abcdefgh');
  chmodSync(key, 0o644);
  const cases = [
    { args: ['--bogus'], code: 2, text: "unrecognised option '--bogus'" },
    {
      args: ['--dbpath', workshop.path('none'), '--port', '0'],
      code: 100,
      text: 'NonExistentPath: Data directory',
    },
    { args: standalone(folder), code: 100, text: 'DBPathInUse: Unable to lock the lock file' },
    {
      args: ['--dbpath', workshop.folder(), '--port', taken, '--nounixsocket'],
      code: 48,
      text: 'Address already in use',
    },
    { args: [...standalone(), '--keyFile', key], code: 1, text: 'are too open' },
    {
      args: [...standalone(), '--clusterAuthMode', 'x509'],
      code: 1,
      text: 'need to enable TLS via the tlsMode flag',
    },
    { args: [...standalone(), '--tlsMode', 'requireTLS'], code: 2, text: 'need tlsCertificateKeyFile' },
    {
      args: [...standalone(), '--setParameter', 'nope=1'],
      code: 2,
      text: 'Illegal --setParameter parameter: "nope"',
    },
    { args: [...standalone(), '--logpath', '/nonexistent/dir/mongod.log'], code: 1, text: 'Failed to probe' },
    { args: ['--version'], code: 0, text: 'db version v8.0.32-14' },
    { args: ['--help'], code: 0, text: '--dbpath' },
  ];
  const ended = await Promise.all(cases.map(({ args }) => workshop.run(args)));
  for (const [index, { code, text }] of cases.entries()) {
    const { code: got, stdout, stderr } = ended[index]!;
    expect({ code: got, said: `${stdout}${stderr}`.includes(text), text }).toEqual({
      code,
      said: true,
      text,
    });
  }
  await server.stop();
});

test.concurrent('only one of two processes that start at once gets a folder', async () => {
  const folder = workshop.folder();
  const outcomes = await Promise.allSettled([1, 2, 3].map(() => workshop.start(standalone(folder))));
  const started = outcomes.filter((outcome) => outcome.status === 'fulfilled');
  expect(started).toHaveLength(1);
  await started[0]!.value.stop();
});

test.concurrent('data of a version this binary does not accept ends the start with 62', async () => {
  const folder = workshop.folder();
  await (await workshop.start(standalone(folder), { BELAY_SIM_VERSION: '6.0.20' })).stop();
  const { code, stdout } = await workshop.run(standalone(folder));
  expect(code).toBe(62);
  expect(stdout).toContain(
    "Invalid feature compatibility version value '6.0'; expected '7.0' or '7.3' or '8.0'",
  );
  await (await workshop.start(standalone(folder), { BELAY_SIM_VERSION: '7.0.22-12' })).stop();
});

test.concurrent('the compatibility version moves one step at a time, when confirmed', async () => {
  const folder = workshop.folder();
  await (await workshop.start(standalone(folder), { BELAY_SIM_VERSION: '7.0.22-12' })).stop();
  const server = await workshop.start(standalone(folder));
  await withClient(server, async (client) => {
    const admin = client.db('admin');
    const fcv = async (): Promise<unknown> =>
      (await admin.command({ getParameter: 1, featureCompatibilityVersion: 1 }))[
        'featureCompatibilityVersion'
      ];
    expect(await fcv()).toEqual({ version: '7.0' });
    await expect(admin.command({ setFeatureCompatibilityVersion: '8.0' })).rejects.toMatchObject({
      code: 7369100,
    });
    await expect(
      admin.command({ setFeatureCompatibilityVersion: '5.0', confirm: true }),
    ).rejects.toMatchObject({ code: 4926900 });
    await admin.command({ setFeatureCompatibilityVersion: '8.0', confirm: true });
    expect(await fcv()).toEqual({ version: '8.0' });
  });
  await server.stop();
});

test.concurrent('a link in BIN_DIR/<version>/bin plays that version, from any folder', async () => {
  const bin = workshop.path('7.0.22-12/bin');
  mkdirSync(bin, { recursive: true });
  symlinkSync(MONGOD, `${bin}/mongod`);
  const { execFileSync } = await import('node:child_process');
  expect(String(execFileSync(`${bin}/mongod`, ['--version'], { cwd: '/' }))).toContain(
    'db version v7.0.22-12',
  );
});

test.concurrent('a log file is renamed at start, appended to on demand, rotated by signal and command', async () => {
  const path = workshop.path('mongod.log');
  writeFileSync(path, 'old\n');
  const args = [...standalone(), '--logpath', path, '--fork', '--pidfilepath', workshop.path('mongod.pid')];
  const { code, stdout } = await workshop.run(args);
  expect(code).toBe(0);
  expect(stdout).toContain('child process started successfully, parent exiting');
  const pid = Number(readFileSync(workshop.path('mongod.pid'), 'utf8'));
  expect(stdout).toContain(`forked process: ${pid}`);
  expect(readFileSync(path, 'utf8')).toMatch(/^\{.*"id":20697,.*Renamed existing log file/);
  process.kill(pid, 'SIGUSR1');
  await until(() => !readFileSync(path, 'utf8').includes('"id":20697,'));
  process.kill(pid, 'SIGTERM');
  await until(() => readFileSync(path, 'utf8').includes('"exitCode":0'));
  await until(() => !existsSync(workshop.path('mongod.pid')));
});

test.concurrent('a fork that fails gives the code of its child', async () => {
  const args = [
    '--dbpath',
    workshop.path('none'),
    '--port',
    '0',
    '--fork',
    '--logpath',
    workshop.path('fork.log'),
  ];
  const { code, stderr } = await workshop.run(args);
  expect(code).toBe(100);
  expect(stderr).toContain('ERROR: child process failed, exited with 100');
});

test.concurrent('the unix socket serves, and goes away with the process', async () => {
  const prefix = workshop.folder();
  const server = await workshop.start([
    '--dbpath',
    workshop.folder(),
    '--port',
    '0',
    '--unixSocketPrefix',
    prefix,
  ]);
  const path = `${prefix}/mongodb-${server.port}.sock`;
  expect(statSync(path).mode & 0o777).toBe(0o700);
  const client = new MongoClient(`mongodb://${encodeURIComponent(path)}/`);
  expect(await client.db('admin').command({ ping: 1 })).toMatchObject({ ok: 1 });
  await client.close();
  expect(await server.stop()).toBe(0);
  expect(existsSync(path)).toBe(false);
});

test.concurrent('a browser is told where it is', async () => {
  const server = await workshop.start(standalone());
  const answer = await new Promise<string>((resolve) => {
    const socket = connect(server.port, '127.0.0.1', () => socket.write('GET / HTTP/1.1\r\n\r\n'));
    let text = '';
    socket.on('data', (chunk) => {
      text += String(chunk);
    });
    socket.on('close', () => resolve(text));
  });
  expect(answer).toContain(
    'It looks like you are trying to access MongoDB over HTTP on the native driver port.',
  );
  await server.stop();
});

test.concurrent('connections over the limit are closed', async () => {
  const server = await workshop.start([...standalone(), '--maxConns', '5']);
  const sockets = Array.from({ length: 6 }, () => connect(server.port, '127.0.0.1'));
  for (const socket of sockets) socket.on('error', () => undefined);
  const closed = Promise.race(sockets.map((socket) => new Promise((resolve) => socket.on('close', resolve))));
  for (const socket of sockets) socket.write(Buffer.from([100]));
  await closed;
  for (const socket of sockets) socket.destroy();
  await server.stop();
  expect(server.log().some((line) => line.id === 22942)).toBe(true);
});

test.concurrent('the shutdown command closes the connection and ends the process with 0', async () => {
  const server = await workshop.start(standalone());
  const ended = new Promise((resolve) => server.process.once('exit', resolve));
  await withClient(server, async (client) => {
    await expect(client.db('admin').command({ shutdown: 1 })).rejects.toThrow();
  });
  expect(await ended).toBe(0);
});

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 2000 && !condition(); tries++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  expect(condition()).toBe(true);
}
