/** `belay demo`: the whole path on one machine with the simulator, and nothing left behind. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { MongoClient } from 'mongodb';
import { BelayError } from '../base/error.ts';
import { Secret } from '../base/secret.ts';
import { formatDuration } from '../base/units.ts';
import { ApiClient, type ApiObject, listAll, objectPath } from './client.ts';
import { type Context, kindOf } from './context.ts';
import type { Io } from './io.ts';
import { type Terminal, terminalOf } from './output.ts';
import { readProfile, removeProfile, writeProfile } from './profile.ts';
import { follow } from './progress.ts';
import { type Local, SIMULATOR_BIN, startLocal, untilSignal } from './up.ts';
import { apply } from './verbs/apply.ts';
import { keepCa, withCa } from './verbs/connect.ts';
import { goalTest } from './verbs/wait.ts';

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
export async function demo(options: DemoOptions, io: Io): Promise<void> {
  const terminal = terminalOf(io, options.color === false);
  // The stand-ins need not wait for drivers to notice, as servers do for 15 s: a demo ends when it is told to.
  process.env['BELAY_SIM_SHUTDOWN_MILLIS'] ??= '500';
  const scratch = mkdtempSync(path.join(os.tmpdir(), 'belay-demo-'));
  terminal.err('Belay demo · everything below runs on this machine and is removed on exit');
  terminal.err('  MongoDB executables   the simulator (a stand-in, not MongoDB)');
  const before = readProfile();
  let local: Local | null = null;
  const { stopped, release } = untilSignal();
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
    const shown = show(contextFor(local, terminal, io), options);
    // Ctrl-C ends the story wherever it is; how that story would have ended is of no interest then.
    shown.catch(() => undefined);
    const outcome = await Promise.race([shown, stopped.then(() => 'interrupted' as const)]);
    if (outcome !== 'interrupted' && !options.once) {
      writeProfile({ server: local.server.url, tokenFile: local.server.tokenFile });
      terminal.err('  Ctrl-C stops and cleans up');
      await stopped;
    }
  } finally {
    // From now on a second Ctrl-C ends the process; cleaning up is what is left to do.
    release();
    await cleanUp(local, scratch, terminal, io);
    if (local !== null) removeProfile(local.server.url);
    if (before !== null && readProfile() === null) writeProfile(before);
  }
}

async function show(context: Context, options: DemoOptions): Promise<'shown'> {
  const started = Date.now();
  const { terminal } = context;
  const file = options.filename ?? EXAMPLE;
  const silent = { ...context, terminal: { ...terminal, out: () => undefined } };
  const applied = await apply(silent, { files: [file], dryRun: false, waitMillis: null });
  const clusters = applied.filter((o) => o.kind === 'MongoDB');
  if (clusters.length === 0)
    throw new BelayError('Usage', `${file} holds no MongoDB document`, { retry: 'never' });
  for (const { metadata, spec } of clusters) {
    const { namespace, name } = metadata;
    const what = `${namespace}/${name} (${String(spec['type'])}, ${String(spec['version'])})`;
    terminal.err(`  applied               ${path.relative(process.cwd(), file)} → MongoDB ${what}\n`);
    const ready = await follow(context, {
      kind: await kindOf('mongodb'),
      namespace,
      name,
      timeoutMillis: READY_WITHIN,
      reached: goalTest('Ready'),
      goal: `Ready of ${name}`,
    });
    terminal.err(`  ${'─'.repeat(58)}`);
    terminal.err(`  Ready in ${formatDuration(Date.now() - started)}`);
    if (ready === null) continue;
    await proveIt(context, ready);
    if (!options.once) sayNext(context, ready);
  }
  return 'shown';
}

function contextFor(local: Local, terminal: Terminal, io: Io): Context {
  const token = new Secret(readFileSync(local.server.tokenFile, 'utf8').trim());
  return {
    client: new ApiClient(local.server.url, token),
    namespace: 'default',
    terminal,
    output: 'table',
    quiet: false,
    // Ctrl-C is the demo's own: cleaning up goes on to its end.
    io: { ...io, interrupted: () => new AbortController().signal },
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
async function proveIt(context: Context, cluster: ApiObject): Promise<void> {
  const { terminal } = context;
  const { namespace, name } = cluster.metadata;
  await context.client.request('POST', '/api/v1/apply', { body: APP(cluster) });
  await follow(
    { ...context, quiet: true },
    {
      kind: await kindOf('mongodbuser'),
      namespace,
      name: `${name}-app`,
      timeoutMillis: READY_WITHIN,
      reached: goalTest('Ready'),
      goal: 'Ready of user app',
    },
  );
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
}

/** What to try while it runs. */
function sayNext({ terminal, io }: Context, cluster: ApiObject): void {
  const { name } = cluster.metadata;
  const belay = ownName(io.env);
  terminal.err('  in another terminal:');
  terminal.err(`    connect    ${belay} connect ${name} --user ${name}-app          (mongosh)`);
  terminal.err(`               ${belay} connect ${name} --user ${name}-app --print  (the string)`);
  terminal.err(`    try        ${belay} get mongodb        ${belay} describe mongodb ${name}`);
  terminal.err(`               kill any mongod and watch: ${belay} get mongodb ${name} -w`);
}

/** How this program is called here: by its name where that works, else by its path. */
function ownName(env: Io['env']): string {
  const onPath = (env['PATH'] ?? '')
    .split(path.delimiter)
    .some((folder) => folder !== '' && existsSync(path.join(folder, 'belay')));
  return onPath
    ? 'belay'
    : path.relative(process.cwd(), fileURLToPath(new URL('../../bin/belay', import.meta.url)));
}

/** Deletes every cluster the proper way, then stops, then removes the folder. What can't be deleted is killed. */
async function cleanUp(local: Local | null, scratch: string, terminal: Terminal, io: Io): Promise<void> {
  terminal.err('  cleaning up');
  if (local !== null) {
    try {
      await deleteAll({ ...contextFor(local, terminal, io), quiet: true });
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
  const kind = await kindOf('mongodb');
  for (const { metadata } of await listAll(context.client, objectPath(kind.plural, null))) {
    const { namespace, name } = metadata;
    await context.client.request('DELETE', objectPath(kind.plural, namespace, name));
    const reached = (o: ApiObject | null): boolean => o === null;
    await follow(context, {
      kind,
      namespace,
      name,
      timeoutMillis: GONE_WITHIN,
      reached,
      goal: `deletion of ${name}`,
    });
  }
}
