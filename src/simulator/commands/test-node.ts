/** A process without wire for the tests of this folder: commands are called as the dispatcher would call them. */
import type { Document } from 'bson';
import { Double, deserialize, Long, ObjectId, serialize, Timestamp, UUID } from 'bson';
import type {
  CommandContext,
  Connection,
  DataStore,
  OpTime,
  Replication,
  ServerNode,
  WriteConcern,
} from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { openMemoryStore } from '../data/store.ts';
import { commandSpecs, createCommandServices } from './index.ts';

/** What a test changes about the fake replica set. */
export interface FakeSet {
  writable: boolean;
  /** Everything is committed at once unless this is set. */
  committed: OpTime | null | 'all';
  stepDown(reason?: 'stepdown' | 'rollback'): void;
}

export interface TestNode {
  readonly node: ServerNode;
  readonly data: DataStore;
  readonly set: FakeSet;
  /** The clock of the process; tests move it. */
  now: Date;
  readonly closed: number[];
  /** Runs a command as a client would see it: `ok: 0` replies are given, not thrown. */
  run(db: string, command: Document, connection?: Partial<Connection>): Promise<Document>;
  /** Like `run`, but a failure is the test's. */
  ok(db: string, command: Document): Promise<Document>;
  close(): void;
}

const READ_OPTIONS = { promoteValues: false, promoteBuffers: false, bsonRegExp: true } as const;

/** Opens a fake process over a memory store: a one-member replica set, or a standalone. */
export function openTestNode(kind: 'set' | 'standalone' = 'set', version = '8.0.4-1'): TestNode {
  const data = openMemoryStore();
  const set: FakeSet & { listeners: ((reason: 'stepdown' | 'rollback') => void)[] } = {
    writable: true,
    committed: 'all',
    listeners: [],
    stepDown(reason = 'stepdown') {
      for (const listener of this.listeners) listener(reason);
    },
  };
  const closed: number[] = [];
  const state = { now: new Date(1_700_000_000_000), opId: 0 };
  const node: ServerNode = {
    options: {},
    version,
    data,
    replication: kind === 'set' ? fakeReplication(data, set, () => state.now) : null,
    logger: { log: () => undefined },
    startedAt: state.now,
    address: 'localhost:27017',
    testCommandsEnabled: true,
    parameters: new Map(),
    now: () => state.now,
    runInternal: async () => ({}),
    shutdown: () => undefined,
  };
  const services = createCommandServices(node);
  const run = async (db: string, command: Document, connection: Partial<Connection> = {}) => {
    const sent = deserialize(serialize({ ...command, $db: db }), READ_OPTIONS);
    state.opId += 1;
    const context = contextOf(node, db, sent, state.opId, connection, closed);
    const end = services.beginOperation(context, () => undefined);
    const reply = services.afterCommand(context, await runThrough(context));
    end();
    return deserialize(serialize(reply));
  };
  return {
    node,
    data,
    set,
    get now() {
      return state.now;
    },
    set now(value) {
      state.now = value;
    },
    closed,
    run,
    ok: async (db, command) => {
      const reply = await run(db, command);
      if (reply['ok'] !== 1)
        throw new Error(`${Object.keys(command)[0]}: ${reply['code']} ${reply['errmsg']}`);
      return reply;
    },
    close: () => services.close(),
  };

  async function runThrough(context: CommandContext): Promise<Document> {
    try {
      await services.beforeCommand(context);
      const spec = commandSpecs.find(
        ({ name, aliases }) => name === context.name || aliases?.includes(context.name),
      );
      if (!spec) throw new ServerError(59, 'CommandNotFound', `no such command: '${context.name}'`);
      if (spec.access === 'write') node.replication?.assertWritable(context.db);
      return { ...(await spec.run(context)), ok: new Double(1) };
    } catch (failure) {
      if (!(failure instanceof ServerError)) throw failure;
      const { message: errmsg, code, codeName, errorLabels, extra } = failure;
      return { ok: new Double(0), errmsg, code, codeName, ...(errorLabels ? { errorLabels } : {}), ...extra };
    }
  }
}

function contextOf(
  node: ServerNode,
  db: string,
  command: Document,
  opId: number,
  connection: Partial<Connection>,
  closed: number[],
): CommandContext {
  return {
    node,
    connection: {
      id: 1,
      remote: '127.0.0.1:50000',
      loopback: true,
      sni: undefined,
      peerSubject: undefined,
      users: [],
      internal: false,
      clientMetadata: undefined,
      appName: undefined,
      signal: new AbortController().signal,
      close: () => closed.push(opId),
      ...connection,
    },
    name: Object.keys(command)[0]!,
    db,
    command,
    signal: connection.signal ?? new AbortController().signal,
    opId,
  };
}

function fakeReplication(
  data: DataStore,
  set: FakeSet & { listeners: ((reason: 'stepdown' | 'rollback') => void)[] },
  now: () => Date,
): Replication {
  let increment = 0;
  const unused = (): never => {
    throw new Error('not part of this fake');
  };
  const committed = () => (set.committed === 'all' ? data.lastApplied() : set.committed);
  return {
    setName: 'rs0',
    helloFields: unused,
    topologyVersion: () => ({ processId: new ObjectId('6'.repeat(24)), counter: Long.fromNumber(6) }),
    awaitTopologyChange: unused,
    assertWritable: (db) => {
      if (db !== 'local' && !set.writable) throw new ServerError(10107, 'NotWritablePrimary', 'not primary');
    },
    assertReadable: () => undefined,
    isWritablePrimary: () => set.writable,
    stamp: () => {
      increment += 1;
      return { ts: new Timestamp({ t: Math.floor(now().getTime() / 1000), i: increment }), t: Long.ONE };
    },
    awaitWriteConcern: async (_opTime: OpTime, concern: WriteConcern) =>
      concern.w === 9
        ? { code: 64, codeName: 'WriteConcernFailed', errmsg: 'waiting for replication timed out' }
        : null,
    awaitReadConcern: async () => undefined,
    defaultWriteConcern: () => ({ w: 'majority' }),
    setDefaultConcerns: unused,
    lastApplied: () => data.lastApplied(),
    majorityCommitted: committed,
    electionId: () => new ObjectId('7fffffff0000000000000001'),
    clusterTime: () => data.lastApplied()?.ts ?? new Timestamp({ t: 1, i: 1 }),
    advanceClusterTime: unused,
    onStepDown: (listener) => set.listeners.push(listener),
    commands: [],
    start: unused,
    shutdown: unused,
    stop: unused,
  };
}

/** A session as a client starts it. */
export function newSession(): Document {
  return { id: new UUID() };
}
