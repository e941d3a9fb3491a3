/** One agent's connection as the control plane holds it: liveness, messages in, requests out. */
import type { WebSocket } from 'ws';
import { asBelayError } from '../base/error.ts';
import { hash } from '../base/rng.ts';
import type { Millis } from '../base/units.ts';
import type { AgentChange, Clock, Log } from '../engine/ports.ts';
import { readOperationFacts } from './facts.ts';
import { CLOSE, PING_GROUPS, PINGS_MISSED, PROTOCOL_VERSION } from './limits.ts';
import { type AgentMessage, decodeMessage, type Hello, type ServerMessage } from './protocol.ts';
import { type AskOptions, Requests } from './requests.ts';
import type { RenewedIdentity } from './server.ts';
import { type FullState, type HostEntry, readHello } from './serverState.ts';
import { misfit } from './shape.ts';

export interface LinkOptions {
  readonly host: string;
  readonly ws: WebSocket;
  readonly clock: Clock;
  readonly log: Log;
  readonly controlPlane: string;
  /** The first message came: this connection now speaks for its host. */
  readonly hello: (state: FullState) => readonly AgentChange[];
  /** The host's entry as long as this connection is its newest, else null. */
  readonly entry: () => HostEntry | null;
  readonly changed: (changes: readonly AgentChange[]) => void;
  readonly renew: (csrPem: string) => Promise<RenewedIdentity>;
  readonly closed: () => void;
}

export class AgentLink {
  readonly pingGroup: number;
  readonly #options: LinkOptions;
  readonly #requests: Requests;
  #missed = 0;
  #greeted = false;
  #ended = false;
  #cancelHello: () => void = () => {};

  constructor(options: LinkOptions) {
    this.#options = options;
    this.pingGroup = hash(options.host) % PING_GROUPS;
    this.#requests = new Requests({
      send: (message) => this.#send(message),
      answer: (method, params) => this.#answer(method, params),
      clock: options.clock,
    });
    const { ws } = options;
    ws.on('message', (data) => this.#take(String(data)));
    ws.on('pong', () => this.#alive());
    ws.on('ping', () => this.#alive());
    ws.on('error', (error) =>
      options.log.debug('agent connection', { host: options.host, error: error.message }),
    );
    ws.on('close', () => this.#closed());
  }

  expectHello(within: Millis): void {
    const { clock } = this.#options;
    this.#cancelHello = clock.at(clock.now() + within, () => this.end(CLOSE.protocol, 'no hello came'));
  }

  ask(method: string, params: unknown, options: AskOptions): Promise<unknown> {
    return this.#requests.ask(method, params, options);
  }

  /** Asks for a sign of life; after two unanswered ones the connection is given up. */
  ping(): void {
    if (this.#missed >= PINGS_MISSED) {
      this.#options.ws.terminate();
      return;
    }
    this.#missed++;
    this.#options.ws.ping();
  }

  /** Closes with a reason; a peer that does not answer the close is cut off by the next pings. */
  end(code: number, reason: string): void {
    this.#options.ws.close(code, reason);
    // What was under way will not be answered by this connection, and its host may already have another.
    this.#closed();
  }

  #alive(): void {
    this.#missed = 0;
    this.#options.entry()?.alive(this.#options.clock.now());
  }

  #take(data: string): void {
    if (this.#ended) return;
    this.#alive();
    try {
      this.#handle(decodeMessage(data) as AgentMessage);
    } catch (failure) {
      const { message } = asBelayError(failure);
      this.#options.log.warn('agent message refused', { host: this.#options.host, error: message });
      this.end(CLOSE.protocol, message.slice(0, 120));
    }
  }

  #handle(message: AgentMessage): void {
    if (message.t === 'hello') this.#greet(message);
    else if (!this.#greeted) misfit('the first message', 'a hello');
    else if (message.t === 'report') this.#options.changed(this.#options.entry()?.change(message) ?? []);
    else if (message.t === 'operation') this.#operation(message);
    else this.#requests.take(message);
  }

  #operation(message: Extract<AgentMessage, { t: 'operation' }>): void {
    readOperationFacts(message.facts);
    const { id: operationId, clusterUid } = message;
    this.#options.changed([{ kind: 'operation', host: this.#options.host, operationId, clusterUid }]);
  }

  #greet(message: Hello): void {
    const { host, controlPlane, changed, hello, log } = this.#options;
    if (message.v !== PROTOCOL_VERSION) misfit('the protocol version', `${PROTOCOL_VERSION}`);
    if (message.host.name !== host) misfit('host.name', 'the name of the certificate');
    const state = readHello(message);
    this.#cancelHello();
    this.#greeted = true;
    const changes = hello(state);
    this.#send({ t: 'welcome', v: PROTOCOL_VERSION, controlPlane });
    log.debug('agent connected', { host, members: message.members.length });
    changed(changes);
  }

  async #answer(method: string, params: unknown): Promise<unknown> {
    if (method !== 'renew') return misfit('method', 'one this control plane knows');
    const csrPem = (params as { csrPem?: unknown } | null)?.csrPem;
    if (typeof csrPem !== 'string') return misfit('csrPem', 'a text');
    return this.#options.renew(csrPem);
  }

  #send(message: ServerMessage): void {
    this.#options.ws.send(JSON.stringify(message));
  }

  #closed(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancelHello();
    this.#requests.close();
    this.#options.closed();
  }
}
