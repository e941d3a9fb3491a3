/** Connections of a process: accepted, counted, served by the dispatcher, logged. */
import type { Socket } from 'node:net';
import type { Document } from 'bson';
import { asNumber } from '../wire/bson.ts';
import { ClientConnection, type ConnectionOwner, type Peer } from '../wire/connection.ts';
import type { Dispatcher } from '../wire/dispatcher.ts';
import type { WireFault } from '../wire/frame.ts';
import { nextHello } from '../wire/hello.ts';
import type { ListenerEvents } from '../wire/listener.ts';
import { atLeast } from '../wire/versions.ts';
import type { SimulatorNode } from './node.ts';
import { option } from './options.ts';

const DEFAULT_SLOW_MILLIS = 100;
/** Commands that take long because they wait. */
const WAITING: ReadonlySet<string> = new Set([
  'getMore',
  'hello',
  'isMaster',
  'ismaster',
  'shutdown',
  'replSetStepDown',
]);
const DEFAULT_MAX_CONNECTIONS = 1_000_000;

/** What a process does before a command is looked at. */
type Prepare = (connection: ClientConnection, command: Document) => Promise<void>;

/** Takes connections from a listener and serves them until they close. */
export class Server implements ListenerEvents, ConnectionOwner {
  readonly #node: SimulatorNode;
  readonly #dispatcher: Dispatcher;
  readonly #prepare: Prepare | undefined;
  #lastId = 0;

  /** `prepare` is run before each command, also before it is known whether it may run. */
  constructor(node: SimulatorNode, dispatcher: Dispatcher, prepare?: Prepare) {
    this.#node = node;
    this.#dispatcher = dispatcher;
    this.#prepare = prepare;
  }

  onAccepted(socket: Socket, peer: Omit<Peer, 'id'>): void {
    const { connections, connectionCounts } = this.#node;
    if (connections.size >= this.limit) {
      connectionCounts.rejected += 1;
      this.#log('I', 22942, 'listener', 'Connection refused because there are too many open connections', {
        remote: peer.remote,
        connectionCount: connections.size,
      });
      socket.destroy();
      return;
    }
    this.#lastId += 1;
    connectionCounts.created += 1;
    const connection = new ClientConnection(socket, { ...peer, id: this.#lastId }, this);
    connections.add(connection);
    this.#logLife(22943, 'Connection accepted', connection, 'listener');
  }

  onRefused(remote: string, code: number, codeName: string, reason: string): void {
    if (reason.startsWith('No SSL certificate')) {
      this.#log('E', 23255, 'conn', 'No SSL certificate provided by peer; connection rejected', {});
    }
    this.#log('I', 22988, 'conn', 'Error receiving request from client. Ending connection from remote', {
      error: { code, codeName, errmsg: reason },
      remote,
      connectionId: this.#lastId + 1,
    });
  }

  async run(connection: ClientConnection, command: Document, origin: 'msg' | 'query'): Promise<Document> {
    const began = performance.now();
    await this.#prepare?.(connection, command);
    const reply = await this.#dispatcher.run(connection, command, origin);
    this.#logSlow(connection, command, performance.now() - began);
    return reply;
  }

  #logSlow(connection: ClientConnection, command: Document, millis: number): void {
    const limit =
      option<number>(this.#node.options, 'operationProfiling.slowOpThresholdMs') ?? DEFAULT_SLOW_MILLIS;
    const name = Object.keys(command)[0] ?? '';
    if (millis < limit || WAITING.has(name) || command['maxAwaitTimeMS'] !== undefined) return;
    const target: unknown = command[name];
    this.#node.log.log('I', 'COMMAND', 51803, `conn${connection.id}`, 'Slow query', {
      type: 'command',
      ns: `${command['$db']}.${typeof target === 'string' ? target : '$cmd'}`,
      command: name,
      durationMillis: Math.round(millis),
    });
  }

  onTraffic(bytesIn: number, bytesOut: number): void {
    this.#node.metrics.bytesIn += bytesIn;
    this.#node.metrics.bytesOut += bytesOut;
  }

  next(command: Document, reply: Document): Document | null {
    return nextHello(command, reply) ?? nextBatch(command, reply);
  }

  onFault(connection: ClientConnection, fault: WireFault): void {
    this.#log(
      'I',
      22988,
      `conn${connection.id}`,
      'Error receiving request from client. Ending connection from remote',
      {
        error: { code: fault.code, codeName: fault.codeName, errmsg: fault.message },
        remote: connection.remote,
        connectionId: connection.id,
      },
    );
  }

  onClose(connection: ClientConnection): void {
    this.#node.connections.delete(connection);
    this.#logLife(22944, 'Connection ended', connection, `conn${connection.id}`);
  }

  /** Connections that may be open at once. */
  get limit(): number {
    return option<number>(this.#node.options, 'net.maxIncomingConnections') ?? DEFAULT_MAX_CONNECTIONS;
  }

  closeAll(): void {
    for (const connection of [...this.#node.connections]) connection.close();
  }

  #logLife(id: number, text: string, connection: ClientConnection, ctx: string): void {
    if (option<boolean>(this.#node.options, 'systemLog.quiet') === true) return;
    this.#log('I', id, ctx, text, {
      remote: connection.remote,
      ...(atLeast(this.#node.version, '7.1') ? { isLoadBalanced: false } : {}),
      uuid: { uuid: { $uuid: connection.uuid.toString() } },
      connectionId: connection.id,
      connectionCount: this.#node.connections.size,
    });
  }

  #log(severity: 'E' | 'I', id: number, ctx: string, text: string, attr: Document): void {
    this.#node.log.log(severity, 'NETWORK', id, ctx, text, attr);
  }
}

/** A getMore that may stream is repeated until its cursor is done. */
function nextBatch(command: Document, reply: Document): Document | null {
  if (Object.keys(command)[0] !== 'getMore' || asNumber(reply['ok']) !== 1) return null;
  const id: unknown = reply['cursor']?.id;
  return asNumber(id) === 0 || id === undefined ? null : command;
}
