/** Clients and harnesses nobody here wrote, against the stand-in and against a set that Belay made. */
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { MongoClient } from 'mongodb';
import { MongoMemoryServer } from 'mongodb-memory-server-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { replicaSet, user } from './support/documents.ts';
import { has, LONG, ROOT, SIMULATOR_BIN, Stack } from './support/stack.ts';

const run = promisify(execFile);
const required = process.env['BELAY_REQUIRE_CLIENTS'] === '1';
const tools = process.env['BELAY_TOOLS'] ?? path.join(ROOT, '.tools');
const mongosh = path.join(tools, 'node_modules/.bin/mongosh');
const noShell = !existsSync(mongosh) && !required;
const noPymongo = !required && !has('/usr/bin/python3', '-c', 'import pymongo');

let stack: Stack;
let uri = '';
let caFile = '';

beforeAll(async () => {
  stack = await Stack.start();
  await stack.apply(replicaSet('clients'));
  await stack.apply(user('clients'));
  await stack.untilReady('clients');
  await stack.untilPhase('clients-app', 'Ready', 'default', 'mongodbusers');
  const printed = await stack.belay(['connect', 'clients', '--print', '--user', 'clients-app']);
  uri = printed.out.trim();
  caFile = new URLSearchParams(uri.split('?')[1]).get('tlsCAFile') ?? '';
}, LONG);
afterAll(() => stack?.stop(), LONG);

test.skipIf(noShell)(
  `B1.3 mongosh logs in, writes and reads over TLS${noShell ? ' (skipped: mongosh is not installed)' : ''}`,
  async () => {
    const script =
      'db.getSiblingDB("shell").t.insertOne({a: 1}, {writeConcern: {w: "majority"}}); print(db.getSiblingDB("shell").t.countDocuments({a: 1}), db.hello().hosts.length)';
    const { stdout } = await run(mongosh, [uri, '--quiet', '--norc', '--eval', script], { timeout: 60_000 });
    expect(stdout.trim()).toBe('1 3');
  },
  LONG,
);

test.skipIf(noPymongo)(
  `B1.3 Debian’s pymongo 3.11 logs in, writes and reads over TLS${noPymongo ? ' (skipped: python3-pymongo is not installed)' : ''}`,
  async () => {
    const script = `
import sys, pymongo
c = pymongo.MongoClient(sys.stdin.readline().strip(), serverSelectionTimeoutMS=20000)
t = c.py.get_collection("t", write_concern=pymongo.WriteConcern(w="majority"))
t.insert_one({"_id": 1, "n": 2})
t.update_one({"_id": 1}, {"$inc": {"n": 40}})
print(t.find_one({"_id": 1})["n"], t.count_documents({}), len(c.nodes))
`;
    expect(caFile).not.toBe('');
    const child = spawn('/usr/bin/python3', ['-c', script]);
    let out = '';
    let err = '';
    child.stdout.on('data', (d) => {
      out += d;
    });
    child.stderr.on('data', (d) => {
      err += d;
    });
    child.stdin.end(`${uri}\n`);
    const code = await new Promise((resolve) => child.on('close', resolve));
    expect([code, out.trim()], err).toEqual([0, '42 1 3']);
  },
  LONG,
);

test(
  'mongodb-memory-server-core starts the stand-in as its systemBinary',
  async () => {
    const server = await MongoMemoryServer.create({
      binary: { systemBinary: path.join(SIMULATOR_BIN, 'mongod'), version: '8.0.32' },
      instance: { launchTimeout: 60_000 },
    });
    try {
      const client = await MongoClient.connect(server.getUri());
      await client
        .db('mem')
        .collection('t')
        .insertMany([{ a: 1 }, { a: 2 }]);
      expect(
        await client
          .db('mem')
          .collection('t')
          .countDocuments({ a: { $gt: 1 } }),
      ).toBe(1);
      await client.close();
    } finally {
      await server.stop();
    }
  },
  LONG,
);

/** Runs mongodb-runner with the stand-ins and a script on its cluster; gives exit code and output. */
async function runWithRunner(
  topology: readonly string[],
  script: string,
): Promise<{ code: unknown; out: string }> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'belay-runner-'));
  const runner = path.join(ROOT, 'node_modules/.bin/mongodb-runner');
  const env = { ...process.env, BELAY_SIM_SHUTDOWN_MILLIS: '500' };
  const places = ['--binDir', SIMULATOR_BIN, '--runnerDir', folder, '--tmpDir', folder];
  const args = ['exec', ...topology, ...places, '--', process.execPath, '-e', script];
  const child = spawn(runner, args, { env, cwd: ROOT });
  let out = '';
  child.stdout.on('data', (d) => {
    out += d;
  });
  child.stderr.on('data', (d) => {
    out += d;
  });
  try {
    const code = await new Promise((resolve) => child.on('close', resolve));
    return { code, out };
  } finally {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

test(
  'mongodb-runner starts a replica set with two secondaries from --binDir',
  async () => {
    const { code, out } = await runWithRunner(['-t', 'replset', '--secondaries', '2'], PROBE);
    expect(out).toContain('members 3 wrote 1');
    expect(code).toBe(0);
  },
  LONG,
);

test(
  'A5.3 mongodb-runner starts a sharded cluster of two shards from --binDir',
  async () => {
    const { code, out } = await runWithRunner(
      ['-t', 'sharded', '--shards', '2', '--secondaries', '1'],
      SHARDED,
    );
    expect(out).toContain('isdbgrid shards 2 spread 2 wrote 100');
    expect(code).toBe(0);
  },
  LONG,
);

const PROBE = `
const { MongoClient } = require('mongodb');
(async () => {
  const c = await MongoClient.connect(process.env.MONGODB_URI);
  const { members } = await c.db('admin').command({ replSetGetStatus: 1 });
  await c.db('r').collection('t').insertOne({ a: 1 }, { writeConcern: { w: 'majority' } });
  console.log('members', members.length, 'wrote', await c.db('r').collection('t').countDocuments());
  await c.close();
})();
`;

const SHARDED = `
const { MongoClient } = require('mongodb');
(async () => {
  const c = await MongoClient.connect(process.env.MONGODB_URI);
  const admin = c.db('admin');
  const { msg } = await admin.command({ hello: 1 });
  const { shards } = await admin.command({ listShards: 1 });
  await admin.command({ shardCollection: 'r.t', key: { _id: 'hashed' } });
  await c.db('r').collection('t').insertMany(Array.from({ length: 100 }, (_, a) => ({ a })), { writeConcern: { w: 'majority' } });
  const spread = (await c.db('config').collection('chunks').distinct('shard')).length;
  console.log(msg, 'shards', shards.length, 'spread', spread, 'wrote', await c.db('r').collection('t').countDocuments());
  await c.close();
})();
`;
