/** The clean end of a process: hand over, quiesce, close, mark the folder, say so, exit (1.2, 3.8). */
import type { Millis } from '../../base/units.ts';
import type { DataStore } from '../contracts.ts';
import type { Listener } from '../wire/listener.ts';
import type { DataFolder } from './data-folder.ts';
import type { ServerLog } from './log.ts';
import type { SimulatorNode } from './node.ts';
import type { Program } from './option-table.ts';
import type { Server } from './server.ts';

export interface ShutdownParts {
  readonly program: Program;
  readonly log: ServerLog;
  /** Absent on routers, which keep nothing. */
  readonly folder?: DataFolder;
  readonly data: DataStore;
}

export interface ShutdownOrder {
  readonly exitCode: number;
  /** Go down even when no other member can take over. */
  readonly force: boolean;
  /** Time for stepping down and quiescing; undefined takes the parameter's. */
  readonly timeoutMillis: Millis | undefined;
}

const DEFAULT_TIMEOUT: Millis = 15_000;
const SERVER_TIMEOUT = 'shutdownTimeoutMillisForSignaledShutdown';
const ROUTER_TIMEOUT = 'mongosShutdownTimeoutMillisForSignaledShutdown';

/** Ends one process, once. */
export class Shutdown {
  readonly #parts: ShutdownParts;
  #node: SimulatorNode | null = null;
  #server: Server | null = null;
  #running = false;
  /** Called before data is closed: command services, timers. */
  readonly closers: (() => void)[] = [];
  listener: Listener | null = null;

  constructor(parts: ShutdownParts) {
    this.#parts = parts;
  }

  attach(node: SimulatorNode, server: Server): void {
    this.#node = node;
    this.#server = server;
    node.end = (order) => this.run(order);
  }

  /** Ends the process. Rejects only when the hand-over is refused and not forced; the process then goes on. */
  async run(order: ShutdownOrder): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    const { log } = this.#parts;
    try {
      await this.#handOver(order);
    } catch (failure) {
      this.#running = false;
      throw failure;
    }
    log.log('I', 'NETWORK', 20562, 'SignalHandler', 'Shutdown: going to close listening sockets');
    await this.#close();
    log.log('I', 'CONTROL', 20565, 'SignalHandler', 'Now exiting');
    log.log('I', 'CONTROL', 8423404, 'SignalHandler', `${this.#parts.program} shutdown complete`, {
      'Summary of time elapsed': {},
    });
    log.log('I', 'CONTROL', 23138, 'SignalHandler', 'Shutting down', { exitCode: order.exitCode });
    process.exit(order.exitCode);
  }

  /** Closes what a failed start had opened. */
  async abandon(): Promise<void> {
    await this.#close();
  }

  async #handOver(order: ShutdownOrder): Promise<void> {
    const replication = this.#node?.replication;
    if (replication === undefined || replication === null) return;
    const name = this.#parts.program === 'mongos' ? ROUTER_TIMEOUT : SERVER_TIMEOUT;
    const configured = this.#node?.parameters.get(name);
    const timeoutMillis =
      order.timeoutMillis ?? (typeof configured === 'number' ? configured : DEFAULT_TIMEOUT);
    await replication.shutdown({ force: order.force, timeoutMillis });
    replication.stop();
  }

  async #close(): Promise<void> {
    const { log, data, folder } = this.#parts;
    this.listener?.close();
    this.#server?.closeAll();
    for (const close of this.closers.splice(0)) close();
    await data.close();
    if (folder === undefined) return;
    log.log('I', 'STORAGE', 22279, 'SignalHandler', 'shutdown: removing fs lock...');
    folder.release();
  }
}
