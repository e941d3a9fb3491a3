/** Processes for tests: a member with a memory store behind the smallest server that speaks OP_MSG on a loopback port. */
import { createServer, type Server, type Socket } from 'node:net';
import { type Document, deserialize, serialize } from 'bson';
import type { CommandContext, Connection, DataStore, Replication, ServerNode } from '../../contracts.ts';
import { ServerError } from '../../contracts.ts';
import { openMemoryStore } from '../../data/index.ts';
import { createReplication } from '../index.ts';

const HEADER = 16;

export interface TestMember {
  readonly host: string;
  readonly data: DataStore;
  readonly replication: Replication;
  readonly log: readonly string[];
  /** Runs a command as a client would; gives the reply, errors included. */
  run(command: Document, signal?: AbortSignal): Promise<Document>;
  /** The process is gone at once. */
  kill(): void;
  /** Nobody reaches this member and it reaches nobody, until the returned function is called. */
  isolate(): () => void;
}

export interface TestMemberOptions {
  readonly setName?: string;
  readonly port?: number;
  /** Data and configuration of an earlier life. */
  readonly data?: DataStore;
  readonly version?: string;
}

function connection(signal: AbortSignal): Connection {
  return {
    id: 1,
    remote: '127.0.0.1:1',
    loopback: true,
    sni: undefined,
    peerSubject: undefined,
    users: [],
    internal: true,
    clientMetadata: undefined,
    appName: undefined,
    signal,
    close: () => {},
  };
}

function makeNode(data: DataStore, host: string, version: string, log: string[]): ServerNode {
  return {
    options: {},
    version,
    data,
    replication: null,
    logger: {
      log: (severity, component, id, _ctx, msg) => log.push(`${severity} ${component} ${id} ${msg}`),
    },
    startedAt: new Date(),
    address: host,
    testCommandsEnabled: true,
    parameters: new Map(),
    now: () => new Date(),
    runInternal: () => Promise.reject(new Error('not here')),
    shutdown: () => {},
  };
}

/** Every server-side socket of the file's members; isolation cuts all, the healthy ones reconnect. */
const allSockets = new Set<Socket>();

/** Starts one member and waits until it listens. */
export async function startMember(options: TestMemberOptions = {}): Promise<TestMember> {
  const data = options.data ?? openMemoryStore();
  const log: string[] = [];
  const sockets = new Set<Socket>();
  let answer: (command: Document) => Promise<Document> = () => Promise.resolve({ ok: 1 });
  let isolated = false;
  const server = createServer((socket) => {
    if (isolated) socket.destroy();
    else serve(socket, sockets, (command) => answer(command));
  });
  const port = await listen(server, options.port ?? 0);
  const host = `127.0.0.1:${port}`;
  const node = makeNode(data, host, options.version ?? '8.0.4', log);
  const replication = createReplication({
    node,
    setName: options.setName ?? 'rs0',
    address: host,
    seed: port,
    tls: () => {
      if (isolated) throw new Error('isolated');
      return null;
    },
  });
  const abort = new AbortController();
  const run = (command: Document, signal = abort.signal): Promise<Document> =>
    runCommand(node, replication, command, signal);
  answer = run;
  await replication.start();
  return {
    host,
    data,
    replication,
    log,
    run,
    kill: () => {
      replication.stop();
      abort.abort();
      server.close();
      for (const socket of sockets) socket.destroy();
    },
    isolate: () => {
      isolated = true;
      for (const socket of allSockets) socket.destroy();
      return () => {
        isolated = false;
      };
    },
  };
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', () => resolve((server.address() as { port: number }).port));
  });
}

async function runCommand(
  node: ServerNode,
  replication: Replication,
  command: Document,
  signal: AbortSignal,
): Promise<Document> {
  const name = Object.keys(command)[0] ?? '';
  if (name === 'hello') return { ...replication.helloFields({ legacyNames: false }), ok: 1 };
  const spec = replication.commands.find((candidate) => candidate.name === name);
  const context: CommandContext = {
    node,
    connection: connection(signal),
    name,
    db: 'admin',
    command,
    signal,
    opId: 1,
  };
  try {
    if (!spec) throw new ServerError(59, 'CommandNotFound', `no such command: '${name}'`);
    return { ...(await spec.run(context)), ok: 1 };
  } catch (failure) {
    if (!(failure instanceof ServerError)) throw failure;
    const { code, codeName, message: errmsg, extra } = failure;
    return { ok: 0, errmsg, code, codeName, ...extra };
  }
}

function serve(socket: Socket, sockets: Set<Socket>, answer: (command: Document) => Promise<Document>): void {
  sockets.add(socket);
  allSockets.add(socket);
  socket.on('close', () => {
    sockets.delete(socket);
    allSockets.delete(socket);
  });
  socket.on('error', () => {});
  let buffer = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    buffer = Buffer.concat([buffer, chunk]);
    while (buffer.length >= HEADER && buffer.length >= buffer.readInt32LE(0)) {
      const message = buffer.subarray(0, buffer.readInt32LE(0));
      buffer = buffer.subarray(message.length);
      void respond(socket, message, answer);
    }
  });
}

async function respond(
  socket: Socket,
  message: Buffer,
  answer: (command: Document) => Promise<Document>,
): Promise<void> {
  const command = deserialize(message.subarray(HEADER + 5), { promoteValues: false });
  const reply = serialize(await answer(command), { ignoreUndefined: true });
  const head = Buffer.alloc(HEADER + 5);
  head.writeInt32LE(head.length + reply.length, 0);
  head.writeInt32LE(message.readInt32LE(4), 8);
  head.writeInt32LE(2013, 12);
  socket.write(Buffer.concat([head, reply]));
}

/** Looks every few milliseconds until the condition holds; throws after the limit. */
export async function eventually(what: string, condition: () => boolean, limit = 10_000): Promise<void> {
  const end = Date.now() + limit;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
