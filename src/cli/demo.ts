/** `belay demo`: the whole path on one machine with the simulator, and nothing left behind. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { MongoClient } from 'mongodb';
import { BelayError } from '../base/error.ts';
import { Secret } from '../base/secret.ts';
import { formatDuration } from '../base/units.ts';
import { ApiClient, type ApiObject, objectPath } from './client.ts';
import type { Context } from './context.ts';
import { realTerminal, type Terminal } from './output.ts';
import { readProfile, removeProfile, writeProfile } from './profile.ts';
import { follow } from './progress.ts';
import { statusOf } from './rows.ts';
import { type Local, SIMULATOR_BIN, startLocal, untilSignal } from './up.ts';
import { apply } from './verbs/apply.ts';
import { keepCa, withCa } from './verbs/connect.ts';

export interface DemoOptions {
  readonly filename?: string;
  readonly once?: boolean;
  readonly color?: boolean;
}

const EXAMPLE = fileURLToPath(new URL('../../examples/replica-set.yaml', import.meta.url));
/** Creation takes seconds; a machine under load may take longer. */
const READY_WITHIN = 180_000;
const GONE_WITHIN = 120_000;

/** The verb. */
export async function demo(options: DemoOptions): Promise<void> {
  const terminal = realTerminal(options.color === false);
  // The stand-ins need not wait for drivers to notice, as servers do for 15 s: a demo ends when it is told to.
  process.env['BELAY_SIM_SHUTDOWN_MILLIS'] ??= '500';
  const scratch = mkdtempSync(path.join(os.tmpdir(), 'belay-demo-'));
  terminal.err('Belay demo · everything below runs on this machine and is removed on exit');
  terminal.err('  MongoDB executables   the simulator (a stand-in, not MongoDB)');
  const before = readProfile();
  let local: Local | null = null;
  const interrupted = untilSignal();
  try {
    local = await startLocal({
      dataDir: scratch,
      listen: '127.0.0.1:0',
      agentListen: '127.0.0.1:0',
      binDir: SIMULATOR_BIN,
      address: 'localhost',
      logFile: path.join(scratch, 'belay.log'),
    });
    terminal.err(`  control plane         ${local.server.url}   state in a scratch folder`);
    const shown = show(local, options, terminal);
    const outcome = await Promise.race([shown, interrupted.then(() => 'interrupted' as const)]);
    if (outcome !== 'interrupted' && !options.once) {
      writeProfile({ server: local.server.url, tokenFile: local.server.tokenFile });
      terminal.err('  Ctrl-C stops and cleans up');
      await interrupted;
    }
  } finally {
    await cleanUp(local, scratch, terminal);
    if (local !== null) removeProfile(local.server.url);
    if (before !== null && readProfile() === null) writeProfile(before);
  }
}

async function show(local: Local, options: DemoOptions, terminal: Terminal): Promise<'shown'> {
  const started = Date.now();
  const context = contextFor(local, terminal);
  const file = options.filename ?? EXAMPLE;
  const applied = await apply(
    { ...context, terminal: { ...terminal, out: () => undefined } },
    { files: [file], dryRun: false },
  );
  const clusters = applied.filter((o) => o.kind === 'MongoDB');
  if (clusters.length === 0)
    throw new BelayError('Usage', `${file} holds no MongoDB document`, { retry: 'never' });
  for (const cluster of clusters) {
    terminal.err(
      `  applied               ${path.relative(process.cwd(), file)} → MongoDB ${cluster.metadata.namespace}/${cluster.metadata.name} (${String(cluster.spec['type'])}, ${String(cluster.spec['version'])})\n`,
    );
    const ready = await follow({
      client: context.client,
      terminal,
      plural: 'mongodb',
      namespace: cluster.metadata.namespace,
      name: cluster.metadata.name,
      timeoutMillis: READY_WITHIN,
      quiet: false,
      reached: isReady,
      goal: 'Ready',
    });
    terminal.err(`  ${'─'.repeat(58)}`);
    terminal.err(`  Ready in ${formatDuration(Date.now() - started)}`);
    if (ready !== null) await proveIt(context, ready, terminal);
  }
  return 'shown';
}

const isReady = (o: ApiObject | null): boolean =>
  o !== null && statusOf(o).phase === 'Ready' && statusOf(o).observedGeneration === o.metadata.generation;

function contextFor(local: Local, terminal: Terminal): Context {
  const token = new Secret(readFileSync(local.server.tokenFile, 'utf8').trim());
  return {
    client: new ApiClient(local.server.url, token),
    namespace: 'default',
    terminal,
    output: 'table',
    quiet: false,
    now: () => Date.now(),
  };
}

/** The user of the demo: a MongoDBUser like any other. */
const APP = (cluster: ApiObject) => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDBUser',
  metadata: { name: `${cluster.metadata.name}-app`, namespace: cluster.metadata.namespace },
  spec: {
    username: 'app',
    db: 'admin',
    mongodbResourceRef: { name: cluster.metadata.name },
    roles: [{ name: 'readWriteAnyDatabase', db: 'admin' }],
  },
});

/** Writes and reads a document through the official driver: TLS, SCRAM-SHA-256, majority. */
async function proveIt(context: Context, cluster: ApiObject, terminal: Terminal): Promise<void> {
  const { namespace, name } = cluster.metadata;
  await context.client.request('POST', '/api/v1/apply', { body: APP(cluster) });
  await follow({
    client: context.client,
    terminal,
    plural: 'mongodbusers',
    namespace,
    name: `${name}-app`,
    timeoutMillis: READY_WITHIN,
    quiet: true,
    reached: (o) => o !== null && statusOf(o).phase === 'Ready',
    goal: 'user app',
  });
  const connection = await context.client.request<{ connectionString: string; tls: boolean; caPem: string }>(
    'POST',
    `${objectPath('mongodb', namespace, name)}/connection`,
    { body: { user: `${name}-app` } },
  );
  const uri = withCa(connection, connection.tls ? keepCa(connection.caPem) : null);
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 20_000 });
  try {
    const collection = client
      .db('demo')
      .collection('greetings', { writeConcern: { w: 'majority' }, readConcern: { level: 'majority' } });
    const { insertedId } = await collection.insertOne({ hello: 'belay' });
    const found = await collection.findOne({ _id: insertedId });
    if (found?.['hello'] !== 'belay')
      throw new BelayError('DemoFailed', 'the document read back is not the one written', { retry: 'never' });
    terminal.err(
      `  wrote and read { hello: "belay" } with ${connection.tls ? 'TLS, ' : ''}SCRAM-SHA-256, w: majority\n`,
    );
  } finally {
    await client.close();
  }
  terminal.err(`  connect      belay connect ${name} --user ${name}-app          (mongosh)`);
  terminal.err(`               belay connect ${name} --user ${name}-app --print  (the string)`);
  terminal.err(`  try          belay get mongodb        belay describe mongodb ${name}`);
  terminal.err(`               kill any mongod and watch: belay get mongodb ${name} -w`);
}

/** Deletes every cluster the proper way, then stops, then removes the folder. What can't be deleted is killed. */
async function cleanUp(local: Local | null, scratch: string, terminal: Terminal): Promise<void> {
  terminal.err('  cleaning up');
  if (local !== null) {
    try {
      await deleteAll(contextFor(local, terminal));
    } catch (error) {
      terminal.err(`  deletion did not finish (${(error as Error).message}); stopping the processes`);
      await local.agent.close({ stopMembers: true });
    }
    await local.close();
  }
  if (existsSync(scratch)) rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
  terminal.err('  nothing is left running');
}

async function deleteAll(context: Context): Promise<void> {
  const { items } = await context.client.get<{ items: readonly ApiObject[] }>('/api/v1/mongodb');
  for (const { metadata } of items) {
    await context.client.request('DELETE', objectPath('mongodb', metadata.namespace, metadata.name));
    await follow({
      client: context.client,
      terminal: context.terminal,
      plural: 'mongodb',
      namespace: metadata.namespace,
      name: metadata.name,
      timeoutMillis: GONE_WITHIN,
      quiet: true,
      reached: (o) => o === null,
      goal: 'deletion',
    });
  }
}
